// Body of the kernels of the matrix product; included only by the sources that instantiate it. The rows of A lie side
// by side for each step, so that a step touches one cache line of A; with the steps of a row side by side it touches
// one for each row, which costs an eighth of the speed where another thread uses the same L1.
#pragma once
#include "gemm/micro_kernel_body.h"
#include "runtime/product_tuning.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace {

constexpr int kManySteps = 128;  // so many make it likely that C is not in the cache

// Products::add(sum, a, b) adds what a step of each lane adds; elements of B are asked for Products::kAhead before
// their use, if that is not 0.
template <int kRows, int kBlocks, class Products>
struct ProductKernel {
  using Ways = Writes<Write::Set, Write::Add, Write::ColumnBias, Write::RowBias>;
  using Finish = MicroKernel<kRows, kBlocks, 1, kWidth, 1, Rows::Plain, Ways>;
  static constexpr int kVectors = Finish::kVectors;

  static OPENBNNS_INLINE void step(const float* a, const float* b, Vec (&sum)[kRows][kVectors]) {
    Vec column[kVectors];
    OPENBNNS_UNROLL for (int v = 0; v < kVectors; v++) {
      column[v] = load(b + v * kWidth);
      if (Products::kAhead > 0 && v * kWidth % kBlock == 0) __builtin_prefetch(b + v * kWidth + Products::kAhead);
    }
    OPENBNNS_UNROLL for (int row = 0; row < kRows; row++) {
      const Vec x = splat(a[row]);
      OPENBNNS_UNROLL for (int v = 0; v < kVectors; v++) sum[row][v] = Products::add(sum[row][v], x, column[v]);
    }
  }

  static void run(const Tile& t) {
    Vec sum[kRows][kVectors];
    OPENBNNS_UNROLL for (int row = 0; row < kRows; row++) OPENBNNS_UNROLL for (int v = 0; v < kVectors; v++)
        sum[row][v] = Vec{};
    if (t.entries >= kManySteps) Finish::ask_for_tile(t);
    const float *a = t.a, *b = t.b, *next = t.next;
    const int64_t a_step = t.a_step, b_step = t.b_step, next_step = t.next_step, ahead = kTuned.steps_ahead * a_step;
    int k = t.entries;
    for (; k >= 2; k -= 2, a += 2 * a_step, b += 2 * b_step, next += next_step) {
      __builtin_prefetch(next, 0, 2);
      if (kWidth > 4) __builtin_prefetch(a + ahead);  // else a line has many steps
      if (kWidth == kBlock) __builtin_prefetch(a + ahead + a_step);
      step(a, b, sum);
      step(a + a_step, b + b_step, sum);
    }
    if (k > 0) step(a, b, sum);
    Finish::finish(t, sum);
  }
};

template <class Products, int kBlocks, int... kRows>
TileKernel product_kernel_of(int rows, std::integer_sequence<int, kRows...>) {
  static constexpr TileKernel kernel[] = {ProductKernel<kRows + 1, kBlocks, Products>::run...};
  return kernel[rows - 1];
}

template <class Products>
TileKernel product_kernel_of(int blocks, int rows) {
  constexpr auto all = std::make_integer_sequence<int, kWideRows>{};
  return blocks == 1 ? product_kernel_of<Products, 1>(rows, all) : product_kernel_of<Products, kWideBlocks>(rows, all);
}

}  // namespace
}  // namespace OPENBNNS_ISA
}  // namespace openbnns
