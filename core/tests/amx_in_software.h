// AMX for CPUs that have none: its instructions are invalid there (SIGILL), so that each can be decoded, checked and
// carried out after Intel's description. What runs are the kernels as they were compiled, down to their encodings.
// Where the CPU has AMX and the system permits it, its own tiles are used.
#pragma once
#include <signal.h>
#include <ucontext.h>

#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "gemm/matrix_unit.h"
#include "kernels/instruction_sets.h"
#include "runtime/amx.h"

namespace amx_in_software {

constexpr int kTiles = 8, kMostRows = 16, kMostBytes = 64;

struct Tile {
  int rows = 0, bytes = 0;  // of a row
  unsigned char data[kMostRows][kMostBytes] = {};
};
// Of one thread.
struct Unit {
  bool configured = false;
  Tile tiles[kTiles];
};
inline thread_local Unit unit;
inline std::atomic<int> threads_with_tiles{0};
inline std::atomic<int64_t> carried_out{0};

inline void require(bool good, const char* what) {
  if (good) return;
  std::printf("FAIL AMX: %s\n", what);
  std::fflush(stdout);
  std::abort();
}

// An instruction of AMX: its VEX prefix of three bytes, operation code, ModRM, SIB and displacement.
struct Instruction {
  int prefix, operation, register_operand, other_operand;  // prefix: none, 66, F3, F2
  int second_source;
  bool is_amx = false, has_memory = false, has_rows = false;  // has_rows: addresses by SIB, as loads and stores need it
  const char* address = nullptr;
  int64_t stride = 0;
  const unsigned char* end = nullptr;

  Instruction(const unsigned char* at, const greg_t* registers) {
    if (at[0] != 0xC4 || (at[1] & 31) != 2 || (at[2] & 0x84) != 0) return;  // the opcodes 0F 38, W and L are 0
    prefix = at[2] & 3;
    second_source = ~(at[2] >> 3) & 15;
    operation = at[3];
    is_amx = operation == 0x49 || operation == 0x4B || operation == 0x5C || operation == 0x5E;
    const int mode = at[4] >> 6, rest = at[4] & 7;
    register_operand = (at[4] >> 3 & 7) | (at[1] & 0x80 ? 0 : 8);
    other_operand = rest | (at[1] & 0x20 ? 0 : 8);
    end = at + 5;
    has_memory = mode != 3;
    if (!is_amx || !has_memory) return;
    int base = other_operand;
    bool no_base = mode == 0 && rest == 5;  // relative to what follows the instruction
    const bool relative = no_base;
    has_rows = rest == 4;
    if (has_rows) {
      const int sib = *end++, index = (sib >> 3 & 7) | (at[1] & 0x40 ? 0 : 8);
      base = (sib & 7) | (at[1] & 0x20 ? 0 : 8);
      no_base = mode == 0 && (sib & 7) == 5;
      if (index != 4) stride = general(registers, index) << (sib >> 6);
    }
    int64_t displacement = 0;
    if (mode == 1) {
      displacement = static_cast<signed char>(*end++);
    } else if (mode == 2 || no_base) {
      int32_t wide;
      std::memcpy(&wide, end, sizeof wide);
      displacement = wide;
      end += sizeof wide;
    }
    const int64_t from = relative ? reinterpret_cast<int64_t>(end) : no_base ? 0 : general(registers, base);
    address = reinterpret_cast<const char*>(from + displacement);
  }

  static int64_t general(const greg_t* registers, int number) {
    constexpr int kPlaces[] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                               REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
    return registers[kPlaces[number]];
  }
};

inline Tile& tile(int number) {
  require(number < kTiles, "there are eight tiles");
  require(unit.configured, "a tile is used on a thread that has not configured the unit");
  require(unit.tiles[number].rows > 0, "a tile is used that the configuration leaves out");
  return unit.tiles[number];
}

// LDTILECFG: the numbers of the configuration, which clears all tiles.
inline void configure(const char* from) {
  unsigned char bytes[64];
  std::memcpy(bytes, from, sizeof bytes);
  require(bytes[0] == 1, "the palette is not 1");
  require(bytes[1] == 0, "the first row is not 0");
  for (int i = 2; i < 64; i++) require((i >= 16 && i < 32) || (i >= 48 && i < 56) || bytes[i] == 0, "reserved bytes");
  if (!unit.configured) threads_with_tiles++;
  unit = {};
  unit.configured = true;
  for (int i = 0; i < kTiles; i++) {
    Tile& t = unit.tiles[i];
    t.bytes = bytes[16 + 2 * i] | bytes[17 + 2 * i] << 8;
    t.rows = bytes[48 + i];
    require(t.rows <= kMostRows && t.bytes <= kMostBytes, "a tile is larger than 16 rows of 64 bytes");
    require((t.rows == 0) == (t.bytes == 0), "a tile has rows without bytes, or bytes without rows");
  }
}

inline void release() {
  if (unit.configured) threads_with_tiles--;
  unit = {};
}

// Subnormal numbers are 0, in operands and results.
inline float flushed(float x) { return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.f, x) : x; }
inline float fused(float a, float b, float sum) { return flushed(std::fma(flushed(a), flushed(b), flushed(sum))); }
inline float bfloat16(const unsigned char* row, int i) {
  uint16_t upper;
  std::memcpy(&upper, row + 2 * i, sizeof upper);
  const uint32_t all = static_cast<uint32_t>(upper) << 16;
  float value;
  std::memcpy(&value, &all, sizeof value);
  return value;
}

// C + A B for a row of A and four bytes of the rows of B. TDPBF16PS: the even products of all steps, and the odd ones,
// are sums of their own, which are added up, and then to C.
inline void add_bfloat16(unsigned char* c, const unsigned char* a, const Tile& b, int steps, int column) {
  float sums[2] = {}, all;
  for (int k = 0; k < steps; k++)
    for (int i = 0; i < 2; i++) sums[i] = fused(bfloat16(a, 2 * k + i), bfloat16(b.data[k], 2 * column + i), sums[i]);
  std::memcpy(&all, c, sizeof all);
  all = flushed(flushed(all) + flushed(sums[0] + sums[1]));
  std::memcpy(c, &all, sizeof all);
}
// TDPBUSD: unsigned bytes of A, signed ones of B.
inline void add_bytes(unsigned char* c, const unsigned char* a, const Tile& b, int steps, int column) {
  uint32_t all;
  std::memcpy(&all, c, sizeof all);
  for (int k = 0; k < steps; k++)
    for (int i = 0; i < 4; i++)
      all += static_cast<uint32_t>(a[4 * k + i] * static_cast<signed char>(b.data[k][4 * column + i]));
  std::memcpy(c, &all, sizeof all);
}

inline void multiply(const Instruction& given) {
  const int numbers[] = {given.register_operand, given.other_operand, given.second_source};
  Tile &c = tile(numbers[0]), &a = tile(numbers[1]), &b = tile(numbers[2]);
  require(&a != &b && &a != &c && &b != &c, "a product of tiles that are not three");
  require(a.bytes % 4 == 0 && b.bytes % 4 == 0 && c.bytes % 4 == 0, "rows that are not whole groups of four bytes");
  require(a.bytes / 4 == b.rows && a.rows == c.rows && b.bytes == c.bytes, "tiles that do not fit each other");
  for (int row = 0; row < c.rows; row++)
    for (int column = 0; column < c.bytes / 4; column++)
      (given.operation == 0x5C ? add_bfloat16 : add_bytes)(c.data[row] + 4 * column, a.data[row], b, b.rows, column);
}

enum Prefix { kNone, k66, kF3, kF2 };

// Whether it is an instruction that kernels use; if so, it is carried out.
inline bool carry_out(const Instruction& given) {
  const auto is = [&](int operation, Prefix prefix, bool memory) {
    return given.operation == operation && given.prefix == prefix && given.has_memory == memory;
  };
  const bool plain = given.second_source == 0;
  if (is(0x49, kNone, true) && plain && given.register_operand == 0) {
    configure(given.address);
  } else if (is(0x49, kNone, false) && plain && given.register_operand == 0 && given.other_operand == 0) {
    release();
  } else if (is(0x49, kF2, false) && plain && given.other_operand == 0) {
    Tile& t = tile(given.register_operand);
    std::memset(t.data, 0, sizeof t.data);
  } else if (is(0x4B, kF2, true) && plain && given.has_rows) {
    Tile& t = tile(given.register_operand);
    std::memset(t.data, 0, sizeof t.data);
    for (int row = 0; row < t.rows; row++) std::memcpy(t.data[row], given.address + row * given.stride, t.bytes);
  } else if (is(0x4B, kF3, true) && plain && given.has_rows) {
    const Tile& t = tile(given.register_operand);
    for (int row = 0; row < t.rows; row++)
      std::memcpy(const_cast<char*>(given.address) + row * given.stride, t.data[row], t.bytes);
  } else if (is(0x5C, kF3, false) || is(0x5E, k66, false)) {
    multiply(given);
  } else {
    return false;
  }
  return true;
}

inline void on_invalid_instruction(int, siginfo_t*, void* context) {
  greg_t* registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  const Instruction given(reinterpret_cast<const unsigned char*>(registers[REG_RIP]), registers);
  require(given.is_amx, "an invalid instruction that is none of AMX");
  require(carry_out(given), "an instruction, or a form of one, that is not known here");
  carried_out++;
  registers[REG_RIP] = reinterpret_cast<greg_t>(given.end);
}

// Whether something has to be multiplied on them.
enum class Needed { kYes, kMaybe };

// Products run on tiles while it lives.
class InUse {
 public:
  explicit InUse(Needed needed = Needed::kYes)
      : needed_(needed == Needed::kYes), by_the_cpu_(openbnns::has_amx() && !openbnns::request_amx()) {
    carried_out = 0;
    if (!by_the_cpu_) {
      struct sigaction action = {};
      action.sa_sigaction = on_invalid_instruction;
      action.sa_flags = SA_SIGINFO;
      sigaction(SIGILL, &action, &before_);
    }
    openbnns::OPENBNNS_ISA::use_matrix_unit(openbnns::OPENBNNS_ISA::amx());
  }
  InUse(const InUse&) = delete;
  InUse& operator=(const InUse&) = delete;
  ~InUse() {
    openbnns::OPENBNNS_ISA::use_matrix_unit(nullptr);
    if (by_the_cpu_) return;
    sigaction(SIGILL, &before_, nullptr);
    require(threads_with_tiles == 0, "a thread has not released its tiles");
    require(!needed_ || carried_out > 0, "nothing has used them");
  }

 private:
  bool needed_, by_the_cpu_;
  struct sigaction before_ = {};
};

}  // namespace amx_in_software
