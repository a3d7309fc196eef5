// How attention heads are cut up, packed and masked; the passes are in heads_forward.cpp and heads_backward.cpp.
#include <algorithm>
#include <cmath>

#include "common/scratch_uses.h"
#include "kernels/attention/tiles.h"
#include "runtime/scratch.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace {

constexpr int64_t kSourceBlock = 256;  // source rows of a block of scores
constexpr int64_t kFewPairs = 8;       // fewer samples times heads than this: groups of positions are shared out too
constexpr int64_t kGroupRows = 256;    // at least as many positions in a group
constexpr int64_t kPartialFloats = int64_t{1} << 23;  // of the sums that groups keep apart
// From so many on, products of pairs save more than rounding takes (measured on Zen 5).
constexpr int64_t kRoundedTargets = 32, kRoundedSources = 64, kRoundedWidths = 64;
constexpr int64_t kShortFloats = int64_t{1} << 14;  // of the keys and values of a head whose sequence is short

bool rounding_pays(const HeadsShape& s) {
  return s.target >= kRoundedTargets && s.source >= kRoundedSources && s.key + s.value >= kRoundedWidths;
}

// The number of elements without those at the end that are -infinity.
int64_t without_last(const float* row, int64_t count) {
  while (count >= kWidth && !math::any(load(row + count - kWidth) != splat(-math::kInfinity))) count -= kWidth;
  while (count > 0 && row[count - 1] == -math::kInfinity) count--;
  return count;
}

// The number of bytes without those at the end that are not 0.
int64_t without_last(const uint8_t* row, int64_t count) {
  constexpr uint64_t kOnes = 0x0101010101010101;
  while (count >= 8) {
    uint64_t eight;
    std::memcpy(&eight, row + count - 8, 8);
    if ((eight - kOnes) & ~eight & (kOnes << 7)) break;  // one of them is 0
    count -= 8;
  }
  while (count > 0 && row[count - 1]) count--;
  return count;
}

}  // namespace

Heads::Heads(const HeadsShape& s)
    : s_(s),
      sums_(s.bfloat16 && rounding_pays(s)),
      rows_(s.source + s.appended),
      // (w + 1/2) / 2^23 >= dropout, as uniform_from_word has it
      threshold_(static_cast<int32_t>(std::ceil(static_cast<double>(s.dropout) * 0x1p23 - 0.5))) {
  tile_ = even_tile(s.target, sums_.most_rows());
  strip_ = round_up(std::min<int64_t>(int64_t{tile_} * kStripTiles, s.target), sums_.numbers() * kDepth);
  strips_ = (s.target + strip_ - 1) / strip_;
  padded_ = round_up(rows_, sums_.whole_block());
  block_ = std::min(kSourceBlock, padded_);
  key_depth_ = sums_.steps(s.key);
  value_depth_ = sums_.steps(s.value);
  key_blocks_ = blocks_of(s.key);
  value_blocks_ = blocks_of(s.value);
  const int entry = sums_.entry(), per_block = kBlock / entry;
  const int64_t deepest = std::max({block_, key_depth_, value_depth_}) / entry;
  for (int64_t i = 0; i < deepest; i++) {
    strip_entries_.push_back(static_cast<int32_t>(i / per_block * strip_ * kBlock + i % per_block * entry));
    packed_entries_.push_back(static_cast<int32_t>(i * entry * kBlock));
  }
  for (int64_t i = 0; i < strip_ / kDepth; i++) position_entries_.push_back(static_cast<int32_t>(i * kDepth * kBlock));
}

int64_t Heads::groups(int64_t samples) const {
  int64_t pairs = samples * s_.heads;
  int64_t wanted = (kFewPairs + pairs - 1) / std::max<int64_t>(1, pairs);
  int64_t room = 1 + kPartialFloats / std::max<int64_t>(1, pairs * rows_ * (s_.key + s_.value));
  return std::max<int64_t>(1, std::min({wanted, s_.target / kGroupRows, room, strips_}));
}

Heads::Pair Heads::pair_of(const HeadsCall& call, int64_t number) const {
  Pair p{};
  p.number = number;
  p.sample = number / s_.heads;
  p.head = number % s_.heads;
  auto first = [&p](const HeadPlaces& places) { return p.sample * places.sample + p.head * places.head; };
  p.q = call.q + first(call.q_places);
  p.k = call.k + first(call.k_places);
  p.v = call.v + first(call.v_places);
  p.o = call.o + first(call.o_places);
  p.lse = call.lse + number * s_.target;
  p.dout = call.dout ? call.dout + first(call.o_places) : nullptr;
  int64_t width = call.added_is_boolean ? 1 : 4;
  p.row_bytes = s_.source * width;
  if (call.added)
    p.added = static_cast<const uint8_t*>(call.added) +
              ((call.first + p.sample) * call.added_stride + p.head * call.added_head_stride) * width;
  p.first_number = static_cast<uint64_t>((call.first * s_.heads + number) * s_.target * rows_);
  return p;
}

Heads::Tiles Heads::tiles(bool backward) const {
  const bool pairs = sums_.pairs();
  int64_t across = padded_ * key_depth_, along = padded_ * value_blocks_ * kBlock;
  int64_t sizes[] = {across,
                     backward ? 0 : along,
                     backward ? padded_ * value_depth_ : 0,
                     backward ? padded_ * key_blocks_ * kBlock : 0,
                     backward ? padded_ * key_blocks_ * kBlock : 0,
                     backward ? along : 0,
                     padded_,
                     key_blocks_ * strip_ * kBlock,
                     backward ? value_blocks_ * strip_ * kBlock : 0,
                     block_ * strip_,
                     backward ? block_ * strip_ : 0,
                     std::max(key_blocks_, value_blocks_) * strip_ * kBlock,
                     strip_,
                     strip_,
                     strip_,
                     draws_several() ? kWidth * rows_ + kBlock : block_,
                     strip_,
                     kStripTiles,
                     pairs ? std::max(padded_, strip_) * std::max(s_.key, s_.value) : 0,
                     pairs ? block_ / 2 * strip_ : 0,
                     pairs && backward ? key_blocks_ * strip_ * kBlock : 0,
                     pairs && backward ? value_blocks_ * strip_ * kBlock : 0};
  constexpr int kParts = sizeof sizes / sizeof *sizes;
  int64_t total = 0;
  for (int64_t& size : sizes) total += size = round_up(size, kBlock);
  float* next = scratch(kAttentionTiles, static_cast<size_t>(total + sums_.floats_behind()));
  float* place[kParts];
  for (int i = 0; i < kParts; next += sizes[i++]) place[i] = next;
  auto integers = [&](int i) { return reinterpret_cast<int32_t*>(place[i]); };
  return {place[0],
          place[1],
          place[2],
          place[3],
          place[4],
          place[5],
          integers(6),
          place[7],
          place[8],
          place[9],
          place[10],
          place[11],
          place[12],
          place[13],
          place[14],
          reinterpret_cast<uint32_t*>(place[15]),
          integers(16),
          integers(17),
          place[18],
          place[19],
          pairs ? place[20] : place[7],
          pairs ? place[21] : place[8]};
}

// What is read after a strip of rows, and what is written at its end and at that of its pair; of long sequences less:
// what they have in the caches already is worth more.
Heads::Ahead Heads::ahead_of(const HeadsCall& call, const Pair& pair, int64_t row, int64_t rows, int64_t end) const {
  Ahead ahead;
  const bool backward = pair.dout != nullptr, is_short = rows_ * (s_.key + s_.value) <= kShortFloats;
  if (backward && !is_short) return ahead;
  const bool ends = row + rows >= end, is_last = pair.number + 1 == call.samples * s_.heads;
  const Pair next = is_last ? pair : pair_of(call, pair.number + 1);
  const int64_t q_row = call.q_places.row, k_row = call.k_places.row, v_row = call.v_places.row,
                o_row = call.o_places.row;
  if (!ends || !is_last) {
    const Pair& follows = ends ? next : pair;
    const int64_t first = ends ? 0 : row + rows, count = std::min(s_.target - first, strip_);
    ahead.add(follows.q, q_row, first, count, s_.key);
    if (backward) {
      ahead.add(follows.dout, o_row, first, count, s_.value);
      ahead.add(follows.o, o_row, first, count, s_.value);
    }
  }
  if (!backward) ahead.add(pair.o, o_row, row, rows, s_.value);
  if (call.dq) ahead.add(call.dq + (pair.q - call.q), q_row, row, rows, s_.key);
  if (!is_short || row >= rows_) return ahead;
  const int64_t sources = std::min(rows_ - row, rows);
  if (!is_last) {
    ahead.add(next.k, k_row, row, sources, s_.key);
    ahead.add(next.v, v_row, row, sources, s_.value);
  }
  if (call.dk) ahead.add(call.dk + (pair.k - call.k), k_row, row, sources, s_.key);
  if (call.dv) ahead.add(call.dv + (pair.v - call.v), v_row, row, sources, s_.value);
  return ahead;
}

// Which source rows are masked for all positions.
void Heads::find_hidden(const HeadsCall& call, Pair& pair, const Tiles& t) const {
  const uint8_t* mask = call.key_mask ? call.key_mask + (call.first + pair.sample) * call.key_mask_stride : nullptr;
  pair.sources = rows_;
  if (mask && !s_.appended) pair.sources = without_last(mask, s_.source);
  bool gaps = false;
  for (int64_t s = 0; mask && s < std::min(pair.sources, s_.source); s++) gaps |= mask[s] != 0;
  pair.limited = !pair.added && !gaps && !(call.causal && s_.appended);
  if (pair.limited) return;
  for (int64_t s = 0; s < s_.source; s++) t.hidden[s] = mask && mask[s] ? -1 : 0;
  for (int64_t s = s_.source; s < padded_; s++) t.hidden[s] = s < rows_ ? 0 : -1;
}

void Heads::pack_along(const Tiles& t, const float* source, int64_t stride, int64_t rows, int64_t columns, float* to,
                       int64_t block_floats) const {
  if (!sums_.pairs()) return pack_columns(source, stride, rows, columns, to, block_floats);
  pair_columns(source, stride, rows, columns, t.pairs);
  pack_columns(t.pairs, pairs_of(columns), rows, pairs_of(columns), to, block_floats);
}

void Heads::pack_over(const Tiles& t, const float* source, int64_t stride, int64_t rows, int64_t columns, float* to,
                      int64_t block_floats) const {
  if (!sums_.pairs()) return pack_columns(source, stride, rows, columns, to, block_floats);
  pair_rows(source, stride, rows, columns, t.pairs);
  pack_columns(t.pairs, columns, pairs_of(rows), columns, to, block_floats);
}

const float* Heads::over_source(const Tiles& t, const Extents& e, const float* scores) const {
  if (!sums_.pairs()) return scores;
  static constexpr float zeros[kBlock] = {};
  const int64_t strip_block = strip_ * kBlock;
  for (int n = 0; n < e.count; n++)
    for (int64_t j = 0; j < e.columns(n); j += 2 * kBlock)
      for (int64_t i = int64_t{n} * e.tile; i < std::min(e.rows, int64_t{n + 1} * e.tile); i++) {
        const float* from = scores + j / kBlock * strip_block + i * kBlock;
        float* to = t.paired_scores + j / (2 * kBlock) * strip_block + i * kBlock;
        const float* second = j + kBlock < e.columns(n) ? from + strip_block : zeros;
        // Where there are such sums, a vector holds a block.
        store(to, RoundedPairSource::joined(load(from), load(second)));
      }
  return t.paired_scores;
}

// Keys and values of source rows in the order of the products; those of positions up to `end`.
void Heads::pack_pair(const HeadsCall& call, Pair& pair, const Tiles& t, bool backward, int64_t end,
                      const Sources& sources) const {
  find_hidden(call, pair, t);
  int64_t all = pair.sources;
  if (call.causal && !s_.appended) all = std::min(all, end);
  if (pair.whole) all = rows_;
  const int64_t first = sources.first, rows = std::min(sources.last, std::max<int64_t>(1, all)) - first;
  auto across = [&](const float* source, int64_t stride, int64_t columns, int64_t depth, float* to) {
    to += first * depth;
    source += first * stride;
    if (sums_.pairs()) {
      pair_columns(source, stride, rows, columns, t.pairs);
      source = t.pairs;
      columns = stride = pairs_of(columns);
    }
    pack_transposed(source, stride, rows, columns, to, depth * kBlock);
    for (int64_t b = 0; b < blocks_of(rows) && columns < depth; b++)
      std::fill(to + (b * depth + columns) * kBlock, to + (b + 1) * depth * kBlock, 0.f);
  };
  auto along = [&](const float* source, int64_t stride, int64_t columns, float* to) {
    const int numbers = sums_.numbers();
    const int64_t steps = (rows + numbers - 1) / numbers;
    to += first / numbers * kBlock;
    pack_over(t, source + first * stride, stride, rows, columns, to, padded_ * kBlock);
    clear_rows(to, padded_ * kBlock, blocks_of(columns), steps, round_up(steps, kBlock));
  };
  const int64_t last = round_up(sources.last, kBlock);
  if (call.dk) clear_rows(t.dk, padded_ * kBlock, key_blocks_, first, last);
  if (call.dv) clear_rows(t.dv, padded_ * kBlock, value_blocks_, first, last);
  if (rows <= 0) return;
  const int64_t k_row = call.k_places.row, v_row = call.v_places.row;
  across(pair.k, k_row, s_.key, key_depth_, t.keys_across);
  if (!backward) {
    along(pair.v, v_row, s_.value, t.values_along);
  } else if (call.dq || call.dk) {
    across(pair.v, v_row, s_.value, value_depth_, t.values_across);
    if (call.dq) along(pair.k, k_row, s_.key, t.keys_along);
  }
}

// How many scores of each row count, and the most of any. Masks say -infinity behind them; the others say nothing about
// what lies before.
int64_t Heads::find_limits(const HeadsCall& call, const Pair& pair, const Tiles& t, int64_t row, int64_t rows) const {
  int64_t most = 0;
  for (int64_t n = 0; n * tile_ < rows; n++) {
    int64_t reach = 1;
    for (int64_t i = n * tile_; i < std::min(rows, (n + 1) * tile_); i++) {
      int64_t limit = pair.sources;
      if (!s_.appended) {
        if (call.causal) limit = std::min(limit, row + i + 1);
        const uint8_t* added = pair.added ? pair.added + (row + i) * pair.row_bytes : nullptr;
        if (added)
          limit = call.added_is_boolean ? without_last(added, limit)
                                        : without_last(reinterpret_cast<const float*>(added), limit);
      }
      t.limit[i] = static_cast<int32_t>(limit);
      reach = std::max(reach, limit);
    }
    if (pair.whole) reach = rows_;
    t.reach[n] = static_cast<int32_t>(reach);
    most = std::max(most, reach);
  }
  return most;
}

// The random words of row i of `rows` rows of scores that begin at position `row`, from `column` on. They are drawn in
// groups: of rows shorter than a group, whose numbers follow each other, several are drawn at the first of them.
const uint32_t* Heads::draw(const HeadsCall& call, const Pair& pair, const Tiles& t, int64_t row, int64_t i,
                            int64_t rows, int64_t column, int64_t columns) const {
  const int64_t place = draws_several() ? i % kWidth : 0;
  if (place == 0) {
    const uint64_t first = pair.first_number + static_cast<uint64_t>((row + i) * rows_ + column);
    const int64_t count = draws_several() ? std::min<int64_t>(kWidth, rows - i) * rows_ - column : columns;
    fill_random(call.stream, first, t.words, count, [](uint32_t word) { return word; });
  }
  return t.words + place * rows_;
}

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
