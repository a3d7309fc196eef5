// Calls of a list (call_list.h) that follow each other and that workers make together, each for samples of its own.
//
// Small calls, each shared out by itself, make workers wait for each other and fetch from another core's cache what the
// call before has written. Together they begin and end once, and samples stay with their worker.
#pragma once
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <vector>

#include "bindings/numbered.h"
#include "bindings/recording.h"
#include "runtime/fork.h"
#include "runtime/joint_plan.h"

namespace openbnns {

// Memory that a call reads or writes.
struct Access {
  const char *begin, *end;
  int64_t stride;  // bytes from one sample to the next, none of which overlap; 0: the same memory for all samples
  bool writes;
};

// A run of a plan that workers can make jointly.
struct JointOperation {
  std::shared_ptr<Plan> plan;
  bool backward;
  Call call;
  std::vector<int> slots;  // of the operation's places
  std::vector<Access> accesses;
  int64_t kept_floats;
  bool has_sums;  // writes something that is not one for every sample

  // Null if the call cannot be made jointly.
  static std::shared_ptr<const JointOperation> make(std::shared_ptr<Plan> plan, bool backward, const Call& call,
                                                    std::vector<int> slots, std::vector<Access> accesses);
};

// Calls number first() to last() - 1 of a list.
class JointCalls {
 public:
  explicit JointCalls(size_t first) : first_(first), last_(first) {}

  size_t first() const { return first_; }
  size_t last() const { return last_; }

  // Takes the next call, unless a worker that makes it before others have made the earlier ones would disturb them.
  bool take(const Operation& next);

  // Makes some of them, from number `first` of the list on, and returns the number of the next one: `first` itself, if
  // it is better to make that one alone.
  size_t run(const std::vector<Operation>& calls, size_t first) const;

 private:
  struct Free {
    void operator()(float* memory) const { std::free(memory); }
  };
  struct Share {
    size_t last;
    int workers;
  };
  Share share_of(size_t first) const;
  int64_t batch() const { return calls_[0]->call.batch; }

  struct Made {
    JointPlan* plan;
    bool has_sums;
    JointCall joint;
  };
  // Memory of a run, kept for the next one: a list runs on one thread at a time. A forked child does not take over
  // what a thread that it does not have was using.
  struct Room {
    explicit Room(size_t calls) : uses(new std::optional<Numbered::Use>[calls]) { made.reserve(calls); }
    const uint64_t process = fork_generation();
    std::vector<Made> made;
    std::unique_ptr<std::optional<Numbered::Use>[]> uses;
  };
  Room& room() const;

  size_t first_, last_;
  std::vector<std::shared_ptr<const JointOperation>> calls_;
  int64_t kept_floats_ = 0;
  mutable std::unique_ptr<float, Free> kept_;  // once it is needed, as the room
  mutable std::unique_ptr<Room> room_;
};

}  // namespace openbnns
