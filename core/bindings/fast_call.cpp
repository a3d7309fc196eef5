#include "bindings/fast_call.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <new>

#include "bindings/interruption.h"
#include "bindings/latest_call.h"
#include "runtime/thread_pool.h"

namespace openbnns {

bool fast_calls_enabled = true;
bool filter_calls_enabled = true;

namespace {

constexpr int64_t kTrusted = INT64_MAX;
constexpr int kDone = 0, kDeclined = 1;
constexpr size_t kMaxArguments = 32;

// Names of descriptor fields, made once.
struct Names {
  PyObject* data = PyUnicode_InternFromString("data");
  PyObject* layout = PyUnicode_InternFromString("layout");
  PyObject* data_type = PyUnicode_InternFromString("data_type");
  PyObject* size = PyUnicode_InternFromString("size");
  PyObject* stride = PyUnicode_InternFromString("stride");
  PyObject* flags = PyUnicode_InternFromString("flags");
};
const Names& names() {
  static const Names n;
  return n;
}

// Buffers held for the duration of one call.
struct Held {
  Py_buffer view[Call::kMaxSlots];
  int count = 0;
  ~Held() {
    for (int i = 0; i < count; i++) PyBuffer_Release(&view[i]);
  }
};

// Raw bytes, or items of the wanted type: float32, or integers of `index_bytes`.
bool has_items(const Py_buffer& view, const ArgumentSpec& spec) {
  const char* f = view.format ? view.format : "B";
  if (*f == '<' || *f == '=' || *f == '@') f++;
  if (f[0] == '\0' || f[1] != '\0') return false;
  if (*f == 'B' || *f == 'c') return true;
  if (spec.index_bytes == 0) return *f == 'f' && view.itemsize == 4;
  if (spec.index_bytes == 1) return (*f == '?' && view.ndim > 0) || *f == 'b';  // not a single truth value
  return std::strchr(spec.index_signed ? "ilqn" : "ILQN", *f) && view.itemsize == spec.index_bytes;
}

// Address and room of a buffer or a plain address; false when the argument is neither in the simple form.
bool memory_of(PyObject* object, const ArgumentSpec& spec, Held& held, float*& address, int64_t& bytes) {
  if (PyLong_Check(object)) {
    address = reinterpret_cast<float*>(plain_address(object));
    bytes = kTrusted;
    return address != nullptr;
  }
  if (!PyObject_CheckBuffer(object)) return false;
  Py_buffer& view = held.view[held.count];
  int flags = PyBUF_C_CONTIGUOUS | PyBUF_FORMAT | (spec.output ? PyBUF_WRITABLE : 0);
  if (PyObject_GetBuffer(object, &view, flags) != 0) return PyErr_Clear(), false;
  held.count++;
  if (!has_items(view, spec)) return false;
  address = static_cast<float*>(view.buf);
  bytes = view.len;
  return true;
}

bool is_list(PyObject* object) { return PyList_Check(object) || PyTuple_Check(object); }

// What the list holds, whatever the __len__ of a class derived from it says.
Py_ssize_t list_size(PyObject* list) { return PyList_Check(list) ? PyList_Size(list) : PyTuple_Size(list); }

PyObject* list_item(PyObject* list, Py_ssize_t i) {  // borrowed
  return PyList_Check(list) ? PyList_GetItem(list, i) : PyTuple_GetItem(list, i);
}

bool to_int64(PyObject* object, int64_t& value) {
  if (!PyLong_Check(object) || PyBool_Check(object)) return false;
  value = PyLong_AsLongLong(object);
  if (value == -1 && PyErr_Occurred()) return PyErr_Clear(), false;
  return true;
}

bool field_equals(PyObject* descriptor, PyObject* name, int64_t expected) {
  nb::object field = nb::steal(PyObject_GetAttr(descriptor, name));
  int64_t value;
  if (!field.is_valid()) return PyErr_Clear(), false;
  return to_int64(field.ptr(), value) && value == expected;
}

// Entries of a list field equal the expected ones (a zero stride stands for the packed one).
bool list_equals(PyObject* descriptor, PyObject* name, const std::vector<int64_t>& expected, bool zero_matches) {
  nb::object field = nb::steal(PyObject_GetAttr(descriptor, name));
  if (!field.is_valid()) return PyErr_Clear(), false;
  if (!PyList_Check(field.ptr()) || PyList_Size(field.ptr()) < static_cast<Py_ssize_t>(expected.size())) return false;
  for (size_t i = 0; i < expected.size(); i++) {
    int64_t value;
    if (!to_int64(PyList_GetItem(field.ptr(), static_cast<Py_ssize_t>(i)), value)) return false;
    if (value != expected[i] && !(zero_matches && value == 0)) return false;
  }
  return true;
}

// number == batch * count, for counts above 0
bool fills_batch(int64_t number, int64_t batch, int64_t count) {
  return count > 0 && number > 0 && number % count == 0 && number / count == batch;
}

// Entry `position` of the strides of a descriptor.
bool read_stride(PyObject* descriptor, size_t position, int64_t& value) {
  nb::object field = nb::steal(PyObject_GetAttr(descriptor, names().stride));
  if (!field.is_valid()) return PyErr_Clear(), false;
  Py_ssize_t index = static_cast<Py_ssize_t>(position);
  if (!PyList_Check(field.ptr()) || PyList_Size(field.ptr()) <= index) return false;
  return to_int64(PyList_GetItem(field.ptr(), index), value);
}

// Whether a descriptor has no data; false also for what is no descriptor.
bool lacks_data(PyObject* descriptor) {
  nb::object data = nb::steal(PyObject_GetAttr(descriptor, names().data));
  if (!data.is_valid()) return PyErr_Clear(), false;
  return data.is_none();
}

// A descriptor of exactly the expected form; gives its data and its accumulate flag.
bool read_descriptor(PyObject* descriptor, const ArgumentSpec& spec, nb::object& data, bool& accumulate) {
  const Names& n = names();
  if (!field_equals(descriptor, n.layout, spec.layout) || !field_equals(descriptor, n.data_type, spec.data_type) ||
      !list_equals(descriptor, n.size, spec.size, false) || !list_equals(descriptor, n.stride, spec.stride, true))
    return false;
  if (spec.output) {
    accumulate = field_equals(descriptor, n.flags, 1);
    if (!accumulate && !field_equals(descriptor, n.flags, 0)) return false;
  }
  data = nb::steal(PyObject_GetAttr(descriptor, n.data));
  if (!data.is_valid()) return PyErr_Clear(), false;
  return !data.is_none();
}

constexpr int64_t kIndicesPerThread = 1 << 16;

// Every index is below the limit, or has all bits set where that stands for "none".
template <class Index>
bool indices_below(const Index* index, int64_t count, int64_t limit, bool none) {
  const Index shift = none ? 1 : 0, end = static_cast<Index>(limit) + shift;  // all bits set + 1 is 0
  bool good = true;
  for (int64_t i = 0; i < count; i++) good &= static_cast<Index>(index[i] + shift) < end;
  return good;
}

// The same for a batch, in several threads if there are many.
template <class Index>
bool batch_below(const void* data, int64_t samples, int64_t stride, const ArgumentSpec& spec, int threads) {
  const Index* index = static_cast<const Index*>(data);
  const int64_t most = std::min<int64_t>(samples, samples * spec.count / kIndicesPerThread);
  std::atomic<bool> good{true};
  parallel(static_cast<int>(std::max<int64_t>(1, std::min<int64_t>(threads, most))), [&](int worker, int count) {
    for (int64_t n = samples * worker / count; n < samples * (worker + 1) / count; n++)
      if (!indices_below(index + n * stride, spec.count, spec.index_limit, spec.index_none)) good = false;
  });
  return good;
}

}  // namespace

uintptr_t plain_address(PyObject* object) {
  constexpr int64_t kFirst = 4096;
  int64_t number;
  return to_int64(object, number) && number >= kFirst ? static_cast<uintptr_t>(number) : 0;
}

namespace {

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

Work plan_work(std::shared_ptr<Plan> plan, bool backward, const Call& call, std::vector<int> slots, int threads) {
  return [=](char* const* place) {
    Call placed = call;
    for (size_t i = 0; i < slots.size(); i++) placed.address[slots[i]] = reinterpret_cast<float*>(place[i]);
    placed.threads = threads > 0 ? threads : max_threads();
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
  for (auto [slot, address, count] : fixed) {
    base_.address[slot] = reinterpret_cast<float*>(address);
    fixed_.push_back({reinterpret_cast<const char*>(address), reinterpret_cast<const char*>(address) + count * 4});
    fixed_bytes_ += count * 4;
  }
  for (const ArgumentSpec& spec : specs_) {
    if (spec.output) outputs_ |= 1u << spec.slot;
    has_batch_ |= spec.batched;
  }
}

// The arguments of one call, bound to slots, with the stretch of memory that each will touch.
struct FastCall::Binding {
  Call call;
  Held held;
  const char *begin[Call::kMaxSlots], *end[Call::kMaxSlots];
  uint32_t present = 0;
  int64_t bytes = 0;  // of all memory
};

bool FastCall::bind(const ArgumentSpec& spec, PyObject* object, int64_t stride, Binding& binding) const {
  const bool counted = spec.kind == ArgumentKind::kCounted;
  const int64_t number = counted ? stride : 0, batch = binding.call.batch;
  if (counted) {
    if (number == 0) return true;
    if (object == Py_None || !(number == 1 || fills_batch(number, batch, spec.count))) return false;
  }
  if (object == Py_None || spec.kind == ArgumentKind::kIgnored) return true;
  if (spec.optional_data && lacks_data(object)) return true;
  if (spec.kind == ArgumentKind::kRefused) return false;

  nb::object data;
  bool accumulate = false;
  if (spec.kind == ArgumentKind::kDescriptor) {
    if (!read_descriptor(object, spec, data, accumulate)) return false;
    if (spec.stride_in_descriptor && !read_stride(object, spec.size.size(), stride)) return false;
    object = data.ptr();
  }
  float* address;
  int64_t bytes;
  if (!memory_of(object, spec, binding.held, address, bytes)) return false;

  const int64_t samples = spec.batched ? batch : 1, width = spec.index_bytes ? spec.index_bytes : 4;
  if (stride == 0 || !spec.batched) stride = spec.count;
  if (stride < 0 || (spec.output && samples > 1 && stride < spec.count)) return false;
  if (samples > 1 && stride > (INT64_C(1) << 56) / samples) return false;
  int64_t needed = ((samples - 1) * stride + spec.count) * width;
  if (counted) {
    stride = number == 1 ? 0 : spec.count;
    needed = number * width;
  }
  if (bytes < needed || reinterpret_cast<uintptr_t>(address) % static_cast<uintptr_t>(width) != 0) return false;
  if (spec.index_limit) {
    auto below = spec.index_bytes == 8 ? batch_below<uint64_t> : batch_below<uint32_t>;
    if (!below(address, samples, stride, spec, threads_ > 0 ? threads_ : max_threads())) return false;
  }

  binding.call.address[spec.slot] = address;
  binding.call.stride[spec.slot] = stride;
  if (accumulate) binding.call.accumulate |= 1u << spec.slot;
  binding.present |= 1u << spec.slot;
  binding.begin[spec.slot] = reinterpret_cast<const char*>(address);
  binding.end[spec.slot] = binding.begin[spec.slot] + needed;
  binding.bytes += needed;
  return true;
}

// Everything needed is there, and no output touches other memory of the call except where in-place use is allowed.
bool FastCall::consistent(const Binding& b) const {
  for (const ArgumentSpec& spec : specs_) {
    bool here = b.present >> spec.slot & 1;
    if (!here && (spec.needed_with & b.present) && !(spec.unless & b.present)) return false;
    if (!here || !spec.output) continue;
    for (auto [first, last] : fixed_)
      if (b.begin[spec.slot] < last && first < b.end[spec.slot]) return false;
    for (const ArgumentSpec& other : specs_) {
      if (other.slot == spec.slot || !(b.present >> other.slot & 1)) continue;
      if (b.begin[spec.slot] < b.end[other.slot] && b.begin[other.slot] < b.end[spec.slot]) {
        bool in_place = b.begin[spec.slot] == b.begin[other.slot] &&
                        b.call.stride[spec.slot] == b.call.stride[other.slot] && (spec.may_equal >> other.slot & 1);
        if (!in_place) return false;
      }
    }
  }
  return b.present & outputs_;
}

bool FastCall::perform_recorded(const Binding& b) const {
  std::vector<char*> places;
  std::vector<int> slots;
  for (const ArgumentSpec& spec : specs_) {
    if (!(b.present >> spec.slot & 1)) continue;
    places.push_back(reinterpret_cast<char*>(b.call.address[spec.slot]));
    slots.push_back(spec.slot);
  }
  return perform(std::move(places), plan_work(plan_, backward_, b.call, std::move(slots), threads_));
}

int FastCall::run_flat(PyObject* const* arguments, size_t given) {
  if (!filter_calls_enabled) return kDeclined;
  size_t next = 0;
  Binding binding;
  Call& call = binding.call = base_;
  binding.bytes = fixed_bytes_;
  call.batch = 1;
  if (batched_ && (given < 1 || !to_int64(arguments[next++], call.batch) || call.batch < 1)) return kDeclined;
  if (!has_batch_) call.batch = 1;  // nothing but parameters: one result for any number of samples
  for (const ArgumentSpec& spec : specs_) {
    PyObject* object = next < given ? arguments[next++] : Py_None;  // what is left out is NULL
    int64_t stride = 0;
    if (spec.strided && (next >= given || !to_int64(arguments[next++], stride))) return kDeclined;
    if (!bind(spec, object, stride, binding)) return kDeclined;
  }
  if (next != given || !consistent(binding)) return kDeclined;
  if (backward_ && plan_->trained_batch() >= 0 && plan_->trained_batch() != call.batch) return kDeclined;
  if (backward_ && !plan_->recognizes(call)) return kDeclined;

  try {
    call.threads = threads_ > 0 ? threads_ : max_threads();
    if (is_recording()) {
      if (!perform_recorded(binding)) return kDeclined;
      latest_call_succeeded();
      return kDone;
    }
    Unlocked unlocked(binding.bytes >= kInterruptibleBytes);
    run_plan(*plan_, backward_, call);
  } catch (const std::bad_alloc&) {  // no room for scratch: the Python path words the failure
    return kDeclined;
  } catch (const ForwardLost&) {
    return kDeclined;
  }
  latest_call_succeeded();
  return kDone;
}

int FastCall::run(nb::args arguments) {
  PyObject* flat[kMaxArguments];
  const Py_ssize_t given = PyTuple_Size(arguments.ptr());
  if (lists_.empty()) {
    if (given > static_cast<Py_ssize_t>(kMaxArguments)) return kDeclined;
    for (Py_ssize_t i = 0; i < given; i++) flat[i] = PyTuple_GetItem(arguments.ptr(), i);
    return run_flat(flat, static_cast<size_t>(given));
  }
  nb::object held[kMaxArguments];  // a descriptor's fields may be properties, and those may change the lists
  size_t count = 0;
  if (!flatten(arguments.ptr(), held, count)) return kDeclined;
  for (size_t i = 0; i < count; i++) flat[i] = held[i].ptr();
  return run_flat(flat, count);
}

// Puts each item of a list, followed by its stride if the list comes with a list of strides, in the place of an
// argument. NULL stands for a list of NULLs.
bool FastCall::flatten(PyObject* arguments, nb::object* flat, size_t& count) const {
  const Py_ssize_t given = PyTuple_Size(arguments);
  Py_ssize_t next = 0;
  const auto take = [&] { return next < given ? PyTuple_GetItem(arguments, next++) : Py_None; };
  if (batched_) flat[count++] = nb::borrow(take());
  size_t spec = 0;
  for (int size : lists_) {
    const bool strided = spec < specs_.size() && specs_[spec].strided;
    PyObject *tensors = take(), *strides = strided ? take() : nullptr;
    const int items = size < 0 ? 1 : size;
    if (count + 2 * static_cast<size_t>(items) > kMaxArguments) return false;
    if (size >= 0) {
      if (tensors != Py_None && (!is_list(tensors) || list_size(tensors) != size)) return false;
      if (strided && tensors != Py_None && (!is_list(strides) || list_size(strides) != size)) return false;
    }
    for (int i = 0; i < items; i++, spec++) {
      const bool listed = size >= 0 && tensors != Py_None;
      flat[count++] = nb::borrow(listed ? list_item(tensors, i) : tensors);
      if (!strided) continue;
      if (size < 0)
        flat[count++] = nb::borrow(strides);
      else
        flat[count++] = listed ? nb::borrow(list_item(strides, i)) : nb::object(nb::int_(0));
    }
  }
  return next == given;
}

}  // namespace openbnns
