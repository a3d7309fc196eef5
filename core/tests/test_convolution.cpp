// Convolution and transposed convolution against naive float64 loops: random shapes, strides, dilations, paddings and
// groups, poisoned outputs and scratch, 1 to 3 threads bitwise equal. Where operands may be rounded to BFloat16, they
// are such numbers, so that the results are the same. Compiled once per instruction set.
#include <cstdlib>

#include "common/stored_rows.h"
#include "gemm/bfloat16_kernel.h"
#include "gemm/integer_kernel.h"
#include "kernels/activation/activation.h"
#include "kernels/convolution/kernels.h"
#include "kernels/kernels.h"
#include "runtime/scratch.h"
#include "tests/amx_in_software.h"
#include "tests/testing.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace {

using testing::Counts;
using testing::Doubles;
using testing::Floats;
using testing::Random;

struct Case {
  ConvolutionShape s;
  int64_t batch;
  ActivationSpec f;
  bool transposed;

  int64_t small() const { return s.out_channels * s.out_height * s.out_width; }  // the convolution's output image
  int64_t large() const { return s.in_channels * s.in_height * s.in_width; }     // and its input image
  int64_t weights() const { return s.out_channels * s.in_channels / s.groups * s.kernel_height * s.kernel_width; }
  std::string name() const {
    char text[256];
    std::snprintf(text, sizeof text,
                  "%s n%d c%d h%d w%d k%d oh%d ow%d r%dx%d stride%dx%d dilation%dx%d pad%d,%d groups%d f%d%s",
                  transposed ? "transposed" : "conv", int(batch), int(s.in_channels), int(s.in_height), int(s.in_width),
                  int(s.out_channels), int(s.out_height), int(s.out_width), int(s.kernel_height), int(s.kernel_width),
                  int(s.stride_y), int(s.stride_x), int(s.dilation_y), int(s.dilation_x), int(s.pad_up),
                  int(s.pad_left), int(s.groups), f.function, s.bfloat16 ? " bfloat16" : "");
    return text;
  }
};

// Calls body(large index, small index, weight index) for every product of the convolution of one sample.
template <class Body>
void for_products(const ConvolutionShape& s, Body body) {
  int64_t inputs = s.in_channels / s.groups, outputs = s.out_channels / s.groups;
  for (int64_t k = 0; k < s.out_channels; k++)
    for (int64_t oy = 0; oy < s.out_height; oy++)
      for (int64_t ox = 0; ox < s.out_width; ox++)
        for (int64_t c = 0; c < inputs; c++)
          for (int64_t r = 0; r < s.kernel_height; r++)
            for (int64_t q = 0; q < s.kernel_width; q++) {
              int64_t iy = oy * s.stride_y + r * s.dilation_y - s.pad_up;
              int64_t ix = ox * s.stride_x + q * s.dilation_x - s.pad_left;
              if (iy < 0 || ix < 0 || iy >= s.in_height || ix >= s.in_width) continue;
              body(((k / outputs * inputs + c) * s.in_height + iy) * s.in_width + ix,
                   (k * s.out_height + oy) * s.out_width + ox,
                   ((k * inputs + c) * s.kernel_height + r) * s.kernel_width + q);
            }
}

// Samples of `count` values, `stride` apart, without the gaps.
Floats gathered(const Floats& v, int64_t batch, int64_t stride, int64_t count) {
  Floats out;
  for (int64_t n = 0; n < batch; n++) out.insert(out.end(), v.begin() + n * stride, v.begin() + n * stride + count);
  return out;
}

float rounded_to_bfloat16(float v) {
  uint16_t stored;
  encode(Element{ElementType::kBFloat16}, &v, 1, &stored);
  decode(Element{ElementType::kBFloat16}, &stored, 1, &v);
  return v;
}

void check(Counts& counts, Random& random, const Case& c) {
  const ConvolutionShape& s = c.s;
  int64_t xs = c.transposed ? c.small() : c.large(), ys = c.transposed ? c.large() : c.small();
  int64_t channels = c.transposed ? s.in_channels : s.out_channels;
  int64_t width = c.transposed ? s.in_width : s.out_width, plane = ys / channels;
  int64_t x_stride = xs + random.integer(0, 5), y_stride = ys + random.integer(0, 5);
  int64_t dx_stride = xs + random.integer(0, 5), dy_stride = ys + random.integer(0, 5);
  bool has_bias = random.chance(70);
  Floats x = random.reals(c.batch * x_stride), w = random.reals(c.weights()), b = random.reals(channels),
         dy = random.reals(c.batch * dy_stride);
  if (s.bfloat16)
    for (Floats* numbers : {&x, &w, &dy})
      for (float& v : *numbers) v = rounded_to_bfloat16(v);
  Floats dx0 = random.reals(c.batch * dx_stride), dw0 = random.reals(c.weights()), db0 = random.reals(channels);

  Doubles z(c.batch * ys);
  for (int64_t n = 0; n < c.batch; n++) {
    double* zn = z.data() + n * ys;
    const float* xn = x.data() + n * x_stride;
    for (int64_t i = 0; i < ys; i++) zn[i] = has_bias ? b[i / plane] : 0;
    for_products(s, [&](int64_t l, int64_t m, int64_t q) {
      if (c.transposed)
        zn[l] += static_cast<double>(xn[m]) * w[q];
      else
        zn[m] += static_cast<double>(xn[l]) * w[q];
    });
  }
  Floats z32(z.begin(), z.end()), y32(z.size());
  activation_forward(c.f, z32.data(), y32.data(), static_cast<int64_t>(z32.size()), width);

  auto plan = c.transposed ? make_transposed_convolution(s, c.f) : make_convolution(s, c.f);
  Floats first[4];
  double dz_norm = 0;  // softmax: the sums in db cancel to nothing
  uint32_t accumulate = 0;
  for (int slot : {DX, DW, DB})
    if (random.chance(40)) accumulate |= 1u << slot;
  bool want_dx = random.chance(85), want_dw = random.chance(85), want_db = random.chance(85);
  for (int threads = 1; threads <= 3; threads++) {
    Call call;
    call.batch = c.batch;
    call.threads = threads;
    call.accumulate = accumulate;
    auto started = [&](int slot, const Floats& old) {
      return call.adds(slot) ? old : testing::poison(static_cast<int64_t>(old.size()));
    };
    Floats y = testing::poison(c.batch * y_stride), dx = started(DX, dx0), dw = started(DW, dw0), db = started(DB, db0);
    call.address[X] = x.data(), call.stride[X] = x_stride;
    call.address[W] = w.data();
    call.address[B] = has_bias ? b.data() : nullptr;
    call.address[Y] = y.data(), call.stride[Y] = y_stride;
    plan->forward(call);
    Floats y_packed = gathered(y, c.batch, y_stride, ys);
    counts.close(c.name() + " y", y_packed, Doubles(y32.begin(), y32.end()));

    if (threads == 1) {  // the oracle of the gradients, from the y in hand
      Floats dz = gathered(dy, c.batch, dy_stride, ys);
      activation_backward_from_output(c.f, y_packed.data(), dz.data(), dz.data(), static_cast<int64_t>(dz.size()),
                                      width);
      for (float v : dz) dz_norm += static_cast<double>(v) * v;
      dz_norm = std::sqrt(dz_norm);
      Doubles edx(c.batch * xs), edw(c.weights()), edb(channels);
      if (call.adds(DX)) {
        Floats old = gathered(dx0, c.batch, dx_stride, xs);
        edx.assign(old.begin(), old.end());
      }
      if (call.adds(DW)) edw.assign(dw0.begin(), dw0.end());
      if (call.adds(DB)) edb.assign(db0.begin(), db0.end());
      for (int64_t n = 0; n < c.batch; n++) {
        for (int64_t i = 0; i < ys; i++) edb[i / plane] += dz[n * ys + i];
        for_products(s, [&](int64_t l, int64_t m, int64_t q) {
          int64_t xi = c.transposed ? m : l, yi = c.transposed ? l : m;
          edx[n * xs + xi] += static_cast<double>(dz[n * ys + yi]) * w[q];
          edw[q] += static_cast<double>(dz[n * ys + yi]) * x[n * x_stride + xi];
        });
      }
      call.address[DY] = dy.data(), call.stride[DY] = dy_stride;
      call.address[DX] = dx.data(), call.stride[DX] = dx_stride;
      call.address[DW] = dw.data();
      call.address[DB] = db.data();
      plan->backward(call);
      counts.close(c.name() + " dx", gathered(dx, c.batch, dx_stride, xs), edx);
      counts.close(c.name() + " dw", dw, edw);
      counts.close(c.name() + " db", db, edb, dz_norm);
    } else {
      call.address[DY] = dy.data(), call.stride[DY] = dy_stride;
      call.address[DX] = want_dx ? dx.data() : nullptr, call.stride[DX] = dx_stride;
      call.address[DW] = want_dw ? dw.data() : nullptr;
      call.address[DB] = want_db ? db.data() : nullptr;
      if (!want_dw) call.address[X] = nullptr;
      plan->backward(call);
    }
    Floats results[4] = {y_packed, gathered(dx, c.batch, dx_stride, xs), dw, db};
    if (threads == 1)
      for (int i = 0; i < 4; i++) first[i] = results[i];
    counts.same_bits(c.name() + " y threads", results[0], first[0]);
    if (want_dx) counts.same_bits(c.name() + " dx threads", results[1], first[1]);
    if (want_dw) counts.same_bits(c.name() + " dw threads", results[2], first[2]);
    if (want_db) counts.same_bits(c.name() + " db threads", results[3], first[3]);
  }
}

int64_t largest_output(int64_t in, int64_t kernel, int64_t stride, int64_t dilation, int64_t pad) {
  int64_t room = in + 2 * pad - (kernel - 1) * dilation - 1;
  return room < 0 ? 0 : room / stride + 1;
}

Case random_case(Random& random) {
  for (;;) {
    Case c{};
    ConvolutionShape& s = c.s;
    const int64_t sizes[] = {1, 2, 3, 5, 7, 8, 15, 16, 17, 20, 32, 33, 40, 64};
    auto channels = [&] { return sizes[random.integer(0, random.chance(80) ? 10 : 13)]; };
    s.groups = random.chance(75) ? 1 : random.integer(1, 4);
    s.in_channels = channels() * s.groups;
    s.out_channels = channels() * s.groups;
    if (s.in_channels > 80 || s.out_channels > 80) continue;
    bool one = random.chance(20);
    s.kernel_height = one ? 1 : random.integer(1, 5);
    s.kernel_width = one ? 1 : random.chance(70) ? s.kernel_height : random.integer(1, 7);
    s.stride_y = random.chance(60) ? 1 : random.integer(1, 4);
    s.stride_x = random.chance(70) ? s.stride_y : random.integer(1, 4);
    s.dilation_y = random.chance(75) ? 1 : random.integer(1, 4);
    s.dilation_x = random.chance(75) ? s.dilation_y : random.integer(1, 4);
    s.pad_up = random.chance(30) ? 0 : random.integer(0, random.chance(85) ? 3 : 9);
    s.pad_left = random.chance(70) ? s.pad_up : random.integer(0, 9);
    s.in_height = random.integer(1, random.chance(80) ? 14 : 34);
    s.in_width = random.chance(50) ? s.in_height : random.integer(1, random.chance(80) ? 20 : 150);
    s.out_height = largest_output(s.in_height, s.kernel_height, s.stride_y, s.dilation_y, s.pad_up);
    s.out_width = largest_output(s.in_width, s.kernel_width, s.stride_x, s.dilation_x, s.pad_left);
    if (random.chance(20)) s.out_height -= random.integer(0, 2);
    if (random.chance(20)) s.out_width -= random.integer(0, 2);
    if (s.out_height < 1 || s.out_width < 1) continue;
    c.batch = random.chance(80) ? random.integer(1, 5) : random.integer(1, 20);
    if (flops(s) * static_cast<double>(c.batch) > 3e7) continue;
    const int functions[] = {0, 0, 0, 1, 4, 11};
    c.f.function = functions[random.integer(0, 5)];
    c.transposed = random.chance(30);
    if (is_identity(c.f)) s.bfloat16 = random.chance(50);  // else the output gradient is computed, and then rounded
    return c;
  }
}

// A case that the Winograd kernels take: 3 x 3 or 5 x 5, step 1, enough channels and tiles.
Case winograd_case(Random& random) {
  for (;;) {
    Case c = random_case(random);
    ConvolutionShape& s = c.s;
    s.groups = s.stride_y = s.stride_x = s.dilation_y = s.dilation_x = 1;
    const int64_t taps = random.chance(50) ? 3 : 5;
    s.kernel_height = s.kernel_width = taps;
    s.in_channels = random.integer(16, 50);
    s.out_channels = random.integer(24, random.chance(80) ? 40 : 130);
    s.pad_up = random.integer(0, taps - 1);
    s.pad_left = random.integer(0, taps - 1);
    s.in_height = random.integer(6, 17);
    s.in_width = random.integer(6, random.chance(80) ? 20 : 40);
    s.out_height = largest_output(s.in_height, taps, 1, 1, s.pad_up) - (random.chance(20) ? 1 : 0);
    s.out_width = largest_output(s.in_width, taps, 1, 1, s.pad_left) - (random.chance(20) ? 1 : 0);
    if (s.out_height < 6 || s.out_width < 6) continue;
    int64_t tiles = ((s.out_height + 1) / 2) * ((s.out_width + 1) / 2);
    c.batch = 1 + 63 / tiles + random.integer(0, 3);
    if (flops(s) * static_cast<double>(c.batch) > 3e7) continue;
    return c;
  }
}

// A case for the depthwise kernels of small images, or just beyond what they take.
Case depthwise_case(Random& random) {
  for (;;) {
    Case c = random_case(random);
    ConvolutionShape& s = c.s;
    s.in_channels = s.out_channels = s.groups = random.integer(6, 40);
    if (random.chance(90)) s.stride_y = s.stride_x = 1;
    s.pad_up = random.integer(0, 3);
    s.pad_left = random.integer(0, 3);
    s.out_height = largest_output(s.in_height, s.kernel_height, s.stride_y, s.dilation_y, s.pad_up);
    s.out_width = largest_output(s.in_width, s.kernel_width, s.stride_x, s.dilation_x, s.pad_left);
    if (s.out_height < 1 || s.out_width < 1 || flops(s) * static_cast<double>(c.batch) > 3e7) continue;
    c.transposed = false;
    return c;
  }
}

Case square(int64_t n, int64_t c, int64_t h, int64_t k, int64_t r, int64_t stride, int64_t pad) {
  int64_t out = largest_output(h, r, stride, 1, pad);
  return {{c, h, h, k, out, out, r, r, stride, stride, 1, 1, pad, pad, 1}, n, {}, false};
}

#if defined(__AVX512F__) && defined(__linux__)
// Convolutions of bytes have the same bits on AMX.
void check_amx_bytes(Counts& counts, Random& random, const Case& c, amx_in_software::Needed needed) {
  ConvolutionShape s = c.s;
  s.bfloat16 = false;
  const auto type = [&] { return random.chance(50) ? ElementType::kInt8 : ElementType::kUInt8; };
  s.x = {type(), 0.5f, static_cast<float>(random.integer(-3, 3))};
  s.w = {type(), 0.25f, static_cast<float>(random.integer(-3, 3))};
  std::vector<uint8_t> x(c.batch * c.large()), w(c.weights());
  for (auto* bytes : {&x, &w})
    for (uint8_t& byte : *bytes) byte = static_cast<uint8_t>(random.integer(0, 255));
  const auto run = [&](int threads) {
    Floats y = testing::poison(c.batch * c.small());
    Call call;
    call.batch = c.batch;
    call.threads = threads;
    call.address[X] = reinterpret_cast<float*>(x.data()), call.stride[X] = c.large();
    call.address[W] = reinterpret_cast<float*>(w.data());
    call.address[Y] = y.data(), call.stride[Y] = c.small();
    make_convolution(s, {})->forward(call);
    return y;
  };
  const Floats expected = run(1);
  const amx_in_software::InUse amx(needed);
  for (int threads = 1; threads <= 2; threads++) counts.same_bits(c.name() + " bytes on AMX", run(threads), expected);
}

void check_amx(Counts& counts, Random& random, int cases) {
  // Tiles of pairs of images, of one and two rows of tiles, of pixels that are left over, of 1 to 3 blocks of channels.
  for (const Case& c : {square(3, 40, 7, 40, 3, 1, 1), square(2, 64, 14, 17, 3, 1, 1), square(1, 33, 50, 20, 3, 1, 1),
                        square(2, 20, 20, 33, 5, 2, 2), square(1, 70, 16, 48, 3, 1, 1)}) {
    Case rounded = c;
    rounded.s.bfloat16 = true;
    check_amx_bytes(counts, random, c, amx_in_software::Needed::kYes);
    const amx_in_software::InUse amx;
    check(counts, random, rounded);
  }
  for (int i = 0; i < cases; i++) {
    Case c = random_case(random);
    while (flops(c.s) * static_cast<double>(c.batch) > 3e6) c = random_case(random);  // software is slow
    if (!c.transposed) check_amx_bytes(counts, random, c, amx_in_software::Needed::kMaybe);
    c.s.bfloat16 = is_identity(c.f);
    c.s.exact = random.chance(20);
    const amx_in_software::InUse amx(amx_in_software::Needed::kMaybe);
    check(counts, random, c);
  }
}
#endif

}  // namespace

int run_convolution_tests(int random_cases, int seed) {
  set_scratch_poison(true);
  Counts counts;
  Random random(static_cast<uint64_t>(seed));
  for (const Case& c : {square(2, 16, 8, 16, 3, 1, 1), square(1, 16, 28, 16, 3, 1, 1), square(3, 64, 14, 64, 3, 1, 1),
                        square(2, 24, 11, 20, 5, 1, 2), square(2, 17, 12, 33, 7, 2, 3), square(2, 1, 28, 16, 5, 1, 2),
                        square(3, 3, 32, 32, 3, 1, 1), square(2, 3, 33, 40, 7, 2, 3), square(2, 64, 14, 96, 1, 1, 0),
                        square(3, 30, 7, 20, 1, 1, 0), square(2, 64, 14, 96, 1, 2, 0), square(17, 32, 7, 32, 3, 1, 1),
                        square(1, 64, 56, 64, 3, 1, 1), square(2, 16, 14, 16, 3, 1, 12), square(1, 4, 130, 6, 3, 1, 1)})
    check(counts, random, c);
  for (int i = 0; i < random_cases; i++) check(counts, random, random_case(random));
  for (int i = 0; i < random_cases / 10; i++) check(counts, random, winograd_case(random));
  for (int i = 0; i < random_cases / 4; i++) check(counts, random, depthwise_case(random));
#if defined(__AVX512F__) && defined(__linux__)
  if (has_bfloat16_sums() && has_quad_sums()) check_amx(counts, random, random_cases / 4);
#endif
  return counts.report("convolution");
}

}  // namespace OPENBNNS_ISA
}  // namespace openbnns

int main(int argc, char** argv) {
  int cases = argc > 1 ? std::atoi(argv[1]) : 400, seed = argc > 2 ? std::atoi(argv[2]) : 1;
  return openbnns::OPENBNNS_ISA::run_convolution_tests(cases, seed);
}
