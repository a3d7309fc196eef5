// Executions of a graph's context that are repeated without Python: those of C programs, on any thread and without the
// interpreter's lock, and those of Python programs.
#pragma once
#include <nanobind/nanobind.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "bindings/call_list.h"
#include "bindings/element_conversions.h"
#include "bindings/numbered.h"
#include "bindings/reader.h"

namespace openbnns {

namespace nb = nanobind;

// Taken by the thread that executes a context, from Python or natively. In a forked child, threads that it does not
// have never end, and do not count.
class Busy {
 public:
  // Without waiting; false if another thread has it.
  bool acquire();
  void release() { holder_.store(0, std::memory_order_release); }

 private:
  std::atomic<uint64_t> holder_{0};  // fork_generation() of the process whose thread holds it
};

// An argument of BNNSGraphContextExecute (bnns_graph_argument_t): memory and its bytes, or a BNNSTensor.
struct GraphArgument {
  char* data;
  uint64_t bytes;
};

// A function of a context for certain sizes.
//
// Its calls and their memory belong to it alone. Inputs are read where they lie, or are copied or converted to where
// the calls read them. Outputs are copied or converted when all calls are done: so they may overlap inputs, and nothing
// has been written if a call declines. A state is both, read first and written last.
class GraphCall {
 public:
  struct Options {
    bool tensors;  // arguments are BNNSTensor, not memory
    bool checks;   // values that are not finite are to be reported
  };

  // calls: a CallList, or None if they need Python. keep: an object that keeps their memory. arithmetic: that of the
  // process before the calls were looked up (arithmetic_count). function: its name; is_default: NULL stands for it,
  // too. checks: it knows all values that have to be finite.
  GraphCall(nb::object calls, uint64_t weights, nb::object keep, uint64_t arithmetic, const nb::bytes& function,
            bool is_default, bool checks);

  // The next argument. type: of its elements, by NumPy's letter. source, target: where the calls read and write it, 0
  // if they do not; planned: its type there. movable: they may read it elsewhere. data_type, name: fields of a
  // BNNSTensor.
  void add_argument(char type, const std::vector<int64_t>& shape, bool is_input, bool is_output, uintptr_t source,
                    uintptr_t target, char planned, bool movable, uint32_t data_type, uintptr_t name);
  // The latest argument is a state in memory of the context, which programs find in its place.
  void keep_state(uintptr_t memory) { arguments_.back().own = reinterpret_cast<char*>(memory); }
  // It becomes the entries of a value along an axis, from `first` on, and begins anew behind the last one. outer,
  // inner: elements along the axes before and after; length, entries: of the value and of the state along the axis
  // itself.
  void add_ring(uintptr_t value, int64_t outer, int64_t length, int64_t entries, int64_t inner, int64_t first) {
    arguments_.back().ring = {reinterpret_cast<const char*>(value), outer, length, entries, inner, first};
  }
  // Floats of the calls that have to be finite, else Python reports them. halved: they are stored as float16.
  void add_checked(uintptr_t floats, int64_t count, bool halved);

  // True while the context has these sizes for its function.
  void set_selected(bool selected) { selected_.store(selected); }
  // False once it has ended, or another arithmetic has been chosen: then it always declines.
  bool is_current() const;
  void end() { ended_.store(true); }
  bool is_native() const { return calls_ != nullptr; }
  bool is_long() const;

  // One thread at a time: finds the arguments of a call; false if they are not as this needs them.
  bool takes(const char* function, size_t count, GraphArgument* given, Options options);
  bool takes_arrays(const nb::list& arrays, Held& views, Options options);
  // Brings inputs to where the calls read them; with in_place, the calls may read them where they lie.
  void read(bool in_place);
  bool run();
  // Writes the outputs; false, with nothing written, if they cannot be converted or have to be reported.
  bool write();

 private:
  static constexpr size_t kMostAxes = 8;
  struct Tensor {  // BNNSTensor
    uint32_t type;
    uint8_t rank;
    int64_t shape[kMostAxes], stride[kMostAxes];
    char* data;
    uint64_t bytes;
    const char* name;
  };
  struct Ring {
    const char* value;
    int64_t outer, length, entries, inner, first;
  };
  struct Argument {
    char letter;
    bool is_input, is_output;
    std::vector<int64_t> shape;
    int64_t count, element, bytes;  // of the program
    char *source, *target;
    int64_t planned;                   // bytes of an element there
    ConvertElements read, write;       // null: the calls have the same type
    ElementsFit fits;                  // null: all numbers can be converted
    CallList::Redirected* redirected;  // null: it is always copied
    char* own;                         // null: the program has its memory
    Ring ring;                         // without a value: none
    Tensor tensor;
  };
  struct Checked {
    const float* floats;
    int64_t count;
    float limit;
  };
  // Memory that the program passes for an argument.
  struct Place {
    char* data;
    const int64_t* stride;  // in elements; null if there are no gaps
    Tensor* tensor;         // null for plain memory
    GraphArgument* found;   // what the program finds changed, if it is memory of the context
  };
  bool is_open(Options options) const;
  bool finds(const Argument& argument, GraphArgument& given, bool tensors, Place& place) const;
  bool finds_tensor(const Argument& argument, Tensor& tensor, Place& place) const;
  void store(const Argument& argument, const Place& place) const;
  void advance(const Argument& argument, char* state) const;
  void describe(const Argument& argument, const Place& place) const;

  nb::object kept_calls_, keep_;
  CallList* calls_;
  uint64_t weights_, arithmetic_;
  std::string function_;
  bool is_default_, checks_;
  std::atomic<bool> selected_{true}, ended_{false};
  std::vector<Argument> arguments_;
  std::vector<Checked> checked_;
  std::vector<Place> places_;  // of the arguments of the present execution
};

// All that a context repeats: a few functions, and a few sizes of each.
class GraphCalls final : public Numbered {
 public:
  static constexpr size_t kMost = 16;

  explicit GraphCalls(nb::object busy);
  ~GraphCalls() override { end(); }

  // At most kMost.
  void add(nb::object call);
  void set_options(bool tensors, bool checks);

  // words: those of BNNSGraphContextExecute after its context.
  int run_raw(const OpenBNNSWord* words, size_t count) override;
  // One of the calls on arrays of Python; false, with nothing written, if Python has to look.
  bool run(size_t index, const nb::list& arrays);

  // An execution in two halves around what Python computes. take: the index of the call whose inputs are now where it
  // reads them, or -1. The context is busy then until give, which is false if outputs cannot be written, or until drop.
  int64_t take(uintptr_t function, size_t count, uintptr_t arguments);
  bool give(size_t index);
  void drop() { busy_.release(); }

  // The index of the call that was executed last; -1 if there was none since this was asked.
  int64_t latest() { return latest_.exchange(-1); }

  // Lets no executions begin, and waits for those by number. False if another thread executes on behalf of Python.
  bool finish();

 private:
  int64_t find(const char* function, size_t count, GraphArgument* given);

  nb::object kept_busy_;
  Busy& busy_;
  std::vector<nb::object> kept_;
  GraphCall* calls_[kMost];
  std::atomic<size_t> count_{0};
  std::atomic<bool> tensors_{false}, checks_{false}, ended_{false};
  std::atomic<int64_t> latest_{-1};
};

void bind_graph_call(nb::module_& m);

}  // namespace openbnns
