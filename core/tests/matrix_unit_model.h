// A matrix unit in software, after the documented operation of AMX: for CPUs that have none.
#pragma once
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "gemm/matrix_unit_kernel.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace {

struct ModelTiles {
  bool configured = false;
  unsigned char data[8][16][64] = {};
};
inline thread_local ModelTiles model_tiles;

// Subnormal numbers are 0, in operands and results.
inline float flushed(float x) { return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.f, x) : x; }
inline float fused(float a, float b, float sum) { return flushed(std::fma(flushed(a), flushed(b), flushed(sum))); }

struct ModelInstructions {
  static unsigned char (*tile(int number))[64] {
    if (!model_tiles.configured) {
      std::printf("FAIL a tile is used on a thread that has not configured the unit\n");
      std::abort();
    }
    return model_tiles.data[number];
  }
  template <int kC>
  static void zero() {
    std::memset(tile(kC), 0, sizeof model_tiles.data[kC]);
  }
  template <int kTile>
  static void load(const void* from, int64_t stride) {
    for (int row = 0; row < 16; row++) std::memcpy(tile(kTile)[row], static_cast<const char*>(from) + row * stride, 64);
  }
  template <int kC>
  static void store(void* to, int64_t stride) {
    for (int row = 0; row < 16; row++) std::memcpy(static_cast<char*>(to) + row * stride, tile(kC)[row], 64);
  }
  static float number(const unsigned char* row, int i) {
    uint16_t upper;
    std::memcpy(&upper, row + 2 * i, 2);
    const uint32_t all = static_cast<uint32_t>(upper) << 16;
    float value;
    std::memcpy(&value, &all, 4);
    return value;
  }
  // The even products of all steps, and the odd ones, are sums of their own, which are added up, and then to C.
  template <int kC, int kA, int kB>
  static void add_bfloat16() {
    for (int m = 0; m < 16; m++)
      for (int n = 0; n < 16; n++) {
        float sum[2] = {}, c;
        for (int k = 0; k < 16; k++)
          for (int i = 0; i < 2; i++)
            sum[i] = fused(number(tile(kA)[m], 2 * k + i), number(tile(kB)[k], 2 * n + i), sum[i]);
        std::memcpy(&c, tile(kC)[m] + 4 * n, 4);
        c = flushed(flushed(c) + flushed(sum[0] + sum[1]));
        std::memcpy(tile(kC)[m] + 4 * n, &c, 4);
      }
  }
  template <int kC, int kA, int kB>
  static void add_bytes() {
    for (int m = 0; m < 16; m++)
      for (int n = 0; n < 16; n++) {
        uint32_t c;
        std::memcpy(&c, tile(kC)[m] + 4 * n, 4);
        for (int k = 0; k < 16; k++)
          for (int i = 0; i < 4; i++) {
            const int product = tile(kA)[m][4 * k + i] * static_cast<signed char>(tile(kB)[k][4 * n + i]);
            c += static_cast<uint32_t>(product);
          }
        std::memcpy(tile(kC)[m] + 4 * n, &c, 4);
      }
  }
};

// Loading a configuration clears all tiles.
inline void configure_model() { model_tiles = {true, {}}; }
inline void release_model() { model_tiles.configured = false; }

// Has it in use while it lives.
struct ModelInUse {
  ModelInUse() {
    static constexpr MatrixUnit model{configure_model, release_model, matrix_unit_kernel<ModelInstructions>};
    use_matrix_unit(&model);
  }
  ModelInUse(const ModelInUse&) = delete;
  ModelInUse& operator=(const ModelInUse&) = delete;
  ~ModelInUse() { use_matrix_unit(nullptr); }
};

}  // namespace
}  // namespace OPENBNNS_ISA
}  // namespace openbnns
