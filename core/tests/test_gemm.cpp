// Matrix product and fully connected layer against naive float64 loops. Compiled once per instruction set.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "common/stored_rows.h"
#include "gemm/bfloat16_kernel.h"
#include "gemm/gemm.h"
#include "gemm/integer_kernel.h"
#include "gemm/stored_product.h"
#include "kernels/activation/activation.h"
#include "kernels/kernels.h"
#include "runtime/product_tuning.h"
#include "runtime/scratch.h"
#include "tests/testing.h"
#if defined(__AVX512F__) && defined(__linux__)
#include <sys/mman.h>
#include <unistd.h>

#include "tests/amx_in_software.h"
#endif

namespace openbnns {
namespace OPENBNNS_ISA {
namespace {

using testing::Counts;
using testing::Doubles;
using testing::Floats;
using testing::Random;

void check_product(Counts& counts, Random& random, int64_t m, int64_t n, int64_t k, int variant) {
  bool ta = variant & 1, tb = variant & 2, adds = variant & 4;
  int bias = adds ? 0 : static_cast<int>(random.integer(0, 2));
  int64_t lda = (ta ? m : k) + random.integer(0, 5), ldb = (tb ? k : n) + random.integer(0, 5),
          ldc = n + random.integer(0, 5);
  Floats a = random.reals((ta ? k : m) * lda), b = random.reals((tb ? n : k) * ldb), row = random.reals(m),
         column = random.reals(n), c = adds ? random.reals(m * ldc) : testing::poison(m * ldc), untouched = c;
  Doubles expected(m * n);
  for (int64_t i = 0; i < m; i++)
    for (int64_t j = 0; j < n; j++) {
      double sum = adds ? c[i * ldc + j] : bias == 1 ? row[i] : bias == 2 ? column[j] : 0;
      for (int64_t q = 0; q < k; q++)
        sum += static_cast<double>(ta ? a[q * lda + i] : a[i * lda + q]) * (tb ? b[j * ldb + q] : b[q * ldb + j]);
      expected[i * n + j] = sum;
    }
  std::string what = "product m" + std::to_string(m) + " n" + std::to_string(n) + " k" + std::to_string(k) +
                     " variant" + std::to_string(variant) + " bias" + std::to_string(bias);
  Floats first;
  for (int threads = 1; threads <= 3; threads++) {
    Floats result = untouched;
    MatrixProduct p{m, n, k, a.data(), lda, b.data(), ldb, result.data(), ldc};
    p.transpose_a = ta;
    p.transpose_b = tb;
    p.accumulate = adds;
    p.row_bias = bias == 1 ? row.data() : nullptr;
    p.column_bias = bias == 2 ? column.data() : nullptr;
    matrix_product(p, threads);
    Floats inside(m * n);
    for (int64_t i = 0; i < m; i++) {
      for (int64_t j = 0; j < n; j++) inside[i * n + j] = result[i * ldc + j];
      counts.checks++;
      if (std::memcmp(&result[i * ldc + n], &untouched[i * ldc + n], (ldc - n) * sizeof(float))) {
        counts.failures++;
        std::printf("FAIL %s: wrote beyond a row\n", what.c_str());
      }
    }
    counts.close(what, inside, expected);
    if (threads == 1) first = inside;
    counts.same_bits(what + " threads", inside, first);
  }
}

// A column has the same bits whatever columns lie beside it, in whichever kernel it ends up, and from a kept packed B.
void check_leftover_columns(Counts& counts, Random& random, int64_t m, int64_t k, int variant) {
  constexpr int64_t kMost = 96;
  const bool ta = variant & 1, tb = variant & 2, adds = variant & 4, row_bias = variant & 8;
  const int64_t lda = ta ? m : k, ldb = tb ? k : kMost;
  Floats a = random.reals(m * k), b = random.reals(k * kMost), row = random.reals(m), column = random.reals(kMost),
         before = random.reals(m * kMost), all;
  for (int64_t n = kMost; n > 0; n--) {
    Floats result = before, packed(packed_b_floats(n, k));
    MatrixProduct p{m, n, k, a.data(), lda, b.data(), ldb, result.data(), kMost};
    p.transpose_a = ta;
    p.transpose_b = tb;
    p.accumulate = adds;
    if (!adds) (row_bias ? p.row_bias : p.column_bias) = row_bias ? row.data() : column.data();
    if (n % 2) {
      pack_matrix_b(p, packed.data(), 1);
      p.packed_b = packed.data();
    }
    packed_product(p);
    if (n == kMost) all = result;
    Floats expected = before;
    for (int64_t i = 0; i < m; i++) std::copy_n(&all[i * kMost], n, &expected[i * kMost]);
    counts.same_bits(
        "leftover columns m" + std::to_string(m) + " n" + std::to_string(n) + " variant" + std::to_string(variant),
        result, expected);
  }
}

// Operands of a product as they are stored, with gaps behind their rows.
struct StoredOperands {
  int64_t m, n, k;
  bool ta, tb;
  Element a_element, b_element;
  int64_t lda, ldb;
  std::vector<uint8_t> a = {}, b = {};

  StoredOperands(Random& random, int64_t m, int64_t n, int64_t k, int variant, Element a_element, Element b_element)
      : m(m), n(n), k(k), ta(variant & 1), tb(variant & 2), a_element(a_element), b_element(b_element) {
    lda = (ta ? m : k) + random.integer(0, 5);
    ldb = (tb ? k : n) + random.integer(0, 5);
  }
  int64_t a_count() const { return (ta ? k : m) * lda; }
  int64_t b_count() const { return (tb ? n : k) * ldb; }

  std::string name(const char* kind, int variant) const {
    return std::string(kind) + " m" + std::to_string(m) + " n" + std::to_string(n) + " k" + std::to_string(k) +
           " variant" + std::to_string(variant) + " types " + std::to_string(static_cast<int>(a_element.type)) + " " +
           std::to_string(static_cast<int>(b_element.type));
  }
  // The sum over q of a_value(place) * b_value(place), by the places of elements.
  template <class Sum, class AValue, class BValue>
  Sum sum(int64_t i, int64_t j, AValue a_value, BValue b_value) const {
    Sum total = 0;
    for (int64_t q = 0; q < k; q++)
      total += static_cast<Sum>(a_value(ta ? q * lda + i : i * lda + q)) * b_value(tb ? j * ldb + q : q * ldb + j);
    return total;
  }
  MatrixProduct product(void* c, int64_t ldc) const {
    MatrixProduct p{m,   n,
                    k,   reinterpret_cast<const float*>(a.data()),
                    lda, reinterpret_cast<const float*>(b.data()),
                    ldb, static_cast<float*>(c),
                    ldc};
    p.transpose_a = ta;
    p.transpose_b = tb;
    p.a_element = a_element;
    p.b_element = b_element;
    p.sums = sums_of(p);
    return p;
  }
};

// On two threads with B packed beforehand.
void run_product(MatrixProduct p, int threads) {
  Floats packed;
  if (threads == 2 && packs(p)) {
    packed.resize(packed_b_floats(p));
    pack_matrix_b(p, packed.data(), threads);
    p.packed_b = packed.data();
  }
  matrix_product(p, threads);
}

// Bytes, with exact sums of two or four products at a time, to int32; transposed operands and accumulation by
// turns.
void check_bytes(Counts& counts, Random& random, int64_t m, int64_t n, int64_t k, int variant, SumKind sums) {
  const bool adds = variant & 4;
  const Element types[] = {{ElementType::kInt8}, {ElementType::kUInt8}};
  StoredOperands given(random, m, n, k, variant, types[variant >> 3 & 1], types[variant >> 4 & 1]);
  given.a.resize(given.a_count());
  given.b.resize(given.b_count());
  for (auto* bytes : {&given.a, &given.b})
    for (uint8_t& byte : *bytes) byte = random.chance(10) ? 128 : static_cast<uint8_t>(random.integer(0, 255));
  const auto values = [](const std::vector<uint8_t>& bytes, const Element& e) {
    return [&bytes, is_signed = e.type == ElementType::kInt8](int64_t i) {
      return is_signed ? static_cast<int8_t>(bytes[i]) : static_cast<int>(bytes[i]);
    };
  };
  const int64_t ldc = n + 2;
  std::vector<int32_t> before(m * ldc), expected;
  for (int32_t& c : before) c = static_cast<int32_t>(random.integer(-9, 9));
  expected = before;
  for (int64_t i = 0; i < m; i++)
    for (int64_t j = 0; j < n; j++)
      expected[i * ldc + j] =
          (adds ? before[i * ldc + j] : 0) +
          given.sum<int32_t>(i, j, values(given.a, given.a_element), values(given.b, given.b_element));
  for (int threads = 1; threads <= 3; threads++) {
    std::vector<int32_t> result = before;
    MatrixProduct p = given.product(result.data(), ldc);
    p.accumulate = adds;
    p.c_element = {ElementType::kInt32};
    p.sums = sums;
    run_product(p, threads);
    counts.checks++;
    if (result != expected) {
      counts.failures++;
      const char* kind = sums == SumKind::kByteQuads ? "quads" : "pairs";
      std::printf("FAIL %s threads %d\n", given.name(kind, variant).c_str(), threads);
    }
  }
}

// Operands of two bytes, or of one and of four, against float64; the result is float32.
void check_halves(Counts& counts, Random& random, int64_t m, int64_t n, int64_t k, int variant) {
  const Element types[] = {
      {ElementType::kFloat16}, {ElementType::kBFloat16}, {ElementType::kInt8, 0.5f, 0.25f}, {ElementType::kFloat32}};
  StoredOperands given(random, m, n, k, variant, types[random.integer(0, 3)], types[random.integer(0, 1)]);
  const auto store = [&](const Element& e, Floats& values) {
    const auto count = static_cast<int64_t>(values.size());
    std::vector<uint8_t> bytes(count * 4);
    encode(e, values.data(), count, bytes.data());
    decode(e, bytes.data(), count, values.data());
    return bytes;
  };
  Floats a = random.reals(given.a_count()), b = random.reals(given.b_count()), first;
  given.a = store(given.a_element, a);
  given.b = store(given.b_element, b);
  Doubles expected(m * n);
  for (int64_t i = 0; i < m; i++)
    for (int64_t j = 0; j < n; j++)
      expected[i * n + j] =
          given.sum<double>(i, j, [&](int64_t at) { return a[at]; }, [&](int64_t at) { return b[at]; });
  const std::string what = given.name("stored", variant);
  for (int threads = 1; threads <= 3; threads++) {
    Floats result = testing::poison(m * n);
    run_product(given.product(result.data(), n), threads);
    counts.close(what, result, expected);
    if (threads == 1) first = result;
    counts.same_bits(what + " threads", result, first);
  }
}

// Pairs of BFloat16, stored or rounded from float32: the sums are those of a fused multiply-add for every number, those
// at odd steps before their even neighbours, with a new sum for every block of steps.
void check_bfloat16_pairs(Counts& counts, Random& random, int64_t m, int64_t n, int64_t k, int variant) {
  constexpr int64_t kBlockSteps = 384;
  const bool rounds_a = variant & 4, rounds_b = variant & 8, adds = variant & 16;
  const Element stored{ElementType::kBFloat16};
  StoredOperands given(random, m, n, k, variant, rounds_a ? Element{} : stored, rounds_b ? Element{} : stored);
  const auto make = [&](int64_t count, bool rounds, std::vector<uint8_t>& bytes) {
    Floats values = random.reals(count), rounded = values;
    std::vector<uint8_t> halves(2 * count);
    encode(stored, values.data(), count, halves.data());
    decode(stored, halves.data(), count, rounded.data());
    bytes = halves;
    if (rounds) bytes.assign(reinterpret_cast<uint8_t*>(values.data()), reinterpret_cast<uint8_t*>(&values[count]));
    return rounded;
  };
  const Floats a = make(given.a_count(), rounds_a, given.a), b = make(given.b_count(), rounds_b, given.b),
               before = random.reals(m * n), bias = random.reals(n);
  const int64_t steps = (k + 1) / 2, blocks = (steps + kBlockSteps - 1) / kBlockSteps,
                length = 2 * ((steps + blocks - 1) / blocks);
  Floats expected(m * n);
  for (int64_t i = 0; i < m; i++)
    for (int64_t j = 0; j < n; j++) {
      const auto product = [&](float sum, int64_t q) {
        if (q >= k) return sum;
        const float x = a[given.ta ? q * given.lda + i : i * given.lda + q];
        return std::fma(x, b[given.tb ? j * given.ldb + q : q * given.ldb + j], sum);
      };
      float total = adds ? before[i * n + j] : 0.f;
      for (int64_t first = 0; first < k; first += length) {
        float sum = 0;
        for (int64_t q = first; q < std::min(k, first + length); q += 2) sum = product(product(sum, q + 1), q);
        total = first == 0 && !adds ? sum + bias[j] : total + sum;
      }
      expected[i * n + j] = total;
    }
  for (int threads = 1; threads <= 3; threads++) {
    Floats result = before;
    MatrixProduct p = given.product(result.data(), n);
    p.sums = SumKind::kBFloat16Pairs;
    p.accumulate = adds;
    if (!adds) p.column_bias = bias.data();
    if (!packs(p)) return;
    run_product(p, threads);
    counts.same_bits(given.name("pairs of bfloat16", variant) + " threads " + std::to_string(threads), result,
                     expected);
  }
}

#if defined(__AVX512F__) && defined(__linux__)
// The same on AMX, to the last bit: of each 16 steps of a block, the products at even places and those at odd ones are
// sums of their own, which are added up, and then to the sum of the block.
void check_amx(Counts& counts, Random& random, int64_t m, int64_t n, int64_t k, int variant) {
  constexpr int64_t kBlockSteps = 192, kTogether = 16;
  const bool rounds = variant & 4, adds = variant & 8, row_bias = variant & 16;
  const Element stored{ElementType::kBFloat16};
  StoredOperands given(random, m, n, k, variant, rounds ? Element{} : stored, stored);
  const auto make = [&](int64_t count, bool rounds, std::vector<uint8_t>& bytes) {
    Floats values = random.reals(count), rounded = values;
    bytes.resize(2 * count);
    encode(stored, values.data(), count, bytes.data());
    decode(stored, bytes.data(), count, rounded.data());
    if (rounds) bytes.assign(reinterpret_cast<uint8_t*>(values.data()), reinterpret_cast<uint8_t*>(&values[count]));
    return rounded;
  };
  const Floats a = make(given.a_count(), rounds, given.a), b = make(given.b_count(), false, given.b),
               before = random.reals(m * n), bias = random.reals(std::max(m, n));
  const int64_t steps = (k + 1) / 2, blocks = (steps + kBlockSteps - 1) / kBlockSteps;
  const int64_t length = ((steps + blocks - 1) / blocks + kTogether - 1) / kTogether * kTogether;
  Floats expected(m * n);
  for (int64_t i = 0; i < m; i++)
    for (int64_t j = 0; j < n; j++) {
      const auto product = [&](float sum, int64_t q) {
        if (q >= k) return sum;
        const float x = a[given.ta ? q * given.lda + i : i * given.lda + q];
        return std::fma(x, b[given.tb ? j * given.ldb + q : q * given.ldb + j], sum);
      };
      float total = adds ? before[i * n + j] : bias[row_bias ? i : j];
      for (int64_t block = 0; block < steps; block += length) {
        float sum = 0;
        for (int64_t first = block; first < std::min(steps, block + length); first += kTogether) {
          float even = 0, odd = 0;
          for (int64_t q = 2 * first; q < 2 * std::min(steps, first + kTogether); q += 2) {
            even = product(even, q);
            odd = product(odd, q + 1);
          }
          sum += even + odd;
        }
        total = block == 0 && !adds ? sum + total : total + sum;
      }
      expected[i * n + j] = total;
    }
  for (int threads = 1; threads <= 3; threads++) {
    Floats result = adds ? before : testing::poison(m * n);
    MatrixProduct p = given.product(result.data(), n);
    p.sums = SumKind::kBFloat16Pairs;
    p.accumulate = adds;
    if (!adds) (row_bias ? p.row_bias : p.column_bias) = bias.data();
    if (!packs(p)) return;
    run_product(p, threads);
    counts.same_bits(given.name("AMX", variant) + " threads " + std::to_string(threads), result, expected);
  }
}

// Memory that ends where the process may read no further.
class UpToTheEdge {
 public:
  explicit UpToTheEdge(int64_t floats) {
    const int64_t page = sysconf(_SC_PAGESIZE), bytes = floats * static_cast<int64_t>(sizeof(float));
    const int64_t whole = (bytes + page - 1) / page * page;
    mapped_ = whole + page;
    memory_ = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char* edge = static_cast<char*>(memory_) + whole;
    if (memory_ == MAP_FAILED || mprotect(edge, page, PROT_NONE) != 0) std::abort();
    data_ = reinterpret_cast<float*>(edge - bytes);
    std::fill_n(data_, floats, std::numeric_limits<float>::quiet_NaN());
  }
  UpToTheEdge(const UpToTheEdge&) = delete;
  UpToTheEdge& operator=(const UpToTheEdge&) = delete;
  ~UpToTheEdge() { munmap(memory_, mapped_); }
  float* data() const { return data_; }
  float& operator[](int64_t i) const { return data_[i]; }

 private:
  int64_t mapped_;
  void* memory_;
  float* data_;
};

// What a tile holds in 32 bits: two BFloat16, which are small whole numbers, so that their sums are exact, or four
// bytes, unsigned in A and signed in B, often the largest ones.
struct UnitStep {
  int numbers[4] = {};
  float stored;

  UnitStep(Random& random, SumKind sums, bool of_a) {
    uint32_t bits = 0;
    if (sums == SumKind::kBFloat16Pairs) {
      for (int i = 0; i < 2; i++) {
        const auto number = static_cast<float>(numbers[i] = static_cast<int>(random.integer(-8, 8)));
        uint32_t all;
        std::memcpy(&all, &number, sizeof all);
        bits |= all >> 16 << 16 * i;
      }
    } else {
      const int least = of_a ? 0 : -128, most = of_a ? 255 : 127;
      for (int i = 0; i < 4; i++) {
        numbers[i] = random.chance(40) ? (of_a || random.chance(20) ? most : least)
                                       : static_cast<int>(random.integer(least, most));
        bits |= (static_cast<uint32_t>(numbers[i]) & 255) << 8 * i;
      }
    }
    std::memcpy(&stored, &bits, sizeof stored);
  }
  friend int operator*(const UnitStep& a, const UnitStep& b) {
    int sum = 0;
    for (int i = 0; i < 4; i++) sum += a.numbers[i] * b.numbers[i];
    return sum;
  }
};

// What a kernel of a matrix unit writes: sums of whole numbers, in C as it was before and with a bias.
struct UnitResult {
  SumKind sums;
  Write write;
  int64_t rows, columns;
  std::vector<int> sum;
  Floats c, bias;

  UnitResult(Random& random, SumKind sums, Write write, int64_t rows, int64_t columns)
      : sums(sums), write(write), rows(rows), columns(columns), sum(rows * columns), c(rows * columns), bias(64) {
    for (float& x : c) x = number(static_cast<int>(random.integer(-99, 99)));
    for (float& x : bias) x = static_cast<float>(random.integer(-99, 99));
  }
  float number(int value) const {
    float stored = static_cast<float>(value);
    if (is_exact(sums)) std::memcpy(&stored, &value, sizeof stored);
    return stored;
  }
  Tile tile() {
    Tile t{};
    t.rows = static_cast<int>(rows);
    t.c = c.data();
    t.c_row = columns;
    t.c_block = kBlock;
    t.write = write;
    t.bias = bias.data();
    return t;
  }
  Floats expected() const {
    Floats all(c.size());
    for (int64_t i = 0; i < rows * columns; i++) {
      int before;
      std::memcpy(&before, &c[i], sizeof before);
      if (!is_exact(sums)) before = static_cast<int>(c[i]);
      const int bias_of = write == Write::RowBias      ? static_cast<int>(bias[i / columns])
                          : write == Write::ColumnBias ? static_cast<int>(bias[i % columns])
                                                       : 0;
      all[i] = number(sum[i] + (write == Write::Add ? before : bias_of));
    }
    return all;
  }
};

std::string name_of(const char* kernel, const UnitResult& r, int steps) {
  return std::string("AMX ") + kernel + " rows " + std::to_string(r.rows) + " columns " + std::to_string(r.columns) +
         " steps " + std::to_string(steps) + " sums " + std::to_string(static_cast<int>(r.sums)) + " write " +
         std::to_string(static_cast<int>(r.write));
}

// Every number of rows, blocks of columns and last steps that a kernel can have, with operands of which it may read no
// more: behind B, and behind the last tile of A, memory ends, and what it reads of A and does not use is no number.
void check_amx_product_kernel(Counts& counts, Random& random, SumKind sums, int blocks, int rows, int steps,
                              Write write) {
  const int64_t columns = blocks * kBlock, padded = round_up(steps, kUnitRows);
  UnitResult result(random, sums, write, rows, columns);
  UpToTheEdge a(round_up(rows, kUnitRows) * padded), b(steps * columns);
  std::vector<UnitStep> right;
  for (int64_t i = 0; i < steps * columns; i++) b[i] = right.emplace_back(random, sums, false).stored;
  for (int64_t row = 0; row < rows; row++)
    for (int64_t step = 0; step < padded; step++) {
      const UnitStep left(random, sums, true);
      a[row * padded + step] = step < steps ? left.stored : 0.f;
      for (int64_t j = 0; step < steps && j < columns; j++)
        result.sum[row * columns + j] += left * right[step * columns + j];
    }
  const Floats expected = result.expected();
  Tile t = result.tile();
  t.a = t.next = a.data();
  t.a_step = padded;
  t.b = b.data();
  t.b_step = columns;
  t.entries = steps;
  matrix_unit()->kernel(sums, blocks, rows)(t);
  counts.same_bits(name_of("product", result, steps), result.c, expected);
}

// The same of the kernels of entries, each a tile of A and one of B from places of their own, the last of which end
// where memory does; `pair`: half of the rows in each of two images.
void check_amx_entries_kernel(Counts& counts, Random& random, SumKind sums, int blocks, int rows, bool pair,
                              int entries, Write write) {
  const int64_t columns = blocks * kBlock, half = pair ? rows / 2 : rows, tile = kUnitRows * kBlock;
  const int64_t read = pair || rows <= kUnitRows ? tile : 2 * tile, apart = 3 * entries * kBlock + read;  // of A
  const int64_t b_block = entries * tile;
  UnitResult result(random, sums, write, rows, columns);
  UpToTheEdge a((pair ? apart : 0) + 3 * (entries - 1) * kBlock + read), b(blocks * b_block);
  std::vector<UnitStep> right;  // [entry][step][column]
  std::vector<int32_t> a_offset(entries), b_offset(entries);
  for (int i = 0; i < entries; i++) {
    a_offset[i] = (entries - 1 - i) * 3 * kBlock;  // backwards, and overlapping
    b_offset[i] = static_cast<int32_t>(i * tile);
  }
  std::vector<UnitStep> all;  // of A, from the first address of an image on
  const int64_t words = 3 * (entries - 1) * kBlock + half * kBlock;
  for (int image = 0; image < (pair ? 2 : 1); image++)
    for (int64_t i = 0; i < words; i++) a[image * apart + i] = all.emplace_back(random, sums, true).stored;
  for (int i = 0; i < entries; i++)
    for (int64_t step = 0; step < kBlock; step++)
      for (int64_t j = 0; j < columns; j++)
        b[j / kBlock * b_block + b_offset[i] + step * kBlock + j % kBlock] =
            right.emplace_back(random, sums, false).stored;
  for (int64_t row = 0; row < rows; row++)
    for (int i = 0; i < entries; i++)
      for (int64_t step = 0; step < kBlock; step++)
        for (int64_t j = 0; j < columns; j++)
          result.sum[row * columns + j] += all[row / half * words + a_offset[i] + row % half * kBlock + step] *
                                           right[(i * kBlock + step) * columns + j];
  const Floats expected = result.expected();
  Tile t = result.tile();
  t.a = a.data();
  t.a_offset = a_offset.data();
  t.a_pair = apart;
  t.b = b.data();
  t.b_offset = b_offset.data();
  t.b_block = b_block;
  t.entries = entries;
  t.c_pair = half * columns;
  matrix_unit()->entries_kernel(sums, blocks, rows, pair)(t);
  counts.same_bits(name_of(pair ? "pair" : "entries", result, entries), result.c, expected);
}

void check_amx_kernels(Counts& counts, Random& random) {
  for (SumKind sums : {SumKind::kBFloat16Pairs, SumKind::kByteQuads}) {
    const MatrixUnitInUse unit(sums);
    const auto write = [&] {
      const Write all[] = {Write::Set, Write::Add, Write::ColumnBias, Write::RowBias};
      return all[random.integer(0, is_exact(sums) ? 1 : 3)];
    };
    for (int blocks = 1; blocks <= kWideBlocks; blocks++)
      for (int rows = 1; rows <= 2 * kUnitRows; rows++) {
        for (int steps = rows % 3 + 1; steps <= 3 * kUnitRows; steps += rows % kUnitRows == 0 ? 1 : 7)
          check_amx_product_kernel(counts, random, sums, blocks, rows, steps, write());
        for (int entries = 1; entries <= 4; entries++) {
          check_amx_entries_kernel(counts, random, sums, blocks, rows, false, entries, write());
          if (rows % 2 == 0) check_amx_entries_kernel(counts, random, sums, blocks, rows, true, entries, write());
        }
      }
  }
}
#endif

// Not a number stays one, infinity meets its rules, and subnormal numbers count as 0.
void check_bfloat16_limits(Counts& counts) {
  constexpr int64_t kSize = 16;
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  float all_ones;
  const uint32_t ones = 0x7FFFFFFF;
  std::memcpy(&all_ones, &ones, sizeof ones);
  const float special[] = {nan, all_ones, inf, -inf, 3.4028235e38f, 1e-40f, 1.f};
  for (float value : special) {
    Floats a(kSize * kSize, 0.f), b(kSize * kSize, 0.f), c(kSize * kSize);
    a[0] = value;
    b[0] = 1.f;
    MatrixProduct p{kSize, kSize, kSize, a.data(), kSize, b.data(), kSize, c.data(), kSize};
    p.sums = SumKind::kBFloat16Pairs;
    packed_product(p);
    counts.checks++;
    const float rounded = value == 3.4028235e38f ? inf : value == 1e-40f ? 0.f : value;
    if (std::isnan(value) ? !std::isnan(c[0]) : c[0] != rounded) {
      counts.failures++;
      std::printf("FAIL %g becomes %g\n", static_cast<double>(value), static_cast<double>(c[0]));
    }
  }
}

// CPUs of both makers, with caches such as they have, and some that nobody has.
constexpr Cpu kCpus[] = {
    {false, 32 << 10, 512 << 10},
    {false, 32 << 10, 1 << 20},
    {false, 48 << 10, 1 << 20},
    {true, 32 << 10, 256 << 10},
    {true, 32 << 10, 1 << 20},
    {true, 48 << 10, 5 << 18},
    {true, 48 << 10, 2 << 20},
    {true, 48 << 10, 3 << 20},
    {false, 0, 0},
    {true, 0, 0},
    {false, 1, 1 << 10},
    {true, 64 << 10, 64 << 20},
};

// A CPU as long as it lives.
class AssumedCpu {
 public:
  explicit AssumedCpu(const Cpu& cpu) { assume_cpu(cpu); }
  AssumedCpu(const AssumedCpu&) = delete;
  AssumedCpu& operator=(const AssumedCpu&) = delete;
  ~AssumedCpu() { assume_cpu(this_cpu()); }
};

// Which table a CPU takes, and how much of its second cache counts.
void check_tuning(Counts& counts) {
  for (const Cpu& cpu : kCpus) {
    const ProductTuning t = tuning_for(cpu);
    const bool is_intel_of_2021 = cpu.by_intel && cpu.first_cache >= 48 << 10;
    const int64_t bytes = cpu.second_cache == 0         ? 1 << 20
                          : cpu.second_cache == 1 << 10 ? 256 << 10
                                                        : std::min<int64_t>(cpu.second_cache, 2 << 20);
    counts.checks++;
    if (t.second_cache == bytes && t.task_tiles == (is_intel_of_2021 ? 16 : 8) &&
        t.steps_ahead == (is_intel_of_2021 ? 32 : 16))
      continue;
    counts.failures++;
    std::printf("FAIL tuning for %s with %d KB of L1 and %d KB of L2\n", cpu.by_intel ? "Intel" : "others",
                static_cast<int>(cpu.first_cache >> 10), static_cast<int>(cpu.second_cache >> 10));
  }
  counts.checks++;
  const AssumedCpu intel({true, 48 << 10, 2 << 20});
  if (kTuned.task_tiles == 16) return;
  counts.failures++;
  std::printf("FAIL an assumed CPU has no effect\n");
}

// The CPU decides how rows and columns are cut, and what is asked for when, but not a bit of the result. Sums of
// floats, or of pairs of BFloat16.
void check_cpus(Counts& counts, Random& random, int64_t m, int64_t n, int64_t k, int variant, SumKind sums) {
  const bool ta = variant & 1, tb = variant & 2;
  Floats a = random.reals(m * k), b = random.reals(k * n), first;
  for (const Cpu& cpu : kCpus)
    for (int threads = 1; threads <= 3; threads++) {
      const AssumedCpu assumed(cpu);
      Floats result = testing::poison(m * n);
      MatrixProduct p{m, n, k, a.data(), ta ? m : k, b.data(), tb ? k : n, result.data(), n};
      p.transpose_a = ta;
      p.transpose_b = tb;
      p.sums = sums;
      run_product(p, threads);
      if (first.empty()) first = result;
      counts.same_bits(std::string("product on a CPU ") + (cpu.by_intel ? "of Intel" : "of others") + " with " +
                           std::to_string(cpu.second_cache >> 10) + " KB of L2",
                       result, first);
    }
}

// Per sample rows of length `count`, `stride` apart, gathered without the gaps.
Floats rows_of(const Floats& v, int64_t rows, int64_t stride, int64_t count) {
  Floats out;
  for (int64_t i = 0; i < rows; i++) out.insert(out.end(), v.begin() + i * stride, v.begin() + i * stride + count);
  return out;
}

void check_fully_connected(Counts& counts, Random& random, int64_t batch, int64_t inputs, int64_t outputs,
                           ActivationSpec f) {
  std::string what = "fully connected " + std::to_string(batch) + "x" + std::to_string(inputs) + "->" +
                     std::to_string(outputs) + " f" + std::to_string(f.function);
  int64_t sx = inputs + random.integer(0, 3), sy = outputs + random.integer(0, 3);
  bool has_bias = random.chance(70), adds = random.chance(50);
  Floats x = random.reals(batch * sx), w = random.reals(outputs * inputs), b = random.reals(outputs),
         dy = random.reals(batch * sy);
  Floats y0, dx0 = random.reals(batch * sx), dw0 = random.reals(outputs * inputs), db0 = random.reals(outputs);
  Doubles z(batch * outputs);
  for (int64_t n = 0; n < batch; n++)
    for (int64_t o = 0; o < outputs; o++) {
      double sum = has_bias ? b[o] : 0;
      for (int64_t i = 0; i < inputs; i++) sum += static_cast<double>(x[n * sx + i]) * w[o * inputs + i];
      z[n * outputs + o] = sum;
    }
  Floats zf(z.begin(), z.end()), yf(z.size()), dz(z.size());
  activation_forward(f, zf.data(), yf.data(), static_cast<int64_t>(zf.size()), outputs);
  Floats dy_packed = rows_of(dy, batch, sy, outputs);
  Floats first[4];
  auto plan = make_fully_connected({inputs, outputs}, f);
  for (int threads = 1; threads <= 3; threads++) {
    Floats y = testing::poison(batch * sy), dx = adds ? dx0 : testing::poison(batch * sx),
           dw = adds ? dw0 : testing::poison(outputs * inputs), db = adds ? db0 : testing::poison(outputs);
    Call call;
    call.batch = batch;
    call.threads = threads;
    call.address[X] = x.data(), call.stride[X] = sx;
    call.address[W] = w.data();
    call.address[B] = has_bias ? b.data() : nullptr;
    call.address[Y] = y.data(), call.stride[Y] = sy;
    plan->forward(call);
    Floats y_packed = rows_of(y, batch, sy, outputs);
    counts.close(what + " y", y_packed, Doubles(yf.begin(), yf.end()));
    activation_backward_from_output(f, y_packed.data(), dy_packed.data(), dz.data(), static_cast<int64_t>(dz.size()),
                                    outputs);
    Doubles edx(batch * inputs), edw(outputs * inputs), edb(outputs);
    if (adds) {
      for (int64_t n = 0; n < batch; n++)
        for (int64_t i = 0; i < inputs; i++) edx[n * inputs + i] = dx0[n * sx + i];
      edw.assign(dw0.begin(), dw0.end());
      edb.assign(db0.begin(), db0.end());
    }
    for (int64_t n = 0; n < batch; n++)
      for (int64_t o = 0; o < outputs; o++) {
        double g = dz[n * outputs + o];
        edb[o] += g;
        for (int64_t i = 0; i < inputs; i++) {
          edx[n * inputs + i] += g * w[o * inputs + i];
          edw[o * inputs + i] += g * x[n * sx + i];
        }
      }
    call.address[DX] = dx.data(), call.stride[DX] = sx;
    call.address[DY] = dy.data(), call.stride[DY] = sy;
    call.address[DW] = dw.data();
    call.address[DB] = db.data();
    if (adds) call.accumulate = 1u << DX | 1u << DW | 1u << DB;
    plan->backward(call);
    counts.close(what + " dx", rows_of(dx, batch, sx, inputs), edx);
    counts.close(what + " dw", dw, edw);
    counts.close(what + " db", db, edb, 1);
    Floats results[4] = {y, rows_of(dx, batch, sx, inputs), dw, db};
    for (int i = 0; i < 4; i++) {
      if (threads == 1) first[i] = results[i];
      if (i > 0) counts.same_bits(what + " threads", results[i], first[i]);
    }
  }
}

}  // namespace

int run_gemm_tests() {
  set_scratch_poison(true);
  Counts counts;
  Random random(7);
  const int64_t sizes[][3] = {{1, 1, 1},      {3, 5, 7},      {14, 32, 16},    {15, 33, 17},  {32, 32, 64},
                              {100, 77, 300}, {1, 8, 8},      {129, 257, 513}, {520, 40, 30}, {1, 300, 200},
                              {300, 1, 200},  {2, 64, 1},     {64, 1100, 40},  {5, 19, 600},  {12, 100, 33},
                              {200, 130, 2},  {203, 101, 90}, {2100, 17, 40}};
  for (auto& s : sizes)
    for (int variant = 0; variant < 8; variant++) check_product(counts, random, s[0], s[1], s[2], variant);
  for (int i = 0; i < 60; i++)
    check_product(counts, random, random.integer(1, 70), random.integer(1, 70), random.integer(1, 70), i % 8);
  for (int variant = 0; variant < 16; variant++)
    for (int64_t m : {5, 14, 45, 130}) check_leftover_columns(counts, random, m, m == 45 ? 300 : 37, variant);
  for (auto& s : sizes)
    for (int variant = 0; variant < 32; variant++) {
      if (variant < 4) check_halves(counts, random, s[0], s[1], s[2], variant);
      if (has_bfloat16_sums()) check_bfloat16_pairs(counts, random, s[0], s[1], s[2], variant);
      check_bytes(counts, random, s[0], s[1], s[2], variant, SumKind::kBytePairs);
      if (has_quad_sums()) check_bytes(counts, random, s[0], s[1], s[2], variant, SumKind::kByteQuads);
    }
  if (has_bfloat16_sums()) {
    for (int i = 0; i < 60; i++)
      check_bfloat16_pairs(counts, random, random.integer(9, 80), random.integer(1, 80), random.integer(1, 900), i);
    check_bfloat16_limits(counts);
  }
#if defined(__AVX512F__) && defined(__linux__)
  if (has_bfloat16_sums() && has_quad_sums()) {
    const amx_in_software::InUse amx;
    check_amx_kernels(counts, random);
    for (auto& s : sizes)
      for (int variant = 0; variant < 32; variant += s[0] * s[1] * s[2] > 1000000 ? 5 : 1) {  // software is slow
        check_amx(counts, random, s[0], s[1], s[2], variant);
        check_bytes(counts, random, s[0], s[1], s[2], variant, SumKind::kByteQuads);
      }
    for (int i = 0; i < 64; i++) {
      const int64_t m = random.integer(9, 80), n = random.integer(1, 80), k = random.integer(1, 900);
      check_amx(counts, random, m, n, k, i % 32);
      check_bytes(counts, random, m, n, k, i % 32, SumKind::kByteQuads);
    }
    check_bfloat16_limits(counts);
  }
#endif
  {
    const AssumedCpu intel({true, 48 << 10, 2 << 20});
    for (auto& s : sizes)
      for (int variant = 0; variant < 32; variant += 5) {
        check_product(counts, random, s[0], s[1], s[2], variant % 8);
        if (has_bfloat16_sums()) check_bfloat16_pairs(counts, random, s[0], s[1], s[2], variant);
        check_bytes(counts, random, s[0], s[1], s[2], variant, SumKind::kBytePairs);
        if (has_quad_sums()) check_bytes(counts, random, s[0], s[1], s[2], variant, SumKind::kByteQuads);
      }
  }
  for (int variant = 0; variant < 4; variant++) {
    const SumKind all[] = {SumKind::kFloats, SumKind::kBFloat16Pairs};
    for (SumKind sums : all) {
      if (sums == SumKind::kBFloat16Pairs && !has_bfloat16_sums()) continue;
      check_cpus(counts, random, 600, 700, 300, variant, sums);
      check_cpus(counts, random, 130, 1500, 520, variant, sums);
      check_cpus(counts, random, 1500, 90, 257, variant, sums);
    }
  }
  check_tuning(counts);
  const int64_t layers[][3] = {{1, 8, 8}, {32, 64, 32}, {128, 200, 150}, {3, 1, 1}, {70, 33, 17}, {1, 500, 300}};
  for (auto& s : layers)
    for (int function : {0, 1, 4, 11}) check_fully_connected(counts, random, s[0], s[1], s[2], {function, 0, 0});
  check_fully_connected(counts, random, 40, 5, 60000, {1, 0, 0});  // more than one block of dz
  return counts.report("gemm");
}

}  // namespace OPENBNNS_ISA
}  // namespace openbnns

int main() { return openbnns::OPENBNNS_ISA::run_gemm_tests(); }
