// Structs and functions of the C interface as native code reads them, without Python: a field is a name, a kind
// (struct_view.h) and an offset, and a function the kinds of its arguments (known_calls.cpp). Written by
// tools/generate_clib.py from tools/facts; edit those, not this file.
#pragma once
#include "bindings/struct_view.h"

// clang-format off
namespace openbnns {

struct BNNSActivation {
  enum Index { function, alpha, beta, iscale, ioffset, ishift, iscale_per_channel, ioffset_per_channel,
      ishift_per_channel };
  static constexpr CField fields[] = {{"function", 'u', 0}, {"alpha", 'f', 4}, {"beta", 'f', 8}, {"iscale", 's', 12},
      {"ioffset", 's', 16}, {"ishift", 's', 20}, {"iscale_per_channel", 'p', 24}, {"ioffset_per_channel", 'p', 32},
      {"ishift_per_channel", 'p', 40}};
};

struct BNNSLSTMGateDescriptor {
  enum Index { iw_desc, hw_desc, cw_desc, b_desc, activation };
  static constexpr CField fields[] = {{"iw_desc", 'd', 0}, {"hw_desc", 'd', 352}, {"cw_desc", 'd', 528}, {"b_desc", 'd',
      704}, {"activation", '(', 880}};
};

struct BNNSLSTMDataDescriptor {
  enum Index { data_desc, hidden_desc, cell_state_desc };
  static constexpr CField fields[] = {{"data_desc", 'd', 0}, {"hidden_desc", 'd', 176}, {"cell_state_desc", 'd', 352}};
};

struct BNNSLayerParametersLSTM {
  enum Index { input_size, hidden_size, batch_size, num_layers, seq_len, dropout, lstm_flags, sequence_descriptor,
      input_descriptor, output_descriptor, input_gate, forget_gate, candidate_gate, output_gate, hidden_activation };
  static constexpr CField fields[] = {{"input_size", 'U', 0}, {"hidden_size", 'U', 8}, {"batch_size", 'U', 16},
      {"num_layers", 'U', 24}, {"seq_len", 'U', 32}, {"dropout", 'f', 40}, {"lstm_flags", 'u', 44},
      {"sequence_descriptor", 'd', 48}, {"input_descriptor", '(', 224}, {"output_descriptor", '(', 752}, {"input_gate",
      '(', 1280}, {"forget_gate", '(', 2208}, {"candidate_gate", '(', 3136}, {"output_gate", '(', 4064},
      {"hidden_activation", '(', 4992}};
};

struct BNNSOptimizerSGDMomentumFields {
  enum Index { learning_rate, momentum, gradient_scale, regularization_scale, clip_gradients, clip_gradients_min,
      clip_gradients_max, nesterov, regularization_func, sgd_momentum_variant };
  static constexpr CField fields[] = {{"learning_rate", 'f', 0}, {"momentum", 'f', 4}, {"gradient_scale", 'f', 8},
      {"regularization_scale", 'f', 12}, {"clip_gradients", 'b', 16}, {"clip_gradients_min", 'f', 20},
      {"clip_gradients_max", 'f', 24}, {"nesterov", 'b', 28}, {"regularization_func", 'u', 32}, {"sgd_momentum_variant",
      'u', 36}};
};

struct BNNSOptimizerSGDMomentumWithClippingFields {
  enum Index { learning_rate, momentum, gradient_scale, regularization_scale, nesterov, regularization_func,
      sgd_momentum_variant, clipping_func, clip_gradients_min, clip_gradients_max, clip_gradients_max_norm,
      clip_gradients_use_norm };
  static constexpr CField fields[] = {{"learning_rate", 'f', 0}, {"momentum", 'f', 4}, {"gradient_scale", 'f', 8},
      {"regularization_scale", 'f', 12}, {"nesterov", 'b', 16}, {"regularization_func", 'u', 20},
      {"sgd_momentum_variant", 'u', 24}, {"clipping_func", 'u', 28}, {"clip_gradients_min", 'f', 32},
      {"clip_gradients_max", 'f', 36}, {"clip_gradients_max_norm", 'f', 40}, {"clip_gradients_use_norm", 'f', 44}};
};

struct BNNSOptimizerAdamFields {
  enum Index { learning_rate, beta1, beta2, time_step, epsilon, gradient_scale, regularization_scale, clip_gradients,
      clip_gradients_min, clip_gradients_max, regularization_func };
  static constexpr CField fields[] = {{"learning_rate", 'f', 0}, {"beta1", 'f', 4}, {"beta2", 'f', 8}, {"time_step",
      'f', 12}, {"epsilon", 'f', 16}, {"gradient_scale", 'f', 20}, {"regularization_scale", 'f', 24}, {"clip_gradients",
      'b', 28}, {"clip_gradients_min", 'f', 32}, {"clip_gradients_max", 'f', 36}, {"regularization_func", 'u', 40}};
};

struct BNNSOptimizerAdamWithClippingFields {
  enum Index { learning_rate, beta1, beta2, time_step, epsilon, gradient_scale, regularization_scale,
      regularization_func, clipping_func, clip_gradients_min, clip_gradients_max, clip_gradients_max_norm,
      clip_gradients_use_norm };
  static constexpr CField fields[] = {{"learning_rate", 'f', 0}, {"beta1", 'f', 4}, {"beta2", 'f', 8}, {"time_step",
      'f', 12}, {"epsilon", 'f', 16}, {"gradient_scale", 'f', 20}, {"regularization_scale", 'f', 24},
      {"regularization_func", 'u', 28}, {"clipping_func", 'u', 32}, {"clip_gradients_min", 'f', 36},
      {"clip_gradients_max", 'f', 40}, {"clip_gradients_max_norm", 'f', 44}, {"clip_gradients_use_norm", 'f', 48}};
};

struct BNNSOptimizerRMSPropFields {
  enum Index { learning_rate, alpha, epsilon, centered, momentum, gradient_scale, regularization_scale, clip_gradients,
      clip_gradients_min, clip_gradients_max, regularization_func };
  static constexpr CField fields[] = {{"learning_rate", 'f', 0}, {"alpha", 'f', 4}, {"epsilon", 'f', 8}, {"centered",
      'b', 12}, {"momentum", 'f', 16}, {"gradient_scale", 'f', 20}, {"regularization_scale", 'f', 24},
      {"clip_gradients", 'b', 28}, {"clip_gradients_min", 'f', 32}, {"clip_gradients_max", 'f', 36},
      {"regularization_func", 'u', 40}};
};

struct BNNSOptimizerRMSPropWithClippingFields {
  enum Index { learning_rate, alpha, epsilon, centered, momentum, gradient_scale, regularization_scale,
      regularization_func, clipping_func, clip_gradients_min, clip_gradients_max, clip_gradients_max_norm,
      clip_gradients_use_norm };
  static constexpr CField fields[] = {{"learning_rate", 'f', 0}, {"alpha", 'f', 4}, {"epsilon", 'f', 8}, {"centered",
      'b', 12}, {"momentum", 'f', 16}, {"gradient_scale", 'f', 20}, {"regularization_scale", 'f', 24},
      {"regularization_func", 'u', 28}, {"clipping_func", 'u', 32}, {"clip_gradients_min", 'f', 36},
      {"clip_gradients_max", 'f', 40}, {"clip_gradients_max_norm", 'f', 44}, {"clip_gradients_use_norm", 'f', 48}};
};

inline constexpr CStruct kOptimizerStructs[] = {
    {"BNNSOptimizerSGDMomentumFields", BNNSOptimizerSGDMomentumFields::fields, std::size(BNNSOptimizerSGDMomentumFields::fields)},
    {"BNNSOptimizerSGDMomentumWithClippingFields", BNNSOptimizerSGDMomentumWithClippingFields::fields, std::size(BNNSOptimizerSGDMomentumWithClippingFields::fields)},
    {"BNNSOptimizerAdamFields", BNNSOptimizerAdamFields::fields, std::size(BNNSOptimizerAdamFields::fields)},
    {"BNNSOptimizerAdamWithClippingFields", BNNSOptimizerAdamWithClippingFields::fields, std::size(BNNSOptimizerAdamWithClippingFields::fields)},
    {"BNNSOptimizerRMSPropFields", BNNSOptimizerRMSPropFields::fields, std::size(BNNSOptimizerRMSPropFields::fields)},
    {"BNNSOptimizerRMSPropWithClippingFields", BNNSOptimizerRMSPropWithClippingFields::fields, std::size(BNNSOptimizerRMSPropWithClippingFields::fields)},
};

inline constexpr CFunction kFunctionsAlone[] = {
    {"BNNSDirectApplyQuantizer", "(Uudddd)niii"},
    {"BNNSClipByValue", "ddff"},
    {"BNNSClipByNorm", "ddfi"},
    {"BNNSComputeNorm", "ddii"},
    {"BNNSComputeNormBackward", "mdmdii"},
    {"BNNSDirectApplyActivationBatch", "(dduffssspppu)niii"},
    {"BNNSCopy", "ddn"},
    {"BNNSMatMulWorkspaceSize", "bbfdddn"},
    {"BNNSMatMul", "bbfddd-n"},
    {"BNNSDirectApplyBroadcastMatMul", "bbfdddn"},
    {"BNNSTranspose", "ddiin"},
    {"BNNSDirectApplyReduction", "(ddduf)n"},
    {"BNNSCompareTensor", "ddid"},
    {"BNNSTile", "ddn"},
    {"BNNSTileBackward", "ddn"},
    {"BNNSDirectApplyTopK", "iiididioin"},
    {"BNNSDirectApplyInTopK", "iiidididin"},
    {"BNNSGather", "idddn"},
    {"BNNSScatter", "iidddn"},
    {"BNNSGatherND", "dddn"},
    {"BNNSScatterND", "idddn"},
    {"BNNSShuffle", "iddn"},
    {"BNNSBandPart", "iiddn"},
    {"BNNSNDArrayFullyConnectedSparsifySparseCOO", "dddd(Uuuuu)i-in"},
    {"BNNSNDArrayFullyConnectedSparsifySparseCSR", "ddddd(Uuuuu)i-in"},
};

}  // namespace openbnns
