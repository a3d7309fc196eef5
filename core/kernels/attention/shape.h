#pragma once
#include <cstdint>

#include "common/fields.h"

namespace openbnns {

// Multihead attention: docs/filters/attention.md has the formulas. T target, S source, D model, K key, V value, H
// heads. q, output and their gradients: [T][D]; k, v: [S][D]; canonical parameters: wq, wk [H][K][D], wv [H][V][D], wo
// [H][V][D], biases without the last axis, the output's without the others. key mask: bytes [S], nonzero is masked.
// Added scores: [T][S] of floats or bytes (nonzero adds -infinity), heads extra[kAddedHeadStride] elements apart.
// The thirteen gradients come in the order of their tensors.
enum AttentionSlot {
  kQuery,
  kKey,
  kValue,
  kFirstParameter,  // wq, wk, wv, wo, pq, pk, pv, po, bk, bv
  kOutput = kFirstParameter + 10,
  kOutputGradient,
  kQueryGradient,
  kKeyGradient,
  kValueGradient,
  kFirstParameterGradient,
  kKeyMask = kFirstParameterGradient + 10,
  kAdded,
  kAttentionCache,
  kAttentionWorkspace
};
constexpr int kAttentionParameters = 10;
// The extra numbers of a Call. A forward call uses draw kDropoutDraw or, if kDropoutCounter is the address of an
// int64_t, the draw stored there, which it then increments. A cache records the draw of its forward call for the
// backward call.
enum AttentionExtra { kAttentionOptions, kAddedHeadStride, kDropoutDraw, kDropoutCounter };
// kCausal: position i reads source rows up to i, and appended ones.
enum AttentionOption { kCanonicalParameters = 1, kAddedIsBoolean = 2, kNoDropout = 4, kCausal = 8 };
constexpr uint64_t kNoDraw = (uint64_t{1} << 63) - 1;  // in a cache: nothing was dropped

struct AttentionShape {
  int64_t target, source, model, key, value, heads;
  bool attention_bias = false, zero_row = false;
  bool masked_rows_are_zero = false;  // instead of NaN
  float dropout = 0;                  // 0: none
  uint64_t seed = 0;
  uint64_t token = 0;     // distinguishes the caches of this filter from those of others
  bool bfloat16 = false;  // operands of products may be rounded to BFloat16
  // Where element (h, i, d) of a parameter lies: h * steps[0] + i * steps[1] + d * steps[2]. As the caller stores them,
  // unless the option kCanonicalParameters says otherwise.
  int64_t parameter_steps[kAttentionParameters][3] = {}, gradient_steps[kAttentionParameters][3] = {};
  OPENBNNS_FIELDS(target, source, model, key, value, heads, attention_bias, zero_row, masked_rows_are_zero, dropout,
                  seed, token, bfloat16, parameter_steps, gradient_steps)
};

// The first bytes of a cache; the format of the rest is up to the engine that wrote it.
struct AttentionCacheHeader {
  static constexpr uint64_t kMark = 0x6e6f69746e657474;
  static constexpr int64_t kFloats = 16;  // of the cache, per sample
  uint64_t mark, token, batch, draw, engine;
};
constexpr uint64_t kNativeEngine = 1;

// The heads alone, for networks: q, k and v are there already, and what is made is not projected. Samples N = batch;
// where head h of sample n begins, and how far its rows are apart, say steps (sample, head, row).
enum AttentionHeadsSlot {
  kHeadsQ,  // rows of K
  kHeadsK,
  kHeadsV,  // rows of V
  kHeadsO,
  kHeadsLse,    // [N][H][T], for the backward call
  kHeadsAdded,  // [T][S] of floats, or bytes, nonzero for -infinity; heads and samples as extra says
  kHeadsDo,     // as o; gradients as their tensors, null where none is wanted
  kHeadsDq,
  kHeadsDk,
  kHeadsDv,
  kHeadsCounter,  // int64_t: number of the next draw of dropout; a forward call adds one
  kHeadsDrawn,    // int64_t: that of the latest, for the backward call
};
enum AttentionHeadsExtra { kHeadsAddedIsBoolean, kHeadsAddedHeadStride };

struct AttentionHeadsShape {
  int64_t target, source, key, value, heads;
  float scale;
  bool causal = false;
  float dropout = 0;  // in training
  uint64_t seed = 0;
  int64_t q_steps[3] = {}, k_steps[3] = {}, v_steps[3] = {}, o_steps[3] = {};
  bool bfloat16 = false;  // operands of products may be rounded to BFloat16
  OPENBNNS_FIELDS(target, source, key, value, heads, scale, causal, dropout, seed, q_steps, k_steps, v_steps, o_steps,
                  bfloat16)
};

}  // namespace openbnns
