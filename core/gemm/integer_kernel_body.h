// Body of the kernels of exact integer sums; included only by the sources that instantiate it. They work like those of
// TileForm::Product, but a step is a group of integers in 32 bits, and C is int32.
#pragma once
#include <utility>

#include "gemm/integer_kernel.h"
#include "gemm/micro_kernel_body.h"
#include "runtime/product_tuning.h"
#include "simd/vec.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace {

typedef int32_t UnalignedIntVec __attribute__((vector_size(kWidth * 4), aligned(4), may_alias));

OPENBNNS_INLINE IntVec load_groups(const float* p) { return *reinterpret_cast<const UnalignedIntVec*>(p); }
OPENBNNS_INLINE void store_sums(float* p, IntVec v) { *reinterpret_cast<UnalignedIntVec*>(p) = v; }

// Dot::add(sum, a, b) adds the products of the groups of each lane.
template <int kRows, int kBlocks, class Dot>
struct IntegerKernel {
  static constexpr int kParts = kBlock / kWidth;
  static constexpr int kVectors = kBlocks * kParts;

  static OPENBNNS_INLINE void step(const float* a, const float* b, IntVec (&sum)[kRows][kVectors]) {
    IntVec column[kVectors];
    OPENBNNS_UNROLL for (int v = 0; v < kVectors; v++) column[v] = load_groups(b + v * kWidth);
    OPENBNNS_UNROLL for (int row = 0; row < kRows; row++) {
      const IntVec x = bits(splat(a[row]));
      OPENBNNS_UNROLL for (int v = 0; v < kVectors; v++) sum[row][v] = Dot::add(sum[row][v], x, column[v]);
    }
  }

  static void run(const Tile& t) {
    IntVec sum[kRows][kVectors];
    OPENBNNS_UNROLL for (int row = 0; row < kRows; row++) OPENBNNS_UNROLL for (int v = 0; v < kVectors; v++)
        sum[row][v] = IntVec{};
    const float *a = t.a, *b = t.b, *next = t.next;
    const int64_t b_step = t.b_step, next_step = t.next_step, ahead = kTuned.steps_ahead * kWidth;
    int k = t.entries;
    for (; k >= 2; k -= 2, a += 2 * kWidth, b += 2 * b_step, next += next_step) {
      __builtin_prefetch(next, 0, 2);
      __builtin_prefetch(a + ahead);
      step(a, b, sum);
      step(a + kWidth, b + b_step, sum);
    }
    if (k > 0) step(a, b, sum);
    float* c = t.c;
    for (int row = 0; row < kRows; row++, c += t.c_row) OPENBNNS_UNROLL for (int v = 0; v < kVectors; v++) {
        float* to = c + (v / kParts) * t.c_block + (v % kParts) * kWidth;
        store_sums(to, t.write == Write::Add ? load_groups(to) + sum[row][v] : sum[row][v]);
      }
  }
};

template <class Dot, int kBlocks, int... kRows>
TileKernel integer_kernel_of(int rows, std::integer_sequence<int, kRows...>) {
  static constexpr TileKernel kernel[] = {IntegerKernel<kRows + 1, kBlocks, Dot>::run...};
  return kernel[rows - 1];
}

template <class Dot>
TileKernel integer_kernel_of(int blocks, int rows) {
  constexpr auto all = std::make_integer_sequence<int, kWideRows>{};
  return blocks == 1 ? integer_kernel_of<Dot, 1>(rows, all) : integer_kernel_of<Dot, kWideBlocks>(rows, all);
}

// Groups of integers, and their sums, in the lanes of vectors of floats.
template <class Dot>
struct GroupProducts {
  static OPENBNNS_INLINE Vec add(Vec sum, Vec x, Vec column) {
    return from_bits(Dot::add(bits(sum), bits(x), bits(column)));
  }
};

// The same with the operands exchanged.
template <class Dot>
struct ExchangedProducts {
  static OPENBNNS_INLINE Vec add(Vec sum, Vec x, Vec column) { return GroupProducts<Dot>::add(sum, column, x); }
};

template <class Dot>
TileKernel integer_planes_kernel_of(int blocks, int rows) {
  return KernelTable<1, 1, 1, Rows::Plain, Writes<Write::Set>, kWideRows, kWideRows, ExchangedProducts<Dot>>::get(
      blocks, rows);
}

template <class Dot>
TileKernel integer_edge_kernel_of(int blocks, int rows) {
  return KernelTable<kBlock, 1, kDepth, Rows::Edge, Writes<Write::Set>, kWideRows, kNarrowRows,
                     GroupProducts<Dot>>::get(blocks, rows);
}

}  // namespace
}  // namespace OPENBNNS_ISA
}  // namespace openbnns
