#include "gemm/integer_kernel_body.h"
#include "gemm/pair_dot.h"

namespace openbnns {
namespace OPENBNNS_ISA {
TileKernel pair_sums_kernel(int blocks, int rows) { return integer_kernel_of<PairDot>(blocks, rows); }
TileKernel pair_sums_edge_kernel(int blocks, int rows) { return integer_edge_kernel_of<PairDot>(blocks, rows); }

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
