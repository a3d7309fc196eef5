// Elements moved from one arrangement of axes to another: plain rows, transposed squares, or one at a time.
#include <algorithm>
#include <cstring>

#include "gemm/gemm.h"
#include "gemm/pack.h"
#include "kernels/contraction/contraction.h"
#include "runtime/thread_pool.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace {

constexpr int64_t kRowBlock = 4096;  // elements of a row that one item moves
constexpr int64_t kSquare = 64;      // elements along each side of a transposed block

struct Way {
  const float* from;
  float* to;
  float scale;
  bool add;

  OPENBNNS_INLINE void put(int64_t to_offset, Vec v) const {
    v *= splat(scale);
    store(to + to_offset, add ? load(to + to_offset) + v : v);
  }
  OPENBNNS_INLINE void put_partial(int64_t to_offset, Vec v, int64_t count) const {
    v *= splat(scale);
    store_partial(to + to_offset, add ? load_partial(to + to_offset, count) + v : v, count);
  }
  void one(int64_t from_offset, int64_t to_offset) const {
    float v = scale * from[from_offset];
    to[to_offset] = add ? to[to_offset] + v : v;
  }
};

// count elements, from_step and to_step apart.
void move_row(const Way& w, int64_t from, int64_t from_step, int64_t to, int64_t to_step, int64_t count) {
  int64_t i = 0;
  if (to_step == 1 && from_step == 1) {
    if (w.scale == 1.f && !w.add) {
      std::memcpy(w.to + to, w.from + from, static_cast<size_t>(count) * sizeof(float));
      return;
    }
    for (; i + kWidth <= count; i += kWidth) w.put(to + i, load(w.from + from + i));
  } else if (to_step == 1 && from_step == 0) {
    for (; i + kWidth <= count; i += kWidth) w.put(to + i, splat(w.from[from]));
  }
  for (; i < count; i++) w.one(from + i * from_step, to + i * to_step);
}

// rows x columns, unit stride along the columns in `to` and along the rows in `from`.
void move_square(const Way& w, int64_t from, int64_t from_step, int64_t to, int64_t to_step, int64_t rows,
                 int64_t columns) {
  for (int64_t r = 0; r < rows; r += kWidth)
    for (int64_t c = 0; c < columns; c += kWidth) {
      const int64_t have_rows = std::min<int64_t>(kWidth, rows - r),
                    have_columns = std::min<int64_t>(kWidth, columns - c);
      const float* source = w.from + from + r + c * from_step;
      const int64_t target = to + r * to_step + c;
      Vec v[kWidth];
      if (have_rows == kWidth && have_columns == kWidth) {
        OPENBNNS_UNROLL for (int i = 0; i < kWidth; i++) v[i] = load(source + i * from_step);
        transpose(v);
        OPENBNNS_UNROLL for (int i = 0; i < kWidth; i++) w.put(target + i * to_step, v[i]);
        continue;
      }
      for (int i = 0; i < kWidth; i++)
        v[i] = i < have_columns ? load_partial(source + i * from_step, have_rows) : Vec{};
      transpose(v);
      for (int i = 0; i < have_rows; i++) w.put_partial(target + i * to_step, v[i], have_columns);
    }
}

int threads_for(int threads, int64_t elements) { return useful_threads(threads, 8.0 * static_cast<double>(elements)); }

int64_t pieces(int64_t size, int64_t piece) { return (size + piece - 1) / piece; }

int find(const AxisList& axes, int64_t ContractionAxis::* stride, int64_t wanted) {
  for (int i = 0; i < axes.count; i++)
    if (axes.axis[i].*stride == wanted) return i;
  return -1;
}

void move_rows(AxisList outer, const ContractionAxis& row, const Way& w, int threads) {
  const int64_t blocks = pieces(row.size, kRowBlock), items = outer.product() * blocks;
  parallel_items(threads, items, [&](int64_t item) {
    Offsets o = offsets_at(outer, item / blocks);
    int64_t first = item % blocks * kRowBlock;
    move_row(w, o.a + first * row.a, row.a, o.c + first * row.c, row.c, std::min(kRowBlock, row.size - first));
  });
}

void move_squares(AxisList outer, const ContractionAxis& row, const ContractionAxis& column, const Way& w,
                  int threads) {
  const int64_t down = pieces(row.size, kSquare), across = pieces(column.size, kSquare);
  parallel_items(threads, outer.product() * down * across, [&](int64_t item) {
    Offsets o = offsets_at(outer, item / (down * across));
    int64_t r = item / across % down * kSquare, c = item % across * kSquare;
    move_square(w, o.a + r + c * column.a, column.a, o.c + r * row.c + c, row.c, std::min(kSquare, row.size - r),
                std::min(kSquare, column.size - c));
  });
}

}  // namespace

void move_elements(const AxisList& given, const float* from, float* to, float scale, bool add, int threads) {
  AxisList axes = given;
  simplify(axes);
  const Way w{from, to, scale, add};
  threads = threads_for(threads, axes.product());
  if (axes.count == 0) return w.one(0, 0);
  const int written = find(axes, &ContractionAxis::c, 1), read = find(axes, &ContractionAxis::a, 1);
  if (written >= 0 && read >= 0 && written != read) {
    const ContractionAxis row = axes.axis[read], column = axes.axis[written];
    axes.take(std::max(read, written));
    axes.take(std::min(read, written));
    return move_squares(axes, row, column, w, threads);
  }
  const int along = written >= 0 ? written : axes.count - 1;
  const ContractionAxis row = axes.take(along);
  move_rows(axes, row, w, threads);
}

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
