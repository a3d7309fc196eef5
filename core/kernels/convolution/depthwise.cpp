#include "kernels/convolution/depthwise.h"

#include "common/scratch_uses.h"
#include "common/windows.h"
#include "kernels/activation/activation.h"
#include "runtime/scratch.h"
#include "runtime/thread_pool.h"
#include "simd/wide.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace {

constexpr int64_t kSerialElements = 65536;
constexpr int64_t kMinTasks = 16;         // backward: parts of the channels and, if these are few, of the batch
constexpr int64_t kMaxBlockChannels = 8;  // planes of neighbouring channels are read together
constexpr int64_t kMostExpected = 2048;   // floats of a plane that is asked for ahead

// out(r, c) = start + sum over taps of weight[tap] * source(r, c)[offset[tap]]
template <int kTaps>
void correlate(const float* source, const Windows& in, const Taps& taps, const float* weights, float start,
               const PlaneWriter& out) {
  Vec weight[kTaps];
  int64_t offset[kTaps];
  for (int t = 0; t < kTaps; t++) {
    weight[t] = splat(weights[taps.number[t]]);
    offset[t] = taps.offset[t];
  }
  for (int64_t r = 0; r < in.rows; r++)
    for (int64_t c = 0; c < in.columns; c += kWidth) {
      const float* origin = source + in.source + r * in.row_step + c;
      Vec sum = splat(start), other{};
      OPENBNNS_UNROLL for (int t = 0; t < kTaps; t += 2) {
        sum += weight[t] * load(origin + offset[t]);
        if (t + 1 < kTaps) other += weight[t + 1] * load(origin + offset[t + 1]);
      }
      out.write(r, c, sum + other);
    }
}

// The same for any number of taps, kRows rows at a time: a weight serves them all, and their sums do not wait for each
// other.
template <int kRows>
void correlate_rows(const float* source, const Windows& in, int64_t r, const Taps& taps, const float* weights,
                    float start, const PlaneWriter& out) {
  // columns from right to left: what the last vector of a row spills into the next row is written again
  for (int64_t c = (in.columns - 1) / kWidth * kWidth; c >= 0; c -= kWidth) {
    const float* origin = source + in.source + r * in.row_step + c;
    Vec sum[kRows];
    OPENBNNS_UNROLL for (int q = 0; q < kRows; q++) sum[q] = splat(start);
    for (int t = 0; t < taps.count(); t++) {
      Vec weight = splat(weights[taps.number[t]]);
      const float* from = origin + taps.offset[t];
      OPENBNNS_UNROLL for (int q = 0; q < kRows; q++) sum[q] += weight * load(from + q * in.row_step);
    }
    OPENBNNS_UNROLL for (int q = 0; q < kRows; q++) out.write(r + q, c, sum[q]);
  }
}

void correlate_any(const float* source, const Windows& in, const Taps& taps, const float* weights, float start,
                   const PlaneWriter& out) {
  constexpr int kRows = 6;
  int64_t r = 0;
  for (; r + kRows <= in.rows; r += kRows) correlate_rows<kRows>(source, in, r, taps, weights, start, out);
  for (; r < in.rows; r++) correlate_rows<1>(source, in, r, taps, weights, start, out);
}

// Taps in a 3 x 3 grid whose rows are as far apart as the rows of windows: an input row then serves three rows of
// results in the making, and each of its cells is loaded once per column of taps.
bool is_rolling(const Windows& in, const Taps& taps) {
  if (OPENBNNS_READS_ROWS || taps.count() != 9) return false;  // what is left is not worth a loop of its own
  for (int t = 3; t < 9; t++)
    if (taps.offset[t] - taps.offset[t - 3] != in.row_step && taps.offset[t - 3] - taps.offset[t] != in.row_step)
      return false;
  return true;
}

void correlate_rolling(const float* source, const Windows& in, const Taps& taps, const float* weights, float start,
                       const PlaneWriter& out) {
  // rows of taps from top to bottom; the gradient's windows have them bottom up
  const bool down = taps.offset[3] > taps.offset[0];
  Vec weight[3][3];
  int64_t column[3];
  for (int k = 0; k < 3; k++) {
    column[k] = taps.offset[(down ? 0 : 6) + k];
    for (int row = 0; row < 3; row++) weight[row][k] = splat(weights[taps.number[(down ? row : 2 - row) * 3 + k]]);
  }
  // columns from right to left: what the last vector of a row spills into the next row is written again
  for (int64_t c = (in.columns - 1) / kWidth * kWidth; c >= 0; c -= kWidth) {
    const float* origin = source + in.source + c;
    Vec middle{}, lower{};  // results that lack two and one more input rows: their sums so far
    for (int64_t r = -2; r < in.rows; r++) {
      const float* row = origin + (r + 2) * in.row_step;
      Vec part[3];  // what this input row adds as first, second and third row of a window
      Vec x = load(row + column[0]);
      OPENBNNS_UNROLL for (int k = 0; k < 3; k++) part[k] = weight[k][0] * x;
      for (int t = 1; t < 3; t++) {
        x = load(row + column[t]);
        OPENBNNS_UNROLL for (int k = 0; k < 3; k++) part[k] += weight[k][t] * x;
      }
      if (r >= 0) out.write(r, c, lower + part[2]);
      lower = middle + part[1];
      middle = part[0] + start;
    }
  }
}

void correlate_plane(const float* source, const Windows& in, const Taps& taps, const float* weights, float start,
                     const PlaneWriter& out) {
  switch (taps.count()) {
    case 1:
      return correlate<1>(source, in, taps, weights, start, out);
    case 2:
      return correlate<2>(source, in, taps, weights, start, out);
    case 4:
      return correlate<4>(source, in, taps, weights, start, out);
    case 9:
      if (is_rolling(in, taps)) return correlate_rolling(source, in, taps, weights, start, out);
      return correlate<9>(source, in, taps, weights, start, out);
    default:
      return correlate_any(source, in, taps, weights, start, out);
  }
}

// sums[tap] += sum over windows of dz(r, c) * source(r, c)[offset[tap]] for kTaps taps from `tap` on. sums are vectors
// of doubles [kWidth]; their lanes are added at the very end.
template <int kTaps>
void add_products(const float* source, const Windows& in, const float* dz, int64_t dz_pitch, const int64_t* offsets,
                  double* sums) {
  int64_t offset[kTaps];
  for (int t = 0; t < kTaps; t++) offset[t] = offsets[t];
  const int64_t whole = in.columns / kWidth * kWidth;
  const IntVec tail = first_lanes(in.columns - whole);
  const int64_t group = std::max<int64_t>(1, kSingleSums * kWidth / std::max<int64_t>(in.columns, 1));
  for (int64_t first = 0; first < in.rows; first += group) {
    Vec sum[kTaps] = {};
    int64_t last = std::min(in.rows, first + group);
    for (int64_t r = first; r < last; r++) {
      const float* origin = source + in.source + r * in.row_step;
      const float* gradient = dz + r * dz_pitch;
      for (int64_t c = 0; c < whole; c += kWidth) {
        Vec g = load(gradient + c);
        OPENBNNS_UNROLL for (int t = 0; t < kTaps; t++) sum[t] += g * load(origin + c + offset[t]);
      }
      if (whole == in.columns) continue;
      // columns past the end are no windows: an infinity there must not meet a zero of dz
      Vec g = load(gradient + whole);
      OPENBNNS_UNROLL for (int t = 0; t < kTaps; t++) sum[t] +=
          g * from_bits(bits(load(origin + whole + offset[t])) & tail);
    }
    for (int t = 0; t < kTaps; t++) store_wide(sums + t * kWidth, load_wide(sums + t * kWidth) + widen(sum[t]));
  }
}

// The same for a rolling 3 x 3 grid of taps: an input row meets three rows of dz, kept in registers.
void add_products_rolling(const float* source, const Windows& in, const float* dz, int64_t dz_pitch, const Taps& taps,
                          double* sums) {
  const int64_t *column = taps.offset.data(), whole = in.columns / kWidth * kWidth;
  const IntVec tail = first_lanes(in.columns - whole);
  for (int64_t first = 0; first < in.rows; first += kSingleSums) {
    const int64_t rows = std::min(kSingleSums, in.rows - first);
    for (int64_t c = 0; c < in.columns; c += kWidth) {
      const float* origin = source + in.source + first * in.row_step + c;
      const float* gradient = dz + first * dz_pitch + c;
      Vec sum[9] = {}, g0{}, g1{}, g2{};  // rows of dz for the first, second and third row of taps
      for (int64_t r = 0; r < rows + 2; r++) {
        g2 = g1;
        g1 = g0;
        g0 = r < rows ? load(gradient + r * dz_pitch) : Vec{};
        Vec x[3];
        OPENBNNS_UNROLL for (int k = 0; k < 3; k++) {
          x[k] = load(origin + r * in.row_step + column[k]);
          if (c == whole) x[k] = from_bits(bits(x[k]) & tail);
        }
        // rows above the first and below the last window are no products at all, rather than zeros
        if (r < rows) {
          OPENBNNS_UNROLL for (int k = 0; k < 3; k++) sum[k] += g0 * x[k];
        }
        if (r >= 1 && r <= rows) {
          OPENBNNS_UNROLL for (int k = 0; k < 3; k++) sum[3 + k] += g1 * x[k];
        }
        if (r >= 2) {
          OPENBNNS_UNROLL for (int k = 0; k < 3; k++) sum[6 + k] += g2 * x[k];
        }
      }
      for (int t = 0; t < 9; t++) store_wide(sums + t * kWidth, load_wide(sums + t * kWidth) + widen(sum[t]));
    }
  }
}

void add_tap_products(const float* source, const Windows& in, const float* dz, int64_t dz_pitch, const Taps& taps,
                      double* sums) {
  if (is_rolling(in, taps)) return add_products_rolling(source, in, dz, dz_pitch, taps, sums);
  int t = 0;
  for (; t + 9 <= taps.count(); t += 9)
    add_products<9>(source, in, dz, dz_pitch, taps.offset.data() + t, sums + t * kWidth);
  for (; t + 3 <= taps.count(); t += 3)
    add_products<3>(source, in, dz, dz_pitch, taps.offset.data() + t, sums + t * kWidth);
  for (; t < taps.count(); t++) add_products<1>(source, in, dz, dz_pitch, taps.offset.data() + t, sums + t * kWidth);
}

class Depthwise final : public DepthwisePlan {
 public:
  Depthwise(const ConvolutionShape& s, const ActivationSpec& activation)
      : DepthwisePlan(s, activation),
        geometry_({s.in_height, s.in_width, s.out_height, s.out_width, s.kernel_height, s.kernel_width, s.stride_y,
                   s.stride_x, s.dilation_y, s.dilation_x, s.pad_up, s.pad_left}) {}

  void forward(const Call& call) override {
    parallel_ranges(threads(call), call.batch * channels_, [&](int64_t first, int64_t last) {
      float* x = scratch(kInputBand, static_cast<size_t>(geometry_.input.room()));
      geometry_.input.fill_border(x, 0);
      for (int64_t i = first; i < last; i++) {
        check_interruption();
        forward_plane(call, i / channels_, i % channels_, x);
      }
    });
  }

  void backward(const Call& call) override {
    const Run run = cut(call, kMaxBlockChannels);
    parallel_ranges(threads(call), run.blocks * run.parts, [&](int64_t first, int64_t last) {
      Work work(*this, run);
      for (int64_t t = first; t < last; t++) backward_task(run, work, t);
    });
    write_sums(run);
  }

 private:
  // Scratch of one thread.
  struct Work {
    float* x = nullptr;       // bordered input plane
    float* dz = nullptr;      // bordered output gradient plane
    float* made = nullptr;    // [out_height][out_width], with a fused activation
    float* gather = nullptr;  // for WindowGeometry::gather
    double* sums = nullptr;   // [block's output channels][sums()][kWidth]

    Work(const Depthwise& plan, const Run& run) {
      const WindowGeometry& geometry = plan.geometry_;
      const Call& call = run.call;
      dz = scratch(kGradientBand, static_cast<size_t>(geometry.gradient.room()));
      geometry.gradient.fill_border(dz, 0);
      made = plan.room_for_gradient();
      if (call.address[DW]) {
        x = scratch(kInputBand, static_cast<size_t>(geometry.input.room()));
        geometry.input.fill_border(x, 0);
      }
      if (call.address[DX]) gather = scratch(kOutputTile, static_cast<size_t>(geometry.gather_room()));
      if (run.sums)
        sums = reinterpret_cast<double*>(
            scratch(kPlaneSums, static_cast<size_t>(run.block * plan.multiplier_ * plan.sums()) * kWidth * 2));
    }
  };

  // Asks for the plane that follows: the hardware looks ahead within a page of memory only, and planes are about that.
  void expect(const float* plane, int64_t count, bool write = false) const {
    if (count > kMostExpected) return;
    if (write)
      for (int64_t i = 0; i < count; i += 16) __builtin_prefetch(plane + i, 1);
    else
      prefetch(plane, count);
  }

  void forward_plane(const Call& call, int64_t n, int64_t channel, float* x) const {
    if (channel + 1 < channels_ || n + 1 < call.batch) {
      const int64_t next = channel + 1 < channels_ ? n : n + 1, c = (channel + 1) % channels_;
      expect(input(call, X, next, c), in_plane_);
      expect(output(call, Y, next, c * multiplier_), multiplier_ * out_plane_, true);
    }
    geometry_.input.place(x, input(call, X, n, channel));
    for (int64_t o = channel * multiplier_; o < (channel + 1) * multiplier_; o++) {
      float* y = output(call, Y, n, o);
      correlate_plane(x, geometry_.windows(), geometry_.taps, weights(call, o), bias(call, o),
                      {y, out_width_, y + out_plane_});
      activate(y);
    }
  }

  void backward_task(const Run& run, const Work& work, int64_t task) const {
    const Call& call = run.call;
    const int64_t part = task % run.parts, first = task / run.parts * run.block;
    const int64_t last = std::min(channels_, first + run.block), count = (last - first) * multiplier_ * sums();
    if (work.sums) std::fill_n(work.sums, count * kWidth, 0.0);
    for (int64_t n = call.batch * part / run.parts; n < call.batch * (part + 1) / run.parts; n++)
      for (int64_t channel = first; channel < last; channel++) {
        check_interruption();
        const bool more = channel + 1 < last;
        if (more || n + 1 < call.batch) expect_backward(call, more ? n : n + 1, more ? channel + 1 : first);
        backward_plane(call, work, n, channel, channel - first);
      }
    if (!work.sums) return;
    double* to = run.sums + (part * channels_ + first) * multiplier_ * sums();
    for (int64_t i = 0; i < count; i++) to[i] = sum_lanes(load_wide(work.sums + i * kWidth));
  }

  void expect_backward(const Call& call, int64_t n, int64_t channel) const {
    const int64_t o = channel * multiplier_, outputs = multiplier_ * out_plane_;
    if (call.address[DW]) expect(input(call, X, n, channel), in_plane_);
    expect(output(call, DY, n, o), outputs);
    if (!is_identity(activation_)) expect(output(call, Y, n, o), outputs);
    if (call.address[DX]) expect(input(call, DX, n, channel), in_plane_, true);
  }

  // All gradients of one input plane and the output planes that come from it.
  void backward_plane(const Call& call, const Work& work, int64_t n, int64_t channel, int64_t block_channel) const {
    float* dx = call.address[DX] ? input(call, DX, n, channel) : nullptr;
    if (call.address[DW]) geometry_.input.place(work.x, input(call, X, n, channel));
    for (int64_t j = 0; j < multiplier_; j++) {
      const int64_t o = channel * multiplier_ + j;
      const float* dz = output_gradient(call, n, o, work.made);
      double* plane_sums = nullptr;
      if (work.sums) plane_sums = work.sums + (block_channel * multiplier_ + j) * sums() * kWidth;
      if (call.address[DB]) add_lanes(dz, out_plane_, plane_sums + taps_ * kWidth);
      if (!dx && !call.address[DW]) continue;
      geometry_.gradient.place(work.dz, dz);
      if (call.address[DW])
        add_tap_products(work.x, geometry_.windows(), work.dz + geometry_.gradient_origin(),
                         geometry_.gradient.row_pitch, geometry_.taps, plane_sums);
      if (dx)
        geometry_.gather(dx, j > 0 || call.adds(DX), work.gather, [&](const Phase& phase, const PlaneWriter& out) {
          correlate_plane(work.dz, geometry_.windows(phase), phase.taps, weights(call, o), 0, out);
        });
    }
  }

  const WindowGeometry geometry_;
};

}  // namespace

DepthwisePlan::Run DepthwisePlan::cut(const Call& call, int64_t most) const {
  Run run{call, std::clamp<int64_t>(channels_ / kMinTasks, 1, most), 0, 0, nullptr};
  run.blocks = (channels_ + run.block - 1) / run.block;
  run.parts = std::clamp<int64_t>(kMinTasks / run.blocks, 1, std::max<int64_t>(1, call.batch));
  if (call.address[DW] || call.address[DB])
    run.sums = reinterpret_cast<double*>(
        scratch(kPartialSums, static_cast<size_t>(run.parts * channels_ * multiplier_ * sums() * 2)));
  return run;
}

void DepthwisePlan::write_sums(const Run& run) const {
  if (!run.sums) return;
  float *dw = run.call.address[DW], *db = run.call.address[DB];
  const int64_t outputs = channels_ * multiplier_;
  const auto write = [&](float* to, int64_t sum, bool adds) {
    double total = 0;
    for (int64_t p = 0; p < run.parts; p++) total += run.sums[p * outputs * sums() + sum];
    *to = static_cast<float>(adds ? *to + total : total);
  };
  for (int64_t o = 0; o < outputs; o++) {
    for (int64_t t = 0; dw && t < taps_; t++) write(dw + o * taps_ + t, o * sums() + t, run.call.adds(DW));
    if (db) write(db + o, o * sums() + taps_, run.call.adds(DB));
  }
}

int DepthwisePlan::threads(const Call& call) const {
  const int64_t elements = call.batch * channels_ * (in_plane_ + multiplier_ * out_plane_);
  return elements < kSerialElements ? 1 : call.threads;
}

void DepthwisePlan::activate(float* y) const {
  if (!is_identity(activation_)) activation_forward(activation_, y, y, out_plane_, out_width_);
}

float* DepthwisePlan::room_for_gradient() const {
  return is_identity(activation_) ? nullptr : scratch(kActivated, static_cast<size_t>(out_plane_));
}

const float* DepthwisePlan::output_gradient(const Call& call, int64_t n, int64_t o, float* made) const {
  const float* dy = output(call, DY, n, o);
  if (!made) return dy;
  activation_backward_from_output(activation_, output(call, Y, n, o), dy, made, out_plane_, out_width_);
  return made;
}

std::unique_ptr<Plan> make_depthwise(const ConvolutionShape& shape, const ActivationSpec& activation) {
  return std::make_unique<Depthwise>(shape, activation);
}

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
