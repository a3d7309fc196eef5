// What the creation of a native filter produces: a plan, which is run with addresses and sizes only.
#pragma once
#include <cstdint>

namespace openbnns {

// One run of a plan. Slots are numbered by the family (see the enums below); an absent tensor has a null
// address. All data is float32 in canonical form: C order, one sample packed, samples `stride` elements apart.
struct Call {
  static constexpr int kMaxSlots = 32;
  static constexpr int kMaxExtras = 4;
  int64_t batch = 1;
  float* address[kMaxSlots] = {};
  int64_t stride[kMaxSlots] = {};  // elements from one sample to the next; unused for parameters
  uint32_t accumulate = 0;         // bit s set: the gradient in slot s is added to what the buffer holds
  int64_t extra[kMaxExtras] = {};  // numbers whose meaning the family defines
  int threads = 1;
  bool training = false;  // filters that behave differently in training: keep what backward needs

  bool adds(int slot) const { return accumulate >> slot & 1; }
};

// Slots of every filter with one input (fully connected, convolution, activation, pooling).
enum Slot { X, W, B, Y, DX, DY, DW, DB };

// Slots of arithmetic filters: up to three operands.
enum ArithmeticSlot { A0, A1, A2, OUT, DA0, DA1, DA2, DOUT };

struct ArithmeticShape;
class JointPlan;

// Thrown by a backward call, before it writes anything: the training forward it belongs to is lost, because another
// thread's training forward, or a fork, came in between.
struct ForwardLost {};

class Plan {
 public:
  virtual ~Plan() = default;
  virtual void forward(const Call& call) = 0;
  virtual void backward(const Call& call) = 0;

  // Samples of the training forward that backward would differentiate, 0 if there was none; -1 for plans whose backward
  // needs no forward before it. Waits for another thread's call that changes the number, and may be out of date at
  // once: backward itself throws ForwardLost.
  virtual int64_t trained_batch() { return -1; }
  // What an arithmetic plan without an activation computes: for callers that compute the same piece by piece.
  virtual const ArithmeticShape* plain_arithmetic() const { return nullptr; }
  // The same plan for calls that workers make together with others (joint_plan.h); null if it has none such.
  virtual JointPlan* joint() { return nullptr; }
  // Whether weights stay as they are from now on, so that forward calls may keep what they make of them: the same
  // weights in all calls, until this is called again. At first they may change at any time.
  virtual void keep_weights(bool /*keep*/) {}
  // Drops what a training forward kept.
  virtual void forget() {}
  // For a backward call: whether the cache, if any, was filled by a forward call of this plan.
  virtual bool recognizes(const Call&) const { return true; }
  // Scratch that the caller may supply, in bytes; 0 where a plan takes none.
  virtual int64_t workspace_bytes(bool /*backward*/, int64_t /*batch*/, bool /*cached*/) const { return 0; }
};

}  // namespace openbnns
