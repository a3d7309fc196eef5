// Samples of small images side by side: exact sums on one wide image, so that tiles are full and weights are read once
// for several samples. Between the samples there are zeros, as around them.
#include <algorithm>
#include <cstring>

#include "common/scratch_uses.h"
#include "gemm/micro_kernel.h"
#include "kernels/convolution/kernels.h"
#include "runtime/scratch.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace {

constexpr int64_t kLongRow = 5 * kWideRows;  // outputs of a wide image, at most

// Columns from one sample to the next, of the input and of the output.
struct Period {
  int64_t in, out;

  explicit Period(const ConvolutionShape& s) {
    const int64_t reach = (s.out_width - 1) * s.stride_x + (s.kernel_width - 1) * s.dilation_x - s.pad_left + 1;
    const int64_t least = s.in_width + std::max({int64_t{0}, s.pad_left, reach - s.in_width});
    out = std::max(s.out_width, (least + s.stride_x - 1) / s.stride_x);
    in = out * s.stride_x;
  }
};

ConvolutionShape wide_image(ConvolutionShape s, const Period& period, int64_t samples) {
  s.in_width += (samples - 1) * period.in;
  s.out_width += (samples - 1) * period.out;
  return s;
}

class SideBySide final : public ImageKernel {
 public:
  [[gnu::cold]] SideBySide(const ConvolutionShape& s, SumKind sums, const Period& period, int64_t samples)
      : s_(s),
        period_(period),
        samples_(samples),
        wide_(wide_image(s, period, samples)),
        kernel_(make_exact_forward(wide_, sums)),
        single_(make_exact_forward(s, sums)) {}

  void run(const ImageCall& call) const override {
    const int64_t images = call.batch / samples_, done = images * samples_, channels = s_.out_channels;
    if (images > 0) {
      const WidePixels pixels(*call.in.maker, *this);
      ImageCall wide = call;
      wide.in.maker = &pixels;
      wide.in.plane = wide_.in_height * wide_.in_width;
      wide.in.width = wide_.in_width;
      wide.batch = images;
      wide.out_stride = channels * wide_.out_height * wide_.out_width;
      wide.out = scratch(kPartialSums, static_cast<size_t>(images * wide.out_stride));
      kernel_->run(wide);
      parallel_items(call.threads, done, [&](int64_t n) {
        const float* from = wide.out + n / samples_ * wide.out_stride + n % samples_ * period_.out;
        float* to = call.out + n * call.out_stride;
        for (int64_t row = 0; row < channels * s_.out_height; row++)
          std::copy_n(from + row * wide_.out_width, s_.out_width, to + row * s_.out_width);
      });
    }
    if (done == call.batch) return;
    const LaterPixels pixels(*call.in.maker, done);
    ImageCall rest = call;
    rest.in.maker = &pixels;
    rest.batch -= done;
    rest.out += done * call.out_stride;
    single_->run(rest);
  }

 private:
  // Of wide images.
  class WidePixels final : public PixelMaker {
   public:
    WidePixels(const PixelMaker& samples, const SideBySide& kernel) : of_samples_(samples), k_(kernel) {}

    void make(int64_t n, int64_t channel, int64_t first, int64_t count, float* pixels) const override {
      const int64_t width = k_.s_.in_width, wide = k_.wide_.in_width, row = first / wide, rows = count / wide;
      float* sample = scratch(kPatches, static_cast<size_t>(rows * width));
      std::fill_n(pixels, count, 0.f);
      for (int64_t i = 0; i < k_.samples_; i++) {
        of_samples_.make(n * k_.samples_ + i, channel, row * width, rows * width, sample);
        for (int64_t r = 0; r < rows; r++)
          std::memcpy(pixels + r * wide + i * k_.period_.in, sample + r * width, static_cast<size_t>(width) * 4);
      }
    }

   private:
    const PixelMaker& of_samples_;
    const SideBySide& k_;
  };

  // Of the samples from `first` on.
  class LaterPixels final : public PixelMaker {
   public:
    LaterPixels(const PixelMaker& samples, int64_t first) : of_samples_(samples), first_(first) {}
    void make(int64_t n, int64_t channel, int64_t first, int64_t count, float* pixels) const override {
      of_samples_.make(first_ + n, channel, first, count, pixels);
    }

   private:
    const PixelMaker& of_samples_;
    const int64_t first_;
  };

  const ConvolutionShape s_;
  const Period period_;
  const int64_t samples_;  // of a wide image
  const ConvolutionShape wide_;
  const std::unique_ptr<ImageKernel> kernel_, single_;
};

}  // namespace

std::unique_ptr<ImageKernel> make_exact_side_by_side_forward(const ConvolutionShape& s, SumKind sums) {
  if (2 * s.out_width > kWideRows) return nullptr;
  const Period period(s);
  int64_t samples = 1;  // a power of two, as batches mostly are
  while (2 * samples * period.out <= kLongRow) samples *= 2;
  const ConvolutionShape wide = wide_image(s, period, samples);
  if (samples < 2 || !has_direct_forward(wide)) return nullptr;
  return std::make_unique<SideBySide>(s, sums, period, samples);
}

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
