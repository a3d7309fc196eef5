// Memory for vectors: in whole pages of 2 MB where it is large, which saves the processor most of its look-ups of
// addresses.
#pragma once
#include <cstddef>

namespace openbnns {

// At least `bytes`, which becomes what there is; for std::free.
[[gnu::cold]] float* allocate_aligned(size_t& bytes);

}  // namespace openbnns
