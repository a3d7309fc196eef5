#include "kernels/convolution/depthwise_bytes.h"

#include <algorithm>
#include <numeric>

#include "gemm/pair_dot.h"
#include "kernels/convolution/depthwise_bytes_body.h"
#include "simd/stored_numbers.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace {

// Integers of a column of a kernel and those before them in its first group are held in 64 bits.
constexpr int64_t kColumnBits = 64;

#if defined(__SSE2__)
constexpr bool kHasProducts = true;
#else
constexpr bool kHasProducts = false;  // of pairs, in an instruction
#endif

int64_t bits_of(IntegerSums sums) { return 32 / numbers_per_step(sums); }

// Groups of the integers of lines, a vector at a time.
template <class Byte>
struct PairLines {
  const Byte *upper, *lower;
  explicit PairLines(const uint8_t* const (&line)[4], uint32_t)
      : upper(reinterpret_cast<const Byte*>(line[0])), lower(reinterpret_cast<const Byte*>(line[1])) {}
  OPENBNNS_INLINE IntVec at(int64_t j) const { return (load_bytes(upper + j) & 0xFFFF) | load_bytes(lower + j) << 16; }
};
struct QuadLines {
  const uint8_t* line[4];
  IntVec flips;
  explicit QuadLines(const uint8_t* const (&lines)[4], uint32_t zero)
      : line{lines[0], lines[1], lines[2], lines[3]}, flips(splat_int(static_cast<int32_t>(zero))) {}
  OPENBNNS_INLINE IntVec at(int64_t j) const {
    const IntVec low = load_bytes(line[0] + j) | load_bytes(line[1] + j) << 8;
    const IntVec high = load_bytes(line[2] + j) | load_bytes(line[3] + j) << 8;
    return (low | high << 16) ^ flips;
  }
};

}  // namespace

ByteRowsKernel pair_rows_kernel(int entries) { return byte_rows_kernel<PairDot>(entries); }
void roll_pair_rows(const RollingRows& t) { roll_rows<2, PairDot>(t); }

bool ByteWindows::takes(const ConvolutionShape& s, IntegerSums sums) {
  if (!kHasProducts || (sums == IntegerSums::kQuads && s.w.type != ElementType::kInt8)) return false;
  const int64_t most_rows = s.kernel_height + numbers_per_step(sums) - 1;
  const bool wide = 2 * s.out_width > kWidth + 2;  // others leave too many lanes empty
  return wide && s.dilation_y == 1 && s.stride_y <= 2 && s.stride_x <= 2 && s.kernel_width <= kMostColumns &&
         most_rows * bits_of(sums) <= kColumnBits;
}

ByteWindows::ByteWindows(const ConvolutionShape& s, IntegerSums sums)
    : s_(s),
      sums_(sums),
      x_type_(s.x.type),
      each_(numbers_per_step(sums)),
      columns_((s.out_width - 1) * s.stride_x + (s.kernel_width - 1) * s.dilation_x + 1),
      pitch_((columns_ + s.stride_x - 1) / s.stride_x),
      row_(s.stride_x * pitch_ + 2 * kWidth),
      group_rows_(((s.out_height - 1) * s.stride_y + s.kernel_height + each_ - 1) / each_),
      step_(each_ / std::gcd(each_, s.stride_y)),
      zeros_(static_cast<size_t>(s.in_width)) {
  for (int64_t r = 0; r < std::min(step_, s.out_height); r++) {
    const int64_t row = r * s.stride_y, first = row / each_, skipped = row % each_;
    Phase phase{r, skipped, {}};
    for (int64_t g = 0; g < (skipped + s.kernel_height + each_ - 1) / each_; g++)
      for (int64_t kx = 0; kx < s.kernel_width; kx++) {
        const int64_t column = kx * s.dilation_x;
        phase.offset.push_back((first + g) * row_ + column % s.stride_x * pitch_ + column / s.stride_x);
      }
    phases_.push_back(std::move(phase));
  }
}

ByteWindows::Columns ByteWindows::columns_of(const uint8_t* w) const {
  const int64_t bits = bits_of(sums_);
  const uint64_t mask = (uint64_t{1} << bits) - 1;
  const bool is_signed = s_.w.type == ElementType::kInt8;
  Columns columns;
  columns.total = 0;
  for (int64_t kx = 0; kx < s_.kernel_width; kx++) {
    uint64_t column = 0;
    for (int64_t ky = 0; ky < s_.kernel_height; ky++) {
      const uint8_t byte = w[ky * s_.kernel_width + kx];
      const int64_t number = is_signed ? int64_t{static_cast<int8_t>(byte)} : int64_t{byte};
      columns.total += number;
      column |= (static_cast<uint64_t>(number) & mask) << ky * bits;
    }
    columns.column[kx] = column;
  }
  return columns;
}

void ByteWindows::roll(const ByteGroup* groups, const Columns& w, int32_t* sums) const {
  constexpr int kMostRows = 4 + 2;
  const int64_t bits = bits_of(sums_);
  ByteGroup weights[kMostRows * 3];
  for (int64_t j = 0; j < each_ + 2; j++)
    for (int64_t k = 0; k < 3; k++)
      weights[j * 3 + k] =
          static_cast<ByteGroup>(j < 2 ? w.column[k] >> (2 - j) * bits : w.column[k] << (j - 2) * bits);
  const RollingRows rows{groups, row_,          s_.dilation_x, weights, static_cast<int32_t>(-shift() * w.total),
                         sums,   s_.out_height, s_.out_width};
  sums_ == IntegerSums::kQuads ? roll_quad_rows(rows) : roll_pair_rows(rows);
}

void ByteWindows::sum(const ByteGroup* groups, const uint8_t* w, int32_t* sums) const {
  groups += kWidth;
  const Columns columns = columns_of(w);
  if (s_.kernel_height == 3 && s_.kernel_width == 3 && s_.stride_y == 1 && s_.stride_x == 1)
    return roll(groups, columns, sums);
  const int64_t bits = bits_of(sums_);
  for (const Phase& phase : phases_) {
    ByteGroup weights[2 * kMostColumns];
    const int entries = static_cast<int>(phase.offset.size());
    for (int e = 0; e < entries; e++) {
      const int64_t group = e / s_.kernel_width, kx = e % s_.kernel_width;
      weights[e] = static_cast<ByteGroup>(columns.column[kx] << phase.skipped * bits >> 32 * group);
    }
    ByteRows rows{};
    rows.groups = groups;
    rows.offset = phase.offset.data();
    rows.weights = weights;
    rows.entries = entries;
    rows.start = static_cast<int32_t>(-shift() * columns.total);  // of zeros, which count as `shift`
    rows.sums = sums + phase.first * s_.out_width;
    rows.rows = (s_.out_height - phase.first + step_ - 1) / step_;
    rows.columns = s_.out_width;
    rows.groups_step = step_ * s_.stride_y / each_ * row_;
    rows.sums_step = step_ * s_.out_width;
    (sums_ == IntegerSums::kQuads ? quad_rows_kernel : pair_rows_kernel)(entries)(rows);
  }
}

void ByteWindows::join(const uint8_t* x, ByteGroup* groups) const {
  if (sums_ == IntegerSums::kQuads)
    join_rows<QuadLines>(x, groups + kWidth);
  else if (x_type_ == ElementType::kInt8)
    join_rows<PairLines<int8_t>>(x, groups + kWidth);
  else
    join_rows<PairLines<uint8_t>>(x, groups + kWidth);
}

template <class Lines>
void ByteWindows::join_rows(const uint8_t* x, ByteGroup* groups) const {
  const uint32_t zero = shift() ? 0x80808080u : 0u;
  const IntVec zeros = splat_int(static_cast<int32_t>(zero));
  const int64_t columns = columns_, begin = std::min(s_.pad_left, columns);
  const int64_t end = std::clamp(s_.pad_left + s_.in_width, begin, columns);
  ByteGroup* const apart = s_.stride_x > 1 ? groups + group_rows_ * row_ : nullptr;
  for (int64_t g = 0; g < group_rows_; g++, groups += row_) {
    const uint8_t* line[4];
    for (int64_t i = 0; i < 4; i++) {
      const int64_t y = g * each_ + i - s_.pad_up;
      line[i] = y >= 0 && y < s_.in_height ? x + y * s_.in_width : zeros_.data();
    }
    ByteGroup* to = apart ? apart : groups;
    if (end - begin >= kWidth) {
      const Lines lines(line, zero);
      for (int64_t j = 0; j < begin; j += kWidth) store_groups(to + begin - kWidth - j, zeros);
      for (int64_t j = begin; j < end; j += kWidth) {
        const int64_t column = std::min(j, end - kWidth);
        store_groups(to + column, lines.at(column - begin));
      }
      for (int64_t j = end; j < columns; j += kWidth) store_groups(to + j, zeros);
    } else {
      std::fill(to, to + columns, zero);
      join_bytes(sums_, x_type_, true, line, each_, end - begin, to + begin, 1);
    }
    for (int64_t remainder = 0; apart && remainder < s_.stride_x; remainder++)
      for (int64_t q = remainder; q < columns; q += s_.stride_x)
        groups[remainder * pitch_ + q / s_.stride_x] = apart[q];
  }
}

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
