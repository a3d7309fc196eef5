// The grid of tiles of a Winograd convolution, and the transforms of its input and its kernels.
#include <algorithm>
#include <utility>

#include "kernels/convolution_winograd.h"
#include "kernels/scratch_uses.h"
#include "runtime/scratch.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace {

constexpr int kMostTiles = 128;            // of a group, unless one line has more; half as many for
constexpr int64_t kMostTilePlaces = 4096;  // more places x channels
constexpr int64_t kMostTileColumns = 512;
// Below, the transforms cost what the products save.
constexpr int64_t kFewestChannels3 = 24, kFewestChannels5 = 12;
constexpr int64_t kMostWeights = int64_t{1} << 22;  // elements of U: 16 MB

template <int kFirst, int... kLane>
OPENBNNS_INLINE Vec every_other(Vec a, Vec b, std::integer_sequence<int, kLane...>) {
  return __builtin_shufflevector(a, b, (2 * kLane + kFirst)...);
}

OPENBNNS_INLINE IntVec lane_numbers() {
  IntVec n;
  OPENBNNS_UNROLL for (int i = 0; i < kWidth; i++) n[i] = i;
  return n;
}

// The input transform of one channel of some lines of tiles, in two steps through memory that stays in L1: along the
// rows of the image, once for every row, then across them.
//
//   z: [row][column] of the image with a border of zeros
//   e: [cell][row parity][row / 2][tile of the line]: B^T along each row. Cell k of tile t of the lines counted through
//      lies at [k % 2][k / 2 lines + t], so vectors run across the ends of lines.
class Cells {
 public:
  Cells(const WinogradGrid& g, float* memory) : grid_(g), z_(memory), e_(memory + z_floats(g) + kWidth) {
    std::fill_n(z_, z_floats(g), 0.f);
  }

  static int64_t floats(const WinogradGrid& g) { return z_floats(g) + kWidth + g.cells() * 2 * side_floats(g); }

  // B^T d B of `lines` lines, which become tiles [first, ...) of one channel of v; up to kWidth - 1 tiles more are
  // overwritten. Their first tile begins in row `top` of the image; plane: from row `held` on. Cells outside the image
  // are zeros.
  void transform(const float* plane, int held, int top, int lines, const WinogradInput& layout, int64_t first,
                 float* v) const {
    const int rows = 2 * lines + grid_.taps - 1;
    for (int r = 0; r < rows; r++) copy_row(plane, held, top + r, z_ + r * z_pitch(grid_));
    grid_.taps == 3 ? combine<3>(rows, lines, layout, first, v) : combine<5>(rows, lines, layout, first, v);
  }

 private:
  static int64_t z_pitch(const WinogradGrid& g) { return 2 * round_up(g.line_tiles, kWidth) + g.cells(); }
  static int64_t z_floats(const WinogradGrid& g) { return (2 * int64_t{g.group_lines} + g.taps - 1) * z_pitch(g); }
  static int64_t side_floats(const WinogradGrid& g) {
    return (int64_t{g.group_lines} + g.taps / 2) * g.line_tiles + kWidth;
  }

  void copy_row(const float* plane, int held, int y, float* z) const {
    int64_t first = std::max(0, grid_.column_shift), to = first - grid_.column_shift;
    int64_t count = std::min<int64_t>(grid_.in_width - first, 2 * grid_.line_tiles + grid_.taps - 1 - to), i = 0;
    if (y < 0 || y >= grid_.in_height) {
      std::fill_n(z, z_pitch(grid_), 0.f);
      return;
    }
    const float* row = plane + int64_t{y - held} * grid_.in_width + first;
    for (; i + kWidth <= count; i += kWidth) store(z + to + i, load(row + i));
    if (i < count) store_partial(z + to + i, load_partial(row + i, count - i), count - i);
  }

  template <int kTaps>
  void combine(int rows, int lines, const WinogradInput& layout, int64_t first, float* v) const {
    using Axis = WinogradAxis<kTaps>;
    constexpr int kCells = Axis::kCells;
    constexpr auto lanes = std::make_integer_sequence<int, kWidth>{};
    // In registers: the compiler must assume that a store changes what `this` points to.
    const int64_t line = grid_.line_tiles, tiles = lines * line, pitch = z_pitch(grid_), side = side_floats(grid_);
    float* const e = e_;
    const float* z = z_;
    for (int r = 0; r < rows; r++, z += pitch) {
      float* to = e + r % 2 * side + r / 2 * line;
      for (int64_t j = 0; j < line; j += kWidth) {  // what is written past the end of a line, the next overwrites
        Vec d[kCells], v[kCells];
        OPENBNNS_UNROLL for (int p = 0; p < kCells; p += 2) {
          Vec a = load(z + 2 * j + p), b = load(z + 2 * j + p + kWidth);
          d[p] = every_other<0>(a, b, lanes);
          d[p + 1] = every_other<1>(a, b, lanes);
        }
        Axis::input(d, v);
        OPENBNNS_UNROLL for (int s = 0; s < kCells; s++) store(to + 2 * s * side + j, v[s]);
      }
    }
    // Vectors as v holds them; the first may begin with tiles of lines before these, which it keeps.
    const int64_t place = layout.place;
    for (int64_t t = first / kWidth * kWidth; t < first + tiles; t += kWidth) {
      const IntVec earlier = lane_numbers() < splat_int(static_cast<int32_t>(std::max<int64_t>(0, first - t)));
      const bool keeps = t < first;
      float* to = v + t / kBlock * layout.block + t % kBlock;
      for (int s = 0; s < kCells; s++) {
        const float* from = e + 2 * s * side + t - first;
        Vec d[kCells], made[kCells];
        OPENBNNS_UNROLL for (int i = 0; i < kCells; i++) d[i] = load(from + i % 2 * side + i / 2 * line);
        Axis::input(d, made);
        OPENBNNS_UNROLL for (int i = 0; i < kCells; i++) {
          float* cell = to + (i * kCells + s) * place;
          store(cell, keeps ? select(earlier, load(cell), made[i]) : made[i]);
          __builtin_prefetch(cell + kBlock, 1);  // of the next channel
        }
      }
    }
  }

  const WinogradGrid& grid_;
  float *const z_, *const e_;
};

// u = G g G^T
template <int kTaps>
void spread(const float* g, float* u) {
  using Axis = WinogradAxis<kTaps>;
  constexpr int kCells = Axis::kCells;
  for (int part = 0; part < kBlock; part += kWidth) {
    Vec r[kCells][kTaps];
    for (int s = 0; s < kTaps; s++) {
      Vec column[kTaps], made[kCells];
      for (int i = 0; i < kTaps; i++) column[i] = load(g + (i * kTaps + s) * kBlock + part);
      Axis::kernel(column, made);
      for (int i = 0; i < kCells; i++) r[i][s] = made[i];
    }
    for (int i = 0; i < kCells; i++) {
      Vec made[kCells];
      Axis::kernel(r[i], made);
      for (int s = 0; s < kCells; s++) store(u + (i * kCells + s) * kBlock + part, made[s]);
    }
  }
}

// dg = G^T du G
template <int kTaps>
void gather(const float* du, float* dg) {
  using Axis = WinogradAxis<kTaps>;
  constexpr int kCells = Axis::kCells;
  for (int part = 0; part < kBlock; part += kWidth) {
    Vec r[kTaps][kCells];
    for (int s = 0; s < kCells; s++) {
      Vec column[kCells], made[kTaps];
      for (int i = 0; i < kCells; i++) column[i] = load(du + (i * kCells + s) * kBlock + part);
      Axis::kernel_back(column, made);
      for (int i = 0; i < kTaps; i++) r[i][s] = made[i];
    }
    for (int i = 0; i < kTaps; i++) {
      Vec made[kTaps];
      Axis::kernel_back(r[i], made);
      for (int s = 0; s < kTaps; s++) store(dg + (i * kTaps + s) * kBlock + part, made[s]);
    }
  }
}

}  // namespace

WinogradGrid::WinogradGrid(const ConvolutionShape& s, bool backward)
    : taps(static_cast<int>(s.kernel_height)),
      in_height(static_cast<int>(backward ? s.out_height : s.in_height)),
      in_width(static_cast<int>(backward ? s.out_width : s.in_width)),
      out_height(static_cast<int>(backward ? s.in_height : s.out_height)),
      out_width(static_cast<int>(backward ? s.in_width : s.out_width)),
      // dx(i) = sum_t w(t) dy(i + pad - t) = sum_q w(last - q) dy(i + q - (last - pad)), last = taps - 1
      row_shift(static_cast<int>(backward ? s.pad_up + 1 - taps : -s.pad_up)),
      column_shift(static_cast<int>(backward ? s.pad_left + 1 - taps : -s.pad_left)),
      lines((out_height + 1) / 2),
      line_tiles((out_width + 1) / 2),
      group_lines(1) {
  const int64_t channels = s.in_channels + s.out_channels;
  const int most_tiles = channels * places() <= kMostTilePlaces ? kMostTiles : kMostTiles / 2;
  // As many lines as leave the fewest lanes of the last block of 16 tiles empty.
  double best = 0;
  for (int n = 1; n == 1 || n * line_tiles <= most_tiles; n++) {
    double filled = static_cast<double>(n * line_tiles) / static_cast<double>(round_up(n * line_tiles, kBlock));
    if (filled < best || n * line_tiles < most_tiles / 4) continue;
    best = filled;
    group_lines = n;
  }
}

bool suits_winograd(const ConvolutionShape& s) {
  int64_t taps = s.kernel_height, cells = taps + 1;
  bool form = s.groups == 1 && (taps == 3 || taps == 5) && s.kernel_width == taps && s.stride_y == 1 &&
              s.stride_x == 1 && s.dilation_y == 1 && s.dilation_x == 1;
  if (!form || std::min(s.in_channels, s.out_channels) < (taps == 3 ? kFewestChannels3 : kFewestChannels5) ||
      s.in_channels * s.out_channels > kMostWeights / (cells * cells))
    return false;
  // Both directions cut their output into tiles; the last of a row or column may be half empty.
  constexpr int64_t kSmallest = 6;
  auto fits = [](int64_t size) { return size >= kSmallest && size <= 2 * kMostTileColumns; };
  return fits(s.in_height) && fits(s.in_width) && fits(s.out_height) && fits(s.out_width) && s.pad_up < taps &&
         s.pad_left < taps;
}

void transform_input(const WinogradGrid& g, const ImageSource& image, int64_t channels, int64_t first, int count,
                     const WinogradInput& layout, float* v) {
  const int64_t tiles = int64_t{count} * g.line_tiles;
  Cells cells(g, scratch(kPatches, static_cast<size_t>(Cells::floats(g))));
  for (int64_t c = 0; c < channels; c++) {
    for (int done = 0; done < count;) {
      int64_t n = (first + done) / g.lines;
      int row = static_cast<int>((first + done) % g.lines), rows = std::min(g.lines - row, count - done);
      int top = 2 * row + g.row_shift;
      int held = std::max(0, std::min(top, g.in_height)),
          end = std::max(held, std::min(top + 2 * rows + g.taps - 1, g.in_height));
      int64_t plane_stride;
      const float* plane = end == held ? nullptr
                                       : image.pixels(n, c, 1, int64_t{held} * g.in_width,
                                                      int64_t{end - held} * g.in_width, &plane_stride);
      cells.transform(plane, held, top, rows, layout, int64_t{done} * g.line_tiles, v + c * kBlock);
      done += rows;
    }
    for (int64_t t = tiles; t % kDepth != 0; t++)
      for (int p = 0; p < g.places(); p++)
        v[p * layout.place + t / kBlock * layout.block + c * kBlock + t % kBlock] = 0;
  }
  for (int64_t c = channels; c < layout.channels; c++)
    for (int p = 0; p < g.places(); p++)
      for (int64_t b = 0; b < blocks_of(tiles); b++)
        std::fill_n(v + p * layout.place + b * layout.block + c * kBlock, kBlock, 0.f);
}

void transform_kernel(int taps, const float* g, float* u) { taps == 3 ? spread<3>(g, u) : spread<5>(g, u); }

void transform_kernel_back(int taps, const float* du, float* dg) { taps == 3 ? gather<3>(du, dg) : gather<5>(du, dg); }

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
