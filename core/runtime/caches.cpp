#include "runtime/caches.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__linux__)
#include <unistd.h>
#endif

namespace openbnns {
namespace {

#if defined(__x86_64__)
constexpr int kAnyLevel = 0;

// The largest of the caches of a level that a leaf of CPUID describes, one after the other; not those of instructions.
int64_t largest_cache(unsigned leaf, int level) {
  constexpr unsigned kNoMore = 0, kInstructions = 2;
  int64_t largest = 0;
  unsigned a, b, c, d;
  for (unsigned i = 0; __get_cpuid_count(leaf, i, &a, &b, &c, &d) && (a & 0x1f) != kNoMore; i++) {
    if ((a & 0x1f) == kInstructions || (level != kAnyLevel && static_cast<int>(a >> 5 & 7) != level)) continue;
    const int64_t line = (b & 0xfff) + 1, partitions = ((b >> 12) & 0x3ff) + 1, ways = (b >> 22) + 1;
    largest = std::max(largest, line * partitions * ways * (int64_t{c} + 1));
  }
  return largest;
}

int64_t ask(int level) {
  constexpr unsigned kIntel = 4, kAmd = 0x8000001d;
  const int64_t bytes = largest_cache(kIntel, level);
  return bytes > 0 ? bytes : largest_cache(kAmd, level);
}
int64_t ask_for_last() { return ask(kAnyLevel); }
int64_t ask_for_second() { return ask(2); }
int64_t ask_for_first() { return ask(1); }

bool is_by_intel() {
  unsigned a, name[3];  // in the order of the registers, of which the last two are exchanged
  return __get_cpuid(0, &a, &name[0], &name[2], &name[1]) && std::memcmp(name, "GenuineIntel", sizeof name) == 0;
}
#elif defined(_SC_LEVEL3_CACHE_SIZE)
bool is_by_intel() { return false; }
int64_t ask_for_last() { return std::max(0L, sysconf(_SC_LEVEL3_CACHE_SIZE)); }
int64_t ask_for_second() { return std::max(0L, sysconf(_SC_LEVEL2_CACHE_SIZE)); }
int64_t ask_for_first() { return std::max(0L, sysconf(_SC_LEVEL1_DCACHE_SIZE)); }
#else
bool is_by_intel() { return false; }
int64_t ask_for_last() { return 0; }
int64_t ask_for_second() { return 0; }
int64_t ask_for_first() { return 0; }
#endif

}  // namespace

int64_t first_level_cache_bytes() { return ask_for_first(); }
int64_t second_level_cache_bytes() { return ask_for_second(); }
int64_t last_level_cache_bytes() {
  // A thread asks twice rather than waits for one that a fork may take away.
  constexpr int64_t kUnknown = -1;
  static std::atomic<int64_t> known{kUnknown};
  int64_t bytes = known.load(std::memory_order_relaxed);
  if (bytes < 0) known.store(bytes = ask_for_last(), std::memory_order_relaxed);
  return bytes;
}

Cpu this_cpu() { return {is_by_intel(), first_level_cache_bytes(), second_level_cache_bytes()}; }

}  // namespace openbnns
