// Tiles of a matrix product: what multiplies packed operands, and asks for those that are packed next.
#pragma once
#include "gemm/product_cuts.h"

namespace openbnns {
namespace OPENBNNS_ISA {

// Columns [column, column + columns) and steps [step, step + steps) of the product.
struct Panel {
  int64_t column, columns, step, steps;
  const float* b;  // as pack_b leaves it
  bool first, last;
};

// Tiles of rows of A, `tile` elements from one to the next, in each of them A[row][k] at row + k * step, or for a
// matrix unit at row * step + k.
struct TilesOfA {
  const float* a;
  int64_t tile, step;
};

// The part of an operand that is packed next, [rows][columns] of a row-major matrix: kernels ask for it while they
// multiply, a column of cache lines each, so that packing does not wait for memory. The last kernels before it is
// needed do so: what comes earlier would be out of the cache again.
class Ahead {
 public:
  Ahead(const float* from, int64_t stride, int64_t rows, int64_t columns)
      : from_(from), stride_(stride), rows_(rows), columns_(columns) {}

  static Ahead of_a(const MatrixProduct& p, int64_t row, int64_t rows, int64_t step, int64_t steps) {
    const int64_t each = numbers_per_step(p.sums);
    return of(p.a, p.a_element, p.lda, p.transpose_a, row, rows, step * each, steps * each);
  }
  static Ahead of_b(const MatrixProduct& p, int64_t column, int64_t columns, int64_t step, int64_t steps) {
    const int64_t each = numbers_per_step(p.sums);
    return of(p.b, p.b_element, p.ldb, !p.transpose_b, column, columns, step * each, steps * each);
  }

  // A packed panel, a line at a time.
  static Ahead of_packed(const MatrixProduct& p, int64_t column, int64_t columns, int64_t step, int64_t steps) {
    const int64_t numbers = columns * steps, bytes = is_ready(p) ? 4 : p.b_element.bytes();
    return {packed_panel(p, column, step, steps), kBlock, numbers * bytes / (4 * kBlock), kBlock};
  }

  // For the last of so many kernels, each of so many steps.
  void spread(int64_t kernels, int64_t steps) {
    const int64_t lines = std::max<int64_t>(1, steps / 2);
    idle_ = kernels - (rows_ + lines - 1) / lines * ((columns_ + kBlock - 1) / kBlock);
  }

  void ask(Tile& tile) {
    bool done = row_ >= rows_ || idle_-- > 0;
    tile.next = done ? tile.a : from_ + row_ * stride_ + column_;
    tile.next_step = done ? 0 : stride_;
    if (done) return;
    column_ += kBlock;
    if (column_ < columns_) return;
    column_ = 0;
    row_ += tile.entries / 2;
  }

 private:
  // Lines [first, first + lines) of an operand, from `step` on; `across`: they lie side by side. In units of floats.
  static Ahead of(const float* from, const Element& element, int64_t ld, bool across, int64_t first, int64_t lines,
                  int64_t step, int64_t steps) {
    const int64_t row = across ? step : first, rows = across ? steps : lines;
    const int64_t column = across ? first : step, columns = across ? lines : steps;
    return {moved(from, element, row * ld + column), ld * element.bytes() / 4, rows, columns * element.bytes() / 4};
  }

  const float* from_;
  int64_t stride_, rows_, columns_, row_ = 0, column_ = 0, idle_ = 0;
};

// Rows of the tiles [first, last) over the columns of the panel; a: these tiles. Groups of columns of B stay in L2, and
// so do groups of tiles of A.
void multiply_tiles(const MatrixProduct& p, const ProductCut& cut, const Panel& panel, const TilesOfA& a, int64_t first,
                    int64_t last, Ahead ahead);

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
