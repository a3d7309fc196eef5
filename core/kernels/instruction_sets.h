// What the CPU and the system must have for the kernels of an instruction set: everything that compilers use for
// x86-64-v3 and x86-64-v4. Asked of the CPU itself, because not every compiler's library has __builtin_cpu_supports
// (Zig's has not).
#pragma once
#if defined(__x86_64__)
#include <cpuid.h>
#endif
#include <atomic>

namespace openbnns {

// What `ask` says, without a lock: a fork could catch a thread that holds it.
template <bool (*ask)()>
bool asked_once() {
  static std::atomic<int> known{-1};
  int answer = known.load(std::memory_order_relaxed);
  if (answer < 0) known.store(answer = ask(), std::memory_order_relaxed);
  return answer != 0;
}

#if defined(__x86_64__)
struct CpuFeatures {
  unsigned basic = 0, extended = 0;  // ECX of leaf 1, EBX of leaf 7
  unsigned saved = 0;                // registers that the system keeps for each thread: XCR0
};

inline CpuFeatures cpu_features() {
  constexpr unsigned kKeepsRegisters = 1u << 27;  // OSXSAVE
  CpuFeatures f;
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(1, &a, &b, &c, &d)) f.basic = c;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d)) f.extended = b;
  if (f.basic & kKeepsRegisters) __asm__("xgetbv" : "=a"(f.saved), "=d"(d) : "c"(0));
  return f;
}

inline bool has_avx2() {
  constexpr unsigned kBasic = 1u << 12 | 1u << 22 | 1u << 28 | 1u << 29;  // FMA, MOVBE, AVX, F16C
  constexpr unsigned kExtended = 1u << 3 | 1u << 5 | 1u << 8;             // BMI, AVX2, BMI2
  constexpr unsigned kSaved = 0x6;                                        // halves of 256 bits
  const CpuFeatures f = cpu_features();
  return (f.basic & kBasic) == kBasic && (f.extended & kExtended) == kExtended && (f.saved & kSaved) == kSaved;
}

inline bool has_avx512() {
  constexpr unsigned kExtended = 1u << 16 | 1u << 17 | 1u << 28 | 1u << 30 | 1u << 31;  // F, DQ, CD, BW, VL
  constexpr unsigned kSaved = 0xe6;
  const CpuFeatures f = cpu_features();
  return has_avx2() && (f.extended & kExtended) == kExtended && (f.saved & kSaved) == kSaved;
}

// Products of bytes, summed four at a time: beside AVX-512, and by themselves.
inline bool has_avx512_vnni() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return has_avx512() && __get_cpuid_count(7, 0, &a, &b, &c, &d) && (c & 1u << 11) != 0;
}
inline bool has_avx_vnni() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return has_avx2() && __get_cpuid_count(7, 0, &a, &b, &c, &d) && a >= 1 && __get_cpuid_count(7, 1, &a, &b, &c, &d) &&
         (a & 1u << 4) != 0;
}

// Products of BFloat16, summed two at a time.
inline bool has_avx512_bf16() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return has_avx512() && __get_cpuid_count(7, 0, &a, &b, &c, &d) && a >= 1 && __get_cpuid_count(7, 1, &a, &b, &c, &d) &&
         (a & 1u << 5) != 0;
}

// Tiles of the sizes that kernels use: eight of 16 rows of 64 bytes in palette 1, and products of them. A hypervisor
// may show other sizes than the CPU has.
inline bool has_tiles_of_16_rows() {
  constexpr unsigned kPalettes = 0x1d, kProducts = 0x1e;
  unsigned a = 0, b = 0, c = 0, d = 0;
  const bool tiles = __get_cpuid_count(kPalettes, 1, &a, &b, &c, &d) && a >> 16 >= 1024 && (b & 0xffff) >= 64 &&
                     b >> 16 >= 8 && (c & 0xffff) >= 16;
  return tiles && __get_cpuid_count(kProducts, 0, &a, &b, &c, &d) && (b & 0xff) >= 16 && (b >> 8 & 0xffff) >= 64;
}

// Products of tiles, of BFloat16 and of bytes. Tiles are registers that the system has to keep, and to permit
// (runtime/amx.h).
inline bool has_amx() {
  constexpr unsigned kTiles = 1u << 22 | 1u << 24 | 1u << 25, kSaved = 0x60000;
  unsigned a = 0, b = 0, c = 0, d = 0;
  return has_avx512_vnni() && has_avx512_bf16() && __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & kTiles) == kTiles &&
         (cpu_features().saved & kSaved) == kSaved && has_tiles_of_16_rows();
}

inline bool has_aes() { return (cpu_features().basic & 1u << 25) != 0; }
#endif

}  // namespace openbnns
