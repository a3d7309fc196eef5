// Numbers below 2^-126 in magnitude, the smallest that is normal. x86 takes a hundred cycles or more for a product or a
// sum that reads or gives one of them.
#pragma once
#include "simd/vec.h"

namespace openbnns {
namespace OPENBNNS_ISA {

// While it lives, and if it is wanted, the arithmetic of this thread takes such numbers for 0 and gives 0 instead of
// them. Compilers do not know that arithmetic depends on it: it has to be in a function that is not inlined.
class FlushedSubnormals {
 public:
  explicit FlushedSubnormals(bool wanted) : before_(control()) {
    if (wanted) set_control(before_ | kFlush);
  }
  ~FlushedSubnormals() { set_control(before_); }
  FlushedSubnormals(const FlushedSubnormals&) = delete;
  FlushedSubnormals& operator=(const FlushedSubnormals&) = delete;

 private:
#if defined(__x86_64__)
  using Control = unsigned;
  static constexpr Control kFlush = 0x8040;  // results and operands
  static Control control() { return _mm_getcsr(); }
  static void set_control(Control value) { _mm_setcsr(value); }
#elif defined(__aarch64__)
  using Control = uint64_t;
  static constexpr Control kFlush = uint64_t{1} << 24;  // results and operands
  static Control control() {
    Control value;
    asm volatile("mrs %0, fpcr" : "=r"(value));
    return value;
  }
  static void set_control(Control value) { asm volatile("msr fpcr, %0" : : "r"(value)); }
#else  // keeps them
  using Control = int;
  static constexpr Control kFlush = 0;
  static Control control() { return 0; }
  static void set_control(Control) {}
#endif
  Control before_;
};

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
