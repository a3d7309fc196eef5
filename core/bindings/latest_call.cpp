#include "bindings/latest_call.h"

namespace openbnns {

PerThread<bool> latest_call_failure;

}  // namespace openbnns
