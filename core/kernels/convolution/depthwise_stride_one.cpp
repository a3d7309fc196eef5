// Windows with step 1: a row of the image serves three rows of results in the making.
#include <algorithm>
#include <vector>

#include "kernels/convolution/depthwise_rows.h"

namespace openbnns {
namespace OPENBNNS_ISA {
#if OPENBNNS_READS_ROWS
namespace {

// Results [rows][columns] of windows over sources [height][width]: the window of result (r, c) covers
// (r + ky - up, c + kx * dilation - left) for ky, kx = 0..2; what lies outside the source counts as zero.
class Correlation {
 public:
  Correlation(int64_t height, int64_t width, int64_t rows, int64_t columns, int64_t up, int64_t left, int64_t dilation);

  // out = (or, kAdds, out +=) start + sum over taps t of weights[t] * source.
  template <bool kAdds>
  void correlate(const float* source, const float* weights, float start, float* out, RowWindows::Next next) const;

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

Correlation::Correlation(int64_t height, int64_t width, int64_t rows, int64_t columns, int64_t up, int64_t left,
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
void Correlation::correlate(const float* source, const float* weights, float start, float* out,
                            RowWindows::Next next) const {
  Vec weight[9], start_of_all = splat(start);
  OPENBNNS_UNROLL for (int t = 0; t < 9; t++) weight[t] = splat(weights[t]);
  Vec carried[RowWindows::kMostColumns / kWidth][2];
  const int64_t last = rows_ + 2 - up_;
  for (int64_t first = -up_; first < last; first += band_) {
    const int64_t end = std::min(last, first + band_);
    const float* ahead = end < last ? source + end * width_ : next.source;
    const float* ahead_out = end < last ? out + (end + up_ - 2) * columns_ : next.result;
    for (int64_t v = 0; v < vectors_; v++) {
      const Columns lanes = columns_of_[v];
      const int64_t results = std::min<int64_t>(kWidth, columns_ - v * kWidth);
      const float* row = source + first * width_ + v * kWidth - left_;
      float* to = out + (first + up_ - 2) * columns_ + v * kWidth;
      // results that lack two and one more source rows: their sums so far
      Vec middle = first == -up_ ? start_of_all : carried[v][0], lower = first == -up_ ? start_of_all : carried[v][1];
      for (int64_t s = first; s < end; s++, row += width_, to += columns_) {
        __builtin_prefetch(ahead);
        __builtin_prefetch(ahead_out, 1);
        ahead += kLine;
        ahead_out += kLine;
        Vec done;
        if (s >= 0 && s < height_) {
          const Vec x[3] = {load_lanes(row, lanes.tap[0]), load_lanes(row + dilation_, lanes.tap[1]),
                            load_lanes(row + 2 * dilation_, lanes.tap[2])};
          done = roll_sums(weight, start_of_all, x, middle, lower);
        } else {
          done = skip_row(start_of_all, middle, lower);
        }
        if (s + up_ < 2) continue;
        if (kAdds) done += load_lanes(to, lanes.result);
        store_first(to, done, results);
      }
      carried[v][0] = middle;
      carried[v][1] = lower;
    }
  }
}

void Correlation::add_products(int64_t band, const float* source, const float* dz, float* sums,
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

class StrideOne final : public RowWindows {
 public:
  explicit StrideOne(const ConvolutionShape& s)
      : windows_(s.in_height, s.in_width, s.out_height, s.out_width, s.pad_up, s.pad_left, s.dilation_x),
        // y(i) = sum_t w(t) x(i + t - pad), hence dx(j) = sum_t w(2 - t) dz(j + t - (2 - pad))
        adjoint_(s.out_height, s.out_width, s.in_height, s.in_width, 2 - s.pad_up, 2 * s.dilation_x - s.pad_left,
                 s.dilation_x) {}

  void forward(const float* x, const float* w, float bias, float* y, Next next) const override {
    windows_.correlate<false>(x, w, bias, y, next);
  }
  void input_gradient(const float* dz, const float* w, float* dx, bool adds, Next next) const override {
    float turned[9];
    std::reverse_copy(w, w + 9, turned);
    auto correlate = adds ? &Correlation::correlate<true> : &Correlation::correlate<false>;
    (adjoint_.*correlate)(dz, turned, 0, dx, next);
  }
  int64_t bands() const override { return windows_.bands(); }
  int64_t additions() const override { return windows_.additions(); }
  void add_products(int64_t band, const float* x, const float* dz, float* sums, const float* next_x) const override {
    windows_.add_products(band, x, dz, sums, next_x);
  }

 private:
  const Correlation windows_, adjoint_;
};

}  // namespace

std::unique_ptr<RowWindows> make_stride_one(const ConvolutionShape& s) { return std::make_unique<StrideOne>(s); }
#endif

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
