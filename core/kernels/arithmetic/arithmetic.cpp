// y = f(op(a, b, c)) with broadcasting, and the gradients of the operands.
//
// The loops run over a `Space`: the batch and the axes of a sample, neighbours merged wherever every tensor allows it,
// so that most calls become one long run. Work is cut along one axis into tasks of a size that depends on the shape
// only; a task walks its part in blocks, with an activation small enough for the first-level cache, where it is fused.
// Gradients of repeated operands are summed in double precision, per task, and the tasks are added in order.
#include <algorithm>

#include "common/scratch_uses.h"
#include "kernels/activation/activation.h"
#include "kernels/activation/rows.h"
#include "kernels/arithmetic/blocks.h"
#include "kernels/kernels.h"
#include "runtime/dynamic_items.h"
#include "runtime/partition.h"
#include "runtime/scratch.h"
#include "simd/stream.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace {

using arithmetic::BackwardBlock;
using arithmetic::BlockKernels;
using arithmetic::ForwardBlock;
using arithmetic::Sink;
using arithmetic::Source;
using arithmetic::Target;

constexpr int kTensors = DOUT + 1;
constexpr int kMaxAxes = ArithmeticShape::kMaxRank + 3;  // the batch, and up to two axes of size 1 to make a block
constexpr int64_t kBlockElements = 4096, kPlainBlockElements = 32768;
constexpr int64_t kStreamElements = int64_t{1} << 20;  // results of 4 MiB and more go past the caches
constexpr int64_t kTaskElements = 16384;
constexpr int64_t kMaxTasks = 64;
constexpr int64_t kSerialElements = 32768;
constexpr int64_t kShareColumns = 64;  // whole vectors, and whole lines of the cache
constexpr int kPartialSlot = kPartialSums, kSumSlot = kPlaneSums, kGradientSlot = kActivated;

constexpr float kZeros[1] = {0};

// The iteration space: axis sizes (outermost first) and, per slot of the call, element strides (0 = repeated).
struct Space {
  int rank = 0;
  int64_t size[kMaxAxes];
  int64_t stride[kTensors][kMaxAxes];

  int64_t elements() const {
    int64_t product = 1;
    for (int a = 0; a < rank; a++) product *= size[a];
    return product;
  }

  bool repeats(int slot) const {
    for (int a = 0; a < rank; a++)
      if (stride[slot][a] == 0 && size[a] != 1) return true;
    return false;
  }

  // Adds an axis inside the last one, or merges both when each tensor steps through them evenly.
  void push(int64_t length, const int64_t (&step)[kTensors]) {
    bool merges = rank > 0;
    for (int t = 0; t < kTensors && merges; t++) merges = stride[t][rank - 1] == step[t] * length;
    if (!merges) rank++;
    size[rank - 1] = merges ? size[rank - 1] * length : length;
    for (int t = 0; t < kTensors; t++) stride[t][rank - 1] = step[t];
  }

  void push_unit_axis() {
    size[rank] = 1;
    for (int t = 0; t < kTensors; t++) stride[t][rank] = 1;
    rank++;
  }

  void prepend_unit_axis() {
    std::copy_backward(size, size + rank, size + rank + 1);
    for (int t = 0; t < kTensors; t++) {
      std::copy_backward(stride[t], stride[t] + rank, stride[t] + rank + 1);
      stride[t][0] = 0;
    }
    size[0] = 1;
    rank++;
  }

  // Blocks need two axes, the last with steps of 0 or 1.
  void complete() {
    bool dense = rank > 0;
    for (int t = 0; t < kTensors && dense; t++) dense = stride[t][rank - 1] == 0 || stride[t][rank - 1] == 1;
    if (!dense) push_unit_axis();
    if (rank == 1) prepend_unit_axis();
  }
};

// Tasks are ranges of `chunk` indices along `axis`.
struct Partition {
  int axis = 0;
  int64_t tasks = 1, chunk = 1;
};

// The part of the space that one task covers.
struct Box {
  int64_t begin[kMaxAxes], size[kMaxAxes];
};

// Some of the columns of a task.
struct Columns {
  int64_t first, count;
};

Box task_box(const Space& space, const Partition& partition, int64_t task) {
  Box box;
  for (int a = 0; a < space.rank; a++) {
    box.begin[a] = 0;
    box.size[a] = space.size[a];
  }
  int64_t begin = task * partition.chunk;
  box.begin[partition.axis] = begin;
  box.size[partition.axis] = std::min(partition.chunk, space.size[partition.axis] - begin);
  return box;
}

// Steps an index through axes [0, rank) of `size`, last axis fastest; false after the last one.
bool next_index(int64_t* index, const int64_t* size, int rank) {
  for (int a = rank - 1; a >= 0; a--) {
    if (++index[a] < size[a]) return true;
    index[a] = 0;
  }
  return false;
}

// Calls body(index of the block's first element within the box, rows, columns) for blocks of about `elements`; columns
// are cut in multiples of `granule` only. Of `share` of the columns of the box; the rows that go together, and so the
// order of sums over them, are those of all columns.
template <class Body>
void for_each_block(const Space& space, const Box& box, const Columns& share, int64_t elements, int64_t granule,
                    Body&& body) {
  int row_axis = space.rank - 2, column_axis = space.rank - 1;
  int64_t rows = box.size[row_axis], columns = box.size[column_axis];
  if (space.elements() == 0) return;
  int64_t piece = std::max(granule, elements / granule * granule);
  piece = std::min(piece, columns);
  int64_t group = std::min(rows, std::max<int64_t>(1, elements / piece));
  const int64_t end = share.first + share.count;
  int64_t index[kMaxAxes] = {};
  do {
    for (int64_t c = share.first; c < end; c += piece)
      for (int64_t r = 0; r < rows; r += group) {
        index[row_axis] = r;
        index[column_axis] = c;
        body(index, std::min(group, rows - r), std::min(piece, end - c));
      }
  } while (next_index(index, box.size, row_axis));
}

// The sums of one repeated operand: a dense array over the axes it keeps.
struct Sums {
  double* data = nullptr;
  int64_t stride[kMaxAxes];  // 0 for the axes summed over
  int64_t count = 1;

  void layout(const Space& space, const Box& box, int slot) {
    count = 1;
    for (int a = space.rank - 1; a >= 0; a--) {
      bool kept = space.stride[slot][a] != 0 || space.size[a] == 1;
      stride[a] = kept ? count : 0;
      if (kept) count *= box.size[a];
    }
  }
  // room for the vector that overhangs the last column, and whole cache lines for every task
  int64_t padded() const { return (count + kWidth + 7) / 8 * 8; }
};

class Arithmetic final : public Plan {
 public:
  Arithmetic(const ArithmeticShape& shape, const ActivationSpec& activation)
      : shape_(shape), activation_(activation), kernels_(arithmetic::block_kernels(shape.function)) {
    row_ = shape.rank > 0 ? shape.size[shape.rank - 1] : 1;
    int64_t out_stride = 1, operand_stride[3] = {1, 1, 1};
    for (int a = shape.rank - 1; a >= 0; a--) {
      Axis& axis = axes_[a];
      axis.size = shape.size[a];
      for (int i = 0; i < 3; i++) {
        bool kept = i < shape.operands && shape.operand_size[i][a] == shape.size[a];
        axis.stride[A0 + i] = axis.stride[DA0 + i] = kept ? operand_stride[i] : 0;
        if (i < shape.operands) operand_stride[i] *= shape.operand_size[i][a];
      }
      axis.stride[OUT] = axis.stride[DOUT] = out_stride;
      out_stride *= shape.size[a];
    }
    for (int i = 0; i < 3; i++) sample_[A0 + i] = sample_[DA0 + i] = operand_stride[i];
    sample_[OUT] = sample_[DOUT] = out_stride;
  }

  void forward(const Call& call) override {
    const Space space = make_space(call);
    const Partition partition = choose_partition(space, false);
    const bool stream = streams(space) && !is_axis_wise(activation_);
    dynamic_items(workers(call, space), partition.tasks, [&](int64_t task) {
      Box box = task_box(space, partition, task);
      for_each_block(space, box, {0, box.size[space.rank - 1]}, block_elements(), column_granule(),
                     [&](const int64_t* index, int64_t rows, int64_t columns) {
                       forward_block(call, space, box, index, rows, columns, stream);
                     });
      if (stream) finish_stream();
    });
  }

  void backward(const Call& call) override {
    BackwardRun run(*this, call);
    const int64_t units = run.column_units(*this);
    const int64_t shares = even_parts(run.partition.tasks, units, workers(call, run.space));
    dynamic_items(workers(call, run.space), run.partition.tasks * shares, [&](int64_t item) {
      const int64_t share = item % shares, first = units * share / shares * kShareColumns;
      const Box box = task_box(run.space, run.partition, item / shares);
      const int64_t end =
          share + 1 < shares ? units * (share + 1) / shares * kShareColumns : box.size[run.space.rank - 1];
      backward_task(run, item / shares, box, {first, end - first});
    });
    for (int i = 0; i < shape_.operands; i++)
      if (run.sink[i] == Sink::kSumRows && !run.owned[i])
        write_sums(run, task_box_of_all(run.space), i, run.partials[i], run.partition.tasks);
  }

  const ArithmeticShape* plain_arithmetic() const override { return is_identity(activation_) ? &shape_ : nullptr; }

 private:
  struct Axis {
    int64_t size;
    int64_t stride[kTensors];
  };

  // What every task of one backward call shares.
  struct BackwardRun {
    const Call& call;
    Space space;
    Partition partition;
    Sink sink[3];  // kSkip, kSet, kAdd, or kSumRows for every repeated operand
    bool same[3];  // as in BackwardBlock
    bool stream;
    bool owned[3];  // a repeated operand keeps the axis that is cut: each task alone sums its part of it
    Sums partials[3];

    BackwardRun(const Arithmetic& plan, const Call& c) : call(c), space(plan.make_space(c)) {
      partition = plan.choose_partition(space, true);
      stream = streams(space);
      auto equal = [&](int i, int j) {
        return j < plan.shape_.operands && c.address[DA0 + i] && c.address[DA0 + i] == c.address[DA0 + j] &&
               c.address[A0 + i] == c.address[A0 + j];
      };
      same[0] = equal(0, 1);
      same[1] = equal(0, 2);
      same[2] = equal(1, 2) && !same[0];
      for (int i = 0; i < 3; i++) {
        bool merged = (i == 1 && same[0]) || (i == 2 && (same[1] || same[2]));
        bool wanted = i < plan.shape_.operands && c.address[DA0 + i] && !merged;
        sink[i] = !wanted                  ? Sink::kSkip
                  : space.repeats(DA0 + i) ? Sink::kSumRows
                  : c.adds(DA0 + i)        ? Sink::kAdd
                                           : Sink::kSet;
        owned[i] = partition.tasks == 1 || space.stride[DA0 + i][partition.axis] != 0;
      }
      place_partials();
    }

    // Units of columns that several workers can share where there are fewer tasks: if none is cut along the columns,
    // and every sum is of one column, in an array that workers share.
    int64_t column_units(const Arithmetic& plan) const {
      const int axis = space.rank - 1;
      if (partition.axis == axis || plan.column_granule() != 1) return 1;
      for (int i = 0; i < 3; i++)
        if (sink[i] == Sink::kSumRows && (owned[i] || space.stride[DA0 + i][axis] == 0)) return 1;
      return std::max<int64_t>(1, space.size[axis] / kShareColumns);
    }

    // One array of sums per task for the operands that several tasks add to.
    void place_partials() {
      int64_t total = 0;
      for (int i = 0; i < 3; i++) {
        if (sink[i] != Sink::kSumRows || owned[i]) continue;
        partials[i].layout(space, task_box_of_all(space), DA0 + i);
        total += partials[i].padded() * partition.tasks;
      }
      if (total == 0) return;
      double* room = reinterpret_cast<double*>(scratch(kPartialSlot, static_cast<size_t>(total) * 2));
      for (int i = 0; i < 3; i++) {
        if (sink[i] != Sink::kSumRows || owned[i]) continue;
        partials[i].data = room;
        room += partials[i].padded() * partition.tasks;
      }
    }
  };

  static Box task_box_of_all(const Space& space) {
    Partition whole;
    whole.chunk = space.size[0];
    return task_box(space, whole, 0);
  }

  int64_t block_elements() const { return is_identity(activation_) ? kPlainBlockElements : kBlockElements; }
  static bool streams(const Space& space) { return space.elements() >= kStreamElements; }

  int64_t column_granule() const { return is_axis_wise(activation_) ? row_ : 1; }

  static int workers(const Call& call, const Space& space) {
    return space.elements() < kSerialElements ? 1 : call.threads;
  }

  Space make_space(const Call& call) const {
    Space space;
    if (call.batch != 1) {
      int64_t step[kTensors];
      for (int t = 0; t < kTensors; t++) {
        int operand = t >= DA0 ? t - DA0 : t;
        bool repeated = operand < 3 && (operand >= shape_.operands || !shape_.batched[operand]);
        step[t] = repeated ? 0 : call.address[t] ? call.stride[t] : sample_[t];
      }
      space.push(call.batch, step);
    }
    for (int a = 0; a < shape_.rank; a++)
      if (axes_[a].size != 1) space.push(axes_[a].size, axes_[a].stride);
    space.complete();
    return space;
  }

  // The axis to cut and how often: enough tasks to share, few partial sums. A function of the shape only. The estimate
  // counts the elements on the slowest of up to 8 threads, and the partial sums to clear, write and add up again.
  Partition choose_partition(const Space& space, bool sums) const {
    Partition best;
    best.chunk = space.size[0];
    int64_t elements = space.elements();
    int64_t wanted = std::min(kMaxTasks, elements / kTaskElements);
    if (wanted <= 1) return best;
    double best_cost = static_cast<double>(elements);
    for (int axis = 0; axis < space.rank; axis++) {
      bool columns = axis == space.rank - 1;
      int64_t unit = columns ? std::max<int64_t>(column_granule(), 64) : 1;
      if (columns) unit = (unit + column_granule() - 1) / column_granule() * column_granule();
      int64_t units = (space.size[axis] + unit - 1) / unit;
      for (int64_t limit = wanted; limit > 1; limit /= 2) {
        Partition p;
        p.axis = axis;
        p.chunk = (units + limit - 1) / limit * unit;
        p.tasks = (space.size[axis] + p.chunk - 1) / p.chunk;
        double cost = static_cast<double>(elements) / static_cast<double>(std::min<int64_t>(p.tasks, 8));
        if (columns) cost *= 1.1;  // rows in pieces are harder to prefetch
        if (sums) cost += 3.0 * static_cast<double>(p.tasks * partial_sums(space, axis));
        if (cost < best_cost) {
          best_cost = cost;
          best = p;
        }
      }
    }
    return best;
  }

  // Sums that every task needs of its own when `axis` is cut.
  int64_t partial_sums(const Space& space, int axis) const {
    int64_t total = 0;
    for (int i = 0; i < shape_.operands; i++) {
      if (space.stride[DA0 + i][axis] != 0) continue;
      int64_t count = 1;
      for (int a = 0; a < space.rank; a++)
        if (space.stride[DA0 + i][a] != 0) count *= space.size[a];
      total += count;
    }
    return total;
  }

  static int64_t offset(const Space& space, const Box& box, const int64_t* index, int slot) {
    int64_t sum = 0;
    for (int a = 0; a < space.rank; a++) sum += (box.begin[a] + index[a]) * space.stride[slot][a];
    return sum;
  }

  // A tensor of the call as the block that starts at `index` reads it; an absent one reads as zeros.
  static Source source(const Call& call, const Space& space, const Box& box, const int64_t* index, int slot) {
    const float* data = call.address[slot];
    if (!data) return {kZeros, 0, 0};
    return {data + offset(space, box, index, slot), space.stride[slot][space.rank - 2],
            space.stride[slot][space.rank - 1]};
  }

  // y = f(z), a row of z in place
  static void activate(const void* activation, float* row, int64_t columns) {
    activation_forward(*static_cast<const ActivationSpec*>(activation), row, row, columns, columns);
  }

  void forward_block(const Call& call, const Space& space, const Box& box, const int64_t* index, int64_t rows,
                     int64_t columns, bool stream) const {
    ForwardBlock block;
    for (int i = 0; i < 3; i++) block.operand[i] = source(call, space, box, index, A0 + i);
    block.out = call.address[OUT] + offset(space, box, index, OUT);
    block.out_row_stride = space.stride[OUT][space.rank - 2];
    block.rows = rows;
    block.columns = columns;
    const bool identity = is_identity(activation_);
    if (stream) return arithmetic::forward_streaming(kernels_, block, identity ? nullptr : activate, &activation_);
    kernels_.forward(block);
    if (identity) return;
    for (int64_t r = 0; r < rows; r++) {
      float* out = block.out + r * block.out_row_stride;
      activation_forward(activation_, out, out, columns, row_);
    }
  }

  // Columns [share.first, share.first + share.count) of a task.
  void backward_task(const BackwardRun& run, int64_t task, const Box& box, const Columns& share) const {
    Sums sums[3];
    int64_t owned_total = 0;
    for (int i = 0; i < 3; i++) {
      if (run.sink[i] != Sink::kSumRows) continue;
      sums[i].layout(run.space, run.owned[i] ? box : task_box_of_all(run.space), DA0 + i);
      if (run.owned[i])
        owned_total += sums[i].padded();
      else
        sums[i].data = run.partials[i].data + task * sums[i].padded();
    }
    if (owned_total > 0) {
      double* room = reinterpret_cast<double*>(scratch(kSumSlot, static_cast<size_t>(owned_total) * 2));
      for (int i = 0; i < 3; i++) {
        if (run.sink[i] != Sink::kSumRows || !run.owned[i]) continue;
        sums[i].data = room;
        room += sums[i].padded();
      }
    }
    const int64_t columns = box.size[run.space.rank - 1];
    for (Sums& s : sums) {
      if (!s.data) continue;
      if (share.count == columns)
        std::fill_n(s.data, s.padded(), 0.0);
      else
        for (int64_t i = share.first; i < s.count; i += columns) std::fill_n(s.data + i, share.count, 0.0);
    }

    float* dz = nullptr;  // one block [rows][columns]
    const int64_t granule = column_granule();
    if (!is_identity(activation_)) dz = scratch(kGradientSlot, static_cast<size_t>(std::max(kBlockElements, granule)));
    for_each_block(run.space, box, share, block_elements(), granule,
                   [&](const int64_t* index, int64_t rows, int64_t count) {
                     backward_block(run, box, index, rows, count, sums, dz);
                   });
    if (run.stream) finish_stream();
    for (int i = 0; i < 3; i++)
      if (sums[i].data && run.owned[i]) write_sums(run, box, i, sums[i], 1);
  }

  void backward_block(const BackwardRun& run, const Box& box, const int64_t* index, int64_t rows, int64_t columns,
                      const Sums* sums, float* dz) const {
    const Space& space = run.space;
    int row_axis = space.rank - 2, column_axis = space.rank - 1;
    BackwardBlock block;
    for (int i = 0; i < 3; i++) block.operand[i] = source(run.call, space, box, index, A0 + i);
    block.output = source(run.call, space, box, index, OUT);
    block.output_given = run.call.address[OUT] && is_identity(activation_);
    block.dz = source(run.call, space, box, index, DOUT);
    if (dz) {
      // y = f(z): dz = dy * f'(y)
      for (int64_t r = 0; r < rows; r++)
        activation_backward_from_output(activation_, block.output.data + r * block.output.row_stride,
                                        block.dz.data + r * block.dz.row_stride, dz + r * columns, columns, row_);
      block.dz = {dz, columns, 1};
    }
    for (int i = 0; i < 3; i++) {
      Target& target = block.target[i];
      block.same[i] = run.same[i];
      target = {run.sink[i], nullptr, nullptr, 0};
      if (target.sink == Sink::kSumRows) {
        if (space.stride[DA0 + i][column_axis] == 0) target.sink = Sink::kSumColumns;
        target.sums = sums[i].data;
        for (int a = 0; a < space.rank; a++) target.sums += index[a] * sums[i].stride[a];
        target.row_stride = sums[i].stride[row_axis];
      } else if (target.sink != Sink::kSkip) {
        target.data = run.call.address[DA0 + i] + offset(space, box, index, DA0 + i);
        target.row_stride = space.stride[DA0 + i][row_axis];
      }
    }
    block.rows = rows;
    block.columns = columns;
    block.stream = run.stream;
    arithmetic::backward(kernels_, block);
  }

  // Gradient i of the box = the sums of `tasks` tasks, added in order; written over the axes that the operand keeps.
  static void write_sums(const BackwardRun& run, const Box& box, int i, const Sums& sums, int64_t tasks) {
    const Space& space = run.space;
    float* gradient = run.call.address[DA0 + i];
    bool adds = run.call.adds(DA0 + i);
    int kept = 0;
    int64_t size[kMaxAxes], step[kMaxAxes], index[kMaxAxes] = {};
    for (int a = 0; a < space.rank; a++) {
      gradient += box.begin[a] * space.stride[DA0 + i][a];
      if (space.stride[DA0 + i][a] == 0) continue;
      size[kept] = box.size[a];
      step[kept++] = space.stride[DA0 + i][a];
    }
    if (sums.count == 0) return;
    int64_t run_length = kept ? size[kept - 1] : 1, run_step = kept ? step[kept - 1] : 0;
    int outer = kept ? kept - 1 : 0;
    const double* partial = sums.data;
    do {
      float* target = gradient;
      for (int a = 0; a < outer; a++) target += index[a] * step[a];
      for (int64_t k = 0; k < run_length; k++, partial++, target += run_step) {
        double total = partial[0];
        for (int64_t t = 1; t < tasks; t++) total += partial[t * sums.padded()];
        *target = static_cast<float>(adds ? *target + total : total);
      }
    } while (next_index(index, size, outer));
  }

  const ArithmeticShape shape_;
  const ActivationSpec activation_;
  const BlockKernels& kernels_;
  int64_t row_;  // of axis-wise activations: the last axis
  Axis axes_[ArithmeticShape::kMaxRank];
  int64_t sample_[kTensors];  // elements of one packed sample
};

}  // namespace

std::unique_ptr<Plan> make_arithmetic(const ArithmeticShape& shape, const ActivationSpec& activation) {
  return std::make_unique<Arithmetic>(shape, activation);
}

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
