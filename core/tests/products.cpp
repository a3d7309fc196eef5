// Products for counting instructions (tests/cross): `products {ours,naive} ROWS TIMES` multiplies a matrix of so many
// rows by another one so many times, by the kernels or by the loops of a textbook. Compiled once per instruction set.
#include <cstdlib>

#include "gemm/gemm.h"
#include "tests/testing.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace {

constexpr int64_t kSize = 64;  // of the other matrix, and of every row

// C[m][n] = A[m][k] B[n][k]^T
void naive(const MatrixProduct& p) {
  for (int64_t i = 0; i < p.m; i++)
    for (int64_t j = 0; j < p.n; j++) {
      float sum = 0;
      for (int64_t q = 0; q < p.k; q++) sum += p.a[i * p.lda + q] * p.b[j * p.ldb + q];
      p.c[i * p.ldc + j] = sum;
    }
}

void run(bool ours, int64_t rows, int times) {
  testing::Random random(1);
  testing::Floats a = random.reals(rows * kSize), b = random.reals(kSize * kSize), c(rows * kSize);
  MatrixProduct p{rows, kSize, kSize, a.data(), kSize, b.data(), kSize, c.data(), kSize};
  p.transpose_b = true;
  for (int i = 0; i < times; i++) ours ? matrix_product(p) : naive(p);
  std::printf("%g\n", static_cast<double>(c[0]));
}

}  // namespace
}  // namespace OPENBNNS_ISA
}  // namespace openbnns

int main(int count, char** words) {
  if (count != 4) return 2;
  openbnns::OPENBNNS_ISA::run(words[1] == std::string("ours"), std::atoi(words[2]), std::atoi(words[3]));
  return 0;
}
