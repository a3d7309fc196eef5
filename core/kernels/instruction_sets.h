// What the CPU must have for the kernels of an instruction set: everything that compilers use for x86-64-v3 and
// x86-64-v4 and can test for. A CPU that has these has the rest (lzcnt, movbe, f16c), too.
#pragma once

namespace openbnns {

#if defined(__x86_64__)
inline bool has_avx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
         __builtin_cpu_supports("bmi2");
}

inline bool has_avx512() {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512cd");
}
#endif

}  // namespace openbnns
