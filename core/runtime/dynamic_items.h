// Items handed out one at a time: for work whose items are large or uneven, or when a core is shared with others.
#pragma once
#include <atomic>

#include "runtime/thread_pool.h"

namespace openbnns {

// body(i) for i = 0..items-1, each once, by whichever worker is free; the result must not depend on which.
template <class Body>
void dynamic_items(int workers, int64_t items, Body&& body) {
  if (workers > items) workers = static_cast<int>(items);
  if (workers <= 1) {
    for (int64_t i = 0; i < items; i++) body(i);
    return;
  }
  std::atomic<int64_t> next{0};
  parallel(workers, [&](int, int) {
    for (int64_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < items;) body(i);
  });
}

}  // namespace openbnns
