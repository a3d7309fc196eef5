#include "kernels/activation.h"
#include "kernels/kernels.h"
#include "kernels/makers.h"

namespace openbnns {

#define OPENBNNS_JOIN2(a, b) a##b
#define OPENBNNS_JOIN(a, b) OPENBNNS_JOIN2(a, b)
#define OPENBNNS_TEXT2(a) #a
#define OPENBNNS_TEXT(a) OPENBNNS_TEXT2(a)

const Kernels& OPENBNNS_JOIN(kernels_, OPENBNNS_ISA)() {
  namespace isa = OPENBNNS_ISA;
  static const Kernels table{OPENBNNS_TEXT(OPENBNNS_ISA),
                             isa::make_fully_connected,
                             isa::make_convolution,
                             isa::make_transposed_convolution,
                             isa::make_activation,
                             isa::make_arithmetic,
                             isa::peak_gflop,
                             isa::integer_linear_saturate,
                             isa::make_pooling,
                             isa::make_loss,
                             isa::make_embedding,
                             isa::make_quantization,
                             isa::make_dropout};
  return table;
}

}  // namespace openbnns
