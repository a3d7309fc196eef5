#pragma once
#include <nanobind/nanobind.h>

namespace openbnns {

void bind_clipping(nanobind::module_& m);

}  // namespace openbnns
