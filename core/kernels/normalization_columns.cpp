// Batch normalization of vectors and of small planes: samples are rows of a matrix, and statistics run down its columns
// (over the columns of all pixels of a channel).
#include <algorithm>

#include "kernels/normalization.h"
#include "kernels/scratch_uses.h"
#include "runtime/dynamic_items.h"
#include "simd/vec.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace normalization {
namespace {

// A tile is taken through both sweeps of its moments in the second-level cache; within it sums are in single precision.
constexpr int64_t kTileRows = 256, kTileColumns = 256;
constexpr int64_t kItemElements = 16384;

OPENBNNS_INLINE Vec load_upto(const float* p, int64_t count) {
  return count >= kWidth ? load(p) : load_partial(p, count);
}
OPENBNNS_INLINE void store_upto(float* p, Vec v, int64_t count) {
  count >= kWidth ? store(p, v) : store_partial(p, v, count);
}

struct Tile {
  int64_t rows, columns;
};

// Sums down the columns of term(row, column, lanes), kVectors vectors side by side, `Terms` of them per element.
template <int kVectors, int kTerms, class Term>
OPENBNNS_INLINE void column_sums(int64_t rows, int64_t column, int64_t columns, float* const (&sums)[kTerms],
                                 Term term) {
  Vec total[kTerms][kVectors] = {};
  for (int64_t r = 0; r < rows; r++) OPENBNNS_UNROLL for (int v = 0; v < kVectors; v++) {
      Vec value[kTerms];
      term(r, column + v * kWidth, columns - column - v * kWidth, value);
      OPENBNNS_UNROLL for (int t = 0; t < kTerms; t++) total[t][v] += value[t];
    }
  OPENBNNS_UNROLL for (int t = 0; t < kTerms; t++) OPENBNNS_UNROLL for (int v = 0; v < kVectors; v++)
      store_upto(sums[t] + column + v * kWidth, total[t][v], columns - column - v * kWidth);
}

template <int kTerms, class Term>
OPENBNNS_INLINE void tile_sums(Tile tile, float* const (&sums)[kTerms], Term term) {
  int64_t column = 0;
  for (; column + 4 * kWidth <= tile.columns; column += 4 * kWidth)
    column_sums<4>(tile.rows, column, tile.columns, sums, term);
  for (; column < tile.columns; column += kWidth) column_sums<1>(tile.rows, column, tile.columns, sums, term);
}

// middle: about the mean of every column; first, second: sums of d = x - middle and of d * d
void tile_moments(Tile tile, const float* x, int64_t stride, float* middle, float* first, float* second) {
  tile_sums<1>(tile, {middle}, [&](int64_t r, int64_t column, int64_t left, Vec(&value)[1]) {
    value[0] = load_upto(x + r * stride + column, left);
  });
  for (int64_t i = 0; i < tile.columns; i++) middle[i] /= static_cast<float>(tile.rows);
  tile_sums<2>(tile, {first, second}, [&](int64_t r, int64_t column, int64_t left, Vec(&value)[2]) {
    Vec d = load_upto(x + r * stride + column, left) - load_upto(middle + column, left);
    value[0] = d;
    value[1] = d * d;
  });
}

// sums of dz and of dz * (x - center)
void tile_gradient_sums(Tile tile, const float* x, int64_t x_stride, const float* dz, int64_t dz_stride,
                        const float* center, float* first, float* second) {
  tile_sums<2>(tile, {first, second}, [&](int64_t r, int64_t column, int64_t left, Vec(&value)[2]) {
    value[0] = load_upto(dz + r * dz_stride + column, left);
    value[1] = value[0] * (load_upto(x + r * x_stride + column, left) - load_upto(center + column, left));
  });
}

// Numbers of every column: z = (x - center) * scale + shift, and dx = by_dz * dz + by_distance * (x - center) +
// constant
struct ColumnValues {
  float *center, *scale, *shift, *by_dz, *by_distance, *constant;
};

void normalize_columns(const ColumnValues& v, int64_t first, const float* x, float* z, float* keep, int64_t count) {
  for (int64_t i = 0; i < count; i += kWidth) {
    int64_t left = count - i, at = first + i;
    Vec value = load_upto(x + i, left);
    if (keep) store_upto(keep + i, value, left);
    store_upto(z + i,
               (value - load_upto(v.center + at, left)) * load_upto(v.scale + at, left) + load_upto(v.shift + at, left),
               left);
  }
}

void write_row_gradient(const ColumnValues& v, const float* x, const float* dz, float* dx, int64_t count, bool add) {
  for (int64_t i = 0; i < count; i += kWidth) {
    int64_t left = count - i;
    Vec distance = load_upto(x + i, left) - load_upto(v.center + i, left);
    Vec g = load_upto(v.by_dz + i, left) * load_upto(dz + i, left) +
            (load_upto(v.by_distance + i, left) * distance + load_upto(v.constant + i, left));
    store_upto(dx + i, add ? load_upto(dx + i, left) + g : g, left);
  }
}

class Columns final : public NormalizationForm {
 public:
  Columns(const NormalizationShape& s, const ActivationSpec& activation)
      : shape_(s),
        activation_(activation, s.slope_from_input),
        pixels_(s.height * s.width),
        columns_(s.channels * pixels_),
        column_tiles_((columns_ + kTileColumns - 1) / kTileColumns) {}

  void forward(const NormalizationForward& call) override {
    std::vector<Statistics> passing;  // of an inference, which must not disturb what training kept
    std::vector<Statistics>& statistics = call.training ? statistics_ : passing;
    statistics.resize(static_cast<size_t>(shape_.channels));
    const int workers = workers_for(call.batch * columns_, call.threads);
    const int64_t row_tiles = row_tiles_of(call.batch);
    const bool measures = !(uses_moving_mean(shape_, call) && uses_moving_variance(shape_, call));
    // [channels] moments, then [row tiles][3][columns] middles and sums
    Moments* moments = scratch_of<Moments>(kNormalizationSums, shape_.channels + row_tiles * columns_);
    float* parts = reinterpret_cast<float*>(moments + shape_.channels);
    ColumnValues values = make_values();

    if (measures && !call.plane_moments)
      each_tile(call.batch, workers, [&](int64_t row_tile, int64_t column, Tile tile) {
        float* to = parts + row_tile * 3 * columns_ + column;
        tile_moments(tile, call.x.sample(row_tile * kTileRows) + column, call.x.stride, to, to + columns_,
                     to + 2 * columns_);
      });
    parallel_items(workers, shape_.channels, [&](int64_t c) {
      moments[c] = !measures ? Moments{} : call.plane_moments ? given(call, c) : measured(parts, call.batch, c);
      statistics[static_cast<size_t>(c)] = choose_statistics(shape_, call, moments[c], c);
      set_affine(values, statistics[static_cast<size_t>(c)], c, call.gamma, call.beta);
    });
    each_rows(call.batch, workers, [&](int64_t first, int64_t last) {
      for (int64_t n = first; n < last; n++) {
        const float* x = call.x.sample(n);
        float* keep = call.training && call.keep.data != call.x.data ? call.keep.sample(n) : nullptr;
        normalize_columns(values, 0, x, call.y.sample(n), keep, columns_);
      }
      activate(call.y, first, last);
    });
    update_moving(shape_, call, moments);
  }

  // y = f(z), z = gamma * xhat + beta: dbeta = sum dz, dgamma = sum dz * xhat; with g = gamma * dz,
  // xhat = (x - mean) * inverse: dx = (g - mean(g) - xhat * mean(g * xhat)) * inverse, means over the channel.
  void backward(const NormalizationBackward& call) const override {
    const int workers = workers_for(call.batch * columns_, call.threads);
    const int64_t row_tiles = row_tiles_of(call.batch);
    float* parts =
        scratch(kNormalizationSums, static_cast<size_t>(row_tiles * 2 * columns_));  // [row tiles][2][columns]
    ColumnValues values = make_values();
    for (int64_t c = 0; c < shape_.channels; c++)
      set_affine(values, statistics_[static_cast<size_t>(c)], c, call.gamma, call.beta);

    each_tile(call.batch, workers, [&](int64_t row_tile, int64_t column, Tile tile) {
      const int64_t n = row_tile * kTileRows;
      const float *x = call.x.sample(n) + column, *dz = call.dy.sample(n) + column;
      int64_t stride = call.dy.stride;
      if (!activation_.identity()) {
        float* room = scratch(kActivated, static_cast<size_t>(kTileRows * kTileColumns));
        for (int64_t r = 0; r < tile.rows; r++)
          gradient_run(call, values, n + r, column, tile.columns, room + r * tile.columns);
        dz = room;
        stride = tile.columns;
      }
      float* to = parts + row_tile * 2 * columns_ + column;
      tile_gradient_sums(tile, x, call.x.stride, dz, stride, values.center + column, to, to + columns_);
    });
    const double count = static_cast<double>(call.batch * pixels_);
    for (int64_t c = 0; c < shape_.channels; c++) {
      const Statistics& s = statistics_[static_cast<size_t>(c)];
      GradientSums total;
      for (int64_t t = 0; t < row_tiles; t++)
        for (int64_t i = c * pixels_; i < (c + 1) * pixels_; i++)
          total.add({parts[t * 2 * columns_ + i], parts[(t * 2 + 1) * columns_ + i]});
      double dgamma = total.dz_distance * static_cast<double>(s.inverse) + total.dz * static_cast<double>(s.offset);
      if (call.dbeta) call.dbeta[c] = static_cast<float>(total.dz) + (call.add_dbeta ? call.dbeta[c] : 0);
      if (call.dgamma) call.dgamma[c] = static_cast<float>(dgamma) + (call.add_dgamma ? call.dgamma[c] : 0);
      double gamma = call.gamma ? static_cast<double>(call.gamma[c]) : 1;
      InputGradient g{0, 0, 0};  // a set of one element has no slope: exactly, not up to rounding
      if (count > 1) g = make_input_gradient(s, gamma, gamma * total.dz / count, gamma * dgamma / count);
      std::fill_n(values.by_dz + c * pixels_, pixels_, g.by_dz);
      std::fill_n(values.by_distance + c * pixels_, pixels_, g.by_distance);
      std::fill_n(values.constant + c * pixels_, pixels_, g.constant);
    }
    if (!call.dx.data) return;
    each_rows(call.batch, workers, [&](int64_t first, int64_t last) {
      float* room = activation_.identity() ? nullptr : scratch(kActivated, static_cast<size_t>(columns_));
      for (int64_t n = first; n < last; n++) {
        if (room) gradient_run(call, values, n, 0, columns_, room);
        write_row_gradient(values, call.x.sample(n), room ? room : call.dy.sample(n), call.dx.sample(n), columns_,
                           call.add_dx);
      }
    });
  }

 private:
  int64_t row_tiles_of(int64_t batch) const { return (batch + kTileRows - 1) / kTileRows; }

  ColumnValues make_values() const {
    float* room = scratch(kNormalizationValues, static_cast<size_t>(6 * columns_));
    return {room, room + columns_, room + 2 * columns_, room + 3 * columns_, room + 4 * columns_, room + 5 * columns_};
  }

  void set_affine(const ColumnValues& values, const Statistics& s, int64_t c, const float* gamma,
                  const float* beta) const {
    Affine a = make_affine(s, gamma ? gamma[c] : 1, beta ? beta[c] : 0);
    std::fill_n(values.center + c * pixels_, pixels_, a.center);
    std::fill_n(values.scale + c * pixels_, pixels_, a.scale);
    std::fill_n(values.shift + c * pixels_, pixels_, a.shift);
  }

  template <class Body>
  void each_tile(int64_t batch, int workers, Body body) const {
    dynamic_items(workers, row_tiles_of(batch) * column_tiles_, [&](int64_t item) {
      const int64_t row_tile = item / column_tiles_, column = item % column_tiles_ * kTileColumns;
      body(row_tile, column,
           Tile{std::min(kTileRows, batch - row_tile * kTileRows), std::min(kTileColumns, columns_ - column)});
    });
  }
  // body(first sample, one past the last) for groups of samples
  template <class Body>
  void each_rows(int64_t batch, int workers, Body body) const {
    const int64_t each = std::max<int64_t>(1, kItemElements / columns_);
    dynamic_items(workers, (batch + each - 1) / each,
                  [&](int64_t i) { body(i * each, std::min(batch, (i + 1) * each)); });
  }

  Moments measured(const float* parts, int64_t batch, int64_t c) const {
    Moments total;
    for (int64_t t = 0; t < row_tiles_of(batch); t++) {
      const float* middle = parts + t * 3 * columns_;
      const int64_t rows = std::min(kTileRows, batch - t * kTileRows);
      for (int64_t i = c * pixels_; i < (c + 1) * pixels_; i++)
        total.add(shifted_moments(middle[i], middle[columns_ + i], middle[2 * columns_ + i], rows));
    }
    return total;
  }
  Moments given(const NormalizationForward& call, int64_t c) const {
    Moments total;
    for (int64_t n = 0; n < call.batch; n++) total.add(call.plane_moments[n * shape_.channels + c]);
    return total;
  }

  // y = f(y) for some samples, which mostly follow one another
  void activate(const Samples& y, int64_t first, int64_t last) const {
    if (activation_.identity()) return;
    if (y.stride == columns_)
      return activation_.forward(y.sample(first), y.sample(first), (last - first) * columns_, false);
    for (int64_t n = first; n < last; n++) activation_.forward(y.sample(n), y.sample(n), columns_, false);
  }

  // dz of columns [column, column + count) of sample n
  void gradient_run(const NormalizationBackward& call, const ColumnValues& values, int64_t n, int64_t column,
                    int64_t count, float* dz) const {
    const float* source = dz;
    if (activation_.from_input())
      normalize_columns(values, column, call.x.sample(n) + column, dz, nullptr, count);
    else
      source = call.y.sample(n) + column;
    activation_.backward(source, call.dy.sample(n) + column, dz, count);
  }

  const NormalizationShape shape_;
  const FusedActivation activation_;
  const int64_t pixels_, columns_, column_tiles_;
  std::vector<Statistics> statistics_;  // [channels] of the latest training forward
};

}  // namespace

std::unique_ptr<NormalizationForm> make_columns(const NormalizationShape& shape, const ActivationSpec& activation) {
  return std::make_unique<Columns>(shape, activation);
}

}  // namespace normalization
}  // namespace OPENBNNS_ISA
}  // namespace openbnns
