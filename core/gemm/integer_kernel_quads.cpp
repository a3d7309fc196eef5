// The only source that is compiled for VNNI (cmake/instruction_sets.cmake): nothing else may run without asking the
// CPU.
#include "gemm/integer_kernel_body.h"
#include "kernels/instruction_sets.h"

namespace openbnns {
namespace OPENBNNS_ISA {

#if defined(__AVX512VNNI__) || defined(__AVXVNNI__)
namespace {

struct QuadDot {
  static OPENBNNS_INLINE IntVec add(IntVec sum, IntVec a, IntVec b) {
#if defined(__AVX512VNNI__)
    return reinterpret_cast<IntVec>(_mm512_dpbusd_epi32(reinterpret_cast<__m512i>(sum), reinterpret_cast<__m512i>(a),
                                                        reinterpret_cast<__m512i>(b)));
#else
    return reinterpret_cast<IntVec>(_mm256_dpbusd_avx_epi32(
        reinterpret_cast<__m256i>(sum), reinterpret_cast<__m256i>(a), reinterpret_cast<__m256i>(b)));
#endif
  }
};

}  // namespace

TileKernel quad_sums_kernel(int blocks, int rows) { return integer_kernel_of<QuadDot>(blocks, rows); }
TileKernel quad_sums_edge_kernel(int blocks, int rows) { return integer_edge_kernel_of<QuadDot>(blocks, rows); }

bool has_quad_sums() {
#if defined(__AVX512VNNI__)
  return has_avx512_vnni();
#else
  return has_avx_vnni();
#endif
}
#else
TileKernel quad_sums_kernel(int, int) { return nullptr; }
TileKernel quad_sums_edge_kernel(int, int) { return nullptr; }
bool has_quad_sums() { return false; }
#endif

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
