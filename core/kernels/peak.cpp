// Arithmetic ceiling of one thread: multiply-adds on registers only.
#include "kernels/makers.h"
#include "simd/vec.h"

namespace openbnns {
namespace OPENBNNS_ISA {

double peak_gflop(int64_t iterations) {
  constexpr int kChains = kWidth == 16 ? 24 : 12;
  Vec sum[kChains];
  for (Vec& s : sum) s = Vec{};
  float tiny = 1e-9f;
  asm volatile("" : "+m"(tiny));  // keeps the compiler from folding the loop
  Vec a = splat(tiny), b = splat(0.5f);
  for (int64_t i = 0; i < iterations; i++) {
    OPENBNNS_UNROLL for (int c = 0; c < kChains; c++) sum[c] += a * b;
    asm volatile("" : "+m"(tiny), "+x"(a), "+x"(b));
  }
  Vec total{};
  for (Vec s : sum) total += s;
  float result = sum_lanes(total);
  asm volatile("" : : "m"(result));
  return static_cast<double>(iterations) * kChains * kWidth * 2 * 1e-9;
}

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
