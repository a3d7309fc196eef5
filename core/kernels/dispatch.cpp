#include "kernels/dispatch.h"

#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>

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

}  // namespace

const Kernels& kernels() {
  static const Kernels& chosen = []() -> const Kernels& {
    const char* highest = std::getenv("OPENBNNS_ISA");
    if (const Kernels* found = choose(highest)) return *found;
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
