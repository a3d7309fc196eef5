// Functions that move, select and compare elements of whole tensors: what they are given, checked by the caller.
#pragma once
#include <cstdint>
#include <memory>

#include "runtime/plan.h"

namespace openbnns {

// to[i...] = from[i...] for all indices below `size`; steps in bytes, of any sign, those of `from` also 0. Elements of
// 1, 2, 4 or 8 bytes. The two do not overlap.
struct StridedCopy {
  static constexpr int kMaxRank = 17;
  int bytes = 4, rank = 0;
  int64_t size[kMaxRank] = {}, from_step[kMaxRank] = {}, to_step[kMaxRank] = {};
  const char* from = nullptr;
  char* to = nullptr;
};

// A whole tensor [outer][length][inner] and a selection from it [outer][count][inner], joined by indices below length:
// [count], or with `per_element` [outer][count][inner]. Elements of `bytes` 1, 2, 4 or 8.
struct Selection {
  int bytes = 4;
  int64_t outer = 1, length = 1, inner = 1, count = 1;
  bool per_element = false;
  const int64_t* indices = nullptr;
  char* whole = nullptr;
  char* selected = nullptr;
};

// What scattering does with the old value; sums are of float or of 64-bit integers that wrap around.
enum class Scattering { kWrite, kAddFloats, kAddIntegers };

// x: [outer][length][inner], floats, or with `integers` int64; indices: [outer][k][inner].
struct TopKShape {
  bool integers = false;
  int64_t outer = 1, length = 1, inner = 1, k = 1;
};

enum class ComparedType { kFloat32, kFloat64, kInt64, kUInt8 };
// The other operators are these with exchanged operands or inverted results.
enum class Comparison { kEqual, kGreater, kGreaterEqual, kAnd, kOr, kXor };

// x and y: [matrices][rows][columns] elements of `bytes`.
struct BandShape {
  int bytes = 4;
  int64_t matrices = 1, rows = 1, columns = 1, lower = 0, upper = 0;  // negative: the whole triangle
};

// Slots of one-input filters; W has the shape of x. One sample has `size` in C order and loses the axes `inside`; y has
// the others. ArgMax and ArgMin give floats, or with `wide_positions` int64 (then Y holds these).
struct ReductionShape {
  static constexpr int kMaxRank = 17;
  int function = 0;  // BNNSReduceFunction
  int rank = 0;
  int64_t size[kMaxRank] = {};
  bool inside[kMaxRank] = {};
  float epsilon = 0;
  bool wide_positions = false;
  int64_t position_modulus = 0;  // positions are reported modulo this; 0: as they are
};

// samples: [count][features]; for the points first .. first + queries - 1 the nearest, sorted: [queries][neighbors] of
// indices (-1 where there are too few points), distances (then infinity), and room for as many squares.
struct NeighborSearch {
  const float* samples = nullptr;
  int64_t count = 0, features = 0, neighbors = 0, first = 0, queries = 0;
  int32_t* indices = nullptr;
  float* distances = nullptr;
  double* squares = nullptr;
};

// The functions of one instruction set.
struct TensorKernels {
  std::unique_ptr<Plan> (*make_reduction)(const ReductionShape& shape);
  void (*strided_copy)(const StridedCopy& copy, int threads);
  void (*gather)(const Selection& s, int threads);
  void (*scatter)(const Selection& s, Scattering kind, int threads);
  // Number of the first index that is not in 0 .. limit - 1, or -1.
  int64_t (*first_outside)(const int64_t* indices, int64_t count, int64_t limit);
  void (*top_k)(const TopKShape& s, const void* x, int64_t* indices, int threads);
  // y[o][i] = whether fewer than k values along the axis are larger than the one at tested[o][i].
  void (*in_top_k)(const TopKShape& s, const void* x, const int64_t* tested, uint8_t* y, int threads);
  void (*compare)(ComparedType type, Comparison operation, bool inverted, const void* a, const void* b, uint8_t* y,
                  int64_t count, int threads);
  void (*band_part)(const BandShape& s, const char* x, char* y, int threads);
  void (*nearest_neighbors)(const NeighborSearch& s, int threads);
};

const TensorKernels& tensor_kernels_base();
#if defined(__x86_64__)
const TensorKernels& tensor_kernels_avx2();
const TensorKernels& tensor_kernels_avx512();
#endif
// Of the instruction set that kernels() chose.
const TensorKernels& tensor_kernels();

#if defined(OPENBNNS_ISA)
namespace OPENBNNS_ISA {

[[gnu::cold]] std::unique_ptr<Plan> make_reduction(const ReductionShape& shape);
void strided_copy(const StridedCopy& copy, int threads);
void gather(const Selection& s, int threads);
void scatter(const Selection& s, Scattering kind, int threads);
int64_t first_outside(const int64_t* indices, int64_t count, int64_t limit);
void top_k(const TopKShape& s, const void* x, int64_t* indices, int threads);
void in_top_k(const TopKShape& s, const void* x, const int64_t* tested, uint8_t* y, int threads);
void compare(ComparedType type, Comparison operation, bool inverted, const void* a, const void* b, uint8_t* y,
             int64_t count, int threads);
void band_part(const BandShape& s, const char* x, char* y, int threads);
void nearest_neighbors(const NeighborSearch& s, int threads);

}  // namespace OPENBNNS_ISA
#endif
}  // namespace openbnns
