// Unsigned bytes between the convolutions and products of a quantized network: made of floats, added, pooled.
#include "kernels/quantization/bytes.h"

#include <cstring>

#include "common/byte_blocks.h"
#include "common/pieces.h"
#include "common/scratch_uses.h"
#include "common/stored_rows.h"
#include "kernels/kernels.h"
#include "runtime/scratch.h"
#include "simd/stored_numbers.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace {

typedef uint8_t ByteVec __attribute__((vector_size(kWidth)));

// body(first, count) on pieces of so many elements.
template <class Body>
void over_pieces(int64_t count, int threads, Body body) {
  const int64_t pieces = (count + kPiece - 1) / kPiece;
  dynamic_items(worthy_workers(threads, count, kPiece), pieces,
                [&](int64_t i) { body(i * kPiece, std::min(kPiece, count - i * kPiece)); });
}

OPENBNNS_INLINE Vec values(const uint8_t* p) { return __builtin_convertvector(load_bytes(p), Vec); }

OPENBNNS_INLINE void add_some(const ByteSum& s, const uint8_t* a, const uint8_t* b, uint8_t* y) {
  const Vec sum = splat(s.b_factor) * values(b) + (splat(s.a_factor) * values(a) + splat(s.term));
  const Vec low = (sum > 0) ? sum : Vec{}, within = (low < 255) ? low : splat(255);
  const auto bytes = __builtin_convertvector(nearest_integers(within), ByteVec);
  std::memcpy(y, &bytes, sizeof bytes);
}

// to[i] = the largest of a[i] and b[i]; to may be one of them.
void take_largest(const uint8_t* a, const uint8_t* b, int64_t count, uint8_t* to) {
  constexpr int64_t kTogether = 32;
  typedef uint8_t Bytes __attribute__((vector_size(kTogether)));
  const auto take = [&](int64_t i) {
    Bytes x, y;
    std::memcpy(&x, a + i, sizeof x);
    std::memcpy(&y, b + i, sizeof y);
    x = (x > y) ? x : y;
    std::memcpy(to + i, &x, sizeof x);
  };
  int64_t i = 0;
  for (; i + kTogether <= count; i += kTogether) take(i);
  if (i == count) return;
  if (count >= kTogether) return take(count - kTogether);  // some once more, which changes nothing
  for (; i < count; i++) to[i] = std::max(a[i], b[i]);
}

// to[i] = the largest of from[i stride ...], kernel of them. halves: room for [2][count + kernel / 2], for stride 2.
void largest_along(const uint8_t* from, int64_t kernel, int64_t stride, int64_t count, uint8_t* halves, uint8_t* to) {
  if (stride == 2) {  // those at even and at odd places, so that neighbours are neighbours
    const int64_t half = count + kernel / 2;
    for (int64_t i = 0; i < half; i++) {
      uint16_t pair;
      std::memcpy(&pair, from + 2 * i, sizeof pair);
      halves[i] = static_cast<uint8_t>(pair);
      halves[half + i] = static_cast<uint8_t>(pair >> 8);
    }
    if (kernel == 1) std::copy_n(halves, count, to);
    for (int64_t k = 1; k < kernel; k++) take_largest(k == 1 ? halves : to, halves + k % 2 * half + k / 2, count, to);
    return;
  }
  for (int64_t i = 0; i < count; i++) to[i] = from[i * stride];
  for (int64_t k = 1; k < kernel; k++) {
    if (stride == 1)
      take_largest(to, from + k, count, to);
    else
      for (int64_t i = 0; i < count; i++) to[i] = std::max(to[i], from[i * stride + k]);
  }
}

// Rows of the output become one long row: the largest down the columns first, each row with zeros around it, which are
// the least bytes, then the largest along all of them.
struct PooledRows {
  int64_t step;  // from one of these rows to the next, and of their results
  int64_t width;
  int64_t bytes, results, halves;  // room

  explicit PooledRows(const BytePooling& s) {
    const int64_t needed = std::max(s.pad_left + s.in_width, (s.out_width - 1) * s.stride_x + s.kernel_width);
    width = std::max(s.out_width, (needed + s.stride_x - 1) / s.stride_x);
    if (s.pad_left == 0 && s.out_width * s.stride_x == s.in_width && s.kernel_width <= s.stride_x) width = s.out_width;
    step = width * s.stride_x;
    results = s.out_height * width;
    bytes = s.out_height * step + s.kernel_width + 1;
    halves = 2 * (results + s.kernel_width);
  }
  int64_t room() const { return bytes + results + halves; }
};

void pool_plane(const BytePooling& s, const PooledRows& rows, const uint8_t* x, uint8_t* y, uint8_t* room) {
  uint8_t *results = room + rows.bytes, *halves = results + rows.results;
  for (int64_t row = 0; row < s.out_height; row++) {
    const int64_t top = row * s.stride_y - s.pad_up;
    const int64_t first = std::max<int64_t>(0, top), end = std::min(s.in_height, top + s.kernel_height);
    const uint8_t* from = x + first * s.in_width;
    uint8_t* to = room + row * rows.step + s.pad_left;
    if (first + 1 == end) std::memcpy(to, from, static_cast<size_t>(s.in_width));
    for (int64_t r = first + 1; r < end; r++)
      take_largest(r == first + 1 ? from : to, x + r * s.in_width, s.in_width, to);
  }
  const bool dense = rows.width == s.out_width;
  largest_along(room, s.kernel_width, s.stride_x, rows.results, halves, dense ? y : results);
  for (int64_t row = 0; !dense && row < s.out_height; row++)
    std::memcpy(y + row * s.out_width, results + row * rows.width, static_cast<size_t>(s.out_width));
}

}  // namespace

void convert_numbers(const Conversion& c, int threads) {
  over_pieces(c.count, threads, [&](int64_t first, int64_t count) {
    const void* from = moved(c.from, c.from_element, first);
    void* to = moved(c.to, c.to_element, first);
    if (c.from_element.is_float32())
      encode(c.to_element, static_cast<const float*>(from), count, to);
    else
      decode(c.from_element, from, count, static_cast<float*>(to));
  });
}

void add_bytes(const ByteSum& s, int threads) {
  over_pieces(s.count, threads, [&](int64_t first, int64_t count) {
    const uint8_t *a = s.a + first, *b = s.b + first;
    uint8_t* y = s.y + first;
    int64_t i = 0;
    for (; i + kWidth <= count; i += kWidth) add_some(s, a + i, b + i, y + i);
    if (i == count) return;
    uint8_t rest[3][kWidth] = {};
    std::copy_n(a + i, count - i, rest[0]);
    std::copy_n(b + i, count - i, rest[1]);
    add_some(s, rest[0], rest[1], rest[2]);
    std::copy_n(rest[2], count - i, y + i);
  });
}

void pool_bytes(const BytePooling& s, int threads) {
  const int64_t in_plane = s.in_height * s.in_width, out_plane = s.out_height * s.out_width;
  const PooledRows rows(s);
  const int64_t together = std::max<int64_t>(1, kPiece / std::max<int64_t>(1, in_plane));
  const int workers = worthy_workers(threads, s.planes * in_plane, kPiece);
  dynamic_items(workers, (s.planes + together - 1) / together, [&](int64_t item) {
    auto* room = reinterpret_cast<uint8_t*>(scratch(kStoredA, static_cast<size_t>(rows.room() + 3) / 4));
    std::memset(room, 0, static_cast<size_t>(rows.bytes));
    for (int64_t plane = item * together; plane < std::min(s.planes, (item + 1) * together); plane++)
      pool_plane(s, rows, s.x + plane * in_plane, s.y + plane * out_plane, room);
  });
}

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
