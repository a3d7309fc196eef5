#include "kernels/dispatch.h"

#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>

#include "runtime/amx.h"

namespace openbnns {
namespace {

// The kernels to use; null if this build has none that the CPU can run and OPENBNNS_ISA allows.
const Kernels* choose(const char* highest) {
  bool allowed = !highest || !*highest;
  for (const InstructionSet& set : kInstructionSets) {
    allowed = allowed || !std::strcmp(set.name, highest) || !std::strcmp(set.name, "base");
    if (allowed && set.on_this_cpu()) return &set.kernels();
  }
  return nullptr;
}

// Why AMX cannot be used; null if it can. It is for those who ask for it, because it has not run on any machine of
// ours.
const char* refusal_of_amx() {
#if defined(OPENBNNS_WITH_avx512)
  if (!has_amx()) return "this CPU has no AMX for bfloat16 and int8 (amx_tile, amx_bf16, amx_int8)";
  return request_amx();
#else
  return "this build has no kernels for AVX-512, which belong to it";
#endif
}

}  // namespace

const char* instruction_set() {
  const Kernels& chosen = kernels();
  return chosen.uses_amx() ? "amx" : chosen.name;
}

const Kernels& kernels() {
  static const Kernels& chosen = []() -> const Kernels& {
    const char* highest = std::getenv("OPENBNNS_ISA");
    const bool amx = highest && !std::strcmp(highest, "amx");
    if (const char* reason = amx ? refusal_of_amx() : nullptr)
      throw std::runtime_error(std::string("OPENBNNS_ISA is amx, but ") + reason +
                               ". Set it to avx512, avx2 or base, or leave it unset.");
    if (amx) highest = "avx512";
    if (const Kernels* found = choose(highest)) {
      if (amx) found->use_amx();
      return *found;
    }
    std::string text = "openbnns was built for the instruction set";
    const char* between = " ";
    for (const InstructionSet& set : kInstructionSets) {
      text += between;
      text += set.name;
      between = ", ";
    }
    text += " only, ";
    text += choose("") ? "and OPENBNNS_ISA is " + std::string(highest) : "which this CPU does not have";
    throw std::runtime_error(text + ". Build it for all instruction sets (`make`, or `pip install .`).");
  }();
  return chosen;
}

}  // namespace openbnns
