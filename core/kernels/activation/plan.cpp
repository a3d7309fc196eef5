// Plans of standalone activations.
//
// Slots: X and Y are [batch][outer][length][inner] with the call's batch strides (Y of GumbelMax has length 1), DX and
// DY alike. W, where given, holds the current parameters: alpha of every channel for PReLUPerChannel, else
// {alpha, beta}. DW receives the gradient of alpha: one value for LeakyRectifiedLinear, one per channel for PReLU.
#include <algorithm>
#include <atomic>
#include <cstring>

#include "kernels/activation/loops.h"
#include "kernels/kernels.h"
#include "runtime/dynamic_items.h"
#include "runtime/joint_plan.h"
#include "runtime/scratch.h"
#include "simd/stream.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace {

enum : int {
  kLeakyRectifiedLinear = 2,
  kSigmoid = 3,
  kTanh = 4,
  kIntegerLinearSaturate = 9,
  kIntegerLinearSaturatePerChannel = 10,
  kSoftmax = 11,
  kGumbel = 13,
  kGumbelMax = 14,
  kLogSoftmax = 21,
  kPReLUPerChannel = 29,
};

// Elements of one unit of work, and how many a call needs before a second thread pays.
constexpr int64_t kBlock = 16384, kParallelFrom = 32768;
constexpr int64_t kElementFlops = 30;            // in the time that an element takes
constexpr int kRowSlot = 11, kPartialSlot = 12;  // of scratch memory

int workers(const Call& call, int64_t elements) { return elements < kParallelFrom ? 1 : call.threads; }
int64_t blocks_of(int64_t count, int64_t block) { return (count + block - 1) / block; }

// True if the samples of all present tensors among `slots` follow each other without gaps: the batch is one long run.
bool is_packed(const Call& call, int64_t sample, std::initializer_list<int> slots) {
  if (call.batch == 1) return true;
  for (int slot : slots)
    if (call.address[slot] && call.stride[slot] != sample) return false;
  return true;
}

// Whether the result should go past the caches: it is large, and not in a place that was just read.
bool stream_pays(const Call& call, int64_t elements, int from, int to) {
  return elements >= kStreamFrom && call.address[from] != call.address[to];
}

// body(n, first, count) for runs of elements first .. first + count - 1 of sample n that cover the batch.
template <class Body>
void for_each_run(const Call& call, int64_t sample, std::initializer_list<int> slots, Body body) {
  int64_t elements = call.batch * sample;
  int64_t samples = call.batch;
  if (is_packed(call, sample, slots)) {
    if (elements < kParallelFrom) return body(0, int64_t{0}, elements);
    sample = elements;
    samples = 1;
  }
  int64_t blocks = blocks_of(sample, kBlock);
  dynamic_items(workers(call, elements), samples * blocks, [&](int64_t item) {
    int64_t first = item % blocks * kBlock;
    body(item / blocks, first, std::min(kBlock, sample - first));
  });
}

float* at(const Call& call, int slot, int64_t n, int64_t offset) {
  return call.address[slot] + n * call.stride[slot] + offset;
}

// dx = 0, or unchanged where it accumulates: functions whose output does not follow the input.
void no_gradient(const Call& call, int64_t sample) {
  if (!call.address[DX] || call.adds(DX)) return;
  for_each_run(call, sample, {DX},
               [&](int64_t n, int64_t first, int64_t count) { std::fill_n(at(call, DX, n, first), count, 0.0f); });
}

// d_alpha of y = x < 0 ? alpha * x : x, for a sample of [channels][plane]: channel c's elements of all samples are
// summed in blocks of fixed size, the blocks in order.
void alpha_gradient(const Call& call, int64_t channels, int64_t plane) {
  int64_t per_channel = call.batch * plane, blocks = blocks_of(per_channel, kBlock);
  double* partial = reinterpret_cast<double*>(scratch(kPartialSlot, static_cast<size_t>(2 * channels * blocks)));
  dynamic_items(workers(call, channels * per_channel), channels * blocks, [&](int64_t item) {
    int64_t channel = item / blocks, i = item % blocks * kBlock, end = std::min(per_channel, i + kBlock);
    double sum = 0;
    while (i < end) {
      int64_t n = i / plane, offset = i % plane, count = std::min(plane - offset, end - i);
      int64_t place = channel * plane + offset;
      sum += leaky_alpha_gradient(at(call, X, n, place), at(call, DY, n, place), count);
      i += count;
    }
    partial[item] = sum;
  });
  float* dw = call.address[DW];
  for (int64_t c = 0; c < channels; c++) {
    double sum = 0;
    for (int64_t b = 0; b < blocks; b++) sum += partial[c * blocks + b];
    dw[c] = static_cast<float>(call.adds(DW) ? dw[c] + sum : sum);
  }
}

class ElementwisePlan : public Plan, private JointPlan {
 public:
  ElementwisePlan(const ActivationShape& shape, const ActivationSpec& f)
      : sample_(shape.outer * shape.length * shape.inner), f_(f), loops_(elementwise_loops(f.function)) {}

  void forward(const Call& call) override {
    ActivationParameters p = parameters(call);
    bool streams = stream_pays(call, call.batch * sample_, X, Y);
    for_each_run(call, sample_, {X, Y}, [&](int64_t n, int64_t first, int64_t count) {
      loops_.forward(p, at(call, X, n, first), at(call, Y, n, first), count, streams);
    });
  }

  void backward(const Call& call) override {
    if (call.address[DW] && f_.function == kLeakyRectifiedLinear) alpha_gradient(call, 1, sample_);
    if (!call.address[DX]) return;
    ActivationParameters p = parameters(call);
    int source = derivative_source(call);
    BackwardLoop loop = source == Y ? loops_.from_output : loops_.from_input;
    Write write = call.adds(DX)                                     ? Write::kAdd
                  : stream_pays(call, call.batch * sample_, DY, DX) ? Write::kStream
                                                                    : Write::kSet;
    for_each_run(call, sample_, {source, DY, DX}, [&](int64_t n, int64_t first, int64_t count) {
      loop(p, at(call, source, n, first), at(call, DY, n, first), at(call, DX, n, first), count, write);
    });
  }

  JointPlan* joint() override { return this; }

 private:
  int64_t kept_floats(const Call& call, bool) const override { return call.accumulate || call.address[DW] ? -1 : 0; }
  int64_t least_samples(const Call&, bool) const override { return 1; }
  double flops(const Call& call, bool) const override {
    return static_cast<double>(kElementFlops * call.batch * sample_);
  }
  double sums_flops(const Call&, bool) const override { return 0; }
  const float* prepare(const Call&, bool) override { return nullptr; }
  void samples(const JointCall& joint, int64_t first, int64_t count) override {
    const Call part = samples_of(joint.call, first, count);
    joint.backward ? backward(part) : forward(part);
  }
  void sums(const JointCall&, int64_t, int64_t) override {}

  ActivationParameters parameters(const Call& call) const {
    const float* w = call.address[W];
    return w ? ActivationParameters{w[0], w[1]} : ActivationParameters{f_.alpha, f_.beta};
  }

  // x wherever it is given: not every y tells the derivative. Sigmoid and tanh compute it from y in any case, so for
  // them a given y saves the exponential. Functions with a constant derivative need neither.
  int derivative_source(const Call& call) const {
    bool through_output = f_.function == kSigmoid || f_.function == kTanh;
    if (call.address[Y] && (through_output || !call.address[X])) return Y;
    return call.address[X] ? X : DY;
  }

  const int64_t sample_;
  const ActivationSpec f_;
  const ElementwiseLoops loops_;
};

class PReLUPerChannelPlan : public Plan {
 public:
  PReLUPerChannelPlan(const ActivationShape& shape, const ActivationSpec& f)
      : sample_(shape.outer * shape.length * shape.inner),
        channels_(std::max<int64_t>(shape.channels, 1)),
        plane_(sample_ / channels_),
        alpha_(f.alpha),
        loops_(elementwise_loops(f.function)) {}

  // y = x < 0 ? alpha[channel] * x : x
  void forward(const Call& call) override {
    if (plane_ < kNarrowPlane) {
      const float* alpha = alpha_of_elements(call);
      return for_each_sample(
          call, [&](int64_t n) { leaky_forward_each(alpha, at(call, X, n, 0), at(call, Y, n, 0), sample_); });
    }
    for_each_plane(call, [&](int64_t n, int64_t channel, int64_t first, int64_t count) {
      loops_.forward({alpha_of(call, channel), 0}, at(call, X, n, first), at(call, Y, n, first), count, false);
    });
  }

  void backward(const Call& call) override {
    if (call.address[DW]) alpha_gradient(call, channels_, plane_);
    if (!call.address[DX]) return;
    int source = call.address[X] ? X : Y;  // the sign of y is that of x for positive alpha
    if (plane_ < kNarrowPlane) {
      const float* alpha = alpha_of_elements(call);
      return for_each_sample(call, [&](int64_t n) {
        leaky_backward_each(alpha, at(call, source, n, 0), at(call, DY, n, 0), at(call, DX, n, 0), sample_,
                            call.adds(DX));
      });
    }
    BackwardLoop loop = source == X ? loops_.from_input : loops_.from_output;
    Write write = call.adds(DX) ? Write::kAdd : Write::kSet;
    for_each_plane(call, [&](int64_t n, int64_t channel, int64_t first, int64_t count) {
      loop({alpha_of(call, channel), 0}, at(call, source, n, first), at(call, DY, n, first), at(call, DX, n, first),
           count, write);
    });
  }

 private:
  // Planes smaller than this are not worth a loop each: alpha is spread over the sample instead.
  static constexpr int64_t kNarrowPlane = 64;

  float alpha_of(const Call& call, int64_t channel) const {
    return call.address[W] ? call.address[W][channel] : alpha_;
  }

  // [channels][plane], every alpha repeated over its plane
  const float* alpha_of_elements(const Call& call) const {
    float* alpha = scratch(kRowSlot, static_cast<size_t>(sample_));
    for (int64_t c = 0; c < channels_; c++) std::fill_n(alpha + c * plane_, plane_, alpha_of(call, c));
    return alpha;
  }

  template <class Body>
  void for_each_sample(const Call& call, Body body) const {
    dynamic_items(workers(call, call.batch * sample_), call.batch, body);
  }

  template <class Body>
  void for_each_plane(const Call& call, Body body) const {
    int64_t blocks = blocks_of(plane_, kBlock);
    dynamic_items(workers(call, call.batch * sample_), call.batch * channels_ * blocks, [&](int64_t item) {
      int64_t n = item / (channels_ * blocks), channel = item / blocks % channels_, start = item % blocks * kBlock;
      body(n, channel, channel * plane_ + start, std::min(kBlock, plane_ - start));
    });
  }

  const int64_t sample_, channels_, plane_;
  const float alpha_;
  const ElementwiseLoops loops_;
};

class SoftmaxPlan : public Plan {
 public:
  SoftmaxPlan(const ActivationShape& shape, const ActivationSpec& f)
      : shape_(shape), logarithm_(f.function == kLogSoftmax), tiles_(blocks_of(shape.inner, kWidth)) {}

  void forward(const Call& call) override {
    if (shape_.inner == 1 && shape_.length <= kShortRow) return short_rows(call);
    bool stream = streams(call, X, Y);
    for_each_tile(call, [&](int64_t n, int64_t offset, int64_t columns) {
      float* row = stream ? scratch(kRowSlot, static_cast<size_t>(shape_.length)) : nullptr;
      softmax_forward(logarithm_, {shape_.length, columns}, {at(call, X, n, offset), shape_.inner},
                      {at(call, Y, n, offset), shape_.inner}, row);
    });
  }

  // The formulas need y alone; without it the tile in hand is computed again from x.
  void backward(const Call& call) override {
    if (!call.address[DX]) return;
    bool recompute = !call.address[Y];
    Write write = call.adds(DX) ? Write::kAdd : streams(call, DY, DX) ? Write::kStream : Write::kSet;
    for_each_tile(call, [&](int64_t n, int64_t offset, int64_t columns) {
      Strided<const float> y{recompute ? nullptr : at(call, Y, n, offset), shape_.inner};
      if (recompute) {
        int64_t step = shape_.inner == 1 ? 1 : kWidth;
        float* tile = scratch(kRowSlot, static_cast<size_t>(shape_.length * step));
        softmax_forward(logarithm_, {shape_.length, columns}, {at(call, X, n, offset), shape_.inner}, {tile, step},
                        nullptr);
        y = {tile, step};
      }
      softmax_backward(logarithm_, {shape_.length, columns}, y, {at(call, DY, n, offset), shape_.inner},
                       {at(call, DX, n, offset), shape_.inner}, write);
    });
  }

 private:
  int64_t elements(const Call& call) const { return call.batch * shape_.outer * shape_.length * shape_.inner; }

  // Rows are streamed if the whole result is large but each row is not.
  bool streams(const Call& call, int from, int to) const {
    return shape_.inner == 1 && shape_.length <= kBlock && stream_pays(call, elements(call), from, to);
  }

  // body(n, offset, columns) for every row, or tile of up to kWidth neighbouring columns, of [outer][length][inner]
  template <class Body>
  void for_each_tile(const Call& call, Body body) const {
    int64_t per_sample = shape_.outer * tiles_, tiles = call.batch * per_sample;
    int64_t tile_elements = shape_.length * std::min<int64_t>(shape_.inner, kWidth);
    int64_t group = std::max<int64_t>(1, kBlock / std::max<int64_t>(1, tile_elements));
    dynamic_items(workers(call, elements(call)), blocks_of(tiles, group), [&](int64_t item) {
      for (int64_t t = item * group, end = std::min(tiles, t + group); t < end; t++) {
        int64_t n = t / per_sample, outer = t % per_sample / tiles_, column = t % tiles_ * kWidth;
        body(n, outer * shape_.length * shape_.inner + column, std::min<int64_t>(kWidth, shape_.inner - column));
      }
      finish_stream();
    });
  }

  // Rows that would fill a fraction of a vector become columns, side by side.
  void short_rows(const Call& call) const {
    const int64_t length = shape_.length, rows = call.batch * shape_.outer;
    constexpr int64_t kGroup = kBlock / kShortRow;  // rows of an item
    dynamic_items(workers(call, elements(call)), blocks_of(rows, kGroup), [&](int64_t item) {
      float tile[kShortRow * kWidth];  // [length][row]
      for (int64_t first = item * kGroup, end = std::min(rows, first + kGroup); first < end; first += kWidth) {
        const int64_t count = std::min<int64_t>(kWidth, end - first);
        each_row(call, X, first, count, [&](int64_t r, const float* x) {
          for (int64_t j = 0; j < length; j++) tile[j * kWidth + r] = x[j];
        });
        softmax_forward(logarithm_, {length, count}, {tile, kWidth}, {tile, kWidth}, nullptr);
        each_row(call, Y, first, count, [&](int64_t r, float* y) {
          for (int64_t j = 0; j < length; j++) y[j] = tile[j * kWidth + r];
        });
      }
    });
  }
  template <class Body>
  void each_row(const Call& call, int slot, int64_t first, int64_t count, Body body) const {
    int64_t n = first / shape_.outer, outer = first % shape_.outer;
    for (int64_t r = 0; r < count; r++) {
      body(r, at(call, slot, n, outer * shape_.length));
      if (++outer < shape_.outer) continue;
      outer = 0;
      n++;
    }
  }

  static constexpr int64_t kShortRow = 8;

  const ActivationShape shape_;
  const bool logarithm_;
  const int64_t tiles_;
};

// Gumbel: y = -log(-log(alpha U + beta) + beta), whatever x. GumbelMax: y = the largest x + such noise along `length`;
// y is [outer][1][inner]. Number i of call c is number i of draw c of the stream that the seed names.
class GumbelPlan : public Plan {
 public:
  GumbelPlan(const ActivationShape& shape, const ActivationSpec& f)
      : shape_(shape), sample_(shape.outer * shape.length * shape.inner), f_(f) {}

  void forward(const Call& call) override {
    RandomStream stream{f_.seed, draws_.fetch_add(1, std::memory_order_relaxed)};
    const float* w = call.address[W];
    ActivationParameters p = w ? ActivationParameters{w[0], w[1]} : ActivationParameters{f_.alpha, f_.beta};
    if (f_.function == kGumbelMax) return largest(call, p, stream);
    for_each_run(call, sample_, {Y}, [&](int64_t n, int64_t first, int64_t count) {
      gumbel_forward(p, stream, static_cast<uint64_t>(n * sample_ + first), at(call, Y, n, first), count);
    });
  }

  void backward(const Call& call) override { no_gradient(call, sample_); }

 private:
  void largest(const Call& call, ActivationParameters p, RandomStream stream) const {
    int64_t length = shape_.length, inner = shape_.inner, slab = length * inner;
    dynamic_items(workers(call, call.batch * sample_), call.batch * shape_.outer, [&](int64_t item) {
      int64_t n = item / shape_.outer, outer = item % shape_.outer;
      const float* x = at(call, X, n, outer * slab);
      float* y = at(call, Y, n, outer * inner);
      float* noise = scratch(kRowSlot, static_cast<size_t>(inner));
      uint64_t first = static_cast<uint64_t>(item * slab);
      for (int64_t j = 0; j < length; j++) {
        gumbel_forward(p, stream, first + static_cast<uint64_t>(j * inner), noise, inner);
        for (int64_t i = 0; i < inner; i++) {
          float value = x[j * inner + i] + noise[i];
          // a NaN stays: comparisons with it are false
          y[i] = j == 0 || value > y[i] || value != value ? value : y[i];
        }
      }
    });
  }

  const ActivationShape shape_;
  const int64_t sample_;
  const ActivationSpec f_;
  std::atomic<uint64_t> draws_{0};
};

}  // namespace

// The integer functions have no plan (null): integer_linear_saturate computes them.
std::unique_ptr<Plan> make_activation(const ActivationShape& shape, const ActivationSpec& f) {
  switch (f.function) {
    case kIntegerLinearSaturate:
    case kIntegerLinearSaturatePerChannel:
      return nullptr;
    case kSoftmax:
    case kLogSoftmax:
      return std::make_unique<SoftmaxPlan>(shape, f);
    case kGumbel:
    case kGumbelMax:
      return std::make_unique<GumbelPlan>(shape, f);
    case kPReLUPerChannel:
      return std::make_unique<PReLUPerChannelPlan>(shape, f);
    default:
      return std::make_unique<ElementwisePlan>(shape, f);
  }
}

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
