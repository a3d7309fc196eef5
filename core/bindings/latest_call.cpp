#include "bindings/latest_call.h"

namespace openbnns {

PerThread<bool> latest_call_failure;
std::atomic<bool> a_call_has_failed{false};

}  // namespace openbnns
