#include "bindings/training.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <cmath>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "bindings/fast_call.h"
#include "bindings/interruption.h"
#include "bindings/recording.h"
#include "kernels/kernels.h"
#include "runtime/thread_pool.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace openbnns {
namespace {

int workers(int threads) { return threads > 0 ? threads : max_threads(); }

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

// What a list of calls (call_list.h) may contain besides: both touch one number in an array that stays where it is.

// The time, in seconds.
void write_time(uintptr_t place) {
  Operation operation;
  operation.places = {reinterpret_cast<char*>(place)};
  operation.work = [](char* const* places) {
    const std::chrono::duration<double> now = std::chrono::steady_clock::now().time_since_epoch();
    *reinterpret_cast<double*>(places[0]) = now.count();
    return true;
  };
  operation.enabled = &fast_calls_enabled;
  perform(std::move(operation));
}

// Whether a number is finite; a list ends where it is not.
bool is_finite(uintptr_t place) {
  Operation operation;
  operation.places = {reinterpret_cast<char*>(place)};
  operation.work = [](char* const* places) { return std::isfinite(*reinterpret_cast<const float*>(places[0])); };
  operation.enabled = &fast_calls_enabled;
  return perform(std::move(operation));
}

template <class T>
bool each_below(int64_t count, const void* numbers, int64_t size) {
  bool all = true;  // no early end, so that compilers can take many at a time
  for (int64_t i = 0; i < size; i++) {
    // Read without signs, negative numbers are larger than any count.
    const uint64_t number = static_cast<std::make_unsigned_t<T>>(static_cast<const T*>(numbers)[i]);
    all &= number < static_cast<uint64_t>(count);
  }
  return all;
}

// Whether all numbers are from 0 to count - 1; nothing if they are no whole numbers that lie one after the other.
std::optional<bool> all_below(int64_t count, nb::handle numbers) {
  Py_buffer view;
  if (PyObject_GetBuffer(numbers.ptr(), &view, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT) != 0) {
    PyErr_Clear();
    return std::nullopt;
  }
  std::optional<bool> found;
  const auto in = [&](auto zero) {
    using T = decltype(zero);
    found = each_below<T>(count, view.buf, view.len / static_cast<int64_t>(sizeof(T)));
  };
  const char* format = view.format ? view.format : "B";
  switch (format[1] == 0 ? format[0] : 0) {  // of two characters are those in another order of bytes
    case 'b':
    case 'B':
      in(int8_t{});
      break;
    case 'h':
    case 'H':
      in(int16_t{});
      break;
    case 'i':
    case 'I':
      in(int32_t{});
      break;
    case 'l':
    case 'L':
      in(long{});
      break;
    case 'q':
    case 'Q':
      in(int64_t{});
      break;
    default:
      break;
  }
  PyBuffer_Release(&view);
  return found;
}

}  // namespace

void bind_training(nb::module_& m) {
  m.def("clip_by_global_norm", &clip_by_global_norm, "tensors"_a, "max_norm"_a, "use_norm"_a, "threads"_a);
  m.def("write_time", &write_time, "place"_a);
  m.def("is_finite", &is_finite, "place"_a);
  m.def("all_below", &all_below, "count"_a, "numbers"_a,
        nb::sig("def all_below(count: int, numbers: object) -> bool | None"));
  m.def("random_floats", &random_floats, "normal"_a, "seed"_a, "draw"_a, "out"_a, "wide"_a, "count"_a, "a"_a, "b"_a,
        "threads"_a);
  m.def("random_integers", &random_integers, "seed"_a, "draw"_a, "out"_a, "count"_a, "low"_a, "span"_a, "threads"_a);
  m.def("random_categories", &random_categories, "seed"_a, "draw"_a, "out"_a, "wide"_a, "probabilities"_a,
        "distributions"_a, "categories"_a, "draws"_a, "logarithms"_a, "threads"_a);
}

}  // namespace openbnns
