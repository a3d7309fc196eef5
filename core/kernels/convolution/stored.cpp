// Forward convolutions on Float16, BFloat16 and bytes. The kernels are those of floats: they ask for pixels of the
// input, which become floats then, weights become floats when they are packed, or in parts that stay in the cache, and
// planes of results are converted when they are complete. Bytes by bytes have exact sums: of integers, or of floats
// where these are exact.
#include <algorithm>
#include <utility>

#include "common/kept_weights.h"
#include "common/lazy.h"
#include "common/scratch_uses.h"
#include "common/stored_rows.h"
#include "gemm/micro_kernel.h"
#include "kernels/activation/activation.h"
#include "kernels/activation/rows.h"
#include "kernels/convolution/byte_groups.h"
#include "kernels/convolution/depthwise.h"
#include "kernels/convolution/depthwise_bytes.h"
#include "kernels/convolution/kernels.h"
#include "kernels/convolution/stored_results.h"
#include "kernels/kernels.h"
#include "runtime/dynamic_items.h"
#include "runtime/partition.h"
#include "runtime/scratch.h"
#include "runtime/weights_version.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace {

constexpr int64_t kPartFloats = int64_t{1} << 19;   // of weights at a time (2 MB)
constexpr int64_t kPartChannels = 32;               // of the output: such parts have multiples of it
constexpr int64_t kSumFloats = int64_t{1} << 19;    // of sums before they are converted (2 MB), if a sample has no more
constexpr int64_t kFewSums = int64_t{1} << 17;      // of a thread, of few channels: nothing else takes as long
constexpr int64_t kPlaneFloats = int64_t{1} << 16;  // of the images of a depthwise convolution at a time (256 KB)
constexpr int64_t kTaskResults = 16384;             // of a depthwise convolution on planes as they are stored
constexpr double kExactFloats = 1 << 24;            // sums of integers up to this are exact
constexpr int64_t kFewInputs = 8;                   // channels, which groups of bytes would mostly fill with zeros
constexpr double kDecodeFlops = 4;                  // operations in the time that converting a number takes

// Pixels of a stored image as floats.
class DecodedPixels final : public PixelMaker {
 public:
  DecodedPixels(const Element& element, const void* data, int64_t stride, int64_t plane)
      : element_(element), data_(data), stride_(stride), plane_(plane) {}

  void make(int64_t n, int64_t channel, int64_t first, int64_t count, float* pixels) const override {
    decode(element_, moved(data_, element_, n * stride_ + channel * plane_ + first), count, pixels);
  }

 private:
  const Element element_;
  const void* data_;
  const int64_t stride_, plane_;
};

// Pixels of an image of bytes as groups of channels, which count as channels.
class GroupedPixels final : public PixelMaker {
 public:
  GroupedPixels(SumKind sums, ElementType type, const void* data, int64_t stride, int64_t plane, int64_t inputs)
      : sums_(sums),
        type_(type),
        data_(static_cast<const uint8_t*>(data)),
        stride_(stride),
        plane_(plane),
        inputs_(inputs) {}

  void make(int64_t n, int64_t channel, int64_t first, int64_t count, float* pixels) const override {
    const int64_t groups = groups_of(inputs_, sums_), each = numbers_per_step(sums_), skipped = channel % groups * each;
    const uint8_t* from = data_ + n * stride_ + (channel / groups * inputs_ + skipped) * plane_ + first;
    join_bytes(sums_, type_, true, from, plane_, std::min(each, inputs_ - skipped), count,
               reinterpret_cast<ByteGroup*>(pixels), 1);
  }

 private:
  const SumKind sums_;
  const ElementType type_;
  const uint8_t* data_;
  const int64_t stride_, plane_, inputs_;  // inputs: channels of a group of the convolution
};

class StoredConvolution : public Plan {
 public:
  [[gnu::cold]] StoredConvolution(const ConvolutionShape& shape, const ActivationSpec& activation)
      : s_(simplified(shape, activation)),
        inputs_(s_.in_channels / s_.groups),
        outputs_(s_.out_channels / s_.groups),
        taps_(s_.kernel_height * s_.kernel_width),
        in_plane_(s_.in_height * s_.in_width),
        out_plane_(s_.out_height * s_.out_width),
        activation_(activation),
        way_(choose_way()),
        depthwise_(has_planes() && way_ != Way::kGroups),
        weights_in_place_(reads_weights_in_place()) {
    if (depthwise_ && !exact() && is_identity(activation_)) halves_ = make_half_windows(s_);
    if (depthwise_)
      share_planes();
    else
      share_weights();
  }

  // y = f(conv(x, w) + b)
  void forward(const Call& call) override {
    const float* bias = decoded_bias(call);
    const int32_t* weight_sums = nullptr;
    if (exact() && terms().needs_weight_sums())
      weight_sums = reinterpret_cast<const int32_t*>(
          weight_sums_.get(weights_known_.version(), kWeightSums, terms().weight_sums_count(), [&](float* sums) {
            terms().sum_weights(reinterpret_cast<const uint8_t*>(call.address[W]), reinterpret_cast<int32_t*>(sums),
                                call.threads);
          }));
    const int64_t block = samples_at_a_time(call.batch, call.threads);
    for (int64_t n = 0; n < call.batch; n += block) {
      const int64_t samples = std::min(block, call.batch - n);
      StoredResults results = results_of(call, n, bias);
      results.weight_sums = weight_sums;
      if (exact() && terms().needs_window_sums()) results.window_sums = window_sums(call, n, samples);
      if (windows_)
        run_windows(call, n, samples, results, grouped_weights(call));
      else if (halves_)
        run_halves(call, bias);
      else if (depthwise_)
        run_planes(call, n, samples, bias, results);
      else
        for (int64_t part = 0; part < parts(); part++) run_part(call, n, samples, part, bias, results);
    }
  }

  void backward(const Call&) override {}  // training works on float32

  void keep_weights(bool keep) override { weights_known_.keep(keep); }

 private:
  // What kernels add up: values; integers as floats, exactly; integers in groups of channels, in groups of the rows of
  // a depthwise convolution, or one by one.
  enum class Way { kValues, kIntegerFloats, kGroups, kRowGroups, kIntegers };

  bool has_planes() const { return s_.groups > 1 && is_depthwise(s_); }

  [[gnu::cold]] Way choose_way() {
    MatrixProduct p{};
    p.k = inputs_ * taps_;
    p.a_element = s_.x;
    p.b_element = s_.w;
    const SumKind sums = sums_of(p);
    if (!is_exact(sums)) return Way::kValues;
    if (has_planes() && choose_windows(sums)) return Way::kRowGroups;
    const auto largest = [](const Element& e) { return e.type == ElementType::kInt8 ? 128.0 : 255.0; };
    const bool floats = largest(s_.x) * largest(s_.w) * static_cast<double>(p.k) <= kExactFloats;
    const ConvolutionShape rows = with_long_rows(s_);
    few_channels_ = has_exact_few_channels(rows, sums);
    if (floats && inputs_ <= kFewInputs && !few_channels_) return Way::kIntegerFloats;
    if (few_channels_ || has_direct_forward(rows)) {
      sums_ = sums;
      return Way::kGroups;
    }
    return floats ? Way::kIntegerFloats : Way::kIntegers;
  }

  [[gnu::cold]] bool choose_windows(SumKind sums) {
    for (SumKind groups : {sums, SumKind::kBytePairs})
      if (ByteWindows::takes(s_, groups)) {
        windows_ = std::make_unique<ByteWindows>(s_, groups);
        return true;
      }
    return false;
  }

  bool exact() const { return way_ != Way::kValues; }
  // Whether results of kernels are those of the call.
  bool direct() const { return !exact() && s_.y.is_float32(); }
  Element read_as(const Element& element) const { return exact() ? element.plain() : element; }
  const ActivationSpec* kernel_activation() const {
    return exact() || is_identity(activation_) ? nullptr : &activation_;
  }
  const ExactTerms& terms() const {
    return terms_.get([&] { return std::make_unique<ExactTerms>(s_, sums_); });
  }

  // Whether kernels read weights as they are stored.
  [[gnu::cold]] bool reads_weights_in_place() const {
    if (depthwise_) return false;
    return s_.w.is_float32() || way_ == Way::kGroups || (way_ != Way::kIntegers && forward_packs_weights(s_));
  }

  // Parts of the output channels whose weights are converted together: `part_groups_` groups, or `part_outputs_`
  // channels of one group.
  [[gnu::cold]] void share_weights() {
    const int64_t group = outputs_ * inputs_ * taps_;
    part_groups_ = s_.groups;
    part_outputs_ = outputs_;
    if (weights_in_place_) return;
    part_groups_ = std::clamp<int64_t>(kPartFloats / group, 1, s_.groups);
    if (group <= kPartFloats) return;
    const int64_t most = std::max(kPartChannels, kPartFloats / (inputs_ * taps_) / kPartChannels * kPartChannels);
    const int64_t parts = (outputs_ + most - 1) / most;
    part_outputs_ = std::min(outputs_, round_up((outputs_ + parts - 1) / parts, kPartChannels));
  }
  int64_t group_parts() const { return (outputs_ + part_outputs_ - 1) / part_outputs_; }
  int64_t parts() const { return (s_.groups + part_groups_ - 1) / part_groups_ * group_parts(); }

  // Of a depthwise convolution: channels whose planes are converted together.
  [[gnu::cold]] void share_planes() {
    constexpr int64_t kLanes = 16;
    const int64_t most = kPlaneFloats / (in_plane_ + outputs_ * out_plane_ + outputs_ * taps_);
    part_groups_ = std::clamp<int64_t>(most >= kLanes ? most / kLanes * kLanes : most, 1, s_.groups);
    part_outputs_ = outputs_;
  }

  // The convolution of so many groups and of so many output channels of each, on floats.
  ConvolutionShape part_shape(int64_t groups, int64_t outputs) const {
    ConvolutionShape s = s_;
    s.groups = groups;
    s.in_channels = groups * inputs_;
    s.out_channels = groups * outputs;
    s.exact |= way_ == Way::kIntegerFloats;  // transforms would round
    if (way_ != Way::kGroups) s.x = {};
    s.w = weights_in_place_ ? read_as(s_.w) : Element{};
    s.b = s.y = {};
    // Of such operands, nothing is rounded away.
    s.bfloat16 |= s_.x.type == ElementType::kBFloat16 && s_.w.type == ElementType::kBFloat16;
    return s;
  }

  // All parts but the last have the same shape.
  template <class Made, class Make>
  Made& of_part(const Lazy<Made> (&made)[2], int64_t groups, int64_t outputs, Make&& make) const {
    const bool whole = groups == part_groups_ && outputs == part_outputs_;
    return made[whole].get([&] { return make(part_shape(groups, outputs)); });
  }
  const ImageKernel& kernel(int64_t groups, int64_t outputs) const {
    return of_part(kernel_, groups, outputs, [&](const ConvolutionShape& s) {
      if (way_ == Way::kGroups) {
        if (auto tiles = make_exact_winograd_forward(s, sums_)) return tiles;
        const ConvolutionShape rows = with_long_rows(s);
        if (auto few = make_exact_few_channels_forward(rows, sums_)) return few;
        if (auto wide = make_exact_side_by_side_forward(rows, sums_)) return wide;
        return make_exact_forward(rows, sums_);
      }
      return way_ == Way::kIntegers ? make_exact_reference_forward(s) : make_forward_kernel(s);
    });
  }

  // The bias as floats, null if there is none.
  const float* decoded_bias(const Call& call) const {
    const float* given = call.address[B];
    if (!given || s_.b.is_float32()) return given;
    float* values = scratch(kStoredTerms, static_cast<size_t>(s_.out_channels));
    decode(s_.b, given, s_.out_channels, values);
    return values;
  }

  // Output channels [first, first + count) of the weights, as kernels read them.
  const float* weights_of(const Call& call, int64_t first, int64_t count) const {
    const int64_t row = inputs_ * taps_;
    const float* from = moved(static_cast<const float*>(call.address[W]), s_.w, first * row);
    if (weights_in_place_) return from;
    float* values = scratch(kStoredB, static_cast<size_t>(count * row));
    const int workers = useful_threads(call.threads, kDecodeFlops * static_cast<double>(count * row));
    parallel_items(workers, count,
                   [&](int64_t i) { decode(read_as(s_.w), moved(from, s_.w, i * row), row, values + i * row); });
    return values;
  }

  int64_t samples_at_a_time(int64_t batch, int threads) const {
    const bool windows = exact() && terms().needs_window_sums();
    if (direct() || (depthwise_ && !windows)) return batch;
    const int64_t channels = std::max(depthwise_ ? 0 : part_groups_ * part_outputs_, windows ? s_.groups : 0);
    const int64_t floats = few_channels_ ? kFewSums * threads : kSumFloats;
    return std::min(batch, std::max<int64_t>(1, floats / (channels * out_plane_)));
  }

  // Sum X of all windows, [samples][groups][out_plane].
  const int32_t* window_sums(const Call& call, int64_t n, int64_t samples) const {
    auto* sums =
        reinterpret_cast<int32_t*>(scratch(kWindowSums, static_cast<size_t>(samples * s_.groups * out_plane_)));
    const double work = static_cast<double>(s_.in_channels * in_plane_ + s_.groups * out_plane_ * taps_);
    parallel_items(
        useful_threads(call.threads, work * static_cast<double>(samples)), samples * s_.groups, [&](int64_t i) {
          const int64_t place = (n + i / s_.groups) * call.stride[X] + i % s_.groups * inputs_ * in_plane_;
          terms().sum_windows(reinterpret_cast<const uint8_t*>(call.address[X]) + place, sums + i * out_plane_);
        });
    return sums;
  }

  // Of sample n and those after it; what depends on the part is still missing.
  StoredResults results_of(const Call& call, int64_t n, const float* bias) const {
    StoredResults results;
    results.element = s_.y;
    results.y = moved(call.address[Y], s_.y, n * call.stride[Y]);
    results.y_stride = call.stride[Y];
    results.plane = out_plane_;
    results.width = s_.out_width;
    if (!exact()) return results;
    results.terms = &terms();
    results.sums_are_floats = way_ == Way::kIntegerFloats;
    results.bias = bias;
    results.activation = is_identity(activation_) ? nullptr : &activation_;
    results.groups = s_.groups;
    results.group_channels = outputs_;
    return results;
  }

  void run_part(const Call& call, int64_t n, int64_t samples, int64_t part, const float* bias,
                StoredResults results) const {
    const int64_t group = part / group_parts() * part_groups_, output = part % group_parts() * part_outputs_;
    const int64_t groups = std::min(part_groups_, s_.groups - group),
                  outputs = std::min(part_outputs_, outputs_ - output);
    const int64_t first = group * outputs_ + output, channels = groups * outputs;
    const float* x =
        moved(static_cast<const float*>(call.address[X]), s_.x, n * call.stride[X] + group * inputs_ * in_plane_);
    const DecodedPixels decoded(read_as(s_.x), x, call.stride[X], in_plane_);
    const GroupedPixels grouped(sums_, s_.x.type, x, call.stride[X], in_plane_, inputs_);
    ImageSource in{x, call.stride[X], in_plane_, s_.in_width};
    if (way_ == Way::kGroups)
      in.maker = &grouped;
    else if (!s_.x.is_float32())
      in.maker = &decoded;
    results.first_channel = first;
    results.y = moved(results.y, s_.y, first * out_plane_);
    ImageCall c{in,
                weights_of(call, first, channels),
                bias && !exact() ? bias + first : nullptr,
                kernel_activation(),
                s_.out_width,
                static_cast<float*>(results.y),
                call.stride[Y],
                false,
                samples,
                call.threads};
    if (weights_in_place_) c.weights = weights_known_.version();
    const ImageKernel& made_by = kernel(groups, outputs);
    if (direct()) return made_by.run(c);
    c.out_stride = results.sums_stride = channels * out_plane_;
    c.out = scratch(kStoredSums, static_cast<size_t>(samples * c.out_stride));
    results.sums = c.out;
    if (made_by.watches(c)) {
      c.watcher = &results;
      return made_by.run(c);
    }
    made_by.run(c);
    const int workers = useful_threads(call.threads, kDecodeFlops * static_cast<double>(samples * c.out_stride));
    parallel_items(workers, samples * channels, [&](int64_t i) { results.completed(i / channels, i % channels, 1); });
  }

  // Depthwise: body(first, end) on planes of the input, counted through the samples; some at a time on one thread.
  template <class Body>
  void share_out_planes(const Call& call, int64_t samples, Body&& body) const {
    const int threads = useful_threads(call.threads, flops(s_) * static_cast<double>(samples));
    const int64_t planes = samples * s_.groups, most = std::max<int64_t>(1, kTaskResults / (outputs_ * out_plane_));
    const int64_t together = even_group(planes, most, threads);
    dynamic_items(threads, (planes + together - 1) / together,
                  [&](int64_t item) { body(item * together, std::min(planes, (item + 1) * together)); });
  }

  const ByteGroup* grouped_weights(const Call& call) const {
    const int64_t count = s_.out_channels * windows_->row_groups();
    return reinterpret_cast<const ByteGroup*>(
        grouped_weights_.get(weights_known_.version(), kStoredB, count, [&](float* groups) {
          windows_->group_weights(reinterpret_cast<const uint8_t*>(call.address[W]),
                                  reinterpret_cast<ByteGroup*>(groups));
        }));
  }

  // Bytes by bytes: a plane at a time, which stays in the nearest cache.
  void run_windows(const Call& call, int64_t first, int64_t samples, const StoredResults& of_samples,
                   const ByteGroup* weights) const {
    share_out_planes(call, samples, [&](int64_t plane, int64_t end) {
      const auto bytes = [](int slot, int64_t count) {
        return reinterpret_cast<uint8_t*>(scratch(slot, static_cast<size_t>(count + 3) / 4));
      };
      const int64_t count = windows_->blocks() * 4 * kWidth;
      uint8_t *placed = bytes(kInputBand, windows_->plane_bytes()), *line = bytes(kStoredA, count);
      auto* sums = reinterpret_cast<int32_t*>(bytes(kStoredSums, 4 * count));
      const bool one_term = of_samples.has_one_term();
      StoredResults results = of_samples;
      results.sums = reinterpret_cast<const float*>(sums);
      windows_->clear(placed);
      for (; plane < end; plane++) {
        const int64_t n = plane / s_.groups, group = plane % s_.groups;
        windows_->place(
            reinterpret_cast<const uint8_t*>(call.address[X]) + (first + n) * call.stride[X] + group * in_plane_,
            placed);
        if (of_samples.window_sums) results.window_sums = of_samples.window_sums + n * s_.groups * out_plane_;
        for (int64_t o = group * outputs_; o < (group + 1) * outputs_; o++) {
          results.first_channel = o;
          results.y = moved(of_samples.y, s_.y, n * call.stride[Y] + o * out_plane_);
          ByteBlocks blocks(s_.y, terms().factor(o), windows_->turns());
          const bool to_bytes = one_term && blocks.take(results.one_term(o));
          windows_->sum(placed, weights + o * windows_->row_groups(), sums, to_bytes ? &blocks : nullptr, line);
          if (to_bytes) {
            windows_->take_rows(line, static_cast<uint8_t*>(results.y));
          } else {
            windows_->order(sums);
            results.completed(0, 0, 1);
          }
        }
      }
    });
  }

  // Float16 and BFloat16, without a copy as floats.
  void run_halves(const Call& call, const float* bias) const {
    share_out_planes(call, call.batch, [&](int64_t plane, int64_t end) {
      float* w = scratch(kStoredB, static_cast<size_t>(outputs_ * taps_));
      for (; plane < end; plane++) {
        const int64_t n = plane / s_.groups, group = plane % s_.groups, first = group * outputs_;
        const auto* x =
            reinterpret_cast<const uint16_t*>(moved(call.address[X], s_.x, n * call.stride[X] + group * in_plane_));
        decode(s_.w, moved(call.address[W], s_.w, first * taps_), outputs_ * taps_, w);
        for (int64_t o = 0; o < outputs_; o++)
          halves_->forward(
              x, w + o * taps_, bias ? bias[first + o] : 0.f,
              reinterpret_cast<uint16_t*>(moved(call.address[Y], s_.y, n * call.stride[Y] + (first + o) * out_plane_)));
      }
    });
  }

  // Depthwise: some planes of one sample at a time, on one thread.
  void run_planes(const Call& call, int64_t first, int64_t samples, const float* bias,
                  const StoredResults& of_samples) const {
    const int threads = useful_threads(call.threads, flops(s_) * static_cast<double>(samples));
    dynamic_items(threads, samples * parts(), [&](int64_t item) {
      const int64_t n = item / parts(), group = item % parts() * part_groups_;
      const int64_t groups = std::min(part_groups_, s_.groups - group), channels = groups * outputs_;
      Plan& plan = of_part(plan_, groups, outputs_, [&](const ConvolutionShape& s) {
        return make_convolution(s, exact() ? ActivationSpec{} : activation_);
      });
      Call c;
      c.address[X] = decoded(call.address[X], s_.x, (first + n) * call.stride[X] + group * in_plane_,
                             groups * in_plane_, kStoredA);
      c.address[W] = decoded(call.address[W], s_.w, group * outputs_ * taps_, channels * taps_, kStoredB);
      if (bias && !exact()) c.address[B] = const_cast<float*>(bias) + group * outputs_;
      StoredResults results = of_samples;
      results.first_channel = group * outputs_;
      results.y = moved(of_samples.y, s_.y, n * call.stride[Y] + group * outputs_ * out_plane_);
      if (results.window_sums) results.window_sums += n * s_.groups * out_plane_;
      c.address[Y] =
          direct() ? static_cast<float*>(results.y) : scratch(kStoredSums, static_cast<size_t>(channels * out_plane_));
      plan.forward(c);
      results.sums = c.address[Y];
      if (!direct()) results.completed(0, 0, channels);
    });
  }

  // Numbers as floats, on the calling thread: where they are, or in scratch.
  float* decoded(float* from, const Element& element, int64_t first, int64_t count, int slot) const {
    float* there = moved(from, element, first);
    if (element.is_float32()) return there;
    float* values = scratch(slot, static_cast<size_t>(count));
    decode(read_as(element), there, count, values);
    return values;
  }

  const ConvolutionShape s_;
  const int64_t inputs_, outputs_, taps_;  // of a group
  const int64_t in_plane_, out_plane_;
  const ActivationSpec activation_;
  SumKind sums_ = SumKind::kFloats;       // set by choose_way(), as the next two
  bool few_channels_ = false;             // sums of bytes are those of the kernel for few channels
  std::unique_ptr<ByteWindows> windows_;  // or null
  const Way way_;
  const bool depthwise_, weights_in_place_;
  std::unique_ptr<HalfWindows> halves_;  // or null
  int64_t part_groups_, part_outputs_;
  const Lazy<ImageKernel> kernel_[2];
  const Lazy<Plan> plan_[2];
  const Lazy<ExactTerms> terms_;
  PlanWeights weights_known_;
  KeptWeights weight_sums_, grouped_weights_;
};

// Whether the convolution is a fully connected layer over the pixels of a sample.
bool covers(const ConvolutionShape& s, const ActivationSpec& f) {
  const ConvolutionShape whole = simplified(s, f);
  return whole.groups == 1 && whole.in_height == 1 && whole.out_height == 1 && whole.out_width == 1 &&
         whole.kernel_height == 1 && whole.kernel_width == whole.in_width && whole.pad_up == 0 && whole.pad_left == 0 &&
         (whole.dilation_x == 1 || whole.kernel_width == 1) && !is_axis_wise(f);
}

}  // namespace

std::unique_ptr<Plan> make_stored_convolution(const ConvolutionShape& s, const ActivationSpec& activation) {
  if (!covers(s, activation)) return std::make_unique<StoredConvolution>(s, activation);
  return make_fully_connected(
      {s.in_channels * s.in_height * s.in_width, s.out_channels, s.x, s.w, s.b, s.y, s.bfloat16, s.w_scales},
      activation);
}

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
