// The fast path to a plan: arguments in the form that kernels take are checked in constant time and run at once.
//
// Anything else (other strides or element types, overlapping buffers, mistakes) is declined without a message: the
// caller then takes the Python path, which knows every rule and every message.
#pragma once
#include <nanobind/nanobind.h>

#include <atomic>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings/numbered.h"
#include "bindings/reader.h"
#include "bindings/recording.h"
#include "runtime/plan.h"

namespace openbnns {

namespace nb = nanobind;

// kIgnored: whatever is given has no effect; kRefused: only NULL is simple enough; kCounted: a buffer followed by its
// number of elements, 0 (absent), 1 (for everything; its stride in the call is 0) or `count` per sample.
enum class ArgumentKind { kBuffer = 0, kDescriptor = 1, kIgnored = 2, kRefused = 3, kCounted = 4 };

// What one argument of the call must be like to be used as it is.
struct ArgumentSpec {
  int slot = 0;
  ArgumentKind kind = ArgumentKind::kBuffer;
  bool strided = true;  // followed by a batch stride argument
  bool batched = true;  // has one sample per batch entry; otherwise one copy for all
  bool output = false;
  int64_t count = 0;         // elements of one sample (or of the parameter)
  uint32_t needed_with = 0;  // slots; if any of them is present, this one must be too
  uint32_t unless = 0;       // slots that make up for its absence
  uint32_t may_equal = 0;    // slots that may have the very same address (in-place use)
  int64_t layout = 0;        // of a descriptor
  std::vector<int64_t> size, stride;
  int index_bytes = 0;      // 1 (Boolean), 4 or 8: the elements are integers of that many bytes, not floats
  int64_t index_limit = 0;  // inputs: indices must be below, or have all bits set if that stands for "none"
  bool index_none = false;
  bool index_signed = false;          // the buffer holds signed integers; none of them may be negative
  std::string item_formats;           // of elements that are neither floats nor indices, as in Items
  int64_t item_bytes = 0;             // 0: there are none
  int64_t data_type = kFloat32;       // of a descriptor
  bool optional_data = false;         // a descriptor without data counts as absent
  bool stride_in_descriptor = false;  // the batch stride is stride[rank] of the descriptor, one past the used ones
};

// A tensor that is the same at every call (weights, bias): slot, address, bytes.
using FixedTensor = std::tuple<int, uintptr_t, int64_t>;

// Off while an engine other than the native one is chosen.
extern std::atomic<bool> fast_calls_enabled;

// Whether filters use their fast calls: also off while any thread is in strict mode, which looks at every call.
extern std::atomic<bool> filter_calls_enabled;

// A run of a plan with its addresses in `slots`; 0 threads means as many as are allowed. It declines if the training
// forward that backward needs is lost, or if any of the `checked` indices is out of range.
Work plan_work(std::shared_ptr<Plan> plan, bool backward, const Call& call, std::vector<int> slots, int threads,
               std::vector<ArgumentSpec> checked = {});

class FastCall final : public NativeCall {
 public:
  FastCall(std::shared_ptr<Plan> plan, bool backward, std::vector<ArgumentSpec> arguments,
           const std::vector<FixedTensor>& fixed, int threads, bool training = false, bool batched = true,
           std::vector<int> lists = {});
  ~FastCall() override { end(); }

  // arguments: the batch (of a call that has one), then each argument of the specification, a strided one followed by
  // its stride. Where several arguments come as a list, `lists` has its length, and -1 for an argument by itself; a
  // list of strided tensors is followed by the list of their strides.
  int run(PyObject* const* arguments, size_t count) override;
  int run_raw(const OpenBNNSWord* words, size_t count) override;
  // Waits for calls in progress, from Python and from C programs, and declines all that follow.
  void end_all();

 private:
  struct Binding;
  class InProgress;
  template <class Reader>
  bool bind_given(const typename Reader::Source* arguments, size_t given, Reader& reader, Binding& binding) const;
  template <class Reader>
  bool flatten(const typename Reader::Source* arguments, size_t given, Reader& reader, typename Reader::Source* flat,
               size_t& count) const;
  template <class Reader>
  bool bind_all(const typename Reader::Source* arguments, size_t given, Reader& reader, Binding& binding) const;
  template <class Reader>
  bool bind(const ArgumentSpec& spec, typename Reader::Source source, int64_t stride, Reader& reader,
            Binding& binding) const;
  bool place(const ArgumentSpec& spec, const Memory& memory, int64_t stride, bool accumulate, Binding& binding) const;
  bool consistent(const Binding& binding) const;
  std::shared_ptr<const JointOperation> joint_operation(const Binding& binding, const std::vector<int>& slots) const;
  bool perform_recorded(const Binding& binding);
  int run_given(PyObject* const* arguments, size_t count);
  bool is_in_progress();
  int run_prepared(const Call& call) const;

  std::atomic<bool> ended_{false};
  int in_progress_ = 0;    // calls from Python, in the process of this fork_generation()
  uint64_t process_ = 0;   // both change under Python's lock
  nb::ft_mutex counting_;  // or under this one, where Python has none
  std::shared_ptr<Plan> plan_;
  bool backward_;
  std::vector<ArgumentSpec> specs_;
  Call base_;
  int threads_;
  bool batched_;            // the first argument is the size of the batch; otherwise there is one sample
  std::vector<int> lists_;  // empty if no arguments come as lists
  uint32_t outputs_ = 0;
  int64_t fixed_bytes_ = 0;
  bool has_needs_ = false;                                  // some argument is needed with another
  bool has_batch_ = false;                                  // some argument has one sample per batch entry
  std::vector<std::pair<const char*, const char*>> fixed_;  // first and one past the last byte of each fixed tensor
};

}  // namespace openbnns
