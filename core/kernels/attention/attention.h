// The part of multihead attention between its projections: one softmax-weighted mean per sample, head and position.
#pragma once
#include <vector>

#include "gemm/entry_sums.h"
#include "kernels/attention/shape.h"
#include "simd/random.h"

namespace openbnns {
namespace OPENBNNS_ISA {

// S' = S plus the appended rows, which no mask reaches.
struct HeadsShape {
  int64_t target, source, appended, key, value, heads;
  float scale;  // above 0
  float dropout = 0;
  bool masked_rows_are_zero = false;  // instead of NaN
  bool bfloat16 = false;              // operands of products may be rounded to BFloat16
};

// Where the rows of one head lie: elements from sample to sample, from head to head and from row to row.
struct HeadPlaces {
  int64_t sample, head, row;
};

// One run over some samples of a batch.
struct HeadsCall {
  int64_t samples = 0;
  int64_t first = 0;         // number of the first sample in its batch
  const float* q = nullptr;  // T rows of K per head
  const float* k = nullptr;  // S' rows of K
  const float* v = nullptr;  // S' rows of V
  float* o = nullptr;        // T rows of V
  float* lse = nullptr;      // [samples][H][T], log of the sum of exponentials of each row
  HeadPlaces q_places{}, k_places{}, v_places{}, o_places{};
  // Position i reads source rows up to i, and appended ones.
  bool causal = false;
  // Both may be absent. Strides are those from one sample to the next (and, for added, from head to head).
  const uint8_t* key_mask = nullptr;
  int64_t key_mask_stride = 0;
  const void* added = nullptr;
  bool added_is_boolean = false;
  int64_t added_stride = 0, added_head_stride = 0;
  bool drops = false;
  RandomStream stream;
  // Backward only.
  const float* dout = nullptr;                        // as o
  float *dq = nullptr, *dk = nullptr, *dv = nullptr;  // as q, k, v; a null one is not wanted
  int64_t groups = 1;                                 // of target positions: see Heads::groups
  float* partial = nullptr;                           // [groups - 1][samples][H][S'][K + V]
};

class Heads {
 public:
  [[gnu::cold]] explicit Heads(const HeadsShape& shape);

  // o = softmax(scale q k^T + ...) v per head, and lse
  void forward(const HeadsCall& call, int threads) const;
  // dq, dk and dv from dout, o and lse; the probabilities are computed again
  void backward(const HeadsCall& call, int threads) const;

  // The number of groups into which the target positions of a head are divided when there are too few heads for all
  // threads. Depends on the sizes only.
  int64_t groups(int64_t samples) const;
  int64_t partial_floats(int64_t samples) const {
    return (groups(samples) - 1) * samples * s_.heads * rows_ * (s_.key + s_.value);
  }
  int64_t source_rows() const { return rows_; }

 private:
  struct Pair;
  struct Tiles;
  struct Extents;
  class Ahead;
  Pair pair_of(const HeadsCall& call, int64_t number) const;
  Tiles tiles(bool backward) const;
  // Source rows [first, last), first a multiple of 16.
  struct Sources {
    int64_t first, last;
  };
  void pack_pair(const HeadsCall& call, Pair& pair, const Tiles& t, bool backward, int64_t end,
                 const Sources& sources) const;
  Ahead ahead_of(const HeadsCall& call, const Pair& pair, int64_t row, int64_t rows, int64_t end) const;
  void find_hidden(const HeadsCall& call, Pair& pair, const Tiles& t) const;
  int64_t find_limits(const HeadsCall& call, const Pair& pair, const Tiles& t, int64_t row, int64_t rows) const;

  void forward_strip(const HeadsCall& call, const Pair& pair, const Tiles& t, int64_t row, int64_t rows,
                     const Ahead& ahead) const;
  void softmax_rows(const HeadsCall& call, const Pair& pair, const Tiles& t, const Extents& e, int64_t row,
                    int64_t rows, int64_t column, const Ahead& ahead) const;
  template <class Added>
  Vec finish_scores(const HeadsCall& call, const Tiles& t, const Added& added, int64_t row, float* scores,
                    int64_t column, int64_t columns) const;
  Vec finish_row(const HeadsCall& call, const Pair& pair, const Tiles& t, int64_t row, float* scores, int64_t column,
                 int64_t columns) const;
  Vec largest_of(float* scores, int64_t visible) const;
  Vec exponentials(float* scores, int64_t columns, int64_t visible, float scale, float shift) const;
  void drop(const uint32_t* words, float* scores, int64_t columns) const;
  const uint32_t* draw(const HeadsCall& call, const Pair& pair, const Tiles& t, int64_t row, int64_t i, int64_t rows,
                       int64_t column, int64_t columns) const;

  // What a worker does of a group of a head at a time: the gradients of q of some positions, those of k and v of some
  // source rows, or all of them.
  struct BackwardParts {
    int64_t positions, sources;  // parts that each is cut into; no sources: all gradients are computed together
    int64_t count() const { return positions + sources; }
  };
  BackwardParts backward_parts(const HeadsCall& call, int64_t groups, int threads) const;
  void backward_part(const HeadsCall& call, int64_t pair, int64_t group, const BackwardParts& parts,
                     int64_t index) const;
  void backward_strip(const HeadsCall& call, const Pair& pair, const Tiles& t, int64_t row, int64_t rows,
                      const Sources& sources, const Ahead& ahead) const;
  void gradient_rows(const HeadsCall& call, const Pair& pair, const Tiles& t, const Extents& e, int64_t row,
                     int64_t rows, int64_t column, bool scores, const Ahead& ahead) const;
  template <bool kDrops, bool kScores>
  void limited_gradients(const Tiles& t, const uint32_t* words, int64_t i, int64_t columns, int64_t visible,
                         float lse) const;
  template <class Added>
  void masked_gradients(const HeadsCall& call, const Tiles& t, const uint32_t* words, const Added& added, int64_t row,
                        int64_t i, int64_t column, int64_t columns, float lse, bool scores) const;
  void sum_over_rows(const HeadsCall& call, const Tiles& t, const Extents& e, int64_t column, bool scores) const;
  void finish_accumulators(const HeadsCall& call, const Pair& pair, const Tiles& t, int64_t group,
                           const Sources& sources) const;
  void join_groups(const HeadsCall& call, int threads) const;

  // Rows of q, k or v as operands of products along their columns, [columns / 16][row][16], and of products over the
  // rows, [column / 16][steps of rows][16]; blocks are `block_floats` apart.
  void pack_along(const Tiles& t, const float* source, int64_t stride, int64_t rows, int64_t columns, float* to,
                  int64_t block_floats) const;
  void pack_over(const Tiles& t, const float* source, int64_t stride, int64_t rows, int64_t columns, float* to,
                 int64_t block_floats) const;
  // Scores as an operand of products over the source.
  const float* over_source(const Tiles& t, const Extents& e, const float* scores) const;

  // Tiles of rows that target positions are cut into.
  int64_t tiles_of_rows() const { return (s_.target + tile_ - 1) / tile_; }
  bool draws_several() const { return rows_ <= kRandomGroup; }

  const HeadsShape s_;
  const EntrySums sums_;
  const int64_t rows_;       // S'
  const int32_t threshold_;  // random numbers of 23 bits below it stand for what is dropped
  int tile_;                 // rows of a register tile
  int64_t strip_;            // target positions taken together
  int64_t strips_;
  int64_t block_;                      // source rows taken together
  int64_t padded_;                     // source rows rounded up to whole blocks of 16 steps
  int64_t key_depth_, value_depth_;    // steps of K and V in whole entries of the micro-kernel
  int64_t key_blocks_, value_blocks_;  // of 16
  std::vector<int32_t> strip_entries_, packed_entries_, position_entries_;
};

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
