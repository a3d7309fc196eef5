#include "gemm/few_columns.h"

#include <algorithm>
#include <utility>

namespace openbnns {
namespace OPENBNNS_ISA {
namespace {

void finish(const FewColumns& p, int64_t row, int column, Vec sum) {
  float lane[kWidth];
  store(lane, sum);
  float* c = p.c + row * p.c_row + column;
  const int64_t rows = std::min<int64_t>(p.tile, p.rows - row);
  for (int64_t i = 0; i < rows; i++, c += p.c_row) switch (p.write) {
      case Write::Set:
        *c = lane[i];
        break;
      case Write::Add:
        *c = *c + lane[i];
        break;
      case Write::ColumnBias:
        *c = lane[i] + p.bias[column];
        break;
      case Write::RowBias:
        *c = lane[i] + p.bias[row + i];
        break;
    }
}

// With fewer columns, more tiles at a time: each has its own sums, and several keep the units busy.
template <int kColumns>
void multiply(const FewColumns& p) {
  constexpr int kTiles = kColumns <= 2 ? 4 : kColumns <= 4 ? 2 : 1;
  const int64_t tiles = (p.rows + p.tile - 1) / p.tile;
  for (int64_t first = 0; first < tiles; first += kTiles) {
    const float* a[kTiles];
    Vec sum[kTiles][kColumns];
    OPENBNNS_UNROLL for (int t = 0; t < kTiles; t++) {
      a[t] = p.a + std::min(first + t, tiles - 1) * p.a_tile;
      OPENBNNS_UNROLL for (int column = 0; column < kColumns; column++) sum[t][column] = Vec{};
    }
    const float* b = p.b;
    for (int64_t k = 0; k < p.steps; k++, b += p.b_step) OPENBNNS_UNROLL for (int t = 0; t < kTiles; t++) {
        const Vec rows = load(a[t] + k * kWidth);
        OPENBNNS_UNROLL for (int column = 0; column < kColumns; column++) sum[t][column] += rows * splat(b[column]);
      }
    OPENBNNS_UNROLL for (int t = 0; t < kTiles; t++) if (first + t < tiles)
        OPENBNNS_UNROLL for (int column = 0; column < kColumns; column++)
            finish(p, (first + t) * p.tile, column, sum[t][column]);
  }
}

template <int... kColumns>
void multiply(const FewColumns& p, std::integer_sequence<int, kColumns...>) {
  constexpr void (*kernel[])(const FewColumns&) = {multiply<kColumns + 1>...};
  kernel[p.columns - 1](p);
}

}  // namespace

void multiply_few_columns(const FewColumns& p) { multiply(p, std::make_integer_sequence<int, kFewColumns>{}); }

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
