#include "kernels/convolution/stored_results.h"

#include <algorithm>

#include "common/scratch_uses.h"
#include "common/stored_rows.h"
#include "kernels/activation/activation.h"
#include "runtime/scratch.h"
#include "runtime/thread_pool.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace {

constexpr int64_t kTogether = 1024;  // results that are converted at a time, if rows are not longer

template <class Number>
using Aliased [[gnu::may_alias]] = Number;

int32_t integer_at(const uint8_t* p, ElementType type) {
  return type == ElementType::kInt8 ? static_cast<int8_t>(*p) : int32_t{*p};
}

// sums[i] += from[i] + shift
void add_bytes(const uint8_t* from, ElementType type, int32_t shift, int64_t count, int32_t* sums) {
  if (type == ElementType::kInt8)
    for (int64_t i = 0; i < count; i++) sums[i] += static_cast<int8_t>(from[i]) + shift;
  else
    for (int64_t i = 0; i < count; i++) sums[i] += from[i] + shift;
}

}  // namespace

ExactTerms::ExactTerms(const ConvolutionShape& s, SumKind sums)
    : s_(s),
      x_shift_(shift_of(s.x, true, sums)),
      w_shift_(shift_of(s.w, false, sums)),
      x_scale_(s.x.scale),
      x_bias_(bias_of(s.x, true, sums)),
      w_scale_(s.w.scale),
      w_bias_(bias_of(s.w, false, sums)),
      rows_(taps_met(s.in_height, s.out_height, s.kernel_height, s.stride_y, s.dilation_y, s.pad_up)),
      columns_(taps_met(s.in_width, s.out_width, s.kernel_width, s.stride_x, s.dilation_x, s.pad_left)) {}

std::vector<ExactTerms::Taps> ExactTerms::taps_met(int64_t in, int64_t out, int64_t kernel, int64_t stride,
                                                   int64_t dilation, int64_t pad) {
  // Taps t with 0 <= first + t * dilation < in.
  std::vector<Taps> taps;
  for (int64_t i = 0; i < out; i++) {
    const int64_t first = i * stride - pad;
    const auto from = [&](int64_t cell) {
      return std::min(kernel, std::max<int64_t>(0, (cell - first + dilation - 1) / dilation));
    };
    const int64_t begin = first >= 0 ? 0 : from(0), end = first >= in ? 0 : from(in);
    taps.push_back({static_cast<int32_t>(begin), static_cast<int32_t>(std::max(begin, end))});
  }
  return taps;
}

void ExactTerms::sum_weights(const uint8_t* w, int32_t* sums, int threads) const {
  const int64_t height = s_.kernel_height, width = s_.kernel_width, taps = height * width;
  const int workers = useful_threads(threads, 2.0 * static_cast<double>(s_.out_channels * inputs() * taps));
  parallel_items(workers, s_.out_channels, [&](int64_t o) {
    int32_t* table = sums + o * table_size();
    std::fill_n(table, table_size(), 0);
    for (int64_t c = 0; c < inputs(); c++)
      for (int64_t y = 0; y < height; y++)
        add_bytes(w + ((o * inputs() + c) * height + y) * width, s_.w.type, w_shift_, width,
                  table + (y + 1) * (width + 1) + 1);
    for (int64_t y = 1; y <= height; y++)
      for (int64_t x = 1; x <= width; x++) {
        int32_t* here = table + y * (width + 1) + x;
        *here += here[-1] + here[-(width + 1)] - here[-(width + 2)];
      }
  });
}

void ExactTerms::sum_windows(const uint8_t* x, int32_t* sums) const {
  const int64_t in_plane = s_.in_height * s_.in_width;
  auto* cells = reinterpret_cast<Aliased<int32_t>*>(scratch(kStoredPlane, static_cast<size_t>(in_plane)));
  std::fill_n(cells, in_plane, 0);
  for (int64_t c = 0; c < inputs(); c++)
    for (int64_t i = 0; i < in_plane; i++) cells[i] += integer_at(x + c * in_plane + i, s_.x.type) + x_shift_;
  for (int64_t row = 0; row < s_.out_height; row++)
    for (int64_t column = 0; column < s_.out_width; column++) {
      int32_t sum = 0;
      for (int64_t ky = rows_[row].begin; ky < rows_[row].end; ky++)
        for (int64_t kx = columns_[column].begin; kx < columns_[column].end; kx++)
          sum += cells[(row * s_.stride_y + ky * s_.dilation_y - s_.pad_up) * s_.in_width + column * s_.stride_x +
                       kx * s_.dilation_x - s_.pad_left];
      sums[row * s_.out_width + column] = sum;
    }
}

template <class Number, class Take>
void ExactTerms::terms_of_rows(const int32_t* weight_sums, int64_t channel, int64_t first, int64_t rows, double bias,
                               Take&& take, Number* terms) const {
  for (int64_t row = first; row < first + rows; row++, terms += s_.out_width) {
    if (row > first && rows_[row] == rows_[row - 1]) {
      std::copy_n(terms - s_.out_width, s_.out_width, terms);
      continue;
    }
    for (int64_t i = 0; i < s_.out_width;) {
      const Taps columns = columns_[i];
      const Number here = take(term(weight_sums, channel, rows_[row], columns, bias));
      for (; i < s_.out_width && columns_[i] == columns; i++) terms[i] = here;
    }
  }
}

double ExactTerms::term(const int32_t* weight_sums, int64_t channel, Taps rows, Taps columns, double bias) const {
  if (!needs_weight_sums()) return bias;
  const int32_t* table = weight_sums + channel * table_size();
  const int64_t width = s_.kernel_width + 1;
  const int32_t *low = table + rows.begin * width, *high = table + rows.end * width;
  const int32_t sum = high[columns.end] - low[columns.end] - high[columns.begin] + low[columns.begin];
  if (!s_.w_scales.empty()) return bias + factor(channel) * (x_bias_ / x_scale_ * sum);
  const int64_t cells = inputs() * (rows.end - rows.begin) * (columns.end - columns.begin);
  return bias + x_bias_ * (w_scale_ * sum + w_bias_ * static_cast<double>(cells));
}

void StoredResults::completed(int64_t n, int64_t channel, int64_t channels) const {
  for (int64_t c = channel; c < channel + channels; c++) {
    const float* from = sums + n * sums_stride + c * plane;
    void* to = moved(y, element, n * y_stride + c * plane);
    if (!terms)
      encode(element, from, plane, to);
    else if (sums_are_floats)
      finish_exact(from, n, c, to);
    else
      finish_exact(reinterpret_cast<const Aliased<int32_t>*>(from), n, c, to);
  }
}

int64_t StoredResults::rows_together() const { return std::max<int64_t>(1, kTogether / width); }

template <class Sum>
void StoredResults::finish_exact(const Sum* from, int64_t n, int64_t channel, void* to) const {
  const int64_t whole_channel = first_channel + channel, rows = rows_together();
  const double start = bias ? static_cast<double>(bias[whole_channel]) : 0.0, factor = terms->factor(whole_channel);
  const int32_t* windows = window_sums ? window_sums + (n * groups + whole_channel / group_channels) * plane : nullptr;
  if (terms->are_alike() && !windows && !activation)
    return encode_sums(element, from, factor, terms->common_term(weight_sums, whole_channel, start), plane, to);
  if (element.is_byte() && !windows && !activation) return finish_bytes(from, whole_channel, start, to);
  float* room = scratch(kStoredPlane, static_cast<size_t>(2 * rows * width + (activation ? plane : 0)));
  auto* added = reinterpret_cast<Aliased<double>*>(room);  // to the results of some rows
  float* values = room + 2 * rows * width;
  for (int64_t row = 0; row < plane / width; row += rows) {
    const int64_t first = row * width, count = std::min(rows * width, plane - first);
    terms->terms_of_rows(
        weight_sums, whole_channel, row, count / width, start, [](double term) { return term; }, added);
    for (int64_t i = 0; windows && i < count; i++) added[i] += terms->window_factor() * windows[first + i];
    if (activation)
      for (int64_t i = 0; i < count; i++)
        values[first + i] = static_cast<float>(factor * static_cast<double>(from[first + i]) + added[i]);
    else
      encode_sums(element, from + first, factor, added, count, moved(to, element, first));
  }
  if (!activation) return;
  activation_forward(*activation, values, values, plane, width);
  encode(element, values, plane, to);
}

template <class Sum>
void StoredResults::finish_bytes(const Sum* from, int64_t whole_channel, double start, void* to) const {
  const int64_t rows = rows_together();
  float* added = scratch(kStoredPlane, static_cast<size_t>(rows * width));
  SingleSums single(element, terms->factor(whole_channel));
  for (int64_t row = 0; row < plane / width; row += rows) {
    const int64_t first = row * width, end = std::min(first + rows * width, plane);
    terms->terms_of_rows(
        weight_sums, whole_channel, row, (end - first) / width, start, [&](double term) { return single.take(term); },
        added);
    for (int64_t i = first; i < end;) {
      i += single.encode(from + i, added + (i - first), end - i, moved(to, element, i));
      double exact[SingleSums::kDoubtful];
      const int64_t doubtful = std::min(SingleSums::kDoubtful, end - i);
      for (int64_t j = 0; j < doubtful; j++) exact[j] = terms->term_of_cell(weight_sums, whole_channel, i + j, start);
      if (doubtful > 0)
        encode_sums(element, from + i, terms->factor(whole_channel), exact, doubtful, moved(to, element, i));
      i += doubtful;
    }
  }
}

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
