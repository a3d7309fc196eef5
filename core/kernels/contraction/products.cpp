// A contraction brought to the form of matrix products where it is one, by reading its axes as rows, columns and steps.
#include <algorithm>

#include "common/scratch_uses.h"
#include "gemm/gemm.h"
#include "kernels/contraction/contraction.h"
#include "runtime/dynamic_items.h"
#include "runtime/partition.h"
#include "runtime/scratch.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace {

// c[m][n] = sum over k of a[m][k] b[k][n], for every point of `loops`, and added up over every point of `sums`.
struct Products {
  ContractionAxis m{1, 0, 0, 0}, n{1, 0, 0, 0}, k{1, 0, 0, 0};
  AxisList loops, sums;
  const float *a, *b;
  float* c;
  float alpha;  // factor on the finished c
  bool accumulate;
  Element a_element, b_element, c_element;
  bool bfloat16;

  bool stored() const { return !a_element.is_float32() || !b_element.is_float32() || !c_element.is_float32(); }
};

constexpr int64_t kWorthwhile = 32 * 32 * 32;  // multiplications: smaller products are better joined to larger ones
constexpr int64_t kTiny = 16 * 16 * 16;

// Whether gemm can read A, B and write C with these axes, without and with the roles of A and B exchanged.
bool unit(const ContractionAxis& x, int64_t ContractionAxis::* stride) { return x.size == 1 || x.*stride == 1; }
bool readable(const Products& p) {
  return (unit(p.m, &ContractionAxis::a) || unit(p.k, &ContractionAxis::a)) &&
         (unit(p.n, &ContractionAxis::b) || unit(p.k, &ContractionAxis::b)) &&
         (unit(p.n, &ContractionAxis::c) || unit(p.m, &ContractionAxis::c));
}

// C^T = B^T A^T
void exchange(Products& p) {
  auto turn = [](ContractionAxis& x) { std::swap(x.a, x.b); };
  std::swap(p.m, p.n);
  std::swap(p.a, p.b);
  std::swap(p.a_element, p.b_element);
  turn(p.m);
  turn(p.n);
  turn(p.k);
  for (ContractionAxis& x : p.loops) turn(x);
  for (ContractionAxis& x : p.sums) turn(x);
}

int64_t leading(int64_t stride) { return std::max<int64_t>(stride, 1); }

MatrixProduct product_at(const Products& p, const Offsets& loop, const Offsets& sum, bool accumulate) {
  MatrixProduct g{};
  g.m = p.m.size;
  g.n = p.n.size;
  g.k = p.k.size;
  g.a_element = p.a_element;
  g.b_element = p.b_element;
  g.c_element = p.c_element;
  if (!p.stored()) g.sums = sums_of_rounded(p.bfloat16);
  g.a = moved(p.a, p.a_element, loop.a + sum.a);
  g.b = moved(p.b, p.b_element, loop.b + sum.b);
  g.c = moved(p.c, p.c_element, loop.c);
  g.transpose_a = !unit(p.k, &ContractionAxis::a);
  g.transpose_b = !unit(p.n, &ContractionAxis::b);
  g.lda = leading(g.transpose_a ? p.k.a : p.m.a);
  g.ldb = leading(g.transpose_b ? p.n.b : p.k.b);
  g.ldc = leading(p.m.c);
  g.accumulate = accumulate;
  return g;
}

void scale_rows(const MatrixProduct& g, float factor) {
  for (int64_t i = 0; i < g.m; i++)
    for (int64_t j = 0; j < g.n; j++) g.c[i * g.ldc + j] *= factor;
}

// Part `part` of so many of a product, on the calling thread, or all of it on several.
void run_one(const Products& p, int64_t index, const Cuts& parts, int64_t part, int threads) {
  const Offsets loop = offsets_at(p.loops, index);
  const int64_t turns = p.sums.product();
  const float after = p.stored() ? 1.f : p.alpha;
  for (int64_t turn = 0; turn < turns; turn++) {
    MatrixProduct g = product_at(p, loop, offsets_at(p.sums, turn), p.accumulate || turn > 0);
    if (p.stored()) g.alpha = p.alpha;
    if (parts.first * parts.second > 1)
      packed_product(g = part_of(g, parts, part));
    else if (threads > 1)
      matrix_product(g, threads);
    else
      matrix_product(g);
    if (turn == turns - 1 && after != 1.f) scale_rows(g, after);
  }
}

// Many products are shared out, or parts of fewer; those that are large enough for all threads are each computed by all
// of them. All give the same bits.
void run(Products& p, int threads) {
  const bool is_column = p.n.size == 1 && p.m.size > 1 && p.m.c == 1;
  if (is_column || !unit(p.n, &ContractionAxis::c)) exchange(p);
  const int64_t items = p.loops.product();
  const double flops = 2.0 * static_cast<double>(items) * static_cast<double>(p.sums.product()) *
                       static_cast<double>(p.m.size) * static_cast<double>(p.n.size) * static_cast<double>(p.k.size);
  threads = useful_threads(threads, flops);
  if (threads > 1 && items >= 2 * threads) {
    const int64_t share = even_group(items, std::max<int64_t>(1, items / (8 * threads)), threads),
                  shares = (items + share - 1) / share;
    return dynamic_items(threads, shares, [&](int64_t s) {
      for (int64_t i = s * share, end = std::min(items, i + share); i < end; i++) run_one(p, i, {1, 1}, 0, 1);
    });
  }
  if (threads > 1 && items > 1) {
    const bool too_small = useful_threads(threads, flops / static_cast<double>(items)) < threads;
    const Cuts parts =
        product_parts(product_at(p, offsets_at(p.loops, 0), offsets_at(p.sums, 0), true), items, threads);
    const int64_t each = parts.first * parts.second;
    if (too_small || spreads_evenly(items, threads))
      return dynamic_items(threads, items * each,
                           [&](int64_t item) { run_one(p, item / each, parts, item % each, 1); });
  }
  const Watch watch = current_watch();
  for (int64_t i = 0; i < items; i++) {
    watch.check();
    run_one(p, i, {1, 1}, 0, threads);
  }
}

// The axes of a contraction by their part in it.
struct Parts {
  AxisList batch, rows, columns, sums;

  explicit Parts(const AxisList& axes) {
    for (const ContractionAxis& x : axes) (x.summed() ? sums : x.batch() ? batch : x.column() ? columns : rows).add(x);
  }
  int64_t multiplications() const { return rows.product() * columns.product() * sums.product(); }
};

Products operands_of(const Contraction& p) {
  Products q{};
  q.a = p.a;
  q.b = p.b;
  q.c = p.c;
  q.alpha = p.alpha;
  q.accumulate = p.accumulate;
  q.a_element = p.a_element;
  q.b_element = p.b_element;
  q.c_element = p.c_element;
  q.bfloat16 = p.bfloat16;
  return q;
}

void add_all_but(AxisList& to, const AxisList& from, int chosen) {
  for (int i = 0; i < from.count; i++)
    if (i != chosen) to.add(from.axis[i]);
}

// The largest matrix product that needs no copies, the remaining axes being loops; its size, or 0 if there is none.
int64_t product_in_place(const Contraction& p, const Parts& parts, Products& best) {
  const ContractionAxis none{1, 0, 0, 0};
  auto choices = [](const AxisList& axes) { return std::max(1, axes.count); };
  auto choice = [&](const AxisList& axes, int i) { return axes.count ? axes.axis[i] : none; };
  int64_t largest = 0;
  for (int m = 0; m < choices(parts.rows); m++)
    for (int n = 0; n < choices(parts.columns); n++)
      for (int k = 0; k < choices(parts.sums); k++) {
        Products q = operands_of(p);
        q.m = choice(parts.rows, m);
        q.n = choice(parts.columns, n);
        q.k = choice(parts.sums, k);
        int64_t size = q.m.size * q.n.size * q.k.size;
        if (size <= largest || !readable(q)) continue;
        largest = size;
        q.loops = parts.batch;
        add_all_but(q.loops, parts.rows, m);
        add_all_but(q.loops, parts.columns, n);
        add_all_but(q.sums, parts.sums, k);
        best = q;
      }
  return largest;
}

// Several axes that step through one tensor as one; false if they do not.
bool joined(const AxisList& axes, int64_t ContractionAxis::* stride, int64_t& result) {
  for (int i = 0; i + 1 < axes.count; i++)
    if (axes.axis[i].*stride != axes.axis[i + 1].size * axes.axis[i + 1].*stride) return false;
  result = axes.count ? axes.axis[axes.count - 1].*stride : 0;
  return true;
}

// Whether a tensor with these two groups of axes is a matrix as gemm takes it; the strides of the groups.
bool is_matrix(const AxisList& first, const AxisList& second, int64_t ContractionAxis::* stride, int64_t& first_stride,
               int64_t& second_stride) {
  return joined(first, stride, first_stride) && joined(second, stride, second_stride) &&
         (first.count == 0 || second.count == 0 || first_stride == 1 || second_stride == 1);
}

// Gives axes packed strides in a copy of one tensor, [batch][first][second]; the number of elements of the copy.
int64_t pack_strides(AxisList& batch, AxisList& first, AxisList& second, int64_t ContractionAxis::* stride) {
  int64_t step = 1;
  for (AxisList* group : {&second, &first, &batch})
    for (int i = group->count - 1; i >= 0; i--) {
      group->axis[i].*stride = step;
      step *= group->axis[i].size;
    }
  return step;
}

// The axes along which a tensor and its copy are moved: `a` in the tensor, `c` in the copy, or the other way round.
void add_moves(AxisList& moves, const AxisList& before, const AxisList& after, int64_t ContractionAxis::* stride,
               bool back) {
  for (int i = 0; i < before.count; i++) {
    int64_t tensor = before.axis[i].*stride, copy = after.axis[i].*stride;
    moves.add({before.axis[i].size, back ? copy : tensor, 0, back ? tensor : copy});
  }
}

void sort_by(AxisList& axes, int64_t ContractionAxis::* stride) {
  std::stable_sort(axes.begin(), axes.end(),
                   [=](const ContractionAxis& x, const ContractionAxis& y) { return x.*stride > y.*stride; });
}

// All rows, columns and steps as one matrix product; tensors in another arrangement are copied.
class JoinedProduct {
 public:
  JoinedProduct(const Contraction& p, const Parts& parts, int threads) : given_(p), parts_(parts), threads_(threads) {
    sort_by(parts_.rows, &ContractionAxis::c);
    sort_by(parts_.columns, &ContractionAxis::c);
    sort_by(parts_.sums, &ContractionAxis::a);
    sort_by(parts_.batch, &ContractionAxis::c);
  }

  void run_all() {
    Products q = operands_of(given_);
    q.m.size = parts_.rows.product();
    q.n.size = parts_.columns.product();
    q.k.size = parts_.sums.product();
    q.loops = parts_.batch;
    // A factor on sums that are added to C has to be on an operand.
    auto must_copy = [&] { return given_.accumulate && q.alpha != 1.f; };
    const bool a_is_smaller = q.m.size <= q.n.size;
    read(q, &ContractionAxis::a, parts_.rows, parts_.sums, q.m.a, q.k.a, a_is_smaller && must_copy(), kContractionA);
    read(q, &ContractionAxis::b, parts_.sums, parts_.columns, q.k.b, q.n.b, must_copy(), kContractionB);
    write(q);
  }

 private:
  // Lets the product read A (or B) where it lies, or from a copy, which takes the factor along.
  void read(Products& q, int64_t ContractionAxis::* stride, const AxisList& first, const AxisList& second,
            int64_t& first_stride, int64_t& second_stride, bool must_copy, int slot) {
    if (!must_copy && is_matrix(first, second, stride, first_stride, second_stride)) return;
    const bool is_a = stride == &ContractionAxis::a;
    AxisList batch = parts_.batch, copied_first = first, copied_second = second, moves;
    const int64_t count = pack_strides(batch, copied_first, copied_second, stride);
    float* copy = scratch(slot, static_cast<size_t>(count));
    add_moves(moves, parts_.batch, batch, stride, false);
    add_moves(moves, first, copied_first, stride, false);
    add_moves(moves, second, copied_second, stride, false);
    move_elements(moves, is_a ? q.a : q.b, copy, q.alpha, false, threads_);
    q.alpha = 1;
    (is_a ? q.a : q.b) = copy;
    for (int i = 0; i < batch.count; i++) q.loops.axis[i].*stride = batch.axis[i].*stride;
    joined(copied_first, stride, first_stride);
    joined(copied_second, stride, second_stride);
  }

  void write(Products& q) {
    constexpr auto c = &ContractionAxis::c;
    if (is_matrix(parts_.rows, parts_.columns, c, q.m.c, q.n.c)) return run(q, threads_);
    AxisList batch = parts_.batch, rows = parts_.rows, columns = parts_.columns, moves;
    const int64_t count = pack_strides(batch, rows, columns, c);
    add_moves(moves, parts_.batch, batch, c, true);
    add_moves(moves, parts_.rows, rows, c, true);
    add_moves(moves, parts_.columns, columns, c, true);
    for (int i = 0; i < batch.count; i++) q.loops.axis[i].c = batch.axis[i].c;
    joined(rows, c, q.m.c);
    joined(columns, c, q.n.c);
    const float alpha = q.alpha;
    float* to = q.c;
    float* copy = q.c = scratch(kContractionC, static_cast<size_t>(count));
    q.alpha = 1;
    q.accumulate = false;
    run(q, threads_);
    move_elements(moves, copy, to, alpha, given_.accumulate, threads_);
  }

  const Contraction& given_;
  Parts parts_;
  const int threads_;
};

// Vectors along an axis of the batch serve small matrices better than a product for each.
bool suits_loops(const Parts& parts) {
  int extended = (parts.rows.count > 0) + (parts.columns.count > 0) + (parts.sums.count > 0);
  if (extended < 2) return true;
  if (parts.multiplications() >= kTiny) return false;
  for (const ContractionAxis& x : parts.batch)
    if (x.c == 1 && x.a == 1 && x.b == 1) return x.size >= 8;
  return false;
}

void contract_pair(const Contraction& p, int threads) {
  const Parts parts(p.axes);
  if (suits_loops(parts)) return contract_by_loops(p, threads);
  Products q;
  const int64_t size = product_in_place(p, parts, q);
  const bool scaled_sum = p.accumulate && p.alpha != 1.f;
  if (!scaled_sum && size > 0 && (size == parts.multiplications() || size >= kWorthwhile)) return run(q, threads);
  JoinedProduct(p, parts, threads).run_all();
}

// The same without the axes that `leaves` picks, over which one operand is summed first.
template <class Leaves>
void sum_operand(Contraction& p, Leaves leaves, int64_t ContractionAxis::* stride, const float*& operand, int slot,
                 int threads) {
  if (std::none_of(p.axes.begin(), p.axes.end(), leaves)) return;
  Contraction sum;
  AxisList rest;
  int64_t step = 1;
  for (int i = p.axes.count - 1; i >= 0; i--) {
    ContractionAxis x = p.axes.axis[i];
    if (x.*stride == 0) {
      rest.add(x);
      continue;
    }
    if (leaves(x)) {
      sum.axes.add({x.size, x.*stride, 0, 0});
      continue;
    }
    sum.axes.add({x.size, x.*stride, 0, step});
    x.*stride = step;
    step *= x.size;
    rest.add(x);
  }
  float* summed = scratch(slot, static_cast<size_t>(step));
  sum.a = operand;
  sum.c = summed;
  simplify(sum.axes);
  contract_by_loops(sum, threads);
  operand = summed;
  p.axes = rest;
}

// Results that are the same along some axes: computed once, then spread.
void contract_repeated(const Contraction& p, int threads) {
  Contraction once = p;
  AxisList moves;
  int64_t step = 1;
  once.axes.count = 0;
  for (ContractionAxis x : p.axes) {
    if (x.repeated()) {
      moves.add({x.size, 0, 0, x.c});
      continue;
    }
    if (!x.summed()) {
      moves.add({x.size, step, 0, x.c});
      x.c = step;
      step *= x.size;
    }
    once.axes.add(x);
  }
  float* result = scratch(kContractionOnce, static_cast<size_t>(step));
  once.c = result;
  once.accumulate = false;
  contract(once, threads);
  move_elements(moves, result, p.c, 1.f, p.accumulate, threads);
}

}  // namespace

void simplify(AxisList& axes) {
  AxisList kept;
  for (const ContractionAxis& x : axes)
    if (x.size != 1) kept.add(x);
  for (int i = 0; i < kept.count;) {
    int inner = -1;
    for (int j = 0; j < kept.count && inner < 0; j++) {
      const ContractionAxis &x = kept.axis[i], &y = kept.axis[j];
      if (i != j && x.a == y.size * y.a && x.b == y.size * y.b && x.c == y.size * y.c) inner = j;
    }
    if (inner < 0) {
      i++;
      continue;
    }
    kept.axis[inner].size *= kept.axis[i].size;
    kept.take(i);
    i = 0;
  }
  axes = kept;
}

bool contract_stored(const Contraction& given, int threads) {
  Contraction p = given;
  simplify(p.axes);
  const auto is_part = [](const ContractionAxis& x) { return x.batch() || x.row() || x.column() || (x.a && x.b); };
  if (!p.b || !std::all_of(p.axes.begin(), p.axes.end(), is_part)) return false;
  const Parts parts(p.axes);
  Products q;
  const int64_t size = suits_loops(parts) ? 0 : product_in_place(p, parts, q);
  if (size == 0 || q.sums.count > 0 || (size < parts.multiplications() && size < kWorthwhile)) return false;
  run(q, threads);
  return true;
}

void contract(const Contraction& given, int threads) {
  Contraction p = given;
  simplify(p.axes);
  if (std::any_of(p.axes.begin(), p.axes.end(), [](const ContractionAxis& x) { return x.repeated(); }))
    return contract_repeated(p, threads);
  if (!p.b) {
    if (std::any_of(p.axes.begin(), p.axes.end(), [](const ContractionAxis& x) { return x.summed(); }))
      return contract_by_loops(p, threads);
    return move_elements(p.axes, p.a, p.c, p.alpha, p.accumulate, threads);
  }
  sum_operand(
      p, [](const ContractionAxis& x) { return x.summed() && !x.b; }, &ContractionAxis::a, p.a, kContractionSumA,
      threads);
  sum_operand(
      p, [](const ContractionAxis& x) { return x.summed() && !x.a; }, &ContractionAxis::b, p.b, kContractionSumB,
      threads);
  simplify(p.axes);
  contract_pair(p, threads);
}

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
