// Gradient of the weights on bands of 16-channel blocks:
//
//   forward  y(k, i) += w(k, c, t) * x(c, i * stride + offset(t))
//   hence    dw(k, c, t) = sum over samples and output cells i of dy(k, i) * x(c, i * stride + offset(t))
//
// Tiles are 8 input channels x 32 output channels of one tap; the sum runs over long lists of pixels. The batch is cut
// into parts, a number that depends on the shape alone; each part has its own sum, and they are added in order.
//
// Sums of pairs of BFloat16 work the same way: the pixels of two samples, rounded, lie in the 32 bits of one, so that
// two samples count as one.
#include <algorithm>

#include "common/scratch_uses.h"
#include "gemm/bfloat16_kernel.h"
#include "gemm/gemm.h"
#include "gemm/pack.h"
#include "gemm/stored_product.h"
#include "kernels/convolution/band.h"
#include "kernels/convolution/weights_layout.h"
#include "kernels/convolution/weights_splits.h"
#include "runtime/dynamic_items.h"
#include "runtime/scratch.h"
#include "simd/stored_numbers.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace {

constexpr double kBandBytes = 1.5e6;    // packed x and dy of one pass over the pixels
constexpr double kPassBytes = 300e3;    // of them, what one tile row reads before the next tap does: stays in L2
constexpr double kPartialBytes = 10e6;  // sums of all parts together
constexpr int kMostParts = 16;
constexpr int kChainPixels = 128;  // of a chain of additions where sums are to be exact: see direct.cpp

// Pixels of a row taken `steps` at a time, from `first` on.
struct PixelRun {
  TileForm form;
  int first, steps, per_row;
};

// Offsets of the entries of a run, row after row; start[i] is the first entry of row i.
struct PixelList {
  std::vector<int32_t> x, dy;
  std::vector<int> start;
};

class DirectWeights : public WeightsKernel {
 public:
  explicit DirectWeights(const ConvolutionShape& s)
      : sums_(sums_of_rounded(s.bfloat16)),
        layout_{s.out_channels / s.groups, s.in_channels / s.groups, s.kernel_height * s.kernel_width},
        groups_(s.groups),
        kernel_width_(static_cast<int>(s.kernel_width)),
        rows_(forward_rows(s)),
        columns_(forward_columns(s)),
        band_rows_(rows_per_band()),
        x_band_(rows_, columns_, band_rows_),
        dy_band_(band_rows_, columns_.out_size),
        flops_(flops(s)) {
    bool whole = band_rows_ == rows_.out_size;
    images_ = whole ? std::max(1, static_cast<int>(kBandBytes / image_bytes())) : 1;
    double row_bytes =
        columns_.out_size * kWideColumns * 4.0 + static_cast<double>(x_band_.row()) * rows_.in_step * sizeof(float);
    pass_rows_ = std::max(1, static_cast<int>(kPassBytes / row_bytes));
    if (s.exact) pass_rows_ = std::clamp(kChainPixels / columns_.out_size, 1, pass_rows_);
    choose_runs();
    for (const PixelRun& run : runs_) {
      every_row_.push_back(list_pixels(run, 1, nullptr));
      met_rows_.emplace_back();
      for (const AxisTap& tap : rows_.phases[0].taps)
        if (whole) met_rows_.back().push_back(list_pixels(run, images_, &tap));
    }
  }

  void run(const WeightsCall& call) const override {
    int threads = useful_threads(call.threads, flops_ * static_cast<double>(call.batch));
    const Work work = share_out(groups_of(call.batch, sums_));
    float* sums = scratch(kPartialSums, static_cast<size_t>(work.parts * work.part_floats));
    const WeightsSplits splits = split(groups_ * work.parts, threads);
    dynamic_items(threads, groups_ * work.parts * splits.count(), [&](int64_t item) {
      const int64_t piece = item / splits.count(), i = item % splits.count();
      sum_part(call, work, piece / work.parts, piece % work.parts, {splits.out(i), splits.in(i), splits.slices(i)},
               sums);
    });
    const int64_t blocks = groups_ * out_blocks() * in_blocks();
    int adders = useful_threads(threads, 8.0 * static_cast<double>(work.parts * work.part_floats));
    dynamic_items(adders, blocks, [&](int64_t item) { add_parts(call, work, item, sums); });
  }

 private:
  // Parts cut the units (bands of samples, or of pairs of them).
  struct Work {
    int64_t bands, rows, units, parts, part_floats;
  };

  int64_t in_blocks() const { return blocks_of(layout_.in_channels); }
  int64_t out_blocks() const { return blocks_of(layout_.out_channels); }
  int64_t in_block_floats() const { return layout_.taps * kBlock * kBlock; }  // of 16 input and 16 output channels
  int64_t block_floats() const { return in_blocks() * in_block_floats(); }    // of 16 output channels
  int64_t bias_offset() const { return groups_ * out_blocks() * block_floats(); }

  // Bytes of x and dy packed for one sample.
  double image_bytes() const {
    double x = static_cast<double>(columns_.span(columns_.out_size)) * rows_.span(rows_.out_size) *
               static_cast<double>(in_blocks());
    double dy = static_cast<double>(columns_.out_size) * rows_.out_size * static_cast<double>(out_blocks());
    return (x + dy) * kBlock * sizeof(float);
  }
  int rows_per_band() const {
    int bands = 1 + static_cast<int>(image_bytes() / (1.2 * kBandBytes));
    return even_tile(rows_.out_size, std::max(1, rows_.out_size / std::min(bands, rows_.out_size)));
  }

  // Rows of width 7 q are runs of 7 pixels; others are runs of 4 and one of 4 to 7, or a single short one.
  void choose_runs() {
    int width = columns_.out_size, tail = width % 7 == 0 ? 0 : width < 4 ? width : 4 + width % 4;
    auto form = [](int steps) { return static_cast<TileForm>(static_cast<int>(TileForm::Pixels1) + steps - 1); };
    if (width % 7 == 0)
      runs_.push_back({form(7), 0, 7, width / 7});
    else if (width % 4 == 0)
      runs_.push_back({form(4), 0, 4, width / 4});
    else {
      if (width > tail) runs_.push_back({form(4), 0, 4, (width - tail) / 4});
      runs_.push_back({form(tail), width - tail, tail, 1});
    }
  }

  // Entries of `images` samples of band_rows_ rows; with a tap, only of the rows where it meets the image.
  PixelList list_pixels(const PixelRun& run, int images, const AxisTap* tap) const {
    PixelList list;
    int64_t x_image = in_blocks() * x_band_.plane();
    for (int i = 0; i < images * band_rows_; i++) {
      list.start.push_back(static_cast<int>(list.x.size()));
      int image = i / band_rows_, row = i % band_rows_;
      int y = tap ? row * rows_.in_step + tap->offset : 0;
      if (y < 0 || y >= rows_.in_size) continue;
      for (int q = 0; q < run.per_row; q++) {
        int pixel = (run.first + q * run.steps) * kBlock;
        list.x.push_back(static_cast<int32_t>(image * x_image + row * rows_.in_step * x_band_.row() + pixel));
        list.dy.push_back(static_cast<int32_t>(image * dy_image() + row * dy_band_.row() + pixel));
      }
    }
    list.start.push_back(static_cast<int>(list.x.size()));
    return list;
  }
  // dy of a split may hold fewer channels, but samples always lie this far apart.
  int64_t dy_image() const { return out_blocks() * dy_band_.plane(); }

  Work share_out(int64_t batch) const {
    Work work{};
    int64_t height = rows_.out_size;
    int64_t bands = std::max<int64_t>((height + band_rows_ - 1) / band_rows_,
                                      batch >= 8 ? 1 : (8 + batch - 1) / std::max<int64_t>(1, batch));
    work.rows = (height + std::min(bands, height) - 1) / std::min(bands, height);
    work.bands = (height + work.rows - 1) / work.rows;
    work.units = batch * work.bands;
    work.part_floats = bias_offset() + groups_ * out_blocks() * kBlock;
    double bytes = static_cast<double>(work.part_floats) * sizeof(float);
    work.parts =
        std::max<int64_t>(1, std::min({work.units, int64_t{kMostParts}, static_cast<int64_t>(kPartialBytes / bytes)}));
    return work;
  }
  // For more threads than parts; slices are rows of the kernel.
  WeightsSplits split(int64_t pieces, int threads) const {
    const auto inputs = static_cast<double>(layout_.in_channels), outputs = static_cast<double>(layout_.out_channels);
    const double out = kPackFlops * outputs, in = kPackFlops * inputs;
    const WeightsSplits::Flops flops{out, in, out + in, 2 * static_cast<double>(layout_.taps) * inputs * outputs};
    return {pieces, layout_.out_channels, layout_.in_channels, layout_.taps / kernel_width_, flops, threads};
  }
  struct Split {
    ChannelBlocks out, in;
    WeightsSplits::Slices rows;  // of the kernel
    bool sums_bias() const { return in.first == 0 && rows.first == 0; }
  };

  void sum_part(const WeightsCall& call, const Work& work, int64_t group, int64_t part, const Split& split,
                float* sums) const {
    const auto& [out, in, kernel_rows] = split;
    float* all = sums + part * work.part_floats;
    float* dw = all + (group * out_blocks() + out.first) * block_floats() + in.first * in_block_floats();
    float* db = all + bias_offset() + (group * out_blocks() + out.first) * kBlock;
    if (!split.sums_bias()) db = nullptr;
    const int64_t row_floats = int64_t{kernel_width_} * kBlock * kBlock;
    for (int64_t block = 0; call.dw && block < out.count; block++)
      for (int64_t c = 0; c < in.count; c++)
        std::fill_n(dw + block * block_floats() + c * in_block_floats() + kernel_rows.first * row_floats,
                    (kernel_rows.last - kernel_rows.first) * row_floats, 0.f);
    if (db) std::fill_n(db, out.count * kBlock, 0.f);
    const int64_t in_channels = in.channels(layout_.in_channels);
    int64_t unit = work.units * part / work.parts, end = work.units * (part + 1) / work.parts;
    int64_t most = work.bands == 1 ? images_ : 1;
    int64_t x_image = in_blocks() * x_band_.plane();
    float* x = scratch(kInputBand, static_cast<size_t>(x_image * std::min(most, end - unit)));
    float* dy = scratch(kGradientBand, static_cast<size_t>(dy_image() * std::min(most, end - unit)));
    for (; unit < end; unit += most) {
      check_interruption();
      int images = static_cast<int>(std::min(most, end - unit));
      int row0 = static_cast<int>(unit % work.bands * work.rows);
      int rows = static_cast<int>(std::min<int64_t>(work.rows, rows_.out_size - row0));
      for (int i = 0; i < images; i++) {
        int64_t n = unit / work.bands + i;
        if (call.dw)
          pack(x_band_, call.x, n, call.batch, group * layout_.in_channels + in.channel(), in_channels,
               row0 * rows_.in_step + rows_.low, rows_.span(rows), x + i * x_image, nullptr);
        if (call.dw || db)
          pack(dy_band_, call.dy, n, call.batch, group * layout_.out_channels + out.channel(),
               out.channels(layout_.out_channels), row0, rows, dy + i * dy_image(), call.db ? db : nullptr);
      }
      for (int64_t block = 0; call.dw && block < out.count; block += kWideBlocks) {
        int blocks = std::min<int>(kWideBlocks, static_cast<int>(out.count - block));
        bool whole = work.bands == 1;
        add_products(x, in_channels, kernel_rows, dy + block * dy_band_.plane(), blocks, whole, row0, rows, images,
                     dw + block * block_floats());
      }
    }
  }

  // As Band::pack, of a sample or of a pair of them.
  void pack(const Band& band, const ImageSource& image, int64_t n, int64_t batch, int64_t channel, int64_t channels,
            int first_row, int rows, float* out, float* sums) const {
    if (sums_ == SumKind::kFloats) return band.pack(image, n, channel, channels, first_row, rows, out, sums);
    const int64_t floats = blocks_of(channels) * band.plane();
    float* first = scratch(kSampleBands, static_cast<size_t>(2 * floats));
    float* second = first + floats;
    band.pack(image, 2 * n, channel, channels, first_row, rows, first, sums);
    const bool alone = 2 * n + 1 == batch;
    if (!alone) band.pack(image, 2 * n + 1, channel, channels, first_row, rows, second, sums);
    for (int64_t block = 0; block < blocks_of(channels); block++)
      for (int64_t i = block * band.plane(), end = i + rows * band.row(); i < end; i += kWidth)
        store(out + i, from_bits(round_to_bfloat16_pairs({load(first + i), alone ? Vec{} : load(second + i)})));
  }

  // dw: [blocks][in_channels / 16][taps][16 in][16 out] += products of `images` samples of `rows` output rows.
  void add_products(const float* x, int64_t in_channels, const WeightsSplits::Slices& kernel_rows, const float* dy,
                    int blocks, bool whole, int row0, int rows, int images, float* dw) const {
    int total = images * rows;
    const auto& row_taps = rows_.phases[0].taps;
    for (int64_t c = 0; c < in_channels; c += kBlock)
      for (int row = 0; row < total; row += pass_rows_) {
        int end = std::min(total, row + pass_rows_);
        for (size_t r = 0; r < row_taps.size(); r++) {
          if (!kernel_rows.has(row_taps[r].tap)) continue;
          for (size_t run = 0; run < runs_.size(); run++) {
            const PixelList& list = whole ? met_rows_[run][r] : every_row_[run];
            int first = row, last = end;
            if (!whole) {  // rows of the band where the tap meets the image are consecutive
              auto meets = [&](int i) {
                int y = (row0 + i) * rows_.in_step + row_taps[r].offset;
                return y >= 0 && y < rows_.in_size;
              };
              while (first < last && !meets(first)) first++;
              while (last > first && !meets(last - 1)) last--;
            }
            if (list.start[first] < list.start[last])
              add_row_taps(x, in_channels, dy, blocks, c, row_taps[r], runs_[run].form, list, list.start[first],
                           list.start[last], dw);
          }
        }
      }
  }

  // All taps of one kernel row, over entries [begin, end) of the list.
  void add_row_taps(const float* x, int64_t in_channels, const float* dy, int blocks, int64_t channel,
                    const AxisTap& row_tap, TileForm form, const PixelList& list, int begin, int end, float* dw) const {
    Tile t{};
    t.b = dy;
    t.a_offset = list.x.data() + begin;
    t.b_offset = list.dy.data() + begin;
    t.entries = end - begin;
    t.b_block = dy_band_.plane();
    t.c_row = kBlock;
    t.c_block = block_floats();
    t.write = Write::Add;
    int channels = static_cast<int>(std::min<int64_t>(kBlock, in_channels - channel));
    const float* line = x + channel / kBlock * x_band_.plane() + (row_tap.offset - rows_.low) * x_band_.row();
    for (const AxisTap& column_tap : columns_.phases[0].taps) {
      int64_t tap = row_tap.tap * kernel_width_ + column_tap.tap;
      for (int m = 0; m < channels; m += kWeightRows) {
        t.a = line + x_band_.place(column_tap.offset) + m;
        t.c = dw + (channel / kBlock * layout_.taps + tap) * kBlock * kBlock + m * kBlock;
        const int rows = std::min(kWeightRows, channels - m);
        (sums_ == SumKind::kFloats ? tile_kernel(form, blocks, rows) : bfloat16_tile_kernel(form, blocks, rows))(t);
      }
    }
  }

  // Of 16 output and 16 input channels.
  void add_parts(const WeightsCall& call, const Work& work, int64_t item, const float* sums) const {
    const int64_t outputs = item / in_blocks(), group = outputs / out_blocks(), block = outputs % out_blocks();
    const int64_t in_block = item % in_blocks();
    if (call.dw)
      unpack_weights(layout_, sums + item * in_block_floats(), static_cast<int>(work.parts), work.part_floats, block,
                     in_block, call.dw + group * layout_.count(), call.add_dw);
    if (!call.db || in_block > 0) return;
    for (int64_t k = 0; k < std::min<int64_t>(kBlock, layout_.out_channels - block * kBlock); k++) {
      float sum = 0;
      for (int64_t part = 0; part < work.parts; part++)
        sum += sums[part * work.part_floats + bias_offset() + outputs * kBlock + k];
      float* db = call.db + group * layout_.out_channels + block * kBlock + k;
      *db = call.add_db ? *db + sum : sum;
    }
  }

  const SumKind sums_;
  const WeightsLayout layout_;
  const int64_t groups_;
  const int kernel_width_;
  const Axis rows_, columns_;
  const int band_rows_;  // output rows
  const Band x_band_, dy_band_;
  const double flops_;
  int images_, pass_rows_;
  std::vector<PixelRun> runs_;
  std::vector<PixelList> every_row_;              // [run]
  std::vector<std::vector<PixelList>> met_rows_;  // [run][kernel row]; empty when a sample needs several bands
};

}  // namespace

std::unique_ptr<WeightsKernel> make_direct_weights(const ConvolutionShape& s) {
  double pixels = static_cast<double>((s.out_width * s.stride_x + s.kernel_width * s.dilation_x) *
                                      (s.kernel_height * s.dilation_y + 2 * s.stride_y));
  if (pixels * static_cast<double>(s.in_channels + s.out_channels + 32) > 1e9) return nullptr;  // 32-bit offsets
  return std::make_unique<DirectWeights>(s);
}

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
