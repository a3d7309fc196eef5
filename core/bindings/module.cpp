// The Python module openbnns._core: plans, the fast call, threads. Knows addresses and sizes, not the rules of BNNS.
#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstring>

#include "bindings/fast_call.h"
#include "bindings/tensor.h"
#include "bindings/training.h"
#include "kernels/kernels.h"
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
                                  const Activation& activation, bool transposed) {
  ConvolutionShape s{in.at(0),       in.at(1),       in.at(2),      out.at(0),     out.at(1),
                     out.at(2),      kernel.at(0),   kernel.at(1),  stride.at(0),  stride.at(1),
                     dilation.at(0), dilation.at(1), padding.at(0), padding.at(1), groups};
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

std::shared_ptr<Plan> dropout(float rate, uint64_t seed, const Ints& size, const std::vector<bool>& shared,
                              bool batch_shared) {
  return kernels().make_dropout({rate, seed, size, shared, batch_shared});
}

// Runs a plan on addresses that the caller has checked. tensors: (slot, address, stride).
void run(Plan& plan, bool backward, int64_t batch, const std::vector<std::tuple<int, uintptr_t, int64_t>>& tensors,
         uint32_t accumulate, int threads) {
  Call call;
  call.batch = batch;
  call.accumulate = accumulate;
  call.threads = threads > 0 ? threads : max_threads();
  for (auto [slot, address, stride] : tensors) {
    call.address[slot] = reinterpret_cast<float*>(address);
    call.stride[slot] = stride;
  }
  nb::gil_scoped_release unlocked;
  if (backward)
    plan.backward(call);
  else
    plan.forward(call);
}

ArgumentSpec argument(int slot, int kind, bool strided, bool batched, bool output, int64_t count, uint32_t needed_with,
                      uint32_t unless, uint32_t may_equal, int64_t layout, const Ints& size, const Ints& stride,
                      int index_bytes, int64_t index_limit, bool index_none, bool index_signed) {
  return {slot,        static_cast<ArgumentKind>(kind),
          strided,     batched,
          output,      count,
          needed_with, unless,
          may_equal,   layout,
          size,        stride,
          index_bytes, index_limit,
          index_none,  index_signed};
}

}  // namespace
}  // namespace openbnns

NB_MODULE(_core, m) {
  using namespace openbnns;
  nb::set_leak_warnings(false);  // filters kept in module globals are alive at exit by design

  nb::class_<Plan>(m, "Plan");
  nb::class_<ArgumentSpec>(m, "ArgumentSpec");
  m.def("argument", &argument, "slot"_a, "kind"_a, "strided"_a, "batched"_a, "output"_a, "count"_a, "needed_with"_a,
        "unless"_a, "may_equal"_a, "layout"_a, "size"_a, "stride"_a, "index_bytes"_a = 0, "index_limit"_a = 0,
        "index_none"_a = false, "index_signed"_a = false);
  nb::class_<FastCall>(m, "FastCall")
      .def(nb::init<std::shared_ptr<Plan>, bool, std::vector<ArgumentSpec>, const std::vector<FixedTensor>&, int>(),
           "plan"_a, "backward"_a, "arguments"_a, "fixed"_a, "threads"_a)
      .def("run", &FastCall::run)
      .def("run_lists", &FastCall::run_lists);

  m.def("fully_connected", &fully_connected, "inputs"_a, "outputs"_a, "activation"_a);
  m.def("convolution", &convolution, "input"_a, "output"_a, "kernel"_a, "stride"_a, "dilation"_a, "padding"_a,
        "groups"_a, "activation"_a, "transposed"_a);
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
  m.def("dropout", &dropout, "rate"_a, "seed"_a, "size"_a, "shared"_a, "batch_shared"_a);
  m.def("run", &run, "plan"_a, "backward"_a, "batch"_a, "tensors"_a, "accumulate"_a = 0, "threads"_a = 0);

  bind_training(m);
  bind_tensor(m);

  m.def("set_fast_calls", [](bool on) { fast_calls_enabled = on; }, "enabled"_a);
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
