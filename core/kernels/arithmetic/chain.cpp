// Elementwise functions one after the other, on pieces whose intermediate values stay in the first-level cache. Every
// function computes what it does by itself, bit by bit.
#include "kernels/arithmetic/chain.h"

#include <algorithm>

#include "common/pieces.h"
#include "common/stored_rows.h"
#include "kernels/activation/activation.h"
#include "kernels/arithmetic/blocks.h"
#include "kernels/kernels.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace {

using arithmetic::ForwardBlock;
using arithmetic::Source;

constexpr int64_t kTogether = 1024;      // elements of a piece, or fewer
constexpr int64_t kRoomElements = 8192;  // on the stack, so that no worker allocates memory when it first takes part

// Elements of a piece, so that there is room for all values that are not in memory, and one more for what is stored.
int64_t elements_together(const Chain& chain) { return std::min(kTogether, kRoomElements / (chain.rooms + 1)); }

// Rows [row, row + rows) of one index of the first axis, and some of their columns: all of them unless rows is 1.
struct ChainPiece {
  int64_t outer, row, rows, column, columns;

  int64_t count() const { return rows * columns; }
};

class ChainRun {
 public:
  ChainRun(const Chain& chain, float* rooms) : chain_(chain), together_(elements_together(chain)), rooms_(rooms) {}

  void step(const ChainStep& step, const ChainPiece& piece) const {
    const bool stored = !step.element.is_float32();
    float* result = stored ? rooms_ + chain_.rooms * together_ : result_of(step.result, piece);
    const float* from = result;
    if (step.function < 0)
      from = source(step.operands[0], piece).data;
    else
      compute(step, piece, result);
    if (!is_identity(step.activation) || (step.function < 0 && !stored)) {
      activation_forward(step.activation, from, result, piece.count(), piece.columns);
      from = result;
    }
    if (stored)
      encode(step.element, from, piece.count(),
             moved(chain_.values[index(step.result)].data, step.element, offset(step.result, piece)));
  }

 private:
  static size_t index(int value) { return static_cast<size_t>(value); }
  bool in_memory(int value) const { return index(value) < chain_.values.size(); }

  int64_t offset(int value, const ChainPiece& piece) const {
    const int64_t (&stride)[3] = chain_.values[index(value)].stride;
    return piece.outer * stride[0] + piece.row * stride[1] + piece.column * stride[2];
  }

  float* result_of(int value, const ChainPiece& piece) const {
    if (!in_memory(value)) return rooms_ + (value - static_cast<int>(chain_.values.size())) * together_;
    return static_cast<float*>(chain_.values[index(value)].data) + offset(value, piece);
  }

  Source source(int value, const ChainPiece& piece) const {
    const float* data = result_of(value, piece);
    if (!in_memory(value)) return {data, piece.columns, 1};
    const int64_t (&stride)[3] = chain_.values[index(value)].stride;
    return {data, stride[1], stride[2]};
  }

  void compute(const ChainStep& step, const ChainPiece& piece, float* result) const {
    ForwardBlock block{{}, result, piece.columns, piece.rows, piece.columns};
    bool joins = true;  // the rows, to a single one
    for (int i = 0; i < 3; i++) {
      const Source& s = block.operand[i] = source(step.operands[i], piece);
      joins = joins && s.row_stride == s.column_step * piece.columns;
    }
    if (joins) {
      block.columns = piece.count();
      block.rows = 1;
    }
    arithmetic::block_kernels(step.function).forward(block);
  }

  const Chain& chain_;
  const int64_t together_;
  float* const rooms_;
};

}  // namespace

void run_chain(const Chain& chain, int threads) {
  const auto& [outer, rows, columns] = chain.size;
  if (outer * rows * columns == 0) return;
  const int64_t most = elements_together(chain);
  const int64_t parts = (columns + most - 1) / most, width = std::min(columns, most);
  const int64_t together = std::clamp<int64_t>(most / columns, 1, rows), groups = (rows + together - 1) / together;
  const int64_t pieces = outer * groups * parts, each = std::max<int64_t>(1, kPiece / (together * width));
  const int workers = worthy_workers(threads, outer * rows * columns, kPiece);
  dynamic_items(workers, (pieces + each - 1) / each, [&](int64_t item) {
    alignas(64) float rooms[kRoomElements];
    const ChainRun run(chain, rooms);
    for (int64_t i = item * each; i < std::min(pieces, (item + 1) * each); i++) {
      const int64_t column = i % parts * width, row = i / parts % groups * together;
      const ChainPiece piece{i / parts / groups, row, std::min(together, chain.size[1] - row), column,
                             std::min(width, chain.size[2] - column)};
      for (const ChainStep& step : chain.steps) run.step(step, piece);
    }
  });
}

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
