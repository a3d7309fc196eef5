// Padding: elements before and behind every axis, a constant or mirrored; backward adds up the copies of each element.
//
// Axes without padding are merged with their neighbours; what lies behind the last padded axis is one unit that moves
// as a whole. Items of 1, 2, 4 and 8 bytes are moved as they are.
#include <cstring>
#include <vector>

#include "common/pieces.h"
#include "common/rows.h"
#include "kernels/kernels.h"
#include "runtime/scratch.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace {

enum Mode : int { kConstant, kReflect, kSymmetric };
constexpr int64_t kBorder = -1;
constexpr int kSumSlot = 0;  // of scratch memory

struct Axis {
  int64_t in, before, after;
  int64_t in_step = 0, out_step = 0;  // elements between neighbours

  int64_t out() const { return before + in + after; }
  bool padded() const { return before > 0 || after > 0; }

  // Which input index output index i is a copy of, or kBorder.
  int64_t source(int mode, int64_t i) const {
    const int64_t p = i - before;
    if (p >= 0 && p < in) return p;
    if (mode == kConstant) return kBorder;
    const int64_t edge = mode == kReflect ? 0 : 1;  // Symmetric repeats it
    return p < 0 ? -p - edge : 2 * (in - 1) + edge - p;
  }

  // The output indices that are copies of input index p; returns how many of the three there are.
  int copies(int mode, int64_t p, int64_t indices[3]) const {
    int count = 0;
    indices[count++] = before + p;
    if (mode == kConstant) return count;
    const int64_t edge = mode == kReflect ? 0 : 1;
    const int64_t left = -p - edge, right = 2 * (in - 1) + edge - p;
    if (left < 0 && left >= -before) indices[count++] = before + left;
    if (right >= in && right < in + after) indices[count++] = before + right;
    return count;
  }
};

struct Geometry {
  std::vector<Axis> outer;  // from slowest to fastest
  Axis last;
  int64_t unit = 1;  // elements of one index of `last`

  explicit Geometry(const PaddingShape& s) {
    std::vector<Axis> axes;
    for (size_t a = 0; a < s.size.size(); a++) {
      Axis axis{s.size[a], s.before[a], s.after[a]};
      if (axis.out() == 1) continue;
      if (!axes.empty() && !axes.back().padded() && !axis.padded())
        axes.back().in *= axis.in;
      else
        axes.push_back(axis);
    }
    if (axes.size() > 1 && !axes.back().padded()) {
      unit = axes.back().in;
      axes.pop_back();
    }
    if (axes.empty()) axes.push_back({1, 0, 0});
    int64_t in_step = unit, out_step = unit;
    for (size_t a = axes.size(); a-- > 0;) {
      axes[a].in_step = in_step;
      axes[a].out_step = out_step;
      in_step *= axes[a].in;
      out_step *= axes[a].out();
    }
    last = axes.back();
    axes.pop_back();
    outer = axes;
  }

  int64_t in_rows() const {
    return product([](const Axis& a) { return a.in; });
  }
  int64_t out_rows() const {
    return product([](const Axis& a) { return a.out(); });
  }

  // Where the source of the output rows of slice `slice` (an index over all outer axes but the last one) begins, or
  // kBorder.
  int64_t source_of(int mode, int64_t slice) const {
    int64_t place = 0;
    for (size_t a = outer.size() - (outer.empty() ? 0 : 1); a-- > 0;) {
      const int64_t p = outer[a].source(mode, slice % outer[a].out());
      if (p == kBorder) return kBorder;
      place += p * outer[a].in_step;
      slice /= outer[a].out();
    }
    return place;
  }

 private:
  template <class Extent>
  int64_t product(Extent extent) const {
    int64_t n = 1;
    for (const Axis& a : outer) n *= extent(a);
    return n;
  }
};

// A row of a tensor: row `line` of `lines` in slice `slice` of a sample, numbers that are counted rather than divided.
struct Row {
  int64_t sample, slice, line;
};

// body(row, first) for all rows, several together where they are short; `first` says that the slice is a new one.
template <class Body>
void for_each_row(const Call& call, int64_t rows, int64_t lines, int64_t length, Body body) {
  const int64_t total = call.batch * rows, slices = rows / lines;
  const int workers = workers_for(call, total * length);
  const int64_t together = rows_together(total, length, workers);
  dynamic_items(workers, (total + together - 1) / together, [&](int64_t item) {
    const int64_t start = item * together, end = std::min(total, start + together);
    Row row{start / rows, start % rows / lines, start % lines};
    Body own = body;  // with what it remembers of the slice
    for (int64_t r = start; r < end; r++) {
      own(row, r == start || row.line == 0);
      if (++row.line < lines) continue;
      row.line = 0;
      if (++row.slice < slices) continue;
      row.slice = 0;
      row.sample++;
    }
  });
}

template <class Item>
class PaddingPlan : public Plan {
 public:
  explicit PaddingPlan(const PaddingShape& s) : mode_(s.mode), g_(s) { std::memcpy(&value_, &s.value, sizeof(Item)); }

  void forward(const Call& call) override {
    if (borders_small_planes()) return border_planes(call, false);
    const auto* x = reinterpret_cast<const Item*>(call.address[X]);
    auto* y = reinterpret_cast<Item*>(call.address[Y]);
    const int64_t rows = g_.out_rows(), length = g_.last.out() * g_.unit;
    const Axis down = g_.outer.empty() ? Axis{1, 0, 0} : g_.outer.back();
    for_each_row(call, rows, down.out(), length, [&, slice = int64_t{0}](const Row& row, bool first) mutable {
      if (first) slice = g_.source_of(mode_, row.slice);
      const int64_t line = down.source(mode_, row.line);
      Item* to = y + row.sample * call.stride[Y] + (row.slice * down.out() + row.line) * length;
      if (slice == kBorder || line == kBorder)
        std::fill_n(to, length, value_);
      else
        pad_row(x + row.sample * call.stride[X] + slice + line * down.in_step, to);
    });
  }

  void backward(const Call& call) override {
    if constexpr (std::is_same_v<Item, float>) {
      if (!call.address[DX]) return;
      if (borders_small_planes()) return border_planes(call, true);
      const int64_t rows = g_.in_rows(), length = g_.last.in * g_.unit;
      const int64_t lines = g_.outer.empty() ? 1 : g_.outer.back().in;
      for_each_row(call, rows, lines, std::max(length, g_.last.out() * g_.unit),
                   [&, copies = Copies{}](const Row& row, bool first) mutable {
                     if (first) copies_of_slice(row.slice, copies);
                     const float* dy = call.address[DY] + row.sample * call.stride[DY];
                     float* dx = call.address[DX] + row.sample * call.stride[DX];
                     fold_row(copies_of(row.line, copies, dy), dx + (row.slice * lines + row.line) * length,
                              call.adds(DX));
                   });
    }
  }

 private:
  static constexpr size_t kMostAxes = 16;

  // Floats in short rows with a constant around them: plane by plane, the rows in a vector or a few.
  bool borders_small_planes() const {
    return sizeof(Item) == sizeof(float) && mode_ == kConstant && g_.unit == 1 && g_.outer.size() <= 2 &&
           !g_.outer.empty() && !(g_.outer.size() == 2 && g_.outer[0].padded()) && g_.last.in <= 4 * kWidth;
  }

  // y[inside] = x, y[elsewhere] = value; backward, dx = dy[inside]
  void border_planes(const Call& call, bool backward) const {
    const Axis &down = g_.outer.back(), &across = g_.last;
    const int64_t planes = g_.outer.size() == 2 ? g_.outer[0].in : 1,
                  inside = down.before * across.out() + across.before;
    const int64_t in_plane = down.in * across.in, out_plane = down.out() * across.out();
    const int in = backward ? DX : X, out = backward ? DY : Y;
    float value;
    std::memcpy(&value, &value_, sizeof(value));
    for_each_row(call, planes, 1, out_plane, [&](const Row& row, bool) {
      float* x = call.address[in] + row.sample * call.stride[in] + row.slice * in_plane;
      float* y = call.address[out] + row.sample * call.stride[out] + row.slice * out_plane;
      for (int64_t i = 0; !backward && i < out_plane; i += kWidth)
        store_partial(y + i, splat(value), std::min<int64_t>(kWidth, out_plane - i));
      y += inside;
      for (int64_t r = 0; r < down.in; r++, x += across.in, y += across.out())
        copy_floats(backward ? x : y, backward ? y : x, across.in, backward && call.adds(DX));
    });
  }

  static OPENBNNS_INLINE void copy_floats(float* to, const float* from, int64_t count, bool adds) {
    for (int64_t i = 0; i < count; i += kWidth) {
      const int64_t lanes = std::min<int64_t>(kWidth, count - i);
      const Vec v = load_partial(from + i, lanes);
      store_partial(to + i, adds ? load_partial(to + i, lanes) + v : v, lanes);
    }
  }

  // The output indices of every outer axis that are copies of one input index.
  struct Copies {
    int64_t index[kMostAxes][3];
    int count[kMostAxes];
    int64_t first;  // where those of the slice begin that are in the middle of all axes
    bool many;      // there are others
  };

  // y[i] = x[source(i)] along the last axis
  void pad_row(const Item* x, Item* y) const {
    const Axis& last = g_.last;
    const int64_t bytes = g_.unit * static_cast<int64_t>(sizeof(Item));
    auto border = [&](int64_t i) {
      const int64_t p = last.source(mode_, i);
      if (p == kBorder)
        std::fill_n(y + i * g_.unit, g_.unit, value_);
      else if (g_.unit == 1)
        y[i] = x[p];
      else
        std::memcpy(y + i * g_.unit, x + p * g_.unit, static_cast<size_t>(bytes));
    };
    for (int64_t i = 0; i < last.before; i++) border(i);
    copy_row(y + last.before * g_.unit, x, last.in * bytes);
    for (int64_t i = last.before + last.in; i < last.out(); i++) border(i);
  }

  void copies_of_slice(int64_t slice, Copies& copies) const {
    copies.first = 0;
    copies.many = false;
    for (size_t a = g_.outer.size() - (g_.outer.empty() ? 0 : 1); a-- > 0;) {
      copies.count[a] = g_.outer[a].copies(mode_, slice % g_.outer[a].in, copies.index[a]);
      copies.first += copies.index[a][0] * g_.outer[a].out_step;
      copies.many |= copies.count[a] > 1;
      slice /= g_.outer[a].in;
    }
  }

  // The sum of the rows of dy that are copies of input row `line` of the slice; a row of dy itself if there is but one.
  const float* copies_of(int64_t line, Copies& copies, const float* dy) const {
    const size_t rank = g_.outer.size();
    if (rank == 0) return dy;
    int64_t* of_line = copies.index[rank - 1];
    copies.count[rank - 1] = g_.outer.back().copies(mode_, line, of_line);
    if (!copies.many && copies.count[rank - 1] == 1) return dy + copies.first + of_line[0] * g_.outer.back().out_step;
    const int64_t length = g_.last.out() * g_.unit;
    int choice[kMostAxes] = {};
    const float *first = nullptr, *result = nullptr;
    float* sum = nullptr;
    for (bool more = true; more;) {
      const float* from = dy;
      for (size_t a = 0; a < rank; a++) from += copies.index[a][choice[a]] * g_.outer[a].out_step;
      if (!first) {
        result = first = from;
      } else {
        if (!sum) {
          sum = scratch(kSumSlot, static_cast<size_t>(length));
          copy_row(sum, first, length * 4);
          result = sum;
        }
        add_to(sum, from, length);
      }
      more = false;
      for (size_t a = rank; a-- > 0 && !more;) {  // the next combination
        more = ++choice[a] < copies.count[a];
        if (!more) choice[a] = 0;
      }
    }
    return result;
  }

  // dx[source(i)] += dy[i] along the last axis: the inner window first, then the borders in order
  void fold_row(const float* dy, float* dx, bool adds) const {
    const Axis& last = g_.last;
    const int64_t unit = g_.unit, length = last.in * unit;
    const float* inner = dy + last.before * unit;
    if (adds)
      add_to(dx, inner, length);
    else
      copy_row(dx, inner, length * 4);
    if (mode_ == kConstant) return;
    auto border = [&](int64_t i) {
      float* to = dx + last.source(mode_, i) * unit;
      if (unit == 1)
        *to += dy[i];
      else
        add_to(to, dy + i * unit, unit);
    };
    for (int64_t i = 0; i < last.before; i++) border(i);
    for (int64_t i = last.before + last.in; i < last.out(); i++) border(i);
  }

  const int mode_;
  const Geometry g_;
  Item value_;
};

}  // namespace

std::unique_ptr<Plan> make_padding(const PaddingShape& shape) {
  switch (shape.item_bytes) {
    case 1:
      return std::make_unique<PaddingPlan<uint8_t>>(shape);
    case 2:
      return std::make_unique<PaddingPlan<uint16_t>>(shape);
    case 8:
      return std::make_unique<PaddingPlan<uint64_t>>(shape);
    default:
      return std::make_unique<PaddingPlan<float>>(shape);
  }
}

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
