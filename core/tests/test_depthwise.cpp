// Depthwise convolution, and convolution in groups of few channels, against double loops: random shapes, strides,
// dilations, padding, channels of a group, batch strides, absent tensors, Set and Accumulate, thread counts.
#include <algorithm>
#include <cstdlib>

#include "kernel_test.h"
#include "kernels/convolution/depthwise.h"
#include "kernels/convolution/group_lanes.h"
#include "runtime/scratch.h"

using namespace openbnns;
using namespace kernel_test;

namespace {

using Plans = std::vector<std::unique_ptr<Plan>>;

// The kernels that take a shape.
Plans make_plans(const ConvolutionShape& s, const ActivationSpec& f) {
  Plans plans;
  auto add = [&](std::unique_ptr<Plan> plan) {
    if (plan) plans.push_back(std::move(plan));
  };
  add(OPENBNNS_ISA::make_group_lanes(s, f));
  if (s.groups != s.in_channels) return plans;
  add(OPENBNNS_ISA::make_depthwise(s, f));
  add(OPENBNNS_ISA::make_depthwise_rows(s, f));
  return plans;
}

struct Problem {
  ConvolutionShape s;
  ActivationSpec activation;
  int64_t batch, in_size, out_size, taps, inputs, outputs;  // inputs and outputs of a group
  int64_t stride[8] = {};
  Buffer x, w, b, y, dy;
  std::vector<double> y_wanted, dx, dw, db;

  explicit Problem(Random& random, bool large) {
    const bool depthwise = random.chance(60);
    s.groups = large ? random.between(16, 40) : random.between(1, depthwise ? 5 : 20);
    inputs = depthwise ? 1 : random.between(1, 5);
    outputs = !depthwise ? random.between(1, 5) : random.chance(60) ? 1 : random.between(2, 3);
    s.in_channels = s.groups * inputs;
    s.out_channels = s.groups * outputs;
    bool square = random.chance(40);
    s.kernel_height = square ? 3 : random.between(1, 5);
    s.kernel_width = square ? 3 : random.between(1, 5);
    s.stride_y = random.between(1, 3);
    s.stride_x = random.chance(70) ? s.stride_y : random.between(1, 3);
    s.dilation_y = random.chance(60) ? 1 : random.between(1, 3);
    s.dilation_x = random.chance(60) ? 1 : random.between(1, 3);
    s.pad_up = random.between(0, 3);
    s.pad_left = random.between(0, 3);
    int64_t down = random.between(0, 3), right = random.between(0, 3);
    int64_t reach_y = (s.kernel_height - 1) * s.dilation_y + 1, reach_x = (s.kernel_width - 1) * s.dilation_x + 1;
    do s.in_height = random.between(1, 20);
    while (s.in_height + s.pad_up + down < reach_y);
    do s.in_width = random.chance(50) ? random.between(1, 20) : random.between(14, 70);
    while (s.in_width + s.pad_left + right < reach_x);
    s.out_height = (s.in_height + s.pad_up + down - reach_y) / s.stride_y + 1;
    s.out_width = (s.in_width + s.pad_left + right - reach_x) / s.stride_x + 1;
    batch = large ? random.between(3, 9) : random.between(0, 3);
    static const int activations[] = {0, 0, 1, 4, 11};
    activation.function = activations[random.below(5)];
    in_size = s.in_channels * s.in_height * s.in_width;
    out_size = s.out_channels * s.out_height * s.out_width;
    taps = s.kernel_height * s.kernel_width;
    for (int slot : {X, DX}) stride[slot] = in_size + random.between(0, 4);
    for (int slot : {Y, DY}) stride[slot] = out_size + random.between(0, 4);
    x = Buffer(batch * stride[X]);
    w = Buffer(s.out_channels * inputs * taps);
    b = Buffer(s.out_channels);
    y = Buffer(batch * stride[Y]);
    dy = Buffer(batch * stride[DY]);
    for (Buffer* buffer : {&x, &w, &b, &dy}) random.fill(*buffer, -1, 1);
    solve();
  }

  // body(flat output cell, output channel, sample, x index, w index) for every product of the convolution
  template <class Body>
  void for_each_product(Body body) const {
    for (int64_t n = 0; n < batch; n++)
      for (int64_t o = 0; o < s.out_channels; o++)
        for (int64_t oy = 0; oy < s.out_height; oy++)
          for (int64_t ox = 0; ox < s.out_width; ox++)
            for (int64_t i = 0; i < inputs; i++)
              for (int64_t tap = 0; tap < taps; tap++) {
                int64_t iy = oy * s.stride_y + tap / s.kernel_width * s.dilation_y - s.pad_up;
                int64_t ix = ox * s.stride_x + tap % s.kernel_width * s.dilation_x - s.pad_left;
                if (iy < 0 || iy >= s.in_height || ix < 0 || ix >= s.in_width) continue;
                const int64_t channel = o / outputs * inputs + i;
                body(n * out_size + (o * s.out_height + oy) * s.out_width + ox, n,
                     (channel * s.in_height + iy) * s.in_width + ix, (o * inputs + i) * taps + tap);
              }
  }

  void solve() {
    int64_t cells = batch * out_size, plane = s.out_height * s.out_width;
    std::vector<double> z(cells), rounded(cells), upstream(cells), dz(cells);
    y_wanted.assign(cells, 0);
    for (int64_t i = 0; i < cells; i++) {
      z[i] = b[i % out_size / plane];
      upstream[i] = dy[i / out_size * stride[DY] + i % out_size];
    }
    for_each_product(
        [&](int64_t cell, int64_t n, int64_t i, int64_t k) { z[cell] += double{x[n * stride[X] + i]} * w[k]; });
    activate(activation.function, z.data(), y_wanted.data(), cells, s.out_width);
    for (int64_t i = 0; i < cells; i++)
      rounded[i] = y[i / out_size * stride[Y] + i % out_size] = static_cast<float>(y_wanted[i]);
    activate_backward(activation.function, rounded.data(), upstream.data(), dz.data(), cells, s.out_width);
    dx.assign(batch * in_size, 0);
    dw.assign(w.count(), 0);
    db.assign(s.out_channels, 0);
    for (int64_t i = 0; i < cells; i++) db[i % out_size / plane] += dz[i];
    for_each_product([&](int64_t cell, int64_t n, int64_t i, int64_t k) {
      dx[n * in_size + i] += dz[cell] * w[k];
      dw[k] += dz[cell] * x[n * stride[X] + i];
    });
  }
};

struct Tester {
  Report report;
  Random random{11};
  long number = 0;

  void run(const Kernels& kernels, Problem& p) {
    for (auto& plan : make_plans(p.s, p.activation)) run(kernels, p, *plan);
  }

  void run(const Kernels& kernels, Problem& p, Plan& plan) {
    auto expect = [&](bool good, const char* what) { report.expect(good, what, kernels.name, number); };
    uint32_t accumulate = static_cast<uint32_t>(random.below(256));
    bool no_dx = random.chance(20), no_dw = random.chance(20), no_db = random.chance(20);
    auto adds = [&](int slot) { return (accumulate >> slot & 1) != 0; };
    Buffer first[3];
    for (int threads = 1; threads <= 3; threads++) {
      Buffer y(p.batch * p.stride[Y]), dx(p.batch * p.stride[DX]), dw(p.w.count()), db(p.b.count());
      for (auto [buffer, slot] : {std::pair<Buffer*, int>{&dx, DX}, {&dw, DW}, {&db, DB}})
        if (adds(slot)) std::fill_n(buffer->data(), buffer->count(), 0.5f);
      Call call;
      call.batch = p.batch;
      call.threads = threads;
      call.accumulate = accumulate;
      std::copy(p.stride, p.stride + 8, call.stride);
      call.address[X] = p.x.data();
      call.address[W] = p.w.data();
      call.address[B] = p.b.data();
      call.address[Y] = y.data();
      plan.forward(call);
      call.address[Y] = p.activation.function ? p.y.data() : nullptr;
      call.address[DY] = p.dy.data();
      if (no_dw) call.address[X] = nullptr;
      if (no_dx) call.address[W] = nullptr;
      call.address[B] = nullptr;
      call.address[DX] = no_dx ? nullptr : dx.data();
      call.address[DW] = no_dw ? nullptr : dw.data();
      call.address[DB] = no_db ? nullptr : db.data();
      plan.backward(call);
      expect(samples(y, p.y_wanted, p.batch, p.out_size, p.stride[Y], false), "forward");
      if (!no_dx) expect(samples(dx, p.dx, p.batch, p.in_size, p.stride[DX], adds(DX)), "dx");
      // A sum of products of random signs grows, and its rounding with it, as the root of their number.
      double magnitude = std::max(4.0, std::sqrt(static_cast<double>(p.batch * p.s.out_height * p.s.out_width)) / 4);
      if (!no_dw) expect(samples(dw, p.dw, 1, dw.count(), dw.count(), adds(DW), magnitude), "dw");
      if (!no_db) expect(samples(db, p.db, 1, db.count(), db.count(), adds(DB)), "db");
      for (Buffer* buffer : {&y, &dx, &dw, &db}) expect(buffer->guards_hold(), "guards");
      if (threads == 1) {
        first[0] = dx;
        first[1] = dw;
        first[2] = db;
      }
      expect(first[0].same_bits(dx) && first[1].same_bits(dw) && first[2].same_bits(db), "same bits for any threads");
    }
  }

  // `wanted` is packed; cells between samples must be untouched.
  static bool samples(const Buffer& got, const std::vector<double>& wanted, int64_t batch, int64_t size, int64_t stride,
                      bool adds, double magnitude = 4) {
    for (int64_t n = 0; n < batch; n++)
      for (int64_t i = 0; i < stride; i++) {
        float value = got[n * stride + i];
        if (i >= size) {
          if (adds ? value != 0.5f : !std::isnan(value)) return false;
        } else if (!close(value, wanted[n * size + i] + (adds ? 0.5 : 0), magnitude)) {
          return false;
        }
      }
    return true;
  }

  // An infinity in the input reaches only the weight gradients of the taps that meet it: the last cell of the first row
  // is met by the taps of the upper two rows and the right two columns.
  void infinity_stays_local(const Kernels& kernels, int64_t kernel_height) {
    ConvolutionShape s{1, 5, 20, 1, 5, 20, kernel_height, 3, 1, 1, 1, 1, kernel_height / 2, 1, 1};
    for (auto& plan : make_plans(s, {})) infinity_stays_local(kernels, kernel_height, *plan);
  }

  void infinity_stays_local(const Kernels& kernels, int64_t kernel_height, Plan& plan) {
    Buffer x(100), dy(100), dw(3 * kernel_height);
    random.fill(x, -1, 1);
    random.fill(dy, 0.5f, 1);
    x[19] = kInfinity;
    Call call;
    call.address[X] = x.data();
    call.address[DY] = dy.data();
    call.address[DW] = dw.data();
    plan.backward(call);
    for (int64_t tap = 0; tap < dw.count(); tap++) {
      bool meets = tap % 3 > 0 && tap / 3 <= kernel_height / 2;
      report.expect(meets ? std::isinf(dw[tap]) : std::isfinite(dw[tap]), "infinity", kernels.name, tap);
    }
  }
};

}  // namespace

int main(int argc, char** argv) {
  int rounds = argc > 1 ? std::atoi(argv[1]) : 300;
  set_scratch_poison(true);
  Tester tester;
  for (; tester.number < rounds; tester.number++) {
    Problem p(tester.random, tester.number % 10 == 9);
    tester.run(tested_kernels(), p);
  }
  for (int64_t kernel_height : {1, 3}) tester.infinity_stays_local(tested_kernels(), kernel_height);
  return tester.report.finish("depthwise");
}
