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
  static constexpr int kAhead = 0;
  static OPENBNNS_INLINE Vec add(Vec sum, Vec x, Vec column) {
    return _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(x), reinterpret_cast<__m512bh>(column));
  }
};

template <Rows kKind, int kLimit>
TileKernel table_of(int blocks, int rows) {
  return KernelTable<kBlock, 1, kDepth, kKind, Writes<Write::ColumnBias>, kWideRows, kLimit, BFloat16Pairs>::get(blocks,
                                                                                                                 rows);
}

template <int kSteps>
TileKernel pixels_kernel(int blocks, int rows) {
  return KernelTable<1, kBlock, kSteps, Rows::Plain, Writes<Write::Add>, kWeightRows, kWeightRows, BFloat16Pairs>::get(
      blocks, rows);
}

}  // namespace

TileKernel bfloat16_tile_kernel(TileForm form, int blocks, int rows) {
  switch (form) {
    case TileForm::Edge:
      return table_of<Rows::Edge, kNarrowRows>(blocks, rows);
    case TileForm::Matrix:
      return KernelTable<kBlock, 1, kDepth, Rows::Plain, Writes<Write::Set, Write::Add>, kWideRows, kWideRows,
                         BFloat16Pairs>::get(blocks, rows);
    case TileForm::Pair:
      return table_of<Rows::Pair, kWideRows>(blocks, rows);
    case TileForm::Pixels1:
      return pixels_kernel<1>(blocks, rows);
    case TileForm::Pixels2:
      return pixels_kernel<2>(blocks, rows);
    case TileForm::Pixels3:
      return pixels_kernel<3>(blocks, rows);
    case TileForm::Pixels4:
      return pixels_kernel<4>(blocks, rows);
    case TileForm::Pixels5:
      return pixels_kernel<5>(blocks, rows);
    case TileForm::Pixels6:
      return pixels_kernel<6>(blocks, rows);
    case TileForm::Pixels7:
      return pixels_kernel<7>(blocks, rows);
    default:
      return product_kernel_of<BFloat16Pairs>(blocks, rows);
  }
}
bool has_bfloat16_sums() { return asked_once<has_avx512_bf16>(); }
#else
TileKernel bfloat16_tile_kernel(TileForm, int, int) { return nullptr; }
bool has_bfloat16_sums() { return false; }
#endif

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
