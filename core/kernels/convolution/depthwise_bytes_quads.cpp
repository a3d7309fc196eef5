// Compiled for VNNI (cmake/instruction_sets.cmake): nothing of this may run without asking the CPU.
#include "gemm/quad_dot.h"
#include "kernels/convolution/depthwise_bytes_body.h"

namespace openbnns {
namespace OPENBNNS_ISA {

#if OPENBNNS_HAS_QUADS
ByteWindowsKernel quad_windows_kernel(int entries, int turns) {
  return turns == 4 ? byte_windows_kernel<4, 3, QuadDot>(entries) : byte_windows_kernel<2, 3, QuadDot>(entries);
}
#else
ByteWindowsKernel quad_windows_kernel(int, int) { return nullptr; }
#endif

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
