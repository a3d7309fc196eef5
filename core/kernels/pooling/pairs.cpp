// Pooling of one plane with 2 x 2 windows that neither overlap nor extend beyond the plane: directly from and to the
// caller's rows, without a bordered copy.
#include "simd/pairs.h"

#include "kernels/pooling/indices.h"
#include "kernels/pooling/maximum.h"
#include "kernels/pooling/methods.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace pooling {
namespace {

// x, dx: [height][width]; y, dz: [out_height][out_width] with 2 * out_height <= height and 2 * out_width <= width
struct PairPlane {
  int64_t height, width, out_height, out_width;
};

// body(row, column, number of windows) for up to kWidth windows at a time
template <class Body>
OPENBNNS_INLINE void for_each_vector(const PairPlane& plane, Body body) {
  for (int64_t r = 0; r < plane.out_height; r++)
    for (int64_t c = 0; c < plane.out_width; c += kWidth) body(r, c, plane.out_width - c);
}

// The four cells of kWidth windows, in row-major order.
struct Cells {
  Vec cell[4];
  OPENBNNS_INLINE Cells(const PairPlane& plane, const float* x, int64_t r, int64_t c, int64_t count) {
    const float* corner = x + 2 * r * plane.width + 2 * c;
    VecPair upper = load_pairs(corner, count), lower = load_pairs(corner + plane.width, count);
    cell[0] = upper.even;
    cell[1] = upper.odd;
    cell[2] = lower.even;
    cell[3] = lower.odd;
  }
};

// The gradients of the four cells of kWidth windows.
OPENBNNS_INLINE void store_cells(const PairPlane& plane, float* dx, int64_t r, int64_t c, int64_t count, VecPair upper,
                                 VecPair lower) {
  float* corner = dx + 2 * r * plane.width + 2 * c;
  store_pairs(corner, upper, count);
  store_pairs(corner + plane.width, lower, count);
}

// Zeros where no window reaches: the columns and rows left over by an odd size.
void clear_rest(const PairPlane& plane, float* dx) {
  int64_t rows = 2 * plane.out_height, columns = 2 * plane.out_width;
  for (int64_t r = 0; r < rows && columns < plane.width; r++)
    std::fill(dx + r * plane.width + columns, dx + (r + 1) * plane.width, 0.0f);
  std::fill(dx + rows * plane.width, dx + plane.height * plane.width, 0.0f);
}

PlaneWriter writer(const PairPlane& plane, float* y) {
  return {y, plane.out_width, y + plane.out_height * plane.out_width};
}

// y = max + bias
void max_pairs(const PairPlane& plane, const float* x, float bias, float* y) {
  PlaneWriter out = writer(plane, y);
  for_each_vector(plane, [&](int64_t r, int64_t c, int64_t count) {
    Cells at(plane, x, r, c, count);
    out.write(r, c, larger(larger(at.cell[0], at.cell[1]), larger(at.cell[2], at.cell[3])) + bias);
  });
}

// also winner [out_height][pitch]: label [4] of the winning cell; whole vectors are written
void max_pairs_with_winners(const PairPlane& plane, const float* x, float bias, float* y, const int32_t* label,
                            int32_t* winner, int64_t pitch) {
  PlaneWriter out = writer(plane, y);
  for_each_vector(plane, [&](int64_t r, int64_t c, int64_t count) {
    Cells at(plane, x, r, c, count);
    Vec best = at.cell[0];
    IntVec which = splat_int(label[0]);
    OPENBNNS_UNROLL for (int k = 1; k < 4; k++) {
      IntVec mask = wins(at.cell[k], best);
      best = select(mask, at.cell[k], best);
      which = mask ? splat_int(label[k]) : which;
    }
    out.write(r, c, best + bias);
    store_int(winner + r * pitch + c, which);
  });
}

// dx = dz at the winner, 0 elsewhere
void max_pairs_backward(const PairPlane& plane, const float* x, const float* dz, float* dx) {
  for_each_vector(plane, [&](int64_t r, int64_t c, int64_t count) {
    const float* from = dz + r * plane.out_width + c;
    Vec gradient = count >= kWidth ? load(from) : load_partial(from, count);
    Cells at(plane, x, r, c, count);
    Vec best = at.cell[0];
    IntVec won[4] = {};
    OPENBNNS_UNROLL for (int k = 1; k < 4; k++) {
      won[k] = wins(at.cell[k], best);
      best = select(won[k], at.cell[k], best);
    }
    // a cell keeps its win unless a later one took it
    won[2] &= ~won[3];
    won[1] &= ~(won[2] | won[3]);
    won[0] = ~(won[1] | won[2] | won[3]);
    store_cells(plane, dx, r, c, count, {keep_where(won[0], gradient), keep_where(won[1], gradient)},
                {keep_where(won[2], gradient), keep_where(won[3], gradient)});
  });
  clear_rest(plane, dx);
}

// y = average + bias
void average_pairs(const PairPlane& plane, const float* x, float bias, float* y) {
  PlaneWriter out = writer(plane, y);
  for_each_vector(plane, [&](int64_t r, int64_t c, int64_t count) {
    Cells at(plane, x, r, c, count);
    out.write(r, c, ((at.cell[0] + at.cell[1]) + (at.cell[2] + at.cell[3])) * 0.25f + bias);
  });
}

// hence dx = dz / 4
void average_pairs_backward(const PairPlane& plane, const float* dz, float* dx) {
  for_each_vector(plane, [&](int64_t r, int64_t c, int64_t count) {
    const float* from = dz + r * plane.out_width + c;
    Vec quarter = 0.25f * (count >= kWidth ? load(from) : load_partial(from, count));
    store_cells(plane, dx, r, c, count, {quarter, quarter}, {quarter, quarter});
  });
  clear_rest(plane, dx);
}

class Pairs final : public Method {
 public:
  explicit Pairs(const Problem& p)
      : Method(p), plane_{p.shape.in_height, p.shape.in_width, p.shape.out_height, p.shape.out_width} {}

  static bool fits(const Problem& p, Use) { return has_pairs(p) && p.shape.function != kL2Norm; }

  Scratch scratch(Use use) const override {
    Scratch work;
    if (use == Use::kIndices) work.winner = winner_scratch(winners_room(p_));
    if (use == Use::kGradient) work.plane = float_scratch(kOutputTile, p_.in_plane());
    return work;
  }

  void forward(const Scratch& work, const ForwardPlanes& f) const override {
    if (p_.is_average()) return average_pairs(plane_, f.x, f.first_bias(), f.y);
    if (!f.index) return max_pairs(plane_, f.x, f.first_bias(), f.y);
    const int32_t below = static_cast<int32_t>(plane_.width), distance[4] = {0, 1, below, below + 1};
    max_pairs_with_winners(plane_, f.x, f.first_bias(), f.y, distance, work.winner, winners_pitch(p_));
    write_winners(p_, work.winner, winners_pitch(p_), f.index);
  }

  void backward(const Scratch& work, const BackwardPlanes& b) const override {
    write_plane(p_, b, work.plane, [&](float* dx) {
      p_.is_average() ? average_pairs_backward(plane_, b.dz, dx) : max_pairs_backward(plane_, b.x, b.dz, dx);
    });
  }

 private:
  const PairPlane plane_;
};

}  // namespace

bool has_pairs(const Problem& p) {
  const PoolingShape& s = p.shape;
  return p.cells == 4 && s.kernel_height == 2 && s.kernel_width == 2 && s.stride_y == 2 && s.stride_x == 2 &&
         s.dilation_y == 1 && s.dilation_x == 1 && s.pad_up == 0 && s.pad_left == 0 &&
         2 * s.out_height <= s.in_height && 2 * s.out_width <= s.in_width;
}

const MethodEntry kPairs = entry_of<Pairs>();

}  // namespace pooling
}  // namespace OPENBNNS_ISA
}  // namespace openbnns
