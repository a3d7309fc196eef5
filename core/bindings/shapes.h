#pragma once
#include <nanobind/nanobind.h>

namespace openbnns {

// The makers of plans: a function of the name of each, with the fields of its shape as keywords.
void bind_shapes(nanobind::module_& m);

}  // namespace openbnns
