// Plain loops over the definition: takes every shape, and is what the fast kernels must agree with.
#include <algorithm>

#include "common/scratch_uses.h"
#include "gemm/gemm.h"
#include "gemm/micro_kernel.h"
#include "kernels/activation/activation.h"
#include "kernels/convolution/kernels.h"
#include "runtime/scratch.h"
#include "runtime/thread_pool.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace {

// Output cells o of one axis for which o * stride + distance lies in [0, in_size).
struct Range {
  int64_t begin, end;
  Range(int64_t out_size, int64_t in_size, int64_t stride, int64_t distance) {
    begin = distance >= 0 ? 0 : (-distance + stride - 1) / stride;
    end = distance >= in_size ? begin : std::min(out_size, (in_size - distance + stride - 1) / stride);
    end = std::max(begin, end);
  }
};

// Calls body(input row, input column of the first cell, output row, output columns) for one tap.
template <class Body>
void for_rows(const ConvolutionShape& s, int64_t ky, int64_t kx, Body body) {
  Range rows(s.out_height, s.in_height, s.stride_y, ky * s.dilation_y - s.pad_up);
  Range columns(s.out_width, s.in_width, s.stride_x, kx * s.dilation_x - s.pad_left);
  for (int64_t oy = rows.begin; oy < rows.end; oy++)
    body(oy * s.stride_y + ky * s.dilation_y - s.pad_up, columns.begin * s.stride_x + kx * s.dilation_x - s.pad_left,
         oy, columns);
}

template <class Number>
using Aliased [[gnu::may_alias]] = Number;

void start_plane(const ImageCall& call, float* out, int64_t pixels, int64_t channel) {
  if (!call.accumulate) std::fill_n(out, pixels, call.bias ? call.bias[channel] : 0.f);
}

void finish_plane(const ImageCall& call, float* out, int64_t pixels) {
  if (call.activation) activation_forward(*call.activation, out, out, pixels, call.activation_row);
}

// Sum: what products are added up in, which is the type of the results, too.
template <class Sum>
class ReferenceForward : public ImageKernel {
 public:
  explicit ReferenceForward(const ConvolutionShape& s) : s_(s) {}

  void run(const ImageCall& call) const override {
    int64_t in_plane = s_.in_height * s_.in_width, out_plane = s_.out_height * s_.out_width;
    int64_t inputs = s_.in_channels / s_.groups, outputs = s_.out_channels / s_.groups;
    int64_t taps = s_.kernel_height * s_.kernel_width;
    parallel_items(call.threads, call.batch * s_.out_channels, [&](int64_t item) {
      int64_t n = item / s_.out_channels, k = item % s_.out_channels;
      float* results = call.out + n * call.out_stride + k * out_plane;
      start_plane(call, results, out_plane, k);
      auto* y = reinterpret_cast<Aliased<Sum>*>(results);
      for (int64_t c = 0; c < inputs; c++) {
        int64_t unused;
        check_interruption();
        const float* x = call.in.pixels(n, k / outputs * inputs + c, 1, 0, in_plane, &unused);
        for (int64_t t = 0; t < taps; t++) {
          const auto w = static_cast<Sum>(call.w[(k * inputs + c) * taps + t]);
          for_rows(s_, t / s_.kernel_width, t % s_.kernel_width, [&](int64_t iy, int64_t ix, int64_t oy, Range o) {
            for (int64_t ox = o.begin; ox < o.end; ox++, ix += s_.stride_x)
              y[oy * s_.out_width + ox] += w * static_cast<Sum>(x[iy * s_.in_width + ix]);
          });
        }
      }
      finish_plane(call, results, out_plane);
    });
  }

 private:
  const ConvolutionShape s_;
};

// forward: y(o) += w * x(i), hence dx(i) += w * dy(o)
class ReferenceBackwardData : public ImageKernel {
 public:
  explicit ReferenceBackwardData(const ConvolutionShape& s) : s_(s) {}

  void run(const ImageCall& call) const override {
    int64_t in_plane = s_.in_height * s_.in_width, out_plane = s_.out_height * s_.out_width;
    int64_t inputs = s_.in_channels / s_.groups, outputs = s_.out_channels / s_.groups;
    int64_t taps = s_.kernel_height * s_.kernel_width;
    parallel_items(call.threads, call.batch * s_.in_channels, [&](int64_t item) {
      int64_t n = item / s_.in_channels, c = item % s_.in_channels, group = c / inputs;
      float* dx = call.out + n * call.out_stride + c * in_plane;
      start_plane(call, dx, in_plane, c);
      for (int64_t k = group * outputs; k < (group + 1) * outputs; k++) {
        int64_t unused;
        check_interruption();
        const float* dy = call.in.pixels(n, k, 1, 0, out_plane, &unused);
        for (int64_t t = 0; t < taps; t++) {
          float w = call.w[(k * inputs + c % inputs) * taps + t];
          for_rows(s_, t / s_.kernel_width, t % s_.kernel_width, [&](int64_t iy, int64_t ix, int64_t oy, Range o) {
            for (int64_t ox = o.begin; ox < o.end; ox++, ix += s_.stride_x)
              dx[iy * s_.in_width + ix] += w * dy[oy * s_.out_width + ox];
          });
        }
      }
      finish_plane(call, dx, in_plane);
    });
  }

 private:
  const ConvolutionShape s_;
};

// forward: y(o) += w * x(i), hence dw += dy(o) * x(i)
class ReferenceWeights : public WeightsKernel {
 public:
  explicit ReferenceWeights(const ConvolutionShape& s) : s_(s) {}

  void run(const WeightsCall& call) const override {
    int64_t in_plane = s_.in_height * s_.in_width, out_plane = s_.out_height * s_.out_width;
    int64_t inputs = s_.in_channels / s_.groups, outputs = s_.out_channels / s_.groups;
    int64_t taps = s_.kernel_height * s_.kernel_width;
    if (call.db) sum_channels(call.dy, call.batch, s_.out_channels, call.db, call.add_db, call.threads);
    if (!call.dw) return;
    parallel_items(call.threads, s_.out_channels, [&](int64_t k) {
      float* dw = call.dw + k * inputs * taps;
      if (!call.add_dw) std::fill_n(dw, inputs * taps, 0.f);
      float* gradient = scratch(kGradientBand, static_cast<size_t>(out_plane));
      for (int64_t n = 0; n < call.batch; n++) {
        int64_t unused;
        std::copy_n(call.dy.pixels(n, k, 1, 0, out_plane, &unused), out_plane, gradient);
        for (int64_t c = 0; c < inputs; c++) {
          check_interruption();
          const float* x = call.x.pixels(n, k / outputs * inputs + c, 1, 0, in_plane, &unused);
          for (int64_t t = 0; t < taps; t++) {
            float sum = 0;
            for_rows(s_, t / s_.kernel_width, t % s_.kernel_width, [&](int64_t iy, int64_t ix, int64_t oy, Range o) {
              for (int64_t ox = o.begin; ox < o.end; ox++, ix += s_.stride_x)
                sum += gradient[oy * s_.out_width + ox] * x[iy * s_.in_width + ix];
            });
            dw[c * taps + t] += sum;
          }
        }
      }
    });
  }

 private:
  const ConvolutionShape s_;
};

float sum_pixels(const float* p, int64_t count) {
  Vec sum[4] = {Vec{}, Vec{}, Vec{}, Vec{}};
  int64_t i = 0;
  for (; i + 4 * kWidth <= count; i += 4 * kWidth)
    OPENBNNS_UNROLL for (int v = 0; v < 4; v++) sum[v] += load(p + i + v * kWidth);
  float rest = 0;
  for (; i < count; i++) rest += p[i];
  return rest + sum_lanes((sum[0] + sum[1]) + (sum[2] + sum[3]));
}

}  // namespace

void sum_channels(const ImageSource& image, int64_t batch, int64_t channels, float* db, bool accumulate, int threads) {
  threads = useful_threads(threads, static_cast<double>(batch * channels) * static_cast<double>(image.plane));
  parallel_items(threads, channels, [&](int64_t c) {
    float sum = 0;
    for (int64_t n = 0; n < batch; n++) {
      int64_t unused;
      sum += sum_pixels(image.pixels(n, c, 1, 0, image.plane, &unused), image.plane);
    }
    db[c] = accumulate ? db[c] + sum : sum;
  });
}

std::unique_ptr<ImageKernel> make_reference_forward(const ConvolutionShape& s) {
  return std::make_unique<ReferenceForward<float>>(s);
}
std::unique_ptr<ImageKernel> make_exact_reference_forward(const ConvolutionShape& s) {
  return std::make_unique<ReferenceForward<int32_t>>(s);
}
std::unique_ptr<ImageKernel> make_reference_backward_data(const ConvolutionShape& s) {
  return std::make_unique<ReferenceBackwardData>(s);
}
std::unique_ptr<WeightsKernel> make_reference_weights(const ConvolutionShape& s) {
  return std::make_unique<ReferenceWeights>(s);
}

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
