// Multihead attention: projections, heads (heads.cpp), output projection, and the gradients of all of it.
//
// Work on a batch goes in chunks of samples, so that memory is bounded whatever the batch. Qh, Kt, Vt, the concatenated
// heads C and the log-sums of the softmax are kept in the cache, if there is one, from forward to backward.
#include "kernels/attention/attention.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "common/kept_weights.h"
#include "common/scratch_uses.h"
#include "gemm/gemm.h"
#include "gemm/micro_kernel.h"
#include "kernels/kernels.h"
#include "runtime/dynamic_items.h"
#include "runtime/scratch.h"
#include "runtime/weights_version.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace {

enum Parameter { kWq, kWk, kWv, kWo, kPq, kPk, kPv, kPo, kBk, kBv };
constexpr int64_t kChunkFloats = int64_t{1} << 24;  // of intermediates held at a time (64 MB), but for one sample
constexpr int64_t kAlignment = 64;                  // bytes; a caller's workspace may begin anywhere

// A parameter as [heads][width][inner] with steps.
struct Form {
  int64_t heads, width, inner;
  int64_t steps[3];

  int64_t count() const { return heads * width * inner; }
  bool canonical() const {
    return (inner == 1 || steps[2] == 1) && (width == 1 || steps[1] == inner) &&
           (heads == 1 || steps[0] == width * inner);
  }
  // [inner][heads][width]: what the matrix product takes as well, as the transpose of the canonical order
  bool turned() const {
    return !canonical() && (inner == 1 || steps[2] == heads * width) && (width == 1 || steps[1] == 1) &&
           (heads == 1 || steps[0] == width);
  }
  // body(place in the caller's memory, place in canonical order), rows shared out
  template <class Body>
  void each(int threads, Body body) const {
    int workers = useful_threads(threads, 8.0 * static_cast<double>(count()));
    parallel_items(workers, heads * width, [&](int64_t row) {
      int64_t place = row / width * steps[0] + row % width * steps[1];
      for (int64_t i = 0; i < inner; i++) body(place + i * steps[2], row * inner + i);
    });
  }
};

// Rows of samples in memory: [samples][rows][width], samples `stride` and rows `row` apart.
template <class Float>
struct Rows {
  Float* data;
  int64_t stride, rows, width, row = width;

  bool joined(int64_t samples) const { return samples == 1 || stride == rows * row; }
  Float* sample(int64_t n) const { return data + n * stride; }
};
using In = Rows<const float>;
using Out = Rows<float>;

// y = x op(w) (+ bias) for the first `rows` rows of every sample; packed: op(w) as pack_matrix_b leaves it, or null.
void product_of_rows(const In& x, const float* w, int64_t w_row, bool transposed, const float* bias, const Out& y,
                     int64_t rows, int64_t samples, bool accumulate, SumKind sums, int threads,
                     const float* packed = nullptr) {
  auto one = [&](int64_t n, int64_t count) {
    MatrixProduct p{count, y.width, x.width, x.sample(n), x.row, w, w_row, y.sample(n), y.row};
    p.transpose_b = transposed;
    p.column_bias = accumulate ? nullptr : bias;
    p.accumulate = accumulate;
    p.sums = sums;
    p.packed_b = packed;
    return p;
  };
  if (x.rows == rows && y.rows == rows && x.joined(samples) && y.joined(samples))
    return matrix_product(one(0, rows * samples), threads);
  double flops = 2.0 * static_cast<double>(rows * x.width) * static_cast<double>(y.width);
  if (useful_threads(threads, flops) == threads) {
    for (int64_t n = 0; n < samples; n++) matrix_product(one(n, rows), threads);
  } else {
    dynamic_items(useful_threads(threads, flops * static_cast<double>(samples)), samples,
                  [&](int64_t n) { matrix_product(one(n, rows)); });
  }
}

// dw (+)= sum over samples and rows of dy^T x: [dy.width][x.width]
void product_over_rows(const In& dy, const In& x, int64_t rows, int64_t samples, float* dw, bool accumulate,
                       SumKind sums, int threads) {
  bool joined = dy.rows == rows && x.rows == rows && dy.joined(samples) && x.joined(samples);
  int64_t count = joined ? 1 : samples;
  for (int64_t n = 0; n < count; n++) {
    MatrixProduct p{dy.width, x.width, joined ? rows * samples : rows, dy.sample(n), dy.row, x.sample(n), x.row,
                    dw,       x.width};
    p.transpose_a = true;
    p.sums = sums;
    p.accumulate = accumulate || n > 0;
    matrix_product(p, threads);
  }
}

// db (+)= sum over samples and rows
void sum_over_rows(const In& dy, int64_t rows, int64_t samples, float* db, bool accumulate, int threads) {
  bool joined = dy.rows == rows && dy.joined(samples);
  int64_t count = joined ? 1 : samples, length = joined ? rows * samples : rows;
  int workers = useful_threads(threads, 10.0 * static_cast<double>(rows * samples * dy.width));
  over_columns(dy.width, workers, [&](int64_t column, int64_t columns) {
    for (int64_t n = 0; n < count; n++)
      sum_rows(dy.sample(n) + column, dy.row, length, columns, db + column, accumulate || n > 0);
  });
}

// What the native engine notes in a cache.
struct NativeHeader {
  AttentionCacheHeader common;
  uint64_t joint;  // how projections lie: see Run
};
static_assert(sizeof(NativeHeader) <= AttentionCacheHeader::kFloats * sizeof(float), "there is room");

// Whether three parts follow each other in memory, or none is there.
bool adjoin(const float* a, const float* b, const float* c, int64_t first, int64_t second) {
  return a ? b == a + first && c == b + second : !b && !c;
}

HeadsShape heads_shape(const AttentionShape& s) {
  return {s.target,
          s.source,
          int64_t{s.attention_bias} + s.zero_row,
          s.key,
          s.value,
          s.heads,
          1.0f / std::sqrt(static_cast<float>(s.key)),
          s.dropout,
          s.masked_rows_are_zero,
          s.bfloat16};
}

class Attention : public Plan {
 public:
  explicit Attention(const AttentionShape& shape)
      : s_(shape), sums_(sums_of_rounded(shape.bfloat16)), heads_(heads_shape(shape)), rows_(heads_.source_rows()) {
    const int64_t widths[kAttentionParameters] = {s_.key, s_.key,   s_.value, s_.value, s_.key,
                                                  s_.key, s_.value, 1,        s_.key,   s_.value};
    for (int i = 0; i < kAttentionParameters; i++) {
      int64_t inner = i <= kWo || i == kPo ? s_.model : 1, heads = i == kPo ? 1 : s_.heads;
      canonical_[i] = {heads, widths[i], inner, {widths[i] * inner, inner, 1}};
      stored_[i] = gradient_[i] = canonical_[i];
      std::copy_n(s_.parameter_steps[i], 3, stored_[i].steps);
      std::copy_n(s_.gradient_steps[i], 3, gradient_[i].steps);
    }
  }

  void forward(const Call& call) override {
    Run run = start(call, false);
    if (float* cache = call.address[kAttentionCache])  // what the call may not live to replace
      std::memset(cache, 0, sizeof(AttentionCacheHeader));
    for (int64_t n = 0; n < call.batch; n += run.chunk) {
      int64_t samples = std::min(run.chunk, call.batch - n);
      Kept kept = kept_of(run, n);
      project(run, kept, n, samples);
      product_of_rows({kept.o, s_.target * hv(), s_.target, hv()}, run.parameter[kWo], run.turned ? hv() : s_.model,
                      run.turned, run.parameter[kPo], {at(call, kOutput, n), call.stride[kOutput], s_.target, s_.model},
                      s_.target, samples, false, sums_, call.threads,
                      packed(kWo, run.parameter[kWo], run.turned, hv(), s_.model, call.threads));
    }
    if (call.address[kAttentionCache]) write_header(run, s_.token);
  }

  void backward(const Call& call) override {
    Run run = start(call, true);
    for (int64_t n = 0; n < call.batch; n += run.chunk) backward_chunk(run, n, std::min(run.chunk, call.batch - n));
    for (int i = 0; i < kAttentionParameters; i++)
      if (run.gradient[i] && run.gradient[i] != call.address[kFirstParameterGradient + i]) {
        const float* from = run.gradient[i];
        float* to = call.address[kFirstParameterGradient + i];
        if (call.adds(kFirstParameterGradient + i))
          gradient_[i].each(call.threads, [=](int64_t theirs, int64_t ours) { to[theirs] += from[ours]; });
        else
          gradient_[i].each(call.threads, [=](int64_t theirs, int64_t ours) { to[theirs] = from[ours]; });
      }
  }

  bool recognizes(const Call& call) const override {
    if (!call.address[kAttentionCache]) return true;
    AttentionCacheHeader header;
    std::memcpy(&header, call.address[kAttentionCache], sizeof header);
    return header.mark == AttentionCacheHeader::kMark && header.token == s_.token &&
           header.batch == static_cast<uint64_t>(call.batch) && header.engine == kNativeEngine;
  }

  void keep_weights(bool keep) override { weights_known_.keep(keep); }

  int64_t workspace_bytes(bool backward, int64_t batch, bool cached) const override {
    int64_t floats = staged_floats(backward) + chunk_of(backward, batch, cached) * sample_floats(backward, cached) +
                     partial_floats(backward, chunk_of(backward, batch, cached));
    return floats * static_cast<int64_t>(sizeof(float)) + kAlignment;
  }

 private:
  // What a call works on: parameters in canonical order, and where gradients of parameters are gathered.
  struct Run {
    const Call* call;
    const float* parameter[kAttentionParameters];
    float* gradient[kAttentionParameters];
    float* work;  // intermediates of a chunk
    int64_t chunk;
    bool cached, drops;
    bool joint;                    // query, key and value are projected as one
    bool turned, gradient_turned;  // of the output: transposes of the canonical order
    uint64_t draw;
  };
  // From forward to backward, per chunk: see HeadsCall.
  struct Kept {
    float *q, *k, *v, *o, *lse;
    float* end;
  };

  int64_t hk() const { return s_.heads * s_.key; }
  int64_t hv() const { return s_.heads * s_.value; }
  int64_t joint_width() const { return 2 * hk() + hv(); }
  static float* at(const Call& call, int slot, int64_t n) { return call.address[slot] + n * call.stride[slot]; }

  int64_t kept_floats() const { return (s_.target + rows_) * (hk() + hv()) + s_.heads * s_.target; }
  int64_t sample_floats(bool backward, bool cached) const {
    return (cached ? 0 : kept_floats()) + (backward ? (s_.target + rows_) * (hk() + hv()) : 0);
  }
  int64_t chunk_of(bool backward, int64_t batch, bool cached) const {
    int64_t each = sample_floats(backward, cached);
    if (each == 0) return std::max<int64_t>(1, batch);
    return std::max<int64_t>(1, std::min(batch, kChunkFloats / each));
  }
  int64_t partial_floats(bool backward, int64_t samples) const { return backward ? heads_.partial_floats(samples) : 0; }
  // Of parameters, and gradients of parameters, whose order in memory is not the canonical one.
  int64_t staged_floats(bool backward) const {
    int64_t floats = 0;
    for (int i = 0; i < kAttentionParameters; i++) {
      if (is_staged(stored_[i], i)) floats += round_up(stored_[i].count(), kBlock);
      if (backward && is_staged(gradient_[i], i)) floats += round_up(gradient_[i].count(), kBlock);
    }
    return floats;
  }

  static bool is_staged(const Form& form, int parameter) {
    return !form.canonical() && !(parameter == kWo && form.turned());
  }

  Run start(const Call& call, bool backward) const {
    Run run{};
    run.call = &call;
    run.cached = call.address[kAttentionCache] != nullptr;
    find_draw(run, backward);
    run.chunk = chunk_of(backward, call.batch, run.cached);
    float* next;
    if (float* given = call.address[kAttentionWorkspace]) {
      uintptr_t place = (reinterpret_cast<uintptr_t>(given) + kAlignment - 1) / kAlignment * kAlignment;
      next = reinterpret_cast<float*>(place);
    } else {
      next = scratch(kAttentionHeads, static_cast<size_t>(workspace_bytes(backward, call.batch, run.cached) / 4));
    }
    bool canonical = call.extra[kAttentionOptions] & kCanonicalParameters;
    for (int i = 0; i < kAttentionParameters; i++) {
      const float* given = call.address[kFirstParameter + i];
      run.parameter[i] = given;
      if (given && !canonical && is_staged(stored_[i], i)) {
        float* staged = next;
        stored_[i].each(call.threads, [=](int64_t theirs, int64_t ours) { staged[ours] = given[theirs]; });
        run.parameter[i] = staged;
        next += round_up(stored_[i].count(), kBlock);
      }
      float* wanted = backward ? call.address[kFirstParameterGradient + i] : nullptr;
      run.gradient[i] = wanted;
      if (wanted && !canonical && is_staged(gradient_[i], i)) {
        run.gradient[i] = next;
        next += round_up(gradient_[i].count(), kBlock);
      }
    }
    run.turned = !canonical && stored_[kWo].turned();
    run.gradient_turned = !canonical && gradient_[kWo].turned();
    run.joint = backward && run.cached ? header_of(call).joint : is_joint(run);
    run.work = next;
    return run;
  }

  static NativeHeader header_of(const Call& call) {
    NativeHeader header;
    std::memcpy(&header, call.address[kAttentionCache], sizeof header);
    return header;
  }

  // Whether query, key and value are one tensor, and their projections parts of one matrix.
  bool is_joint(const Run& run) const {
    const Call& call = *run.call;
    for (int slot : {kKey, kValue})
      if (call.address[slot] != call.address[kQuery] || call.stride[slot] != call.stride[kQuery]) return false;
    const float* const* p = run.parameter;
    return s_.target == rows_ && s_.source == rows_ &&
           adjoin(p[kWq], p[kWk], p[kWv], hk() * s_.model, hk() * s_.model) &&
           adjoin(p[kPq], p[kPk], p[kPv], hk(), hk());
  }

  // What dropout draws, if it acts.
  void find_draw(Run& run, bool backward) const {
    const Call& call = *run.call;
    run.draw = kNoDraw;
    run.drops = s_.dropout > 0 && !(call.extra[kAttentionOptions] & kNoDropout);
    if (backward && run.cached) {
      run.draw = header_of(call).common.draw;
      run.drops = s_.dropout > 0 && run.draw != kNoDraw;
    } else if (run.drops) {
      run.draw = static_cast<uint64_t>(call.extra[kDropoutDraw]);
      int64_t* counter = reinterpret_cast<int64_t*>(call.extra[kDropoutCounter]);
      if (counter) run.draw = static_cast<uint64_t>(__atomic_fetch_add(counter, 1, __ATOMIC_RELAXED));
    }
  }

  // Whether the gradient of a parameter is added to what its (perhaps staged) place holds.
  bool adds(const Run& run, int parameter, int64_t first) const {
    int slot = kFirstParameterGradient + parameter;
    return first > 0 || (run.call->adds(slot) && run.gradient[parameter] == run.call->address[slot]);
  }

  // Places in the cache for the samples from n on, or in the workspace.
  Kept kept_of(const Run& run, int64_t n) const {
    int64_t batch = run.cached ? run.call->batch : run.chunk, first = run.cached ? n : 0;
    float* base = run.work;
    if (run.cached) base = run.call->address[kAttentionCache] + batch * AttentionCacheHeader::kFloats;
    Kept kept{};
    auto place = [&](float*& member, int64_t each) {
      member = base + first * each;
      base += batch * each;
    };
    if (run.joint) {
      place(kept.q, s_.target * joint_width());
      kept.k = kept.q + hk();
      kept.v = kept.k + hk();
    } else {
      place(kept.q, s_.target * hk());
      place(kept.k, rows_ * hk());
      place(kept.v, rows_ * hv());
    }
    place(kept.o, s_.target * hv());
    place(kept.lse, s_.heads * s_.target);
    kept.end = run.cached ? run.work : base;
    return kept;
  }

  HeadsCall heads_call(const Run& run, const Kept& kept, int64_t n, int64_t samples) const {
    const Call& call = *run.call;
    HeadsCall h;
    h.samples = samples;
    h.first = n;
    h.q = kept.q;
    h.k = kept.k;
    h.v = kept.v;
    h.o = kept.o;
    h.lse = kept.lse;
    h.key_mask = reinterpret_cast<const uint8_t*>(call.address[kKeyMask]);
    h.key_mask_stride = call.stride[kKeyMask];
    h.added = call.address[kAdded];
    h.added_is_boolean = call.extra[kAttentionOptions] & kAddedIsBoolean;
    h.added_stride = call.stride[kAdded];
    h.added_head_stride = call.extra[kAddedHeadStride];
    const int64_t k_row = run.joint ? joint_width() : hk(), v_row = run.joint ? joint_width() : hv();
    h.q_places = {s_.target * k_row, s_.key, k_row};
    h.k_places = {rows_ * k_row, s_.key, k_row};
    h.v_places = {rows_ * v_row, s_.value, v_row};
    h.o_places = {s_.target * hv(), s_.value, hv()};
    h.causal = call.extra[kAttentionOptions] & kCausal;
    h.drops = run.drops;
    h.stream = {s_.seed, run.draw};
    return h;
  }

  // op(w) [depth][width] of a projection, packed, if weights stay as they are; else null.
  const float* packed(int form, const float* w, bool transposed, int64_t depth, int64_t width, int threads) const {
    const uint64_t version = weights_known_.version();
    if (version == 0) return nullptr;
    MatrixProduct p{0, width, depth, nullptr, 0, w, transposed ? depth : width, nullptr, 0};
    p.transpose_b = transposed;
    p.sums = sums_;
    return packed_[form].get(version, kWeights, packed_b_floats(p), [&](float* to) { pack_matrix_b(p, to, threads); });
  }

  // Qh, Kt, Vt and the heads of the samples from n on.
  void project(const Run& run, const Kept& kept, int64_t n, int64_t samples) const {
    const Call& call = *run.call;
    auto one = [&](int slot, int w, int64_t rows, int64_t width, float* to, int64_t to_rows) {
      product_of_rows({at(call, slot, n), call.stride[slot], rows, s_.model}, run.parameter[w], s_.model, true,
                      run.parameter[kPq + w], {to, to_rows * width, to_rows, width}, rows, samples, false, sums_,
                      call.threads,
                      packed(run.joint ? kJoint : w, run.parameter[w], true, s_.model, width, call.threads));
    };
    one(kQuery, kWq, s_.target, run.joint ? joint_width() : hk(), kept.q, s_.target);
    if (!run.joint) {
      one(kKey, kWk, s_.source, hk(), kept.k, rows_);
      one(kValue, kWv, s_.source, hv(), kept.v, rows_);
    }
    for (int64_t i = 0; i < samples && rows_ > s_.source; i++) {
      append_rows(run.parameter[kBk], kept.k + i * rows_ * hk(), hk());
      append_rows(run.parameter[kBv], kept.v + i * rows_ * hv(), hv());
    }
    heads_.forward(heads_call(run, kept, n, samples), call.threads);
  }

  void append_rows(const float* bias, float* rows, int64_t width) const {
    float* next = rows + s_.source * width;
    if (s_.attention_bias) next = std::copy_n(bias, width, next);
    if (s_.zero_row) std::fill_n(next, width, 0.f);
  }

  static void write_header(const Run& run, uint64_t token) {
    NativeHeader header{
        {AttentionCacheHeader::kMark, token, static_cast<uint64_t>(run.call->batch), run.draw, kNativeEngine},
        run.joint};
    std::memcpy(run.call->address[kAttentionCache], &header, sizeof header);
  }

  static bool wants(const Run& run, int slot, std::initializer_list<int> parameters) {
    bool any = run.call->address[slot] != nullptr;
    for (int p : parameters) any |= run.gradient[p] != nullptr;
    return any;
  }

  // output = C Wo + po, C = concat_h(Oh):  dpo = sum dout,  dWo = C^T dout,  dC = dout Wo^T
  void backward_chunk(const Run& run, int64_t n, int64_t samples) const {
    const Call& call = *run.call;
    const int threads = call.threads;
    const In dout{at(call, kOutputGradient, n), call.stride[kOutputGradient], s_.target, s_.model};
    if (run.gradient[kPo]) sum_over_rows(dout, s_.target, samples, run.gradient[kPo], adds(run, kPo, n), threads);
    bool q = wants(run, kQueryGradient, {kWq, kPq}), k = wants(run, kKeyGradient, {kWk, kPk, kBk}),
         v = wants(run, kValueGradient, {kWv, kPv, kBv});
    if (!run.gradient[kWo] && !q && !k && !v) return;

    Kept kept = kept_of(run, n);
    if (!run.cached) project(run, kept, n, samples);
    if (run.gradient[kWo]) {
      const In heads{kept.o, s_.target * hv(), s_.target, hv()};
      product_over_rows(run.gradient_turned ? dout : heads, run.gradient_turned ? heads : dout, s_.target, samples,
                        run.gradient[kWo], adds(run, kWo, n), sums_, threads);
    }
    if (!q && !k && !v) return;

    HeadsCall h = heads_call(run, kept, n, samples);
    float* dc = kept.end;
    float* dq = dc + samples * s_.target * hv();
    float* dk = dq + (run.joint ? hk() : samples * s_.target * hk());
    float* dv = dk + (run.joint ? hk() : samples * rows_ * hk());
    h.groups = heads_.groups(run.chunk);
    h.partial = dq + samples * (s_.target * hk() + rows_ * (hk() + hv()));
    h.dout = dc;
    h.dq = q ? dq : nullptr;
    h.dk = k ? dk : nullptr;
    h.dv = v ? dv : nullptr;
    product_of_rows(dout, run.parameter[kWo], run.turned ? hv() : s_.model, !run.turned, nullptr,
                    {dc, s_.target * hv(), s_.target, hv()}, s_.target, samples, false, sums_, threads);
    heads_.backward(h, threads);
    if (q && k && v && are_joint(run, n)) {
      const int64_t width = joint_width();
      projection_gradients(run, n, samples, kQuery, kWq, {dq, s_.target * width, s_.target, width}, s_.target);
      return;
    }
    const int64_t k_row = h.k_places.row, v_row = h.v_places.row;
    if (q)
      projection_gradients(run, n, samples, kQuery, kWq, {dq, s_.target * k_row, s_.target, hk(), k_row}, s_.target);
    if (k) projection_gradients(run, n, samples, kKey, kWk, {dk, rows_ * k_row, rows_, hk(), k_row}, s_.source);
    if (v) projection_gradients(run, n, samples, kValue, kWv, {dv, rows_ * v_row, rows_, hv(), v_row}, s_.source);
    if (k) appended_gradient(run, n, samples, kBk, dk, hk());
    if (v) appended_gradient(run, n, samples, kBv, dv, hv());
  }

  // Whether the gradients of a joint projection are those of its parts: wanted together, and next to each other.
  bool are_joint(const Run& run, int64_t n) const {
    const Call& call = *run.call;
    for (int slot : {kKey, kValue})
      if (call.address[kQueryGradient + slot] != call.address[kQueryGradient]) return false;
    for (int w : {kWk, kWv})
      if (adds(run, w, n) != adds(run, kWq, n) || adds(run, kPq + w, n) != adds(run, kPq, n)) return false;
    float* const* g = run.gradient;
    return run.joint && adjoin(g[kWq], g[kWk], g[kWv], hk() * s_.model, hk() * s_.model) &&
           adjoin(g[kPq], g[kPk], g[kPv], hk(), hk());
  }

  // Xh = X W + p:  dW = X^T dXh,  dp = sum dXh,  dX = dXh W^T; the first `rows` rows of dh
  void projection_gradients(const Run& run, int64_t n, int64_t samples, int slot, int w, const In& dh,
                            int64_t rows) const {
    const Call& call = *run.call;
    if (run.gradient[w])
      product_over_rows(dh, {at(call, slot, n), call.stride[slot], rows, s_.model}, rows, samples, run.gradient[w],
                        adds(run, w, n), sums_, call.threads);
    if (run.gradient[kPq + w])
      sum_over_rows(dh, rows, samples, run.gradient[kPq + w], adds(run, kPq + w, n), call.threads);
    int target = kQueryGradient + slot;
    if (!call.address[target]) return;
    bool shared = false;  // with a gradient that has been written already: this one is added
    for (int earlier = kQueryGradient; earlier < target; earlier++)
      shared |= call.address[earlier] == call.address[target];
    product_of_rows(dh, run.parameter[w], s_.model, false, nullptr,
                    {at(call, target, n), call.stride[target], rows, s_.model}, rows, samples,
                    shared || call.adds(target), sums_, call.threads);
  }

  // Row S of dKt or dVt, summed over the samples.
  void appended_gradient(const Run& run, int64_t n, int64_t samples, int parameter, const float* rows,
                         int64_t width) const {
    if (!run.gradient[parameter]) return;
    sum_rows(rows + s_.source * width, rows_ * width, samples, width, run.gradient[parameter], adds(run, parameter, n));
  }

  const AttentionShape s_;
  const SumKind sums_;  // of projections
  const Heads heads_;
  const int64_t rows_;  // S'
  Form canonical_[kAttentionParameters], stored_[kAttentionParameters], gradient_[kAttentionParameters];
  static constexpr int kJoint = kWo + 1;  // form of the three projections together
  PlanWeights weights_known_;
  KeptWeights packed_[kJoint + 1];
};

}  // namespace

std::unique_ptr<Plan> make_attention(const AttentionShape& shape) { return std::make_unique<Attention>(shape); }

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
