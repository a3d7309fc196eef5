// Activations against formulas in double: values, both derivatives, in place, accumulated, strided, on many threads.
// Compiled once per instruction set.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "kernel_test.h"
#include "kernels/activation/activation.h"
#include "kernels/kernels.h"
#include "runtime/scratch.h"
#include "simd/random.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace {

using kernel_test::Buffer;
using kernel_test::kInfinity;
using kernel_test::kNaN;
using kernel_test::Random;
using kernel_test::Report;

Report report;

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double clamp(double x, double low, double high) { return std::min(high, std::max(low, x)); }
double normal_distribution(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }

constexpr double kSeluScale = 1.0507009873554805, kSeluAlpha = 1.6732632423543772;

double value(const ActivationSpec& f, double x) {
  double a = f.alpha, b = f.beta;
  switch (f.function) {
    case 0:
      return x;
    case 1:
      return std::max(x, 0.0);
    case 2:
    case 29:
      return x < 0 ? a * x : x;
    case 3:
      return sigmoid(x);
    case 4:
      return std::tanh(x);
    case 5:
      return a * std::tanh(b * x);
    case 6:
      return std::fabs(x);
    case 7:
      return a * x;
    case 8:
      return clamp(x, a, b);
    case 12:
      return 0.5 * x * (1 + std::tanh(a * (x + b * x * x * x)));
    case 15:
      return clamp(a * x + b, 0, 1);
    case 16:
      return a * std::log1p(std::exp(b * x));
    case 17:
      return x / (1 + std::fabs(x));
    case 18:
      return x < 0 ? a * std::expm1(x) : x;
    case 19:
      return std::min(b, x < 0 ? a * x : x);
    case 20:
      return a * x + b;
    case 22:
      return -std::log1p(std::exp(-x));
    case 23:
      return kSeluScale * (x < 0 ? kSeluAlpha * std::expm1(x) : x);
    case 24:
      return x < 0 ? a * std::expm1(x / a) : x;
    case 25:
      return std::fabs(x) < std::fabs(a) ? 0 : x;
    case 26:
      return std::fabs(x) < std::fabs(a) ? 0 : x - std::copysign(a, x);
    case 27:
      return x - std::tanh(x);
    case 28:
      return x <= a ? b : x;
    case 30:
      return x * clamp(x + 3, 0, 6) / 6;
    case 31:
      return x * sigmoid(x);
    case 32:
      return clamp(x, 0, 6);
    case 33:
      return std::erf(x);
    case 34:
      return x * normal_distribution(x);
    case 35:
      return x * sigmoid(1.702 * x);
    default:
      return kNaN;
  }
}

double slope(const ActivationSpec& f, double x) {
  double a = f.alpha, b = f.beta, y = value(f, x);
  auto swish_slope = [x](double k) { return sigmoid(k * x) * (1 + k * x * sigmoid(-k * x)); };
  switch (f.function) {
    case 0:
      return 1;
    case 1:
      return x > 0;
    case 2:
    case 29:
      return x < 0 ? a : 1;
    case 3:
      return y * (1 - y);
    case 4:
      return 1 - y * y;
    case 5:
      return a * b * (1 - std::pow(std::tanh(b * x), 2));
    case 6:
      return (x > 0) - (x < 0);
    case 7:
    case 20:
      return a;
    case 8:
      return x > a && x < b;
    case 12: {
      double t = std::tanh(a * (x + b * x * x * x));
      return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * a * (1 + 3 * b * x * x);
    }
    case 15:
      return a * x + b > 0 && a * x + b < 1 ? a : 0;
    case 16:
      return a * b * sigmoid(b * x);
    case 17:
      return 1 / std::pow(1 + std::fabs(x), 2);
    case 18:
      return x < 0 ? a * std::exp(x) : 1;
    case 19:
      return y >= b ? 0 : x < 0 ? a : 1;
    case 22:
      return sigmoid(-x);
    case 23:
      return x < 0 ? kSeluScale * kSeluAlpha * std::exp(x) : kSeluScale;
    case 24:
      return x < 0 ? std::exp(x / a) : 1;
    case 25:
      return !(std::fabs(x) < std::fabs(a));
    case 26:
      return !(std::fabs(x) <= std::fabs(a));
    case 27:
      return std::pow(std::tanh(x), 2);
    case 28:
      return x > a;
    case 30:
      return x <= -3 ? 0 : x >= 3 ? 1 : (2 * x + 3) / 6;
    case 31:
      return swish_slope(1);
    case 32:
      return x > 0 && x < 6;
    case 33:
      return 2 / std::sqrt(M_PI) * std::exp(-x * x);
    case 34:
      return normal_distribution(x) + x * std::exp(-x * x / 2) / std::sqrt(2 * M_PI);
    case 35:
      return swish_slope(1.702);
    default:
      return kNaN;
  }
}

const ActivationSpec kElementwise[] = {
    {0, 0, 0},
    {1, 0, 0},
    {2, 0.1f, 0},
    {2, 0, 0},
    {3, 0, 0},
    {4, 0, 0},
    {5, 1.7f, 0.6f},
    {6, 0, 0},
    {7, -1.5f, 0},
    {8, -1, 2.5f},
    {12, 0.7978846f, 0.044715f},
    {15, 0.2f, 0.5f},
    {16, 1.3f, 0.8f},
    {16, -2, 1.5f},
    {17, 0, 0},
    {18, 0.7f, 0},
    {18, 0, 0},
    {19, 0.2f, 3},
    {20, 0.3f, -2},
    {22, 0, 0},
    {23, 0, 0},
    {24, 1.4f, 0},
    {25, 0.5f, 0},
    {26, -0.5f, 0},
    {27, 0, 0},
    {28, 0.5f, -1},
    {29, 0.25f, 0},
    {30, 0, 0},
    {31, 0, 0},
    {32, 0, 0},
    {33, 0, 0},
    {34, 0, 0},
    {35, 0, 0},
};

// Functions whose derivative the interface takes from y. Shrinks are left out at points where y = 0 is a kink.
bool from_output_allowed(int function) {
  for (int excluded : {6, 12, 30, 31, 33, 34})
    if (function == excluded) return false;
  return true;
}

// Where y does not determine x, or determines it badly.
bool output_tells(const ActivationSpec& f, float x) {
  if (f.function == 35) return x > -0.7f;
  if ((f.function == 2 || f.function == 18) && f.alpha == 0) return x != 0;  // y = 0: x may be anything below 0
  if (f.function == 26) return std::fabs(std::fabs(x) - std::fabs(f.alpha)) > 1e-3f;
  return true;
}

const char* place(const ActivationSpec& f) {
  static std::string text;
  text = "function " + std::to_string(f.function) + ", alpha " + std::to_string(f.alpha);
  return text.c_str();
}

bool near(float got, double wanted, double scale) {
  if (std::isnan(wanted)) return std::isnan(got);
  return std::fabs(got - wanted) <= 1e-6 * (std::fabs(wanted) + scale);
}

// Arguments on both sides of every kink, on the kinks, and where functions saturate.
void fill_arguments(Random& random, Buffer& x) {
  const float places[] = {0, -0.0f, 0.5f, -0.5f, 2.5f, -1, 3, -3, 6, 1e-3f, -1e-3f, 20, -20, 1e-20f, 60, -60};
  for (int64_t i = 0; i < x.count(); i++) x[i] = random.chance(25) ? places[random.below(16)] : random.uniform(-7, 7);
}

void check_oracle() {
  for (const ActivationSpec& f : kElementwise)
    for (double x = -5.123456; x < 5; x += 0.0999) {
      double h = 1e-6, numeric = (value(f, x + h) - value(f, x - h)) / (2 * h);
      report.expect(std::fabs(numeric - slope(f, x)) < 1e-6 || std::fabs(numeric) > 1e3, "oracle", place(f),
                    static_cast<long>(x * 1000));
    }
}

void check_interface(const ActivationSpec& f, int64_t count, Random& random) {
  Buffer x(count), y(count), dy(count), dx(count), same(count);
  fill_arguments(random, x);
  random.fill(dy, -2, 2);
  activation_forward(f, x.data(), y.data(), count, count);
  for (int64_t i = 0; i < count; i++) same[i] = x[i];
  activation_forward(f, same.data(), same.data(), count, count);
  report.expect(same.same_bits(y) && y.guards_hold(), "forward in place", place(f), count);
  for (int64_t i = 0; i < count; i++) report.expect(near(y[i], value(f, x[i]), 0.5), "forward", place(f), i);
  if (!from_output_allowed(f.function)) return;
  activation_backward_from_output(f, y.data(), dy.data(), dx.data(), count, count);
  for (int64_t i = 0; i < count; i++) same[i] = dy[i];
  activation_backward_from_output(f, y.data(), same.data(), same.data(), count, count);
  report.expect(same.same_bits(dx) && dx.guards_hold(), "backward in place", place(f), count);
  for (int64_t i = 0; i < count; i++)
    if (output_tells(f, x[i])) {
      double tolerance = f.function == 35 ? 20 : 2;
      report.expect(near(dx[i], dy[i] * slope(f, x[i]), tolerance), "backward from output", place(f), i);
    }
}

// A call with gaps between samples.
struct Tensors {
  int64_t batch, sample, stride;
  Buffer x, y, dx, dy, dw;
  Tensors(int64_t batch, int64_t sample, int64_t gap, int64_t parameters)
      : batch(batch),
        sample(sample),
        stride(sample + gap),
        x(batch * stride),
        y(batch * stride),
        dx(batch * stride),
        dy(batch * stride),
        dw(parameters) {}
  Call call(int threads) {
    Call c;
    c.batch = batch;
    c.threads = threads;
    const int slots[] = {X, Y, DX, DY};
    Buffer* buffers[] = {&x, &y, &dx, &dy};
    for (int i = 0; i < 4; i++) {
      c.address[slots[i]] = buffers[i]->data();
      c.stride[slots[i]] = stride;
    }
    return c;
  }
  int64_t index(int64_t n, int64_t i) const { return n * stride + i; }
  bool gap_untouched(const Buffer& b) const {
    for (int64_t n = 0; n < batch; n++)
      for (int64_t i = sample; i < stride; i++)
        if (!std::isnan(b[n * stride + i])) return false;
    return b.guards_hold();
  }
};

void check_plan(const ActivationSpec& f, int64_t batch, int64_t sample, int64_t gap, Random& random) {
  Tensors t(batch, sample, gap, 1);
  fill_arguments(random, t.x);
  random.fill(t.dy, -2, 2);
  for (int64_t n = 0; n < batch; n++)
    for (int64_t i = sample; i < t.stride; i++) t.x[t.index(n, i)] = t.dy[t.index(n, i)] = kNaN;
  auto plan = make_activation({1, sample, 1, f.function == 29 ? 1 : 0}, f);
  Call c = t.call(1);
  plan->forward(c);
  for (int64_t n = 0; n < batch; n++)
    for (int64_t i = 0; i < sample; i++)
      report.expect(near(t.y[t.index(n, i)], value(f, t.x[t.index(n, i)]), 0.5), "plan forward", place(f), i);
  report.expect(t.gap_untouched(t.y), "gap of y", place(f), sample);

  bool has_alpha_gradient = f.function == 2 || f.function == 29;
  if (has_alpha_gradient) c.address[DW] = t.dw.data();
  plan->backward(c);
  double alpha_gradient = 0, magnitude = 0;
  for (int64_t n = 0; n < batch; n++)
    for (int64_t i = 0; i < sample; i++) {
      int64_t k = t.index(n, i);
      double x = t.x[k], d = t.dy[k];
      report.expect(near(t.dx[k], d * slope(f, x), 2), "plan backward", place(f), i);
      alpha_gradient += x < 0 ? x * d : 0;
      magnitude += std::fabs(x * d);
    }
  report.expect(t.gap_untouched(t.dx), "gap of dx", place(f), sample);
  if (has_alpha_gradient)
    report.expect(std::fabs(t.dw[0] - alpha_gradient) <= 1e-6 * magnitude, "alpha gradient", place(f), sample);

  // accumulating into what is there; without x, from y
  Buffer first = t.dx;
  float alpha_first = t.dw[0];
  c.accumulate = 1u << DX | 1u << DW;
  plan->backward(c);
  for (int64_t n = 0; n < batch; n++)
    for (int64_t i = 0; i < sample; i++) {
      int64_t k = t.index(n, i);
      report.expect(near(t.dx[k], 2.0 * first[k], 1), "accumulate", place(f), i);
    }
  if (has_alpha_gradient) report.expect(near(t.dw[0], 2.0 * alpha_first, 1e-3), "accumulate alpha", place(f), sample);
  if (from_output_allowed(f.function)) {
    c.accumulate = 0;
    c.address[DW] = nullptr;
    c.address[X] = nullptr;
    plan->backward(c);
    for (int64_t n = 0; n < batch; n++)
      for (int64_t i = 0; i < sample; i++) {
        int64_t k = t.index(n, i);
        if (output_tells(f, t.x[k]))
          report.expect(near(t.dx[k], first[k], f.function == 35 ? 20 : 2), "plan from output", place(f), i);
      }
  }
  // no gradient asked for: nothing happens
  c.address[DX] = nullptr;
  plan->backward(c);
}

// Same bits for 1, 2, 3 threads, and all of in-place forward and backward.
void check_threads(const ActivationSpec& f, const ActivationShape& shape, int64_t batch, Random& random) {
  int64_t sample = shape.outer * shape.length * shape.inner;
  Tensors t(batch, sample, 3, std::max<int64_t>(1, shape.channels));
  random.fill(t.x, -4, 4);
  random.fill(t.dy, -2, 2);
  Buffer y, dx, dw;
  for (int threads = 1; threads <= 3; threads++) {
    auto plan = make_activation(shape, f);
    Tensors now = t;
    Call c = now.call(threads);
    if (f.function == 2 || f.function == 29) c.address[DW] = now.dw.data();
    plan->forward(c);
    plan->backward(c);
    if (threads == 1) {
      y = now.y, dx = now.dx, dw = now.dw;
      continue;
    }
    report.expect(now.y.same_bits(y) && now.dx.same_bits(dx) && now.dw.same_bits(dw), "threads", place(f), threads);
  }
}

void check_softmax(const ActivationSpec& f, const ActivationShape& s, int64_t batch, Random& random) {
  int64_t sample = s.outer * s.length * s.inner;
  Tensors t(batch, sample, 5, 1);
  random.fill(t.x, -9, 9);
  random.fill(t.dy, -2, 2);
  if (s.length > 2) t.x[0] = -kInfinity, t.x[s.inner] = 40;
  auto plan = make_activation(s, f);
  plan->forward(t.call(2));
  plan->backward(t.call(2));
  Buffer from_y = t.dx, from_x = t.dx;
  Call c = t.call(2);
  c.address[Y] = nullptr;
  c.address[DX] = from_x.data();
  plan->backward(c);
  c.accumulate = 1u << DX;
  Buffer twice = from_x;
  c.address[DX] = twice.data();
  plan->backward(c);
  bool logarithm = f.function == 21;
  for (int64_t n = 0; n < batch; n++)
    for (int64_t o = 0; o < s.outer; o++)
      for (int64_t i = 0; i < s.inner; i++) {
        auto index = [&](int64_t j) { return t.index(n, (o * s.length + j) * s.inner + i); };
        double largest = -INFINITY, sum = 0, total = 0;
        for (int64_t j = 0; j < s.length; j++) largest = std::max(largest, double(t.x[index(j)]));
        for (int64_t j = 0; j < s.length; j++) sum += std::exp(t.x[index(j)] - largest);
        auto soft = [&](int64_t j) { return std::exp(t.x[index(j)] - largest) / sum; };
        for (int64_t j = 0; j < s.length; j++) total += t.dy[index(j)] * (logarithm ? 1 : soft(j));
        for (int64_t j = 0; j < s.length; j++) {
          int64_t k = index(j);
          double y = logarithm ? t.x[k] - largest - std::log(sum) : soft(j);
          double dx = logarithm ? t.dy[k] - soft(j) * total : soft(j) * (t.dy[k] - total);
          double scale = logarithm ? 3 + std::fabs(total) : 4 * soft(j);
          bool same = y == t.y[k];  // infinities
          report.expect(same || near(t.y[k], y, logarithm ? 2 : 1e-6), "softmax", place(f), s.length);
          report.expect(near(from_y[k], dx, scale), "softmax backward from y", place(f), s.length);
          report.expect(near(from_x[k], dx, scale), "softmax backward from x", place(f), s.length);
          report.expect(near(twice[k], 2 * dx, 2 * scale), "softmax accumulate", place(f), s.length);
        }
      }
  report.expect(t.gap_untouched(t.y) && t.gap_untouched(t.dx) && from_x.guards_hold(), "softmax gaps", place(f),
                s.inner);
  // in place
  Tensors p = t;
  Call in_place = p.call(1);
  in_place.address[Y] = p.x.data();
  plan->forward(in_place);
  in_place.address[X] = nullptr;
  in_place.address[DX] = p.dy.data();
  plan->backward(in_place);
  bool same = true;
  for (int64_t n = 0; n < batch; n++)
    for (int64_t i = 0; i < sample; i++) {
      int64_t k = t.index(n, i);
      same &= p.x[k] == t.y[k] && p.dy[k] == from_y[k];
    }
  report.expect(same, "softmax in place", place(f), s.length);
}

void check_softmax_edges() {
  for (int function : {11, 21})
    for (int64_t inner : {1, 3}) {
      const int64_t length = 20;
      auto plan = make_activation({1, length, inner, 0}, {function, 0, 0});
      Tensors t(1, length * inner, 0, 1);
      for (int64_t i = 0; i < length * inner; i++) t.x[i] = -kInfinity;
      plan->forward(t.call(1));
      for (int64_t i = 0; i < length * inner; i++) report.expect(std::isnan(t.y[i]), "nothing but -inf", "softmax", i);
      for (int64_t i = 0; i < length * inner; i++) t.x[i] = 1;
      t.x[4 * inner] = kNaN;
      plan->forward(t.call(1));
      for (int64_t j = 0; j < length; j++) report.expect(std::isnan(t.y[j * inner]), "NaN in the row", "softmax", j);
      if (inner > 1) report.expect(!std::isnan(t.y[1]), "NaN in another column", "softmax", 0);
    }
}

void check_channels(const ActivationShape& s, int64_t batch, Random& random) {
  ActivationSpec f{29, 0.25f, 0};
  int64_t sample = s.outer * s.length * s.inner, plane = sample / s.channels;
  Tensors t(batch, sample, 2, s.channels);
  Buffer w(s.channels);
  random.fill(t.x, -4, 4);
  random.fill(t.dy, -2, 2);
  random.fill(w, -1, 1);
  auto plan = make_activation(s, f);
  Call c = t.call(3);
  c.address[W] = w.data();
  c.address[DW] = t.dw.data();
  plan->forward(c);
  plan->backward(c);
  std::vector<double> dw(static_cast<size_t>(s.channels)), magnitude(dw);
  for (int64_t n = 0; n < batch; n++)
    for (int64_t i = 0; i < sample; i++) {
      int64_t k = t.index(n, i), channel = i / plane;
      double x = t.x[k], a = w[channel], d = t.dy[k];
      report.expect(near(t.y[k], x < 0 ? a * x : x, 0), "channel forward", place(f), i);
      report.expect(near(t.dx[k], x < 0 ? a * d : d, 0), "channel backward", place(f), i);
      if (x < 0) dw[channel] += x * d;
      magnitude[channel] += std::fabs(x * d);
    }
  for (int64_t i = 0; i < s.channels; i++)
    report.expect(std::fabs(t.dw[i] - dw[i]) <= 1e-6 * magnitude[i], "channel alpha gradient", place(f), i);
  report.expect(t.gap_untouched(t.y) && t.gap_untouched(t.dx) && t.dw.guards_hold(), "channel gaps", place(f), plane);
}

// {alpha, beta} in W replace those of the description.
void check_editable_parameters() {
  const float w[2] = {-0.5f, 0.75f};
  Tensors t(1, 5, 0, 1);
  for (int64_t i = 0; i < 5; i++) t.x[i] = static_cast<float>(i) - 2, t.dy[i] = 1;
  auto plan = make_activation({1, 5, 1, 0}, {8, -9, 9});
  Call c = t.call(1);
  c.address[W] = const_cast<float*>(w);
  plan->forward(c);
  plan->backward(c);
  const float y[] = {-0.5f, -0.5f, 0, 0.75f, 0.75f}, dx[] = {0, 0, 1, 0, 0};
  for (int64_t i = 0; i < 5; i++) report.expect(t.y[i] == y[i] && t.dx[i] == dx[i], "edited", "clamp", i);
}

// NaN stays NaN in both directions; infinities do not become NaN where the limit exists.
void check_special_values() {
  for (const ActivationSpec& f : kElementwise) {
    if (f.function == 2 && f.alpha == 0) continue;  // 0 * -infinity
    float x[] = {kNaN, kInfinity, -kInfinity}, y[3], dx[3], dy[] = {1, 1, 1};
    activation_forward(f, x, y, 3, 3);
    report.expect(std::isnan(y[0]), "NaN forward", place(f), 0);
    report.expect(!std::isnan(y[1]) && !std::isnan(y[2]), "infinity forward", place(f), 0);
    auto plan = make_activation({1, 3, 1, 1}, f);
    Call c;
    c.address[X] = x, c.address[DY] = dy, c.address[DX] = dx;
    plan->backward(c);
    bool constant = f.function == 0 || f.function == 7 || f.function == 20;
    report.expect(std::isnan(dx[0]) != constant, "NaN backward", place(f), 0);
    report.expect(!std::isnan(dx[1]) && !std::isnan(dx[2]), "infinity backward", place(f), 0);
    if (from_output_allowed(f.function)) {
      c.address[X] = nullptr, c.address[Y] = y;
      plan->backward(c);
      report.expect(std::isnan(dx[0]) != constant, "NaN backward from output", place(f), 0);
      report.expect(!std::isnan(dx[1]) && !std::isnan(dx[2]), "infinity backward from output", place(f), 0);
    }
  }
}

// One block of Philox 4x32-10, word by word.
void philox(uint32_t c[4], uint32_t k0, uint32_t k1) {
  for (int round = 0; round < 10; round++, k0 += 0x9E3779B9, k1 += 0xBB67AE85) {
    uint64_t p0 = uint64_t{0xD2511F53} * c[0], p1 = uint64_t{0xCD9E8D57} * c[2];
    uint32_t next[4] = {static_cast<uint32_t>(p1 >> 32) ^ c[1] ^ k0, static_cast<uint32_t>(p1),
                        static_cast<uint32_t>(p0 >> 32) ^ c[3] ^ k1, static_cast<uint32_t>(p0)};
    std::copy(next, next + 4, c);
  }
}

void check_random_words() {
  uint32_t known[4] = {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344};  // published test vector
  philox(known, 0xa4093822, 0x299f31d0);
  const uint32_t answer[4] = {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1};
  report.expect(std::equal(known, known + 4, answer), "published vector", "philox", 0);
  RandomStream stream{0x299f31d0a4093822, 0x0370734413198a2e};
  uint32_t words[kRandomGroup];
  random_words(stream, uint64_t{4} << 40, words);
  for (uint32_t b = 0; b < kRandomBlocks; b++) {
    uint32_t c[4] = {b, 1u << 8, 0x13198a2e, 0x03707344};
    philox(c, 0xa4093822, 0x299f31d0);
    report.expect(std::equal(c, c + 4, words + 4 * b), "words", "philox", b);
  }
  float all[300], some[300];
  fill_uniform(stream, 0, all, 300);
  for (int64_t first = 0; first < 70; first++) {
    fill_uniform(stream, static_cast<uint64_t>(first), some, 200);
    report.expect(std::equal(some, some + 200, all + first), "any first number", "uniform", first);
  }
  report.expect(uniform_from_word(0) > 0 && uniform_from_word(0xffffffff) < 1, "open interval", "uniform", 0);
}

void check_gumbel() {
  const int64_t batch = 5, outer = 3, length = 700, inner = 7, sample = outer * length * inner;
  ActivationSpec f{13, 1, 1e-20f, 42}, maximum{14, 1, 1e-20f, 42};
  Tensors t(batch, sample, 4, 1), u = t;
  auto plan = make_activation({outer, length, inner, 0}, f);
  plan->forward(t.call(1));
  double mean = 0, variance = 0;
  for (int64_t n = 0; n < batch; n++)
    for (int64_t i = 0; i < sample; i++) mean += t.y[t.index(n, i)] / double(batch * sample);
  for (int64_t n = 0; n < batch; n++)
    for (int64_t i = 0; i < sample; i++) variance += std::pow(t.y[t.index(n, i)] - mean, 2) / double(batch * sample);
  report.expect(std::fabs(mean - 0.5772) < 0.02, "mean", "gumbel", 0);
  report.expect(std::fabs(variance - M_PI * M_PI / 6) < 0.05, "variance", "gumbel", 0);
  Buffer first = t.y;
  plan->forward(t.call(1));
  report.expect(!first.same_bits(t.y), "second call draws anew", "gumbel", 0);
  make_activation({outer, length, inner, 0}, f)->forward(u.call(3));
  report.expect(first.same_bits(u.y), "same seed, other threads", "gumbel", 0);

  Random random(1);
  random.fill(u.x, -2, 2);
  auto largest = make_activation({outer, length, inner, 0}, maximum);
  Call c = u.call(3);
  Buffer y(batch * outer * inner);
  c.address[Y] = y.data();
  c.stride[Y] = outer * inner;
  largest->forward(c);
  for (int64_t n = 0; n < batch; n++)
    for (int64_t o = 0; o < outer; o++)
      for (int64_t i = 0; i < inner; i++) {
        float best = -kInfinity;
        for (int64_t j = 0; j < length; j++) {
          int64_t k = u.index(n, (o * length + j) * inner + i);
          best = std::max(best, u.x[k] + first[k]);
        }
        report.expect(y[(n * outer + o) * inner + i] == best, "largest", "gumbel", i);
      }
  report.expect(y.guards_hold(), "guards", "gumbel", 0);
  plan->backward(t.call(2));
  report.expect(t.dx[0] == 0 && t.dx[t.index(batch - 1, sample - 1)] == 0 && t.gap_untouched(t.dx), "backward",
                "gumbel", 0);
}

void check_integers() {
  const int64_t x[] = {-5, -1, 0, 1, 7, 100000, -100000, INT32_MAX, INT32_MIN};
  int64_t y[9];
  integer_linear_saturate(x, y, 9, 3, 1, 2, -128, 127);
  const int64_t wanted[] = {-4, -1, 0, 1, 5, 127, -128, 127, -128};  // (3 x + 1) >> 2 rounds down
  for (int i = 0; i < 9; i++) report.expect(y[i] == wanted[i], "integers", "integer_linear_saturate", i);
  integer_linear_saturate(x + 7, y, 2, INT32_MAX, INT32_MAX, 31, INT32_MIN, INT32_MAX);
  report.expect(y[0] == INT32_MAX && y[1] == INT32_MIN + 1, "wide products", "integer_linear_saturate", 0);
  report.expect(!make_activation({1, 1, 1, 0}, {9, 0, 0}), "no plan", "integer_linear_saturate", 0);
}

}  // namespace

int run_all() {
  Random random(7);
  set_scratch_poison(true);
  check_oracle();
  for (const ActivationSpec& f : kElementwise) {
    for (int64_t count = 1; count <= 67; count++) check_interface(f, count, random);
    check_interface(f, 5000, random);
    check_plan(f, 1, 37, 0, random);
    check_plan(f, 4, 61, 0, random);
    check_plan(f, 3, 61, 7, random);
    check_plan(f, 3, 23456, 5, random);
    check_plan(f, 2, 40000, 0, random);
    check_threads(f, {1, 33333, 1, f.function == 29 ? 3 : 0}, 3, random);
  }
  for (int function : {11, 21}) {
    ActivationSpec f{function, 0, 0};
    for (int64_t length = 1; length <= 67; length++) check_softmax(f, {2, length, 1, 0}, 2, random);
    for (int64_t inner = 2; inner <= 37; inner++) check_softmax(f, {2, 9, inner, 0}, 2, random);
    check_softmax(f, {1, 5000, 1, 0}, 3, random);
    check_softmax(f, {50, 1000, 1, 0}, 1, random);
    check_softmax(f, {3, 300, 40, 0}, 2, random);
    for (int64_t inner : {1, 5, 48}) check_threads(f, {11, 401, inner, 0}, 9, random);
  }
  check_softmax_edges();
  check_channels({1, 12, 1, 12}, 3, random);
  check_channels({1, 5, 9, 5}, 4, random);
  check_channels({3, 70, 10, 3}, 2, random);
  check_channels({2, 200, 200, 2}, 3, random);
  check_editable_parameters();
  check_special_values();
  check_random_words();
  check_gumbel();
  check_integers();
  return report.finish("test_activation");
}

}  // namespace OPENBNNS_ISA
}  // namespace openbnns

int main() { return openbnns::OPENBNNS_ISA::run_all(); }
