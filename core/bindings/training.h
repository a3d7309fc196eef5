// What the module offers for training besides filters and optimizers: clipping and norms, random fills.
#pragma once
#include <nanobind/nanobind.h>

namespace openbnns {

void bind_training(nanobind::module_& m);

}  // namespace openbnns
