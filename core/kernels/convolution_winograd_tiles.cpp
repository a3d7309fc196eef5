// The grid of tiles of a Winograd convolution, and the transforms of its input and its kernels.
#include <algorithm>
#include <utility>

#include "kernels/convolution_winograd.h"
#include "kernels/scratch_uses.h"
#include "runtime/scratch.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace {

constexpr int kMostTiles = 128;  // of a group, unless one line has more
constexpr int64_t kMostTileColumns = 512;
constexpr int64_t kFewestChannels = 24;             // below, the transforms cost what the products save
constexpr int64_t kMostWeights = int64_t{1} << 18;  // 16 MB of U

template <int kFirst, int... kLane>
OPENBNNS_INLINE Vec every_other(Vec a, Vec b, std::integer_sequence<int, kLane...>) {
  return __builtin_shufflevector(a, b, (2 * kLane + kFirst)...);
}

// r = one row of B^T d B before the rows are combined, for lanes t: cells 2 t, 2 t + 1 of `left` and of `right`.
OPENBNNS_INLINE void combine_columns(const float* left, const float* right, Vec (&r)[4]) {
  constexpr auto lanes = std::make_integer_sequence<int, kWidth>{};
  Vec a = load(left), b = load(left + kWidth), c = load(right), d = load(right + kWidth);
  Vec d0 = every_other<0>(a, b, lanes), d1 = every_other<1>(a, b, lanes);
  Vec d2 = every_other<0>(c, d, lanes), d3 = every_other<1>(c, d, lanes);
  r[0] = d0 - d2;
  r[1] = d1 + d2;
  r[2] = d2 - d1;
  r[3] = d1 - d3;
}

// Cells of one channel of some lines of tiles, so arranged that those of tile t lie 2 t from the start, whatever line
// it is in: rows by parity ([0]: rows 0, 2, 4, ..., [1]: rows 1, 3, 5, ...), each row as its columns 0 .. 2 tiles - 1
// (left) and 2 .. 2 tiles + 1 (right).
class Cells {
 public:
  Cells(const WinogradGrid& g, float* memory) : grid_(g), memory_(memory) {}

  static int64_t floats(const WinogradGrid& g) { return 4 * side_floats(g); }

  // Rows [top, top + 2 lines + 2) of the image; plane: from image row `held` on. Cells outside the image are zeros.
  void fill(const float* plane, int held, int top, int lines) {
    for (int r = 0; r < 2 * lines + 2; r++) {
      int y = top + r;
      const float* row = y >= 0 && y < grid_.in_height ? plane + int64_t{y - held} * grid_.in_width : nullptr;
      copy_columns(row, grid_.column_shift, side(r % 2, 0) + r / 2 * pitch());
      copy_columns(row, grid_.column_shift + 2, side(r % 2, 1) + r / 2 * pitch());
    }
  }

  // B^T d B of `tiles` tiles in a row; out[place * stride + tile], up to kWidth - 1 values too many.
  void transform(int64_t tiles, float* out, int64_t stride) const {
    for (int64_t t = 0; t < tiles; t += kWidth) {
      Vec r[4][4];
      OPENBNNS_UNROLL for (int i = 0; i < 4; i++) {
        int64_t from = i / 2 * pitch() + 2 * t;
        combine_columns(side(i % 2, 0) + from, side(i % 2, 1) + from, r[i]);
      }
      OPENBNNS_UNROLL for (int s = 0; s < 4; s++) {
        float* to = out + s * stride + t;
        store(to, r[0][s] - r[2][s]);
        store(to + 4 * stride, r[1][s] + r[2][s]);
        store(to + 8 * stride, r[2][s] - r[1][s]);
        store(to + 12 * stride, r[1][s] - r[3][s]);
      }
    }
  }

 private:
  static int64_t side_floats(const WinogradGrid& g) {
    return (int64_t{g.group_lines} + 1) * 2 * g.line_tiles + 2 * kWidth;
  }
  int64_t pitch() const { return 2 * int64_t{grid_.line_tiles}; }
  float* side(int parity, int right) const { return memory_ + (2 * parity + right) * side_floats(grid_); }

  // pitch() columns of an image row from `first` on; row: null for zeros.
  void copy_columns(const float* row, int first, float* out) const {
    int64_t left = row ? std::min<int64_t>(pitch(), std::max(0, -first)) : pitch();
    int64_t from = std::max(0, first), count = std::min<int64_t>(pitch() - left, grid_.in_width - from);
    std::fill_n(out, left, 0.f);
    if (count > 0) std::copy_n(row + from, count, out + left);
    int64_t done = left + std::max<int64_t>(0, count);
    std::fill_n(out + done, pitch() - done, 0.f);
  }

  const WinogradGrid& grid_;
  float* const memory_;
};

}  // namespace

WinogradGrid::WinogradGrid(const ConvolutionShape& s, bool backward)
    : in_height(static_cast<int>(backward ? s.out_height : s.in_height)),
      in_width(static_cast<int>(backward ? s.out_width : s.in_width)),
      out_height(static_cast<int>(backward ? s.in_height : s.out_height)),
      out_width(static_cast<int>(backward ? s.in_width : s.out_width)),
      // dx(i) = sum_t w(t) dy(i + pad - t) = sum_q w(2 - q) dy(i + q - (2 - pad))
      row_shift(static_cast<int>(backward ? s.pad_up - 2 : -s.pad_up)),
      column_shift(static_cast<int>(backward ? s.pad_left - 2 : -s.pad_left)),
      lines((out_height + 1) / 2),
      line_tiles((out_width + 1) / 2),
      group_lines(1) {
  // As many lines as leave the fewest lanes of the last block of 16 tiles empty.
  double best = 0;
  for (int n = 1; n == 1 || n * line_tiles <= kMostTiles; n++) {
    double filled = static_cast<double>(n * line_tiles) / static_cast<double>(round_up(n * line_tiles, kBlock));
    if (filled < best || n * line_tiles < kMostTiles / 4) continue;
    best = filled;
    group_lines = n;
  }
}

bool suits_winograd(const ConvolutionShape& s) {
  bool form = s.groups == 1 && s.kernel_height == 3 && s.kernel_width == 3 && s.stride_y == 1 && s.stride_x == 1 &&
              s.dilation_y == 1 && s.dilation_x == 1;
  if (!form || std::min(s.in_channels, s.out_channels) < kFewestChannels ||
      s.in_channels * s.out_channels > kMostWeights)
    return false;
  // Both directions cut their output into tiles; the last of a row or column may be half empty.
  constexpr int64_t kSmallest = 6;
  auto fits = [](int64_t size) { return size >= kSmallest && size <= 2 * kMostTileColumns; };
  return fits(s.in_height) && fits(s.in_width) && fits(s.out_height) && fits(s.out_width) && s.pad_up <= 2 &&
         s.pad_left <= 2;
}

void transform_input(const WinogradGrid& g, const ImageSource& image, int64_t channels, int64_t first, int count,
                     const WinogradInput& layout, float* v) {
  const int64_t tiles = int64_t{count} * g.line_tiles, blocks = blocks_of(tiles), stride = blocks * kBlock + kWidth;
  float* memory = scratch(kPatches, static_cast<size_t>(Cells::floats(g) + kPlaces * stride));
  std::fill_n(memory, Cells::floats(g), 0.f);  // the last vector of a side reads past what is filled in
  Cells cells(g, memory);
  float* line = memory + Cells::floats(g);  // [place][tile] of one channel
  for (int64_t c = 0; c < channels; c++) {
    for (int done = 0; done < count;) {
      int64_t n = (first + done) / g.lines;
      int row = static_cast<int>((first + done) % g.lines), rows = std::min(g.lines - row, count - done);
      int top = 2 * row + g.row_shift;
      int held = std::max(0, std::min(top, g.in_height)),
          end = std::max(held, std::min(top + 2 * rows + 2, g.in_height));
      int64_t plane_stride;
      const float* plane = end == held ? nullptr
                                       : image.pixels(n, c, 1, int64_t{held} * g.in_width,
                                                      int64_t{end - held} * g.in_width, &plane_stride);
      cells.fill(plane, held, top, rows);
      cells.transform(int64_t{rows} * g.line_tiles, line + int64_t{done} * g.line_tiles, stride);
      done += rows;
    }
    for (int p = 0; p < kPlaces; p++) {
      std::fill(line + p * stride + tiles, line + p * stride + blocks * kBlock, 0.f);
      float* to = v + p * layout.place + c * kBlock;
      for (int64_t b = 0; b < blocks; b++) {
        __builtin_prefetch(to + b * layout.block + 2 * kBlock, 1);
        OPENBNNS_UNROLL for (int i = 0; i < kBlock; i += kWidth)
            store(to + b * layout.block + i, load(line + p * stride + b * kBlock + i));
      }
    }
  }
  for (int64_t c = channels; c < layout.channels; c++)
    for (int p = 0; p < kPlaces; p++)
      for (int64_t b = 0; b < blocks; b++)
        std::fill_n(v + p * layout.place + b * layout.block + c * kBlock, kBlock, 0.f);
}

void transform_kernel(const float* g, float* u) {
  for (int part = 0; part < kBlock; part += kWidth) {
    Vec r[4][3];
    for (int s = 0; s < 3; s++) {
      Vec a = load(g + s * kBlock + part), b = load(g + (3 + s) * kBlock + part), c = load(g + (6 + s) * kBlock + part);
      r[0][s] = a;
      r[1][s] = 0.5f * ((a + c) + b);
      r[2][s] = 0.5f * ((a + c) - b);
      r[3][s] = c;
    }
    for (int i = 0; i < 4; i++) {
      float* to = u + 4 * i * kBlock + part;
      store(to, r[i][0]);
      store(to + kBlock, 0.5f * ((r[i][0] + r[i][2]) + r[i][1]));
      store(to + 2 * kBlock, 0.5f * ((r[i][0] + r[i][2]) - r[i][1]));
      store(to + 3 * kBlock, r[i][2]);
    }
  }
}

void transform_kernel_back(const float* du, float* dg) {
  for (int part = 0; part < kBlock; part += kWidth) {
    Vec r[3][4];
    for (int s = 0; s < 4; s++) {
      Vec m[4];
      for (int i = 0; i < 4; i++) m[i] = load(du + (4 * i + s) * kBlock + part);
      Vec sum = 0.5f * (m[1] + m[2]);
      r[0][s] = m[0] + sum;
      r[1][s] = 0.5f * (m[1] - m[2]);
      r[2][s] = sum + m[3];
    }
    for (int i = 0; i < 3; i++) {
      float* to = dg + 3 * i * kBlock + part;
      Vec sum = 0.5f * (r[i][1] + r[i][2]);
      store(to, r[i][0] + sum);
      store(to + kBlock, 0.5f * (r[i][1] - r[i][2]));
      store(to + 2 * kBlock, sum + r[i][3]);
    }
  }
}

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
