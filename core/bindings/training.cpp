#include "bindings/training.h"

#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <new>
#include <utility>
#include <vector>

#include "bindings/fast_call.h"
#include "bindings/interruption.h"
#include "bindings/latest_call.h"
#include "kernels/kernels.h"
#include "runtime/thread_pool.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace openbnns {
namespace {

int workers(int threads) { return threads > 0 ? threads : max_threads(); }

// The form of a tensor: an array's shape, or a descriptor's layout and size.
struct Form {
  int64_t layout = 0;  // 0 for an array
  int rank = 0;
  int64_t size[kMaxRank];

  bool operator==(const Form& other) const {
    return layout == other.layout && rank == other.rank && std::equal(size, size + rank, other.size);
  }
};

// A stretch of memory, first byte and one past the last, and whether the step writes it.
struct Stretch {
  const char *begin, *end;
  bool written;
};

// One optimizer with its settings: runs steps whose tensors are packed float32 in memory that can be checked in
// constant time. Anything else is declined without a word, and the Python path, which knows every message, takes over.
class OptimizerStep {
 public:
  // numbers: before, after, low, high, l1, l2, max_norm, use_norm, norm_scale, learning_rate, momentum,
  // gradient_weight, velocity_step, gradient_step, keep1, add1, keep2, add2, decay; states: the place in
  // OptimizerTensor::state of each accumulator, in the order of roles; layouts: those without holes or tricks.
  OptimizerStep(int kind, int form, int clipping, const std::vector<double>& numbers, std::vector<int> states,
                std::vector<int64_t> layouts)
      : states_(std::move(states)), layouts_(std::move(layouts)) {
    OptimizerRule& r = rule_;
    r.kind = static_cast<OptimizerKind>(kind);
    r.form = static_cast<MomentumForm>(form);
    r.clipping = clipping;
    float* floats[] = {&r.before, &r.after, &r.low, &r.high, &r.l1, &r.l2};
    float* others[] = {&r.learning_rate, &r.momentum, &r.gradient_weight, &r.velocity_step, &r.gradient_step,
                       &r.keep1,         &r.add1,     &r.keep2,           &r.add2,          &r.decay};
    size_t next = 0;
    for (float* place : floats) *place = static_cast<float>(numbers.at(next++));
    for (double* place : {&r.max_norm, &r.use_norm, &r.norm_scale}) *place = numbers.at(next++);
    for (float* place : others) *place = static_cast<float>(numbers.at(next++));
    std::sort(layouts_.begin(), layouts_.end());
  }

  // parameters, gradients: lists of at least `count` tensors; accumulators: as many for each role, or None. Tensors are
  // descriptors, or arrays if those are allowed.
  int run(double step, double epsilon, int64_t count, nb::handle parameters, nb::handle gradients,
          nb::handle accumulators, int threads, bool arrays) const {
    if (!fast_calls_enabled) return kDeclined;
    try {
      return checked_run(step, epsilon, count, parameters.ptr(), gradients.ptr(), accumulators.ptr(), threads, arrays);
    } catch (const std::bad_alloc&) {
      return kDeclined;
    }
  }

 private:
  static bool long_enough(PyObject* list, int64_t count) { return is_list(list) && list_size(list) >= count; }

  int checked_run(double step, double epsilon, int64_t count, PyObject* parameters, PyObject* gradients,
                  PyObject* accumulators, int threads, bool arrays) const {
    const int64_t roles = static_cast<int64_t>(states_.size());
    if (count < 0 || count > INT64_C(1) << 24) return kDeclined;
    if (!long_enough(parameters, count) || !long_enough(gradients, count)) return kDeclined;
    if (roles > 0 && !long_enough(accumulators, roles * count)) return kDeclined;

    PythonReader reader(static_cast<size_t>((2 + roles) * count));
    std::vector<OptimizerTensor> tensors(static_cast<size_t>(count));
    std::vector<Stretch> stretches;
    stretches.reserve(static_cast<size_t>((2 + roles) * count));
    for (int64_t i = 0; i < count; i++) {
      OptimizerTensor& t = tensors[static_cast<size_t>(i)];
      Form form, other;
      float* gradient;
      if (!bind(list_item(parameters, i), arrays, true, reader, stretches, form, t.w, t.count)) return kDeclined;
      int64_t elements;
      if (!bind(list_item(gradients, i), arrays, false, reader, stretches, other, gradient, elements) ||
          !(form == other))
        return kDeclined;
      t.gradient = gradient;
      for (int64_t role = 0; role < roles; role++) {
        float*& state = t.state[states_[static_cast<size_t>(role)]];
        if (!bind(list_item(accumulators, role * count + i), arrays, true, reader, stretches, other, state, elements) ||
            !(form == other))
          return kDeclined;
      }
    }
    if (overlaps(stretches)) return kDeclined;

    OptimizerRule rule = rule_;
    rule.step = static_cast<float>(step);
    rule.epsilon = static_cast<float>(epsilon);
    nb::gil_scoped_release unlocked;
    kernels().optimizer_step(rule, tensors.data(), count, workers(threads));
    latest_call_succeeded();
    return kDone;
  }

  bool bind(nb::object tensor, bool arrays, bool written, PythonReader& reader, std::vector<Stretch>& stretches,
            Form& form, float*& address, int64_t& count) const {
    if (!tensor.is_valid()) return false;
    PyObject* object = tensor.ptr();
    nb::object data;
    const bool described = !(arrays && PyObject_CheckBuffer(object));
    if (described) {
      if (!read_form(object, form)) return false;
      data = descriptor_fields().data.read(object);
      if (!data.is_valid()) return false;
      object = data.ptr();
    }
    Memory memory;
    if (!reader.memory(object, kFloats, written, memory)) return false;
    if (!described) {
      if (memory.view->ndim > kMaxRank || memory.view->itemsize != 4) return false;
      form.rank = memory.view->ndim;
      std::copy(memory.view->shape, memory.view->shape + form.rank, form.size);
    }
    const int64_t room = std::min(memory.bytes / 4, INT64_C(1) << 46);
    count = 1;
    for (int a = 0; a < form.rank; a++) {
      if (described && (form.size[a] < 1 || form.size[a] > room / count)) return false;
      count *= form.size[a];
    }
    if (count > room || reinterpret_cast<uintptr_t>(memory.begin) % 4 != 0) return false;
    address = reinterpret_cast<float*>(memory.begin);
    const char* begin = reinterpret_cast<const char*>(address);
    if (count > 0) stretches.push_back({begin, begin + count * 4, written});
    return true;
  }

  // Layout and size of a packed Float32 descriptor.
  bool read_form(PyObject* descriptor, Form& form) const {
    DescriptorFields& f = descriptor_fields();
    int64_t type, stride[kMaxRank];
    if (!f.layout.integer(descriptor, form.layout) || !f.data_type.integer(descriptor, type)) return false;
    if (type != kFloat32 || !std::binary_search(layouts_.begin(), layouts_.end(), form.layout)) return false;
    form.rank = static_cast<int>(form.layout >> 16);
    if (!f.size.integers(descriptor, form.rank, form.size) || !f.stride.integers(descriptor, form.rank, stride))
      return false;
    return std::all_of(stride, stride + form.rank, [](int64_t s) { return s == 0; });
  }

  // Whether memory that is written is used for anything else.
  static bool overlaps(std::vector<Stretch>& stretches) {
    std::sort(stretches.begin(), stretches.end(), [](const Stretch& a, const Stretch& b) { return a.begin < b.begin; });
    const char *end = nullptr, *written_end = nullptr;
    for (const Stretch& s : stretches) {
      if (s.begin < (s.written ? end : written_end)) return true;
      end = std::max(end, s.end);
      if (s.written) written_end = std::max(written_end, s.end);
    }
    return false;
  }

  OptimizerRule rule_;
  std::vector<int> states_;
  std::vector<int64_t> layouts_;
};

// tensors: addresses of x and y, number of elements; checked by the caller.
void clip_by_global_norm(const std::vector<std::tuple<uintptr_t, uintptr_t, int64_t>>& tensors, double max_norm,
                         double use_norm, int threads) {
  std::vector<ClippedTensor> list;
  for (auto [x, y, count] : tensors)
    list.push_back({reinterpret_cast<const float*>(x), reinterpret_cast<float*>(y), count});
  nb::gil_scoped_release unlocked;
  kernels().clip_by_global_norm(list.data(), static_cast<int64_t>(list.size()), max_norm, use_norm, workers(threads));
}

void run_fill(RandomFill& fill, uint64_t seed, uint64_t draw, uintptr_t out, bool wide, int64_t count, int threads) {
  fill.seed = seed;
  fill.draw = draw;
  fill.out = reinterpret_cast<void*>(out);
  fill.wide = wide;
  fill.count = count;
  Unlocked unlocked(true);
  kernels().random_fill(fill, workers(threads));
}

void random_floats(bool normal, uint64_t seed, uint64_t draw, uintptr_t out, bool wide, int64_t count, double a,
                   double b, int threads) {
  RandomFill fill;
  fill.kind = normal ? RandomFill::kNormalFloat : RandomFill::kUniformFloat;
  fill.a = a;
  fill.b = b;
  run_fill(fill, seed, draw, out, wide, count, threads);
}

void random_integers(uint64_t seed, uint64_t draw, uintptr_t out, int64_t count, int64_t low, uint64_t span,
                     int threads) {
  RandomFill fill;
  fill.kind = RandomFill::kUniformInteger;
  fill.low = low;
  fill.span = span;
  run_fill(fill, seed, draw, out, false, count, threads);
}

void random_categories(uint64_t seed, uint64_t draw, uintptr_t out, bool wide, uintptr_t probabilities,
                       int64_t distributions, int64_t categories, int64_t draws, bool logarithms, int threads) {
  RandomFill fill;
  fill.kind = RandomFill::kCategory;
  fill.distribution = {reinterpret_cast<const double*>(probabilities), distributions, categories, draws, logarithms};
  run_fill(fill, seed, draw, out, wide, distributions * draws, threads);
}

}  // namespace

void bind_training(nb::module_& m) {
  nb::class_<OptimizerStep>(m, "OptimizerStep")
      .def(nb::init<int, int, int, const std::vector<double>&, std::vector<int>, std::vector<int64_t>>(), "kind"_a,
           "form"_a, "clipping"_a, "numbers"_a, "states"_a, "layouts"_a)
      .def("run", &OptimizerStep::run, "step"_a, "epsilon"_a, "count"_a, "parameters"_a.none(), "gradients"_a.none(),
           "accumulators"_a.none(), "threads"_a, "arrays"_a);
  m.def("clip_by_global_norm", &clip_by_global_norm, "tensors"_a, "max_norm"_a, "use_norm"_a, "threads"_a);
  m.def("random_floats", &random_floats, "normal"_a, "seed"_a, "draw"_a, "out"_a, "wide"_a, "count"_a, "a"_a, "b"_a,
        "threads"_a);
  m.def("random_integers", &random_integers, "seed"_a, "draw"_a, "out"_a, "count"_a, "low"_a, "span"_a, "threads"_a);
  m.def("random_categories", &random_categories, "seed"_a, "draw"_a, "out"_a, "wide"_a, "probabilities"_a,
        "distributions"_a, "categories"_a, "draws"_a, "logarithms"_a, "threads"_a);
}

}  // namespace openbnns
