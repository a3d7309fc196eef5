// The fast path to an LSTM: native code reads the two structs of a call and runs descriptions that it has seen before,
// with all tensors packed float32, at once. Anything else is declined; the Python path then checks, words messages, and
// registers descriptions that are simple.
#pragma once
#include <nanobind/nanobind.h>

#include <memory>
#include <vector>

#include "kernels/kernels.h"

namespace openbnns {

namespace nb = nanobind;

// Everything in the structs that affects what a call does, except for the addresses; delta is None in forward calls.
// `variant` stands for whatever else affects it. None if something in the structs is not simple.
nb::object lstm_key(nb::handle params, nb::handle delta, int variant);

// Keeps the plan for a key. bytes: those of every tensor, and in backward calls then those of every gradient.
void register_lstm(nb::bytes key, std::shared_ptr<LstmPlan> plan, const std::vector<int64_t>& bytes);
void forget_lstm();

// kDone, or kDeclined; nothing has been written then.
int fast_lstm(nb::handle params, nb::handle delta, nb::handle cache, nb::handle capacity, int variant, uint64_t seed,
              uint64_t draw, int threads);

// Numbers the dropout masks: every training call gets a new one. Calls without a cache use mask 0.
uint64_t next_lstm_draw();

// The numbers of BNNSDirectApplyLSTMBatchTrainingCaching and BNNSDirectApplyLSTMBatchBackward for C programs (raw.h).
// They change when recorded calls are dropped.
uint64_t lstm_number(bool backward);

}  // namespace openbnns
