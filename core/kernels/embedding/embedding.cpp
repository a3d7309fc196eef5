// Embedding: every index of x is replaced by the entry of the dictionary w that it names.
//
//   y[pos] = w[x[pos]] * min(1, max_norm / norm(w[x[pos]])), 0 for the padding entry
//   dw[v] = sum over positions with x[pos] = v of dy[pos], divided by their number if by_frequency
//
// Backward sorts the positions by entry first, so that each entry is summed in registers in the order of its positions
// and written once, whatever the number of threads.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "common/rows.h"
#include "common/scratch_uses.h"
#include "kernels/kernels.h"
#include "runtime/dynamic_items.h"
#include "runtime/partition.h"
#include "runtime/scratch.h"
#include "simd/stream.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace {

constexpr int64_t kGrain = 16384;       // floats for which it pays to wake a thread
constexpr int64_t kTaskFloats = 16384;  // of one task, about

int workers_for(const Call& call, int64_t floats) { return worthy_workers(call.threads, floats, kGrain); }

// Items of `floats` each that make a task.
int64_t task_items(int64_t floats) { return std::max<int64_t>(1, kTaskFloats / std::max<int64_t>(1, floats)); }

// max_norm / norm of an entry of `count` floats `step` apart if its p-norm is larger than max_norm, else 1. Sums are in
// double: squares of the largest floats do not overflow there, and for other p the largest magnitude is taken out.
float limiting_scale(const float* w, int64_t count, int64_t step, float max_norm, float p) {
  constexpr int kSums = 8;
  double sum[kSums] = {}, largest = 0;
  int64_t i = 0;
  if (p == 2.0f) {
    for (; i + kSums <= count; i += kSums)
      for (int j = 0; j < kSums; j++) sum[j] += double{w[(i + j) * step]} * w[(i + j) * step];
    for (; i < count; i++) sum[0] += double{w[i * step]} * w[i * step];
  } else if (p == 1.0f) {
    for (; i < count; i++) sum[i % kSums] += std::fabs(double{w[i * step]});
  } else {
    for (; i < count; i++) {
      double a = std::fabs(double{w[i * step]});
      largest = a > largest || a != a ? a : largest;
    }
    if (std::isfinite(p) && std::isfinite(largest) && largest > 0)
      for (i = 0; i < count; i++) sum[0] += std::pow(std::fabs(double{w[i * step]}) / largest, double{p});
  }
  double total = 0;
  for (double s : sum) total += s;
  double norm = p == 2.0f ? std::sqrt(total) : p == 1.0f ? total : largest;
  if (total > 0 && p != 2.0f && p != 1.0f) norm = largest * std::pow(total, 1.0 / p);
  return norm > max_norm ? static_cast<float>(max_norm / norm) : 1.0f;
}

template <class Index>
class Embedding : public Plan {
 public:
  explicit Embedding(const EmbeddingShape& shape) : s_(shape) {}

  void forward(const Call& call) override {
    if (s_.renormalizes_in_place && s_.max_norm != 0) renormalize(call);
    if (s_.item_major)
      look_up_columns(call);
    else
      look_up_rows(call);
  }

  void backward(const Call& call) override {
    if (!call.address[DW]) return;
    const Lookups lookups = sort_lookups(call);
    if (s_.item_major)
      add_columns(call, lookups);
    else
      add_rows(call, lookups);
  }

 private:
  const Index* indices(const Call& call, int64_t sample) const {
    return reinterpret_cast<const Index*>(call.address[X]) + sample * call.stride[X];
  }
  bool limits() const { return s_.max_norm != 0 && !s_.renormalizes_in_place; }
  float scale_of(const float* w, int64_t entry) const {
    return s_.item_major ? limiting_scale(w + entry, s_.item, s_.entries, s_.max_norm, s_.norm_type)
                         : limiting_scale(w + entry * s_.item, s_.item, 1, s_.max_norm, s_.norm_type);
  }

  // Scales every entry that is looked up, once.
  void renormalize(const Call& call) const {
    auto* done = reinterpret_cast<unsigned char*>(scratch(kLookupBounds, static_cast<size_t>(s_.entries / 4 + 1)));
    std::memset(done, 0, static_cast<size_t>(s_.entries));
    float* w = call.address[W];
    const int64_t entry_step = s_.item_major ? 1 : s_.item, item_step = s_.item_major ? s_.entries : 1;
    for (int64_t n = 0; n < call.batch; n++)
      for (int64_t pos = 0; pos < s_.positions; pos++) {
        const int64_t entry = static_cast<int64_t>(indices(call, n)[pos]);
        if (entry == s_.padding || done[entry]) continue;
        done[entry] = 1;
        const float scale = scale_of(w, entry);
        if (scale != 1.0f)
          for (int64_t i = 0; i < s_.item; i++) w[entry * entry_step + i * item_step] *= scale;
      }
  }

  void look_up_rows(const Call& call) const {
    const int64_t rows = call.batch * s_.positions;
    const int workers = workers_for(call, rows * s_.item);
    const int64_t group = even_group(rows, task_items(s_.item), workers);
    const float* w = call.address[W];
    const int64_t bytes = s_.item * 4, ahead = rows_ahead(bytes);
    dynamic_items(workers, (rows + group - 1) / group, [&](int64_t task) {
      for (int64_t row = task * group, end = std::min(rows, row + group); row < end; row++) {
        const int64_t n = row / s_.positions, pos = row % s_.positions;
        const Index* x = indices(call, n);
        const int64_t entry = static_cast<int64_t>(x[pos]);
        float* y = call.address[Y] + n * call.stride[Y] + pos * s_.item;
        if (pos + ahead < s_.positions) {
          const int64_t later = static_cast<int64_t>(x[pos + ahead]);
          if (later != s_.padding) fetch_row(w + later * s_.item, bytes);
        }
        fetch_output(y, bytes);
        if (entry == s_.padding) {
          std::fill_n(y, s_.item, 0.0f);
          continue;
        }
        const float scale = limits() ? scale_of(w, entry) : 1.0f;
        copy_scaled(w + entry * s_.item, y, scale);
      }
    });
  }

  void copy_scaled(const float* w, float* y, float scale) const {
    if (scale == 1.0f) return copy_row(y, w, s_.item * 4);
    for (int64_t i = 0; i < s_.item; i++) y[i] = w[i] * scale;
  }

  // y[i][pos] = w[i][x[pos]]
  void look_up_columns(const Call& call) const {
    const int64_t count = call.batch * s_.item;
    const int workers = workers_for(call, count * s_.positions);
    float* factor = nullptr;  // [batch][positions], below 0 for the padding entry
    if (limits() || s_.padding >= 0) {
      factor = scratch(kLookupBounds, static_cast<size_t>(call.batch * s_.positions));
      parallel_items(workers, call.batch, [&](int64_t n) {
        for (int64_t pos = 0; pos < s_.positions; pos++) {
          const int64_t entry = static_cast<int64_t>(indices(call, n)[pos]);
          const float scale = limits() && entry != s_.padding ? scale_of(call.address[W], entry) : 1.0f;
          factor[n * s_.positions + pos] = entry == s_.padding ? -1.0f : scale;
        }
      });
    }
    parallel_items(workers, count, [&](int64_t task) {
      const int64_t n = task / s_.item, i = task % s_.item;
      const Index* x = indices(call, n);
      const float* w = call.address[W] + i * s_.entries;
      float* y = call.address[Y] + n * call.stride[Y] + i * s_.positions;
      for (int64_t pos = 0; pos < s_.positions; pos++) {
        const float scale = factor ? factor[n * s_.positions + pos] : 1.0f;
        y[pos] = scale < 0.0f ? 0.0f : w[x[pos]] * scale;
      }
    });
  }

  // Where the gradients that belong to entry v begin in dy: place[bounds[v]] .. place[bounds[v + 1]], by position.
  struct Lookups {
    const int64_t* bounds;  // [entries + 1]
    const int64_t* place;   // [batch * positions]
  };

  Lookups sort_lookups(const Call& call) const {
    const int64_t step = s_.item_major ? 1 : s_.item;
    auto* bounds = reinterpret_cast<int64_t*>(scratch(kLookupBounds, static_cast<size_t>(2 * (s_.entries + 2))));
    auto* place = reinterpret_cast<int64_t*>(scratch(kLookups, static_cast<size_t>(2 * call.batch * s_.positions)));
    std::fill_n(bounds, s_.entries + 2, int64_t{0});
    for (int64_t n = 0; n < call.batch; n++)
      for (int64_t pos = 0; pos < s_.positions; pos++) bounds[indices(call, n)[pos] + 2]++;
    for (int64_t v = 2; v < s_.entries + 2; v++) bounds[v] += bounds[v - 1];
    for (int64_t n = 0; n < call.batch; n++)
      for (int64_t pos = 0; pos < s_.positions; pos++)
        place[bounds[indices(call, n)[pos] + 1]++] = n * call.stride[DY] + pos * step;
    return {bounds, place};
  }

  // The places of an entry, none for the padding entry, and what their sum is multiplied with.
  struct Entry {
    const int64_t *place, *end;
    float factor;
  };
  Entry entry_of(const Lookups& lookups, int64_t v) const {
    const int64_t *first = lookups.place + lookups.bounds[v], *last = lookups.place + lookups.bounds[v + 1];
    if (v == s_.padding || first == last) return {first, first, 1.0f};
    return {first, last, s_.by_frequency ? 1.0f / static_cast<float>(last - first) : 1.0f};
  }

  // Entries that are next to each other and have no gradient are set to 0 together: in long stretches of memory, whose
  // whole lines can be streamed.
  void add_rows(const Call& call, const Lookups& lookups) const {
    const int64_t floats = s_.entries * s_.item;
    const int workers = workers_for(call, floats);
    const int64_t group = even_group(s_.entries, task_items(s_.item), workers);
    const bool adds = call.adds(DW), streams = !adds && floats >= kStreamFrom;
    const auto row = adds ? sum_row<true, false> : streams ? sum_row<false, true> : sum_row<false, false>;
    const auto clear = streams ? clear_stretch<true> : clear_stretch<false>;
    dynamic_items(workers, (s_.entries + group - 1) / group, [&](int64_t task) {
      float* dw = call.address[DW];
      for (int64_t v = task * group, end = std::min(s_.entries, v + group); v < end;) {
        const int64_t start = v;
        Entry entry{};
        while (v < end && (entry = entry_of(lookups, v), entry.place == entry.end)) v++;
        if (!adds && v > start) clear(dw + start * s_.item, (v - start) * s_.item);
        if (v == end) break;
        row(call.address[DY], entry, dw + v * s_.item, s_.item);
        v++;
      }
      finish_stream();
    });
  }

  template <bool kStream>
  static void clear_stretch(float* dw, int64_t count) {
    if (!kStream) {
      std::memset(dw, 0, static_cast<size_t>(count) * 4);
      return;
    }
    over_vectors<kStream>(
        dw, count, [&](int64_t i) { put<kStream>(dw + i, Vec{}); },
        [&](int64_t i, int64_t lanes) { std::memset(dw + i, 0, static_cast<size_t>(lanes) * 4); });
  }

  // dw[i] (+)= factor * sum over places of dy[place + i], i < count
  template <bool kAdd, bool kStream>
  static void sum_row(const float* dy, const Entry& entry, float* dw, int64_t count) {
    const Vec factor = splat(entry.factor);
    over_vectors<kStream>(
        dw, count,
        [&](int64_t i) {
          Vec sum{};
          for (const int64_t* p = entry.place; p < entry.end; p++) sum += load(dy + *p + i);
          sum *= factor;
          put<kStream>(dw + i, kAdd ? load(dw + i) + sum : sum);
        },
        [&](int64_t i, int64_t lanes) {
          for (int64_t from = i; from < i + lanes; from += kWidth) {
            const int64_t here = std::min<int64_t>(kWidth, i + lanes - from);
            Vec sum{};
            for (const int64_t* p = entry.place; p < entry.end; p++) sum += load_partial(dy + *p + from, here);
            sum *= factor;
            store_partial(dw + from, kAdd ? load_partial(dw + from, here) + sum : sum, here);
          }
        });
  }

  // dw[i][v] (+)= factor * sum over places of dy[i * positions + place]
  void add_columns(const Call& call, const Lookups& lookups) const {
    const bool adds = call.adds(DW);
    parallel_items(workers_for(call, s_.entries * s_.item), s_.item, [&](int64_t i) {
      const float* dy = call.address[DY] + i * s_.positions;
      float* dw = call.address[DW] + i * s_.entries;
      for (int64_t v = 0; v < s_.entries; v++) {
        const Entry entry = entry_of(lookups, v);
        float sum = 0;
        for (const int64_t* p = entry.place; p < entry.end; p++) sum += dy[*p];
        sum *= entry.factor;
        dw[v] = adds ? dw[v] + sum : sum;
      }
    });
  }

  const EmbeddingShape s_;
};

}  // namespace

std::unique_ptr<Plan> make_embedding(const EmbeddingShape& shape) {
  if (shape.index_bytes == 4) return std::make_unique<Embedding<uint32_t>>(shape);
  return std::make_unique<Embedding<uint64_t>>(shape);
}

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
