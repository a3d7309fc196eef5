#include "kernels/arithmetic_blocks.h"

#include "kernels/arithmetic_operations.h"
#include "simd/wide.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace arithmetic {
namespace {

// Walks one row of a source in vectors. A repeated scalar becomes a vector that is read over and over, so one loop
// serves every broadcast pattern.
struct Reader {
  const float* next;
  int64_t step;  // elements from one vector to the next: kWidth or 0

  OPENBNNS_INLINE void start(const Source& s, int64_t row, float* repeated /* [kWidth] */) {
    next = s.data + row * s.row_stride;
    step = s.column_step * kWidth;
    if (s.column_step == 0) {
      store(repeated, splat(*next));
      next = repeated;
    }
  }
  OPENBNNS_INLINE Vec read(int64_t count) {
    Vec v = count >= kWidth || step == 0 ? load(next) : load_partial(next, count);
    next += step;
    return v;
  }
};

template <class Op>
void forward(const ForwardBlock& block) {
  Reader a, b, c;
  float repeated[3][kWidth];
  for (int64_t r = 0; r < block.rows; r++) {
    a.start(block.operand[0], r, repeated[0]);
    b.start(block.operand[1], r, repeated[1]);
    c.start(block.operand[2], r, repeated[2]);
    float* out = block.out + r * block.out_row_stride;
    for (int64_t left = block.columns; left > 0; left -= kWidth, out += kWidth) {
      Vec y = Op::forward(a.read(left), b.read(left), c.read(left));
      if (left >= kWidth)
        store(out, y);
      else
        store_partial(out, y, left);
    }
  }
}

// The first `count` lanes; the others become zero, whatever they hold.
OPENBNNS_INLINE Vec keep_lanes(Vec v, int64_t count) {
  float lanes[kWidth] = {};
  store_partial(lanes, v, count);
  return load(lanes);
}

// Takes the gradient of one operand along one row.
struct Writer {
  Sink sink;
  float* target;
  double* sums;
  WideVec total;  // of the row so far, for kSumColumns

  OPENBNNS_INLINE void start(const Target& t, int64_t row) {
    sink = t.sink;
    target = t.data + (sink == Sink::kSet || sink == Sink::kAdd ? row * t.row_stride : 0);
    sums = t.sums + (sink == Sink::kSumRows || sink == Sink::kSumColumns ? row * t.row_stride : 0);
    total = WideVec{};
  }
  OPENBNNS_INLINE void write(Vec g, int64_t count) {
    if (count >= kWidth) {
      if (sink == Sink::kSet) return set(g);
      if (sink == Sink::kAdd) return set(g + load(target));
    } else {
      if (sink == Sink::kSet) return store_partial(target, g, count);
      if (sink == Sink::kAdd) return store_partial(target, g + load_partial(target, count), count);
      g = keep_lanes(g, count);
    }
    if (sink == Sink::kSumColumns) {
      total = total + widen(g);
    } else {
      store_wide(sums, load_wide(sums) + widen(g));
      sums += kWidth;
    }
  }
  OPENBNNS_INLINE void set(Vec g) {
    store(target, g);
    target += kWidth;
  }
  OPENBNNS_INLINE void finish() {
    if (sink == Sink::kSumColumns) *sums += sum_lanes(total);
  }
};

template <class Op>
void backward(const BackwardBlock& block) {
  const bool wanted0 = block.target[0].sink != Sink::kSkip;
  const bool wanted1 = block.target[1].sink != Sink::kSkip;
  const bool wanted2 = block.target[2].sink != Sink::kSkip;
  const bool same01 = block.same[0], same02 = block.same[1], same12 = block.same[2];
  const bool needed1 = wanted1 || same01, needed2 = wanted2 || same02 || same12;
  Reader a, b, c, y, dz;
  float repeated[5][kWidth];
  Writer da, db, dc;
  for (int64_t r = 0; r < block.rows; r++) {
    a.start(block.operand[0], r, repeated[0]);
    b.start(block.operand[1], r, repeated[1]);
    c.start(block.operand[2], r, repeated[2]);
    y.start(block.output, r, repeated[3]);
    dz.start(block.dz, r, repeated[4]);
    da.start(block.target[0], r);
    db.start(block.target[1], r);
    dc.start(block.target[2], r);
    for (int64_t left = block.columns; left > 0; left -= kWidth) {
      // every read of this vector precedes every write: dz may be the buffer of a gradient
      Values v{a.read(left), b.read(left), c.read(left), zero(), dz.read(left)};
      if (Op::kUsesOutput) v.y = block.output_given ? y.read(left) : Op::forward(v.a, v.b, v.c);
      Vec g0 = zero(), g1 = zero(), g2 = zero();
      if (wanted0) g0 = Op::gradient0(v);
      if (needed1) g1 = Op::gradient1(v);
      if (needed2) g2 = Op::gradient2(v);
      if (same01) g0 += g1;
      if (same02) g0 += g2;
      if (same12) g1 += g2;
      if (wanted0) da.write(g0, left);
      if (wanted1) db.write(g1, left);
      if (wanted2) dc.write(g2, left);
    }
    da.finish();
    db.finish();
    dc.finish();
  }
}

template <class... Ops>
struct Table {
  static constexpr BlockKernels entries[] = {{forward<Ops>, backward<Ops>}...};
};

// In the order of BNNSArithmeticFunction.
using AllOperations = Table<Add, Subtract, Multiply, Divide, SquareRoot, ReciprocalSquareRoot, Ceil, Floor, Round, Sin,
                            Cos, Tan, Asin, Acos, Atan, Sinh, Cosh, Tanh, Asinh, Acosh, Atanh, Pow, Exp, Exp2, Log,
                            Log2, MultiplyNoNaN, DivideNoNaN, MultiplyAdd, Minimum, Maximum, Select, Abs, Sign, Negate,
                            Reciprocal, Square, FloorDivide, TruncDivide, TruncRemainder, Erf>;

}  // namespace

const BlockKernels& block_kernels(int function) { return AllOperations::entries[function]; }

}  // namespace arithmetic
}  // namespace OPENBNNS_ISA
}  // namespace openbnns
