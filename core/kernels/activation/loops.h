// Loops of the activations over memory, below the plans and the interface in activation.h.
#pragma once
#include <cstdint>

#include "simd/random.h"
#include "simd/vec.h"

namespace openbnns {
namespace OPENBNNS_ISA {

struct ActivationParameters {
  float alpha, beta;
};

// ---- elementwise functions ----

// How results are written: over what is there, added to it, or bypassing the caches if no cache will hold them
// (simd/stream.h).
enum class Write { kSet, kAdd, kStream };

// y[i] = f(x[i]) for i < count; x == y allowed
using ForwardLoop = void (*)(ActivationParameters p, const float* x, float* y, int64_t count, bool stream);
// dx[i] (= or +=) dy[i] * f' at source[i], which is x or y; dx == dy and dx == source allowed
using BackwardLoop = void (*)(ActivationParameters p, const float* source, const float* dy, float* dx, int64_t count,
                              Write write);

struct ElementwiseLoops {
  ForwardLoop forward = nullptr;
  BackwardLoop from_input = nullptr;
  BackwardLoop from_output = nullptr;  // only where y determines the derivative
};

// Empty for functions that are not elementwise or not on reals.
const ElementwiseLoops& elementwise_loops(int function);

// y[i] = x[i] < 0 ? alpha[i] * x[i] : x[i], and its backward
void leaky_forward_each(const float* alpha, const float* x, float* y, int64_t count);
void leaky_backward_each(const float* alpha, const float* x, const float* dy, float* dx, int64_t count, bool add);

// sum of x[i] * dy[i] over x[i] < 0: d_alpha of y = x < 0 ? alpha * x : x
double leaky_alpha_gradient(const float* x, const float* dy, int64_t count);

// ---- softmax and log-softmax ----

// `columns` softmaxes side by side, columns <= kWidth: element j of column c is at p[j * step + c]. One column with
// step 1 is a packed row.
struct Columns {
  int64_t length, columns;
};

template <class Float>
struct Strided {
  Float* data;
  int64_t step;
};

// x == y allowed. A packed row is streamed (simd/stream.h; finish_stream() has to follow) when `row` is given: room for
// `length` floats that stay in the cache meanwhile.
void softmax_forward(bool logarithm, Columns shape, Strided<const float> x, Strided<float> y, float* row);

// From the output y; dx == dy allowed.
void softmax_backward(bool logarithm, Columns shape, Strided<const float> y, Strided<const float> dy, Strided<float> dx,
                      Write write);

// ---- random functions ----

// y[i] = -log(-log(alpha * U + beta) + beta), U = number first + i of the stream
void gumbel_forward(ActivationParameters p, RandomStream stream, uint64_t first, float* y, int64_t count);

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
