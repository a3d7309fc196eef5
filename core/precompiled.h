// What most kernels include, which takes the compiler longer than many a kernel: compiled once per instruction set. A
// source includes what it uses all the same, so that it compiles without this file.
#pragma once
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "kernels/kernels.h"
#include "runtime/dynamic_items.h"
#include "runtime/scratch.h"
#include "runtime/thread_pool.h"
#include "simd/math.h"
#include "simd/vec.h"
