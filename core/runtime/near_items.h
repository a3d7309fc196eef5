// Items that read and write memory in their order: each worker has a block of them, which it finds in its own cache
// when a later call goes over the same memory.
#pragma once
#include "runtime/dynamic_items.h"

namespace openbnns {

// body(i) for i = 0..items-1, each once; a worker that is through with its block helps the others. The result must not
// depend on who does what.
template <class Body>
void near_items(int workers, int64_t items, Body&& body) {
  dynamic_items(workers, items, body);
}

}  // namespace openbnns
