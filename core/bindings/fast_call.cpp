#include "bindings/fast_call.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <new>
#include <thread>

#include "bindings/interruption.h"
#include "bindings/joint_calls.h"
#include "bindings/latest_call.h"
#include "kernels/kernels.h"
#include "runtime/fork.h"
#include "runtime/thread_pool.h"

namespace openbnns {

std::atomic<bool> fast_calls_enabled{true};
std::atomic<bool> filter_calls_enabled{true};

namespace {

Items items_of(const ArgumentSpec& spec) {
  if (spec.item_bytes) return {spec.item_formats.c_str(), spec.item_bytes};
  if (spec.index_bytes == 0) return kFloats;
  if (spec.index_bytes == 1) return {"?b", 1};
  return {spec.index_signed ? "ilqn" : "ILQN", spec.index_bytes};
}

// number == batch * count, for counts above 0
bool fills_batch(int64_t number, int64_t batch, int64_t count) {
  return count > 0 && number > 0 && number % count == 0 && number / count == batch;
}

// A descriptor of exactly the expected form, a zero stride standing for the packed one; gives its accumulate flag, and
// the batch stride if that stands in the descriptor.
template <class Descriptor>
bool matches(const Descriptor& d, const ArgumentSpec& spec, bool& accumulate, int64_t& stride) {
  int64_t layout, data_type, flags = 0, size[kMaxRank + 1], step[kMaxRank + 1];
  if (!d.layout(layout) || layout != spec.layout || !d.data_type(data_type) || data_type != spec.data_type)
    return false;
  const int rank = static_cast<int>(spec.size.size());
  if (!d.size(rank, size) || !d.stride(rank + spec.stride_in_descriptor, step)) return false;
  for (int i = 0; i < rank; i++)
    if (size[i] != spec.size[i] || (step[i] != 0 && step[i] != spec.stride[i])) return false;
  if (spec.stride_in_descriptor) stride = step[rank];
  if (spec.output && (!d.flags(flags) || (flags != 0 && flags != 1))) return false;
  accumulate = flags == 1;
  return true;
}

constexpr int64_t kIndicesPerThread = 1 << 16;

// Every index of a batch is below the limit; in several threads if there are many.
bool indices_fit(const ArgumentSpec& spec, const void* data, int64_t samples, int64_t stride, int threads) {
  const char* index = static_cast<const char*>(data);
  const int64_t worth = std::max<int64_t>(1, samples * spec.count / kIndicesPerThread);
  const int workers = static_cast<int>(std::min<int64_t>(threads > 0 ? threads : max_threads(), worth));
  const Kernels& k = kernels();
  std::atomic<bool> good{true};
  parallel_ranges(workers, samples, [&](int64_t first, int64_t last) {
    for (int64_t n = first; n < last; n++)
      if (!k.indices_below(index + n * stride * spec.index_bytes, spec.index_bytes, spec.count, spec.index_limit,
                           spec.index_none))
        good = false;
  });
  return good;
}

// What an interrupted call has left in the plan is good for nothing.
void run_plan(Plan& plan, bool backward, const Call& call) {
  try {
    backward ? plan.backward(call) : plan.forward(call);
  } catch (const Interrupted&) {
    plan.forget();
    throw;
  }
}

}  // namespace

Work plan_work(std::shared_ptr<Plan> plan, bool backward, const Call& call, std::vector<int> slots, int threads,
               std::vector<ArgumentSpec> checked) {
  return [=](char* const* place) {
    Call placed = call;
    for (size_t i = 0; i < slots.size(); i++) placed.address[slots[i]] = reinterpret_cast<float*>(place[i]);
    placed.threads = threads > 0 ? threads : max_threads();
    for (const ArgumentSpec& spec : checked)
      if (!indices_fit(spec, placed.address[spec.slot], spec.batched ? call.batch : 1, call.stride[spec.slot], threads))
        return false;
    if (backward && !plan->recognizes(placed)) return false;
    try {
      run_plan(*plan, backward, placed);
    } catch (const ForwardLost&) {
      return false;
    }
    return true;
  };
}

FastCall::FastCall(std::shared_ptr<Plan> plan, bool backward, std::vector<ArgumentSpec> arguments,
                   const std::vector<FixedTensor>& fixed, int threads, bool training, bool batched,
                   std::vector<int> lists)
    : plan_(std::move(plan)),
      backward_(backward),
      specs_(std::move(arguments)),
      threads_(threads),
      batched_(batched),
      lists_(std::move(lists)) {
  base_.training = training;
  for (auto [slot, address, bytes] : fixed) {
    base_.address[slot] = reinterpret_cast<float*>(address);
    fixed_.push_back({reinterpret_cast<const char*>(address), reinterpret_cast<const char*>(address) + bytes});
    fixed_bytes_ += bytes;
  }
  for (const ArgumentSpec& spec : specs_) {
    if (spec.output) outputs_ |= 1u << spec.slot;
    has_batch_ |= spec.batched;
    has_needs_ |= spec.needed_with != 0;
  }
}

// Counts a call from Python, unless all have ended. Those of threads that a forked child does not have never end there,
// and do not count.
class FastCall::InProgress {
 public:
  explicit InProgress(FastCall& owner) : owner_(owner) {
    const nb::ft_lock_guard locked(owner.counting_);
    begun_ = !owner.ended_;
    if (!begun_) return;
    if (owner.process_ != fork_generation()) {
      owner.process_ = fork_generation();
      owner.in_progress_ = 0;
    }
    owner.in_progress_++;
  }
  ~InProgress() {
    const nb::ft_lock_guard locked(owner_.counting_);
    owner_.in_progress_ -= begun_;
  }
  InProgress(const InProgress&) = delete;
  explicit operator bool() const { return begun_; }

 private:
  FastCall& owner_;
  bool begun_;
};

bool FastCall::is_in_progress() {
  const nb::ft_lock_guard locked(counting_);
  return in_progress_ && process_ == fork_generation();
}

void FastCall::end_all() {
  ended_ = true;
  while (is_in_progress()) {
    nb::gil_scoped_release unlocked;
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  end();
}

// The arguments of one call, bound to slots, with the stretch of memory that each will touch.
struct FastCall::Binding {
  explicit Binding(const Call& base) : call(base) {}

  Call call;
  const char *begin[Call::kMaxSlots], *end[Call::kMaxSlots];
  uint32_t present = 0;
  int64_t bytes = 0;  // of all memory
};

// Checks the memory of an argument, and puts it into its slot.
inline bool FastCall::place(const ArgumentSpec& spec, const Memory& memory, int64_t stride, bool accumulate,
                            Binding& binding) const {
  const int64_t samples = spec.batched ? binding.call.batch : 1, width = items_of(spec).bytes;
  int64_t needed = spec.count;
  if (spec.kind == ArgumentKind::kCounted) {
    if (stride > kMaxElements) return false;
    needed = stride;  // the number of elements
    stride = needed == 1 ? 0 : spec.count;
  } else {
    if (stride == 0 || !spec.batched) stride = spec.count;
    if (stride < 0 || stride > kMaxElements) return false;
    if (samples > 1) {
      int64_t reach;  // of an address nobody knows how much lies there
      if (__builtin_mul_overflow(stride, samples, &reach) || reach > kMaxElements) return false;
      if (spec.output && stride < spec.count) return false;
      needed += reach - stride;
    }
  }
  needed *= width;
  if (memory.bytes < needed || !is_aligned(memory.begin, width)) return false;
  // A list of calls checks indices at each of its runs: while it takes a call, other numbers may lie there.
  if (spec.index_limit && !is_placing() && !indices_fit(spec, memory.begin, samples, stride, threads_)) return false;

  binding.call.address[spec.slot] = reinterpret_cast<float*>(memory.begin);
  binding.call.stride[spec.slot] = stride;
  if (accumulate) binding.call.accumulate |= 1u << spec.slot;
  binding.present |= 1u << spec.slot;
  binding.begin[spec.slot] = memory.begin;
  binding.end[spec.slot] = memory.begin + needed;
  binding.bytes += needed;
  return true;
}

// Gets the memory of an argument.
template <class Reader>
bool FastCall::bind(const ArgumentSpec& spec, typename Reader::Source source, int64_t stride, Reader& reader,
                    Binding& binding) const {
  if (spec.kind == ArgumentKind::kBuffer && !spec.optional_data) {
    Memory memory;
    return Reader::is_null(source) ||
           (reader.memory(source, items_of(spec), spec.output, memory) && place(spec, memory, stride, false, binding));
  }
  if (spec.kind == ArgumentKind::kCounted) {
    if (stride == 0) return true;
    if (Reader::is_null(source) || !(stride == 1 || fills_batch(stride, binding.call.batch, spec.count))) return false;
  }
  if (Reader::is_null(source) || spec.kind == ArgumentKind::kIgnored) return true;
  Memory memory;
  bool accumulate = false;
  if (spec.kind == ArgumentKind::kDescriptor || spec.optional_data) {
    const typename Reader::Descriptor descriptor(source);
    const Data data = reader.data(descriptor, items_of(spec), spec.output, memory);
    if (data == Data::kAbsent) return spec.optional_data;
    if (data == Data::kOther || !matches(descriptor, spec, accumulate, stride)) return false;
  }
  if (spec.kind == ArgumentKind::kRefused) return false;
  if (spec.kind != ArgumentKind::kDescriptor && !reader.memory(source, items_of(spec), spec.output, memory))
    return false;
  return place(spec, memory, stride, accumulate, binding);
}

// Everything needed is there, and no output touches other memory of the call except where in-place use is allowed.
bool FastCall::consistent(const Binding& b) const {
  if (has_needs_)
    for (const ArgumentSpec& spec : specs_)
      if ((spec.needed_with & b.present) && !((spec.unless | 1u << spec.slot) & b.present)) return false;
  for (const ArgumentSpec& spec : specs_) {
    if (!spec.output || !(b.present >> spec.slot & 1)) continue;
    const char *begin = b.begin[spec.slot], *end = b.end[spec.slot];
    for (auto [first, last] : fixed_)
      if (begin < last && first < end) return false;
    for (uint32_t others = b.present & ~(1u << spec.slot); others; others &= others - 1) {
      const int other = __builtin_ctz(others);
      if (begin >= b.end[other] || b.begin[other] >= end) continue;
      const bool in_place =
          begin == b.begin[other] && b.call.stride[spec.slot] == b.call.stride[other] && (spec.may_equal >> other & 1);
      if (!in_place) return false;
    }
  }
  return b.present & outputs_;
}

// How workers make the call together with others; null if they cannot, because of the plan or of samples that overlap.
std::shared_ptr<const JointOperation> FastCall::joint_operation(const Binding& b, const std::vector<int>& slots) const {
  if (!plan_->joint()) return nullptr;
  std::vector<Access> accesses;
  for (auto [begin, end] : fixed_) accesses.push_back({begin, end, 0, false});
  for (const ArgumentSpec& spec : specs_) {
    if (!(b.present >> spec.slot & 1)) continue;
    if (spec.batched && b.call.stride[spec.slot] < spec.count) return nullptr;
    const int64_t stride = spec.batched ? b.call.stride[spec.slot] * items_of(spec).bytes : 0;
    accesses.push_back({b.begin[spec.slot], b.end[spec.slot], stride, spec.output});
  }
  return JointOperation::make(plan_, backward_, b.call, slots, std::move(accesses));
}

bool FastCall::perform_recorded(const Binding& b) {
  Operation operation;
  std::vector<int> slots;
  std::vector<ArgumentSpec> checked;
  for (const ArgumentSpec& spec : specs_) {
    if (!(b.present >> spec.slot & 1)) continue;
    operation.places.push_back(reinterpret_cast<char*>(b.call.address[spec.slot]));
    slots.push_back(spec.slot);
    if (spec.index_limit) checked.push_back(spec);
  }
  if (threads_ == 0 && checked.empty()) operation.joint = joint_operation(b, slots);
  operation.work = plan_work(plan_, backward_, b.call, std::move(slots), threads_, std::move(checked));
  operation.enabled = &filter_calls_enabled;
  operation.number = number();
  operation.bytes = b.bytes;
  try {
    return perform(std::move(operation));
  } catch (const std::bad_alloc&) {
    spoil_recording();
    return false;
  }
}

template <class Reader>
bool FastCall::bind_all(const typename Reader::Source* arguments, size_t given, Reader& reader,
                        Binding& binding) const {
  size_t next = 0;
  Call& call = binding.call;
  binding.bytes = fixed_bytes_;
  if (batched_ && (given < 1 || !Reader::integer(arguments[next++], call.batch) || call.batch < 1)) return false;
  if (!has_batch_) call.batch = 1;  // nothing but parameters: one result for any number of samples
  for (const ArgumentSpec& spec : specs_) {
    const bool here = next < given;  // what is left out is NULL
    const size_t place = next;
    next += here;
    int64_t stride = 0;
    if (spec.strided && (next >= given || !Reader::integer(arguments[next++], stride))) return false;
    if (here && !bind(spec, arguments[place], stride, reader, binding)) return false;
  }
  if (next != given || !consistent(binding) || (backward_ && !plan_->recognizes(call))) return false;
  call.threads = threads_ > 0 ? threads_ : max_threads();
  return true;
}

int FastCall::run_prepared(const Call& call) const {
  try {
    run_plan(*plan_, backward_, call);
  } catch (const std::bad_alloc&) {  // no room for scratch: the Python path words the failure
    return kDeclined;
  } catch (const ForwardLost&) {
    return kDeclined;
  }
  return kDone;
}

int FastCall::run(PyObject* const* arguments, size_t count) {
  const int done = run_given(arguments, count);
  if (done == kDone || !is_placing()) return done;
  spoil_recording();  // and not the Python path, which would make the call
  return kDone;
}

int FastCall::run_given(PyObject* const* arguments, size_t count) {
  if (!filter_calls_enabled.load(std::memory_order_relaxed) || ended_) return kDeclined;
  Binding binding(base_);
  PythonReader reader(Call::kMaxSlots);
  if (!bind_given(arguments, count, reader, binding)) return kDeclined;
  const InProgress in_progress(*this);
  if (!in_progress) return kDeclined;
  if (is_recording()) {
    if (!perform_recorded(binding)) return kDeclined;
  } else {
    Unlocked unlocked(binding.bytes >= kInterruptibleBytes);
    if (run_prepared(binding.call) != kDone) return kDeclined;
  }
  latest_call_succeeded();
  return kDone;
}

int FastCall::run_raw(const OpenBNNSWord* words, size_t count) {
  if (!filter_calls_enabled.load(std::memory_order_relaxed) || ended_ || is_recording()) return kDeclined;
  Binding binding(base_);
  RawReader reader(Call::kMaxSlots);
  if (!bind_given(words, count, reader, binding) || run_prepared(binding.call) != kDone) return kDeclined;
  latest_call_succeeded();
  return kDone;
}

// Arguments as they are given, some of them as lists.
template <class Reader>
bool FastCall::bind_given(const typename Reader::Source* arguments, size_t given, Reader& reader,
                          Binding& binding) const {
  if (lists_.empty()) return bind_all(arguments, given, reader, binding);
  typename Reader::Source flat[kMostArguments];
  size_t count = 0;
  return flatten(arguments, given, reader, flat, count) && bind_all(flat, count, reader, binding);
}

// Puts each item of a list, followed by its stride if the list comes with a list of strides, in the place of an
// argument. NULL stands for a list of NULLs.
template <class Reader>
bool FastCall::flatten(const typename Reader::Source* arguments, size_t given, Reader& reader,
                       typename Reader::Source* flat, size_t& count) const {
  size_t next = 0, spec = 0;
  const auto take = [&] { return next < given ? arguments[next++] : Reader::null(); };
  if (batched_) flat[count++] = take();
  for (int size : lists_) {
    const bool strided = spec < specs_.size() && specs_[spec].strided;
    const typename Reader::Source tensors = take(), strides = strided ? take() : Reader::null();
    const int items = size < 0 ? 1 : size;
    if (count + 2 * static_cast<size_t>(items) > kMostArguments) return false;
    const bool listed = size >= 0 && !Reader::is_null(tensors);
    if (listed && !(Reader::is_list(tensors, size) && (!strided || Reader::is_list(strides, size)))) return false;
    for (int i = 0; i < items; i++, spec++) {
      flat[count++] = listed ? reader.item(tensors, i) : tensors;
      if (strided) flat[count++] = listed ? reader.item(strides, i) : size < 0 ? strides : Reader::zero();
    }
  }
  return next == given;
}

}  // namespace openbnns
