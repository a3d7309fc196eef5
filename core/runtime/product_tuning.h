// What is fastest for matrix products through packed blocks (gemm/gemm.h), as data: one table for each kind of CPU, one
// of which is chosen when the library is loaded.
//
// Nothing of this touches the order of a sum: results are the same on every CPU of an instruction set.
#pragma once
#include <cstdint>

#include "runtime/caches.h"

namespace openbnns {

struct ProductTuning {
  int64_t second_cache = int64_t{1} << 20;  // bytes of a core's second cache that count, here if nobody says how many

  int64_t shared_floats = int64_t{1} << 18;  // of the operand that all threads read (1 MB)
  int64_t panel_columns = 32;                // of B packed together: whole tiles on every instruction set
  int64_t kept_panels = 64;                  // of B that stay in L2, at most, however few steps they have
  int64_t thread_groups = 4;                 // of such columns, at least, where there are enough of them
  int64_t task_tiles = 8;                    // of rows, in a task that works on all columns, at most
  int64_t read_columns = 64;                 // for which A is read where it lies, at most
  int64_t read_b_rows = 64;                  // for which B is, at most
  int64_t steps_ahead = 16;                  // after which a kernel needs what it asks for of A

  int64_t alone_rows = 128;                 // for which every worker packs all of B, at least,
  int64_t alone_small_rows = 48;            // or so many, if B has
  int64_t alone_floats = int64_t{1} << 16;  // no more elements than this (256 KB),
  int64_t alone_wide_rows = 256;            // or so many, if it has more columns than A has rows;
  int64_t part_rows = 1024;                 // for so many, it may as well do so again
  int64_t alone_columns = 64;               // for which every worker packs all of a small A, at least

  int64_t few_steps = 32;           // of sums that are bound by the writing of C
  double write_steps = 8;           // steps in the time that writing an element of C takes
  double other_gain = 1.05;         // for which a product is cut by its shorter side
  int64_t side_rows = 8;            // of a product that is one of several, at least
  double read_rows = 3;             // of arithmetic, in the time that a product of few rows takes to read B
  double piece_products = 1 << 24;  // of a row, after which a product of few rows can be interrupted
};

ProductTuning tuning_for(const Cpu& cpu);

extern const ProductTuning& kTuned;  // that of this CPU
// For tests: of the CPU that it is from now on.
void assume_cpu(const Cpu& cpu);

}  // namespace openbnns
