// The methods of pooling: each says which windows it fits, what scratch it needs, and pools forward and backward. They
// form an ordered list (pooling.cpp), from which a plan takes the first that fits, for each use.
#pragma once
#include <algorithm>
#include <memory>
#include <vector>

#include "common/scratch_uses.h"
#include "common/windows.h"
#include "kernels/pooling/shape.h"
#include "runtime/scratch.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace pooling {

enum Function { kMax, kAverageIncludingPadding, kAverageExcludingPadding, kUnMax, kL2Norm };

constexpr bool kGathers = kWidth > 4;  // the instruction set loads the lanes of a vector from different places

// Number of cells inside the plane that a window meets: rows[oy] * columns[ox], columns padded with ones to whole
// vectors.
struct CellCounts {
  std::vector<float> rows, columns;
  [[gnu::cold]] explicit CellCounts(const WindowShape& shape);
  bool all_meet() const {  // every window has a cell
    auto meets = [](float count) { return count > 0; };
    return std::all_of(rows.begin(), rows.end(), meets) && std::all_of(columns.begin(), columns.end(), meets);
  }
};

// What is pooled, over which windows.
struct Problem {
  PoolingShape shape;  // with the windows that are looked at
  int64_t cells;       // of a window as it was given
  WindowGeometry geometry;
  CellCounts counts;
  std::vector<int64_t> empty;  // Max: windows without a cell in the plane

  [[gnu::cold]] explicit Problem(const PoolingShape& given);

  int64_t in_plane() const { return geometry.in_plane(); }
  int64_t out_plane() const { return geometry.out_plane(); }
  bool is_average() const {
    return shape.function == kAverageIncludingPadding || shape.function == kAverageExcludingPadding;
  }
  // What an average divides by: the cells inside, or if these do not matter (null) those of a whole window.
  const CellCounts* cells_inside() const { return shape.function == kAverageExcludingPadding ? &counts : nullptr; }
  float divisor() const { return static_cast<float>(cells); }
  bool covers_plane() const;  // one window holds the whole plane
  float border() const;       // what cells outside the plane count as
  template <class Value>
  void fill_empty(Value* of_windows, Value value) const {
    for (int64_t i : empty) of_windows[i] = value;
  }
  std::vector<int32_t> tap_distances() const;  // of every tap from the start of its window, in the plane
};

// What a call wants; the indices are those of Max.
enum class Use { kValues, kGradient, kIndices, kGradientByIndices };

// Where a plane's indices are, of either width.
struct IndexPlane {
  void* data = nullptr;
  bool wide = false;

  uint64_t get(int64_t i) const {
    return wide ? static_cast<const uint64_t*>(data)[i] : static_cast<const uint32_t*>(data)[i];
  }
  IndexPlane from(int64_t i) const {
    if (wide) return {static_cast<uint64_t*>(data) + i, true};
    return {static_cast<uint32_t*>(data) + i, false};
  }
  explicit operator bool() const { return data != nullptr; }
};

// Neighbouring planes of a sample: `count` of [in_height][in_width] and [out_height][out_width], packed.
struct ForwardPlanes {
  int64_t count;
  const float *x, *bias;  // bias: [count], or null
  IndexPlane index;
  float* y;

  float first_bias() const { return bias ? bias[0] : 0; }
};
struct BackwardPlanes {
  int64_t count;
  const float *x, *dz;
  IndexPlane index;
  float* dx;
  bool adds;

  BackwardPlanes plane(const Problem& p, int64_t i) const {
    return {1, x + i * p.in_plane(), dz + i * p.out_plane(), index, dx + i * p.in_plane(), adds};
  }
};

// Scratch of one thread: what a method has asked for.
struct Scratch {
  float* x = nullptr;         // cells, as the method arranges them
  float* gradient = nullptr;  // the same of the output, or of its gradient
  float* gather = nullptr;    // for WindowGeometry::gather, or tiles
  float* plane = nullptr;     // a gradient that is to be added
  float* rows = nullptr;      // the latest rows of cells
  int32_t* winner = nullptr;
};
inline float* float_scratch(ScratchUse use, int64_t floats) { return scratch(use, static_cast<size_t>(floats)); }
inline int32_t* winner_scratch(int64_t count) { return reinterpret_cast<int32_t*>(float_scratch(kWeights, count)); }

// y = pool(x) + bias and its gradient dx = (or +=) ..., for planes of one problem.
class Method {
 public:
  explicit Method(const Problem& problem) : p_(problem) {}
  virtual ~Method() = default;

  virtual int64_t planes() const { return 1; }  // that are worked on together, at most
  // Not of the slots kPartialSums and kActivated, which the plan uses.
  virtual Scratch scratch(Use) const { return {}; }
  virtual void forward(const Scratch& work, const ForwardPlanes& planes) const = 0;
  virtual void backward(const Scratch& work, const BackwardPlanes& planes) const = 0;

 protected:
  const Problem& p_;
};

struct MethodEntry {
  bool (*fits)(const Problem&, Use);
  std::unique_ptr<Method> (*make)(const Problem&);
};
template <class Made>
constexpr MethodEntry entry_of() {
  return {Made::fits, [](const Problem& p) -> std::unique_ptr<Method> { return std::make_unique<Made>(p); }};
}

extern const MethodEntry kByIndices;     // indices that are given say all: UnMax, and gradients of Max
extern const MethodEntry kDisjoint;      // L2Norm, windows that share no cells
extern const MethodEntry kLanes;         // small planes side by side
extern const MethodEntry kPlaneMaximum;  // one window over the whole plane
extern const MethodEntry kPlaneAverage;
extern const MethodEntry kPairs;       // 2 x 2 windows, side by side and all inside
extern const MethodEntry kTriples;     // Max, 3 x 3 windows two cells apart
extern const MethodEntry kSeparable;   // Max and averages, in two passes
extern const MethodEntry kAnyWindows;  // everything

// What kLanes has to know of its competitors.
bool has_pairs(const Problem& p);
bool has_triples(const Problem& p);
bool is_separable(const Problem& p);

// dx = (or +=) the plane that compute(dx) writes; room: of a plane.
template <class Compute>
void write_plane(const Problem& p, const BackwardPlanes& b, float* room, Compute&& compute) {
  float* to = b.adds ? room : b.dx;
  compute(to);
  if (b.adds) add_row(b.dx, to, p.in_plane());
}

}  // namespace pooling
}  // namespace OPENBNNS_ISA
}  // namespace openbnns
