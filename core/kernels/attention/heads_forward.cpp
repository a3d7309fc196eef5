#include <algorithm>
#include <cmath>

#include "gemm/gemm.h"
#include "kernels/attention/tiles.h"
#include "runtime/dynamic_items.h"
#include "runtime/partition.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace {

// Lane i of the result combines the lanes of r[i], for kWidth rows at once.
template <class Combine>
OPENBNNS_INLINE Vec across_lanes(Vec* r, Combine combine) {
  transpose(r);
  OPENBNNS_UNROLL for (int half = kWidth / 2; half > 0; half /= 2) OPENBNNS_UNROLL for (int i = 0; i < half; i++) r[i] =
      combine(r[i], r[i + half]);
  return r[0];
}

}  // namespace

void Heads::forward(const HeadsCall& call, int threads) const {
  double products = 2.0 * static_cast<double>(call.samples * s_.heads) * static_cast<double>(s_.target * rows_);
  threads = useful_threads(threads, products * static_cast<double>(s_.key + s_.value + 10));
  // Masks make rows uneven: several shares for each thread, where there are strips enough. Each packs keys and values.
  const int64_t pairs = call.samples * s_.heads, count = tiles_of_rows();
  const int64_t several = threads > 1 ? std::clamp<int64_t>((4 * threads + pairs - 1) / pairs, 1, strips_) : 1;
  const double packing = kPackFlops / (kPackFlops + 2.0 * static_cast<double>(s_.target));
  const int64_t shares = even_cuts(pairs, {count, packing, several}, {1}, threads).first;
  dynamic_items(threads, pairs * shares, [&](int64_t item) {
    Pair pair = pair_of(call, item / shares);
    Tiles t = tiles(false);
    const int64_t share = item % shares, end = std::min(s_.target, count * (share + 1) / shares * tile_);
    pack_pair(call, pair, t, false, end, {0, rows_});
    for (int64_t row = count * share / shares * tile_; row < end; row += strip_) {
      check_interruption();
      const int64_t rows = std::min(strip_, end - row);
      forward_strip(call, pair, t, row, rows, ahead_of(call, pair, row, rows, end));
    }
  });
}

void Heads::forward_strip(const HeadsCall& call, const Pair& pair, const Tiles& t, int64_t row, int64_t rows,
                          const Ahead& ahead) const {
  const int64_t strip_block = strip_ * kBlock;
  pack_along(t, pair.q + row * call.q_places.row, call.q_places.row, rows, s_.key, t.q, strip_block);
  std::fill_n(t.largest, round_up(rows, kWidth), -math::kInfinity);
  std::fill_n(t.total, round_up(rows, kWidth), 0.f);
  const int64_t reach = find_limits(call, pair, t, row, rows);
  for (int64_t column = 0; column < reach; column += block_) {
    const Extents e(sums_, t, tile_, rows, column, block_);
    multiply_to_extent(
        {sums_, TileForm::Matrix, t.q, strip_entries_.data(), kBlock, t.keys_across + column * key_depth_,
         packed_entries_.data(), key_depth_ * kBlock, key_depth_, t.scores, strip_block, Write::Set},
        e);
    softmax_rows(call, pair, t, e, row, rows, column, ahead);
    multiply_over_extent({sums_, TileForm::Matrix, over_source(t, e, t.scores), strip_entries_.data(), kBlock,
                          t.values_along + column / sums_.numbers() * kBlock, packed_entries_.data(), padded_ * kBlock,
                          0, t.sums, strip_block, column ? Write::Add : Write::Set},
                         e, value_blocks_);
  }
  for (int64_t i = 0; i < rows; i += kWidth) {
    const Vec largest = load(t.largest + i), total = load(t.total + i);
    // A row of nothing but -infinity: 0 / 0, or what reads nothing and passes nothing back.
    IntVec zero = s_.masked_rows_are_zero ? IntVec(largest == splat(-math::kInfinity)) : IntVec{};
    store(t.factor + i, select(zero, Vec{}, 1.0f / total));
    store_partial(pair.lse + row + i, select(zero, splat(math::kInfinity), largest + math::log(total)),
                  std::min<int64_t>(kWidth, rows - i));
  }
  unblock(t.sums, strip_block, rows, s_.value, t.factor, pair.o + row * call.o_places.row, call.o_places.row);
}

// Scores to exponentials relative to the largest score so far; what earlier blocks left is brought to the same measure.
// Rows are taken kWidth at a time, so that their maxima and sums are found together.
void Heads::softmax_rows(const HeadsCall& call, const Pair& pair, const Tiles& t, const Extents& e, int64_t row,
                         int64_t rows, int64_t column, const Ahead& ahead) const {
  const int64_t strip_block = strip_ * kBlock;
  for (int64_t first = 0; first < rows; first += kWidth) {
    const int count = static_cast<int>(std::min<int64_t>(kWidth, rows - first));
    Vec each[kWidth];
    int64_t columns[kWidth], visible[kWidth];
    for (int i = 0; i < count; i++) {
      float* scores = t.scores + (first + i) * kBlock;
      columns[i] = e.columns_of_row(first + i);
      visible[i] = columns[i];
      if (pair.limited) {
        visible[i] = std::clamp<int64_t>(t.limit[first + i] - column, 0, columns[i]);
        each[i] = largest_of(scores, visible[i]);
      } else {
        each[i] = finish_row(call, pair, t, row + first + i, scores, column, columns[i]);
      }
    }
    for (int i = count; i < kWidth; i++) each[i] = splat(-math::kInfinity);
    const Vec before = load(t.largest + first);
    const Vec largest = math::max(before, across_lanes(each, [](Vec a, Vec b) { return math::max(a, b); }));
    const Vec shift = select(largest == splat(-math::kInfinity), Vec{}, largest);
    const Vec rescale = weight(before - shift);
    store(t.largest + first, largest);
    store(t.factor + first, shift);
    const float scale = pair.limited ? s_.scale : 1.0f;
    for (int i = 0; i < count; i++) {
      if (column == 0) ahead.ask(first + i);
      float* scores = t.scores + (first + i) * kBlock;
      each[i] = exponentials(scores, columns[i], visible[i], scale, t.factor[first + i]);
      if (call.drops)
        drop(draw(call, pair, t, row + first, i, count, column, round_up(visible[i], kBlock)), scores, visible[i]);
    }
    for (int i = count; i < kWidth; i++) each[i] = Vec{};
    store(t.total + first, load(t.total + first) * rescale + across_lanes(each, [](Vec a, Vec b) { return a + b; }));
    store(t.factor + first, rescale);
    if (column == 0) continue;
    for (int64_t b = 0; b < value_blocks_; b++)
      for (int i = 0; i < count; i++) OPENBNNS_UNROLL for (int part = 0; part < kBlock; part += kWidth) {
          float* p = t.sums + b * strip_block + (first + i) * kBlock + part;
          store(p, load(p) * splat(t.factor[first + i]));
        }
  }
}

// The largest of the first `visible` raw scores, times the scale; those behind them become -infinity, up to the end of
// their vector.
Vec Heads::largest_of(float* scores, int64_t visible) const {
  const int64_t strip_block = strip_ * kBlock;
  Vec most = splat(-math::kInfinity), other = most;
  int64_t j = 0;
  for (; j + 2 * kBlock <= visible; j += 2 * kBlock, scores += 2 * strip_block)
    OPENBNNS_UNROLL for (int part = 0; part < kBlock; part += kWidth) {
      most = math::max(load(scores + part), most);
      other = math::max(load(scores + strip_block + part), other);
    }
  const IntVec end = splat_int(static_cast<int32_t>(visible));
  over_row(
      visible - j, round_up(visible - j, kBlock), strip_block,
      [&](int64_t, int64_t place) { most = math::max(load(scores + place), most); },
      [&](int64_t column, int64_t place) {
        const Vec x = select(lanes_from(j + column) < end, load(scores + place), splat(-math::kInfinity));
        store(scores + place, x);
        most = math::max(x, most);
      },
      [](int64_t, int64_t) {});
  return math::max(most, other) * splat(s_.scale);
}

// Raw scores to scores in place; gives the largest of each lane.
template <class Added>
Vec Heads::finish_scores(const HeadsCall& call, const Tiles& t, const Added& added, int64_t row, float* scores,
                         int64_t column, int64_t columns) const {
  const Vec scale = splat(s_.scale);
  const int32_t* hidden = t.hidden;
  const bool causal = call.causal;
  const int64_t source = s_.source;
  Vec most = splat(-math::kInfinity);
  auto finish = [&](int64_t j, int64_t place) {
    Vec x = masked_score(scores + place, scale, added, hidden, causal, row, source, column + j);
    store(scores + place, x);
    most = math::max(x, most);
  };
  over_row(columns, columns, strip_ * kBlock, finish, finish, finish);
  return most;
}

Vec Heads::finish_row(const HeadsCall& call, const Pair& pair, const Tiles& t, int64_t row, float* scores,
                      int64_t column, int64_t columns) const {
  if (!pair.added) return finish_scores(call, t, NothingAdded{}, row, scores, column, columns);
  const uint8_t* added = pair.added + row * pair.row_bytes;
  if (call.added_is_boolean) return finish_scores(call, t, BytesAdded{added, s_.source}, row, scores, column, columns);
  return finish_scores(call, t, FloatsAdded{reinterpret_cast<const float*>(added), s_.source}, row, scores, column,
                       columns);
}

// exp(scale * score - shift) of the scores up to `visible`, 0 of the others, in place; gives the sum of each lane.
Vec Heads::exponentials(float* scores, int64_t columns, int64_t visible, float scale, float shift) const {
  const Vec shifted = splat(shift), factor = splat(scale);
  Vec sum{};
  auto exponential = [&](int64_t, int64_t place) {
    float* p = scores + place;
    const Vec e = weight(load(p) * factor - shifted);
    sum += e;
    store(p, e);
  };
  over_row(visible, columns, strip_ * kBlock, exponential, exponential,
           [&](int64_t, int64_t place) { store(scores + place, Vec{}); });
  return sum;
}

// Dropout of exponentials whose sums are known: what it takes away still counts in them.
void Heads::drop(const uint32_t* words, float* scores, int64_t columns) const {
  const Vec kept = splat(1.0f / (1.0f - s_.dropout));
  const int32_t threshold = threshold_;
  auto drop = [&](int64_t j, int64_t place) {
    store(scores + place, select(are_kept(words + j, threshold), load(scores + place) * kept, Vec{}));
  };
  over_row(columns, round_up(columns, kBlock), strip_ * kBlock, drop, drop, [](int64_t, int64_t) {});
}

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
