#include "kernels/activation/activation.h"
#include "kernels/kernels.h"
#include "kernels/makers.h"

namespace openbnns {

#define OPENBNNS_JOIN2(a, b) a##b
#define OPENBNNS_JOIN(a, b) OPENBNNS_JOIN2(a, b)
#define OPENBNNS_TEXT2(a) #a
#define OPENBNNS_TEXT(a) OPENBNNS_TEXT2(a)

const Kernels& OPENBNNS_JOIN(kernels_, OPENBNNS_ISA)() {
  namespace isa = OPENBNNS_ISA;
  static const Kernels table = [] {
    Kernels t{};
    t.name = OPENBNNS_TEXT(OPENBNNS_ISA);
    t.make_fully_connected = isa::make_fully_connected;
    t.make_convolution = isa::make_convolution;
    t.make_transposed_convolution = isa::make_transposed_convolution;
    t.make_activation = isa::make_activation;
    t.make_arithmetic = isa::make_arithmetic;
    t.peak_gflop = isa::peak_gflop;
    t.integer_linear_saturate = isa::integer_linear_saturate;
    t.make_pooling = isa::make_pooling;
    t.make_loss = isa::make_loss;
    t.make_norm = isa::make_norm;
    t.make_clip_by_norm = isa::make_clip_by_norm;
    t.optimizer_step = isa::optimizer_step;
    t.clip_by_global_norm = isa::clip_by_global_norm;
    t.random_fill = isa::random_fill;
    t.make_embedding = isa::make_embedding;
    t.make_quantization = isa::make_quantization;
    t.make_dropout = isa::make_dropout;
    t.make_contraction = isa::make_contraction;
    t.make_normalization = isa::make_normalization;
    t.make_fused = isa::make_fused;
    t.make_permute = isa::make_permute;
    t.make_padding = isa::make_padding;
    t.make_resize = isa::make_resize;
    t.make_crop_resize = isa::make_crop_resize;
    t.make_attention = isa::make_attention;
    t.make_lstm = isa::make_lstm;
    return t;
  }();
  return table;
}

}  // namespace openbnns
