#include "bindings/joint_calls.h"

#include <algorithm>
#include <utility>

#include "bindings/numbered.h"
#include "runtime/aligned_memory.h"
#include "runtime/thread_pool.h"

namespace openbnns {
namespace {

constexpr int64_t kMostKept = int64_t{1} << 18;  // floats that calls may keep until the sums (1 MB)
constexpr double kFlopsPerWorker = 0.5e6;        // that are worth waking one
constexpr double kFlopsAlone = 0.75e6;           // that a call made by itself has for each of its workers, at least
constexpr double kMostFlops = 1e8;               // of larger calls, workers that are done help others

int64_t rounded(int64_t floats) { return (floats + 15) / 16 * 16; }  // to whole cache lines

bool overlaps(const Access& a, const Access& b) { return a.begin < b.end && b.begin < a.end; }

// Whether a sample is at the same place in both, where its worker has it to itself.
bool shares_samples(const Access& a, const Access& b) {
  return a.stride != 0 && a.stride == b.stride && a.begin == b.begin;
}

// Whether `later` may be made for some samples while `earlier` has not been made for others.
bool independent(const JointOperation& earlier, const JointOperation& later) {
  for (const Access& a : earlier.accesses)
    for (const Access& b : later.accesses) {
      if (!(a.writes || b.writes) || !overlaps(a, b)) continue;
      // Sums are made after all samples of all calls. Until then everything stays that they read, and nobody has what
      // they write.
      const bool early = !earlier.has_sums || (a.writes && a.stride != 0);
      if (!early || !shares_samples(a, b)) return false;
    }
  return true;
}

}  // namespace

std::shared_ptr<const JointOperation> JointOperation::make(std::shared_ptr<Plan> plan, bool backward, const Call& call,
                                                           std::vector<int> slots, std::vector<Access> accesses) {
  const JointPlan* joint = plan->joint();
  const int64_t kept = joint ? joint->kept_floats(call, backward) : -1;
  if (kept < 0 || kept > kMostKept) return nullptr;
  const bool has_sums =
      std::any_of(accesses.begin(), accesses.end(), [](const Access& a) { return a.writes && a.stride == 0; });
  return std::make_shared<JointOperation>(
      JointOperation{std::move(plan), backward, call, std::move(slots), std::move(accesses), rounded(kept), has_sums});
}

bool JointCalls::take(const Operation& next) {
  const auto& joint = next.joint;
  if (!joint || kept_floats_ + joint->kept_floats > kMostKept) return false;
  for (const auto& call : calls_)
    if (call->call.batch != joint->call.batch || !independent(*call, *joint)) return false;
  calls_.push_back(joint);
  kept_floats_ += joint->kept_floats;
  last_++;
  return true;
}

JointCalls::Room& JointCalls::room() const {
  if (room_ && room_->process != fork_generation()) room_.release();  // not destroyed: it may be half changed
  if (!room_) room_ = std::make_unique<Room>(calls_.size());
  return *room_;
}

size_t JointCalls::run(const std::vector<Operation>& calls, size_t first) const {
  const Share share = share_of(first);
  if (share.workers <= 1) return first;
  Room& room = this->room();
  struct Ending {
    ~Ending() {
      for (size_t i = 0; i < count; i++) uses[i].reset();
    }
    std::optional<Numbered::Use>* uses;
    size_t count;
  } ending{room.uses.get(), share.last - first};
  for (size_t i = first; i < share.last; i++) {
    if (!calls[i].enabled->load(std::memory_order_relaxed)) return first;
    if (calls[i].number && !room.uses[i - first].emplace(calls[i].number)) return first;
  }
  if (!kept_ && kept_floats_ > 0) {
    size_t bytes = static_cast<size_t>(kept_floats_) * sizeof(float);
    kept_.reset(allocate_aligned(bytes));
  }
  std::vector<Made>& made = room.made;
  made.clear();
  float* kept = kept_.get();
  double in_sums = 0;
  for (size_t i = first; i < share.last; i++) {
    const JointOperation& operation = *calls_[i - first_];
    JointPlan& plan = *operation.plan->joint();
    Call call = operation.call;
    for (size_t p = 0; p < operation.slots.size(); p++)
      call.address[operation.slots[p]] = reinterpret_cast<float*>(calls[i].places[p]);
    call.threads = max_threads();
    const float* prepared = plan.prepare(call, operation.backward);
    made.push_back({&plan, operation.has_sums, {call, operation.backward, prepared, kept}});
    kept += operation.kept_floats;
    if (operation.has_sums) in_sums += plan.sums_flops(call, operation.backward);
  }
  parallel_ranges(share.workers, batch(), [&](int64_t begin, int64_t end) {
    for (const Made& call : made) {
      check_interruption();
      call.plan->samples(call.joint, begin, end - begin);
    }
  });
  const int shares = in_sums < 2 * kFlopsPerWorker ? 1 : share.workers;
  parallel_items(shares, shares, [&](int64_t index) {
    for (const Made& call : made)
      if (call.has_sums) call.plan->sums(call.joint, index, shares);
  });
  return share.last;
}

// From call number `first` on, those of which workers can have enough samples each, and how many workers.
JointCalls::Share JointCalls::share_of(size_t first) const {
  const int most = max_threads();
  double all = 0, largest = 0;
  int64_t least = 1;
  size_t last = first;
  for (; last < last_; last++) {
    const JointOperation& operation = *calls_[last - first_];
    const JointPlan& plan = *operation.plan->joint();
    const int64_t needed = plan.least_samples(operation.call, operation.backward);
    if (2 * needed > batch()) break;
    const double flops = plan.flops(operation.call, operation.backward);
    least = std::max(least, needed);
    largest = std::max(largest, flops);
    all += flops;
  }
  const int64_t worth = std::min<int64_t>(batch() / least, static_cast<int64_t>(all / kFlopsPerWorker));
  const int workers = static_cast<int>(std::min<int64_t>(most, worth));
  const bool more_alone = workers < most && largest > kFlopsAlone * (workers + 1);
  if (last - first < 2 || all > kMostFlops || more_alone) return {first, 1};
  return {last, workers};
}

}  // namespace openbnns
