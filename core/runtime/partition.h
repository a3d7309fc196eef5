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
  for (int64_t each = (count + most * workers - 1) / (most * workers);; each++) {  // groups of a worker
    const int64_t group = each > 0 ? (count + each * workers - 1) / (each * workers) : 1, busiest = each * group;
    if (group == 1 || busiest == least || 10 * busiest * workers <= 11 * count) return group;
  }
}

// A direction in which pieces of work can be cut.
struct CutAxis {
  int64_t units;        // of a piece along it, each in one part
  double repeated = 0;  // the share of a piece that does not depend on this axis: every part does it again
  int64_t least = 1;    // parts, because of caches or of workers that begin late
};

struct Cuts {
  int64_t first, second;  // parts along each axis
  double time = 0;        // that the busiest worker takes, in pieces
};

// Parts that each of `count` pieces is cut into, along one axis or two: as few as it takes to spread them evenly,
// unless more cost more than they gain. Units are to be dealt out as evenly as can be: part i of n has those from units
// * i / n to units * (i + 1) / n.
inline Cuts even_cuts(int64_t count, const CutAxis& a, const CutAxis& b, int64_t workers) {
  Cuts best{a.least, b.least, static_cast<double>(count)};
  if (workers <= 1 || count <= 0) return best;
  constexpr double kEnough = 1.05, kGain = 0.97;
  constexpr int64_t kMostEach = 12;  // pieces of a worker; more do not make its share of them more even
  const double ideal = static_cast<double>(count) / static_cast<double>(workers);
  const double both = 1 - a.repeated - b.repeated;
  const auto largest = [](const CutAxis& axis, int64_t parts) {
    return static_cast<double>((axis.units + parts - 1) / parts) / static_cast<double>(axis.units);
  };
  best.time = 1e30;
  for (int64_t first = a.least; first <= std::max(a.least, a.units); first++) {
    if (first > a.least && count * first * b.least > kMostEach * workers) break;
    const double mean_a = 1 / static_cast<double>(first), most_a = largest(a, first);
    for (int64_t second = b.least; second <= std::max(b.least, b.units); second++) {
      const int64_t parts = count * first * second;
      if (second > b.least && parts > kMostEach * workers) break;
      const double mean_b = 1 / static_cast<double>(second), most_b = largest(b, second);
      const double mean = both * mean_a * mean_b + a.repeated * mean_b + b.repeated * mean_a;
      const double most = both * most_a * most_b + a.repeated * most_b + b.repeated * most_a;
      const double time = static_cast<double>((parts + workers - 1) / workers - 1) * mean + most;
      if (time < kGain * best.time) best = {first, second, time};
    }
    if (best.time <= kEnough * ideal) break;
  }
  return best;
}

// The same along one axis of `most` units.
inline int64_t even_parts(int64_t count, int64_t most, int64_t workers, double repeated = 0) {
  return even_cuts(count, {most, repeated}, {1}, workers).first;
}

// Of so many workers, those that have to do something for `pieces` of one size to be done as soon: 16 take as long for
// 32 pieces as 19.
inline int64_t busy_workers(int64_t workers, int64_t pieces) {
  if (workers <= 1 || pieces < workers) return workers;
  const int64_t each = (pieces + workers - 1) / workers;
  return (pieces + each - 1) / each;
}

// Workers that are worth waking for `elements`, each for `grain` of them or more.
inline int worthy_workers(int workers, int64_t elements, int64_t grain) {
  if (workers <= 1 || elements < 2 * grain) return 1;
  return static_cast<int>(std::min<int64_t>(workers, elements / grain));
}

}  // namespace openbnns
