#pragma once
#include <cstdint>

namespace openbnns {

// to[i...] = from[i...] for all indices below `size`; strides in bytes, of any sign, those of `from` may be 0. Elements
// of 1, 2, 4 or 8 bytes. The two do not overlap.
struct StridedCopy {
  static constexpr int kMaxRank = 17;
  int bytes = 4, rank = 0;
  int64_t size[kMaxRank] = {}, from_step[kMaxRank] = {}, to_step[kMaxRank] = {};
  const char* from = nullptr;
  char* to = nullptr;
};

enum class ComparedType { kFloat32, kFloat64, kInt64, kUInt8 };
// The other operators are these with exchanged operands or inverted results.
enum class Comparison { kEqual, kGreater, kGreaterEqual, kAnd, kOr, kXor };

// x and y: [matrices][rows][columns] elements of `bytes`.
struct BandShape {
  int bytes = 4;
  int64_t matrices = 1, rows = 1, columns = 1, lower = 0, upper = 0;  // negative: the whole triangle
};

}  // namespace openbnns
