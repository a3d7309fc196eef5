// Contractions that are no matrix products: elementwise products, sums over axes, batches of dot products.
#include <algorithm>

#include "gemm/gemm.h"
#include "kernels/contraction/contraction.h"
#include "runtime/thread_pool.h"
#include "simd/vec.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace {

constexpr int64_t kSpan = 512;   // outputs of one item, summed together
constexpr int64_t kSteps = 128;  // summands added up before they join the total, which keeps long sums accurate

const float kOne = 1.f;

struct Loops {
  AxisList outer;         // of the output, but for `span`
  AxisList sums;          // summed, but for `along`
  ContractionAxis span;   // the output's axis that vectors run along
  ContractionAxis along;  // the innermost summed axis
  const float *a, *b;
  float* c;
  float alpha;
  bool accumulate;
};

// kWidth values, `step` (0, 1 or anything) apart.
OPENBNNS_INLINE Vec load_steps(const float* p, int64_t step) {
  if (step == 1) return load(p);
  if (step == 0) return splat(*p);
  float lane[kWidth];
  for (int i = 0; i < kWidth; i++) lane[i] = p[i * step];
  return load(lane);
}

// total[j] += a[j * a_step] * b[j * b_step]
OPENBNNS_INLINE void add_products(const float* a, int64_t a_step, const float* b, int64_t b_step, int64_t count,
                                  float* total) {
  int64_t j = 0;
  for (; j + kWidth <= count; j += kWidth)
    store(total + j, load(total + j) + load_steps(a + j * a_step, a_step) * load_steps(b + j * b_step, b_step));
  for (; j < count; j++) total[j] += a[j * a_step] * b[j * b_step];
}

void add_vectors(const float* from, int64_t count, float* to) {
  int64_t j = 0;
  for (; j + kWidth <= count; j += kWidth) store(to + j, load(to + j) + load(from + j));
  for (; j < count; j++) to[j] += from[j];
}

// c[j * step] = (or +=) alpha * value(j), value giving vectors and single numbers.
template <class Value>
OPENBNNS_INLINE void put(const Loops& p, float* c, int64_t count, Value value) {
  int64_t j = 0;
  if (p.span.c == 1)
    for (; j + kWidth <= count; j += kWidth) {
      Vec v = splat(p.alpha) * value.vector(j);
      store(c + j, p.accumulate ? load(c + j) + v : v);
    }
  for (; j < count; j++) {
    float v = p.alpha * value.number(j);
    c[j * p.span.c] = p.accumulate ? c[j * p.span.c] + v : v;
  }
}

struct Product {
  const float *a, *b;
  int64_t a_step, b_step;
  OPENBNNS_INLINE Vec vector(int64_t j) const {
    return load_steps(a + j * a_step, a_step) * load_steps(b + j * b_step, b_step);
  }
  OPENBNNS_INLINE float number(int64_t j) const { return a[j * a_step] * b[j * b_step]; }
};

struct Total {
  const float* total;
  OPENBNNS_INLINE Vec vector(int64_t j) const { return load(total + j); }
  OPENBNNS_INLINE float number(int64_t j) const { return total[j]; }
};

// Up to kSpan outputs side by side: for every summand one product for each of them.
void sum_span(const Loops& p, int64_t item, int64_t blocks) {
  const Offsets at = offsets_at(p.outer, item / blocks);
  const int64_t first = item % blocks * kSpan, count = std::min(kSpan, p.span.size - first);
  const int64_t turns = p.sums.product();
  const float *a0 = p.a + at.a + first * p.span.a, *b0 = p.b + at.b + first * p.span.b;
  float* c = p.c + at.c + first * p.span.c;
  if (turns == 1 && p.along.size == 1) return put(p, c, count, Product{a0, b0, p.span.a, p.span.b});
  float total[kSpan] = {}, part[kSpan];
  for (int64_t turn = 0; turn < turns; turn++) {
    const Offsets o = offsets_at(p.sums, turn);
    const float *a = a0 + o.a, *b = b0 + o.b;
    for (int64_t k = 0; k < p.along.size; k += kSteps) {
      std::fill_n(part, count, 0.f);
      for (int64_t end = std::min(p.along.size, k + kSteps), i = k; i < end; i++)
        add_products(a + i * p.along.a, p.span.a, b + i * p.along.b, p.span.b, count, part);
      add_vectors(part, count, total);
    }
  }
  put(p, c, count, Total{total});
}

// sum of a[i] * b[i], or of a[i] * b[0] with b_step 0; a has unit stride.
OPENBNNS_INLINE float dot(const float* a, const float* b, int64_t b_step, int64_t count) {
  constexpr int kSums = 4;
  Vec sum[kSums] = {};
  int64_t i = 0;
  for (; i + kSums * kWidth <= count; i += kSums * kWidth) OPENBNNS_UNROLL for (int v = 0; v < kSums; v++) {
      Vec x = load(a + i + v * kWidth);
      sum[v] += b_step ? x * load(b + i + v * kWidth) : x;
    }
  for (; i < count; i += kWidth) {
    int64_t rest = std::min<int64_t>(kWidth, count - i);
    Vec x = load_partial(a + i, rest);
    sum[0] += b_step ? x * load_partial(b + i, rest) : x;
  }
  float total = sum_lanes((sum[0] + sum[1]) + (sum[2] + sum[3]));
  return b_step ? total : total * *b;
}

// Up to kSpan outputs one after the other, each a sum along contiguous memory.
void sum_along(const Loops& p, int64_t item, int64_t blocks) {
  const Offsets at = offsets_at(p.outer, item / blocks);
  const int64_t first = item % blocks * kSpan, count = std::min(kSpan, p.span.size - first);
  const int64_t turns = p.sums.product();
  for (int64_t j = first; j < first + count; j++) {
    float total = 0;
    for (int64_t turn = 0; turn < turns; turn++) {
      const Offsets o = offsets_at(p.sums, turn);
      const float* a = p.a + at.a + o.a + j * p.span.a;
      const float* b = p.b + at.b + o.b + j * p.span.b;
      total += p.along.a == 1 ? dot(a, b, p.along.b, p.along.size) : dot(b, a, p.along.a, p.along.size);
    }
    float* c = p.c + at.c + j * p.span.c;
    *c = p.accumulate ? *c + p.alpha * total : p.alpha * total;
  }
}

bool unit_or_fixed(int64_t a, int64_t b) { return (a == 1 && (b == 0 || b == 1)) || (a == 0 && b == 1); }

// The axis that suits vectors best: unit strides, then the longest.
int best_axis(const AxisList& axes, bool needs_unit_output) {
  int best = -1;
  bool best_fits = false;
  for (int i = 0; i < axes.count; i++) {
    const ContractionAxis& x = axes.axis[i];
    bool fits = unit_or_fixed(x.a, x.b) && (!needs_unit_output || x.c == 1);
    if (best < 0 || fits > best_fits || (fits == best_fits && x.size > axes.axis[best].size))
      best = i, best_fits = fits;
  }
  return best;
}

}  // namespace

void contract_by_loops(const Contraction& given, int threads) {
  const ContractionAxis none{1, 0, 0, 0};
  Loops p{{}, {}, none, none, given.a, given.b ? given.b : &kOne, given.c, given.alpha, given.accumulate};
  for (const ContractionAxis& x : given.axes) (x.summed() ? p.sums : p.outer).add(x);
  if (p.outer.count) p.span = p.outer.take(best_axis(p.outer, true));
  if (p.sums.count) p.along = p.sums.take(best_axis(p.sums, false));
  const bool spans_vectors = p.span.c == 1 && unit_or_fixed(p.span.a, p.span.b) && p.span.size >= kWidth;
  const bool sums_vectors = unit_or_fixed(p.along.a, p.along.b) && p.along.size > 1;
  const int64_t blocks = (p.span.size + kSpan - 1) / kSpan;
  threads = useful_threads(threads, 4.0 * static_cast<double>(given.axes.product()));
  parallel_items(threads, p.outer.product() * blocks, [&](int64_t item) {
    if (sums_vectors && !spans_vectors)
      sum_along(p, item, blocks);
    else
      sum_span(p, item, blocks);
  });
}

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
