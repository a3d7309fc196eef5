// Pooling of one plane in two passes, along its columns and along its rows: windows of k x k cells cost 2 k steps each.
// Cells are read from the caller's rows, without a bordered copy of the plane.
//
// Windows along a row are taken for every column first, at unit stride; then the lanes of those that exist are picked.
#include <limits>
#include <type_traits>

#include "kernels/pooling/indices.h"
#include "kernels/pooling/maximum.h"
#include "kernels/pooling/methods.h"
#include "simd/lanes.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace pooling {
namespace {

constexpr float kLowest = -std::numeric_limits<float>::infinity();

struct SeparableWindows {
  WindowShape shape;
  std::vector<int32_t> pick;    // [stride_x][kWidth] lane in that one of stride_x vectors; -1: in another
  std::vector<int32_t> spread;  // [stride_x][kWidth] window of a cell after that of the first, by the first's remainder
  std::vector<int32_t> also;    // [stride_x][kWidth] whether one more window before `shared` ones has the cell
  int64_t shared;               // windows of a row that every cell has
  std::vector<int32_t> first;   // [windows that begin before the plane] distance to the first tap that is inside
  struct Range {
    int64_t first, end;
  };
  std::vector<Range> cells;    // [out_height] rows of cells of a row of windows: first, first + dilation_y, ...
  std::vector<Range> windows;  // [in_height] rows of windows that have a row of cells; only without dilation
  struct Start {
    int64_t window, remainder;
  };
  std::vector<Start> starts;  // [vectors of a row of cells] last window of the first cell, and row of `spread`
  int64_t pitch;              // floats of a row with borders
  int64_t left;               // windows before the first one in a row of gradients, which are zero
  int64_t gradient_pitch;
  int64_t live_rows;     // of cells kept for the windows that have them; a power of two
  int64_t live_windows;  // rows of windows kept for the cells that they have; a power of two

  static bool fits(const WindowShape& shape);
  [[gnu::cold]] explicit SeparableWindows(const WindowShape& shape);

  int64_t values_room() const { return kBand * pitch; }  // floats
  int64_t winners_room() const { return kBand * pitch + 2 * live_rows * winners_pitch(); }
  int64_t spread_room() const { return kBand * gradient_pitch + live_windows * round_up(shape.in_width, kWidth); }

  // Rows that are worked on before what they give is read again, so that no read waits for a write.
  static constexpr int64_t kBand = 16;
  int64_t winners_pitch() const { return round_up(shape.out_width, kWidth); }
  // Rows at the start of `room` whose borders the passes leave as they are.
  int64_t borders_room(bool gradients) const { return kBand * (gradients ? gradient_pitch : pitch); }
};

// of a number that may be negative
int64_t ceil_divided(int64_t a, int64_t b) { return a > 0 ? (a + b - 1) / b : -(-a / b); }

int64_t power_of_two(int64_t least) {
  int64_t power = 1;
  while (power < least) power *= 2;
  return power;
}

struct Largest {
  static constexpr float kBorder = kLowest;
  OPENBNNS_INLINE Vec operator()(Vec a, Vec b) const { return larger(a, b); }
};
struct Sum {
  static constexpr float kBorder = 0;
  OPENBNNS_INLINE Vec operator()(Vec a, Vec b) const { return a + b; }
};

PlaneWriter writer(const WindowShape& s, float* y) { return {y, s.out_width, y + s.out_height * s.out_width}; }

// Of windows that are stride_x apart, from column `at` on: of(column) has the result for kWidth columns.
template <class Of>
OPENBNNS_INLINE Vec picked(const SeparableWindows& w, int64_t at, int64_t windows, Of of) {
  const int64_t stride = w.shape.stride_x, cells = (std::min<int64_t>(windows, kWidth) - 1) * stride + 1;
  if (stride == 1) return of(at);
  if (stride == 2) {
    const Vec v = of(at);
    return evens(v, cells > kWidth ? of(at + kWidth) : v);
  }
  Vec result{};
  for (int64_t j = 0; j * kWidth < cells; j++) {
    const IntVec lane = load_int(w.pick.data() + j * kWidth);
    result = select(lane >= 0, permuted(of(at + j * kWidth), lane & (kWidth - 1)), result);
  }
  return result;
}

// One row with borders: `border` and, after them, body(column, cells from it on) for each vector of the plane.
template <class Body>
OPENBNNS_INLINE void fill_row(const SeparableWindows& w, float border, float* row, Body body) {
  const WindowShape& s = w.shape;
  row += s.pad_left;
  int64_t c = 0;
  for (; c + kWidth <= s.in_width; c += kWidth) store(row + c, body(c, [](const float* p) { return load(p); }));
  const int64_t left = s.in_width - c;
  if (left == 0) return;
  const Vec v = body(c, [left](const float* p) { return load_partial(p, left); });
  store(row + c, select(first_lanes(left), v, splat(border)));
}

// body(taps) with the number of taps along a row as a constant, if it is a usual one.
template <class Body>
OPENBNNS_INLINE void with_taps(const SeparableWindows& w, Body body) {
  if (w.shape.kernel_width == 2)
    body(std::integral_constant<int64_t, 2>());
  else if (w.shape.kernel_width == 3)
    body(std::integral_constant<int64_t, 3>());
  else
    body(w.shape.kernel_width);
}

// write(row, column, combination of the cells of kWidth windows)
template <class Taps, class Combine, class Write>
OPENBNNS_INLINE void for_each_value(const SeparableWindows& w, Taps taps, const float* x, float* room, Combine combine,
                                    Write write) {
  const WindowShape& s = w.shape;
  const int64_t step = s.dilation_y * s.in_width;
  for (int64_t band = 0; band < s.out_height; band += w.kBand) {
    const int64_t last = std::min(s.out_height, band + w.kBand);
    for (int64_t r = band; r < last; r++) {
      const auto rows = w.cells[static_cast<size_t>(r)];
      const float *begin = x + rows.first * s.in_width, *end = x + rows.end * s.in_width;
      fill_row(w, Combine::kBorder, room + (r - band) * w.pitch, [&](int64_t c, auto read) {
        if (begin >= end) return splat(Combine::kBorder);
        Vec v = read(begin + c);
        for (const float* row = begin + step; row < end; row += step) v = combine(v, read(row + c));
        return v;
      });
    }
    for (int64_t r = band; r < last; r++) {
      const float* row = room + (r - band) * w.pitch;
      for (int64_t c = 0; c < s.out_width; c += kWidth) {
        const Vec v = picked(w, c * s.stride_x, s.out_width - c, [&](int64_t at) {
          Vec of_taps = load(row + at);
          for (int64_t t = 1; t < taps; t++) of_taps = combine(of_taps, load(row + at + t * s.dilation_x));
          return of_taps;
        });
        write(r, c, v);
      }
    }
  }
}

// The later cell takes the place of the best so far if it wins.
OPENBNNS_INLINE void challenge(Vec later, IntVec later_place, Vec& best, IntVec& place) {
  const IntVec mask = wins(later, best);
  best = select(mask, later, best);
  place = mask ? later_place : place;
}

// Along a row with borders: the largest cell of every window and its column in the plane. Cells of strided windows are
// picked before they are compared, so that places need not be picked, too.
template <class Taps>
OPENBNNS_INLINE void reduce_row(const SeparableWindows& w, Taps taps, const float* row, float* largest,
                                int32_t* column) {
  const WindowShape& s = w.shape;
  const IntVec starts = lane_numbers() * splat_int(static_cast<int32_t>(s.stride_x));
  const auto reduce = [&](auto cells) {
    for (int64_t c = 0; c < s.out_width; c += kWidth) {
      const int64_t at = c * s.stride_x, windows = s.out_width - c;
      Vec best = cells(at, windows);
      IntVec place = at < s.pad_left ? load_int(w.first.data() + c) : IntVec{};
      for (int64_t t = 1; t < taps; t++)
        challenge(cells(at + t * s.dilation_x, windows), splat_int(static_cast<int32_t>(t * s.dilation_x)), best,
                  place);
      store(largest + c, best);
      store_int(column + c, place + starts + splat_int(static_cast<int32_t>(at - s.pad_left)));
    }
  };
  const auto cells_of = [&](int64_t at) { return load(row + at); };
  if (s.stride_x == 1)
    reduce([&](int64_t at, int64_t) { return cells_of(at); });
  else
    reduce([&](int64_t at, int64_t windows) { return picked(w, at, windows, cells_of); });
}

// See winners_separable.
template <class Taps>
OPENBNNS_INLINE void find_winners(const SeparableWindows& w, Taps taps, const float* x, float bias, float* y,
                                  int32_t* place, float* room) {
  const WindowShape& s = w.shape;
  const PlaneWriter out = writer(s, y);
  const int64_t pitch = w.winners_pitch(), newest = w.live_rows - 1;
  float* largest = room + w.kBand * w.pitch;  // [live rows][pitch], overwritten in turn
  auto* column = reinterpret_cast<int32_t*>(largest + w.live_rows * pitch);
  int64_t copied = 0, reduced = 0;  // rows
  for (int64_t r = 0; r < s.out_height; r++) {
    const auto rows = w.cells[static_cast<size_t>(r)];
    // with dilation, later windows may have rows that this one leaves out
    for (reduced = std::max(reduced, r * s.stride_y - s.pad_up); reduced < rows.end; reduced++) {
      for (copied = std::max(copied, reduced); copied == reduced || copied % w.kBand != 0; copied++) {
        if (copied == s.in_height) break;
        const float* from = x + copied * s.in_width;
        fill_row(w, kLowest, room + copied % w.kBand * w.pitch, [&](int64_t c, auto read) { return read(from + c); });
      }
      const int64_t slot = reduced & newest;
      reduce_row(w, taps, room + reduced % w.kBand * w.pitch, largest + slot * pitch, column + slot * pitch);
    }
    for (int64_t c = 0; c < s.out_width; c += kWidth) {
      auto place_of = [&](int64_t row) {
        return load_int(column + (row & newest) * pitch + c) + splat_int(static_cast<int32_t>(row * s.in_width));
      };
      const int64_t top = rows.first < rows.end ? rows.first : 0;
      Vec best = load(largest + (top & newest) * pitch + c);
      IntVec which = place_of(top);
      for (int64_t row = top + s.dilation_y; row < rows.end; row += s.dilation_y)
        challenge(load(largest + (row & newest) * pitch + c), place_of(row), best, which);
      if (y) out.write(r, c, best + bias);
      store_int(place + r * s.out_width + c, which);
    }
  }
}

// Along some rows of windows: sums over the windows of kWidth cells from column c on, into the rows kept for the cells.
OPENBNNS_INLINE void spread_columns(const SeparableWindows& w, const float* gradients, int64_t first, int64_t last,
                                    int64_t c, float* rows) {
  const int64_t width = round_up(w.shape.in_width, kWidth), newest = w.live_windows - 1;
  const auto [window, remainder] = w.starts[static_cast<size_t>(c / kWidth)];
  const IntVec lane = load_int(w.spread.data() + remainder * kWidth),
               also = load_int(w.also.data() + remainder * kWidth);
  const bool strided = w.shape.stride_x > 1, partial = w.shape.kernel_width % w.shape.stride_x != 0;
  for (int64_t r = first; r < last; r++) {
    const float* from = gradients + (r - first) * w.gradient_pitch + window;
    Vec sum{};
    for (int64_t n = 0; n < w.shared; n++) sum += load(from - n);
    if (strided) sum = permuted(sum, lane);
    if (partial) sum += keep_where(also, permuted(load(from - w.shared), lane));
    store(rows + (r & newest) * width + c, sum);
  }
}

bool SeparableWindows::fits(const WindowShape& s) {
  return s.stride_x <= kWidth && s.out_height > 0 && s.out_width > 0 &&
         s.in_height * s.in_width <= std::numeric_limits<int32_t>::max();
}

SeparableWindows::SeparableWindows(const WindowShape& s)
    : shape(s),
      pick(static_cast<size_t>(s.stride_x * kWidth), -1),
      shared(s.kernel_width / s.stride_x),
      pitch(round_up(std::max(s.pad_left + round_up(s.in_width, kWidth),
                              (s.out_width - 1) * s.stride_x + (s.kernel_width - 1) * s.dilation_x + kWidth),
                     kWidth)),
      left(round_up(shared, kWidth)),
      gradient_pitch(left + round_up(std::max(round_up(s.out_width, kWidth),
                                              (s.pad_left + round_up(s.in_width, kWidth)) / s.stride_x + kWidth),
                                     kWidth)),
      live_rows(power_of_two(std::min(s.in_height, (s.kernel_height - 1) * s.dilation_y + 1))),
      live_windows(power_of_two(std::min(s.out_height, (s.kernel_height - 1) / s.stride_y + kBand))) {
  for (int64_t i = 0; i < kWidth; i++)
    pick[static_cast<size_t>(i * s.stride_x / kWidth * kWidth + i)] = static_cast<int32_t>(i * s.stride_x % kWidth);
  for (int64_t remainder = 0; remainder < s.stride_x; remainder++)
    for (int64_t at = remainder; at < remainder + kWidth; at++) {
      spread.push_back(static_cast<int32_t>(at / s.stride_x));
      also.push_back(at % s.stride_x + shared * s.stride_x < s.kernel_width ? -1 : 0);
    }
  for (int64_t c = 0; c < round_up(ceil_divided(s.pad_left, s.stride_x), kWidth); c++)
    first.push_back(static_cast<int32_t>(std::max<int64_t>(0, ceil_divided(s.pad_left - c * s.stride_x, s.dilation_x)) *
                                         s.dilation_x));
  for (int64_t r = 0; r < s.out_height; r++) {
    const int64_t top = r * s.stride_y - s.pad_up, end = top + (s.kernel_height - 1) * s.dilation_y + 1;
    const int64_t before = ceil_divided(std::max<int64_t>(0, -top), s.dilation_y);  // taps above the plane
    cells.push_back({top + before * s.dilation_y, std::min(end, s.in_height)});
  }
  for (int64_t y = 0; y < s.in_height; y++) {
    const int64_t from = y + s.pad_up, end = std::min(s.out_height, from / s.stride_y + 1);
    windows.push_back({std::max<int64_t>(0, ceil_divided(from - s.kernel_height + 1, s.stride_y)), end});
  }
  for (int64_t c = s.pad_left; c < s.pad_left + s.in_width; c += kWidth)
    starts.push_back({c / s.stride_x, c % s.stride_x});
}

// Kernels. The borders of `room` hold minus infinity for the largest cells and 0 for averages and gradients.
//
// y = largest cell + bias; minus infinity + bias for a window without a cell. room: values_room()
void max_separable(const SeparableWindows& w, const float* x, float bias, float* y, float* room) {
  const PlaneWriter out = writer(w.shape, y);
  with_taps(w, [&](auto taps) {
    for_each_value(w, taps, x, room, Largest(), [&](int64_t r, int64_t c, Vec v) { out.write(r, c, v + bias); });
  });
}

// y = sum of the cells / divisor + bias, with divisor = count of cells inside where `counts` is given.
// room: values_room()
void average_separable(const SeparableWindows& w, const float* x, float divisor, const CellCounts* counts, float bias,
                       float* y, float* room) {
  const PlaneWriter out = writer(w.shape, y);
  with_taps(w, [&](auto taps) {
    for_each_value(w, taps, x, room, Sum(), [&](int64_t r, int64_t c, Vec v) {
      const Vec count = counts ? counts->rows[r] * load(counts->columns.data() + c) : splat(divisor);
      // a window outside the plane has the sum and the average 0
      out.write(r, c, v / select(count == Vec{}, splat(1.0f), count) + bias);
    });
  });
}

// y = largest cell + bias if y is given, and the place of the cell that wins; of no meaning for a window without a
// cell. place: [out_height][out_width] and room for one vector more. room: winners_room()
void winners_separable(const SeparableWindows& w, const float* x, float bias, float* y, int32_t* place, float* room) {
  with_taps(w, [&](auto taps) { find_winners(w, taps, x, bias, y, place, room); });
}

// dx = (or +=) sum over the windows of a cell of dz / divisor; only without dilation. room: spread_room(). Inlined into
// the method it would be a tenth slower.
[[gnu::noinline]] void average_separable_backward(const SeparableWindows& w, const float* dz, float divisor,
                                                  const CellCounts* counts, float* dx, bool adds, float* room) {
  const WindowShape& s = w.shape;
  const int64_t width = round_up(s.in_width, kWidth), newest = w.live_windows - 1;
  float *gradients = room + w.left, *rows = room + w.kBand * w.gradient_pitch;  // rows: [live windows][width]
  const PlaneWriter out{dx, s.in_width, dx + s.in_height * s.in_width};
  int64_t y = 0;
  for (int64_t band = 0; band < s.out_height; band += w.kBand) {
    const int64_t last = std::min(s.out_height, band + w.kBand);
    for (int64_t r = band; r < last; r++)
      for (int64_t c = 0; c < s.out_width; c += kWidth) {
        const int64_t lanes = std::min<int64_t>(kWidth, s.out_width - c);
        const Vec count = counts ? counts->rows[r] * load(counts->columns.data() + c) : splat(divisor);
        store(gradients + (r - band) * w.gradient_pitch + c,
              load_partial(dz + r * s.out_width + c, lanes) / select(count == Vec{}, splat(1.0f), count));
      }
    for (int64_t c = 0; c < width; c += kWidth) spread_columns(w, gradients, band, last, c, rows);
    for (; y < s.in_height && (last == s.out_height || w.windows[static_cast<size_t>(y)].end <= last); y++) {
      const auto [first, end] = w.windows[static_cast<size_t>(y)];
      auto row = [&](int64_t r) { return rows + (r & newest) * width; };
      auto write_sums = [&](auto sum) {
        for (int64_t c = 0; c < s.in_width; c += kWidth) {
          if (!adds) {
            out.write(y, c, sum(c));
            continue;
          }
          float* to = dx + y * s.in_width + c;
          const int64_t lanes = std::min<int64_t>(kWidth, s.in_width - c);
          store_partial(to, load_partial(to, lanes) + sum(c), lanes);
        }
      };
      const float *one = row(first), *two = row(first + 1);
      if (end - first == 1)
        write_sums([=](int64_t c) { return load(one + c); });
      else if (end - first == 2)
        write_sums([=](int64_t c) { return load(one + c) + load(two + c); });
      else
        write_sums([&, first = first, end = end](int64_t c) {
          Vec sum{};
          for (int64_t r = first; r < end; r++) sum += load(row(r) + c);
          return sum;
        });
    }
  }
}

class Separable final : public Method {
 public:
  explicit Separable(const Problem& p) : Method(p), windows_(p.geometry.shape) {}

  static bool fits(const Problem& p, Use use) {
    const bool dilated = p.shape.dilation_y > 1 || p.shape.dilation_x > 1;
    return is_separable(p) && !(use == Use::kGradient && p.is_average() && dilated);
  }

  Scratch scratch(Use use) const override {
    Scratch work;
    const bool spreads = use == Use::kGradient && p_.is_average();
    work.rows = float_scratch(kInputBand, spreads               ? windows_.spread_room()
                                          : use == Use::kValues ? windows_.values_room()
                                                                : windows_.winners_room());
    std::fill_n(work.rows, windows_.borders_room(spreads), p_.border());
    work.winner = winner_scratch(p_.out_plane() + kWidth);
    if (use == Use::kGradient) work.plane = float_scratch(kOutputTile, p_.in_plane());
    return work;
  }

  void forward(const Scratch& work, const ForwardPlanes& f) const override {
    const float bias = f.first_bias();
    if (p_.is_average()) return average_separable(windows_, f.x, p_.divisor(), p_.cells_inside(), bias, f.y, work.rows);
    if (f.index) {
      find_places(work, f.x, bias, f.y);
      write_places(f.index, work.winner, p_.out_plane());
    } else {
      max_separable(windows_, f.x, bias, f.y, work.rows);
    }
    p_.fill_empty(f.y, bias);
  }

  void backward(const Scratch& work, const BackwardPlanes& b) const override {
    if (p_.is_average())
      return average_separable_backward(windows_, b.dz, p_.divisor(), p_.cells_inside(), b.dx, b.adds, work.rows);
    find_places(work, b.x, 0, nullptr);
    scatter_places(p_, work.winner, b, work.plane);
  }

 private:
  // Where the largest cell of every window is, -1 for none; also y if it is given.
  void find_places(const Scratch& work, const float* x, float bias, float* y) const {
    winners_separable(windows_, x, bias, y, work.winner, work.rows);
    p_.fill_empty(work.winner, -1);
  }

  const SeparableWindows windows_;
};

}  // namespace

bool is_separable(const Problem& p) {
  if (p.covers_plane() || !SeparableWindows::fits(p.geometry.shape)) return false;
  return p.is_average() || (p.shape.function == kMax && !p.shape.padding_wins);
}

const MethodEntry kSeparable = entry_of<Separable>();

}  // namespace pooling
}  // namespace OPENBNNS_ISA
}  // namespace openbnns
