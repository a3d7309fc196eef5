#include "kernels/pooling/indices.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace pooling {
namespace {

// index[c] = start of window c, `step` after the one before, + distance of its winner; -1 (all bits) where that is -1
template <class Index>
void write_positions(Index* index, const int32_t* winner, int64_t count, int64_t base, int64_t step) {
  for (int64_t c = 0; c < count; c++) {
    int64_t position = base + c * step + winner[c];
    index[c] = static_cast<Index>(winner[c] < 0 ? -1 : position);
  }
}

class ByIndices final : public Method {
 public:
  using Method::Method;

  static bool fits(const Problem& p, Use use) { return p.shape.function == kUnMax || use == Use::kGradientByIndices; }

  // UnMax: y = bias everywhere, plus x at the indices
  void forward(const Scratch&, const ForwardPlanes& f) const override {
    const float bias = f.first_bias();
    std::fill_n(f.y, p_.out_plane(), bias);
    for (int64_t i = 0; i < p_.in_plane(); i++) {
      uint64_t to = f.index.get(i);
      if (to < static_cast<uint64_t>(p_.out_plane())) f.y[to] = f.x[i] + bias;
    }
  }

  void backward(const Scratch&, const BackwardPlanes& b) const override {
    p_.shape.function == kUnMax ? unpool_backward(b) : scatter(b);
  }

 private:
  // z(index(i)) = x(i): dx(i) = dz(index(i))
  void unpool_backward(const BackwardPlanes& b) const {
    for (int64_t i = 0; i < p_.in_plane(); i++) {
      uint64_t from = b.index.get(i);
      float gradient = from < static_cast<uint64_t>(p_.out_plane()) ? b.dz[from] : 0;
      b.dx[i] = b.adds ? b.dx[i] + gradient : gradient;
    }
  }

  // z(i) = x(index(i)): dx(index(i)) += dz(i)
  void scatter(const BackwardPlanes& b) const {
    if (!b.adds) std::fill_n(b.dx, p_.in_plane(), 0.0f);
    for (int64_t i = 0; i < p_.out_plane(); i++) {
      uint64_t to = b.index.get(i);
      if (to < static_cast<uint64_t>(p_.in_plane())) b.dx[to] += b.dz[i];
    }
  }
};

}  // namespace

const MethodEntry kByIndices = entry_of<ByIndices>();

void write_places(const IndexPlane& index, const int32_t* place, int64_t count) {
  if (!index.wide) return copy_row(static_cast<float*>(index.data), reinterpret_cast<const float*>(place), count);
  auto* wide = static_cast<uint64_t*>(index.data);
  for (int64_t i = 0; i < count; i++) wide[i] = static_cast<uint64_t>(int64_t{place[i]});
}

void write_winners(const Problem& p, const int32_t* winner, int64_t pitch, const IndexPlane& index) {
  const PoolingShape& s = p.shape;
  for (int64_t r = 0; r < s.out_height; r++, winner += pitch) {
    const int64_t base = (r * s.stride_y - s.pad_up) * s.in_width - s.pad_left;
    const IndexPlane to = index.from(r * s.out_width);
    if (to.wide)
      write_positions(static_cast<uint64_t*>(to.data), winner, s.out_width, base, s.stride_x);
    else
      write_positions(static_cast<uint32_t*>(to.data), winner, s.out_width, base, s.stride_x);
  }
}

}  // namespace pooling
}  // namespace OPENBNNS_ISA
}  // namespace openbnns
