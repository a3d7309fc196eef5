#include "kernels/normalization/pooled.h"

#include <limits>

#include "common/planes.h"
#include "common/scratch_uses.h"
#include "kernels/pooling/maximum.h"
#include "runtime/dynamic_items.h"
#include "simd/math.h"
#include "simd/pairs.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace {

using namespace normalization;
using pooling::keep_where;
using pooling::wins;

constexpr int64_t kSmallPlane = 128;  // pixels; smaller ones have loops of their own in columns.cpp
constexpr int64_t kRun = 4096;        // pixels that a worker takes at a time
constexpr int64_t kFewRows = 8;       // of windows, for each chunk of a long row
constexpr int64_t kParts = 2048;      // sums that are put together in parallel
constexpr int32_t kNone = 4;          // in place of a winner: the activation has no slope there

#define OPENBNNS_LAMBDA __attribute__((always_inline))

// A byte for every lane. Compilers take such conversions apart lane by lane.
OPENBNNS_INLINE IntVec load_bytes(const int8_t* p) {
#if defined(__AVX512F__)
  return reinterpret_cast<IntVec>(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
#elif defined(__AVX2__)
  return reinterpret_cast<IntVec>(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
#else
  return IntVec{p[0], p[1], p[2], p[3]};
#endif
}
OPENBNNS_INLINE void store_bytes(int8_t* p, IntVec v) {
#if defined(__AVX512F__)
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(reinterpret_cast<__m512i>(v)));
#elif defined(__AVX2__)
  const __m256i lanes = reinterpret_cast<__m256i>(v);
  const __m128i half = _mm_packs_epi32(_mm256_castsi256_si128(lanes), _mm256_extracti128_si256(lanes, 1));
  _mm_storel_epi64(reinterpret_cast<__m128i*>(p), _mm_packs_epi16(half, half));
#else
  for (int i = 0; i < kWidth; i++) p[i] = static_cast<int8_t>(v[i]);
#endif
}

// Masked instructions, where there are some, do for whole vectors, too.
OPENBNNS_INLINE Vec load_first(const float* p, int64_t count) {
  return kWidth < 16 && count == kWidth ? load(p) : load_partial(p, count);
}
OPENBNNS_INLINE void store_first(float* p, Vec v, int64_t count) {
  if (kWidth < 16 && count == kWidth)
    store(p, v);
  else
    store_partial(p, v, count);
}

}  // namespace

// kWidth windows at most: of one row of windows, or of two rows that fit half a vector each. Pixels come in two pieces,
// one for each half of the lanes, each with the row below it.
struct PooledNormalizer::Chunk {
  int64_t number;         // in the plane
  int64_t low, high;      // first pixel of either piece
  int64_t lows, highs;    // pixels of either, in one row
  int64_t window, width;  // first window; pixels of a row of the image

  bool side_by_side() const { return lows == kWidth || highs == 0; }  // whether its windows fill lanes from the first

  OPENBNNS_INLINE VecPair cells(const float* x) const {
    Vec a = load_first(x + low, lows), b = load_first(x + high, highs);
    return {evens(a, b), odds(a, b)};
  }
  OPENBNNS_INLINE void store_cells(float* x, VecPair v) const {
    store_first(x + low, interleave_low(v.even, v.odd), lows);
    store_first(x + high, interleave_high(v.even, v.odd), highs);
  }
  // A number for every window; lanes without one are zero / not stored.
  OPENBNNS_INLINE Vec windows(const float* y) const {
    const int64_t first = lows / 2, second = highs / 2;
    if (side_by_side()) return load_first(y + window, first + second);
#if defined(__AVX512F__)
    return _mm512_maskz_expand_ps(lanes(), load_partial(y + window, first + second));
#else
    float lane[kWidth] = {};
    std::memcpy(lane, y + window, static_cast<size_t>(first) * sizeof(float));
    std::memcpy(lane + kWidth / 2, y + window + first, static_cast<size_t>(second) * sizeof(float));
    return load(lane);
#endif
  }
  OPENBNNS_INLINE void store_windows(float* y, Vec v) const {
    const int64_t first = lows / 2, second = highs / 2;
    if (side_by_side()) return store_first(y + window, v, first + second);
#if defined(__AVX512F__)
    store_partial(y + window, _mm512_maskz_compress_ps(lanes(), v), first + second);
#else
    float lane[kWidth];
    store(lane, v);
    std::memcpy(y + window, lane, static_cast<size_t>(first) * sizeof(float));
    std::memcpy(y + window + first, lane + kWidth / 2, static_cast<size_t>(second) * sizeof(float));
#endif
  }
#if defined(__AVX512F__)
  OPENBNNS_INLINE __mmask16 lanes() const {
    return static_cast<__mmask16>(((1u << lows / 2) - 1) | ((1u << highs / 2) - 1) << kWidth / 2);
  }
#endif
};

// Of one plane.
struct PooledNormalizer::Winners {
  float* x;
  int8_t* which;
};

bool PooledNormalizer::takes(const NormalizationShape& s, const ActivationSpec& f) {
  const bool plain = is_identity(f) || (f.function == 1 && !s.slope_from_input);
  return s.kind == kBatchNorm && plain && s.height >= 2 && s.width >= 2 && s.height * s.width >= kSmallPlane;
}

PooledNormalizer::PooledNormalizer(const NormalizationShape& s, const ActivationSpec& f)
    : shape_(s),
      floor_(is_identity(f) ? -std::numeric_limits<float>::infinity() : 0.0f),
      pixels_(s.height * s.width),
      out_height_(s.height / 2),
      out_width_(s.width / 2),
      out_pixels_(out_height_ * out_width_),
      chunk_rows_(2 * out_width_ <= kWidth ? 2 : 1),
      row_chunks_((out_width_ + kWidth - 1) / kWidth),
      chunks_((out_height_ + chunk_rows_ - 1) / chunk_rows_ * row_chunks_) {}

Moments* PooledNormalizer::plane_moments(int64_t batch) const {
  moments_.resize(static_cast<size_t>(batch * shape_.channels));
  return moments_.data();
}

// Windows of rows [first, last) of a plane; `first` is even where two rows make a chunk. Chunks of equal width follow
// each other: in all rows if a row has one chunk, else in a few.
template <class Body>
OPENBNNS_INLINE void PooledNormalizer::for_each_chunk(int64_t first, int64_t last, Body body) const {
  const int64_t width = shape_.width, row = 2 * width, step = chunk_rows_;
  const int64_t few = row_chunks_ == 1 ? std::max<int64_t>(1, last - first) : kFewRows;
  for (int64_t top = first; top < last; top += few)
    for (int64_t c = 0; c < out_width_; c += kWidth) {
      const int64_t cells = 2 * std::min<int64_t>(kWidth, out_width_ - c), end = std::min(last, top + few);
      const bool two = step == 2;
      Chunk chunk{top / step * row_chunks_ + c / kWidth,
                  top * row + 2 * c,
                  top * row + 2 * c + (two ? row : kWidth),
                  std::min<int64_t>(cells, kWidth),
                  two ? cells : std::max<int64_t>(0, cells - kWidth),
                  top * out_width_ + c,
                  width};
      for (int64_t r = top; r < end; r += step) {
        if (two && r + 1 == last) chunk.highs = 0;
        body(chunk);
        chunk.number += row_chunks_;
        chunk.low += step * row;
        chunk.high += step * row;
        chunk.window += step * out_width_;
      }
    }
}

// body(sample, channel, plane), samples shared out as in the convolutions; `back`: beginning with what a sweep before
// this one left in the caches.
template <class Body>
void PooledNormalizer::for_each_plane(int64_t batch, int threads, bool back, Body body) const {
  run_planes(
      batch, threads, back,
      [](void* c, int64_t n, int64_t channel, int64_t plane) { (*static_cast<Body*>(c))(n, channel, plane); }, &body);
}

void PooledNormalizer::run_planes(int64_t batch, int threads, bool back, PlaneTask task, void* context) const {
  const int64_t planes = batch * shape_.channels, each = std::max<int64_t>(1, kRun / pixels_);
  const int64_t items = (planes + each - 1) / each;
  const int workers = workers_for(planes * pixels_, threads);
  dynamic_items(workers, items, [&](int64_t i) {
    const int64_t first = (back ? mirrored(i, items, workers) : i) * each, last = std::min(planes, first + each);
    int64_t n = first / shape_.channels, c = first % shape_.channels;
    for (int64_t plane = first; plane < last; plane++) {
      task(context, n, c, plane);
      if (++c == shape_.channels) c = 0, n++;
    }
  });
}

// body(channel) on `parts` numbers of each
template <class Body>
void PooledNormalizer::for_each_channel(int64_t parts, int threads, Body body) const {
  const int64_t channels = shape_.channels;
  parallel_items(parts * channels >= kParts ? threads : 1, channels, body);
}

PooledNormalizer::Winners PooledNormalizer::winners_of(int64_t plane) const {
  const int64_t first = plane * chunks_ * kWidth;
  return {winning_x_ + first, winner_ + first};
}

void PooledNormalizer::forward(const NormalizationForward& call) {
  const int64_t channels = shape_.channels, planes = call.batch * channels;
  std::vector<Statistics> passing;  // of an inference, which must not disturb what training kept
  std::vector<Statistics>& statistics = call.training ? statistics_ : passing;
  statistics.resize(static_cast<size_t>(channels));
  const bool measures = !(uses_moving_mean(shape_, call) && uses_moving_variance(shape_, call));
  Moments* moments = call.measured ? moments_.data() : scratch_of<Moments>(kNormalizationSums, planes);
  if (measures && !call.measured)
    for_each_plane(call.batch, call.threads, false, [&](int64_t n, int64_t c, int64_t plane) {
      moments[plane] = moments_of(call.x.sample(n) + c * pixels_, pixels_);
    });
  for_each_channel(measures ? call.batch : 0, call.threads, [&](int64_t c) {
    const Moments total =
        merged(measures ? call.batch : 0, [&](int64_t n) -> const Moments& { return moments[n * channels + c]; });
    statistics[static_cast<size_t>(c)] = choose_statistics(shape_, call, total, c);
    moments[c] = total;  // in place of its first part
  });
  if (call.training) {
    trained_batch_ = 0;
    const int64_t kept = planes * chunks_ * kWidth;
    winning_x_ = memory_.room(kept + kept / 4 + kWidth, nullptr);  // rows are read beyond their last window
    winner_ = reinterpret_cast<int8_t*>(winning_x_ + kept);
  }
  for_each_plane(call.batch, call.threads, true, [&](int64_t n, int64_t c, int64_t plane) {
    const Affine a =
        make_affine(statistics[static_cast<size_t>(c)], call.gamma ? call.gamma[c] : 1, call.beta ? call.beta[c] : 0);
    const float* x = call.x.sample(n) + c * pixels_;
    float* y = call.y.sample(n) + c * out_pixels_;
    pool_plane(a, x, y, call.training ? winners_of(plane) : Winners{});
  });
  update_moving(shape_, call, moments);
  if (call.training) trained_batch_ = call.batch;
}

// winners: null in an inference
void PooledNormalizer::pool_plane(Affine a, const float* x, float* y, const Winners& winners) const {
  const Vec center = splat(a.center), scale = splat(a.scale), shift = splat(a.shift), floor = splat(floor_);
  auto value = [&](Vec v) { return math::max(floor, (v - center) * scale + shift); };
  for_each_chunk(0, out_height_, [&](const Chunk& chunk) OPENBNNS_LAMBDA {
    const VecPair upper = chunk.cells(x), lower = chunk.cells(x + chunk.width);
    const Vec cells[4] = {upper.even, upper.odd, lower.even, lower.odd};
    Vec best = value(cells[0]), best_x = cells[0];
    IntVec which{};
    OPENBNNS_UNROLL for (int k = 1; k < 4; k++) {
      const Vec z = value(cells[k]);
      const IntVec mask = wins(z, best);
      best = select(mask, z, best);
      best_x = select(mask, cells[k], best_x);
      which = mask ? splat_int(k) : which;
    }
    chunk.store_windows(y, best);
    if (!winners.x) return;
    // NaN has NaN for a gradient; best_x tells of it
    store(winners.x + chunk.number * kWidth, select(best != best, best, best_x));
    store_bytes(winners.which + chunk.number * kWidth, best <= floor ? splat_int(kNone) : which);
  });
}

// y = max z: dz = dy where z won; z = f(t): dt = dz where it has a slope, t = gamma * xhat + beta: dbeta = sum dt,
// dgamma = sum dt * xhat; with g = gamma * dt, xhat = (x - mean) * inverse:
// dx = (g - mean(g) - xhat * mean(g * xhat)) * inverse, means over the channel.
PooledNormalizer::Backward PooledNormalizer::sum_gradients(const NormalizationBackward& call) const {
  const int64_t channels = shape_.channels;
  GradientSums* sums = scratch_of<GradientSums>(kNormalizationSums, call.batch * channels);
  InputGradient* gradients = scratch_of<InputGradient>(kNormalizationValues, channels);
  for_each_plane(call.batch, call.threads, false, [&](int64_t n, int64_t c, int64_t plane) {
    const float* dy = call.dy.sample(n) + c * out_pixels_;
    sums[plane] = plane_sums(statistics_[static_cast<size_t>(c)].center, dy, winners_of(plane));
  });
  const double count = static_cast<double>(call.batch * pixels_);
  for_each_channel(call.batch, call.threads, [&](int64_t c) {
    const Statistics& s = statistics_[static_cast<size_t>(c)];
    GradientSums total;
    for (int64_t n = 0; n < call.batch; n++) total.add(sums[n * channels + c]);
    const double dgamma = total.dz_distance * static_cast<double>(s.inverse) + total.dz * static_cast<double>(s.offset);
    const double gamma = call.gamma ? static_cast<double>(call.gamma[c]) : 1;
    gradients[c] = make_input_gradient(s, gamma, gamma * total.dz / count, gamma * dgamma / count);
    if (call.dbeta) call.dbeta[c] = static_cast<float>(total.dz) + (call.add_dbeta ? call.dbeta[c] : 0);
    if (call.dgamma) call.dgamma[c] = static_cast<float>(dgamma) + (call.add_dgamma ? call.dgamma[c] : 0);
  });
  return {call.x, call.dy, gradients};
}

void PooledNormalizer::backward(const NormalizationBackward& call) const {
  const Backward from = sum_gradients(call);
  if (!call.dx.data) return;
  for_each_plane(call.batch, call.threads, true, [&](int64_t n, int64_t c, int64_t) {
    input_gradient(n, c, 0, pixels_, from, call.dx.sample(n) + c * pixels_);
  });
}

GradientSums PooledNormalizer::plane_sums(float center, const float* dy, const Winners& winners) const {
  const Vec c = splat(center);
  GradientSums sums;
  Vec first{}, second{};
  for_each_chunk(0, out_height_, [&](const Chunk& chunk) OPENBNNS_LAMBDA {
    const Vec x = load(winners.x + chunk.number * kWidth);
    Vec dz = keep_where(load_bytes(winners.which + chunk.number * kWidth) != kNone, chunk.windows(dy));
    dz = select(x != x, x, dz);
    first += dz;
    second += dz * (x - c);
    if (chunk.number % kSingleSums != kSingleSums - 1) return;
    sums.add({sum_lanes(first), sum_lanes(second)});
    first = second = Vec{};
  });
  sums.add({sum_lanes(first), sum_lanes(second)});
  return sums;
}

void PooledNormalizer::input_gradient(int64_t n, int64_t channel, int64_t first, int64_t count, const Backward& from,
                                      float* dx) const {
  const int64_t width = shape_.width, band = 2 * chunk_rows_, rows = 2 * out_height_;
  const InputGradient& g = from.gradients[channel];
  const Vec c = splat(statistics_[static_cast<size_t>(channel)].center);
  const Vec by_dz = splat(g.by_dz), by_distance = splat(g.by_distance), rest = splat(g.constant);
  const float *x = from.x.sample(n) + channel * pixels_, *dy = from.dy.sample(n) + channel * out_pixels_;
  const Winners winners = winners_of(n * shape_.channels + channel);
  dx -= first;
  auto alone = [&](Vec v) OPENBNNS_LAMBDA { return by_distance * (v - c) + rest; };  // of a pixel that won nothing
  // whole bands of rows; those cut off at either end come row by row
  int64_t top = 0, begin = 0, middle = rows, end = shape_.height;
  if (count != pixels_) {
    top = first / width;
    end = (first + count) / width;
    begin = std::min(end, round_up(top, band));
    middle = std::max(begin, end >= rows ? rows : end / band * band);
  }
  for_each_chunk(begin / 2, middle / 2, [&](const Chunk& chunk) OPENBNNS_LAMBDA {
    prefetch(x + chunk.low + pixels_, 4 * kWidth);  // of the plane that mostly comes next
    const Vec dz = chunk.windows(dy);
    const IntVec which = load_bytes(winners.which + chunk.number * kWidth);
    auto value = [&](Vec v, int k) OPENBNNS_LAMBDA { return by_dz * keep_where(which == k, dz) + alone(v); };
    const VecPair upper = chunk.cells(x), lower = chunk.cells(x + chunk.width);
    chunk.store_cells(dx, {value(upper.even, 0), value(upper.odd, 1)});
    chunk.store_cells(dx + chunk.width, {value(lower.even, 2), value(lower.odd, 3)});
  });
  auto write_alone = [&](int64_t from, int64_t to) {
    for (int64_t i = from; i < to; i += kWidth)
      store_first(dx + i, alone(load_first(x + i, std::min<int64_t>(kWidth, to - i))),
                  std::min<int64_t>(kWidth, to - i));
  };
  for (int64_t r = top; r < end; r++) {
    if (r == begin) r = middle;  // done above
    if (r >= std::min(end, rows)) break;
    for (int64_t w = 0; w < out_width_; w += kWidth / 2) {
      const int64_t number = r / 2 * out_width_ + w, cells = std::min<int64_t>(kWidth, 2 * (out_width_ - w));
      const int64_t place = r / 2 / chunk_rows_ * row_chunks_ * kWidth + r / 2 % chunk_rows_ * (kWidth / 2) + w;
      const Vec dz = load_partial(dy + number, cells / 2), which = from_bits(load_bytes(winners.which + place));
      const IntVec won = bits(interleave_low(which, which)) == 2 * static_cast<int32_t>(r % 2) + (lane_numbers() & 1);
      const int64_t i = r * width + 2 * w;
      store_first(dx + i, by_dz * keep_where(won, interleave_low(dz, dz)) + alone(load_first(x + i, cells)), cells);
    }
  }
  // pixels of odd sizes that no window has: the last column, and the last row
  for (int64_t r = top; width % 2 && r < std::min(end, rows); r++) write_alone((r + 1) * width - 1, (r + 1) * width);
  write_alone(std::max(top, std::min(rows, end)) * width, end * width);
}

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
