// Image planes copied to scratch with a border, so that windows of any stride, dilation and padding become vector loads
// at constant offsets.
#pragma once
#include <algorithm>
#include <cstdint>

#include "simd/lanes.h"
#include "simd/pairs.h"
#include "simd/wide.h"

namespace openbnns {
namespace OPENBNNS_ISA {

// Sizes of fixed width copied at both ends: no call into the library for the short rows of small images.
template <int kCount>
OPENBNNS_INLINE void copy_both_ends(float* to, const float* from, int64_t count) {
  float head[kCount], tail[kCount];
  std::memcpy(head, from, sizeof(head));
  std::memcpy(tail, from + count - kCount, sizeof(tail));
  std::memcpy(to, head, sizeof(head));
  std::memcpy(to + count - kCount, tail, sizeof(tail));
}

inline void copy_row(float* to, const float* from, int64_t count) {
  if (count >= kWidth) {
    for (int64_t i = 0; i + kWidth <= count; i += kWidth) store(to + i, load(from + i));
    store(to + count - kWidth, load(from + count - kWidth));
  } else if (kWidth > 8 && count >= 8) {
    copy_both_ends<8>(to, from, count);
  } else if (kWidth > 4 && count >= 4) {
    copy_both_ends<4>(to, from, count);
  } else {
    for (int64_t i = 0; i < count; i++) to[i] = from[i];
  }
}

// Prefetches floats that will be read soon; they need not exist.
inline void prefetch(const float* from, int64_t count) {
  for (int64_t i = 0; i < count; i += 16) __builtin_prefetch(from + i);
}

inline void add_row(float* to, const float* from, int64_t count) {
  for (int64_t i = 0; i < count; i++) to[i] += from[i];
}

// Where a plane of results goes. Rows are written in order with whole vectors: what spills over the end of a row is
// written again by the next one, and nothing is written from `end` on.
struct PlaneWriter {
  float* data;
  int64_t pitch;
  float* end;

  OPENBNNS_INLINE void write(int64_t row, int64_t column, Vec v) const {
    float* to = data + row * pitch + column;
    if (end - to >= kWidth)
      store(to, v);
    else if (to < end)
      store_partial(to, v, end - to);
  }
};

// Vectors added in single precision before they go to double.
constexpr int64_t kSingleSums = 128;

// The sum of eight vectors, with three roundings on each way: a chain of sums in single precision loses digits as it
// grows.
OPENBNNS_INLINE Vec add_eight(const float* values) {
  auto vector = [&](int i) { return load(values + i * kWidth); };
  return ((vector(0) + vector(1)) + (vector(2) + vector(3))) + ((vector(4) + vector(5)) + (vector(6) + vector(7)));
}

// sums [kWidth] += the lanes of `count` values; the lanes are added at the very end.
inline void add_lanes(const float* values, int64_t count, double* sums) {
  WideVec total = load_wide(sums);
  int64_t i = 0;
  while (i + 8 * kWidth <= count) {
    Vec block{};  // of at most 4 x 8 vectors
    for (int eights = 0; eights < 4 && i + 8 * kWidth <= count; eights++, i += 8 * kWidth)
      block += add_eight(values + i);
    total = total + widen(block);
  }
  Vec even{}, odd{};
  for (; i + 2 * kWidth <= count; i += 2 * kWidth) {
    even += load(values + i);
    odd += load(values + i + kWidth);
  }
  for (; i < count; i += kWidth) even += load_partial(values + i, std::min<int64_t>(kWidth, count - i));
  store_wide(sums, total + widen(even + odd));
}

OPENBNNS_INLINE int64_t round_up(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// A plane [height][width] placed at (top, left) of a larger one whose other cells hold a border value. Its columns are
// sorted by their remainder modulo `phases`, so that the columns a strided window meets stand side by side:
// cell (r, c) of the large plane lies at r * row_pitch + (c % phases) * phase_pitch + c / phases.
struct PlaneLayout {
  int64_t height, width;      // of the plane itself
  int64_t top, left, phases;  // border above and to the left, column stride of the windows
  int64_t rows, phase_pitch, row_pitch;

  // Room for `rows` rows and `columns` columns of every phase; cells of the plane beyond them are left out.
  PlaneLayout(int64_t plane_height, int64_t plane_width, int64_t border_top, int64_t border_left, int64_t column_phases,
              int64_t large_rows, int64_t phase_columns)
      : height(plane_height),
        width(plane_width),
        top(border_top),
        left(border_left),
        phases(column_phases),
        rows(large_rows),
        phase_pitch(phase_columns),
        row_pitch(phase_columns * column_phases) {}

  int64_t offset(int64_t row, int64_t column) const {
    return row * row_pitch + column % phases * phase_pitch + column / phases;
  }
  // Floats, with the vector that may overhang the last row.
  int64_t room() const { return rows * row_pitch + kWidth; }

  void fill_border(float* to, float value) const { std::fill_n(to, room(), value); }

  // Copies the plane into its place; the border stays as it is.
  void place(float* to, const float* plane) const {
    int64_t last = std::min(height, rows - top);
    for (int64_t r = 0; r < last; r++) {
      prefetch(plane + (r + height) * width, width);  // the next channel, which mostly comes next
      place_row(to + (r + top) * row_pitch, plane + r * width);
    }
  }

 private:
  void place_row(float* to, const float* from) const {
    if (phases == 1) return copy_row(to + left, from, std::min(width, phase_pitch - left));
    if (phases == 2) return place_pairs(to, from);
    for (int64_t phase = 0; phase < phases; phase++) place_phase(to, from, phase);
  }
  // Two phases: neighbours are taken apart, kWidth pairs at a time. The first pair starts at an even column.
  void place_pairs(float* to, const float* from) const {
    const int64_t skipped = left % 2, first = (left + 1) / 2;
    const int64_t pairs = std::max<int64_t>(0, std::min((width - skipped) / 2, phase_pitch - first));
    for (int64_t done = 0; done < pairs; done += kWidth) {
      int64_t count = std::min<int64_t>(kWidth, pairs - done);
      VecPair pair = load_pairs(from + skipped + 2 * done, count);
      float *even = to + first + done, *odd = even + phase_pitch;
      if (count == kWidth) {
        store(even, pair.even);
        store(odd, pair.odd);
      } else {
        store_partial(even, pair.even, count);
        store_partial(odd, pair.odd, count);
      }
    }
    if (skipped && left / 2 < phase_pitch) to[phase_pitch + left / 2] = from[0];
    if (skipped + 2 * pairs < width && first + pairs < phase_pitch) to[first + pairs] = from[skipped + 2 * pairs];
  }
  // Columns c = k * phases + phase of the large plane with left <= c < left + width.
  void place_phase(float* to, const float* from, int64_t phase) const {
    int64_t first = (left - phase + phases - 1) / phases;
    int64_t end = std::min(phase_pitch, (left + width - phase + phases - 1) / phases);
    float* row = to + phase * phase_pitch;
    for (int64_t k = first; k < end; k++) row[k] = from[k * phases + phase - left];
  }
};

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
