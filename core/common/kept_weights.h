// Weights in the form in which a kernel reads them: made by every call, or kept from call to call while the weights
// stay as they are.
#pragma once
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <memory>

#include "common/lazy.h"
#include "runtime/aligned_memory.h"
#include "runtime/scratch.h"

namespace openbnns {
namespace OPENBNNS_ISA {

// One form of the weights.
class KeptWeights {
 public:
  // `floats` numbers that fill(address) has written from these weights; without a version, or while another thread
  // writes them, into a slot of the calling thread's scratch. Memory is never replaced, only written again, by one
  // thread at a time: whoever changes weights while another thread uses them gets wrong numbers, but only that long.
  template <class Fill>
  const float* get(uint64_t version, int scratch_slot, int64_t floats, Fill&& fill) const {
    const auto make_apart = [&] {
      float* made = scratch(scratch_slot, static_cast<size_t>(floats));
      fill(made);
      return made;
    };
    if (version == 0) return make_apart();
    Form& form = form_.get([&] {
      auto made = std::make_unique<Form>(floats);
      fill(made->data);
      made->version.store(version, std::memory_order_relaxed);
      return made;
    });
    if (form.version.load(std::memory_order_acquire) != version) {
      // Two threads that wrote at once, for two versions, would leave a mixture under the version of the last.
      const Writing writing(form.in_writing);
      if (!writing.alone) return make_apart();
      if (form.version.load(std::memory_order_acquire) != version) {
        form.version.store(0,
                           std::memory_order_relaxed);  // until it is complete, which it is not after an interruption
        fill(form.data);
        form.version.store(version, std::memory_order_release);
      }
    }
    return form.data;
  }

 private:
  struct Form {
    explicit Form(int64_t floats) {
      size_t bytes = static_cast<size_t>(floats) * sizeof(float);
      data = allocate_aligned(bytes);
    }
    Form(const Form&) = delete;
    Form& operator=(const Form&) = delete;
    ~Form() { std::free(data); }

    float* data;
    std::atomic<uint64_t> version{0};
    std::atomic<bool> in_writing{false};
  };
  // A turn to write, if nobody else has it. Not a lock, for which a child forked at the wrong moment would wait
  // forever.
  struct Writing {
    explicit Writing(std::atomic<bool>& taken)
        : alone(!taken.exchange(true, std::memory_order_acquire)), taken_(taken) {}
    Writing(const Writing&) = delete;
    Writing& operator=(const Writing&) = delete;
    ~Writing() {
      if (alone) taken_.store(false, std::memory_order_release);
    }
    const bool alone;

   private:
    std::atomic<bool>& taken_;
  };
  Lazy<Form> form_;
};

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
