// Permute: axis k of the output is axis permutation[k] of the input; backward moves dy by the inverse permutation.
//
// The result is written in order. Where the fastest axis stays the fastest, whole rows are copied. Otherwise tiles of
// the two axes that are fastest on either side are transposed in a buffer that stays in the first cache, and leave it
// in whole rows, past the caches when the result is large. Elements of 1, 2, 4 and 8 bytes are moved as they are.
#include <cstring>
#include <vector>

#include "common/pieces.h"
#include "common/rows.h"
#include "common/transpose.h"
#include "kernels/kernels.h"
#include "simd/stream.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace {

constexpr int64_t kTile = 4096;  // elements of a tile, at most

// One axis of the result: its extent, and the distance of neighbours in the source and in the result.
struct Axis {
  int64_t size, step, to_step = 1;
};

// Goes through the indices of some axes, from any of them on.
class Walk {
 public:
  Walk(const std::vector<Axis>& axes, int64_t start) : axes_(axes) {
    for (size_t a = axes.size(); a-- > 0; start /= axes[a].size) {
      index_[a] = start % axes[a].size;
      from += index_[a] * axes[a].step;
      to += index_[a] * axes[a].to_step;
    }
  }
  void next() {
    for (size_t a = axes_.size(); a-- > 0;) {
      const Axis& axis = axes_[a];
      from += axis.step;
      to += axis.to_step;
      if (++index_[a] < axis.size) return;
      from -= axis.size * axis.step;
      to -= axis.size * axis.to_step;
      index_[a] = 0;
    }
  }
  int64_t from = 0, to = 0;

 private:
  static constexpr size_t kMaxRank = 8;
  const std::vector<Axis>& axes_;
  int64_t index_[kMaxRank];
};

// The axes of the result from slowest to fastest, those merged that the source keeps together.
std::vector<Axis> merged_axes(const std::vector<int64_t>& source, const std::vector<int64_t>& permutation) {
  std::vector<int64_t> step(source.size(), 1);
  for (size_t a = source.size() - 1; a-- > 0;) step[a] = step[a + 1] * source[a + 1];
  std::vector<Axis> axes;
  for (int64_t from : permutation) {
    const Axis axis{source[static_cast<size_t>(from)], step[static_cast<size_t>(from)]};
    if (axis.size == 1) continue;
    if (!axes.empty() && axes.back().step == axis.size * axis.step)
      axes.back() = {axes.back().size * axis.size, axis.step};
    else
      axes.push_back(axis);
  }
  if (axes.empty()) axes.push_back({1, 1});
  return axes;
}

// How results are stored: plainly, past the caches, or added to floats.
enum class Store { kPlain, kStream, kAdd };

__attribute__((noinline)) void copy_bytes(void* to, const void* from, int64_t bytes) { copy_row(to, from, bytes); }

template <class Item>
OPENBNNS_INLINE void put_row(Store store, Item* to, const Item* from, int64_t count) {
  if constexpr (std::is_same_v<Item, float>) {
    if (store == Store::kStream)
      return over_vectors<true>(
          to, count, [&](int64_t i) { store_stream(to + i, load(from + i)); },
          [&](int64_t i, int64_t lanes) { store_partial(to + i, load_partial(from + i, lanes), lanes); });
    if (store == Store::kAdd) return add_to(to, from, count);
  }
  copy_bytes(to, from, count * static_cast<int64_t>(sizeof(Item)));
}

// tile[q][l] = from[l * step + q], for `rows` q and `columns` l
template <class Item>
void transpose_items(const Item* from, int64_t step, Item* tile, int64_t rows, int64_t columns, const Item*) {
  for (int64_t q = 0; q < rows; q++)
    for (int64_t l = 0; l < columns; l++) tile[q * columns + l] = from[l * step + q];
}

#if defined(__AVX2__)
// tile[q * columns + l] = from[l * step + q] for q < rows and l < count, both kWidth at most, by vectors with a mask
__attribute__((noinline)) void transpose_part(const float* from, int64_t step, int64_t rows, int64_t count, float* tile,
                                              int64_t columns) {
  Vec v[kWidth];
  OPENBNNS_UNROLL for (int l = 0; l < kWidth; l++) v[l] = l < count ? load_partial(from + l * step, rows) : Vec{};
  transpose(v);
  OPENBNNS_UNROLL for (int q = 0; q < kWidth; q++) if (q < rows) store_partial(tile + q * columns, v[q], count);
}
#endif

// Floats by squares. Up to kWidth - 1 floats behind the tile are overwritten. A tile from `next` on is prefetched.
__attribute__((noinline)) void transpose_items(const float* from, int64_t step, float* tile, int64_t rows,
                                               int64_t columns, const float* next) {
  const int64_t whole = columns / kWidth * kWidth;
  int64_t q = 0;
  for (; q + kWidth <= rows; q += kWidth) {
    float* to = tile + q * columns;
#if defined(__AVX2__)
    if (whole < columns) transpose_part(from + whole * step + q, step, kWidth, columns - whole, to + whole, columns);
#else
    // The last columns first: they run over into the rows that follow.
    if (whole < columns) transpose_few_rows(from + whole * step + q, step, columns - whole, to + whole, columns);
#endif
    for (int64_t l = 0; l < whole; l += kWidth) {
      for (int64_t i = 0; i < kWidth; i++) __builtin_prefetch(next + (l + i) * step + q);
      transpose_square(from + l * step + q, step, to + l, columns);
    }
  }
#if defined(__AVX2__)
  for (; q + 4 < rows; q += kWidth)
    for (int64_t l = 0; l < columns; l += kWidth)
      transpose_part(from + l * step + q, step, std::min<int64_t>(kWidth, rows - q),
                     std::min<int64_t>(kWidth, columns - l), tile + q * columns + l, columns);
#endif
  for (; q < rows; q += 4) {
    const int64_t few = std::min<int64_t>(4, rows - q);
    int64_t l = 0;
    // As long as what is read beyond the wanted rows is still source of this tile.
    for (; (l + kWidth - 1) * step + q + kWidth <= (columns - 1) * step + rows; l += kWidth)
      transpose_few_columns(from + l * step + q, step, few, tile + q * columns + l, columns);
    for (; l < columns; l++)
      for (int64_t i = 0; i < few; i++) tile[(q + i) * columns + l] = from[l * step + q + i];
  }
}

// The moves of one direction, for items of one size.
template <class Item>
class Mover {
 public:
  Mover(const std::vector<int64_t>& source, const std::vector<int64_t>& permutation)
      : axes_(merged_axes(source, permutation)) {
    for (size_t a = axes_.size(); a-- > 0; count_ *= axes_[a].size) axes_[a].to_step = count_;
    tiled_ = axes_.size();
    if (axes_.back().step != 1)
      for (size_t a = 0; a < axes_.size(); a++)
        if (axes_[a].step == 1) tiled_ = a;
    for (size_t a = 0; a + 1 < axes_.size(); a++)
      if (a != tiled_) outer_.push_back(axes_[a]);
  }

  __attribute__((noinline)) void run(const Call& call, int from, int to) const {
    const auto* x = reinterpret_cast<const Item*>(call.address[from]);
    auto* y = reinterpret_cast<Item*>(call.address[to]);
    Store store = Store::kPlain;
    if (std::is_same_v<Item, float>)
      store = call.adds(to) ? Store::kAdd : call.batch * count_ >= kStreamFrom ? Store::kStream : Store::kPlain;
    if (tiled_ == axes_.size())
      copy_rows(store, call, x, call.stride[from], y, call.stride[to]);
    else
      transpose(store, call, x, call.stride[from], y, call.stride[to]);
  }

 private:
  void copy_rows(Store store, const Call& call, const Item* x, int64_t x_stride, Item* y, int64_t y_stride) const {
    const int64_t length = axes_.back().size, rows = count_ / length, total = call.batch * rows;
    const int64_t piece = std::min(length, kPiece), pieces = (length + piece - 1) / piece;
    const int workers = workers_for(call, total * length);
    const int64_t together = rows_together(total, length, workers);
    dynamic_items(workers, (total + together - 1) / together * pieces, [&](int64_t item) {
      const int64_t first = item % pieces * piece, count = std::min(piece, length - first);
      int64_t i = item / pieces * together, n = i / rows, r = i % rows;
      Walk at(outer_, r);
      for (const int64_t end = std::min(total, i + together); i < end; i++, at.next()) {
        put_row(store, y + n * y_stride + at.to + first, x + n * x_stride + at.from + first, count);
        if (++r == rows) r = 0, n++;
      }
      if (store == Store::kStream) finish_stream();
    });
  }

  // Tiles of `high` indices of the source's fastest axis by `wide` of the result's.
  void transpose(Store store, const Call& call, const Item* x, int64_t x_stride, Item* y, int64_t y_stride) const {
    const Axis &q = axes_[tiled_], &l = axes_.back();
    const int64_t wide = std::min<int64_t>(l.size, 256),
                  high = std::min(q.size, std::max<int64_t>(16, kTile / wide / 16 * 16));
    const int64_t across = (l.size + wide - 1) / wide, down = (q.size + high - 1) / high;
    const int64_t outer = count_ / (q.size * l.size), tiles = outer * down * across;
    const int64_t total = call.batch * tiles;
    const int workers = workers_for(call, call.batch * count_);
    const int64_t together = rows_together(total, high * wide, workers);
    dynamic_items(workers, (total + together - 1) / together, [&](int64_t item) {
      alignas(64) Item tile[kTile + kWidth];
      int64_t t = item * together, n = t / tiles, r = t % tiles, first_l = r % across * wide,
              first_q = r / across % down * high;
      Walk at(outer_, r / (across * down));
      auto source = [&] { return x + n * x_stride + at.from + first_l * l.step + first_q; };
      const Item* next = source();
      for (const int64_t end = std::min(total, t + together); t < end; t++) {
        const int64_t columns = std::min(wide, l.size - first_l), rows = std::min(high, q.size - first_q);
        const Item* from = next;
        Item* to = y + n * y_stride + at.to + first_q * q.to_step + first_l;
        if (++r == tiles) r = 0, n++;
        if ((first_l += wide) >= l.size) {
          first_l = 0;
          if ((first_q += high) >= q.size) {
            first_q = 0;
            at.next();
          }
        }
        next = source();
        transpose_items(from, l.step, tile, rows, columns, next);
        if (q.to_step == columns) {
          put_row(store, to, tile, rows * columns);
        } else {
          for (int64_t i = 0; i < rows; i++) put_row(store, to + i * q.to_step, tile + i * columns, columns);
        }
      }
      if (store == Store::kStream) finish_stream();
    });
  }

  std::vector<Axis> axes_, outer_;  // outer_: without the last and the tiled one
  int64_t count_ = 1;
  size_t tiled_;  // the axis that is fastest in the source; axes_.size() if that is the last one of the result too
};

std::vector<int64_t> inverse(const std::vector<int64_t>& permutation) {
  std::vector<int64_t> back(permutation.size());
  for (size_t k = 0; k < permutation.size(); k++) back[static_cast<size_t>(permutation[k])] = static_cast<int64_t>(k);
  return back;
}

std::vector<int64_t> permuted(const std::vector<int64_t>& size, const std::vector<int64_t>& permutation) {
  std::vector<int64_t> result;
  for (int64_t from : permutation) result.push_back(size[static_cast<size_t>(from)]);
  return result;
}

template <class Item>
class PermutePlan : public Plan {
 public:
  explicit PermutePlan(const PermuteShape& s)
      : forward_(s.size, s.permutation), backward_(permuted(s.size, s.permutation), inverse(s.permutation)) {}

  void forward(const Call& call) override { forward_.run(call, X, Y); }
  void backward(const Call& call) override {
    if (call.address[DX]) backward_.run(call, DY, DX);
  }

 private:
  const Mover<Item> forward_, backward_;
};

}  // namespace

std::unique_ptr<Plan> make_permute(const PermuteShape& shape) {
  switch (shape.item_bytes) {
    case 1:
      return std::make_unique<PermutePlan<uint8_t>>(shape);
    case 2:
      return std::make_unique<PermutePlan<uint16_t>>(shape);
    case 8:
      return std::make_unique<PermutePlan<uint64_t>>(shape);
    default:
      return std::make_unique<PermutePlan<float>>(shape);
  }
}

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
