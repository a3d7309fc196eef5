#include "gemm/matrix_unit.h"

#include <atomic>

#include "kernels/kernels.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace {

std::atomic<const MatrixUnit*> in_use{nullptr};

}  // namespace

const MatrixUnit* matrix_unit() { return in_use.load(std::memory_order_relaxed); }
void use_matrix_unit(const MatrixUnit* unit) { in_use.store(unit, std::memory_order_relaxed); }

void use_amx() { use_matrix_unit(amx()); }
bool uses_amx() { return matrix_unit() != nullptr; }

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
