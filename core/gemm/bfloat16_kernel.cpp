// Compiled for AVX-512 BF16 (cmake/instruction_sets.cmake): nothing of this may run without asking the CPU.
//
// A lane adds the odd product of a pair to its sum and rounds, then the even one: the numbers of a fused multiply-add
// for each, in this order, whatever the rounding mode is. Subnormal numbers, in operands and sums, count as 0.
#include "gemm/bfloat16_kernel.h"

#include "gemm/product_kernel_body.h"
#include "kernels/instruction_sets.h"

namespace openbnns {
namespace OPENBNNS_ISA {

#if defined(__AVX512BF16__)
namespace {

struct BFloat16Pairs {
  static OPENBNNS_INLINE Vec add(Vec sum, Vec x, Vec column) {
    return _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(x), reinterpret_cast<__m512bh>(column));
  }
};

}  // namespace

TileKernel bfloat16_sums_kernel(int blocks, int rows) { return product_kernel_of<BFloat16Pairs>(blocks, rows); }
bool has_bfloat16_sums() { return asked_once<has_avx512_bf16>(); }
#else
TileKernel bfloat16_sums_kernel(int, int) { return nullptr; }
bool has_bfloat16_sums() { return false; }
#endif

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
