#include "kernels/convolution/depthwise_bytes.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "gemm/pair_dot.h"
#include "kernels/convolution/depthwise_bytes_body.h"
#include "simd/pairs.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace {

constexpr int64_t kMostTaps = 256;               // sums of more might have more than 24 bits
constexpr int64_t kChunk = 16, kLeastChunk = 8;  // numbers that are copied at a time; the last ones overlap others

#if defined(__SSE2__)
constexpr bool kHasProducts = true;
#else
constexpr bool kHasProducts = false;  // of pairs, in an instruction
#endif

// body(first) for each chunk of `count` numbers.
template <int kNumbers, class Body>
OPENBNNS_INLINE void over_chunks(int64_t count, const Body& body) {
  if (count <= 2 * kNumbers) {  // without a loop in rows that are short
    body(0);
    body(count - kNumbers);
  } else {
    for (int64_t i = 0; i < count; i += kNumbers) body(std::min(i, count - kNumbers));
  }
}

// What numbers become in a plane, kNumbers at a time.
template <class Byte>
struct Widened {
  static constexpr int64_t kBytes = 2;
  template <int kNumbers>
  OPENBNNS_INLINE void put(const uint8_t* from, uint8_t* to) const {
    typedef Byte Bytes __attribute__((vector_size(kNumbers)));
    typedef int16_t Wide __attribute__((vector_size(2 * kNumbers)));
    Bytes bytes;
    std::memcpy(&bytes, from, sizeof bytes);
    const Wide wide = __builtin_convertvector(bytes, Wide);
    std::memcpy(to, &wide, sizeof wide);
  }
};
struct Flipped {
  static constexpr int64_t kBytes = 1;
  uint8_t flip;
  template <int kNumbers>
  OPENBNNS_INLINE void put(const uint8_t* from, uint8_t* to) const {
    typedef uint8_t Bytes __attribute__((vector_size(kNumbers)));
    Bytes bytes;
    std::memcpy(&bytes, from, sizeof bytes);
    bytes ^= flip;
    std::memcpy(to, &bytes, sizeof bytes);
  }
};

}  // namespace

ByteWindowsKernel pair_windows_kernel(int entries, int turns) {
  return turns == 2 ? byte_windows_kernel<2, 6, PairDot>(entries) : byte_windows_kernel<1, 6, PairDot>(entries);
}

bool ByteWindows::takes(const ConvolutionShape& s, SumKind sums) {
  if (!kHasProducts || (sums == SumKind::kByteQuads && s.w.type != ElementType::kInt8)) return false;
  return std::min(s.in_width, s.out_width) >= kLeastChunk && s.dilation_x == 1 && s.stride_x <= 2 &&
         s.kernel_height * s.kernel_width <= kMostTaps;
}

ByteWindows::ByteWindows(const ConvolutionShape& s, SumKind sums)
    : s_(s),
      sums_(sums),
      each_(numbers_per_step(sums)),
      number_bytes_(4 / each_),
      turns_(static_cast<int>(each_ / s.stride_x)),
      rows_((s.out_height - 1) * s.stride_y + (s.kernel_height - 1) * s.dilation_y + 1),
      slots_((rows_ + s.stride_y - 1) / s.stride_y),
      pitch_(std::max(s.out_width + (s.kernel_width - 1) / s.stride_x,
                      (s.pad_left + s.in_width + s.stride_x - 1) / s.stride_x)),
      row_bytes_(pitch_ * s.stride_x * number_bytes_),
      blocks_(((s.out_height - 1) * pitch_ + s.out_width + 4 * kWidth - 1) / (4 * kWidth)) {
  for (int64_t ky = 0; ky < s.kernel_height; ky++)
    for (int64_t g = 0; g < groups_of(s.kernel_width, sums); g++) {
      const int64_t row = ky * s.dilation_y;
      offset_.push_back((row % s.stride_y * slots_ + row / s.stride_y) * row_bytes_ + 4 * g);
    }
}

void ByteWindows::clear(uint8_t* plane) const {
  std::memset(plane, shift() ? 0x80 : 0, static_cast<size_t>(plane_bytes()));
}

void ByteWindows::place(const uint8_t* x, uint8_t* plane) const {
  const auto place = [&](auto put) {
    s_.in_width >= kChunk ? place_rows<kChunk>(x, plane, put) : place_rows<kLeastChunk>(x, plane, put);
  };
  if (sums_ == SumKind::kByteQuads)
    place(Flipped{static_cast<uint8_t>(shift())});
  else if (s_.x.type == ElementType::kInt8)
    place(Widened<int8_t>{});
  else
    place(Widened<uint8_t>{});
}

template <int kNumbers, class Put>
void ByteWindows::place_rows(const uint8_t* x, uint8_t* plane, Put put) const {
  const int64_t width = s_.in_width, stride = s_.stride_y, row_bytes = row_bytes_;
  const int64_t end = std::min(s_.in_height, rows_ - s_.pad_up);
  for (int64_t first = 0; first < std::min(stride, end); first++) {
    const int64_t row = first + s_.pad_up;
    uint8_t* to = plane + (row % stride * slots_ + row / stride) * row_bytes + s_.pad_left * Put::kBytes;
    for (int64_t y = first; y < end; y += stride, to += row_bytes)
      over_chunks<kNumbers>(width,
                            [&](int64_t i) { put.template put<kNumbers>(x + y * width + i, to + i * Put::kBytes); });
  }
}

void ByteWindows::group_weights(const uint8_t* w, ByteGroup* groups) const {
  const int64_t bits = 8 * number_bytes_, in_row = groups_of(s_.kernel_width, sums_);
  const uint32_t mask = (1u << bits) - 1;
  for (int64_t o = 0; o < s_.out_channels; o++) {
    uint32_t total = 0;
    for (int64_t g = 0; g < s_.kernel_height * in_row; g++) {
      uint32_t group = 0;
      const int64_t first = g % in_row * each_;
      for (int64_t i = 0; i < std::min(each_, s_.kernel_width - first); i++, w++) {
        const auto number = static_cast<uint32_t>(s_.w.type == ElementType::kInt8 ? static_cast<int8_t>(*w) : *w);
        group |= (number & mask) << i * bits;
        total += number;
      }
      *groups++ = group;
    }
    *groups++ = -static_cast<uint32_t>(shift()) * total;  // zeros count as `shift`
  }
}

void ByteWindows::sum(const uint8_t* plane, const ByteGroup* w, int32_t* sums, const ByteBlocks* bytes,
                      uint8_t* line) const {
  const int entries = static_cast<int>(offset_.size());
  const auto kernel = sums_ == SumKind::kByteQuads ? quad_windows_kernel : pair_windows_kernel;
  kernel(entries, turns_)({plane, offset_.data(), w, entries, blocks_, sums, bytes, line});
}

void ByteWindows::order(int32_t* sums) const {
  auto* line = reinterpret_cast<float*>(sums);  // only moved
  for (int64_t b = 0; turns_ > 1 && b < blocks_; b++) {
    float* p = line + b * 4 * kWidth;
    Vec v[4] = {load(p), load(p + kWidth), load(p + 2 * kWidth), load(p + 3 * kWidth)};
    if (turns_ == 4) {
      const Vec evens[2] = {interleave_low(v[0], v[2]), interleave_high(v[0], v[2])},
                odds[2] = {interleave_low(v[1], v[3]), interleave_high(v[1], v[3])};
      v[0] = evens[0];
      v[1] = odds[0];
      v[2] = evens[1];
      v[3] = odds[1];
    }
    store_pairs(p, {v[0], v[1]}, kWidth);
    store_pairs(p + 2 * kWidth, {v[2], v[3]}, kWidth);
  }
  for (int64_t row = 1; row < s_.out_height; row++)
    std::memmove(sums + row * s_.out_width, sums + row * pitch_, static_cast<size_t>(s_.out_width) * sizeof(int32_t));
}

void ByteWindows::take_rows(const uint8_t* line, uint8_t* y) const {
  const auto take = [&](auto chunk) {
    const int64_t width = s_.out_width, pitch = pitch_;
    const uint8_t* from = line;
    uint8_t* to = y;
    for (int64_t row = s_.out_height; row > 0; row--, from += pitch, to += width)
      over_chunks<chunk()>(width, [&](int64_t i) { std::memcpy(to + i, from + i, chunk()); });
  };
  if (s_.out_width >= kChunk)
    take(std::integral_constant<int, kChunk>{});
  else
    take(std::integral_constant<int, kLeastChunk>{});
}

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
