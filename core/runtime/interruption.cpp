#include "runtime/interruption.h"

namespace openbnns {
namespace detail {

std::atomic<uint32_t> interruption_requests{0};
static_assert(std::atomic<uint32_t>::is_always_lock_free);  // signal handlers may use nothing else

void interrupt() { throw Interrupted{}; }

}  // namespace detail

namespace {
thread_local Watch watched = Watch::none();
}

void request_interruption() { detail::interruption_requests.fetch_add(1, std::memory_order_relaxed); }

Watch current_watch() { return watched; }

void set_current_watch(Watch watch) { watched = watch; }

}  // namespace openbnns
