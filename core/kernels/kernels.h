// Everything the bindings can ask of one instruction set.
//
// Each kernel source is compiled once per instruction set, inside `namespace openbnns::OPENBNNS_ISA` (avx512, avx2,
// base); table.cpp gathers its functions into one `Kernels` table, chosen at run time.
#pragma once
#include <cstdint>
#include <memory>

#include "kernels/families.h"
#include "runtime/plan.h"

namespace openbnns {

#define OPENBNNS_PLAN(Made, name, ...) std::unique_ptr<Made> (*make_##name)(__VA_ARGS__);
#define OPENBNNS_FUNCTION(Result, name, ...) Result (*name)(__VA_ARGS__);
struct Kernels {
  const char* name;
  OPENBNNS_FAMILIES(OPENBNNS_PLAN, OPENBNNS_FUNCTION)
};
#undef OPENBNNS_PLAN
#undef OPENBNNS_FUNCTION

const Kernels& kernels_base();
#if defined(__x86_64__)
const Kernels& kernels_avx2();
const Kernels& kernels_avx512();
#endif
// Best for this CPU, or the one OPENBNNS_ISA (avx512, avx2, base) names if the CPU has it; or those of AVX-512 with
// products on AMX, if it says amx.
const Kernels& kernels();
// The name of these.
const char* instruction_set();

#if defined(OPENBNNS_ISA)
namespace OPENBNNS_ISA {

// Makers are cold, as other functions that run once per plan: compiled for size.
#define OPENBNNS_PLAN(Made, name, ...) [[gnu::cold]] std::unique_ptr<Made> make_##name(__VA_ARGS__);
#define OPENBNNS_FUNCTION(Result, name, ...) Result name(__VA_ARGS__);
OPENBNNS_FAMILIES(OPENBNNS_PLAN, OPENBNNS_FUNCTION)
#undef OPENBNNS_PLAN
#undef OPENBNNS_FUNCTION

}  // namespace OPENBNNS_ISA
#endif

}  // namespace openbnns
