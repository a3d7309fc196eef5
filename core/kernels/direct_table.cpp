#include "kernels/direct.h"

namespace openbnns {

#define OPENBNNS_JOIN2(a, b) a##b
#define OPENBNNS_JOIN(a, b) OPENBNNS_JOIN2(a, b)

const TensorKernels& OPENBNNS_JOIN(tensor_kernels_, OPENBNNS_ISA)() {
  namespace isa = OPENBNNS_ISA;
  static const TensorKernels table{
      isa::make_reduction, isa::strided_copy, isa::gather,  isa::scatter,   isa::first_outside,
      isa::top_k,          isa::in_top_k,     isa::compare, isa::band_part, isa::nearest_neighbors};
  return table;
}

}  // namespace openbnns
