// The parts of a convolution plan: one kernel per direction, each chosen from an ordered list.
#pragma once
#include <cstdint>
#include <memory>

#include "common/plane_watcher.h"
#include "gemm/gemm.h"
#include "kernels/activation/shape.h"
#include "kernels/convolution/shape.h"

namespace openbnns {
namespace OPENBNNS_ISA {

// An image batch to be read: [batch][channels][height][width], or dz = dy * f'(y) computed for the current pixels, so
// that it never exists for the whole batch.
struct ImageSource {
  const float* data;              // x, or dy
  int64_t stride;                 // from one sample to the next
  int64_t plane, width;           // pixels of a channel, and of one of its rows (for axis-wise activations)
  const float* output = nullptr;  // y of the forward pass; null: data is read as it is
  int64_t output_stride = 0;
  const ActivationSpec* activation = nullptr;
  const PixelMaker* maker = nullptr;  // gives the pixels in place of data

  // Pixels [first, first + count) of channels [channel, channel + channels) of sample n, channels `*plane_stride`
  // apart; first and count are whole rows. Valid until the next call on this thread when they are computed.
  bool computed() const { return output || maker; }
  const float* pixels(int64_t n, int64_t channel, int64_t channels, int64_t first, int64_t count,
                      int64_t* plane_stride) const;
};

// Computes an image batch from another: forward, or the gradient of the input.
struct ImageCall {
  ImageSource in;
  const float* w;                    // [out_channels][in_channels / groups][kernel_height][kernel_width] of shape.w
  const float* bias;                 // one per output channel, or null
  const ActivationSpec* activation;  // applied to the finished output, or null
  int64_t activation_row;            // pixels of an output row, for axis-wise functions
  float* out;
  int64_t out_stride;
  bool accumulate;
  int64_t batch;
  int threads;
  const PlaneWatcher* watcher = nullptr;  // only where watches() says so
  uint64_t weights = 0;                   // version of w (runtime/weights_version.h), 0 if it may be any
};
class ImageKernel {
 public:
  virtual ~ImageKernel() = default;
  virtual void run(const ImageCall& call) const = 0;
  // Whether run() can tell a watcher of every plane that is complete, and the planes are still cached then.
  virtual bool watches(const ImageCall& /*call*/) const { return false; }
};

constexpr int64_t kWatchedFloats = int64_t{1} << 17;  // of the planes completed together, at most

// dw(k,c,r,s) = sum over batch and output cells of dy(k) x(c, cell met by tap r,s); db(k) = sum of dy(k).
struct WeightsCall {
  ImageSource x, dy;
  float* dw;  // or null
  float* db;  // or null
  bool add_dw, add_db;
  int64_t batch;
  int threads;
};
class WeightsKernel {
 public:
  virtual ~WeightsKernel() = default;
  virtual void run(const WeightsCall& call) const = 0;
};

// A list entry returns null when it does not take the shape.
using MakeImageKernel = std::unique_ptr<ImageKernel> (*)(const ConvolutionShape&);
using MakeWeightsKernel = std::unique_ptr<WeightsKernel> (*)(const ConvolutionShape&);

// Kernels that cover the whole image and give one pixel: matrix products over the batch.
[[gnu::cold]] std::unique_ptr<ImageKernel> make_covering_forward(const ConvolutionShape& s);
[[gnu::cold]] std::unique_ptr<ImageKernel> make_covering_backward_data(const ConvolutionShape& s);
[[gnu::cold]] std::unique_ptr<WeightsKernel> make_covering_weights(const ConvolutionShape& s);
// 1 x 1 kernels on all but tiny images: matrix products on the planes as they are.
[[gnu::cold]] std::unique_ptr<ImageKernel> make_pointwise_forward(const ConvolutionShape& s);
[[gnu::cold]] std::unique_ptr<ImageKernel> make_pointwise_backward_data(const ConvolutionShape& s);
// Long kernels over one row of one channel: a matrix product with its overlapping windows.
[[gnu::cold]] std::unique_ptr<ImageKernel> make_long_windows_forward(const ConvolutionShape& s);
// Small images in short rows: products of patches and weights that are packed once.
[[gnu::cold]] std::unique_ptr<ImageKernel> make_few_pixels_forward(const ConvolutionShape& s);
// Few channels on one side: vectors along the rows of the image.
[[gnu::cold]] std::unique_ptr<ImageKernel> make_few_channels_forward(const ConvolutionShape& s);
[[gnu::cold]] std::unique_ptr<ImageKernel> make_few_channels_backward_data(const ConvolutionShape& s);
[[gnu::cold]] std::unique_ptr<WeightsKernel> make_few_channels_weights(const ConvolutionShape& s);
// 3 x 3 and 5 x 5 with stride 1, 4 x 4 to 6 x 6 with stride 2, and enough channels: tiles of 2 x 4, 2 x 2 or 3 x 3
// outputs with fewer multiplications (winograd.h).
[[gnu::cold]] std::unique_ptr<ImageKernel> make_winograd_forward(const ConvolutionShape& s);
[[gnu::cold]] std::unique_ptr<ImageKernel> make_winograd_backward_data(const ConvolutionShape& s);
[[gnu::cold]] std::unique_ptr<WeightsKernel> make_winograd_weights(const ConvolutionShape& s);
// Blocks of 16 channels: the general fast kernels, of floats or of pairs of BFloat16.
[[gnu::cold]] bool has_direct_forward(const ConvolutionShape& s);  // unless the shape is too large
[[gnu::cold]] std::unique_ptr<ImageKernel> make_direct_forward(const ConvolutionShape& s);
[[gnu::cold]] std::unique_ptr<ImageKernel> make_direct_backward_data(const ConvolutionShape& s);
[[gnu::cold]] std::unique_ptr<WeightsKernel> make_direct_weights(const ConvolutionShape& s);
// Plain loops, any shape.
[[gnu::cold]] std::unique_ptr<ImageKernel> make_reference_forward(const ConvolutionShape& s);
[[gnu::cold]] std::unique_ptr<ImageKernel> make_reference_backward_data(const ConvolutionShape& s);
[[gnu::cold]] std::unique_ptr<WeightsKernel> make_reference_weights(const ConvolutionShape& s);

// Exact sums of bytes, as int32: of groups of bytes (byte_groups.h), where there is a direct kernel, and of floats that
// are integers, any shape.
[[gnu::cold]] std::unique_ptr<ImageKernel> make_exact_forward(const ConvolutionShape& s, SumKind sums);
// The same for images narrower than a tile, or null.
[[gnu::cold]] std::unique_ptr<ImageKernel> make_exact_side_by_side_forward(const ConvolutionShape& s, SumKind sums);
[[gnu::cold]] bool has_exact_few_channels(const ConvolutionShape& s, SumKind sums);
[[gnu::cold]] std::unique_ptr<ImageKernel> make_exact_few_channels_forward(const ConvolutionShape& s, SumKind sums);
[[gnu::cold]] std::unique_ptr<ImageKernel> make_exact_winograd_forward(const ConvolutionShape& s, SumKind sums);
[[gnu::cold]] std::unique_ptr<ImageKernel> make_exact_reference_forward(const ConvolutionShape& s);

// The same convolution with longer rows or more channels, on the same memory: an image one pixel wide is one of a
// single row, and under a kernel that covers all rows each row is a channel of its own. Rows of the output that an
// axis-wise activation runs along stay as they are.
ConvolutionShape simplified(ConvolutionShape s, const ActivationSpec& activation);
// A 1 x 1 kernel does not care how pixels are arranged: short rows are joined to longer ones, which tiles fill better.
ConvolutionShape with_long_rows(ConvolutionShape s);
// The fastest kernel for floats. If it packs weights, they may be stored as any s.w.
[[gnu::cold]] std::unique_ptr<ImageKernel> make_forward_kernel(const ConvolutionShape& s);
[[gnu::cold]] bool forward_packs_weights(const ConvolutionShape& s);

// The plan of a convolution on tensors that are stored in other types than float32: forward only.
inline bool is_stored(const ConvolutionShape& s) {
  return !s.x.is_float32() || !s.w.is_float32() || !s.b.is_float32() || !s.y.is_float32();
}
[[gnu::cold]] std::unique_ptr<Plan> make_stored_convolution(const ConvolutionShape& s,
                                                            const ActivationSpec& activation);

// db[channel] (+)= sum over the batch and the pixels of that channel.
void sum_channels(const ImageSource& image, int64_t batch, int64_t channels, float* db, bool accumulate, int threads);

// Floating point operations of one sample, one direction.
inline double flops(const ConvolutionShape& s) {
  return 2.0 * static_cast<double>(s.out_channels) * static_cast<double>(s.in_channels / s.groups) *
         static_cast<double>(s.kernel_height * s.kernel_width) * static_cast<double>(s.out_height * s.out_width);
}

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
