// Kernels of exact integer sums.
#pragma once
#include "gemm/micro_kernel.h"

namespace openbnns {
namespace OPENBNNS_ISA {

// Of pairs of 16-bit integers, and of unsigned bytes by signed ones, four at a time; `blocks` and `rows` as those of
// TileForm::Product.
TileKernel pair_sums_kernel(int blocks, int rows);
TileKernel quad_sums_kernel(int blocks, int rows);
// The same for tiles of TileForm::Edge, which they write as Write::Set.
TileKernel pair_sums_edge_kernel(int blocks, int rows);
TileKernel quad_sums_edge_kernel(int blocks, int rows);
// For tiles of TileForm::Planes, which it writes as Write::Set: A has the signed bytes, B the unsigned ones.
TileKernel quad_sums_planes_kernel(int blocks, int rows);
// Whether there are kernels of quads for this instruction set and the CPU can run them (VNNI).
bool has_quad_sums();

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
