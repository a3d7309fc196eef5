// What the module offers for whole tensors: copies, selections, comparisons and reductions.
#pragma once
#include <nanobind/nanobind.h>

namespace openbnns {

void bind_tensor(nanobind::module_& m);

}  // namespace openbnns
