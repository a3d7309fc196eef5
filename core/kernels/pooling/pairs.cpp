#include "kernels/pooling/pairs.h"

#include "kernels/pooling/maximum.h"
#include "simd/pairs.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace pooling {
namespace {

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

}  // namespace

void max_pairs(const PairPlane& plane, const float* x, float bias, float* y) {
  PlaneWriter out = writer(plane, y);
  for_each_vector(plane, [&](int64_t r, int64_t c, int64_t count) {
    Cells at(plane, x, r, c, count);
    out.write(r, c, larger(larger(at.cell[0], at.cell[1]), larger(at.cell[2], at.cell[3])) + bias);
  });
}

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

void average_pairs(const PairPlane& plane, const float* x, float bias, float* y) {
  PlaneWriter out = writer(plane, y);
  for_each_vector(plane, [&](int64_t r, int64_t c, int64_t count) {
    Cells at(plane, x, r, c, count);
    out.write(r, c, ((at.cell[0] + at.cell[1]) + (at.cell[2] + at.cell[3])) * 0.25f + bias);
  });
}

void average_pairs_backward(const PairPlane& plane, const float* dz, float* dx) {
  for_each_vector(plane, [&](int64_t r, int64_t c, int64_t count) {
    const float* from = dz + r * plane.out_width + c;
    Vec quarter = 0.25f * (count >= kWidth ? load(from) : load_partial(from, count));
    store_cells(plane, dx, r, c, count, {quarter, quarter}, {quarter, quarter});
  });
  clear_rest(plane, dx);
}

}  // namespace pooling
}  // namespace OPENBNNS_ISA
}  // namespace openbnns
