#include "kernels/arithmetic/blocks.h"

#include "kernels/arithmetic/operations.h"

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

OPENBNNS_INLINE void write(float* to, Vec v, int64_t count) {
  if (count >= kWidth)
    store(to, v);
  else
    store_partial(to, v, count);
}

template <class Op>
void forward(const ForwardBlock& block) {
  Reader a{}, b{}, c{};
  float repeated[3][kWidth];
  for (int64_t r = 0; r < block.rows; r++) {
    a.start(block.operand[0], r, repeated[0]);
    if (Op::kOperands > 1) b.start(block.operand[1], r, repeated[1]);
    if (Op::kOperands > 2) c.start(block.operand[2], r, repeated[2]);
    float* out = block.out + r * block.out_row_stride;
    for (int64_t left = block.columns; left > 0; left -= kWidth, out += kWidth) {
      const Vec first = a.read(left), second = Op::kOperands > 1 ? b.read(left) : zero();
      write(out, Op::forward(first, second, Op::kOperands > 2 ? c.read(left) : zero()), left);
    }
  }
}

template <class Op>
void gradients(const GradientBlock& block) {
  Reader a{}, b{}, c{}, y{}, dz{};
  float repeated[5][kWidth];
  for (int64_t r = 0; r < block.rows; r++) {
    a.start(block.operand[0], r, repeated[0]);
    if (Op::kOperands > 1) b.start(block.operand[1], r, repeated[1]);
    if (Op::kOperands > 2) c.start(block.operand[2], r, repeated[2]);
    if (Op::kUsesOutput) y.start(block.output, r, repeated[3]);
    dz.start(block.dz, r, repeated[4]);
    float* target[3];
    for (int i = 0; i < Op::kOperands; i++)
      target[i] = block.gradient[i] ? block.gradient[i] + r * block.row_stride[i] : nullptr;
    for (int64_t left = block.columns, i = 0; left > 0; left -= kWidth, i += kWidth) {
      // every read of this vector precedes every write: dz may be the memory of a gradient
      const Vec first = a.read(left), second = Op::kOperands > 1 ? b.read(left) : zero();
      const Vec third = Op::kOperands > 2 ? c.read(left) : zero();
      const Values v{first, second, third, Op::kUsesOutput ? y.read(left) : zero(), dz.read(left)};
      if (target[0]) write(target[0] + i, Op::gradient0(v), left);
      if (Op::kOperands > 1 && target[1]) write(target[1] + i, Op::gradient1(v), left);
      if (Op::kOperands > 2 && target[2]) write(target[2] + i, Op::gradient2(v), left);
    }
  }
}

template <class... Ops>
struct Table {
  static constexpr BlockKernels entries[] = {
      {forward<Ops>, gradients<Ops>, Ops::kUsesOutput, {Ops::kPasses[0], Ops::kPasses[1], Ops::kPasses[2]}}...};
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
