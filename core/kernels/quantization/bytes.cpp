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

// to[i] = the largest of from[i kStride ...], kernel of them; kStride 0: `stride`.
template <int kStride>
void largest_along(const uint8_t* from, int64_t kernel, int64_t stride, int64_t count, uint8_t* to) {
  const int64_t step = kStride ? kStride : stride;
  for (int64_t i = 0; i < count; i++) to[i] = from[i * step];
  for (int64_t k = 1; k < kernel; k++)
    for (int64_t i = 0; i < count; i++) to[i] = std::max(to[i], from[i * step + k]);
}

void pool_plane(const BytePooling& s, const uint8_t* x, uint8_t* y, uint8_t* line, int64_t line_bytes) {
  const auto along = s.stride_x == 1 ? largest_along<1> : s.stride_x == 2 ? largest_along<2> : largest_along<0>;
  std::memset(line, 0, static_cast<size_t>(line_bytes));
  uint8_t* middle = line + s.pad_left;
  for (int64_t row = 0; row < s.out_height; row++, y += s.out_width) {
    const int64_t top = row * s.stride_y - s.pad_up;
    const int64_t first = std::max<int64_t>(0, top), end = std::min(s.in_height, top + s.kernel_height);
    std::memcpy(middle, x + first * s.in_width, static_cast<size_t>(s.in_width));
    for (int64_t r = first + 1; r < end; r++) {
      const uint8_t* from = x + r * s.in_width;
      for (int64_t i = 0; i < s.in_width; i++) middle[i] = std::max(middle[i], from[i]);
    }
    along(line, s.kernel_width, s.stride_x, s.out_width, y);
  }
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
  const int64_t line_bytes =
      std::max(s.pad_left + s.in_width, (s.out_width - 1) * s.stride_x + s.kernel_width);  // zeros are the least bytes
  const int64_t together = std::max<int64_t>(1, kPiece / std::max<int64_t>(1, in_plane));
  const int workers = worthy_workers(threads, s.planes * in_plane, kPiece);
  dynamic_items(workers, (s.planes + together - 1) / together, [&](int64_t item) {
    auto* line = reinterpret_cast<uint8_t*>(scratch(kStoredA, static_cast<size_t>(line_bytes + 3) / 4));
    for (int64_t plane = item * together; plane < std::min(s.planes, (item + 1) * together); plane++)
      pool_plane(s, s.x + plane * in_plane, s.y + plane * out_plane, line, line_bytes);
  });
}

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
