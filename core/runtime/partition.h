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

// Parts that each of `count` pieces is cut into, up to `most`: one, or as many more as it takes to spread them evenly,
// unless that costs more than it gains. `repeated` is the share of a piece that every part of it does again.
inline int64_t even_parts(int64_t count, int64_t most, int64_t workers, double repeated = 0) {
  if (workers <= 1 || count <= 0) return 1;
  int64_t best = 1;
  double least = 1e30;
  for (int64_t parts = 1; parts <= most; parts++) {
    const auto busiest = static_cast<double>((count * parts + workers - 1) / workers);
    const double time = busiest * ((1 - repeated) / static_cast<double>(parts) + repeated);
    if (time < 0.97 * least) {
      best = parts;
      least = time;
    }
    if (spreads_evenly(count * parts, workers)) break;  // more parts only repeat more
  }
  return best;
}

// Workers that are worth waking for `elements`, each for `grain` of them or more.
inline int worthy_workers(int workers, int64_t elements, int64_t grain) {
  if (workers <= 1 || elements < 2 * grain) return 1;
  return static_cast<int>(std::min<int64_t>(workers, elements / grain));
}

}  // namespace openbnns
