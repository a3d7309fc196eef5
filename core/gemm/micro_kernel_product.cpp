// Kernels of the matrix product of floats.
#include "gemm/product_kernel_body.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace {

struct PlainProducts {
  static constexpr int kAhead = 0;
  static OPENBNNS_INLINE Vec add(Vec sum, Vec x, Vec column) { return sum + x * column; }
};

}  // namespace

TileKernel product_kernel(int blocks, int rows) { return product_kernel_of<PlainProducts>(blocks, rows); }

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
