// Compiled for AMX (cmake/instruction_sets.cmake): nothing of this may run without asking the CPU and the system.
#include "gemm/matrix_unit.h"

#if defined(__AMX_TILE__) && defined(__AMX_BF16__) && defined(__AMX_INT8__)
#include "gemm/matrix_unit_kernel.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace {

// As text, because GCC's functions take no numbers of tiles from templates. Operands are in the order of AT&T: C is
// last.
struct AmxInstructions {
  template <int kC>
  static OPENBNNS_INLINE void zero() {
    asm volatile("tilezero %%tmm%c0" : : "i"(kC));
  }
  template <int kTile>
  static OPENBNNS_INLINE void load(const void* from, int64_t stride) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(from), "r"(stride), "i"(kTile) : "memory");
  }
  template <int kC>
  static OPENBNNS_INLINE void store(void* to, int64_t stride) {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(to), "r"(stride), "i"(kC) : "memory");
  }
  template <int kC, int kA, int kB>
  static OPENBNNS_INLINE void add_bfloat16() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kC), "i"(kA), "i"(kB));
  }
  template <int kC, int kA, int kB>
  static OPENBNNS_INLINE void add_bytes() {
    asm volatile("tdpbusd %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kC), "i"(kA), "i"(kB));
  }
};

// What the instruction ldtilecfg reads: all eight tiles have 16 rows of 64 bytes.
struct alignas(64) Configuration {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {kUnitRows, kUnitRows, kUnitRows, kUnitRows, kUnitRows, kUnitRows, kUnitRows, kUnitRows};
};
static_assert(sizeof(Configuration) == 64);

void configure() {
  static constexpr Configuration all;
  _tile_loadconfig(&all);
}
void release() { _tile_release(); }

}  // namespace

const MatrixUnit* amx() {
  static constexpr MatrixUnit unit{configure, release, matrix_unit_kernel<AmxInstructions>,
                                   matrix_unit_entries_kernel<AmxInstructions>};
  return &unit;
}

}  // namespace OPENBNNS_ISA
}  // namespace openbnns

#else

namespace openbnns {
namespace OPENBNNS_ISA {

const MatrixUnit* amx() { return nullptr; }

}  // namespace OPENBNNS_ISA
}  // namespace openbnns

#endif
