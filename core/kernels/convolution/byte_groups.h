// Bytes of neighbouring channels joined to groups of 32 bits, which the kernels of exact sums multiply at once.
#pragma once
#include <cstdint>

#include "gemm/stored_product.h"
#include "simd/vec.h"

namespace openbnns {
namespace OPENBNNS_ISA {

typedef uint32_t ByteGroup __attribute__((may_alias));

// Of the bytes of two to four lines; absent lines are null.
template <class Widen>
OPENBNNS_INLINE void join_lines(const uint8_t* const (&line)[4], int64_t lines, int bits, int64_t count, ByteGroup* to,
                                int64_t to_stride, Widen widen) {
  if (lines == 4) {
    for (int64_t j = 0; j < count; j++)
      to[j * to_stride] =
          widen(line[0][j]) | widen(line[1][j]) << bits | widen(line[2][j]) << 2 * bits | widen(line[3][j]) << 3 * bits;
    return;
  }
  if (lines == 2) {
    for (int64_t j = 0; j < count; j++) to[j * to_stride] = widen(line[0][j]) | widen(line[1][j]) << bits;
    return;
  }
  for (int64_t j = 0; j < count; j++) {
    uint32_t group = 0;
    for (int64_t i = 0; i < lines; i++) group |= widen(line[i][j]) << i * bits;
    to[j * to_stride] = group;
  }
}

// to[j] = the group of line[i][j], i < lines, for j < count; missing numbers are zeros. `left`: of the operand that
// kernels of quads take as unsigned.
OPENBNNS_INLINE void join_bytes(SumKind sums, ElementType type, bool left, const uint8_t* const (&line)[4],
                                int64_t lines, int64_t count, ByteGroup* to, int64_t to_stride) {
  if (sums == SumKind::kByteQuads) {
    const uint32_t flip = (type == ElementType::kInt8) == left ? 0x80 : 0;  // to the other sign
    join_lines(line, lines, 8, count, to, to_stride, [=](uint8_t byte) { return uint32_t{byte} ^ flip; });
  } else if (type == ElementType::kInt8) {
    join_lines(line, lines, 16, count, to, to_stride,
               [](uint8_t byte) { return static_cast<uint32_t>(static_cast<int8_t>(byte)) & 0xFFFF; });
  } else {
    join_lines(line, lines, 16, count, to, to_stride, [](uint8_t byte) { return uint32_t{byte}; });
  }
}

// The same of from[i * stride + j].
OPENBNNS_INLINE void join_bytes(SumKind sums, ElementType type, bool left, const uint8_t* from, int64_t stride,
                                int64_t lines, int64_t count, ByteGroup* to, int64_t to_stride) {
  const uint8_t* const line[4] = {from, from + stride, from + 2 * stride, from + 3 * stride};
  join_bytes(sums, type, left, line, lines, count, to, to_stride);
}

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
