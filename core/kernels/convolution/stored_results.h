// From the sums of a convolution to its results, where these are stored in another type than float32 or the sums are
// exact ones of integers.
#pragma once
#include <cstdint>
#include <vector>

#include "common/plane_watcher.h"
#include "gemm/stored_product.h"
#include "kernels/activation/shape.h"
#include "kernels/convolution/shape.h"

namespace openbnns {
namespace OPENBNNS_ISA {

// With X and W the integers that kernels multiply, and sums over the cells of a window that lie in the image:
//
//   x = x_scale X + x_bias, w = w_scale W + w_bias:
//   sum xw = x_scale w_scale sum XW + x_bias (w_scale sum W + w_bias sum 1) + x_scale w_bias sum X
//
// Where output channels have scales of their own, w_bias is 0 and factors are as in gemm/stored_product.h.
class ExactTerms {
 public:
  [[gnu::cold]] ExactTerms(const ConvolutionShape& s, SumKind sums);

  // Of sum XW of an output channel.
  double factor(int64_t channel) const {
    const double factor = x_scale_ * w_scale_;
    return s_.w_scales.empty() ? factor : column_factor(factor, s_.w_scales[static_cast<size_t>(channel)]);
  }

  bool needs_weight_sums() const { return x_bias_ != 0; }
  int64_t weight_sums_count() const { return s_.out_channels * table_size(); }
  // [out_channels][kernel_height + 1][kernel_width + 1]: sums of W over input channels and all taps before.
  void sum_weights(const uint8_t* w, int32_t* sums, int threads) const;

  bool needs_window_sums() const { return w_bias_ != 0; }
  double window_factor() const { return x_scale_ * w_bias_; }  // of sum X
  // [out_height][out_width]: sum X of every window of a group's input channels.
  void sum_windows(const uint8_t* x, int32_t* sums) const;

  // terms: [rows][out_width] = bias + the second term, of rows [first, first + rows) of the output, as take() gives it.
  template <class Number, class Take>
  void terms_of_rows(const int32_t* weight_sums, int64_t channel, int64_t first, int64_t rows, double bias, Take&& take,
                     Number* terms) const;
  double term_of_cell(const int32_t* weight_sums, int64_t channel, int64_t cell, double bias) const {
    return term(weight_sums, channel, rows_[cell / s_.out_width], columns_[cell % s_.out_width], bias);
  }
  // Whether these terms are the same for all results of a channel: those at its first one.
  bool are_alike() const {
    return !needs_weight_sums() || (rows_.front() == rows_.back() && columns_.front() == columns_.back());
  }
  double common_term(const int32_t* weight_sums, int64_t channel, double bias) const {
    return term(weight_sums, channel, rows_.front(), columns_.front(), bias);
  }

 private:
  struct Taps {
    int32_t begin, end;
    bool operator==(const Taps& other) const { return begin == other.begin && end == other.end; }
  };
  static std::vector<Taps> taps_met(int64_t in, int64_t out, int64_t kernel, int64_t stride, int64_t dilation,
                                    int64_t pad);
  double term(const int32_t* weight_sums, int64_t channel, Taps rows, Taps columns, double bias) const;
  int64_t table_size() const { return (s_.kernel_height + 1) * (s_.kernel_width + 1); }
  int64_t inputs() const { return s_.in_channels / s_.groups; }

  const ConvolutionShape s_;
  const int32_t x_shift_, w_shift_;
  const double x_scale_, x_bias_, w_scale_, w_bias_;
  const std::vector<Taps> rows_, columns_;  // by row and by column of the output: begin and end never increase
};

// Told of complete planes of sums, it makes results of them.
struct StoredResults final : PlaneWatcher {
  Element element;
  void* y;                         // of the first sample and channel that kernels count
  int64_t y_stride, plane, width;  // width: of the rows that `terms` counts and that axis-wise activations run along
  const float* sums;               // [samples][sums_stride]: [channels][plane]
  int64_t sums_stride;
  int64_t first_channel = 0;  // of those that kernels count, among all

  // Of exact sums only; others have their bias and activation already.
  const ExactTerms* terms = nullptr;
  bool sums_are_floats = false;                // which are integers
  const float* bias = nullptr;                 // by channel, or null
  const ActivationSpec* activation = nullptr;  // or null
  const int32_t* weight_sums = nullptr;
  const int32_t* window_sums = nullptr;  // [samples][groups][plane]
  int64_t groups = 1, group_channels = 1;

  void completed(int64_t n, int64_t channel, int64_t channels) const override;

  // Whether results are bytes made of exact sums with one term for all of a channel, which counts among all.
  bool has_one_term() const { return element.is_byte() && terms->are_alike() && !window_sums && !activation; }
  double one_term(int64_t whole_channel) const {
    return terms->common_term(weight_sums, whole_channel, bias ? static_cast<double>(bias[whole_channel]) : 0.0);
  }

 private:
  template <class Sum>
  void finish_exact(const Sum* from, int64_t n, int64_t channel, void* to) const;
  // To bytes, without window sums and activation.
  template <class Sum>
  void finish_bytes(const Sum* from, int64_t whole_channel, double start, void* to) const;
  int64_t rows_together() const;
};

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
