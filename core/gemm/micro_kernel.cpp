#include "gemm/micro_kernel_body.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace {

template <int kSteps>
TileKernel pixels_kernel(int blocks, int rows) {
  return KernelTable<1, kBlock, kSteps, Rows::Plain, Writes<Write::Add>, kWeightRows, kWeightRows>::get(blocks, rows);
}

}  // namespace

TileKernel matrix_kernel(int blocks, int rows) {
  return KernelTable<kBlock, 1, kDepth, Rows::Plain, Writes<Write::Set, Write::Add>>::get(blocks, rows);
}

TileKernel tile_kernel(TileForm form, int blocks, int rows) {
  switch (form) {
    case TileForm::Product:
      return product_kernel(blocks, rows);
    case TileForm::Streamed:
      return streamed_kernel(blocks, rows);
    case TileForm::Edge:
      return edge_kernel(blocks, rows);
    case TileForm::Pair:
      return pair_kernel(blocks, rows);
    case TileForm::Planes:
      return KernelTable<1, 1, 1, Rows::Plain, Writes<Write::RowBias>, kWideRows, kWideRows>::get(blocks, rows);
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
    case TileForm::Matrix:
      break;
  }
  return matrix_kernel(blocks, rows);
}

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
