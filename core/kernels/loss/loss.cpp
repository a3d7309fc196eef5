// Losses: unreduced losses l of predictions x against labels t, their reduction to `out`, and the gradient of `out`.
//
//   out = r * sum(l), or the losses themselves        dx = r * u * dl/dx
//
// r is known before the pass over the data (it depends on the weights alone), so loss and gradient come from one pass.
// Work is cut into at most kMaxTasks tasks by the shape alone; each sums its losses in double, and the tasks are added
// in order: results do not depend on the number of threads.
#include "kernels/loss/loss.h"

#include <algorithm>

#include "kernels/kernels.h"
#include "kernels/loss/lanes.h"
#include "runtime/dynamic_items.h"
#include "runtime/joint_plan.h"
#include "simd/stream.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace {

using loss::Piece;
using loss::PieceLoops;
using loss::Row;

constexpr int64_t kTaskElements = 16384;    // of one task, at least
constexpr int64_t kSerialElements = 16384;  // less work than this stays on the calling thread
constexpr int64_t kMaxTasks = 64;
constexpr int64_t kRowFlops = 2000, kElementFlops = 100;  // in the time that a loss of a sample takes

// `items` units of `elements` each, in tasks of `group` consecutive units.
struct Tasks {
  int64_t items, group, count;
  Tasks(int64_t n, int64_t elements) : items(n) {
    group = std::max<int64_t>(1, kTaskElements / std::max<int64_t>(1, elements));
    group = std::max(group, (n + kMaxTasks - 1) / kMaxTasks);
    count = (n + group - 1) / group;
  }
};

// The sum of body(first, end) over the items of every task, in a fixed order.
template <class Body>
double sum_over_tasks(const Tasks& tasks, int workers, Body&& body) {
  double partial[kMaxTasks];
  dynamic_items(workers, tasks.count, [&](int64_t task) {
    partial[task] = body(task * tasks.group, std::min(tasks.items, (task + 1) * tasks.group));
  });
  double total = 0;
  for (int64_t task = 0; task < tasks.count; task++) total += partial[task];
  return total;
}

// The sum of body(i) over all items, in a fixed order.
template <class Body>
double sum_over(const Tasks& tasks, int workers, Body&& body) {
  return sum_over_tasks(tasks, workers, [&](int64_t first, int64_t end) {
    double total = 0;
    for (int64_t i = first; i < end; i++) total += body(i);
    return total;
  });
}

double sum_of(const float* values, int64_t count) {
  loss::Sum sum;
  loss::over_vectors(count, [&](auto lanes, int64_t i) { sum.add(lanes.read(values + i)); }, [&] { sum.close_part(); });
  return sum.value();
}

int64_t count_nonzero(const float* values, int64_t count) {
  int64_t found = 0;
  for (int64_t i = 0; i < count; i++) found += values[i] != 0.0f;
  return found;
}

class LossPlan : public Plan, private JointPlan {
 public:
  explicit LossPlan(const LossShape& shape) : shape_(shape), row_loop_(loss::row_loop(shape.function)) {}

  void forward(const Call& call) override { run(call, true); }
  void backward(const Call& call) override { run(call, false); }

  JointPlan* joint() override { return this; }

 private:
  // ---- samples of several calls at a time (joint_plan.h): losses of samples, which are kept until they are summed
  // ----

  int64_t kept_floats(const Call& call, bool backward) const override {
    return backward || !per_sample() || !reduces() || call.accumulate ? -1 : 2 * call.batch;
  }
  int64_t least_samples(const Call&, bool) const override { return 1; }
  double flops(const Call& call, bool) const override {
    return static_cast<double>(call.batch * (kRowFlops + kElementFlops * shape_.width));
  }
  double sums_flops(const Call& call, bool) const override { return static_cast<double>(call.batch); }
  const float* prepare(const Call&, bool) override { return nullptr; }

  void samples(const JointCall& joint, int64_t first, int64_t count) override {
    auto* values = reinterpret_cast<double*>(joint.kept);
    const auto slope_scale = static_cast<float>(reduction_factor(joint.call));
    over_rows(joint.call, slope_scale, true, first, first + count, [&](int64_t n, double value) { values[n] = value; });
  }

  void sums(const JointCall& joint, int64_t share, int64_t) override {
    if (share > 0) return;
    const auto* values = reinterpret_cast<const double*>(joint.kept);
    const double total = sum_over(Tasks(joint.call.batch, shape_.width), 1, [&](int64_t n) { return values[n]; });
    write_reduced(joint.call, reduction_factor(joint.call), total);
  }

  // ---- whole calls ----

  bool reduces() const { return shape_.reduction != loss::kNone; }
  bool per_sample() const { return row_loop_ != nullptr; }

  static bool has_element_weights(const Call& call) {
    return call.address[kLossWeights] && call.stride[kLossWeights] != 0;
  }
  // The weight of everything, 1 where there are several or none.
  static float common_weight(const Call& call) {
    return call.address[kLossWeights] && call.stride[kLossWeights] == 0 ? call.address[kLossWeights][0] : 1.0f;
  }

  int workers(const Call& call) const { return call.batch * shape_.width < kSerialElements ? 1 : call.threads; }

  // What the sum of the losses is divided by: their number, the sum of their weights, or the number of weights that
  // are not 0. A per-sample loss with weights per element counts the mean weight of each sample.
  double divisor(const Call& call) const {
    const float* weights = call.address[kLossWeights];
    const double losses = static_cast<double>(per_sample() ? call.batch : call.batch * shape_.width);
    if (shape_.reduction == loss::kMean || !weights) return losses;
    const int64_t step = call.stride[kLossWeights];
    const bool sums = shape_.reduction == loss::kWeightedMean;
    if (step == 0) return losses * (sums ? weights[0] : weights[0] != 0.0f);
    if (sums) return sum_of(weights, call.batch * step) / (per_sample() ? static_cast<double>(step) : 1.0);
    if (!per_sample() || step == 1) return static_cast<double>(count_nonzero(weights, call.batch * step));
    int64_t found = 0;
    for (int64_t n = 0; n < call.batch; n++) found += sum_of(weights + n * step, step) != 0.0;
    return static_cast<double>(found);
  }

  double reduction_factor(const Call& call) const {
    if (shape_.reduction == loss::kNone || shape_.reduction == loss::kSum) return 1.0;
    double d = divisor(call);
    return d == 0.0 ? 0.0 : 1.0 / d;
  }

  void run(const Call& call, bool forward) const {
    const double factor = reduction_factor(call);
    double slope_scale = factor;
    if (!forward && reduces()) slope_scale *= call.address[kLossOutputGradient][0];
    double total;
    if (shape_.function == loss::kYolo)
      total = run_yolo(call, static_cast<float>(slope_scale));
    else if (per_sample())
      total = run_rows(call, static_cast<float>(slope_scale), forward);
    else
      total = run_pieces(call, static_cast<float>(slope_scale), forward);
    if (forward && reduces()) write_reduced(call, factor, total);
  }

  // A divisor of 0 gives 0, whatever the losses are.
  static void write_reduced(const Call& call, double factor, double total) {
    call.address[kLossOutput][0] = factor == 0.0 ? 0.0f : static_cast<float>(factor * total);
  }

  double run_yolo(const Call& call, float slope_scale) const {
    const YoloShape& yolo = *shape_.yolo;
    const int64_t cell = yolo.anchors * yolo.box_size;
    const float weight = common_weight(call);
    float* dx = call.address[kLossInputGradient];
    Tasks tasks(call.batch * yolo.cells, cell);
    double total = sum_over(tasks, workers(call), [&](int64_t i) {
      const int64_t n = i / yolo.cells, place = i % yolo.cells * cell;
      return loss::yolo_cell(yolo, shape_.huber_delta, call.address[kLossAnchors],
                             call.address[kLossInput] + n * call.stride[kLossInput] + place,
                             call.address[kLossLabels] + n * call.stride[kLossLabels] + place,
                             dx ? dx + n * call.stride[kLossInputGradient] + place : nullptr, slope_scale * weight,
                             call.adds(kLossInputGradient));
    });
    return weight * total;
  }

  double run_rows(const Call& call, float slope_scale, bool forward) const {
    float* losses = forward && !reduces() ? call.address[kLossOutput] : nullptr;
    return sum_over_tasks(Tasks(call.batch, shape_.width), workers(call), [&](int64_t first, int64_t end) {
      double total = 0;
      over_rows(call, slope_scale, forward, first, end, [&](int64_t n, double value) {
        if (losses) losses[n] = static_cast<float>(value);
        total += value;
      });
      return total;
    });
  }

  // take(n, loss of sample n) for n in [first, end), in order; gradients are written.
  template <class Take>
  void over_rows(const Call& call, float slope_scale, bool forward, int64_t first, int64_t end, Take&& take) const {
    const bool weight_per_sample = has_element_weights(call) && call.stride[kLossWeights] == 1;
    const float common = common_weight(call);
    const float* weights = has_element_weights(call) ? call.address[kLossWeights] : nullptr;
    const float* upstream = !forward && !reduces() ? call.address[kLossOutputGradient] : nullptr;
    float* dx = call.address[kLossInputGradient];
    const bool streams = dx && call.batch * shape_.width >= kStreamFrom;
    const auto row_loss = [&](int64_t n) {
      Row row;
      row.x = call.address[kLossInput] + n * call.stride[kLossInput];
      row.t = call.address[kLossLabels] + n * call.stride[kLossLabels];
      row.w = weights && !weight_per_sample ? weights + n * shape_.width : nullptr;
      row.weight = weight_per_sample ? weights[n] : common;
      row.dx = dx ? dx + n * call.stride[kLossInputGradient] : nullptr;
      row.slope_scale = upstream ? slope_scale * upstream[n * call.stride[kLossOutputGradient]] : slope_scale;
      row.adds = call.adds(kLossInputGradient);
      row.streams = streams;
      return row_loop_(shape_, row);
    };
    for (int64_t n = first; n < end; n += kWidth) {
      const int64_t rows = std::min<int64_t>(kWidth, end - n);
      loss::RowLoss found[kWidth];
      Vec arguments = splat(1.0f);
      for (int64_t i = 0; i < rows; i++) {
        found[i] = row_loss(n + i);
        arguments[i] = found[i].argument;
      }
      const Vec logarithms = math::log(arguments);
      for (int64_t i = 0; i < rows; i++) {
        const double logarithm = logarithms[i];
        take(n + i, found[i].weight * (found[i].factor * logarithm - found[i].rest));
      }
    }
    if (streams) finish_stream();
  }

  // A batch whose tensors are all packed is one long sample.
  bool packed(const Call& call, bool forward) const {
    auto fits = [&](int slot) { return !call.address[slot] || call.stride[slot] == shape_.width; };
    return fits(kLossInput) && fits(kLossLabels) && fits(kLossInputGradient) &&
           (forward || reduces() || fits(kLossOutputGradient));
  }

  double run_pieces(const Call& call, float slope_scale, bool forward) const {
    const bool whole = packed(call, forward);
    const int64_t rows = whole ? 1 : call.batch, length = whole ? call.batch * shape_.width : shape_.width;
    const int64_t size = std::max<int64_t>(1, std::min(length, kTaskElements));
    const int64_t pieces = (length + size - 1) / size;
    const float common = common_weight(call);
    const float* weights = has_element_weights(call) ? call.address[kLossWeights] : nullptr;
    const float* upstream = !forward && !reduces() ? call.address[kLossOutputGradient] : nullptr;
    float* losses = forward && !reduces() ? call.address[kLossOutput] : nullptr;
    float* dx = call.address[kLossInputGradient];
    const bool adds = call.adds(kLossInputGradient);
    const loss::PieceLoop loop = choose_loop(weights || upstream || losses, forward, dx != nullptr, adds);
    double total = sum_over(Tasks(rows * pieces, size), workers(call), [&](int64_t i) {
      const int64_t n = i / pieces, begin = i % pieces * size;
      const int64_t element = n * shape_.width + begin;  // of the packed tensors
      Piece piece;
      piece.x = call.address[kLossInput] + n * call.stride[kLossInput] + begin;
      piece.t = call.address[kLossLabels] + n * call.stride[kLossLabels] + begin;
      piece.w = weights ? weights + element : nullptr;
      piece.upstream = upstream ? upstream + n * call.stride[kLossOutputGradient] + begin : nullptr;
      piece.dx = dx ? dx + n * call.stride[kLossInputGradient] + begin : nullptr;
      piece.out = losses ? losses + element : nullptr;
      piece.count = std::min(size, length - begin);
      piece.value_scale = common;
      piece.slope_scale = slope_scale * common;
      piece.adds = adds;
      return loop(shape_, piece);
    });
    return common * total;
  }

  loss::PieceLoop choose_loop(bool any, bool forward, bool gradient, bool adds) const {
    const PieceLoops& loops = loss::piece_loops(shape_.function);
    if (any || (gradient && adds)) return forward ? loops.any : loops.any_gradient;
    if (!gradient) return loops.value;
    return forward ? loops.value_set : loops.set;
  }

  LossShape shape_;
  loss::RowLoop row_loop_;
};

}  // namespace

std::unique_ptr<Plan> make_loss(const LossShape& shape) { return std::make_unique<LossPlan>(shape); }

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
