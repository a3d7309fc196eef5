// Decision trees: several samples go down one tree at a time, or one sample down several trees, so that a step of one
// need not wait for the memory of another.
//
// What leaves say is added tree by tree within blocks of trees, and then block by block, in double: the same for any
// number of threads and samples.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "common/scratch_uses.h"
#include "kernels/kernels.h"
#include "runtime/dynamic_items.h"
#include "runtime/plan.h"
#include "runtime/scratch.h"
#include "simd/vec.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace {

constexpr int kLanes = 8;               // that go down together
constexpr int64_t kBlock = 128;         // trees whose leaves are added first, at least
constexpr int64_t kBlocks = 16;         // at most
constexpr int64_t kTile = 256;          // samples of one task at most
constexpr int64_t kTotals = 2048;       // numbers that a task adds to
constexpr int64_t kSerialLeaves = 512;  // fewer to be found stay on the calling thread
constexpr int kKindBit = 28;            // of a feature, above its number

struct Node {
  float threshold;
  uint32_t feature;  // and the Decision, from kKindBit on
  int32_t behind;    // the first of two nodes; of a leaf, itself
  int32_t entry;     // the first of its entries; those of the next node follow
};

// Which decisions there are among the nodes.
enum class Kinds { UpTo, Ordered, All };

class Forest final : public Plan {
 public:
  explicit Forest(const TreesShape& s) : s_(s), kinds_(kinds_of(s)) {
    for (size_t i = 0; i < s.feature.size(); i++)
      nodes_.push_back({s.threshold[i],
                        static_cast<uint32_t>(s.feature[i]) | static_cast<uint32_t>(s.kind[i]) << kKindBit, s.behind[i],
                        s.first_entry[i]});
    nodes_.push_back({0, 0, 0, s.first_entry.back()});
  }

  void forward(const Call& call) override {
    switch (kinds_) {
      case Kinds::UpTo:
        return run<Kinds::UpTo>(call);
      case Kinds::Ordered:
        return run<Kinds::Ordered>(call);
      case Kinds::All:
        return run<Kinds::All>(call);
    }
  }
  void backward(const Call&) override {}  // that of the leaves is computed elsewhere

 private:
  static Kinds kinds_of(const TreesShape& s) {
    const int32_t most = s.kind.empty() ? 0 : *std::max_element(s.kind.begin(), s.kind.end());
    return most == static_cast<int32_t>(Decision::UpTo)    ? Kinds::UpTo
           : most == static_cast<int32_t>(Decision::Above) ? Kinds::Ordered
                                                           : Kinds::All;
  }

  int64_t trees() const { return static_cast<int64_t>(s_.roots.size()); }
  int64_t per_block() const { return std::max(kBlock, (trees() + kBlocks - 1) / kBlocks); }
  int64_t blocks() const { return (trees() + per_block() - 1) / per_block(); }

  // Whether a sample goes to the second node behind this one.
  template <Kinds kKinds>
  OPENBNNS_INLINE bool decides(const Node& node, const float* x) const {
    if constexpr (kKinds == Kinds::UpTo) return x[node.feature] <= node.threshold;
    const auto kind = static_cast<Decision>(node.feature >> kKindBit);
    const float value = x[node.feature & ((1u << kKindBit) - 1)];
    const bool most = value <= node.threshold, above = value > node.threshold;
    if constexpr (kKinds == Kinds::Ordered) {
      const bool is_above = kind == Decision::Above;
      return (is_above & above) | (!is_above & most);  // without a branch
    }
    switch (kind) {
      case Decision::UpTo:
        return most;
      case Decision::Above:
        return above;
      case Decision::Equal:
        return value == node.threshold;
      case Decision::EqualOrMissing:
        return value == node.threshold || std::isnan(value);
      case Decision::Member:
      case Decision::MemberOrMissing:
        break;
    }
    if (std::isnan(value)) return kind == Decision::MemberOrMissing;
    const auto number = &node - nodes_.data();
    return std::binary_search(s_.member.data() + s_.first_member[number],
                              s_.member.data() + s_.first_member[number + 1], value);
  }

  // Moves each of the places down to a leaf.
  template <Kinds kKinds>
  OPENBNNS_INLINE void descend(int32_t* at, const float* const* x) const {
    const Node* nodes = nodes_.data();
    for (int32_t moved = 1; moved != 0;) {
      moved = 0;
      OPENBNNS_UNROLL for (int k = 0; k < kLanes; k++) {
        const Node& node = nodes[at[k]];
        const int32_t next = node.behind + static_cast<int32_t>(decides<kKinds>(node, x[k]));
        moved |= next ^ at[k];
        at[k] = next;
      }
    }
  }

  bool is_extreme() const { return s_.total == TreesTotal::Minimum || s_.total == TreesTotal::Maximum; }
  double nothing() const {
    if (!is_extreme()) return 0;
    return s_.total == TreesTotal::Minimum ? std::numeric_limits<double>::infinity()
                                           : -std::numeric_limits<double>::infinity();
  }
  double joined(double a, double b) const {
    if (!is_extreme()) return a + b;
    return (s_.total == TreesTotal::Minimum) == (b < a) ? b : a;
  }

  // Adds what a leaf says about columns from `first` on.
  OPENBNNS_INLINE void add(int32_t leaf, const float* w, int64_t first, int64_t columns, double* totals) const {
    const int32_t begin = nodes_[leaf].entry, end = nodes_[leaf + 1].entry;
    if (columns == 1 && s_.columns == 1 && !is_extreme()) {
      for (int32_t e = begin; e < end; e++) totals[0] += w[e];
      return;
    }
    for (int32_t e = begin; e < end; e++) {
      const int64_t column = s_.column[e] - first;
      if (column >= 0 && column < columns) totals[column] = joined(totals[column], w[e]);
    }
  }

  // One block of trees for some samples: totals[sample][column].
  template <Kinds kKinds>
  void add_block(int64_t block, const float* x, int64_t samples, const float* w, int64_t first, int64_t columns,
                 double* totals) const {
    std::fill(totals, totals + samples * columns, nothing());
    const int64_t begin = block * per_block(), last = std::min(trees(), begin + per_block());
    const int64_t together = samples / kLanes * kLanes;
    int32_t at[kLanes];
    const float* row[kLanes];
    for (int64_t tree = begin; together > 0 && tree < last; tree++) {
      for (int64_t n = 0; n < together; n += kLanes) {
        for (int k = 0; k < kLanes; k++) {
          at[k] = s_.roots[tree];
          row[k] = x + (n + k) * s_.features;
        }
        descend<kKinds>(at, row);
        for (int k = 0; k < kLanes; k++) add(at[k], w, first, columns, totals + (n + k) * columns);
      }
    }
    for (int64_t n = together; n < samples; n++) {
      std::fill(row, row + kLanes, x + n * s_.features);
      for (int64_t tree = begin; tree < last; tree += kLanes) {
        for (int k = 0; k < kLanes; k++) at[k] = s_.roots[std::min(tree + k, last - 1)];
        descend<kKinds>(at, row);
        const int64_t there = std::min<int64_t>(kLanes, last - tree);
        for (int k = 0; k < there; k++) add(at[k], w, first, columns, totals + n * columns);
      }
    }
  }

  // y of some columns of a sample from the totals of all blocks, `step` apart.
  void finish(const double* totals, int64_t step, int64_t columns, float* y) const {
    for (int64_t c = 0; c < columns; c++) {
      double total = totals[c];
      for (int64_t block = 1; block < blocks(); block++) total = joined(total, totals[block * step + c]);
      if (s_.total == TreesTotal::Mean) total /= static_cast<double>(trees());
      y[c] = static_cast<float>(is_extreme() && total == nothing() ? 0 : total);
    }
  }

  template <Kinds kKinds>
  void run(const Call& call) const {
    const float *x = call.address[kTreesX], *w = call.address[kTreesW];
    float* y = call.address[kTreesY];
    const int64_t N = call.batch, all = blocks();
    const int threads = N * trees() < kSerialLeaves ? 1 : call.threads;
    const int64_t chunk = std::max<int64_t>(1, std::min(s_.columns, kTotals / all));
    const int64_t most = std::max<int64_t>(1, std::min(kTile, kTotals / (all * chunk)));
    const int64_t tile = std::min(most, std::max<int64_t>(kLanes, (N / 8 + kLanes - 1) / kLanes * kLanes));
    const int64_t tiles = (N + tile - 1) / tile;
    if (tiles == 1 && threads > 1 && all > 1 && chunk == s_.columns) {  // each task takes blocks rather than samples
      auto* totals = reinterpret_cast<double*>(scratch(kTreeTotals, static_cast<size_t>(2 * all * N * chunk)));
      dynamic_items(threads, all,
                    [&](int64_t block) { add_block<kKinds>(block, x, N, w, 0, chunk, totals + block * N * chunk); });
      for (int64_t n = 0; n < N; n++) finish(totals + n * chunk, N * chunk, chunk, y + n * chunk);
      return;
    }
    dynamic_items(threads, tiles, [&](int64_t item) {
      const int64_t begin = item * tile, samples = std::min(tile, N - begin);
      auto* totals = reinterpret_cast<double*>(scratch(kTreeTotals, static_cast<size_t>(2 * all * tile * chunk)));
      for (int64_t first = 0; first < s_.columns; first += chunk) {
        const int64_t columns = std::min(chunk, s_.columns - first);
        for (int64_t block = 0; block < all; block++)
          add_block<kKinds>(block, x + begin * s_.features, samples, w, first, columns,
                            totals + block * samples * columns);
        for (int64_t n = 0; n < samples; n++)
          finish(totals + n * columns, samples * columns, columns, y + (begin + n) * s_.columns + first);
      }
    });
  }

  const TreesShape s_;
  const Kinds kinds_;
  std::vector<Node> nodes_;
};

}  // namespace

std::unique_ptr<Plan> make_trees(const TreesShape& s) { return std::make_unique<Forest>(s); }

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
