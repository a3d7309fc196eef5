// Dropout: y = x * mask / (1 - rate), dx = dy * mask / (1 - rate) with the mask of the latest forward run.
//
// A decision is a pure function of the seed, the number of the forward run and its index among the decisions, so the
// mask is the same on every machine and for any number of threads, and backward draws it again instead of keeping it.
// Slot W: two 64-bit numbers that the filter owns, forward runs so far and the batch of the latest one.
#include <cmath>
#include <cstring>
#include <vector>

#include "common/pieces.h"
#include "kernels/kernels.h"
#include "runtime/scratch.h"
#include "simd/random.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace {

constexpr int kFactorsSlot = 0;  // of scratch memory

// The factors of decisions: 0 below the threshold, else 1 / (1 - rate).
struct Rule {
  uint32_t threshold;
  float keep;
};

// Out of line: the unrolled rounds are long, and one copy of them will do.
__attribute__((noinline)) void draw_words(RandomStream stream, uint64_t first, uint32_t words[kRandomGroup]) {
  random_words(stream, first, words);
}

// body(i, words, part) for stretches i .. i + part - 1 of `count` decisions; words[k] belongs to decision i + k.
template <class Body>
OPENBNNS_INLINE void over_words(RandomStream stream, int64_t first, int64_t count, Body body) {
  uint32_t words[kRandomGroup];
  for (int64_t i = 0; i < count;) {
    const uint64_t here = static_cast<uint64_t>(first + i), start = here / 4 * 4;
    const int64_t skip = static_cast<int64_t>(here - start), part = std::min<int64_t>(kRandomGroup - skip, count - i);
    draw_words(stream, start, words);
    body(i, words + skip, part);
    i += part;
  }
}

template <bool kAdd>
void drop_run(RandomStream stream, Rule rule, int64_t first, const float* x, float* y, int64_t count) {
  over_words(stream, first, count, [&](int64_t i, const uint32_t* words, int64_t part) {
    for (int64_t k = 0; k < part; k++) {
      float v = x[i + k] * (words[k] >= rule.threshold ? rule.keep : 0.0f);
      y[i + k] = kAdd ? y[i + k] + v : v;
    }
  });
}

// y (+)= x * factors, one factor for all elements (step 0) or one each.
template <bool kAdd, int kStep>
void scale_run(const float* factors, const float* x, float* y, int64_t count) {
  for (int64_t i = 0; i < count; i++) {
    float v = x[i] * factors[i * kStep];
    y[i] = kAdd ? y[i] + v : v;
  }
}

// One axis of a sample, neighbours that share alike merged into one.
struct Axis {
  int64_t size;
  bool shared;
};

std::vector<Axis> merged_axes(const DropoutShape& s) {
  std::vector<Axis> axes;
  for (size_t a = 0; a < s.size.size(); a++) {
    if (s.size[a] == 1) continue;
    if (!axes.empty() && axes.back().shared == s.shared[a])
      axes.back().size *= s.size[a];
    else
      axes.push_back({s.size[a], s.shared[a]});
  }
  if (axes.empty()) axes.push_back({1, false});
  return axes;
}

class DropoutPlan : public Plan {
 public:
  explicit DropoutPlan(const DropoutShape& shape)
      : seed_(shape.seed), batch_shared_(shape.batch_shared), axes_(merged_axes(shape)) {
    rule_.threshold = static_cast<uint32_t>(std::ceil(static_cast<double>(shape.rate) * 0x1p32));
    rule_.keep = static_cast<float>(1.0 / (1.0 - static_cast<double>(shape.rate)));
    for (const Axis& axis : axes_) {
      sample_ *= axis.size;
      if (!axis.shared) decisions_ *= axis.size;
    }
  }

  void forward(const Call& call) override {
    auto* state = reinterpret_cast<uint64_t*>(call.address[W]);
    const uint64_t draw = __atomic_fetch_add(&state[0], uint64_t{1}, __ATOMIC_RELAXED);
    state[1] = static_cast<uint64_t>(call.batch);
    apply(call, X, Y, draw);
  }

  void backward(const Call& call) override {
    if (!call.address[DX]) return;
    const auto* state = reinterpret_cast<const uint64_t*>(call.address[W]);
    apply(call, DY, DX, state[0] - 1);
  }

  // Only with the batch whose mask there is.
  bool recognizes(const Call& call) const override {
    uint64_t state[2];
    std::memcpy(state, call.address[W], sizeof state);
    return state[1] == static_cast<uint64_t>(call.batch);
  }

 private:
  void apply(const Call& call, int from, int to, uint64_t draw) const {
    const RandomStream stream{seed_, draw};
    if (decisions_ == sample_ && !(batch_shared_ && call.batch > 1))
      apply_each(call, from, to, stream);
    else
      apply_shared(call, from, to, stream);
  }

  // One decision for every element.
  void apply_each(const Call& call, int from, int to, RandomStream stream) const {
    const bool packed = call.batch == 1 || (call.stride[from] == sample_ && call.stride[to] == sample_);
    const int64_t length = packed ? call.batch * sample_ : sample_, rows = packed ? 1 : call.batch;
    const auto run = call.adds(to) ? drop_run<true> : drop_run<false>;
    for_each_piece(call, rows, length, [&](int64_t row, int64_t first, int64_t count) {
      run(stream, rule_, row * length + first, call.address[from] + row * call.stride[from] + first,
          call.address[to] + row * call.stride[to] + first, count);
    });
  }

  // All factors first, then rows of the last axis, which share one factor or have one for each element.
  void apply_shared(const Call& call, int from, int to, RandomStream stream) const {
    const int64_t total = (batch_shared_ ? 1 : call.batch) * decisions_;
    float* factors = scratch(kFactorsSlot, static_cast<size_t>(total));
    for_each_piece(call, 1, total, [&](int64_t, int64_t first, int64_t count) {
      over_words(stream, first, count, [&](int64_t i, const uint32_t* words, int64_t part) {
        for (int64_t k = 0; k < part; k++) factors[first + i + k] = words[k] >= rule_.threshold ? rule_.keep : 0.0f;
      });
    });
    const Axis last = axes_.back();
    const int64_t rows = sample_ / last.size;
    const bool adds = call.adds(to);
    const auto run = last.shared ? (adds ? scale_run<true, 0> : scale_run<false, 0>)
                                 : (adds ? scale_run<true, 1> : scale_run<false, 1>);
    for_each_piece(call, call.batch * rows, last.size, [&](int64_t item, int64_t first, int64_t count) {
      const int64_t n = item / rows, row = item % rows, place = row * last.size + first;
      const float* own = factors + (batch_shared_ ? 0 : n * decisions_) + factor_of(row) + (last.shared ? 0 : first);
      run(own, call.address[from] + n * call.stride[from] + place, call.address[to] + n * call.stride[to] + place,
          count);
    });
  }

  // Index of the first decision of a row of the last axis within its sample.
  int64_t factor_of(int64_t row) const {
    int64_t index = 0, step = axes_.back().shared ? 1 : axes_.back().size;
    for (size_t a = axes_.size() - 1; a-- > 0;) {
      if (!axes_[a].shared) {
        index += row % axes_[a].size * step;
        step *= axes_[a].size;
      }
      row /= axes_[a].size;
    }
    return index;
  }

  const uint64_t seed_;
  const bool batch_shared_;
  const std::vector<Axis> axes_;
  Rule rule_;
  int64_t sample_ = 1, decisions_ = 1;
};

}  // namespace

std::unique_ptr<Plan> make_dropout(const DropoutShape& shape) { return std::make_unique<DropoutPlan>(shape); }

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
