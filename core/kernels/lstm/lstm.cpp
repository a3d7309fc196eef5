// LSTM: layers of cells run along a sequence. Formulas: docs/filters/lstm.md.
//
// A layer's input part, z = W x + b for all steps and gates, is one matrix product, to which the steps add the
// recurrent part (general.cpp, plain.cpp), or steps compute both (plain.cpp). In backward they leave dz, from which the
// gradients of input and weights are matrix products over all steps.
//
// Cache, in floats: the header; of every layer its input if that is not the caller's x or the output below as it is,
// its outputs [T][N][R * H], and of every direction z [T][N][4 * padded] and the cell states [T][N][padded].
#include "kernels/lstm/lstm.h"

#include <cstring>

#include "common/kept_weights.h"
#include "common/scratch_uses.h"
#include "gemm/gemm.h"
#include "kernels/kernels.h"
#include "runtime/scratch.h"
#include "runtime/thread_pool.h"
#include "simd/random.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace {

using namespace lstm;

constexpr int64_t kSerialFloats = 32768;  // shorter passes over memory stay on the calling thread

// Of every layer and direction, the weights of the product over all steps, if there is one, and those of a step.
struct Kept final : LstmKept {
  explicit Kept(int64_t cells) : input(new KeptWeights[cells]), steps(new KeptWeights[cells]) {}
  const std::unique_ptr<KeptWeights[]> input, steps;
};

// Where a pass has its intermediates: in the cache or in scratch, but for the outputs of the last layer if these go to
// their place at once.
struct PassMemory {
  float* floats;
  float* y = nullptr;
};

// The parts of it that one layer has.
struct LayerMemory {
  float* input;  // [T][N][in], or null if it lies elsewhere
  float* h;      // [T][N][R][H]
  float *z[2], *c[2];
};

class Lstm : public LstmPlan {
 public:
  explicit Lstm(const LstmShape& shape) : shape_(shape), sizes_(shape_), general_(shape) {
    floats_ = LstmCacheHeader::kFloats;
    layout_[0] = lay_out(0);
    if (shape.layers < 2) return;
    const int64_t first = floats_;
    layout_[1] = lay_out(1);
    layer_floats_ = floats_ - first;
    floats_ += (shape.layers - 2) * layer_floats_;
  }

  int64_t cache_bytes() const override { return floats_ * static_cast<int64_t>(sizeof(float)); }
  uint64_t signature() const override { return shape_.signature; }

  std::unique_ptr<LstmKept> make_kept() const override {
    return std::make_unique<Kept>(shape_.layers * shape_.directions);
  }

  void forward(const LstmCall& call) override {
    PassMemory memory{call.cache ? call.cache : scratch(kInputBand, static_cast<size_t>(floats_))};
    if (call.cache) std::memset(call.cache, 0, sizeof(LstmCacheHeader));  // what the call may not live to replace
    if (!call.cache && !sizes_.batch_sizes) memory.y = call.tensor[kLstmY];
    run(call, memory, {call.seed, call.draw}, call.cache != nullptr);
    write_outputs(call, memory);
    if (call.cache) {
      const LstmCacheHeader header{LstmCacheHeader::kMagic, shape_.signature, call.seed, call.draw, 1};
      std::memcpy(call.cache, &header, sizeof(header));
    }
  }

  void backward(const LstmCall& call) override {
    LstmCacheHeader header{0, 0, call.seed, call.draw, 0};
    if (call.cache) std::memcpy(&header, call.cache, sizeof(header));
    const RandomStream stream{header.seed, header.draw};
    PassMemory memory{call.cache};
    if (!header.filled) {
      memory.floats = scratch(kInputBand, static_cast<size_t>(floats_));
      run(call, memory, stream, true);
    }
    gradients(call, memory, stream);
  }

 private:
  int64_t rows() const { return sizes_.T * sizes_.N; }
  int64_t width(int64_t layer) const { return layer == 0 ? shape_.inputs : sizes_.joined; }
  bool drops() const { return shape_.dropout > 0; }

  struct LayerLayout {
    int64_t input = -1, h = 0, z[2] = {}, c[2] = {};
  };

  LayerLayout lay_out(int64_t layer) {
    LayerLayout here;
    auto take = [&](int64_t count) {
      const int64_t place = floats_;
      floats_ += round_up(count, kBlock);
      return place;
    };
    if (layer == 0 ? sizes_.batch_sizes != nullptr : drops()) here.input = take(rows() * width(layer));
    here.h = take(rows() * sizes_.joined);
    for (int64_t r = 0; r < shape_.directions; r++) {
      here.z[r] = take(rows() * sizes_.wide);
      here.c[r] = take(rows() * sizes_.padded);
    }
    return here;
  }

  LayerMemory memory_of(const PassMemory& memory, int64_t layer) const {
    const LayerLayout& here = layout_[layer > 0];
    float* first = memory.floats + (layer > 1 ? (layer - 1) * layer_floats_ : 0);
    return {here.input < 0 ? nullptr : first + here.input,
            memory.y && layer == shape_.layers - 1 ? memory.y : first + here.h,
            {first + here.z[0], first + here.z[1]},
            {first + here.c[0], first + here.c[1]}};
  }

  // ---- tensors of one layer and direction ----

  // The input weights [H][in] of a gate, in `tensors` or their gradients; null if absent.
  float* input_weights(float* const* tensors, int gate, int64_t layer, int64_t direction) const {
    const int64_t first = shape_.first_layers[gate];
    float* piece = tensors[lstm_gate_tensor(gate, layer < first ? kLstmW0 : kLstmW1)];
    const int64_t index = (layer < first ? layer : layer - first) * shape_.directions + direction;
    return piece ? piece + index * sizes_.H * width(layer) : nullptr;
  }
  int input_weights_index(int gate, int64_t layer) const {
    return lstm_gate_tensor(gate, layer < shape_.first_layers[gate] ? kLstmW0 : kLstmW1);
  }
  float* part(float* const* tensors, int index, int64_t layer, int64_t direction, int64_t floats) const {
    return tensors[index] ? tensors[index] + (layer * shape_.directions + direction) * floats : nullptr;
  }
  float* state(float* const* tensors, int index, int64_t layer, int64_t direction) const {
    return part(tensors, index, layer, direction, sizes_.N * sizes_.H);
  }

  Sizes sizes_for(const LstmCall& call, bool& general) const {
    general = !shape_.default_activations;
    for (int g = 0; g < kGates; g++) general |= call.tensor[lstm_gate_tensor(g, kLstmP)] != nullptr;
    Sizes s = sizes_;
    s.interleaved = !general;
    return s;
  }

  Cell cell_of(const LstmCall& call, const LayerMemory& memory, int64_t layer, int64_t direction) const {
    Cell cell{};
    cell.reverse = direction == 1;
    cell.in = width(layer);
    for (int g = 0; g < kGates; g++) {
      cell.w[g] = input_weights(call.tensor, g, layer, direction);
      cell.u[g] = part(call.tensor, lstm_gate_tensor(g, kLstmU), layer, direction, sizes_.H * sizes_.H);
      cell.p[g] = part(call.tensor, lstm_gate_tensor(g, kLstmP), layer, direction, sizes_.H * sizes_.H);
    }
    cell.h0 = state(call.tensor, kLstmH0, layer, direction);
    cell.c0 = state(call.tensor, kLstmC0, layer, direction);
    cell.z = memory.z[direction];
    cell.c = memory.c[direction];
    cell.h = memory.h + direction * sizes_.H;
    cell.threads = call.threads;
    return cell;
  }

  // The input weights of all gates as one matrix [wide][in] in the order of the columns of z, padding rows 0.
  static void join_weights(const Sizes& s, const Cell& cell, float* joined) {
    for (int g = 0; g < kGates; g++)
      for (int64_t j = 0; j < s.padded; j++) {
        float* row = joined + s.column(g, j) * cell.in;
        if (j < s.H)
          std::copy_n(cell.w[g] + j * cell.in, cell.in, row);
        else
          std::fill_n(row, cell.in, 0.0f);
      }
  }

  void join_bias(const LstmCall& call, const Sizes& s, int64_t layer, int64_t direction, float* joined) const {
    for (int g = 0; g < kGates; g++) {
      const float* b = part(call.tensor, lstm_gate_tensor(g, kLstmB), layer, direction, s.H);
      for (int64_t j = 0; j < s.padded; j++) joined[s.column(g, j)] = b && j < s.H ? b[j] : 0.0f;
    }
  }

  // ---- forward ----

  // What a layer reads, [T][N][in]: the caller's x, the output below, or a copy that `memory` has made of them.
  const float* layer_input(const LstmCall& call, const PassMemory& memory, int64_t layer) const {
    const LayerMemory here = memory_of(memory, layer);
    if (here.input) return here.input;
    return layer == 0 ? call.tensor[kLstmX] : memory_of(memory, layer - 1).h;
  }

  template <class Body>
  void over_rows(const LstmCall& call, int64_t row_floats, Body&& body) const {
    parallel_items(rows() * row_floats < kSerialFloats ? 1 : call.threads, rows(), body);
  }
  bool present(int64_t row) const { return row % sizes_.N < sizes_.active(row / sizes_.N); }

  void make_input(const LstmCall& call, const PassMemory& memory, int64_t layer, RandomStream stream) const {
    float* to = memory_of(memory, layer).input;
    if (!to) return;
    const int64_t in = width(layer);
    if (layer == 0) {  // the rows of absent samples are never read
      over_rows(call, in, [&](int64_t row) {
        if (present(row))
          std::copy_n(call.tensor[kLstmX] + row * in, in, to + row * in);
        else
          std::fill_n(to + row * in, in, 0.0f);
      });
      return;
    }
    const float* below = memory_of(memory, layer - 1).h;
    over_rows(call, 8 * in, [&](int64_t row) { drop(stream, layer, row, below + row * in, to + row * in); });
  }

  // to = from * keep / (1 - rate) for one row between layers; a dropped NaN stays NaN.
  void drop(RandomStream stream, int64_t layer, int64_t row, const float* from, float* to) const {
    constexpr int64_t kPart = 256;
    float uniform[kPart];
    const float scale = 1.0f / (1.0f - shape_.dropout);
    const uint64_t first = static_cast<uint64_t>(((layer - 1) * rows() + row) * sizes_.joined);
    for (int64_t i = 0; i < sizes_.joined; i += kPart) {
      const int64_t count = std::min(kPart, sizes_.joined - i);
      fill_uniform(stream, first + static_cast<uint64_t>(i), uniform, count);
      for (int64_t j = 0; j < count; j++) to[i + j] = from[i + j] * (uniform[j] >= shape_.dropout ? scale : 0.0f);
    }
  }

  void run(const LstmCall& call, const PassMemory& memory, RandomStream stream, bool keeps) const {
    bool general;
    const Sizes s = sizes_for(call, general);
    int64_t widest = 0, steps = general ? General::floats(s) : 0;  // widest: of the inputs that steps do not multiply
    for (int64_t layer = 0; layer < std::min<int64_t>(shape_.layers, 2); layer++) {
      if (s.input_depth(width(layer)) == 0) widest = std::max(widest, width(layer));
      if (!general) steps = std::max(steps, plain_forward_floats(s, width(layer)));
    }
    const int64_t joined_floats = s.wide * (widest + 1) + 2 * kBlock;
    float* work = scratch(kWeights, static_cast<size_t>(joined_floats + steps));
    float *bias = work, *weights = work + s.wide, *rest = work + round_up(joined_floats, kBlock);
    for (int64_t layer = 0; layer < shape_.layers; layer++) {
      make_input(call, memory, layer, stream);
      const LayerMemory here = memory_of(memory, layer);
      for (int64_t r = 0; r < shape_.directions; r++) {
        join_bias(call, s, layer, r, bias);
        Cell cell = cell_of(call, here, layer, r);
        cell.x = layer_input(call, memory, layer);
        cell.bias = bias;
        cell.keeps = keeps;
        const Kept* kept = call.weights != 0 && !general ? static_cast<const Kept*>(call.kept) : nullptr;
        const int64_t number = layer * shape_.directions + r;
        if (kept)
          cell.packed = kept->steps[number].get(call.weights, kWeights, s.wide * s.depth(cell.in),
                                                [&](float* to) { pack_step(s, cell, to); });
        if (s.input_depth(cell.in) == 0) multiply_input(call, s, cell, kept ? &kept->input[number] : nullptr, weights);
        if (general)
          general_.forward(s, cell, rest);
        else
          plain_forward(s, cell, rest);
      }
    }
  }

  // z = W x + b for all steps; joined: room for all of W
  void multiply_input(const LstmCall& call, const Sizes& s, const Cell& cell, const KeptWeights* kept,
                      float* joined) const {
    MatrixProduct p{rows(), s.wide, cell.in, cell.x, cell.in, joined, cell.in, cell.z, s.wide};
    p.transpose_b = true;
    p.sums = s.sums;
    p.column_bias = cell.bias;
    if (kept && packs(p))
      p.packed_b = kept->get(call.weights, kWeights, packed_b_floats(p), [&](float* to) {
        join_weights(s, cell, joined);
        pack_matrix_b(p, to, call.threads);
      });
    else if (kept)  // few rows, such as one step of one sample, read them as they are
      p.b = kept->get(call.weights, kWeights, s.wide * cell.in, [&](float* to) { join_weights(s, cell, to); });
    else
      join_weights(s, cell, joined);
    matrix_product(p, call.threads);
  }

  // y, and the states after the last step of each direction.
  void write_outputs(const LstmCall& call, const PassMemory& memory) const {
    const Sizes& s = sizes_;
    if (float* y = call.tensor[kLstmY]; y && !memory.y) {
      const float* h = memory_of(memory, shape_.layers - 1).h;
      over_rows(call, s.joined, [&](int64_t row) {
        if (present(row))
          std::copy_n(h + row * s.joined, s.joined, y + row * s.joined);
        else
          std::fill_n(y + row * s.joined, s.joined, 0.0f);
      });
    }
    for (int64_t layer = 0; layer < shape_.layers; layer++)
      for (int64_t r = 0; r < shape_.directions; r++) {
        const LayerMemory here = memory_of(memory, layer);
        const int64_t last = r == 1 ? 0 : s.T - 1;
        float *hn = state(call.tensor, kLstmHn, layer, r), *cn = state(call.tensor, kLstmCn, layer, r);
        for (int64_t n = 0; n < s.N; n++) {
          if (hn) std::copy_n(here.h + (last * s.N + n) * s.joined + r * s.H, s.H, hn + n * s.H);
          if (cn) std::copy_n(here.c[r] + (last * s.N + n) * s.padded, s.H, cn + n * s.H);
        }
      }
  }

  // ---- backward ----

  void gradients(const LstmCall& call, const PassMemory& memory, RandomStream stream) const {
    bool general;
    const Sizes s = sizes_for(call, general);
    const int64_t widest = std::max(shape_.inputs, s.joined);
    const int64_t joined_floats = 2 * s.wide * (widest + 1), dz_floats = rows() * s.wide;
    const int64_t between = shape_.layers > 1 ? rows() * s.joined : 0;  // gradients of the outputs of two layers
    const int64_t steps = general ? General::floats(s) : plain_backward_floats(s);
    float* work = scratch(kWeights, static_cast<size_t>(joined_floats + dz_floats + 2 * between + steps + 8 * kBlock));
    float* weights = work;
    float* sums = weights + round_up(s.wide * widest, kBlock);
    float* dz = sums + round_up(s.wide * (widest + 1), kBlock);
    float* passed[2] = {dz + dz_floats, dz + dz_floats + between};
    float* rest = passed[1] + round_up(between, kBlock);
    const float* dy = call.gradient[kLstmY];
    for (int64_t layer = shape_.layers - 1; layer >= 0; layer--) {
      const LayerMemory here = memory_of(memory, layer);
      float* dx = layer == 0 ? call.gradient[kLstmX] : passed[layer % 2];
      for (int64_t r = 0; r < shape_.directions; r++) {
        const Cell cell = cell_of(call, here, layer, r);
        const CellGradients d{dy ? dy + r * s.H : nullptr,
                              state(call.gradient, kLstmHn, layer, r),
                              state(call.gradient, kLstmCn, layer, r),
                              dz,
                              state(call.gradient, kLstmH0, layer, r),
                              state(call.gradient, kLstmC0, layer, r),
                              call.adds(kLstmH0),
                              call.adds(kLstmC0)};
        if (general)
          general_.backward(s, cell, d, rest);
        else
          plain_backward(s, cell, d, rest);
        if (dx) {
          join_weights(s, cell, weights);
          MatrixProduct p{rows(), cell.in, s.wide, dz, s.wide, weights, cell.in, dx, cell.in};
          p.sums = s.sums;
          p.accumulate = r > 0 || (layer == 0 && call.adds(kLstmX));
          matrix_product(p, call.threads);
        }
        weight_gradients(call, s, memory, layer, r, cell, dz, sums);
      }
      if (layer == 0) break;
      if (drops())
        over_rows(call, 8 * s.joined,
                  [&](int64_t row) { drop(stream, layer, row, dx + row * s.joined, dx + row * s.joined); });
      dy = dx;
    }
  }

  // dW = sum z x^T, dU = sum z h^T, dP = sum z c^T (c' for the output gate), db = sum z, over t and n.
  void weight_gradients(const LstmCall& call, const Sizes& s, const PassMemory& memory, int64_t layer, int64_t r,
                        const Cell& cell, const float* dz, float* sums) const {
    const int64_t in = width(layer);
    auto wants = [&](int tensor) {
      for (int g = 0; g < kGates; g++)
        if (call.gradient[lstm_gate_tensor(g, tensor)]) return true;
      return false;
    };
    bool wants_input = false;
    for (int g = 0; g < kGates; g++) wants_input |= input_weights(call.gradient, g, layer, r) != nullptr;
    if (wants_input) {
      product(call, s, rows(), dz, layer_input(call, memory, layer), in, in, sums, false);
      for (int g = 0; g < kGates; g++)
        if (float* to = input_weights(call.gradient, g, layer, r))
          scatter(s, g, sums, in, to, call.adds(input_weights_index(g, layer)));
    }
    if (wants(kLstmU)) {
      over_earlier(call, s, cell, dz, cell.h, s.joined, cell.h0, sums);
      scatter_all(call, s, kLstmU, layer, r, s.H, sums);
    }
    if (wants(kLstmP)) {
      over_earlier(call, s, cell, dz, cell.c, s.padded, cell.c0, sums);
      for (int g = 0; g < kOutput; g++) scatter_one(call, s, g, kLstmP, layer, r, s.H, sums);
      if (call.gradient[lstm_gate_tensor(kOutput, kLstmP)]) {
        product(call, s, rows(), dz, cell.c, s.padded, s.H, sums, false);
        scatter_one(call, s, kOutput, kLstmP, layer, r, s.H, sums);
      }
    }
    if (wants(kLstmB)) {
      const int threads = rows() * s.wide < kSerialFloats ? 1 : call.threads;
      over_columns(s.wide, threads, [&](int64_t column, int64_t columns) {
        sum_rows(dz + column, s.wide, rows(), columns, sums + column, false);
      });
      scatter_all(call, s, kLstmB, layer, r, 1, sums);
    }
  }

  // sums[wide][columns] (+)= dz[count][wide]^T x[count][columns]
  static void product(const LstmCall& call, const Sizes& s, int64_t count, const float* dz, const float* x,
                      int64_t x_row, int64_t columns, float* sums, bool accumulate) {
    MatrixProduct p{s.wide, columns, count, dz, s.wide, x, x_row, sums, columns};
    p.transpose_a = true;
    p.sums = s.sums;
    p.accumulate = accumulate;
    matrix_product(p, call.threads);
  }

  // The same with the states before each step; states: rows (t, n) after it, first: [N][H] or null for zeros.
  static void over_earlier(const LstmCall& call, const Sizes& s, const Cell& cell, const float* dz, const float* states,
                           int64_t state_row, const float* first, float* sums) {
    const int64_t later = cell.reverse ? 0 : s.N, earlier = cell.reverse ? s.N : 0;  // rows where the pairs begin
    const int64_t pairs = (s.T - 1) * s.N, start = cell.reverse ? pairs : 0;
    product(call, s, pairs, dz + later * s.wide, states + earlier * state_row, state_row, s.H, sums, false);
    if (first) product(call, s, s.N, dz + start * s.wide, first, s.H, s.H, sums, true);
  }

  // to[H][columns] (+)= the rows of a gate in sums[wide][columns]
  static void scatter(const Sizes& s, int gate, const float* sums, int64_t columns, float* to, bool adds) {
    for (int64_t j = 0; j < s.H; j++) {
      const float* from = sums + s.column(gate, j) * columns;
      float* row = to + j * columns;
      if (adds)
        for (int64_t i = 0; i < columns; i++) row[i] += from[i];
      else
        std::copy_n(from, columns, row);
    }
  }
  void scatter_one(const LstmCall& call, const Sizes& s, int gate, int tensor, int64_t layer, int64_t r,
                   int64_t columns, const float* sums) const {
    const int index = lstm_gate_tensor(gate, tensor);
    if (float* to = part(call.gradient, index, layer, r, s.H * columns))
      scatter(s, gate, sums, columns, to, call.adds(index));
  }
  void scatter_all(const LstmCall& call, const Sizes& s, int tensor, int64_t layer, int64_t r, int64_t columns,
                   const float* sums) const {
    for (int g = 0; g < kGates; g++) scatter_one(call, s, g, tensor, layer, r, columns, sums);
  }

  LstmShape shape_;
  const Sizes sizes_;
  const General general_;     // also for peepholes
  LayerLayout layout_[2];     // of the first layer and the second; every other one is like the second,
  int64_t layer_floats_ = 0;  // so much further on
  int64_t floats_ = 0;
};

}  // namespace

std::unique_ptr<LstmPlan> make_lstm(const LstmShape& shape) { return std::make_unique<Lstm>(shape); }

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
