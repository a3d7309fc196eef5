// Attention heads and recurrent layers with products of BFloat16, forward and backward, on any threads: near to those
// of float32, and on AMX much nearer to those without it. (tests/graph and tests/nn compare them with the formulas.)
#include <array>
#include <functional>

#include "gemm/bfloat16_kernel.h"
#include "kernels/attention/shape.h"
#include "kernels/kernels.h"
#include "kernels/lstm/shape.h"
#include "kernels/recurrent/shape.h"
#include "runtime/scratch.h"
#include "tests/amx_in_software.h"
#include "tests/testing.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace {

using testing::Counts;
using testing::Doubles;
using testing::Floats;
using testing::Random;

constexpr double kRounding = 0.02, kSums = 0.002;  // of operands; of sums, which seldom change how an operand rounds

using Results = std::vector<Floats>;
using Run = std::function<Results(bool bfloat16, int threads)>;

Doubles wide(const Floats& v) { return Doubles(v.begin(), v.end()); }

// rounds: in products that can run on AMX
void check(Counts& counts, const std::string& name, [[maybe_unused]] bool rounds, const Run& run) {
  const Results in_float32 = run(false, 1), vectors = run(true, 1);
  const auto near = [&](const std::string& what, const Results& got, const Results& expected, double bound) {
    for (size_t i = 0; i < got.size(); i++)
      counts.close(name + " " + what + " " + std::to_string(i), got[i], wide(expected[i]), 0, bound);
  };
  const auto same_on_threads = [&](const Results& one) {
    for (int threads = 2; threads <= 3; threads++) {
      const Results several = run(true, threads);
      for (size_t i = 0; i < one.size(); i++)
        counts.same_bits(name + " threads " + std::to_string(i), several[i], one[i]);
    }
  };
  near("rounded", vectors, in_float32, kRounding);
  same_on_threads(vectors);
#if defined(__AVX512F__) && defined(__linux__)
  if (!has_bfloat16_sums()) return;
  const amx_in_software::InUse amx(rounds ? amx_in_software::Needed::kYes : amx_in_software::Needed::kMaybe);
  const Results tiles = run(true, 1);
  near("on AMX", tiles, vectors, kSums);
  same_on_threads(tiles);
#endif
}

void check_heads(Counts& counts, Random& random, int64_t batch, AttentionHeadsShape s) {
  const int64_t q_count = s.heads * s.target * s.key, k_count = s.heads * s.source * s.key,
                v_count = s.heads * s.source * s.value, o_count = s.heads * s.target * s.value;
  const auto places = [&](int64_t rows, int64_t width, int64_t (&steps)[3]) {
    steps[0] = s.heads * rows * width, steps[1] = rows * width, steps[2] = width;
  };
  places(s.target, s.key, s.q_steps);
  places(s.source, s.key, s.k_steps);
  places(s.source, s.value, s.v_steps);
  places(s.target, s.value, s.o_steps);
  Floats q = random.reals(batch * q_count), k = random.reals(batch * k_count), v = random.reals(batch * v_count),
         dout = random.reals(batch * o_count);
  const std::string name = "heads " + std::to_string(s.target) + "x" + std::to_string(s.source) + " " +
                           std::to_string(s.key) + "," + std::to_string(s.value) + (s.causal ? " causal" : "");
  check(counts, name, true, [&](bool bfloat16, int threads) {
    AttentionHeadsShape shape = s;
    shape.bfloat16 = bfloat16;
    const auto plan = make_attention_heads(shape);
    Results r{testing::poison(batch * o_count), testing::poison(batch * q_count), testing::poison(batch * k_count),
              testing::poison(batch * v_count)};
    Floats lse = testing::poison(batch * s.heads * s.target);
    Call call;
    call.batch = batch;
    call.threads = threads;
    call.address[kHeadsQ] = q.data(), call.address[kHeadsK] = k.data(), call.address[kHeadsV] = v.data();
    call.address[kHeadsO] = r[0].data(), call.address[kHeadsLse] = lse.data();
    plan->forward(call);
    call.address[kHeadsDo] = dout.data();
    call.address[kHeadsDq] = r[1].data(), call.address[kHeadsDk] = r[2].data(), call.address[kHeadsDv] = r[3].data();
    plan->backward(call);
    for (int slot : {kHeadsDq, kHeadsDk, kHeadsDv}) {  // each alone is the same
      Floats alone = testing::poison(static_cast<int64_t>(r[1 + slot - kHeadsDq].size()));
      call.address[kHeadsDq] = call.address[kHeadsDk] = call.address[kHeadsDv] = nullptr;
      call.address[slot] = alone.data();
      plan->backward(call);
      counts.same_bits(name + " alone", alone, r[1 + slot - kHeadsDq]);
    }
    return r;
  });
}

void check_recurrent(Counts& counts, Random& random, RecurrentKind kind, int64_t batch, int64_t steps, int64_t hidden) {
  const int64_t gates = kind == RecurrentKind::GRU ? 3 : 1, states = batch * steps * hidden;
  Floats z = random.reals(gates * states), u = random.reals(gates * hidden * hidden), b = random.reals(gates * hidden),
         h0 = random.reals(batch * hidden), dy = random.reals(states), dhn = random.reals(batch * hidden);
  for (float& x : u) x *= 2 / std::sqrt(static_cast<float>(hidden));
  std::vector<int64_t> lengths;
  for (int64_t n = 0; n < batch; n++) lengths.push_back(random.integer(1, steps));
  const std::string name = "recurrent " + std::to_string(gates) + " gates, " + std::to_string(batch) + "x" +
                           std::to_string(steps) + " " + std::to_string(hidden);
  check(counts, name, batch > 8, [&](bool bfloat16, int threads) {
    const auto plan = make_recurrent({kind, steps, hidden, true, bfloat16});
    Results r{
        testing::poison(states),         testing::poison(batch * hidden), z, testing::poison(gates * hidden * hidden),
        testing::poison(gates * hidden), testing::poison(batch * hidden)};
    Floats kept = testing::poison(states);
    Call call;
    call.batch = batch;
    call.threads = threads;
    call.address[kRecurrentZ] = r[2].data(), call.address[kRecurrentU] = u.data(), call.address[kRecurrentB] = b.data();
    call.address[kRecurrentH0] = h0.data(), call.address[kRecurrentY] = r[0].data();
    call.address[kRecurrentLengths] = reinterpret_cast<float*>(lengths.data());
    call.address[kRecurrentHn] = r[1].data(), call.address[kRecurrentQ] = gates == 3 ? kept.data() : nullptr;
    plan->forward(call);
    call.address[kRecurrentDy] = dy.data(), call.address[kRecurrentDhn] = dhn.data();
    call.address[kRecurrentDu] = r[3].data(), call.address[kRecurrentDb] = r[4].data();
    call.address[kRecurrentDh0] = r[5].data();
    plan->backward(call);
    return r;
  });
}

void check_lstm(Counts& counts, Random& random, int64_t batch, int64_t steps, int64_t inputs, int64_t hidden) {
  LstmShape s{};
  s.steps = steps, s.batch = batch, s.inputs = inputs, s.hidden = hidden, s.layers = 1, s.directions = 1;
  s.default_activations = true;
  for (int gate = 0; gate < 4; gate++) s.first_layers[gate] = 1;
  std::vector<Floats> tensors(kLstmTensors);
  const auto make = [&](int tensor, int64_t count) { tensors[tensor] = random.reals(count); };
  make(kLstmX, steps * batch * inputs);
  make(kLstmH0, batch * hidden), make(kLstmC0, batch * hidden);
  for (int gate = 0; gate < 4; gate++) {
    make(lstm_gate_tensor(gate, kLstmW0), hidden * inputs);
    make(lstm_gate_tensor(gate, kLstmU), hidden * hidden);
    for (float& x : tensors[lstm_gate_tensor(gate, kLstmU)]) x *= 2 / std::sqrt(static_cast<float>(hidden));
    make(lstm_gate_tensor(gate, kLstmB), hidden);
  }
  const int64_t y_count = steps * batch * hidden;
  Floats dy = random.reals(y_count), dhn = random.reals(batch * hidden), dcn = random.reals(batch * hidden);
  const std::string name = "LSTM " + std::to_string(batch) + "x" + std::to_string(steps) + " " +
                           std::to_string(inputs) + "," + std::to_string(hidden);
  check(counts, name, batch > 8, [&](bool bfloat16, int threads) {
    LstmShape shape = s;
    shape.bfloat16 = bfloat16;
    const auto plan = make_lstm(shape);
    Floats cache(static_cast<size_t>(plan->cache_bytes() / 4));
    LstmCall call;
    call.threads = threads;
    call.cache = cache.data();
    Results r{testing::poison(y_count), testing::poison(batch * hidden), testing::poison(batch * hidden)};
    for (int i = 0; i < kLstmTensors; i++) call.tensor[i] = tensors[i].empty() ? nullptr : tensors[i].data();
    for (int i = 0; i < 3; i++) call.tensor[kLstmY + i] = r[i].data();
    plan->forward(call);
    Results gradients(kLstmTensors);
    for (int i = 0; i < kLstmTensors; i++)
      if (!tensors[i].empty()) {
        gradients[i] = testing::poison(static_cast<int64_t>(tensors[i].size()));
        call.gradient[i] = gradients[i].data();
      }
    call.gradient[kLstmY] = dy.data(), call.gradient[kLstmHn] = dhn.data(), call.gradient[kLstmCn] = dcn.data();
    plan->backward(call);
    for (Floats& gradient : gradients)
      if (!gradient.empty()) r.push_back(gradient);
    return r;
  });
}

}  // namespace

int run_sequence_tests() {
  set_scratch_poison(true);
  Counts counts;
  Random random(3);
  // Strips, tiles and blocks that are full or not, and last pairs of one number.
  for (bool causal : {false, true})
    for (const auto& [t, s, k, v] :
         {std::array<int64_t, 4>{33, 65, 33, 40}, {32, 64, 1, 64}, {57, 100, 64, 18}, {130, 270, 40, 25}})
      check_heads(counts, random, 2, {t, s, k, v, 2, 0.3f, causal});
  for (const auto& [n, t, h] : {std::array<int64_t, 3>{9, 3, 200}, {40, 3, 185}, {8, 3, 190}})
    for (RecurrentKind kind : {RecurrentKind::Tanh, RecurrentKind::GRU}) check_recurrent(counts, random, kind, n, t, h);
  for (const auto& [n, t, i, h] : {std::array<int64_t, 4>{9, 3, 5, 100}, {40, 3, 20, 97}, {8, 3, 4, 110}})
    check_lstm(counts, random, n, t, i, h);
  return counts.report("sequences");
}

}  // namespace OPENBNNS_ISA
}  // namespace openbnns

int main() { return openbnns::OPENBNNS_ISA::run_sequence_tests(); }
