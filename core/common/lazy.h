// Tables whose size grows with an image are built by the first call that needs them: creating a filter costs next to
// nothing however large its image is, and by then the caller has found memory for the image itself.
#pragma once
#include <atomic>
#include <memory>

namespace openbnns {
namespace OPENBNNS_ISA {

// Made once. Without a lock, for which a child forked at the wrong moment would wait forever: two threads that come at
// the same time both make one, and one of the two is discarded.
template <class Made>
class Lazy {
 public:
  Lazy() = default;
  Lazy(const Lazy&) = delete;
  Lazy& operator=(const Lazy&) = delete;
  ~Lazy() { delete made_.load(); }

  // make(): a std::unique_ptr<Made>
  template <class Make>
  Made& get(Make&& make) const {
    if (Made* there = made_.load(std::memory_order_acquire)) return *there;
    std::unique_ptr<Made> ours = make();
    Made* there = nullptr;
    if (!made_.compare_exchange_strong(there, ours.get(), std::memory_order_acq_rel)) return *there;
    return *ours.release();
  }

 private:
  mutable std::atomic<Made*> made_{nullptr};
};

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
