#include "kernels/convolution/depthwise_halves.h"

#include <algorithm>
#include <vector>

#include "common/scratch_uses.h"
#include "kernels/convolution/depthwise_rows.h"
#include "runtime/scratch.h"
#include "simd/stored_numbers.h"

namespace openbnns {
namespace OPENBNNS_ISA {

#if defined(__AVX512F__) && OPENBNNS_READS_ROWS
namespace {

constexpr int kMostVectors = 4;  // of a strip of columns, whose sums stay in registers

struct Float16Lanes {
  static OPENBNNS_INLINE Vec load(const uint16_t* p, Lanes lanes) {
    return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(lanes, p));
  }
  static OPENBNNS_INLINE __m256i rounded(Vec v) { return _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT); }
};

struct BFloat16Lanes {
  static OPENBNNS_INLINE Vec load(const uint16_t* p, Lanes lanes) {
    return from_bits(reinterpret_cast<IntVec>(_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(lanes, p))) << 16);
  }
  // As store_bfloat16() does, in fewer instructions.
  static OPENBNNS_INLINE __m256i rounded(Vec v) {
    const __m512i all = _mm512_castps_si512(v), upper = _mm512_srli_epi32(all, 16);
    const __m512i odd = _mm512_and_si512(upper, _mm512_set1_epi32(1));
    const __m512i sum = _mm512_add_epi32(_mm512_add_epi32(all, _mm512_set1_epi32(0x7FFF)), odd);
    const __m512i nearest = _mm512_srli_epi32(sum, 16);
    const __mmask16 nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
    return _mm512_cvtepi32_epi16(_mm512_mask_or_epi32(nearest, nan, upper, _mm512_set1_epi32(0x40)));
  }
};

// The lanes of two vectors side by side, from lane kFirst of `left` on.
template <int kFirst>
OPENBNNS_INLINE Vec moved_lanes(Vec left, Vec right) {
  return _mm512_castsi512_ps(_mm512_alignr_epi32(_mm512_castps_si512(right), _mm512_castps_si512(left), kFirst));
}

template <class Halves>
class Windows final : public HalfWindows {
 public:
  explicit Windows(const ConvolutionShape& s)
      : height_(s.in_height),
        width_(s.in_width),
        rows_(s.out_height),
        columns_(s.out_width),
        up_(s.pad_up),
        left_(s.pad_left),
        vectors_((s.out_width + kWidth - 1) / kWidth) {
    // lane 0 of vector v meets column v * kWidth + 1 - left with the middle tap
    for (int64_t v = -1; v <= vectors_; v++) {
      const int64_t from = v * kWidth + 1 - left_, end = std::clamp<int64_t>(width_ - from, 0, kWidth);
      met_.push_back(lanes_from(std::clamp<int64_t>(-from, 0, end), end));
    }
  }

  void forward(const uint16_t* x, const float* w, float bias, uint16_t* y) const override {
    for (int64_t v = 0; v < vectors_; v += kMostVectors) switch (std::min<int64_t>(kMostVectors, vectors_ - v)) {
        case 1:
          strip<1>(v, x, w, bias, y);
          break;
        case 2:
          strip<2>(v, x, w, bias, y);
          break;
        case 3:
          strip<3>(v, x, w, bias, y);
          break;
        default:
          strip<kMostVectors>(v, x, w, bias, y);
      }
  }

 private:
  // The columns of vectors [first, first + kVectors); source row s is the first row of the windows of row s + up, the
  // last one of those of row s + up - 2.
  template <int kVectors>
  void strip(int64_t first, const uint16_t* x, const float* w, float bias, uint16_t* y) const {
    Vec weight[9], middle[kVectors], lower[kVectors];
    const Vec start = splat(bias);
    Lanes met[kVectors + 2];
    OPENBNNS_UNROLL for (int t = 0; t < 9; t++) weight[t] = splat(w[t]);
    OPENBNNS_UNROLL for (int v = 0; v < kVectors; v++) middle[v] = lower[v] = start;
    OPENBNNS_UNROLL for (int v = 0; v < kVectors + 2; v++) met[v] = met_[first + v];
    const Lanes last = lanes_from(0, std::min<int64_t>(kWidth, columns_ - (first + kVectors - 1) * kWidth));
    const uint16_t* row = x - up_ * width_ + (first - 1) * kWidth + 1 - left_;
    uint16_t* to = y - 2 * columns_ + first * kWidth;
    for (int64_t s = -up_; s < rows_ + 2 - up_; s++, row += width_, to += columns_) {
      Vec done[kVectors];
      OPENBNNS_UNROLL for (int v = 0; v < kVectors; v++) done[v] = lower[v];
      if (s >= 0 && s < height_) {
        Vec here[kVectors + 2];
        OPENBNNS_UNROLL for (int v = 0; v < kVectors + 2; v++) here[v] =
            (v > 0 && v <= kVectors) || met[v] ? Halves::load(row + v * kWidth, met[v]) : Vec{};
        OPENBNNS_UNROLL for (int v = 0; v < kVectors; v++) {
          const Vec x0 = moved_lanes<kWidth - 1>(here[v], here[v + 1]), x1 = here[v + 1],
                    x2 = moved_lanes<1>(here[v + 1], here[v + 2]);
          done[v] += weight[6] * x0;
          lower[v] = middle[v] + weight[3] * x0;
          middle[v] = start + weight[0] * x0;
          done[v] += weight[7] * x1;
          lower[v] += weight[4] * x1;
          middle[v] += weight[1] * x1;
          done[v] += weight[8] * x2;
          lower[v] += weight[5] * x2;
          middle[v] += weight[2] * x2;
        }
      } else {
        OPENBNNS_UNROLL for (int v = 0; v < kVectors; v++) {
          lower[v] = middle[v];
          middle[v] = start;
        }
      }
      if (s + up_ < 2) continue;
      OPENBNNS_UNROLL for (int v = 0; v < kVectors; v++)
          _mm256_mask_storeu_epi16(to + v * kWidth, v < kVectors - 1 ? Lanes{0xffff} : last, Halves::rounded(done[v]));
    }
  }

  const int64_t height_, width_, rows_, columns_, up_, left_, vectors_;
  std::vector<Lanes> met_;  // of vectors -1 to vectors_: lanes that lie in the image
};

// Narrow images leave too many lanes empty.
bool has_vectors(const ConvolutionShape& s) { return 2 * std::min(s.in_width, s.out_width) > kWidth + 2; }

}  // namespace
#elif defined(__AVX2__) && OPENBNNS_READS_ROWS
namespace {

struct Float16Lanes {
  static OPENBNNS_INLINE Vec load(const uint16_t* p) { return load_float16(p); }
  static OPENBNNS_INLINE void store(uint16_t* p, Vec v) { store_float16(p, v); }
};

struct BFloat16Lanes {
  static OPENBNNS_INLINE Vec load(const uint16_t* p) { return load_bfloat16(p); }
  // As store_bfloat16() does, in fewer instructions.
  static OPENBNNS_INLINE void store(uint16_t* p, Vec v) {
    const __m256i all = _mm256_castps_si256(v), upper = _mm256_srli_epi32(all, 16);
    const __m256i odd = _mm256_and_si256(upper, _mm256_set1_epi32(1));
    const __m256i sum = _mm256_add_epi32(_mm256_add_epi32(all, _mm256_set1_epi32(0x7FFF)), odd);
    const __m256i quiet = _mm256_or_si256(upper, _mm256_set1_epi32(0x40));
    const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q));
    const __m256i result = _mm256_blendv_epi8(_mm256_srli_epi32(sum, 16), quiet, nan);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p),
                     _mm_packus_epi32(_mm256_castsi256_si128(result), _mm256_extracti128_si256(result, 1)));
  }
};

// Without such masks: from a copy of a plane as floats, with zeros around it, which stays in L1. The last vector of a
// row overlaps the one before.
template <class Halves>
class Windows final : public HalfWindows {
 public:
  explicit Windows(const ConvolutionShape& s)
      : height_(s.in_height),
        width_(s.in_width),
        rows_(s.out_height),
        columns_(s.out_width),
        up_(s.pad_up),
        left_(s.pad_left),
        end_(std::clamp(s.pad_left + s.in_width, left_, columns_ + 2)) {}

  void forward(const uint16_t* x, const float* w, float bias, uint16_t* y) const override {
    const int64_t pitch = columns_ + 2 + 2 * kWidth, rows = rows_, columns = columns_;
    float* plane = scratch(kInputBand, static_cast<size_t>((rows + 2) * pitch)) + kWidth;
    for (int64_t r = 0; r < rows + 2; r++) place_row(x, r - up_, plane + r * pitch);
    Vec weight[9];
    const Vec start = splat(bias);
    OPENBNNS_UNROLL for (int t = 0; t < 9; t++) weight[t] = splat(w[t]);
    for (int64_t c = 0; c < columns; c += kWidth) {
      const int64_t column = std::min(c, columns - kWidth);
      const float* row = plane + column;
      uint16_t* to = y + column - 2 * columns;
      Vec middle = start, lower = start;
      for (int64_t r = -2; r < rows; r++, row += pitch, to += columns) {
        const Vec x0 = load(row), x1 = load(row + 1), x2 = load(row + 2);
        Vec done = lower;
        done += weight[6] * x0;
        lower = middle + weight[3] * x0;
        middle = start + weight[0] * x0;
        done += weight[7] * x1;
        lower += weight[4] * x1;
        middle += weight[1] * x1;
        done += weight[8] * x2;
        lower += weight[5] * x2;
        middle += weight[2] * x2;
        if (r >= 0) Halves::store(to, done);
      }
    }
  }

 private:
  // Row s of the image with zeros on both sides, or zeros: up to a vector more than windows meet.
  OPENBNNS_INLINE void place_row(const uint16_t* x, int64_t s, float* to) const {
    const bool inside = s >= 0 && s < height_;
    const int64_t begin = left_, end = inside ? end_ : begin, columns = columns_ + 2;
    const uint16_t* row = x + s * width_;
    store(to + begin - kWidth, Vec{});
    for (int64_t i = begin; i < end; i += kWidth) {
      const int64_t column = std::min(i, end - kWidth);
      store(to + column, Halves::load(row + column - begin));
    }
    for (int64_t i = end; i < columns; i += kWidth) store(to + i, Vec{});
  }

  const int64_t height_, width_, rows_, columns_, up_;
  const int64_t left_, end_;  // columns of the copy that lie in the image
};

bool has_vectors(const ConvolutionShape& s) {
  const int64_t met = std::min(s.pad_left + s.in_width, s.out_width + 2) - s.pad_left;
  return s.out_width >= kWidth && met >= kWidth && s.pad_left <= kWidth;
}

}  // namespace
#endif

#if defined(__AVX2__) && OPENBNNS_READS_ROWS
std::unique_ptr<HalfWindows> make_half_windows(const ConvolutionShape& s) {
  const bool square = s.kernel_height == 3 && s.kernel_width == 3 && s.stride_y == 1 && s.stride_x == 1 &&
                      s.dilation_y == 1 && s.dilation_x == 1;
  if (!square || s.x.type != s.y.type || !has_vectors(s)) return nullptr;
  if (s.x.type == ElementType::kFloat16) return std::make_unique<Windows<Float16Lanes>>(s);
  if (s.x.type == ElementType::kBFloat16) return std::make_unique<Windows<BFloat16Lanes>>(s);
  return nullptr;
}
#else
std::unique_ptr<HalfWindows> make_half_windows(const ConvolutionShape&) { return nullptr; }
#endif

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
