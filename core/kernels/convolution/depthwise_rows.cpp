// 3 x 3 windows of depthwise convolutions read directly from the planes, without a bordered copy. A row of the image is
// loaded once for all windows it belongs to.
#include <algorithm>
#include <vector>

#include "common/planes.h"
#include "common/scratch_uses.h"
#include "kernels/convolution/depthwise.h"
#include "runtime/dynamic_items.h"
#include "runtime/partition.h"
#include "runtime/scratch.h"
#include "simd/pairs.h"
#include "simd/stored_numbers.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace {

// With step 1, a row of the image belongs to the windows of three rows of results: the sums of those whose last row of
// taps it is, and the others on their way, which lack one (lower) and two (middle) more. x: by columns of taps.
OPENBNNS_INLINE Vec roll_sums(const Vec (&w)[9], Vec start, const Vec (&x)[3], Vec& middle, Vec& lower) {
  Vec done = lower + w[6] * x[0];
  lower = middle + w[3] * x[0];
  middle = start + w[0] * x[0];
  done += w[7] * x[1];
  lower += w[4] * x[1];
  middle += w[1] * x[1];
  done += w[8] * x[2];
  lower += w[5] * x[2];
  middle += w[2] * x[2];
  return done;
}

// The same of a row outside the image.
OPENBNNS_INLINE Vec skip_row(Vec start, Vec& middle, Vec& lower) {
  const Vec done = lower;
  lower = middle;
  middle = start;
  return done;
}

// ---- float32: masked loads give the zeros outside the image ----
#if OPENBNNS_READS_ROWS

constexpr int64_t kChunk = 16384;       // forward: floats of the results of a task
constexpr int64_t kBlockFloats = 8192;  // backward: neighbouring planes that a task reads together
constexpr int64_t kLeastAhead = 512;    // floats between a plane and the one that is asked for meanwhile
constexpr int64_t kLine = 16;           // floats of a line of the cache

// Lanes of a vector that a masked load or store touches: [first, end).
#if defined(__AVX512F__)
using Lanes = __mmask16;
OPENBNNS_INLINE Lanes lanes_from(int64_t first, int64_t end) {
  return static_cast<Lanes>(((1u << end) - 1) & ~((1u << first) - 1));
}
OPENBNNS_INLINE Vec load_lanes(const float* p, Lanes lanes) { return _mm512_maskz_loadu_ps(lanes, p); }
OPENBNNS_INLINE void store_lanes(float* p, Vec v, Lanes lanes, bool) { _mm512_mask_storeu_ps(p, lanes, v); }
OPENBNNS_INLINE void store_first(float* p, Vec v, int64_t count) { store_partial(p, v, count); }
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
// The first `count` lanes, without a masked store.
OPENBNNS_INLINE void store_first(float* p, Vec v, int64_t count) {
  if (count == kWidth) return store(p, v);
  __m128 part = _mm256_castps256_ps128(v);
  if (count & 4) {
    _mm_storeu_ps(p, part);
    part = _mm256_extractf128_ps(v, 1);
    p += 4;
  }
  if (count & 2) {
    _mm_storel_pi(reinterpret_cast<__m64*>(p), part);
    part = _mm_movehl_ps(part, part);
    p += 2;
  }
  if (count & 1) _mm_store_ss(p, part);
}
#endif

// The next planes are prefetched meanwhile, line by line: the hardware prefetches only within a page of memory, which
// is about one plane.
//
// Windows of one shape; x: [in_height][in_width], y and dz: [out_height][out_width], w: [3][3].
class RowWindows {
 public:
  static constexpr int64_t kMostColumns = 128 * kWidth;

  // Planes that will be needed soon.
  struct Next {
    const float *source, *result;
  };

  virtual ~RowWindows() = default;

  // y = bias + sum over taps t of w(t) x(window's t)
  virtual void forward(const float* x, const float* w, float bias, float* y, Next next) const = 0;
  // hence dx (= or +=) sum of w(t) dz(windows whose t it is)
  virtual void input_gradient(const float* dz, const float* w, float* dx, bool adds, Next next) const = 0;

  // and dw(t) = sum over windows of dz x(window's t). Rows are taken in bands, whose products may be added in single
  // precision: sums[t][lane] += those of one band.
  virtual int64_t bands() const = 0;
  virtual int64_t additions() const = 0;  // of a band, to each sum
  virtual void add_products(int64_t band, const float* x, const float* dz, float* sums, const float* next_x) const = 0;
};

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

// Windows with step 1 and any dilation of the columns: a row of the image serves three rows of results in the making.
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

// The lanes of the vector that begins at column `from` which lie in [0, width) and are among the next `most` columns.
Lanes lanes_inside(int64_t from, int64_t width, int64_t most) {
  const int64_t end = std::clamp<int64_t>(std::min(width - from, most), 0, kWidth);
  return lanes_from(std::clamp<int64_t>(-from, 0, end), end);
}

// Windows with step 2: rows are taken apart into their even and odd columns as they are loaded, and put together again
// as they are stored.
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

class DepthwiseRows final : public DepthwisePlan {
 public:
  DepthwiseRows(const ConvolutionShape& s, const ActivationSpec& activation)
      : DepthwisePlan(s, activation), ahead_(std::max<int64_t>(1, kLeastAhead / out_plane_)) {
    if (s.stride_x == 1)
      windows_ = std::make_unique<StrideOne>(s);
    else
      windows_ = std::make_unique<StrideTwo>(s);
  }

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
        float* y = result(call, Y, plane);
        windows_->forward(source(call, X, plane), weights(call, plane.o), bias(call, plane.o), y,
                          {source(call, X, next), result(call, Y, next)});
        activate(y);
        plane.advance(outputs);
        next.advance(outputs);
      }
    });
  }

  void backward(const Call& call) override {
    const Run run = cut(call, std::clamp<int64_t>(kBlockFloats / in_plane_, 8, 64));
    // More workers than that share the channels of a block: sums of different channels are different sums.
    const int64_t shares = even_parts(run.blocks * run.parts, run.block, threads(call));
    dynamic_items(threads(call), run.blocks * run.parts * shares,
                  [&](int64_t task) { backward_task(run, task / shares, task % shares, shares); });
    write_sums(run);
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

  // Planes of a tensor like x and like y.
  float* source(const Call& call, int slot, Plane p) const {
    return input(call, slot, p.n, multiplier_ == 1 ? p.o : p.o / multiplier_);
  }
  float* result(const Call& call, int slot, Plane p) const { return output(call, slot, p.n, p.o); }

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
    float* made = room_for_gradient();
    int64_t planes = 0;
    for (int64_t n = call.batch * part / run.parts; n < end; n++) {
      for (int64_t o = first; o < last; o++) {
        check_interruption();
        Plane next{n, o + ahead_};
        if (next.o >= last) next = {std::min(n + 1, end - 1), std::min(next.o - last + first, last - 1)};
        backward_plane(call, {n, o}, next, sums, o - first, made);
      }
      if (++planes % held == 0) flush();
    }
    flush();
    if (!run.sums) return;
    double* to = run.sums + (part * channels_ * multiplier_ + first) * kSums;
    for (int64_t i = 0; i < (last - first) * kSums; i++) to[i] = sum_lanes(load_wide(sums.all + i * kWidth));
  }

  // What one plane of the output adds to the gradients; o: its channel within the block.
  void backward_plane(const Call& call, Plane plane, Plane next, const Sums& sums, int64_t o, float* made) const {
    const float* dz = output_gradient(call, plane.n, plane.o, made);
    if (call.address[DB]) add_lanes(dz, out_plane_, sums.all + (o * kSums + kTaps) * kWidth);
    if (call.address[DX])
      windows_->input_gradient(dz, weights(call, plane.o), source(call, DX, plane),
                               call.adds(DX) || (multiplier_ > 1 && plane.o % multiplier_ > 0),
                               {result(call, DY, next), source(call, DX, next)});
    if (!call.address[DW]) return;
    for (int64_t band = 0; band < windows_->bands(); band++) {
      if (band > 0) sums.flush(o);
      windows_->add_products(band, source(call, X, plane), dz, sums.single + o * kTaps * kWidth, source(call, X, next));
    }
  }

  const int64_t ahead_;  // planes
  std::unique_ptr<RowWindows> windows_;
};

#endif

// ---- float16 and bfloat16, forward ----

constexpr int64_t kTogether = 2 * kWidth;  // results of a row
constexpr int64_t kMet = kTogether + 2;    // numbers of a row that their windows meet
constexpr int64_t kPart = 8;               // results that are stored at a time where a plane ends before that

#if defined(__AVX2__)
constexpr bool kConvertsFloat16 = true;
#else
constexpr bool kConvertsFloat16 = false;  // in an instruction: others convert each number once
#endif

// kTogether results: taps(), the numbers from p on under the mask, and store().
struct Float16Results {
  static OPENBNNS_INLINE void taps(const uint16_t* p, const uint16_t* mask, Vec (&x)[2][3]) {
    OPENBNNS_UNROLL for (int v = 0; v < 2; v++) OPENBNNS_UNROLL for (int k = 0; k < 3; k++) x[v][k] =
        load_float16(p + v * kWidth + k, mask + v * kWidth + k);
  }
  static OPENBNNS_INLINE void store(uint16_t* to, const Vec (&results)[2]) {
    store_float16(to, results[0]);
    store_float16(to + kWidth, results[1]);
  }
};

// Those at even positions, then those at odd ones.
struct BFloat16Results {
  static OPENBNNS_INLINE void taps(const uint16_t* p, const uint16_t* mask, Vec (&x)[2][3]) {
    const VecPair left = load_bfloat16_pairs(p, mask), right = load_bfloat16_pairs(p + 2, mask + 2);
    x[0][0] = left.even;
    x[0][1] = x[1][0] = left.odd;
    x[0][2] = x[1][1] = right.even;
    x[1][2] = right.odd;
  }
  static OPENBNNS_INLINE void store(uint16_t* to, const Vec (&results)[2]) {
    store_bfloat16_pairs(to, {results[0], results[1]});
  }
};

// Rows are read where they are, with what lies before and behind them; the first and the last ones, where that could
// lie outside the plane, from a copy. The last results of a row overlap those before.
template <class Results>
class HalfRows final : public HalfWindows {
 public:
  explicit HalfRows(const ConvolutionShape& s)
      : height_(s.in_height),
        width_(s.in_width),
        rows_(s.out_height),
        columns_(s.out_width),
        up_(s.pad_up),
        left_(s.pad_left),
        reach_(std::max<int64_t>(0, columns_ - kTogether) - left_ + kMet),
        tail_(std::clamp<int64_t>((reach_ - 1) / width_, 0, height_)) {
    for (int64_t c = 0; c < columns_; c += kTogether)
      for (int64_t i = first_column(c) - left_; i < first_column(c) - left_ + kMet; i++)
        masks_.push_back(i >= 0 && i < width_ ? 0xFFFF : 0);
  }

  void forward(const uint16_t* x, const float* w, float bias, uint16_t* y) const override {
    const int64_t room = left_ + std::max(width_, reach_) + left_ + tail_ * width_ + std::max<int64_t>(0, reach_);
    auto* head = reinterpret_cast<Number*>(scratch(kInputBand, static_cast<size_t>(room))) + left_;
    Number* tail = head + std::max(width_, reach_) + left_;
    std::memcpy(head, x, 2 * width_);
    std::memcpy(tail, x + (height_ - tail_) * width_, 2 * tail_ * width_);
    const auto row_of = [&](int64_t s) -> const uint16_t* {
      return s >= height_ - tail_ ? tail + (s - height_ + tail_) * width_ : s > 0 ? x + s * width_ : head;
    };
    Vec weight[9];
    const Vec start = splat(bias);
    OPENBNNS_UNROLL for (int t = 0; t < 9; t++) weight[t] = splat(w[t]);
    const uint16_t* mask = masks_.data();
    for (int64_t c = 0; c < columns_; c += kTogether, mask += kMet) {
      const int64_t column = first_column(c);
      uint16_t* to = y + column - 2 * columns_;
      Vec middle[2] = {start, start}, lower[2] = {start, start};
      for (int64_t s = -up_; s < rows_ + 2 - up_; s++, to += columns_) {
        Vec done[2];
        if (s >= 0 && s < height_) {
          Vec taps[2][3];
          Results::taps(row_of(s) + column - left_, mask, taps);
          OPENBNNS_UNROLL for (int v = 0; v < 2; v++) done[v] = roll_sums(weight, start, taps[v], middle[v], lower[v]);
        } else {
          OPENBNNS_UNROLL for (int v = 0; v < 2; v++) done[v] = skip_row(start, middle[v], lower[v]);
        }
        if (s + up_ >= 2) store_row(done, to, y + rows_ * columns_);
      }
    }
  }

 private:
  typedef uint16_t Number [[gnu::may_alias]];

  int64_t first_column(int64_t c) const { return std::max<int64_t>(0, std::min(c, columns_ - kTogether)); }

  // Those that are beyond the row become results of the next one later.
  OPENBNNS_INLINE void store_row(const Vec (&results)[2], uint16_t* to, const uint16_t* end) const {
    if (to + kTogether <= end) return Results::store(to, results);
    uint16_t made[kTogether];
    Results::store(made, results);
    for (int64_t i = 0; i < columns_; i += kPart) {
      const int64_t part = std::min(i, columns_ - kPart);
      std::memcpy(to + part, made + part, kPart * sizeof(uint16_t));
    }
  }

  const int64_t height_, width_, rows_, columns_, up_, left_;
  const int64_t reach_;          // from the beginning of a row to behind what windows meet
  const int64_t tail_;           // rows that are copied
  std::vector<uint16_t> masks_;  // of the numbers that kTogether results meet: whether they lie in the image
};

}  // namespace

#if OPENBNNS_READS_ROWS
std::unique_ptr<Plan> make_depthwise_rows(const ConvolutionShape& shape, const ActivationSpec& activation) {
  if (!DepthwiseRows::takes(shape)) return nullptr;
  return std::make_unique<DepthwiseRows>(shape, activation);
}
#else
std::unique_ptr<Plan> make_depthwise_rows(const ConvolutionShape&, const ActivationSpec&) { return nullptr; }
#endif

std::unique_ptr<HalfWindows> make_half_windows(const ConvolutionShape& s) {
  const bool square = s.kernel_height == 3 && s.kernel_width == 3 && s.stride_y == 1 && s.stride_x == 1 &&
                      s.dilation_y == 1 && s.dilation_x == 1;
  if (!square || s.x.type != s.y.type || s.out_width < kPart || s.pad_left > s.in_width) return nullptr;
  if (s.x.type == ElementType::kFloat16 && kConvertsFloat16) return std::make_unique<HalfRows<Float16Results>>(s);
  if (s.x.type == ElementType::kBFloat16) return std::make_unique<HalfRows<BFloat16Results>>(s);
  return nullptr;
}

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
