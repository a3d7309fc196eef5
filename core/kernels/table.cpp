#include "kernels/kernels.h"

namespace openbnns {

#define OPENBNNS_JOIN2(a, b) a##b
#define OPENBNNS_JOIN(a, b) OPENBNNS_JOIN2(a, b)
#define OPENBNNS_TEXT2(a) #a
#define OPENBNNS_TEXT(a) OPENBNNS_TEXT2(a)

const Kernels& OPENBNNS_JOIN(kernels_, OPENBNNS_ISA)() {
#define OPENBNNS_PLAN(Made, name, ...) OPENBNNS_ISA::make_##name,
#define OPENBNNS_FUNCTION(Result, name, ...) OPENBNNS_ISA::name,
  static constexpr Kernels table = {OPENBNNS_TEXT(OPENBNNS_ISA), OPENBNNS_FAMILIES(OPENBNNS_PLAN, OPENBNNS_FUNCTION)};
  return table;
}

}  // namespace openbnns
