// Moves between row-major storage and blocks of 16: the transposes every packed layout is made of.
#pragma once
#include <algorithm>
#include <cstring>

#include "gemm/micro_kernel.h"
#include "simd/transpose.h"

namespace openbnns {
namespace OPENBNNS_ISA {

struct PlainRows {
  const float* from;
  int64_t stride;
  OPENBNNS_INLINE Vec read(int row, int64_t column) const { return load(from + row * stride + column); }
  OPENBNNS_INLINE Vec read(int row, int64_t column, int64_t count) const {
    return load_partial(from + row * stride + column, count);
  }
};

// Columns of a source of up to 16 rows, each written as 16 consecutive values (missing rows as zeros) where
// place(column) says. kAnyOrder: place() may be called for the columns in any order and more than once, which avoids
// the slow path for the last few.
template <bool kAnyOrder = false, class Source, class Place>
OPENBNNS_INLINE void transpose_rows(const Source& source, int rows, int64_t columns, Place place) {
  for (int part = 0; part < kBlock; part += kWidth) {
    int have_rows = std::max(0, std::min(rows - part, kWidth));
    for (int64_t j = 0; j < columns; j += kWidth) {
      Vec r[kWidth];
      int have_columns = static_cast<int>(std::min<int64_t>(columns - j, kWidth));
      if (have_rows == kWidth && (kAnyOrder ? columns >= kWidth : have_columns == kWidth)) {
        const int64_t first = kAnyOrder ? std::min(j, columns - kWidth) : j;
        OPENBNNS_UNROLL for (int i = 0; i < kWidth; i++) r[i] = source.read(part + i, first);
        transpose(r);
        OPENBNNS_UNROLL for (int i = 0; i < kWidth; i++) store(place(first + i) + part, r[i]);
      } else {
        float square[kWidth * kWidth] = {};
        for (int i = 0; i < have_rows; i++) store(square + i * kWidth, source.read(part + i, j, have_columns));
        OPENBNNS_UNROLL for (int i = 0; i < kWidth; i++) r[i] = load(square + i * kWidth);
        transpose(r);
        OPENBNNS_UNROLL for (int i = 0; i < kWidth; i++) store(square + i * kWidth, r[i]);
        for (int i = 0; i < have_columns; i++) store(place(j + i) + part, load(square + i * kWidth));
      }
    }
  }
}

// The same of [rows][row_stride].
template <bool kAnyOrder = false, class Place>
OPENBNNS_INLINE void transpose_rows(const float* source, int64_t row_stride, int rows, int64_t columns, Place place) {
  transpose_rows<kAnyOrder>(PlainRows{source, row_stride}, rows, columns, place);
}

// blocks[row / 16][column][row % 16] = source[row][column], blocks `block_stride` apart, the last one zero-filled.
inline void pack_transposed(const float* source, int64_t row_stride, int64_t rows, int64_t columns, float* blocks,
                            int64_t block_stride) {
  for (int64_t row = 0; row < rows; row += kBlock) {
    float* block = blocks + row / kBlock * block_stride;
    transpose_rows(source + row * row_stride, row_stride, static_cast<int>(std::min<int64_t>(rows - row, kBlock)),
                   columns, [=](int64_t j) { return block + j * kBlock; });
  }
}

// blocks[column / 16][row][column % 16] = source[row][column], blocks `block_stride` apart, the last one zero-filled.
inline void pack_columns(const float* source, int64_t row_stride, int64_t rows, int64_t columns, float* blocks,
                         int64_t block_stride) {
  int64_t whole = columns / kBlock * kBlock;
  for (int64_t row = 0; row < rows; row++) {
    const float* from = source + row * row_stride;
    float* to = blocks + row * kBlock;
    for (int64_t column = 0; column < whole; column += kBlock, to += block_stride)
      OPENBNNS_UNROLL for (int v = 0; v < kBlock; v += kWidth) store(to + v, load(from + column + v));
    if (whole < columns)
      for (int v = 0; v < kBlock; v++) to[v] = v < columns - whole ? from[whole + v] : 0.f;
  }
}

// planes[row][j] = (or +=) block[j][row], rows <= 16, j < count: from blocks of 16 channels back to image planes.
// kOverlaps: the last columns may be written together with some earlier ones, which are then written twice.
template <bool kAdd, bool kOverlaps = false>
inline void unpack_block(const float* block, int64_t count, float* planes, int64_t plane_stride, int rows) {
  for (int part = 0; part < rows; part += kWidth) {
    int have_rows = std::min(rows - part, kWidth);
    for (int64_t next = 0; next < count; next += kWidth) {
      const int64_t j = kOverlaps && !kAdd && count >= kWidth ? std::min(next, count - kWidth) : next;
      Vec r[kWidth];
      int have = static_cast<int>(std::min<int64_t>(count - j, kWidth));
      if (have == kWidth) {
        OPENBNNS_UNROLL for (int i = 0; i < kWidth; i++) r[i] = load(block + (j + i) * kBlock + part);
      } else {
        OPENBNNS_UNROLL for (int i = 0; i < kWidth; i++) r[i] =
            load(block + (j + (i < have ? i : have - 1)) * kBlock + part);
      }
      transpose(r);
      float* to = planes + part * plane_stride + j;
      if (have == kWidth && have_rows == kWidth) {
        OPENBNNS_UNROLL for (int i = 0; i < kWidth; i++)
            store(to + i * plane_stride, kAdd ? load(to + i * plane_stride) + r[i] : r[i]);
      } else {
        float square[kWidth * kWidth];
        OPENBNNS_UNROLL for (int i = 0; i < kWidth; i++) store(square + i * kWidth, r[i]);
        for (int i = 0; i < have_rows; i++) {
          float* p = to + i * plane_stride;
          Vec v = load(square + i * kWidth);
          store_partial(p, kAdd ? load_partial(p, have) + v : v, have);
        }
      }
    }
  }
}

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
