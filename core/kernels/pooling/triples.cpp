// Max pooling of one plane with 3 x 3 windows that are two cells apart and begin at most one cell before the plane:
// directly from and to the caller's rows, without a bordered copy.
//
// The largest cell of a window is the largest of the maxima of its rows, and neighbouring windows share a row.
#include <limits>

#include "kernels/pooling/indices.h"
#include "kernels/pooling/maximum.h"
#include "kernels/pooling/methods.h"
#include "simd/pairs.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace pooling {
namespace {

// x, dx: [height][width]; y, dz: [out_height][out_width]
struct TriplePlane {
  int64_t height, width, out_height, out_width, pad_up, pad_left;

  explicit TriplePlane(const WindowShape& s)
      : height(s.in_height),
        width(s.in_width),
        out_height(s.out_height),
        out_width(s.out_width),
        pad_up(s.pad_up),
        pad_left(s.pad_left) {}

  int64_t row_room() const { return round_up(std::max(out_width, width / 2 + 1), kWidth); }
  int64_t room() const { return 8 * row_room(); }  // floats
};

constexpr float kLowest = -std::numeric_limits<float>::infinity();

// Rows of the latest results, overwritten in turn; [row_room] each.
struct Latest {
  Latest(const TriplePlane& plane, float* room) : length(plane.row_room()), memory(room) {}

  // of the three cells of row y that each window meets: the largest, and its place
  float* maximum(int64_t y) const { return memory + y % 3 * length; }
  int32_t* place(int64_t y) const { return reinterpret_cast<int32_t*>(memory + (3 + y % 3) * length); }
  // of row r of windows: the tap that has won
  int32_t* winner(int64_t r) const { return reinterpret_cast<int32_t*>(memory + (6 + r % 2) * length); }

  int64_t length;
  float* memory;
};

// The first `count` of kWidth cells; the others never win.
OPENBNNS_INLINE Vec load_cells(const float* p, int64_t count) {
  if (count >= kWidth) return load(p);
  count = std::max<int64_t>(0, count);
  return select(first_lanes(count), load_partial(p, count), splat(kLowest));
}

// The later of two cells takes the place of the best so far if it wins.
template <bool kPlaces>
OPENBNNS_INLINE void challenge(Vec later, IntVec later_place, Vec& best, IntVec& place) {
  if (!kPlaces) {
    best = larger(best, later);
    return;
  }
  const IntVec mask = wins(later, best);
  best = select(mask, later, best);
  place = mask ? later_place : place;
}

// Of row y: the largest of the three cells that each window meets, with label [kx] for its place. From the cell that
// the first window has in the middle on, a window has an even cell and the odd ones on both sides of it.
template <bool kPlaces>
OPENBNNS_INLINE void reduce_row(const TriplePlane& p, const float* x, int64_t y, const int32_t* label,
                                const Latest& latest) {
  const float *row = x + y * p.width, *middle = row + 1 - p.pad_left;
  const int64_t count = p.width - 1 + p.pad_left;
  Vec previous = splat(p.pad_left ? kLowest : row[0]);
  for (int64_t c = 0; c < p.out_width; c += kWidth) {
    const Vec a = load_cells(middle + 2 * c, count - 2 * c);
    const Vec b = load_cells(middle + 2 * c + kWidth, count - 2 * c - kWidth);
    const Vec even = evens(a, b), odd = odds(a, b);
    Vec best = shifted_in(previous, odd);
    previous = odd;
    IntVec place{};
    if (kPlaces) {
      place = splat_int(label[0]);
      if (c == 0 && p.pad_left) place[0] = label[1];  // the padding wins nothing, not even against minus infinity
    }
    challenge<kPlaces>(even, kPlaces ? splat_int(label[1]) : place, best, place);
    challenge<kPlaces>(odd, kPlaces ? splat_int(label[2]) : place, best, place);
    store(latest.maximum(y) + c, best);
    if (kPlaces) store_int(latest.place(y) + c, place);
  }
}

// write(window row, window column, largest cells, their places), and finish(window row) after each row
template <bool kPlaces, class Write, class Finish>
OPENBNNS_INLINE void for_each_maximum(const TriplePlane& p, const float* x, const int32_t* label, const Latest& latest,
                                      Write write, Finish finish) {
  int64_t reduced = 0;  // rows
  for (int64_t r = 0; r < p.out_height; r++) {
    const int64_t top = 2 * r - p.pad_up, first = std::max<int64_t>(0, top), end = std::min(p.height, top + 3);
    for (reduced = std::max(reduced, first); reduced < end; reduced++)
      reduce_row<kPlaces>(p, x, reduced, label, latest);
    auto place_of = [&](int64_t y, int64_t c) {
      return kPlaces ? load_int(latest.place(y) + c) + splat_int(label[3 * (y - top)]) : IntVec{};
    };
    for (int64_t c = 0; c < p.out_width; c += kWidth) {
      Vec best = load(latest.maximum(first) + c);
      IntVec place = place_of(first, c);
      for (int64_t y = first + 1; y < end; y++)
        challenge<kPlaces>(load(latest.maximum(y) + c), place_of(y, c), best, place);
      write(r, c, best, place);
    }
    finish(r);
  }
}

// A row of windows, and the number of the first tap of those that a row of cells meets it with.
struct WindowRow {
  const float* dz;
  const int32_t* winner;
  int32_t tap;
};

// One row of dx, from the rows of windows that meet it. As above, an even cell is in the middle of its only window, and
// an odd one is the last of that window and the first of the next: from right to left, that one is known.
template <int kRows>
OPENBNNS_INLINE void spread_row(const TriplePlane& p, const WindowRow* windows, float* row) {
  float* middle = row + 1 - p.pad_left;
  const int64_t count = p.width - 1 + p.pad_left;
  Vec next[kRows] = {};
  for (int64_t c = (count + 1) / 2 / kWidth * kWidth; c >= 0; c -= kWidth) {
    const int64_t lanes = std::clamp<int64_t>(p.out_width - c, 0, kWidth), left = count - 2 * c;
    Vec even{}, odd{};
    OPENBNNS_UNROLL for (int k = 0; k < kRows; k++) {
      const WindowRow& w = windows[k];
      const IntVec tap = load_int(w.winner + c) - splat_int(w.tap);
      const Vec dz = lanes == kWidth ? load(w.dz + c) : load_partial(w.dz + c, lanes);
      const Vec first = keep_where(tap == 0, dz);
      even += keep_where(tap == 1, dz);
      odd += shifted_out(first, next[k]);
      odd += keep_where(tap == 2, dz);
      next[k] = first;
    }
    const Vec a = interleave_low(even, odd), b = interleave_high(even, odd);
    float* to = middle + 2 * c;
    if (left >= 2 * kWidth) {
      store(to, a);
      store(to + kWidth, b);
    } else {
      store_partial(to, a, std::clamp<int64_t>(left, 0, kWidth));
      store_partial(to + kWidth, b, std::clamp<int64_t>(left - kWidth, 0, kWidth));
    }
  }
  if (p.pad_left) return;
  row[0] = 0;
  for (int k = 0; k < kRows; k++) row[0] += next[k][0];
}

// Row y of dx, of which the rows of windows are among the latest.
OPENBNNS_INLINE void write_gradient(const TriplePlane& p, const Latest& latest, const float* dz, int64_t y, float* dx) {
  // in the middle of its windows, or the first row of those below and the last of those above
  const int64_t reached = y + p.pad_up;
  WindowRow windows[2];
  int rows = 0;
  for (int64_t ky = reached % 2; ky < 3; ky += 2) {
    const int64_t r = (reached - ky) / 2;
    if (reached >= ky && r < p.out_height)
      windows[rows++] = {dz + r * p.out_width, latest.winner(r), static_cast<int32_t>(3 * ky)};
  }
  float* row = dx + y * p.width;
  if (rows == 2)
    spread_row<2>(p, windows, row);
  else if (rows == 1)
    spread_row<1>(p, windows, row);
  else
    std::fill_n(row, p.width, 0.0f);
}

PlaneWriter writer(const TriplePlane& p, float* y) { return {y, p.out_width, y + p.out_height * p.out_width}; }

// y = max + bias
void max_triples(const TriplePlane& plane, const float* x, float bias, float* y, float* room) {
  const PlaneWriter out = writer(plane, y);
  for_each_maximum<false>(
      plane, x, nullptr, Latest(plane, room),
      [&](int64_t r, int64_t c, Vec best, IntVec) { out.write(r, c, best + bias); }, [](int64_t) {});
}

// also winner [out_height][pitch]: label [9] of the winning cell, which is label [3 ky] + label [kx]; whole vectors are
// written
void max_triples_with_winners(const TriplePlane& plane, const float* x, float bias, float* y, const int32_t* label,
                              int32_t* winner, int64_t pitch, float* room) {
  const PlaneWriter out = writer(plane, y);
  for_each_maximum<true>(
      plane, x, label, Latest(plane, room),
      [&](int64_t r, int64_t c, Vec best, IntVec place) {
        out.write(r, c, best + bias);
        store_int(winner + r * pitch + c, place);
      },
      [](int64_t) {});
}

// dx = sums of dz over the windows that a cell has won, in the order of its taps
void max_triples_backward(const TriplePlane& plane, const float* x, const float* dz, float* dx, float* room) {
  static constexpr int32_t kNumber[9] = {0, 1, 2, 3, 4, 5, 6, 7, 8};
  const Latest latest(plane, room);
  int64_t y = 0;
  for_each_maximum<true>(
      plane, x, kNumber, latest,
      [&](int64_t r, int64_t c, Vec, IntVec place) { store_int(latest.winner(r) + c, place); },
      [&](int64_t r) {  // rows that no later window meets
        for (; y < plane.height && y + plane.pad_up <= 2 * r + 1; y++) write_gradient(plane, latest, dz, y, dx);
      });
  for (; y < plane.height; y++) write_gradient(plane, latest, dz, y, dx);
}

class Triples final : public Method {
 public:
  explicit Triples(const Problem& p) : Method(p), plane_(p.geometry.shape), distance_(p.tap_distances()) {}

  static bool fits(const Problem& p, Use) { return has_triples(p); }

  Scratch scratch(Use use) const override {
    Scratch work;
    work.rows = float_scratch(kInputBand, plane_.room());
    if (use == Use::kIndices) work.winner = winner_scratch(winners_room(p_));
    if (use == Use::kGradient) work.plane = float_scratch(kOutputTile, p_.in_plane());
    return work;
  }

  void forward(const Scratch& work, const ForwardPlanes& f) const override {
    if (!f.index) return max_triples(plane_, f.x, f.first_bias(), f.y, work.rows);
    max_triples_with_winners(plane_, f.x, f.first_bias(), f.y, distance_.data(), work.winner, winners_pitch(p_),
                             work.rows);
    write_winners(p_, work.winner, winners_pitch(p_), f.index);
  }

  void backward(const Scratch& work, const BackwardPlanes& b) const override {
    write_plane(p_, b, work.plane, [&](float* dx) { max_triples_backward(plane_, b.x, b.dz, dx, work.rows); });
  }

 private:
  const TriplePlane plane_;
  const std::vector<int32_t> distance_;
};

}  // namespace

bool has_triples(const Problem& p) {
  const PoolingShape& s = p.shape;
  return s.function == kMax && !s.padding_wins && s.kernel_height == 3 && s.kernel_width == 3 && s.stride_y == 2 &&
         s.stride_x == 2 && s.dilation_y == 1 && s.dilation_x == 1 && s.pad_up <= 1 && s.pad_left <= 1 &&
         p.counts.all_meet();
}

const MethodEntry kTriples = entry_of<Triples>();

}  // namespace pooling
}  // namespace OPENBNNS_ISA
}  // namespace openbnns
