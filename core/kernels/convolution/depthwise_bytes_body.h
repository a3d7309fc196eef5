// Body of the kernels of depthwise_bytes.h; included only by the sources that instantiate it.
#pragma once
#include <algorithm>

#include "kernels/convolution/depthwise_bytes.h"
#include "simd/vec.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace {

typedef int32_t UnalignedGroups __attribute__((vector_size(kWidth * 4), aligned(4), may_alias));

OPENBNNS_INLINE IntVec load_groups(const ByteGroup* p) { return *reinterpret_cast<const UnalignedGroups*>(p); }
template <class Number>
OPENBNNS_INLINE void store_groups(Number* p, IntVec v) {
  *reinterpret_cast<UnalignedGroups*>(p) = v;
}

// Dot::add(sum, a, b) adds the products of the groups of each lane. kEntries: 0 for any number of them.
template <int kEntries, class Dot>
void sum_byte_rows(const ByteRows& t) {
  const int entries = kEntries ? kEntries : t.entries;
  const int64_t last = std::max<int64_t>(0, t.columns - kWidth);  // the last vector of a row overlaps others
  IntVec weight[kEntries ? kEntries : 1];
  OPENBNNS_UNROLL for (int e = 0; e < kEntries; e++) weight[e] = splat_int(static_cast<int32_t>(t.weights[e]));
  const ByteGroup* groups = t.groups;
  int32_t* sums = t.sums;
  for (int64_t r = 0; r < t.rows; r++, groups += t.groups_step, sums += t.sums_step)
    for (int64_t c = 0; c < t.columns; c += kWidth) {
      const int64_t column = std::min(c, last);
      IntVec sum = splat_int(t.start);
      const auto add = [&](int e, IntVec w) { sum = Dot::add(sum, load_groups(groups + column + t.offset[e]), w); };
      if (kEntries)
        OPENBNNS_UNROLL for (int e = 0; e < kEntries; e++) add(e, weight[e]);
      else
        for (int e = 0; e < entries; e++) add(e, splat_int(static_cast<int32_t>(t.weights[e])));
      if (t.columns >= kWidth)
        store_groups(sums + column, sum);
      else
        std::memcpy(sums, &sum, static_cast<size_t>(t.columns) * sizeof(int32_t));
    }
}

// kEach: rows of a group.
template <int kEach, class Dot>
void roll_rows(const RollingRows& t) {
  constexpr int kRows = kEach + 2;  // of results in the making
  const int64_t last = std::max<int64_t>(0, t.columns - kWidth);
  IntVec weight[kRows][3];
  OPENBNNS_UNROLL for (int j = 0; j < kRows; j++) OPENBNNS_UNROLL for (int k = 0; k < 3; k++) weight[j][k] =
      splat_int(static_cast<int32_t>(t.weights[j * 3 + k]));
  const IntVec start = splat_int(t.start);
  for (int64_t c = 0; c < t.columns; c += kWidth) {
    const int64_t column = std::min(c, last);
    const ByteGroup* from = t.groups + column;
    int32_t* to = t.sums + column - 2 * t.columns;
    IntVec carried[2] = {start, start};
    for (int64_t row = -2; row < t.rows; row += kEach, from += t.groups_step) {
      const IntVec x[3] = {load_groups(from), load_groups(from + t.tap_step), load_groups(from + 2 * t.tap_step)};
      IntVec sum[kRows];
      OPENBNNS_UNROLL for (int j = 0; j < kRows; j++) {
        sum[j] = j < 2 ? carried[j] : start;
        OPENBNNS_UNROLL for (int k = 0; k < 3; k++) sum[j] = Dot::add(sum[j], x[k], weight[j][k]);
      }
      OPENBNNS_UNROLL for (int j = 0; j < kEach; j++, to += t.columns) {
        if (row + j < 0 || row + j >= t.rows) continue;
        if (t.columns >= kWidth)
          store_groups(to, sum[j]);
        else
          std::memcpy(to, &sum[j], static_cast<size_t>(t.columns) * sizeof(int32_t));
      }
      carried[0] = sum[kEach];
      carried[1] = sum[kEach + 1];
    }
  }
}

template <class Dot>
ByteRowsKernel byte_rows_kernel(int entries) {
  return entries == 3 ? sum_byte_rows<3, Dot> : entries == 6 ? sum_byte_rows<6, Dot> : sum_byte_rows<0, Dot>;
}

}  // namespace
}  // namespace OPENBNNS_ISA
}  // namespace openbnns
