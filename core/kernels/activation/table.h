// Functions of |x| as 32 polynomials of degree 5, looked up with register permutations. Only where a vector has 16
// lanes: two registers then hold one coefficient of all pieces, and no memory is touched in the loop.
//
// Pieces: [0, 1/16), then four to an octave up to 12. A piece is named by the exponent and the two leading fraction
// bits of |x|, of which the permutation sees the last five bits.
#pragma once
#if defined(__AVX512F__)
#include <cmath>

#include "simd/math.h"

namespace openbnns {
namespace OPENBNNS_ISA {

class PieceTable {
 public:
  static constexpr int kPieces = 32, kCoefficients = 6;
  static constexpr float kFirstEnd = 0x1p-4f, kLast = 12.0f;

  // f is sampled on [0, 12]; beyond that the function keeps the value `limit`. The polynomial of the first piece may
  // be given (in powers of x), for functions that must keep their relative accuracy at 0.
  PieceTable(double (*f)(double), double limit, const double* first_piece) {
    for (int piece = 0; piece < kPieces; piece++) {
      double begin = piece == 0 ? 0 : start_of(piece), end = start_of(piece + 1);
      double c[kCoefficients] = {limit};
      if (piece == 0 && first_piece)
        for (int j = 0; j < kCoefficients; j++) c[j] = first_piece[j];
      else if (begin < kLast)
        interpolate(f, begin, end - begin, c);
      int place = (piece + kOffset) % kPieces;
      start_[place] = static_cast<float>(begin);
      for (int j = 0; j < kCoefficients; j++) coefficient_[j][place] = static_cast<float>(c[j]);
    }
  }

  const float* start() const { return start_; }
  const float* coefficient(int power) const { return coefficient_[power]; }

 private:
  // bits of |x| shifted right by 21, less this, count pieces; modulo 32 it is the place of piece 0 in the tables
  static constexpr int kOffset = 122 * 4 + 3;

  static double start_of(int piece) { return std::ldexp(1.0 + (piece - 1) % 4 / 4.0, (piece - 1) / 4 - 4); }

  // c[0..5]: powers of (x - begin) of the polynomial through f at six Chebyshev points of [begin, begin + width]
  static void interpolate(double (*f)(double), double begin, double width, double* c) {
    constexpr double kPi = 3.14159265358979323846;
    double node[kCoefficients], difference[kCoefficients];
    for (int i = 0; i < kCoefficients; i++) {
      node[i] = 0.5 - 0.5 * std::cos(kPi * (i + 0.5) / kCoefficients);
      difference[i] = f(begin + width * node[i]);
    }
    for (int order = 1; order < kCoefficients; order++)
      for (int i = kCoefficients - 1; i >= order; i--)
        difference[i] = (difference[i] - difference[i - 1]) / (node[i] - node[i - order]);
    // Newton's form to powers of t = (x - begin) / width
    for (int j = 0; j < kCoefficients; j++) c[j] = 0;
    for (int i = kCoefficients - 1; i >= 0; i--) {
      for (int j = kCoefficients - 1; j > 0; j--) c[j] = c[j - 1] - node[i] * c[j];
      c[0] = difference[i] - node[i] * c[0];
    }
    double scale = 1;
    for (int j = 0; j < kCoefficients; j++, scale /= width) c[j] *= scale;
  }

  alignas(64) float start_[kPieces];
  alignas(64) float coefficient_[kCoefficients][kPieces];
};

// A table in registers.
class Pieces {
 public:
  explicit Pieces(const PieceTable& t) : start_(t.start()) {
    for (int j = 0; j < PieceTable::kCoefficients; j++) coefficient_[j] = Half2(t.coefficient(j));
  }

  // f(a) for a >= 0; NaN for NaN
  OPENBNNS_INLINE Vec operator()(Vec a) const {
    a = math::min(splat(PieceTable::kLast), a);
    Vec named = math::max(splat(PieceTable::kFirstEnd * 0.984375f), a);  // all of the first piece has one name
    IntVec index = reinterpret_cast<IntVec>(math::unsigned_bits(named) >> 21);
    Vec d = a - start_.at(index);
    Vec square = d * d;
    Vec low = coefficient_[1].at(index) * d + coefficient_[0].at(index);
    Vec middle = coefficient_[3].at(index) * d + coefficient_[2].at(index);
    Vec high = coefficient_[5].at(index) * d + coefficient_[4].at(index);
    return (high * square + middle) * square + low;
  }

 private:
  struct Half2 {
    Vec first, second;
    Half2() = default;
    explicit Half2(const float* p) : first(load(p)), second(load(p + kWidth)) {}
    OPENBNNS_INLINE Vec at(IntVec index) const { return _mm512_permutex2var_ps(first, (__m512i)index, second); }
  };
  Half2 start_, coefficient_[PieceTable::kCoefficients];
};

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
#endif
