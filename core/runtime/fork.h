// A forked child has the memory of its parent, but of the parent's threads only the one that forked. Locks that other
// threads held are never unlocked, and what they were changing is left half changed.
#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <utility>

namespace openbnns {

// Differs between a process and its ancestors by fork; never 0.
uint64_t fork_generation();

// State that one thread at a time may use. A child that was forked while another thread used it starts with a new one
// and leaks the old one, which may be in a state that not even its destructor can handle.
template <class State>
class ForkSafe {
 public:
  using Make = std::function<std::unique_ptr<State>()>;

  explicit ForkSafe(Make make) : make_(std::move(make)), state_(make_().release()) {}
  ForkSafe(const ForkSafe&) = delete;
  ~ForkSafe() {
    if (!interrupted()) delete state_.load();
  }

  // The state, for as long as this lives.
  class Access {
   public:
    Access(Access&& other) : owner_(std::exchange(other.owner_, nullptr)) {}
    ~Access() {
      if (owner_) owner_->user_.store(0, std::memory_order_release);
    }
    State* operator->() const { return owner_->state_.load(std::memory_order_relaxed); }

   private:
    friend class ForkSafe;
    explicit Access(ForkSafe& owner) : owner_(&owner) {}
    ForkSafe* owner_;
  };

  // Waits until no other thread of this process uses the state.
  Access lock() {
    const uint64_t own = fork_generation();
    uint64_t user = 0;
    for (int turn = 0; !user_.compare_exchange_strong(user, own, std::memory_order_acquire);) {
      if (user != own) continue;  // a thread that this process does not have: take its place
      user = 0;
      if (++turn < kYields)
        std::this_thread::yield();
      else
        std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
    if (user != 0) replace(user);
    return Access(*this);
  }

  // Without waiting: for members that no user of the state ever changes.
  State& unlocked() const { return *state_.load(std::memory_order_acquire); }

  // Whether a fork happened while another thread used the state, which is lost in this process.
  bool interrupted() const {
    const uint64_t user = user_.load(std::memory_order_acquire);
    return user != 0 && user != fork_generation();
  }

 private:
  static constexpr int kYields = 100;

  // Takes over the lock from a thread of another process.
  void replace(uint64_t user) {
    try {
      state_.store(make_().release(), std::memory_order_release);
    } catch (...) {
      user_.store(user, std::memory_order_release);
      throw;
    }
  }

  const Make make_;
  std::atomic<State*> state_;
  std::atomic<uint64_t> user_{0};  // fork_generation() of the process that has a thread using the state
};

}  // namespace openbnns
