// Normalization of contiguous runs of floats: moments, normalization, and the two passes of backward.
//
//   xhat = (x - mean) / sqrt(variance + epsilon),  z = gamma * xhat + beta,  y = f(z)
#pragma once
#include <cstdint>

#include "kernels/activation/activation.h"
#include "kernels/activation/functions.h"
#include "kernels/activation/loops.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace normalization {

// Count, mean and sum of squared deviations from it. Those of parts of the data combine without cancellation, however
// far the mean is from 0.
struct Moments {
  double mean = 0, squares = 0;
  int64_t count = 0;

  void add(const Moments& more) {
    if (more.count == 0) return;
    if (count == 0) {  // saves a division
      *this = more;
      return;
    }
    double total = static_cast<double>(count + more.count), distance = more.mean - mean;
    double share = static_cast<double>(more.count) / total;
    squares += more.squares + distance * distance * static_cast<double>(count) * share;
    mean += distance * share;
    count += more.count;
  }
  double variance() const { return count > 0 ? squares / static_cast<double>(count) : 0; }  // population variance
};

// The moments of all data from those of its parts: part(0), part(1), ..., part(count - 1), in this order. One division
// for all, where add() has one for each.
template <class Part>
Moments merged(int64_t count, Part part) {
  Moments all;
  double sum = 0;
  for (int64_t i = 0; i < count; i++) {
    const Moments& m = part(i);
    sum += m.mean * static_cast<double>(m.count);
    all.count += m.count;
  }
  if (all.count == 0) return all;
  all.mean = sum / static_cast<double>(all.count);
  for (int64_t i = 0; i < count; i++) {
    const Moments& m = part(i);
    const double distance = m.mean - all.mean;
    all.squares += m.squares + distance * distance * static_cast<double>(m.count);
  }
  return all;
}

// From sums of d = x - shift and d * d over `count` values; sound when the shift is within a few deviations of the mean
// (any value of the data's own neighbourhood).
inline Moments shifted_moments(double shift, double sum, double square_sum, int64_t count) {
  if (count == 0) return {};
  double distance = sum / static_cast<double>(count), squares = square_sum - sum * distance;
  return {shift + distance, squares > 0 ? squares : squares * 0, count};  // rounding below 0 is 0, NaN stays
}

// Accurate for any mean.
Moments moments_of(const float* x, int64_t count);

// xhat = (x - center) * inverse + offset. center is the mean rounded to float and offset makes up for the rounding:
// a mean of 1e3 with a deviation of 1e-2 loses nothing.
struct Statistics {
  float center = 0, inverse = 1, offset = 0;
};
Statistics make_statistics(double mean, double variance, double epsilon);

// z = (x - center) * scale + shift
struct Affine {
  float center, scale, shift;
};
Affine make_affine(const Statistics& s, float gamma, float beta);

// f with its loops; slopes are taken from y, or from z with `from_input`.
class FusedActivation {
 public:
  FusedActivation(const ActivationSpec& f, bool from_input);

  bool identity() const { return function_ == kIdentity; }
  bool from_input() const { return from_input_; }
  bool needs_output() const { return !identity() && !from_input_; }

  // Whether the loops of normalizations compute it on the way: it costs less than a sweep of its own over a block.
  bool built_in() const {
    return identity() || function_ == kRectifiedLinear || function_ == kLeakyRectifiedLinear || function_ == kClamp;
  }
  // The same of its slopes; those of the others are staged.
  bool built_in_slope() const { return built_in() && !from_input_; }

  // Calls use(f) with f as a class of functions.h, for one that is built in.
  template <class Use>
  auto with_built_in(Use use) const {
    switch (function_) {
      case kRectifiedLinear:
        return use(functions::RectifiedLinear(parameters_));
      case kLeakyRectifiedLinear:
        return use(functions::LeakyRectifiedLinear(parameters_));
      case kClamp:
        return use(functions::Clamp(parameters_));
      default:
        return use(functions::Identity(parameters_));
    }
  }

  // y = f(z); z == y allowed
  void forward(const float* z, float* y, int64_t count, bool stream) const {
    loops_->forward(parameters_, z, y, count, stream);
  }
  // dz = dy * f', source being y or z; dz == source allowed
  void backward(const float* source, const float* dy, float* dz, int64_t count) const {
    (from_input_ ? loops_->from_input : loops_->from_output)(parameters_, source, dy, dz, count, Write::kSet);
  }

 private:
  // of BNNSActivationFunction
  static constexpr int kIdentity = 0, kRectifiedLinear = 1, kLeakyRectifiedLinear = 2, kClamp = 8;

  int function_;
  ActivationParameters parameters_;
  const ElementwiseLoops* loops_;
  bool from_input_;
};

// ---- one mean, one gamma and one beta for the whole run ----

// Which results bypass the caches.
struct Streams {
  bool result, keep;
};

// y = f((x - center) * scale + shift); keep, if given and not x itself, receives x. x == y allowed. After calls that
// stream, here and below, finish_stream() has to follow.
void normalize(const FusedActivation& f, Affine a, const float* x, float* y, float* keep, int64_t count,
               Streams streams);

struct GradientSums {
  double dz = 0, dz_distance = 0;  // of dz and of dz * (x - center)

  void add(const GradientSums& more) {
    dz += more.dz;
    dz_distance += more.dz_distance;
  }
};

// What backward reads of a run: the input, the output and the output gradient. Where f needs the output and it is null,
// it is computed again from the input.
struct BackwardRun {
  const float *x, *y, *dy;
  int64_t count;

  BackwardRun from(int64_t i, int64_t length) const { return {x + i, y ? y + i : y, dy + i, length}; }
};

// First pass. y = f(z): dz = dy * f'; z = gamma * xhat + beta: dbeta = sum dz, dgamma = sum dz * xhat.
GradientSums gradient_sums(const FusedActivation& f, Affine a, const BackwardRun& run);

// Second pass: dx (= or +=) by_dz * dz + by_distance * (x - center) + constant. dx == dy, dx == y allowed.
struct InputGradient {
  float by_dz, by_distance, constant;
};
void input_gradient(const FusedActivation& f, Affine a, const InputGradient& g, const BackwardRun& run, float* dx,
                    bool add, bool stream);

// dx of a run with the sums over its statistics set: means of g = gamma * dz and of g * xhat.
// dx = (g - mean(g) - xhat * mean(g * xhat)) * inverse
InputGradient make_input_gradient(const Statistics& s, double gamma, double mean_g, double mean_g_xhat);

}  // namespace normalization
}  // namespace OPENBNNS_ISA
}  // namespace openbnns
