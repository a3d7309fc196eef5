// z = pool(x) + b, y = f(z), plane by plane; see PoolingShape for the tensors and the meaning of indices.
//
// A window without a cell in the plane pools to 0. Indices that point outside the plane are left out in backward.
#include <limits>
#include <optional>

#include "common/lazy.h"
#include "common/scratch_uses.h"
#include "kernels/activation/activation.h"
#include "kernels/kernels.h"
#include "kernels/pooling/disjoint.h"
#include "kernels/pooling/lanes.h"
#include "kernels/pooling/pairs.h"
#include "kernels/pooling/separable.h"
#include "kernels/pooling/triples.h"
#include "kernels/pooling/windows.h"
#include "runtime/scratch.h"
#include "runtime/thread_pool.h"
#include "simd/math.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace {

enum Function { kMax, kAverageIncludingPadding, kAverageExcludingPadding, kUnMax, kL2Norm };

constexpr int64_t kSerialElements = 32768;
constexpr bool kGathers = kWidth > 4;
constexpr int64_t kMediumPlane = 4096;          // cells of planes that are worked on side by side, at most
constexpr int64_t kSmallPlane = 2048;           // the same, even if windows overlap much
constexpr int64_t kNarrowRow = 3 * kWidth / 2;  // cells of a row, below which most of its vectors would be idle
constexpr int64_t kTinyRow = 8;                 // the same if windows overlap much
constexpr int64_t kFewWindows = 12;             // in a row, below which the ways made for one kind of windows pay less
constexpr int64_t kFewPairs = std::min(8, kWidth);  // the same for 2 x 2 windows
constexpr int64_t kSparseWindows = 4;               // cells per window from which gradients go window by window

// Where a plane's indices are, of either width.
struct IndexPlane {
  void* data;
  bool wide;

  uint64_t get(int64_t i) const {
    return wide ? static_cast<const uint64_t*>(data)[i] : static_cast<const uint32_t*>(data)[i];
  }
  IndexPlane from(int64_t i) const {
    if (wide) return {static_cast<uint64_t*>(data) + i, true};
    return {static_cast<uint32_t*>(data) + i, false};
  }
  explicit operator bool() const { return data != nullptr; }
};

// index[c] = start of window c, `step` after the one before, + distance of its winner; -1 (all bits) where that is -1
template <class Index>
void write_positions(Index* index, const int32_t* winner, int64_t count, int64_t base, int64_t step) {
  for (int64_t c = 0; c < count; c++) {
    int64_t position = base + c * step + winner[c];
    index[c] = static_cast<Index>(winner[c] < 0 ? -1 : position);
  }
}

class Pooling final : public Plan {
 public:
  Pooling(const PoolingShape& given, const ActivationSpec& activation)
      : shape_(effective(given)),
        cells_(given.kernel_height * given.kernel_width),
        activation_(activation),
        geometry_(windows_of(shape_)),
        counts_(geometry_.shape),
        pairs_(cells_ == 4 && fits_pairs(shape_)),
        triples_(shape_.function == kMax && !shape_.padding_wins && pooling::TriplePlane::fits(geometry_.shape) &&
                 counts_.all_meet()),
        whole_(fits_whole(shape_)) {
    const PoolingShape& s = shape_;
    if (fits_disjoint()) disjoint_.emplace(geometry_.shape, s.channels);
    if (fits_separable()) separable_.emplace(geometry_.shape);
    if (fits_lanes()) lanes_.emplace(geometry_.shape, s.function == kAverageIncludingPadding);
    for (int64_t ky = 0; ky < s.kernel_height; ky++)
      for (int64_t kx = 0; kx < s.kernel_width; kx++)
        distance_.push_back(static_cast<int32_t>(ky * s.dilation_y * s.in_width + kx * s.dilation_x));
    for (int t = 0; t < geometry_.taps.count(); t++) number_.push_back(t);
    const bool meets = counts_.all_meet();
    for (int64_t i = 0; s.function == kMax && !meets && i < geometry_.out_plane(); i++)
      if (counts_.rows[i / s.out_width] * counts_.columns[i % s.out_width] == 0) empty_.push_back(i);
  }

  void forward(const Call& call) override {
    for_each_group(call, false, [&](const Work& work, int64_t n, int64_t c, int64_t planes) {
      if (disjoint_) return forward_disjoint(call, work, n, c, planes);
      if (uses_lanes(call, false)) return forward_lanes(call, work, n, c, planes);
      forward_plane(call, work, n, c);
    });
  }

  void backward(const Call& call) override {
    double* plane_sums = nullptr;  // [batch][channels] sums of dz
    if (call.address[DB])
      plane_sums = reinterpret_cast<double*>(
          scratch(kPartialSums, static_cast<size_t>(std::max<int64_t>(call.batch * shape_.channels, 1)) * 2));
    for_each_group(call, true, [&](const Work& work, int64_t n, int64_t c, int64_t planes) {
      const float* dz = output_gradient(call, work, n, c, planes);
      if (plane_sums) sum_planes(dz, planes, plane_sums + n * shape_.channels + c);
      if (!call.address[DX]) return;
      if (disjoint_) return backward_disjoint(call, work, dz, n, c, planes);
      if (uses_lanes(call, true)) return backward_lanes(call, work, dz, n, c, planes);
      backward_plane(call, work, dz, n, c);
    });
    if (plane_sums) write_bias_gradient(call, plane_sums);
  }

 private:
  static WindowShape windows_of(const PoolingShape& s) {
    return {s.in_height, s.in_width, s.out_height, s.out_width,  s.kernel_height, s.kernel_width,
            s.stride_y,  s.stride_x, s.dilation_y, s.dilation_x, s.pad_up,        s.pad_left};
  }
  static PoolingShape effective(PoolingShape s) {
    if (s.padding_wins || s.function == kUnMax) return s;
    const WindowShape w = pooling::without_idle_taps(windows_of(s));
    s.kernel_height = w.kernel_height, s.kernel_width = w.kernel_width;
    s.dilation_y = w.dilation_y, s.dilation_x = w.dilation_x;
    s.pad_up = w.pad_up, s.pad_left = w.pad_left;
    return s;
  }

  // Scratch of one thread; see the layouts in windows.h.
  struct Work {
    float* bordered_x;
    float* bordered_dz;
    int32_t* winner;
    float* dz;      // [planes][out_height][out_width]
    float* shares;  // [windows of a unit] what goes to the cells of a window
    float* plane;   // [in_height][in_width], or of the output
    float* gather;  // for WindowGeometry::gather
    float* rows;    // for triples
  };

  // 2 x 2 windows, side by side and all inside
  static bool fits_pairs(const PoolingShape& s) {
    return s.kernel_height == 2 && s.kernel_width == 2 && s.stride_y == 2 && s.stride_x == 2 && s.dilation_y == 1 &&
           s.dilation_x == 1 && s.pad_up == 0 && s.pad_left == 0 && 2 * s.out_height <= s.in_height &&
           2 * s.out_width <= s.in_width;
  }
  // one window that holds the whole plane
  static bool fits_whole(const PoolingShape& s) {
    return s.out_height == 1 && s.out_width == 1 && s.dilation_y == 1 && s.dilation_x == 1 &&
           s.kernel_height - s.pad_up >= s.in_height && s.kernel_width - s.pad_left >= s.in_width;
  }

  bool has_all_taps() const { return geometry_.taps.count() == cells_; }
  bool is_average() const {
    return shape_.function == kAverageIncludingPadding || shape_.function == kAverageExcludingPadding;
  }
  // Norms of windows that share no cells: small planes, or few windows in a row where nothing gathers.
  bool fits_disjoint() const {
    if (shape_.function != kL2Norm || !pooling::DisjointWindows::fits(geometry_.shape)) return false;
    return (kGathers || shape_.out_width < kWidth) && !(whole_ && geometry_.in_plane() >= kWidth);
  }
  bool fits_separable() const {
    if (whole_ || !pooling::SeparableWindows::fits(geometry_.shape)) return false;
    return is_average() || (shape_.function == kMax && !shape_.padding_wins);
  }
  // planes small enough to be worked on side by side
  bool fits_lanes() const {
    return kGathers && fits_separable() && has_all_taps() && shape_.channels >= kWidth / 2 &&
           geometry_.in_plane() <= kMediumPlane;
  }
  bool uses_lanes(const Call& call, bool backward) const {
    if (!kGathers || !lanes_ || (backward && has_indices(call))) return false;
    if (pairs_) return shape_.out_width < kFewPairs;
    if (triples_) return shape_.out_width < kFewWindows;
    // Two passes share the cells of windows that overlap; there, side by side, every window meets its own again.
    const int64_t narrow = shape_.stride_x == 1 ? kTinyRow
                           : cells_ > 16        ? std::min(kNarrowRow, kFewWindows)
                                                : kNarrowRow;
    if (shape_.in_width < narrow) return true;
    // To pick the winners of strided windows takes more than to put the planes side by side, if these fill the lanes,
    // unless planes are large and windows overlap so much that two passes compare far fewer cells.
    const bool filled = 4 * shape_.channels >= 3 * round_up(shape_.channels, kWidth);
    const int64_t in_two_passes = shape_.kernel_width * shape_.stride_y + shape_.kernel_height;
    const bool strided =
        shape_.stride_x > 1 && (geometry_.in_plane() <= kSmallPlane || 2 * cells_ <= 3 * in_two_passes);
    return shape_.function == kMax && (backward || has_indices(call)) && filled &&
           (strided || (shape_.stride_x == 1 && shape_.in_width < 2 * kFewWindows && cells_ <= 16));
  }
  bool uses_separable(const Call& call, bool backward) const {
    if (!separable_ || pairs_ || triples_ || uses_lanes(call, backward)) return false;
    return !(backward && is_average() && (shape_.dilation_y > 1 || shape_.dilation_x > 1));
  }
  bool has_indices(const Call& call) const { return shape_.function == kMax && call.address[kPoolingIndices]; }
  // The largest cell of the whole plane, unless zeros of the padding compete.
  bool uses_plane_maximum(const Call& call) const {
    bool padded = shape_.kernel_height != shape_.in_height || shape_.kernel_width != shape_.in_width;
    return shape_.function == kMax && whole_ && !has_indices(call) && !(shape_.padding_wins && padded);
  }
  bool uses_windows(const Call& call, bool backward) const {
    return shape_.function != kUnMax && !triples_ && !(pairs_ && shape_.function != kL2Norm) &&
           !(whole_ && is_average()) && !disjoint_ && !uses_lanes(call, backward) && !uses_separable(call, backward) &&
           !uses_plane_maximum(call);
  }

  float border() const {
    bool ignored = shape_.function == kMax && !shape_.padding_wins;
    return ignored ? -std::numeric_limits<float>::infinity() : 0.0f;
  }
  // Cells that an average divides by, in a window that all cells of `counts_` do not matter to.
  float divisor() const { return static_cast<float>(cells_); }
  const pooling::CellCounts* counts() const { return shape_.function == kAverageExcludingPadding ? &counts_ : nullptr; }
  pooling::PairPlane pair_plane() const {
    return {shape_.in_height, shape_.in_width, shape_.out_height, shape_.out_width};
  }
  pooling::TriplePlane triple_plane() const { return pooling::TriplePlane(geometry_.shape); }

  // body(work, sample, first channel, channels) for groups of planes that are worked on together
  template <class Body>
  void for_each_group(const Call& call, bool backward, Body&& body) const {
    const int64_t size = disjoint_ ? disjoint_->planes : uses_lanes(call, backward) ? lanes_->planes : 1;
    const int64_t per_sample = (shape_.channels + size - 1) / size, groups = call.batch * per_sample;
    bool small = call.batch * shape_.channels * (geometry_.in_plane() + geometry_.out_plane()) < kSerialElements;
    parallel_ranges(small ? 1 : call.threads, groups, [&](int64_t first, int64_t last) {
      Work work = make_work(call, backward, size);
      int64_t n = first / per_sample, c = first % per_sample * size;
      for (int64_t i = first; i < last; i++) {
        check_interruption();
        body(work, n, c, std::min(size, shape_.channels - c));
        if ((c += size) >= shape_.channels) {
          c = 0;
          n++;
        }
      }
    });
  }

  Work make_work(const Call& call, bool backward, int64_t planes) const {
    Work work{};
    const auto outputs = static_cast<size_t>(planes * geometry_.out_plane());
    if (disjoint_) {
      const auto room = static_cast<size_t>(disjoint_->windows + kWidth);
      work.shares = scratch(kGradientBand, std::max(room, outputs));
    } else if (uses_lanes(call, backward)) {
      work.bordered_x = scratch(kInputBand, static_cast<size_t>(lanes_->in_room()));
      work.bordered_dz = scratch(kGradientBand, static_cast<size_t>(lanes_->out_room()));
      work.gather = scratch(kPatches, static_cast<size_t>(std::max(lanes_->in_room(), lanes_->out_room())));
      work.winner = reinterpret_cast<int32_t*>(scratch(kWeights, outputs));
    } else if (shape_.function == kMax) {
      work.winner = reinterpret_cast<int32_t*>(scratch(kWeights, static_cast<size_t>(geometry_.gradient.room())));
    }
    if (uses_separable(call, backward)) {
      const bool spreads = backward && is_average();
      const int64_t room = spreads                         ? separable_->spread_room()
                           : backward || has_indices(call) ? separable_->winners_room()
                                                           : separable_->values_room();
      work.rows = scratch(kInputBand, static_cast<size_t>(room));
      std::fill_n(work.rows, separable_->borders_room(spreads), border());
      work.winner = reinterpret_cast<int32_t*>(scratch(kWeights, outputs + kWidth));
    }
    if (uses_windows(call, backward)) {
      work.bordered_x = scratch(kInputBand, static_cast<size_t>(geometry_.input.room()));
      geometry_.input.fill_border(work.bordered_x, border());
    }
    if (triples_ && !uses_lanes(call, backward))
      work.rows = scratch(kInputBand, static_cast<size_t>(triple_plane().room()));
    if (!backward) return work;
    work.dz = scratch(kActivated, outputs);
    work.plane = scratch(kOutputTile, static_cast<size_t>(std::max(geometry_.in_plane(), geometry_.out_plane())));
    if (uses_windows(call, backward)) {
      work.bordered_dz = scratch(kGradientBand, static_cast<size_t>(geometry_.gradient.room()));
      geometry_.gradient.fill_border(work.bordered_dz, 0);
      work.gather = scratch(kPatches, static_cast<size_t>(geometry_.gather_room()));
    }
    return work;
  }

  const float* input(const Call& call, int slot, int64_t n, int64_t c) const {
    return call.address[slot] ? call.address[slot] + n * call.stride[slot] + c * geometry_.in_plane() : nullptr;
  }
  float* output(const Call& call, int slot, int64_t n, int64_t c) const {
    return call.address[slot] + n * call.stride[slot] + c * geometry_.out_plane();
  }
  IndexPlane indices(const Call& call, int64_t n, int64_t c) const {
    IndexPlane all{call.address[kPoolingIndices], shape_.wide_indices};
    if (!all) return all;
    int64_t plane = shape_.function == kUnMax ? geometry_.in_plane() : geometry_.out_plane();
    return all.from(n * call.stride[kPoolingIndices] + c * plane);
  }

  void forward_plane(const Call& call, const Work& work, int64_t n, int64_t c) const {
    const float* x = input(call, X, n, c);
    float* y = output(call, Y, n, c);
    float bias = call.address[B] ? call.address[B][c] : 0;
    if (shape_.function == kUnMax)
      unpool(x, indices(call, n, c), bias, y);
    else
      pool(call, work, x, indices(call, n, c), bias, y);
    for (int64_t i : empty_) y[i] = bias;  // not the border's minus infinity
    activate(y, 1);
  }

  void activate(float* y, int64_t planes) const {
    if (is_identity(activation_)) return;
    activation_forward(activation_, y, y, planes * geometry_.out_plane(), shape_.out_width);
  }

  // y [planes][out_height][out_width] from x [planes][in_height][in_width]
  void forward_disjoint(const Call& call, const Work& work, int64_t n, int64_t c, int64_t planes) const {
    const float* x = input(call, X, n, c);
    float* y = output(call, Y, n, c);
    const float* b = call.address[B] ? call.address[B] + c : nullptr;
    float* bias = b ? work.shares : nullptr;  // of every window
    for (int64_t p = 0; b && p < planes; p++)
      std::fill_n(bias + p * geometry_.out_plane(), geometry_.out_plane(), b[p]);
    disjoint_->for_each_unit(planes, [&](int64_t cell, int64_t window, int64_t, int64_t windows) {
      pooling::norm_disjoint(*disjoint_, x + cell, windows, bias ? bias + window : nullptr, y + window);
    });
    activate(y, planes);
  }

  void forward_lanes(const Call& call, const Work& work, int64_t n, int64_t c, int64_t planes) const {
    float bias[kWidth] = {};
    if (call.address[B]) std::copy_n(call.address[B] + c, planes, bias);
    float *x = work.bordered_x, *y = work.bordered_dz;
    tile_planes(input(call, X, n, c), planes, geometry_.in_plane(), x);
    const IndexPlane index = has_indices(call) ? indices(call, n, c) : IndexPlane{};
    float* places = index ? work.gather : nullptr;  // integers
    pooling::pool_lanes(*lanes_, is_average(), x, bias, y, reinterpret_cast<int32_t*>(places));
    untile_planes(y, planes, geometry_.out_plane(), output(call, Y, n, c), false);
    if (index) {
      untile_planes(places, planes, geometry_.out_plane(), reinterpret_cast<float*>(work.winner), false);
      write_places(index, work.winner, planes * geometry_.out_plane());
    }
    activate(output(call, Y, n, c), planes);
  }

  // -1, where a window has no cell, becomes all bits set.
  static void write_places(const IndexPlane& index, const int32_t* place, int64_t count) {
    if (!index.wide) return copy_row(static_cast<float*>(index.data), reinterpret_cast<const float*>(place), count);
    auto* wide = static_cast<uint64_t*>(index.data);
    for (int64_t i = 0; i < count; i++) wide[i] = static_cast<uint64_t>(int64_t{place[i]});
  }

  void backward_lanes(const Call& call, const Work& work, const float* dz, int64_t n, int64_t c, int64_t planes) const {
    float *dx = const_cast<float*>(input(call, DX, n, c)), *places = work.gather;
    if (is_average()) {
      std::fill_n(work.gather, lanes_->in_room(), 0.0f);
      tile_planes(dz, planes, geometry_.out_plane(), work.bordered_dz);
      pooling::spread_lanes(*lanes_, work.bordered_dz, work.gather);
      return untile_planes(work.gather, planes, geometry_.in_plane(), dx, call.adds(DX));
    }
    const float bias[kWidth] = {};
    tile_planes(input(call, X, n, c), planes, geometry_.in_plane(), work.bordered_x);
    pooling::pool_lanes(*lanes_, false, work.bordered_x, bias, work.bordered_dz, reinterpret_cast<int32_t*>(places));
    untile_planes(places, planes, geometry_.out_plane(), reinterpret_cast<float*>(work.winner), false);
    for (int64_t p = 0; p < planes; p++)
      scatter_places(work, work.winner + p * geometry_.out_plane(), dz + p * geometry_.out_plane(),
                     dx + p * geometry_.in_plane(), call.adds(DX));
  }

  // y [out_height][out_width] = pool(x) + bias
  void pool(const Call& call, const Work& work, const float* x, const IndexPlane& index, float bias, float* y) const {
    PlaneWriter out{y, shape_.out_width, y + geometry_.out_plane()};
    if (uses_plane_maximum(call)) {
      y[0] = pooling::max_of_plane(x, geometry_.in_plane()) + bias;
      return;
    }
    if (uses_separable(call, false)) {
      if (is_average()) return pooling::average_separable(*separable_, x, divisor(), counts(), bias, y, work.rows);
      if (!index) return pooling::max_separable(*separable_, x, bias, y, work.rows);
      find_places(work, x, bias, y);
      return write_places(index, work.winner, geometry_.out_plane());
    }
    if (uses_windows(call, false)) geometry_.input.place(work.bordered_x, x);
    if (shape_.function == kMax && index) return max_with_indices(work, x, index, bias, y);
    if (shape_.function == kMax && pairs_) return pooling::max_pairs(pair_plane(), x, bias, y);
    if (triples_) return pooling::max_triples(triple_plane(), x, bias, y, work.rows);
    if (shape_.function == kMax) return pooling::max_windows(geometry_, work.bordered_x, bias, out);
    if (shape_.function == kL2Norm) return pooling::norm_windows(geometry_, work.bordered_x, bias, out);
    if (pairs_) return pooling::average_pairs(pair_plane(), x, bias, y);
    if (whole_) {
      y[0] = plane_sum(x, geometry_.in_plane()) / whole_divisor() + bias;
      return;
    }
    pooling::average_windows(geometry_, work.bordered_x, divisor(), counts(), bias, out);
  }

  // Where the largest cell of every window is, -1 for none; also y if it is given.
  void find_places(const Work& work, const float* x, float bias, float* y) const {
    pooling::winners_separable(*separable_, x, bias, y, work.winner, work.rows);
    for (int64_t i : empty_) work.winner[i] = -1;
  }

  float whole_divisor() const { return counts() ? static_cast<float>(geometry_.in_plane()) : divisor(); }

  static float plane_sum(const float* x, int64_t count) {
    if (count <= kSingleSums * kWidth) {
      Vec sum{};
      for (int64_t i = 0; i < count; i += kWidth) sum += load_partial(x + i, std::min<int64_t>(kWidth, count - i));
      return sum_lanes(sum);
    }
    double lanes[kWidth] = {};
    add_lanes(x, count, lanes);
    return static_cast<float>(sum_lanes(load_wide(lanes)));
  }

  void max_with_indices(const Work& work, const float* x, const IndexPlane& index, float bias, float* y) const {
    const int64_t pitch = geometry_.gradient.row_pitch;
    const int32_t* label = shape_.padding_wins ? number_.data() : distance_.data();
    if (pairs_) {
      pooling::max_pairs_with_winners(pair_plane(), x, bias, y, label, work.winner, pitch);
    } else if (triples_) {
      pooling::max_triples_with_winners(triple_plane(), x, bias, y, label, work.winner, pitch, work.rows);
    } else {
      PlaneWriter out{y, shape_.out_width, y + geometry_.out_plane()};
      pooling::find_winners(geometry_, work.bordered_x, shape_.padding_wins, bias, &out, label, work.winner, pitch);
    }
    for (int64_t r = 0; r < shape_.out_height; r++) {
      int32_t* winner = work.winner + r * pitch;
      if (shape_.padding_wins) numbers_to_distances(r, winner);
      int64_t base = (r * shape_.stride_y - shape_.pad_up) * shape_.in_width - shape_.pad_left;
      IndexPlane to = index.from(r * shape_.out_width);
      if (to.wide)
        write_positions(static_cast<uint64_t*>(to.data), winner, shape_.out_width, base, shape_.stride_x);
      else
        write_positions(static_cast<uint32_t*>(to.data), winner, shape_.out_width, base, shape_.stride_x);
    }
  }

  // A zero of the padding has no position in the plane: -1.
  void numbers_to_distances(int64_t row, int32_t* winner) const {
    for (int64_t c = 0; c < shape_.out_width; c++) {
      int64_t ky = winner[c] / shape_.kernel_width, kx = winner[c] % shape_.kernel_width;
      int64_t y = row * shape_.stride_y + ky * shape_.dilation_y - shape_.pad_up;
      int64_t x = c * shape_.stride_x + kx * shape_.dilation_x - shape_.pad_left;
      bool inside = y >= 0 && y < shape_.in_height && x >= 0 && x < shape_.in_width;
      winner[c] = inside ? distance_[static_cast<size_t>(winner[c])] : -1;
    }
  }

  // y [out_height][out_width] = bias everywhere, plus x at the indices
  void unpool(const float* x, const IndexPlane& index, float bias, float* y) const {
    std::fill_n(y, geometry_.out_plane(), bias);
    for (int64_t i = 0; i < geometry_.in_plane(); i++) {
      uint64_t to = index.get(i);
      if (to < static_cast<uint64_t>(geometry_.out_plane())) y[to] = x[i] + bias;
    }
  }

  // sums [planes] of dz [planes][out_height][out_width]
  void sum_planes(const float* dz, int64_t planes, double* sums) const {
    for (int64_t p = 0; p < planes; p++) {
      double lanes[kWidth] = {};
      add_lanes(dz + p * geometry_.out_plane(), geometry_.out_plane(), lanes);
      sums[p] = sum_lanes(load_wide(lanes));
    }
  }

  // A cell belongs to one window at most, and gets x * dz / norm of that one.
  void backward_disjoint(const Call& call, const Work& work, const float* all_dz, int64_t n, int64_t c,
                         int64_t planes) const {
    const float* all_x = input(call, X, n, c);
    float* all_dx = const_cast<float*>(input(call, DX, n, c));
    const bool adds = call.adds(DX);
    disjoint_->for_each_unit(planes, [&](int64_t cell, int64_t window, int64_t cells, int64_t windows) {
      const float *x = all_x ? all_x + cell : nullptr, *dz = all_dz + window;
      float *dx = all_dx + cell, *shares = work.shares;
      pooling::norm_disjoint(*disjoint_, x, windows, nullptr, shares);
      for (int64_t i = 0; i < windows; i++) shares[i] = shares[i] == 0 ? 0 : dz[i] / shares[i];
      pooling::spread_disjoint(*disjoint_, shares, x, cells, dx, adds);
    });
    const int64_t done = disjoint_->cells_in_units();
    if (!adds) std::fill(all_dx + done, all_dx + geometry_.in_plane(), 0.0f);
  }

  void backward_plane(const Call& call, const Work& work, const float* dz, int64_t n, int64_t c) const {
    float* dx = const_cast<float*>(input(call, DX, n, c));
    const float* x = input(call, X, n, c);
    IndexPlane index = indices(call, n, c);
    bool adds = call.adds(DX);
    if (shape_.function == kUnMax) return unpool_backward(index, dz, dx, adds);
    if (shape_.function == kMax && index) return scatter(index, dz, dx, adds);
    if (uses_plane_maximum(call)) {
      int64_t winner = pooling::winner_of_plane(x, geometry_.in_plane());
      if (!adds) std::fill_n(dx, geometry_.in_plane(), 0.0f);
      dx[winner] += dz[0];
      return;
    }
    if (uses_separable(call, true)) {
      if (is_average())
        return pooling::average_separable_backward(*separable_, dz, divisor(), counts(), dx, adds, work.rows);
      find_places(work, x, 0, nullptr);
      return scatter_places(work, work.winner, dz, dx, adds);
    }
    if (shape_.function == kMax && !pairs_ && !triples_) return max_backward(work, x, dz, dx, adds);
    if (shape_.function == kL2Norm) return norm_backward(work, x, dz, dx, adds);
    if (!pairs_ && !triples_ && !whole_) return average_backward(work, dz, dx, adds);
    float* to = adds ? work.plane : dx;
    if (triples_)
      pooling::max_triples_backward(triple_plane(), x, dz, to, work.rows);
    else if (!pairs_)
      std::fill_n(to, geometry_.in_plane(), dz[0] / whole_divisor());
    else if (shape_.function == kMax)
      pooling::max_pairs_backward(pair_plane(), x, dz, to);
    else
      pooling::average_pairs_backward(pair_plane(), dz, to);
    if (adds) add_row(dx, to, geometry_.in_plane());
  }

  // y = f(z): dz = dy * f'(y); [planes][out_height][out_width]
  const float* output_gradient(const Call& call, const Work& work, int64_t n, int64_t c, int64_t planes) const {
    const float* dy = output(call, DY, n, c);
    if (is_identity(activation_)) return dy;
    activation_backward_from_output(activation_, output(call, Y, n, c), dy, work.dz, planes * geometry_.out_plane(),
                                    shape_.out_width);
    return work.dz;
  }

  // z(index(i)) = x(i): dx(i) = dz(index(i))
  void unpool_backward(const IndexPlane& index, const float* dz, float* dx, bool adds) const {
    for (int64_t i = 0; i < geometry_.in_plane(); i++) {
      uint64_t from = index.get(i);
      float gradient = from < static_cast<uint64_t>(geometry_.out_plane()) ? dz[from] : 0;
      dx[i] = adds ? dx[i] + gradient : gradient;
    }
  }

  // z(i) = x(index(i)): dx(index(i)) += dz(i)
  void scatter(const IndexPlane& index, const float* dz, float* dx, bool adds) const {
    if (!adds) std::fill_n(dx, geometry_.in_plane(), 0.0f);
    for (int64_t i = 0; i < geometry_.out_plane(); i++) {
      uint64_t to = index.get(i);
      if (to < static_cast<uint64_t>(geometry_.in_plane())) dx[to] += dz[i];
    }
  }

  // z = x[place]: dx[place] += dz. The last comes first: so a cell adds its windows in the order of its taps.
  void scatter_places(const Work& work, const int32_t* place, const float* dz, float* dx, bool adds) const {
    float* to = adds ? work.plane : dx;
    std::fill_n(to, geometry_.in_plane(), 0.0f);
    for (int64_t i = geometry_.out_plane() - 1; i >= 0; i--)
      if (place[i] >= 0) to[place[i]] += dz[i];
    if (adds) add_row(dx, to, geometry_.in_plane());
  }

  // z = max over taps of x: dz goes to the tap that won, found again from x
  void max_backward(const Work& work, const float* x, const float* dz, float* dx, bool adds) const {
    geometry_.input.place(work.bordered_x, x);
    if (!shape_.padding_wins && shape_.stride_y * shape_.stride_x >= kSparseWindows)
      return scatter_won(work, dz, dx, adds);
    pooling::find_winners(geometry_, work.bordered_x, shape_.padding_wins, 0, nullptr, number_.data(),
                          work.winner + geometry_.gradient_origin(), geometry_.gradient.row_pitch);
    geometry_.gradient.place(work.bordered_dz, dz);
    geometry_.gather(dx, adds, work.gather, [&](const Phase& phase, const PlaneWriter& out) {
      pooling::gather_won(geometry_, phase, work.bordered_dz, work.winner, out);
    });
  }

  // The same for fewer windows than cells, window by window. The last comes first: so a cell adds its windows in the
  // order of its taps, as above.
  void scatter_won(const Work& work, const float* dz, float* dx, bool adds) const {
    const int64_t pitch = geometry_.gradient.row_pitch;
    pooling::find_winners(geometry_, work.bordered_x, false, 0, nullptr, distance_.data(), work.winner, pitch);
    float* to = adds ? work.plane : dx;
    std::fill_n(to, geometry_.in_plane(), 0.0f);
    for (int64_t r = shape_.out_height - 1; r >= 0; r--) {
      const int64_t first = (r * shape_.stride_y - shape_.pad_up) * shape_.in_width - shape_.pad_left;
      const int32_t* winner = work.winner + r * pitch;
      const float* from = dz + r * shape_.out_width;
      for (int64_t c = shape_.out_width - 1; c >= 0; c--)
        if (winner[c] >= 0) to[first + c * shape_.stride_x + winner[c]] += from[c];
    }
    if (adds) add_row(dx, to, geometry_.in_plane());
  }

  // z = sum over taps of x / divisor: dx = sum over windows of dz / divisor
  void average_backward(const Work& work, const float* dz, float* dx, bool adds) const {
    for (int64_t r = 0; r < shape_.out_height; r++)
      for (int64_t c = 0; c < shape_.out_width; c++) {
        float count = counts() ? counts_.rows[r] * counts_.columns[c] : divisor();
        work.dz[r * shape_.out_width + c] = count > 0 ? dz[r * shape_.out_width + c] / count : 0;
      }
    geometry_.gradient.place(work.bordered_dz, work.dz);
    geometry_.gather(dx, adds, work.gather, [&](const Phase& phase, const PlaneWriter& out) {
      pooling::gather_all(geometry_, phase, work.bordered_dz, out);
    });
  }

  // z = p = sqrt(sum over taps of x^2): dx = x * sum over windows of dz / p, 0 where p = 0
  void norm_backward(const Work& work, const float* x, const float* dz, float* dx, bool adds) const {
    geometry_.input.place(work.bordered_x, x);
    PlaneWriter norms{work.plane, shape_.out_width, work.plane + geometry_.out_plane()};
    pooling::norm_windows(geometry_, work.bordered_x, 0, norms);
    for (int64_t i = 0; i < geometry_.out_plane(); i++) work.dz[i] = work.plane[i] == 0 ? 0 : dz[i] / work.plane[i];
    geometry_.gradient.place(work.bordered_dz, work.dz);
    geometry_.gather(work.plane, false, work.gather, [&](const Phase& phase, const PlaneWriter& out) {
      pooling::gather_all(geometry_, phase, work.bordered_dz, out);
    });
    for (int64_t i = 0; i < geometry_.in_plane(); i++) {
      float gradient = x[i] * work.plane[i];
      dx[i] = adds ? dx[i] + gradient : gradient;
    }
  }

  // db(c) = sum over samples, in order, of the sums of their planes
  void write_bias_gradient(const Call& call, const double* plane_sums) const {
    for (int64_t c = 0; c < shape_.channels; c++) {
      double total = 0;
      for (int64_t n = 0; n < call.batch; n++) total += plane_sums[n * shape_.channels + c];
      float* db = call.address[DB] + c;
      *db = static_cast<float>(call.adds(DB) ? *db + total : total);
    }
  }

  const PoolingShape shape_;  // with the windows that are looked at
  const int64_t cells_;       // of a window as it was given
  const ActivationSpec activation_;
  const WindowGeometry geometry_;
  const pooling::CellCounts counts_;
  const bool pairs_, triples_, whole_;
  std::optional<pooling::DisjointWindows> disjoint_;
  std::optional<pooling::LaneWindows> lanes_;
  std::optional<pooling::SeparableWindows> separable_;
  std::vector<int32_t> distance_;  // of every tap from the start of its window, in the plane
  std::vector<int32_t> number_;    // of every tap: 0, 1, 2, ...
  std::vector<int64_t> empty_;     // Max: windows without a cell in the plane
};

// Of an image so long that its tables are not made before there is a call.
class LatePooling final : public Plan {
 public:
  LatePooling(const PoolingShape& shape, const ActivationSpec& activation) : shape_(shape), activation_(activation) {}
  void forward(const Call& call) override { plan().forward(call); }
  void backward(const Call& call) override { plan().backward(call); }

 private:
  Pooling& plan() const {
    return plan_.get([&] { return std::make_unique<Pooling>(shape_, activation_); });
  }

  const PoolingShape shape_;
  const ActivationSpec activation_;
  const Lazy<Pooling> plan_;
};

constexpr int64_t kPrepared = 1 << 16;  // entries of tables that are made with the filter

}  // namespace

std::unique_ptr<Plan> make_pooling(const PoolingShape& shape, const ActivationSpec& activation) {
  const int64_t tables =
      shape.in_height + shape.in_width + shape.out_height + shape.out_width + shape.kernel_height * shape.kernel_width;
  if (tables <= kPrepared) return std::make_unique<Pooling>(shape, activation);
  return std::make_unique<LatePooling>(shape, activation);
}

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
