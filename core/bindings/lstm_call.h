// The fast way into an LSTM: the two structs of a call are read in native code, and a description that has been seen
// before, with all tensors packed float32, runs at once. Anything else is declined; the Python path then checks, words
// messages, and registers what it found to be simple.
#pragma once
#include <nanobind/nanobind.h>

#include <memory>
#include <vector>

#include "kernels/kernels.h"

namespace openbnns {

namespace nb = nanobind;

// Everything in the structs that decides what a call does, but for the addresses; delta is None in forward calls.
// `variant` stands for what else decides. None if something in the structs is not simple.
nb::object lstm_key(nb::handle params, nb::handle delta, int variant);

// Keeps the plan for a key. bytes: those of every tensor, and in backward calls then those of every gradient.
void register_lstm(nb::bytes key, std::shared_ptr<LstmPlan> plan, const std::vector<int64_t>& bytes);
void forget_lstm();

// kDone, or kDeclined; nothing has been written then.
int fast_lstm(nb::handle params, nb::handle delta, nb::handle cache, nb::handle capacity, int variant, uint64_t seed,
              uint64_t draw, int threads);

// Numbers the masks of dropout: every training call gets another one. Number 0 is that of calls without a cache.
uint64_t next_lstm_draw();

// The numbers of BNNSDirectApplyLSTMBatchTrainingCaching and BNNSDirectApplyLSTMBatchBackward for C programs (raw.h).
// They change when what is known is forgotten.
uint64_t lstm_number(bool backward);

}  // namespace openbnns
