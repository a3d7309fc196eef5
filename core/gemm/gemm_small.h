// Matrix products with few rows: no packing, every element of B is read once or twice.
#pragma once
#include "gemm/gemm.h"

namespace openbnns {
namespace OPENBNNS_ISA {

// Whether packing B would cost more than it saves.
bool is_small_product(const MatrixProduct& p);
// Without the activation.
void small_product(const MatrixProduct& p);

// Whether C has so few columns, with both operands running along k, that packing them would cost more than it saves.
bool is_narrow_product(const MatrixProduct& p);
// Without the activation. A row does not depend on the others.
void narrow_product(const MatrixProduct& p);

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
