// Steps of optimizers, from Python and from C structs.
#pragma once
#include <nanobind/nanobind.h>

namespace openbnns {

void bind_optimizer(nanobind::module_& m);

}  // namespace openbnns
