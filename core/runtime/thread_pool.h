// Persistent workers that spin briefly, then sleep. The caller is worker 0.
#pragma once
#include <cstdint>
#include <type_traits>

#include "runtime/interruption.h"

namespace openbnns {

// Upper bound on workers: explicit setting, else OPENBNNS_NUM_THREADS, else what affinity and cgroup allow.
int max_threads();
void set_max_threads(int count);

using Task = void (*)(void* context, int worker, int workers);

// Runs task(context, w, workers) for w = 0..workers-1 and returns when all have finished. Runs serially on the
// caller when the pool is busy with another caller, so the result must not depend on `workers`. Workers use the
// caller's watch (interruption.h); an exception that one of them throws is rethrown here.
void run_workers(int workers, Task task, void* context);

using ItemTask = void (*)(void* context, int64_t item);

// Runs task(context, i) for i = 0..items-1, each once, by whichever worker is free, and ends early, between items, when
// the call is interrupted. Every worker begins with its own range, the same in every call, and helps others when it is
// done: neighbouring items share cached and prefetched memory, and what one call leaves in a core's cache is what that
// core needs in the next.
void run_items(int workers, int64_t items, ItemTask task, void* context);

// body(worker, workers), in parallel.
template <class Body>
void parallel(int workers, Body&& body) {
  using Plain = std::remove_reference_t<Body>;
  run_workers(workers, [](void* c, int w, int n) { (*static_cast<Plain*>(c))(w, n); }, &body);
}

// body(i) for i = 0..items-1 in contiguous static blocks, one block a worker.
template <class Body>
void parallel_items(int workers, int64_t items, Body&& body) {
  if (workers > items) workers = static_cast<int>(items);
  parallel(workers, [&](int w, int n) {
    const Watch watch = current_watch();
    for (int64_t i = items * w / n, end = items * (w + 1) / n; i < end; i++) {
      watch.check();
      body(i);
    }
  });
}

}  // namespace openbnns
