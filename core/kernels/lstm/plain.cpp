// Steps of an LSTM with the usual activations.
#include "kernels/lstm/lstm.h"
#include "simd/math.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace lstm {
namespace {

// i, f, g, o of 16 units of a row; c' = f*c + i*g, h' = o*tanh(c')
OPENBNNS_INLINE void gates_forward(float* z, const float* c_before, float* c, float* packed_h, float* h, int64_t unit,
                                   int64_t H) {
  OPENBNNS_UNROLL for (int v = 0; v < kBlock; v += kWidth) {
    Vec i = math::sigmoid(load(z + kInput * kBlock + v)), f = math::sigmoid(load(z + kForget * kBlock + v));
    Vec g = math::tanh(load(z + kCandidate * kBlock + v)), o = math::sigmoid(load(z + kOutput * kBlock + v));
    store(z + kInput * kBlock + v, i);
    store(z + kForget * kBlock + v, f);
    store(z + kCandidate * kBlock + v, g);
    store(z + kOutput * kBlock + v, o);
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

struct Forward {
  const Sizes& s;
  const Cell& cell;
  const StepEntries entries;
  const float* weights;
  const float* c_first;  // [N][padded]
  PackedRows h[2];

  // z[t][rows][4 gates of the block] += h U^T
  void multiply(int64_t t, int now, int64_t block, int64_t row, int64_t rows) const {
    const int64_t block_floats = s.padded * kBlock;
    for (int g = 0; g < kGates; g += kWideBlocks) {
      Tile tile{h[now].rows_at(row),
                weights + (block * kGates + g) * block_floats,
                entries.left,
                entries.right,
                entries.count,
                block_floats,
                cell.z + (t * s.N + row) * s.wide + (block * kGates + g) * kBlock,
                s.wide,
                kBlock};
      tile.write = Write::Add;
      tile_kernel(TileForm::Matrix, kWideBlocks, static_cast<int>(rows))(tile);
    }
  }

  // The same for one row: all gates at once, in as many sums as it takes to keep the units busy.
  void multiply_row(int64_t t, int now, int64_t block, int64_t row) const {
    constexpr int kParts = kBlock / kWidth, kVectors = kGates * kParts, kChains = kVectors < 8 ? 2 : 1;
    const int64_t block_floats = s.padded * kBlock;
    const float* u = weights + block * kGates * block_floats;
    float* z = cell.z + (t * s.N + row) * s.wide + block * kGates * kBlock;
    Vec sum[kChains][kVectors];
    OPENBNNS_UNROLL for (int v = 0; v < kVectors; v++) {
      sum[0][v] = load(z + v * kWidth);
      OPENBNNS_UNROLL for (int chain = 1; chain < kChains; chain++) sum[chain][v] = Vec{};
    }
    for (int64_t b = 0; b < s.padded / kBlock; b++, u += kBlock * kBlock) {
      const float* x = h[now].block(row, b);
      for (int k = 0; k < kBlock; k += kChains) OPENBNNS_UNROLL for (int chain = 0; chain < kChains; chain++) {
          const Vec here = splat(x[k + chain]);
          OPENBNNS_UNROLL for (int v = 0; v < kVectors; v++) sum[chain][v] +=
              here * load(u + v / kParts * block_floats + (k + chain) * kBlock + v % kParts * kWidth);
        }
    }
    OPENBNNS_UNROLL for (int v = 0; v < kVectors; v++) {
      OPENBNNS_UNROLL for (int chain = 1; chain < kChains; chain++) sum[0][v] += sum[chain][v];
      store(z + v * kWidth, sum[0][v]);
    }
  }

  void step(int64_t k, int threads) const {
    const int64_t t = cell.step(k, s.T), before = k > 0 ? cell.step(k - 1, s.T) : -1, active = s.active(t);
    const int now = static_cast<int>(k % 2);
    const float* c_before = before < 0 ? c_first : cell.c + before * s.N * s.padded;
    over_step_tasks(s, threads, 1, [&](int64_t block, int64_t row, int64_t rows) {
      const int64_t unit = block * kBlock, present = std::max<int64_t>(0, std::min(rows, active - row));
      if (present > 0 && (k > 0 || cell.h0)) {
        if (kWidth > 4 && present == 1)  // narrower vectors would not leave a register free
          multiply_row(t, now, block, row);
        else
          multiply(t, now, block, row, present);
      }
      for (int64_t n = row; n < row + rows; n++) {
        float* c = cell.c + (t * s.N + n) * s.padded + unit;
        float* out = cell.h + (t * s.N + n) * s.joined + unit;
        const float* c_here = c_before + n * s.padded + unit;
        if (n < active)
          gates_forward(cell.z + (t * s.N + n) * s.wide + block * kGates * kBlock, c_here, c,
                        h[1 - now].block(n, block), out, unit, s.H);
        else
          stand_still(c_here, c, h[now].block(n, block), h[1 - now].block(n, block), out, unit, s.H);
      }
    });
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

  // dh[rows][units of the blocks] = dz U, for rows that took part in the step that dz belongs to
  void multiply(int now, int64_t block, int blocks, int64_t row, int64_t rows) const {
    const int64_t block_floats = s.wide * kBlock;
    Tile tile{dz[now].rows_at(row), weights + block * block_floats,       entries.left, entries.right, entries.count,
              block_floats,         dh + row * s.padded + block * kBlock, s.padded,     kBlock};
    tile_kernel(TileForm::Matrix, blocks, static_cast<int>(rows))(tile);
  }

  // Step k, in the order of the forward pass; k = -1 only finishes dh.
  void step(int64_t k, int threads) const {
    const int64_t t = k >= 0 ? cell.step(k, s.T) : -1, active = k >= 0 ? s.active(t) : 0;
    const int64_t after = k + 1 < s.T ? s.active(cell.step(k + 1, s.T)) : 0;
    const int now = static_cast<int>((k + 1) % 2 != 0);
    const float* c_before = k > 0 ? cell.c + cell.step(k - 1, s.T) * s.N * s.padded : c_first;
    over_step_tasks(s, threads, kWideBlocks, [&](int64_t first, int64_t row, int64_t rows) {
      const int blocks = static_cast<int>(std::min<int64_t>(kWideBlocks, s.padded / kBlock - first));
      const int64_t present = std::min(rows, after - row);
      if (present > 0) multiply(now, first, blocks, row, present);
      if (k < 0) return;
      for (int64_t n = row; n < row + rows; n++)
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
                         dz[1 - now].block(n, block * kGates), dz[0].tile * kBlock, unit, s.H);
        }
    });
  }
};

}  // namespace

int64_t plain_forward_floats(const Sizes& s) {
  return StepEntries::floats(s.padded) + s.wide * s.padded + s.N * s.padded + 2 * PackedRows::floats(s, s.padded) +
         6 * kBlock;
}

int64_t plain_backward_floats(const Sizes& s) {
  return StepEntries::floats(s.wide) + s.wide * s.padded + 3 * s.N * s.padded + 2 * PackedRows::floats(s, s.wide) +
         8 * kBlock;
}

void plain_forward(const Sizes& s, const Cell& cell, float* work) {
  Cutter cut{work};
  const StepEntries entries(s, s.padded, cut.take(StepEntries::floats(s.padded)));
  float* packed = cut.take(s.wide * s.padded);
  const float* weights = cell.packed_u ? cell.packed_u : packed;
  float* c_first = cut.take(s.N * s.padded);
  PackedRows h[2];
  for (PackedRows& p : h) p = {cut.take(PackedRows::floats(s, s.padded)), s.padded, s.tile};
  if (!cell.packed_u) pack_recurrent(s, cell.u, packed);
  pad_rows(s, cell.c0, c_first);
  pack_states(s, cell.h0, h[0]);
  const Forward run{s, cell, entries, weights, c_first, {h[0], h[1]}};
  const int threads = threads_for_step(s, cell.threads);
  for (int64_t k = 0; k < s.T; k++) run.step(k, threads);
}

void plain_backward(const Sizes& s, const Cell& cell, const CellGradients& d, float* work) {
  Cutter cut{work};
  const StepEntries entries(s, s.wide, cut.take(StepEntries::floats(s.wide)));
  float* weights = cut.take(s.wide * s.padded);
  float* c_first = cut.take(s.N * s.padded);
  float* dh = cut.take(s.N * s.padded);
  float* dc = cut.take(s.N * s.padded);
  PackedRows dz[2];
  for (PackedRows& p : dz) p = {cut.take(PackedRows::floats(s, s.wide)), s.wide, s.tile};
  pack_recurrent_back(s, cell.u, weights);
  pad_rows(s, cell.c0, c_first);
  pad_rows(s, d.dhn, dh);
  pad_rows(s, d.dcn, dc);
  const Backward run{s, cell, d, entries, weights, c_first, dh, dc, {dz[0], dz[1]}};
  const int threads = threads_for_step(s, cell.threads);
  for (int64_t k = s.T - 1; k >= (d.dh0 ? -1 : 0); k--) run.step(k, threads);
  if (d.dh0) unpad_rows(s, dh, d.dh0, d.dh0_adds);
  if (d.dc0) unpad_rows(s, dc, d.dc0, d.dc0_adds);
}

}  // namespace lstm
}  // namespace OPENBNNS_ISA
}  // namespace openbnns
