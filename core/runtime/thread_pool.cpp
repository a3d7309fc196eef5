#include "runtime/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <thread>
#include <vector>
#if defined(__linux__)
#include <pthread.h>
#include <sched.h>
#endif

#include "runtime/own_items.h"

namespace openbnns {
namespace {

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

constexpr int kMostThreads = 256;

int detected_threads() {
  if (const char* text = std::getenv("OPENBNNS_NUM_THREADS")) {
    int n = std::atoi(text);
    if (n > 0) return std::min(n, kMostThreads);
  }
  int cores = std::max(1u, std::thread::hardware_concurrency());
#if defined(__linux__)
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) cores = std::min(cores, CPU_COUNT(&set));
#endif
  return std::max(1, std::min(cores, cgroup_cores()));
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
  std::mutex busy;  // held by the caller that owns the workers
  std::vector<std::thread> threads;
  std::mutex sleep_mutex;
  std::condition_variable wake;
  std::atomic<uint64_t> generation{0};
  std::atomic<int> sleepers{0};
  std::atomic<int> unfinished{0};
  std::atomic<bool> stop{false};
  Task task = nullptr;
  void* context = nullptr;
  int workers = 1;
  int caller_cpu = -1;

  void worker_loop(int worker) {
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
      seat.keep_off(caller_cpu);
      if (worker < workers) task(context, worker, workers);
      unfinished.fetch_sub(1, std::memory_order_release);
    }
  }

  void grow(int count) {
    // A new worker starts at generation 0 and must not mistake old generations for work: the counter restarts.
    if (static_cast<int>(threads.size()) >= count - 1) return;
    shut_down();
    for (int w = 1; w < count; w++) threads.emplace_back([this, w] { worker_loop(w); });
  }

  void shut_down() {
    if (threads.empty()) return;
    stop = true;
    announce();
    for (auto& t : threads) t.join();
    threads.clear();
    stop = false;
    generation = 0;
  }

  void announce() {
    generation.fetch_add(1);
    if (sleepers.load() > 0) {
      std::lock_guard<std::mutex> lock(sleep_mutex);
      wake.notify_all();
    }
  }

  void run(int count, Task t, void* c) {
    grow(count);
    task = t;
    context = c;
    workers = count;
    caller_cpu = Seat::current();
    unfinished.store(static_cast<int>(threads.size()), std::memory_order_relaxed);
    announce();
    t(c, 0, count);
    for (int i = 0; unfinished.load(std::memory_order_acquire) != 0; i++)
      if (i < kSpins)
        pause();
      else
        std::this_thread::yield();  // more threads than cores: let them finish
  }
};

Pool* pool = nullptr;
std::atomic<int> thread_limit{0};

// A forked child has the memory of the pool but none of its threads: start afresh, leaking the old object.
void after_fork_in_child() { pool = new Pool; }

Pool& the_pool() {
  static std::once_flag once;
  std::call_once(once, [] {
    pool = new Pool;  // never destroyed: workers may outlive static destructors
#if defined(__linux__) || defined(__APPLE__)
    pthread_atfork(nullptr, nullptr, after_fork_in_child);
#endif
  });
  return *pool;
}

}  // namespace

int max_threads() {
  int n = thread_limit.load(std::memory_order_relaxed);
  if (n == 0) thread_limit = n = detected_threads();
  return n;
}

void set_max_threads(int count) { thread_limit = count > 0 ? std::min(count, kMostThreads) : detected_threads(); }

void run_workers(int workers, Task task, void* context) {
  Pool& p = the_pool();
  std::unique_lock<std::mutex> owner(p.busy, std::try_to_lock);
  if (workers > 1 && owner.owns_lock()) return p.run(workers, task, context);
  for (int w = 0; w < workers; w++) task(context, w, workers);
}

void run_own_items(int workers, int64_t items, ItemTask task, void* context) {
  workers = static_cast<int>(std::min<int64_t>({workers, kMostThreads, items}));
  if (workers <= 1) {
    for (int64_t i = 0; i < items; i++) task(context, i);
    return;
  }
  struct alignas(64) Share {
    std::atomic<int64_t> next;
    int64_t end;
  };
  Share shares[kMostThreads];
  for (int w = 0; w < workers; w++) {
    shares[w].next.store(items * w / workers, std::memory_order_relaxed);
    shares[w].end = items * (w + 1) / workers;
  }
  parallel(workers, [&](int worker, int) {
    for (int w = 0; w < workers; w++) {
      Share& share = shares[(worker + w) % workers];
      for (int64_t i; (i = share.next.fetch_add(1, std::memory_order_relaxed)) < share.end;) task(context, i);
    }
  });
}

}  // namespace openbnns
