#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "common/fields.h"
#include "kernels/activation/shape.h"

namespace openbnns {

// T steps, N samples, I inputs, H hidden, L layers, R directions. Packed float32 tensors in C order: x [T][N][I],
// y [T][N][R][H], states [L][R][N][H]; for every gate (input, forget, candidate, output) the weights of the input
// [layers][R][H][in], in two pieces (in is I in layer 0, R * H above), of the hidden state and of the cell (peepholes)
// [L][R][H][H], and the bias [L][R][H].
enum LstmTensor { kLstmX, kLstmH0, kLstmC0, kLstmY, kLstmHn, kLstmCn, kLstmGates };
enum LstmGateTensor { kLstmW0, kLstmW1, kLstmU, kLstmP, kLstmB, kLstmGateTensors };
constexpr int kLstmTensors = kLstmGates + 4 * kLstmGateTensors;
inline int lstm_gate_tensor(int gate, int tensor) { return kLstmGates + gate * kLstmGateTensors + tensor; }

struct LstmShape {
  int64_t steps, batch, inputs, hidden, layers, directions;
  int64_t first_layers[4];           // of each gate: how many layers have their input weights in the first piece
  bool default_activations = true;   // sigmoid, sigmoid, tanh, sigmoid for the gates, tanh for the cell state
  ActivationSpec activation[5];      // else these
  ActivationSpec slope[5];           // whose derivatives count
  float dropout = 0;                 // between layers
  std::vector<int64_t> batch_sizes;  // samples at every step, the first ones; empty: all
  bool bfloat16 = false;             // operands of products may be rounded to BFloat16
  uint64_t signature = 0;            // distinguishes the caches of different descriptions
  OPENBNNS_FIELDS(steps, batch, inputs, hidden, layers, directions, first_layers, default_activations, activation,
                  slope, dropout, batch_sizes, bfloat16, signature)
};

// What a plan keeps of the weights of one caller.
class LstmKept {
 public:
  virtual ~LstmKept() = default;
};

// Absent tensors are null. A backward call reads gradient[kLstmY], [kLstmHn] and [kLstmCn] and writes the others.
struct LstmCall {
  float* tensor[kLstmTensors] = {};
  float* gradient[kLstmTensors] = {};
  uint32_t accumulate = 0;      // bit i: gradient[i] is added to what is there
  float* cache = nullptr;       // cache_bytes() of memory, written forward, read backward; null: none
  uint64_t seed = 0, draw = 0;  // of the dropout, if there is no cache that records them
  int threads = 1;
  // Version of the weights (runtime/weights_version.h) in a forward call, and where the plan keeps what it makes of
  // them: one of make_kept(), for these addresses.
  uint64_t weights = 0;
  LstmKept* kept = nullptr;
  bool adds(int tensor) const { return accumulate >> tensor & 1; }
};

// The beginning of a cache.
struct LstmCacheHeader {
  static constexpr uint64_t kMagic = 0x31656863614d5453;
  static constexpr int64_t kFloats = 16;
  uint64_t magic, signature, seed, draw;
  uint64_t filled;  // 0: no intermediates were kept, and the forward pass must be repeated
};

class LstmPlan {
 public:
  virtual ~LstmPlan() = default;
  virtual int64_t cache_bytes() const = 0;
  virtual uint64_t signature() const = 0;
  virtual void forward(const LstmCall& call) = 0;
  virtual void backward(const LstmCall& call) = 0;
  virtual std::unique_ptr<LstmKept> make_kept() const = 0;
};

}  // namespace openbnns
