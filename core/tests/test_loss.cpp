// Loss kernels against double loops written from the formulas: every function, reduction and form of weights, batch
// strides, absent gradients, Set and Accumulate, thread counts, scratch full of NaN.
#include <algorithm>
#include <cstdlib>

#include "kernel_test.h"
#include "runtime/scratch.h"

using namespace openbnns;
using namespace kernel_test;

namespace {

enum Function { kSoftmax = 1, kSigmoid, kSquare, kHuber, kYolo, kLog, kCosine, kHinge, kAbsolute, kCategorical };
enum Reduction { kNone, kSum, kWeightedMean, kMean, kNonZeroWeightMean };

struct Problem {
  LossShape s;
  int64_t batch, losses;  // losses of one sample
  int64_t stride[7] = {};
  int weights;  // 0 none, 1 one, 2 many
  Buffer x, t, w, u;
  std::vector<double> value, slope;  // unreduced: [batch][losses], [batch][width]
  double out = 0, factor = 1;

  bool per_sample() const { return s.function == kSoftmax || s.function == kCosine || s.function == kCategorical; }
  bool reduces() const { return s.reduction != kNone; }
  double weight(int64_t n, int64_t i) const {
    if (weights == 0) return 1;
    return weights == 1 ? w[0] : w[n * stride[kLossWeights] + (stride[kLossWeights] == 1 ? 0 : i)];
  }

  // The gradient of the cosine distance multiplies x_i with a sum over the sample: the sizes of the terms of that
  // product.
  double product_terms(int64_t n, int64_t i) const {
    if (s.function != kCosine) return 0;
    double sum = 0;
    const float *a = x.data() + n * stride[kLossInput], *b = t.data() + n * stride[kLossLabels];
    for (int64_t j = 0; j < s.width; j++) sum += std::fabs(weight(n, j) * a[j] * b[j]);
    return sum * std::fabs(a[i]);
  }

  Problem(Random& random, bool large) {
    do s.function = static_cast<int>(random.between(1, 10));
    while (s.function == kYolo);
    s.reduction = static_cast<int>(random.below(5));
    s.width = large ? random.between(200, 2000) : random.between(1, 70);
    s.label_smooth = random.chance(50) ? 0.0f : 0.2f;
    s.huber_delta = 0.7f;
    s.log_epsilon = 1e-7f;
    s.divide_by_classes = random.chance(20);
    s.plain_cosine_gradient = random.chance(20);
    batch = large ? random.between(20, 60) : random.between(1, 6);
    losses = per_sample() ? 1 : s.width;
    for (int slot : {kLossInput, kLossLabels, kLossInputGradient})
      stride[slot] = s.width + (random.chance(50) ? 0 : random.between(0, 5));
    stride[kLossOutputGradient] = losses + (random.chance(50) ? 0 : random.between(0, 3));
    weights = static_cast<int>(random.below(3));
    stride[kLossWeights] = weights < 2 ? 0 : s.function == kSoftmax ? 1 : s.width;
    x = Buffer(batch * stride[kLossInput]);
    t = Buffer(batch * stride[kLossLabels]);
    w = Buffer(weights == 2 ? batch * stride[kLossWeights] : 1);
    u = Buffer(reduces() ? 1 : batch * stride[kLossOutputGradient]);
    random.fill(x, -3, 3);
    random.fill(t, 0, 1);
    random.fill(w, 0.1f, 2);
    random.fill(u, -1, 1);
    if (s.function == kLog) random.fill(x, 0.02f, 0.98f);
    for (int64_t i = 0; i < t.count(); i++)
      if (s.function == kHinge || s.function == kCategorical) t[i] = random.chance(50) ? 1.0f : 0.0f;
    for (int64_t i = 0; i < w.count() && weights == 2; i++)
      if (random.chance(20)) w[i] = 0;
    value.assign(static_cast<size_t>(batch * losses), 0);
    slope.assign(static_cast<size_t>(batch * s.width), 0);
    for (int64_t n = 0; n < batch; n++)
      per_sample() ? row(n, &value[n], &slope[n * s.width]) : elements(n, &value[n * losses], &slope[n * s.width]);
    reduce();
  }

  void elements(int64_t n, double* l, double* d) {
    for (int64_t i = 0; i < s.width; i++) {
      double a = x[n * stride[kLossInput] + i], b = t[n * stride[kLossLabels] + i], e = a - b, sign = 2 * b - 1;
      if (s.function == kSigmoid) {
        double target = b * (1 - s.label_smooth) + s.label_smooth / 2, q = 1 / (1 + std::exp(-a));
        l[i] = -target * std::log(q) - (1 - target) * std::log(1 - q);
        d[i] = q - target;
      }
      if (s.function == kSquare) l[i] = e * e, d[i] = 2 * e;
      if (s.function == kHuber) {
        double delta = s.huber_delta;
        l[i] = std::fabs(e) <= delta ? e * e / 2 : delta * (std::fabs(e) - delta / 2);
        d[i] = std::min(std::max(e, -delta), delta);
      }
      if (s.function == kLog) {
        double low = a + s.log_epsilon, high = 1 - a + s.log_epsilon;
        l[i] = -b * std::log(low) - (1 - b) * std::log(high);
        d[i] = (low - b) / (low * high);
      }
      if (s.function == kHinge) l[i] = std::max(0.0, 1 - sign * a), d[i] = sign * a <= 1 ? -sign : 0;
      if (s.function == kAbsolute) l[i] = std::fabs(e), d[i] = a >= b ? 1 : -1;
      l[i] *= weight(n, i);
      d[i] *= weight(n, i);
    }
  }

  void row(int64_t n, double* l, double* d) {
    const float *a = x.data() + n * stride[kLossInput], *b = t.data() + n * stride[kLossLabels];
    double sum = 0, labels = 0, labelled = 0, dot = 0;
    for (int64_t i = 0; i < s.width; i++) sum += std::exp(static_cast<double>(a[i]));
    auto target = [&](int64_t i) {
      return s.function == kSoftmax ? b[i] * (1.0 - s.label_smooth) + s.label_smooth / double(s.width) : double(b[i]);
    };
    for (int64_t i = 0; i < s.width; i++) labels += target(i), labelled += b[i] != 0, dot += weight(n, i) * b[i] * a[i];
    *l = s.function == kCosine ? 1 - dot : 0;
    for (int64_t i = 0; i < s.width; i++) {
      double p = std::exp(static_cast<double>(a[i])) / sum, w_i = weight(n, i);
      if (s.function == kSoftmax) {
        double factor = w_i / (s.divide_by_classes ? double(s.width) : 1.0);
        *l -= factor * target(i) * std::log(p);
        d[i] = factor * (p * labels - target(i));
      }
      if (s.function == kCategorical && labelled > 0) {
        if (b[i] != 0) *l -= w_i * b[i] * std::log(p) / labelled;
        d[i] = b[i] != 0 ? w_i * (p - 1 / labelled) : p;
      }
      if (s.function == kCosine) d[i] = -w_i * b[i] + (s.plain_cosine_gradient ? 0 : dot * a[i]);
    }
  }

  void reduce() {
    double total = 0, weight_sum = 0, nonzero = 0;
    for (double l : value) total += l;
    for (int64_t n = 0; n < batch; n++)
      for (int64_t i = 0; i < losses; i++) {
        double mean = 0;
        if (per_sample())
          for (int64_t k = 0; k < s.width; k++) mean += weight(n, k) / double(s.width);
        else
          mean = weight(n, i);
        weight_sum += mean;
        nonzero += mean != 0;
      }
    double divisor = 1;
    if (s.reduction == kMean) divisor = double(batch * losses);
    if (s.reduction == kWeightedMean) divisor = weight_sum;
    if (s.reduction == kNonZeroWeightMean) divisor = nonzero;
    factor = divisor == 0 ? 0 : 1 / divisor;
    out = factor * total;
  }
};

struct Outcome {
  Buffer out, dx;
};

Outcome run(const Kernels& set, Problem& p, bool backward, bool gradient, bool adds, int threads) {
  auto plan = set.make_loss(p.s);
  Outcome r{Buffer(p.reduces() ? 1 : p.batch * p.losses), Buffer(p.batch * p.stride[kLossInputGradient])};
  if (adds)
    for (int64_t i = 0; i < r.dx.count(); i++) r.dx[i] = 0.5f;
  Call call;
  call.batch = p.batch;
  call.threads = threads;
  std::copy(p.stride, p.stride + 7, call.stride);
  call.address[kLossInput] = p.x.data();
  call.address[kLossLabels] = p.t.data();
  call.address[kLossWeights] = p.weights ? p.w.data() : nullptr;
  call.address[kLossOutput] = backward ? nullptr : r.out.data();
  call.address[kLossInputGradient] = gradient ? r.dx.data() : nullptr;
  call.address[kLossOutputGradient] = backward ? p.u.data() : nullptr;
  if (adds) call.accumulate = 1u << kLossInputGradient;
  backward ? plan->backward(call) : plan->forward(call);
  return r;
}

void check(const Kernels& set, Problem& p, bool large, long number, Report& report) {
  double scale = std::sqrt(double(p.s.width)) + 10;
  for (bool backward : {false, true})
    for (bool adds : {false, true}) {
      Outcome r = run(set, p, backward, true, adds, 1);
      report.expect(r.out.guards_hold() && r.dx.guards_hold(), "guards", set.name, number);
      if (!backward && p.reduces()) report.expect(close(r.out[0], p.out, scale), "out", set.name, number);
      for (int64_t i = 0; !backward && !p.reduces() && i < r.out.count(); i++)
        report.expect(close(r.out[i], p.value[i], scale), "losses", set.name, number);
      for (int64_t n = 0; n < p.batch; n++)
        for (int64_t i = 0; i < p.s.width; i++) {
          double u = !backward     ? 1
                     : p.reduces() ? p.u[0]
                                   : p.u[n * p.stride[kLossOutputGradient] + (p.per_sample() ? 0 : i)];
          double wanted = p.factor * u * p.slope[n * p.s.width + i];
          float got = r.dx[n * p.stride[kLossInputGradient] + i];
          double magnitude = std::fabs(wanted) + 1 + std::fabs(p.factor * u) * p.product_terms(n, i);
          report.expect(close(got, wanted + (adds ? 0.5 : 0), magnitude), "dx", set.name, number);
        }
      if (!large) continue;
      Outcome other = run(set, p, backward, true, adds, 3);
      report.expect(r.out.same_bits(other.out) && r.dx.same_bits(other.dx), "threads", set.name, number);
    }
  Outcome with = run(set, p, false, true, false, 1), without = run(set, p, false, false, false, 1);
  for (int64_t i = 0; i < with.out.count(); i++)  // not bitwise: the compiler may fuse other multiplications and sums
    report.expect(close(without.out[i], with.out[i], scale), "no gradient", set.name, number);
}

}  // namespace

int main(int count, char** words) {
  long rounds = count > 1 ? std::atol(words[1]) : 600;
  set_scratch_poison(true);
  Report report;
  for (long i = 0; i < rounds; i++) {
    Random random(static_cast<uint64_t>(i) + 1);
    bool large = i % 20 == 0;
    Problem p(random, large);
    check(tested_kernels(), p, large, i, report);
  }
  return report.finish("loss");
}
