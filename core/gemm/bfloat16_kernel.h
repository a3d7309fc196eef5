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

// As tile_kernel(), but for Planes; Matrix has at most kWideRows rows. A number of a tile is a pair in 32 bits.
TileKernel bfloat16_tile_kernel(TileForm form, int blocks, int rows);
// Whether there are such kernels and the CPU can run them.
bool has_bfloat16_sums();

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
