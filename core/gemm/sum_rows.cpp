#include <algorithm>

#include "gemm/gemm.h"
#include "gemm/partial.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace {

// kVectors vectors of columns side by side; only `last` lanes of the last one exist.
template <int kVectors>
void sum_vectors(const float* matrix, int64_t row_stride, int64_t rows, Lanes last, float* sums, bool accumulate) {
  const auto lanes = [=](int v) { return v < kVectors - 1 ? Lanes(kWidth) : last; };
  Vec sum[kVectors];
  OPENBNNS_UNROLL for (int v = 0; v < kVectors; v++) sum[v] = Vec{};
  for (int64_t i = 0; i < rows; i++, matrix += row_stride)
    OPENBNNS_UNROLL for (int v = 0; v < kVectors; v++) sum[v] += lanes(v).load(matrix + v * kWidth);
  OPENBNNS_UNROLL for (int v = 0; v < kVectors; v++) {
    float* to = sums + v * kWidth;
    lanes(v).store(to, accumulate ? lanes(v).load(to) + sum[v] : sum[v]);
  }
}

void sum_few_rows(const float* matrix, int64_t row_stride, int64_t rows, int64_t columns, float* sums,
                  bool accumulate) {
  constexpr int kVectors = 4;
  int64_t j = 0;
  for (; j + kVectors * kWidth <= columns; j += kVectors * kWidth)
    sum_vectors<kVectors>(matrix + j, row_stride, rows, Lanes(kWidth), sums + j, accumulate);
  for (; j < columns; j += kWidth)
    sum_vectors<1>(matrix + j, row_stride, rows, Lanes(std::min<int64_t>(kWidth, columns - j)), sums + j, accumulate);
}

}  // namespace

void sum_rows(const float* matrix, int64_t row_stride, int64_t rows, int64_t columns, float* sums, bool accumulate) {
  constexpr int64_t kBlock = 256;  // sums of sums: the rounding error of n terms grows like n / kBlock + kBlock
  for (int64_t i = 0; i < rows || i == 0; i += kBlock)
    sum_few_rows(matrix + i * row_stride, row_stride, rows - i < kBlock ? rows - i : kBlock, columns, sums,
                 accumulate || i > 0);
}

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
