#include "runtime/product_tuning.h"

#include <algorithm>

namespace openbnns {
namespace {

// A table names what differs from the one before. The first was measured on AMD's Zen 4.
constexpr ProductTuning zen() { return {}; }

// Not measured but derived, for Sapphire Rapids. A core has 48 KB of L1, like Zen 5, and 2 MB of L2; but its L3 lies
// across a mesh, more than 200 cycles away, where Zen has it in 50 cycles and at several times the bandwidth. So
// products ask for less of L3, and earlier. (How much of B stays in L2 follows from the size of L2.)
constexpr ProductTuning sapphire_rapids() {
  ProductTuning t = zen();
  // A task on all columns reads B from L3 once for its rows of A, which are in L2. With 112 rows an element is needed
  // every 3.5 cycles (a core has 32 multiply-adds in a cycle); 224 rows halve that, and are 384 KB.
  t.task_tiles = 16;
  // A step takes a cycle for each row of a tile: 16 steps are the way to L3 for 14 rows, 32 steps for lower tiles, too.
  t.steps_ahead = 32;
  return t;
}

// Intel's since Ice Lake, whose servers have 1.25 MB.
bool is_like_sapphire_rapids(const Cpu& cpu) {
  return cpu.by_intel && cpu.first_cache >= 48 << 10 && cpu.second_cache >= 5 << 18;
}

ProductTuning in_force = tuning_for(this_cpu());

}  // namespace

// All others take the first.
ProductTuning tuning_for(const Cpu& cpu) {
  constexpr int64_t kLeast = int64_t{1} << 18, kMost = int64_t{1} << 21;
  ProductTuning t = is_like_sapphire_rapids(cpu) ? sapphire_rapids() : zen();
  if (cpu.second_cache > 0) t.second_cache = std::clamp(cpu.second_cache, kLeast, kMost);
  return t;
}

const ProductTuning& kTuned = in_force;

void assume_cpu(const Cpu& cpu) { in_force = tuning_for(cpu); }

}  // namespace openbnns
