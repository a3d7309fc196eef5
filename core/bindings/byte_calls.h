// What lies between the convolutions and products of a quantized network, on arrays that nobody else has.
#pragma once
#include <nanobind/nanobind.h>

namespace openbnns {

void bind_byte_calls(nanobind::module_& m);

}  // namespace openbnns
