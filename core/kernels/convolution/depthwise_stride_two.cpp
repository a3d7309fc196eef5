// Windows with step 2: rows are taken apart into their even and odd columns as they are loaded, and put together again
// as they are stored.
#include <algorithm>
#include <vector>

#include "kernels/convolution/depthwise_rows.h"
#include "simd/pairs.h"

namespace openbnns {
namespace OPENBNNS_ISA {
#if OPENBNNS_READS_ROWS
namespace {

// The lanes of the vector that begins at column `from` which lie in [0, width) and are among the next `most` columns.
Lanes lanes_inside(int64_t from, int64_t width, int64_t most) {
  const int64_t end = std::clamp<int64_t>(std::min(width - from, most), 0, kWidth);
  return lanes_from(std::clamp<int64_t>(-from, 0, end), end);
}

class StrideTwo final : public RowWindows {
 public:
  explicit StrideTwo(const ConvolutionShape& s)
      : height_(s.in_height),
        width_(s.in_width),
        rows_(s.out_height),
        columns_(s.out_width),
        up_(s.pad_up),
        left_(s.pad_left),
        vectors_((columns_ + kWidth - 1) / kWidth),
        met_rows_((height_ - 1 + up_) / 2 + 1) {
    const int64_t most = std::max<int64_t>(1, kSingleSums / vectors_);
    bands_ = (rows_ + most - 1) / most;
    band_ = (rows_ + bands_ - 1) / bands_;
    for (int64_t c = 0; c < columns_; c += kWidth) {
      const int64_t results = std::min<int64_t>(kWidth, columns_ - c), from = 2 * c - left_;
      auto pair = [&](int64_t first, Lanes* lanes) {
        lanes[0] = lanes_inside(first, width_, 2 * results);
        lanes[1] = lanes_inside(first + kWidth, width_, 2 * results - kWidth);
      };
      Columns lanes;
      lanes.result = lanes_from(0, results);
      lanes.results = results;
      pair(from, lanes.here);
      pair(from + 2, lanes.beyond);
      windows_.push_back(lanes);
    }
    // column 2 q - left and its right neighbour meet windows q and q - 1
    for (int64_t q = 0; q <= (width_ - 1 + left_) / 2; q += kWidth) {
      const int64_t column = 2 * q - left_;
      Cells lanes;
      lanes.here = lanes_inside(q, columns_, kWidth);
      lanes.before = lanes_inside(q - 1, columns_, kWidth);
      for (int half = 0; half < 2; half++) {
        const int64_t from = column + half * kWidth;
        lanes.put[half] = lanes_inside(from, width_, kWidth);
        lanes.all[half] = from >= 0 && from + kWidth <= width_;
      }
      cells_.push_back(lanes);
    }
  }

  void forward(const float* x, const float* w, float bias, float* y, Next next) const override {
    Vec weight[9], carried[kMostColumns / kWidth];
    const Vec start = splat(bias);
    OPENBNNS_UNROLL for (int t = 0; t < 9; t++) weight[t] = splat(w[t]);
    for (int64_t first = 0; first < rows_; first += band_) {
      const int64_t end = std::min(rows_, first + band_);
      const float *ahead = end < rows_ ? x + (2 * end - up_) * width_ : next.source,
                  *ahead_out = end < rows_ ? y + end * columns_ : next.result;
      for (int64_t v = 0; v < vectors_; v++) {
        const Columns lanes = windows_[v];
        const float* column = x + 2 * v * kWidth - left_;
        // the results of row r without their last two rows of taps
        Vec upper = start;
        if (first > 0) {
          upper = carried[v];
        } else if (up_ == 0) {
          const Taps t = taps(column, lanes);
          upper += weight[0] * t.x0 + weight[1] * t.x1 + weight[2] * t.x2;
        }
        for (int64_t r = first, s = 2 * r + 1 - up_; r < end; r++, s += 2) {
          for (int k = 0; k < 4; k++, ahead += kLine) __builtin_prefetch(ahead);
          __builtin_prefetch(ahead_out, 1);
          ahead_out += kLine;
          Vec sum = upper;
          if (inside(s)) {
            const Taps t = taps(column + s * width_, lanes);
            sum += weight[3] * t.x0 + weight[4] * t.x1 + weight[5] * t.x2;
          }
          upper = start;
          if (inside(s + 1)) {
            const Taps t = taps(column + (s + 1) * width_, lanes);
            sum += weight[6] * t.x0 + weight[7] * t.x1 + weight[8] * t.x2;
            upper += weight[0] * t.x0 + weight[1] * t.x1 + weight[2] * t.x2;
          }
          store_first(y + r * columns_ + v * kWidth, sum, lanes.results);
        }
        carried[v] = upper;
      }
    }
  }

  // y(r, c) = sum of w(ky, kx) x(2 r + ky - up, 2 c + kx - left): row 2 r - up of dx meets rows r (ky = 0) and r - 1
  // (ky = 2) of dz, row 2 r + 1 - up meets row r (ky = 1); columns alike.
  void input_gradient(const float* dz, const float* w, float* dx, bool adds, Next next) const override {
    Vec weight[9];
    OPENBNNS_UNROLL for (int t = 0; t < 9; t++) weight[t] = splat(w[t]);
    for (int64_t first = 0; first < met_rows_; first += band_) {
      const int64_t end = std::min(met_rows_, first + band_);
      const float *ahead = end < met_rows_ ? dz + end * columns_ : next.source,
                  *ahead_out = end < met_rows_ ? dx + (2 * end - up_) * width_ : next.result;
      for (size_t v = 0; v < cells_.size(); v++) {
        const Cells lanes = cells_[v];
        const int64_t q = static_cast<int64_t>(v) * kWidth;
        auto here = [&](int64_t r) { return has(r) ? load_lanes(dz + r * columns_ + q, lanes.here) : Vec{}; };
        auto before = [&](int64_t r) { return has(r) ? load_lanes(dz + r * columns_ + q - 1, lanes.before) : Vec{}; };
        auto put = [&](int64_t row, Vec even, Vec odd) {
          if (!inside(row)) return;
          float* to = dx + row * width_ + 2 * q - left_;
          Vec low = interleave_low(even, odd), high = interleave_high(even, odd);
          if (adds) {
            low += load_lanes(to, lanes.put[0]);
            high += load_lanes(to + kWidth, lanes.put[1]);
          }
          store_lanes(to, low, lanes.put[0], lanes.all[0]);
          store_lanes(to + kWidth, high, lanes.put[1], lanes.all[1]);
        };
        Vec g1 = here(first - 1), b1 = before(first - 1);
        for (int64_t r = first; r < end; r++) {
          for (int k = 0; k < 4; k++, ahead_out += kLine) __builtin_prefetch(ahead_out, 1);
          __builtin_prefetch(ahead);
          ahead += kLine;
          const Vec g0 = here(r), b0 = before(r);
          put(2 * r - up_, (weight[0] * g0 + weight[2] * b0) + (weight[6] * g1 + weight[8] * b1),
              weight[1] * g0 + weight[7] * g1);
          put(2 * r + 1 - up_, weight[3] * g0 + weight[5] * b0, weight[4] * g0);
          g1 = g0;
          b1 = b0;
        }
      }
    }
  }

  int64_t bands() const override { return bands_; }
  int64_t additions() const override { return band_ * vectors_; }

  void add_products(int64_t band, const float* x, const float* dz, float* sums, const float* next_x) const override {
    const int64_t first = band * band_, end = std::min(rows_, first + band_);
    const float* ahead = end < rows_ ? x + (2 * end - up_) * width_ : next_x;
    Vec sum[9];
    OPENBNNS_UNROLL for (int t = 0; t < 9; t++) sum[t] = load(sums + t * kWidth);
    for (int64_t v = 0; v < vectors_; v++) {
      const Columns lanes = windows_[v];
      const float* column = x + 2 * v * kWidth - left_;
      Taps top{};
      if (inside(2 * first - up_)) top = taps(column + (2 * first - up_) * width_, lanes);
      for (int64_t r = first, s = 2 * r - up_; r < end; r++, s += 2) {
        for (int k = 0; k < 4; k++, ahead += kLine) __builtin_prefetch(ahead);
        const Vec g = load_lanes(dz + r * columns_ + v * kWidth, lanes.result);
        // rows outside the image are no products at all, rather than zeros
        if (inside(s)) {
          sum[0] += g * top.x0;
          sum[1] += g * top.x1;
          sum[2] += g * top.x2;
        }
        if (inside(s + 1)) {
          const Taps t = taps(column + (s + 1) * width_, lanes);
          sum[3] += g * t.x0;
          sum[4] += g * t.x1;
          sum[5] += g * t.x2;
        }
        if (inside(s + 2)) {
          top = taps(column + (s + 2) * width_, lanes);
          sum[6] += g * top.x0;
          sum[7] += g * top.x1;
          sum[8] += g * top.x2;
        }
      }
    }
    OPENBNNS_UNROLL for (int t = 0; t < 9; t++) store(sums + t * kWidth, sum[t]);
  }

 private:
  struct Columns {
    Lanes here[2], beyond[2], result;  // columns of the first two taps, of the third tap, of results
    int64_t results;
  };
  struct Cells {
    Lanes here, before, put[2];  // of windows q and q - 1, of dx
    bool all[2];
  };
  struct Taps {
    Vec x0, x1, x2;
  };

  bool inside(int64_t row) const { return row >= 0 && row < height_; }
  bool has(int64_t row) const { return row >= 0 && row < rows_; }

  // Columns 2 c - left, 2 c + 1 - left and 2 c + 2 - left of a row, for all c of a vector.
  static OPENBNNS_INLINE Taps taps(const float* row, const Columns& lanes) {
    const Vec a = load_lanes(row, lanes.here[0]), b = load_lanes(row + kWidth, lanes.here[1]);
    const Vec c = load_lanes(row + 2, lanes.beyond[0]), d = load_lanes(row + 2 + kWidth, lanes.beyond[1]);
    return {evens(a, b), odds(a, b), evens(c, d)};
  }

  const int64_t height_, width_, rows_, columns_, up_, left_;
  const int64_t vectors_;   // in a row of results
  const int64_t met_rows_;  // rows of windows that rows of the image meet, or would if they existed
  int64_t bands_, band_;    // how many, and their rows of results
  std::vector<Columns> windows_;
  std::vector<Cells> cells_;
};

}  // namespace

std::unique_ptr<RowWindows> make_stride_two(const ConvolutionShape& s) { return std::make_unique<StrideTwo>(s); }
#endif

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
