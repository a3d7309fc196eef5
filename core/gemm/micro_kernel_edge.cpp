// Kernels of the direct convolution: rows of an image whose first and last pixel may meet padding.
#include "gemm/micro_kernel_body.h"

namespace openbnns {
namespace OPENBNNS_ISA {

TileKernel edge_kernel(int blocks, int rows) {
  return KernelTable<kBlock, 1, kDepth, Rows::Edge, Writes<Write::Set, Write::ColumnBias>>::get(blocks, rows);
}

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
