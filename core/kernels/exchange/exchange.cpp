// Sums of vectors in the order of a tree, and the two halves of a normalization whose statistics are summed in between.
//
// Every element is summed by itself, in the order that the caller gives: results depend on nothing else. Channels are
// summed in the order of their samples.
#include <algorithm>

#include "common/chunks.h"
#include "kernels/kernels.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace {

constexpr int kTogether = 4;  // vectors, whose sums do not wait for each other
constexpr int64_t kStride = kTogether * kWidth;

// The two sums that are needed most: of one part, and of two.
void add_few(const TreeSum& s, int64_t first, int64_t last) {
  const float *a = s.parts[0], *b = s.parts[s.part_count - 1];
  const bool two = s.part_count == 2;
  int64_t i = first;
  for (; i + kWidth <= last; i += kWidth) store(s.out + i, two ? load(a + i) + load(b + i) : load(a + i));
  for (; i < last; i++) s.out[i] = two ? a[i] + b[i] : a[i];
}

void add_parts(const TreeSum& s, int64_t first, int64_t last) {
  if (s.part_count <= 2) return add_few(s, first, last);
  int64_t i = first;
  for (; i + kStride <= last; i += kStride) {
    Vec pending[TreeSum::kMaxPending][kTogether], sum[kTogether] = {};
    int64_t top = -1;
    for (int64_t k = 0; k < s.part_count; k++) {
      const float* part = s.parts[k] + i;
      OPENBNNS_UNROLL for (int j = 0; j < kTogether; j++) sum[j] = load(part + j * kWidth);
      for (int32_t n = s.joins[k]; n > 0; n--, top--)
        OPENBNNS_UNROLL for (int j = 0; j < kTogether; j++) sum[j] = pending[top][j] + sum[j];
      top++;
      OPENBNNS_UNROLL for (int j = 0; j < kTogether; j++) pending[top][j] = sum[j];
    }
    OPENBNNS_UNROLL for (int j = 0; j < kTogether; j++) store(s.out + i + j * kWidth, sum[j]);
  }
  for (; i < last; i++) {
    float pending[TreeSum::kMaxPending], sum = 0;
    int64_t top = -1;
    for (int64_t k = 0; k < s.part_count; k++) {
      sum = s.parts[k][i];
      for (int32_t n = s.joins[k]; n > 0; n--, top--) sum = pending[top] + sum;
      pending[++top] = sum;
    }
    s.out[i] = sum;
  }
}

// body(first, last) for pieces of so many elements.
template <class Body>
void in_pieces(int64_t elements, int threads, const Body& body) {
  const int64_t pieces = (elements + kChunkElements - 1) / kChunkElements;
  dynamic_items(elements < kSerialElements ? 1 : threads, pieces,
                [&](int64_t i) { body(i * kChunkElements, std::min(elements, (i + 1) * kChunkElements)); });
}

}  // namespace

void sum_in_tree(const TreeSum& s, int threads) {
  in_pieces(s.elements, threads, [&](int64_t first, int64_t last) { add_parts(s, first, last); });
}

// sums[c] = the sum of a over channel c, sums[channels + c] = that of a b; in double
void channel_sums(const ChannelPlanes& s, const float* a, const float* b, double* sums, int threads) {
  const bool small = s.batch * s.channels * s.pixels < kSerialElements;
  dynamic_items(small ? 1 : threads, s.channels, [&](int64_t c) {
    WideVec plain{}, product{};
    for (int64_t n = 0; n < s.batch; n++) {
      const int64_t start = (n * s.channels + c) * s.pixels;
      for (int64_t i = 0; i < s.pixels; i += kWidth) {
        const int64_t count = std::min<int64_t>(kWidth, s.pixels - i);
        const WideVec u = widen(load_partial(a + start + i, count)), v = widen(load_partial(b + start + i, count));
        plain = plain + u;
        product = product + WideVec{u.low * v.low, u.high * v.high};
      }
    }
    sums[c] = sum_lanes(plain);
    sums[s.channels + c] = sum_lanes(product);
  });
}

// y = by_a[c] * a + by_x[c] * (x - mean[c]) + plus[c]; without a the first term is not there
void channel_combination(const ChannelPlanes& s, float* y, const float* a, const float* x, const float* by_a,
                         const float* by_x, const float* mean, const float* plus, int threads) {
  const bool small = s.batch * s.channels * s.pixels < kSerialElements;
  dynamic_items(small ? 1 : threads, s.batch * s.channels, [&](int64_t plane) {
    const int64_t c = plane % s.channels, start = plane * s.pixels;
    const Vec scale = splat(by_x[c]), center = splat(mean[c]), offset = splat(plus[c]);
    const Vec outer = splat(a ? by_a[c] : 0.0f);
    for (int64_t i = 0; i < s.pixels; i += kWidth) {
      const int64_t count = std::min<int64_t>(kWidth, s.pixels - i);
      Vec sum = scale * (load_partial(x + start + i, count) - center) + offset;
      if (a) sum += outer * load_partial(a + start + i, count);
      store_partial(y + start + i, sum, count);
    }
  });
}

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
