#include "kernels/convolution/depthwise_rows.h"

#include <algorithm>

#include "common/scratch_uses.h"
#include "kernels/activation/activation.h"
#include "runtime/dynamic_items.h"
#include "runtime/partition.h"
#include "runtime/scratch.h"

namespace openbnns {
namespace OPENBNNS_ISA {
#if OPENBNNS_READS_ROWS
namespace {

constexpr int64_t kSerialElements = 32768;
constexpr int64_t kMinTasks = 16;       // backward: blocks of channels and, if these are few, parts of the batch
constexpr int64_t kChunk = 16384;       // forward: floats of the results of a task
constexpr int64_t kBlockFloats = 8192;  // backward: neighbouring planes that a task reads together
constexpr int64_t kLeastAhead = 512;    // floats between a plane and the one that is asked for meanwhile

class DepthwiseRows final : public Plan {
 public:
  DepthwiseRows(const ConvolutionShape& s, const ActivationSpec& activation)
      : channels_(s.in_channels),
        multiplier_(s.out_channels / s.in_channels),
        in_plane_(s.in_height * s.in_width),
        out_plane_(s.out_height * s.out_width),
        out_width_(s.out_width),
        ahead_(std::max<int64_t>(1, kLeastAhead / out_plane_)),
        activation_(activation),
        windows_(s.stride_x == 1 ? make_stride_one(s) : make_stride_two(s)) {}

  static bool takes(const ConvolutionShape& s) {
    const bool square = s.kernel_height == 3 && s.kernel_width == 3 && s.stride_y == s.stride_x && s.dilation_y == 1;
    if (!square || std::max(s.in_width, s.out_width) > RowWindows::kMostColumns) return false;
    // narrow images with step 1 leave too many lanes empty
    if (s.stride_x == 1) return 2 * std::min(s.in_width, s.out_width) > kWidth + 2;
    return s.stride_x == 2 && s.dilation_x == 1;
  }

  void forward(const Call& call) override {
    const int64_t outputs = channels_ * multiplier_, planes = call.batch * outputs;
    const int64_t chunk = even_group(planes, std::max<int64_t>(1, kChunk / out_plane_), threads(call));
    dynamic_items(threads(call), (planes + chunk - 1) / chunk, [&](int64_t item) {
      const int64_t first = item * chunk, soon = std::min(first + ahead_, planes - 1);
      Plane plane{first / outputs, first % outputs}, next{soon / outputs, soon % outputs};
      for (int64_t i = first; i < std::min(planes, first + chunk); i++) {
        float* y = output(call, Y, plane);
        windows_->forward(input(call, X, plane), call.address[W] + plane.o * kTaps,
                          call.address[B] ? call.address[B][plane.o] : 0, y,
                          {input(call, X, next), output(call, Y, next)});
        if (!is_identity(activation_)) activation_forward(activation_, y, y, out_plane_, out_width_);
        plane.advance(outputs);
        next.advance(outputs);
      }
    });
  }

  void backward(const Call& call) override {
    const Run run(*this, call);
    // More workers than that share the channels of a block: sums of different channels are different sums.
    const int64_t shares = even_parts(run.blocks * run.parts, run.block, threads(call));
    dynamic_items(threads(call), run.blocks * run.parts * shares,
                  [&](int64_t task) { backward_task(run, task / shares, task % shares, shares); });
    if (run.sums) write_sums(run);
  }

 private:
  static constexpr int64_t kTaps = 9;
  static constexpr int64_t kSums = kTaps + 1;  // per output channel: one for each weight, one for the bias

  struct Plane {
    int64_t n, o;  // sample, output channel

    void advance(int64_t outputs) {
      if (++o < outputs) return;
      o = 0;
      n++;
    }
  };

  // How a backward call is cut: blocks of channels times parts of the batch, by shape only.
  struct Run {
    const Call& call;
    int64_t block, blocks, parts;
    double* sums = nullptr;  // [parts][out_channels][kSums]

    Run(const DepthwiseRows& plan, const Call& c) : call(c) {
      const int64_t most = std::clamp<int64_t>(kBlockFloats / plan.in_plane_, 8, 64);
      block = std::clamp<int64_t>(plan.channels_ / kMinTasks, 1, most);
      blocks = (plan.channels_ + block - 1) / block;
      parts = std::clamp<int64_t>(kMinTasks / blocks, 1, std::max<int64_t>(1, c.batch));
      if (c.address[DW] || c.address[DB])
        sums = reinterpret_cast<double*>(
            scratch(kPartialSums, static_cast<size_t>(parts * plan.channels_ * plan.multiplier_ * kSums * 2)));
    }
  };

  // Sums of the output channels of a block; their lanes are added at the very end.
  struct Sums {
    float* single;  // [channels][kTaps][kWidth]: the latest products
    double* all;    // [channels][kSums][kWidth]

    void flush(int64_t o) const {
      float* from = single + o * kTaps * kWidth;
      double* to = all + o * kSums * kWidth;
      for (int64_t i = 0; i < kTaps * kWidth; i += kWidth) {
        store_wide(to + i, load_wide(to + i) + widen(load(from + i)));
        store(from + i, Vec{});
      }
    }
  };

  int threads(const Call& call) const {
    const int64_t elements = call.batch * channels_ * (in_plane_ + multiplier_ * out_plane_);
    return elements < 2 * kSerialElements ? 1 : call.threads;
  }
  // Planes of a tensor like x and like y.
  float* input(const Call& call, int slot, Plane p) const {
    return call.address[slot] + p.n * call.stride[slot] + (multiplier_ == 1 ? p.o : p.o / multiplier_) * in_plane_;
  }
  float* output(const Call& call, int slot, Plane p) const {
    return call.address[slot] + p.n * call.stride[slot] + p.o * out_plane_;
  }

  // Share `share` of so many of the channels of a task.
  void backward_task(const Run& run, int64_t task, int64_t share, int64_t shares) const {
    const Call& call = run.call;
    const int64_t part = task % run.parts, block = task / run.parts * run.block;
    const int64_t first = std::min(channels_, block + run.block * share / shares) * multiplier_;
    const int64_t last = std::min(channels_, block + run.block * (share + 1) / shares) * multiplier_;
    const Sums sums{
        scratch(kOutputTile, static_cast<size_t>((last - first) * kTaps * kWidth)),
        reinterpret_cast<double*>(scratch(kPlaneSums, static_cast<size_t>((last - first) * kSums * kWidth) * 2))};
    std::fill_n(sums.single, (last - first) * kTaps * kWidth, 0.f);
    std::fill_n(sums.all, (last - first) * kSums * kWidth, 0.0);
    const int64_t end = call.batch * (part + 1) / run.parts;
    const int64_t held = std::max<int64_t>(1, kSingleSums / windows_->additions());  // planes in the single sums
    auto flush = [&] {
      for (int64_t o = 0; o < last - first; o++) sums.flush(o);
    };
    int64_t planes = 0;
    for (int64_t n = call.batch * part / run.parts; n < end; n++) {
      for (int64_t o = first; o < last; o++) {
        check_interruption();
        Plane next{n, o + ahead_};
        if (next.o >= last) next = {std::min(n + 1, end - 1), std::min(next.o - last + first, last - 1)};
        backward_plane(call, {n, o}, next, sums, o - first);
      }
      if (++planes % held == 0) flush();
    }
    flush();
    if (!run.sums) return;
    double* to = run.sums + (part * channels_ * multiplier_ + first) * kSums;
    for (int64_t i = 0; i < (last - first) * kSums; i++) to[i] = sum_lanes(load_wide(sums.all + i * kWidth));
  }

  // What one plane of the output adds to the gradients; o: its channel within the block.
  void backward_plane(const Call& call, Plane plane, Plane next, const Sums& sums, int64_t o) const {
    const float* dz = output_gradient(call, plane);
    if (call.address[DB]) add_lanes(dz, out_plane_, sums.all + (o * kSums + kTaps) * kWidth);
    if (call.address[DX])
      windows_->input_gradient(dz, call.address[W] + plane.o * kTaps, input(call, DX, plane),
                               call.adds(DX) || (multiplier_ > 1 && plane.o % multiplier_ > 0),
                               {output(call, DY, next), input(call, DX, next)});
    if (!call.address[DW]) return;
    for (int64_t band = 0; band < windows_->bands(); band++) {
      if (band > 0) sums.flush(o);
      windows_->add_products(band, input(call, X, plane), dz, sums.single + o * kTaps * kWidth, input(call, X, next));
    }
  }

  // y = f(z): dz = dy * f'(y); [out_height][out_width]
  const float* output_gradient(const Call& call, Plane plane) const {
    const float* dy = output(call, DY, plane);
    if (is_identity(activation_)) return dy;
    float* dz = scratch(kActivated, static_cast<size_t>(out_plane_));
    activation_backward_from_output(activation_, output(call, Y, plane), dy, dz, out_plane_, out_width_);
    return dz;
  }

  // Adds the parts of the batch in order and stores dw [out_channels][taps] and db [out_channels].
  void write_sums(const Run& run) const {
    const int64_t outputs = channels_ * multiplier_;
    float *dw = run.call.address[DW], *db = run.call.address[DB];
    auto write = [&](float* to, int64_t sum, bool adds) {
      double total = 0;
      for (int64_t p = 0; p < run.parts; p++) total += run.sums[p * outputs * kSums + sum];
      *to = static_cast<float>(adds ? *to + total : total);
    };
    for (int64_t o = 0; o < outputs; o++) {
      for (int64_t t = 0; dw && t < kTaps; t++) write(dw + o * kTaps + t, o * kSums + t, run.call.adds(DW));
      if (db) write(db + o, o * kSums + kTaps, run.call.adds(DB));
    }
  }

  const int64_t channels_, multiplier_, in_plane_, out_plane_, out_width_;
  const int64_t ahead_;  // planes
  const ActivationSpec activation_;
  const std::unique_ptr<RowWindows> windows_;
};

}  // namespace

std::unique_ptr<Plan> make_depthwise_rows(const ConvolutionShape& shape, const ActivationSpec& activation) {
  if (!DepthwiseRows::takes(shape)) return nullptr;
  return std::make_unique<DepthwiseRows>(shape, activation);
}
#else  // no masked loads, or none that the sanitizer sees
std::unique_ptr<Plan> make_depthwise_rows(const ConvolutionShape&, const ActivationSpec&) { return nullptr; }
#endif

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
