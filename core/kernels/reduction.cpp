// Reductions over some axes, with optional weights, and their gradients. Formulas: docs/filters/reduction.md.
//
// Neighbouring axes of one kind are merged, so kept and reduced axes alternate, and the last one is a run of memory:
// reduced (a row becomes one value) or kept (rows are combined column by column). Everything is combined in double.
// Work is cut by the shape alone, so results do not depend on the number of threads.
#include <algorithm>
#include <cmath>

#include "kernels/pieces.h"
#include "kernels/reduction_terms.h"
#include "kernels/scratch_uses.h"
#include "kernels/tensor.h"
#include "runtime/scratch.h"
#include "simd/math.h"
#include "simd/stream.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace {

using namespace reduction;

constexpr int64_t kColumns = 2048;   // combined together: their totals stay in a near cache
constexpr int64_t kSegment = 65536;  // elements of a part of a reduction that is worth a task
constexpr int64_t kStrip = 256;      // columns searched together for positions
constexpr int64_t kManyTasks = 64;   // so many need not be cut further
constexpr int64_t kShortRow = 32;    // elements of rows that are combined side by side,
constexpr int64_t kShortRows = 64;   // so many of them
constexpr int64_t kFewTasks = 8;     // strips of columns that there should be,
constexpr int64_t kNarrow = 256;     // unless they became narrower than this

struct Axis {
  int64_t size, step;
};

// Kept or reduced axes, from the slowest to the fastest.
struct Axes {
  int rank = 0;
  int64_t count = 1;
  Axis axis[ReductionShape::kMaxRank + 1];

  void add(int64_t size, int64_t step) {
    axis[rank++] = {size, step};
    count *= size;
  }
  // Where element number `index` of these axes lies.
  int64_t offset(int64_t index) const {
    if (rank == 1) return index * axis[0].step;
    int64_t place = 0;
    for (int a = rank - 1; a >= 0; a--) {
      place += index % axis[a].size * axis[a].step;
      index /= axis[a].size;
    }
    return place;
  }
  // Without the fastest.
  Axes outer() const {
    Axes o = *this;
    o.rank--;
    o.count /= axis[o.rank].size;
    return o;
  }
};

bool is_logarithm_of_sum(int f) { return f == kLogSumExp || f == kLogSum; }

class ReductionPlan : public Plan {
 public:
  explicit ReductionPlan(const ReductionShape& shape) : s_(shape) {
    merge();
    cut();
  }

  // X, W -> Y
  void forward(const Call& call) override {
    if (s_.function == kArgMax || s_.function == kArgMin) return write_positions(call);
    float* shift = nullptr;
    double* value = values(call, &shift);
    const double* count = s_.function == kMeanNonZero && call.address[W] ? counted(call) : nullptr;
    const auto all = static_cast<double>(reduced_.count);
    const bool packed = call.stride[Y] == outputs();  // the batch is one row of outputs
    const int64_t rows = packed ? 1 : call.batch, length = packed ? call.batch * outputs() : outputs();
    for_each_piece(call, rows, length, [&](int64_t n, int64_t first, int64_t size) {
      const int64_t from = n * outputs() + first;
      float* y = call.address[Y] + n * call.stride[Y] + first;
      if (!call.adds(Y) && is_total()) {
        for (int64_t i = 0; i < size; i++) y[i] = static_cast<float>(value[from + i]);
        return;
      }
      for (int64_t i = 0; i < size; i++) {
        const auto result = static_cast<float>(finish(value[from + i], count ? count[from + i] : all, shift, from + i));
        y[i] = call.adds(Y) ? y[i] + result : result;
      }
    });
  }

  // X, W, DY -> DX, DW
  void backward(const Call& call) override {
    if (s_.function == kMax || s_.function == kMin) return spread_to_extremes(call);
    if (s_.function == kProduct) return spread_products(call);
    float* shift = nullptr;
    const float* factor = factors(call, &shift);
    if (call.address[DX]) input_gradients(call, factor, shift);
    if (call.address[DW]) weights_gradients(call, factor, shift);
  }

 private:
  // ---- shape ----

  void merge() {
    int64_t size[ReductionShape::kMaxRank + 1];
    bool inside[ReductionShape::kMaxRank + 1];
    int rank = 0;
    for (int a = 0; a < s_.rank; a++) {
      if (s_.size[a] == 1) continue;
      const bool same = rank > 0 && inside[rank - 1] == s_.inside[a];
      if (same) rank--;
      size[rank] = same ? size[rank] * s_.size[a] : s_.size[a];
      inside[rank++] = s_.inside[a];
    }
    if (rank == 0) {
      size[rank] = 1;
      inside[rank++] = true;
    }
    int64_t step[ReductionShape::kMaxRank + 1];
    for (int a = rank - 1; a >= 0; a--) {
      step[a] = elements_;
      elements_ *= size[a];
    }
    for (int a = 0; a < rank; a++) (inside[a] ? reduced_ : kept_).add(size[a], step[a]);
    run_reduced_ = inside[rank - 1];
    run_ = size[rank - 1];
  }

  // Tasks of one sample: blocks of outputs, each in `segments_` parts of the reduced elements.
  void cut() {
    const Axes rows = run_reduced_ ? reduced_.outer() : reduced_;
    if (!run_reduced_) {  // strips of columns: several of them, rather than parts that have to be merged
      const int64_t outer = kept_.outer().count, wanted = std::min((kFewTasks + outer - 1) / outer, run_ / kNarrow);
      const int64_t strips = std::max((run_ + kColumns - 1) / kColumns, std::max<int64_t>(1, wanted));
      columns_ = ((run_ + strips - 1) / strips + kWidth - 1) / kWidth * kWidth;
    }
    blocks_ = run_reduced_ ? kept_.count : kept_.outer().count * ((run_ + columns_ - 1) / columns_);
    const int64_t block = elements_ / blocks_;
    segments_ = blocks_ >= kManyTasks ? 1 : std::min(kManyTasks / blocks_ + 1, std::max<int64_t>(1, block / kSegment));
    cut_run_ = run_reduced_ && rows.count < segments_;
    segments_ = std::min(segments_, cut_run_ ? run_ : rows.count);
  }

  int64_t outputs() const { return kept_.count; }
  int workers(const Call& call) const { return workers_for(call, call.batch * elements_); }

  template <class Body>
  void for_outputs(const Call& call, Body body) const {
    for_each_piece(call, call.batch, outputs(), [&](int64_t n, int64_t first, int64_t count) {
      for (int64_t o = first; o < first + count; o++) body(n, o);
    });
  }

  // ---- totals ----

  // [batch][outputs]: all terms of each output combined. `positions`, if given, are those of the extremes that are
  // found while a row is in the cache.
  double* combined(Kind kind, const Call& call, const float* shift, int slot, int64_t* positions = nullptr) const {
    const Combination& c = combination(kind);
    const int64_t all = call.batch * outputs();
    auto* totals = reinterpret_cast<double*>(scratch(slot, static_cast<size_t>(2 * all)));
    double* part = totals;
    if (segments_ > 1)
      part = reinterpret_cast<double*>(scratch(kPartialSums, static_cast<size_t>(2 * all * segments_)));
    if (has_short_rows()) {
      combine_short_rows(c, call, shift, totals, positions);
      return totals;
    }
    const int64_t tasks = blocks_ * segments_;
    const int64_t together = std::max<int64_t>(1, kPiece / std::max<int64_t>(1, elements_ / tasks));
    dynamic_items(workers(call), (call.batch * tasks + together - 1) / together, [&](int64_t group) {
      for (int64_t t = group * together, end = std::min(call.batch * tasks, t + together); t < end; t++) {
        const int64_t n = t / tasks, block = t % tasks / segments_, segment = t % segments_;
        double* to = part + (n * segments_ + segment) * outputs();
        const float* x = call.address[X] ? call.address[X] + n * call.stride[X] : nullptr;
        const float* moved = shift ? shift + n * outputs() : nullptr;
        if (!run_reduced_) {
          combine_columns(c, x, call.address[W], moved, block, segment, to);
          continue;
        }
        combine_row(c, x, call.address[W], moved, block, segment, to);
        if (positions) positions[n * outputs() + block] = position(x, block, to[block]);
      }
    });
    if (segments_ > 1)
      for (int64_t n = 0; n < call.batch; n++) {
        const double* p = part + n * segments_ * outputs();
        std::copy_n(p, outputs(), totals + n * outputs());
        for (int64_t i = 1; i < segments_; i++) c.merge(totals + n * outputs(), p + i * outputs(), outputs());
      }
    return totals;
  }

  // Each output is one short row of memory: they are combined side by side, as columns.
  bool has_short_rows() const { return run_reduced_ && run_ <= kShortRow && reduced_.rank == 1; }

  void combine_short_rows(const Combination& c, const Call& call, const float* shift, double* totals,
                          int64_t* positions) const {
    const int64_t all = call.batch * outputs(), pieces = (all + kShortRows - 1) / kShortRows;
    const int64_t together = std::max<int64_t>(1, kPiece / (kShortRows * run_));
    dynamic_items(workers(call), (pieces + together - 1) / together, [&](int64_t item) {
      for (int64_t p = item * together, end = std::min(pieces, p + together); p < end; p++)
        combine_side_by_side(c, call, shift, p * kShortRows, std::min(kShortRows, all - p * kShortRows), totals,
                             positions);
    });
  }

  // Outputs first .. first + count - 1 of the whole batch.
  void combine_side_by_side(const Combination& c, const Call& call, const float* shift, int64_t first, int64_t count,
                            double* totals, int64_t* positions) const {
    float x[kShortRow * kShortRows], w[kShortRow * kShortRows];
    double total[kShortRows + kWidth];
    for (int64_t i = 0, n = first / outputs(), o = first % outputs(); i < count; i++) {
      if (call.address[X]) lay_down(sample(call, X, n) + o * run_, x + i);
      if (call.address[W]) lay_down(call.address[W] + o * run_, w + i);
      if (++o == outputs()) n++, o = 0;
    }
    std::fill_n(total, count, c.start);
    for (int64_t r = 0; r < run_; r++)
      c.add_columns(total, call.address[X] ? x + r * kShortRows : nullptr,
                    call.address[W] ? w + r * kShortRows : nullptr, shift ? shift + first : nullptr, count, s_.epsilon);
    std::copy_n(total, count, totals + first);
    for (int64_t i = 0; positions && i < count; i++) {
      const auto best = static_cast<float>(total[i]);
      const float* column = x + i;
      int64_t r = 0;
      while (r + 1 < run_ &&
             !(column[r * kShortRows] == best || (best != best && column[r * kShortRows] != column[r * kShortRows])))
        r++;
      positions[first + i] = r;
    }
  }

  // A row as a column.
  void lay_down(const float* row, float* column) const {
    for (int64_t r = 0; r < run_; r++) column[r * kShortRows] = row[r];
  }

  void combine_row(const Combination& c, const float* x, const float* w, const float* shift, int64_t o, int64_t segment,
                   double* to) const {
    const int64_t base = kept_.offset(o);
    double lanes[kWidth];
    std::fill_n(lanes, kWidth, c.start);
    if (reduced_.rank == 1 && !cut_run_) {
      c.add_run(lanes, x + base, w ? w + base : nullptr, run_, shift ? shift[o] : 0.0f, s_.epsilon);
      to[o] = c.close(lanes);
      return;
    }
    const Axes rows = reduced_.outer();
    int64_t first_row = 0, end_row = rows.count, first = 0, end = run_;
    (cut_run_ ? first : first_row) = (cut_run_ ? run_ : rows.count) * segment / segments_;
    (cut_run_ ? end : end_row) = (cut_run_ ? run_ : rows.count) * (segment + 1) / segments_;
    for (int64_t r = first_row; r < end_row; r++) {
      const int64_t place = base + rows.offset(r) + first;
      c.add_run(lanes, x + place, w ? w + place : nullptr, end - first, shift ? shift[o] : 0.0f, s_.epsilon);
    }
    to[o] = c.close(lanes);
  }

  void combine_columns(const Combination& c, const float* x, const float* w, const float* shift, int64_t block,
                       int64_t segment, double* to) const {
    const int64_t strips = (run_ + columns_ - 1) / columns_;
    const int64_t outer = block / strips, first = block % strips * columns_, count = std::min(columns_, run_ - first);
    const int64_t base = kept_.outer().offset(outer) + first;
    const int64_t output = outer * run_ + first;
    double total[kColumns + 2 * kWidth];
    std::fill_n(total, count, c.start);
    int64_t r = reduced_.count * segment / segments_;
    const int64_t end = reduced_.count * (segment + 1) / segments_;
    for (; c.add_rows && !w && r + kRows <= end; r += kRows) {
      const float* row[kRows];
      for (int k = 0; k < kRows; k++) row[k] = x + base + reduced_.offset(r + k);
      c.add_rows(total, row, count);
    }
    for (; r < end; r++) {
      const int64_t place = base + reduced_.offset(r);
      c.add_columns(total, x + place, w ? w + place : nullptr, shift ? shift + output : nullptr, count, s_.epsilon);
    }
    std::copy_n(total, count, to + output);
  }

  // The totals that the value follows from; LogSumExp sets *shift to what is taken from the exponents of each output.
  double* values(const Call& call, float** shift, int64_t* positions = nullptr) const {
    Kind kind = kTotal;
    switch (s_.function) {
      case kMax:
      case kArgMax:
        return combined(kMaximum, call, nullptr, kFactors, positions);
      case kMin:
      case kArgMin:
        return combined(kMinimum, call, nullptr, kFactors, positions);
      case kSumSquare:
      case kL2Norm:
        kind = kSquareTotal;
        break;
      case kSumLog:
        kind = kLogTotal;
        break;
      case kL1Norm:
        kind = kAbsTotal;
        break;
      case kLogicalOr:
        kind = kAnyNonZero;
        break;
      case kLogicalAnd:
        kind = kAllNonZero;
        break;
      case kProduct:
        kind = kProductTotal;
        break;
      case kMeanNonZero:
        kind = kMaskedTotal;
        break;
      case kLogSumExp: {
        const double* largest = combined(kMaximum, Unweighted(call), nullptr, kFactors);
        *shift = scratch(kBias, static_cast<size_t>(call.batch * outputs()));
        for (int64_t i = 0; i < call.batch * outputs(); i++)
          (*shift)[i] = std::isinf(largest[i]) ? 0.0f : static_cast<float>(largest[i]);
        return combined(kExpTotal, call, *shift, kFactors);
      }
      default:
        break;
    }
    return combined(kind, call, nullptr, kFactors);
  }

  static Call Unweighted(Call call) {
    call.address[W] = nullptr;
    return call;
  }

  // Whether the value of an output is the total of its terms.
  bool is_total() const {
    const int f = s_.function;
    return f != kMean && f != kMeanNonZero && f != kL2Norm && !is_logarithm_of_sum(f);
  }

  // How many weights are not 0.
  double* counted(const Call& call) const { return combined(kCountTotal, call, nullptr, kPlaneSums); }

  double finish(double total, double count, const float* shift, int64_t i) const {
    switch (s_.function) {
      case kMean:
        return total / count;
      case kMeanNonZero:
        return count == 0 ? 0.0 : total / count;
      case kL2Norm:
        return std::sqrt(total);
      case kLogSum:
        return std::log(total);
      case kLogSumExp:
        return std::log(total) + shift[i];
      default:
        return total;
    }
  }

  // ---- positions ----

  // Number of the first reduced element of output o that equals `best`, in C order, where the run is reduced.
  int64_t position(const float* x, int64_t o, double best) const {
    const int64_t base = kept_.offset(o);
    const Axes rows = reduced_.outer();
    for (int64_t r = 0; r < rows.count; r++) {
      const int64_t i = find_first(x + base + rows.offset(r), run_, static_cast<float>(best));
      if (i < run_) return r * run_ + i;
    }
    return 0;
  }

  void write_positions(const Call& call) const {
    for_positions(call, [&](int64_t n, int64_t o, int64_t position) {
      if (s_.position_modulus > 0) position %= s_.position_modulus;
      const int64_t at = n * call.stride[Y] + o;
      if (s_.wide_positions)
        reinterpret_cast<int64_t*>(call.address[Y])[at] = position;
      else
        call.address[Y][at] = static_cast<float>(position);
    });
  }

  // body(n, o, position) for every output.
  template <class Body>
  void for_positions(const Call& call, Body body) const {
    if (!run_reduced_) return search_strips(call, values(call, nullptr), body);
    auto* known = reinterpret_cast<int64_t*>(scratch(kLookups, static_cast<size_t>(2 * call.batch * outputs())));
    const double* best = values(call, nullptr, segments_ == 1 ? known : nullptr);
    dynamic_items(workers(call), segments_ == 1 ? 0 : call.batch * outputs(), [&](int64_t i) {
      const int64_t n = i / outputs();
      known[i] = position(call.address[X] + n * call.stride[X], i % outputs(), best[i]);
    });
    for (int64_t n = 0; n < call.batch; n++)
      for (int64_t o = 0; o < outputs(); o++) body(n, o, known[n * outputs() + o]);
  }

  // The same where outputs lie side by side in memory: a strip of them is searched together, row by row.
  template <class Body>
  void search_strips(const Call& call, const double* best, Body body) const {
    const int64_t together = std::min(run_, kStrip), across = (run_ + together - 1) / together;
    const int64_t strips = kept_.outer().count * across;
    dynamic_items(workers(call), call.batch * strips, [&](int64_t task) {
      const int64_t n = task / strips, strip = task % strips;
      const int64_t first = strip % across * together, count = std::min(together, run_ - first);
      const int64_t output = strip / across * run_ + first;
      int64_t place[kStrip];
      search_columns(call.address[X] + n * call.stride[X] + kept_.outer().offset(strip / across) + first,
                     best + n * outputs() + output, count, place);
      for (int64_t c = 0; c < count; c++) body(n, output + c, place[c]);
    });
  }

  void search_columns(const float* x, const double* best, int64_t count, int64_t* place) const {
    float wanted[kStrip];
    for (int64_t c = 0; c < count; c++) wanted[c] = static_cast<float>(best[c]);
    std::fill_n(place, count, int64_t{-1});
    int64_t open = count;
    for (int64_t r = 0; r < reduced_.count && open > 0; r++) {
      const float* row = x + reduced_.offset(r);
      for (int64_t i = 0; i < count; i += kWidth) {
        const int64_t lanes = std::min<int64_t>(kWidth, count - i);
        const Vec v = load_partial(row + i, lanes), w = load_partial(wanted + i, lanes);
        if (!math::any((v == w) | ((v != v) & (w != w)))) continue;
        for (int64_t c = i; c < i + lanes; c++) {
          if (place[c] >= 0 || !(row[c] == wanted[c] || (row[c] != row[c] && wanted[c] != wanted[c]))) continue;
          place[c] = r;
          open--;
        }
      }
    }
  }

  // ---- gradients ----

  static float* sample(const Call& call, int slot, int64_t n) { return call.address[slot] + n * call.stride[slot]; }

  // body(n, place, output, count) for runs of consecutive elements of every sample; `output` is that of the first
  // element, and of all if the run is reduced.
  template <class Body>
  void for_runs(const Call& call, int64_t batch, Body body) const {
    const int64_t rows = elements_ / run_;
    for_each_piece(call, batch * rows, run_, [&](int64_t row, int64_t first, int64_t count) {
      const int64_t n = row / rows, place = row % rows * run_;
      body(n, place + first, output_of(place) + (run_reduced_ ? 0 : first), count);
    });
  }

  // The output that element number `place` belongs to.
  int64_t output_of(int64_t place) const {
    int64_t output = 0;
    for (int a = 0; a < kept_.rank; a++)
      output = output * kept_.axis[a].size + place / kept_.axis[a].step % kept_.axis[a].size;
    return output;
  }

  // What a slope is multiplied by, [batch][outputs]: dy times the part that all elements of an output share.
  const float* factors(const Call& call, float** shift) const {
    const int f = s_.function;
    const bool needs_total = f == kL2Norm || is_logarithm_of_sum(f);
    const double* total = needs_total ? values(call, shift) : nullptr;
    const double* count = f == kMeanNonZero && call.address[W] ? counted(call) : nullptr;
    float* factor = scratch(kActivated, static_cast<size_t>(call.batch * outputs()));
    for_outputs(call, [&](int64_t n, int64_t o) {
      const int64_t i = n * outputs() + o;
      double dy = sample(call, DY, n)[o];
      if (f == kMean || (f == kMeanNonZero && !count)) dy /= static_cast<double>(reduced_.count);
      if (count) dy = count[i] == 0 ? 0.0 : dy / count[i];
      if (f == kL2Norm) dy = total[i] == 0 ? 0.0 : dy / std::sqrt(total[i]);  // y = sqrt(total)
      if (f == kSumSquare) dy *= 2;
      if (is_logarithm_of_sum(f)) dy /= total[i];  // y = log(total)
      factor[i] = static_cast<float>(dy);
    });
    return factor;
  }

  void input_gradients(const Call& call, const float* factor, const float* shift) const {
    const bool adds = call.adds(DX), stream = !adds && call.batch * elements_ >= kStreamFrom;
    for_runs(call, call.batch, [&](int64_t n, int64_t place, int64_t output, int64_t count) {
      const int64_t o = n * outputs() + output;
      input_gradient(s_.function,
                     {call.address[X] ? sample(call, X, n) + place : nullptr,
                      call.address[W] ? call.address[W] + place : nullptr, factor + o, shift ? shift + o : nullptr,
                      sample(call, DX, n) + place, count, !run_reduced_, adds, stream, s_.epsilon});
      if (stream) finish_stream();
    });
  }

  // Sums over the batch.
  void weights_gradients(const Call& call, const float* factor, const float* shift) const {
    const bool masked = s_.function == kMeanNonZero;
    for_runs(call, 1, [&](int64_t, int64_t place, int64_t output, int64_t count) {
      weights_gradient(s_.function, {call.address[X] + place, masked ? call.address[W] + place : nullptr,
                                     factor + output, shift ? shift + output : nullptr, call.address[DW] + place, count,
                                     call.batch, call.stride[X], outputs(), !run_reduced_, call.adds(DW), s_.epsilon});
    });
  }

  void clear_unless_added(const Call& call) const {
    if (call.adds(DX)) return;
    for_each_piece(call, call.batch, elements_, [&](int64_t n, int64_t first, int64_t count) {
      std::fill_n(sample(call, DX, n) + first, count, 0.0f);
    });
  }

  // y = x[first extreme]: the whole gradient goes there.
  void spread_to_extremes(const Call& call) const {
    if (!call.address[DX]) return;
    clear_unless_added(call);
    for_positions(Unweighted(call), [&](int64_t n, int64_t o, int64_t position) {
      sample(call, DX, n)[kept_.offset(o) + reduced_.offset(position)] += sample(call, DY, n)[o];
    });
  }

  // y = product of x: dy/dx[p] = product of those before p times those behind it, which holds for zeros too.
  void spread_products(const Call& call) const {
    if (!call.address[DX]) return;
    const bool adds = call.adds(DX);
    const int64_t count = reduced_.count;
    dynamic_items(workers(call), call.batch * outputs(), [&](int64_t i) {
      const int64_t n = i / outputs(), o = i % outputs(), base = kept_.offset(o);
      const float* x = sample(call, X, n) + base;
      float* dx = sample(call, DX, n) + base;
      const double dy = sample(call, DY, n)[o];
      auto* before = reinterpret_cast<double*>(scratch(kOutputTile, static_cast<size_t>(2 * count)));
      double product = 1;
      for (int64_t p = 0; p < count; p++) {
        before[p] = product;
        product *= x[reduced_.offset(p)];
      }
      double behind = 1;
      for (int64_t p = count - 1; p >= 0; p--) {
        const int64_t at = reduced_.offset(p);
        const auto gradient = static_cast<float>(dy * (before[p] * behind));
        behind *= x[at];
        dx[at] = adds ? dx[at] + gradient : gradient;
      }
    });
  }

  ReductionShape s_;
  Axes kept_, reduced_;
  int64_t elements_ = 1, run_ = 1, blocks_ = 1, segments_ = 1, columns_ = 1;
  bool run_reduced_ = true, cut_run_ = false;
};

}  // namespace

std::unique_ptr<Plan> make_reduction(const ReductionShape& shape) { return std::make_unique<ReductionPlan>(shape); }

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
