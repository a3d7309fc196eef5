// Blocks in tiles that stay in the first-level cache, and where their gradients go: one code for all operations.
#include <algorithm>

#include "kernels/arithmetic/blocks.h"
#include "simd/stream.h"
#include "simd/wide.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace arithmetic {
namespace {

constexpr int64_t kTile = 1024;  // elements
using Tile = float[kTile + kWidth];

// body(row, column, rows, columns) for parts of [rows][columns] of at most kTile elements: whole rows, or pieces of a
// row that end where `out`, a tensor with this row stride, has the end of a cache line.
template <class Body>
void for_each_tile(int64_t rows, int64_t columns, const float* out, int64_t row_stride, Body body) {
  constexpr int64_t kLine = 16;
  const int64_t together = columns > kTile ? 1 : std::max<int64_t>(1, kTile / std::max<int64_t>(1, columns));
  for (int64_t r = 0; r < rows; r += together) {
    if (columns <= kTile) {
      body(r, int64_t{0}, std::min(together, rows - r), columns);
      continue;
    }
    const auto address = reinterpret_cast<uintptr_t>(out + r * row_stride);
    int64_t end = kTile - static_cast<int64_t>(address / sizeof(float) % kLine);
    for (int64_t c = 0; c < columns; c = end, end += kTile) body(r, c, int64_t{1}, std::min(end, columns) - c);
  }
}

template <bool kStream>
void copy_run(float* to, const float* from, int64_t count) {
  over_vectors<kStream>(
      to, count, [&](int64_t i) { put<kStream>(to + i, load(from + i)); },
      [&](int64_t i, int64_t lanes) { store_partial(to + i, load_partial(from + i, lanes), lanes); });
}

void add_run(float* to, const float* from, int64_t count) {
  over_vectors<false>(
      to, count, [&](int64_t i) { store(to + i, load(to + i) + load(from + i)); },
      [&](int64_t i, int64_t lanes) {
        store_partial(to + i, load_partial(to + i, lanes) + load_partial(from + i, lanes), lanes);
      });
}

void add_wide(double* to, const float* from, int64_t count) {
  int64_t i = 0;
  for (; i + kWidth <= count; i += kWidth) store_wide(to + i, load_wide(to + i) + widen(load(from + i)));
  if (i < count) store_wide(to + i, load_wide(to + i) + widen(load_partial(from + i, count - i)));
}

double sum_run(const float* from, int64_t count) {
  WideVec total[2] = {};
  int64_t i = 0;
  for (; i + 2 * kWidth <= count; i += 2 * kWidth) {
    total[0] = total[0] + widen(load(from + i));
    total[1] = total[1] + widen(load(from + i + kWidth));
  }
  for (; i < count; i += kWidth)
    total[0] = total[0] + widen(load_partial(from + i, std::min<int64_t>(kWidth, count - i)));
  return sum_lanes(total[0] + total[1]);
}

// Where a gradient of [rows][columns], rows `step` apart, goes.
void deliver(const Target& t, int64_t row, int64_t column, const float* g, int64_t step, int64_t rows, int64_t columns,
             bool stream) {
  if (step == columns && t.row_stride == columns && t.sink != Sink::kSumColumns) {  // one run
    columns *= rows;
    rows = 1;
  }
  for (int64_t r = 0; r < rows; r++, g += step) {
    const int64_t place = (row + r) * t.row_stride + (t.sink == Sink::kSumColumns ? 0 : column);
    switch (t.sink) {
      case Sink::kSet:
        if (stream)
          copy_run<true>(t.data + place, g, columns);
        else
          copy_run<false>(t.data + place, g, columns);
        break;
      case Sink::kAdd:
        add_run(t.data + place, g, columns);
        break;
      case Sink::kSumRows:
        add_wide(t.sums + place, g, columns);
        break;
      case Sink::kSumColumns:
        t.sums[place] += sum_run(g, columns);
        break;
      case Sink::kSkip:
        break;
    }
  }
}

// How the gradients of a block are made.
struct Route {
  bool computed[3];  // by the operation's kernel; else the gradient is dz, or not wanted
  bool direct[3];    // and written to its place by that kernel; else to a tile first
  bool any = false;

  Route(const BlockKernels& kernels, const BackwardBlock& b) {
    const bool merged[3] = {b.same[0] || b.same[1], b.same[0] || b.same[2], b.same[1] || b.same[2]};
    bool apart = b.dz.column_step == 1;  // from dz, which no gradient overwrites
    for (const Target& t : b.target) apart = apart && t.data != b.dz.data;
    for (int i = 0; i < 3; i++) {
      const bool wanted = b.target[i].sink != Sink::kSkip;
      computed[i] = merged[i] || (wanted && !(kernels.passes[i] && apart));
      direct[i] = b.target[i].sink == Sink::kSet && !b.stream && !merged[i];
      any = any || computed[i];
    }
  }
};

const float* streamed(const BackwardBlock& block, int64_t* row_stride) {
  for (const Target& t : block.target)
    if (t.sink == Sink::kSet) {
      *row_stride = t.row_stride;
      return t.data;
    }
  return nullptr;
}

}  // namespace

void forward_streaming(const BlockKernels& kernels, const ForwardBlock& block, RowTask then, const void* context) {
  alignas(64) Tile tile;
  const Target out{Sink::kSet, block.out, nullptr, block.out_row_stride};
  for_each_tile(block.rows, block.columns, block.out, block.out_row_stride,
                [&](int64_t row, int64_t column, int64_t rows, int64_t columns) {
                  ForwardBlock part{{}, tile, columns, rows, columns};
                  for (int i = 0; i < 3; i++) part.operand[i] = block.operand[i].at(row, column);
                  kernels.forward(part);
                  for (int64_t r = 0; then && r < rows; r++) then(context, tile + r * columns, columns);
                  deliver(out, row, column, tile, columns, rows, columns, true);
                });
}

void backward(const BlockKernels& kernels, const BackwardBlock& block) {
  const Route route(kernels, block);
  alignas(64) Tile tile[4];  // of the gradients and, where it is recomputed, of the output
  int64_t row_stride = 0;
  const float* aligned = block.stream ? streamed(block, &row_stride) : nullptr;
  for_each_tile(block.rows, block.columns, aligned, row_stride,
                [&](int64_t row, int64_t column, int64_t rows, int64_t columns) {
                  GradientBlock part{{}, block.output.at(row, column), block.dz.at(row, column), {}, {}, rows, columns};
                  for (int i = 0; i < 3; i++) {
                    const Target& t = block.target[i];
                    part.operand[i] = block.operand[i].at(row, column);
                    if (!route.computed[i]) continue;
                    part.gradient[i] = route.direct[i] ? t.data + row * t.row_stride + column : tile[i];
                    part.row_stride[i] = route.direct[i] ? t.row_stride : columns;
                  }
                  if (kernels.uses_output && !block.output_given && route.any) {
                    const Source* a = part.operand;
                    kernels.forward({{a[0], a[1], a[2]}, tile[3], columns, rows, columns});
                    part.output = {tile[3], columns, 1};
                  }
                  if (route.any) kernels.gradients(part);
                  if (block.same[0]) add_run(tile[0], tile[1], rows * columns);
                  if (block.same[1]) add_run(tile[0], tile[2], rows * columns);
                  if (block.same[2]) add_run(tile[1], tile[2], rows * columns);
                  for (int i = 0; i < 3; i++) {
                    if (route.computed[i] && route.direct[i]) continue;
                    const float* g = route.computed[i] ? tile[i] : part.dz.data;
                    const int64_t step = route.computed[i] ? columns : part.dz.row_stride;
                    deliver(block.target[i], row, column, g, step, rows, columns, block.stream);
                  }
                });
}

}  // namespace arithmetic
}  // namespace OPENBNNS_ISA
}  // namespace openbnns
