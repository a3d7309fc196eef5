#include "kernels/convolution_depthwise.h"

#include <vector>

#include "kernels/activation.h"
#include "kernels/planes.h"
#include "kernels/scratch_uses.h"
#include "runtime/scratch.h"
#include "runtime/thread_pool.h"
#include "simd/wide.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace {

constexpr int64_t kSerialElements = 32768;
constexpr int64_t kMinTasks = 16;        // backward: parts of the channels and, if these are few, of the batch
constexpr int64_t kMaxBlockChannels = 8;  // planes of neighbouring channels are read together
constexpr int64_t kSumRows = 128;         // vectors added in single precision before they go to double

// Taps of a window: where each one lies from the window's origin, and which weight it has.
struct Taps {
  std::vector<int64_t> offset;
  std::vector<int64_t> weight;

  void push(int64_t o, int64_t w) {
    offset.push_back(o);
    weight.push_back(w);
  }
  int count() const { return static_cast<int>(offset.size()); }
};

// A plane of windows: origin of window (r, c) is source + r * row_step + c.
struct Windows {
  const float* source;
  int64_t row_step;
  int64_t rows, columns;
};

// Where results go. Rows are written in order with whole vectors: what spills over the end of a row is written again by
// the next one, and nothing is written from `end` on.
struct PlaneWriter {
  float* data;
  int64_t pitch;
  float* end;

  OPENBNNS_INLINE void write(int64_t row, int64_t column, Vec v) const {
    float* to = data + row * pitch + column;
    if (to + kWidth <= end)
      store(to, v);
    else if (to < end)
      store_partial(to, v, end - to);
  }
};

// out(r, c) = start + sum over taps of weight[tap] * source(r, c)[offset[tap]]
template <int kTaps>
void correlate(const Windows& in, const Taps& taps, const float* weights, float start, const PlaneWriter& out) {
  Vec weight[kTaps];
  int64_t offset[kTaps];
  for (int t = 0; t < kTaps; t++) {
    weight[t] = splat(weights[taps.weight[t]]);
    offset[t] = taps.offset[t];
  }
  for (int64_t r = 0; r < in.rows; r++)
    for (int64_t c = 0; c < in.columns; c += kWidth) {
      const float* origin = in.source + r * in.row_step + c;
      Vec sum = splat(start), other{};
      OPENBNNS_UNROLL for (int t = 0; t < kTaps; t += 2) {
        sum += weight[t] * load(origin + offset[t]);
        if (t + 1 < kTaps) other += weight[t + 1] * load(origin + offset[t + 1]);
      }
      out.write(r, c, sum + other);
    }
}

void correlate_any(const Windows& in, const Taps& taps, const float* weights, float start, const PlaneWriter& out) {
  for (int64_t r = 0; r < in.rows; r++)
    for (int64_t c = 0; c < in.columns; c += kWidth) {
      const float* origin = in.source + r * in.row_step + c;
      Vec sum = splat(start), other{};
      int t = 0;
      for (; t + 1 < taps.count(); t += 2) {
        sum += weights[taps.weight[t]] * load(origin + taps.offset[t]);
        other += weights[taps.weight[t + 1]] * load(origin + taps.offset[t + 1]);
      }
      if (t < taps.count()) sum += weights[taps.weight[t]] * load(origin + taps.offset[t]);
      out.write(r, c, sum + other);
    }
}

void correlate_plane(const Windows& in, const Taps& taps, const float* weights, float start, const PlaneWriter& out) {
  switch (taps.count()) {
    case 1:
      return correlate<1>(in, taps, weights, start, out);
    case 2:
      return correlate<2>(in, taps, weights, start, out);
    case 4:
      return correlate<4>(in, taps, weights, start, out);
    case 9:
      return correlate<9>(in, taps, weights, start, out);
    default:
      return correlate_any(in, taps, weights, start, out);
  }
}

OPENBNNS_INLINE IntVec first_lanes(int64_t count) {
  IntVec lane;
  OPENBNNS_UNROLL for (int i = 0; i < kWidth; i++) lane[i] = i;
  return lane < splat_int(static_cast<int32_t>(count));
}

// sums[tap] += sum over windows of dz(r, c) * source(r, c)[offset[tap]] for kTaps taps from `tap` on. sums are vectors of
// doubles [kWidth]; their lanes are added at the very end.
template <int kTaps>
void add_products(const Windows& in, const float* dz, int64_t dz_pitch, const int64_t* offsets, double* sums) {
  int64_t offset[kTaps];
  for (int t = 0; t < kTaps; t++) offset[t] = offsets[t];
  const int64_t whole = in.columns / kWidth * kWidth;
  const IntVec tail = first_lanes(in.columns - whole);
  const int64_t group = std::max<int64_t>(1, kSumRows * kWidth / std::max<int64_t>(in.columns, 1));
  for (int64_t first = 0; first < in.rows; first += group) {
    Vec sum[kTaps] = {};
    int64_t last = std::min(in.rows, first + group);
    for (int64_t r = first; r < last; r++) {
      const float* origin = in.source + r * in.row_step;
      const float* gradient = dz + r * dz_pitch;
      for (int64_t c = 0; c < whole; c += kWidth) {
        Vec g = load(gradient + c);
        OPENBNNS_UNROLL for (int t = 0; t < kTaps; t++) sum[t] += g * load(origin + c + offset[t]);
      }
      if (whole == in.columns) continue;
      // columns past the end are no windows: an infinity there must not meet a zero of dz
      Vec g = load(gradient + whole);
      OPENBNNS_UNROLL for (int t = 0; t < kTaps; t++)
        sum[t] += g * from_bits(bits(load(origin + whole + offset[t])) & tail);
    }
    for (int t = 0; t < kTaps; t++)
      store_wide(sums + t * kWidth, load_wide(sums + t * kWidth) + widen(sum[t]));
  }
}

void add_tap_products(const Windows& in, const float* dz, int64_t dz_pitch, const Taps& taps, double* sums) {
  int t = 0;
  for (; t + 9 <= taps.count(); t += 9)
    add_products<9>(in, dz, dz_pitch, taps.offset.data() + t, sums + t * kWidth);
  for (; t + 3 <= taps.count(); t += 3)
    add_products<3>(in, dz, dz_pitch, taps.offset.data() + t, sums + t * kWidth);
  for (; t < taps.count(); t++) add_products<1>(in, dz, dz_pitch, taps.offset.data() + t, sums + t * kWidth);
}

// sums[0..kWidth) += the lanes of a plane of `count` values.
void add_plane(const float* plane, int64_t count, double* sums) {
  WideVec total = load_wide(sums);
  for (int64_t first = 0; first < count; first += kSumRows * kWidth) {
    int64_t last = std::min(count, first + kSumRows * kWidth), i = first;
    Vec even{}, odd{};
    for (; i + 2 * kWidth <= last; i += 2 * kWidth) {
      even += load(plane + i);
      odd += load(plane + i + kWidth);
    }
    for (; i < last; i += kWidth) even += load_partial(plane + i, std::min<int64_t>(kWidth, last - i));
    total = total + widen(even + odd);
  }
  store_wide(sums, total);
}

class Depthwise final : public Plan {
 public:
  Depthwise(const ConvolutionShape& s, const ActivationSpec& activation)
      : shape_(s),
        activation_(activation),
        multiplier_(s.out_channels / s.in_channels),
        in_plane_(s.in_height * s.in_width),
        out_plane_(s.out_height * s.out_width),
        reach_y_((s.kernel_height - 1) * s.dilation_y / s.stride_y),
        reach_x_((s.kernel_width - 1) * s.dilation_x / s.stride_x),
        input_(s.in_height, s.in_width, s.pad_up, s.pad_left, s.stride_x,
               (s.out_height - 1) * s.stride_y + (s.kernel_height - 1) * s.dilation_y + 1,
               std::max(round_up(s.out_width, kWidth) + reach_x_, (s.pad_left + s.stride_x) / s.stride_x)),
        gradient_(s.out_height, s.out_width, reach_y_, reach_x_, 1,
                  reach_y_ + std::max(s.out_height, (s.in_height - 1 + s.pad_up) / s.stride_y + 1),
                  reach_x_ + round_up(std::max(s.out_width, (s.in_width - 1 + s.pad_left) / s.stride_x + 1), kWidth) +
                      kWidth) {
    for (int64_t ky = 0; ky < s.kernel_height; ky++)
      for (int64_t kx = 0; kx < s.kernel_width; kx++)
        taps_.push(input_.offset(ky * s.dilation_y, kx * s.dilation_x), ky * s.kernel_width + kx);
    for (int64_t py = 0; py < s.stride_y; py++)
      for (int64_t px = 0; px < s.stride_x; px++) phases_.push_back(make_phase(py, px));
  }

  void forward(const Call& call) override {
    int64_t planes = call.batch * shape_.in_channels;
    bool small = planes * (in_plane_ + multiplier_ * out_plane_) < 2 * kSerialElements;
    int workers = static_cast<int>(std::min<int64_t>(small ? 1 : call.threads, std::max<int64_t>(planes, 1)));
    parallel(workers, [&](int worker, int count) {
      float* x = scratch(kInputBand, static_cast<size_t>(input_.room()));
      input_.fill_border(x, 0);
      for (int64_t i = planes * worker / count; i < planes * (worker + 1) / count; i++)
        forward_plane(call, i / shape_.in_channels, i % shape_.in_channels, x);
    });
  }

  void backward(const Call& call) override {
    Run run(*this, call);
    parallel(run.workers, [&](int worker, int count) {
      Work work(*this, run);
      for (int64_t t = run.tasks * worker / count; t < run.tasks * (worker + 1) / count; t++)
        backward_task(run, work, t);
    });
    write_sums(run);
  }

 private:
  // The input cells (qy * stride_y + py - pad_up, qx * stride_x + px - pad_left): all meet the same taps, at unit stride
  // in the output gradient.
  struct Phase {
    int64_t first_row, rows;        // of the input, every stride_y-th
    int64_t first_column, columns;  // of the input, every stride_x-th
    int64_t origin;                 // of the first window in the bordered output gradient
    Taps taps;
  };

  Phase make_phase(int64_t py, int64_t px) const {
    const ConvolutionShape& s = shape_;
    Phase phase;
    int64_t qy = std::max<int64_t>(0, (s.pad_up - py + s.stride_y - 1) / s.stride_y);
    int64_t qx = std::max<int64_t>(0, (s.pad_left - px + s.stride_x - 1) / s.stride_x);
    phase.first_row = qy * s.stride_y + py - s.pad_up;
    phase.first_column = qx * s.stride_x + px - s.pad_left;
    phase.rows = std::max<int64_t>(0, (s.in_height - phase.first_row + s.stride_y - 1) / s.stride_y);
    phase.columns = std::max<int64_t>(0, (s.in_width - phase.first_column + s.stride_x - 1) / s.stride_x);
    phase.origin = gradient_.offset(qy, qx);
    // y: z(oy, ox) += w(ky, kx) * x(oy * stride + ky * dilation - pad), so x(q) meets dz(q - ky * dilation / stride)
    for (int64_t ky = 0; ky < s.kernel_height; ky++)
      for (int64_t kx = 0; kx < s.kernel_width; kx++) {
        int64_t y = ky * s.dilation_y, x = kx * s.dilation_x;
        if (y % s.stride_y != py || x % s.stride_x != px) continue;
        phase.taps.push(gradient_.offset(reach_y_ - y / s.stride_y, reach_x_ - x / s.stride_x),
                        ky * s.kernel_width + kx);
      }
    return phase;
  }

  // How a backward call is cut: blocks of channels times parts of the batch, by shape only.
  struct Run {
    const Call& call;
    int64_t block_channels, blocks, parts, tasks;
    int workers;
    int64_t sums_per_channel;  // per output channel: one for each weight, one for the bias
    double* sums = nullptr;    // [parts][out_channels][sums_per_channel]

    Run(const Depthwise& plan, const Call& c) : call(c) {
      const ConvolutionShape& s = plan.shape_;
      block_channels = std::min(kMaxBlockChannels, std::max<int64_t>(1, s.in_channels / kMinTasks));
      blocks = (s.in_channels + block_channels - 1) / block_channels;
      parts = std::max<int64_t>(1, std::min(c.batch, kMinTasks / blocks));
      tasks = blocks * parts;
      bool small = c.batch * s.in_channels * (plan.in_plane_ + plan.multiplier_ * plan.out_plane_) < 2 * kSerialElements;
      workers = static_cast<int>(std::min<int64_t>(small ? 1 : c.threads, tasks));
      sums_per_channel = plan.taps_.count() + 1;
      if (c.address[DW] || c.address[DB])
        sums = reinterpret_cast<double*>(
            scratch(kPartialSums, static_cast<size_t>(parts * s.out_channels * sums_per_channel * 2)));
    }
  };

  // Scratch of one thread.
  struct Work {
    float* x = nullptr;        // bordered input plane
    float* dz = nullptr;       // bordered output gradient plane
    float* flat_dz = nullptr;  // [out_height][out_width], with a fused activation
    float* dx = nullptr;       // [stride_x] planes of one phase each, then one plane [in_height][in_width]
    double* sums = nullptr;    // [block's output channels][sums_per_channel][kWidth]
    int64_t phase_pitch = 0, phase_room = 0;

    Work(const Depthwise& plan, const Run& run) {
      const ConvolutionShape& s = plan.shape_;
      const Call& call = run.call;
      dz = scratch(kGradientBand, static_cast<size_t>(plan.gradient_.room()));
      plan.gradient_.fill_border(dz, 0);
      if (!is_identity(plan.activation_)) flat_dz = scratch(kActivated, static_cast<size_t>(plan.out_plane_));
      if (call.address[DW]) {
        x = scratch(kInputBand, static_cast<size_t>(plan.input_.room()));
        plan.input_.fill_border(x, 0);
      }
      if (call.address[DX]) {
        phase_pitch = round_up((s.in_width + s.stride_x - 1) / s.stride_x, kWidth);
        phase_room = (s.in_height + s.stride_y - 1) / s.stride_y * phase_pitch;
        dx = scratch(kOutputTile, static_cast<size_t>(s.stride_x * phase_room + plan.in_plane_));
      }
      if (run.sums)
        sums = reinterpret_cast<double*>(
            scratch(kPlaneSums, static_cast<size_t>(run.block_channels * plan.multiplier_ * run.sums_per_channel) *
                                    kWidth * 2));
    }
  };

  void forward_plane(const Call& call, int64_t sample, int64_t channel, float* x) const {
    input_.place(x, call.address[X] + sample * call.stride[X] + channel * in_plane_);
    for (int64_t j = 0; j < multiplier_; j++) {
      int64_t o = channel * multiplier_ + j;
      float* y = call.address[Y] + sample * call.stride[Y] + o * out_plane_;
      float bias = call.address[B] ? call.address[B][o] : 0;
      correlate_plane(windows(x), taps_, call.address[W] + o * taps_.count(), bias,
                      {y, shape_.out_width, y + out_plane_});
      if (!is_identity(activation_)) activation_forward(activation_, y, y, out_plane_, shape_.out_width);
    }
  }

  Windows windows(const float* x) const {
    return {x, input_.row_pitch * shape_.stride_y, shape_.out_height, shape_.out_width};
  }

  void backward_task(const Run& run, const Work& work, int64_t task) const {
    const Call& call = run.call;
    int64_t part = task % run.parts, first = task / run.parts * run.block_channels;
    int64_t last = std::min(shape_.in_channels, first + run.block_channels);
    int64_t sums = (last - first) * multiplier_ * run.sums_per_channel;
    if (work.sums) std::fill_n(work.sums, sums * kWidth, 0.0);
    for (int64_t n = call.batch * part / run.parts; n < call.batch * (part + 1) / run.parts; n++)
      for (int64_t channel = first; channel < last; channel++) backward_plane(run, work, n, channel, channel - first);
    if (!work.sums) return;
    double* to = run.sums + (part * shape_.out_channels + first * multiplier_) * run.sums_per_channel;
    for (int64_t i = 0; i < sums; i++) to[i] = sum_lanes(load_wide(work.sums + i * kWidth));
  }

  // All gradients of one input plane and the output planes that come from it.
  void backward_plane(const Run& run, const Work& work, int64_t sample, int64_t channel, int64_t block_channel) const {
    const Call& call = run.call;
    float* dx = call.address[DX] ? call.address[DX] + sample * call.stride[DX] + channel * in_plane_ : nullptr;
    if (call.address[DW]) input_.place(work.x, call.address[X] + sample * call.stride[X] + channel * in_plane_);
    for (int64_t j = 0; j < multiplier_; j++) {
      int64_t o = channel * multiplier_ + j;
      const float* dz = output_gradient(call, sample, o, work.flat_dz);
      double* sums = nullptr;
      if (work.sums) sums = work.sums + (block_channel * multiplier_ + j) * run.sums_per_channel * kWidth;
      if (call.address[DB]) add_plane(dz, out_plane_, sums + taps_.count() * kWidth);
      if (!dx && !call.address[DW]) continue;
      gradient_.place(work.dz, dz);
      if (call.address[DW])
        add_tap_products(windows(work.x), work.dz + gradient_.offset(reach_y_, reach_x_), gradient_.row_pitch, taps_,
                         sums);
      if (dx) input_gradient(work, call.address[W] + o * taps_.count(), dx, j > 0 || call.adds(DX));
    }
  }

  // y = f(z): dz = dy * f'(y); [out_height][out_width]
  const float* output_gradient(const Call& call, int64_t sample, int64_t o, float* flat_dz) const {
    const float* dy = call.address[DY] + sample * call.stride[DY] + o * out_plane_;
    if (!flat_dz) return dy;
    activation_backward_from_output(activation_, call.address[Y] + sample * call.stride[Y] + o * out_plane_, dy, flat_dz,
                                    out_plane_, shape_.out_width);
    return flat_dz;
  }

  // dx (+)= the contribution of one output plane.
  void input_gradient(const Work& work, const float* weights, float* dx, bool adds) const {
    if (phases_.size() == 1) {
      float* to = adds ? work.dx : dx;
      correlate_phase(phases_[0], work.dz, weights, {to, shape_.in_width, to + in_plane_});
      for (int64_t i = 0; adds && i < in_plane_; i++) dx[i] += to[i];
      return;
    }
    for (int64_t py = 0; py < shape_.stride_y; py++) {
      const Phase* phases = phases_.data() + py * shape_.stride_x;
      for (int64_t px = 0; px < shape_.stride_x; px++) {
        float* plane = work.dx + px * work.phase_room;
        correlate_phase(phases[px], work.dz, weights, {plane, work.phase_pitch, plane + work.phase_room});
      }
      for (int64_t r = 0; r < phases[0].rows; r++) {
        float* row = dx + (phases[0].first_row + r * shape_.stride_y) * shape_.in_width;
        for (int64_t px = 0; px < shape_.stride_x; px++)
          spread(work.dx + px * work.phase_room + r * work.phase_pitch, phases[px].columns,
                 row + phases[px].first_column, shape_.stride_x, adds);
      }
    }
  }

  void correlate_phase(const Phase& phase, const float* dz, const float* weights, const PlaneWriter& out) const {
    correlate_plane({dz + phase.origin, gradient_.row_pitch, phase.rows, phase.columns}, phase.taps, weights, 0, out);
  }

  static void spread(const float* from, int64_t count, float* to, int64_t step, bool adds) {
    for (int64_t i = 0; i < count; i++) to[i * step] = adds ? to[i * step] + from[i] : from[i];
  }

  // Adds the parts of the batch in order and stores dw [out_channels][taps] and db [out_channels].
  void write_sums(const Run& run) const {
    if (!run.sums) return;
    float *dw = run.call.address[DW], *db = run.call.address[DB];
    int64_t taps = taps_.count(), part = shape_.out_channels * run.sums_per_channel;
    auto write = [&](float* to, int64_t sum, bool adds) {
      double total = 0;
      for (int64_t p = 0; p < run.parts; p++) total += run.sums[p * part + sum];
      *to = static_cast<float>(adds ? *to + total : total);
    };
    for (int64_t o = 0; o < shape_.out_channels; o++) {
      for (int64_t t = 0; dw && t < taps; t++)
        write(dw + o * taps + t, o * run.sums_per_channel + t, run.call.adds(DW));
      if (db) write(db + o, o * run.sums_per_channel + taps, run.call.adds(DB));
    }
  }

  const ConvolutionShape shape_;
  const ActivationSpec activation_;
  const int64_t multiplier_, in_plane_, out_plane_;
  const int64_t reach_y_, reach_x_;  // windows of the output that an input cell meets before its own
  const PlaneLayout input_;          // bordered input, columns by stride
  const PlaneLayout gradient_;       // bordered output gradient
  Taps taps_;                        // of a window in the bordered input
  std::vector<Phase> phases_;        // [stride_y][stride_x]
};

}  // namespace

std::unique_ptr<Plan> make_depthwise(const ConvolutionShape& shape, const ActivationSpec& activation) {
  return std::make_unique<Depthwise>(shape, activation);
}

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
