// Arithmetic ceiling of one thread: multiply-adds on registers only.
#include "kernels/kernels.h"
#include "simd/vec.h"

namespace openbnns {
namespace OPENBNNS_ISA {

double peak_gflop(int64_t iterations) {
  constexpr int kChains = kWidth == 16 ? 24 : 12;  // enough to hide the latency, few enough to stay in registers
  volatile float half = 0.5f;                      // keeps the compiler from folding the loop
  Vec factor = splat(half), term = splat(half);
  Vec sum[kChains];
  OPENBNNS_UNROLL for (int c = 0; c < kChains; c++) sum[c] = splat(half * static_cast<float>(c));
  for (int64_t i = 0; i < iterations; i++)
    OPENBNNS_UNROLL for (int c = 0; c < kChains; c++) sum[c] = sum[c] * factor + term;
  Vec total{};
  OPENBNNS_UNROLL for (int c = 0; c < kChains; c++) total += sum[c];
  half = sum_lanes(total);
  return static_cast<double>(iterations) * kChains * kWidth * 2 * 1e-9;
}

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
