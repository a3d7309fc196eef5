#include "gemm/product_packing.h"

#include <limits>

#include "common/scratch_uses.h"
#include "common/stored_rows.h"
#include "gemm/pack.h"
#include "gemm/product_cuts.h"
#include "gemm/sources.h"
#include "gemm/stored_product.h"
#include "runtime/scratch.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace {

// to[step][0..kWidth) = step of from[0..rows) for step < steps, filled up with zeros; rows, steps <= kWidth; rows have
// `numbers` left. Asks for the rows below, which most callers transpose next.
template <class Source>
[[gnu::noinline]] void transpose_square(const Source& source, const typename Source::Number* from, int64_t from_stride,
                                        int64_t rows, int64_t steps, int64_t numbers, float* to, int64_t to_stride) {
  Vec r[kWidth];
  numbers = std::min(numbers, steps * Source::kPerStep);
  OPENBNNS_UNROLL for (int i = 0; i < kWidth; i++) __builtin_prefetch(from + (i + kWidth) * from_stride);
  if (rows >= kWidth && numbers >= kWidth * Source::kPerStep) {
    OPENBNNS_UNROLL for (int i = 0; i < kWidth; i++) r[i] = source.along(from + i * from_stride);
    transpose(r);
    OPENBNNS_UNROLL for (int i = 0; i < kWidth; i++) store(to + i * to_stride, r[i]);
    return;
  }
  OPENBNNS_UNROLL for (int i = 0; i < kWidth; i++) {
    const typename Source::Number* row = from + i * from_stride;
    if (i >= rows)
      r[i] = Vec{};
    else
      r[i] = numbers >= kWidth * Source::kPerStep ? source.along(row) : source.along(row, numbers);
  }
  transpose(r);
  OPENBNNS_UNROLL for (int i = 0; i < kWidth; i++) if (i < steps) store(to + i * to_stride, r[i]);
}

template <class Source>
void pack_b(const Source& source, const MatrixProduct& p, int64_t column, int64_t columns, int64_t step, int64_t steps,
            float* b) {
  constexpr int64_t kEach = Source::kPerStep;
  const auto* all = reinterpret_cast<const typename Source::Number*>(p.b);
  const int64_t whole = columns / kWideColumns * kWideColumns, rest = columns - whole, width = round_up(rest, kBlock);
  if (p.transpose_b) {
    for (int64_t v = 0; v < round_up(columns, kBlock); v += kWidth) {
      const int64_t tile = v / kWideColumns * kWideColumns, to_step = tile < whole ? kWideColumns : width;
      for (int64_t k = 0; k < steps; k += kWidth)
        transpose_square(source, all + (column + v) * p.ldb + (step + k) * kEach, p.ldb, columns - v,
                         lanes_of(steps - k), p.k - (step + k) * kEach, b + tile * steps + k * to_step + v - tile,
                         to_step);
    }
    return;
  }
  // Along the rows of B, as memory likes it best.
  const auto* from = all + step * kEach * p.ldb + column;
  const bool in_place = reads_b_in_place(p, kWideColumns);
  if (in_place && rest == 0) return;
  for (int64_t k = 0; k < steps; k++, from += kEach * p.ldb) {
    float* to = b + k * kWideColumns;
    const int64_t numbers = p.k - (step + k) * kEach;
    if (!in_place)
      for (int64_t j = 0; j < whole; j += kWideColumns)
        OPENBNNS_UNROLL for (int v = 0; v < kWideColumns; v += kWidth)
            store(to + j * steps + v, source.across(from + j + v, p.ldb, numbers, kWidth));
    for (int64_t v = 0; v < width; v += kWidth)
      store(b + whole * steps + k * width + v, source.across(from + whole + v, p.ldb, numbers, lanes_of(rest - v)));
  }
}

template <class Source>
void pack_a(const Source& source, const MatrixProduct& p, int64_t row, int tile, int64_t tiles, int64_t step,
            int64_t steps, float* a, int64_t tile_floats) {
  constexpr int64_t kEach = Source::kPerStep;
  const auto* all = reinterpret_cast<const typename Source::Number*>(p.a);
  const auto rows_of = [&](int64_t i) { return lanes_of(p.m - row - i * tile); };  // those of the next tile, too
  if (p.transpose_a) {
    const auto* from = all + step * kEach * p.lda + row;
    const int64_t whole = p.m - row < kWidth ? 0 : std::min(tiles, (p.m - row - kWidth) / tile + 1);  // to load
    for (int64_t k = 0; k < steps; k++, from += kEach * p.lda) {
      const int64_t numbers = p.k - (step + k) * kEach;
      for (int64_t i = 0; i < whole; i++)
        store(a + i * tile_floats + k * kWidth, source.across(from + i * tile, p.lda, numbers, kWidth));
      for (int64_t i = whole; i < tiles; i++)
        store(a + i * tile_floats + k * kWidth, source.across(from + i * tile, p.lda, numbers, rows_of(i)));
    }
    return;
  }
  for (int64_t i = 0; i < tiles; i++)
    for (int64_t k = 0; k < steps; k += kWidth)
      transpose_square(source, all + (row + i * tile) * p.lda + (step + k) * kEach, p.lda, rows_of(i),
                       lanes_of(steps - k), p.k - (step + k) * kEach, a + i * tile_floats + k * kWidth, kWidth);
}

// The same for a matrix unit.
template <class Source>
void pack_a_rows(const Source& source, const MatrixProduct& p, int64_t row, int tile, int64_t tiles, int64_t step,
                 int64_t steps, float* a, int64_t tile_floats) {
  constexpr int64_t kEach = Source::kPerStep;
  const auto* all = reinterpret_cast<const typename Source::Number*>(p.a);
  const int64_t to_row = tile_floats / (2 * kUnitRows);
  const int64_t end = std::min(p.k, (step + steps) * kEach);  // of the numbers of a row
  for (int64_t i = 0; i < tiles; i++, row += tile, a += tile_floats) {
    const int64_t rows = std::min<int64_t>(tile, p.m - row);
    for (int64_t k = 0; k < steps; k += kWidth) {
      const int64_t first = (step + k) * kEach;
      if (!p.transpose_a) {
        for (int64_t r = 0; r < rows; r++) {
          const auto* from = all + (row + r) * p.lda + first;
          store(a + r * to_row + k,
                end - first >= kWidth * kEach ? source.along(from) : source.along(from, end - first));
        }
        continue;
      }
      for (int64_t r = 0; r < rows; r += kWidth) {
        Vec square[kWidth];
        for (int64_t j = 0; j < kWidth; j++) {
          const int64_t number = first + j * kEach;
          square[j] = number >= end
                          ? Vec{}
                          : source.across(all + number * p.lda + row + r, p.lda, end - number, lanes_of(p.m - row - r));
        }
        transpose(square);
        for (int64_t j = 0; j < kWidth; j++) store(a + (r + j) * to_row + k, square[j]);
      }
    }
  }
}

}  // namespace

const float* packed_panel(const MatrixProduct& p, int64_t column, int64_t step, int64_t steps) {
  const int64_t elements = step * round_up(p.n, kBlock) + column * steps;
  return is_ready(p) ? p.packed_b + elements : moved(p.packed_b, p.b_element, elements);
}

void pack_b(const MatrixProduct& p, int64_t column, int64_t columns, int64_t step, int64_t steps, float* b) {
  if (p.packed_b)
    return decode(p.b_element, packed_panel(p, column, step, steps), round_up(columns, kBlock) * steps, b);
  with_source(p.sums, p.b_element, false,
              [&](const auto& source) { pack_b(source, p, column, columns, step, steps, b); });
}

void pack_a(const MatrixProduct& p, int64_t row, int tile, int64_t tiles, int64_t step, int64_t steps, float* a,
            int64_t tile_floats) {
  if constexpr (kHasMatrixUnit)
    if (on_matrix_unit(p.sums))
      return with_source(p.sums, p.a_element, true, [&](const auto& source) {
        pack_a_rows(source, p, row, tile, tiles, step, steps, a, tile_floats);
      });
  with_source(p.sums, p.a_element, true,
              [&](const auto& source) { pack_a(source, p, row, tile, tiles, step, steps, a, tile_floats); });
}

int64_t packed_b_floats(const MatrixProduct& p) {
  if (is_exact(p.sums)) return packed_b_floats(p.n, steps_of(p)) + p.n;  // and the sums of the columns
  if (p.sums != SumKind::kFloats) return packed_b_floats(p.n, steps_of(p));
  return (packed_b_floats(p.n, p.k) * p.b_element.bytes() + 3) / 4;
}

void pack_matrix_b(const MatrixProduct& p, float* packed, int threads) {
  MatrixProduct all = p;
  all.b_element = p.b_element.plain();
  all.m = std::numeric_limits<int64_t>::max();  // no tile is read in place
  all.packed_b = nullptr;
  const bool small = !p.b_element.is_float32() && p.sums == SumKind::kFloats;
  const int64_t depth = steps_of(p), depth_block = depth_block_of(p, depth), padded = round_up(p.n, kBlock);
  const int64_t panels = panels_of(p), blocks = (depth + depth_block - 1) / depth_block;
  const int packers = useful_threads(threads, kPackFlops * static_cast<double>(p.n * p.k));
  if (is_exact(p.sums)) sum_columns(p, reinterpret_cast<int32_t*>(packed + packed_b_floats(p.n, depth)), threads);
  parallel_items(packers, blocks * panels, [&](int64_t item) {
    const int64_t column = item % panels * kTuned.panel_columns, step = item / panels * depth_block;
    const int64_t columns = std::min(kTuned.panel_columns, p.n - column), steps = std::min(depth_block, depth - step);
    const int64_t first = step * padded + column * steps, numbers = round_up(columns, kBlock) * steps;
    float* panel = small ? scratch(kMatrixB, static_cast<size_t>(numbers)) : packed + first;
    pack_b(all, column, columns, step, steps, panel);
    if (small) encode(all.b_element, panel, numbers, moved(packed, p.b_element, first));
  });
}

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
