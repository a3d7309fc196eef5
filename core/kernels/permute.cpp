// Permute: axis k of the output is axis permutation[k] of the input; backward moves dy by the inverse permutation.
//
// The result is written in order. Where the fastest axis stays the fastest, whole rows are copied. Otherwise tiles of
// the two axes that are fastest on either side are transposed in a buffer that stays in the first cache, and leave it
// in whole rows, past the caches when the result is large. Elements of 1, 2, 4 and 8 bytes are moved as they are.
#include <cstring>
#include <vector>

#include "kernels/makers.h"
#include "kernels/pieces.h"
#include "kernels/transpose.h"
#include "simd/stream.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace {

constexpr int64_t kTile = 4096;  // elements of a tile, at most

// One axis of the result: its extent, and the distance of neighbours in the source.
struct Axis {
  int64_t size, step;
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

template <class Item, Store kStore>
void put_row(Item* to, const Item* from, int64_t count) {
  if constexpr (kStore == Store::kStream) {
    const float* x = reinterpret_cast<const float*>(from);
    float* y = reinterpret_cast<float*>(to);
    over_vectors<true>(
        y, count, [&](int64_t i) { store_stream(y + i, load(x + i)); },
        [&](int64_t i, int64_t lanes) { store_partial(y + i, load_partial(x + i, lanes), lanes); });
  } else if constexpr (kStore == Store::kAdd) {
    add_to(to, from, count);
  } else {
    std::memcpy(to, from, static_cast<size_t>(count) * sizeof(Item));
  }
}

// tile[q][l] = from[l * step + q], for `rows` q and `columns` l
template <class Item>
void transpose_items(const Item* from, int64_t step, Item* tile, int64_t rows, int64_t columns) {
  for (int64_t q = 0; q < rows; q++)
    for (int64_t l = 0; l < columns; l++) tile[q * columns + l] = from[l * step + q];
}

// Floats by squares. Up to kWidth - 1 floats behind the tile are overwritten.
void transpose_items(const float* from, int64_t step, float* tile, int64_t rows, int64_t columns) {
  const int64_t whole = columns / kWidth * kWidth;
  int64_t q = 0;
  for (; q + kWidth <= rows; q += kWidth) {
    float* to = tile + q * columns;
    // The last columns first: they run over into the rows that follow.
    if (whole < columns) transpose_few_rows(from + whole * step + q, step, columns - whole, to + whole, columns);
    for (int64_t l = 0; l < whole; l += kWidth) transpose_square(from + l * step + q, step, to + l, columns);
  }
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
    int64_t step = 1;
    steps_.resize(axes_.size());
    for (size_t a = axes_.size(); a-- > 0; step *= axes_[a].size) steps_[a] = step;
    count_ = step;
    tiled_ = axes_.size();
    if (axes_.back().step != 1)
      for (size_t a = 0; a < axes_.size(); a++)
        if (axes_[a].step == 1) tiled_ = a;
  }

  void run(const Call& call, int from, int to) const {
    const auto* x = reinterpret_cast<const Item*>(call.address[from]);
    auto* y = reinterpret_cast<Item*>(call.address[to]);
    const bool large = sizeof(Item) == 4 && call.batch * count_ >= kStreamFrom;
    if constexpr (std::is_same_v<Item, float>) {
      if (call.adds(to)) return run_with<Store::kAdd>(call, x, call.stride[from], y, call.stride[to]);
      if (large) return run_with<Store::kStream>(call, x, call.stride[from], y, call.stride[to]);
    }
    run_with<Store::kPlain>(call, x, call.stride[from], y, call.stride[to]);
  }

 private:
  template <Store kStore>
  void run_with(const Call& call, const Item* x, int64_t x_stride, Item* y, int64_t y_stride) const {
    if (tiled_ == axes_.size())
      copy_rows<kStore>(call, x, x_stride, y, y_stride);
    else
      transpose<kStore>(call, x, x_stride, y, y_stride);
    if (kStore == Store::kStream) finish_stream();
  }

  // Where the elements of the axes before `last` but not `tiled_` begin, for index i over them.
  struct Place {
    int64_t from = 0, to = 0;
  };
  Place place(int64_t i) const {
    Place p;
    for (size_t a = axes_.size() - 1; a-- > 0;) {
      if (a == tiled_) continue;
      const int64_t index = i % axes_[a].size;
      i /= axes_[a].size;
      p.from += index * axes_[a].step;
      p.to += index * steps_[a];
    }
    return p;
  }

  template <Store kStore>
  void copy_rows(const Call& call, const Item* x, int64_t x_stride, Item* y, int64_t y_stride) const {
    const int64_t length = axes_.back().size, rows = count_ / length;
    for_each_piece(call, call.batch * rows, length, [&](int64_t item, int64_t first, int64_t count) {
      const int64_t n = item / rows;
      const Place p = place(item % rows);
      put_row<Item, kStore>(y + n * y_stride + p.to + first, x + n * x_stride + p.from + first, count);
      if (kStore == Store::kStream) finish_stream();
    });
  }

  // Tiles of `high` indices of the source's fastest axis by `wide` of the result's.
  template <Store kStore>
  void transpose(const Call& call, const Item* x, int64_t x_stride, Item* y, int64_t y_stride) const {
    const Axis &q = axes_[tiled_], &l = axes_.back();
    const int64_t wide = std::min<int64_t>(l.size, 256),
                  high = std::min(q.size, std::max<int64_t>(16, kTile / wide / 16 * 16));
    const int64_t across = (l.size + wide - 1) / wide, down = (q.size + high - 1) / high;
    const int64_t outer = count_ / (q.size * l.size), tiles = outer * down * across;
    const int64_t together = std::max<int64_t>(1, kPiece / (high * wide)), total = call.batch * tiles;
    dynamic_items(workers_for(call, call.batch * count_), (total + together - 1) / together, [&](int64_t item) {
      alignas(64) Item tile[kTile + kWidth];
      for (int64_t t = item * together, end = std::min(total, t + together); t < end; t++) {
        const int64_t n = t / tiles, r = t % tiles, first_l = r % across * wide, first_q = r / across % down * high;
        const int64_t columns = std::min(wide, l.size - first_l), rows = std::min(high, q.size - first_q);
        const Place p = place(r / (across * down));
        transpose_items(x + n * x_stride + p.from + first_l * l.step + first_q, l.step, tile, rows, columns);
        Item* to = y + n * y_stride + p.to + first_q * steps_[tiled_] + first_l;
        if (steps_[tiled_] == columns) {
          put_row<Item, kStore>(to, tile, rows * columns);
        } else {
          for (int64_t i = 0; i < rows; i++)
            put_row<Item, kStore>(to + i * steps_[tiled_], tile + i * columns, columns);
        }
      }
      if (kStore == Store::kStream) finish_stream();
    });
  }

  const std::vector<Axis> axes_;
  std::vector<int64_t> steps_;  // of the result
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
