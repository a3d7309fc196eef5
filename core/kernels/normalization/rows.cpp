// Normalization by rows: every row of `length` elements is a set, and gamma and beta have a value for each of the
// elements of a sample [rows][length]. Layer normalization, and instance and group normalization of small planes.
#include <algorithm>

#include "common/scratch_uses.h"
#include "kernels/normalization/normalization.h"
#include "runtime/dynamic_items.h"
#include "simd/stream.h"
#include "simd/wide.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace normalization {
namespace {

constexpr int64_t kBlock = 2048;         // elements summed in single precision, lane by lane
constexpr int64_t kGroupSamples = 128;   // samples whose parameter gradients are summed in single precision
constexpr int64_t kItems = 64;           // pieces of work that backward is cut into, at most,
constexpr int64_t kItemElements = 8192;  // of this size, at least
constexpr int64_t kAheadElements = 512;  // measured before they are written, unless a row has more

// z = ((x - center) * inverse + offset) * gamma + beta; keep, if given, receives x.
template <bool kGamma, bool kBeta, bool kStream>
void row_loop(const Statistics& s, const float* x, const float* gamma, const float* beta, float* z, float* keep,
              int64_t count) {
  const Vec center = splat(s.center), inverse = splat(s.inverse), offset = splat(s.offset);
  auto value = [&](Vec v, Vec g, Vec b) {
    Vec xhat = (v - center) * inverse + offset;
    if (kGamma) xhat *= g;
    return kBeta ? xhat + b : xhat;
  };
  over_vectors<kStream, true>(
      z, count,
      [&](int64_t i) {
        Vec v = load(x + i);
        if (keep) store(keep + i, v);
        put<kStream>(z + i, value(v, kGamma ? load(gamma + i) : Vec{}, kBeta ? load(beta + i) : Vec{}));
      },
      [&](int64_t i, int64_t lanes) {
        Vec v = load_partial(x + i, lanes);
        if (keep) store_partial(keep + i, v, lanes);
        Vec g = kGamma ? load_partial(gamma + i, lanes) : Vec{}, b = kBeta ? load_partial(beta + i, lanes) : Vec{};
        store_partial(z + i, value(v, g, b), lanes);
      });
  if (kStream) finish_stream();
}

void normalize_row(const Statistics& s, const float* x, const float* gamma, const float* beta, float* z, float* keep,
                   int64_t count, bool stream) {
  using Loop = void (*)(const Statistics&, const float*, const float*, const float*, float*, float*, int64_t);
  static constexpr Loop kLoops[] = {row_loop<false, false, false>, row_loop<false, true, false>,
                                    row_loop<true, false, false>,  row_loop<true, true, false>,
                                    row_loop<false, false, true>,  row_loop<false, true, true>,
                                    row_loop<true, false, true>,   row_loop<true, true, true>};
  kLoops[stream * 4 + (gamma != nullptr) * 2 + (beta != nullptr)](s, x, gamma, beta, z, keep, count);
}

OPENBNNS_INLINE Vec load_upto(const float* p, int64_t count) {
  return count >= kWidth ? load(p) : load_partial(p, count);
}

// Sums of g = gamma * dz and of g * (x - center) over the row; with kParameters, also dbeta += dz and dgamma += dz *
// xhat, whose vectors alternate in `parameters`: apart by a multiple of 4096 bytes, each would wait for the other.
template <bool kGamma, bool kParameters>
GradientSums row_sums(const Statistics& s, const float* x, const float* dz, const float* gamma, float* parameters,
                      int64_t count) {
  const Vec center = splat(s.center), inverse = splat(s.inverse), offset = splat(s.offset);
  GradientSums sums;
  for (int64_t first = 0; first < count; first += kBlock) {
    const int64_t end = std::min(count, first + kBlock);
    int64_t i = first;
    Vec g[2] = {}, distance[2] = {};
    auto add = [&](int64_t at, Vec d, Vec v, Vec gamma_lanes, int k) {
      const Vec from_center = v - center;
      if (kParameters) {
        float* p = parameters + 2 * at;
        store(p, load(p) + d);
        store(p + kWidth, load(p + kWidth) + d * (from_center * inverse + offset));
      }
      if (kGamma) d *= gamma_lanes;
      g[k] += d;
      distance[k] += d * from_center;
    };
    for (; i + 2 * kWidth <= end; i += 2 * kWidth) OPENBNNS_UNROLL for (int k = 0; k < 2; k++) {
        int64_t at = i + k * kWidth;
        add(at, load(dz + at), load(x + at), kGamma ? load(gamma + at) : Vec{}, k);
      }
    for (; i < end; i += kWidth) {
      const int64_t left = end - i;  // dz is 0 in the lanes beyond
      add(i, load_upto(dz + i, left), load_upto(x + i, left), kGamma ? load_upto(gamma + i, left) : Vec{}, 0);
    }
    sums.add({sum_lanes(g[0] + g[1]), sum_lanes(distance[0] + distance[1])});
  }
  return sums;
}

// dx (= or +=) by_dz * gamma * dz + by_distance * (x - center) + constant
template <bool kGamma, bool kAdd>
void row_gradient(float center, const InputGradient& f, const float* x, const float* dz, const float* gamma, float* dx,
                  int64_t count) {
  const Vec c = splat(center), by_dz = splat(f.by_dz), by_distance = splat(f.by_distance), rest = splat(f.constant);
  auto value = [&](Vec d, Vec v, Vec g) {
    d *= by_dz;
    if (kGamma) d *= g;
    return d + (by_distance * (v - c) + rest);
  };
  over_vectors<false, true>(
      dx, count,
      [&](int64_t i) {
        Vec v = value(load(dz + i), load(x + i), kGamma ? load(gamma + i) : Vec{});
        store(dx + i, kAdd ? load(dx + i) + v : v);
      },
      [&](int64_t i, int64_t lanes) {
        Vec v = value(load_partial(dz + i, lanes), load_partial(x + i, lanes),
                      kGamma ? load_partial(gamma + i, lanes) : Vec{});
        store_partial(dx + i, kAdd ? load_partial(dx + i, lanes) + v : v, lanes);
      });
}

// beta or gamma, of a shape that is spread over samples [channels][height][width]
struct Spread {
  int64_t sample[3], size[3];

  bool full() const { return size[0] == sample[0] && size[1] == sample[1] && size[2] == sample[2]; }
  int64_t count() const { return size[0] * size[1] * size[2]; }

  // body(element, count, element of the parameter, step) for elements [first, first + total) of the sample: neighbours
  // that have a value each (step 1) or one for all (step 0).
  template <class Body>
  void each_run(int64_t first, int64_t total, Body body) const {
    const int64_t run = size[1] > 1 || size[2] > 1 ? sample[2] : sample[1] * sample[2];
    const int64_t lines = sample[1] * sample[2] / run, step = size[2] > 1 ? 1 : 0;
    for (int64_t element = first, count; element < first + total; element += count) {
      const int64_t index = element / run, inside = element % run, channel = index / lines, line = index % lines;
      const int64_t from = ((size[0] > 1 ? channel : 0) * size[1] + (size[1] > 1 ? line : 0)) * size[2];
      count = std::min(run - inside, first + total - element);
      body(element, count, from + inside * step, step);
    }
  }
  // A value for each of the elements [first, first + count) of a sample: the parameter itself, or spread to `room`.
  const float* values(const float* parameter, int64_t first, int64_t count, float* room) const {
    if (!parameter) return nullptr;
    if (full()) return parameter + first;
    each_run(first, count, [&](int64_t element, int64_t many, int64_t from, int64_t step) {
      if (step)
        std::copy_n(parameter + from, many, room + element - first);
      else
        std::fill_n(room + element - first, many, parameter[from]);
    });
    return room;
  }
};

class Rows final : public NormalizationForm {
 public:
  Rows(const NormalizationShape& s, const ActivationSpec& activation)
      : shape_(s), activation_(activation, s.slope_from_input), sample_(s.channels * s.height * s.width) {
    const int64_t outer[3] = {1, s.channels, s.channels * s.height};
    rows_ = s.kind == kLayerNorm ? outer[s.axis] : s.kind == kInstanceNorm ? s.channels : s.groups;
    length_ = sample_ / rows_;
    padded_ = (length_ + kWidth - 1) / kWidth * kWidth;
    of_channels_ = s.kind != kLayerNorm;
    beta_ = spread(s.beta_size);
    gamma_ = spread(s.gamma_size);
  }

  void forward(const NormalizationForward& call) override {
    const int64_t sets = call.batch * rows_;
    std::vector<Statistics> passing;  // of an inference, which must not disturb what training kept
    std::vector<Statistics>& statistics = call.training ? statistics_ : passing;
    statistics.resize(static_cast<size_t>(sets));
    Moments* moments = has_moving(shape_) ? scratch_of<Moments>(kNormalizationSums, sets) : nullptr;
    const bool measures = !(uses_moving_mean(shape_, call) && uses_moving_variance(shape_, call));

    const auto measure = [&](int64_t n, int64_t r) {
      const int64_t set = n * rows_ + r;
      const Moments m = measures ? moments_of(call.x.sample(n) + r * length_, length_) : Moments{};
      statistics[static_cast<size_t>(set)] = choose_statistics(shape_, call, m, r);
      if (moments) moments[set] = m;
    };
    each_row(call, measure, [&](int64_t n, int64_t r, const RowParameters& parameters) {
      write_row(call, n, r, statistics[static_cast<size_t>(n * rows_ + r)], parameters,
                call.training ? call.keep.sample(n) + r * length_ : nullptr);
    });
    if (moments) update_moving(shape_, call, moments);
  }

  void repeat(const NormalizationForward& call) const override {
    const auto nothing = [](int64_t, int64_t) {};
    each_row(call, nothing, [&](int64_t n, int64_t r, const RowParameters& parameters) {
      write_row(call, n, r, statistics_[static_cast<size_t>(n * rows_ + r)], parameters, nullptr);
    });
  }

  // y = f(z), z = gamma * xhat + beta: dbeta = sum dz, dgamma = sum dz * xhat, both over the samples; with g = gamma *
  // dz, xhat = (x - mean) * inverse: dx = (g - mean(g) - xhat * mean(g * xhat)) * inverse, means over the row.
  void backward(const NormalizationBackward& call) const override {
    const bool wants_parameters = call.dbeta || call.dgamma;
    const Cut cut = cut_into_items(call.batch);
    // Sums over groups of the samples: [rows][padded length], vectors of dbeta and of dgamma in turn, or one of each
    // for every channel.
    const int64_t part = 2 * rows_ * padded_;
    float* elements = nullptr;
    GradientSums* channels = nullptr;
    if (wants_parameters && of_channels_)
      channels = scratch_of<GradientSums>(kNormalizationSums, cut.groups * shape_.channels);
    else if (wants_parameters)
      elements = scratch(kNormalizationSums, static_cast<size_t>(cut.groups * part));

    const int workers = workers_for(call.batch * sample_, call.threads);
    dynamic_items(workers, cut.groups * cut.row_blocks, [&](int64_t item) {
      const Block block = block_of(cut, item, call.batch);
      float* dz = activation_.identity() ? nullptr : scratch(kActivated, static_cast<size_t>(length_));
      float* own_sums = channels ? scratch(kNormalizationRow, static_cast<size_t>(2 * padded_)) : nullptr;
      for (int64_t r = block.first_row; r < block.last_row; r++) {
        const RowParameters parameters = parameters_of(call.beta, call.gamma, r, room_for_parameters());
        float* sums = elements ? elements + block.group * part + 2 * r * padded_ : own_sums;
        if (sums) std::fill_n(sums, 2 * padded_, 0.0f);
        for (int64_t n = block.first; n < block.last; n++) backward_row(call, n, r, parameters, dz, sums);
        if (channels) sum_channels(sums, channels + block.group * shape_.channels + r * (shape_.channels / rows_));
      }
    });
    if (channels) write_channel_gradients(call, channels, cut.groups);
    if (!elements) return;
    add_parts(elements, part, cut.groups, workers);
    write_parameter_gradient(call.dbeta, call.add_dbeta, beta_, elements);
    write_parameter_gradient(call.dgamma, call.add_dgamma, gamma_, elements + kWidth);
  }

 private:
  struct Cut {
    int64_t groups, row_blocks;  // of samples; of the rows of a sample
  };
  struct Block {
    int64_t group, first, last, first_row, last_row;  // samples and rows of an item
  };
  Block block_of(const Cut& cut, int64_t item, int64_t batch) const {
    const int64_t group = item / cut.row_blocks, block = item % cut.row_blocks;
    return {group, batch * group / cut.groups, batch * (group + 1) / cut.groups, rows_ * block / cut.row_blocks,
            rows_ * (block + 1) / cut.row_blocks};
  }

  // Null, or a value for each element of a row.
  struct RowParameters {
    const float *beta, *gamma;
  };
  float* room_for_parameters() const {
    return beta_.full() && gamma_.full() ? nullptr : scratch(kNormalizationValues, static_cast<size_t>(2 * length_));
  }
  RowParameters parameters_of(const float* beta, const float* gamma, int64_t row, float* room) const {
    return {beta_.values(beta, row * length_, length_, room),
            gamma_.values(gamma, row * length_, length_, room + length_)};
  }

  Spread spread(const int64_t* layer_size) const {
    Spread s{{shape_.channels, shape_.height, shape_.width}, {shape_.channels, 1, 1}};
    if (shape_.kind == kLayerNorm) std::copy_n(layer_size, 3, s.size);
    return s;
  }

  // measure(sample, row), and then write(sample, row, its parameters), for all rows. Parameters of channels are spread
  // for all samples of an item, which are those of the same item backward; the others are mostly there already, and
  // rows are best taken as they lie in memory. Short rows are measured together, a few at a time: divisions and roots
  // of one row do not wait for those of another, but what is written waits for all of them.
  template <class Measure, class Write>
  void each_row(const NormalizationForward& call, Measure measure, Write write) const {
    const int workers = workers_for(call.batch * sample_, call.threads);
    const int64_t few = std::max<int64_t>(1, kAheadElements / length_);
    if (of_channels_) {
      const Cut cut = cut_into_items(call.batch);
      return dynamic_items(workers, cut.groups * cut.row_blocks, [&](int64_t item) {
        const Block block = block_of(cut, item, call.batch);
        for (int64_t r = block.first_row; r < block.last_row; r++) {
          const RowParameters parameters = parameters_of(call.beta, call.gamma, r, room_for_parameters());
          for (int64_t first = block.first; first < block.last; first += few) {
            const int64_t last = std::min(block.last, first + few);
            for (int64_t n = first; n < last; n++) measure(n, r);
            for (int64_t n = first; n < last; n++) write(n, r, parameters);
          }
        }
      });
    }
    const int64_t sets = call.batch * rows_, each = std::max<int64_t>(1, kItemElements / length_);
    dynamic_items(workers, (sets + each - 1) / each, [&](int64_t item) {
      float* room = room_for_parameters();
      RowParameters parameters;
      const int64_t end = std::min(sets, (item + 1) * each);
      for (int64_t first = item * each; first < end; first += few) {
        const int64_t last = std::min(end, first + few);
        for (int64_t s = first; s < last; s++) measure(s / rows_, s % rows_);
        for (int64_t s = first; s < last; s++) {
          if (s == item * each || rows_ > 1) parameters = parameters_of(call.beta, call.gamma, s % rows_, room);
          write(s / rows_, s % rows_, parameters);
        }
      }
    });
  }

  // y of row r of sample n; keep, if given and not x itself, receives x.
  void write_row(const NormalizationForward& call, int64_t n, int64_t r, const Statistics& s,
                 const RowParameters& parameters, float* keep) const {
    const bool stream = activation_.identity() && call.batch * sample_ >= stream_from();
    const int64_t at = r * length_;
    const auto [beta, gamma] = parameters;
    const float* x = call.x.sample(n) + at;
    float* y = call.y.sample(n) + at;
    if (keep == x) keep = nullptr;
    for (int64_t i = 0; i < length_; i += kBlock) {
      const int64_t count = std::min(kBlock, length_ - i);
      normalize_row(s, x + i, gamma ? gamma + i : nullptr, beta ? beta + i : nullptr, y + i, keep ? keep + i : nullptr,
                    count, stream);
      if (!activation_.identity()) activation_.forward(y + i, y + i, count, false);
    }
  }

  // By sizes alone, so that sums do not depend on the number of threads.
  Cut cut_into_items(int64_t batch) const {
    int64_t needed = (batch + kGroupSamples - 1) / kGroupSamples;
    if (workers_for(batch * sample_, 2) == 1) return {needed, 1};
    const int64_t items = std::min(kItems, (batch * sample_ + kItemElements - 1) / kItemElements);
    int64_t row_blocks = std::min(rows_, items);
    // Groups of samples have sums of their own: of 4 samples, or of 16 where that makes more groups than a few.
    constexpr int64_t kFewGroups = 16;
    const int64_t most = std::max(std::min(kFewGroups, batch / 4), batch / 16);
    int64_t wished = std::min((items + row_blocks - 1) / row_blocks, std::max<int64_t>(1, most));
    return {std::max(needed, wished), row_blocks};
  }

  // sums, if given: vectors of dbeta and of dgamma in turn
  void backward_row(const NormalizationBackward& call, int64_t n, int64_t r, const RowParameters& parameters,
                    float* dz_room, float* sums) const {
    const Statistics& s = statistics_[static_cast<size_t>(n * rows_ + r)];
    const auto [beta, gamma] = parameters;
    const int64_t at = r * length_;
    const float *x = call.x.sample(n) + at, *dz = call.dy.sample(n) + at;
    if (!activation_.identity()) {
      const float* source = dz_room;
      if (activation_.from_input() || !call.y.data) {
        normalize_row(s, x, gamma, beta, dz_room, nullptr, length_, false);
        if (!activation_.from_input()) activation_.forward(dz_room, dz_room, length_, false);
      } else {
        source = call.y.sample(n) + at;
      }
      activation_.backward(source, dz, dz_room, length_);
      dz = dz_room;
    }
    auto measure = sums ? (gamma ? row_sums<true, true> : row_sums<false, true>)
                        : (gamma ? row_sums<true, false> : row_sums<false, false>);
    GradientSums g = measure(s, x, dz, gamma, sums, length_);
    if (!call.dx.data) return;
    const double count = static_cast<double>(length_);
    double mean_g_xhat =
        (g.dz_distance * static_cast<double>(s.inverse) + g.dz * static_cast<double>(s.offset)) / count;
    // a set of one element has no slope: exactly, not up to rounding
    InputGradient f = length_ == 1 ? InputGradient{0, 0, 0} : make_input_gradient(s, 1, g.dz / count, mean_g_xhat);
    auto write = gamma ? (call.add_dx ? row_gradient<true, true> : row_gradient<true, false>)
                       : (call.add_dx ? row_gradient<false, true> : row_gradient<false, false>);
    write(s.center, f, x, dz, gamma, call.dx.sample(n) + at, length_);
  }

  // The sums of the channels of a row, whose elements are as row_sums leaves them.
  void sum_channels(const float* sums, GradientSums* channels) const {
    const int64_t pixels = shape_.height * shape_.width;
    for (int64_t first = 0; first < length_; first += pixels, channels++) {
      WideVec dbeta{}, dgamma{};
      for (int64_t i = first, count; i < first + pixels; i += count) {
        const int64_t lane = i % kWidth;
        count = std::min(first + pixels - i, kWidth - lane);
        const float* from = sums + 2 * (i - lane) + lane;
        dbeta = dbeta + widen(load_upto(from, count));
        dgamma = dgamma + widen(load_upto(from + kWidth, count));
      }
      *channels = {sum_lanes(dbeta), sum_lanes(dgamma)};
    }
  }

  // sums: [groups][channels]
  void write_channel_gradients(const NormalizationBackward& call, const GradientSums* sums, int64_t groups) const {
    for (int64_t c = 0; c < shape_.channels; c++) {
      GradientSums total;
      for (int64_t g = 0; g < groups; g++) total.add(sums[g * shape_.channels + c]);
      if (call.dbeta) call.dbeta[c] = static_cast<float>(total.dz) + (call.add_dbeta ? call.dbeta[c] : 0);
      if (call.dgamma) call.dgamma[c] = static_cast<float>(total.dz_distance) + (call.add_dgamma ? call.dgamma[c] : 0);
    }
  }

  // The first part becomes the sum of all, `part` floats apart, taken in double precision.
  static void add_parts(float* parts, int64_t part, int64_t groups, int workers) {
    constexpr int64_t kFloats = 256, kMost = 32;
    if (groups == 1) return;
    workers = workers_for(part * groups, workers);
    const int64_t each = even_group((part + kFloats - 1) / kFloats, kMost, workers) * kFloats;
    dynamic_items(workers, (part + each - 1) / each, [&](int64_t block) {
      for (int64_t i = block * each; i < std::min(part, (block + 1) * each); i += kWidth) {
        WideVec sum{};
        for (int64_t g = 0; g < groups; g++) sum = sum + widen(load(parts + g * part + i));
        store(parts + i, narrow(sum));
      }
    });
  }

  // gradient (= or +=) every other vector of `sums`, rows padded, summed to the shape of the parameter
  void write_parameter_gradient(float* gradient, bool add, const Spread& spread, const float* sums) const {
    if (!gradient) return;
    if (spread.full()) {
      for (int64_t r = 0; r < rows_; r++)
        for (int64_t i = 0; i < length_; i += kWidth) {
          const int64_t left = std::min<int64_t>(kWidth, length_ - i);
          float* to = gradient + r * length_ + i;
          Vec sum = load(sums + 2 * (r * padded_ + i));
          store_partial(to, add ? sum + load_partial(to, left) : sum, left);
        }
      return;
    }
    double* totals = scratch_of<double>(kActivated, spread.count());
    std::fill_n(totals, spread.count(), 0.0);
    spread.each_run(0, sample_, [&](int64_t element, int64_t count, int64_t to, int64_t step) {
      for (int64_t i = element; i < element + count; i++, to += step) {
        const int64_t at = i / length_ * padded_ + i % length_;
        totals[to] += static_cast<double>(sums[at / kWidth * 2 * kWidth + at % kWidth]);
      }
    });
    for (int64_t i = 0; i < spread.count(); i++) gradient[i] = static_cast<float>(totals[i]) + (add ? gradient[i] : 0);
  }

  const NormalizationShape shape_;
  const FusedActivation activation_;
  const int64_t sample_;
  int64_t rows_, length_, padded_;  // of a sample; floats of a row; the same in whole vectors
  bool of_channels_;                // a beta and gamma for each channel, all of whose elements belong to one row
  Spread beta_, gamma_;
  std::vector<Statistics> statistics_;  // [batch][rows] of the latest training forward
};

}  // namespace

std::unique_ptr<NormalizationForm> make_rows(const NormalizationShape& shape, const ActivationSpec& activation) {
  return std::make_unique<Rows>(shape, activation);
}

}  // namespace normalization
}  // namespace OPENBNNS_ISA
}  // namespace openbnns
