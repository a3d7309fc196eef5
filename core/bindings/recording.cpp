#include "bindings/recording.h"

#include <utility>

#include "bindings/interruption.h"
#include "runtime/per_thread.h"

namespace openbnns {
namespace {

PerThread<std::vector<Recording>> recordings;  // the latest last

}  // namespace

std::atomic<int> recording_threads{0};

void start_recording(uint64_t generation) {
  std::vector<Recording>& open = recordings.own();
  const bool placing = !open.empty() && open.back().placing;
  open.emplace_back();
  open.back().generation = generation;
  open.back().placing = placing;
  if (open.size() == 1) recording_threads++;
}

void start_placing() {
  start_recording();
  recordings.own().back().placing = true;
}

bool is_placing() { return is_recording() && recordings.own().back().placing; }

Recording take_recording() {
  std::vector<Recording>& open = recordings.own();
  Recording done;
  done.useless = true;
  if (open.empty()) return done;
  done = std::move(open.back());
  open.pop_back();
  if (open.empty()) {
    recording_threads--;
  } else {
    Recording& outer = open.back();
    outer.useless |= done.useless;
    outer.operations.insert(outer.operations.end(), done.operations.begin(), done.operations.end());
  }
  return done;
}

bool this_thread_records() {
  const std::vector<Recording>* open = recordings.get();
  return open && !open->empty();
}

void spoil_recording() {
  if (is_recording()) recordings.own().back().useless = true;
}

bool perform(Operation operation) {
  if (is_recording()) {
    Recording& open = recordings.own().back();
    open.operations.push_back(operation);
    if (open.placing) {
      open.useless |= operation.enabled == nullptr;
      return true;
    }
  }
  bool done;
  {
    Unlocked unlocked(true);
    done = operation.work(operation.places.data());
  }
  if (!done) spoil_recording();
  return done;
}

bool perform(std::vector<char*> places, Work work) {
  Operation operation;
  operation.places = std::move(places);
  operation.work = std::move(work);
  return perform(std::move(operation));
}

}  // namespace openbnns
