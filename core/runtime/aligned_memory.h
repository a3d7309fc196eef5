// Memory for vectors: in whole pages of 2 MB where it is large, which saves the processor most of its look-ups of
// addresses.
#pragma once
#include <cstddef>
#include <cstdlib>
#include <new>
#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace openbnns {

// At least `bytes`, which becomes what there is; for std::free.
inline float* allocate_aligned(size_t& bytes) {
  constexpr size_t kLine = 64, kHugePage = size_t{1} << 21;
  const size_t alignment = bytes >= kHugePage ? kHugePage : kLine;
  bytes = (bytes + alignment - 1) / alignment * alignment;
  void* data = std::aligned_alloc(alignment, bytes);
  if (!data) throw std::bad_alloc();
#if defined(__linux__)
  if (alignment == kHugePage) madvise(data, bytes, MADV_HUGEPAGE);
#endif
  return static_cast<float*>(data);
}

}  // namespace openbnns
