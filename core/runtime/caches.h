// How large the caches of this CPU are.
#pragma once
#include <cstdint>

namespace openbnns {

// Bytes of the largest cache that a core shares with its neighbours; 0 if nobody says. Of processors with several such
// caches, one: what the system reports on AMD's is the sum of all.
int64_t last_level_cache_bytes();

}  // namespace openbnns
