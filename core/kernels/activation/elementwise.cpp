// One loop per direction, instantiated for every elementwise activation.
#include "kernels/activation/functions.h"
#include "kernels/activation/loops.h"
#include "simd/stream.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace {

// Both loops hold their function once, in the part for whole vectors. What is left over at the ends is moved to a
// vector of its own, for which that part runs again. How a result is written is asked for every vector: the answer,
// always the same, costs less than a loop for each answer would take of the instruction cache, and of the disk.

// Elements from i on that are to be done as part of a vector; 0: a whole one comes next. The first `head` elements are
// such a part, so that the whole vectors of a streamed result are aligned.
OPENBNNS_INLINE int64_t partial_from(int64_t i, int64_t head, int64_t count) {
  if (i < head) return head < count ? head : count;
  return count - i < kWidth ? count - i : 0;
}

template <class Function>
void forward_loop(ActivationParameters p, const float* x, float* y, int64_t count, bool stream) {
  const Function f(p);
  alignas(Vec) float last[kWidth];
  int64_t head = stream ? floats_to_alignment(y) : 0;
  for (int64_t i = 0, done; i < count; i += done) {
    int64_t partial = partial_from(i, head, count), whole = kWidth;
    const float* from = x + i;
    float* to = y + i;
    if (partial) {
      store(last, load_partial(from, partial));
      from = to = last;
    } else {
      whole = (count - i) / kWidth * kWidth;
    }
    bool past_caches = stream && !partial;
    for (int64_t j = 0; j < whole; j += kWidth) {
      Vec v = f.value(load(from + j));
      past_caches ? store_stream(to + j, v) : store(to + j, v);
    }
    if (partial) store_partial(y + i, load(last), partial);
    done = partial ? partial : whole;
  }
  if (stream) finish_stream();
}

template <class Function, bool kOutput>
OPENBNNS_INLINE Vec gradient(const Function& f, Vec dy, Vec source) {
  if constexpr (kOutput)
    return f.gradient_from_output(dy, source);
  else
    return f.gradient_from_input(dy, source);
}

template <class Function, bool kOutput>
void backward_loop(ActivationParameters p, const float* source, const float* dy, float* dx, int64_t count,
                   Write write) {
  const Function f(p);
  alignas(Vec) float last[kWidth], last_source[kWidth], last_dy[kWidth];
  int64_t head = write == Write::kStream ? floats_to_alignment(dx) : 0;
  for (int64_t i = 0, done; i < count; i += done) {
    int64_t partial = partial_from(i, head, count), whole = kWidth;
    const float *at = source + i, *from = dy + i;
    float* to = dx + i;
    if (partial) {
      store(last_source, load_partial(at, partial));
      store(last_dy, load_partial(from, partial));
      if (write == Write::kAdd) store(last, load_partial(to, partial));
      at = last_source;
      from = last_dy;
      to = last;
    } else {
      whole = (count - i) / kWidth * kWidth;
    }
    Write how = partial && write == Write::kStream ? Write::kSet : write;
    for (int64_t j = 0; j < whole; j += kWidth) {
      Vec g = gradient<Function, kOutput>(f, load(from + j), load(at + j));
      if (how == Write::kStream) {
        store_stream(to + j, g);
      } else {
        if (how == Write::kAdd) g += load(to + j);
        store(to + j, g);
      }
    }
    if (partial) store_partial(dx + i, load(last), partial);
    done = partial ? partial : whole;
  }
  if (write == Write::kStream) finish_stream();
}

template <class Function>
constexpr ElementwiseLoops loops() {
  ElementwiseLoops l;
  l.forward = forward_loop<Function>;
  l.from_input = backward_loop<Function, false>;
  if constexpr (Function::kFromOutput) l.from_output = backward_loop<Function, true>;
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
