// How a call would spread over more workers than the machine has cores: for tests and tools.
#pragma once
#include <atomic>
#include <cstdint>
#include <vector>

#include "runtime/thread_pool.h"

namespace openbnns {

// What one run_items or run_ranges had to share out.
struct SharedWork {
  int asked = 0;  // workers that the kernel would employ, whether or not there are items for all of them
  int64_t items = 0;
  bool ranges = false;          // every worker has a range of its own and helps nobody
  std::vector<double> seconds;  // of each range, or else of each item
};

// While the schedule is recorded, work that several workers would share runs on the calling thread, piece by piece and
// in order, and is noted; the results are those of any other number of workers. What a piece itself would share out
// runs within it and is not noted. One call at a time: those of other threads meanwhile run in the same way, unnoted.
bool schedule_is_recorded();
void record_schedule(bool enabled);
std::vector<SharedWork> take_schedule();  // what has been noted since the last time

void record_items(int workers, int64_t items, ItemTask task, void* context);
void record_ranges(int workers, int64_t items, RangeTask task, void* context);

}  // namespace openbnns
