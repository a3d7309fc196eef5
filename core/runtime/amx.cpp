#include "runtime/amx.h"

#include <cstdint>
#if defined(__linux__) && defined(__x86_64__)
#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace openbnns {

#if defined(__linux__) && defined(__x86_64__)
namespace {

// Of arch_prctl, from Linux 5.16 on, and the number of the registers that hold the data of tiles.
constexpr int kSupportedRegisters = 0x1021, kRequestRegisters = 0x1023, kTileData = 18;

}  // namespace

const char* request_amx() {
  if (syscall(SYS_arch_prctl, kRequestRegisters, kTileData) == 0) return nullptr;
  if (errno == ENOSPC)  // tiles in use are saved there when a signal arrives
    return "a thread of this process has a stack for signals (sigaltstack) without room for tiles; import openbnns "
           "before that stack is made";
  if (errno == EOPNOTSUPP) return "the system does not permit it (arch_prctl: it has been disabled)";
  return "the system does not permit it (arch_prctl; Linux grants it from version 5.16 on)";
}

bool system_has_amx() {
  uint64_t supported = 0;
  return syscall(SYS_arch_prctl, kSupportedRegisters, &supported) == 0 && (supported >> kTileData & 1) != 0;
}
#else
const char* request_amx() { return "the system does not permit it"; }
bool system_has_amx() { return false; }
#endif

}  // namespace openbnns
