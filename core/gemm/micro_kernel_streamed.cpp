// The same kernels for a B that no cache holds: so many weights that each is read once between two calls.
#include "gemm/product_kernel_body.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace {

struct StreamedProducts {
  static constexpr int kAhead = 4096;  // 16 KB: memory answers after as many steps as a core computes meanwhile
  static OPENBNNS_INLINE Vec add(Vec sum, Vec x, Vec column) { return sum + x * column; }
};

}  // namespace

TileKernel streamed_kernel(int blocks, int rows) { return product_kernel_of<StreamedProducts>(blocks, rows); }

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
