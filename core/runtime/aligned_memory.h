// Memory for vectors: in whole pages of 2 MB where it is large, which saves the processor most address translations.
#pragma once
#include <cstddef>

namespace openbnns {

// At least `bytes`, which is set to the actual size; release it with std::free.
[[gnu::cold]] float* allocate_aligned(size_t& bytes);

}  // namespace openbnns
