// Softmax and log-softmax: packed rows are vectorised along the row, interleaved columns across columns.
#include "kernels/activation/loops.h"
#include "simd/maximum.h"
#include "simd/stream.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace {

// A long float sum in two levels, so that its rounding error grows with the square root of its length.
class Sum {
 public:
  OPENBNNS_INLINE void add(Vec v) { part_ += v; }
  OPENBNNS_INLINE void close_part() {
    total_ += part_;
    part_ = Vec{};
  }
  OPENBNNS_INLINE Vec lanes() const { return total_ + part_; }

 private:
  Vec total_{}, part_{};
};
constexpr int64_t kPartVectors = 64;

// Calls full(i) for the whole vectors of a row, last(i, lanes) for the rest, and after() to close a part of the sums.
template <class Full, class Last, class After>
OPENBNNS_INLINE void over_row(int64_t length, Full full, Last last, After after) {
  constexpr int64_t kPart = kPartVectors * kWidth;
  int64_t i = 0;
  while (i + kWidth <= length) {
    int64_t end = i + kPart < length ? i + kPart : length;
    for (; i + kWidth <= end; i += kWidth) full(i);
    after();
  }
  if (i < length) last(i, length - i);
}

// exp(x - max) in the first `count` lanes, 0 in the others. Those compute exp(0): exp(-inf) would pass through
// subnormal numbers, which cost more than all the rest of a short row.
OPENBNNS_INLINE Vec exp_of_last(const float* x, int64_t count, Vec largest) {
  const IntVec inside = first_lanes(count);
  return select(inside, math::exp_not_positive(select(inside, load_partial(x, count) - largest, Vec{})), Vec{});
}

// y = exp(x - max) / sum exp(x - max); the numerators wait in `row`, which may be y. A NaN in the row, or nothing but
// -inf, makes the whole row NaN.
template <bool kStream>
void softmax_row(const float* x, float* y, float* row, int64_t length) {
  Vec largest = splat(row_maximum(x, length));
  Sum sum;
  over_row(
      length,
      [&](int64_t i) {
        Vec e = math::exp_not_positive(load(x + i) - largest);
        store(row + i, e);
        sum.add(e);
      },
      [&](int64_t i, int64_t count) {
        Vec e = exp_of_last(x + i, count, largest);
        store_partial(row + i, e, count);
        sum.add(e);
      },
      [&] { sum.close_part(); });
  Vec inverse = splat(1.0f / sum_lanes(sum.lanes()));
  over_vectors<kStream>(
      y, length, [&](int64_t i) { put<kStream>(y + i, load(row + i) * inverse); },
      [&](int64_t i, int64_t count) { store_partial(y + i, load_partial(row + i, count) * inverse, count); });
}

// y = (x - max) - log(sum exp(x - max))
template <bool kStream>
void log_softmax_row(const float* x, float* y, int64_t length) {
  Vec largest = splat(row_maximum(x, length));
  Sum sum;
  over_row(
      length, [&](int64_t i) { sum.add(math::exp_not_positive(load(x + i) - largest)); },
      [&](int64_t i, int64_t count) { sum.add(exp_of_last(x + i, count, largest)); }, [&] { sum.close_part(); });
  Vec shift = math::log(splat(sum_lanes(sum.lanes())));
  over_vectors<kStream>(
      y, length, [&](int64_t i) { put<kStream>(y + i, (load(x + i) - largest) - shift); },
      [&](int64_t i, int64_t count) { store_partial(y + i, (load_partial(x + i, count) - largest) - shift, count); });
}

// The gradient of one vector, `total` being sum(dy * y) (softmax) or sum(dy) (log-softmax):
//   y = exp(x) / sum exp(x)     dx = y * (dy - sum(dy * y))
//   y = x - log sum exp(x)      dx = dy - exp(y) * sum(dy)
template <bool kLogarithm>
OPENBNNS_INLINE Vec gradient(Vec y, Vec dy, Vec total) {
  return kLogarithm ? dy - math::exp(y) * total : y * (dy - total);
}
template <bool kLogarithm>
OPENBNNS_INLINE Vec summand(Vec y, Vec dy) {
  return kLogarithm ? dy : y * dy;
}

template <bool kLogarithm, Write kWrite>
void backward_row(const float* y, const float* dy, float* dx, int64_t length) {
  Sum sum;
  over_row(
      length, [&](int64_t i) { sum.add(summand<kLogarithm>(load(y + i), load(dy + i))); },
      [&](int64_t i, int64_t count) {
        sum.add(summand<kLogarithm>(load_partial(y + i, count), load_partial(dy + i, count)));
      },
      [&] { sum.close_part(); });
  Vec total = splat(sum_lanes(sum.lanes()));
  constexpr bool kStream = kWrite == Write::kStream, kAdd = kWrite == Write::kAdd;
  over_vectors<kStream>(
      dx, length,
      [&](int64_t i) {
        Vec g = gradient<kLogarithm>(load(y + i), load(dy + i), total);
        put<kStream>(dx + i, kAdd ? load(dx + i) + g : g);
      },
      [&](int64_t i, int64_t count) {
        Vec g = gradient<kLogarithm>(load_partial(y + i, count), load_partial(dy + i, count), total);
        store_partial(dx + i, kAdd ? load_partial(dx + i, count) + g : g, count);
      });
}

// How a group of columns is read and written: whole vectors, or the first lanes of one.
struct WholeVector {
  OPENBNNS_INLINE Vec read(const float* p) const { return load(p); }
  OPENBNNS_INLINE void write(float* p, Vec v) const { store(p, v); }
};
struct PartOfVector {
  int64_t count;
  OPENBNNS_INLINE Vec read(const float* p) const { return load_partial(p, count); }
  OPENBNNS_INLINE void write(float* p, Vec v) const { store_partial(p, v, count); }
};

template <class Access>
void forward_columns(Access access, bool logarithm, int64_t length, Strided<const float> x, Strided<float> y) {
  Vec largest = splat(-math::kInfinity);
  for (int64_t j = 0; j < length; j++) largest = math::max(access.read(x.data + j * x.step), largest);
  Sum sum;
  for (int64_t j = 0; j < length; j++) {
    Vec e = math::exp_not_positive(access.read(x.data + j * x.step) - largest);
    sum.add(e);
    if (!logarithm) access.write(y.data + j * y.step, e);
    if (j % kPartVectors == 0) sum.close_part();
  }
  if (logarithm) {
    Vec shift = math::log(sum.lanes());
    for (int64_t j = 0; j < length; j++)
      access.write(y.data + j * y.step, (access.read(x.data + j * x.step) - largest) - shift);
  } else {
    Vec inverse = 1.0f / sum.lanes();
    for (int64_t j = 0; j < length; j++) access.write(y.data + j * y.step, access.read(y.data + j * y.step) * inverse);
  }
}

template <bool kLogarithm, class Access>
void backward_columns(Access access, int64_t length, Strided<const float> y, Strided<const float> dy, Strided<float> dx,
                      bool add) {
  Sum sum;
  for (int64_t j = 0; j < length; j++) {
    sum.add(summand<kLogarithm>(access.read(y.data + j * y.step), access.read(dy.data + j * dy.step)));
    if (j % kPartVectors == 0) sum.close_part();
  }
  Vec total = sum.lanes();
  for (int64_t j = 0; j < length; j++) {
    Vec g = gradient<kLogarithm>(access.read(y.data + j * y.step), access.read(dy.data + j * dy.step), total);
    float* out = dx.data + j * dx.step;
    access.write(out, add ? access.read(out) + g : g);
  }
}

template <bool kLogarithm>
void backward(Columns shape, Strided<const float> y, Strided<const float> dy, Strided<float> dx, Write write) {
  if (y.step == 1 && dy.step == 1 && dx.step == 1) {
    auto row = write == Write::kSet   ? backward_row<kLogarithm, Write::kSet>
               : write == Write::kAdd ? backward_row<kLogarithm, Write::kAdd>
                                      : backward_row<kLogarithm, Write::kStream>;
    return row(y.data, dy.data, dx.data, shape.length);
  }
  bool add = write == Write::kAdd;
  if (shape.columns == kWidth) return backward_columns<kLogarithm>(WholeVector{}, shape.length, y, dy, dx, add);
  backward_columns<kLogarithm>(PartOfVector{shape.columns}, shape.length, y, dy, dx, add);
}

void forward_row(bool logarithm, const float* x, float* y, float* row, int64_t length) {
  if (logarithm) return row ? log_softmax_row<true>(x, y, length) : log_softmax_row<false>(x, y, length);
  row ? softmax_row<true>(x, y, row, length) : softmax_row<false>(x, y, y, length);
}

}  // namespace

void softmax_forward(bool logarithm, Columns shape, Strided<const float> x, Strided<float> y, float* row) {
  if (x.step == 1 && y.step == 1) return forward_row(logarithm, x.data, y.data, row, shape.length);
  if (shape.columns == kWidth) return forward_columns(WholeVector{}, logarithm, shape.length, x, y);
  forward_columns(PartOfVector{shape.columns}, logarithm, shape.length, x, y);
}

void softmax_backward(bool logarithm, Columns shape, Strided<const float> y, Strided<const float> dy, Strided<float> dx,
                      Write write) {
  logarithm ? backward<true>(shape, y, dy, dx, write) : backward<false>(shape, y, dy, dx, write);
}

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
