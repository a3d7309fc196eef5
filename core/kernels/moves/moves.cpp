// Copies between tensors of any strides (copy, transpose, tile, shuffle) and the band of matrices.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "common/transpose.h"
#include "kernels/kernels.h"
#include "runtime/dynamic_items.h"
#include "simd/vec.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace {

constexpr int64_t kSerialBytes = 1 << 17;  // less work than this stays on the calling thread
constexpr int64_t kTaskBytes = 1 << 18;    // of one task, about
constexpr int64_t kTile = 16;              // rows and columns of a transposed block

// Axes from the slowest to the fastest in `to`; those of size 1 are gone, those that lie in one another are merged.
struct Axes {
  int rank = 0;
  int64_t size[StridedCopy::kMaxRank], from[StridedCopy::kMaxRank], to[StridedCopy::kMaxRank];

  explicit Axes(const StridedCopy& c) {
    int order[StridedCopy::kMaxRank];
    std::iota(order, order + c.rank, 0);
    std::stable_sort(order, order + c.rank,
                     [&](int a, int b) { return std::abs(c.to_step[a]) > std::abs(c.to_step[b]); });
    for (int i = 0; i < c.rank; i++) {
      const int a = order[i];
      if (c.size[a] == 1) continue;
      const bool nested =
          rank > 0 && from[rank - 1] == c.from_step[a] * c.size[a] && to[rank - 1] == c.to_step[a] * c.size[a];
      if (nested) rank--;
      size[rank] = nested ? size[rank] * c.size[a] : c.size[a];
      from[rank] = c.from_step[a];
      to[rank++] = c.to_step[a];
    }
  }

  // Takes one axis out.
  void drop(int axis) {
    for (int a = axis; a + 1 < rank; a++) {
      size[a] = size[a + 1];
      from[a] = from[a + 1];
      to[a] = to[a + 1];
    }
    rank--;
  }

  int64_t count() const { return std::accumulate(size, size + rank, int64_t{1}, std::multiplies<>()); }
};

// Steps through all indices of some axes, beginning at any of them.
class Odometer {
 public:
  Odometer(const Axes& axes, int64_t start) : axes_(axes) {
    for (int a = axes.rank - 1; a >= 0; a--) {
      index_[a] = start % axes.size[a];
      start /= axes.size[a];
      from += index_[a] * axes.from[a];
      to += index_[a] * axes.to[a];
    }
  }
  void next() {
    for (int a = axes_.rank - 1; a >= 0; a--) {
      from += axes_.from[a];
      to += axes_.to[a];
      if (++index_[a] < axes_.size[a]) return;
      from -= axes_.size[a] * axes_.from[a];
      to -= axes_.size[a] * axes_.to[a];
      index_[a] = 0;
    }
  }
  int64_t from = 0, to = 0;

 private:
  const Axes& axes_;
  int64_t index_[StridedCopy::kMaxRank];
};

// body(first, last) over ranges of `items` of `bytes` each.
template <class Body>
void share_out(int threads, int64_t items, int64_t bytes, Body body) {
  const int64_t group = std::max<int64_t>(1, kTaskBytes / std::max<int64_t>(1, bytes));
  dynamic_items(items * bytes < kSerialBytes ? 1 : threads, (items + group - 1) / group,
                [&](int64_t task) { body(task * group, std::min(items, (task + 1) * group)); });
}

// `count` rows of the same length; one that is known when this is compiled costs a load and a store.
template <size_t... kBytes>
void copy_equal_rows(char* to, int64_t to_step, const char* from, int64_t from_step, int64_t count, size_t bytes) {
  const auto copy = [&](auto length) {
    for (int64_t i = 0; i < count; i++) std::memcpy(to + i * to_step, from + i * from_step, length);
  };
  if (!((bytes == kBytes && (copy(std::integral_constant<size_t, kBytes>{}), true)) || ...)) copy(bytes);
}

// Rows that are contiguous on both sides; long ones are cut.
void copy_rows(const StridedCopy& c, Axes axes, int threads) {
  const int last = axes.rank - 1;
  int64_t row = axes.size[last] * c.bytes;
  if (row > kTaskBytes) {
    const int64_t pieces = (row + kTaskBytes - 1) / kTaskBytes;
    axes.drop(last);
    dynamic_items(threads, axes.count() * pieces, [&](int64_t item) {
      const Odometer at(axes, item / pieces);
      const int64_t first = item % pieces * kTaskBytes;
      std::memcpy(c.to + at.to + first, c.from + at.from + first,
                  static_cast<size_t>(std::min(kTaskBytes, row - first)));
    });
    return;
  }
  axes.drop(last);
  const int64_t rows = axes.count(), side = last > 0 ? axes.size[last - 1] : 1;  // along the next axis
  const int64_t to_step = last > 0 ? axes.to[last - 1] : 0, from_step = last > 0 ? axes.from[last - 1] : 0;
  if (last > 0) axes.drop(last - 1);
  share_out(threads, rows, row, [&](int64_t first, int64_t end) {
    Odometer at(axes, first / side);
    for (int64_t i = first; i < end; at.next()) {
      const int64_t begin = i % side, count = std::min(end - i, side - begin);
      copy_equal_rows<4, 8, 12, 16, 24, 32, 64>(c.to + at.to + begin * to_step, to_step,
                                                c.from + at.from + begin * from_step, from_step, count,
                                                static_cast<size_t>(row));
      i += count;
    }
  });
}

// Rows of one element over and over again.
void repeat_items(const StridedCopy& c, Axes axes, int threads) {
  const int64_t item = c.bytes, row = axes.size[axes.rank - 1] * item;
  axes.drop(axes.rank - 1);
  share_out(threads, axes.count(), row, [&](int64_t first, int64_t end) {
    Odometer at(axes, first);
    for (int64_t i = first; i < end; i++, at.next()) {
      char* to = c.to + at.to;
      std::memcpy(to, c.from + at.from, static_cast<size_t>(item));
      for (int64_t done = item; done < row; done *= 2)
        std::memcpy(to + done, to, static_cast<size_t>(std::min(done, row - done)));
    }
  });
}

template <class Item>
OPENBNNS_INLINE void copy_item(char* to, const char* from) {
  std::memcpy(to, from, sizeof(Item));
}

// rows x columns elements; `from` is fastest down the columns, `to` along the rows.
template <class Item>
void transpose_block(char* to, const char* from, int64_t rows, int64_t columns, int64_t from_row, int64_t from_column,
                     int64_t to_row, int64_t to_column) {
  constexpr auto kBytes = static_cast<int64_t>(sizeof(Item));
  const bool full = rows == kTile && columns == kTile && from_row == kBytes && to_column == kBytes;
  if (kBytes == sizeof(float) && full && from_column % kBytes == 0 && to_row % kBytes == 0) {
    for (int64_t r = 0; r < kTile; r += kWidth)
      for (int64_t c = 0; c < kTile; c += kWidth)
        transpose_square(reinterpret_cast<const float*>(from + r * kBytes + c * from_column), from_column / kBytes,
                         reinterpret_cast<float*>(to + r * to_row + c * kBytes), to_row / kBytes);
    return;
  }
  if (rows == kTile && from_row == sizeof(Item) && to_column == sizeof(Item)) {
    for (int64_t c = 0; c < columns; c++)
      OPENBNNS_UNROLL for (int64_t r = 0; r < kTile; r++)
          copy_item<Item>(to + r * to_row + c * static_cast<int64_t>(sizeof(Item)),
                          from + r * static_cast<int64_t>(sizeof(Item)) + c * from_column);
    return;
  }
  for (int64_t r = 0; r < rows; r++)
    for (int64_t c = 0; c < columns; c++)
      copy_item<Item>(to + r * to_row + c * to_column, from + r * from_row + c * from_column);
}

// Two axes in the foreground: the fastest of `to` (columns) and the fastest of `from` (rows), block by block.
template <class Item>
void copy_blocks(const StridedCopy& c, Axes axes, int threads) {
  const int last = axes.rank - 1;
  int fast = -1;
  for (int a = 0; a < last; a++)
    if (std::abs(axes.from[a]) < std::abs(axes.from[last]) &&
        (fast < 0 || std::abs(axes.from[a]) < std::abs(axes.from[fast])))
      fast = a;
  const int64_t columns = axes.size[last], from_column = axes.from[last], to_column = axes.to[last];
  const int64_t rows = fast < 0 ? 1 : axes.size[fast];
  const int64_t from_row = fast < 0 ? 0 : axes.from[fast], to_row = fast < 0 ? 0 : axes.to[fast];
  axes.drop(last);
  if (fast >= 0) axes.drop(fast);
  const int64_t bands = (rows + kTile - 1) / kTile, blocks = (columns + kTile - 1) / kTile;
  const int64_t bytes = kTile * kTile * static_cast<int64_t>(sizeof(Item));
  share_out(threads, axes.count() * bands * blocks, bytes, [&](int64_t first, int64_t end) {
    Odometer at(axes, first / (bands * blocks));
    for (int64_t i = first; i < end; i++) {
      const int64_t row = i / blocks % bands * kTile, column = i % blocks * kTile;
      transpose_block<Item>(c.to + at.to + row * to_row + column * to_column,
                            c.from + at.from + row * from_row + column * from_column, std::min(kTile, rows - row),
                            std::min(kTile, columns - column), from_row, from_column, to_row, to_column);
      if ((i + 1) % (bands * blocks) == 0) at.next();
    }
  });
}

}  // namespace

void strided_copy(const StridedCopy& copy, int threads) {
  const Axes axes(copy);
  if (axes.rank == 0) {
    std::memcpy(copy.to, copy.from, static_cast<size_t>(copy.bytes));
    return;
  }
  const int last = axes.rank - 1;
  if (axes.from[last] == copy.bytes && axes.to[last] == copy.bytes) return copy_rows(copy, axes, threads);
  if (axes.from[last] == 0 && axes.to[last] == copy.bytes) return repeat_items(copy, axes, threads);
  switch (copy.bytes) {
    case 1:
      return copy_blocks<uint8_t>(copy, axes, threads);
    case 2:
      return copy_blocks<uint16_t>(copy, axes, threads);
    case 4:
      return copy_blocks<uint32_t>(copy, axes, threads);
    default:
      return copy_blocks<uint64_t>(copy, axes, threads);
  }
}

// y(i, j) = x(i, j) if i - j <= lower and j - i <= upper, else 0: columns i - lower .. i + upper of row i.
void band_part(const BandShape& s, const char* x, char* y, int threads) {
  const int64_t row_bytes = s.columns * s.bytes;
  share_out(threads, s.matrices * s.rows, row_bytes, [&](int64_t first, int64_t end) {
    for (int64_t n = first; n < end; n++) {
      const int64_t i = n % s.rows;
      int64_t last = s.upper < 0 || s.upper >= s.columns ? s.columns : std::min(s.columns, i + s.upper + 1);
      int64_t begin = s.lower < 0 || s.lower >= s.rows ? 0 : std::max<int64_t>(0, i - s.lower);
      begin = std::min(begin, s.columns);
      last = std::max(begin, last);
      char* to = y + n * row_bytes;
      std::memset(to, 0, static_cast<size_t>(begin * s.bytes));
      std::memmove(to + begin * s.bytes, x + n * row_bytes + begin * s.bytes,
                   static_cast<size_t>((last - begin) * s.bytes));
      std::memset(to + last * s.bytes, 0, static_cast<size_t>((s.columns - last) * s.bytes));
    }
  });
}

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
