// Stores that go past the caches. For outputs much larger than the caches they save reading the old content of every
// line before it is overwritten; smaller outputs should stay cached for whoever reads them next.
#pragma once
#include "simd/vec.h"
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace openbnns {
namespace OPENBNNS_ISA {

// Results of this many floats (8 MiB) and more are streamed.
constexpr int64_t kStreamFrom = int64_t{1} << 21;

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

// Makes streamed data visible to other threads before what is stored after this call.
OPENBNNS_INLINE void finish_stream() {
#if defined(__x86_64__)
  _mm_sfence();
#endif
}

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
