#include "runtime/thread_pool.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>
#if defined(__linux__)
#include <sched.h>
#endif

#include "runtime/partition.h"
#include "runtime/per_thread.h"
#include "runtime/schedule.h"

namespace openbnns {
namespace {

// Worker 0..workers-1 of a call.
using Task = void (*)(void* context, int worker, int workers);

void pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Cores granted by a cgroup quota (v2, then v1); a large number when there is none.
int cgroup_cores() {
  double quota = 0, period = 0;
  std::ifstream v2("/sys/fs/cgroup/cpu.max");
  if (v2 >> quota >> period && quota > 0 && period > 0) return std::max(1, static_cast<int>(quota / period));
  std::ifstream q("/sys/fs/cgroup/cpu/cpu.cfs_quota_us"), p("/sys/fs/cgroup/cpu/cpu.cfs_period_us");
  if (q >> quota && p >> period && quota > 0 && period > 0) return std::max(1, static_cast<int>(quota / period));
  return 1 << 20;
}

constexpr int kMostWorkers = 256;

// Cores that the machine, affinity and quota grant this process.
int granted_cores() {
  int cores = std::max(1u, std::thread::hardware_concurrency());
#if defined(__linux__)
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) cores = std::min(cores, CPU_COUNT(&set));
#endif
  return std::max(1, std::min(cores, cgroup_cores()));
}

int detected_threads() {
  if (const char* text = std::getenv("OPENBNNS_NUM_THREADS")) {
    int n = std::atoi(text);
    if (n > 0) return std::min(n, kMostWorkers);
  }
  return granted_cores();
}

constexpr int kSpins = 20000;  // about half a millisecond; longer gaps between calls put the workers to sleep

// Keeps the calling worker off the CPU of the thread it works for. Left alone, a guest of a hypervisor wakes sleeping
// threads on the CPU of whoever wakes them (an idle virtual CPU looks taken), where both wait for each other.
class Seat {
 public:
  // CPU of the calling thread; -1 where the system does not tell.
  static int current() {
#if defined(__linux__)
    return sched_getcpu();
#else
    return -1;
#endif
  }

  // Only these two system calls when the caller has moved, else nothing.
  void keep_off(int cpu) {
#if defined(__linux__)
    if (cpu < 0 || cpu >= CPU_SETSIZE || cpu == avoided_) return;
    avoided_ = cpu;
    if (!known_) known_ = sched_getaffinity(0, sizeof allowed_, &allowed_) == 0;
    if (!known_) return;
    cpu_set_t others = allowed_;
    CPU_CLR(cpu, &others);
    if (CPU_COUNT(&others) > 0) sched_setaffinity(0, sizeof others, &others);
#else
    (void)cpu;
#endif
  }

 private:
#if defined(__linux__)
  cpu_set_t allowed_;
  bool known_ = false;
  int avoided_ = -1;
#endif
};

struct Pool {
  // The part of a seat in a call, numbered as the call is: whoever changes it from open to taken does it. So a caller
  // that is done with its own part does those of workers that the system has not let run yet, and waits only for those
  // at work.
  class Part {
   public:
    void open(uint64_t call) { state_.store(call * kStates + kOpen, std::memory_order_release); }
    bool take(uint64_t call) {
      uint64_t expected = call * kStates + kOpen;
      return state_.compare_exchange_strong(expected, call * kStates + kTaken, std::memory_order_acq_rel);
    }
    void finish(uint64_t call) { state_.store(call * kStates + kDone, std::memory_order_release); }
    bool is_done(uint64_t call) const { return state_.load(std::memory_order_acquire) == call * kStates + kDone; }

   private:
    static constexpr uint64_t kOpen = 0, kTaken = 1, kDone = 2, kStates = 4;
    alignas(64) std::atomic<uint64_t> state_{0};  // a cache line each
  };

  std::mutex busy;  // held by the caller that owns the workers
  std::vector<std::thread> threads;
  std::mutex sleep_mutex;
  std::condition_variable wake;
  std::atomic<uint64_t> generation{0};  // the number of the latest call
  std::atomic<int> sleepers{0};
  std::atomic<bool> stop{false};
  Part parts[kMostWorkers];  // by seat; that of the caller, 0, is not used
  // What follows is read by those who have taken a part: it stays as it is until they have finished.
  Task task = nullptr;
  void* context = nullptr;
  int workers = 1;  // shares of the work; a seat may take several of them
  int seats = 1;    // threads that take part, the caller included
  int caller_cpu = -1;
  Watch watch = Watch::none();  // of the caller
  int cores = 0;                // 0: not yet known

  std::atomic<bool> failed{false};
  std::exception_ptr failure;  // the first: no memory for scratch

  void take_shares(int seat) {
    try {
      for (int w = seat; w < workers; w += seats) task(context, w, workers);
    } catch (...) {
      if (!failed.exchange(true)) failure = std::current_exception();
    }
  }

  void worker_loop(int worker) {
    prepare_exceptions();
    uint64_t seen = 0;
    Seat seat;
    for (;;) {
      for (int i = 0; i < kSpins && generation.load(std::memory_order_acquire) == seen; i++) pause();
      if (generation.load(std::memory_order_acquire) == seen) {
        std::unique_lock<std::mutex> lock(sleep_mutex);
        sleepers.fetch_add(1);
        wake.wait(lock, [&] { return generation.load() != seen; });
        sleepers.fetch_sub(1);
      }
      seen = generation.load(std::memory_order_acquire);
      if (stop.load()) return;
      if (!parts[worker].take(seen)) continue;  // too late, or there is none
      seat.keep_off(caller_cpu);
      set_current_watch(watch);
      take_shares(worker);
      parts[worker].finish(seen);
    }
  }

  void grow(int count) {
    // A new worker starts at generation 0 and must not mistake old generations for work: the counter restarts.
    if (static_cast<int>(threads.size()) >= count - 1) return;
    shut_down();
    try {
      for (int w = 1; w < count; w++) threads.emplace_back([this, w] { worker_loop(w); });
    } catch (const std::system_error&) {  // the system has no more threads to give: these must do
    }
  }

  void shut_down() {
    if (threads.empty()) return;
    stop = true;
    announce();
    for (auto& t : threads) t.join();
    threads.clear();
    stop = false;
    generation = 0;
    for (Part& part : parts) part.finish(0);
  }

  void announce() {
    generation.fetch_add(1);
    if (sleepers.load() > 0) {
      std::lock_guard<std::mutex> lock(sleep_mutex);
      wake.notify_all();
    }
  }

  // More threads than cores would only wait for each other, in this call and, once started, in all later ones.
  void run(int count, Task t, void* c) {
    if (cores == 0) cores = granted_cores();
    grow(std::min(count, cores));
    seats = std::min({count, cores, static_cast<int>(threads.size()) + 1});
    task = t;
    context = c;
    workers = count;
    caller_cpu = Seat::current();
    watch = current_watch();
    const uint64_t call = generation.load(std::memory_order_relaxed) + 1;
    for (int s = 1; s < seats; s++) parts[s].open(call);
    announce();
    take_shares(0);
    for (int s = 1; s < seats; s++) {
      if (!parts[s].take(call)) continue;
      take_shares(s);
      parts[s].finish(call);
    }
    for (int s = 1, i = 0; s < seats;) {
      if (parts[s].is_done(call))
        s++;
      else if (i++ < kSpins)
        pause();
      else
        std::this_thread::yield();  // more threads than cores: let them finish
    }
    if (failed.exchange(false)) std::rethrow_exception(std::exchange(failure, nullptr));
  }
};

std::atomic<int> thread_limit{0};

// Made at load: a thread in the middle of it when another one forks would leave it half done. Never destroyed: workers
// may outlive static destructors.
alignas(Pool) unsigned char room[sizeof(Pool)];
Pool& pool = *new (room) Pool;

// A forked child has the memory of the pool but none of its threads: start afresh, leaking what the old one held.
[[maybe_unused]] const int registered = pthread_atfork(nullptr, nullptr, [] { new (room) Pool; });

// Runs task(context, w, workers) for w = 0..workers-1 and returns when all have finished.
void run_workers(int workers, Task task, void* context) {
  if (workers <= 1) return task(context, 0, 1);
  std::unique_lock<std::mutex> owner(pool.busy, std::try_to_lock);
  if (owner.owns_lock()) return pool.run(workers, task, context);
  for (int w = 0; w < workers; w++) task(context, w, workers);
}

// body(worker, workers), in parallel.
template <class Body>
void parallel(int workers, Body&& body) {
  using Plain = std::remove_reference_t<Body>;
  run_workers(workers, [](void* c, int w, int n) { (*static_cast<Plain*>(c))(w, n); }, &body);
}

}  // namespace

int max_threads() {
  int n = thread_limit.load(std::memory_order_relaxed);
  if (n == 0) thread_limit = n = detected_threads();
  return n;
}

void set_max_threads(int count) { thread_limit = count > 0 ? std::min(count, kMostWorkers) : detected_threads(); }

int engaged_workers(int workers, int64_t units) {
  return workers < max_threads() ? static_cast<int>(busy_workers(workers, units)) : workers;
}

void run_items(int workers, int64_t items, ItemTask task, void* context) {
  workers = engaged_workers(workers, items);
  if (workers > 1 && schedule_is_recorded()) return record_items(workers, items, task, context);
  workers = static_cast<int>(std::min<int64_t>(std::min(workers, kMostWorkers), items));
  if (items == 1) return task(context, 0);
  const Watch watch = current_watch();
  if (workers <= 1) {
    for (int64_t i = 0; i < items; i++) {
      watch.check();
      task(context, i);
    }
    return;
  }
  struct alignas(64) Range {  // a cache line each
    std::atomic<int64_t> next;
    int64_t end;
  };
  Range ranges[kMostWorkers];
  for (int w = 0; w < workers; w++) {
    ranges[w].next.store(items * w / workers, std::memory_order_relaxed);
    ranges[w].end = items * (w + 1) / workers;
  }
  parallel(workers, [&](int worker, int) {
    for (int turn = 0; turn < workers; turn++) {
      Range& range = ranges[(worker + turn) % workers];
      for (int64_t i; (i = range.next.fetch_add(1, std::memory_order_relaxed)) < range.end;) {
        watch.check();
        task(context, i);
      }
    }
  });
}

void run_ranges(int workers, int64_t items, RangeTask task, void* context) {
  workers = engaged_workers(workers, items);
  if (workers > 1 && schedule_is_recorded()) return record_ranges(workers, items, task, context);
  workers = static_cast<int>(std::min<int64_t>(workers, items));
  if (workers <= 1) return task(context, 0, items);
  parallel(workers, [&](int w, int n) { task(context, items * w / n, items * (w + 1) / n); });
}

}  // namespace openbnns
