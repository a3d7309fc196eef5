// The L2 norm over some axes of a tensor, its gradient, and clipping of slices by their norm.
//
//   y = sqrt(sum of x^2 over the axes inside)    dx = dy * x / y, 0 where y = 0    clipped = x * min(1, limit / y)
//
// Neighbouring axes of one kind are merged, so kinds alternate and the last axis is a run of memory. Squares are summed
// in double. Work is cut by the shape alone, so results do not depend on the number of threads.
#include <cmath>
#include <cstring>

#include "common/chunks.h"
#include "kernels/kernels.h"
#include "kernels/loss/lanes.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace {

constexpr int64_t kFewOutputs = 4096;  // so few are summed in parts of the first axis; more are shared out themselves

struct Axis {
  int64_t size, step, output_step;  // elements of x and of y from one index to the next; inside the norm y stays
};

// A part of the first two axes, and where its sums go.
struct Part {
  int64_t first[2], last[2];
};

class NormPlan : public Plan {
 public:
  NormPlan(const NormShape& shape, bool clips, double limit) : clips_(clips), limit_(limit) {
    merge(shape);
    cut();
  }

  // X -> Y: the norms, or x itself clipped.
  void forward(const Call& call) override {
    double* sums = summed(call);
    if (clips_) return clip(call, sums);
    for (int64_t i = 0; i < outputs_; i++) call.address[Y][i] = static_cast<float>(std::sqrt(sums[i]));
  }

  // X, Y, DY -> DX
  void backward(const Call& call) override {
    const float *y = call.address[Y], *dy = call.address[DY];
    const bool adds = call.adds(DX);
    walk_outputs(
        call,
        [=](auto lanes, float* dx, const float* x, int64_t output, bool inside) {
          Vec norm = inside ? splat(y[output]) : lanes.read(y + output, 1.0f);
          Vec upstream = inside ? splat(dy[output]) : lanes.read(dy + output);
          // y = sqrt(sum x^2): dy/dx = x / y, at most 1
          Vec gradient = select(norm == 0.0f, Vec{}, upstream * (lanes.read(x) / norm));
          lanes.write(dx, adds ? gradient + lanes.read(dx) : gradient);
        },
        call.address[DX]);
  }

 private:
  void merge(const NormShape& shape) {
    bool last_inside = false;
    for (int a = 0; a < shape.rank; a++) {
      if (shape.size[a] == 1) continue;
      if (rank_ > 0 && shape.inside[a] == last_inside) {
        axis_[rank_ - 1].size *= shape.size[a];
        continue;
      }
      last_inside = inside_[rank_] = shape.inside[a];
      axis_[rank_++].size = shape.size[a];
    }
    if (rank_ == 0) {
      inside_[0] = true;
      axis_[rank_++].size = 1;
    }
    int64_t step = 1, output_step = 1;
    for (int a = rank_ - 1; a >= 0; a--) {
      axis_[a].step = step;
      axis_[a].output_step = inside_[a] ? 0 : output_step;
      step *= axis_[a].size;
      if (!inside_[a]) output_step *= axis_[a].size;
    }
    elements_ = step;
    outputs_ = output_step;
  }

  // Which axis is shared out, and in how many parts.
  void cut() {
    by_parts_ = inside_[0] && outputs_ <= kFewOutputs;
    cut_axis_ = inside_[0] && !by_parts_ ? 1 : 0;
    const int64_t size = axis_[cut_axis_].size;
    int64_t most = std::max<int64_t>(1, elements_ / kChunkElements);
    if (by_parts_) most = std::min<int64_t>(most, 64);
    if (cut_axis_ == 1)  // sums of one part should stay in a near cache
      most = std::max(most, outputs_ / kFewOutputs);
    parts_ = std::min(size, most);
  }

  int workers(const Call& call) const { return elements_ < kSerialElements ? 1 : call.threads; }

  Part part(int64_t index, int64_t parts) const {
    Part p{{0, 0}, {axis_[0].size, rank_ > 1 ? axis_[1].size : 1}};
    const int64_t size = axis_[cut_axis_].size;
    p.first[cut_axis_] = size * index / parts;
    p.last[cut_axis_] = size * (index + 1) / parts;
    return p;
  }

  // The sums of squares, [outputs].
  double* summed(const Call& call) const {
    const int64_t buffers = by_parts_ ? parts_ : 1;
    double* sums = reinterpret_cast<double*>(scratch(kPartialSums, static_cast<size_t>(2 * outputs_ * buffers)));
    std::fill(sums, sums + outputs_ * buffers, 0.0);
    dynamic_items(workers(call), parts_, [&](int64_t i) {
      add_squares(0, part(i, parts_), call.address[X], sums + (by_parts_ ? i * outputs_ : 0));
    });
    for (int64_t b = 1; b < buffers; b++)
      for (int64_t i = 0; i < outputs_; i++) sums[i] += sums[b * outputs_ + i];
    return sums;
  }

  // sums += x^2 over a part of the axes from `a` on
  void add_squares(int a, const Part& p, const float* x, double* sums) const {
    const int64_t first = a < 2 ? p.first[a] : 0, last = a < 2 ? p.last[a] : axis_[a].size;
    if (a + 1 < rank_) {
      for (int64_t i = first; i < last; i++)
        add_squares(a + 1, p, x + i * axis_[a].step, sums + i * axis_[a].output_step);
    } else if (inside_[a]) {
      *sums += sum_of_squares(x + first, last - first);
    } else {
      add_run(x + first, last - first, sums + first);
    }
  }

  // sums[i] += x[i]^2
  static void add_run(const float* x, int64_t count, double* sums) {
    int64_t i = 0;
    for (; i + kWidth <= count; i += kWidth) {
      WideVec v = widen(load(x + i));
      store_wide(sums + i, load_wide(sums + i) + WideVec{v.low * v.low, v.high * v.high});
    }
    for (; i < count; i++) sums[i] += static_cast<double>(x[i]) * x[i];
  }

  void clip(const Call& call, const double* sums) const {
    float* factors = scratch(kFactors, static_cast<size_t>(outputs_));
    for (int64_t i = 0; i < outputs_; i++) factors[i] = static_cast<float>(clipping_factor(std::sqrt(sums[i]), limit_));
    walk_outputs(
        call,
        [=](auto lanes, float* y, const float* x, int64_t output, bool inside) {
          lanes.write(y, lanes.read(x) * (inside ? splat(factors[output]) : lanes.read(factors + output)));
        },
        call.address[Y]);
  }

  // body(lanes, target, x, output, inside) for every vector: `output` is the number of its first norm, and `inside`
  // tells that it is the norm of all lanes.
  template <class Body>
  void walk_outputs(const Call& call, const Body& body, float* target) const {
    const int64_t parts = std::min(axis_[cut_axis_].size, std::max<int64_t>(1, elements_ / kChunkElements));
    const float* x = call.address[X];
    dynamic_items(workers(call), parts, [&](int64_t i) { walk(0, part(i, parts), 0, 0, x, target, body); });
  }

  template <class Body>
  void walk(int a, const Part& p, int64_t place, int64_t output, const float* x, float* target,
            const Body& body) const {
    const int64_t first = a < 2 ? p.first[a] : 0, last = a < 2 ? p.last[a] : axis_[a].size;
    if (a + 1 < rank_) {
      for (int64_t i = first; i < last; i++)
        walk(a + 1, p, place + i * axis_[a].step, output + i * axis_[a].output_step, x, target, body);
      return;
    }
    const bool inside = inside_[a];
    loss::over_vectors(last - first, [&](auto lanes, int64_t k) {
      const int64_t at = place + first + k;
      body(lanes, target + at, x + at, inside ? output : output + first + k, inside);
    });
  }

  bool clips_, by_parts_ = false;
  double limit_;
  int rank_ = 0, cut_axis_ = 0;
  Axis axis_[NormShape::kMaxRank + 1];
  bool inside_[NormShape::kMaxRank + 1];
  int64_t elements_ = 1, outputs_ = 1, parts_ = 1;
};

}  // namespace

std::unique_ptr<Plan> make_norm(const NormShape& shape) { return std::make_unique<NormPlan>(shape, false, 0.0); }

std::unique_ptr<Plan> make_clip_by_norm(const ClipByNormShape& shape) {
  return std::make_unique<NormPlan>(shape, true, shape.max_norm);
}

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
