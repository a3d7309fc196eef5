#include "bindings/fast_call.h"

#include <cstring>

#include "runtime/thread_pool.h"

namespace openbnns {

bool fast_calls_enabled = true;

namespace {

constexpr int64_t kFloat32 = 0x10020;  // BNNSDataTypeFloat32
constexpr int64_t kTrusted = INT64_MAX;

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

bool is_float_or_bytes(const Py_buffer& view) {
  const char* f = view.format ? view.format : "B";
  if (*f == '<' || *f == '=' || *f == '@') f++;
  if (f[0] == '\0' || f[1] != '\0') return false;
  return (*f == 'f' && view.itemsize == 4) || *f == 'B' || *f == 'c';
}

// Address and room of a buffer or a plain address; false when the argument is neither in the simple form.
bool memory_of(PyObject* object, bool writable, Held& held, float*& address, int64_t& bytes) {
  if (PyLong_Check(object)) {
    if (PyBool_Check(object)) return false;
    long long number = PyLong_AsLongLong(object);  // addresses fill the positive half: NULL and the rest are mistakes
    if (number <= 0) return PyErr_Clear(), false;
    address = reinterpret_cast<float*>(static_cast<uintptr_t>(number));
    bytes = kTrusted;
    return true;
  }
  if (!PyObject_CheckBuffer(object)) return false;
  Py_buffer& view = held.view[held.count];
  int flags = PyBUF_C_CONTIGUOUS | PyBUF_FORMAT | (writable ? PyBUF_WRITABLE : 0);
  if (PyObject_GetBuffer(object, &view, flags) != 0) return PyErr_Clear(), false;
  held.count++;
  if (!is_float_or_bytes(view)) return false;
  address = static_cast<float*>(view.buf);
  bytes = view.len;
  return true;
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

// A descriptor of exactly the expected form; gives its data and its accumulate flag.
bool read_descriptor(PyObject* descriptor, const ArgumentSpec& spec, nb::object& data, bool& accumulate) {
  const Names& n = names();
  if (!field_equals(descriptor, n.layout, spec.layout) || !field_equals(descriptor, n.data_type, kFloat32) ||
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

}  // namespace

FastCall::FastCall(std::shared_ptr<Plan> plan, bool backward, std::vector<ArgumentSpec> arguments,
                   const std::vector<FixedTensor>& fixed, int threads)
    : plan_(std::move(plan)), backward_(backward), specs_(std::move(arguments)), threads_(threads) {
  for (auto [slot, address, count] : fixed) {
    base_.address[slot] = reinterpret_cast<float*>(address);
    fixed_.push_back({reinterpret_cast<const char*>(address), reinterpret_cast<const char*>(address) + count * 4});
  }
  for (const ArgumentSpec& spec : specs_) {
    if (spec.output) outputs_ |= 1u << spec.slot;
    has_batch_ |= spec.batched;
  }
}

int FastCall::run(nb::args arguments) {
  constexpr int kDeclined = 1;
  if (!fast_calls_enabled) return kDeclined;
  PyObject* tuple = arguments.ptr();
  Py_ssize_t given = PyTuple_Size(tuple), next = 0;
  Call call = base_;
  if (given < 1 || !to_int64(PyTuple_GetItem(tuple, next++), call.batch) || call.batch < 1) return kDeclined;
  if (!has_batch_) call.batch = 1;  // nothing but parameters: one result for any number of samples

  Held held;
  const char *begin[Call::kMaxSlots], *end[Call::kMaxSlots];
  uint32_t present = 0;
  for (const ArgumentSpec& spec : specs_) {
    if (next >= given) return kDeclined;
    PyObject* object = PyTuple_GetItem(tuple, next++);
    int64_t stride = 0;
    if (spec.strided) {
      if (next >= given || !to_int64(PyTuple_GetItem(tuple, next++), stride)) return kDeclined;
    }
    const bool counted = spec.kind == ArgumentKind::kCounted;
    const int64_t number = counted ? stride : 0;
    if (counted) {
      if (number == 0) continue;
      if (object == Py_None || !(number == 1 || fills_batch(number, call.batch, spec.count))) return kDeclined;
    }
    if (object == Py_None || spec.kind == ArgumentKind::kIgnored) continue;
    if (spec.kind == ArgumentKind::kRefused) return kDeclined;

    nb::object data;
    bool accumulate = false;
    PyObject* memory = object;
    if (spec.kind == ArgumentKind::kDescriptor) {
      if (!read_descriptor(object, spec, data, accumulate)) return kDeclined;
      memory = data.ptr();
    }
    float* address;
    int64_t bytes;
    if (!memory_of(memory, spec.output, held, address, bytes)) return kDeclined;

    if (stride == 0 || !spec.batched) stride = spec.count;
    int64_t samples = spec.batched ? call.batch : 1;
    if (stride < 0 || (spec.output && samples > 1 && stride < spec.count)) return kDeclined;
    if (samples > 1 && stride > (INT64_C(1) << 56) / samples) return kDeclined;
    int64_t needed = ((samples - 1) * stride + spec.count) * static_cast<int64_t>(sizeof(float));
    if (counted) {
      stride = number == 1 ? 0 : spec.count;
      needed = number * static_cast<int64_t>(sizeof(float));
    }
    if (bytes < needed || reinterpret_cast<uintptr_t>(address) % alignof(float) != 0) return kDeclined;

    call.address[spec.slot] = address;
    call.stride[spec.slot] = stride;
    if (accumulate) call.accumulate |= 1u << spec.slot;
    present |= 1u << spec.slot;
    begin[spec.slot] = reinterpret_cast<const char*>(address);
    end[spec.slot] = begin[spec.slot] + needed;
  }
  if (next != given) return kDeclined;

  for (const ArgumentSpec& spec : specs_) {
    bool here = present >> spec.slot & 1;
    if (!here && (spec.needed_with & present) && !(spec.unless & present)) return kDeclined;
    if (!here || !spec.output) continue;
    for (auto [first, last] : fixed_)
      if (begin[spec.slot] < last && first < end[spec.slot]) return kDeclined;
    for (const ArgumentSpec& other : specs_) {
      if (other.slot == spec.slot || !(present >> other.slot & 1)) continue;
      if (begin[spec.slot] < end[other.slot] && begin[other.slot] < end[spec.slot]) {
        bool in_place = begin[spec.slot] == begin[other.slot] && call.stride[spec.slot] == call.stride[other.slot] &&
                        (spec.may_equal >> other.slot & 1);
        if (!in_place) return kDeclined;
      }
    }
  }
  if (!(present & outputs_)) return kDeclined;

  call.threads = threads_ > 0 ? threads_ : max_threads();
  {
    nb::gil_scoped_release unlocked;
    if (backward_)
      plan_->backward(call);
    else
      plan_->forward(call);
  }
  return 0;
}

}  // namespace openbnns
