// Arithmetic kernels against double loops written from the table of functions: random shapes, broadcasting, roles,
// aliasing, absent tensors, Set and Accumulate, thread counts; and the documented special values.
#include <algorithm>
#include <cstdlib>

#include "kernel_test.h"
#include "runtime/scratch.h"

using namespace openbnns;
using namespace kernel_test;

namespace {

enum Function {
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kSquareRoot,
  kReciprocalSquareRoot,
  kCeil,
  kFloor,
  kRound,
  kSin,
  kCos,
  kTan,
  kAsin,
  kAcos,
  kAtan,
  kSinh,
  kCosh,
  kTanh,
  kAsinh,
  kAcosh,
  kAtanh,
  kPow,
  kExp,
  kExp2,
  kLog,
  kLog2,
  kMultiplyNoNaN,
  kDivideNoNaN,
  kMultiplyAdd,
  kMinimum,
  kMaximum,
  kSelect,
  kAbs,
  kSign,
  kNegate,
  kReciprocal,
  kSquare,
  kFloorDivide,
  kTruncDivide,
  kTruncRemainder,
  kErf,
  kFunctions
};

int operand_count(int f) {
  switch (f) {
    case kMultiplyAdd:
    case kSelect:
      return 3;
    case kAdd:
    case kSubtract:
    case kMultiply:
    case kDivide:
    case kPow:
    case kMultiplyNoNaN:
    case kDivideNoNaN:
    case kMinimum:
    case kMaximum:
    case kFloorDivide:
    case kTruncDivide:
    case kTruncRemainder:
      return 2;
    default:
      return 1;
  }
}

double value(int f, double a, double b, double c) {
  switch (f) {
    case kAdd:
      return a + b;
    case kSubtract:
      return a - b;
    case kMultiply:
      return a * b;
    case kDivide:
      return a / b;
    case kSquareRoot:
      return std::sqrt(a);
    case kReciprocalSquareRoot:
      return 1 / std::sqrt(a);
    case kCeil:
      return std::ceil(a);
    case kFloor:
      return std::floor(a);
    case kRound:
      return std::nearbyint(a);
    case kSin:
      return std::sin(a);
    case kCos:
      return std::cos(a);
    case kTan:
      return std::tan(a);
    case kAsin:
      return std::asin(a);
    case kAcos:
      return std::acos(a);
    case kAtan:
      return std::atan(a);
    case kSinh:
      return std::sinh(a);
    case kCosh:
      return std::cosh(a);
    case kTanh:
      return std::tanh(a);
    case kAsinh:
      return std::asinh(a);
    case kAcosh:
      return std::acosh(a);
    case kAtanh:
      return std::atanh(a);
    case kPow:
      return std::pow(a, b);
    case kExp:
      return std::exp(a);
    case kExp2:
      return std::exp2(a);
    case kLog:
      return std::log(a);
    case kLog2:
      return std::log2(a);
    case kMultiplyNoNaN:
      return b == 0 ? 0 : a * b;
    case kDivideNoNaN:
      return b == 0 ? 0 : a / b;
    case kMultiplyAdd:
      return a * b + c;
    case kMinimum:
      return a != a || b != b ? kNaN : std::min(a, b);
    case kMaximum:
      return a != a || b != b ? kNaN : std::max(a, b);
    case kSelect:
      return a != 0 ? b : c;
    case kAbs:
      return std::fabs(a);
    case kSign:
      return a > 0 ? 1 : a < 0 ? -1 : a;
    case kNegate:
      return -a;
    case kReciprocal:
      return 1 / a;
    case kSquare:
      return a * a;
    case kFloorDivide:
      return std::floor(a / b);
    case kTruncDivide:
      return std::trunc(a / b);
    case kTruncRemainder:
      return std::fmod(a, b);
    case kErf:
      return std::erf(a);
  }
  return 0;
}

// dz times the derivative by operand i.
double gradient(int f, int i, double a, double b, double dz) {
  double y = value(f, a, b, 0);
  switch (f) {
    case kAdd:
      return dz;
    case kSubtract:
      return i ? -dz : dz;
    case kMultiply:
      return dz * (i ? a : b);
    case kDivide:
      return i ? -dz * a / (b * b) : dz / b;
    case kSquareRoot:
      return dz / (2 * y);
    case kReciprocalSquareRoot:
      return -dz * y * y * y / 2;
    case kSin:
      return dz * std::cos(a);
    case kCos:
      return -dz * std::sin(a);
    case kTan:
      return dz * (1 + y * y);
    case kAsin:
      return dz / std::sqrt(1 - a * a);
    case kAcos:
      return -dz / std::sqrt(1 - a * a);
    case kAtan:
      return dz / (1 + a * a);
    case kSinh:
      return dz * std::cosh(a);
    case kCosh:
      return dz * std::sinh(a);
    case kTanh:
      return dz * (1 - y * y);
    case kAsinh:
      return dz / std::sqrt(a * a + 1);
    case kAcosh:
      return dz / std::sqrt(a * a - 1);
    case kAtanh:
      return dz / (1 - a * a);
    case kPow:
      if (i == 0) return b == 0 ? 0 : dz * b * std::pow(a, b - 1);
      return a == 0 && b >= 0 ? 0 : dz * y * std::log(a);
    case kExp:
      return dz * y;
    case kExp2:
      return dz * y * std::log(2.0);
    case kLog:
      return dz / a;
    case kLog2:
      return dz / (a * std::log(2.0));
    case kMultiplyNoNaN:
      return i == 0 ? (b == 0 ? 0 : dz * b) : (dz == 0 ? 0 : a * dz);
    case kDivideNoNaN:
      return b == 0 ? 0 : i ? -dz * a / (b * b) : dz / b;
    case kMultiplyAdd:
      return i == 0 ? dz * b : i == 1 ? dz * a : dz;
    case kMinimum:
      return (a <= b || a != a) == (i == 0) ? dz : 0;
    case kMaximum:
      return (a >= b || a != a) == (i == 0) ? dz : 0;
    case kSelect:
      return i == 0 ? 0 : (a != 0) == (i == 1) ? dz : 0;
    case kAbs:
      return dz * (a > 0 ? 1 : a < 0 ? -1 : a);
    case kNegate:
      return -dz;
    case kReciprocal:
      return -dz / (a * a);
    case kSquare:
      return dz * 2 * a;
    case kTruncRemainder:
      return i ? -dz * std::trunc(a / b) : dz;
    case kErf:
      return dz * 2 / std::sqrt(M_PI) * std::exp(-a * a);
  }
  return 0;  // Ceil, Floor, Round, Sign, FloorDivide, TruncDivide
}

void fill_operand(Random& random, int f, int i, Buffer& b) {
  switch (f) {
    case kSquareRoot:
    case kReciprocalSquareRoot:
    case kLog:
    case kLog2:
      return random.fill(b, 0.2f, 4);
    case kAsin:
    case kAcos:
    case kAtanh:
      return random.fill(b, -0.95f, 0.95f);
    case kTan:
      return random.fill(b, -1.2f, 1.2f);
    case kAcosh:
      return random.fill(b, 1.1f, 5);
    case kPow:
      return i == 0 ? random.fill(b, 0.2f, 2) : random.fill(b, -2, 2);
    case kDivide:
    case kDivideNoNaN:
    case kFloorDivide:
    case kTruncDivide:
    case kTruncRemainder:
    case kReciprocal:
      random.fill(b, 0.3f, 3);
      for (int64_t k = 0; k < b.count(); k++)
        if (random.chance(50)) b[k] = -b[k];
      return;
    case kSelect:
      random.fill(b, -2, 2);
      for (int64_t k = 0; i == 0 && k < b.count(); k++)
        if (random.chance(50)) b[k] = 0;
      return;
    case kRound:
      for (int64_t k = 0; k < b.count(); k++) b[k] = 0.5f * static_cast<float>(random.between(-9, 9));
      return;
    case kMinimum:
    case kMaximum:
      for (int64_t k = 0; k < b.count(); k++) b[k] = static_cast<float>(random.between(-3, 3));
      return;
    default:
      return random.fill(b, -2, 2);
  }
}

// One random problem with its answers in double.
struct Problem {
  ArithmeticShape shape;
  ActivationSpec activation;
  int64_t batch, elements = 1, row = 1;
  int64_t operand_elements[3] = {1, 1, 1};
  int64_t stride[8] = {};
  bool same = false;  // operands 0 and 1 are one tensor
  Buffer operand[3], out, dout;
  std::vector<double> y, gradients[3], magnitudes[3];

  Problem(Random& random, int function, bool large) {
    shape.function = function;
    shape.operands = operand_count(function);
    shape.rank = static_cast<int>(random.between(0, 4));
    static const int activations[] = {0, 0, 0, 1, 3, 4, 11};
    activation.function = activations[random.below(7)];
    batch = large ? random.between(1, 3) : random.chance(5) ? 0 : random.between(1, 4);
    same = shape.operands >= 2 && random.chance(15);
    for (int i = 0; i < 3; i++) shape.batched[i] = random.chance(60);
    for (int a = 0; a < shape.rank; a++) {
      shape.size[a] = random.chance(20) ? 1 : random.between(2, large ? 40 : 9);
      if (!large && random.chance(10)) shape.size[a] = random.between(10, 70);
      for (int i = 0; i < 3; i++) shape.operand_size[i][a] = random.chance(30) ? 1 : shape.size[a];
    }
    if (same) {
      shape.batched[1] = shape.batched[0];
      for (int a = 0; a < shape.rank; a++) shape.operand_size[1][a] = shape.operand_size[0][a];
    }
    for (int a = 0; a < shape.rank; a++) {
      elements *= shape.size[a];
      for (int i = 0; i < 3; i++) operand_elements[i] *= shape.operand_size[i][a];
    }
    if (shape.rank) row = shape.size[shape.rank - 1];
    auto slack = [&] { return random.chance(50) ? 0 : random.between(1, 5); };
    for (int i = 0; i < 3; i++) {
      stride[A0 + i] = operand_elements[i] + slack();
      stride[DA0 + i] = operand_elements[i] + slack();
    }
    if (same) {
      stride[A1] = stride[A0];
      stride[DA1] = stride[DA0];
    }
    stride[OUT] = elements + slack();
    stride[DOUT] = elements + slack();
    for (int i = 0; i < shape.operands; i++) {
      operand[i] = Buffer(room(A0 + i));
      fill_operand(random, function, i, operand[i]);
    }
    if (same) operand[1] = operand[0];
    out = Buffer(batch * stride[OUT]);
    dout = Buffer(batch * stride[DOUT]);
    random.fill(dout, -1, 1);
    solve();
  }

  bool batched(int slot) const { return slot == OUT || slot == DOUT || shape.batched[slot >= DA0 ? slot - DA0 : slot]; }
  int64_t room(int slot) const {
    if (slot == OUT || slot == DOUT) return batch * stride[slot];
    return batched(slot) ? batch * stride[slot] : operand_elements[slot >= DA0 ? slot - DA0 : slot];
  }
  // Element of operand i that output element e of sample n meets, in the buffer of `slot` (A0 + i or DA0 + i).
  int64_t where(int slot, int64_t n, int64_t e) const {
    int i = slot >= DA0 ? slot - DA0 : slot;
    int64_t offset = 0, step = 1;
    for (int a = shape.rank - 1; a >= 0; a--) {
      int64_t index = e % shape.size[a];
      e /= shape.size[a];
      if (shape.operand_size[i][a] != 1) offset += index * step;
      step *= shape.operand_size[i][a];
    }
    return offset + (shape.batched[i] ? n * stride[slot] : 0);
  }
  double operand_at(int i, int64_t n, int64_t e) const {
    return i < shape.operands ? double{operand[i][where(A0 + i, n, e)]} : 0.0;
  }

  void solve() {
    y.assign(static_cast<size_t>(batch * elements), 0);
    std::vector<double> z(y.size()), y_float(y.size()), dy(y.size()), dz(y.size());
    for (int64_t n = 0; n < batch; n++)
      for (int64_t e = 0; e < elements; e++) {
        z[n * elements + e] = value(shape.function, operand_at(0, n, e), operand_at(1, n, e), operand_at(2, n, e));
        dy[n * elements + e] = dout[n * stride[DOUT] + e];
      }
    activate(activation.function, z.data(), y.data(), batch * elements, row);
    for (int64_t n = 0; n < batch; n++)
      for (int64_t e = 0; e < elements; e++)
        y_float[n * elements + e] = out[n * stride[OUT] + e] = static_cast<float>(y[n * elements + e]);
    activate_backward(activation.function, y_float.data(), dy.data(), dz.data(), batch * elements, row);
    for (int i = 0; i < shape.operands; i++) {
      gradients[i].assign(static_cast<size_t>(room(DA0 + i)), 0);
      magnitudes[i] = gradients[i];
    }
    for (int64_t n = 0; n < batch; n++)
      for (int64_t e = 0; e < elements; e++)
        for (int i = 0; i < shape.operands; i++) {
          double a = operand_at(0, n, e), b = operand_at(1, n, e);
          int64_t from = n * elements + e;
          int into = same && i == 1 ? 0 : i;
          gradients[into][where(DA0 + i, n, e)] += gradient(shape.function, i, a, b, dz[from]);
          // dz of an activation is itself rounded, relative to dy
          double scale = std::fabs(dz[from]) + (activation.function ? std::fabs(dy[from]) : 0);
          magnitudes[into][where(DA0 + i, n, e)] += std::fabs(gradient(shape.function, i, a, b, scale));
        }
  }

  Call call(int threads) const {
    Call c;
    c.batch = batch;
    c.threads = threads;
    std::copy(stride, stride + 8, c.stride);
    return c;
  }
};

struct Tester {
  Report report;
  Random random{7};
  long number = 0;

  void check(bool good, const char* what, const char* isa) { report.expect(good, what, isa, number); }

  void forward(const Kernels& kernels, Problem& p, int threads, bool in_place) {
    auto plan = kernels.make_arithmetic(p.shape, p.activation);
    Call call = p.call(threads);
    Buffer copies[3] = {p.operand[0], p.operand[1], p.operand[2]};
    for (int i = 0; i < p.shape.operands; i++) call.address[A0 + i] = copies[i].data();
    if (p.same) call.address[A1] = call.address[A0];
    Buffer out(p.batch * p.stride[OUT]);
    // in place is possible where an operand has the form of the output
    bool fits = p.shape.batched[0] && p.operand_elements[0] == p.elements;
    bool aliases = in_place && fits;
    if (aliases) {
      call.stride[OUT] = call.stride[A0];
      call.address[OUT] = call.address[A0];
    } else {
      call.address[OUT] = out.data();
    }
    plan->forward(call);
    const float* result = call.address[OUT];
    bool good = true;
    for (int64_t n = 0; n < p.batch; n++)
      for (int64_t e = 0; e < p.elements; e++)
        good &= close(result[n * call.stride[OUT] + e], p.y[n * p.elements + e], 1);
    check(good, "forward", kernels.name);
    check(out.guards_hold() && copies[0].guards_hold(), "forward guards", kernels.name);
    if (!aliases)
      for (int64_t n = 0; n < p.batch; n++)
        for (int64_t e = p.elements; e < p.stride[OUT]; e++)
          check(std::isnan(out[n * p.stride[OUT] + e]), "between samples", kernels.name);
  }

  bool operands_optional(const Problem& p) const {
    switch (p.shape.function) {
      case kAdd:
      case kSubtract:
      case kCeil:
      case kFloor:
      case kRound:
        return true;
      case kSquareRoot:
      case kReciprocalSquareRoot:
      case kTanh:
      case kExp:
      case kExp2:
        return p.activation.function == 0;
      default:
        return false;
    }
  }

  void backward(const Kernels& kernels, Problem& p) {
    auto plan = kernels.make_arithmetic(p.shape, p.activation);
    bool absent[3], adds[3], no_operands = operands_optional(p) && random.chance(50);
    for (int i = 0; i < 3; i++) {
      absent[i] = random.chance(20);
      adds[i] = random.chance(40);
    }
    if (p.same) {
      adds[1] = adds[0];
      absent[0] = absent[1] = false;
    }
    bool no_output = p.activation.function == 0 && !no_operands && random.chance(30);
    bool in_place = operands_optional(p) && p.shape.batched[0] && p.operand_elements[0] == p.elements && !absent[0] &&
                    !p.same && !adds[0] && random.chance(50);
    Buffer first[3];
    for (int threads = 1; threads <= 3; threads++) {
      Call call = p.call(threads);
      Buffer grad[3], dout = p.dout;
      for (int i = 0; i < p.shape.operands; i++) {
        grad[i] = Buffer(p.room(DA0 + i));
        if (adds[i]) std::fill_n(grad[i].data(), grad[i].count(), 0.25f);
        if (!no_operands) call.address[A0 + i] = p.operand[p.same && i == 1 ? 0 : i].data();
        if (!absent[i]) call.address[DA0 + i] = grad[p.same && i == 1 ? 0 : i].data();
        if (adds[i]) call.accumulate |= 1u << (DA0 + i);
      }
      if (!no_output) call.address[OUT] = p.out.data();
      call.address[DOUT] = dout.data();
      if (in_place) {
        call.stride[DA0] = p.stride[DOUT];
        call.address[DA0] = dout.data();
      }
      plan->backward(call);
      for (int i = 0; i < p.shape.operands; i++) {
        check(grad[i].guards_hold(), "gradient guards", kernels.name);
        if (absent[i] || (p.same && i == 1)) continue;
        if (in_place && i == 0) {
          bool good = true;
          for (int64_t n = 0; n < p.batch; n++)
            for (int64_t e = 0; e < p.elements; e++)
              good &= close(dout[n * p.stride[DOUT] + e], p.gradients[0][n * p.stride[DA0] + e],
                            p.magnitudes[0][n * p.stride[DA0] + e]);
          check(good, "gradient in place", kernels.name);
          continue;
        }
        check_gradient(kernels, p, i, grad[i], adds[i]);
        if (threads == 1)
          first[i] = grad[i];
        else
          check(first[i].same_bits(grad[i]), "same bits for any thread count", kernels.name);
      }
    }
  }

  void check_gradient(const Kernels& kernels, const Problem& p, int i, const Buffer& got, bool adds) {
    bool good = true, untouched = true;
    int64_t samples = p.shape.batched[i] ? p.batch : 1, step = p.shape.batched[i] ? p.stride[DA0 + i] : 0;
    for (int64_t n = 0; n < samples; n++)
      for (int64_t e = 0; e < (step ? step : p.operand_elements[i]); e++) {
        int64_t k = n * step + e;
        if (e < p.operand_elements[i])
          good &= close(got[k], p.gradients[i][k] + (adds ? 0.25 : 0), p.magnitudes[i][k]);
        else
          untouched &= adds ? got[k] == 0.25f : std::isnan(got[k]);
      }
    check(good, "gradient", kernels.name);
    check(untouched, "gradient between samples", kernels.name);
  }

  void random_problems(const Kernels& kernels, int rounds) {
    for (int round = 0; round < rounds; round++)
      for (int f = 0; f < kFunctions; f++, number++) {
        Problem p(random, f, round % 10 == 9);
        forward(kernels, p, 1, false);
        forward(kernels, p, 3, true);
        backward(kernels, p);
      }
  }

  // Elementwise function of special values, forward and backward with dy = 1, bit for bit (NaN equals NaN).
  void special(const Kernels& kernels, int f, std::vector<float> a, std::vector<float> b, std::vector<float> y,
               std::vector<float> da, std::vector<float> db, float dy_value = 1) {
    ArithmeticShape shape;
    shape.function = f;
    shape.operands = operand_count(f);
    shape.rank = 1;
    shape.size[0] = static_cast<int64_t>(a.size());
    for (int i = 0; i < 3; i++) shape.operand_size[i][0] = shape.size[0];
    auto plan = kernels.make_arithmetic(shape, {});
    std::vector<float> out(a.size(), -7), got_a(a.size(), -7), got_b(a.size(), -7), dy(a.size(), dy_value);
    Call call;
    call.address[A0] = a.data();
    if (!b.empty()) call.address[A1] = b.data();
    call.address[OUT] = out.data();
    plan->forward(call);
    call.address[DOUT] = dy.data();
    call.address[DA0] = got_a.data();
    if (!b.empty()) call.address[DA1] = got_b.data();
    plan->backward(call);
    auto equal = [](const std::vector<float>& u, const std::vector<float>& v) {
      for (size_t i = 0; i < v.size(); i++)
        if (!(u[i] == v[i] || (u[i] != u[i] && v[i] != v[i]))) return false;
      return true;
    };
    number = f;
    check(equal(out, y), "special values", kernels.name);
    check(equal(got_a, da), "special gradient 0", kernels.name);
    if (!b.empty()) check(equal(got_b, db), "special gradient 1", kernels.name);
  }

  void special_values(const Kernels& k) {
    const float n = kNaN, i = kInfinity;
    special(k, kRound, {0.5f, 1.5f, 2.5f, -0.5f, -1.5f, 2.4999f, n, i}, {}, {0, 2, 2, 0, -2, 2, n, i},
            {0, 0, 0, 0, 0, 0, 0, 0}, {});
    special(k, kSign, {0.0f, -0.0f, 3, -2, n, i, -i}, {}, {0, 0, 1, -1, n, 1, -1}, {0, 0, 0, 0, 0, 0, 0}, {});
    special(k, kAbs, {0, -3, 2, -i}, {}, {0, 3, 2, i}, {0, -1, 1, -1}, {});
    special(k, kMultiplyNoNaN, {n, i, 2, n}, {0, 0, 3, 1}, {0, 0, 6, n}, {0, 0, 3, 1}, {n, i, 2, n});
    special(k, kMultiplyNoNaN, {n, i, 2, n}, {0, 0, 3, 1}, {0, 0, 6, n}, {0, 0, 0, 0}, {0, 0, 0, 0}, 0);
    special(k, kDivideNoNaN, {n, 1, 6, i}, {0, 0, 2, 2}, {0, 0, 3, i}, {0, 0, 0.5f, 0.5f}, {0, 0, -1.5f, -i});
    special(k, kMinimum, {1, 2, 2, n, 1, i}, {2, 1, 2, 1, n, -i}, {1, 1, 2, n, n, -i}, {1, 0, 1, 1, 0, 0},
            {0, 1, 0, 0, 1, 1});
    special(k, kMaximum, {1, 2, 2, n, 1, i}, {2, 1, 2, 1, n, -i}, {2, 2, 2, n, n, i}, {0, 1, 1, 1, 0, 1},
            {1, 0, 0, 0, 1, 0});
    special(k, kPow, {0, 0, 2, 1}, {2, 0, 0, 3}, {0, 1, 1, 1}, {0, 0, 0, 3}, {0, 0, std::log(2.0f), 0});
    special(k, kFloorDivide, {0.7f, -7, 7, 1}, {0.1f, 2, -2, 0}, {6, -4, -4, i}, {0, 0, 0, 0}, {0, 0, 0, 0});
    special(k, kTruncDivide, {0.7f, -7, 7, -1}, {0.1f, 2, -2, 0}, {6, -3, -3, -i}, {0, 0, 0, 0}, {0, 0, 0, 0});
    special(k, kTruncRemainder, {-7, 7, 1e10f, 5, 1}, {2, -2, 3, i, 0}, {-1, 1, std::fmod(1e10f, 3.0f), 5, n},
            {1, 1, 1, 1, 1}, {3, 3, -std::trunc(float(1e10 / 3.0)), 0, -i});
    special(k, kReciprocal, {2, -4, 0.0f}, {}, {0.5f, -0.25f, i}, {-0.25f, -0.0625f, -i}, {});
    special(k, kAsin, {1, -1, 2}, {}, {std::asin(1.0f), -std::asin(1.0f), n}, {i, i, n}, {});
    special(k, kSquareRoot, {0, 4, -1}, {}, {0, 2, n}, {i, 0.25f, n}, {});
    special(k, kSelect, {0, 1, -0.0f, n}, {2, 3, 4, 5}, {0, 3, 0, 5}, {0, 0, 0, 0}, {0, 1, 0, 1});
  }

  // Operands i and j of a * b + c (or all three) are one tensor: its gradient is the sum, Set or Accumulate.
  void shared_operands(const Kernels& kernels) {
    const float base[3] = {3, 5, 7};
    const int pairs[4][3] = {{0, 0, 2}, {0, 1, 0}, {0, 1, 1}, {0, 0, 0}};
    for (const int (&owner)[3] : pairs)
      for (bool adds : {false, true}) {
        ArithmeticShape shape;
        shape.function = kMultiplyAdd;
        shape.operands = 3;
        shape.rank = 1;
        shape.size[0] = 19;
        Buffer values[3] = {Buffer(19), Buffer(19), Buffer(19)}, grads[3] = {Buffer(19), Buffer(19), Buffer(19)},
               dy(19);
        std::fill_n(dy.data(), 19, 2.0f);
        Call call;
        call.address[DOUT] = dy.data();
        float wanted[3] = {};
        for (int i = 0; i < 3; i++) {
          shape.operand_size[i][0] = 19;
          std::fill_n(values[i].data(), 19, base[i]);
          std::fill_n(grads[i].data(), 19, 0.25f);
          call.address[A0 + i] = values[owner[i]].data();
          call.address[DA0 + i] = grads[owner[i]].data();
          if (adds) call.accumulate |= 1u << (DA0 + i);
          wanted[owner[i]] += 2 * (i == 0 ? base[owner[1]] : i == 1 ? base[owner[0]] : 1);
        }
        kernels.make_arithmetic(shape, {})->backward(call);
        for (int i = 0; i < 3; i++)
          if (owner[i] == i)
            check(grads[i][0] == wanted[i] + (adds ? 0.25f : 0) && grads[i][18] == grads[i][0], "shared operands",
                  kernels.name);
      }
  }

  // The gradient of a scalar and of a row over a million elements keeps float accuracy.
  void long_sums(const Kernels& kernels) {
    const int64_t rows = 16384, columns = 64;
    for (int scalar = 0; scalar < 2; scalar++) {
      ArithmeticShape shape;
      shape.function = kAdd;
      shape.operands = 2;
      shape.rank = 1;
      shape.size[0] = shape.operand_size[0][0] = columns;
      shape.operand_size[1][0] = scalar ? 1 : columns;
      shape.batched[0] = true;
      auto plan = kernels.make_arithmetic(shape, {});
      Buffer dout(rows * columns), sums(scalar ? 1 : columns);
      random.fill(dout, 0, 1);
      Call call;
      call.batch = rows;
      call.threads = 2;
      call.stride[DOUT] = columns;
      call.address[DOUT] = dout.data();
      call.address[DA1] = sums.data();
      plan->backward(call);
      std::vector<double> wanted(static_cast<size_t>(sums.count()), 0);
      for (int64_t k = 0; k < rows * columns; k++) wanted[scalar ? 0 : k % columns] += dout[k];
      for (int64_t k = 0; k < sums.count(); k++)
        check(std::fabs(sums[k] - wanted[k]) <= 1e-7 * wanted[k], "long sums", kernels.name);
    }
  }
};

}  // namespace

int main(int argc, char** argv) {
  int rounds = argc > 1 ? std::atoi(argv[1]) : 40;
  set_scratch_poison(true);
  Tester tester;
  tester.random_problems(tested_kernels(), rounds);
  tester.special_values(tested_kernels());
  tester.shared_operands(tested_kernels());
  tester.long_sums(tested_kernels());
  return tester.report.finish("arithmetic");
}
