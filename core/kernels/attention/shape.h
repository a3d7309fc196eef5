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
// Numbers of a Call. A cache notes its draw; without one, the call names it.
enum AttentionExtra { kAttentionOptions, kAddedHeadStride, kDropoutDraw };
enum AttentionOption { kCanonicalParameters = 1, kAddedIsBoolean = 2, kNoDropout = 4 };

struct AttentionShape {
  int64_t target, source, model, key, value, heads;
  bool attention_bias = false, zero_row = false;
  bool masked_rows_are_zero = false;  // instead of NaN
  float dropout = 0;                  // 0: none
  uint64_t seed = 0;
  uint64_t token = 0;  // tells the caches of one filter from those of others
  // Where element (h, i, d) of a parameter lies: h * steps[0] + i * steps[1] + d * steps[2]. As the caller stores them,
  // unless the option kCanonicalParameters says otherwise.
  int64_t parameter_steps[kAttentionParameters][3] = {}, gradient_steps[kAttentionParameters][3] = {};
  OPENBNNS_FIELDS(target, source, model, key, value, heads, attention_bias, zero_row, masked_rows_are_zero, dropout,
                  seed, token, parameter_steps, gradient_steps)
};

// The first bytes of a cache; the rest is a matter of the engine that wrote it.
struct AttentionCacheHeader {
  static constexpr uint64_t kMark = 0x6e6f69746e657474;
  static constexpr int64_t kFloats = 16;  // of the cache, per sample
  uint64_t mark, token, batch, draw, engine;
};
constexpr uint64_t kNativeEngine = 1;

}  // namespace openbnns
