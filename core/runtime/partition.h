// How many pieces of work go together: enough for caches to pay, few enough that all workers get about the same.
// Only for pieces whose results do not depend on which of them go together.
#pragma once
#include <algorithm>
#include <cstdint>

namespace openbnns {

// Whether the busiest of `workers` has at most a tenth more than the mean of all, with `count` pieces of one size.
inline bool spreads_evenly(int64_t count, int64_t workers) {
  const int64_t busiest = (count + workers - 1) / workers;
  return 10 * busiest * workers <= 11 * count;
}

// Pieces that a worker takes at a time: `most`, or fewer where that is what it takes to spread them evenly.
inline int64_t even_group(int64_t count, int64_t most, int64_t workers) {
  if (workers <= 1) return most;
  const int64_t least = (count + workers - 1) / workers;  // that the busiest worker has in any case
  int64_t best = 1;
  for (int64_t group = 1; group <= most; group++) {
    const int64_t groups = (count + group - 1) / group, busiest = (groups + workers - 1) / workers * group;
    if (10 * busiest * workers <= 11 * count || busiest == least) best = group;
  }
  return best;
}

// Parts that each of `count` pieces is cut into: one, or as many more, up to `most`, as it takes to spread them evenly.
inline int64_t even_parts(int64_t count, int64_t most, int64_t workers) {
  if (workers <= 1 || count <= 0) return 1;
  int64_t best = 1;
  double least = 1e30;
  for (int64_t parts = 1; parts <= most; parts++) {
    if (spreads_evenly(count * parts, workers)) return parts;
    const int64_t busiest = (count * parts + workers - 1) / workers;
    const double share = static_cast<double>(busiest) / static_cast<double>(parts);
    if (share < 0.99 * least) {
      best = parts;
      least = share;
    }
  }
  return best;
}

}  // namespace openbnns
