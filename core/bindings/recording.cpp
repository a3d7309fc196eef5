#include "bindings/recording.h"

#include <utility>

#include "bindings/interruption.h"
#include "runtime/per_thread.h"

namespace openbnns {
namespace {

PerThread<Recording> recordings;

}  // namespace

std::atomic<int> recording_threads{0};

void start_recording(uint64_t generation) {
  Recording& recording = recordings.own();
  const bool nested = recording.on;
  if (!nested) recording_threads++;
  recording = {};
  recording.on = true;
  recording.useless = nested;
  recording.generation = generation;
}

Recording take_recording() {
  Recording recording = std::exchange(recordings.own(), {});
  if (recording.on) recording_threads--;
  return recording;
}

bool this_thread_records() {
  const Recording* recording = recordings.get();
  return recording && recording->on;
}

void spoil_recording() {
  if (Recording* recording = recordings.get()) recording->useless = true;
}

bool perform(std::vector<char*> places, Work work) {
  Recording* recording = recordings.get();
  if (recording && recording->on) recording->operations.push_back({places, work});
  bool done;
  {
    Unlocked unlocked(true);
    done = work(places.data());
  }
  if (recording && !done) recording->useless = true;
  return done;
}

bool perform(std::vector<char*> places, Work work, BoundCall bound) {
  if (Recording* recording = recordings.get()) recording->bound.push_back(std::move(bound));
  return perform(std::move(places), std::move(work));
}

}  // namespace openbnns
