// How large the caches of this CPU are.
#pragma once
#include <cstdint>

namespace openbnns {

// Bytes of the largest cache that a core shares with its neighbours; 0 if nobody says. Of processors with several such
// caches, one: what the system reports on AMD's is the sum of all.
int64_t last_level_cache_bytes();

// Bytes of the first cache of a core, for data; 0 if nobody says.
int64_t first_level_cache_bytes();

// Bytes of the second cache of a core; 0 if nobody says.
int64_t second_level_cache_bytes();
// For tests: what second_level_cache_bytes() says from now on; less than 0 to ask the CPU again.
void assume_second_level_cache(int64_t bytes);

}  // namespace openbnns
