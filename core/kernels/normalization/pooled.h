// Batch normalization, RectifiedLinear or no activation, and max pooling over 2 x 2 pixels, in one pass:
//
//   xhat = (x - mean) / sqrt(variance + epsilon),  z = f(gamma * xhat + beta),  y = max of z over 2 x 2 pixels
//
// z is never stored: forward records for every window which of its pixels won, and the x of that pixel. With these, the
// sums of backward take a pass over windows instead of pixels. Statistics, y and the gradients of x are computed as by
// the separate layers; the sums of backward add the same numbers in another order.
#pragma once
#include <vector>

#include "common/kept_memory.h"
#include "kernels/normalization/normalization.h"

namespace openbnns {
namespace OPENBNNS_ISA {

class PooledNormalizer {
 public:
  static bool takes(const NormalizationShape& shape, const ActivationSpec& activation);
  PooledNormalizer(const NormalizationShape& shape, const ActivationSpec& activation);

  // As in Normalizer.
  normalization::Moments* plane_moments(int64_t batch) const;
  int64_t trained_batch() const { return trained_batch_; }
  void forget() { trained_batch_ = 0; }
  // y: [channels][height / 2][width / 2]. call.x stays where it is until backward: nothing goes to call.keep.
  void forward(const NormalizationForward& call);
  // dy likewise; y is not needed.
  void backward(const NormalizationBackward& call) const;

  // Backward in two steps: dbeta, dgamma and what dx follows from, which stays valid on this thread until the next
  // normalization; then pixels [first, first + count) of a plane of dx, whole rows, on any thread.
  struct Backward {
    ConstSamples x, dy;
    const normalization::InputGradient* gradients;  // [channels]
  };
  Backward sum_gradients(const NormalizationBackward& call) const;
  void input_gradient(int64_t n, int64_t channel, int64_t first, int64_t count, const Backward& from, float* dx) const;

 private:
  struct Chunk;
  struct Winners;
  template <class Body>
  void for_each_chunk(int64_t first, int64_t last, Body body) const;
  template <class Body>
  void for_each_plane(int64_t batch, int threads, bool back, Body body) const;
  using PlaneTask = void (*)(void* context, int64_t n, int64_t channel, int64_t plane);
  void run_planes(int64_t batch, int threads, bool back, PlaneTask task, void* context) const;
  template <class Body>
  void for_each_channel(int64_t parts, int threads, Body body) const;
  void pool_plane(normalization::Affine a, const float* x, float* y, const Winners& winners) const;
  normalization::GradientSums plane_sums(float center, const float* dy, const Winners& winners) const;
  Winners winners_of(int64_t plane) const;

  const NormalizationShape shape_;
  const float floor_;  // of z: 0 for RectifiedLinear, else minus infinity
  const int64_t pixels_, out_height_, out_width_, out_pixels_;
  const int64_t chunk_rows_, row_chunks_, chunks_;       // rows of windows in a chunk; chunks in these, and in a plane
  mutable std::vector<normalization::Moments> moments_;  // [batch][channels], from the producer of x
  std::vector<normalization::Statistics> statistics_;    // [channels] of the latest training forward
  // [batch][channels][chunks] vectors of the winners' x, then as many of bytes: which one won
  KeptMemory memory_;
  float* winning_x_ = nullptr;
  int8_t* winner_ = nullptr;
  int64_t trained_batch_ = 0;
};

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
