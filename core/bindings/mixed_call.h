// Elementwise functions of arrays of float32 and int64, for networks.
#pragma once
#include <nanobind/nanobind.h>

namespace openbnns {

void bind_mixed_call(nanobind::module_& m);

}  // namespace openbnns
