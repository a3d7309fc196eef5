// Scores are computed strip by strip (some target positions) and block by block (some source rows), never as a whole
// T x S matrix. A strip of scores is stored as [source / 16][position][16]: what the micro-kernel writes, what it reads
// as left operand over the source, and, read across, what it reads as left operand over the positions.
#include <algorithm>
#include <cmath>

#include "common/scratch_uses.h"
#include "gemm/gemm.h"
#include "gemm/pack.h"
#include "kernels/attention/attention.h"
#include "runtime/dynamic_items.h"
#include "runtime/scratch.h"
#include "simd/math.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace {

constexpr int kStripTiles = 4;         // register tiles of a strip
constexpr int64_t kSourceBlock = 256;  // source rows of a block of scores
constexpr int64_t kFewPairs = 8;       // fewer samples times heads than this: groups of positions are shared out too
constexpr int64_t kGroupRows = 256;    // at least as many positions in a group
constexpr int64_t kPartialFloats = int64_t{1} << 23;  // of the sums that groups keep apart

// Lane i of the result combines the lanes of r[i], for kWidth rows at once.
template <class Combine>
OPENBNNS_INLINE Vec across_lanes(Vec* r, Combine combine) {
  transpose(r);
  OPENBNNS_UNROLL for (int half = kWidth / 2; half > 0; half /= 2) OPENBNNS_UNROLL for (int i = 0; i < half; i++) r[i] =
      combine(r[i], r[i + half]);
  return r[0];
}

// Left operand, right operand and result of products over packed blocks.
struct Product {
  TileForm form;
  const float* a;
  const int32_t* a_entries;
  int64_t a_row;  // elements from one row of A to the next
  const float* b;
  const int32_t* b_entries;
  int64_t b_block;
  int64_t depth;  // a multiple of kDepth
  float* c;       // rows 16 apart
  int64_t c_block;
};

// C[rows][blocks * 16] (+)= A B, in tiles of `tile` rows.
void multiply(const Product& p, int64_t rows, int tile, int64_t blocks, Write write) {
  for (int64_t j = 0; j < blocks;) {
    int wide = tile_blocks((blocks - j) * kBlock);
    for (int64_t i = 0; i < rows; i += tile) {
      Tile t{p.a + i * p.a_row,
             p.b + j * p.b_block,
             p.a_entries,
             p.b_entries,
             static_cast<int>(p.depth / kDepth),
             p.b_block,
             p.c + i * kBlock + j * p.c_block,
             kBlock,
             p.c_block};
      t.write = write;
      tile_kernel(p.form, wide, static_cast<int>(std::min<int64_t>(tile, rows - i)))(t);
    }
    j += wide;
  }
}

// to[row][column] = factor * blocks[column / 16][row][column % 16], factor null for 1
void unblock(const float* blocks, int64_t block_stride, int64_t rows, int64_t columns, const float* factor, float* to,
             int64_t to_stride) {
  for (int64_t i = 0; i < rows; i++) {
    Vec f = splat(factor ? factor[i] : 1.0f);
    for (int64_t j = 0; j < columns; j += kWidth) {
      const float* from = blocks + j / kBlock * block_stride + i * kBlock + j % kBlock;
      int64_t count = columns - j;
      if (count >= kWidth)
        store(to + i * to_stride + j, load(from) * f);
      else
        store_partial(to + i * to_stride + j, load(from) * f, count);
    }
  }
}

// Rows beyond the last one, up to a whole step of the micro-kernel, take part in sums over rows as zeros.
void clear_rows(float* blocks, int64_t block_stride, int64_t count, int64_t first, int64_t end) {
  if (first == end) return;
  for (int64_t b = 0; b < count; b++)
    std::fill(blocks + b * block_stride + first * kBlock, blocks + b * block_stride + end * kBlock, 0.f);
}

float dot(const float* a, const float* b, int64_t count) {
  Vec sum{};
  int64_t i = 0;
  for (; i + kWidth <= count; i += kWidth) sum += load(a + i) * load(b + i);
  if (i < count) sum += load_partial(a + i, count - i) * load_partial(b + i, count - i);
  return sum_lanes(sum);
}

// -infinity where the byte is not zero, else 0
OPENBNNS_INLINE Vec minus_infinity_where(const uint8_t* p, int64_t count) {
  typedef uint8_t Bytes __attribute__((vector_size(kWidth)));
  Bytes bytes{};
  if (count >= kWidth)
    std::memcpy(&bytes, p, kWidth);
  else
    std::memcpy(&bytes, p, static_cast<size_t>(count));
  IntVec set = __builtin_convertvector(bytes, IntVec) != 0;
  return select(set, splat(-math::kInfinity), Vec{});
}

// What is added to one row of scores; nothing beyond the source.
class AddedRow {
 public:
  AddedRow(const void* row, bool boolean, int64_t source) : row_(row), boolean_(boolean), source_(source) {}
  OPENBNNS_INLINE Vec at(int64_t column) const {
    int64_t count = source_ - column;
    if (!row_ || count <= 0) return Vec{};
    if (boolean_) return minus_infinity_where(static_cast<const uint8_t*>(row_) + column, count);
    const float* p = static_cast<const float*>(row_) + column;
    return count >= kWidth ? load(p) : load_partial(p, count);
  }

 private:
  const void* row_;
  const bool boolean_;
  const int64_t source_;
};

typedef int32_t UnalignedInts __attribute__((vector_size(kWidth * 4), aligned(4), may_alias));

// scale * (q k^T) + added, or -infinity where hidden, of the raw scores from `column` on
OPENBNNS_INLINE Vec score(const float* raw, Vec scale, const AddedRow& added, const int32_t* hidden, int64_t column) {
  IntVec mask = *reinterpret_cast<const UnalignedInts*>(hidden + column);
  return select(mask, splat(-math::kInfinity), load(raw) * scale + added.at(column));
}

}  // namespace

// One head of one sample.
struct Heads::Pair {
  int64_t sample, head;
  const float *q, *k, *v, *dout;  // first row of the head
  float *o, *lse;
  const uint8_t* added;   // or floats
  int64_t row_bytes;      // of added
  uint64_t first_number;  // random number of its first score

  AddedRow added_row(const HeadsCall& call, int64_t row, int64_t source) const {
    return AddedRow(added ? added + row * row_bytes : nullptr, call.added_is_boolean, source);
  }
};

// Memory of one worker.
struct Heads::Tiles {
  float* keys_across;               // [S' / 16][K][16]: right operand of q k^T
  float* values_along;              // [V / 16][S'][16]: of p v; forward only
  float* values_across;             // [S' / 16][V][16]: of dout v^T; backward only, like what follows
  float* keys_along;                // [K / 16][S'][16]: of ds k
  float* dk;                        // [K / 16][S'][16]
  float* dv;                        // [V / 16][S'][16]
  int32_t* hidden;                  // [S'], all bits set where a score is -infinity
  float* q;                         // [K / 16][strip][16]
  float* dout;                      // [V / 16][strip][16]
  float* scores;                    // [block / 16][strip][16]: scores, then probabilities
  float* ds;                        // the same: gradients
  float* sums;                      // [max(K, V) / 16][strip][16]: o or dq in the making
  float *largest, *total, *factor;  // [strip]
  float* uniform;                   // [block]
};

Heads::Heads(const AttentionShape& s)
    : target_(s.target),
      source_(s.source),
      rows_(s.source + s.attention_bias + s.zero_row),
      key_(s.key),
      value_(s.value),
      heads_(s.heads),
      scale_(1.0f / std::sqrt(static_cast<float>(s.key))),
      dropout_(s.dropout),
      masked_rows_are_zero_(s.masked_rows_are_zero) {
  tile_ = even_tile(target_, kWideRows);
  strip_ = round_up(std::min<int64_t>(int64_t{tile_} * kStripTiles, target_), kDepth);
  strips_ = (target_ + strip_ - 1) / strip_;
  padded_ = round_up(rows_, kBlock);
  block_ = std::min(kSourceBlock, padded_);
  key_depth_ = round_up(key_, kDepth);
  value_depth_ = round_up(value_, kDepth);
  key_blocks_ = blocks_of(key_);
  value_blocks_ = blocks_of(value_);
  int64_t deepest = std::max({block_, strip_, key_depth_, value_depth_}) / kDepth;
  for (int64_t i = 0; i < deepest; i++) {
    constexpr int64_t kPerBlock = kBlock / kDepth;
    strip_entries_.push_back(static_cast<int32_t>(i / kPerBlock * strip_ * kBlock + i % kPerBlock * kDepth));
    packed_entries_.push_back(static_cast<int32_t>(i * kDepth * kBlock));
  }
}

int64_t Heads::groups(int64_t samples) const {
  int64_t pairs = samples * heads_;
  int64_t wanted = (kFewPairs + pairs - 1) / std::max<int64_t>(1, pairs);
  int64_t room = 1 + kPartialFloats / std::max<int64_t>(1, samples * rows_ * heads_ * (key_ + value_));
  return std::max<int64_t>(1, std::min({wanted, target_ / kGroupRows, room, strips_}));
}

Heads::Pair Heads::pair_of(const HeadsCall& call, int64_t number) const {
  Pair p{};
  p.sample = number / heads_;
  p.head = number % heads_;
  int64_t k_row = heads_ * key_, v_row = heads_ * value_;
  p.q = call.q + p.sample * target_ * k_row + p.head * key_;
  p.k = call.k + p.sample * rows_ * k_row + p.head * key_;
  p.v = call.v + p.sample * rows_ * v_row + p.head * value_;
  p.o = call.o + p.sample * target_ * v_row + p.head * value_;
  p.lse = call.lse + number * target_;
  p.dout = call.dout ? call.dout + p.sample * target_ * v_row + p.head * value_ : nullptr;
  int64_t width = call.added_is_boolean ? 1 : 4;
  p.row_bytes = source_ * width;
  if (call.added)
    p.added = static_cast<const uint8_t*>(call.added) +
              ((call.first + p.sample) * call.added_stride + p.head * call.added_head_stride) * width;
  p.first_number = static_cast<uint64_t>((call.first * heads_ + number) * target_ * rows_);
  return p;
}

Heads::Tiles Heads::tiles(bool backward) const {
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
                     block_};
  int64_t total = 0;
  for (int64_t& size : sizes) total += size = round_up(size, kBlock);
  float* next = scratch(kAttentionTiles, static_cast<size_t>(total));
  float* place[16];
  for (int i = 0; i < 16; next += sizes[i++]) place[i] = next;
  return {place[0],  place[1], place[2], place[3],  place[4],  place[5],  reinterpret_cast<int32_t*>(place[6]),
          place[7],  place[8], place[9], place[10], place[11], place[12], place[13],
          place[14], place[15]};
}

void Heads::pack_pair(const HeadsCall& call, const Pair& pair, const Tiles& t, bool backward) const {
  int64_t k_row = heads_ * key_, v_row = heads_ * value_;
  auto across = [&](const float* source, int64_t stride, int64_t columns, int64_t depth, float* to) {
    pack_transposed(source, stride, rows_, columns, to, depth * kBlock);
    for (int64_t b = 0; b < padded_ / kBlock && columns < depth; b++)
      std::fill(to + (b * depth + columns) * kBlock, to + (b + 1) * depth * kBlock, 0.f);
  };
  auto along = [&](const float* source, int64_t stride, int64_t columns, float* to) {
    pack_columns(source, stride, rows_, columns, to, padded_ * kBlock);
    clear_rows(to, padded_ * kBlock, blocks_of(columns), rows_, padded_);
  };
  across(pair.k, k_row, key_, key_depth_, t.keys_across);
  if (!backward) {
    along(pair.v, v_row, value_, t.values_along);
  } else if (call.dq || call.dk) {
    across(pair.v, v_row, value_, value_depth_, t.values_across);
    if (call.dq) along(pair.k, k_row, key_, t.keys_along);
  }
  if (call.dk) std::fill_n(t.dk, padded_ * key_blocks_ * kBlock, 0.f);
  if (call.dv) std::fill_n(t.dv, padded_ * value_blocks_ * kBlock, 0.f);
  const uint8_t* mask = call.key_mask ? call.key_mask + (call.first + pair.sample) * call.key_mask_stride : nullptr;
  for (int64_t s = 0; s < source_; s++) t.hidden[s] = mask && mask[s] ? -1 : 0;
  for (int64_t s = source_; s < padded_; s++) t.hidden[s] = s < rows_ ? 0 : -1;
}

// ---- forward ----

void Heads::forward(const HeadsCall& call, int threads) const {
  double products = 2.0 * static_cast<double>(call.samples * heads_) * static_cast<double>(target_ * rows_);
  threads = useful_threads(threads, products * static_cast<double>(key_ + value_ + 10));
  int64_t pairs = call.samples * heads_, shares = 1;
  if (threads > 1) shares = std::max<int64_t>(1, std::min(strips_, (4 * threads + pairs - 1) / pairs));
  dynamic_items(threads, pairs * shares, [&](int64_t item) {
    Pair pair = pair_of(call, item / shares);
    Tiles t = tiles(false);
    pack_pair(call, pair, t, false);
    int64_t share = item % shares;
    for (int64_t i = strips_ * share / shares; i < strips_ * (share + 1) / shares; i++) {
      check_interruption();
      forward_strip(call, pair, t, i * strip_, std::min(strip_, target_ - i * strip_));
    }
  });
}

void Heads::forward_strip(const HeadsCall& call, const Pair& pair, const Tiles& t, int64_t row, int64_t rows) const {
  const int64_t strip_block = strip_ * kBlock;
  pack_columns(pair.q + row * heads_ * key_, heads_ * key_, rows, key_, t.q, strip_block);
  std::fill_n(t.largest, round_up(rows, kWidth), -math::kInfinity);
  std::fill_n(t.total, round_up(rows, kWidth), 0.f);
  for (int64_t column = 0; column < rows_; column += block_) {
    int64_t columns = std::min(block_, padded_ - column);
    multiply({TileForm::Matrix, t.q, strip_entries_.data(), kBlock, t.keys_across + column * key_depth_,
              packed_entries_.data(), key_depth_ * kBlock, key_depth_, t.scores, strip_block},
             rows, tile_, columns / kBlock, Write::Set);
    softmax_rows(call, pair, t, row, rows, column, columns);
    multiply({TileForm::Matrix, t.scores, strip_entries_.data(), kBlock, t.values_along + column * kBlock,
              packed_entries_.data(), padded_ * kBlock, columns, t.sums, strip_block},
             rows, tile_, value_blocks_, column ? Write::Add : Write::Set);
  }
  for (int64_t i = 0; i < rows; i += kWidth) {
    const Vec largest = load(t.largest + i), total = load(t.total + i);
    // A row of nothing but -infinity: 0 / 0, or what reads nothing and passes nothing back.
    IntVec zero = masked_rows_are_zero_ ? IntVec(largest == splat(-math::kInfinity)) : IntVec{};
    store(t.factor + i, select(zero, Vec{}, 1.0f / total));
    store_partial(pair.lse + row + i, select(zero, splat(math::kInfinity), largest + math::log(total)),
                  std::min<int64_t>(kWidth, rows - i));
  }
  unblock(t.sums, strip_block, rows, value_, t.factor, pair.o + row * heads_ * value_, heads_ * value_);
}

// Scores to exponentials relative to the largest score so far; what earlier blocks left is brought to the same measure.
// Rows are taken kWidth at a time, so that their maxima and sums are found together.
void Heads::softmax_rows(const HeadsCall& call, const Pair& pair, const Tiles& t, int64_t row, int64_t rows,
                         int64_t column, int64_t columns) const {
  const int64_t strip_block = strip_ * kBlock;
  const bool plain = is_plain(call, column, columns);
  for (int64_t first = 0; first < rows; first += kWidth) {
    const int count = static_cast<int>(std::min<int64_t>(kWidth, rows - first));
    Vec each[kWidth];
    for (int i = 0; i < count; i++) {
      float* scores = t.scores + (first + i) * kBlock;
      each[i] =
          plain ? largest_of(scores, columns) : finish_scores(call, pair, t, row + first + i, scores, column, columns);
    }
    for (int i = count; i < kWidth; i++) each[i] = splat(-math::kInfinity);
    const Vec before = load(t.largest + first);
    const Vec largest = math::max(before, across_lanes(each, [](Vec a, Vec b) { return math::max(a, b); }));
    const Vec shift = select(largest == splat(-math::kInfinity), Vec{}, largest);
    const Vec rescale = math::exp_not_positive(before - shift);
    store(t.largest + first, largest);
    store(t.factor + first, shift);
    for (int i = 0; i < count; i++)
      each[i] = exponentials(call, pair, t, row, first + i, column, columns, plain ? scale_ : 1.0f);
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

// Nothing is added, and nothing is hidden among these source rows.
bool Heads::is_plain(const HeadsCall& call, int64_t column, int64_t columns) const {
  return !call.added && !call.key_mask && column + columns <= rows_;
}

// The largest of raw scores, times the scale.
Vec Heads::largest_of(const float* scores, int64_t columns) const {
  constexpr int kParts = kBlock / kWidth;
  Vec most[2] = {splat(-math::kInfinity), splat(-math::kInfinity)};
  for (int64_t b = 0; b < columns / kBlock; b++) OPENBNNS_UNROLL for (int part = 0; part < kParts; part++) {
      Vec& m = most[(b + part) % 2];
      m = math::max(load(scores + b * strip_ * kBlock + part * kWidth), m);
    }
  return math::max(most[0], most[1]) * splat(scale_);
}

// Raw scores to scores in place; gives the largest of each lane.
Vec Heads::finish_scores(const HeadsCall& call, const Pair& pair, const Tiles& t, int64_t row, float* scores,
                         int64_t column, int64_t columns) const {
  AddedRow added = pair.added_row(call, row, source_);
  const Vec scale = splat(scale_);
  Vec most = splat(-math::kInfinity);
  for (int64_t j = 0; j < columns; j += kWidth) {
    float* p = scores + j / kBlock * strip_ * kBlock + j % kBlock;
    Vec x = score(p, scale, added, t.hidden, column + j);
    store(p, x);
    most = math::max(x, most);
  }
  return most;
}

// exp(scale * score - shift) in place, the shift of row i being t.factor[i]; gives the sum of each lane. What dropout
// takes away still counts in the sum.
Vec Heads::exponentials(const HeadsCall& call, const Pair& pair, const Tiles& t, int64_t row, int64_t i, int64_t column,
                        int64_t columns, float scale) const {
  const Vec shift = splat(t.factor[i]), factor = splat(scale);
  Vec sum[2] = {};
  for (int64_t b = 0; b < columns / kBlock; b++) OPENBNNS_UNROLL for (int part = 0; part < kBlock; part += kWidth) {
      float* p = t.scores + b * strip_ * kBlock + i * kBlock + part;
      Vec e = math::exp_not_positive(load(p) * factor - shift);
      sum[(b + part / kWidth) % 2] += e;
      store(p, e);
    }
  if (call.drops) {
    const Vec kept = splat(1.0f / (1.0f - dropout_)), rate = splat(dropout_);
    draw(call, pair, t, row + i, column, columns);
    for (int64_t j = 0; j < columns; j += kWidth) {
      float* p = t.scores + j / kBlock * strip_ * kBlock + i * kBlock + j % kBlock;
      store(p, select(load(t.uniform + j) >= rate, load(p) * kept, Vec{}));
    }
  }
  return sum[0] + sum[1];
}

// The random numbers of a row of scores, from `column` on.
void Heads::draw(const HeadsCall& call, const Pair& pair, const Tiles& t, int64_t row, int64_t column,
                 int64_t columns) const {
  fill_uniform(call.stream, pair.first_number + static_cast<uint64_t>(row * rows_ + column), t.uniform, columns);
}

// ---- backward ----

void Heads::backward(const HeadsCall& call, int threads) const {
  double products = 2.0 * static_cast<double>(call.samples * heads_) * static_cast<double>(target_ * rows_);
  threads = useful_threads(threads, products * static_cast<double>(2 * key_ + 2 * value_ + 20));
  int64_t pairs = call.samples * heads_, count = call.groups;
  dynamic_items(threads, pairs * count, [&](int64_t item) {
    Pair pair = pair_of(call, item / count);
    Tiles t = tiles(true);
    pack_pair(call, pair, t, true);
    int64_t group = item % count;
    for (int64_t i = strips_ * group / count; i < strips_ * (group + 1) / count; i++) {
      check_interruption();
      backward_strip(call, pair, t, i * strip_, std::min(strip_, target_ - i * strip_));
    }
    finish_accumulators(call, pair, t, group);
  });
  if (count == 1) return;
  int64_t k_floats = call.samples * rows_ * heads_ * key_, v_floats = call.samples * rows_ * heads_ * value_;
  auto add = [&](float* sum, int64_t floats, int64_t offset) {
    constexpr int64_t kRun = 4096;
    parallel_items(useful_threads(threads, 4.0 * static_cast<double>(floats * count)), (floats + kRun - 1) / kRun,
                   [&](int64_t run) {
                     int64_t end = std::min(floats, (run + 1) * kRun);
                     for (int64_t g = 0; g + 1 < count; g++) {
                       const float* part = call.partial + g * (k_floats + v_floats) + offset;
                       for (int64_t i = run * kRun; i < end; i++) sum[i] += part[i];
                     }
                   });
  };
  if (call.dk) add(call.dk, k_floats, 0);
  if (call.dv) add(call.dv, v_floats, k_floats);
}

// Of o = pd v, pd = p keep / (1 - dropout), p = softmax(s), s = scale q k^T + ...:
//   dv += pd^T do,  dp = (do v^T) keep / (1 - dropout),  ds = p (dp - rowsum(do o)) scale,  dq = ds k,  dk += ds^T q
// where rowsum(dp p) = rowsum(do o).
void Heads::backward_strip(const HeadsCall& call, const Pair& pair, const Tiles& t, int64_t row, int64_t rows) const {
  const int64_t strip_block = strip_ * kBlock, k_row = heads_ * key_, v_row = heads_ * value_;
  const int64_t depth = round_up(rows, kDepth);
  const bool scores = call.dq || call.dk;
  pack_columns(pair.q + row * k_row, k_row, rows, key_, t.q, strip_block);
  pack_columns(pair.dout + row * v_row, v_row, rows, value_, t.dout, strip_block);
  clear_rows(t.q, strip_block, key_blocks_, rows, depth);
  clear_rows(t.dout, strip_block, value_blocks_, rows, depth);
  clear_rows(t.scores, strip_block, block_ / kBlock, rows, depth);
  if (scores) clear_rows(t.ds, strip_block, block_ / kBlock, rows, depth);
  if (scores)
    for (int64_t i = 0; i < rows; i++)
      t.factor[i] = dot(pair.dout + (row + i) * v_row, pair.o + (row + i) * v_row, value_);
  constexpr int kAcross = kBlock % kWeightRows == 0 ? kWeightRows : (kBlock + 2) / 3;
  for (int64_t column = 0; column < rows_; column += block_) {
    int64_t columns = std::min(block_, padded_ - column), blocks = columns / kBlock;
    multiply({TileForm::Matrix, t.q, strip_entries_.data(), kBlock, t.keys_across + column * key_depth_,
              packed_entries_.data(), key_depth_ * kBlock, key_depth_, t.scores, strip_block},
             rows, tile_, blocks, Write::Set);
    if (scores)
      multiply({TileForm::Matrix, t.dout, strip_entries_.data(), kBlock, t.values_across + column * value_depth_,
                packed_entries_.data(), value_depth_ * kBlock, value_depth_, t.ds, strip_block},
               rows, tile_, blocks, Write::Set);
    gradient_rows(call, pair, t, row, rows, column, columns, scores);
    for (int64_t b = 0; b < blocks; b++) {
      auto across = [&](const float* left, const float* right, float* sums, int64_t right_blocks) {
        multiply({TileForm::Pixels4, left + b * strip_block, packed_entries_.data(), 1, right, packed_entries_.data(),
                  strip_block, depth, sums + (column + b * kBlock) * kBlock, padded_ * kBlock},
                 kBlock, kAcross, right_blocks, Write::Add);
      };
      if (call.dv) across(t.scores, t.dout, t.dv, value_blocks_);
      if (call.dk) across(t.ds, t.q, t.dk, key_blocks_);
    }
    if (call.dq)
      multiply({TileForm::Matrix, t.ds, strip_entries_.data(), kBlock, t.keys_along + column * kBlock,
                packed_entries_.data(), padded_ * kBlock, columns, t.sums, strip_block},
               rows, tile_, key_blocks_, column ? Write::Add : Write::Set);
  }
  if (call.dq) unblock(t.sums, strip_block, rows, key_, nullptr, call.dq + (pair.q - call.q) + row * k_row, k_row);
}

// Scores to pd, and do v^T to ds.
void Heads::gradient_rows(const HeadsCall& call, const Pair& pair, const Tiles& t, int64_t row, int64_t rows,
                          int64_t column, int64_t columns, bool scores) const {
  const int64_t strip_block = strip_ * kBlock;
  const Vec kept = splat(1.0f / (1.0f - dropout_)), rate = splat(dropout_), scale = splat(scale_);
  if (!call.drops && scores && is_plain(call, column, columns)) {
    for (int64_t i = 0; i < rows; i++) {
      const Vec lse = splat(pair.lse[row + i]), mean = splat(t.factor[i]);
      for (int64_t place = i * kBlock; place < columns / kBlock * strip_block; place += strip_block)
        OPENBNNS_UNROLL for (int part = 0; part < kBlock; part += kWidth) {
          Vec p = math::exp_not_positive(load(t.scores + place + part) * scale - lse);
          store(t.scores + place + part, p);
          store(t.ds + place + part, p * (load(t.ds + place + part) - mean) * scale);
        }
    }
    return;
  }
  for (int64_t i = 0; i < rows; i++) {
    AddedRow added = pair.added_row(call, row + i, source_);
    const Vec lse = splat(pair.lse[row + i]), mean = splat(t.factor[i]);
    if (call.drops) draw(call, pair, t, row + i, column, columns);
    for (int64_t j = 0; j < columns; j += kWidth) {
      int64_t place = j / kBlock * strip_block + j % kBlock + i * kBlock;
      Vec x = score(t.scores + place, scale, added, t.hidden, column + j);
      Vec p = math::exp_not_positive(x - lse);
      Vec factor = call.drops ? select(load(t.uniform + j) >= rate, kept, Vec{}) : splat(1.0f);
      store(t.scores + place, p * factor);
      if (scores) store(t.ds + place, p * (load(t.ds + place) * factor - mean) * scale);
    }
  }
}

void Heads::finish_accumulators(const HeadsCall& call, const Pair& pair, const Tiles& t, int64_t group) const {
  int64_t k_row = heads_ * key_, v_row = heads_ * value_;
  int64_t k_floats = call.samples * rows_ * k_row, v_floats = call.samples * rows_ * v_row;
  float* part = group ? call.partial + (group - 1) * (k_floats + v_floats) : nullptr;
  if (call.dk)
    unblock(t.dk, padded_ * kBlock, rows_, key_, nullptr, (part ? part : call.dk) + (pair.k - call.k), k_row);
  if (call.dv)
    unblock(t.dv, padded_ * kBlock, rows_, value_, nullptr, (part ? part + k_floats : call.dv) + (pair.v - call.v),
            v_row);
}

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
