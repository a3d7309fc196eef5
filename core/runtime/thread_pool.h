// Persistent workers that spin briefly, then sleep. The caller is worker 0.
#pragma once
#include <cstdint>

namespace openbnns {

// Upper bound on workers: explicit setting, else OPENBNNS_NUM_THREADS, else what affinity and cgroup allow.
int max_threads();
void set_max_threads(int count);

using Task = void (*)(void* context, int worker, int workers);

// Runs task(context, w, workers) for w = 0..workers-1 and returns when all have finished. Runs serially on the
// caller when the pool is busy with another caller, so the result must not depend on `workers`.
void run_workers(int workers, Task task, void* context);

// body(worker, workers), in parallel.
template <class Body>
void parallel(int workers, Body&& body) {
  if (workers <= 1) return body(0, 1);
  run_workers(workers, [](void* c, int w, int n) { (*static_cast<Body*>(c))(w, n); }, &body);
}

// body(i) for i = 0..items-1 in contiguous static blocks, one block a worker.
template <class Body>
void parallel_items(int workers, int64_t items, Body&& body) {
  if (workers > items) workers = static_cast<int>(items);
  parallel(workers, [&](int w, int n) {
    for (int64_t i = items * w / n, end = items * (w + 1) / n; i < end; i++) body(i);
  });
}

}  // namespace openbnns
