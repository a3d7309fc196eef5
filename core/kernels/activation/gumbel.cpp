// Gumbel noise.
#include "kernels/activation/loops.h"
#include "simd/math.h"

namespace openbnns {
namespace OPENBNNS_ISA {

void gumbel_forward(ActivationParameters p, RandomStream stream, uint64_t first, float* y, int64_t count) {
  constexpr int64_t kPart = 512;
  float uniform[kPart];
  for (int64_t start = 0; start < count; start += kPart) {
    int64_t part = count - start < kPart ? count - start : kPart;
    fill_uniform(stream, first + static_cast<uint64_t>(start), uniform, part);
    int64_t whole = (part + kWidth - 1) / kWidth * kWidth;
    for (int64_t i = part; i < whole; i++) uniform[i] = 0.5f;
    for (int64_t i = 0; i < whole; i += kWidth) {
      Vec inner = math::log(p.alpha * load(uniform + i) + p.beta);
      store(uniform + i, -math::log(p.beta - inner));
    }
    std::memcpy(y + start, uniform, static_cast<size_t>(part) * sizeof(float));
  }
}

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
