// Batch normalization of vectors and of small planes: samples are rows of a matrix, and statistics run down its columns
// (over the columns of all pixels of a channel).
//
// The matrix is cut into tiles of whole channels. Usually one worker takes all rows of some channels through both
// sweeps, the second of which finds them in the cache; with too few tiles side by side for that, the workers share
// those below each other instead, sweep by sweep. Both orders add up the same numbers in the same sequence.
#include <algorithm>
#include <type_traits>

#include "common/scratch_uses.h"
#include "kernels/normalization/normalization.h"
#include "runtime/dynamic_items.h"
#include "simd/stream.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace normalization {
namespace {

constexpr int64_t kTileRows = 64;       // summed in single precision
constexpr int64_t kLeastColumns = 512;  // of a tile, where there are as many: lines at the edges of tiles are shared
constexpr int64_t kMostColumns = 2048;  // for arrays on the stack
constexpr int64_t kTiles = 8;           // side by side, if there are columns enough
constexpr int64_t kCached = 131072;     // floats of one tensor in the second-level cache
constexpr int64_t kSettled = 64;        // channels whose sums are put together at a time,
constexpr int64_t kParts = 2048;        // in parallel from so many sums on

struct Tile {
  int64_t first_row, rows, channel, channels, column, columns;
};

// sums[t][column] = sum over rows of value t of term(row, column, get, values); get(p) loads lanes.
template <int kTerms, class Term>
OPENBNNS_INLINE void tile_sums(int64_t rows, int64_t columns, float* const (&sums)[kTerms], Term term) {
  for (float* s : sums) std::fill_n(s, (columns + kWidth - 1) / kWidth * kWidth, 0.0f);
  auto add_rows = [&](int64_t row, auto count) {
    constexpr int kCount = decltype(count)::value;
    auto add = [&](int64_t column, auto get) {
      Vec value[kCount][kTerms];
      OPENBNNS_UNROLL for (int r = 0; r < kCount; r++) term(row + r, column, get, value[r]);
      OPENBNNS_UNROLL for (int t = 0; t < kTerms; t++) {
        Vec total = kCount == 1 ? value[0][t]
                                : (value[0][t] + value[kCount / 4][t]) + (value[kCount / 2][t] + value[kCount - 1][t]);
        store(sums[t] + column, load(sums[t] + column) + total);
      }
    };
    int64_t column = 0;
    for (; column + kWidth <= columns; column += kWidth) add(column, [](const float* p) { return load(p); });
    const int64_t left = columns - column;
    if (left > 0) add(column, [left](const float* p) { return load_partial(p, left); });
  };
  int64_t row = 0;
  for (; row + 4 <= rows; row += 4) add_rows(row, std::integral_constant<int, 4>{});
  for (; row < rows; row++) add_rows(row, std::integral_constant<int, 1>{});
}

float sum_of(const float* x, int64_t count) {
  if (count == 1) return *x;
  Vec total{};
  int64_t i = 0;
  for (; i + kWidth <= count; i += kWidth) total += load(x + i);
  return sum_lanes(total + load_partial(x + i, count - i));
}

// Numbers of every column: z = (x - center) * scale + shift, and dx = by_dz * dz + by_distance * (x - center) +
// constant
struct ColumnValues {
  float *center, *scale, *shift, *by_dz, *by_distance, *constant;

  ColumnValues from(int64_t i) const {
    return {center + i, scale + i, shift + i, by_dz + i, by_distance + i, constant + i};
  }
};

// z of lanes of column i, where get(p) loads
template <class Get>
OPENBNNS_INLINE Vec normalized(const ColumnValues& v, int64_t i, Vec x, Get get) {
  return (x - get(v.center + i)) * get(v.scale + i) + get(v.shift + i);
}

template <bool kStream, class F>
void normalize_run(const F& f, const ColumnValues& v, const float* x, float* y, float* keep, int64_t count) {
  auto value = [&](Vec lanes, auto get, int64_t i) { return f.value(normalized(v, i, lanes, get)); };
  over_vectors<kStream, true>(
      y, count,
      [&](int64_t i) {
        Vec lanes = load(x + i);
        if (keep) store(keep + i, lanes);
        put<kStream>(y + i, value(lanes, [](const float* p) { return load(p); }, i));
      },
      [&](int64_t i, int64_t left) {
        Vec lanes = load_partial(x + i, left);
        if (keep) store_partial(keep + i, lanes, left);
        store_partial(y + i, value(lanes, [left](const float* p) { return load_partial(p, left); }, i), left);
      });
}

// dz of lanes, from y in memory or, where that is null, computed again from x
template <class F, class Get>
OPENBNNS_INLINE Vec slope_lanes(const F& f, const ColumnValues& v, const float* y, int64_t i, Vec x, Vec dy, Get get) {
  if constexpr (std::is_same_v<F, functions::Identity>) return dy;
  return f.gradient_from_output(dy, y ? get(y) : f.value(normalized(v, i, x, get)));
}

template <bool kStream, class F>
void write_run_gradient(const F& f, const ColumnValues& v, const BackwardRun& r, float* dx, bool add) {
  auto value = [&](int64_t i, auto get) {
    const Vec x = get(r.x + i);
    Vec dz = slope_lanes(f, v, r.y ? r.y + i : nullptr, i, x, get(r.dy + i), get);
    dz = get(v.by_dz + i) * dz + (get(v.by_distance + i) * (x - get(v.center + i)) + get(v.constant + i));
    return add ? get(dx + i) + dz : dz;
  };
  over_vectors<kStream, true>(
      dx, r.count, [&](int64_t i) { put<kStream>(dx + i, value(i, [](const float* p) { return load(p); })); },
      [&](int64_t i, int64_t left) {
        store_partial(dx + i, value(i, [left](const float* p) { return load_partial(p, left); }), left);
      });
}

class Columns final : public NormalizationForm {
 public:
  Columns(const NormalizationShape& s, const ActivationSpec& activation)
      : shape_(s),
        activation_(activation, s.slope_from_input),
        pixels_(s.height * s.width),
        columns_(s.channels * pixels_) {}

  void forward(const NormalizationForward& call) override {
    std::vector<Statistics> passing;  // of an inference, which must not disturb what training kept
    std::vector<Statistics>& statistics = call.training ? statistics_ : passing;
    statistics.resize(static_cast<size_t>(shape_.channels));
    const bool measures = !(uses_moving_mean(shape_, call) && uses_moving_variance(shape_, call));
    const Cut cut = cut_of(call.batch);
    Moments* moments = scratch_of<Moments>(kNormalizationSums, cut.row_tiles * shape_.channels);
    const ColumnValues values = make_values();
    auto make = [&](const Tile& t) {
      for (int64_t n = t.first_row; call.maker && n < t.first_row + t.rows; n++)
        for (int64_t c = t.channel; c < t.channel + t.channels; c++) call.maker->make(n, c, 0, pixels_);
    };

    auto measure = [&](const Tile& t) {
      make(t);
      tile_moments(t, call.x, moments + t.first_row / kTileRows * shape_.channels + t.channel);
    };
    auto settle = [&](int64_t first, int64_t last) {  // the total of a channel replaces its first part
      for (int64_t c = first; c < last; c++) {
        const Moments total = merged(measures ? cut.row_tiles : 0,
                                     [&](int64_t t) -> const Moments& { return moments[t * shape_.channels + c]; });
        Statistics& s = statistics[static_cast<size_t>(c)] = choose_statistics(shape_, call, total, c);
        moments[c] = total;
        set_affine(values, s, c, call.gamma, call.beta);
      }
    };
    auto write = [&](const Tile& t) {
      if (!measures) make(t);
      write_tile(call, values, t);
    };
    sweep(cut, call.batch, call.threads, measures, measure, settle, write);
    update_moving(shape_, call, moments);
  }

  void repeat(const NormalizationForward& call) const override {
    const ColumnValues values = make_values();
    auto settle = [&](int64_t first, int64_t last) {
      for (int64_t c = first; c < last; c++)
        set_affine(values, statistics_[static_cast<size_t>(c)], c, call.gamma, call.beta);
    };
    auto write = [&](const Tile& t) { write_tile(call, values, t); };
    sweep(cut_of(call.batch), call.batch, call.threads, false, [](const Tile&) {}, settle, write);
  }

  // y = f(z), z = gamma * xhat + beta: dbeta = sum dz, dgamma = sum dz * xhat; with g = gamma * dz,
  // xhat = (x - mean) * inverse: dx = (g - mean(g) - xhat * mean(g * xhat)) * inverse, means over the channel.
  void backward(const NormalizationBackward& call) const override {
    const Cut cut = cut_of(call.batch);
    GradientSums* sums = scratch_of<GradientSums>(kNormalizationSums, cut.row_tiles * shape_.channels);
    const ColumnValues values = make_values();
    for (int64_t c = 0; c < shape_.channels; c++)
      set_affine(values, statistics_[static_cast<size_t>(c)], c, call.gamma, call.beta);

    auto measure = [&](const Tile& t) {
      tile_gradient_sums(t, call, values, sums + t.first_row / kTileRows * shape_.channels + t.channel);
    };
    auto settle = [&](int64_t first, int64_t last) {
      for (int64_t c = first; c < last; c++) {
        GradientSums total;
        for (int64_t t = 0; t < cut.row_tiles; t++) total.add(sums[t * shape_.channels + c]);
        settle_channel(call, values, c, total);
      }
    };
    const bool stream = !call.add_dx && !call.taker && call.batch * columns_ >= stream_from();
    auto write_rows = [&](const Tile& t, auto write_run) {
      const ColumnValues of_tile = values.from(t.column);
      float taken[kMostColumns], staged[kMostColumns];
      for (int64_t n = t.first_row; n < t.first_row + t.rows; n++) {
        BackwardRun run = run_of(call, n, t);
        float* dx = call.taker ? taken : call.dx.sample(n) + t.column;
        if (stages()) run.dy = staged_gradient(of_tile, run, staged);
        write_run(of_tile, run, dx, call.add_dx && !call.taker);
        for (int64_t c = 0; call.taker && c < t.channels; c++)
          call.taker->take(n, t.channel + c, 0, pixels_, run.x + c * pixels_, dx + c * pixels_);
      }
      if (stream) finish_stream();
    };
    auto write = [&](const Tile& t) {
      if (!call.dx.data && !call.taker) return;
      with_slope([&](const auto& f) {
        if (stream)
          write_rows(t, [&](const auto&... run) { write_run_gradient<true>(f, run...); });
        else
          write_rows(t, [&](const auto&... run) { write_run_gradient<false>(f, run...); });
      });
    };
    sweep(cut, call.batch, call.threads, true, measure, settle, write);
  }

  bool plane_wise() const override { return true; }

 private:
  struct Cut {
    int64_t channels, column_tiles, row_tiles;  // channels of a tile
  };

  // By sizes alone, so that sums do not depend on the number of threads.
  Cut cut_of(int64_t batch) const {
    int64_t width = std::min(std::max(columns_ / kTiles, kLeastColumns), kMostColumns);
    if (batch * width > kCached) width = kMostColumns;  // nothing to be found in the cache: long runs
    const int64_t channels = std::min(std::max<int64_t>(1, width / pixels_), shape_.channels);
    return {channels, (shape_.channels + channels - 1) / channels, (batch + kTileRows - 1) / kTileRows};
  }

  Tile tile_of(const Cut& cut, int64_t batch, int64_t row_tile, int64_t column_tile) const {
    const int64_t row = row_tile * kTileRows, channel = column_tile * cut.channels;
    const int64_t channels = std::min(cut.channels, shape_.channels - channel);
    return {row, std::min(kTileRows, batch - row), channel, channels, channel * pixels_, channels * pixels_};
  }

  // measure every tile (if asked to), settle the channels of every column of tiles, write every tile
  template <class Measure, class Settle, class Write>
  void sweep(const Cut& cut, int64_t batch, int threads, bool measures, Measure measure, Settle settle,
             Write write) const {
    const int workers = workers_for(batch * columns_, threads);
    const bool shared = workers == 1 || cut.column_tiles % workers == 0 || cut.column_tiles >= 4 * workers;
    if (shared && batch * cut.channels * pixels_ <= kCached) {
      dynamic_items(workers, cut.column_tiles, [&](int64_t i) {
        for (int64_t t = 0; measures && t < cut.row_tiles; t++) measure(tile_of(cut, batch, t, i));
        const Tile top = tile_of(cut, batch, 0, i);
        settle(top.channel, top.channel + top.channels);
        for (int64_t t = 0; t < cut.row_tiles; t++) write(tile_of(cut, batch, t, i));
      });
      return;
    }
    const int64_t tiles = cut.row_tiles * cut.column_tiles;
    auto tile = [&](int64_t i) { return tile_of(cut, batch, i / cut.column_tiles, i % cut.column_tiles); };
    if (measures) dynamic_items(workers, tiles, [&](int64_t i) { measure(tile(i)); });
    const int64_t blocks = (shape_.channels + kSettled - 1) / kSettled;
    dynamic_items(cut.row_tiles * shape_.channels >= kParts ? workers : 1, blocks,
                  [&](int64_t b) { settle(b * kSettled, std::min(shape_.channels, (b + 1) * kSettled)); });
    dynamic_items(workers, tiles, [&](int64_t i) { write(tile(mirrored(i, tiles, workers))); });
  }

  // y of a tile, and in training a copy of x, unless it stays where it is
  void write_tile(const NormalizationForward& call, const ColumnValues& values, const Tile& t) const {
    const bool keeps = call.training && call.keep.data != call.x.data;
    const bool stream = activation_.built_in() && call.batch * columns_ >= stream_from();
    const ColumnValues of_tile = values.from(t.column);
    auto write_rows = [&](auto write_run) {
      for (int64_t n = t.first_row; n < t.first_row + t.rows; n++) {
        float *y = call.y.sample(n) + t.column, *keep = keeps ? call.keep.sample(n) + t.column : nullptr;
        write_run(of_tile, call.x.sample(n) + t.column, y, keep, t.columns);
        if (!activation_.built_in()) activation_.forward(y, y, t.columns, false);
      }
      if (stream) finish_stream();
    };
    activation_.with_built_in([&](const auto& f) {
      if (stream)
        write_rows([&](const auto&... run) { normalize_run<true>(f, run...); });
      else
        write_rows([&](const auto&... run) { normalize_run<false>(f, run...); });
    });
  }

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

  // Of the channels of a tile: by way of the deviations from the mean of some of its rows. These are a quarter or more,
  // so that their mean is within 1.8 deviations of the mean of all, whatever the data.
  void tile_moments(const Tile& t, const ConstSamples& x, Moments* moments) const {
    alignas(64) float middle[kMostColumns], first[kMostColumns], second[kMostColumns];
    const float* from = x.sample(t.first_row) + t.column;
    const int64_t rows = std::min(kTileRows / 4, t.rows);
    tile_sums<1>(rows, t.columns, {first}, [&](int64_t row, int64_t column, auto get, Vec(&value)[1]) {
      value[0] = get(from + row * x.stride + column);
    });
    for (int64_t c = 0; c < t.channels; c++)
      std::fill_n(middle + c * pixels_, pixels_,
                  sum_of(first + c * pixels_, pixels_) / static_cast<float>(rows * pixels_));
    tile_sums<2>(t.rows, t.columns, {first, second}, [&](int64_t row, int64_t column, auto get, Vec(&value)[2]) {
      value[0] = get(from + row * x.stride + column) - get(middle + column);
      value[1] = value[0] * value[0];
    });
    for (int64_t c = 0, at = 0; c < t.channels; c++, at += pixels_)
      moments[c] =
          shifted_moments(middle[at], sum_of(first + at, pixels_), sum_of(second + at, pixels_), t.rows * pixels_);
  }

  // Of the channels of a tile: sums of dz and of dz * (x - center).
  void tile_gradient_sums(const Tile& t, const NormalizationBackward& call, const ColumnValues& values,
                          GradientSums* sums) const {
    alignas(64) float first[kMostColumns], second[kMostColumns];
    BackwardRun top = run_of(call, t.first_row, t);
    int64_t stride = call.dy.stride;
    if (stages()) {
      float* room = scratch(kActivated, static_cast<size_t>(t.rows * t.columns));
      for (int64_t r = 0; r < t.rows; r++)
        staged_gradient(values.from(t.column), run_of(call, t.first_row + r, t), room + r * t.columns);
      top.dy = room;
      stride = t.columns;
    }
    const ColumnValues of_tile = values.from(t.column);
    with_slope([&](const auto& f) {
      tile_sums<2>(t.rows, t.columns, {first, second}, [&](int64_t row, int64_t column, auto get, Vec(&value)[2]) {
        const Vec x = get(top.x + row * call.x.stride + column), dy = get(top.dy + row * stride + column);
        value[0] = slope_lanes(f, of_tile, top.y ? top.y + row * call.y.stride + column : nullptr, column, x, dy, get);
        value[1] = value[0] * (x - get(of_tile.center + column));
      });
    });
    for (int64_t c = 0; c < t.channels; c++)
      sums[c] = {sum_of(first + c * pixels_, pixels_), sum_of(second + c * pixels_, pixels_)};
  }

  void settle_channel(const NormalizationBackward& call, const ColumnValues& values, int64_t c,
                      const GradientSums& total) const {
    const Statistics& s = statistics_[static_cast<size_t>(c)];
    const double count = static_cast<double>(call.batch * pixels_);
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

  // Whether dz is computed before it is used; else it follows from dy on the way.
  bool stages() const { return !activation_.built_in_slope(); }

  // Calls use(f) with the function whose slopes the loops apply: none where dz is staged.
  template <class Use>
  void with_slope(Use use) const {
    if (stages())
      use(functions::Identity(ActivationParameters{}));
    else
      activation_.with_built_in(use);
  }

  BackwardRun run_of(const NormalizationBackward& call, int64_t n, const Tile& t) const {
    const bool reads_output = activation_.needs_output() && call.y.data;
    return {call.x.sample(n) + t.column, reads_output ? call.y.sample(n) + t.column : nullptr,
            call.dy.sample(n) + t.column, t.columns};
  }

  const float* staged_gradient(const ColumnValues& values, const BackwardRun& r, float* dz) const {
    const float* source = activation_.from_input() ? nullptr : r.y;
    if (!source) {
      normalize_run<false>(functions::Identity(ActivationParameters{}), values, r.x, dz, nullptr, r.count);
      if (!activation_.from_input()) activation_.forward(dz, dz, r.count, false);
      source = dz;
    }
    activation_.backward(source, r.dy, dz, r.count);
    return dz;
  }

  const NormalizationShape shape_;
  const FusedActivation activation_;
  const int64_t pixels_, columns_;
  std::vector<Statistics> statistics_;  // [channels] of the latest training forward
};

}  // namespace

std::unique_ptr<NormalizationForm> make_columns(const NormalizationShape& shape, const ActivationSpec& activation) {
  return std::make_unique<Columns>(shape, activation);
}

}  // namespace normalization
}  // namespace OPENBNNS_ISA
}  // namespace openbnns
