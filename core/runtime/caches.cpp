#include "runtime/caches.h"

#include <algorithm>
#include <atomic>
#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__linux__)
#include <unistd.h>
#endif

namespace openbnns {
namespace {

#if defined(__x86_64__)
// The largest of the caches that a leaf of CPUID describes, one after the other.
int64_t largest_cache(unsigned leaf) {
  int64_t largest = 0;
  unsigned a, b, c, d;
  for (unsigned i = 0; __get_cpuid_count(leaf, i, &a, &b, &c, &d) && (a & 0x1f) != 0; i++) {
    const int64_t line = (b & 0xfff) + 1, partitions = ((b >> 12) & 0x3ff) + 1, ways = (b >> 22) + 1;
    largest = std::max(largest, line * partitions * ways * (int64_t{c} + 1));
  }
  return largest;
}

int64_t ask() {
  constexpr unsigned kIntel = 4, kAmd = 0x8000001d;
  const int64_t bytes = largest_cache(kIntel);
  return bytes > 0 ? bytes : largest_cache(kAmd);
}
#elif defined(_SC_LEVEL3_CACHE_SIZE)
int64_t ask() { return std::max(0L, sysconf(_SC_LEVEL3_CACHE_SIZE)); }
#else
int64_t ask() { return 0; }
#endif

}  // namespace

int64_t last_level_cache_bytes() {
  static std::atomic<int64_t> known{-1};  // a thread asks twice rather than waits for one that a fork may take away
  int64_t bytes = known.load(std::memory_order_relaxed);
  if (bytes < 0) known = bytes = ask();
  return bytes;
}

}  // namespace openbnns
