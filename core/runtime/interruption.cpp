#include "runtime/interruption.h"

#include <new>

#include "runtime/per_thread.h"

namespace openbnns {
namespace detail {

std::atomic<uint32_t> interruption_requests{0};
static_assert(std::atomic<uint32_t>::is_always_lock_free);  // signal handlers may use nothing else

void interrupt() { throw Interrupted{}; }

}  // namespace detail

namespace {
PerThread<Watch> watched;
}

void request_interruption() { detail::interruption_requests.fetch_add(1, std::memory_order_relaxed); }

Watch current_watch() {
  const Watch* own = watched.get();
  return own ? *own : Watch::none();
}

// A thread without memory for it cannot be interrupted.
void set_current_watch(Watch watch) {
  if (Watch* own = watched.get()) {
    *own = watch;
  } else if (watch.active()) {
    try {
      watched.own() = watch;
    } catch (const std::bad_alloc&) {
    }
  }
}

}  // namespace openbnns
