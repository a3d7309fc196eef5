// Rows that are picked from a table or put there: copied one by one, while the rows that follow are prefetched.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstring>

#include "simd/vec.h"

namespace openbnns {
namespace OPENBNNS_ISA {

constexpr int64_t kFetchedBytes = 1024;  // of a row, at most: beyond that, the processor prefetches by itself

// How many rows ahead a row is prefetched, into the second-level cache: what is in flight is too much for the first.
OPENBNNS_INLINE int64_t rows_ahead(int64_t row_bytes) {
  constexpr int64_t kRowsAhead = 64, kBytesAhead = 1 << 15;
  return std::clamp<int64_t>(kBytesAhead / std::max<int64_t>(1, row_bytes), 1, kRowsAhead);
}

OPENBNNS_INLINE void fetch_row(const void* row, int64_t bytes) {
  const char* from = static_cast<const char*>(row);
  for (int64_t at = 0; at < std::min(bytes, kFetchedBytes); at += 64) __builtin_prefetch(from + at, 0, 2);
}

// Prefetches the cache lines that an output written in order will overwrite next.
OPENBNNS_INLINE void fetch_output(void* row, int64_t bytes) {
  constexpr int64_t kOutputAhead = 4096;
  char* to = static_cast<char*>(row) + kOutputAhead;
  for (int64_t at = 0; at < bytes; at += 64) __builtin_prefetch(to + at, 1);
}

// The first and the last kSize of the bytes, which are at least kSize and at most twice as many.
template <int kSize>
OPENBNNS_INLINE void copy_ends(char* to, const char* from, int64_t bytes) {
  std::memcpy(to, from, kSize);
  std::memcpy(to + bytes - kSize, from + bytes - kSize, kSize);
}

// 64 bytes at a time, whole lines of the output but for the first and the last ones, which overlap their neighbours:
// a store that touches two lines costs as much as two.
OPENBNNS_INLINE void copy_row(void* to_row, const void* from_row, int64_t bytes) {
  char* to = static_cast<char*>(to_row);
  const char* from = static_cast<const char*>(from_row);
  if (bytes >= 64) {
    std::memcpy(to, from, 64);
    for (int64_t at = 64 - static_cast<int64_t>(reinterpret_cast<uintptr_t>(to) % 64); at + 64 <= bytes; at += 64)
      std::memcpy(to + at, from + at, 64);
    std::memcpy(to + bytes - 64, from + bytes - 64, 64);
  } else if (bytes >= 32) {
    copy_ends<32>(to, from, bytes);
  } else if (bytes >= 16) {
    copy_ends<16>(to, from, bytes);
  } else if (bytes >= 8) {
    copy_ends<8>(to, from, bytes);
  } else if (bytes >= 4) {
    copy_ends<4>(to, from, bytes);
  } else {
    for (int64_t i = 0; i < bytes; i++) to[i] = from[i];
  }
}

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
