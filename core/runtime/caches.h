// Who made this CPU, and how large its caches are.
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

// What the tuning of kernels goes by.
struct Cpu {
  bool by_intel;
  int64_t first_cache, second_cache;  // bytes, as above
};
Cpu this_cpu();

}  // namespace openbnns
