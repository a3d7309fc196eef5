#include "runtime/weights_version.h"

#include <new>

#include "runtime/per_thread.h"

namespace openbnns {
namespace {

struct Version {
  uint64_t number = 0;
};
PerThread<Version> known;

void set(uint64_t number) {
  if (Version* own = known.get()) {
    own->number = number;
  } else if (number != 0) {
    try {
      known.own().number = number;
    } catch (const std::bad_alloc&) {
    }
  }
}

}  // namespace

uint64_t current_weights() {
  const Version* own = known.get();
  return own ? own->number : 0;
}

uint64_t new_weights_version() {
  static std::atomic<uint64_t> latest{0};
  return latest.fetch_add(1, std::memory_order_relaxed) + 1;
}

KnownWeights::KnownWeights(uint64_t version) : before_(current_weights()) {
  if (version != before_) set(version);
}
KnownWeights::~KnownWeights() {
  if (current_weights() != before_) set(before_);
}

}  // namespace openbnns
