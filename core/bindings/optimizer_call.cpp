#include "bindings/optimizer_call.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings/c_interface.h"
#include "bindings/fast_call.h"
#include "bindings/key_table.h"
#include "bindings/latest_call.h"
#include "bindings/numbered.h"
#include "bindings/packed_tensor.h"
#include "bindings/reader.h"
#include "bindings/recording.h"
#include "kernels/kernels.h"
#include "runtime/thread_pool.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace openbnns {
namespace {

// Fields of the structs of optimizers that may change from step to step: VALUES in filters/_optimizer_step.py.
enum OptimizerValue { kLearningRate, kMomentum, kBeta1, kBeta2, kAlpha, kEpsilon, kValues = 12 };

// A number of a rule: offset + factor * product of values, or its magnitude.
struct Term {
  using Given = std::tuple<double, double, std::vector<int>, bool>;

  explicit Term(const Given& given) : offset(std::get<0>(given)), product(std::get<1>(given)) {
    for (int value : std::get<2>(given)) {
      if (value < 0 || value >= kValues || count == kMost) throw nb::index_error("Term: there is no such value");
      values[count++] = value;
    }
    magnitude = std::get<3>(given);
  }
  double at(const double* of) const {
    double number = product;
    for (int i = 0; i < count; i++) number *= of[values[i]];
    if (offset != 0.0) number += offset;  // or else a negative zero would become a positive one
    return magnitude ? std::abs(number) : number;
  }

  static constexpr int kMost = 2;
  double offset, product;
  int values[kMost], count = 0;
  bool magnitude;
};

// One kind of optimizer, and a rule of that kind: runs steps whose tensors are packed float32 in memory that can be
// checked in constant time. Anything else is declined without a word, and the Python path, which knows every message,
// takes over.
class OptimizerStep {
 public:
  // terms: before, after, low, high, l1, l2, max_norm, use_norm, norm_scale, learning_rate, momentum,
  // gradient_weight, velocity_step, gradient_step, keep1, add1, keep2, add2, decay; states: the place in
  // OptimizerTensor::state of each accumulator, in the order of roles; layouts: those without holes or tricks.
  OptimizerStep(int kind, int form, int clipping, const std::vector<Term::Given>& terms,
                const std::vector<double>& values, std::vector<int> states, std::vector<int64_t> layouts)
      : states_(std::move(states)), layouts_(std::move(layouts)) {
    if (terms.size() != kTerms || values.size() != kValues)
      throw nb::index_error("OptimizerStep: wrong number of terms");
    for (const Term::Given& term : terms) terms_.emplace_back(term);
    rule_.kind = static_cast<OptimizerKind>(kind);
    rule_.form = static_cast<MomentumForm>(form);
    rule_.clipping = clipping;
    rule_ = rule_at(values.data());
    std::sort(layouts_.begin(), layouts_.end());
  }

  // The rule of the same kind with other values.
  OptimizerRule rule_at(const double* values) const {
    OptimizerRule r = rule_;
    float* floats[] = {&r.before, &r.after, &r.low, &r.high, &r.l1, &r.l2};
    float* others[] = {&r.learning_rate, &r.momentum, &r.gradient_weight, &r.velocity_step, &r.gradient_step,
                       &r.keep1,         &r.add1,     &r.keep2,           &r.add2,          &r.decay};
    const Term* next = terms_.data();
    for (float* place : floats) *place = static_cast<float>((next++)->at(values));
    for (double* place : {&r.max_norm, &r.use_norm, &r.norm_scale}) *place = (next++)->at(values);
    for (float* place : others) *place = static_cast<float>((next++)->at(values));
    return r;
  }

  // (factor of m / (root + epsilon), epsilon) of a step, as step_size in Python has them.
  std::pair<double, double> step_size(const double* values, double time_step, bool corrected_epsilon) const {
    const double epsilon = values[kEpsilon];
    if (rule_.kind == OptimizerKind::kAdam) {
      const double first = 1.0 - std::pow(values[kBeta1], time_step);
      const double second = std::sqrt(1.0 - std::pow(values[kBeta2], time_step));
      return {values[kLearningRate] * second / first, corrected_epsilon ? epsilon * second : epsilon};
    }
    if (rule_.kind == OptimizerKind::kAdamax)
      return {values[kLearningRate] / (1.0 - std::pow(values[kBeta1], time_step)), epsilon};
    return {0.0, epsilon};
  }

  // parameters, gradients: lists of at least `count` tensors; accumulators: as many for each role, or None. Tensors are
  // descriptors, or arrays if those are allowed.
  int run(double step, double epsilon, int64_t count, nb::handle parameters, nb::handle gradients,
          nb::handle accumulators, int threads, bool arrays) const {
    if (!fast_calls_enabled || count < 0 || count > kMostTensors) return kDeclined;
    const auto items = [](nb::handle list) { return [list](int64_t i) { return list_item(list.ptr(), i); }; };
    const auto long_enough = [](nb::handle list, int64_t size) {
      return is_list(list.ptr()) && list_size(list.ptr()) >= size;
    };
    if (!long_enough(parameters, count) || !long_enough(gradients, count)) return kDeclined;
    if (!states_.empty() && !long_enough(accumulators, roles() * count)) return kDeclined;
    try {
      PythonReader reader(static_cast<size_t>((2 + roles()) * count));
      std::vector<OptimizerTensor> tensors(static_cast<size_t>(count));
      if (!bind_all(reader, tensors, arrays, items(parameters), items(gradients), items(accumulators)))
        return kDeclined;
      if (is_recording()) return perform_recorded(step, epsilon, tensors, threads);
      nb::gil_scoped_release unlocked;
      return carry_out(rule_, step, epsilon, tensors, threads);
    } catch (const std::bad_alloc&) {
      return kDeclined;
    }
  }

  // The same with other values and arrays of pointers to C descriptors, without the interpreter.
  int run_raw(const double* values, double step, double epsilon, int64_t count, OpenBNNSWord parameters,
              OpenBNNSWord gradients, OpenBNNSWord accumulators, int threads) const {
    if (count < 0 || count > kMostTensors) return kDeclined;
    if (count > 0 && (!parameters.pointer || !gradients.pointer)) return kDeclined;
    if (count > 0 && !states_.empty() && !accumulators.pointer) return kDeclined;
    const auto items = [](OpenBNNSWord array) {
      return [array](int64_t i) { return static_cast<const OpenBNNSWord*>(array.pointer)[i]; };
    };
    try {
      RawReader reader(0);
      std::vector<OptimizerTensor> tensors(static_cast<size_t>(count));
      if (!bind_all(reader, tensors, false, items(parameters), items(gradients), items(accumulators))) return kDeclined;
      return carry_out(rule_at(values), step, epsilon, tensors, threads);
    } catch (const std::bad_alloc&) {
      return kDeclined;
    }
  }

  // The tensors of arrays that stay where they are; false if they are not as this needs them.
  bool place_all(nb::list parameters, nb::list gradients, nb::list accumulators, std::vector<OptimizerTensor>& tensors,
                 std::vector<char*>& places) const {
    const auto count = static_cast<int64_t>(parameters.size());
    if (count > kMostTensors || static_cast<int64_t>(gradients.size()) != count ||
        static_cast<int64_t>(accumulators.size()) != roles() * count)
      return false;
    const auto items = [](nb::list list) { return [list](int64_t i) { return list_item(list.ptr(), i); }; };
    PythonReader reader(static_cast<size_t>((2 + roles()) * count));
    tensors.resize(static_cast<size_t>(count));
    if (!bind_all(reader, tensors, true, items(parameters), items(gradients), items(accumulators))) return false;
    places = places_of(tensors);
    return true;
  }

  static int carry_out(OptimizerRule rule, double step, double epsilon, const std::vector<OptimizerTensor>& tensors,
                       int threads) {
    rule.step = static_cast<float>(step);
    rule.epsilon = static_cast<float>(epsilon);
    kernels().optimizer_step(rule, tensors.data(), static_cast<int64_t>(tensors.size()),
                             threads > 0 ? threads : max_threads());
    latest_call_succeeded();
    return kDone;
  }

  // Bytes of these tensors that a step touches.
  int64_t bytes(const std::vector<OptimizerTensor>& tensors) const {
    int64_t total = 0;
    for (const OptimizerTensor& t : tensors) total += (2 + roles()) * t.count * 4;
    return total;
  }

 private:
  static constexpr int64_t kMostTensors = INT64_C(1) << 24;
  static constexpr size_t kTerms = 19;

  int64_t roles() const { return static_cast<int64_t>(states_.size()); }

  template <class Reader, class Items>
  bool bind_all(Reader& reader, std::vector<OptimizerTensor>& tensors, bool arrays, Items parameters, Items gradients,
                Items accumulators) const {
    const auto count = static_cast<int64_t>(tensors.size());
    std::vector<Stretch> stretches;
    stretches.reserve(static_cast<size_t>((2 + roles()) * count));
    for (int64_t i = 0; i < count; i++) {
      OptimizerTensor& t = tensors[static_cast<size_t>(i)];
      Form form, other;
      float* gradient;
      int64_t elements;
      if (!bind(parameters(i), arrays, true, reader, stretches, form, t.w, t.count)) return false;
      if (!bind(gradients(i), arrays, false, reader, stretches, other, gradient, elements) || !(form == other))
        return false;
      t.gradient = gradient;
      for (int64_t role = 0; role < roles(); role++) {
        float*& state = t.state[states_[static_cast<size_t>(role)]];
        if (!bind(accumulators(role * count + i), arrays, true, reader, stretches, other, state, elements) ||
            !(form == other))
          return false;
      }
    }
    return !overlap(stretches.data(), stretches.data() + stretches.size());
  }

  std::vector<char*> places_of(const std::vector<OptimizerTensor>& tensors) const {
    std::vector<char*> places;
    const auto add = [&](const float* p) { places.push_back(reinterpret_cast<char*>(const_cast<float*>(p))); };
    for (const OptimizerTensor& t : tensors) {
      add(t.w);
      add(t.gradient);
      for (int role : states_) add(t.state[role]);
    }
    return places;
  }

  // The size of the step is that of this call, whenever it is repeated.
  int perform_recorded(double step, double epsilon, const std::vector<OptimizerTensor>& tensors, int threads) const {
    Operation operation;
    operation.places = places_of(tensors);
    operation.bytes = bytes(tensors);
    operation.work = [=, self = *this](char* const* place) {
      std::vector<OptimizerTensor> placed = tensors;
      const auto next = [&place] { return reinterpret_cast<float*>(*place++); };
      for (OptimizerTensor& t : placed) {
        t.w = next();
        t.gradient = next();
        for (int role : self.states_) t.state[role] = next();
      }
      return carry_out(self.rule_, step, epsilon, placed, threads) == kDone;
    };
    operation.enabled = &fast_calls_enabled;
    return perform(std::move(operation)) ? kDone : kDeclined;
  }

  // Gets the memory of a tensor: an array's own, or that of a descriptor.
  bool bind(const nb::object& tensor, bool arrays, bool written, PythonReader& reader, std::vector<Stretch>& stretches,
            Form& form, float*& address, int64_t& count) const {
    if (!tensor.is_valid()) return false;
    if (!arrays || !PyObject_CheckBuffer(tensor.ptr()))
      return bind_descriptor(PythonReader::Descriptor(tensor.ptr()), written, reader, stretches, form, address, count);
    Memory memory;
    if (!reader.memory(tensor.ptr(), kFloats, written, memory)) return false;
    if (memory.view->ndim > kMaxRank || memory.view->itemsize != 4) return false;
    form.rank = memory.view->ndim;
    std::copy(memory.view->shape, memory.view->shape + form.rank, form.size);
    return place(memory, memory.bytes / 4, written, stretches, address, count);
  }
  bool bind(OpenBNNSWord tensor, bool, bool written, RawReader& reader, std::vector<Stretch>& stretches, Form& form,
            float*& address, int64_t& count) const {
    return tensor.pointer &&
           bind_descriptor(RawReader::Descriptor(tensor), written, reader, stretches, form, address, count);
  }

  // A packed Float32 descriptor.
  template <class Reader>
  bool bind_descriptor(const typename Reader::Descriptor& d, bool written, Reader& reader,
                       std::vector<Stretch>& stretches, Form& form, float*& address, int64_t& count) const {
    Memory memory;
    int64_t elements;
    if (!read_packed(d, layouts_, written, reader, form, memory, elements)) return false;
    return place(memory, elements, written, stretches, address, count);
  }

  static bool place(const Memory& memory, int64_t elements, bool written, std::vector<Stretch>& stretches,
                    float*& address, int64_t& count) {
    if (reinterpret_cast<uintptr_t>(memory.begin) % 4 != 0) return false;
    address = reinterpret_cast<float*>(memory.begin);
    count = elements;
    if (count > 0) stretches.push_back({memory.begin, memory.begin + count * 4, written});
    return true;
  }

  OptimizerRule rule_;
  std::vector<Term> terms_;
  std::vector<int> states_;
  std::vector<int64_t> layouts_;
};

// Steps on arrays that stay where they are, one after the other. It counts them itself and keeps the values of the
// rule, so that a list of calls with a step in it (call_list.h) runs without Python in between.
class RepeatedStep {
 public:
  RepeatedStep(const OptimizerStep& step, bool corrected_epsilon, const std::vector<double>& values,
               nb::list parameters, nb::list gradients, nb::list accumulators)
      : arrays_(nb::make_tuple(parameters, gradients, accumulators)), state_(std::make_shared<State>(step)) {
    if (values.size() != kValues) throw nb::index_error("RepeatedStep: wrong number of values");
    std::copy(values.begin(), values.end(), state_->values);
    state_->corrected_epsilon = corrected_epsilon;
    state_->rule = step.rule_at(state_->values);
    placed_ = step.place_all(parameters, gradients, accumulators, state_->tensors, places_);
  }

  // Whether the arrays are such that it can run.
  bool is_placed() const { return placed_; }

  // single: round it to float32 first, as the structs of optimizers do.
  void set_learning_rate(double rate, bool single) {
    if (single) rate = static_cast<float>(rate);
    if (rate == state_->values[kLearningRate]) return;
    state_->values[kLearningRate] = rate;
    state_->rule = state_->step.rule_at(state_->values);
  }
  double steps() const { return state_->steps; }
  void set_steps(double steps) { state_->steps = steps; }

  // False if native calls are off: nothing is done then.
  bool run() {
    if (!fast_calls_enabled || !placed_) return false;
    Operation operation;
    operation.places = places_;
    operation.bytes = state_->step.bytes(state_->tensors);
    operation.work = [state = state_](char* const*) { return state->run(); };
    operation.enabled = &fast_calls_enabled;
    return perform(std::move(operation));
  }

 private:
  struct State {
    explicit State(const OptimizerStep& step) : step(step) {}

    bool run() {
      const auto [size, epsilon] = step.step_size(values, steps + 1.0, corrected_epsilon);
      OptimizerStep::carry_out(rule, size, epsilon, tensors, 0);
      steps += 1.0;
      return true;
    }

    OptimizerStep step;
    OptimizerRule rule;
    double values[kValues];
    bool corrected_epsilon;
    double steps = 0.0;  // behind it
    std::vector<OptimizerTensor> tensors;
  };

  nb::tuple arrays_;  // keeps them alive
  std::shared_ptr<State> state_;
  std::vector<char*> places_;
  bool placed_;
};

// BNNSOptimizerStep as C programs call it: function, OptimizerAlgFields, number_of_parameters, parameters, gradients,
// accumulators, filter_params. Python reads and checks a struct of a kind once: choices, and which values are 0. Others
// of that kind may have other values, as long as these are within their ranges.
class OptimizerFunction final : public Numbered {
 public:
  using Range = std::tuple<int, double, double>;  // a value, the least and the most that it may be

  // What else a kind comes with. ordered: the lower bound of gradients must not exceed the upper one.
  struct Limits {
    bool corrected_epsilon, ordered;
    std::vector<Range> ranges;

    bool hold(const double* values) const {
      for (auto [value, low, high] : ranges)
        if (!(low <= values[value] && values[value] <= high)) return false;
      return !ordered || values[kLow] <= values[kHigh];
    }
    static constexpr int kLow = 8, kHigh = 9;
  };

  // name: the struct that belongs to a function; values: the OptimizerValue of each of its floats.
  void describe(int function, const std::string& name, const std::vector<int>& values) {
    const CStruct* layout = named(kOptimizerStructs, name.c_str());
    if (!layout || layout->count != values.size()) throw nb::key_error(name.c_str());
    if (0 <= function && function < kFunctions && !described_[function])
      described_[function] = new Described{*layout, values};  // for ever: threads outside the interpreter read it
  }

  // fields: those of the struct but for the time step.
  void add(int function, const std::vector<double>& fields, const OptimizerStep& step, const Limits& limits) {
    if (known_.size() >= kMostKinds) forget();
    Key key;
    size_t next = 0;
    key.add(static_cast<double>(function));
    const CStruct layout = described_[function].load()->layout;
    for (size_t i = 0; i < layout.count; i++)
      if (!is_time_step(layout.fields[i])) add_field(key, layout.fields[i], fields.at(next++));
    if (!key.full() && !known_.copy(key.text())) known_.add(std::string(key.text()), {step, limits});
  }

  void forget() {
    known_.clear([this] { end(); });
  }

  int run_raw(const OpenBNNSWord* words, size_t count) override {
    if (!fast_calls_enabled || is_recording() || count != 7 || !words[1].pointer) return kDeclined;
    int threads;
    double time_step = 1.0, values[kValues] = {};
    Key key;
    if (!read_threads(words[6], threads) || !read(words, key, values, time_step)) return kDeclined;
    const Known* known = known_.find(key.text());  // stays while this call uses the number
    if (!known || !known->limits.hold(values) || !(time_step >= 1.0) || !std::isfinite(time_step)) return kDeclined;
    const auto [step, epsilon] = known->step.step_size(values, time_step, known->limits.corrected_epsilon);
    return known->step.run_raw(values, step, epsilon, static_cast<int64_t>(words[2].number), words[3], words[4],
                               words[5], threads);
  }

 private:
  static constexpr int kFunctions = 16;
  static constexpr size_t kMostKinds = 256;
  struct Known {
    OptimizerStep step;
    Limits limits;
  };
  struct Described {
    CStruct layout;
    std::vector<int> values;
  };
  using Key = openbnns::Key<256>;

  static bool is_time_step(const CField& field) { return std::strcmp(field.name, "time_step") == 0; }

  // Of a value it counts whether it is 0: an optimizer without momentum keeps no velocities.
  static void add_field(Key& key, const CField& field, double value) {
    key.add(field.kind == 'f' ? static_cast<double>(value != 0.0) : value);
  }

  bool read(const OpenBNNSWord* words, Key& key, double* values, double& time_step) const {
    const Described* described = words[0].number < kFunctions ? described_[words[0].number].load() : nullptr;
    const char* place = static_cast<const char*>(words[1].pointer);
    if (!described || reinterpret_cast<uintptr_t>(place) % alignof(float) != 0) return false;
    key.add(static_cast<double>(words[0].number));
    for (size_t i = 0; i < described->layout.count; i++) {
      const CField& field = described->layout.fields[i];
      const double value = number_at(place, field);
      if (is_time_step(field)) {
        time_step = value;
        continue;
      }
      add_field(key, field, value);
      if (field.kind == 'f') values[described->values[i]] = value;
    }
    return !key.full();
  }

  std::atomic<const Described*> described_[kFunctions] = {};
  KeyTable<Known> known_;
};

OptimizerFunction& optimizer_function() {
  static auto* function = new OptimizerFunction;
  return *function;
}

}  // namespace

void bind_optimizer(nb::module_& m) {
  nb::class_<OptimizerStep>(m, "OptimizerStep")
      .def(nb::init<int, int, int, const std::vector<Term::Given>&, const std::vector<double>&, std::vector<int>,
                    std::vector<int64_t>>(),
           "kind"_a, "form"_a, "clipping"_a, "terms"_a, "values"_a, "states"_a, "layouts"_a)
      .def("run", &OptimizerStep::run, "step"_a, "epsilon"_a, "count"_a, "parameters"_a.none(), "gradients"_a.none(),
           "accumulators"_a.none(), "threads"_a, "arrays"_a);
  nb::class_<RepeatedStep>(m, "RepeatedStep")
      .def(nb::init<const OptimizerStep&, bool, const std::vector<double>&, nb::list, nb::list, nb::list>(), "step"_a,
           "corrected_epsilon"_a, "values"_a, "parameters"_a, "gradients"_a, "accumulators"_a,
           nb::sig(
               "def __init__(self, step: OptimizerStep, corrected_epsilon: bool, values: Sequence[float], parameters: "
               "list[object], gradients: list[object], accumulators: list[object]) -> None"))
      .def("is_placed", &RepeatedStep::is_placed)
      .def("steps", &RepeatedStep::steps)
      .def("set_steps", &RepeatedStep::set_steps, "steps"_a)
      .def("set_learning_rate", &RepeatedStep::set_learning_rate, "rate"_a, "single"_a)
      .def("run", &RepeatedStep::run);
  m.def(
      "describe_optimizer",
      [](int function, const std::string& name, const std::vector<int>& values) {
        optimizer_function().describe(function, name, values);
      },
      "function"_a, "name"_a, "values"_a);
  m.def(
      "register_optimizer",
      [](int function, const std::vector<double>& fields, const OptimizerStep& step, bool corrected_epsilon,
         const std::vector<OptimizerFunction::Range>& ranges,
         bool ordered) { optimizer_function().add(function, fields, step, {corrected_epsilon, ordered, ranges}); },
      "function"_a, "fields"_a, "step"_a, "corrected_epsilon"_a, "ranges"_a, "ordered"_a);
  m.def("forget_optimizers", [] { optimizer_function().forget(); });
  m.def("optimizer_number", [] { return optimizer_function().number(); });
}

}  // namespace openbnns
