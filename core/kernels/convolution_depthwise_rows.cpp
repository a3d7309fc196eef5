// Depthwise convolution with 3 x 3 windows and step 1, straight from the planes: masked loads give the zeros outside
// the image, so that there is no bordered copy. A row of the image is loaded once for each column of taps and serves
// three rows of results. Meanwhile the planes that follow are asked for, line by line: the hardware looks ahead within
// a page of memory only, and a plane is about that.
#include <algorithm>
#include <vector>

#include "kernels/activation.h"
#include "kernels/convolution_depthwise.h"
#include "kernels/planes.h"
#include "kernels/scratch_uses.h"
#include "runtime/dynamic_items.h"
#include "runtime/scratch.h"

namespace openbnns {
namespace OPENBNNS_ISA {
#if defined(__AVX2__) && !defined(__SANITIZE_ADDRESS__)
namespace {

constexpr int64_t kSerialElements = 32768;
constexpr int64_t kMinTasks = 16;       // backward: blocks of channels and, if these are few, parts of the batch
constexpr int64_t kChunk = 16384;       // forward: floats of the results of a task
constexpr int64_t kBlockFloats = 8192;  // backward: neighbouring planes that a task reads together
constexpr int64_t kLeastAhead = 512;    // floats between a plane and the one that is asked for meanwhile
constexpr int64_t kLine = 16;           // floats

// Lanes of a vector that a masked load or store touches: [first, end).
#if defined(__AVX512F__)
using Lanes = __mmask16;
OPENBNNS_INLINE Lanes lanes_from(int64_t first, int64_t end) {
  return static_cast<Lanes>(((1u << end) - 1) & ~((1u << first) - 1));
}
OPENBNNS_INLINE Vec load_lanes(const float* p, Lanes lanes) { return _mm512_maskz_loadu_ps(lanes, p); }
OPENBNNS_INLINE void store_lanes(float* p, Vec v, Lanes lanes, bool) { _mm512_mask_storeu_ps(p, lanes, v); }
#else
using Lanes = __m256i;
OPENBNNS_INLINE Lanes lanes_from(int64_t first, int64_t end) {
  IntVec lane = lane_numbers();
  return reinterpret_cast<Lanes>((lane >= splat_int(static_cast<int32_t>(first))) &
                                 (lane < splat_int(static_cast<int32_t>(end))));
}
OPENBNNS_INLINE Vec load_lanes(const float* p, Lanes lanes) { return _mm256_maskload_ps(p, lanes); }
OPENBNNS_INLINE void store_lanes(float* p, Vec v, Lanes lanes, bool all) {
  all ? store(p, v) : _mm256_maskstore_ps(p, lanes, v);  // masked stores are slow on some processors
}
#endif

// Results [rows][columns] of windows over sources [height][width]: the window of result (r, c) covers
// (r + ky - up, c + kx * dilation - left) for ky, kx = 0..2; what lies outside the source counts as zero.
class RowWindows {
 public:
  static constexpr int64_t kMostColumns = 128 * kWidth;

  RowWindows(int64_t height, int64_t width, int64_t rows, int64_t columns, int64_t up, int64_t left, int64_t dilation);

  // out = (or, kAdds, out +=) start + sum over taps t of weights[t] * source. next_source, next_out: planes that are
  // worked on soon.
  template <bool kAdds>
  void correlate(const float* source, const float* weights, float start, float* out, const float* next_source,
                 const float* next_out) const;

  // Source rows are taken in bands, whose products may be added in single precision.
  int64_t bands() const { return bands_; }
  int64_t additions() const { return band_ * vectors_; }  // of a band, to each sum
  // sums[t][lane] += sum over results (r, c) of dz(r, c) * source(tap t), for one band of source rows.
  void add_products(int64_t band, const float* source, const float* dz, float* sums, const float* next_source) const;

 private:
  struct Columns {
    Lanes tap[3], result;
  };

  const int64_t height_, width_, rows_, columns_, up_, left_, dilation_;
  const int64_t vectors_;            // in a row of results
  int64_t bands_, band_;             // how many, and their source rows
  std::vector<Columns> columns_of_;  // by vector
};

RowWindows::RowWindows(int64_t height, int64_t width, int64_t rows, int64_t columns, int64_t up, int64_t left,
                       int64_t dilation)
    : height_(height),
      width_(width),
      rows_(rows),
      columns_(columns),
      up_(up),
      left_(left),
      dilation_(dilation),
      vectors_((columns + kWidth - 1) / kWidth) {
  const int64_t most = std::max<int64_t>(1, kSingleSums / vectors_);
  bands_ = (rows + 2 + most - 1) / most;
  band_ = (rows + 2 + bands_ - 1) / bands_;
  for (int64_t c = 0; c < columns; c += kWidth) {
    Columns lanes;
    const int64_t results = std::min<int64_t>(kWidth, columns - c);
    lanes.result = lanes_from(0, results);
    for (int64_t k = 0; k < 3; k++) {
      const int64_t from = c + k * dilation - left;  // source column of lane 0
      const int64_t end = std::clamp<int64_t>(width - from, 0, results);
      lanes.tap[k] = lanes_from(std::clamp<int64_t>(-from, 0, end), end);
    }
    columns_of_.push_back(lanes);
  }
}

template <bool kAdds>
void RowWindows::correlate(const float* source, const float* weights, float start, float* out, const float* next_source,
                           const float* next_out) const {
  Vec weight[9], start_of_all = splat(start);
  OPENBNNS_UNROLL for (int t = 0; t < 9; t++) weight[t] = splat(weights[t]);
  Vec carried[kMostColumns / kWidth][2];
  const int64_t last = rows_ + 2 - up_;
  for (int64_t first = -up_; first < last; first += band_) {
    const int64_t end = std::min(last, first + band_);
    const float* ahead = end < last ? source + end * width_ : next_source;
    const float* ahead_out = end < last ? out + (end + up_ - 2) * columns_ : next_out;
    for (int64_t v = 0; v < vectors_; v++) {
      const Columns lanes = columns_of_[v];
      const bool all = (v + 1) * kWidth <= columns_;
      const float* row = source + first * width_ + v * kWidth - left_;
      float* to = out + (first + up_ - 2) * columns_ + v * kWidth;
      // results that lack two and one more source rows: their sums so far
      Vec middle = first == -up_ ? start_of_all : carried[v][0], lower = first == -up_ ? start_of_all : carried[v][1];
      for (int64_t s = first; s < end; s++, row += width_, to += columns_) {
        __builtin_prefetch(ahead);
        __builtin_prefetch(ahead_out, 1);
        ahead += kLine;
        ahead_out += kLine;
        Vec done = lower;
        if (s >= 0 && s < height_) {
          const Vec x0 = load_lanes(row, lanes.tap[0]), x1 = load_lanes(row + dilation_, lanes.tap[1]),
                    x2 = load_lanes(row + 2 * dilation_, lanes.tap[2]);
          done += weight[6] * x0;
          lower = middle + weight[3] * x0;
          middle = start_of_all + weight[0] * x0;
          done += weight[7] * x1;
          lower += weight[4] * x1;
          middle += weight[1] * x1;
          done += weight[8] * x2;
          lower += weight[5] * x2;
          middle += weight[2] * x2;
        } else {
          lower = middle;
          middle = start_of_all;
        }
        if (s + up_ < 2) continue;
        if (kAdds) done += load_lanes(to, lanes.result);
        store_lanes(to, done, lanes.result, all);
      }
      carried[v][0] = middle;
      carried[v][1] = lower;
    }
  }
}

void RowWindows::add_products(int64_t band, const float* source, const float* dz, float* sums,
                              const float* next_source) const {
  // source row s meets rows s + up, s + up - 1 and s + up - 2 of dz, at the first, second and third row of taps
  const int64_t first = std::max<int64_t>(0, band * band_ - up_);
  const int64_t end = std::min({height_, rows_ + 2 - up_, (band + 1) * band_ - up_});
  const float* ahead = band + 1 < bands_ ? source + end * width_ : next_source;
  Vec sum[9];
  OPENBNNS_UNROLL for (int t = 0; t < 9; t++) sum[t] = load(sums + t * kWidth);
  for (int64_t v = 0; v < vectors_; v++) {
    const Columns lanes = columns_of_[v];
    const float* row = source + first * width_ + v * kWidth - left_;
    const float* gradient = dz + v * kWidth;
    auto gradient_row = [&](int64_t r) {
      return r >= 0 && r < rows_ ? load_lanes(gradient + r * columns_, lanes.result) : Vec{};
    };
    Vec g1 = gradient_row(first + up_ - 1), g2 = gradient_row(first + up_ - 2);
    for (int64_t s = first; s < end; s++, row += width_) {
      __builtin_prefetch(ahead);
      ahead += kLine;
      const Vec x0 = load_lanes(row, lanes.tap[0]), x1 = load_lanes(row + dilation_, lanes.tap[1]),
                x2 = load_lanes(row + 2 * dilation_, lanes.tap[2]);
      const int64_t r = s + up_;
      const Vec g0 = gradient_row(r);
      // rows above the first and below the last window are no products at all, rather than zeros
      if (r < rows_) {
        sum[0] += g0 * x0;
        sum[1] += g0 * x1;
        sum[2] += g0 * x2;
      }
      if (r >= 1 && r <= rows_) {
        sum[3] += g1 * x0;
        sum[4] += g1 * x1;
        sum[5] += g1 * x2;
      }
      if (r >= 2) {
        sum[6] += g2 * x0;
        sum[7] += g2 * x1;
        sum[8] += g2 * x2;
      }
      g2 = g1;
      g1 = g0;
    }
  }
  OPENBNNS_UNROLL for (int t = 0; t < 9; t++) store(sums + t * kWidth, sum[t]);
}

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
        windows_(s.in_height, s.in_width, s.out_height, s.out_width, s.pad_up, s.pad_left, s.dilation_x),
        // y(i) = sum_t w(t) x(i + t - pad), hence dx(j) = sum_t w(2 - t) dz(j + t - (2 - pad))
        adjoint_(s.out_height, s.out_width, s.in_height, s.in_width, 2 - s.pad_up, 2 * s.dilation_x - s.pad_left,
                 s.dilation_x) {}

  static bool takes(const ConvolutionShape& s) {
    return s.kernel_height == 3 && s.kernel_width == 3 && s.stride_y == 1 && s.stride_x == 1 && s.dilation_y == 1 &&
           2 * std::min(s.in_width, s.out_width) > kWidth + 2 &&
           std::max(s.in_width, s.out_width) <= RowWindows::kMostColumns;
  }

  void forward(const Call& call) override {
    const int64_t outputs = channels_ * multiplier_, planes = call.batch * outputs;
    const int64_t chunk = std::max<int64_t>(1, kChunk / out_plane_);
    dynamic_items(threads(call), (planes + chunk - 1) / chunk, [&](int64_t item) {
      const int64_t first = item * chunk, soon = std::min(first + ahead_, planes - 1);
      Plane plane{first / outputs, first % outputs}, next{soon / outputs, soon % outputs};
      for (int64_t i = first; i < std::min(planes, first + chunk); i++) {
        float* y = output(call, Y, plane);
        windows_.correlate<false>(input(call, X, plane), call.address[W] + plane.o * kTaps,
                                  call.address[B] ? call.address[B][plane.o] : 0, y, input(call, X, next),
                                  output(call, Y, next));
        if (!is_identity(activation_)) activation_forward(activation_, y, y, out_plane_, out_width_);
        plane.advance(outputs);
        next.advance(outputs);
      }
    });
  }

  void backward(const Call& call) override {
    const Run run(*this, call);
    dynamic_items(threads(call), run.blocks * run.parts, [&](int64_t task) { backward_task(run, task); });
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

  void backward_task(const Run& run, int64_t task) const {
    const Call& call = run.call;
    const int64_t part = task % run.parts, first = task / run.parts * run.block * multiplier_;
    const int64_t last = std::min(channels_ * multiplier_, first + run.block * multiplier_);
    const Sums sums{
        scratch(kOutputTile, static_cast<size_t>((last - first) * kTaps * kWidth)),
        reinterpret_cast<double*>(scratch(kPlaneSums, static_cast<size_t>((last - first) * kSums * kWidth) * 2))};
    std::fill_n(sums.single, (last - first) * kTaps * kWidth, 0.f);
    std::fill_n(sums.all, (last - first) * kSums * kWidth, 0.0);
    const int64_t end = call.batch * (part + 1) / run.parts;
    const int64_t held = std::max<int64_t>(1, kSingleSums / windows_.additions());  // planes in the single sums
    auto flush = [&] {
      for (int64_t o = 0; o < last - first; o++) sums.flush(o);
    };
    int64_t planes = 0;
    for (int64_t n = call.batch * part / run.parts; n < end; n++) {
      for (int64_t o = first; o < last; o++) {
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
    if (call.address[DX]) {
      float w[kTaps];
      std::reverse_copy(call.address[W] + plane.o * kTaps, call.address[W] + (plane.o + 1) * kTaps, w);
      const bool adds = call.adds(DX) || (multiplier_ > 1 && plane.o % multiplier_ > 0);
      auto correlate = adds ? &RowWindows::correlate<true> : &RowWindows::correlate<false>;
      (adjoint_.*correlate)(dz, w, 0, input(call, DX, plane), output(call, DY, next), input(call, DX, next));
    }
    if (!call.address[DW]) return;
    for (int64_t band = 0; band < windows_.bands(); band++) {
      if (band > 0) sums.flush(o);
      windows_.add_products(band, input(call, X, plane), dz, sums.single + o * kTaps * kWidth, input(call, X, next));
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
  const RowWindows windows_, adjoint_;
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
