// Compiled for VNNI (cmake/instruction_sets.cmake): nothing of this may run without asking the CPU.
#include "gemm/quad_dot.h"
#include "kernels/convolution/depthwise_bytes_body.h"

namespace openbnns {
namespace OPENBNNS_ISA {

#if OPENBNNS_HAS_QUADS
ByteRowsKernel quad_rows_kernel(int entries) { return byte_rows_kernel<QuadDot>(entries); }
void roll_quad_rows(const RollingRows& t) { roll_rows<4, QuadDot>(t); }
#else
ByteRowsKernel quad_rows_kernel(int) { return nullptr; }
void roll_quad_rows(const RollingRows&) {}
#endif

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
