// The Python module openbnns._core: plans, the fast call, threads. Knows addresses and sizes, not the rules of BNNS.
#include <nanobind/nanobind.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstring>

#include "bindings/fast_call.h"
#include "bindings/interruption.h"
#include "bindings/known_calls.h"
#include "bindings/latest_call.h"
#include "bindings/lstm_call.h"
#include "bindings/numbered.h"
#include "bindings/struct_reader.h"
#include "bindings/tensor.h"
#include "bindings/training.h"
#include "common/poolable.h"
#include "kernels/direct.h"
#include "kernels/kernels.h"
#include "runtime/per_thread.h"
#include "runtime/scratch.h"
#include "runtime/thread_pool.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace openbnns {
namespace {

using Ints = std::vector<int64_t>;
using Activation = std::tuple<int, float, float>;  // function, alpha, beta

ActivationSpec activation_spec(const Activation& a) {
  ActivationSpec spec;
  std::tie(spec.function, spec.alpha, spec.beta) = a;
  return spec;
}

std::shared_ptr<Plan> fully_connected(int64_t inputs, int64_t outputs, const Activation& activation) {
  return kernels().make_fully_connected({inputs, outputs}, activation_spec(activation));
}

std::shared_ptr<Plan> convolution(const Ints& in, const Ints& out, const Ints& kernel, const Ints& stride,
                                  const Ints& dilation, const Ints& padding, int64_t groups,
                                  const Activation& activation, bool transposed, bool exact) {
  ConvolutionShape s{in.at(0),      in.at(1),      in.at(2),     out.at(0),    out.at(1),      out.at(2),
                     kernel.at(0),  kernel.at(1),  stride.at(0), stride.at(1), dilation.at(0), dilation.at(1),
                     padding.at(0), padding.at(1), groups,       exact};
  auto make = transposed ? kernels().make_transposed_convolution : kernels().make_convolution;
  return make(s, activation_spec(activation));
}

std::shared_ptr<Plan> activation(int64_t outer, int64_t length, int64_t inner, int64_t channels,
                                 const Activation& activation, uint64_t seed) {
  ActivationSpec spec = activation_spec(activation);
  spec.seed = seed;
  return kernels().make_activation({outer, length, inner, channels}, spec);
}

void integer_linear_saturate(uintptr_t x, uintptr_t y, int64_t count, int32_t scale, int32_t offset, int32_t shift,
                             int64_t low, int64_t high) {
  kernels().integer_linear_saturate(reinterpret_cast<const int64_t*>(x), reinterpret_cast<int64_t*>(y), count, scale,
                                    offset, shift, low, high);
}

std::shared_ptr<Plan> arithmetic(int function, const Ints& size, const std::vector<Ints>& operands,
                                 const std::vector<bool>& batched, const Activation& activation) {
  ArithmeticShape s;
  s.function = function;
  s.operands = static_cast<int>(operands.size());
  s.rank = static_cast<int>(size.size());
  for (int a = 0; a < s.rank; a++) s.size[a] = size.at(a);
  for (int i = 0; i < s.operands; i++) {
    for (int a = 0; a < s.rank; a++) s.operand_size[i][a] = operands.at(i).at(a);
    s.batched[i] = batched.at(i);
  }
  return kernels().make_arithmetic(s, activation_spec(activation));
}

std::shared_ptr<Plan> pooling(int function, const Ints& in, const Ints& out, const Ints& kernel, const Ints& stride,
                              const Ints& dilation, const Ints& padding, bool padding_wins, bool wide_indices,
                              const Activation& activation) {
  PoolingShape s{function,      in.at(0),      in.at(1),     in.at(2),     out.at(1),      out.at(2),
                 kernel.at(0),  kernel.at(1),  stride.at(0), stride.at(1), dilation.at(0), dilation.at(1),
                 padding.at(0), padding.at(1), padding_wins, wide_indices};
  return kernels().make_pooling(s, activation_spec(activation));
}

// numbers: label_smooth, huber_delta, log_epsilon; readings: divide_by_classes, plain_cosine_gradient.
// yolo: empty, or cells, anchors, box_size; yolo_scales: of xy, wh, object, no object, classification, then the limits
// of the IOU; yolo_readings: rescore, raw_centres.
std::shared_ptr<Plan> loss(int function, int reduction, int64_t width, const std::vector<float>& numbers,
                           const std::vector<bool>& readings, const Ints& yolo, const std::vector<float>& yolo_scales,
                           const std::vector<bool>& yolo_readings) {
  LossShape s{function,       reduction,      width, numbers.at(0), numbers.at(1), numbers.at(2),
              readings.at(0), readings.at(1), {}};
  if (!yolo.empty())
    s.yolo = {yolo.at(0),        yolo.at(1),        yolo.at(2),          yolo_scales.at(0),
              yolo_scales.at(1), yolo_scales.at(2), yolo_scales.at(3),   yolo_scales.at(4),
              yolo_scales.at(5), yolo_scales.at(6), yolo_readings.at(0), yolo_readings.at(1)};
  return kernels().make_loss(s);
}

// sizes: positions, entries, item; readings: item_major, by_frequency, renormalizes_in_place.
std::shared_ptr<Plan> embedding(const Ints& sizes, int index_bytes, int64_t padding, float max_norm, float norm_type,
                                const std::vector<bool>& readings) {
  return kernels().make_embedding({sizes.at(0), sizes.at(1), sizes.at(2), index_bytes, readings.at(0), padding,
                                   max_norm, norm_type, readings.at(1), readings.at(2)});
}

// sizes: outer, length, inner of one sample; bounds: smallest and largest integer.
std::shared_ptr<Plan> quantization(bool dequantizes, int from, int to, const Ints& sizes, bool per_sample,
                                   const std::vector<double>& bounds) {
  return kernels().make_quantization({dequantizes, static_cast<NumberType>(from), static_cast<NumberType>(to),
                                      sizes.at(0), sizes.at(1), sizes.at(2), per_sample, bounds.at(0), bounds.at(1)});
}

using Activations = std::vector<Activation>;

// sizes: steps, batch, inputs, hidden, layers, directions, then for each gate the layers of its first piece of input
// weights.
std::shared_ptr<LstmPlan> lstm(const Ints& sizes, bool default_activations, const Activations& activations,
                               const Activations& slopes, float dropout, const Ints& batch_sizes, uint64_t signature) {
  LstmShape s{};
  s.steps = sizes.at(0), s.batch = sizes.at(1), s.inputs = sizes.at(2);
  s.hidden = sizes.at(3), s.layers = sizes.at(4), s.directions = sizes.at(5);
  for (size_t gate = 0; gate < 4; gate++) s.first_layers[gate] = sizes.at(6 + gate);
  s.default_activations = default_activations;
  for (size_t k = 0; k < 5; k++) {
    s.activation[k] = activation_spec(activations.at(k));
    s.slope[k] = activation_spec(slopes.at(k));
  }
  s.dropout = dropout;
  s.batch_sizes = batch_sizes;
  s.signature = signature;
  return kernels().make_lstm(s);
}

// Runs an LSTM on addresses that the caller has checked, 0 for absent tensors.
void run_lstm(LstmPlan& plan, bool backward, const std::vector<uintptr_t>& tensors,
              const std::vector<uintptr_t>& gradients, uint32_t accumulate, uintptr_t cache, uint64_t seed,
              uint64_t draw, int threads) {
  LstmCall call;
  for (size_t i = 0; i < kLstmTensors; i++) {
    call.tensor[i] = reinterpret_cast<float*>(tensors.at(i));
    if (backward) call.gradient[i] = reinterpret_cast<float*>(gradients.at(i));
  }
  call.accumulate = accumulate;
  call.cache = reinterpret_cast<float*>(cache);
  call.seed = seed;
  call.draw = draw;
  call.threads = threads > 0 ? threads : max_threads();
  Unlocked unlocked(true);
  if (backward)
    plan.backward(call);
  else
    plan.forward(call);
}

std::shared_ptr<Plan> dropout(float rate, uint64_t seed, const Ints& size, const std::vector<bool>& shared,
                              bool batch_shared) {
  return kernels().make_dropout({rate, seed, size, shared, batch_shared});
}

std::shared_ptr<Plan> permute(const Ints& size, const Ints& permutation, int item_bytes) {
  return kernels().make_permute({size, permutation, item_bytes});
}

std::shared_ptr<Plan> padding(int mode, const Ints& size, const Ints& before, const Ints& after, int item_bytes,
                              uint64_t value) {
  return kernels().make_padding({mode, size, before, after, item_bytes, value});
}

template <class Number>
std::vector<Number> numbers_in(const nb::bytes& memory) {
  std::vector<Number> result(memory.size() / sizeof(Number));
  std::memcpy(result.data(), memory.c_str(), result.size() * sizeof(Number));
  return result;
}

// low, t: int64 and float32 numbers of every axis as they lie in memory.
std::shared_ptr<Plan> resize(const Ints& in, const Ints& out, const std::vector<nb::bytes>& low,
                             const std::vector<nb::bytes>& t) {
  ResizeShape s{in, out, {}, {}};
  for (size_t a = 0; a < in.size(); a++) {
    s.low.push_back(numbers_in<int64_t>(low.at(a)));
    s.t.push_back(numbers_in<float>(t.at(a)));
  }
  return kernels().make_resize(s);
}

// sizes: boxes, planes, height and width of the images, rows and columns of the crops.
std::shared_ptr<Plan> crop_resize(const Ints& sizes, float extrapolation, const Ints& top,
                                  const std::vector<float>& down, const std::vector<bool>& row_inside, const Ints& left,
                                  const std::vector<float>& across, const std::vector<bool>& column_inside) {
  return kernels().make_crop_resize({sizes.at(0), sizes.at(1), sizes.at(2), sizes.at(3), sizes.at(4), sizes.at(5),
                                     extrapolation, top, down, row_inside, left, across, column_inside});
}

// left: one or two tensors as (indices, sizes, batched); see ContractionShape.
using IndexedTensor = std::tuple<std::vector<int>, Ints, bool>;
std::shared_ptr<Plan> contraction(const std::vector<IndexedTensor>& left, const IndexedTensor& output, bool self,
                                  float alpha, bool adds_to_output) {
  auto tensor = [](const IndexedTensor& t) {
    return ContractionTensor{std::get<0>(t), std::get<1>(t), std::get<2>(t)};
  };
  ContractionShape s;
  for (const IndexedTensor& t : left) s.left.push_back(tensor(t));
  s.output = tensor(output);
  s.self = self;
  s.alpha = alpha;
  s.adds_to_output = adds_to_output;
  return kernels().make_contraction(s);
}

// numbers: epsilon, momentum; readings: torch_moving, slope_from_input
NormalizationShape normalization_shape(int kind, const Ints& size, int axis, int64_t groups,
                                       const std::vector<float>& numbers, const std::vector<bool>& readings,
                                       const Ints& beta_size, const Ints& gamma_size) {
  NormalizationShape s{kind,          size.at(0),    size.at(1),     size.at(2),     axis, groups,
                       numbers.at(0), numbers.at(1), readings.at(0), readings.at(1), {},   {}};
  for (size_t i = 0; i < 3; i++) {
    s.beta_size[i] = beta_size.at(i);
    s.gamma_size[i] = gamma_size.at(i);
  }
  return s;
}

std::shared_ptr<Plan> normalization(int kind, const Ints& size, int axis, int64_t groups,
                                    const std::vector<float>& numbers, const std::vector<bool>& readings,
                                    const Ints& beta_size, const Ints& gamma_size, const Activation& activation) {
  return kernels().make_normalization(
      normalization_shape(kind, size, axis, groups, numbers, readings, beta_size, gamma_size),
      activation_spec(activation));
}

// first: the plan of the first layer; the others as for a normalization
std::shared_ptr<Plan> fused(std::shared_ptr<Plan> first, bool arithmetic, int kind, const Ints& size, int axis,
                            int64_t groups, const std::vector<float>& numbers, const std::vector<bool>& readings,
                            const Ints& beta_size, const Ints& gamma_size, const Activation& activation) {
  FusedShape s{arithmetic, normalization_shape(kind, size, axis, groups, numbers, readings, beta_size, gamma_size)};
  return kernels().make_fused(std::move(first), s, activation_spec(activation));
}

// A fused plan with a pooling behind it, or None.
std::shared_ptr<Plan> pooled(const std::shared_ptr<Plan>& plan) {
  const auto* fused = dynamic_cast<const PoolablePlan*>(plan.get());
  return fused ? fused->pooled() : nullptr;
}

using Steps = std::vector<std::array<int64_t, 3>>;

// sizes: target, source, model, key, value, heads; switches: attention_bias, zero_row, masked_rows_are_zero; stored and
// gradient: steps of the ten parameters.
std::shared_ptr<Plan> attention(const Ints& sizes, const std::vector<bool>& switches, float dropout, uint64_t seed,
                                uint64_t token, const Steps& stored, const Steps& gradient) {
  AttentionShape s{sizes.at(0), sizes.at(1), sizes.at(2), sizes.at(3), sizes.at(4), sizes.at(5)};
  s.attention_bias = switches.at(0);
  s.zero_row = switches.at(1);
  s.masked_rows_are_zero = switches.at(2);
  s.dropout = dropout;
  s.seed = seed;
  s.token = token;
  for (size_t i = 0; i < kAttentionParameters; i++) {
    std::copy_n(stored.at(i).begin(), 3, s.stored[i].steps);
    std::copy_n(gradient.at(i).begin(), 3, s.gradient[i].steps);
  }
  return kernels().make_attention(s);
}

// Runs a plan on addresses that the caller has checked. tensors: (slot, address, stride). A list, not a vector: what
// nanobind does to make one ends the process when there is no memory for it. False if nothing was done, because the
// forward call is lost that a backward call belongs to.
bool run(std::shared_ptr<Plan> plan, bool backward, int64_t batch, nb::list tensors, uint32_t accumulate, int threads,
         bool training, const Ints& extra) {
  Call call;
  call.training = training;
  for (size_t i = 0; i < extra.size(); i++) call.extra[i] = extra[i];
  call.batch = batch;
  call.accumulate = accumulate;
  std::vector<char*> places;
  std::vector<int> slots;
  for (nb::handle tensor : tensors) {
    const auto [slot, address, stride] = nb::cast<std::tuple<int, uintptr_t, int64_t>>(tensor);
    places.push_back(reinterpret_cast<char*>(address));
    slots.push_back(slot);
    call.stride[slot] = stride;
  }
  return perform(std::move(places), plan_work(std::move(plan), backward, call, std::move(slots), threads));
}

ArgumentSpec argument(int slot, int kind, bool strided, bool batched, bool output, int64_t count, uint32_t needed_with,
                      uint32_t unless, uint32_t may_equal, int64_t layout, const Ints& size, const Ints& stride,
                      int index_bytes, int64_t index_limit, bool index_none, bool index_signed, int64_t data_type,
                      bool optional_data, bool stride_in_descriptor) {
  return {slot,
          static_cast<ArgumentKind>(kind),
          strided,
          batched,
          output,
          count,
          needed_with,
          unless,
          may_equal,
          layout,
          size,
          stride,
          index_bytes,
          index_limit,
          index_none,
          index_signed,
          data_type,
          optional_data,
          stride_in_descriptor};
}

}  // namespace
}  // namespace openbnns

NB_MODULE(_core, m) {
  using namespace openbnns;
  nb::set_leak_warnings(false);  // filters kept in module globals are alive at exit by design
  prepare_exceptions();
  // Choices made at a first call are made here: a fork could catch a thread in the middle of one.
  kernels();
  tensor_kernels();

  nb::class_<Plan>(m, "Plan")
      .def("trained_batch", &Plan::trained_batch)
      .def("forget", &Plan::forget)
      .def("workspace_bytes", &Plan::workspace_bytes, "backward"_a, "batch"_a, "cached"_a);
  nb::class_<ArgumentSpec>(m, "ArgumentSpec");
  m.def("argument", &argument, "slot"_a, "kind"_a, "strided"_a = false, "batched"_a = true, "output"_a = false,
        "count"_a = 0, "needed_with"_a = 0, "unless"_a = 0, "may_equal"_a = 0, "layout"_a = 0, "size"_a = Ints{},
        "stride"_a = Ints{}, "index_bytes"_a = 0, "index_limit"_a = 0, "index_none"_a = false, "index_signed"_a = false,
        "data_type"_a = kFloat32, "optional_data"_a = false, "stride_in_descriptor"_a = false);
  bind_raw_calls(m);
  nb::class_<FastCall, Numbered>(m, "FastCall")
      .def(nb::init<std::shared_ptr<Plan>, bool, std::vector<ArgumentSpec>, const std::vector<FixedTensor>&, int, bool,
                    bool, std::vector<int>>(),
           "plan"_a, "backward"_a, "arguments"_a, "fixed"_a, "threads"_a, "training"_a = false, "batched"_a = true,
           "lists"_a = std::vector<int>{})
      .def("run", &FastCall::run);

  m.def("fully_connected", &fully_connected, "inputs"_a, "outputs"_a, "activation"_a);
  m.def("convolution", &convolution, "input"_a, "output"_a, "kernel"_a, "stride"_a, "dilation"_a, "padding"_a,
        "groups"_a, "activation"_a, "transposed"_a, "exact"_a);
  m.def("activation", &activation, "outer"_a, "length"_a, "inner"_a, "channels"_a, "activation"_a, "seed"_a);
  m.def("integer_linear_saturate", &integer_linear_saturate, "x"_a, "y"_a, "count"_a, "scale"_a, "offset"_a, "shift"_a,
        "low"_a, "high"_a);
  m.def("arithmetic", &arithmetic, "function"_a, "size"_a, "operands"_a, "batched"_a, "activation"_a);
  m.def("pooling", &pooling, "function"_a, "input"_a, "output"_a, "kernel"_a, "stride"_a, "dilation"_a, "padding"_a,
        "padding_wins"_a, "wide_indices"_a, "activation"_a);
  m.def("loss", &loss, "function"_a, "reduction"_a, "width"_a, "numbers"_a, "readings"_a, "yolo"_a, "yolo_scales"_a,
        "yolo_readings"_a);
  m.def("embedding", &embedding, "sizes"_a, "index_bytes"_a, "padding"_a, "max_norm"_a, "norm_type"_a, "readings"_a);
  m.def("quantization", &quantization, "dequantizes"_a, "from"_a, "to"_a, "sizes"_a, "per_sample"_a, "bounds"_a);
  nb::class_<LstmPlan>(m, "LstmPlan").def("cache_bytes", &LstmPlan::cache_bytes);
  m.def("lstm", &lstm, "sizes"_a, "default_activations"_a, "activations"_a, "slopes"_a, "dropout"_a, "batch_sizes"_a,
        "signature"_a);
  m.def("run_lstm", &run_lstm, "plan"_a, "backward"_a, "tensors"_a, "gradients"_a, "accumulate"_a, "cache"_a, "seed"_a,
        "draw"_a, "threads"_a);
  m.def("lstm_key", &lstm_key, "params"_a, "delta"_a.none(), "variant"_a);
  m.def("register_lstm", &register_lstm, "key"_a, "plan"_a, "bytes"_a);
  m.def("forget_lstm", &forget_lstm);
  m.def("fast_lstm", &fast_lstm, "params"_a, "delta"_a.none(), "cache"_a.none(), "capacity"_a, "variant"_a, "seed"_a,
        "draw"_a, "threads"_a);
  m.def("dropout", &dropout, "rate"_a, "seed"_a, "size"_a, "shared"_a, "batch_shared"_a);
  m.def("permute", &permute, "size"_a, "permutation"_a, "item_bytes"_a);
  m.def("padding", &padding, "mode"_a, "size"_a, "before"_a, "after"_a, "item_bytes"_a, "value"_a);
  m.def("resize", &resize, "input"_a, "output"_a, "low"_a, "t"_a);
  m.def("crop_resize", &crop_resize, "sizes"_a, "extrapolation"_a, "top"_a, "down"_a, "row_inside"_a, "left"_a,
        "across"_a, "column_inside"_a);
  m.def("contraction", &contraction, "left"_a, "output"_a, "self"_a, "alpha"_a, "adds_to_output"_a);
  m.def("normalization", &normalization, "kind"_a, "size"_a, "axis"_a, "groups"_a, "numbers"_a, "readings"_a,
        "beta_size"_a, "gamma_size"_a, "activation"_a);
  m.def("fused", &fused, "first"_a, "arithmetic"_a, "kind"_a, "size"_a, "axis"_a, "groups"_a, "numbers"_a, "readings"_a,
        "beta_size"_a, "gamma_size"_a, "activation"_a);
  m.def("pooled", &pooled, "plan"_a);
  m.def("attention", &attention, "sizes"_a, "switches"_a, "dropout"_a, "seed"_a, "token"_a, "stored"_a, "gradient"_a);
  m.def("run", &run, "plan"_a, "backward"_a, "batch"_a, "tensors"_a, "accumulate"_a = 0, "threads"_a = 0,
        "training"_a = false, "extra"_a = Ints{});

  bind_training(m);
  bind_tensor(m);
  bind_known_calls(m);
  bind_interruption(m);
  bind_struct_reader(m);

  m.def("latest_call_failed", [] {
    const bool* failed = latest_call_failure.get();
    return failed && *failed;
  });
  m.def("set_latest_call_failed", [](bool failed) { latest_call_failure.own() = failed; }, "failed"_a);
  m.def(
      "set_fast_calls",
      [](bool on, bool of_filters) {
        fast_calls_enabled = on;
        filter_calls_enabled = on && of_filters;
      },
      "enabled"_a, "of_filters"_a = true);
  m.def("instruction_set", [] { return std::string(kernels().name); });
  m.def(
      "peak_gflop",
      [](int64_t n) {
        nb::gil_scoped_release unlocked;
        return kernels().peak_gflop(n);
      },
      "iterations"_a);
  m.def("max_threads", &max_threads);
  m.def("set_max_threads", &set_max_threads, "count"_a);
  m.def("set_scratch_poison", &set_scratch_poison, "enabled"_a);
  m.def("release_scratch", &release_scratch);
}
