// Stores that bypass the caches. For outputs much larger than the caches they save reading the old content of every
// line before it is overwritten; smaller outputs should stay cached for the next reader.
#pragma once
#include "simd/vec.h"
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace openbnns {
namespace OPENBNNS_ISA {

// Results of this many floats (8 MiB) and more are streamed.
constexpr int64_t kStreamFrom = int64_t{1} << 21;
constexpr int64_t kLineFloats = 16;  // of a line of the caches

// p must be aligned to the size of Vec.
OPENBNNS_INLINE void store_stream(float* p, Vec v) {
#if defined(__AVX512F__)
  _mm512_stream_ps(p, v);
#elif defined(__AVX2__)
  _mm256_stream_ps(p, v);
#elif defined(__SSE2__)
  _mm_stream_ps(p, v);
#else
  store(p, v);
#endif
}

// Floats from p to the next address that is aligned to the size of Vec.
OPENBNNS_INLINE int64_t floats_to_alignment(const float* p) {
  return static_cast<int64_t>(-reinterpret_cast<uintptr_t>(p) % sizeof(Vec) / sizeof(float));
}

template <bool kStream>
OPENBNNS_INLINE void put(float* p, Vec v) {
  kStream ? store_stream(p, v) : store(p, v);
}

// Calls full(i) for whole vectors of out[0 .. count) and part(i, lanes) for what is left at the ends, a vector at most
// at a time. When streaming, whole vectors fill whole lines, and finish_stream() has to follow: a line of which a part
// is stored plainly and the rest streamed goes to memory and back in between. kAligned without streaming: whole vectors
// are aligned, because a store across two lines costs two.
template <bool kStream, bool kAligned = kStream, class Full, class Part>
OPENBNNS_INLINE void over_vectors(const float* out, int64_t count, Full full, Part part) {
  constexpr int64_t kUnit = kStream ? kLineFloats : kAligned ? kWidth : 1;
  const auto misplaced = static_cast<int64_t>(reinterpret_cast<uintptr_t>(out) / sizeof(float) % kUnit);
  const int64_t head = misplaced == 0 ? 0 : kUnit - misplaced < count ? kUnit - misplaced : count;
  int64_t i = head;
  if constexpr (kUnit > kWidth) {
    const int64_t end = head + (count - head) / kUnit * kUnit;
    for (int64_t at = 0; at < head; at += kWidth) part(at, head - at < kWidth ? head - at : kWidth);
    for (; i < end; i += kWidth) full(i);
    for (; i < count; i += kWidth) part(i, count - i < kWidth ? count - i : kWidth);
  } else {
    if (head > 0) part(int64_t{0}, head);
    for (; i + kWidth <= count; i += kWidth) full(i);
    if (i < count) part(i, count - i);
  }
}

// Makes streamed data visible to other threads before what is stored after this call.
OPENBNNS_INLINE void finish_stream() {
#if defined(__x86_64__)
  _mm_sfence();
#endif
}

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
