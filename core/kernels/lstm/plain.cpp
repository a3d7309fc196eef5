// Steps of an LSTM with the usual activations.
#include "kernels/lstm/lstm.h"
#include "simd/math.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace lstm {
namespace {

// i, f, g, o of 16 units of a row, in place of the product of the step, to which `added` comes; and in z, unless that
// is null. The states are computed later, for all rows of a tile: what one row waits for, the gates of others do
// meanwhile.
OPENBNNS_INLINE void gates_forward(const float* added, float* gates, float* z) {
  OPENBNNS_UNROLL for (int g = 0; g < kGates; g++) OPENBNNS_UNROLL for (int v = 0; v < kBlock; v += kWidth) {
    const Vec x = load(added + g * kBlock + v) + load(gates + g * kBlock + v);
    const Vec y = g == kCandidate ? math::tanh(x) : math::sigmoid(x);
    store(gates + g * kBlock + v, y);
    if (z) store(z + g * kBlock + v, y);
  }
}

// c' = f*c + i*g, h' = o*tanh(c') of 16 units of a row
OPENBNNS_INLINE void states_forward(const float* gates, const float* c_before, float* c, float* packed_h, float* h,
                                    int64_t unit, int64_t H) {
  OPENBNNS_UNROLL for (int v = 0; v < kBlock; v += kWidth) {
    const Vec i = load(gates + kInput * kBlock + v), f = load(gates + kForget * kBlock + v);
    const Vec g = load(gates + kCandidate * kBlock + v), o = load(gates + kOutput * kBlock + v);
    Vec after = f * load(c_before + v) + i * g;
    store(c + v, after);
    const int64_t lanes = lanes_here(unit + v, H);
    // units that pad a block must not carry a NaN from infinite inputs into products
    Vec out = keep_first(o * math::tanh(after), lanes);
    store(packed_h + v, out);
    if (lanes == kWidth)
      store(h + v, out);
    else
      store_partial(h + v, out, lanes);
  }
}

// An absent sample's states stand still.
void stand_still(const float* c_before, float* c, const float* packed_before, float* packed_h, float* h, int64_t unit,
                 int64_t H) {
  std::copy_n(c_before, kBlock, c);
  std::copy_n(packed_before, kBlock, packed_h);
  std::copy_n(packed_before, std::min<int64_t>(kBlock, H - unit), h);
}

// Asks for what the gates touch after a product, while it is computed: `count` elements of some rows, `row` apart,
// which no processor would foresee. They may begin anywhere in a cache line.
OPENBNNS_INLINE void ask_for(const float* p, int64_t row, int64_t rows, int64_t count) {
  for (int64_t n = 0; n < rows; n++, p += row) {
    for (int64_t i = 0; i < count; i += kBlock) __builtin_prefetch(p + i, 1);
    __builtin_prefetch(p + count - 1, 1);
  }
}

struct Forward {
  const Sizes& s;
  const Cell& cell;
  const StepEntries entries;
  const float* weights;
  const float* c_first;   // [N][padded]
  PackedRows rows_of[2];  // of the steps in turn: x, if steps multiply it, and the hidden state before the step

  int64_t input_depth() const { return s.input_depth(cell.in); }

  // sums[row][4 gates of the block] = the first `depth` columns of the packed rows times the weights, for the first
  // `present` rows of a tile
  void multiply(int now, int64_t depth, int64_t block, const RowTile& rows, int64_t present, float* sums) const {
    const int64_t block_floats = s.block_floats(s.depth(cell.in));
    for (int g = 0; g < kGates; g += kWideBlocks) {
      Tile tile{rows_of[now].operand(rows),
                weights + (block * kGates + g) * block_floats,
                entries.left,
                entries.right,
                StepEntries::of(s, depth),
                block_floats,
                sums + g * kBlock,
                kGates * kBlock,
                kBlock};
      tile.rows = static_cast<int>(present);
      s.step_sums.kernel(TileForm::Matrix, kWideBlocks, tile.rows)(tile);
    }
  }

  // The same for one row: all gates at once, in as many sums as it takes to keep the units busy.
  void multiply_row(int now, int64_t depth, int64_t block, const RowTile& rows, float* sums) const {
    constexpr int kParts = kBlock / kWidth, kVectors = kGates * kParts, kChains = kVectors < 8 ? 2 : 1;
    const int64_t block_floats = s.depth(cell.in) * kBlock;
    const float* u = weights + block * kGates * block_floats;
    Vec sum[kChains][kVectors];
    OPENBNNS_UNROLL for (int chain = 0; chain < kChains; chain++) OPENBNNS_UNROLL for (int v = 0; v < kVectors; v++)
        sum[chain][v] = Vec{};
    for (int64_t b = 0; b < depth / kBlock; b++, u += kBlock * kBlock) {
      const float* x = rows_of[now].block(rows, rows.first, b);
      for (int k = 0; k < kBlock; k += kChains) OPENBNNS_UNROLL for (int chain = 0; chain < kChains; chain++) {
          const Vec here = splat(x[k + chain]);
          OPENBNNS_UNROLL for (int v = 0; v < kVectors; v++) sum[chain][v] +=
              here * load(u + v / kParts * block_floats + (k + chain) * kBlock + v % kParts * kWidth);
        }
    }
    OPENBNNS_UNROLL for (int v = 0; v < kVectors; v++) {
      OPENBNNS_UNROLL for (int chain = 1; chain < kChains; chain++) sum[0][v] += sum[chain][v];
      store(sums + v * kWidth, sum[0][v]);
    }
  }

  // Packs the inputs of step k, if it multiplies them.
  void take_input(int64_t k, const RowTile& rows) const {
    if (input_depth() == 0 || k >= s.T) return;
    const int64_t t = cell.step(k, s.T), present = std::min(rows.rows, s.active(t) - rows.first);
    for (int64_t n = rows.first; n < rows.first + present; n++)
      for (int64_t i = 0; i < cell.in; i += kBlock) {
        const int64_t count = std::min<int64_t>(kBlock, cell.in - i);
        float* to = rows_of[k % 2].block(rows, n, i / kBlock);
        std::fill(std::copy_n(cell.x + (t * s.N + n) * cell.in + i, count, to), to + kBlock, 0.0f);
      }
  }

  // The units of a block at step k.
  void step(int64_t k, int64_t block, const RowTile& rows) const {
    const int64_t t = cell.step(k, s.T), before = k > 0 ? cell.step(k - 1, s.T) : -1, active = s.active(t);
    const int now = static_cast<int>(k % 2);
    const int64_t unit = block * kBlock, present = std::max<int64_t>(0, std::min(rows.rows, active - rows.first));
    const bool has_input = input_depth() > 0;
    float* z = cell.z + (t * s.N + rows.first) * s.wide + block * kGates * kBlock;
    float* c = cell.c + (t * s.N + rows.first) * s.padded + unit;
    float* out = cell.h + (t * s.N + rows.first) * s.joined + unit;
    const float* c_before = (before < 0 ? c_first : cell.c + before * s.N * s.padded) + rows.first * s.padded + unit;
    alignas(64) float gates[2 * kUnitRows * kGates * kBlock];  // [row][gate][16]
    if (cell.keeps || !has_input) ask_for(z, s.wide, present, kGates * kBlock);
    ask_for(c, s.padded, rows.rows, kBlock);
    ask_for(out, s.joined, rows.rows, kBlock);
    const int64_t depth = k == 0 && !cell.h0 ? input_depth() : s.depth(cell.in);
    if (depth == 0)
      std::fill_n(gates, present * kGates * kBlock, 0.0f);
    else if (kWidth > 4 && present == 1 && !s.step_sums.pairs())  // narrower vectors would not leave a register free
      multiply_row(now, depth, block, rows, gates);
    else if (present > 0)
      multiply(now, depth, block, rows, present, gates);
    for (int64_t n = 0; n < present; n++)
      gates_forward(has_input ? cell.bias + block * kGates * kBlock : z + n * s.wide, gates + n * kGates * kBlock,
                    cell.keeps ? z + n * s.wide : nullptr);
    const int64_t place = input_depth() / kBlock + block;
    for (int64_t n = 0; n < rows.rows; n++, c += s.padded, c_before += s.padded, out += s.joined) {
      const float* packed_before = rows_of[now].block(rows, rows.first + n, place);
      float* packed = rows_of[1 - now].block(rows, rows.first + n, place);
      if (n < present)
        states_forward(gates + n * kGates * kBlock, c_before, c, packed, out, unit, s.H);
      else
        stand_still(c_before, c, packed_before, packed, out, unit, s.H);
      rows_of[1 - now].finished(rows, rows.first + n, place);
    }
    if (block == 0) take_input(k + 1, rows);
  }
};

// of h' = o*tanh(c'), c' = f*c + i*g; z holds i, f, g, o
OPENBNNS_INLINE void gates_backward(const float* z, const float* c_before, const float* c_after, const float* dh_rec,
                                    const float* dy, float* dc, float* dz, float* packed_dz, int64_t packed_step,
                                    int64_t unit, int64_t H) {
  OPENBNNS_UNROLL for (int v = 0; v < kBlock; v += kWidth) {
    Vec i = load(z + kInput * kBlock + v), f = load(z + kForget * kBlock + v);
    Vec g = load(z + kCandidate * kBlock + v), o = load(z + kOutput * kBlock + v);
    Vec dh = load(dh_rec + v);
    const int64_t lanes = lanes_here(unit + v, H);
    if (dy) dh += lanes == kWidth ? load(dy + v) : load_partial(dy + v, lanes);
    Vec tanh_c = math::tanh(load(c_after + v));
    Vec zo = dh * tanh_c * (o * (1.0f - o));
    Vec dct = load(dc + v) + dh * o * (1.0f - tanh_c * tanh_c);
    Vec zi = dct * g * (i * (1.0f - i)), zf = dct * load(c_before + v) * (f * (1.0f - f));
    Vec zg = dct * i * (1.0f - g * g);
    store(dc + v, dct * f);
    Vec result[kGates] = {zi, zf, zg, zo};
    OPENBNNS_UNROLL for (int gate = 0; gate < kGates; gate++) {
      const Vec here = keep_first(result[gate], lanes);
      store(dz + gate * kBlock + v, here);
      store(packed_dz + gate * packed_step + v, here);
    }
  }
}

struct Backward {
  const Sizes& s;
  const Cell& cell;
  const CellGradients& d;
  const StepEntries entries;
  const float* weights;
  const float* c_first;  // [N][padded]
  float *dh, *dc;        // [N][padded]
  PackedRows dz[2];

  // dh[rows][units of the blocks] = dz U, for those rows of a tile that took part in the step that dz belongs to
  void multiply(int now, int64_t block, int blocks, const RowTile& rows, int64_t present) const {
    const int64_t block_floats = s.block_floats(s.wide);
    Tile tile{dz[now].operand(rows),
              weights + block * block_floats,
              entries.left,
              entries.right,
              entries.count,
              block_floats,
              dh + rows.first * s.padded + block * kBlock,
              s.padded,
              kBlock};
    tile.rows = static_cast<int>(present);
    s.step_sums.kernel(TileForm::Matrix, blocks, tile.rows)(tile);
  }

  // The units of some blocks at step k, in the order of the forward pass; k = -1 only finishes dh.
  void step(int64_t k, int64_t first, int blocks, const RowTile& rows) const {
    const int64_t t = k >= 0 ? cell.step(k, s.T) : -1, active = k >= 0 ? s.active(t) : 0;
    const int64_t after = k + 1 < s.T ? s.active(cell.step(k + 1, s.T)) : 0;
    const int now = static_cast<int>((k + 1) % 2 != 0);
    const float* c_before = k > 0 ? cell.c + cell.step(k - 1, s.T) * s.N * s.padded : c_first;
    const int64_t present = std::min(rows.rows, after - rows.first);
    if (k >= 0) {
      const int64_t place = t * s.N + rows.first, unit = first * kBlock, units = blocks * kBlock;
      ask_for(cell.z + place * s.wide + unit * kGates, s.wide, rows.rows, units * kGates);
      ask_for(d.dz + place * s.wide + unit * kGates, s.wide, rows.rows, units * kGates);
      ask_for(c_before + rows.first * s.padded + unit, s.padded, rows.rows, units);
      if (d.dy) ask_for(d.dy + place * s.joined + unit, s.joined, rows.rows, units);
    }
    if (present > 0) multiply(now, first, blocks, rows, present);
    if (k < 0) return;
    for (int64_t n = rows.first; n < rows.first + rows.rows; n++)
      for (int64_t block = first; block < first + blocks; block++) {
        const int64_t unit = block * kBlock, place = t * s.N + n, column = block * kGates * kBlock;
        float* to = d.dz + place * s.wide + column;
        if (n >= active) {
          std::fill_n(to, kGates * kBlock, 0.0f);
          continue;
        }
        gates_backward(cell.z + place * s.wide + column, c_before + n * s.padded + unit,
                       cell.c + place * s.padded + unit, dh + n * s.padded + unit,
                       d.dy ? d.dy + place * s.joined + unit : nullptr, dc + n * s.padded + unit, to,
                       dz[1 - now].block(rows, n, block * kGates), dz[0].tile * kBlock, unit, s.H);
        for (int g = 0; g < kGates; g++) dz[1 - now].finished(rows, n, block * kGates + g);
      }
  }
};

}  // namespace

int64_t plain_forward_floats(const Sizes& s, int64_t in) {
  const int64_t depth = s.depth(in);
  return StepEntries::floats(depth) + s.wide * depth + s.N * s.padded + 2 * PackedRows::floats(s, depth) + 6 * kBlock;
}

int64_t plain_backward_floats(const Sizes& s) {
  return StepEntries::floats(s.wide) + s.wide * s.padded + 3 * s.N * s.padded + 2 * PackedRows::floats(s, s.wide) +
         8 * kBlock;
}

void pack_step(const Sizes& s, const Cell& cell, float* to) {
  const int64_t block_floats = s.depth(cell.in) * kBlock, input = s.input_depth(cell.in);
  std::fill_n(to, s.padded / kBlock * kGates * block_floats, 0.0f);
  if (input > 0) pack_gates(s, cell.w, cell.in, to, block_floats);
  pack_gates(s, cell.u, s.H, to + input * kBlock, block_floats);
  pair_weights(s, s.wide / kBlock, s.depth(cell.in), to);
}

void plain_forward(const Sizes& s, const Cell& cell, float* work) {
  const int64_t depth = s.depth(cell.in), input = s.input_depth(cell.in);
  Cutter cut{work};
  const StepEntries entries(s, depth, cut.take(StepEntries::floats(depth)));
  float* packed = cut.take(s.wide * depth);
  float* c_first = cut.take(s.N * s.padded);
  PackedRows rows[2];
  for (PackedRows& p : rows) p = PackedRows(s, depth, cut.take(PackedRows::floats(s, depth)));
  if (!cell.packed) pack_step(s, cell, packed);
  pad_rows(s, cell.c0, c_first);
  pack_states(s, cell.h0, rows[0], input / kBlock);
  const Forward run{s, cell, entries, cell.packed ? cell.packed : packed, c_first, {rows[0], rows[1]}};
  for (int64_t tile = 0; tile < s.tiles; tile++) run.take_input(0, s.rows_of(tile));
  over_steps(s, s.T, cell.threads, 1,
             [&](int64_t k, int64_t block, int, const RowTile& rows) { run.step(k, block, rows); });
}

void plain_backward(const Sizes& s, const Cell& cell, const CellGradients& d, float* work) {
  Cutter cut{work};
  const StepEntries entries(s, s.wide, cut.take(StepEntries::floats(s.wide)));
  float* weights = cut.take(s.wide * s.padded);
  float* c_first = cut.take(s.N * s.padded);
  float* dh = cut.take(s.N * s.padded);
  float* dc = cut.take(s.N * s.padded);
  PackedRows dz[2];
  for (PackedRows& p : dz) p = PackedRows(s, s.wide, cut.take(PackedRows::floats(s, s.wide)));
  pack_recurrent_back(s, cell.u, weights);
  pad_rows(s, cell.c0, c_first);
  pad_rows(s, d.dhn, dh);
  pad_rows(s, d.dcn, dc);
  const Backward run{s, cell, d, entries, weights, c_first, dh, dc, {dz[0], dz[1]}};
  over_steps(
      s, s.T + (d.dh0 ? 1 : 0), cell.threads, kWideBlocks,
      [&](int64_t k, int64_t first, int blocks, const RowTile& rows) { run.step(s.T - 1 - k, first, blocks, rows); });
  if (d.dh0) unpad_rows(s, dh, d.dh0, d.dh0_adds);
  if (d.dc0) unpad_rows(s, dc, d.dc0, d.dc0_adds);
}

}  // namespace lstm
}  // namespace OPENBNNS_ISA
}  // namespace openbnns
