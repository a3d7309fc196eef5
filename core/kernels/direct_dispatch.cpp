#include <cstring>

#include "kernels/direct.h"
#include "kernels/kernels.h"

namespace openbnns {

const TensorKernels& tensor_kernels() {
#if defined(__x86_64__)
  const char* name = kernels().name;
  if (!std::strcmp(name, "avx512")) return tensor_kernels_avx512();
  if (!std::strcmp(name, "avx2")) return tensor_kernels_avx2();
#endif
  return tensor_kernels_base();
}

}  // namespace openbnns
