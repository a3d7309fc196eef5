// Gradient of the weights with few input channels, or few on both sides of a group. Vectors run along the pixels:
//
//   dw(k, tap) = sum over samples and pixels i of dy(k, i) * x(cell of tap at i)
//
// A tile holds a vector of partial sums for each of a few output channels x taps; lanes are summed once, at the end.
#include "common/scratch_uses.h"
#include "gemm/gemm.h"
#include "gemm/micro_kernel.h"
#include "kernels/convolution/few_channels.h"
#include "runtime/dynamic_items.h"
#include "runtime/partition.h"
#include "runtime/scratch.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace {

constexpr int kTileOutputs = kWidth == 16 ? 4 : 2, kTileTaps = kWidth == 16 ? 6 : 5;  // accumulators fill the registers
constexpr int64_t kBandPixels = 2048;   // of dy read before the next tap does: a tile of channels stays in L1
constexpr double kPartialBytes = 10e6;  // sums of all parts together
constexpr int64_t kPartVectors = 512;   // pixels of a part, at least: fewer do not pay for its sums
constexpr double kPlanesBytes = 800e3;  // packed samples of x that stay in L2
constexpr int64_t kMostParts = 16;
constexpr double kCopyFlops = 16;  // operations in the time that copying an element takes

// Rows of dy and of the planes of x, and the sums of a tile.
struct LaneTile {
  const float* dy;  // [output][row][lane vectors], zero beyond the width
  int64_t dy_plane, dy_row;
  const float* x;
  const int32_t* places;  // [tap]
  int64_t x_row;
  int rows, vectors;
  float* sums;  // [output][tap][lane]
  int64_t sums_output;
};

template <int kOutputs, int kTaps>
void add_tile(const LaneTile& t) {
  Vec sum[kOutputs][kTaps];
  OPENBNNS_UNROLL for (int o = 0; o < kOutputs; o++) OPENBNNS_UNROLL for (int q = 0; q < kTaps; q++) sum[o][q] =
      load(t.sums + o * t.sums_output + q * kWidth);
  int64_t place[kTaps];
  OPENBNNS_UNROLL for (int q = 0; q < kTaps; q++) place[q] = t.places[q];
  const int64_t dy_plane = t.dy_plane;
  for (int row = 0; row < t.rows; row++) {
    const float* x = t.x + row * t.x_row;
    const float* dy = t.dy + row * t.dy_row;
    for (const float* end = dy + t.vectors * kWidth; dy != end; dy += kWidth, x += kWidth) {
      Vec gradient[kOutputs];
      OPENBNNS_UNROLL for (int o = 0; o < kOutputs; o++) gradient[o] = load(dy + o * dy_plane);
      OPENBNNS_UNROLL for (int q = 0; q < kTaps; q++) {
        Vec cells = load(x + place[q]);
        OPENBNNS_UNROLL for (int o = 0; o < kOutputs; o++) sum[o][q] += gradient[o] * cells;
      }
    }
  }
  OPENBNNS_UNROLL for (int o = 0; o < kOutputs; o++) OPENBNNS_UNROLL for (int q = 0; q < kTaps; q++)
      store(t.sums + o * t.sums_output + q * kWidth, sum[o][q]);
}

using AddTile = void (*)(const LaneTile&);
template <int kOutputs, int... kTaps>
constexpr AddTile tile_with(int taps, std::integer_sequence<int, kTaps...>) {
  constexpr AddTile list[] = {add_tile<kOutputs, kTaps + 1>...};
  return list[taps - 1];
}
template <int... kOutputs>
AddTile tile_for(int outputs, int taps, std::integer_sequence<int, kOutputs...>) {
  using TapCounts = std::make_integer_sequence<int, kTileTaps>;
  AddTile found = nullptr;
  ((outputs == kOutputs + 1 ? void(found = tile_with<kOutputs + 1>(taps, TapCounts{})) : void()), ...);
  return found;
}

class FewChannelsWeights : public WeightsKernel {
 public:
  explicit FewChannelsWeights(const ConvolutionShape& s)
      : s_(s, false),
        width_(static_cast<int>(round_up(s.out_width, kWidth))),
        planes_(s_.rows, s_.columns, s_.read, s_.rows.out_size, kWidth - 1),
        places_(s_.places(planes_)),
        samples_(
            std::max<int64_t>(1, static_cast<int64_t>(kPlanesBytes / (4.0 * static_cast<double>(planes_.count()))))) {}

  void run(const WeightsCall& call) const override {
    int threads = useful_threads(call.threads, s_.operations * static_cast<double>(call.batch));
    // Sums of a part: [groups][made][taps + 1][lane]; the last is that of the bias.
    int64_t part_floats = s_.groups * s_.made * (s_.taps() + 1) * kWidth;
    int64_t most = std::min(kMostParts, static_cast<int64_t>(kPartialBytes / (4.0 * static_cast<double>(part_floats))));
    most = std::min(most, call.batch * s_.rows.out_size * (width_ / kWidth) / kPartVectors);
    int64_t parts = std::max<int64_t>(1, std::min(call.batch, most));  // from the shape alone
    int64_t tiles = (s_.made + kTileOutputs - 1) / kTileOutputs;
    // Splits of output channels, and of taps; no sum depends on them.
    const int64_t tap_tiles = (s_.taps() + tap_step() - 1) / tap_step();
    const double product = 2.0 * static_cast<double>(s_.made * s_.taps());
    const double x = kCopyFlops * static_cast<double>(s_.read), dy = kCopyFlops * static_cast<double>(s_.made);
    const Cuts splits =
        even_cuts(parts * s_.groups, {tiles, x / (x + dy + product)}, {tap_tiles, dy / (x + dy + product)}, threads);
    float* sums = scratch(kPartialSums, static_cast<size_t>(parts * part_floats));
    dynamic_items(threads, parts * s_.groups * splits.first * splits.second, [&](int64_t item) {
      const int64_t tap_split = item % splits.second, split = item / splits.second % splits.first;
      const int64_t piece = item / (splits.first * splits.second), group = piece % s_.groups, part = piece / s_.groups;
      const Share share{tiles * split / splits.first * kTileOutputs,
                        std::min(s_.made, tiles * (split + 1) / splits.first * kTileOutputs),
                        tap_tiles * tap_split / splits.second * tap_step(),
                        std::min(s_.taps(), tap_tiles * (tap_split + 1) / splits.second * tap_step())};
      float* sum = sums + part * part_floats + group * s_.made * (s_.taps() + 1) * kWidth;
      const int64_t sums_end = share.last_tap + share.sums_bias(s_.taps());
      for (int64_t k = share.first; k < share.last; k++)
        std::fill(sum + (k * (s_.taps() + 1) + share.first_tap) * kWidth,
                  sum + (k * (s_.taps() + 1) + sums_end) * kWidth, 0.f);
      int64_t end = call.batch * (part + 1) / parts;
      for (int64_t n = call.batch * part / parts; n < end; n += samples_) {
        check_interruption();
        add_samples(call, n, std::min(samples_, end - n), group, share, sum);
      }
    });
    int adders = useful_threads(threads, 8.0 * static_cast<double>(parts * part_floats));
    parallel_items(adders, s_.groups * s_.made, [&](int64_t item) { add_parts(call, item, sums, parts, part_floats); });
  }

 private:
  // Output channels [first, last) and taps [first_tap, last_tap); the last taps also sum the bias.
  struct Share {
    int64_t first, last, first_tap, last_tap;
    bool sums_bias(int64_t taps) const { return last_tap == taps; }
  };

  int tap_step() const { return even_tile(s_.taps(), kTileTaps); }

  // Adds samples [n, n + count) to the sums of a share; those of a tile of channels stay in L1.
  void add_samples(const WeightsCall& call, int64_t n, int64_t count, int64_t group, const Share& share,
                   float* sums) const {
    float* planes = scratch(kInputBand, static_cast<size_t>(count * planes_.count() + kBlock));
    for (int64_t i = 0; call.dw && i < count; i++)
      planes_.pack(call.x, n + i, group * s_.read, 0, s_.rows.out_size, planes + i * planes_.count());
    for (int64_t k = share.first; k < share.last; k += kTileOutputs)
      for (int64_t i = 0; i < count; i++)
        add_outputs(call, n + i, group, share, k, static_cast<int>(std::min<int64_t>(kTileOutputs, share.last - k)),
                    planes + i * planes_.count(), sums + k * (s_.taps() + 1) * kWidth);
  }

  // Adds one sample to the sums of output channels [k, k + outputs).
  void add_outputs(const WeightsCall& call, int64_t n, int64_t group, const Share& share, int64_t k, int outputs,
                   const float* planes, float* sums) const {
    int height = s_.rows.out_size, band = std::max(1, static_cast<int>(kBandPixels / width_));
    for (int row = 0; row < height; row += band) {
      LaneTile t{};
      t.rows = std::min(band, height - row);
      t.vectors = width_ / kWidth;
      t.dy_row = width_;
      t.x = planes + row * planes_.out_row();
      t.x_row = planes_.out_row();
      t.sums_output = (s_.taps() + 1) * kWidth;
      t.dy = gradient_rows(call.dy, n, group * s_.made + k, outputs, row, t.rows, &t.dy_plane);
      if (call.db && share.sums_bias(s_.taps())) add_bias(t, outputs, sums + s_.taps() * kWidth);
      for (int64_t tap = share.first_tap; call.dw && tap < share.last_tap; tap += tap_step()) {
        t.places = places_.data() + tap;
        t.sums = sums + tap * kWidth;
        int taps = static_cast<int>(std::min<int64_t>(tap_step(), share.last_tap - tap));
        tile_for(outputs, taps, std::make_integer_sequence<int, kTileOutputs>{})(t);
      }
    }
  }

  // [outputs][rows][width_], the rows filled up with zeros to whole vectors.
  const float* gradient_rows(const ImageSource& dy, int64_t n, int64_t channel, int outputs, int row, int rows,
                             int64_t* plane) const {
    int64_t width = s_.columns.out_size;
    const float* from = dy.pixels(n, channel, outputs, row * width, rows * width, plane);
    if (width == width_) return from;
    float* to = scratch(kGradientBand, static_cast<size_t>(int64_t{outputs} * rows * width_));
    for (int o = 0; o < outputs; o++)
      for (int r = 0; r < rows; r++) {
        float* line = to + (int64_t{o} * rows + r) * width_;
        const float* row = from + o * *plane + r * width;
        for (int64_t i = 0; i < width; i += kWidth)
          store(line + i, width - i >= kWidth ? load(row + i) : load_partial(row + i, width - i));
      }
    *plane = int64_t{rows} * width_;
    return to;
  }

  void add_bias(const LaneTile& t, int outputs, float* sums) const {
    for (int o = 0; o < outputs; o++) {
      Vec sum[2] = {load(sums + o * t.sums_output), Vec{}};
      const float* p = t.dy + o * t.dy_plane;
      int count = t.rows * t.vectors, v = 0;
      for (; v + 2 <= count; v += 2) {
        sum[0] += load(p + v * kWidth);
        sum[1] += load(p + (v + 1) * kWidth);
      }
      if (v < count) sum[0] += load(p + v * kWidth);
      store(sums + o * t.sums_output, sum[0] + sum[1]);
    }
  }

  void add_parts(const WeightsCall& call, int64_t item, const float* sums, int64_t parts, int64_t part_floats) const {
    int64_t group = item / s_.made, k = item % s_.made;
    auto total = [&](int64_t tap) {
      const float* p = sums + (item * (s_.taps() + 1) + tap) * kWidth;
      Vec sum = load(p);
      for (int64_t part = 1; part < parts; part++) sum += load(p + part * part_floats);
      return sum_lanes(sum);
    };
    if (call.dw) {
      int64_t count = s_.inputs * s_.kernel_cells;
      if (!call.add_dw) std::fill_n(call.dw + item * count, count, 0.f);
      for (int64_t tap = 0; tap < s_.taps(); tap++) call.dw[s_.weight(group, k, tap)] += total(tap);
    }
    if (call.db) call.db[item] = call.add_db ? call.db[item] + total(s_.taps()) : total(s_.taps());
  }

  const FewChannelsShape s_;
  const int width_;  // of a row of dy in whole vectors
  const Planes planes_;
  const std::vector<int32_t> places_;
  const int64_t samples_;  // packed together
};

// Rows should fill their vectors, and blocks of 16 channels should be mostly zeros.
bool takes(const ConvolutionShape& s) {
  int64_t inputs = s.in_channels / s.groups, outputs = s.out_channels / s.groups;
  double planes = static_cast<double>(inputs) *
                  static_cast<double>(s.out_height * s.stride_y + s.kernel_height * s.dilation_y) *
                  static_cast<double>((s.out_width + kWidth) * s.stride_x + s.kernel_width * s.dilation_x);
  bool few = inputs <= 6 || (inputs <= 15 && outputs <= 8) || outputs <= 4;
  return few && s.out_width * 10 >= round_up(s.out_width, kWidth) * 6 && planes < 1e8;
}

}  // namespace

std::unique_ptr<WeightsKernel> make_few_channels_weights(const ConvolutionShape& s) {
  if (!takes(s)) return nullptr;
  return std::make_unique<FewChannelsWeights>(s);
}

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
