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
#include <numeric>
#include <stdexcept>

#include "bindings/byte_calls.h"
#include "bindings/call_list.h"
#include "bindings/choosing.h"
#include "bindings/clipping_call.h"
#include "bindings/exchange.h"
#include "bindings/fast_call.h"
#include "bindings/graph_call.h"
#include "bindings/interruption.h"
#include "bindings/known_calls.h"
#include "bindings/latest_call.h"
#include "bindings/lstm_call.h"
#include "bindings/mixed_call.h"
#include "bindings/numbered.h"
#include "bindings/optimizer_call.h"
#include "bindings/shapes.h"
#include "bindings/struct_reader.h"
#include "bindings/tensor.h"
#include "bindings/training.h"
#include "kernels/instruction_sets.h"
#include "kernels/kernels.h"
#include "runtime/amx.h"
#include "runtime/caches.h"
#include "runtime/per_thread.h"
#include "runtime/schedule.h"
#include "runtime/scratch.h"
#include "runtime/thread_pool.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace openbnns {
namespace {

using Ints = std::vector<int64_t>;

void integer_linear_saturate(uintptr_t x, uintptr_t y, int64_t count, int32_t scale, int32_t offset, int32_t shift,
                             int64_t low, int64_t high) {
  kernels().integer_linear_saturate(reinterpret_cast<const int64_t*>(x), reinterpret_cast<int64_t*>(y), count, scale,
                                    offset, shift, low, high);
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
  if (is_placing()) return spoil_recording();
  Unlocked unlocked(true);
  if (backward)
    plan.backward(call);
  else
    plan.forward(call);
}

using Place = std::tuple<int, uintptr_t, int64_t>;  // slot, address, stride

// Runs a plan on addresses that the caller has checked. A list, not a vector: what
// nanobind does to make one ends the process when there is no memory for it. False if nothing was done, because the
// forward call is lost that a backward call belongs to.
// repeatable: it is a whole call, which does the same on the same memory.
bool run(std::shared_ptr<Plan> plan, bool backward, int64_t batch, nb::typed<nb::list, Place> tensors,
         uint32_t accumulate, int threads, bool training, const Ints& extra, bool repeatable) {
  Call call;
  call.training = training;
  for (size_t i = 0; i < extra.size(); i++) call.extra[i] = extra[i];
  call.batch = batch;
  call.accumulate = accumulate;
  Operation operation;
  std::vector<int> slots;
  for (nb::handle tensor : tensors) {
    const auto [slot, address, stride] = nb::cast<Place>(tensor);
    operation.places.push_back(reinterpret_cast<char*>(address));
    slots.push_back(slot);
    call.stride[slot] = stride;
    operation.bytes += batch * stride * 4;
  }
  if (repeatable) operation.enabled = &filter_calls_enabled;
  operation.work = plan_work(std::move(plan), backward, call, std::move(slots), threads);
  return perform(std::move(operation));
}

ArgumentSpec argument(int slot, int kind, bool strided, bool batched, bool output, int64_t count, uint32_t needed_with,
                      uint32_t unless, uint32_t may_equal, int64_t layout, const Ints& size, const Ints& stride,
                      int index_bytes, int64_t index_limit, bool index_none, bool index_signed,
                      const std::string& item_formats, int64_t item_bytes, int64_t data_type, bool optional_data,
                      bool stride_in_descriptor) {
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
          item_formats,
          item_bytes,
          data_type,
          optional_data,
          stride_in_descriptor};
}

// Types, tables of known calls and the objects in them belong to one interpreter, and threads come back to the main
// one.
constexpr const char* kMainOnly =
    "openbnns._core is for the main interpreter of a process, once; subinterpreters are not supported. Use threads, "
    "which compute at the same time, or processes";
bool loaded = false;

bool in_main_interpreter() { return PyInterpreterState_GetID(PyInterpreterState_Get()) == 0; }

int refuse(PyObject*) {
  PyErr_SetString(PyExc_ImportError, kMainOnly);
  return -1;
}
PyModuleDef_Slot refusal_slots[] = {
#if PY_VERSION_HEX >= 0x030C0000  // or else Python refuses an isolated interpreter in its own words
    {Py_mod_multiple_interpreters, Py_MOD_PER_INTERPRETER_GIL_SUPPORTED},
#endif
#if PY_VERSION_HEX >= 0x030D0000
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
    {Py_mod_exec, reinterpret_cast<void*>(refuse)},
    {0, nullptr}};
PyModuleDef refusal = {PyModuleDef_HEAD_INIT, "_core", nullptr, 0, nullptr, refusal_slots, nullptr, nullptr, nullptr};

}  // namespace
}  // namespace openbnns

NB_MODULE(core, m) {
  using namespace openbnns;
  if (!in_main_interpreter()) throw std::runtime_error(kMainOnly);
  nb::set_leak_warnings(false);  // filters kept in module globals are alive at exit by design
  prepare_exceptions();
  kernels();  // chosen here: a fork could catch a thread in the middle of its first call

  bind_shapes(m);
  nb::class_<ArgumentSpec>(m, "ArgumentSpec");
  m.def("argument", &argument, "slot"_a, "kind"_a, "strided"_a = false, "batched"_a = true, "output"_a = false,
        "count"_a = 0, "needed_with"_a = 0, "unless"_a = 0, "may_equal"_a = 0, "layout"_a = 0, "size"_a = Ints{},
        "stride"_a = Ints{}, "index_bytes"_a = 0, "index_limit"_a = 0, "index_none"_a = false, "index_signed"_a = false,
        "item_formats"_a = "", "item_bytes"_a = 0, "data_type"_a = kFloat32, "optional_data"_a = false,
        "stride_in_descriptor"_a = false);
  bind_raw_calls(m);
  nb::class_<FastCall, NativeCall>(m, "FastCall")
      .def(nb::init<std::shared_ptr<Plan>, bool, std::vector<ArgumentSpec>, const std::vector<FixedTensor>&, int, bool,
                    bool, std::vector<int>>(),
           "plan"_a, "backward"_a, "arguments"_a, "fixed"_a, "threads"_a, "training"_a = false, "batched"_a = true,
           "lists"_a = std::vector<int>{})
      .def("end", &FastCall::end_all);
  bind_choosing(m);

  m.def("integer_linear_saturate", &integer_linear_saturate, "x"_a, "y"_a, "count"_a, "scale"_a, "offset"_a, "shift"_a,
        "low"_a, "high"_a);
  m.def("run_lstm", &run_lstm, "plan"_a, "backward"_a, "tensors"_a, "gradients"_a, "accumulate"_a, "cache"_a, "seed"_a,
        "draw"_a, "threads"_a);
  m.def("lstm_key", &lstm_key, "params"_a, "delta"_a.none(), "variant"_a,
        nb::sig("def lstm_key(params: object, delta: object | None, variant: int) -> bytes | None"));
  m.def("register_lstm", &register_lstm, "key"_a, "plan"_a, "bytes"_a);
  m.def("next_lstm_draw", &next_lstm_draw);
  m.def("forget_lstm", &forget_lstm);
  m.def("lstm_number", &lstm_number, "backward"_a);
  m.def("fast_lstm", &fast_lstm, "params"_a, "delta"_a.none(), "cache"_a.none(), "capacity"_a, "variant"_a, "seed"_a,
        "draw"_a, "threads"_a);
  m.def("run", &run, "plan"_a, "backward"_a, "batch"_a, "tensors"_a, "accumulate"_a = 0, "threads"_a = 0,
        "training"_a = false, "extra"_a = Ints{}, "repeatable"_a = false);

  bind_training(m);
  bind_optimizer(m);
  bind_clipping(m);
  bind_tensor(m);
  bind_byte_calls(m);
  bind_mixed_call(m);
  bind_exchange(m);
  bind_known_calls(m);
  bind_call_list(m);
  bind_graph_call(m);
  bind_interruption(m);
  bind_struct_reader(m);

  m.def("latest_call_failed", [] {
    const bool* failed = latest_call_failure.get();
    return failed && *failed;
  });
  m.def("set_latest_call_failed", &set_latest_call_failed, "failed"_a);
  m.def(
      "set_fast_calls",
      [](bool on, bool of_filters) {
        fast_calls_enabled = on;
        filter_calls_enabled = on && of_filters;
      },
      "enabled"_a, "of_filters"_a = true);
  m.def("instruction_set", [] { return std::string(instruction_set()); });
  m.def("cache_bytes", [] {
    return std::vector<int64_t>{first_level_cache_bytes(), second_level_cache_bytes(), last_level_cache_bytes()};
  });
#if defined(__x86_64__)
  m.def("cpu_instructions", [] {
    const std::pair<const char*, bool> known[] = {{"AVX2", has_avx2()},
                                                  {"AVX-VNNI", has_avx_vnni()},
                                                  {"AVX-512", has_avx512()},
                                                  {"AVX-512 VNNI", has_avx512_vnni()},
                                                  {"AVX-512 BF16", has_avx512_bf16()},
                                                  {"AMX", has_amx()}};
    std::vector<std::string> found;
    for (const auto& [name, has] : known)
      if (has) found.emplace_back(name);
    return found;
  });
#else
  m.def("cpu_instructions", [] { return std::vector<std::string>(); });
#endif
  m.def("system_has_amx", &system_has_amx);
  m.def("multiplies_bfloat16", [] { return kernels().multiplies_bfloat16(); });
  m.def("multiplies_bytes", [] { return kernels().multiplies_bytes(); });
  m.def(
      "peak_gflop",
      [](int64_t iterations, int threads) {
        nb::gil_scoped_release unlocked;
        std::vector<double> done(static_cast<size_t>(threads));
        parallel_items(threads, threads,
                       [&](int64_t i) { done[static_cast<size_t>(i)] = kernels().peak_gflop(iterations); });
        return std::accumulate(done.begin(), done.end(), 0.0);
      },
      "iterations"_a, "threads"_a = 1);
  m.def("max_threads", &max_threads);
  m.def("set_max_threads", &set_max_threads, "count"_a);
  m.def("record_schedule", &record_schedule, "enabled"_a);
  m.def("take_schedule", [] {
    std::vector<std::tuple<int, int64_t, bool, std::vector<double>>> taken;
    for (SharedWork& work : take_schedule())
      taken.emplace_back(work.asked, work.items, work.ranges, std::move(work.seconds));
    return taken;
  });
  m.def("set_scratch_poison", &set_scratch_poison, "enabled"_a);
  m.def("release_scratch", &release_scratch);
  loaded = true;
}

// What Python calls to load openbnns._core: in the interpreter that imports it, but from Python 3.13 on in the main
// one. An error that is raised here for another interpreter would be freed there, which ends Python 3.13.0; so the
// refusal is a module, whose body is run by the interpreter that asked for it.
extern "C" NB_EXPORT PyObject* PyInit__core() {
  if (!openbnns::loaded && openbnns::in_main_interpreter()) return PyInit_core();
  return PyModuleDef_Init(&openbnns::refusal);
}
