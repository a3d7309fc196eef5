// Items taken one at a time: for work whose items are large or uneven, or when a core is shared with others.
#pragma once
#include "runtime/thread_pool.h"

namespace openbnns {

// body(i) for i = 0..items-1, each once, by whichever worker is free; the result must not depend on which.
template <class Body>
void dynamic_items(int workers, int64_t items, Body&& body) {
  using Plain = std::remove_reference_t<Body>;
  run_items(workers, items, [](void* c, int64_t i) { (*static_cast<Plain*>(c))(i); }, &body);
}

}  // namespace openbnns
