// C entry points for timing plans from a script; not part of the product.
#include <chrono>

#include "kernels/makers.h"
#include "runtime/scratch.h"
#include "runtime/thread_pool.h"

using namespace openbnns;
namespace isa = openbnns::OPENBNNS_ISA;
#define EXPORT extern "C" __attribute__((visibility("default")))

// kind 0: convolution, 1: transposed convolution. sizes: the fields of ConvolutionShape in order.
EXPORT void* shim_convolution(int kind, const int64_t* v, int function) {
  ConvolutionShape s{v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8], v[9], v[10], v[11], v[12], v[13], v[14]};
  ActivationSpec f{function, 0, 0};
  return (kind == 0 ? isa::make_convolution(s, f) : isa::make_transposed_convolution(s, f)).release();
}
EXPORT void* shim_fully_connected(int64_t inputs, int64_t outputs, int function) {
  return isa::make_fully_connected({inputs, outputs}, {function, 0, 0}).release();
}
EXPORT void shim_free(void* plan) { delete static_cast<Plan*>(plan); }

// addresses and strides in the order of Slot; returns seconds per call over `repeats` calls.
EXPORT double shim_run(void* plan, int backward, int64_t batch, float** addresses, const int64_t* strides, int threads,
                       int repeats) {
  Call call;
  call.batch = batch;
  call.threads = threads;
  for (int i = 0; i < 8; i++) call.address[i] = addresses[i], call.stride[i] = strides[i];
  auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < repeats; i++) {
    if (backward)
      static_cast<Plan*>(plan)->backward(call);
    else
      static_cast<Plan*>(plan)->forward(call);
  }
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / repeats;
}
EXPORT double shim_peak(int threads) {
  int64_t iterations = 20000000;
  double work[64];
  auto start = std::chrono::steady_clock::now();
  parallel_items(threads, threads, [&](int64_t i) { work[i] = isa::peak_gflop(iterations); });
  double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return work[0] * threads / seconds;
}
