// The part of multihead attention between its projections: one softmax-weighted mean per sample, head and position.
#pragma once
#include <vector>

#include "kernels/attention/shape.h"
#include "simd/random.h"

namespace openbnns {
namespace OPENBNNS_ISA {

// One run over some samples of a batch. S' = S plus the appended rows; projections are token-major, so that head h of
// one position is a run of K (or V) numbers inside its row.
struct HeadsCall {
  int64_t samples = 0;
  int64_t first = 0;         // number of the first sample in its batch
  const float* q = nullptr;  // [samples][T][H * K]
  const float* k = nullptr;  // [samples][S'][H * K]
  const float* v = nullptr;  // [samples][S'][H * V]
  float* o = nullptr;        // [samples][T][H * V], the concatenated heads
  float* lse = nullptr;      // [samples][H][T], log of the sum of exponentials of each row
  // Both may be absent. Strides are those from one sample to the next (and, for added, from head to head).
  const uint8_t* key_mask = nullptr;
  int64_t key_mask_stride = 0;
  const void* added = nullptr;
  bool added_is_boolean = false;
  int64_t added_stride = 0, added_head_stride = 0;
  bool drops = false;
  RandomStream stream;
  // Backward only.
  const float* dout = nullptr;                        // [samples][T][H * V]
  float *dq = nullptr, *dk = nullptr, *dv = nullptr;  // as q, k, v; a null one is not wanted
  int64_t groups = 1;                                 // of target positions: see Heads::groups
  float* partial = nullptr;                           // [groups - 1][samples][S'][H * (K + V)]
};

class Heads {
 public:
  [[gnu::cold]] explicit Heads(const AttentionShape& shape);

  // o = softmax(scale q k^T + ...) v per head, and lse
  void forward(const HeadsCall& call, int threads) const;
  // dq, dk and dv from dout, o and lse; the probabilities are computed again
  void backward(const HeadsCall& call, int threads) const;

  // In how many groups the target positions of a head are taken, when there are too few heads to share out. Depends on
  // the sizes only.
  int64_t groups(int64_t samples) const;
  int64_t source_rows() const { return rows_; }

 private:
  struct Pair;
  struct Tiles;
  Pair pair_of(const HeadsCall& call, int64_t number) const;
  Tiles tiles(bool backward) const;
  void pack_pair(const HeadsCall& call, const Pair& pair, const Tiles& t, bool backward) const;
  void forward_strip(const HeadsCall& call, const Pair& pair, const Tiles& t, int64_t row, int64_t rows) const;
  void backward_strip(const HeadsCall& call, const Pair& pair, const Tiles& t, int64_t row, int64_t rows) const;
  void softmax_rows(const HeadsCall& call, const Pair& pair, const Tiles& t, int64_t row, int64_t rows, int64_t column,
                    int64_t columns) const;
  bool is_plain(const HeadsCall& call, int64_t column, int64_t columns) const;
  Vec largest_of(const float* scores, int64_t columns) const;
  Vec finish_scores(const HeadsCall& call, const Pair& pair, const Tiles& t, int64_t row, float* scores, int64_t column,
                    int64_t columns) const;
  Vec exponentials(const HeadsCall& call, const Pair& pair, const Tiles& t, int64_t row, int64_t i, int64_t column,
                   int64_t columns, float scale) const;
  void draw(const HeadsCall& call, const Pair& pair, const Tiles& t, int64_t row, int64_t column,
            int64_t columns) const;
  void gradient_rows(const HeadsCall& call, const Pair& pair, const Tiles& t, int64_t row, int64_t rows, int64_t column,
                     int64_t columns, bool scores) const;
  void finish_accumulators(const HeadsCall& call, const Pair& pair, const Tiles& t, int64_t group) const;

  const int64_t target_, source_, rows_, key_, value_, heads_;
  const float scale_, dropout_;
  const bool masked_rows_are_zero_;
  int tile_;       // rows of a register tile
  int64_t strip_;  // target positions taken together
  int64_t strips_;
  int64_t block_;                      // source rows taken together
  int64_t padded_;                     // source rows rounded up to whole blocks of 16
  int64_t key_depth_, value_depth_;    // K and V rounded up to whole steps of the micro-kernel
  int64_t key_blocks_, value_blocks_;  // of 16
  std::vector<int32_t> strip_entries_, packed_entries_;
};

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
