#include "runtime/fork.h"

#include <pthread.h>

namespace openbnns {
namespace {

std::atomic<uint64_t> generation{1};

// At load, so that no thread can be in the middle of it when another one forks.
[[maybe_unused]] const int registered =
    pthread_atfork(nullptr, nullptr, [] { generation.fetch_add(1, std::memory_order_relaxed); });

}  // namespace

uint64_t fork_generation() { return generation.load(std::memory_order_relaxed); }

}  // namespace openbnns
