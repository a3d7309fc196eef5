#include "bindings/mixed_call.h"

#include <nanobind/stl/string.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "bindings/fast_call.h"
#include "bindings/recording.h"
#include "kernels/kernels.h"
#include "runtime/thread_pool.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace openbnns {
namespace {

// A contiguous array of float32 or int64.
class MixedArray {
 public:
  MixedArray(nb::handle array, bool writes) {
    if (PyObject_GetBuffer(array.ptr(), &view, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT | (writes ? PyBUF_WRITABLE : 0)) !=
        0) {
      PyErr_Clear();
      throw nb::type_error("mixed_arithmetic: contiguous arrays are expected, the first of them writable");
    }
    const bool single = std::strlen(view.format) == 1;
    whole = single && std::strchr("lq", *view.format) && view.itemsize == 8;
    if (whole || (single && *view.format == 'f')) return;
    PyBuffer_Release(&view);
    throw nb::type_error("mixed_arithmetic: arrays of float32 or int64 are expected");
  }
  MixedArray(const MixedArray&) = delete;
  ~MixedArray() { PyBuffer_Release(&view); }

  char* data() const { return static_cast<char*>(view.buf); }

  Py_buffer view;
  bool whole = false;
};

MixedFunction function_named(const std::string& name) {
#define OPENBNNS_MIXED_MATCH(known, number) \
  if (name == #known) return MixedFunction::number;
  OPENBNNS_MIXED_FUNCTIONS(OPENBNNS_MIXED_MATCH)
#undef OPENBNNS_MIXED_MATCH
  throw nb::value_error(("mixed_arithmetic: there is no function '" + name + "'").c_str());
}

// Whether arithmetic of this kind takes and gives float32, too.
bool has_floats(MixedFunction f) { return f == MixedFunction::kRemainder || f == MixedFunction::kFmod; }

// The steps of an operand over the axes of the result; false if it does not broadcast to them.
bool steps_over(const Py_buffer& operand, const Py_buffer& y, int64_t* steps) {
  if (operand.ndim > y.ndim) return false;
  int64_t step = 1;
  for (int a = y.ndim - 1; a >= 0; a--) {
    const int own = a - (y.ndim - operand.ndim);
    const Py_ssize_t size = own < 0 ? 1 : operand.shape[own];
    if (size != 1 && size != y.shape[a]) return false;
    steps[a] = size == 1 ? 0 : step;
    step *= size;
  }
  return true;
}

// Merges axes that lie in one another for all three arrays, and leaves out those of size 1; at least one is left.
void merge_axes(MixedArithmetic& m) {
  int rank = 0;
  for (int a = 0; a < m.rank; a++) {
    if (m.size[a] == 1) continue;
    const bool nested =
        rank > 0 && m.a_step[rank - 1] == m.a_step[a] * m.size[a] && m.b_step[rank - 1] == m.b_step[a] * m.size[a];
    if (!nested) rank++;
    m.size[rank - 1] = nested ? m.size[rank - 1] * m.size[a] : m.size[a];
    m.a_step[rank - 1] = m.a_step[a];
    m.b_step[rank - 1] = m.b_step[a];
  }
  if (rank == 0) m.size[rank++] = 1;
  m.rank = rank;
}

// target = function(a, b), with broadcasting; functions of one operand are given it twice. Whole numbers are exact, so
// arithmetic takes and gives nothing else, but for remainders. False if a number has no result: a divisor of zero, a
// float beyond int64.
bool mixed_arithmetic(const std::string& name, nb::handle target, nb::handle first, nb::handle second) {
  const MixedArray y(target, true), a(first, false), b(second, false);
  MixedArithmetic m{};
  m.function = function_named(name);
  m.whole_y = y.whole;
  m.whole_a = a.whole;
  m.whole_b = b.whole;
  m.rank = y.view.ndim;
  const bool whole = y.whole && a.whole && b.whole, floats = !y.whole && !a.whole && !b.whole;
  if (m.function > MixedFunction::kToInt32 && !whole && !(floats && has_floats(m.function)))
    throw nb::type_error("mixed_arithmetic: arithmetic takes and gives int64, remainders also float32");
  if (m.rank > MixedArithmetic::kMaxRank || !steps_over(a.view, y.view, m.a_step) ||
      !steps_over(b.view, y.view, m.b_step))
    throw nb::value_error("mixed_arithmetic: the arrays do not broadcast to the target, or have more than eight axes");
  std::copy(y.view.shape, y.view.shape + m.rank, m.size);
  if (y.view.len == 0) return true;
  merge_axes(m);
  Operation operation;
  operation.places = {y.data(), a.data(), b.data()};
  operation.bytes = y.view.len + a.view.len + b.view.len;
  operation.enabled = &fast_calls_enabled;
  operation.work = [m](char* const* place) {
    MixedArithmetic placed = m;
    placed.y = place[0];
    placed.a = place[1];
    placed.b = place[2];
    return kernels().mixed_arithmetic(placed, max_threads());
  };
  return perform(std::move(operation));
}

}  // namespace

void bind_mixed_call(nb::module_& m) {
  m.def("mixed_arithmetic", &mixed_arithmetic, "function"_a, "target"_a, "a"_a, "b"_a);
}

}  // namespace openbnns
