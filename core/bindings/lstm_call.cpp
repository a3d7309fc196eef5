#include "bindings/lstm_call.h"

#include <atomic>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>

#include "bindings/c_interface.h"
#include "bindings/fast_call.h"
#include "bindings/interruption.h"
#include "bindings/key_table.h"
#include "bindings/latest_call.h"
#include "bindings/numbered.h"
#include "bindings/reader.h"
#include "bindings/recording.h"
#include "runtime/thread_pool.h"
#include "runtime/weights_version.h"

namespace openbnns {
namespace {

constexpr size_t kMostPlans = 256, kKeyBytes = 16384;
constexpr int64_t kDefaultActivations = 2;  // BNNSLayerFlagsLSTMDefaultActivations

struct Known {
  std::shared_ptr<LstmPlan> plan;
  std::vector<int64_t> bytes;
};
KeyTable<Known>& known() {
  static auto* plans = new KeyTable<Known>;
  return *plans;
}
// Of what is known, for calls from C: a switch that changes it makes all be forgotten.
std::atomic<int> latest_variant{0};
constexpr int kRounds = 2;  // of variant() in filters/lstm.py: never for calls from C

bool is_output(int index, bool backward) {
  const bool arrives = index >= kLstmY && index <= kLstmCn;
  return backward ? !arrives : arrives;
}

// The struct, from Python or from C (struct_view.h), with descriptors by their place: side 0 is the input, 1 the
// output; pieces of a gate are iw_desc[0], iw_desc[1], hw_desc, cw_desc, b_desc; activation 4 is that of the cell
// state.
template <template <class> class Struct>
class LstmParams {
  using Layer = BNNSLayerParametersLSTM;
  using Gate = BNNSLSTMGateDescriptor;
  using Side = BNNSLSTMDataDescriptor;
  using Activation = BNNSActivation;

 public:
  using Reader = typename Struct<Layer>::Reader;
  template <class Source>
  explicit LstmParams(Source params) : params_(params) {}

  bool scalar(int i, int64_t& value) const {
    constexpr Layer::Index kScalars[] = {Layer::input_size, Layer::hidden_size, Layer::batch_size,
                                         Layer::num_layers, Layer::seq_len,     Layer::lstm_flags};
    return params_.integer(kScalars[i], value);
  }
  bool dropout(double& value) const { return params_.real(Layer::dropout, value); }
  auto sequence() const { return params_.descriptor(Layer::sequence_descriptor); }
  auto state(int side, int k) const {
    constexpr Side::Index kStates[] = {Side::data_desc, Side::hidden_desc, Side::cell_state_desc};
    return params_.template inner<Side>(side ? Layer::output_descriptor : Layer::input_descriptor)
        .descriptor(kStates[k]);
  }
  auto piece(int i, int k) const {
    constexpr Gate::Index kRest[] = {Gate::hw_desc, Gate::cw_desc, Gate::b_desc};
    return k < 2 ? gate(i).descriptor(Gate::iw_desc, k, 2) : gate(i).descriptor(kRest[k - 2]);
  }
  bool activation(int i, int64_t& function, double& alpha, double& beta) const {
    const Struct<Activation> f = i == 4 ? params_.template inner<Activation>(Layer::hidden_activation)
                                        : gate(i).template inner<Activation>(Gate::activation);
    return f.integer(Activation::function, function) && f.real(Activation::alpha, alpha) &&
           f.real(Activation::beta, beta);
  }

 private:
  Struct<Gate> gate(int i) const {
    constexpr Layer::Index kGates[] = {Layer::input_gate, Layer::forget_gate, Layer::candidate_gate,
                                       Layer::output_gate};
    return params_.template inner<Gate>(kGates[i]);
  }

  const Struct<Layer> params_;
};
using PythonLstm = LstmParams<PythonStruct>;
using RawLstm = LstmParams<RawStruct>;

// Reads structs: what they say, but for the addresses, is the key; the memory of their tensors stands apart.
template <class Source>
class Reading {
 public:
  explicit Reading(int variant) { key_.add(static_cast<char>(variant)); }

  std::string_view key() const { return key_.text(); }
  Data present[2 * kLstmTensors] = {};      // kAbsent
  Memory memory[2 * kLstmTensors];          // of those that are simple
  bool accumulates[2 * kLstmTensors] = {};  // flags of a descriptor, as they are in the key

  bool read(const Source& params, const Source* delta) {
    return read(params, 0, delta != nullptr) && (!delta || read(*delta, kLstmTensors, false));
  }
  typename Source::Reader& reader() { return reader_; }

 private:
  // first: where the tensors go; arriving tensors of layer_params have no part in a backward call.
  bool read(const Source& params, int first, bool backward) {
    int64_t flags = 0;  // the last of the scalars
    for (int i = 0; i < 6; i++)
      if (!params.scalar(i, flags))
        return false;
      else
        key_.add(flags);
    double dropout;
    if (!params.dropout(dropout)) return false;
    key_.add(dropout);
    const auto sequence = params.sequence();
    Memory unused;
    if (!sequence || reader_.data(*sequence, kAnything, false, unused) != Data::kAbsent) return false;
    for (int side = 0; side < 2; side++)
      for (int k = 0; k < 3; k++)
        if (!(side == 1 && backward) && !add_tensor(params.state(side, k), first + 3 * side + k, backward))
          return false;
    const bool custom = !(flags & kDefaultActivations);
    for (int g = 0; g < 4; g++) {
      for (int k = 0; k < 5; k++)
        if (!add_tensor(params.piece(g, k), first + lstm_gate_tensor(g, k), backward)) return false;
      if (custom && !add_activation(params, g)) return false;
    }
    return (!custom || add_activation(params, 4)) && !key_.full();
  }

  bool add_activation(const Source& params, int i) {
    int64_t function;
    double alpha, beta;
    if (!params.activation(i, function, alpha, beta)) return false;
    return key_.add(function), key_.add(alpha), key_.add(beta), true;
  }

  bool add_tensor(const std::optional<typename Source::Reader::Descriptor>& d, int index, bool backward) {
    if (!d) return false;
    const bool writes =
        index < kLstmTensors ? !backward && is_output(index, false) : is_output(index - kLstmTensors, true);
    present[index] = reader_.data(*d, kFloats, writes, memory[index]);
    key_.add(present[index] == Data::kAbsent ? 'n' : 'd');
    if (present[index] == Data::kAbsent) return true;
    int64_t layout, data_type, flags, numbers[2 * kMaxRank];
    if (!d->layout(layout) || !d->data_type(data_type) || !d->flags(flags)) return false;
    if (!d->size(kMaxRank, numbers) || !d->stride(kMaxRank, numbers + kMaxRank)) return false;
    accumulates[index] = flags == 1;
    return key_.add(layout), key_.add(data_type), key_.add(flags), key_.add(numbers), true;
  }

  typename Source::Reader reader_{2 * kLstmTensors + 2};
  Key<kKeyBytes> key_;
};

// Whether the cache is that of a forward call of this plan.
bool has_cache(const LstmPlan& plan, const LstmCall& call) {
  LstmCacheHeader header;
  std::memcpy(&header, call.cache, sizeof(header));
  return header.magic == LstmCacheHeader::kMagic && header.signature == plan.signature();
}

// Places what was read; the cache is absent where it is null.
template <class Source>
bool place(const Reading<Source>& reading, const Known& entry, bool backward, const Memory* cache, int64_t capacity,
           LstmCall& call) {
  Stretch stretches[2 * kLstmTensors + 1];
  int count = 0;
  const auto take = [&](const Memory& memory, int64_t bytes, bool written) -> float* {
    if (memory.bytes < bytes || reinterpret_cast<uintptr_t>(memory.begin) % 4 != 0) return nullptr;
    stretches[count++] = {memory.begin, memory.begin + bytes, written};
    return reinterpret_cast<float*>(memory.begin);
  };
  for (int i = 0; i < (backward ? 2 : 1) * kLstmTensors; i++) {
    const int64_t bytes = entry.bytes[static_cast<size_t>(i)];
    if (bytes == 0 || reading.present[i] == Data::kAbsent) continue;
    const int index = i % kLstmTensors;
    const bool output = i < kLstmTensors ? !backward && is_output(index, false) : is_output(index, true);
    float* address = reading.present[i] == Data::kSimple ? take(reading.memory[i], bytes, output) : nullptr;
    if (!address) return false;
    (i < kLstmTensors ? call.tensor : call.gradient)[index] = address;
    if (i >= kLstmTensors && output && reading.accumulates[i]) call.accumulate |= 1u << index;
  }
  if (cache) {
    if (capacity < entry.plan->cache_bytes()) return false;
    call.cache = take(*cache, entry.plan->cache_bytes(), !backward);
    if (!call.cache || (backward && !has_cache(*entry.plan, call))) return false;
  }
  return !overlap(stretches, stretches + count);
}

int run_plan(LstmPlan& plan, bool backward, LstmCall& call, int threads) {
  try {
    call.threads = threads > 0 ? threads : max_threads();
    backward ? plan.backward(call) : plan.forward(call);
  } catch (const std::bad_alloc&) {  // no room for scratch: the Python path words the failure
    return kDeclined;
  }
  return kDone;
}

// The function as C programs call it: layer_params, in backward calls layer_delta_params, filter_params, the cache and
// its capacity.
class LstmFunction final : public Numbered {
 public:
  explicit LstmFunction(bool backward) : backward_(backward) {}

  int run_raw(const OpenBNNSWord* words, size_t count) override {
    const size_t structs = backward_ ? 2 : 1;
    if (!fast_calls_enabled || is_recording() || count != structs + 3) return kDeclined;
    for (size_t i = 0; i < structs; i++)
      if (!words[i].pointer) return kDeclined;
    int threads;
    if (!read_threads(words[structs], threads)) return kDeclined;
    const RawLstm params(words[0].pointer), delta(words[structs - 1].pointer);
    Reading<RawLstm> reading(latest_variant);
    if (!reading.read(params, backward_ ? &delta : nullptr)) return kDeclined;
    const Known* entry = known().find(reading.key());  // stays while this call uses the number
    Memory cache;
    const bool cached = !RawReader::is_null(words[structs + 1]);
    if (!entry || (cached && !RawReader::memory(words[structs + 1], kAnything, !backward_, cache))) return kDeclined;
    LstmCall call;
    const auto capacity = static_cast<int64_t>(words[structs + 2].number);
    if (!place(reading, *entry, backward_, cached ? &cache : nullptr, capacity, call)) return kDeclined;
    call.seed = kMaskSeed;
    double dropout;
    if (params.dropout(dropout) && dropout != 0.0 && cached && !backward_) call.draw = next_lstm_draw();
    if (run_plan(*entry->plan, backward_, call, threads) != kDone) return kDeclined;
    latest_call_succeeded();
    return kDone;
  }

 private:
  static constexpr uint64_t kMaskSeed = 0x4C53544D;  // _SEED of filters/lstm.py
  const bool backward_;
};

LstmFunction& lstm_function(bool backward) {
  static LstmFunction *forward = new LstmFunction(false), *back = new LstmFunction(true);
  return backward ? *back : *forward;
}

int perform_recorded(const Known& known, bool backward, const LstmCall& call, bool repeats, int threads) {
  Operation operation;
  std::vector<int> slots;  // tensors, gradients, the cache
  const auto add = [&](int slot, float* address, int64_t bytes) {
    if (!address) return;
    operation.places.push_back(reinterpret_cast<char*>(address));
    operation.bytes += bytes;
    slots.push_back(slot);
  };
  for (int i = 0; i < kLstmTensors; i++) add(i, call.tensor[i], known.bytes[static_cast<size_t>(i)]);
  if (backward)
    for (int i = kLstmTensors; i < 2 * kLstmTensors; i++)
      add(i, call.gradient[i - kLstmTensors], known.bytes[static_cast<size_t>(i)]);
  add(2 * kLstmTensors, call.cache, known.plan->cache_bytes());
  std::shared_ptr<LstmKept> kept = backward ? nullptr : known.plan->make_kept();
  operation.work = [=, plan = known.plan](char* const* place) {
    LstmCall placed = call;
    placed.weights = current_weights();
    placed.kept = kept.get();
    for (size_t i = 0; i < slots.size(); i++) {
      auto* address = reinterpret_cast<float*>(place[i]);
      if (slots[i] == 2 * kLstmTensors)
        placed.cache = address;
      else if (slots[i] < kLstmTensors)
        placed.tensor[slots[i]] = address;
      else
        placed.gradient[slots[i] - kLstmTensors] = address;
    }
    if (backward && placed.cache && !has_cache(*plan, placed)) return false;
    return run_plan(*plan, backward, placed, threads) == kDone;
  };
  if (repeats) operation.enabled = &fast_calls_enabled;
  operation.number = lstm_function(backward).number();
  return perform(std::move(operation)) ? kDone : kDeclined;
}

}  // namespace

nb::object lstm_key(nb::handle params, nb::handle delta, int variant) {
  auto reading = std::make_unique<Reading<PythonLstm>>(variant);
  const PythonLstm forward(params), backward(delta);
  if (!reading->read(forward, delta.is_none() ? nullptr : &backward)) return nb::none();
  return nb::bytes(reading->key().data(), reading->key().size());
}

void register_lstm(nb::bytes key, std::shared_ptr<LstmPlan> plan, const std::vector<int64_t>& bytes) {
  if (known().size() >= kMostPlans) forget_lstm();
  latest_variant = key.c_str()[0] & ~kRounds;
  known().add(std::string(key.c_str(), key.size()), {std::move(plan), bytes});
}

void forget_lstm() {
  known().clear([] {
    lstm_function(false).end();
    lstm_function(true).end();
  });
}

uint64_t next_lstm_draw() {
  static std::atomic<uint64_t> draws{0};
  return ++draws;
}

uint64_t lstm_number(bool backward) { return lstm_function(backward).number(); }

int fast_lstm(nb::handle params, nb::handle delta, nb::handle cache, nb::handle capacity, int variant, uint64_t seed,
              uint64_t draw, int threads) {
  if (!fast_calls_enabled || known().size() == 0) return kDeclined;
  const bool backward = !delta.is_none(), cached = !cache.is_none();
  Reading<PythonLstm> reading(variant);
  const PythonLstm forward_params(params), backward_params(delta);
  if (!reading.read(forward_params, backward ? &backward_params : nullptr)) return kDeclined;
  const std::optional<Known> found = known().copy(reading.key());
  if (!found) return kDeclined;
  const Known& entry = *found;
  Memory memory;
  int64_t room = 0;
  if (cached &&
      (!to_int64(capacity.ptr(), room) || !reading.reader().memory(cache.ptr(), kAnything, !backward, memory)))
    return kDeclined;
  LstmCall call;
  if (!place(reading, entry, backward, cached ? &memory : nullptr, room, call)) return kDeclined;
  call.seed = seed;
  call.draw = draw;
  if (is_recording()) {
    double dropout;
    const bool repeats = forward_params.dropout(dropout) && dropout == 0.0;  // Python numbers the masks
    if (perform_recorded(entry, backward, call, repeats, threads) != kDone) return kDeclined;
  } else {
    Unlocked unlocked(true);
    if (run_plan(*entry.plan, backward, call, threads) != kDone) return kDeclined;
  }
  latest_call_succeeded();
  return kDone;
}

}  // namespace openbnns
