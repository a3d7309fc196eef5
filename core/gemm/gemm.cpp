#include "gemm/gemm.h"

#include <algorithm>

#include "common/scratch_uses.h"
#include "common/stored_rows.h"
#include "gemm/few_columns.h"
#include "gemm/gemm_small.h"
#include "gemm/integer_kernel.h"
#include "gemm/pack.h"
#include "gemm/partial.h"
#include "gemm/sources.h"
#include "gemm/stored_product.h"
#include "runtime/caches.h"
#include "runtime/dynamic_items.h"
#include "runtime/partition.h"
#include "runtime/scratch.h"
#include "runtime/thread_pool.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace {

// The sum over k is cut into blocks of at most kDepthBlock steps, the same for every way of sharing the work.
constexpr int kDepthBlock = 384;
constexpr int64_t kSharedFloats = int64_t{1} << 18;  // of the operand that all threads read (1 MB)
constexpr int64_t kPanelColumns = 32;                // of B packed together
constexpr int64_t kKeptPanels = 64;                  // of B that stay in L2, at most, however few steps they have
constexpr int64_t kThreadGroups = 4;                 // of such columns, at least, where there are enough of them
constexpr int64_t kTaskTiles = 8;                    // of rows, in a task that works on all columns, at most
constexpr int64_t kReadColumns = 64;                 // for which A is read where it lies, at most
constexpr int64_t kAloneRows = 128;                  // for which every worker packs all of B, at least,
constexpr int64_t kAloneSmallRows = 48;              // or so many, if B has
constexpr int64_t kAloneFloats = int64_t{1} << 16;   // no more elements than this (256 KB),
constexpr int64_t kAloneWideRows = 256;              // or so many, if it has more columns than A has rows;
constexpr int64_t kPartRows = 1024;                  // for so many, it may as well do so again
constexpr int64_t kAloneColumns = 64;                // for which every worker packs all of a small A, at least
constexpr int64_t kFewSteps = 32;
constexpr double kWriteSteps = 8;           // steps in the time that writing an element of C takes
constexpr double kOtherGain = 1.05;         // for which a product is cut by its shorter side
constexpr int64_t kSideRows = 8;            // of a product that is one of several, at least
constexpr double kReadRows = 3;             // of arithmetic, in the time that a product of few rows takes to read B
constexpr double kPieceProducts = 1 << 24;  // of a row, after which a product of few rows can be interrupted

// The floats that fit into the second cache of a core (1 MB if nobody says). What is cut by them are rows and columns
// only, never a sum: results are the same on every CPU of an instruction set.
int64_t second_cache_floats() {
  constexpr int64_t kUsual = int64_t{1} << 20, kLeast = kUsual / 4, kMost = 2 * kUsual;
  const int64_t bytes = second_level_cache_bytes();
  return (bytes > 0 ? std::clamp(bytes, kLeast, kMost) : kUsual) / static_cast<int64_t>(sizeof(float));
}
// Of B, that stay in it while tiles of A pass by.
int64_t kept_floats() { return second_cache_floats() / 4; }

// Columns [column, column + columns) and steps [step, step + steps) of the product.
struct Panel {
  int64_t column, columns, step, steps;
  const float* b;  // as pack_b leaves it
  bool first, last;
};

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

int64_t lanes_of(int64_t count) { return std::max<int64_t>(0, std::min<int64_t>(kWidth, count)); }

// Whether tiles read B where it lies: when all rows fit into one, a copy would be read once.
bool reads_b_in_place(const MatrixProduct& p, int64_t columns) {
  return !p.transpose_b && !p.packed_b && p.m <= kWideRows && columns >= kWideColumns && p.b_element.is_float32();
}

// Whether tiles read A where it lies: its rows lie side by side already, and a copy would be read a few times only.
bool reads_a_in_place(const MatrixProduct& p, int tile) {
  return p.transpose_a && p.a_element.is_float32() && p.n <= kReadColumns && few_columns(p.n, tile) == 0;
}

// Whether p.packed_b is what kernels read. Elements that become floats are kept as they are stored.
bool is_ready(const MatrixProduct& p) {
  return p.packed_b && (p.b_element.is_float32() || p.sums != IntegerSums::kNone);
}

// Where pack_matrix_b has put the columns of a panel.
const float* packed_panel(const MatrixProduct& p, int64_t column, int64_t step, int64_t steps) {
  const int64_t elements = step * round_up(p.n, kBlock) + column * steps;
  return is_ready(p) ? p.packed_b + elements : moved(p.packed_b, p.b_element, elements);
}

// b: tiles of kWideColumns columns, [steps][kWideColumns] each; the last one is filled up with zeros to whole blocks of
// 16 columns. Tiles that are read in place are left out.
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

// The same for B as it is stored, or as pack_matrix_b has packed it.
void pack_b(const MatrixProduct& p, int64_t column, int64_t columns, int64_t step, int64_t steps, float* b) {
  if (p.packed_b)
    return decode(p.b_element, packed_panel(p, column, step, steps), round_up(columns, kBlock) * steps, b);
  with_source(p.sums, p.b_element, false,
              [&](const auto& source) { pack_b(source, p, column, columns, step, steps, b); });
}

// Rows from `row` on, `tile` of them in each of so many tiles. a: tiles, `tile_floats` apart, [steps][kWidth] each,
// any numbers beyond the rows of the tile.
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

void pack_a(const MatrixProduct& p, int64_t row, int tile, int64_t tiles, int64_t step, int64_t steps, float* a,
            int64_t tile_floats) {
  with_source(p.sums, p.a_element, true,
              [&](const auto& source) { pack_a(source, p, row, tile, tiles, step, steps, a, tile_floats); });
}

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

TileKernel kernel_of(const MatrixProduct& p, int blocks, int rows) {
  if (p.sums == IntegerSums::kNone) return tile_kernel(TileForm::Product, blocks, rows);
  return p.sums == IntegerSums::kPairs ? pair_sums_kernel(blocks, rows) : quad_sums_kernel(blocks, rows);
}

Write write_of(const MatrixProduct& p, const Panel& panel) {
  return p.accumulate || !panel.first ? Write::Add
         : p.row_bias                 ? Write::RowBias
         : p.column_bias              ? Write::ColumnBias
                                      : Write::Set;
}

// dst[row][0..columns) = src[row][0..columns), columns <= kWideColumns.
void copy_rows(const float* src, int64_t src_row, int rows, int64_t columns, float* dst, int64_t dst_row) {
  for (int row = 0; row < rows; row++, src += src_row, dst += dst_row)
    for (int64_t v = 0; v < columns; v += kWidth)
      store_partial(dst + v, load_partial(src + v, lanes_of(columns - v)), lanes_of(columns - v));
}

// Tiles of rows of A, `tile` elements from one to the next, in each of them A[row][k] at row + k * step.
struct TilesOfA {
  const float* a;
  int64_t tile, step;
};

int64_t panels_of(const MatrixProduct& p) { return (p.n + kPanelColumns - 1) / kPanelColumns; }

// How a product is cut up; nothing here touches the order of a sum.
struct Cut {
  int tile;             // rows of a tile
  int64_t tiles;        // of the rows
  int64_t depth_block;  // steps of one block of the sum
  int64_t depth_chunk;  // steps for which the shared operand is packed at a time

  Cut(const MatrixProduct& p, int64_t steps, int64_t shared_rows, int threads)
      : tile(even_tile(p.m, kWideRows)), tiles((p.m + tile - 1) / tile), depth_block(even_tile(steps, kDepthBlock)) {
    while (tile > kSideRows) {  // lower tiles, as long as there are more workers than tiles
      const int lower = even_tile(p.m, tile - 1);
      const int64_t more = (p.m + lower - 1) / lower;
      if (more * panels_of(p) > threads) break;
      tile = lower;
      tiles = more;
    }
    int64_t blocks = std::max<int64_t>(1, kSharedFloats / (shared_rows * depth_block));
    depth_chunk = std::min(round_up(steps, depth_block), blocks * depth_block);
  }
  int rows(const MatrixProduct& p, int64_t index) const {
    return static_cast<int>(std::min<int64_t>(tile, p.m - index * tile));
  }
  int64_t tile_floats() const { return depth_block * kWidth; }  // of A, packed
  int64_t kept_panels() const {
    return std::clamp<int64_t>(kept_floats() / (depth_block * kPanelColumns), 1, kKeptPanels);
  }
  // Tiles of A that stay in L2, while one tile of B after the other stays in L1 for all of them: that takes fewer loads
  // from L2 than the other way round. But wide tiles of B would fill L1.
  int64_t group_tiles() const {
    return kWideBlocks > 1 ? 1 : std::max<int64_t>(1, second_cache_floats() / 8 / tile_floats());
  }
  // Groups of panels, each of which stays in L2; several of them for each thread where there are enough: the one that
  // began first does more of them.
  int64_t column_groups(int64_t panels, int threads) const {
    const int64_t each = threads > 1 ? std::max<int64_t>(1, panels / (kThreadGroups * threads)) : panels;
    const int64_t most = std::min(kept_panels(), each);
    return (panels + most - 1) / most;
  }
};

// The tile of rows from `row` on over `width` columns of the panel from `column` on; tile: its operands.
void multiply_tile(const MatrixProduct& p, const Panel& panel, int64_t column, int64_t width, int blocks, int64_t row,
                   int rows, Tile& tile) {
  float* c = p.c + row * p.ldc + panel.column + column;
  tile.c = c;
  tile.c_row = p.ldc;
  if (tile.write == Write::RowBias) tile.bias = p.row_bias + row;
  if (tile.write == Write::ColumnBias) tile.bias = p.column_bias + panel.column + column;
  const TileKernel kernel = kernel_of(p, blocks, rows);
  if (width == blocks * kBlock) return kernel(tile);
  float edge[kWideRows * kWideColumns];  // a tile that sticks out of C to the right
  float edge_bias[kWideColumns];
  tile.c = edge;
  tile.c_row = kWideColumns;
  if (tile.write == Write::ColumnBias) {
    std::fill_n(std::copy_n(tile.bias, width, edge_bias), kWideColumns - width, 0.f);
    tile.bias = edge_bias;
  }
  if (tile.write == Write::Add) copy_rows(c, p.ldc, rows, width, edge, kWideColumns);
  kernel(tile);
  copy_rows(edge, kWideColumns, rows, width, c, p.ldc);
}

// Rows of the tiles [first, last) over the first `columns` columns of the panel; a: these tiles. What stays in L1 is
// the tile of A, if there is one, or else one tile of B after the other.
void multiply_group(const MatrixProduct& p, const Cut& cut, const Panel& panel, int64_t columns, const TilesOfA& a,
                    int64_t first, int64_t last, Ahead& ahead) {
  Tile tile{};
  tile.a_step = a.step;
  tile.entries = static_cast<int>(panel.steps);
  tile.c_block = kBlock;
  tile.write = write_of(p, panel);
  for (int64_t j = 0; j < columns; j += kWideColumns) {
    const int blocks = tile_blocks(columns - j);
    const int64_t width = std::min<int64_t>(blocks * kBlock, columns - j);
    const bool in_place = reads_b_in_place(p, width);
    tile.b = in_place ? p.b + panel.step * p.ldb + panel.column + j : panel.b + j * panel.steps;
    tile.b_step = in_place ? p.ldb : tile_blocks(panel.columns - j) * kBlock;
    for (int64_t i = first; i < last; i++) {
      tile.a = a.a + (i - first) * a.tile;
      ahead.ask(tile);
      multiply_tile(p, panel, j, width, blocks, i * cut.tile, cut.rows(p, i), tile);
    }
  }
}

// Rows of the tiles [first, last) over the columns of the panel; a: these tiles. Groups of columns of B stay in L2, and
// so do groups of tiles of A.
void multiply_tiles(const MatrixProduct& p, const Cut& cut, const Panel& panel, const TilesOfA& a, int64_t first,
                    int64_t last, Ahead ahead) {
  const int few = p.sums == IntegerSums::kNone ? few_columns(panel.columns, cut.tile) : 0;
  const int64_t most = panel.columns - few, kept = cut.kept_panels() * kPanelColumns, group = cut.group_tiles();
  if (few > 0) {
    const int64_t tile = most / kWideColumns * kWideColumns, column = panel.column + most;  // tile: as it is packed
    const int64_t row = first * cut.tile, rows = std::min(last * cut.tile, p.m) - row;
    const Write write = write_of(p, panel);
    multiply_few_columns({a.a, a.tile, cut.tile, panel.b + tile * panel.steps + most - tile,
                          tile_blocks(panel.columns - tile) * kBlock, rows, panel.steps, few,
                          p.c + row * p.ldc + column, p.ldc, write,
                          write == Write::RowBias      ? p.row_bias + row
                          : write == Write::ColumnBias ? p.column_bias + column
                                                       : nullptr});
  }
  ahead.spread((last - first) * ((most + kWideColumns - 1) / kWideColumns), panel.steps);
  for (int64_t j = 0; j < panel.columns; j += kept) {
    Panel part = panel;
    part.column += j;
    part.columns -= j;
    part.b += j * panel.steps;
    const int64_t columns = std::min(kept, most - j);
    for (int64_t tile = first; tile < last; tile += group) {
      const int64_t end = std::min(last, tile + group), row = tile * cut.tile;
      multiply_group(p, cut, part, columns, {a.a + (tile - first) * a.tile, a.tile, a.step}, tile, end, ahead);
      if (panel.last)
        finish_rows(p, row, std::min(p.m, end * cut.tile) - row, part.column, std::min(kept, part.columns));
    }
  }
}

// The columns of group `index` of so many groups of whole panels.
struct Columns {
  int64_t first, count;
};
Columns columns_of(const MatrixProduct& p, int64_t panels, int64_t index, int64_t groups) {
  const int64_t first = panels * index / groups * kPanelColumns;
  return {first, std::min(p.n, panels * (index + 1) / groups * kPanelColumns) - first};
}

// The time to pack an operand that is multiplied by so many rows or columns, over that of the product.
double time_of_packing(int64_t times) { return kPackFlops / (2.0 * static_cast<double>(times)); }
// Of the work on a packed panel.
double share_of_packing(int64_t times) { return time_of_packing(times) / (1 + time_of_packing(times)); }

// Tasks of groups of columns, and parts of the rows.
Cuts cut_by_columns(const MatrixProduct& p, const Cut& cut, int threads) {
  const int64_t panels = panels_of(p);
  return even_cuts(1, {panels, 0, cut.column_groups(panels, threads)},
                   {cut.tiles, is_ready(p) ? 0 : share_of_packing(p.m)}, threads);
}

// Usual for more columns than rows: A is packed once for all, and every task packs the columns of B it works on.
void product_by_columns(const MatrixProduct& p, const Cuts& cuts, int threads) {
  const int64_t depth = steps_of(p), panels = panels_of(p), groups = cuts.first, parts = cuts.second;
  const bool ready = is_ready(p);
  const Cut cut(p, depth, p.m, threads);
  float* a = scratch(kMatrixA, static_cast<size_t>(cut.tiles * kWidth * cut.depth_chunk));  // [depth block][tile]
  for (int64_t chunk = 0; chunk < depth; chunk += cut.depth_chunk) {
    int64_t end = std::min(depth, chunk + cut.depth_chunk),
            blocks = (end - chunk + cut.depth_block - 1) / cut.depth_block;
    int packers = useful_threads(threads, kPackFlops * static_cast<double>(p.m * (end - chunk)));
    const int64_t pack = even_group(cut.tiles, kTaskTiles, packers), packs = (cut.tiles + pack - 1) / pack;
    parallel_items(packers, blocks * packs, [&](int64_t item) {
      const int64_t tile = item % packs * pack, block = item / packs, step = chunk + block * cut.depth_block;
      pack_a(p, tile * cut.tile, cut.tile, std::min(pack, cut.tiles - tile), step,
             std::min(cut.depth_block, end - step), a + (block * cut.tiles + tile) * cut.tile_floats(),
             cut.tile_floats());
    });
    dynamic_items(threads, groups * parts, [&](int64_t item) {
      const int64_t part = item % parts, first = cut.tiles * part / parts, last = cut.tiles * (part + 1) / parts;
      const auto [column, columns] = columns_of(p, panels, item / parts, groups);
      const int64_t width = round_up(columns, kBlock);
      float* b = ready ? nullptr : scratch(kMatrixB, static_cast<size_t>(width * cut.depth_block));
      for (int64_t step = chunk; step < end; step += cut.depth_block) {
        const int64_t steps = std::min(cut.depth_block, end - step);
        Panel panel{column, columns, step, steps, b, step == 0, step + cut.depth_block >= depth};
        if (ready)
          panel.b = packed_panel(p, column, step, steps);
        else
          pack_b(p, column, columns, step, steps, b);
        const float* block = a + ((step - chunk) / cut.depth_block * cut.tiles + first) * cut.tile_floats();
        bool turns = step + cut.depth_block >= end;
        const int64_t next_column = turns ? column + columns : column, next = turns ? chunk : step + cut.depth_block;
        const int64_t next_steps = std::min(cut.depth_block, depth - next);
        Ahead ahead = p.packed_b ? Ahead::of_packed(p, next_column, width, next, next_steps)
                                 : Ahead::of_b(p, next_column, columns, next, steps);
        multiply_tiles(p, cut, panel, {block, cut.tile_floats(), kWidth}, first, last, ahead);
      }
    });
  }
}

// Tasks of groups of tiles of rows, and parts of the columns.
Cuts cut_by_rows(const MatrixProduct& p, const Cut& cut, int threads) {
  return even_cuts(1, {cut.tiles, 0, (cut.tiles + kTaskTiles - 1) / kTaskTiles},
                   {panels_of(p), reads_a_in_place(p, cut.tile) ? 0 : share_of_packing(p.n)}, threads);
}

// Usual for more rows than columns: B is packed once for all, and every task packs the rows of A it works on.
void product_by_rows(const MatrixProduct& p, const Cuts& cuts, int threads) {
  const int64_t depth = steps_of(p), panels = panels_of(p), groups = cuts.first, parts = cuts.second;
  const int64_t padded = round_up(p.n, kBlock);
  const bool ready = is_ready(p);
  const Cut cut(p, depth, p.n, threads);
  const bool in_place = reads_a_in_place(p, cut.tile);
  // [depth block] as pack_b leaves it
  float* b = ready ? nullptr : scratch(kMatrixB, static_cast<size_t>(padded * cut.depth_chunk));
  for (int64_t chunk = 0; chunk < depth; chunk += cut.depth_chunk) {
    int64_t end = std::min(depth, chunk + cut.depth_chunk),
            blocks = (end - chunk + cut.depth_block - 1) / cut.depth_block;
    int packers = useful_threads(threads, kPackFlops * static_cast<double>(p.n * (end - chunk)));
    parallel_items(packers, ready ? 0 : blocks * panels, [&](int64_t item) {
      int64_t column = item % panels * kPanelColumns, step = chunk + item / panels * cut.depth_block;
      int64_t steps = std::min(cut.depth_block, end - step);
      pack_b(p, column, std::min(kPanelColumns, p.n - column), step, steps,
             b + (step - chunk) * padded + column * steps);
    });
    dynamic_items(threads, groups * parts, [&](int64_t item) {
      const int64_t group = item / parts, first = cut.tiles * group / groups, last = cut.tiles * (group + 1) / groups;
      const auto [column, columns] = columns_of(p, panels, item % parts, parts);
      float* a = in_place ? nullptr : scratch(kMatrixA, static_cast<size_t>((last - first) * cut.tile_floats()));
      for (int64_t step = chunk; step < end; step += cut.depth_block) {
        const int64_t steps = std::min(cut.depth_block, end - step);
        const float* from = ready ? p.packed_b + step * padded : b + (step - chunk) * padded;
        const Panel panel{
            column, columns, step, steps, from + column * steps, step == 0, step + cut.depth_block >= depth};
        bool turns = step + cut.depth_block >= end;
        Ahead ahead = Ahead::of_a(p, (turns ? last : first) * cut.tile, (last - first) * cut.tile,
                                  turns ? chunk : step + cut.depth_block, steps);
        TilesOfA tiles{a, cut.tile_floats(), kWidth};
        if (in_place)
          tiles = {p.a + step * p.lda + first * cut.tile, cut.tile, p.lda};
        else
          pack_a(p, first * cut.tile, cut.tile, last - first, step, steps, a, cut.tile_floats());
        multiply_tiles(p, cut, panel, tiles, first, last, ahead);
      }
    });
  }
}

void product_on_threads(const MatrixProduct& p, int threads) {
  // Sums of few steps are bound by the writing of C, which goes best along its rows.
  const bool writes = p.k <= kFewSteps && p.m > kWideRows;
  // Tasks that pack their own rows of A wait for nobody else, and do not get A from the caches of other cores. That
  // pays if B is packed already, and small enough to stay in the second cache of every core.
  const bool alone = is_ready(p) && p.n * p.k <= kept_floats();
  const Cut cut(p, steps_of(p), std::min(p.m, p.n), threads);
  const Cuts rows = cut_by_rows(p, cut, threads);
  if (writes || alone) return product_by_rows(p, rows, threads);
  const Cuts columns = cut_by_columns(p, cut, threads);
  bool by_columns = p.m <= p.n;
  if (threads > 1) {  // the other way, if this one leaves too many threads without work, or packs too much twice
    const double pack_a = time_of_packing(p.n), pack_b = is_ready(p) ? 0 : time_of_packing(p.m);
    const double row_time = rows.time * (1 + pack_a) + pack_b / threads;
    const double column_time = columns.time * (1 + pack_b) + pack_a / threads;
    by_columns = by_columns ? column_time <= kOtherGain * row_time : kOtherGain * column_time < row_time;
  }
  if (by_columns)
    product_by_columns(p, columns, threads);
  else
    product_by_rows(p, rows, threads);
}

// Rows [row, row + rows) x columns [column, column + columns) of the product.
MatrixProduct part_of(const MatrixProduct& p, int64_t row, int64_t rows, int64_t column, int64_t columns) {
  MatrixProduct part = p;
  part.m = rows;
  part.n = columns;
  part.a = moved(p.a, p.a_element, p.transpose_a ? row : row * p.lda);
  part.b = moved(p.b, p.b_element, p.transpose_b ? column * p.ldb : column);
  part.c += row * p.ldc + column;
  part.first_row += row;
  part.first_column += column;
  if (part.row_bias) part.row_bias += row;
  if (part.column_bias) part.column_bias += column;
  part.packed_b = nullptr;  // is that of all columns
  return part;
}

void fill_without_sum(const MatrixProduct& p) {  // k = 0
  for (int64_t i = 0; i < p.m; i++)
    for (int64_t j = 0; j < p.n; j++)
      if (!p.accumulate)
        p.c[i * p.ldc + j] = (p.row_bias ? p.row_bias[i] : 0.f) + (p.column_bias ? p.column_bias[j] : 0.f);
}

// Of a product that takes as long.
double flops_of(const MatrixProduct& p, bool small) {
  const double rows = static_cast<double>(p.m) + (small ? kReadRows : 0);
  return 2.0 * rows * static_cast<double>(p.n) * (static_cast<double>(p.k) + kWriteSteps);
}

// Whether workers that each multiply so many rows by B all pack it themselves: to pack an operand again takes less time
// than to wait for another core, and to fetch from its cache what it has packed.
bool pack_alone(const MatrixProduct& p, int64_t rows) {
  if (p.packed_b) return false;
  if (p.m < p.n) return rows >= kAloneWideRows;
  return rows >= (is_packed_by_all(p) ? kAloneSmallRows : kAloneRows);
}

// The same for A, whose rows are few.
bool pack_a_alone(const MatrixProduct& p, int64_t columns) {
  return !p.packed_b && p.m <= kAloneRows && p.m * p.k < kAloneFloats && columns >= kAloneColumns;
}

// Several parts for each thread where they are long enough: the one that began first does more of them.
void product_of_parts(const MatrixProduct& p, int threads) {
  const int64_t parts = threads * std::clamp<int64_t>(p.m / (threads * kPartRows), 1, kThreadGroups);
  dynamic_items(threads, parts, [&](int64_t i) {
    const int64_t first = p.m * i / parts;
    packed_product(part_of(p, first, p.m * (i + 1) / parts - first, 0, p.n));
  });
}

void product_of_rows(const MatrixProduct& p) {
  narrow_product(p);
  finish_rows(p, 0, p.m, 0, p.n);
}

}  // namespace

void packed_product(const MatrixProduct& p, int threads) {
  product_on_threads(p, useful_threads(threads, flops_of(p, false)));
}

int64_t packed_b_floats(const MatrixProduct& p) {
  if (p.sums != IntegerSums::kNone) return packed_b_floats(p.n, steps_of(p)) + p.n;  // and the sums of the columns
  return (packed_b_floats(p.n, p.k) * p.b_element.bytes() + 3) / 4;
}

bool packs(const MatrixProduct& p) { return p.k > 0 && !is_narrow_product(p) && !is_small_product(p); }

void pack_matrix_b(const MatrixProduct& p, float* packed, int threads) {
  MatrixProduct all = p;
  all.b_element = p.b_element.plain();
  all.m = kWideRows + 1;  // no tile is read in place
  all.packed_b = nullptr;
  const bool small = !p.b_element.is_float32() && p.sums == IntegerSums::kNone;
  const int64_t depth = steps_of(p), depth_block = even_tile(depth, kDepthBlock), padded = round_up(p.n, kBlock);
  const int64_t panels = (p.n + kPanelColumns - 1) / kPanelColumns, blocks = (depth + depth_block - 1) / depth_block;
  const int packers = useful_threads(threads, kPackFlops * static_cast<double>(p.n * p.k));
  if (p.sums != IntegerSums::kNone)
    sum_columns(p, reinterpret_cast<int32_t*>(packed + packed_b_floats(p.n, depth)), threads);
  parallel_items(packers, blocks * panels, [&](int64_t item) {
    const int64_t column = item % panels * kPanelColumns, step = item / panels * depth_block;
    const int64_t columns = std::min(kPanelColumns, p.n - column), steps = std::min(depth_block, depth - step);
    const int64_t first = step * padded + column * steps, numbers = round_up(columns, kBlock) * steps;
    float* panel = small ? scratch(kMatrixB, static_cast<size_t>(numbers)) : packed + first;
    pack_b(all, column, columns, step, steps, panel);
    if (small) encode(all.b_element, panel, numbers, moved(packed, p.b_element, first));
  });
}

void matrix_product(const MatrixProduct& p) {
  if (p.m <= 0 || p.n <= 0) return;
  if (is_stored(p) && !p.finish) return stored_product(p, 1);
  if (is_narrow_product(p)) return product_of_rows(p);
  if (p.k > 0 && !is_small_product(p)) return packed_product(p);
  if (p.k > 0)
    small_product(p);
  else
    fill_without_sum(p);
  finish_rows(p, 0, p.m, 0, p.n);
}

void matrix_product(const MatrixProduct& p, int threads) {
  if (is_stored(p) && !p.finish) return stored_product(p, threads);
  const bool small = is_small_product(p);
  threads = useful_threads(threads, flops_of(p, small));
  const bool pieces = small && static_cast<double>(p.n) * static_cast<double>(p.k) > kPieceProducts;
  if (threads <= 1 && !pieces) return matrix_product(p);
  if (is_narrow_product(p)) {
    const int64_t share = round_up((p.m + threads - 1) / threads, 4);
    return parallel_items(threads, (p.m + share - 1) / share, [&](int64_t i) {
      product_of_rows(part_of(p, i * share, std::min(share, p.m - i * share), 0, p.n));
    });
  }
  if (small) {  // the choice of method must not depend on the threads: only columns are shared out
    const int64_t most = std::max<int64_t>(
        1, static_cast<int64_t>(kPieceProducts / static_cast<double>(kWidth * std::max<int64_t>(1, p.k))));
    const int64_t vectors = (p.n + kWidth - 1) / kWidth;
    threads = engaged_workers(threads, vectors);
    // Four vectors at a time are fastest.
    const int64_t together = spreads_evenly((vectors + 3) / 4, threads) ? 4 : 1;
    const int64_t share = kWidth * std::min(most, round_up((vectors + threads - 1) / threads, together));
    return parallel_items(threads, (p.n + share - 1) / share, [&](int64_t i) {
      matrix_product(part_of(p, 0, p.m, i * share, std::min(share, p.n - i * share)));
    });
  }
  if (pack_alone(p, p.m / threads)) return product_of_parts(p, threads);
  if (pack_a_alone(p, p.n / threads)) {
    const Cuts parts{1, threads};
    return dynamic_items(threads, threads, [&](int64_t i) { packed_product(part_of(p, parts, i)); });
  }
  product_on_threads(p, threads);
}

Cuts product_parts(const MatrixProduct& p, int64_t count, int threads) {
  if (!packs(p) || is_stored(p)) return {1, 1};
  return even_cuts(count, {(p.m + kSideRows - 1) / kSideRows, share_of_packing(p.m)},
                   {panels_of(p), share_of_packing(p.n)}, threads);
}

MatrixProduct part_of(const MatrixProduct& p, const Cuts& parts, int64_t index) {
  const int64_t part = index / parts.second, units = (p.m + kSideRows - 1) / kSideRows;
  const int64_t row = units * part / parts.first * kSideRows;
  const int64_t end = std::min(p.m, units * (part + 1) / parts.first * kSideRows);
  const auto [column, columns] = columns_of(p, panels_of(p), index % parts.second, parts.second);
  return part_of(p, row, end - row, column, columns);
}

bool has_row_parts(const MatrixProduct& p) { return !is_stored(p) && (packs(p) || is_narrow_product(p)); }

bool is_packed_by_all(const MatrixProduct& p) { return p.n * p.k <= std::min(kAloneFloats, kept_floats()); }

void product_rows(const MatrixProduct& p, int64_t first, int64_t rows) {
  if (rows <= 0) return;
  MatrixProduct part = part_of(p, first, rows, 0, p.n);
  part.packed_b = p.packed_b;
  if (is_narrow_product(p)) return product_of_rows(part);
  packed_product(part);
}

void product_share(const MatrixProduct& p, int64_t index, int64_t count) {
  // Whole units, as even as can be.
  const auto range = [&](int64_t size, int64_t unit) {
    const int64_t units = (size + unit - 1) / unit, first = units * index / count * unit;
    return Columns{first, std::min(size, units * (index + 1) / count * unit) - first};
  };
  if (has_row_parts(p) && (p.m >= p.n || is_narrow_product(p))) {
    const auto [row, rows] = range(p.m, kSideRows);
    return product_rows(p, row, rows);
  }
  const bool packed = packs(p);
  const auto [column, columns] = range(p.n, packed ? kPanelColumns : kWidth);
  if (columns <= 0) return;
  const MatrixProduct part = part_of(p, 0, p.m, column, columns);
  packed ? packed_product(part) : matrix_product(part);
}

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
