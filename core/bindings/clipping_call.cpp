#include "bindings/clipping_call.h"

#include <nanobind/stl/vector.h>

#include <algorithm>
#include <atomic>
#include <new>
#include <utility>
#include <vector>

#include "bindings/fast_call.h"
#include "bindings/latest_call.h"
#include "bindings/numbered.h"
#include "bindings/packed_tensor.h"
#include "bindings/recording.h"
#include "kernels/kernels.h"
#include "runtime/thread_pool.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace openbnns {
namespace {

// BNNSClipByGlobalNorm as C programs call it: dest, src, count, max_norm, use_norm. Packed Float32 tensors of one form
// each, in place or apart; Python looks at all others.
class ClippingFunction final : public Numbered {
 public:
  // layouts: those without holes or tricks. Only before there is a number.
  void describe(std::vector<int64_t> layouts) {
    layouts_ = std::move(layouts);
    std::sort(layouts_.begin(), layouts_.end());
  }

  int run_raw(const OpenBNNSWord* words, size_t given) override {
    if (!fast_calls_enabled || is_recording() || given != 5 || !words[0].pointer || !words[1].pointer) return kDeclined;
    const uint64_t count = words[2].number;
    const double max_norm = words[3].real, use_norm = words[4].real;
    if (count < 1 || count > kMostTensors || !(max_norm >= 0.0) || !(use_norm >= 0.0)) return kDeclined;
    const auto* targets = static_cast<const OpenBNNSWord*>(words[0].pointer);
    const auto* sources = static_cast<const OpenBNNSWord*>(words[1].pointer);
    try {
      std::vector<ClippedTensor> tensors;
      std::vector<Stretch> stretches;
      for (uint64_t i = 0; i < count; i++)
        if (!add(targets[i], sources[i], tensors, stretches)) return kDeclined;
      if (overlap(stretches.data(), stretches.data() + stretches.size())) return kDeclined;
      kernels().clip_by_global_norm(tensors.data(), static_cast<int64_t>(count), max_norm, use_norm, max_threads());
    } catch (const std::bad_alloc&) {  // Python words the failure
      return kDeclined;
    }
    latest_call_succeeded();
    return kDone;
  }

 private:
  static constexpr uint64_t kMostTensors = uint64_t{1} << 24;

  bool add(OpenBNNSWord target, OpenBNNSWord source, std::vector<ClippedTensor>& tensors,
           std::vector<Stretch>& stretches) const {
    RawReader reader(0);
    Form form, other;
    Memory x, y;
    int64_t count, same;
    if (!target.pointer || !source.pointer ||
        !read_packed(RawReader::Descriptor(target), layouts_, true, reader, form, y, count) ||
        !read_packed(RawReader::Descriptor(source), layouts_, false, reader, other, x, same) || !(form == other))
      return false;
    stretches.push_back({y.begin, y.begin + 4 * count, true});
    if (x.begin != y.begin) stretches.push_back({x.begin, x.begin + 4 * count, false});
    tensors.push_back({reinterpret_cast<const float*>(x.begin), reinterpret_cast<float*>(y.begin), count});
    return true;
  }

  std::vector<int64_t> layouts_;
};

ClippingFunction& clipping_function() {
  static auto* function = new ClippingFunction;
  return *function;
}

}  // namespace

void bind_clipping(nb::module_& m) {
  m.def(
      "describe_clipping", [](std::vector<int64_t> layouts) { clipping_function().describe(std::move(layouts)); },
      "layouts"_a);
  m.def("clipping_number", [] { return clipping_function().number(); });
}

}  // namespace openbnns
