// The tiles of AMX as the system grants them.
#pragma once

namespace openbnns {

// Asks for them, for all threads of this process; null if they may be used from now on, or else why not.
const char* request_amx();
// Whether the system can grant them; asks for nothing.
bool system_has_amx();

}  // namespace openbnns
