// The instruction sets that this build has kernels for, best first. CMake defines OPENBNNS_WITH_<isa> for each.
#pragma once
#include "kernels/instruction_sets.h"
#include "kernels/kernels.h"

namespace openbnns {

struct InstructionSet {
  const char* name;
  bool (*on_this_cpu)();
  const Kernels& (*kernels)();
};

inline constexpr InstructionSet kInstructionSets[] = {
#if defined(OPENBNNS_WITH_avx512)
    {"avx512", has_avx512, kernels_avx512},
#endif
#if defined(OPENBNNS_WITH_avx2)
    {"avx2", has_avx2, kernels_avx2},
#endif
#if defined(OPENBNNS_WITH_base)
    {"base", [] { return true; }, kernels_base},
#endif
};

}  // namespace openbnns
