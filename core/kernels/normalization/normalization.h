// Normalization of whole batches: what the normalization plan and the fused layers run. Per instruction set.
//
//   xhat = (x - mean) / sqrt(variance + epsilon),  z = gamma * xhat + beta,  y = f(z)
//
// Statistics are taken over sets of elements:
//   batch     one set per channel: all samples and pixels
//   instance  one per sample and channel; group: one per sample and group of channels
//   layer     one per sample and index of the axes before `axis`
// Moving statistics (batch, instance): moving = momentum * moving + (1 - momentum) * current.
//
// There are three ways through memory: planes of pixels with one gamma and beta each, rows with a gamma and beta per
// element (layer, and small planes of instance and group), and columns (batch with small planes). The operations on
// contiguous runs are in runs.h.
#pragma once
#include <algorithm>
#include <memory>
#include <vector>

#include "kernels/activation/shape.h"
#include "kernels/normalization/runs.h"
#include "kernels/normalization/shape.h"
#include "runtime/partition.h"
#include "runtime/plan.h"
#include "runtime/scratch.h"

namespace openbnns {
namespace OPENBNNS_ISA {

// Samples of a batch: sample n starts at data + n * stride.
struct ConstSamples {
  const float* data = nullptr;
  int64_t stride = 0;
  const float* sample(int64_t n) const { return data ? data + n * stride : nullptr; }
};
struct Samples {
  float* data = nullptr;
  int64_t stride = 0;
  float* sample(int64_t n) const { return data ? data + n * stride : nullptr; }
  operator ConstSamples() const { return {data, stride}; }
};

// A producer of x that computes it in pieces, each just before it is first read.
class PlaneMaker {
 public:
  virtual ~PlaneMaker() = default;
  // Writes pixels [first, first + count) of plane `channel` of sample n of x.
  virtual void make(int64_t n, int64_t channel, int64_t first, int64_t count) const = 0;
};

// A consumer of dx that takes it in pieces instead of from memory.
class PlaneTaker {
 public:
  virtual ~PlaneTaker() = default;
  // x and dx: pixels [first, first + count) of plane `channel` of sample n.
  virtual void take(int64_t n, int64_t channel, int64_t first, int64_t count, const float* x,
                    const float* dx) const = 0;
};

struct NormalizationForward {
  int64_t batch = 1;
  int threads = 1;
  bool training = false;
  ConstSamples x;
  Samples y;  // y == x allowed
  // Training: where x is kept for backward. May be x itself if the caller owns it and does not change it until then; y
  // must not be there.
  Samples keep;
  const float *beta = nullptr, *gamma = nullptr;             // null: 0 and 1
  float *moving_mean = nullptr, *moving_variance = nullptr;  // null: not tracked
  const PlaneMaker* maker = nullptr;  // null: x is there already; only for plane-wise normalizers
  bool measured = false;              // the moments of all planes of x are in Normalizer::plane_moments()
};

struct NormalizationBackward {
  int64_t batch = 1;
  int threads = 1;
  ConstSamples x;  // as kept
  ConstSamples y;  // null where the activation does not need it, or where it is computed again from x
  ConstSamples dy;
  Samples dx;  // null: not wanted; dx == dy and dx == y allowed
  const float *beta = nullptr, *gamma = nullptr;
  float *dbeta = nullptr, *dgamma = nullptr;                   // null: not wanted
  bool add_dx = false, add_dbeta = false, add_dgamma = false;  // += instead of =
  const PlaneTaker* taker = nullptr;  // gets dx, which then needs no memory; only for plane-wise normalizers
  bool by_samples = false;            // x, y and dy lie in the caches of workers that have shared out the samples
};

// The slots of a plan's call that belong to its normalization.
struct NormalizationSlots {
  int y, dy, beta, gamma, dbeta, dgamma, moving_mean, moving_variance;
};

// Everything that a call says about its normalization, except for x and, backward, y and dx, which depend on the plan.
NormalizationForward normalization_forward(const Call& call, const NormalizationSlots& slots);
NormalizationBackward normalization_backward(const Call& call, const NormalizationSlots& slots);

// One way through memory. Knows sizes; keeps the statistics of the latest training forward.
class NormalizationForm {
 public:
  virtual ~NormalizationForm() = default;
  virtual void forward(const NormalizationForward& call) = 0;
  virtual void backward(const NormalizationBackward& call) const = 0;
  virtual void repeat(const NormalizationForward& call) const = 0;
  virtual bool plane_wise() const { return false; }
  virtual normalization::Moments* plane_moments(int64_t /*batch*/) const { return nullptr; }
};

// A normalization for use inside a plan: forward in training keeps statistics (not x), backward uses them.
class Normalizer {
 public:
  Normalizer(const NormalizationShape& shape, const ActivationSpec& activation);

  void forward(const NormalizationForward& call);
  // Only after a training forward with the same batch.
  void backward(const NormalizationBackward& call) const { form_->backward(call); }
  // Likewise: y once more, from x as kept.
  void repeat(const NormalizationForward& call) const { form_->repeat(call); }
  // Whether makers and takers of planes are possible.
  bool plane_wise() const { return form_->plane_wise(); }
  // Where the producer of x may store the moments [batch][channels] of its planes, as moments_of() computes them, for a
  // forward call that follows on the same thread; null where that is of no use.
  normalization::Moments* plane_moments(int64_t batch) const { return form_->plane_moments(batch); }
  // Whether backward reads y.
  bool needs_output() const { return needs_output_; }
  int64_t trained_batch() const { return trained_batch_; }
  void forget() { trained_batch_ = 0; }

 private:
  std::unique_ptr<NormalizationForm> form_;
  bool needs_output_;
  int64_t trained_batch_ = 0;
};

namespace normalization {

[[gnu::cold]] std::unique_ptr<NormalizationForm> make_planes(const NormalizationShape& shape,
                                                             const ActivationSpec& activation);
[[gnu::cold]] std::unique_ptr<NormalizationForm> make_rows(const NormalizationShape& shape,
                                                           const ActivationSpec& activation);
[[gnu::cold]] std::unique_ptr<NormalizationForm> make_columns(const NormalizationShape& shape,
                                                              const ActivationSpec& activation);

// ---- shared by the forms ----

// Scratch for `count` objects of another type than float.
template <class T>
inline T* scratch_of(int slot, int64_t count) {
  return reinterpret_cast<T*>(scratch(slot, (static_cast<size_t>(count) * sizeof(T) + 3) / sizeof(float)));
}

inline int workers_for(int64_t elements, int threads) {
  constexpr int64_t kGrain = 16384;
  return worthy_workers(threads, elements, kGrain);
}

// Results of this many floats and more are streamed: when x, what is kept of it, y, dy and dx do not fit the last-level
// cache together, those that nobody has to read again here should not drive out the others. Caches of which other
// machines on the same processor may have a part count for less. What is kept for backward is read again, and only
// streamed when the cache has no hope of holding it until then.
int64_t stream_from();
inline int64_t keep_stream_from() { return 2 * stream_from(); }

// A pass over items that follows another should begin with what that one left in the caches: every worker processes its
// own range (see run_items) from the end.
inline int64_t mirrored(int64_t item, int64_t items, int workers) {
  const int64_t ranges = std::min<int64_t>(workers, items), range = ((item + 1) * ranges - 1) / items;
  return items * range / ranges + (items * (range + 1) / ranges - 1 - item);
}

inline bool has_moving(const NormalizationShape& s) { return s.kind == kBatchNorm || s.kind == kInstanceNorm; }

// In inference, moving statistics replace those of x.
inline bool uses_moving_mean(const NormalizationShape& s, const NormalizationForward& call) {
  return !call.training && has_moving(s) && call.moving_mean;
}
inline bool uses_moving_variance(const NormalizationShape& s, const NormalizationForward& call) {
  return !call.training && has_moving(s) && call.moving_variance;
}

// Statistics of a set: those of its moments, or the moving ones of its channel.
Statistics choose_statistics(const NormalizationShape& s, const NormalizationForward& call, const Moments& m,
                             int64_t channel);

// Updates the moving statistics of all channels from the moments of sets: [channels] for batch, [batch][channels] for
// instance, whose samples are averaged first.
void update_moving(const NormalizationShape& s, const NormalizationForward& call, const Moments* sets);

}  // namespace normalization
}  // namespace OPENBNNS_ISA
}  // namespace openbnns
