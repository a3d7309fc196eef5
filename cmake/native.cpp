// Prints the best instruction set of this CPU that there are kernels for.
#include <cstdio>

#include "kernels/instruction_sets.h"

int main() {
#if defined(__x86_64__)
  std::fputs(openbnns::has_avx512() ? "avx512" : openbnns::has_avx2() ? "avx2" : "base", stdout);
#else
  std::fputs("base", stdout);
#endif
}
