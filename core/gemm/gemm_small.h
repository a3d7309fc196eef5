// Matrix products with few rows: no packing, every element of B is read once or twice.
#pragma once
#include "gemm/gemm.h"

namespace openbnns {
namespace OPENBNNS_ISA {

// Whether packing B would cost more than it saves.
bool is_small_product(const MatrixProduct& p);
// Without the activation.
void small_product(const MatrixProduct& p);

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
