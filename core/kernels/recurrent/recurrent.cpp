// GRU and plain recurrent cells along a sequence; formulas are in shape.h.
#include "common/recurrent_steps.h"
#include "common/scratch_uses.h"
#include "kernels/kernels.h"
#include "runtime/plan.h"
#include "runtime/scratch.h"
#include "simd/math.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace {

using Kind = RecurrentKind;

constexpr int gates_of(Kind kind) { return kind == Kind::GRU ? 3 : 1; }
constexpr int64_t kSerialFloats = 32768;  // shorter passes over memory stay on the calling thread

OPENBNNS_INLINE Vec load_lanes(const float* p, int64_t lanes) {
  return lanes == kWidth ? load(p) : load_partial(p, lanes);
}
OPENBNNS_INLINE void store_lanes(float* p, Vec v, int64_t lanes) {
  if (lanes == kWidth)
    store(p, v);
  else
    store_partial(p, v, lanes);
}

// One call: where things are.
struct Run {
  const StepSizes s;
  int64_t T = 0;
  bool reverse = false;
  float *z = nullptr, *y = nullptr, *q = nullptr;  // z: [N][T][G * H]; y, q: [N][T][H]
  const float *bias = nullptr, *h0 = nullptr;      // both may stay so
  const int64_t* lengths = nullptr;                // and this
  const float* dy = nullptr;

  int64_t length(int64_t n) const { return lengths ? lengths[n] : T; }
  // Where step k of a sample lies, or the place of padding if the sample has no step k.
  int64_t place(int64_t n, int64_t k) const {
    const int64_t end = length(n);
    return n * T + (reverse && k < end ? end - 1 - k : k);
  }
};

template <Kind kKind>
struct Cells {
  static constexpr int kGates = gates_of(kKind);

  // h' of 16 units of a row. p: U h of these units, gate by gate; h: before the step, packed; next: after it.
  OPENBNNS_INLINE static void forward(const Run& run, int64_t place, const float* p, int64_t unit, const float* h,
                                      float* next) {
    const int64_t H = run.s.H;
    float* z = run.z + place * kGates * H + unit;
    for (int v = 0; v < kBlock; v += kWidth) {
      const int64_t lanes = lanes_here(unit + v, H);
      if (lanes == 0) {  // units that pad a block stay 0
        store(next + v, Vec{});
        continue;
      }
      Vec sum[kGates];
      for (int g = 0; g < kGates; g++) {
        sum[g] = load(p + g * kBlock + v);
        if (run.bias) sum[g] += load_lanes(run.bias + g * H + unit + v, lanes);
      }
      Vec out;
      if constexpr (kKind == Kind::GRU) {
        const Vec r = math::sigmoid(load_lanes(z + v, lanes) + sum[0]);
        const Vec u = math::sigmoid(load_lanes(z + H + v, lanes) + sum[1]);
        const Vec c = math::tanh(load_lanes(z + 2 * H + v, lanes) + r * sum[2]);
        store_lanes(z + v, r, lanes);
        store_lanes(z + H + v, u, lanes);
        store_lanes(z + 2 * H + v, c, lanes);
        if (run.q) store_lanes(run.q + place * H + unit + v, sum[2], lanes);
        out = (1.0f - u) * c + u * load(h + v);
      } else {
        const Vec x = load_lanes(z + v, lanes) + sum[0];
        out = kKind == Kind::Tanh ? math::tanh(x) : select(x < 0.0f, Vec{}, x);  // NaN stays NaN
      }
      out = keep_first(out, lanes);
      store(next + v, out);
      store_lanes(run.y + place * H + unit + v, out, lanes);
    }
  }

  // dp, the gradient of U h + b, of 16 units of a row, packed; z is left holding that of the input part, and dh that
  // part of the gradient of h which does not go through U. before: h before the step, or null for zeros.
  OPENBNNS_INLINE static void backward(const Run& run, int64_t place, const float* before, int64_t unit, float* dh,
                                       float* dp, int64_t dp_step) {
    const int64_t H = run.s.H;
    float* z = run.z + place * kGates * H + unit;
    for (int v = 0; v < kBlock; v += kWidth) {
      const int64_t lanes = lanes_here(unit + v, H);
      if (lanes == 0) {
        for (int g = 0; g < kGates; g++) store(dp + g * dp_step + v, Vec{});
        continue;
      }
      Vec d = load(dh + v);
      if (run.dy) d += load_lanes(run.dy + place * H + unit + v, lanes);
      if constexpr (kKind == Kind::GRU) {
        const Vec r = load_lanes(z + v, lanes), u = load_lanes(z + H + v, lanes), c = load_lanes(z + 2 * H + v, lanes);
        const Vec q = load_lanes(run.q + place * H + unit + v, lanes);
        const Vec h = before ? load_lanes(before + unit + v, lanes) : Vec{};
        // of h' = (1 - u) * c + u * h, c = tanh(z + r * q), r and u = sigmoid(z + U h + b)
        const Vec dc = keep_first(d * (1.0f - u) * (1.0f - c * c), lanes);
        const Vec du = keep_first(d * (h - c) * (u * (1.0f - u)), lanes);
        const Vec dr = keep_first(dc * q * (r * (1.0f - r)), lanes);
        const Vec dq = dc * r;
        store(dh + v, d * u);
        store_lanes(z + v, dr, lanes);
        store_lanes(z + H + v, du, lanes);
        store_lanes(z + 2 * H + v, dc, lanes);
        store_lanes(run.q + place * H + unit + v, dq, lanes);
        store(dp + v, dr);
        store(dp + dp_step + v, du);
        store(dp + 2 * dp_step + v, keep_first(dq, lanes));
      } else {
        const Vec y = load_lanes(run.y + place * H + unit + v, lanes);
        const Vec slope = kKind == Kind::Tanh ? 1.0f - y * y : select(y > 0.0f, splat(1.0f), Vec{});
        const Vec dz = keep_first(d * slope, lanes);
        store(dh + v, Vec{});
        store_lanes(z + v, dz, lanes);
        store(dp + v, dz);
      }
    }
  }
};

class Recurrent : public Plan {
 public:
  explicit Recurrent(const RecurrentShape& shape) : shape_(shape) {}

  void forward(const Call& call) override {
    dispatch([&](auto kind) { this->template run<kind()>(call); });
  }
  void backward(const Call& call) override {
    dispatch([&](auto kind) { this->template run_back<kind()>(call); });
  }

 private:
  template <class Body>
  void dispatch(Body&& body) const {
    if (shape_.kind == Kind::GRU)
      body(std::integral_constant<Kind, Kind::GRU>());
    else if (shape_.kind == Kind::ReLU)
      body(std::integral_constant<Kind, Kind::ReLU>());
    else
      body(std::integral_constant<Kind, Kind::Tanh>());
  }

  Run run_of(const Call& call) const {
    Run run{StepSizes(call.batch, shape_.hidden, gates_of(shape_.kind), shape_.bfloat16)};
    run.T = shape_.steps;
    run.reverse = shape_.reverse;
    run.z = call.address[kRecurrentZ];
    run.y = call.address[kRecurrentY];
    run.q = call.address[kRecurrentQ];
    run.bias = call.address[kRecurrentB];
    run.h0 = call.address[kRecurrentH0];
    run.lengths = reinterpret_cast<const int64_t*>(call.address[kRecurrentLengths]);
    run.dy = call.address[kRecurrentDy];
    return run;
  }

  void weights_of(const Call& call, const float** u) const {
    for (int g = 0; g < gates_of(shape_.kind); g++)
      u[g] = call.address[kRecurrentU] + g * shape_.hidden * shape_.hidden;
  }

  template <Kind kKind>
  void run(const Call& call) const {
    constexpr int kGates = gates_of(kKind);
    const Run run = run_of(call);
    const StepSizes& s = run.s;
    const int64_t packed = PackedRows::floats(s, s.padded);
    Cutter cut{scratch(kWeights, static_cast<size_t>(StepEntries::floats(s.padded) + s.wide * s.padded + 2 * packed +
                                                     s.N * s.wide + 8 * kBlock))};
    const StepEntries entries(s, s.padded, cut.take(StepEntries::floats(s.padded)));
    float* weights = cut.take(s.wide * s.padded);
    PackedRows h[2];
    for (PackedRows& p : h) p = PackedRows(s, s.padded, cut.take(packed));
    float* product = cut.take(s.N * s.wide);  // [N][padded / 16][gates][16]
    const float* u[kGates];
    weights_of(call, u);
    pack_recurrent(s, u, weights);
    pack_states(s, run.h0, h[0]);
    const int64_t block_floats = s.block_floats(s.padded);
    over_steps(s, run.T, call.threads, 1, [&](int64_t k, int64_t block, int, const RowTile& rows) {
      const PackedRows &now = h[k % 2], &next = h[1 - k % 2];
      for (int g = 0; g < kGates;) {
        const int blocks = kGates - g >= kWideBlocks ? kWideBlocks : 1;
        Tile tile{now.operand(rows),
                  weights + (block * kGates + g) * block_floats,
                  entries.left,
                  entries.right,
                  entries.count,
                  block_floats,
                  product + rows.first * s.wide + (block * kGates + g) * kBlock,
                  s.wide,
                  kBlock};
        tile.rows = static_cast<int>(rows.rows);
        s.step_sums.kernel(TileForm::Matrix, blocks, tile.rows)(tile);
        g += blocks;
      }
      const int64_t unit = block * kBlock;
      for (int64_t n = rows.first; n < rows.first + rows.rows; n++) {
        const float* before = now.block(rows, n, block);
        float* after = next.block(rows, n, block);
        if (k < run.length(n))
          Cells<kKind>::forward(run, run.place(n, k), product + n * s.wide + block * kGates * kBlock, unit, before,
                                after);
        else
          stand_still<kKind>(run, n, k, unit, before, after);
        next.finished(rows, n, block);
      }
    });
    if (float* hn = call.address[kRecurrentHn])
      for (int64_t n = 0; n < s.N; n++) std::copy_n(run.y + run.place(n, run.length(n) - 1) * s.H, s.H, hn + n * s.H);
  }

  // A sample that has ended keeps its state; what belongs to its padding is 0.
  template <Kind kKind>
  static void stand_still(const Run& run, int64_t n, int64_t k, int64_t unit, const float* h, float* next) {
    const int64_t H = run.s.H, place = run.place(n, k), units = std::min<int64_t>(kBlock, H - unit);
    std::copy_n(h, kBlock, next);
    std::fill_n(run.y + place * H + unit, units, 0.0f);
    clear<kKind>(run, place, unit, units);
  }

  template <Kind kKind>
  static void clear(const Run& run, int64_t place, int64_t unit, int64_t units) {
    constexpr int kGates = gates_of(kKind);
    for (int g = 0; g < kGates; g++) std::fill_n(run.z + (place * kGates + g) * run.s.H + unit, units, 0.0f);
    if (run.q) std::fill_n(run.q + place * run.s.H + unit, units, 0.0f);
  }

  template <Kind kKind>
  void run_back(const Call& call) const {
    constexpr int kGates = gates_of(kKind);
    const Run run = run_of(call);
    const StepSizes& s = run.s;
    const int64_t packed = PackedRows::floats(s, s.wide);
    const bool wants_weights = call.address[kRecurrentDu] != nullptr;
    const int64_t states = wants_weights ? s.N * run.T * s.H : 0;
    Cutter cut{scratch(kWeights, static_cast<size_t>(StepEntries::floats(s.wide) + s.wide * s.padded + 2 * packed +
                                                     s.N * s.padded + states + 8 * kBlock))};
    const StepEntries entries(s, s.wide, cut.take(StepEntries::floats(s.wide)));
    float* weights = cut.take(s.wide * s.padded);
    PackedRows dp[2];
    for (PackedRows& p : dp) p = PackedRows(s, s.wide, cut.take(packed));
    float* dh = cut.take(s.N * s.padded);
    float* before = cut.take(states);
    const float* u[kGates];
    weights_of(call, u);
    pack_recurrent_back(s, u, weights);
    const float* dhn = call.address[kRecurrentDhn];
    for (int64_t n = 0; n < s.N; n++) {
      float* to = dh + n * s.padded;
      std::fill_n(to, s.padded, 0.0f);
      if (dhn) std::copy_n(dhn + n * s.H, s.H, to);
    }
    const int64_t block_floats = s.block_floats(s.wide);
    float* dh0 = call.address[kRecurrentDh0];
    over_steps(s, run.T + (dh0 ? 1 : 0), call.threads, kWideBlocks,
               [&](int64_t step, int64_t first, int blocks, const RowTile& rows) {
                 const int64_t k = run.T - 1 - step;
                 const PackedRows &later = dp[(k + 2) % 2], &now = dp[(k + 1) % 2];
                 if (k + 1 < run.T) {
                   Tile tile{later.operand(rows),
                             weights + first * block_floats,
                             entries.left,
                             entries.right,
                             entries.count,
                             block_floats,
                             dh + rows.first * s.padded + first * kBlock,
                             s.padded,
                             kBlock};
                   tile.write = Write::Add;
                   tile.rows = static_cast<int>(rows.rows);
                   s.step_sums.kernel(TileForm::Matrix, blocks, tile.rows)(tile);
                 }
                 if (k < 0) return;
                 for (int64_t n = rows.first; n < rows.first + rows.rows; n++)
                   for (int64_t block = first; block < first + blocks; block++) {
                     const int64_t unit = block * kBlock;
                     float* to = now.block(rows, n, block * kGates);
                     if (k < run.length(n)) {
                       Cells<kKind>::backward(run, run.place(n, k), state_before(run, n, k), unit,
                                              dh + n * s.padded + unit, to, s.tile * kBlock);
                     } else {
                       for (int g = 0; g < kGates; g++) std::fill_n(to + g * s.tile * kBlock, kBlock, 0.0f);
                       clear<kKind>(run, run.place(n, k), unit, std::min<int64_t>(kBlock, s.H - unit));
                     }
                     for (int g = 0; g < kGates; g++) now.finished(rows, n, block * kGates + g);
                   }
               });
    if (dh0)
      for (int64_t n = 0; n < s.N; n++) std::copy_n(dh + n * s.padded, s.H, dh0 + n * s.H);
    if (wants_weights) {
      gather_states(run, before, call.threads);
      product<kKind>(call, run, sums_of_rounded(shape_.bfloat16), before, call.address[kRecurrentDu]);
    }
    if (float* db = call.address[kRecurrentDb]) {
      const int64_t places = s.N * run.T;
      const int64_t direct = kKind == Kind::GRU ? 2 * s.H : s.H;
      sum_rows(run.z, kGates * s.H, places, direct, db, false);
      if (kKind == Kind::GRU) sum_rows(run.q, s.H, places, s.H, db + direct, false);
    }
  }

  // h before step k of a sample, or null for zeros.
  static const float* state_before(const Run& run, int64_t n, int64_t k) {
    if (k > 0) return run.y + run.place(n, k - 1) * run.s.H;
    return run.h0 ? run.h0 + n * run.s.H : nullptr;
  }

  // before[place] = h before the step that lies there; 0 for padding
  static void gather_states(const Run& run, float* before, int threads) {
    const int64_t H = run.s.H;
    parallel_items(run.s.N * run.T * H < kSerialFloats ? 1 : threads, run.s.N, [&](int64_t n) {
      for (int64_t k = 0; k < run.T; k++) {
        const float* from = k < run.length(n) ? state_before(run, n, k) : nullptr;
        float* to = before + run.place(n, k) * H;
        if (from)
          std::copy_n(from, H, to);
        else
          std::fill_n(to, H, 0.0f);
      }
    });
  }

  // dU = sum over places of dp h^T; dp is the gradient of the input part but for the candidate of a GRU
  template <Kind kKind>
  static void product(const Call& call, const Run& run, SumKind sums, const float* before, float* du) {
    const int64_t H = run.s.H, places = run.s.N * run.T, direct = kKind == Kind::GRU ? 2 * H : H;
    MatrixProduct p{direct, H, places, run.z, gates_of(kKind) * H, before, H, du, H};
    p.transpose_a = true;
    p.sums = sums;
    matrix_product(p, call.threads);
    if (kKind != Kind::GRU) return;
    MatrixProduct c{H, H, places, run.q, H, before, H, du + direct * H, H};
    c.transpose_a = true;
    c.sums = sums;
    matrix_product(c, call.threads);
  }

  RecurrentShape shape_;
};

}  // namespace

std::unique_ptr<Plan> make_recurrent(const RecurrentShape& shape) { return std::make_unique<Recurrent>(shape); }

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
