#include <algorithm>
#include <cmath>

#include "gemm/gemm.h"
#include "kernels/attention/tiles.h"
#include "runtime/dynamic_items.h"
#include "runtime/partition.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace {

float dot(const float* a, const float* b, int64_t count) {
  Vec sum{};
  int64_t i = 0;
  for (; i + kWidth <= count; i += kWidth) sum += load(a + i) * load(b + i);
  if (i < count) sum += load_partial(a + i, count - i) * load_partial(b + i, count - i);
  return sum_lanes(sum);
}

// The first strip of a group: groups of a triangle have about the same area.
int64_t first_strip(int64_t group, int64_t groups, int64_t strips, bool causal) {
  if (!causal || group == groups) return strips * group / groups;
  return static_cast<int64_t>(static_cast<double>(strips) *
                              std::sqrt(static_cast<double>(group) / static_cast<double>(groups)));
}

}  // namespace

void Heads::backward(const HeadsCall& call, int threads) const {
  double products = 2.0 * static_cast<double>(call.samples * s_.heads) * static_cast<double>(s_.target * rows_);
  threads = useful_threads(threads, products * static_cast<double>(2 * s_.key + 2 * s_.value + 20));
  const int64_t groups = call.samples * s_.heads * call.groups;
  const BackwardParts parts = backward_parts(call, groups, threads);
  dynamic_items(threads, groups * parts.count(), [&](int64_t item) {
    const int64_t group = item / parts.count();
    backward_part(call, group / call.groups, group % call.groups, parts, item % parts.count());
  });
  if (call.groups > 1) join_groups(call, threads);
}

// Five products are those of scores, of their gradients, and of dq, dk and dv. Where there are too few heads for all
// threads, dq is computed apart from dk and dv, which takes the first two of them twice; then the rows of each can be
// shared out, and no sum depends on that.
Heads::BackwardParts Heads::backward_parts(const HeadsCall& call, int64_t groups, int threads) const {
  constexpr double kPositions = 3 / 5.0, kSources = 4 / 5.0, kGain = 0.97;
  BackwardParts best{1, 0};
  if (!call.dq || (!call.dk && !call.dv)) return best;
  const auto rounds = [&](int64_t parts) { return static_cast<double>((groups * parts + threads - 1) / threads); };
  const auto largest = [](int64_t units, int64_t parts) {
    return static_cast<double>((units + parts - 1) / parts) / static_cast<double>(units);
  };
  const int64_t tiles = tiles_of_rows() / call.groups, blocks = padded_ / kBlock;
  double least = rounds(1);
  for (int64_t parts = 2; !spreads_evenly(groups * best.count(), threads) && parts <= tiles + blocks; parts++) {
    const int64_t positions =
        std::clamp<int64_t>(std::lround(static_cast<double>(parts) * kPositions / (kPositions + kSources)), 1, tiles);
    const int64_t sources = std::clamp<int64_t>(parts - positions, 1, blocks);
    const double time = rounds(positions + sources) *
                        std::max(kPositions * largest(tiles, positions), kSources * largest(blocks, sources));
    if (time < kGain * least) {
      best = {positions, sources};
      least = time;
    }
  }
  return best;
}

void Heads::backward_part(const HeadsCall& whole_call, int64_t number, int64_t group, const BackwardParts& parts,
                          int64_t index) const {
  HeadsCall call = whole_call;
  const bool apart = parts.sources > 0, positions = index < parts.positions;
  int64_t row = std::min(s_.target, first_strip(group, call.groups, strips_, call.causal) * strip_);
  int64_t end = std::min(s_.target, first_strip(group + 1, call.groups, strips_, call.causal) * strip_);
  Sources sources{0, rows_};
  if (apart && positions) {
    call.dk = call.dv = nullptr;
    const int64_t first = row, tiles = (end - row + tile_ - 1) / tile_;
    row = first + tiles * index / parts.positions * tile_;
    end = std::min(end, first + tiles * (index + 1) / parts.positions * tile_);
  } else if (apart) {
    call.dq = nullptr;
    const int64_t i = index - parts.positions, blocks = padded_ / kBlock;
    sources = {blocks * i / parts.sources * kBlock, std::min(rows_, blocks * (i + 1) / parts.sources * kBlock)};
  }
  Pair pair = pair_of(call, number);
  for (int64_t i = 0; i < s_.target; i++) pair.whole |= !(pair.lse[i] > -math::kInfinity);
  const Tiles t = tiles(true);
  pack_pair(call, pair, t, true, end, sources);
  for (; row < end; row += strip_) {
    check_interruption();
    const int64_t rows = std::min(strip_, end - row);
    backward_strip(call, pair, t, row, rows, sources, ahead_of(call, pair, row, rows, end));
  }
  finish_accumulators(call, pair, t, group, sources);
}

// Of o = pd v, pd = p keep / (1 - dropout), p = softmax(s), s = scale q k^T + ...:
//   dv += pd^T do,  dp = (do v^T) keep / (1 - dropout),  ds = p (dp - rowsum(do o)) scale,  dq = ds k,  dk += ds^T q
// where rowsum(dp p) = rowsum(do o).
void Heads::backward_strip(const HeadsCall& call, const Pair& pair, const Tiles& t, int64_t row, int64_t rows,
                           const Sources& sources, const Ahead& ahead) const {
  const int64_t last = std::min(find_limits(call, pair, t, row, rows), round_up(sources.last, kBlock));
  if (last <= sources.first) return;
  const int64_t strip_block = strip_ * kBlock, q_row = call.q_places.row, o_row = call.o_places.row;
  const int64_t depth = round_up(rows, sums_.numbers() * kDepth);
  const bool scores = call.dq || call.dk;
  const float *q = pair.q + row * q_row, *dout = pair.dout + row * o_row;
  pack_along(t, q, q_row, rows, s_.key, t.q, strip_block);
  if (scores || !sums_.pairs()) pack_along(t, dout, o_row, rows, s_.value, t.dout, strip_block);
  if (sums_.pairs()) {
    if (call.dk) pack_over(t, q, q_row, rows, s_.key, t.q_over, strip_block);
    if (call.dv) pack_over(t, dout, o_row, rows, s_.value, t.dout_over, strip_block);
  }
  const int64_t steps = (rows + sums_.numbers() - 1) / sums_.numbers();
  clear_rows(t.q_over, strip_block, key_blocks_, steps, depth / sums_.numbers());
  clear_rows(t.dout_over, strip_block, value_blocks_, steps, depth / sums_.numbers());
  clear_rows(t.scores, strip_block, block_ / kBlock, rows, depth);
  if (scores) clear_rows(t.ds, strip_block, block_ / kBlock, rows, depth);
  if (scores)
    for (int64_t i = 0; i < rows; i++)
      t.factor[i] = dot(pair.dout + (row + i) * o_row, pair.o + (row + i) * o_row, s_.value);
  for (int64_t column = sources.first; column < last; column += block_) {
    const Extents e(sums_, t, tile_, rows, column, std::min(block_, round_up(last - column, kBlock)));
    multiply_to_extent(
        {sums_, TileForm::Matrix, t.q, strip_entries_.data(), kBlock, t.keys_across + column * key_depth_,
         packed_entries_.data(), key_depth_ * kBlock, key_depth_, t.scores, strip_block, Write::Set},
        e);
    if (scores)
      multiply_to_extent(
          {sums_, TileForm::Matrix, t.dout, strip_entries_.data(), kBlock, t.values_across + column * value_depth_,
           packed_entries_.data(), value_depth_ * kBlock, value_depth_, t.ds, strip_block, Write::Set},
          e);
    gradient_rows(call, pair, t, e, row, rows, column, scores, ahead);
    if (call.dq)
      multiply_over_extent({sums_, TileForm::Matrix, over_source(t, e, t.ds), strip_entries_.data(), kBlock,
                            t.keys_along + column / sums_.numbers() * kBlock, packed_entries_.data(), padded_ * kBlock,
                            0, t.sums, strip_block, column ? Write::Add : Write::Set},
                           e, key_blocks_);
    sum_over_rows(call, t, e, column, scores);
  }
  if (call.dq) unblock(t.sums, strip_block, rows, s_.key, nullptr, call.dq + (pair.q - call.q) + row * q_row, q_row);
}

// dv += pd^T do,  dk += ds^T q, over the rows of a strip that reach a block of 16 source rows.
void Heads::sum_over_rows(const HeadsCall& call, const Tiles& t, const Extents& e, int64_t column, bool scores) const {
  constexpr int kAcross = kBlock % kWeightRows == 0 ? kWeightRows : (kBlock + 2) / 3;
  const int64_t strip_block = strip_ * kBlock;
  for (int64_t b = 0; b < e.most / kBlock; b++) {
    float *p = t.scores + b * strip_block, *ds = t.ds + b * strip_block;
    auto reaches = [&](int n) { return e.columns(n) > b * kBlock; };
    auto end_of = [&](int n) { return std::min(e.rows, int64_t{n + 1} * e.tile); };
    int first = 0, last = e.count - 1;
    while (!reaches(first)) first++;
    while (!reaches(last)) last--;
    // Whole steps of the product; rows in between that do not reach count as zeros.
    const int numbers = sums_.numbers(), whole = numbers * kDepth;
    const int64_t begin = int64_t{first} * e.tile / whole * whole, end = round_up(end_of(last), whole);
    auto clear = [&](int64_t from, int64_t to) {
      clear_rows(p, strip_block, 1, from, to);
      if (scores) clear_rows(ds, strip_block, 1, from, to);
    };
    clear(begin, int64_t{first} * e.tile);
    for (int n = first; n < last; n++)
      if (!reaches(n)) clear(int64_t{n} * e.tile, end_of(n));
    clear(end_of(last), end);
    auto sum = [&](float* left, const float* right, float* sums, int64_t right_blocks) {
      float* rows = left + begin * kBlock;
      if (sums_.pairs()) pair_rows(rows, kBlock, end - begin, kBlock, rows);
      multiply({sums_, TileForm::Pixels4, rows, position_entries_.data(), 1, right + begin / numbers * kBlock,
                position_entries_.data(), strip_block, (end - begin) / numbers, sums + (column + b * kBlock) * kBlock,
                padded_ * kBlock, Write::Add},
               kBlock, kAcross, right_blocks);
    };
    if (call.dv) sum(p, t.dout_over, t.dv, value_blocks_);
    if (call.dk) sum(ds, t.q_over, t.dk, key_blocks_);
  }
}

// Scores to pd, and do v^T to ds.
void Heads::gradient_rows(const HeadsCall& call, const Pair& pair, const Tiles& t, const Extents& e, int64_t row,
                          int64_t rows, int64_t column, bool scores, const Ahead& ahead) const {
  for (int64_t i = 0; i < rows; i++) {
    if (column == 0) ahead.ask(i);
    const int64_t columns = e.columns_of_row(i);
    const float lse = pair.lse[row + i];
    const uint32_t* words = call.drops ? draw(call, pair, t, row, i, rows, column, columns) : nullptr;
    if (pair.limited) {
      const int64_t visible = std::clamp<int64_t>(t.limit[i] - column, 0, columns);
      if (call.drops && scores)
        limited_gradients<true, true>(t, words, i, columns, visible, lse);
      else if (call.drops)
        limited_gradients<true, false>(t, words, i, columns, visible, lse);
      else if (scores)
        limited_gradients<false, true>(t, words, i, columns, visible, lse);
      else
        limited_gradients<false, false>(t, words, i, columns, visible, lse);
      continue;
    }
    const uint8_t* added = pair.added ? pair.added + (row + i) * pair.row_bytes : nullptr;
    if (!added)
      masked_gradients(call, t, words, NothingAdded{}, row + i, i, column, columns, lse, scores);
    else if (call.added_is_boolean)
      masked_gradients(call, t, words, BytesAdded{added, s_.source}, row + i, i, column, columns, lse, scores);
    else
      masked_gradients(call, t, words, FloatsAdded{reinterpret_cast<const float*>(added), s_.source}, row + i, i,
                       column, columns, lse, scores);
  }
}

// Row i of a strip, whose first `visible` scores count.
template <bool kDrops, bool kScores>
void Heads::limited_gradients(const Tiles& t, const uint32_t* words, int64_t i, int64_t columns, int64_t visible,
                              float lse) const {
  const Vec kept = splat(1.0f / (1.0f - s_.dropout)), scale = splat(s_.scale);
  const Vec subtracted = splat(lse), mean = splat(kScores ? t.factor[i] : 0.0f);
  const Vec hidden = splat(lse > -math::kInfinity ? 0.0f : math::kNaN);
  const IntVec end = splat_int(static_cast<int32_t>(visible));
  float *const scores = t.scores + i * kBlock, *const ds = t.ds + i * kBlock;
  const int32_t threshold = threshold_;
  auto put = [&](int64_t j, int64_t place, Vec p) {
    const Vec factor = kDrops ? select(are_kept(words + j, threshold), kept, Vec{}) : Vec{};
    store(scores + place, kDrops ? p * factor : p);
    if (kScores) {
      const Vec dp = load(ds + place);
      store(ds + place, p * ((kDrops ? dp * factor : dp) - mean) * scale);
    }
  };
  auto probability = [&](int64_t place) { return weight(load(scores + place) * scale - subtracted); };
  over_row(
      visible, columns, strip_ * kBlock, [&](int64_t j, int64_t place) { put(j, place, probability(place)); },
      [&](int64_t j, int64_t place) { put(j, place, select(lanes_from(j) < end, probability(place), hidden)); },
      [&](int64_t j, int64_t place) { put(j, place, hidden); });
}

template <class Added>
void Heads::masked_gradients(const HeadsCall& call, const Tiles& t, const uint32_t* words, const Added& added,
                             int64_t row, int64_t i, int64_t column, int64_t columns, float lse, bool scores) const {
  const Vec kept = splat(1.0f / (1.0f - s_.dropout)), scale = splat(s_.scale);
  const Vec subtracted = splat(lse), mean = splat(scores ? t.factor[i] : 0.0f);
  float *const to = t.scores + i * kBlock, *const ds = t.ds + i * kBlock;
  const int32_t *hidden = t.hidden, threshold = threshold_;
  const bool causal = call.causal, drops = call.drops;
  const int64_t source = s_.source;
  auto put = [&](int64_t j, int64_t place) {
    Vec x = masked_score(to + place, scale, added, hidden, causal, row, source, column + j);
    Vec p = weight(x - subtracted);
    Vec factor = drops ? select(are_kept(words + j, threshold), kept, Vec{}) : splat(1.0f);
    store(to + place, p * factor);
    if (scores) store(ds + place, p * (load(ds + place) * factor - mean) * scale);
  };
  over_row(columns, columns, strip_ * kBlock, put, put, put);
}

void Heads::finish_accumulators(const HeadsCall& call, const Pair& pair, const Tiles& t, int64_t group,
                                const Sources& sources) const {
  const int64_t each = rows_ * (s_.key + s_.value), first = sources.first;
  auto put = [&](const float* sums, int64_t columns, float* whole, int64_t row, int64_t offset) {
    if (group) {
      whole = call.partial + ((group - 1) * call.samples * s_.heads + pair.number) * each + offset;
      row = columns;
    }
    unblock(sums + first * kBlock, padded_ * kBlock, sources.last - first, columns, nullptr, whole + first * row, row);
  };
  if (call.dk) put(t.dk, s_.key, call.dk + (pair.k - call.k), call.k_places.row, 0);
  if (call.dv) put(t.dv, s_.value, call.dv + (pair.v - call.v), call.v_places.row, rows_ * s_.key);
}

// Adds up what groups have kept apart.
void Heads::join_groups(const HeadsCall& call, int threads) const {
  constexpr int64_t kRun = 64;  // source rows
  const int64_t pairs = call.samples * s_.heads, each = rows_ * (s_.key + s_.value), runs = (rows_ + kRun - 1) / kRun;
  const double work = 4.0 * static_cast<double>(call.groups * pairs * each);
  parallel_items(useful_threads(threads, work), pairs * runs, [&](int64_t item) {
    const Pair pair = pair_of(call, item / runs);
    const int64_t begin = item % runs * kRun, end = std::min(rows_, begin + kRun);
    auto add = [&](float* sum, int64_t row, int64_t columns, int64_t offset) {
      for (int64_t g = 0; g + 1 < call.groups; g++) {
        const float* part = call.partial + (g * pairs + pair.number) * each + offset;
        for (int64_t s = begin; s < end; s++)
          for (int64_t i = 0; i < columns; i++) sum[s * row + i] += part[s * columns + i];
      }
    };
    if (call.dk) add(call.dk + (pair.k - call.k), call.k_places.row, s_.key, 0);
    if (call.dv) add(call.dv + (pair.v - call.v), call.v_places.row, s_.value, rows_ * s_.key);
  });
}

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
