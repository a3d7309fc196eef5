#include <cstdlib>
#include <cstring>

#include "kernels/instruction_sets.h"
#include "kernels/kernels.h"

namespace openbnns {

const Kernels& kernels() {
  static const Kernels& chosen = []() -> const Kernels& {
#if defined(__x86_64__)
    const char* cap = std::getenv("OPENBNNS_ISA");
    bool allow512 = !cap || !*cap || !std::strcmp(cap, "avx512");
    bool allow2 = allow512 || !std::strcmp(cap, "avx2");
    if (allow512 && has_avx512()) return kernels_avx512();
    if (allow2 && has_avx2()) return kernels_avx2();
#endif
    return kernels_base();
  }();
  return chosen;
}

}  // namespace openbnns
