// Items that read and write memory in their order: each worker has a block of them, which it finds in its own cache
// when a later call goes over the same memory.
#pragma once
#include <atomic>

#include "runtime/thread_pool.h"

namespace openbnns {

// body(i) for i = 0..items-1, each once; a worker that is through with its block helps the others. The result must not
// depend on who does what.
template <class Body>
void near_items(int workers, int64_t items, Body&& body) {
  constexpr int kMostWorkers = 256;
  struct alignas(64) Next {
    std::atomic<int64_t> item;
  };
  if (workers > items) workers = static_cast<int>(items);
  if (workers > kMostWorkers) workers = kMostWorkers;
  if (workers <= 1) {
    for (int64_t i = 0; i < items; i++) body(i);
    return;
  }
  Next next[kMostWorkers];
  for (int w = 0; w < workers; w++) next[w].item.store(items * w / workers, std::memory_order_relaxed);
  parallel(workers, [&](int worker, int count) {
    for (int k = 0; k < count; k++) {
      const int block = (worker + k) % count;
      const int64_t end = items * (block + 1) / count;
      for (int64_t i; (i = next[block].item.fetch_add(1, std::memory_order_relaxed)) < end;) body(i);
    }
  });
}

}  // namespace openbnns
