#include "kernels/convolution/depthwise_halves.h"

#include <algorithm>
#include <vector>

#include "common/scratch_uses.h"
#include "kernels/convolution/depthwise_rows.h"
#include "runtime/scratch.h"
#include "simd/stored_numbers.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace {

constexpr int64_t kTogether = 2 * kWidth;  // results of a row
constexpr int64_t kMet = kTogether + 2;    // numbers of a row that their windows meet
constexpr int64_t kPart = 8;               // results that are stored at a time where a plane ends before that

#if defined(__AVX2__)
constexpr bool kConvertsFloat16 = true;
#else
constexpr bool kConvertsFloat16 = false;  // in an instruction: others convert each number once
#endif

// kTogether results: taps(), the numbers from p on under the mask, and store().
struct Float16Results {
  static OPENBNNS_INLINE void taps(const uint16_t* p, const uint16_t* mask, Vec (&x)[2][3]) {
    OPENBNNS_UNROLL for (int v = 0; v < 2; v++) OPENBNNS_UNROLL for (int k = 0; k < 3; k++) x[v][k] =
        load_float16(p + v * kWidth + k, mask + v * kWidth + k);
  }
  static OPENBNNS_INLINE void store(uint16_t* to, const Vec (&results)[2]) {
    store_float16(to, results[0]);
    store_float16(to + kWidth, results[1]);
  }
};

// Those at even positions, then those at odd ones.
struct BFloat16Results {
  static OPENBNNS_INLINE void taps(const uint16_t* p, const uint16_t* mask, Vec (&x)[2][3]) {
    const VecPair left = load_bfloat16_pairs(p, mask), right = load_bfloat16_pairs(p + 2, mask + 2);
    x[0][0] = left.even;
    x[0][1] = x[1][0] = left.odd;
    x[0][2] = x[1][1] = right.even;
    x[1][2] = right.odd;
  }
  static OPENBNNS_INLINE void store(uint16_t* to, const Vec (&results)[2]) {
    store_bfloat16_pairs(to, {results[0], results[1]});
  }
};

// Rows are read where they are, with what lies before and behind them; the first and the last ones, where that could
// lie outside the plane, from a copy. The last results of a row overlap those before.
template <class Results>
class Windows final : public HalfWindows {
 public:
  explicit Windows(const ConvolutionShape& s)
      : height_(s.in_height),
        width_(s.in_width),
        rows_(s.out_height),
        columns_(s.out_width),
        up_(s.pad_up),
        left_(s.pad_left),
        reach_(std::max<int64_t>(0, columns_ - kTogether) - left_ + kMet),
        tail_(std::clamp<int64_t>((reach_ - 1) / width_, 0, height_)) {
    for (int64_t c = 0; c < columns_; c += kTogether)
      for (int64_t i = first_column(c) - left_; i < first_column(c) - left_ + kMet; i++)
        masks_.push_back(i >= 0 && i < width_ ? 0xFFFF : 0);
  }

  void forward(const uint16_t* x, const float* w, float bias, uint16_t* y) const override {
    const int64_t room = left_ + std::max(width_, reach_) + left_ + tail_ * width_ + std::max<int64_t>(0, reach_);
    auto* head = reinterpret_cast<Number*>(scratch(kInputBand, static_cast<size_t>(room))) + left_;
    Number* tail = head + std::max(width_, reach_) + left_;
    std::memcpy(head, x, 2 * width_);
    std::memcpy(tail, x + (height_ - tail_) * width_, 2 * tail_ * width_);
    const auto row_of = [&](int64_t s) -> const uint16_t* {
      return s >= height_ - tail_ ? tail + (s - height_ + tail_) * width_ : s > 0 ? x + s * width_ : head;
    };
    Vec weight[9];
    const Vec start = splat(bias);
    OPENBNNS_UNROLL for (int t = 0; t < 9; t++) weight[t] = splat(w[t]);
    const uint16_t* mask = masks_.data();
    for (int64_t c = 0; c < columns_; c += kTogether, mask += kMet) {
      const int64_t column = first_column(c);
      uint16_t* to = y + column - 2 * columns_;
      Vec middle[2] = {start, start}, lower[2] = {start, start};
      for (int64_t s = -up_; s < rows_ + 2 - up_; s++, to += columns_) {
        Vec done[2];
        if (s >= 0 && s < height_) {
          Vec taps[2][3];
          Results::taps(row_of(s) + column - left_, mask, taps);
          OPENBNNS_UNROLL for (int v = 0; v < 2; v++) done[v] = roll_sums(weight, start, taps[v], middle[v], lower[v]);
        } else {
          OPENBNNS_UNROLL for (int v = 0; v < 2; v++) done[v] = skip_row(start, middle[v], lower[v]);
        }
        if (s + up_ >= 2) store_row(done, to, y + rows_ * columns_);
      }
    }
  }

 private:
  typedef uint16_t Number [[gnu::may_alias]];

  int64_t first_column(int64_t c) const { return std::max<int64_t>(0, std::min(c, columns_ - kTogether)); }

  // Those that are beyond the row become results of the next one later.
  OPENBNNS_INLINE void store_row(const Vec (&results)[2], uint16_t* to, const uint16_t* end) const {
    if (to + kTogether <= end) return Results::store(to, results);
    uint16_t made[kTogether];
    Results::store(made, results);
    for (int64_t i = 0; i < columns_; i += kPart) {
      const int64_t part = std::min(i, columns_ - kPart);
      std::memcpy(to + part, made + part, kPart * sizeof(uint16_t));
    }
  }

  const int64_t height_, width_, rows_, columns_, up_, left_;
  const int64_t reach_;          // from the beginning of a row to behind what windows meet
  const int64_t tail_;           // rows that are copied
  std::vector<uint16_t> masks_;  // of the numbers that kTogether results meet: whether they lie in the image
};

}  // namespace

std::unique_ptr<HalfWindows> make_half_windows(const ConvolutionShape& s) {
  const bool square = s.kernel_height == 3 && s.kernel_width == 3 && s.stride_y == 1 && s.stride_x == 1 &&
                      s.dilation_y == 1 && s.dilation_x == 1;
  if (!square || s.x.type != s.y.type || s.out_width < kPart || s.pad_left > s.in_width) return nullptr;
  if (s.x.type == ElementType::kFloat16 && kConvertsFloat16) return std::make_unique<Windows<Float16Results>>(s);
  if (s.x.type == ElementType::kBFloat16) return std::make_unique<Windows<BFloat16Results>>(s);
  return nullptr;
}

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
