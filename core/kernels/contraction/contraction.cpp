// Tensor contractions with one or two operands, and their gradients, which are contractions again.
#include "kernels/contraction/contraction.h"

#include <algorithm>

#include "common/scratch_uses.h"
#include "common/stored_rows.h"
#include "gemm/gemm.h"
#include "kernels/kernels.h"
#include "runtime/dynamic_items.h"
#include "runtime/scratch.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace {

constexpr int kMaxIndices = kMaxAxes - 1;  // and the batch
constexpr int kBatchIndex = kMaxIndices;
constexpr int64_t kCacheFloats = 1 << 16;  // of all tensors of the samples that are worked on together (256 KB)

// How far each index moves in one tensor; the batch comes with the call.
struct Steps {
  int64_t step[kMaxIndices] = {};
  bool batched = true;
  bool diagonal = false;  // an index occurs twice: the tensor has elements that are never read
  int64_t count = 1;      // elements of one sample

  int64_t of(int index, int64_t batch_stride) const {
    if (index == kBatchIndex) return batched ? batch_stride : 0;
    return step[index];
  }
};

Steps steps_of(const ContractionTensor& tensor) {
  Steps s;
  s.batched = tensor.batched;
  for (size_t i = tensor.index.size(); i-- > 0;) {
    for (size_t j = 0; j < i; j++) s.diagonal |= tensor.index[j] == tensor.index[i];
    if (tensor.size[i] > 1) s.step[tensor.index[i]] += s.count;
    s.count *= tensor.size[i];
  }
  return s;
}

class ContractionPlan : public Plan {
 public:
  explicit ContractionPlan(const ContractionShape& shape)
      : self_(shape.with_itself),
        alpha_(shape.alpha),
        adds_to_output_(shape.adds_to_output),
        bfloat16_(shape.bfloat16) {
    for (const ContractionTensor& t : shape.left) {
      note_sizes(t);
      left_.push_back(steps_of(t));
    }
    note_sizes(shape.output);
    output_ = steps_of(shape.output);
    x_ = shape.left[0].element;
    w_ = shape.left.back().element;
    y_ = shape.output.element;
    if (self_) find_mirror(shape);
  }

  // y = alpha * sum x * w (+ y)
  void forward(const Call& call) override {
    Contraction p = sum_of(call, left_[0], call.stride[X], second(), second_stride(call), output_, call.stride[Y]);
    p.a = call.address[X];
    p.b = !second() ? nullptr : call.address[self_ ? X : W];
    p.c = call.address[Y];
    p.accumulate = adds_to_output_;
    p.a_element = x_;
    p.b_element = w_;
    p.c_element = y_;
    if (x_.is_float32() && w_.is_float32() && y_.is_float32())
      contract(p, call.threads);
    else if (!contract_stored(p, call.threads))
      forward_decoded(call);
  }

  // From y = alpha * sum x * w: dx = alpha * sum dy * w, dw = alpha * sum x * dy. Of a tensor contracted with itself
  // both are gradients of x; where one is the mirror image of the other, dy and its mirror image are added up first.
  void backward(const Call& call) override {
    if (!call.address[DX] || !call.address[DW] || !second()->batched) return gradients(call);  // DW: there is a second
    const int64_t samples = samples_in_cache();
    if (call.batch < 16 * samples) return gradients(call);
    // Both gradients of a few samples at a time: the second finds dy in the cache.
    const int64_t parts = (call.batch + samples - 1) / samples;
    const int threads = useful_threads(call.threads, 4.0 * static_cast<double>(call.batch * sample_floats()));
    dynamic_items(threads, parts, [&](int64_t part) {
      Call some = call;
      some.threads = 1;
      some.batch = std::min(samples, call.batch - part * samples);
      for (int slot : {X, W, DX, DW, DY}) some.address[slot] += part * samples * call.stride[slot];
      gradients(some);
    });
  }

 private:
  // Sums that are no matrix products as they lie: on float32 copies of all tensors.
  void forward_decoded(const Call& call) {
    Call floats = call;
    const auto copy = [&](int slot, const Steps& tensor, const Element& element, int use, bool filled) {
      const int64_t samples = tensor.batched ? call.batch : 1;
      float* to = scratch(use, static_cast<size_t>(samples * tensor.count));
      if (filled)
        dynamic_items(call.threads, samples, [&](int64_t n) {
          decode(element, moved(call.address[slot], element, n * call.stride[slot]), tensor.count,
                 to + n * tensor.count);
        });
      floats.address[slot] = to;
      floats.stride[slot] = tensor.count;
    };
    copy(X, left_[0], x_, kStoredA, true);
    if (second() && !self_) copy(W, left_[1], w_, kStoredB, true);
    copy(Y, output_, y_, kStoredSums, adds_to_output_);
    Contraction p =
        sum_of(floats, left_[0], floats.stride[X], second(), second_stride(floats), output_, floats.stride[Y]);
    p.a = floats.address[X];
    p.b = !second() ? nullptr : floats.address[self_ ? X : W];
    p.c = floats.address[Y];
    p.accumulate = adds_to_output_;
    contract(p, call.threads);
    dynamic_items(call.threads, call.batch, [&](int64_t n) {
      encode(y_, p.c + n * output_.count, output_.count, moved(call.address[Y], y_, n * call.stride[Y]));
    });
  }

  int64_t sample_floats() const { return output_.count + 2 * (left_[0].count + left_[1].count); }
  int64_t samples_in_cache() const { return std::max<int64_t>(1, kCacheFloats / sample_floats()); }

  void gradients(const Call& call) {
    const float* dy = call.address[DY];
    if (call.address[DX]) {
      if (self_ && mirrored_) {
        gradient(call, left_[0], DX, mirror_sum(call), output_.count, &left_[1], X, call.adds(DX));
      } else {
        gradient(call, left_[0], DX, dy, call.stride[DY], second(), self_ ? X : W, call.adds(DX));
        if (self_) gradient(call, left_[1], DX, dy, call.stride[DY], &left_[0], X, true);
      }
    }
    if (call.address[DW]) gradient(call, left_[1], DW, dy, call.stride[DY], &left_[0], X, call.adds(DW));
  }

  void note_sizes(const ContractionTensor& tensor) {
    for (size_t i = 0; i < tensor.index.size(); i++)
      sizes_[tensor.index[i]] = std::max(sizes_[tensor.index[i]], tensor.size[i]);
  }

  const Steps* second() const { return left_.size() > 1 ? &left_[1] : nullptr; }
  int64_t second_stride(const Call& call) const { return call.stride[self_ ? X : W]; }

  Contraction sum_of(const Call& call, const Steps& a, int64_t a_stride, const Steps* b, int64_t b_stride,
                     const Steps& c, int64_t c_stride) const {
    Contraction p;
    for (int i = 0; i <= kMaxIndices; i++) {
      int64_t size = i == kBatchIndex ? call.batch : sizes_[i];
      if (size > 1) p.axes.add({size, a.of(i, a_stride), b ? b->of(i, b_stride) : 0, c.of(i, c_stride)});
    }
    p.alpha = alpha_;
    p.bfloat16 = bfloat16_;
    return p;
  }

  // The gradient of one operand from dy and the other, which is in `other_slot` or null.
  void gradient(const Call& call, const Steps& operand, int slot, const float* dy, int64_t dy_stride,
                const Steps* other, int other_slot, bool accumulate) const {
    if (operand.diagonal && !accumulate) {
      clear(call, operand, slot);
      accumulate = true;
    }
    Contraction p = sum_of(call, output_, dy_stride, other, call.stride[other_slot], operand, call.stride[slot]);
    p.a = dy;
    p.b = other ? call.address[other_slot] : nullptr;
    p.c = call.address[slot];
    p.accumulate = accumulate;
    contract(p, call.threads);
  }

  void clear(const Call& call, const Steps& operand, int slot) const {
    for (int64_t n = 0; n < (operand.batched ? call.batch : 1); n++)
      std::fill_n(call.address[slot] + n * call.stride[slot], operand.count, 0.f);
  }

  // Exchanging the two places of x on the left maps every index to another one. If that map is its own inverse and
  // permutes the indices of y, the gradient of one place is that of the other with the axes of dy permuted.
  void find_mirror(const ContractionShape& shape) {
    int image[kMaxIndices];
    std::fill_n(image, kMaxIndices, -1);
    const std::vector<int>&first = shape.left[0].index, &second = shape.left[1].index;
    for (size_t i = 0; i < first.size(); i++)
      for (auto [from, to] : {std::pair{first[i], second[i]}, std::pair{second[i], first[i]}}) {
        if (image[from] >= 0 && image[from] != to) return;
        image[from] = to;
      }
    mirror_ = output_;
    for (int i = 0; i < kMaxIndices; i++) {
      if (sizes_[i] <= 1 || image[i] < 0) continue;
      if (sizes_[image[i]] != sizes_[i] || (output_.step[i] == 0) != (output_.step[image[i]] == 0)) return;
      mirror_.step[i] = output_.step[image[i]];
    }
    mirrored_ = true;
  }

  // dy[...] + dy[... with mirrored indices], packed.
  const float* mirror_sum(const Call& call) const {
    float* sum = scratch(kContractionMirror, static_cast<size_t>(call.batch * output_.count));
    for (const Steps* side : {&output_, &mirror_}) {
      Contraction p = sum_of(call, *side, call.stride[DY], nullptr, 0, output_, output_.count);
      AxisList axes;
      for (const ContractionAxis& x : p.axes)
        if (x.c != 0) axes.add(x);
      move_elements(axes, call.address[DY], sum, 1.f, side == &mirror_, call.threads);
    }
    return sum;
  }

  std::vector<Steps> left_;
  Steps output_, mirror_;
  Element x_, w_, y_;
  int64_t sizes_[kMaxIndices] = {};
  const bool self_;
  const float alpha_;
  const bool adds_to_output_, bfloat16_;
  bool mirrored_ = false;
};

}  // namespace

std::unique_ptr<Plan> make_contraction(const ContractionShape& shape) {
  return std::make_unique<ContractionPlan>(shape);
}

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
