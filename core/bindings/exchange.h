// What ranks that train one network together need of native code: sums in the order of a tree, and of channels.
#pragma once
#include <nanobind/nanobind.h>

namespace openbnns {

void bind_exchange(nanobind::module_& m);

}  // namespace openbnns
