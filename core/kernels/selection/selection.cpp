// Gather and scatter along an axis, and the largest values along an axis.
//
//   gather    selected[o][j][i] = whole[o][indices[j]][i]          scatter   whole[o][indices[j]][i] (+)=
//   selected[o][j][i]
//
// A place that is scattered to belongs to one task, which goes through the indices in order: the last write stays, and
// sums have one order, whatever the number of threads.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "common/rows.h"
#include "common/scratch_uses.h"
#include "kernels/kernels.h"
#include "runtime/dynamic_items.h"
#include "runtime/scratch.h"
#include "simd/math.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace {

constexpr int64_t kSerialBytes = 1 << 16, kTaskBytes = 1 << 17, kTaskElements = 2048;
constexpr int64_t kCachedBytes = 1 << 20;  // so much stays close to the core: nothing is gained by asking for it early

int workers(int threads, int64_t bytes) { return bytes < kSerialBytes ? 1 : threads; }

void gather_rows(const Selection& s, int threads) {
  const int64_t row = s.inner * s.bytes, ahead = rows_ahead(row);
  const bool cached = (s.length + s.count) * s.outer * row <= kCachedBytes;
  const int64_t group = std::clamp<int64_t>(s.count / (4 * threads), 1, std::max<int64_t>(1, kTaskBytes / row));
  const int64_t groups = (s.count + group - 1) / group;
  dynamic_items(workers(threads, s.outer * s.count * row), s.outer * groups, [&](int64_t task) {
    const int64_t o = task / groups, first = task % groups * group, last = std::min(s.count, first + group);
    const char* block = s.whole + o * s.length * row;
    char* to = s.selected + (o * s.count + first) * row;
    for (int64_t j = first; j < last; j++, to += row) {
      if (!cached) {
        if (j + ahead < s.count) fetch_row(block + s.indices[j + ahead] * row, row);
        fetch_output(to, row);
      }
      copy_row(to, block + s.indices[j] * row, row);
    }
  });
}

// Items of one element: whole[o][indices[j]].
template <class Item>
void gather_items(const Selection& s, int threads) {
  const int64_t group = std::clamp<int64_t>(s.count / (2 * threads), 1024, 16384);
  const int64_t groups = (s.count + group - 1) / group;
  dynamic_items(workers(threads, s.outer * s.count * s.bytes), s.outer * groups, [&](int64_t task) {
    const int64_t o = task / groups, first = task % groups * group, last = std::min(s.count, first + group);
    const Item* from = reinterpret_cast<const Item*>(s.whole) + o * s.length;
    Item* to = reinterpret_cast<Item*>(s.selected) + o * s.count;
    for (int64_t j = first; j < last; j++) to[j] = from[s.indices[j]];
  });
}

// Every element has an index of its own. Along the last axis a block of `outer` is one run of such elements.
template <class Item>
void gather_elements(const Selection& s, int threads) {
  const bool last_axis = s.inner == 1;
  const int64_t rows = last_axis ? s.outer : s.outer * s.count, width = last_axis ? s.count : s.inner;
  const int64_t group = std::max<int64_t>(1, kTaskBytes / (width * s.bytes));
  dynamic_items(workers(threads, rows * width * s.bytes), (rows + group - 1) / group, [&](int64_t task) {
    for (int64_t n = task * group, end = std::min(rows, n + group); n < end; n++) {
      const Item* from = reinterpret_cast<const Item*>(s.whole) + (last_axis ? n : n / s.count) * s.length * s.inner;
      Item* to = reinterpret_cast<Item*>(s.selected) + n * width;
      const int64_t* index = s.indices + n * width;
      if (last_axis)
        for (int64_t j = 0; j < width; j++) to[j] = from[index[j]];
      else
        for (int64_t i = 0; i < width; i++) to[i] = from[index[i] * s.inner + i];
    }
  });
}

// ---- scatter ----

void add_row(float* to, const float* from, int64_t count) {
  int64_t i = 0;
  for (; i + kWidth <= count; i += kWidth) store(to + i, load(to + i) + load(from + i));
  for (; i < count; i++) to[i] += from[i];
}

void add_row(uint64_t* to, const uint64_t* from, int64_t count) {
  for (int64_t i = 0; i < count; i++) to[i] += from[i];
}

template <int kWrites>
OPENBNNS_INLINE void fetch(const char* row, int64_t bytes) {
  for (int64_t at = 0; at < std::min(bytes, kFetchedBytes); at += 64) __builtin_prefetch(row + at, kWrites);
}

// Tasks own parts of `length` (and blocks of `outer`): each lists the indices that fall in its part, in order.
template <class Row>
void scatter_rows(const Selection& s, int threads, Row put) {
  constexpr int64_t kAhead = 16, kListed = 4096;
  const int64_t row = s.inner * s.bytes, bytes = s.outer * s.count * row;
  threads = workers(threads, bytes);
  const int64_t parts = threads == 1 || s.outer >= 8 * threads ? 1 : std::min<int64_t>(s.length, 2 * threads);
  dynamic_items(threads, s.outer * parts, [&](int64_t task) {
    const int64_t o = task / parts, part = task % parts;
    const int64_t first = s.length * part / parts, size = s.length * (part + 1) / parts - first;
    char* block = s.whole + o * s.length * row;
    const char* from = s.selected + o * s.count * row;
    int64_t list[kListed + 1];  // the last place is written before it is known whether it counts
    for (int64_t start = 0; start < s.count; start += kListed) {
      int64_t listed = 0;
      for (int64_t j = start, end = std::min(s.count, start + kListed); j < end; j++) {
        list[listed] = j;
        listed += static_cast<uint64_t>(s.indices[j] - first) < static_cast<uint64_t>(size);
      }
      for (int64_t k = 0; k < listed; k++) {
        if (k + kAhead < listed) {
          fetch<1>(block + s.indices[list[k + kAhead]] * row, row);
          fetch<0>(from + list[k + kAhead] * row, row);
        }
        put(block + s.indices[list[k]] * row, from + list[k] * row);
      }
    }
  });
}

// Items of one element; a block of `outer` is one thread's: to find out which items belong to it would cost a thread as
// much as scattering them.
template <class Item, bool kAdds>
void scatter_items(const Selection& s, int threads) {
  const int64_t group = std::max<int64_t>(1, kTaskBytes / (s.count * s.bytes));
  dynamic_items(workers(threads, s.outer * s.count * s.bytes), (s.outer + group - 1) / group, [&](int64_t task) {
    for (int64_t o = task * group, end = std::min(s.outer, o + group); o < end; o++) {
      Item* to = reinterpret_cast<Item*>(s.whole) + o * s.length;
      const Item* from = reinterpret_cast<const Item*>(s.selected) + o * s.count;
      for (int64_t j = 0; j < s.count; j++) {
        Item& place = to[s.indices[j]];
        place = kAdds ? static_cast<Item>(place + from[j]) : from[j];
      }
    }
  });
}

// Tasks own blocks of `outer` and columns of `inner`.
template <class Item, bool kAdds>
void scatter_elements(const Selection& s, int threads) {
  constexpr int64_t kColumns = 256;
  const int64_t blocks = (s.inner + kColumns - 1) / kColumns;
  dynamic_items(workers(threads, s.outer * s.count * s.inner * s.bytes), s.outer * blocks, [&](int64_t task) {
    const int64_t o = task / blocks, first = task % blocks * kColumns, end = std::min(s.inner, first + kColumns);
    Item* to = reinterpret_cast<Item*>(s.whole) + o * s.length * s.inner;
    const int64_t start = o * s.count * s.inner;
    const Item* from = reinterpret_cast<const Item*>(s.selected) + start;
    for (int64_t j = 0; j < s.count; j++)
      for (int64_t i = first; i < end; i++) {
        Item& place = to[s.indices[start + j * s.inner + i] * s.inner + i];
        place = kAdds ? static_cast<Item>(place + from[j * s.inner + i]) : from[j * s.inner + i];
      }
  });
}

template <class Item, bool kAdds>
void scatter_all(const Selection& s, int threads) {
  if (s.per_element) return scatter_elements<Item, kAdds>(s, threads);
  scatter_items<Item, kAdds>(s, threads);
}

// ---- the largest values ----

// What ranks an element: of two keys the larger one is better. NaN is larger than every number; of equal values the
// first one is better.
template <class Value>
struct Key;

// The bits of the value, made to grow with it, above the inverted index.
template <>
struct Key<float> {
  uint64_t rank;
  static Key of(float value, int64_t index) {
    value += 0.0f;  // -0 is 0
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    bits = value != value ? UINT32_MAX : bits >> 31 ? ~bits : bits | 1u << 31;
    return {uint64_t{bits} << 32 | ~static_cast<uint32_t>(index)};
  }
  int64_t index() const { return ~static_cast<uint32_t>(rank); }
  bool operator<(const Key& other) const { return rank > other.rank; }  // better ones first
};

template <>
struct Key<int64_t> {
  int64_t value, place;
  static Key of(int64_t value, int64_t index) { return {value, index}; }
  int64_t index() const { return place; }
  bool operator<(const Key& other) const {
    return value > other.value || (value == other.value && place < other.place);
  }
};

OPENBNNS_INLINE bool is_nan(float v) { return v != v; }
OPENBNNS_INLINE bool is_nan(int64_t) { return false; }

// Next index from i on of a value that may beat `limit`, which is not NaN.
OPENBNNS_INLINE int64_t next_larger(const float* x, int64_t i, int64_t length, float limit) {
  const Vec bound = splat(limit);
  for (; i + 4 * kWidth <= length; i += 4 * kWidth) {
    const IntVec small = (load(x + i) <= bound) & (load(x + i + kWidth) <= bound) &
                         (load(x + i + 2 * kWidth) <= bound) & (load(x + i + 3 * kWidth) <= bound);
    if (__builtin_expect(math::any(~small), 0)) break;
  }
  while (i + kWidth <= length && !math::any(~(load(x + i) <= bound))) i += kWidth;
  while (i < length && x[i] <= limit) i++;
  return i;
}
OPENBNNS_INLINE int64_t next_larger(const int64_t* x, int64_t i, int64_t length, int64_t limit) {
  while (i < length && x[i] <= limit) i++;
  return i;
}

// The k best of a short row, best first: kept in order from the start.
template <class Value>
OPENBNNS_INLINE void few_of_row(const Value* x, int64_t length, int64_t k, Key<Value>* best) {
  int64_t found = 0;
  for (int64_t i = 0; i < length; i++) {
    if (found == k) {
      const Value limit = x[best[k - 1].index()];
      if (is_nan(limit) || (i = next_larger(x, i, length, limit)) == length) return;
    }
    const Key<Value> key = Key<Value>::of(x[i], i);
    int64_t place = found < k ? found++ : k - 1;
    for (; place > 0 && key < best[place - 1]; place--) best[place] = best[place - 1];
    best[place] = key;
  }
}

// ---- a large part of a row of floats, found without branches that depend on the values ----

constexpr int64_t kLargePart = 16,
                  kRanked = 256;  // rows of up to kLargePart times k; lists that are ranked by counting

typedef uint64_t RankVec __attribute__((vector_size(kWidth * 4)));
constexpr int64_t kRanks = kWidth / 2;

// The first halves of keys, as signed integers.
OPENBNNS_INLINE IntVec signed_keys(Vec v) {
  v += 0.0f;
  const IntVec b = bits(v);
  const IntVec key = b < 0 ? b ^ splat_int(INT32_MAX) : b;
  return v != v ? splat_int(INT32_MAX) : key;
}

// How many of `count` keys, whole vectors of them, are at least `limit`.
OPENBNNS_INLINE int64_t at_least(const IntVec* keys, int64_t vectors, int32_t limit) {
  IntVec count{};
  for (int64_t i = 0; i < vectors; i++) count -= keys[i] >= splat_int(limit);
  int64_t total = 0;
  for (int lane = 0; lane < kWidth; lane++) total += count[lane];
  return total;
}

// Best first: the place of a key is the number of those that are better.
inline void rank_keys(Key<float>* best, int64_t k, int64_t* indices, int64_t step) {
  RankVec padded[kRanked / kRanks + 1] = {};
  std::memcpy(padded, best, static_cast<size_t>(k) * sizeof(uint64_t));
  for (int64_t i = 0; i < k; i++) {
    RankVec better{};
    const RankVec own = RankVec{} + best[i].rank;
    for (int64_t j = 0; j * kRanks < k; j++) better -= static_cast<RankVec>(padded[j] > own);
    uint64_t place = 0;
    for (int lane = 0; lane < kRanks; lane++) place += better[lane];
    indices[static_cast<int64_t>(place) * step] = best[i].index();
  }
}

void large_part_of_row(const float* x, int64_t length, int64_t k, Key<float>* best, IntVec* keys, int64_t* indices,
                       int64_t step) {
  const int64_t vectors = (length + kWidth - 1) / kWidth, rest = length - (vectors - 1) * kWidth;
  for (int64_t i = 0; i + 1 < vectors; i++) keys[i] = signed_keys(load(x + i * kWidth));
  keys[vectors - 1] = signed_keys(load_partial(x + length - rest, rest));
  for (int64_t lane = rest; lane < kWidth; lane++) keys[vectors - 1][lane] = INT32_MIN;
  // The k-th largest key, from its highest bit on; the smallest integer is that of no number.
  uint32_t limit = 0;
  auto as_key = [](uint32_t biased) { return static_cast<int32_t>(biased ^ 1u << 31); };
  for (int bit = 31; bit >= 0; bit--)
    if (at_least(keys, vectors, as_key(limit | 1u << bit)) >= k) limit |= 1u << bit;
  const int32_t bound = as_key(limit);
  int64_t equal = k - (bound == INT32_MAX ? 0 : at_least(keys, vectors, bound + 1)), found = 0;
  const auto* key = reinterpret_cast<const int32_t*>(keys);
  for (int64_t i = 0; found < k; i++) {
    best[found].rank = uint64_t{static_cast<uint32_t>(key[i]) ^ 1u << 31} << 32 | ~static_cast<uint32_t>(i);
    const int64_t same = key[i] == bound;
    found += static_cast<int64_t>(key[i] > bound) | (same & static_cast<int64_t>(equal > 0));
    equal -= same;
  }
  if (k <= kRanked) return rank_keys(best, k, indices, step);
  std::sort(best, best + k);
  for (int64_t n = 0; n < k; n++) indices[n * step] = best[n].index();
}

// The k best of x, best first. Candidates gather in a buffer of more than k keys; whenever it is full, the k best stay,
// and the worst of those is the limit that later values have to exceed.
template <class Value>
void best_of_row(const Value* x, int64_t length, int64_t k, Key<Value>* buffer, int64_t capacity, IntVec* keys,
                 int64_t* indices, int64_t step) {
  constexpr int64_t kFew = 16, kShort = 4096;  // rows that grow need k steps for each element
  if (k <= kFew && length <= kShort) {
    few_of_row(x, length, k, buffer);
    for (int64_t n = 0; n < k; n++) indices[n * step] = buffer[n].index();
    return;
  }
  if constexpr (std::is_same_v<Value, float>)
    if (length <= kLargePart * k && length <= kShort)
      return large_part_of_row(x, length, k, buffer, keys, indices, step);
  int64_t found = 0, i = 0;
  for (; i < length && found < capacity; i++, found++) buffer[found] = Key<Value>::of(x[i], i);
  while (i < length) {
    std::nth_element(buffer, buffer + k - 1, buffer + found);
    found = k;
    const Value limit = x[buffer[k - 1].index()];
    if (is_nan(limit)) break;  // nothing that follows is better
    while (found < capacity && (i = next_larger(x, i, length, limit)) < length) {
      buffer[found++] = Key<Value>::of(x[i], i);
      i++;
    }
  }
  if (found > k) std::nth_element(buffer, buffer + k - 1, buffer + found);
  std::sort(buffer, buffer + k);
  for (int64_t n = 0; n < k; n++) indices[n * step] = buffer[n].index();
}

template <class Value>
void best_of_all(const TopKShape& s, const Value* x, int64_t* indices, int threads) {
  const int64_t capacity = std::min(s.length, 2 * s.k + 256);
  const int64_t columns = std::min<int64_t>(s.inner, 16), strips = (s.inner + columns - 1) / columns;
  const int64_t tasks = s.outer * strips, group = std::max<int64_t>(1, kTaskElements / (s.length * columns));
  dynamic_items(workers(threads, tasks * s.length * columns * 4), (tasks + group - 1) / group, [&](int64_t item) {
    auto* buffer = reinterpret_cast<Key<Value>*>(
        scratch(kOutputTile, static_cast<size_t>(capacity) * (sizeof(Key<Value>) / sizeof(float))));
    auto* keys = reinterpret_cast<IntVec*>(scratch(kGradientBand, static_cast<size_t>(s.length + kWidth)));
    auto* rows = s.inner == 1 ? nullptr
                              : reinterpret_cast<Value*>(scratch(kInputBand, static_cast<size_t>(columns * s.length) *
                                                                                 (sizeof(Value) / sizeof(float))));
    for (int64_t task = item * group, end = std::min(tasks, task + group); task < end; task++) {
      const int64_t o = task / strips, first = task % strips * columns, count = std::min(columns, s.inner - first);
      const Value* from = x + o * s.length * s.inner + first;
      int64_t* to = indices + o * s.k * s.inner + first;
      if (s.inner == 1) {
        best_of_row(from, s.length, s.k, buffer, capacity, keys, to, 1);
        continue;
      }
      for (int64_t l = 0; l < s.length; l++)
        for (int64_t c = 0; c < count; c++) rows[c * s.length + l] = from[l * s.inner + c];
      for (int64_t c = 0; c < count; c++)
        best_of_row(rows + c * s.length, s.length, s.k, buffer, capacity, keys, to + c, s.inner);
    }
  });
}

// Whether fewer than k values along the axis are larger than the tested one.
template <class Value>
void among_best(const TopKShape& s, const Value* x, const int64_t* tested, uint8_t* y, int threads) {
  const int64_t elements = s.outer * s.length * s.inner;
  constexpr int64_t kColumns = 64;
  const int64_t strips = (s.inner + kColumns - 1) / kColumns;
  dynamic_items(workers(threads, elements * 4), s.outer * strips, [&](int64_t task) {
    const int64_t o = task / strips, first = task % strips * kColumns, count = std::min(kColumns, s.inner - first);
    const Value* from = x + o * s.length * s.inner + first;
    const int64_t* index = tested + o * s.inner + first;
    if (s.inner == 1) {
      const Value value = from[*index];
      const bool number = !is_nan(value);
      int64_t larger = 0;
      for (int64_t l = 0; l < s.length; l++) larger += (from[l] > value) | (is_nan(from[l]) & number);
      y[o] = larger < s.k;
      return;
    }
    Value value[kColumns];
    int64_t larger[kColumns] = {};
    for (int64_t c = 0; c < count; c++) value[c] = from[index[c] * s.inner + c];
    for (int64_t l = 0; l < s.length; l++)
      for (int64_t c = 0; c < count; c++) {
        const Value v = from[l * s.inner + c];
        larger[c] += v > value[c] || (is_nan(v) && !is_nan(value[c]));
      }
    for (int64_t c = 0; c < count; c++) y[o * s.inner + first + c] = larger[c] < s.k;
  });
}

}  // namespace

void gather(const Selection& s, int threads) {
  if (!s.per_element && s.inner > 1) return gather_rows(s, threads);
  const bool items = !s.per_element;
  switch (s.bytes) {
    case 1:
      return items ? gather_items<uint8_t>(s, threads) : gather_elements<uint8_t>(s, threads);
    case 2:
      return items ? gather_items<uint16_t>(s, threads) : gather_elements<uint16_t>(s, threads);
    case 4:
      return items ? gather_items<uint32_t>(s, threads) : gather_elements<uint32_t>(s, threads);
    default:
      return items ? gather_items<uint64_t>(s, threads) : gather_elements<uint64_t>(s, threads);
  }
}

void scatter(const Selection& s, Scattering kind, int threads) {
  const bool rows = !s.per_element && s.inner > 1;
  if (kind == Scattering::kAddFloats) {
    if (!rows) return scatter_all<float, true>(s, threads);
    return scatter_rows(s, threads, [&](char* to, const char* from) {
      add_row(reinterpret_cast<float*>(to), reinterpret_cast<const float*>(from), s.inner);
    });
  }
  if (kind == Scattering::kAddIntegers) {
    if (!rows) return scatter_all<uint64_t, true>(s, threads);
    return scatter_rows(s, threads, [&](char* to, const char* from) {
      add_row(reinterpret_cast<uint64_t*>(to), reinterpret_cast<const uint64_t*>(from), s.inner);
    });
  }
  if (rows) {
    const int64_t row = s.inner * s.bytes;
    return scatter_rows(s, threads, [&](char* to, const char* from) { copy_row(to, from, row); });
  }
  switch (s.bytes) {
    case 1:
      return scatter_all<uint8_t, false>(s, threads);
    case 2:
      return scatter_all<uint16_t, false>(s, threads);
    case 4:
      return scatter_all<uint32_t, false>(s, threads);
    default:
      return scatter_all<uint64_t, false>(s, threads);
  }
}

namespace {

// Whether all numbers, each plus `shift`, are at most `largest`, in which the highest bit is not set: then neither is
// it in a number that is small enough, nor in what is between that and the largest.
template <class Index>
bool all_within(const Index* numbers, int64_t count, Index shift, Index largest) {
  typedef Index Lanes __attribute__((vector_size(sizeof(Vec))));
  constexpr int64_t kLanes = sizeof(Vec) / sizeof(Index);
  Lanes lanes{};
  int64_t i = 0;
  for (Lanes v; i + kLanes <= count; i += kLanes) {
    std::memcpy(&v, numbers + i, sizeof v);
    v += shift;
    lanes |= v | (largest - v);
  }
  Index all = 0;
  for (int64_t k = 0; k < kLanes; k++) all |= lanes[k];
  for (; i < count; i++) {
    const auto v = static_cast<Index>(numbers[i] + shift);
    all |= v | (largest - v);
  }
  return all >> (8 * sizeof(Index) - 1) == 0;
}

// Every index is below the limit, or has all bits set where that stands for "none": 0 once 1 is added.
template <class Index>
bool all_below(const Index* indices, int64_t count, int64_t limit, bool none) {
  const uint64_t end = static_cast<uint64_t>(limit) + none;
  const auto shift = static_cast<Index>(none);
  if (end > 0 && (end - 1) >> (8 * sizeof(Index) - 1) == 0)
    return all_within(indices, count, shift, static_cast<Index>(end - 1));
  return std::all_of(indices, indices + count, [=](Index i) { return static_cast<Index>(i + shift) < end; });
}

}  // namespace

bool indices_below(const void* indices, int bytes, int64_t count, int64_t limit, bool none) {
  if (bytes == 8) return all_below(static_cast<const uint64_t*>(indices), count, limit, none);
  return all_below(static_cast<const uint32_t*>(indices), count, limit, none);
}

int64_t first_outside(const int64_t* indices, int64_t count, int64_t limit) {
  constexpr int64_t kBlock = 1024;  // looked at as a whole first
  for (int64_t first = 0; first < count; first += kBlock) {
    const int64_t last = std::min(count, first + kBlock);
    if (indices_below(indices + first, 8, last - first, limit, false)) continue;
    return std::find_if(indices + first, indices + last, [=](int64_t i) { return i < 0 || i >= limit; }) - indices;
  }
  return -1;
}

void top_k(const TopKShape& s, const void* x, int64_t* indices, int threads) {
  if (s.integers) return best_of_all(s, static_cast<const int64_t*>(x), indices, threads);
  best_of_all(s, static_cast<const float*>(x), indices, threads);
}

void in_top_k(const TopKShape& s, const void* x, const int64_t* tested, uint8_t* y, int threads) {
  if (s.integers) return among_best(s, static_cast<const int64_t*>(x), tested, y, threads);
  among_best(s, static_cast<const float*>(x), tested, y, threads);
}

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
