// Persistent workers that spin briefly, then sleep. The caller is worker 0.
#pragma once
#include <cstdint>
#include <type_traits>

#include "runtime/interruption.h"

namespace openbnns {

// Upper bound on workers: explicit setting, else OPENBNNS_NUM_THREADS, else what affinity and cgroup allow.
int max_threads();
void set_max_threads(int count);

// Work that is too little for all workers, which is why `workers` are fewer, goes to no more of them than shorten it if
// it has so many units of one size. Of more work every worker takes part: pieces may be uneven, and cores be busy with
// something else.
int engaged_workers(int workers, int64_t units);

// Work is shared out by the two functions below. They run serially on the caller when the pool is busy with another
// caller, so a result must not depend on `workers`. Workers use the caller's watch (interruption.h); an exception that
// one of them throws is rethrown on the caller.

using ItemTask = void (*)(void* context, int64_t item);

// Runs task(context, i) for i = 0..items-1, each once, by whichever worker is free, and ends early, between items, when
// the call is interrupted. Every worker begins with its own range, the same in every call, and helps others when it is
// done: neighbouring items share cached and prefetched memory, and what one call leaves in a core's cache is what that
// core needs in the next.
void run_items(int workers, int64_t items, ItemTask task, void* context);

using RangeTask = void (*)(void* context, int64_t first, int64_t last);

// Runs task(context, first, last) on contiguous ranges that together are the items 0..items-1, one range a worker, and
// returns when all have finished. For pieces that are alike, whose workers prepare something first.
void run_ranges(int workers, int64_t items, RangeTask task, void* context);

// body(first, last), in parallel.
template <class Body>
void parallel_ranges(int workers, int64_t items, Body&& body) {
  using Plain = std::remove_reference_t<Body>;
  run_ranges(
      workers, items, [](void* c, int64_t first, int64_t last) { (*static_cast<Plain*>(c))(first, last); }, &body);
}

// body(i) for i = 0..items-1 in contiguous static blocks, one block a worker.
template <class Body>
void parallel_items(int workers, int64_t items, Body&& body) {
  parallel_ranges(workers, items, [&](int64_t first, int64_t last) {
    const Watch watch = current_watch();
    for (int64_t i = first; i < last; i++) {
      watch.check();
      body(i);
    }
  });
}

}  // namespace openbnns
