// Pooling against double loops: every function, random windows, indices of both widths, NaN and ties, absent tensors,
// Set and Accumulate, thread counts.
#include <algorithm>
#include <cstdlib>

#include "kernel_test.h"
#include "runtime/scratch.h"

using namespace openbnns;
using namespace kernel_test;

namespace {

enum Function { kMax, kAverageIncludingPadding, kAverageExcludingPadding, kUnMax, kL2Norm };

struct Problem {
  PoolingShape s;
  ActivationSpec activation;
  int64_t batch, in_plane, out_plane, in_size, out_size, index_plane;
  int64_t stride[9] = {};
  bool ties;
  Buffer x, b, y, dy;
  std::vector<uint64_t> index;  // packed [batch][channels][index plane]
  std::vector<double> y_wanted, dx, db;

  explicit Problem(Random& random, bool large) {
    s.function = static_cast<int>(random.below(5));
    s.channels = large ? random.between(8, 20) : random.between(1, 4);
    s.padding_wins = random.chance(20);
    s.wide_indices = random.chance(50);
    int kind = static_cast<int>(random.below(5));
    int64_t down = 0, right = 0;
    s.stride_y = s.stride_x = s.kernel_height = s.kernel_width = 2;
    s.dilation_y = s.dilation_x = 1;
    s.pad_up = s.pad_left = 0;
    s.in_height = random.between(2, 20);
    s.in_width = random.chance(50) ? random.between(2, 20) : random.between(20, 90);
    if (kind == 1) {  // one window over everything
      s.kernel_height = s.in_height;
      s.kernel_width = s.in_width = random.between(2, 12);
    } else if (kind == 2) {  // 3 x 3 windows two cells apart
      s.kernel_height = s.kernel_width = 3;
      s.in_height = random.between(3, 20);
      s.in_width = std::max<int64_t>(3, s.in_width);
      s.pad_up = random.between(0, 1);
      s.pad_left = random.between(0, 1);
      down = random.between(0, 2);
      right = random.between(0, 2);
    } else if (kind >= 3) {
      s.kernel_height = random.between(1, 4);
      s.kernel_width = random.between(1, 4);
      s.stride_y = random.between(1, 3);
      s.stride_x = random.between(1, 3);
      s.dilation_y = random.chance(70) ? 1 : 2;
      s.dilation_x = random.chance(70) ? 1 : 2;
      s.pad_up = random.between(0, 3);
      s.pad_left = random.between(0, 3);
      down = random.between(0, 3);
      right = random.between(0, 3);
    }
    // every window starts inside the padded plane
    s.out_height = std::max<int64_t>(1, (s.in_height + s.pad_up + down - s.kernel_height) / s.stride_y + 1);
    s.out_width = std::max<int64_t>(1, (s.in_width + s.pad_left + right - s.kernel_width) / s.stride_x + 1);
    if (s.function == kUnMax) {
      std::swap(s.in_height, s.out_height);
      std::swap(s.in_width, s.out_width);
    }
    batch = large ? random.between(4, 9) : random.between(0, 3);
    static const int activations[] = {0, 0, 1, 4, 11};
    activation.function = activations[random.below(5)];
    in_plane = s.in_height * s.in_width;
    out_plane = s.out_height * s.out_width;
    in_size = s.channels * in_plane;
    out_size = s.channels * out_plane;
    index_plane = s.function == kUnMax ? in_plane : out_plane;
    for (int slot : {X, DX}) stride[slot] = in_size + random.between(0, 4);
    for (int slot : {Y, DY}) stride[slot] = out_size + random.between(0, 4);
    stride[kPoolingIndices] = s.channels * index_plane + random.between(0, 4);
    x = Buffer(batch * stride[X]);
    b = Buffer(s.channels);
    y = Buffer(batch * stride[Y]);
    dy = Buffer(batch * stride[DY]);
    ties = random.chance(40);
    random.fill(x, -1, 1);
    if (ties)
      for (int64_t i = 0; i < x.count(); i++) x[i] = static_cast<float>(random.between(-1, 1));
    if (ties && s.function == kMax && activation.function == 0)
      for (int64_t i = 0; i < x.count(); i++)
        if (random.chance(8)) x[i] = random.chance(50) ? kNaN : -kInfinity;
    random.fill(b, -1, 1);
    random.fill(dy, -1, 1);
    index.assign(static_cast<size_t>(batch * s.channels * index_plane), 0);
    if (s.function == kUnMax)  // different positions in every plane, some outside
      for (int64_t p = 0; p < batch * s.channels; p++) {
        std::vector<uint64_t> places(static_cast<size_t>(std::max(out_plane, in_plane)));
        for (size_t i = 0; i < places.size(); i++) places[i] = i;
        for (size_t i = places.size(); i-- > 1;)
          std::swap(places[i], places[random.below(static_cast<int64_t>(i) + 1)]);
        for (int64_t i = 0; i < in_plane; i++) index[p * in_plane + i] = places[i];
      }
    solve();
  }

  // body(value of the cell, position in the plane or -1 for padding) for every cell of a window, in row-major order
  template <class Body>
  void for_each_cell(const float* plane, int64_t oy, int64_t ox, Body body) const {
    for (int64_t ky = 0; ky < s.kernel_height; ky++)
      for (int64_t kx = 0; kx < s.kernel_width; kx++) {
        int64_t iy = oy * s.stride_y + ky * s.dilation_y - s.pad_up,
                ix = ox * s.stride_x + kx * s.dilation_x - s.pad_left;
        bool inside = iy >= 0 && iy < s.in_height && ix >= 0 && ix < s.in_width;
        body(inside ? plane[iy * s.in_width + ix] : 0.0f, inside ? iy * s.in_width + ix : -1);
      }
  }

  struct Window {
    double value = 0;
    int64_t winner = -1, cells = 0;
  };

  Window pool(const float* plane, int64_t oy, int64_t ox) const {
    Window w;
    double sum = 0, squares = 0, best = -kInfinity;
    bool any = false;
    for_each_cell(plane, oy, ox, [&](float v, int64_t position) {
      sum += v;
      squares += double{v} * v;
      w.cells += position >= 0;
      if (position < 0 && !s.padding_wins) return;
      if (!any || v > best || v != v) {
        best = v;
        w.winner = position;
      }
      any = true;
    });
    double count = s.function == kAverageIncludingPadding ? double(s.kernel_height * s.kernel_width) : double(w.cells);
    w.value = s.function == kMax      ? (any ? best : 0)
              : s.function == kL2Norm ? std::sqrt(squares)
              : count                 ? sum / count
                                      : 0;
    return w;
  }

  void solve() {
    int64_t cells = batch * out_size;
    std::vector<double> z(cells), rounded(cells), upstream(cells), dz(cells);
    y_wanted.assign(cells, 0);
    dx.assign(batch * in_size, 0);
    db.assign(s.channels, 0);
    for (int64_t p = 0; p < batch * s.channels; p++) {
      const float* plane = x.data() + p / s.channels * stride[X] + p % s.channels * in_plane;
      float bias = b[p % s.channels];
      for (int64_t i = 0; i < out_plane; i++) {
        upstream[p * out_plane + i] = dy[p / s.channels * stride[DY] + p % s.channels * out_plane + i];
        if (s.function == kUnMax) {
          z[p * out_plane + i] = bias;
          continue;
        }
        Window w = pool(plane, i / s.out_width, i % s.out_width);
        z[p * out_plane + i] = w.value + bias;
        index[p * out_plane + i] = static_cast<uint64_t>(w.winner);
      }
      for (int64_t i = 0; s.function == kUnMax && i < in_plane; i++)
        if (index[p * in_plane + i] < uint64_t(out_plane)) z[p * out_plane + index[p * in_plane + i]] += plane[i];
    }
    activate(activation.function, z.data(), y_wanted.data(), cells, s.out_width);
    for (int64_t i = 0; i < cells; i++)
      rounded[i] = y[i / out_size * stride[Y] + i % out_size] = static_cast<float>(y_wanted[i]);
    activate_backward(activation.function, rounded.data(), upstream.data(), dz.data(), cells, s.out_width);
    for (int64_t p = 0; p < batch * s.channels; p++)
      solve_gradient(p, dz.data() + p * out_plane, dx.data() + p * in_plane);
  }

  void solve_gradient(int64_t p, const double* dz, double* gradient) {
    const float* plane = x.data() + p / s.channels * stride[X] + p % s.channels * in_plane;
    for (int64_t i = 0; i < out_plane; i++) db[p % s.channels] += dz[i];
    for (int64_t i = 0; s.function == kUnMax && i < in_plane; i++)
      gradient[i] = index[p * in_plane + i] < uint64_t(out_plane) ? dz[index[p * in_plane + i]] : 0;
    for (int64_t i = 0; s.function != kUnMax && i < out_plane; i++) {
      Window w = pool(plane, i / s.out_width, i % s.out_width);
      if (s.function == kMax && w.winner >= 0) gradient[w.winner] += dz[i];
      if (s.function == kMax) continue;
      double divisor = s.function == kL2Norm                    ? w.value
                       : s.function == kAverageIncludingPadding ? double(s.kernel_height * s.kernel_width)
                                                                : double(w.cells);
      for_each_cell(plane, i / s.out_width, i % s.out_width, [&](float v, int64_t position) {
        if (position >= 0 && divisor > 0) gradient[position] += dz[i] / divisor * (s.function == kL2Norm ? v : 1);
      });
    }
  }
};

struct Tester {
  Report report;
  Random random{13};
  long number = 0;

  void run(const Kernels& kernels, Problem& p) {
    auto plan = kernels.make_pooling(p.s, p.activation);
    auto expect = [&](bool good, const char* what) { report.expect(good, what, kernels.name, number); };
    bool unpool = p.s.function == kUnMax;
    bool no_dx = random.chance(15), no_db = random.chance(30), adds_dx = random.chance(40), adds_db = random.chance(40);
    bool with_index = unpool || random.chance(50),
         index_backward = unpool || (p.s.function == kMax && random.chance(40));
    Buffer first[2];
    for (int threads = 1; threads <= 3; threads++) {
      Buffer y(p.batch * p.stride[Y]), dx(p.batch * p.stride[DX]), db(p.s.channels);
      Buffer index(p.batch * p.stride[kPoolingIndices] * (p.s.wide_indices ? 2 : 1));
      if (unpool) put_indices(p, index);
      if (adds_dx) std::fill_n(dx.data(), dx.count(), 0.5f);
      if (adds_db) std::fill_n(db.data(), db.count(), 0.5f);
      Call call;
      call.batch = p.batch;
      call.threads = threads;
      call.accumulate = (adds_dx ? 1u << DX : 0) | (adds_db ? 1u << DB : 0);
      std::copy(p.stride, p.stride + 9, call.stride);
      call.address[X] = p.x.data();
      call.address[B] = p.b.data();
      call.address[Y] = y.data();
      if (with_index) call.address[kPoolingIndices] = index.data();
      plan->forward(call);
      expect(samples(y, p.y_wanted, p.batch, p.out_size, p.stride[Y], false), "forward");
      expect(y.guards_hold() && index.guards_hold(), "forward guards");
      if (with_index && p.s.function == kMax) expect(indices_right(p, index), "indices");
      put_indices(p, index);
      call.address[kPoolingIndices] = index_backward ? index.data() : nullptr;
      if (p.s.function != kL2Norm && (index_backward || p.s.function != kMax)) call.address[X] = nullptr;
      call.address[B] = nullptr;
      call.address[Y] = p.activation.function ? p.y.data() : nullptr;
      call.address[DY] = p.dy.data();
      call.address[DX] = no_dx ? nullptr : dx.data();
      call.address[DB] = no_db ? nullptr : db.data();
      plan->backward(call);
      if (!no_dx) expect(samples(dx, p.dx, p.batch, p.in_size, p.stride[DX], adds_dx), "dx");
      if (!no_db) expect(samples(db, p.db, 1, db.count(), db.count(), adds_db), "db");
      expect(dx.guards_hold() && db.guards_hold(), "backward guards");
      if (threads == 1) {
        first[0] = dx;
        first[1] = db;
      }
      expect(first[0].same_bits(dx) && first[1].same_bits(db), "same bits for any threads");
    }
  }

  // db over large planes of either sign, which cancel: sums in single precision may not form long chains. One error is
  // a matter of luck; that of many sums is 4.5e-6 with sums in pairs and 9.4e-6 in chains, to a few percent.
  void sum_large_planes(const Kernels& kernels) {
    PoolingShape s = {};
    s.function = kAverageIncludingPadding;
    s.channels = 100;
    s.in_height = s.in_width = s.out_height = s.out_width = 41;
    s.kernel_height = s.kernel_width = s.stride_y = s.stride_x = s.dilation_y = s.dilation_x = 1;
    const int64_t plane = s.out_height * s.out_width, batch = 8;
    Buffer dy(batch * s.channels * plane), db(s.channels);
    random.fill(dy, -1, 1);
    Call call;
    call.batch = batch;
    call.threads = 1;
    call.stride[DY] = s.channels * plane;
    call.address[DY] = dy.data();
    call.address[DB] = db.data();
    kernels.make_pooling(s, ActivationSpec())->backward(call);
    double squares = 0;
    for (int64_t c = 0; c < s.channels; c++) {
      double wanted = 0;
      for (int64_t i = 0; i < batch * plane; i++) wanted += dy[(i / plane * s.channels + c) * plane + i % plane];
      squares += (db[c] - wanted) * (db[c] - wanted);
    }
    const double error = std::sqrt(squares / static_cast<double>(s.channels));
    report.expect(error <= 6.5e-6, "db of large planes", kernels.name, 0);
  }

  template <class Body>
  static void for_each_index(const Problem& p, Body body) {
    int64_t size = p.s.channels * p.index_plane;
    for (int64_t n = 0; n < p.batch; n++)
      for (int64_t i = 0; i < size; i++) body(n * p.stride[kPoolingIndices] + i, p.index[n * size + i]);
  }
  static void put_indices(const Problem& p, Buffer& to) {
    for_each_index(p, [&](int64_t at, uint64_t value) {
      uint32_t narrow = static_cast<uint32_t>(value);
      if (p.s.wide_indices)
        std::memcpy(to.data() + 2 * at, &value, sizeof(value));
      else
        std::memcpy(to.data() + at, &narrow, sizeof(narrow));
    });
  }
  static bool indices_right(const Problem& p, const Buffer& got) {
    bool good = true;
    for_each_index(p, [&](int64_t at, uint64_t value) {
      uint64_t wide;
      uint32_t narrow;
      std::memcpy(&wide, got.data() + (p.s.wide_indices ? 2 : 1) * at, p.s.wide_indices ? 8 : 4);
      std::memcpy(&narrow, got.data() + (p.s.wide_indices ? 2 : 1) * at, 4);
      good &= p.s.wide_indices ? wide == value : narrow == static_cast<uint32_t>(value);
    });
    return good;
  }

  // `wanted` is packed; cells between samples must be untouched.
  static bool samples(const Buffer& got, const std::vector<double>& wanted, int64_t batch, int64_t size, int64_t stride,
                      bool adds) {
    for (int64_t n = 0; n < batch; n++)
      for (int64_t i = 0; i < stride; i++) {
        float value = got[n * stride + i];
        if (i >= size) {
          if (adds ? value != 0.5f : !std::isnan(value)) return false;
        } else if (!close(value, wanted[n * size + i] + (adds ? 0.5 : 0), 4)) {
          return false;
        }
      }
    return true;
  }
};

}  // namespace

int main(int argc, char** argv) {
  int rounds = argc > 1 ? std::atoi(argv[1]) : 1000;
  set_scratch_poison(true);
  Tester tester;
  for (; tester.number < rounds; tester.number++) {
    Problem p(tester.random, tester.number % 10 == 9);
    tester.run(tested_kernels(), p);
  }
  tester.sum_large_planes(tested_kernels());
  return tester.report.finish("pooling");
}
