// The tiles of AMX as the system grants them.
#pragma once

namespace openbnns {

// Asks for them, for all threads of this process; whether they may be used from now on.
bool request_amx();
// Whether the system can grant them; asks for nothing.
bool system_has_amx();

}  // namespace openbnns
