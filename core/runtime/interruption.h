// Ends a long call early, between two pieces of its work: for bindings whose users can ask for that (Ctrl-C).
//
// A binding declares calls interruptible (Interruptible) and counts requests (request_interruption). Without one, as in
// a program that calls the kernels directly, nothing is ever interrupted.
#pragma once
#include <atomic>
#include <cstdint>

namespace openbnns {

// Thrown to leave the kernels of an interrupted call. Its outputs are unspecified, and so is what a filter keeps for
// backward.
struct Interrupted {};

namespace detail {
extern std::atomic<uint32_t> interruption_requests;
[[noreturn, gnu::cold]] void interrupt();
}  // namespace detail

// May be called by a signal handler, on any thread.
void request_interruption();

// Whether the call in progress is to end: compares the count of requests now with that at its beginning.
class Watch {
 public:
  Watch() = default;  // never
  static Watch none() { return {}; }
  static Watch from_now() { return Watch(detail::interruption_requests.load(std::memory_order_relaxed)); }

  // Throws Interrupted if there was a request. One load and a comparison: cheap enough for every piece of work.
  void check() const {
    if (active_ && detail::interruption_requests.load(std::memory_order_relaxed) != start_) detail::interrupt();
  }

  bool active() const { return active_; }

 private:
  explicit Watch(uint32_t start) : active_(true), start_(start) {}
  bool active_ = false;
  uint32_t start_ = 0;
};

// The watch of the calling thread; the thread pool hands it on to its workers.
Watch current_watch();
void set_current_watch(Watch watch);

// For long loops within one piece of work.
inline void check_interruption() { current_watch().check(); }

// During its lifetime, calls of this thread end early when there is a request.
class Interruptible {
 public:
  Interruptible() : before_(current_watch()) { set_current_watch(Watch::from_now()); }
  ~Interruptible() { set_current_watch(before_); }
  Interruptible(const Interruptible&) = delete;
  Interruptible& operator=(const Interruptible&) = delete;

 private:
  const Watch before_;
};

}  // namespace openbnns
