#include "runtime/amx.h"

#include <cstdint>
#if defined(__linux__) && defined(__x86_64__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace openbnns {

#if defined(__linux__) && defined(__x86_64__)
namespace {

// Of arch_prctl, from Linux 5.16 on, and the number of the registers that hold the data of tiles.
constexpr int kSupportedRegisters = 0x1021, kRequestRegisters = 0x1023, kTileData = 18;

}  // namespace

bool request_amx() { return syscall(SYS_arch_prctl, kRequestRegisters, kTileData) == 0; }

bool system_has_amx() {
  uint64_t supported = 0;
  return syscall(SYS_arch_prctl, kSupportedRegisters, &supported) == 0 && (supported >> kTileData & 1) != 0;
}
#else
bool request_amx() { return false; }
bool system_has_amx() { return false; }
#endif

}  // namespace openbnns
