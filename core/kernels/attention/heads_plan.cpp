// Attention heads by themselves, on tensors that networks lay out: what F.scaled_dot_product_attention runs.
#include "common/scratch_uses.h"
#include "kernels/attention/attention.h"
#include "kernels/kernels.h"
#include "runtime/scratch.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace {

HeadPlaces places_of(const int64_t (&steps)[3]) { return {steps[0], steps[1], steps[2]}; }

class AttentionHeads : public Plan {
 public:
  explicit AttentionHeads(const AttentionHeadsShape& s)
      : s_(s), heads_({s.target, s.source, 0, s.key, s.value, s.heads, s.scale, s.dropout, false, s.bfloat16}) {}

  void forward(const Call& call) override {
    HeadsCall h = heads_call(call);
    if (s_.dropout > 0 && call.training) {
      h.drops = true;
      int64_t* drawn = integer(call, kHeadsDrawn);
      *drawn = __atomic_fetch_add(integer(call, kHeadsCounter), 1, __ATOMIC_RELAXED);
      h.stream = {s_.seed, static_cast<uint64_t>(*drawn)};
    }
    heads_.forward(h, call.threads);
  }

  // Of a training forward.
  void backward(const Call& call) override {
    HeadsCall h = heads_call(call);
    if (s_.dropout > 0) {
      h.drops = true;
      h.stream = {s_.seed, static_cast<uint64_t>(*integer(call, kHeadsDrawn))};
    }
    h.dout = call.address[kHeadsDo];
    h.dq = call.address[kHeadsDq];
    h.dk = call.address[kHeadsDk];
    h.dv = call.address[kHeadsDv];
    h.groups = heads_.groups(call.batch);
    h.partial = scratch(kAttentionHeads, static_cast<size_t>(heads_.partial_floats(call.batch)));
    heads_.backward(h, call.threads);
  }

 private:
  static int64_t* integer(const Call& call, int slot) { return reinterpret_cast<int64_t*>(call.address[slot]); }

  HeadsCall heads_call(const Call& call) const {
    HeadsCall h;
    h.samples = call.batch;
    h.q = call.address[kHeadsQ];
    h.k = call.address[kHeadsK];
    h.v = call.address[kHeadsV];
    h.o = call.address[kHeadsO];
    h.lse = call.address[kHeadsLse];
    h.q_places = places_of(s_.q_steps);
    h.k_places = places_of(s_.k_steps);
    h.v_places = places_of(s_.v_steps);
    h.o_places = places_of(s_.o_steps);
    h.causal = s_.causal;
    h.added = call.address[kHeadsAdded];
    h.added_is_boolean = call.extra[kHeadsAddedIsBoolean];
    h.added_stride = call.stride[kHeadsAdded];
    h.added_head_stride = call.extra[kHeadsAddedHeadStride];
    return h;
  }

  const AttentionHeadsShape s_;
  const Heads heads_;
};

}  // namespace

std::unique_ptr<Plan> make_attention_heads(const AttentionHeadsShape& shape) {
  return std::make_unique<AttentionHeads>(shape);
}

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
