#include "bindings/lstm_call.h"

#include <cstring>
#include <new>
#include <string>
#include <unordered_map>

#include "bindings/fast_call.h"
#include "bindings/interruption.h"
#include "bindings/latest_call.h"
#include "runtime/thread_pool.h"

namespace openbnns {
namespace {

constexpr size_t kMostPlans = 256;

struct Known {
  std::shared_ptr<LstmPlan> plan;
  std::vector<int64_t> bytes;
};
std::unordered_map<std::string, Known>& known() {
  static auto* plans = new std::unordered_map<std::string, Known>;
  return *plans;
}

// Interned names of fields.
struct Names {
  PyObject* scalar[6];
  PyObject *dropout = of("dropout"), *sequence = of("sequence_descriptor"), *data = of("data");
  PyObject* side[2] = {of("input_descriptor"), of("output_descriptor")};
  PyObject* state[3] = {of("data_desc"), of("hidden_desc"), of("cell_state_desc")};
  PyObject* gate[4] = {of("input_gate"), of("forget_gate"), of("candidate_gate"), of("output_gate")};
  PyObject *iw = of("iw_desc"), *rest[3] = {of("hw_desc"), of("cw_desc"), of("b_desc")};
  PyObject *activation = of("activation"), *hidden_activation = of("hidden_activation");
  PyObject *function = of("function"), *alpha = of("alpha"), *beta = of("beta");
  PyObject *number[3] = {of("layout"), of("data_type"), of("flags")}, *list[2] = {of("size"), of("stride")};
  static PyObject* of(const char* name) { return PyUnicode_InternFromString(name); }
  Names() {
    const char* scalars[6] = {"input_size", "hidden_size", "batch_size", "num_layers", "seq_len", "lstm_flags"};
    for (int i = 0; i < 6; i++) scalar[i] = of(scalars[i]);
  }
};
const Names& names() {
  static const Names* n = new Names;
  return *n;
}

constexpr int64_t kDefaultActivations = 2;  // BNNSLayerFlagsLSTMDefaultActivations

// A field, or nothing.
nb::object field(nb::handle object, PyObject* name) {
  PyObject* value = object.is_valid() ? PyObject_GetAttr(object.ptr(), name) : nullptr;
  if (!value) PyErr_Clear();
  return nb::steal(value);
}

// Reads a struct: appends what it says to the key, and collects the data of its tensors.
class Reader {
 public:
  std::string key;
  nb::object data[2 * kLstmTensors];
  bool accumulates[2 * kLstmTensors] = {};  // flags of a descriptor, as they are in the key

  // first: where the tensors go; arriving tensors of layer_params have no part in a backward call.
  bool read(nb::handle params, int first, bool skips_outputs) {
    const Names& n = names();
    int64_t flags = 0;
    for (PyObject* name : n.scalar) {
      nb::object value = field(params, name);
      if (!value.is_valid() || !add_integer(value, &flags)) return false;
    }
    nb::object dropout = field(params, n.dropout), sequence = field(params, n.sequence);
    if (!dropout.is_valid() || !add_float(dropout) || !sequence.is_valid()) return false;
    nb::object sizes = field(sequence, n.data);
    if (!sizes.is_valid() || !sizes.is_none()) return false;
    for (int side = 0; side < 2; side++) {
      nb::object described = field(params, n.side[side]);
      if (!described.is_valid()) return false;
      for (int k = 0; k < 3; k++)
        if (!(side == 1 && skips_outputs) && !add_tensor(field(described, n.state[k]), first + 3 * side + k))
          return false;
    }
    const bool custom = !(flags & kDefaultActivations);
    for (int g = 0; g < 4; g++)
      if (!read_gate(field(params, n.gate[g]), first + lstm_gate_tensor(g, 0), custom)) return false;
    return !custom || add_activation(field(params, n.hidden_activation));
  }

 private:
  void add(const void* bytes, size_t count) { key.append(static_cast<const char*>(bytes), count); }
  bool add_integer(nb::handle value, int64_t* result = nullptr) {
    if (!PyLong_Check(value.ptr())) return false;
    int64_t number = PyLong_AsLongLong(value.ptr());
    if (number == -1 && PyErr_Occurred()) return PyErr_Clear(), false;
    if (result) *result = number;
    return add(&number, sizeof(number)), true;
  }
  bool add_float(nb::handle value) {
    double number = PyFloat_AsDouble(value.ptr());
    if (number == -1.0 && PyErr_Occurred()) return PyErr_Clear(), false;
    return add(&number, sizeof(number)), true;
  }
  bool add_activation(nb::object activation) {
    const Names& n = names();
    nb::object function = field(activation, n.function), alpha = field(activation, n.alpha);
    nb::object beta = field(activation, n.beta);
    return function.is_valid() && alpha.is_valid() && beta.is_valid() && add_integer(function) && add_float(alpha) &&
           add_float(beta);
  }
  bool read_gate(nb::object gate, int first, bool custom) {
    const Names& n = names();
    nb::object pieces = field(gate, n.iw);
    if (!pieces.is_valid() || !PyList_Check(pieces.ptr()) || PyList_Size(pieces.ptr()) != 2) return false;
    for (int k = 0; k < 2; k++)
      if (!add_tensor(nb::borrow(PyList_GetItem(pieces.ptr(), k)), first + k)) return false;
    for (int k = 0; k < 3; k++)
      if (!add_tensor(field(gate, n.rest[k]), first + 2 + k)) return false;
    return !custom || add_activation(field(gate, n.activation));
  }
  bool add_tensor(nb::object descriptor, int index) {
    const Names& n = names();
    data[index] = field(descriptor, n.data);
    if (!data[index].is_valid()) return false;
    key.push_back(data[index].is_none() ? 'n' : 'd');
    if (data[index].is_none()) return true;
    int64_t flags = 0;  // the last of the numbers
    for (PyObject* name : n.number) {
      nb::object value = field(descriptor, name);
      if (!value.is_valid() || !add_integer(value, &flags)) return false;
    }
    accumulates[index] = flags == 1;
    for (PyObject* name : n.list) {
      nb::object list = field(descriptor, name);
      if (!list.is_valid() || !PyList_Check(list.ptr())) return false;
      for (Py_ssize_t i = 0, count = PyList_Size(list.ptr()); i < count; i++)
        if (!add_integer(PyList_GetItem(list.ptr(), i))) return false;
    }
    return true;
  }
};

bool read_both(Reader& reader, nb::handle params, nb::handle delta, int variant) {
  reader.key.reserve(4096);
  reader.key.push_back(static_cast<char>(variant));
  if (!reader.read(params, 0, !delta.is_none())) return false;
  return delta.is_none() || reader.read(delta, kLstmTensors, false);
}

// The stretches of memory that a call touches.
struct Stretches {
  struct Stretch {
    const char *begin, *end;
    bool output;
  } stretch[2 * kLstmTensors + 1];
  int stretches = 0;
  PythonReader reader{2 * kLstmTensors + 1};

  // The address of at least `bytes` bytes of floats (or of anything, for the cache); null if that is not simple.
  float* take(PyObject* object, int64_t bytes, bool output, bool any_items) {
    Memory memory;
    if (!reader.memory(object, any_items ? kAnything : kFloats, output, memory)) return nullptr;
    if (memory.bytes < bytes || reinterpret_cast<uintptr_t>(memory.begin) % 4 != 0) return nullptr;
    stretch[stretches++] = {memory.begin, memory.begin + bytes, output};
    return reinterpret_cast<float*>(memory.begin);
  }

  bool collides() const {
    for (int i = 0; i < stretches; i++) {
      if (!stretch[i].output) continue;
      for (int j = 0; j < stretches; j++)
        if (i != j && stretch[i].begin < stretch[j].end && stretch[j].begin < stretch[i].end) return true;
    }
    return false;
  }
};

bool is_output(int index, bool backward) {
  const bool arrives = index >= kLstmY && index <= kLstmCn;
  return backward ? !arrives : arrives;
}

}  // namespace

nb::object lstm_key(nb::handle params, nb::handle delta, int variant) {
  Reader reader;
  if (!read_both(reader, params, delta, variant)) return nb::none();
  return nb::bytes(reader.key.data(), reader.key.size());
}

void register_lstm(nb::bytes key, std::shared_ptr<LstmPlan> plan, const std::vector<int64_t>& bytes) {
  if (known().size() >= kMostPlans) known().clear();
  known()[std::string(key.c_str(), key.size())] = {std::move(plan), bytes};
}

void forget_lstm() { known().clear(); }

int fast_lstm(nb::handle params, nb::handle delta, nb::handle cache, nb::handle capacity, int variant, uint64_t seed,
              uint64_t draw, int threads) {
  if (!fast_calls_enabled || known().empty()) return kDeclined;
  Reader reader;
  if (!read_both(reader, params, delta, variant)) return kDeclined;
  auto found = known().find(reader.key);
  if (found == known().end()) return kDeclined;
  const Known entry = found->second;
  const bool backward = !delta.is_none();
  Stretches held;
  LstmCall call;
  for (int i = 0; i < (backward ? 2 : 1) * kLstmTensors; i++) {
    const int index = i % kLstmTensors;
    if (entry.bytes[static_cast<size_t>(i)] == 0 || !reader.data[i].is_valid() || reader.data[i].is_none()) continue;
    const bool output = i < kLstmTensors ? !backward && is_output(index, false) : is_output(index, true);
    float* address = held.take(reader.data[i].ptr(), entry.bytes[static_cast<size_t>(i)], output, false);
    if (!address) return kDeclined;
    (i < kLstmTensors ? call.tensor : call.gradient)[index] = address;
    if (i >= kLstmTensors && output && reader.accumulates[i]) call.accumulate |= 1u << index;
  }
  if (!cache.is_none()) {
    int64_t room = PyLong_Check(capacity.ptr()) ? PyLong_AsLongLong(capacity.ptr()) : -1;
    if (room == -1) PyErr_Clear();
    if (room < entry.plan->cache_bytes()) return kDeclined;
    call.cache = held.take(cache.ptr(), entry.plan->cache_bytes(), !backward, true);
    if (!call.cache) return kDeclined;
    LstmCacheHeader header;
    std::memcpy(&header, call.cache, sizeof(header));
    if (backward && (header.magic != LstmCacheHeader::kMagic || header.signature != entry.plan->signature()))
      return kDeclined;
  }
  if (held.collides()) return kDeclined;
  call.seed = seed;
  call.draw = draw;
  try {
    call.threads = threads > 0 ? threads : max_threads();
    Unlocked unlocked(true);
    if (backward)
      entry.plan->backward(call);
    else
      entry.plan->forward(call);
  } catch (const std::bad_alloc&) {  // no room for scratch: the Python path words the failure
    return kDeclined;
  }
  latest_call_succeeded();
  return kDone;
}

}  // namespace openbnns
