// One loop per direction, instantiated for every elementwise activation.
#include "kernels/activation_functions.h"
#include "kernels/activation_loops.h"
#include "simd/stream.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace {

template <class Function, bool kStream>
void forward_loop(ActivationParameters p, const float* x, float* y, int64_t count) {
  const Function f(p);
  over_vectors<kStream>(
      y, count, [&](int64_t i) { put<kStream>(y + i, f.value(load(x + i))); },
      [&](int64_t i, int64_t lanes) { store_partial(y + i, f.value(load_partial(x + i, lanes)), lanes); });
  if (kStream) finish_stream();
}

template <class Function, bool kOutput>
OPENBNNS_INLINE Vec gradient(const Function& f, Vec dy, Vec source) {
  if constexpr (kOutput)
    return f.gradient_from_output(dy, source);
  else
    return f.gradient_from_input(dy, source);
}

template <class Function, bool kOutput, bool kAdd, bool kStream>
void backward_loop(ActivationParameters p, const float* source, const float* dy, float* dx, int64_t count) {
  const Function f(p);
  over_vectors<kStream>(
      dx, count,
      [&](int64_t i) {
        Vec g = gradient<Function, kOutput>(f, load(dy + i), load(source + i));
        put<kStream>(dx + i, kAdd ? load(dx + i) + g : g);
      },
      [&](int64_t i, int64_t lanes) {
        Vec g = gradient<Function, kOutput>(f, load_partial(dy + i, lanes), load_partial(source + i, lanes));
        store_partial(dx + i, kAdd ? load_partial(dx + i, lanes) + g : g, lanes);
      });
  if (kStream) finish_stream();
}

template <class Function, bool kOutput>
constexpr BackwardLoops backward_loops() {
  return {backward_loop<Function, kOutput, false, false>, backward_loop<Function, kOutput, true, false>,
          backward_loop<Function, kOutput, false, true>};
}

template <class Function>
constexpr ElementwiseLoops loops() {
  ElementwiseLoops l;
  l.forward = forward_loop<Function, false>;
  l.forward_stream = forward_loop<Function, true>;
  l.from_input = backward_loops<Function, false>();
  if constexpr (Function::kFromOutput) l.from_output = backward_loops<Function, true>();
  return l;
}

// Indexed by BNNSActivationFunction.
constexpr ElementwiseLoops kLoops[] = {
    loops<functions::Identity>(),
    loops<functions::RectifiedLinear>(),
    loops<functions::LeakyRectifiedLinear>(),
    loops<functions::Sigmoid>(),
    loops<functions::Tanh>(),
    loops<functions::ScaledTanh>(),
    loops<functions::Abs>(),
    loops<functions::Linear>(),
    loops<functions::Clamp>(),
    {},  // IntegerLinearSaturate
    {},  // IntegerLinearSaturatePerChannel
    {},  // Softmax
    loops<functions::GELUApproximation>(),
    {},  // Gumbel
    {},  // GumbelMax
    loops<functions::HardSigmoid>(),
    loops<functions::Softplus>(),
    loops<functions::Softsign>(),
    loops<functions::ELU>(),
    loops<functions::ClampedLeakyRectifiedLinear>(),
    loops<functions::LinearWithBias>(),
    {},  // LogSoftmax
    loops<functions::LogSigmoid>(),
    loops<functions::SELU>(),
    loops<functions::CELU>(),
    loops<functions::HardShrink>(),
    loops<functions::SoftShrink>(),
    loops<functions::TanhShrink>(),
    loops<functions::Threshold>(),
    loops<functions::LeakyRectifiedLinear>(),  // PReLUPerChannel, one channel
    loops<functions::HardSwish>(),
    loops<functions::SiLU>(),
    loops<functions::ReLU6>(),
    loops<functions::Erf>(),
    loops<functions::GELU>(),
    loops<functions::GELUApproximationSigmoid>(),
};
static_assert(sizeof kLoops / sizeof kLoops[0] == 36, "one entry per BNNSActivationFunction");

// The vector at p, or its first `count` lanes where fewer are left.
OPENBNNS_INLINE Vec load_upto(const float* p, int64_t count) {
  return count >= kWidth ? load(p) : load_partial(p, count);
}
OPENBNNS_INLINE void store_upto(float* p, Vec v, int64_t count) {
  count >= kWidth ? store(p, v) : store_partial(p, v, count);
}

}  // namespace

const ElementwiseLoops& elementwise_loops(int function) { return kLoops[function]; }

void leaky_forward_each(const float* alpha, const float* x, float* y, int64_t count) {
  for (int64_t i = 0; i < count; i += kWidth) {
    Vec v = load_upto(x + i, count - i);
    store_upto(y + i, select(v < 0.0f, load_upto(alpha + i, count - i) * v, v), count - i);
  }
}

void leaky_backward_each(const float* alpha, const float* x, const float* dy, float* dx, int64_t count, bool add) {
  for (int64_t i = 0; i < count; i += kWidth) {
    int64_t left = count - i;
    Vec d = load_upto(dy + i, left);
    Vec g = functions::keep_nan(select(load_upto(x + i, left) < 0.0f, load_upto(alpha + i, left) * d, d),
                                load_upto(x + i, left));
    store_upto(dx + i, add ? load_upto(dx + i, left) + g : g, left);
  }
}

double leaky_alpha_gradient(const float* x, const float* dy, int64_t count) {
  // Short float sums, their total in double: the result depends on count alone.
  constexpr int64_t kPart = 64 * kWidth;
  double total = 0;
  for (int64_t start = 0; start < count; start += kPart) {
    int64_t end = start + kPart < count ? start + kPart : count;
    Vec sum{};
    for (int64_t i = start; i < end; i += kWidth) {
      Vec v = load_upto(x + i, end - i);
      sum += functions::zero_where(v >= 0.0f, v * load_upto(dy + i, end - i));
    }
    total += static_cast<double>(sum_lanes(sum));
  }
  return total;
}

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
