// Kernels of the direct convolution on short rows: the rows of two images share a tile.
#include "gemm/micro_kernel_body.h"

namespace openbnns {
namespace OPENBNNS_ISA {

TileKernel pair_kernel(int blocks, int rows) {
  return KernelTable<kBlock, 1, kDepth, Rows::Pair, Writes<Write::Set, Write::ColumnBias>>::get(blocks, rows);
}

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
