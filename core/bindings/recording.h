// What native code does in a call, kept for repetition: known calls (known_calls.h) and replays (replay.h).
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <vector>

#include "runtime/plan.h"

namespace openbnns {

// An operation on addresses; false if it declines because of what it reads, and then it has written nothing.
using Work = std::function<bool(char* const* places)>;

struct Operation {
  std::vector<char*> places;
  Work work;
};

// A call of a filter with its memory in place, made by the FastCall of this number; one of the operations.
struct BoundCall {
  uint64_t number;
  Call call;
  int64_t bytes;  // that it touches
};

// What a thread has done since it began to record.
struct Recording {
  bool on = false, useless = false;
  uint64_t generation = 0;  // for known_calls.h
  std::vector<Operation> operations;
  std::vector<BoundCall> bound;
};

// Begins to record; a recording within a recording makes both useless.
void start_recording(uint64_t generation = 0);
// Ends it.
Recording take_recording();
extern std::atomic<int> recording_threads;
bool this_thread_records();
inline bool is_recording() { return recording_threads.load(std::memory_order_relaxed) != 0 && this_thread_records(); }

// Something else than native code writes to the memory of arguments: the call that is being recorded cannot be
// repeated.
void spoil_recording();

// Runs the work without the interpreter's lock, and keeps it while a call is being recorded.
bool perform(std::vector<char*> places, Work work);
bool perform(std::vector<char*> places, Work work, BoundCall bound);

}  // namespace openbnns
