#include "runtime/aligned_memory.h"

#include <stdlib.h>

#include <new>
#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace openbnns {

float* allocate_aligned(size_t& bytes) {
  constexpr size_t kLine = 64, kHugePage = size_t{1} << 21;
  const size_t alignment = bytes >= kHugePage ? kHugePage : kLine;
  bytes = (bytes + alignment - 1) / alignment * alignment;
  void* data = nullptr;
  if (posix_memalign(&data, alignment, bytes) != 0) throw std::bad_alloc();  // std::aligned_alloc is not on every macOS
#if defined(__linux__)
  if (alignment == kHugePage) madvise(data, bytes, MADV_HUGEPAGE);
#endif
  return static_cast<float*>(data);
}

}  // namespace openbnns
