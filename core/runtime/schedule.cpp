#include "runtime/schedule.h"

#include <algorithm>
#include <chrono>
#include <new>
#include <utility>

#include "runtime/interruption.h"

namespace openbnns {
namespace {

std::atomic<bool> recorded{false};
std::atomic<bool> noting{false};  // by whoever has set it
alignas(std::vector<SharedWork>) unsigned char room[sizeof(std::vector<SharedWork>)];
std::vector<SharedWork>& notes = *new (room) std::vector<SharedWork>;  // never destroyed: calls may go on at exit

// Notes one piece of shared work when it is done, unless another one is being noted.
class Note {
 public:
  Note(int workers, int64_t items, bool ranges) : mine_(!noting.exchange(true, std::memory_order_acquire)) {
    work_.asked = workers;
    work_.items = items;
    work_.ranges = ranges;
  }
  Note(const Note&) = delete;
  ~Note() {
    if (mine_) noting.store(false, std::memory_order_release);
  }

  template <class Piece>
  void time(Piece&& piece) {
    const auto start = std::chrono::steady_clock::now();
    piece();
    work_.seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }

  void keep() {
    if (mine_) notes.push_back(std::move(work_));
  }

 private:
  bool mine_;
  SharedWork work_;
};

}  // namespace

bool schedule_is_recorded() { return recorded.load(std::memory_order_relaxed); }

void record_schedule(bool enabled) { recorded.store(enabled, std::memory_order_relaxed); }

std::vector<SharedWork> take_schedule() {
  if (noting.exchange(true, std::memory_order_acquire)) return {};
  std::vector<SharedWork> taken = std::move(notes);
  notes.clear();
  noting.store(false, std::memory_order_release);
  return taken;
}

void record_items(int workers, int64_t items, ItemTask task, void* context) {
  const Watch watch = current_watch();
  Note note(workers, items, false);
  for (int64_t i = 0; i < items; i++) {
    watch.check();
    note.time([&] { task(context, i); });
  }
  note.keep();
}

void record_ranges(int workers, int64_t items, RangeTask task, void* context) {
  Note note(workers, items, true);
  const int64_t used = std::max<int64_t>(1, std::min<int64_t>(workers, items));
  for (int64_t w = 0; w < used; w++) note.time([&] { task(context, items * w / used, items * (w + 1) / used); });
  note.keep();
}

}  // namespace openbnns
