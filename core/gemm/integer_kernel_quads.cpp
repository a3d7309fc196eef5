// Compiled for VNNI (cmake/instruction_sets.cmake): nothing of this may run without asking the CPU.
#include "gemm/integer_kernel_body.h"
#include "gemm/quad_dot.h"
#include "kernels/instruction_sets.h"

namespace openbnns {
namespace OPENBNNS_ISA {

#if OPENBNNS_HAS_QUADS
TileKernel quad_sums_kernel(int blocks, int rows) { return integer_kernel_of<QuadDot>(blocks, rows); }
TileKernel quad_sums_edge_kernel(int blocks, int rows) { return integer_edge_kernel_of<QuadDot>(blocks, rows); }
TileKernel quad_sums_planes_kernel(int blocks, int rows) { return integer_planes_kernel_of<QuadDot>(blocks, rows); }

bool has_quad_sums() {
#if defined(__AVX512VNNI__)
  return asked_once<has_avx512_vnni>();
#else
  return asked_once<has_avx_vnni>();
#endif
}
#else
TileKernel quad_sums_kernel(int, int) { return nullptr; }
TileKernel quad_sums_edge_kernel(int, int) { return nullptr; }
TileKernel quad_sums_planes_kernel(int, int) { return nullptr; }
bool has_quad_sums() { return false; }
#endif

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
