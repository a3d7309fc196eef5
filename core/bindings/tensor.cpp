#include "bindings/tensor.h"

#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "bindings/element_conversions.h"
#include "bindings/fast_call.h"
#include "bindings/interruption.h"
#include "bindings/known_calls.h"
#include "kernels/kernels.h"
#include "runtime/thread_pool.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace openbnns {
namespace {

using Ints = std::vector<int64_t>;

int workers(int threads) { return threads > 0 ? threads : max_threads(); }

char* at(uintptr_t address) { return reinterpret_cast<char*>(address); }

template <class T>
T* as(char* place) {
  return reinterpret_cast<T*>(place);
}

// Addresses have been checked by the caller; steps in bytes.
void strided_copy(uintptr_t to, uintptr_t from, int bytes, const Ints& size, const Ints& to_step, const Ints& from_step,
                  int threads) {
  StridedCopy copy;
  copy.bytes = bytes;
  copy.rank = static_cast<int>(size.size());
  if (copy.rank > StridedCopy::kMaxRank) throw std::out_of_range("too many axes");
  for (int a = 0; a < copy.rank; a++) {
    copy.size[a] = size.at(a);
    copy.to_step[a] = to_step.at(a);
    copy.from_step[a] = from_step.at(a);
  }
  perform({at(to), at(from)}, [copy, threads](char* const* place) {
    StridedCopy placed = copy;
    placed.to = place[0];
    placed.from = place[1];
    kernels().strided_copy(placed, workers(threads));
    return true;
  });
}

// An array with any strides.
class StridedArray {
 public:
  ~StridedArray() {
    if (held_) PyBuffer_Release(&view);
  }
  bool hold(PyObject* object, bool writes) {
    if (PyObject_GetBuffer(object, &view, PyBUF_STRIDES | PyBUF_FORMAT | (writes ? PyBUF_WRITABLE : 0)) != 0)
      return PyErr_Clear(), false;
    return held_ = true;
  }
  Py_buffer view;

 private:
  bool held_ = false;
};

bool is_contiguous(const Py_buffer& view) { return PyBuffer_IsContiguous(&view, 'C') != 0; }

// Copies an array into another one of the same shape and type; the two must not overlap. For networks, whose memory
// nobody else has.
void copy_array(nb::handle target, nb::handle source) {
  StridedArray to, from;
  if (!to.hold(target.ptr(), true) || !from.hold(source.ptr(), false))
    throw nb::type_error("copy_array: two arrays are expected, the first of them writable");
  const Py_buffer &t = to.view, &f = from.view;
  const bool same = std::strcmp(t.format, f.format) == 0;
  if (t.ndim != f.ndim || t.ndim > StridedCopy::kMaxRank || !std::equal(t.shape, t.shape + t.ndim, f.shape) || !same)
    throw nb::value_error("copy_array: the arrays differ in shape or type");
  StridedCopy copy;
  copy.bytes = static_cast<int>(t.itemsize);
  copy.rank = t.ndim;
  Operation operation;
  operation.bytes = t.len + f.len;
  for (int a = 0; a < t.ndim; a++) {
    copy.size[a] = t.shape[a];
    copy.to_step[a] = t.strides[a];
    copy.from_step[a] = f.strides[a];
  }
  if (t.len == 0) return;
  operation.places = {static_cast<char*>(t.buf), static_cast<char*>(f.buf)};
  operation.work = [copy](char* const* place) {
    StridedCopy placed = copy;
    placed.to = place[0];
    placed.from = place[1];
    kernels().strided_copy(placed, max_threads());
    return true;
  };
  operation.enabled = &fast_calls_enabled;
  perform(std::move(operation));
}

// Rounds float32 to the steps of float16.
void round_array_to_half(nb::handle target, nb::handle source) {
  StridedArray to, from;
  if (!to.hold(target.ptr(), true) || !from.hold(source.ptr(), false) || std::strcmp(to.view.format, "f") != 0 ||
      std::strcmp(from.view.format, "f") != 0 || !is_contiguous(to.view) || !is_contiguous(from.view) ||
      to.view.len != from.view.len)
    throw nb::value_error("round_array_to_half: contiguous arrays of float32 of one size are expected");
  if (to.view.len == 0) return;
  Operation operation;
  operation.bytes = 2 * to.view.len;
  operation.places = {static_cast<char*>(to.view.buf), static_cast<char*>(from.view.buf)};
  operation.work = [count = to.view.len / to.view.itemsize](char* const* place) {
    round_to_half(as<const float>(place[1]), as<float>(place[0]), count);
    return true;
  };
  operation.enabled = &fast_calls_enabled;
  perform(std::move(operation));
}

constexpr int kGathers = -1;

// Indices as the kernels take them: int64, checked, and index vectors (one entry per axis of `axes`) made positions in
// the tensor of these axes. Empty if one is outside.
template <class Index>
Ints positions(const Index* given, int64_t count, const Ints& axes) {
  Ints result(static_cast<size_t>(count));
  for (int64_t& position : result) {
    position = 0;
    for (int64_t size : axes) {
      const int64_t index = *given++;
      if (index < 0 || index >= size) return {};
      position = position * size + index;
    }
  }
  return result;
}

// Gathers, or scatters in one of the ways of Scattering: places are the whole tensor, the selection and the indices, of
// int32 or int64; with more than one of `axes`, index vectors. False if an index is outside.
Work selecting(int kind, const Selection& selection, int index_bytes, const Ints& axes, int threads) {
  return [=](char* const* place) {
    Selection s = selection;
    const int64_t count = s.per_element ? s.outer * s.count * s.inner : s.count;
    const Kernels& k = kernels();
    Ints own;
    if (index_bytes == 8 && axes.size() == 1) {
      s.indices = as<const int64_t>(place[2]);
      if (k.first_outside(s.indices, count, s.length) >= 0) return false;
    } else {
      own = index_bytes == 4 ? positions(as<const int32_t>(place[2]), count, axes)
                             : positions(as<const int64_t>(place[2]), count, axes);
      if (own.empty()) return false;
      s.indices = own.data();
    }
    s.whole = place[0];
    s.selected = place[1];
    if (kind == kGathers)
      k.gather(s, workers(threads));
    else
      k.scatter(s, static_cast<Scattering>(kind), workers(threads));
    return true;
  };
}

// kind: -1 gathers, 0 writes, 1 adds floats, 2 adds 64-bit integers; axes: those that the indices count along, or those
// of index vectors.
bool select(int kind, int bytes, int64_t outer, int64_t length, int64_t inner, int64_t count, bool per_element,
            const Ints& axes, int index_bytes, uintptr_t indices, uintptr_t whole, uintptr_t selected, int threads) {
  const Selection s{bytes, outer, length, inner, count, per_element};
  return perform({at(whole), at(selected), at(indices)}, selecting(kind, s, index_bytes, axes, threads));
}

// The memory of a plain array: in C order, aligned, of up to eight axes and elements that are copied as they are.
class PlainArray {
 public:
  ~PlainArray() {
    if (held_) PyBuffer_Release(&view);
  }
  bool hold(PyObject* object, bool writes) {
    const int flags = PyBUF_C_CONTIGUOUS | PyBUF_FORMAT | (writes ? PyBUF_WRITABLE : 0);
    if (PyObject_GetBuffer(object, &view, flags) != 0) return PyErr_Clear(), false;
    held_ = true;
    return view.ndim >= 1 && view.ndim <= 8 && view.len > 0 && view.format && std::strlen(view.format) == 1 &&
           std::strchr("ef?bhilqBHILQ", *view.format) &&
           reinterpret_cast<uintptr_t>(view.buf) % static_cast<uintptr_t>(view.itemsize) == 0;
  }
  bool overlaps(const PlainArray& other) const {
    return begin() < other.begin() + other.view.len && other.begin() < begin() + view.len;
  }
  char* begin() const { return static_cast<char*>(view.buf); }
  Py_buffer view;

 private:
  bool held_ = false;
};

// Gathers part from whole, or scatters it there (kind as in scatter), if these are plain arrays of one type that do not
// overlap and the indices are int32 or int64, of one axis or in the shape of part, all inside; otherwise does nothing
// and returns false.
bool select_plain(int kind, nb::handle whole_array, nb::handle part_array, nb::handle index_array, int64_t axis) {
  const bool gathers = kind == kGathers;
  PlainArray whole, part, index;
  if (!fast_calls_enabled || !whole.hold(whole_array.ptr(), !gathers) || !part.hold(part_array.ptr(), gathers) ||
      !index.hold(index_array.ptr(), false))
    return false;
  const Py_buffer &w = whole.view, &p = part.view, &i = index.view;
  const int rank = w.ndim;
  const bool per_element = i.ndim > 1;
  if (*w.format != *p.format || p.ndim != rank || (per_element && i.ndim != rank) || !std::strchr("ilq", *i.format))
    return false;
  if (axis < -rank || axis >= rank || part.overlaps(whole) || (gathers ? part : whole).overlaps(index)) return false;
  if (axis < 0) axis += rank;
  const int64_t count = i.shape[per_element ? axis : 0], length = w.shape[axis];
  Selection s{static_cast<int>(w.itemsize), 1, length, 1, count, per_element, nullptr, whole.begin(), part.begin()};
  for (int a = 0; a < rank; a++) {
    const Py_ssize_t size = a == axis ? count : w.shape[a];
    if (p.shape[a] != size || (per_element && i.shape[a] != size)) return false;
    if (a != axis) (a < axis ? s.outer : s.inner) *= size;
  }
  Operation operation;
  operation.places = {whole.begin(), part.begin(), index.begin()};
  operation.work = selecting(kind, s, static_cast<int>(i.itemsize), {length}, 0);
  operation.bytes = w.len + p.len + i.len;
  operation.enabled = &fast_calls_enabled;
  return perform(std::move(operation));
}

// The k largest of x along an axis into values, and their indices (int32 or int64) unless that is None, if these are
// plain float32 arrays of the right shapes that do not overlap; otherwise does nothing and returns false.
bool top_k_plain(int64_t k, nb::handle input, nb::handle best_values, nb::handle best_indices, int64_t axis) {
  PlainArray x, values, index;
  const bool wanted = !best_indices.is_none();
  if (!fast_calls_enabled || !x.hold(input.ptr(), false) || !values.hold(best_values.ptr(), true) ||
      (wanted && !index.hold(best_indices.ptr(), true)))
    return false;
  const int rank = x.view.ndim;
  if (axis < -rank || axis >= rank || *x.view.format != 'f' || *values.view.format != 'f' || values.overlaps(x))
    return false;
  if (wanted && (!std::strchr("ilq", *index.view.format) || index.overlaps(x) || index.overlaps(values))) return false;
  if (axis < 0) axis += rank;
  const int64_t length = x.view.shape[axis];
  if (k < 1 || k > length || length > INT32_MAX || values.view.ndim != rank || (wanted && index.view.ndim != rank))
    return false;
  TopKShape s{false, 1, length, 1, k};
  for (int a = 0; a < rank; a++) {
    const Py_ssize_t size = a == axis ? k : x.view.shape[a];
    if (values.view.shape[a] != size || (wanted && index.view.shape[a] != size)) return false;
    if (a != axis) (a < axis ? s.outer : s.inner) *= size;
  }
  const bool direct = wanted && index.view.itemsize == 8;
  std::vector<char*> places{x.begin(), values.begin()};
  if (wanted) places.push_back(index.begin());
  return perform(std::move(places), [s, wanted, direct](char* const* place) {
    Ints own(direct ? 0 : static_cast<size_t>(s.outer * s.k * s.inner));
    int64_t* best = direct ? as<int64_t>(place[2]) : own.data();
    const Kernels& native = kernels();
    native.top_k(s, place[0], best, max_threads());
    native.gather({4, s.outer, s.length, s.inner, s.k, true, best, place[0], place[1]}, max_threads());
    if (wanted && !direct) std::copy(own.begin(), own.end(), as<int32_t>(place[2]));
    return true;
  });
}

int64_t first_outside(uintptr_t indices, int64_t count, int64_t limit) {
  return kernels().first_outside(reinterpret_cast<const int64_t*>(indices), count, limit);
}

void top_k(bool integers, int64_t outer, int64_t length, int64_t inner, int64_t k, uintptr_t x, uintptr_t indices,
           int threads) {
  const TopKShape s{integers, outer, length, inner, k};
  perform({at(x), at(indices)}, [s, threads](char* const* place) {
    kernels().top_k(s, place[0], as<int64_t>(place[1]), workers(threads));
    return true;
  });
}

bool in_top_k(bool integers, int64_t outer, int64_t length, int64_t inner, int64_t k, uintptr_t x, int index_bytes,
              uintptr_t tested, uintptr_t y, int threads) {
  const TopKShape s{integers, outer, length, inner, k};
  return perform({at(x), at(tested), at(y)}, [=](char* const* place) {
    const int64_t count = s.outer * s.inner;
    const Ints indices = index_bytes == 4 ? positions(as<const int32_t>(place[1]), count, {s.length})
                                          : positions(as<const int64_t>(place[1]), count, {s.length});
    if (indices.empty()) return false;
    kernels().in_top_k(s, place[0], indices.data(), as<uint8_t>(place[2]), workers(threads));
    return true;
  });
}

void compare(int type, int operation, bool inverted, uintptr_t a, uintptr_t b, uintptr_t y, int64_t count,
             int threads) {
  perform({at(a), at(b), at(y)}, [=](char* const* place) {
    kernels().compare(static_cast<ComparedType>(type), static_cast<Comparison>(operation), inverted, place[0], place[1],
                      as<uint8_t>(place[2]), count, workers(threads));
    return true;
  });
}

void band_part(int bytes, int64_t matrices, int64_t rows, int64_t columns, int64_t lower, int64_t upper, uintptr_t x,
               uintptr_t y, int threads) {
  const BandShape s{bytes, matrices, rows, columns, lower, upper};
  perform({at(x), at(y)}, [s, threads](char* const* place) {
    kernels().band_part(s, place[0], place[1], workers(threads));
    return true;
  });
}

void nearest_neighbors(uintptr_t samples, int64_t count, int64_t features, int64_t neighbors, int64_t first,
                       int64_t queries, uintptr_t indices, uintptr_t distances, uintptr_t squares, int threads) {
  const NeighborSearch s{as<const float>(at(samples)),
                         count,
                         features,
                         neighbors,
                         first,
                         queries,
                         as<int32_t>(at(indices)),
                         as<float>(at(distances)),
                         as<double>(at(squares))};
  Unlocked unlocked(true);
  kernels().nearest_neighbors(s, workers(threads));
}

}  // namespace

void bind_tensor(nb::module_& m) {
  m.def("strided_copy", &strided_copy, "to"_a, "from_"_a, "bytes"_a, "size"_a, "to_step"_a, "from_step"_a, "threads"_a);
  m.def("copy_array", &copy_array, "target"_a, "source"_a);
  m.def("round_array_to_half", &round_array_to_half, "target"_a, "source"_a);
  m.def("select", &select, "kind"_a, "bytes"_a, "outer"_a, "length"_a, "inner"_a, "count"_a, "per_element"_a, "axes"_a,
        "index_bytes"_a, "indices"_a, "whole"_a, "selected"_a, "threads"_a);
  m.def("select_plain", &select_plain, "kind"_a, "whole"_a, "part"_a, "indices"_a, "axis"_a);
  m.def("top_k_plain", &top_k_plain, "k"_a, "input"_a, "best_values"_a, "best_indices"_a.none(), "axis"_a);
  m.def("first_outside", &first_outside, "indices"_a, "count"_a, "limit"_a);
  m.def("top_k", &top_k, "integers"_a, "outer"_a, "length"_a, "inner"_a, "k"_a, "x"_a, "indices"_a, "threads"_a);
  m.def("in_top_k", &in_top_k, "integers"_a, "outer"_a, "length"_a, "inner"_a, "k"_a, "x"_a, "index_bytes"_a,
        "tested"_a, "y"_a, "threads"_a);
  m.def("compare", &compare, "type"_a, "operation"_a, "inverted"_a, "a"_a, "b"_a, "y"_a, "count"_a, "threads"_a);
  m.def("band_part", &band_part, "bytes"_a, "matrices"_a, "rows"_a, "columns"_a, "lower"_a, "upper"_a, "x"_a, "y"_a,
        "threads"_a);
  m.def("nearest_neighbors", &nearest_neighbors, "samples"_a, "count"_a, "features"_a, "neighbors"_a, "first"_a,
        "queries"_a, "indices"_a, "distances"_a, "squares"_a, "threads"_a);
}

}  // namespace openbnns
