#include "bindings/byte_calls.h"

#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "bindings/fast_call.h"
#include "bindings/recording.h"
#include "kernels/kernels.h"
#include "runtime/thread_pool.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace openbnns {
namespace {

// A contiguous array of float32, format f, or of unsigned bytes, format B.
class PlainArray {
 public:
  PlainArray(nb::handle array, bool writes, const char* formats, const char* who) {
    if (PyObject_GetBuffer(array.ptr(), &view_, PyBUF_ND | PyBUF_FORMAT | (writes ? PyBUF_WRITABLE : 0)) != 0) {
      PyErr_Clear();
      throw nb::type_error((std::string(who) + ": contiguous arrays are expected, the first of them writable").c_str());
    }
    if (std::strlen(view_.format) == 1 && std::strchr(formats, *view_.format)) return;
    PyBuffer_Release(&view_);
    throw nb::type_error((std::string(who) + ": an array has another type than those it takes").c_str());
  }
  PlainArray(const PlainArray&) = delete;
  ~PlainArray() { PyBuffer_Release(&view_); }

  char* data() const { return static_cast<char*>(view_.buf); }
  bool is_float32() const { return *view_.format == 'f'; }
  int64_t bytes() const { return view_.len; }
  int64_t count() const { return view_.len / view_.itemsize; }

 private:
  Py_buffer view_;
};

void require_same(bool same, const char* who) {
  if (!same) throw nb::value_error((std::string(who) + ": the arrays differ in size").c_str());
}

void perform_whole(std::vector<char*> places, int64_t bytes, Work work) {
  Operation operation;
  operation.places = std::move(places);
  operation.work = std::move(work);
  operation.bytes = bytes;
  operation.enabled = &fast_calls_enabled;
  perform(std::move(operation));
}

// Floats to bytes that `element` describes, or back.
void convert_array(nb::handle target, nb::handle source, const Element& element) {
  const char* who = "convert_array";
  const PlainArray to(target, true, "fB", who), from(source, false, "fB", who);
  require_same(to.count() == from.count(), who);
  if (to.is_float32() == from.is_float32())
    throw nb::type_error("convert_array: one array of float32 and one of uint8 are expected");
  const Conversion c{from.is_float32() ? Element{} : element, to.is_float32() ? Element{} : element, nullptr, nullptr,
                     to.count()};
  perform_whole({to.data(), from.data()}, to.bytes() + from.bytes(), [c](char* const* place) {
    Conversion placed = c;
    placed.to = place[0];
    placed.from = place[1];
    kernels().convert_numbers(placed, max_threads());
    return true;
  });
}

void add_bytes(nb::handle target, nb::handle a, nb::handle b, float a_factor, float b_factor, float term) {
  const char* who = "add_bytes";
  const PlainArray y(target, true, "B", who), first(a, false, "B", who), second(b, false, "B", who);
  require_same(y.count() == first.count() && y.count() == second.count(), who);
  const ByteSum s{nullptr, nullptr, nullptr, y.count(), a_factor, b_factor, term};
  perform_whole({y.data(), first.data(), second.data()}, 3 * y.bytes(), [s](char* const* place) {
    ByteSum placed = s;
    placed.y = reinterpret_cast<uint8_t*>(place[0]);
    placed.a = reinterpret_cast<const uint8_t*>(place[1]);
    placed.b = reinterpret_cast<const uint8_t*>(place[2]);
    kernels().add_bytes(placed, max_threads());
    return true;
  });
}

// sizes: those of BytePooling, in its order.
void pool_bytes(nb::handle target, nb::handle source, const std::vector<int64_t>& sizes) {
  const char* who = "pool_bytes";
  if (sizes.size() != 11) throw nb::value_error("pool_bytes: 11 sizes are expected");
  const PlainArray y(target, true, "B", who), x(source, false, "B", who);
  const BytePooling s{nullptr,  nullptr,  sizes[0], sizes[1], sizes[2], sizes[3], sizes[4],
                      sizes[5], sizes[6], sizes[7], sizes[8], sizes[9], sizes[10]};
  require_same(x.count() == s.planes * s.in_height * s.in_width && y.count() == s.planes * s.out_height * s.out_width,
               who);
  perform_whole({y.data(), x.data()}, y.bytes() + x.bytes(), [s](char* const* place) {
    BytePooling placed = s;
    placed.y = reinterpret_cast<uint8_t*>(place[0]);
    placed.x = reinterpret_cast<const uint8_t*>(place[1]);
    kernels().pool_bytes(placed, max_threads());
    return true;
  });
}

// Whether an array has all elements that a value of the chain reads or writes.
bool holds(const PlainArray& array, const Chain& chain, const Chain::Value& value) {
  int64_t last = 0;
  for (int axis = 0; axis < 3; axis++) {
    if (value.stride[axis] < 0) return false;
    last += std::max<int64_t>(0, chain.size[axis] - 1) * value.stride[axis];
  }
  return chain.size[0] * chain.size[1] * chain.size[2] == 0 || last < array.count();
}

// values: arrays, and three strides for each; those from `results` on are written. Rooms follow them as values.
void run_chain(const nb::list& arrays, size_t results, const std::vector<int64_t>& sizes,
               const std::vector<int64_t>& strides, const std::vector<ChainStep>& steps, int rooms) {
  const char* who = "run_chain";
  Chain chain{{}, {}, steps, rooms};
  if (rooms < 0 || rooms > Chain::kMostRooms)
    throw nb::value_error("run_chain: 0 to 63 values can be outside of memory");
  if (sizes.size() != 3 || strides.size() != 3 * arrays.size()) throw nb::value_error("run_chain: 3 sizes and strides");
  std::copy_n(sizes.begin(), 3, chain.size);
  std::vector<char*> places;
  std::vector<bool> floats;
  int64_t bytes = 0;
  for (size_t i = 0; i < arrays.size(); i++) {
    const PlainArray array(arrays[i], i >= results, "fB", who);
    Chain::Value value{nullptr, {strides[3 * i], strides[3 * i + 1], strides[3 * i + 2]}};
    if (!holds(array, chain, value)) throw nb::value_error("run_chain: an array is too small");
    chain.values.push_back(value);
    places.push_back(array.data());
    floats.push_back(array.is_float32());
    bytes += array.bytes();
  }
  const auto values = static_cast<int>(places.size()) + rooms;
  const auto is_float = [&](int value) {
    return static_cast<size_t>(value) >= floats.size() || floats[static_cast<size_t>(value)];
  };
  for (const ChainStep& step : steps) {
    bool fits = step.function <= 40 && step.result >= static_cast<int>(results) && step.result < values &&
                step.element.is_float32() == is_float(step.result);
    for (int operand : step.operands) fits = fits && operand >= 0 && operand < values && is_float(operand);
    if (!fits) throw nb::value_error("run_chain: a step has an operand or a result that it cannot have");
  }
  // One thread at a time makes the call, so that its values are placed where they stand, without a copy.
  perform_whole(std::move(places), bytes, [chain = std::move(chain)](char* const* place) mutable {
    for (Chain::Value& value : chain.values) value.data = *place++;
    kernels().run_chain(chain, max_threads());
    return true;
  });
}

}  // namespace

void bind_byte_calls(nb::module_& m) {
  m.def("convert_array", &convert_array, "target"_a, "source"_a, "element"_a);
  m.def("add_bytes", &add_bytes, "target"_a, "a"_a, "b"_a, "a_factor"_a, "b_factor"_a, "term"_a);
  m.def(
      "run_chain", &run_chain, "arrays"_a, "results"_a, "sizes"_a, "strides"_a, "steps"_a, "rooms"_a,
      nb::sig("def run_chain(arrays: list[object], results: int, sizes: Sequence[int], strides: Sequence[int], steps: "
              "Sequence[ChainStep], rooms: int) -> None"));
  m.def("pool_bytes", &pool_bytes, "target"_a, "source"_a, "sizes"_a);
}

}  // namespace openbnns
