// What ranks exchange while they train one network together: sums of vectors in the order of a tree.
#pragma once
#include <cstdint>

namespace openbnns {

// out = the sum of `parts`. After part i, joins[i] sums are taken, each of the latest two results that are not part of
// another sum yet, the older one on the left; one result is left. At most kMaxPending of them wait at any time.
struct TreeSum {
  static constexpr int kMaxPending = 64;
  float* out = nullptr;
  const float* const* parts = nullptr;  // out may be one of them
  const int32_t* joins = nullptr;
  int64_t part_count = 0;
  int64_t elements = 0;  // of out and of every part
};

// Images (batch, channels, pixels), packed, whose channels are normalized by statistics that come from elsewhere.
struct ChannelPlanes {
  int64_t batch = 0, channels = 0, pixels = 0;
};

}  // namespace openbnns
