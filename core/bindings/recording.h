// What native code does in a call, recorded for repetition: known calls (known_calls.h) and lists of calls
// (call_list.h).
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace openbnns {

// An operation on addresses; false if it declines because of what it reads, and then it has written nothing.
using Work = std::function<bool(char* const* places)>;

struct JointOperation;

struct Operation {
  std::vector<char*> places;
  Work work;
  // For an operation that is a whole call and may be repeated by itself, on the same memory: the switch that turns such
  // calls off, and the number of the object that must not have ended meanwhile (numbered.h), 0 if there is none. A part
  // of a call has no switch.
  const std::atomic<bool>* enabled = nullptr;
  uint64_t number = 0;
  int64_t bytes = 0;  // that it touches
  // How workers make it together with other calls (joint_calls.h); null for those that cannot be.
  std::shared_ptr<const JointOperation> joint;
};

// The operations of a thread since it began to record, or to place calls, which are then not made.
struct Recording {
  bool useless = false;
  bool placing = false;
  uint64_t generation = 0;  // for known_calls.h
  std::vector<Operation> operations;
};

// Begins to record. A recording may contain others: what they hold, it holds too.
void start_recording(uint64_t generation = 0);
// Begins to place calls: native code prepares them but does not run them. What cannot be repeated as a whole makes the
// recording useless.
void start_placing();
bool is_placing();
// Ends the latest one that has begun; a useless one if there is none.
Recording take_recording();
extern std::atomic<int> recording_threads;
bool this_thread_records();
inline bool is_recording() { return recording_threads.load(std::memory_order_relaxed) != 0 && this_thread_records(); }

// Something other than native code writes to the memory of arguments: the call that is being recorded cannot be
// repeated.
void spoil_recording();

// Runs the operation without the interpreter's lock, and keeps it while a call is being recorded. A call that is being
// placed is kept and not run.
bool perform(Operation operation);
bool perform(std::vector<char*> places, Work work);

}  // namespace openbnns
