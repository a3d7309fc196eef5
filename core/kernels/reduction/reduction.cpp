// Reductions over some axes, with optional weights, and their gradients. Formulas: docs/filters/reduction.md.
//
// Neighbouring axes of one kind are merged, so kept and reduced axes alternate, and the last one is a run of memory:
// reduced (a row becomes one value) or kept (rows are combined column by column). Everything is combined in double.
// Work is cut by the shape alone, so results do not depend on the number of threads.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "common/pieces.h"
#include "common/scratch_uses.h"
#include "kernels/kernels.h"
#include "kernels/reduction/terms.h"
#include "runtime/scratch.h"
#include "simd/math.h"
#include "simd/stream.h"
#include "simd/wide.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace {

using namespace reduction;

constexpr int64_t kColumns = 2048;     // combined together: their totals stay in a near cache
constexpr int64_t kSegment = 65536;    // elements of a part of a reduction that is worth a task
constexpr int64_t kManyTasks = 64;     // so many need not be cut further
constexpr int64_t kRowsTogether = 64;  // totals of rows that lie ready at a time
constexpr int64_t kBand = 2048;        // elements of rows that are combined column by column in one go
constexpr int64_t kJoined = kWidth;    // narrower rows are joined to whole vectors
constexpr int64_t kFewTasks = 8;       // strips of columns that there should be,
constexpr int64_t kNarrow = 256;       // unless they became narrower than this

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
    if (segments_ == 1 && s_.function != kLogSumExp && s_.function != kMeanNonZero)
      return (void)values(call, nullptr, nullptr, true);
    float* shift = nullptr;
    const double* value = values(call, &shift);
    const double* count = s_.function == kMeanNonZero && call.address[W] ? counted(call) : nullptr;
    const bool packed = call.stride[Y] == outputs();  // the batch is one row of outputs
    const int64_t rows = packed ? 1 : call.batch, length = packed ? call.batch * outputs() : outputs();
    const int64_t piece = kPiece / 16, pieces = (length + piece - 1) / piece;
    dynamic_items(rows * length < 2 * piece ? 1 : call.threads, rows * pieces, [&](int64_t item) {
      const int64_t n = item / pieces, first = item % pieces * piece, from = n * outputs() + first;
      write_values(value + from, count ? count + from : nullptr, shift ? shift + from : nullptr, call.adds(Y),
                   sample(call, Y, n) + first, std::min(piece, length - first));
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
  // found while a row is in the cache. With `writes` every output is written as soon as it is known, and the totals are
  // not kept.
  double* combined(Kind kind, const Call& call, const float* shift, int slot, int64_t* positions = nullptr,
                   bool writes = false) const {
    const Combination& c = combination(kind);
    const int64_t all = call.batch * outputs();
    double* totals = nullptr;
    if (!writes) totals = reinterpret_cast<double*>(scratch(slot, static_cast<size_t>(2 * all)));
    double* part = totals;
    if (segments_ > 1)
      part = reinterpret_cast<double*>(scratch(kPartialSums, static_cast<size_t>(2 * all * segments_)));
    if (has_plain_rows()) {
      for_plain_rows(call, [&](int64_t n, int64_t o, int64_t rows) {
        double here[kRowsTogether];
        double* to = writes ? here : totals + n * outputs() + o;
        combine_plain_rows(c, call, shift, n, o, rows, to);
        if (writes) write_values(to, nullptr, nullptr, call.adds(Y), sample(call, Y, n) + o, rows);
        for (int64_t r = 0; positions && r < rows; r++)
          positions[n * outputs() + o + r] = position(sample(call, X, n), o + r, to[r]);
      });
      return totals;
    }
    const int64_t tasks = blocks_ * segments_;
    const int64_t together = std::max<int64_t>(1, kPiece / std::max<int64_t>(1, elements_ / tasks));
    dynamic_items(workers(call), (call.batch * tasks + together - 1) / together, [&](int64_t group) {
      for (int64_t t = group * together, end = std::min(call.batch * tasks, t + together); t < end; t++) {
        const int64_t n = t / tasks, block = t % tasks / segments_, segment = t % segments_;
        const Terms terms = {call.address[X] ? sample(call, X, n) : nullptr, call.address[W],
                             shift ? shift + n * outputs() : nullptr, false, s_.epsilon};
        double here[kColumns + 2 * kWidth];
        const Span span = run_reduced_ ? combine_row(c, terms, block, segment, here)
                                       : combine_columns(c, terms, block, segment, here);
        if (writes)
          write_values(here, nullptr, nullptr, call.adds(Y), sample(call, Y, n) + span.first, span.count);
        else
          std::copy_n(here, span.count, part + (n * segments_ + segment) * outputs() + span.first);
        if (positions) positions[n * outputs() + block] = position(terms.x, block, here[0]);
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

  // Outputs that a task has totals of.
  struct Span {
    int64_t first, count;
  };

  // Whether each output is one row of memory, and one task's.
  bool has_plain_rows() const { return run_reduced_ && reduced_.rank == 1 && segments_ == 1; }

  // body(n, first output, rows) for some of them at a time
  template <class Body>
  void for_plain_rows(const Call& call, Body body) const {
    const int64_t all = call.batch * outputs(), together = std::max<int64_t>(1, kPiece / run_);
    dynamic_items(workers(call), (all + together - 1) / together, [&](int64_t item) {
      const int64_t end = std::min(all, (item + 1) * together);
      for (int64_t i = item * together, rows; i < end; i += rows) {
        const int64_t n = i / outputs(), o = i % outputs();
        rows = std::min({end - i, outputs() - o, kRowsTogether});
        body(n, o, rows);
      }
    });
  }

  void combine_plain_rows(const Combination& c, const Call& call, const float* shift, int64_t n, int64_t o,
                          int64_t rows, double* to) const {
    const Terms t = {call.address[X] ? sample(call, X, n) : nullptr, call.address[W],
                     shift ? shift + n * outputs() + o : nullptr, true, s_.epsilon};
    c.rows(moved(t, o * run_), to, rows, run_, run_);
  }
  static Terms moved(Terms t, int64_t place) {
    if (t.x) t.x += place;
    if (t.w) t.w += place;
    return t;
  }

  Span combine_row(const Combination& c, Terms t, int64_t o, int64_t segment, double* total) const {
    const int64_t base = kept_.offset(o);
    if (t.shift) t.shift += o;
    const Axes rows = reduced_.outer();
    int64_t first_row = 0, end_row = rows.count, first = 0, end = run_;
    (cut_run_ ? first : first_row) = (cut_run_ ? run_ : rows.count) * segment / segments_;
    (cut_run_ ? end : end_row) = (cut_run_ ? run_ : rows.count) * (segment + 1) / segments_;
    total[0] = c.start;
    const Axis inner = rows.rank ? rows.axis[rows.rank - 1] : Axis{1, 0};
    for (int64_t r = first_row, count; r < end_row; r += count) {
      count = std::min({end_row - r, inner.size - r % inner.size, kRowsTogether});
      c.rows(moved(t, base + rows.offset(r) + first), total + 1, count, inner.step, end - first);
      total[0] = c.close(total, 1 + count);
    }
    return {o, 1};
  }

  Span combine_columns(const Combination& c, Terms t, int64_t block, int64_t segment, double* total) const {
    const int64_t strips = (run_ + columns_ - 1) / columns_;
    const int64_t outer = block / strips, first = block % strips * columns_, count = std::min(columns_, run_ - first);
    const int64_t base = kept_.outer().offset(outer) + first;
    const int64_t output = outer * run_ + first;
    const int64_t inner = reduced_.rank ? reduced_.axis[reduced_.rank - 1].size : 1;
    const int64_t end = reduced_.count * (segment + 1) / segments_;
    std::fill_n(total, count, c.start);
    if (t.shift) t.shift += output;
    for (int64_t r = reduced_.count * segment / segments_, rows; r < end; r += rows) {
      rows = std::min(end - r, inner - r % inner);
      add_rows(c, moved(t, base + reduced_.offset(r)), total, rows, count);
    }
    return {output, count};
  }

  // Rows of `count` columns, run_ apart.
  void add_rows(const Combination& c, const Terms& t, double* total, int64_t rows, int64_t count) const {
    const int64_t joined = count < run_ ? 0 : add_joined(c, t, total, rows);
    add_bands(c, moved(t, joined * run_), total, rows - joined, run_, count);
  }

  // Some rows at a time: no more than stay in a near cache
  void add_bands(const Combination& c, const Terms& t, double* total, int64_t rows, int64_t step, int64_t count) const {
    const int64_t band = std::max<int64_t>(16, kBand / count / 16 * 16);
    for (int64_t r = 0; r < rows; r += band)
      c.columns(moved(t, r * step), total, std::min(band, rows - r), step, count);
  }

  // Rows that would leave many lanes of their last vector idle: kWidth of them are one row of whole vectors, of which
  // there are as many totals. How many rows that was.
  int64_t add_joined(const Combination& c, Terms t, double* total, int64_t rows) const {
    if (run_ >= kJoined || rows < 8 * kWidth) return 0;
    double wide[kWidth * kJoined];
    float shift[kWidth * kJoined];
    const int64_t length = kWidth * run_, joined = rows / kWidth;
    std::fill_n(wide, length, c.start);
    if (t.shift) {
      for (int64_t k = 0; k < kWidth; k++) std::copy_n(t.shift, run_, shift + k * run_);
      t.shift = shift;
    }
    add_bands(c, t, wide, joined, length, length);
    for (int64_t k = 0; k < kWidth; k++) c.merge(total, wide + k * run_, run_);
    return joined * kWidth;
  }

  // The totals that the value follows from; LogSumExp sets *shift to what is taken from the exponents of each output.
  __attribute__((noinline)) double* values(const Call& call, float** shift, int64_t* positions = nullptr,
                                           bool writes = false) const {
    Kind kind = kTotal;
    switch (s_.function) {
      case kMax:
      case kArgMax:
        return combined(kMaximum, call, nullptr, kFactors, positions, writes);
      case kMin:
      case kArgMin:
        return combined(kMinimum, call, nullptr, kFactors, positions, writes);
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
      case kLogSumExp:
        return exponentials(call, shift);
      default:
        break;
    }
    return combined(kind, call, nullptr, kFactors, nullptr, writes);
  }

  // LogSumExp: exponents are taken from the largest of their output, which is found while a row is in the cache.
  __attribute__((noinline)) double* exponentials(const Call& call, float** shift) const {
    const int64_t all = call.batch * outputs();
    float* moved = *shift = scratch(kBias, static_cast<size_t>(all));
    if (!has_plain_rows()) {
      const double* largest = combined(kMaximum, Unweighted(call), nullptr, kFactors);
      for (int64_t i = 0; i < all; i++) moved[i] = shift_of(largest[i]);
      return combined(kExpTotal, call, moved, kFactors);
    }
    auto* totals = reinterpret_cast<double*>(scratch(kFactors, static_cast<size_t>(2 * all)));
    const Call unweighted = Unweighted(call);
    for_plain_rows(call, [&](int64_t n, int64_t o, int64_t rows) {
      const int64_t first = n * outputs() + o;
      combine_plain_rows(combination(kMaximum), unweighted, nullptr, n, o, rows, totals + first);
      for (int64_t r = first; r < first + rows; r++) moved[r] = shift_of(totals[r]);
      combine_plain_rows(combination(kExpTotal), call, moved, n, o, rows, totals + first);
    });
    return totals;
  }
  static float shift_of(double largest) { return std::isinf(largest) ? 0.0f : static_cast<float>(largest); }

  static Call Unweighted(Call call) {
    call.address[W] = nullptr;
    return call;
  }

  // Whether the value of an output is the total of its terms.
  bool is_total() const {
    const int f = s_.function;
    return f != kMean && f != kMeanNonZero && f != kL2Norm && !is_logarithm_of_sum(f);
  }

  void write_values(const double* total, const double* count, const float* shift, bool adds, float* y,
                    int64_t size) const {
    const auto all = static_cast<double>(reduced_.count);
    int64_t i = 0;
    if (!adds && is_total())
      for (; i + kWidth <= size; i += kWidth) store(y + i, narrow(load_wide(total + i)));
    if (!adds && s_.function == kMean)
      for (; i + kWidth <= size; i += kWidth) {
        const WideVec t = load_wide(total + i);
        store(y + i, narrow({t.low / all, t.high / all}));
      }
    for (; i < size; i++) {
      const auto result = static_cast<float>(finish(total[i], count ? count[i] : all, shift ? shift[i] : 0.0f));
      y[i] = adds ? y[i] + result : result;
    }
  }

  // How many weights are not 0.
  double* counted(const Call& call) const { return combined(kCountTotal, call, nullptr, kPlaneSums); }

  double finish(double total, double count, float shift) const {
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
        return std::log(total) + shift;
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
    const int64_t* known = positions_of(call);
    for_outputs(call, [&](int64_t n, int64_t o) {
      const int64_t position = known[n * outputs() + o], at = n * call.stride[Y] + o;
      const int64_t counted = s_.position_modulus > 0 ? position % s_.position_modulus : position;
      if (s_.wide_positions)
        reinterpret_cast<int64_t*>(call.address[Y])[at] = counted;
      else
        call.address[Y][at] = static_cast<float>(counted);
    });
  }

  // [batch][outputs]: the first extreme of each output.
  __attribute__((noinline)) const int64_t* positions_of(const Call& call) const {
    auto* known = reinterpret_cast<int64_t*>(scratch(kLookups, static_cast<size_t>(2 * call.batch * outputs())));
    if (!run_reduced_) {
      search_strips(call, known);
      return known;
    }
    const double* best = values(call, nullptr, segments_ == 1 ? known : nullptr);
    if (segments_ > 1)
      dynamic_items(workers(call), call.batch * outputs(),
                    [&](int64_t i) { known[i] = position(sample(call, X, i / outputs()), i % outputs(), best[i]); });
    return known;
  }

  // Where outputs lie side by side in memory: a strip of them is searched together.
  void search_strips(const Call& call, int64_t* known) const {
    const int64_t across = (run_ + columns_ - 1) / columns_;
    const int64_t strips = kept_.outer().count * across;
    dynamic_items(workers(call), call.batch * strips, [&](int64_t task) {
      const int64_t n = task / strips, strip = task % strips;
      const int64_t first = strip % across * columns_, count = std::min(columns_, run_ - first);
      search_columns(sample(call, X, n) + kept_.outer().offset(strip / across) + first, count,
                     known + n * outputs() + strip / across * run_ + first);
    });
  }

  // The extremes so far and where they are, eight rows at a time. For the smallest, all signs are changed.
  void search_columns(const float* x, int64_t count, int64_t* place) const {
    constexpr int64_t kBandRows = 8;
    const bool largest = s_.function == kMax || s_.function == kArgMax;
    const IntVec sign = splat_int(largest ? 0 : INT32_MIN);
    float best[kColumns];
    int32_t found[kColumns];
    std::fill_n(found, (count + kWidth - 1) / kWidth * kWidth, 0);
    for (int64_t r = 0; r < reduced_.count; r += kBandRows) {
      const float* row[kBandRows];
      const int64_t rows = std::min(kBandRows, reduced_.count - r);
      for (int64_t k = 0; k < rows; k++) row[k] = x + reduced_.offset(r + k);
      for (int64_t i = 0; i < count; i += kWidth) {
        const int64_t lanes = std::min<int64_t>(kWidth, count - i);
        auto value = [&](int64_t k) { return from_bits(bits(load_partial(row[k] + i, lanes)) ^ sign); };
        Vec top = r == 0 ? value(0) : load(best + i);
        IntVec at;
        std::memcpy(&at, found + i, sizeof(at));
        for (int64_t k = 0; k < rows; k++) {
          const Vec v = value(k);
          const IntVec better = (v > top) | ((v != v) & (top == top));  // the first NaN wins, and stays
          top = select(better, v, top);
          at = better ? splat_int(static_cast<int32_t>(r + k)) : at;
        }
        store(best + i, top);
        std::memcpy(found + i, &at, sizeof(at));
      }
    }
    std::copy_n(found, count, place);
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
    const int64_t* known = positions_of(Unweighted(call));
    for_outputs(call, [&](int64_t n, int64_t o) {
      sample(call, DX, n)[kept_.offset(o) + reduced_.offset(known[n * outputs() + o])] += sample(call, DY, n)[o];
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
