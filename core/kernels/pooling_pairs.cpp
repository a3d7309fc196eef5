#include "kernels/pooling_pairs.h"

#include "kernels/pooling_maximum.h"
#include "simd/pairs.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace pooling {
namespace {

// body(row, column, cells of the upper row, cells of the lower row) for kWidth windows at a time, each with 2 * kWidth
// readable cells. The last vector of a wide row overlaps its neighbour; a narrow row comes from a copy.
template <class Body>
OPENBNNS_INLINE void for_each_vector(const PairPlane& plane, const float* x, Body body) {
  const int64_t columns = plane.out_width;
  float upper_copy[2 * kWidth] = {}, lower_copy[2 * kWidth] = {};
  for (int64_t r = 0; r < plane.out_height; r++) {
    const float *upper = x + 2 * r * plane.width, *lower = upper + plane.width;
    if (columns < kWidth) {
      copy_row(upper_copy, upper, 2 * columns);
      copy_row(lower_copy, lower, 2 * columns);
      body(r, 0, upper_copy, lower_copy);
      continue;
    }
    int64_t c = 0;
    for (; c + kWidth <= columns; c += kWidth) body(r, c, upper + 2 * c, lower + 2 * c);
    if (c < columns) body(r, columns - kWidth, upper + 2 * (columns - kWidth), lower + 2 * (columns - kWidth));
  }
}

// The four cells of kWidth windows.
struct Cells {
  Vec cell[4];
  OPENBNNS_INLINE Cells(const float* upper, const float* lower) {
    Vec a = load(upper), b = load(upper + kWidth), c = load(lower), d = load(lower + kWidth);
    cell[0] = evens(a, b);
    cell[1] = odds(a, b);
    cell[2] = evens(c, d);
    cell[3] = odds(c, d);
  }
};

// Writes the gradients of two rows of x at a time, and zeros where no window reaches.
template <class Body>
OPENBNNS_INLINE void write_gradient(const PairPlane& plane, const float* dz, float* dx, Body body) {
  const int64_t columns = plane.out_width, width = plane.width;
  float dz_copy[kWidth] = {}, upper_copy[2 * kWidth], lower_copy[2 * kWidth];
  for (int64_t r = 0; r < plane.out_height; r++) {
    const float* gradient = dz + r * columns;
    float *upper = dx + 2 * r * width, *lower = upper + width;
    if (columns < kWidth) {
      copy_row(dz_copy, gradient, columns);
      body(r, 0, load(dz_copy), upper_copy, lower_copy);
      copy_row(upper, upper_copy, 2 * columns);
      copy_row(lower, lower_copy, 2 * columns);
    } else {
      int64_t c = 0;
      for (; c + kWidth <= columns; c += kWidth) body(r, c, load(gradient + c), upper + 2 * c, lower + 2 * c);
      int64_t last = columns - kWidth;
      if (c < columns) body(r, last, load(gradient + last), upper + 2 * last, lower + 2 * last);
    }
    if (width > 2 * columns) {
      std::fill_n(upper + 2 * columns, width - 2 * columns, 0.0f);
      std::fill_n(lower + 2 * columns, width - 2 * columns, 0.0f);
    }
  }
  std::fill(dx + 2 * plane.out_height * width, dx + plane.height * width, 0.0f);
}

PlaneWriter writer(const PairPlane& plane, float* y) {
  return {y, plane.out_width, y + plane.out_height * plane.out_width};
}

}  // namespace

void max_pairs(const PairPlane& plane, const float* x, float bias, float* y) {
  PlaneWriter out = writer(plane, y);
  for_each_vector(plane, x, [&](int64_t r, int64_t c, const float* upper, const float* lower) {
    Vec left = larger(load(upper), load(lower)), right = larger(load(upper + kWidth), load(lower + kWidth));
    out.write(r, c, larger(evens(left, right), odds(left, right)) + bias);
  });
}

void max_pairs_with_winners(const PairPlane& plane, const float* x, float bias, float* y, int32_t* winner,
                            int64_t pitch) {
  PlaneWriter out = writer(plane, y);
  for_each_vector(plane, x, [&](int64_t r, int64_t c, const float* upper, const float* lower) {
    Cells cells(upper, lower);
    Vec best = cells.cell[0];
    IntVec which{};
    OPENBNNS_UNROLL for (int k = 1; k < 4; k++) {
      IntVec mask = wins(cells.cell[k], best);
      best = select(mask, cells.cell[k], best);
      which = mask ? splat_int(k) : which;
    }
    out.write(r, c, best + bias);
    store_int(winner + r * pitch + c, which);
  });
}

void max_pairs_backward(const PairPlane& plane, const float* x, const float* dz, float* dx) {
  // the cells of x that belong to row r, column c; a narrow row comes from a copy
  float upper_copy[2 * kWidth] = {}, lower_copy[2 * kWidth] = {};
  write_gradient(plane, dz, dx, [&](int64_t r, int64_t c, Vec gradient, float* dx_upper, float* dx_lower) {
    const float *upper = x + 2 * r * plane.width + 2 * c, *lower = upper + plane.width;
    if (plane.out_width < kWidth) {
      copy_row(upper_copy, upper, 2 * plane.out_width);
      copy_row(lower_copy, lower, 2 * plane.out_width);
      upper = upper_copy;
      lower = lower_copy;
    }
    Cells cells(upper, lower);
    Vec best = cells.cell[0];
    IntVec won[4] = {};
    OPENBNNS_UNROLL for (int k = 1; k < 4; k++) {
      won[k] = wins(cells.cell[k], best);
      best = select(won[k], cells.cell[k], best);
    }
    // a cell keeps its win unless a later one took it
    won[2] &= ~won[3];
    won[1] &= ~(won[2] | won[3]);
    won[0] = ~(won[1] | won[2] | won[3]);
    store_interleaved(dx_upper, keep_where(won[0], gradient), keep_where(won[1], gradient));
    store_interleaved(dx_lower, keep_where(won[2], gradient), keep_where(won[3], gradient));
  });
}

void average_pairs(const PairPlane& plane, const float* x, float bias, float* y) {
  PlaneWriter out = writer(plane, y);
  for_each_vector(plane, x, [&](int64_t r, int64_t c, const float* upper, const float* lower) {
    Vec left = load(upper) + load(lower), right = load(upper + kWidth) + load(lower + kWidth);
    out.write(r, c, (evens(left, right) + odds(left, right)) * 0.25f + bias);
  });
}

void average_pairs_backward(const PairPlane& plane, const float* dz, float* dx) {
  write_gradient(plane, dz, dx, [&](int64_t, int64_t, Vec gradient, float* upper, float* lower) {
    Vec quarter = gradient * 0.25f;
    store_interleaved(upper, quarter, quarter);
    store_interleaved(lower, quarter, quarter);
  });
}

}  // namespace pooling
}  // namespace OPENBNNS_ISA
}  // namespace openbnns
