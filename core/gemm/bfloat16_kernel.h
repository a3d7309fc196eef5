// Kernels of products of BFloat16, two at a time.
#pragma once
#include "gemm/micro_kernel.h"

namespace openbnns {
namespace OPENBNNS_ISA {

// Whether this instruction set can have such kernels.
#if defined(__AVX512F__)
constexpr bool kHasBFloat16Pairs = true;
#else
constexpr bool kHasBFloat16Pairs = false;
#endif

// A step is a pair of numbers in 32 bits; `blocks` and `rows` as those of TileForm::Product.
TileKernel bfloat16_sums_kernel(int blocks, int rows);
// Whether there are such kernels and the CPU can run them.
bool has_bfloat16_sums();

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
