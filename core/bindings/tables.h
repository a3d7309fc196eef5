// Readers of tables in text files.
#pragma once
#include <nanobind/nanobind.h>

namespace openbnns {

void bind_tables(nanobind::module_& m);

}  // namespace openbnns
