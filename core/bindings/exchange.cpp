#include "bindings/exchange.h"

#include <nanobind/stl/vector.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "bindings/interruption.h"
#include "kernels/kernels.h"
#include "runtime/thread_pool.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace openbnns {
namespace {

// A contiguous array of one type, held while this lives.
class Vector {
 public:
  Vector(nb::handle array, const char* format, bool writes, const char* who) {
    if (PyObject_GetBuffer(array.ptr(), &view_, PyBUF_ND | PyBUF_FORMAT | (writes ? PyBUF_WRITABLE : 0)) != 0) {
      PyErr_Clear();
      throw nb::type_error((std::string(who) + ": contiguous arrays are expected").c_str());
    }
    if (std::strcmp(view_.format, format) != 0) {
      PyBuffer_Release(&view_);
      throw nb::type_error((std::string(who) + ": an array is of another type").c_str());
    }
  }
  Vector(const Vector&) = delete;
  ~Vector() { PyBuffer_Release(&view_); }

  template <class T>
  T* data() const {
    return static_cast<T*>(view_.buf);
  }
  int64_t size() const { return view_.len / view_.itemsize; }

 private:
  Py_buffer view_;
};

// Whether every join has two results to add, and one result is left.
bool is_tree(const std::vector<int32_t>& joins) {
  int64_t pending = 0;
  for (int32_t count : joins) {
    if (++pending > TreeSum::kMaxPending || count < 0 || count >= pending) return false;
    pending -= count;
  }
  return pending == 1;
}

void sum_in_tree(nb::handle out, const nb::list& parts, const std::vector<int32_t>& joins) {
  constexpr const char* kWho = "sum_in_tree";
  if (parts.size() != joins.size() || !is_tree(joins)) throw nb::value_error("sum_in_tree: the joins make no tree");
  const Vector sum(out, "f", true, kWho);
  TreeSum s;
  s.out = sum.data<float>();
  s.elements = sum.size();
  std::vector<std::unique_ptr<Vector>> held;
  std::vector<const float*> places;
  for (nb::handle part : parts) {
    held.push_back(std::make_unique<Vector>(part, "f", false, kWho));
    if (held.back()->size() != s.elements) throw nb::value_error("sum_in_tree: arrays differ in size");
    places.push_back(held.back()->data<float>());
  }
  s.parts = places.data();
  s.joins = joins.data();
  s.part_count = static_cast<int64_t>(places.size());
  nb::gil_scoped_release unlocked;
  kernels().sum_in_tree(s, max_threads());
}

ChannelPlanes planes_of(const Vector& x, int64_t batch, int64_t channels, const char* who) {
  const int64_t both = batch * channels;
  if (batch < 1 || channels < 1 || x.size() % both != 0) throw nb::value_error(who);
  return {batch, channels, x.size() / both};
}

void channel_sums(nb::handle a, nb::handle b, nb::handle sums, int64_t batch, int64_t channels) {
  constexpr const char* kWho = "channel_sums: arrays differ in size";
  const Vector left(a, "f", false, "channel_sums"), right(b, "f", false, "channel_sums"),
      out(sums, "d", true, "channel_sums");
  const ChannelPlanes planes = planes_of(left, batch, channels, kWho);
  if (right.size() != left.size() || out.size() != 2 * channels) throw nb::value_error(kWho);
  nb::gil_scoped_release unlocked;
  kernels().channel_sums(planes, left.data<float>(), right.data<float>(), out.data<double>(), max_threads());
}

// `factors` are those of a, of x - mean, the mean, and what is added: (4, channels)
void channel_combination(nb::handle y, nb::handle a, nb::handle x, nb::handle factors, int64_t batch,
                         int64_t channels) {
  constexpr const char *kName = "channel_combination", *kWho = "channel_combination: arrays differ in size";
  const Vector out(y, "f", true, kName), in(x, "f", false, kName), given(factors, "f", false, kName);
  std::unique_ptr<Vector> other;
  if (!a.is_none()) other = std::make_unique<Vector>(a, "f", false, kName);
  const ChannelPlanes planes = planes_of(in, batch, channels, kWho);
  if (out.size() != in.size() || (other && other->size() != in.size()) || given.size() != 4 * channels)
    throw nb::value_error(kWho);
  const float* f = given.data<float>();
  nb::gil_scoped_release unlocked;
  kernels().channel_combination(planes, out.data<float>(), other ? other->data<float>() : nullptr, in.data<float>(), f,
                                f + channels, f + 2 * channels, f + 3 * channels, max_threads());
}

}  // namespace

void bind_exchange(nb::module_& m) {
  m.def("sum_in_tree", &sum_in_tree, "out"_a, "parts"_a, "joins"_a,
        nb::sig("def sum_in_tree(out: object, parts: list[object], joins: Sequence[int]) -> None"));
  m.def("channel_sums", &channel_sums, "a"_a, "b"_a, "sums"_a, "batch"_a, "channels"_a);
  m.def("channel_combination", &channel_combination, "y"_a, "a"_a.none(), "x"_a, "factors"_a, "batch"_a, "channels"_a,
        nb::sig("def channel_combination(y: object, a: object | None, x: object, factors: object, batch: int, "
                "channels: int) -> None"));
}

}  // namespace openbnns
