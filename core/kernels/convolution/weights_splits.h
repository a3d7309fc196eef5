// How workers share a gradient of weights. No sum depends on that.
#pragma once
#include <algorithm>
#include <cstdint>

#include "gemm/micro_kernel.h"
#include "runtime/partition.h"

namespace openbnns {
namespace OPENBNNS_ISA {

// Blocks of 16 channels.
struct ChannelBlocks {
  int64_t first, count;

  int64_t channel() const { return first * kBlock; }
  int64_t channels(int64_t all) const { return std::min(all, (first + count) * kBlock) - channel(); }
};

// Each of `pieces` is cut by output channels and by input channels, and, where that does not do, into slices: rows of
// the kernel, or places of it.
class WeightsSplits {
 public:
  struct Slices {
    int64_t first, last;
    bool has(int64_t i) const { return first <= i && i < last; }
  };

  // Operations, or the time of as many: to prepare dy of all output channels and x of all input channels, which splits
  // of the other channels do again; of both, what all slices do again; and of the products.
  struct Flops {
    double out, in, again, products;
    double share(double flops) const { return flops / (out + in + products); }
  };

  WeightsSplits(int64_t pieces, int64_t out_channels, int64_t in_channels, int64_t slices, const Flops& flops,
                int threads)
      : out_blocks_(blocks_of(out_channels)),
        in_blocks_(blocks_of(in_channels)),
        slices_(slices),
        channels_(
            even_cuts(pieces, {out_tiles(), flops.share(flops.in)}, {in_blocks_, flops.share(flops.out)}, threads)),
        parts_(even_parts(pieces * channels_.first * channels_.second, slices, threads, flops.share(flops.again))) {}

  // What can be shared out.
  static int64_t units(int64_t pieces, int64_t out_channels, int64_t in_channels, int64_t slices) {
    return pieces * (blocks_of(out_channels) + kWideBlocks - 1) / kWideBlocks * blocks_of(in_channels) * slices;
  }

  int64_t count() const { return channels_.first * channels_.second * parts_; }
  // Whole tiles of a product.
  ChannelBlocks out(int64_t split) const {
    const int64_t i = split / parts_ / channels_.second, first = out_tiles() * i / channels_.first * kWideBlocks;
    return {first, std::min(out_blocks_, out_tiles() * (i + 1) / channels_.first * kWideBlocks) - first};
  }
  ChannelBlocks in(int64_t split) const {
    const int64_t i = split / parts_ % channels_.second, first = in_blocks_ * i / channels_.second;
    return {first, in_blocks_ * (i + 1) / channels_.second - first};
  }
  Slices slices(int64_t split) const {
    const int64_t i = split % parts_;
    return {slices_ * i / parts_, slices_ * (i + 1) / parts_};
  }

 private:
  int64_t out_tiles() const { return (out_blocks_ + kWideBlocks - 1) / kWideBlocks; }

  int64_t out_blocks_, in_blocks_, slices_;
  Cuts channels_;
  int64_t parts_;  // of the slices
};

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
