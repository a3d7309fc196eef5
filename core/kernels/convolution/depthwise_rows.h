// 3 x 3 windows of depthwise convolutions read directly from the planes: masked loads give the zeros outside the image,
// so that there is no bordered copy. A row of the image is loaded once for all windows it belongs to. Meanwhile the
// next planes are prefetched, line by line: the hardware prefetches only within a page of memory, which is about one
// plane.
#pragma once
#include <memory>

#include "common/planes.h"
#include "kernels/convolution/depthwise.h"

namespace openbnns {
namespace OPENBNNS_ISA {

// Windows of one shape; x: [in_height][in_width], y and dz: [out_height][out_width], w: [3][3].
class RowWindows {
 public:
  static constexpr int64_t kMostColumns = 128 * kWidth;

  // Planes that will be needed soon.
  struct Next {
    const float *source, *result;
  };

  virtual ~RowWindows() = default;

  // y = bias + sum over taps t of w(t) x(window's t)
  virtual void forward(const float* x, const float* w, float bias, float* y, Next next) const = 0;
  // hence dx (= or +=) sum of w(t) dz(windows whose t it is)
  virtual void input_gradient(const float* dz, const float* w, float* dx, bool adds, Next next) const = 0;

  // and dw(t) = sum over windows of dz x(window's t). Rows are taken in bands, whose products may be added in single
  // precision: sums[t][lane] += those of one band.
  virtual int64_t bands() const = 0;
  virtual int64_t additions() const = 0;  // of a band, to each sum
  virtual void add_products(int64_t band, const float* x, const float* dz, float* sums, const float* next_x) const = 0;
};

// For 3 x 3 windows with stride 1 and any dilation of the columns, and with stride 2.
std::unique_ptr<RowWindows> make_stride_one(const ConvolutionShape& s);
std::unique_ptr<RowWindows> make_stride_two(const ConvolutionShape& s);

// With step 1, a row of the image belongs to the windows of three rows of results: the sums of those whose last row of
// taps it is, and the others on their way, which lack one (lower) and two (middle) more. x: by columns of taps.
OPENBNNS_INLINE Vec roll_sums(const Vec (&w)[9], Vec start, const Vec (&x)[3], Vec& middle, Vec& lower) {
  Vec done = lower + w[6] * x[0];
  lower = middle + w[3] * x[0];
  middle = start + w[0] * x[0];
  done += w[7] * x[1];
  lower += w[4] * x[1];
  middle += w[1] * x[1];
  done += w[8] * x[2];
  lower += w[5] * x[2];
  middle += w[2] * x[2];
  return done;
}

// The same of a row outside the image.
OPENBNNS_INLINE Vec skip_row(Vec start, Vec& middle, Vec& lower) {
  const Vec done = lower;
  lower = middle;
  middle = start;
  return done;
}

#if OPENBNNS_READS_ROWS
// Lanes of a vector that a masked load or store touches: [first, end).
#if defined(__AVX512F__)
using Lanes = __mmask16;
OPENBNNS_INLINE Lanes lanes_from(int64_t first, int64_t end) {
  return static_cast<Lanes>(((1u << end) - 1) & ~((1u << first) - 1));
}
OPENBNNS_INLINE Vec load_lanes(const float* p, Lanes lanes) { return _mm512_maskz_loadu_ps(lanes, p); }
OPENBNNS_INLINE void store_lanes(float* p, Vec v, Lanes lanes, bool) { _mm512_mask_storeu_ps(p, lanes, v); }
OPENBNNS_INLINE void store_first(float* p, Vec v, int64_t count) { store_partial(p, v, count); }
#else
using Lanes = __m256i;
OPENBNNS_INLINE Lanes lanes_from(int64_t first, int64_t end) {
  IntVec lane = lane_numbers();
  return reinterpret_cast<Lanes>((lane >= splat_int(static_cast<int32_t>(first))) &
                                 (lane < splat_int(static_cast<int32_t>(end))));
}
OPENBNNS_INLINE Vec load_lanes(const float* p, Lanes lanes) { return _mm256_maskload_ps(p, lanes); }
OPENBNNS_INLINE void store_lanes(float* p, Vec v, Lanes lanes, bool all) {
  all ? store(p, v) : _mm256_maskstore_ps(p, lanes, v);  // masked stores are slow on some processors
}
// The first `count` lanes, without a masked store.
OPENBNNS_INLINE void store_first(float* p, Vec v, int64_t count) {
  if (count == kWidth) return store(p, v);
  __m128 part = _mm256_castps256_ps128(v);
  if (count & 4) {
    _mm_storeu_ps(p, part);
    part = _mm256_extractf128_ps(v, 1);
    p += 4;
  }
  if (count & 2) {
    _mm_storel_pi(reinterpret_cast<__m64*>(p), part);
    part = _mm_movehl_ps(part, part);
    p += 2;
  }
  if (count & 1) _mm_store_ss(p, part);
}
#endif
#endif

constexpr int64_t kLine = 16;  // floats

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
