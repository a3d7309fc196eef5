// Resize: every output index of an axis mixes one or two input cells, y(i) = (1 - t) x(low) + t x(low + 1).
//
// Slower axes mix whole rows; the last resampled axis is then mixed within the row, where what lies behind it is one
// unit. Backward is the exact adjoint in gather form: dx(j) = sum of weight(i, j) dy(i) over the run of outputs i that
// touch cell j, so that nothing is written twice and threads share no results.
//
// Small planes are resized kWidth at a time, side by side: then what lies behind the last axis is a vector.
#include <algorithm>
#include <cstring>
#include <vector>

#include "common/pieces.h"
#include "common/plane_tiles.h"
#include "common/rows.h"
#include "kernels/kernels.h"
#include "runtime/scratch.h"
#include "simd/lanes.h"
#include "simd/stream.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace {

constexpr int kRowSlot = 0, kSumSlot = 1, kTileSlot = 2, kResultSlot = 3;  // of scratch memory
constexpr int64_t kSmallPlane = 1024;  // cells of planes that are resized side by side

// A row of `count` floats: y (+)= sum of weight[k] * x[k], for k < terms.
struct Term {
  const float* x;
  float weight;
};

template <bool kAdd, int kCount>
OPENBNNS_INLINE void mix_known_terms(const Term* given, size_t count, float* y, int64_t length) {
  Term known[kCount + 1];  // not in memory that y might share
  std::copy_n(given, kCount, known);
  const Term* terms = kCount > 0 ? known : given;
  auto mix = [&](auto read, float* to, int64_t i) {
    Vec sum = kAdd ? read(to) : terms[0].weight * read(terms[0].x + i);
    if constexpr (kCount > 0) {
      OPENBNNS_UNROLL for (size_t k = kAdd ? 0 : 1; k < kCount; k++) sum += terms[k].weight * read(terms[k].x + i);
    } else {
      for (size_t k = kAdd ? 0 : 1; k < count; k++) sum += terms[k].weight * read(terms[k].x + i);
    }
    return sum;
  };
  int64_t i = 0;
  for (; i + kWidth <= length; i += kWidth) store(y + i, mix([](const float* p) { return load(p); }, y + i, i));
  const int64_t rest = length - i;
  if (rest > 0) store_partial(y + i, mix([&](const float* p) { return load_partial(p, rest); }, y + i, i), rest);
}
template <bool kAdd>
void mix_terms(const Term* terms, size_t count, float* y, int64_t length) {
  if (!kAdd && count == 2) return mix_known_terms<kAdd, 2>(terms, count, y, length);
  if (!kAdd && count == 4) return mix_known_terms<kAdd, 4>(terms, count, y, length);
  mix_known_terms<kAdd, 0>(terms, count, y, length);
}

// One axis: which cells make up output i, and which outputs touch cell j.
struct Axis {
  int64_t in, out;
  bool linear;               // two cells with weights 1 - t and t; else a copy of one
  std::vector<int64_t> low;  // of output i; empty where the axis keeps its size
  std::vector<float> t;
  std::vector<int64_t> first;  // of cell j: the outputs first[j] .. first[j + 1] - 1 of `touching`
  std::vector<int64_t> touching;
  std::vector<float> weight;
  int64_t in_step = 1, out_step = 1;

  bool resampled() const { return !low.empty(); }

  // body(cell, output, weight) in the order of the outputs
  template <class Body>
  void for_touches(Body body) const {
    for (int64_t i = 0; i < out; i++) {
      const auto at = static_cast<size_t>(i);
      const int64_t cell = low[at], next = std::min(cell + 1, in - 1);
      body(static_cast<size_t>(cell), i, linear ? 1.0f - t[at] : 1.0f);
      if (linear) body(static_cast<size_t>(next), i, t[at]);
    }
  }

  void index_backward() {
    first.assign(static_cast<size_t>(in) + 1, 0);
    for_touches([&](size_t cell, int64_t, float) { first[cell + 1]++; });
    for (size_t cell = 0; cell < static_cast<size_t>(in); cell++) first[cell + 1] += first[cell];
    touching.resize(static_cast<size_t>(first.back()));
    weight.resize(touching.size());
    // Filling moves the begin of every cell to its end, which is the begin of the next: then all move back by one.
    for_touches([&](size_t cell, int64_t i, float w) {
      const auto place = static_cast<size_t>(first[cell]++);
      touching[place] = i;
      weight[place] = w;
    });
    std::copy_backward(first.begin(), first.end() - 1, first.end());
    first[0] = 0;
  }
};

// Blocks of kWidth outputs of the last axis whose cells lie in one vector: two permutations instead of two gathers.
struct Block {
  int64_t base, lanes;  // the vector's first cell, and how many there are
  IntVec low, high;
  Vec t;
};

// result[i] = v[index[i]]; one instruction from AVX2 on, which is when blocks are used.
#if defined(__AVX2__)
constexpr bool kPermutes = true;
#else
constexpr bool kPermutes = false;
#endif
OPENBNNS_INLINE Vec permuted(Vec v, IntVec index) {
#if defined(__clang__) && defined(__AVX512F__)
  return _mm512_permutexvar_ps(reinterpret_cast<__m512i>(index), v);
#elif defined(__clang__) && defined(__AVX2__)
  return _mm256_permutevar8x32_ps(v, reinterpret_cast<__m256i>(index));
#elif defined(__clang__)
  Vec result;
  for (int i = 0; i < kWidth; i++) result[i] = v[index[i]];
  return result;
#else
  return __builtin_shuffle(v, index);
#endif
}

// Blocks of kWidth cells of the last axis: number k of the outputs that touch each cell, with its weight; -1 where
// there are fewer. Outputs within two vectors are counted from `base`, else that is -1.
struct Touch {
  IntVec output;
  Vec weight;
  int64_t base;
};

// Lane index[i] of a and b side by side, 0 where the index is negative.
OPENBNNS_INLINE Vec picked(Vec a, Vec b, IntVec index) {
#if defined(__AVX512F__)
  const auto at = reinterpret_cast<__m512i>(index);
  return _mm512_maskz_permutex2var_ps(_mm512_cmpge_epi32_mask(at, _mm512_setzero_si512()), a, at, b);
#elif defined(__AVX2__)
  const auto at = reinterpret_cast<__m256i>(index);
  const Vec low = _mm256_permutevar8x32_ps(a, at), high = _mm256_permutevar8x32_ps(b, at);
  return select(index >= 0, select(index >= kWidth, high, low), Vec{});
#else
  Vec result{};
  for (int i = 0; i < kWidth; i++)
    if (index[i] >= 0) result[i] = index[i] < kWidth ? a[index[i]] : b[index[i] - kWidth];
  return result;
#endif
}

class ResizePlan : public Plan {
 public:
  // Axes from number `first` on, with `unit` elements behind the last one.
  ResizePlan(const ResizeShape& s, size_t first, int64_t unit) : unit_(unit) {
    std::vector<Axis> axes;
    for (size_t a = first; a < s.in_size.size(); a++) {
      Axis axis{s.in_size[a], s.out_size[a], !s.t[a].empty(), s.low[a], s.t[a], {}, {}, {}};
      if (!axis.resampled() && axis.in == 1) continue;
      if (!axes.empty() && !axes.back().resampled() && !axis.resampled()) {
        axes.back().in *= axis.in;
        axes.back().out *= axis.out;
      } else {
        axes.push_back(axis);
      }
    }
    if (axes.size() > 1 && !axes.back().resampled()) {
      unit_ = axes.back().in;
      axes.pop_back();
    }
    if (axes.empty()) axes.push_back({1, 1, false, {}, {}, {}, {}, {}});
    int64_t in_step = unit_, out_step = unit_;
    for (size_t a = axes.size(); a-- > 0;) {
      if (axes[a].resampled()) axes[a].index_backward();
      axes[a].in_step = in_step;
      axes[a].out_step = out_step;
      in_step *= axes[a].in;
      out_step *= axes[a].out;
    }
    last_ = axes.back();
    axes.pop_back();
    outer_ = axes;
    make_blocks();
    make_touches();
  }

  void forward(const Call& call) override {
    int64_t rows = 1;
    for (const Axis& a : outer_) rows *= a.out;
    const int64_t lines = outer_.empty() ? 1 : outer_.back().out;
    const int64_t length = last_.out * unit_, in_length = last_.in * unit_;
    const int64_t total = call.batch * rows;
    const int workers = workers_for(call, total * length);
    const int64_t together = rows_together(total, length, workers);
    dynamic_items(workers, (total + together - 1) / together, [&](int64_t item) {
      Stretched stretched = {scratch(kRowSlot, static_cast<size_t>(std::max(in_length, 2 * length))), {}};
      Sources slice;
      float* y = nullptr;  // of the slice
      for (int64_t r = item * together, end = std::min(total, r + together), line = r % lines; r < end; r++) {
        if (line == 0 || r == item * together) {
          const int64_t n = r / rows;
          slice = {{{call.address[X] + n * call.stride[X], 1.0f}}, 1};
          int64_t index = r % rows / lines;
          y = call.address[Y] + n * call.stride[Y] + index * lines * length;
          for (size_t a = outer_.size(); a-- > 1; index /= outer_[a - 1].out)
            slice.along(outer_[a - 1], index % outer_[a - 1].out);
        }
        Sources sources = slice;
        if (!outer_.empty()) sources.along(outer_.back(), line);
        resample(sources.terms, sources.count, stretched, y + line * length);
        if (++line == lines) line = 0;
      }
    });
  }

  void backward(const Call& call) override {
    if (!call.address[DX]) return;
    int64_t rows = 1;
    for (const Axis& a : outer_) rows *= a.in;
    const int64_t lines = outer_.empty() ? 1 : outer_.back().in;
    const int64_t length = last_.in * unit_, out_length = last_.out * unit_;
    const int64_t total = call.batch * rows;
    const int workers = workers_for(call, total * out_length);
    const int64_t together = rows_together(total, std::max(length, out_length), workers);
    // Elements of dy that the next row is the first to read.
    const int64_t fresh = outer_.empty() || !outer_.back().resampled() ? 0 : outer_.back().out / lines * out_length;
    dynamic_items(workers, (total + together - 1) / together, [&](int64_t item) {
      std::vector<Term> slice, terms;
      float* slice_dx = nullptr;
      float* sum = scratch(kSumSlot, static_cast<size_t>(out_length));
      for (int64_t r = item * together, end = std::min(total, r + together), line = r % lines; r < end; r++) {
        if (line == 0 || r == item * together) {
          const int64_t n = r / rows;
          slice.assign(1, {call.address[DY] + n * call.stride[DY], 1.0f});
          int64_t index = r % rows / lines;
          slice_dx = call.address[DX] + n * call.stride[DX] + index * lines * length;
          for (size_t a = outer_.size(); a-- > 1; index /= outer_[a - 1].in)
            touch(outer_[a - 1], index % outer_[a - 1].in, slice);
        }
        terms = slice;
        if (!outer_.empty()) touch(outer_.back(), line, terms);
        float* dx = slice_dx + line * length;
        if (!terms.empty()) fetch_ahead(terms.back().x + out_length + 2 * fresh, fresh);
        if (++line == lines) line = 0;
        if (!last_.resampled() && !terms.empty()) {
          (call.adds(DX) ? mix_terms<true> : mix_terms<false>)(terms.data(), terms.size(), dx, length);
          continue;
        }
        const float* arriving = sum;
        if (terms.size() == 1 && terms[0].weight == 1.0f)
          arriving = terms[0].x;
        else if (!terms.empty())
          mix_terms<false>(terms.data(), terms.size(), sum, out_length);
        gather_row(terms.empty() ? nullptr : arriving, dx, call.adds(DX));
      }
    });
  }

 private:
  // Short rows of dy that are read side by side do not look like a stream of memory to the hardware.
  static void fetch_ahead(const float* from, int64_t count) {
    constexpr int64_t kLine = 16, kMost = 1024;
    if (count <= kMost)
      for (int64_t i = 0; i < count; i += kLine) __builtin_prefetch(from + i);
  }

  // The input rows that make up an output row: one, or the two of the one linear axis among the outer ones.
  struct Sources {
    Term terms[2];
    size_t count;

    // Goes to output index i of an axis.
    void along(const Axis& axis, int64_t i) {
      if (!axis.resampled()) {
        for (size_t k = 0; k < count; k++) terms[k].x += i * axis.in_step;
        return;
      }
      const auto at = static_cast<size_t>(i);
      const int64_t cell = axis.low[at];
      if (axis.linear) {
        terms[1] = {terms[0].x + std::min(cell + 1, axis.in - 1) * axis.in_step, axis.t[at]};
        terms[0].weight = 1.0f - axis.t[at];
        count = 2;
      } else if (count == 2) {
        terms[1].x += cell * axis.in_step;
      }
      terms[0].x += cell * axis.in_step;
    }
  };

  // From rows of dy to those that touch cell j of an axis, with their weights.
  static void touch(const Axis& axis, int64_t j, std::vector<Term>& terms) {
    if (!axis.resampled()) {
      for (Term& term : terms) term.x += j * axis.out_step;
      return;
    }
    const auto begin = static_cast<size_t>(axis.first[static_cast<size_t>(j)]);
    const size_t fan = static_cast<size_t>(axis.first[static_cast<size_t>(j) + 1]) - begin, before = terms.size();
    terms.resize(std::max(before, before * fan));
    for (size_t t = before; t-- > 0;) {  // from the back, so that nothing is overwritten before it is read
      const Term term = terms[t];
      for (size_t k = 0; k < fan; k++)
        terms[t * fan + k] = {term.x + axis.touching[begin + k] * axis.out_step, term.weight * axis.weight[begin + k]};
    }
    terms.resize(before * fan);
  }

  // Room for an input row, or for two that are stretched along the last axis already.
  struct Stretched {
    float* memory;
    const float* source[2];
  };

  // One output row from its input rows.
  void resample(const Term* terms, size_t count, Stretched& rows, float* y) const {
    const int64_t in_length = last_.in * unit_, length = last_.out * unit_;
    if (!last_.resampled() && count == 2) return mix_terms<false>(terms, count, y, in_length);
    if (count == 1) return stretch(terms[0].x, y);
    if (outer_.back().out < outer_.back().in) {
      mix_terms<false>(terms, count, rows.memory, in_length);
      return stretch(rows.memory, y);
    }
    // Several output rows are made of the same two: it pays to stretch those first.
    Term stretched[2];
    for (size_t k = 0; k < 2; k++) {
      const float* x = terms[k].x;
      size_t place = rows.source[1] == x ? 1 : 0;
      if (rows.source[place] != x) {
        place = rows.source[0] == terms[1 - k].x ? 1 : 0;
        rows.source[place] = x;
        stretch(x, rows.memory + static_cast<int64_t>(place) * length);
      }
      stretched[k] = {rows.memory + static_cast<int64_t>(place) * length, terms[k].weight};
    }
    mix_terms<false>(stretched, 2, y, length);
  }

  // A row resampled along the last axis.
  void stretch(const float* x, float* y) const {
    if (!last_.resampled())
      copy_row(y, x, last_.in * unit_ * 4);
    else if (unit_ > 1)
      mix_units(x, y);
    else
      mix_cells(x, y);
  }

  void mix_units(const float* x, float* y) const {
    for (int64_t i = 0; i < last_.out; i++) {
      const auto at = static_cast<size_t>(i);
      const int64_t cell = last_.low[at];
      const float* near = x + cell * unit_;
      if (!last_.linear) {
        std::memcpy(y + i * unit_, near, static_cast<size_t>(unit_) * sizeof(float));
        continue;
      }
      const Term terms[2] = {{near, 1.0f - last_.t[at]}, {x + std::min(cell + 1, last_.in - 1) * unit_, last_.t[at]}};
      mix_terms<false>(terms, 2, y + i * unit_, unit_);
    }
  }

  void mix_cells(const float* x, float* y) const {
    int64_t i = 0;
    for (const Block& block : blocks_) {
      const Vec v = block.lanes < kWidth ? load_partial(x + block.base, block.lanes) : load(x + block.base);
      Vec result = permuted(v, block.low);
      if (last_.linear) result = (1.0f - block.t) * result + block.t * permuted(v, block.high);
      if (last_.out - i < kWidth) return store_partial(y + i, result, last_.out - i);
      store(y + i, result);
      i += kWidth;
    }
    for (; i < last_.out; i++) {
      const auto at = static_cast<size_t>(i);
      const int64_t cell = last_.low[at];
      y[i] =
          last_.linear ? (1.0f - last_.t[at]) * x[cell] + last_.t[at] * x[std::min(cell + 1, last_.in - 1)] : x[cell];
    }
  }

  // dx(j) (+)= sum of weight * dy(i) over the outputs that touch cell j, along the last axis; dy null means zeros.
  void gather_row(const float* dy, float* dx, bool adds) const {
    if (unit_ == 1) return gather_cells(dy, dx, adds);
    for (int64_t j = 0; j < last_.in; j++) {
      const auto begin = static_cast<size_t>(last_.first[static_cast<size_t>(j)]);
      const auto end = static_cast<size_t>(last_.first[static_cast<size_t>(j) + 1]);
      float* to = dx + j * unit_;
      if (!adds) std::memset(to, 0, static_cast<size_t>(unit_) * sizeof(float));
      for (size_t k = begin; dy && k < end; k++) {
        const Term term{dy + last_.touching[k] * unit_, last_.weight[k]};
        mix_terms<true>(&term, 1, to, unit_);
      }
    }
  }

  void gather_cells(const float* dy, float* dx, bool adds) const {
    const Touch* touch = touches_.data();
    for (int64_t j = 0; j < last_.in; j += kWidth) {
      const int64_t lanes = std::min<int64_t>(kWidth, last_.in - j);
      Vec sum{};
      for (int64_t k = 0; k < most_touches_; k++, touch++)
        if (dy) sum += touch->weight * touching_values(dy, *touch);
      if (adds) sum += load_partial(dx + j, lanes);
      store_partial(dx + j, sum, lanes);
    }
  }

  OPENBNNS_INLINE Vec touching_values(const float* dy, const Touch& touch) const {
    if (touch.base < 0) return gathered_or_zero(dy, touch.output);
    const float* from = dy + touch.base;
    const int64_t there = last_.out - touch.base;
    if (there >= 2 * kWidth) return picked(load(from), load(from + kWidth), touch.output);
    const int64_t near = std::min<int64_t>(kWidth, there);
    return picked(load_partial(from, near), load_partial(from + near, there - near), touch.output);
  }

  void make_touches() {
    if (unit_ > 1 || !last_.resampled()) return;
    for (size_t j = 0; j < static_cast<size_t>(last_.in); j++)
      most_touches_ = std::max(most_touches_, last_.first[j + 1] - last_.first[j]);
    for (int64_t j = 0; j < last_.in; j += kWidth)
      for (int64_t k = 0; k < most_touches_; k++) {
        Touch touch{splat_int(-1), Vec{}, -1};
        int64_t low = last_.out, high = -1;
        for (int64_t lane = 0; lane < std::min<int64_t>(kWidth, last_.in - j); lane++) {
          const auto cell = static_cast<size_t>(j + lane);
          if (last_.first[cell] + k >= last_.first[cell + 1]) continue;
          const auto at = static_cast<size_t>(last_.first[cell] + k);
          touch.output[lane] = static_cast<int32_t>(last_.touching[at]);
          touch.weight[lane] = last_.weight[at];
          low = std::min(low, last_.touching[at]);
          high = std::max(high, last_.touching[at]);
        }
        if (kPermutes && high - low < 2 * kWidth) {
          touch.base = high < 0 ? 0 : low;
          touch.output = touch.output >= 0 ? touch.output - static_cast<int32_t>(touch.base) : touch.output;
        }
        touches_.push_back(touch);
      }
  }

  void make_blocks() {
    if (!kPermutes || unit_ > 1 || !last_.resampled()) return;
    for (int64_t i = 0; i < last_.out; i += kWidth) {
      const int64_t base = last_.low[static_cast<size_t>(i)];
      Block block{base, std::min<int64_t>(kWidth, last_.in - base), {}, {}, {}};
      for (int lane = 0; lane < std::min<int64_t>(kWidth, last_.out - i); lane++) {
        const auto at = static_cast<size_t>(i + lane);
        const int64_t cell = last_.low[at], next = std::min(cell + 1, last_.in - 1);
        if (next - block.base >= kWidth) return blocks_.clear();
        block.low[lane] = static_cast<int32_t>(cell - block.base);
        block.high[lane] = static_cast<int32_t>(next - block.base);
        block.t[lane] = last_.linear ? last_.t[at] : 0.0f;
      }
      blocks_.push_back(block);
    }
  }

  std::vector<Axis> outer_;
  Axis last_;
  int64_t unit_;
  std::vector<Block> blocks_;
  std::vector<Touch> touches_;  // most_touches_ for each block of cells
  int64_t most_touches_ = 0;
};

// Planes, which the leading axes that keep their size count, kWidth at a time: as a tensor whose fastest axis they are.
class PlanesSideBySide : public Plan {
 public:
  static bool fits(const ResizeShape& s, size_t leading, int64_t planes) {
    if (leading == s.in_size.size() || s.low.back().empty() || planes < kWidth / 2) return false;
    int64_t cells = 1;
    for (size_t a = leading; a < s.in_size.size(); a++) cells *= std::max(s.in_size[a], s.out_size[a]);
    return cells <= kSmallPlane && std::min(s.in_size.back(), s.out_size.back()) <= kWidth;
  }

  PlanesSideBySide(const ResizeShape& s, size_t leading, int64_t planes)
      : planes_(planes), lanes_(std::make_unique<ResizePlan>(s, leading, kWidth)) {
    for (size_t a = leading; a < s.in_size.size(); a++) {
      in_cells_ *= s.in_size[a];
      out_cells_ *= s.out_size[a];
    }
  }

  void forward(const Call& call) override { run(call, X, Y, in_cells_, out_cells_); }
  void backward(const Call& call) override {
    if (call.address[DX]) run(call, DY, DX, out_cells_, in_cells_);
  }

 private:
  // From planes in one slot to planes in another, forward (X, Y) or backward (DY, DX).
  __attribute__((noinline)) void run(const Call& call, int from, int to, int64_t from_cells, int64_t to_cells) const {
    const int64_t groups = (planes_ + kWidth - 1) / kWidth, total = call.batch * groups;
    const int64_t most = std::max(from_cells, to_cells);
    const int workers = workers_for(call, call.batch * planes_ * most);
    const int64_t together = rows_together(total, kWidth * most, workers);
    dynamic_items(workers, (total + together - 1) / together, [&](int64_t item) {
      Call one;
      one.address[from] = scratch(kTileSlot, static_cast<size_t>(tile_room(from_cells)));
      one.address[to] = scratch(kResultSlot, static_cast<size_t>(tile_room(to_cells)));
      for (int64_t g = item * together, end = std::min(total, g + together); g < end; g++) {
        const int64_t n = g / groups, first = g % groups * kWidth, count = std::min<int64_t>(kWidth, planes_ - first);
        tile_planes(call.address[from] + n * call.stride[from] + first * from_cells, count, from_cells,
                    one.address[from]);
        if (from == X)
          lanes_->forward(one);
        else
          lanes_->backward(one);
        untile_planes(one.address[to], count, to_cells, call.address[to] + n * call.stride[to] + first * to_cells,
                      call.adds(to));
      }
    });
  }

  int64_t planes_, in_cells_ = 1, out_cells_ = 1;
  std::unique_ptr<Plan> lanes_;
};

}  // namespace

std::unique_ptr<Plan> make_resize(const ResizeShape& shape) {
  size_t leading = 0;
  int64_t planes = 1;
  for (; leading < shape.in_size.size() && shape.low[leading].empty(); leading++) planes *= shape.in_size[leading];
  if (PlanesSideBySide::fits(shape, leading, planes)) return std::make_unique<PlanesSideBySide>(shape, leading, planes);
  return std::make_unique<ResizePlan>(shape, 0, 1);
}

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
