// Sums for ranks that train one network together: in the order of a tree, and over channels.
#pragma once
#include <nanobind/nanobind.h>

namespace openbnns {

void bind_exchange(nanobind::module_& m);

}  // namespace openbnns
