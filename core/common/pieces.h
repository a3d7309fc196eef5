// Rows of elements divided into pieces of work that are large enough for a thread and depend on the shape alone.
#pragma once
#include <algorithm>

#include "runtime/dynamic_items.h"
#include "runtime/partition.h"
#include "runtime/plan.h"
#include "simd/vec.h"

namespace openbnns {
namespace OPENBNNS_ISA {

constexpr int64_t kPiece = 16384;  // elements of one piece, for which it pays to wake a thread

inline int workers_for(const Call& call, int64_t elements) { return worthy_workers(call.threads, elements, kPiece); }

// Rows of `length` elements that share an item, because they are short.
inline int64_t rows_together(int64_t rows, int64_t length, int workers) {
  return even_group(rows, std::max<int64_t>(1, kPiece / length), workers);
}

// to[i] += from[i]
inline void add_to(float* to, const float* from, int64_t count) {
  int64_t i = 0;
  for (; i + kWidth <= count; i += kWidth) store(to + i, load(to + i) + load(from + i));
  for (; i < count; i++) to[i] += from[i];
}

// body(row, first, count) for elements first .. first + count - 1 of every row 0 .. rows - 1 of `length` elements.
template <class Body>
void for_each_piece(const Call& call, int64_t rows, int64_t length, Body body) {
  const int workers = workers_for(call, rows * length);
  if (length >= kPiece) {
    const int64_t pieces = (length + kPiece - 1) / kPiece;
    dynamic_items(workers, rows * pieces, [&](int64_t item) {
      int64_t first = item % pieces * kPiece;
      body(item / pieces, first, std::min(kPiece, length - first));
    });
    return;
  }
  const int64_t together = kPiece / length;  // short rows share a piece
  dynamic_items(workers, (rows + together - 1) / together, [&](int64_t item) {
    for (int64_t row = item * together, end = std::min(rows, row + together); row < end; row++)
      body(row, int64_t{0}, length);
  });
}

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
