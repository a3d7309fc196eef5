// Items handed out one at a time, to every worker first those that it had in the call before.
#pragma once
#include <cstdint>

namespace openbnns {

using ItemTask = void (*)(void* context, int64_t item);
void run_own_items(int workers, int64_t items, ItemTask task, void* context);

// body(i) for i = 0..items-1, each once; the result must not depend on which worker does it. Workers begin with a
// contiguous share each, the same in every call, whose memory may still lie in their caches, then help the others.
template <class Body>
void own_items(int workers, int64_t items, Body&& body) {
  run_own_items(workers, items, [](void* context, int64_t item) { (*static_cast<Body*>(context))(item); }, &body);
}

}  // namespace openbnns
