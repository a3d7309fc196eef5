// Indices of the cells that win, and gradients that go to them.
#pragma once
#include "kernels/pooling/methods.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace pooling {

// place [count] of the winning cells in their plane; -1, where a window has no cell, becomes all bits set.
void write_places(const IndexPlane& index, const int32_t* place, int64_t count);

// The same of winner [out_height][pitch]: distance of the winner from the start of its window, or -1.
void write_winners(const Problem& p, const int32_t* winner, int64_t pitch, const IndexPlane& index);
// A pitch of whole vectors, and room for such winners.
inline int64_t winners_pitch(const Problem& p) { return round_up(p.shape.out_width, kWidth); }
inline int64_t winners_room(const Problem& p) { return p.shape.out_height * winners_pitch(p); }

// z = x[place]: dx[place] += dz. The last comes first: so a cell adds its windows in the order of its taps.
inline void scatter_places(const Problem& p, const int32_t* place, const BackwardPlanes& b, float* room) {
  write_plane(p, b, room, [&](float* dx) {
    std::fill_n(dx, p.in_plane(), 0.0f);
    for (int64_t i = p.out_plane() - 1; i >= 0; i--)
      if (place[i] >= 0) dx[place[i]] += b.dz[i];
  });
}

}  // namespace pooling
}  // namespace OPENBNNS_ISA
}  // namespace openbnns
