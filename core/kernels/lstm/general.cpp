// Steps of an LSTM with any activations and with peepholes, gate by gate on whole rows.
#include "gemm/gemm.h"
#include "kernels/kernels.h"
#include "kernels/lstm/lstm.h"
#include "runtime/interruption.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace lstm {
namespace {

// z[row][H] += a[row][H] m^T, m: [H][H]
void add_product(const Sizes& s, int64_t rows, const float* a, int64_t a_row, const float* m, float* z, int64_t z_row,
                 int threads) {
  MatrixProduct p{rows, s.H, s.H, a, a_row, m, s.H, z, z_row};
  p.transpose_b = p.accumulate = true;
  matrix_product(p, threads);
}

// y[row][H] (+)= dz[row][H] m, m: [H][H]
void add_adjoint(const Sizes& s, int64_t rows, const float* dz, const float* m, float* y, bool accumulate,
                 int threads) {
  MatrixProduct p{rows, s.H, s.H, dz, s.wide, m, s.H, y, s.padded};
  p.accumulate = accumulate;
  matrix_product(p, threads);
}

// y = f(x) for rows of H
void apply(Plan& f, int64_t rows, const float* x, int64_t x_row, float* y, int64_t y_row, int threads) {
  Call call;
  call.batch = rows;
  call.threads = threads;
  call.address[X] = const_cast<float*>(x);
  call.stride[X] = x_row;
  call.address[Y] = y;
  call.stride[Y] = y_row;
  f.forward(call);
}

// dx = dy * f'(x) for rows of H
void apply_back(Plan& f, int64_t rows, const float* x, int64_t x_row, const float* dy, int64_t dy_row, float* dx,
                int64_t dx_row, int threads) {
  Call call;
  call.batch = rows;
  call.threads = threads;
  call.address[X] = const_cast<float*>(x);
  call.stride[X] = x_row;
  call.address[DY] = const_cast<float*>(dy);
  call.stride[DY] = dy_row;
  call.address[DX] = dx;
  call.stride[DX] = dx_row;
  f.backward(call);
}

// body(row, unit) for rows of H.
template <class Body>
void over_units(const Sizes& s, int64_t rows, Body&& body) {
  for (int64_t n = 0; n < rows; n++)
    for (int64_t j = 0; j < s.H; j++) body(n, j);
}

}  // namespace

General::General(const LstmShape& shape) {
  for (int k = 0; k < 5; k++) {
    value_[k] = make_activation({1, shape.hidden, 1, 0}, shape.activation[k]);
    slope_[k] = make_activation({1, shape.hidden, 1, 0}, shape.slope[k]);
  }
}

void General::forward(const Sizes& s, const Cell& cell, float* work) const {
  const int64_t step_cells = s.N * s.padded;
  float* act[kGates];  // [N][padded] each
  for (int g = 0; g < kGates; g++) act[g] = work + g * step_cells;
  float* c_first = work + 4 * step_cells;
  pad_rows(s, cell.c0, c_first);
  for (int64_t k = 0; k < s.T; k++) {
    check_interruption();
    const int64_t t = cell.step(k, s.T), before = k > 0 ? cell.step(k - 1, s.T) : -1, rows = s.active(t);
    const float* c_before = before < 0 ? c_first : cell.c + before * step_cells;
    const float* h_before = before < 0 ? cell.h0 : cell.h + before * s.N * s.joined;
    const int64_t h_row = before < 0 ? s.H : s.joined;
    float *z = cell.z + t * s.N * s.wide, *c = cell.c + t * step_cells, *h = cell.h + t * s.N * s.joined;
    if (rows > 0) {
      for (int g = 0; g < kGates; g++) {
        if (h_before) add_product(s, rows, h_before, h_row, cell.u[g], z + g * s.padded, s.wide, cell.threads);
        if (g != kOutput && cell.p[g])
          add_product(s, rows, c_before, s.padded, cell.p[g], z + g * s.padded, s.wide, cell.threads);
        if (g != kOutput) apply(*value_[g], rows, z + g * s.padded, s.wide, act[g], s.padded, cell.threads);
      }
      // c' = f*c + i*g
      over_units(s, rows, [&](int64_t n, int64_t j) {
        const int64_t e = n * s.padded + j;
        c[e] = act[kForget][e] * c_before[e] + act[kInput][e] * act[kCandidate][e];
      });
      if (cell.p[kOutput])
        add_product(s, rows, c, s.padded, cell.p[kOutput], z + kOutput * s.padded, s.wide, cell.threads);
      apply(*value_[kOutput], rows, z + kOutput * s.padded, s.wide, act[kOutput], s.padded, cell.threads);
      apply(*value_[4], rows, c, s.padded, act[kInput], s.padded, cell.threads);
      // h' = o*fh(c')
      over_units(s, rows, [&](int64_t n, int64_t j) {
        h[n * s.joined + j] = act[kOutput][n * s.padded + j] * act[kInput][n * s.padded + j];
      });
    }
    for (int64_t n = rows; n < s.N; n++) {  // states of absent samples stand still
      std::copy_n(c_before + n * s.padded, s.H, c + n * s.padded);
      if (h_before)
        std::copy_n(h_before + n * h_row, s.H, h + n * s.joined);
      else
        std::fill_n(h + n * s.joined, s.H, 0.0f);
    }
  }
}

void General::backward(const Sizes& s, const Cell& cell, const CellGradients& d, float* work) const {
  const int64_t step_cells = s.N * s.padded;
  float* act[kGates];  // [N][padded] each
  for (int g = 0; g < kGates; g++) act[g] = work + g * step_cells;
  float *c_first = work + 4 * step_cells, *dh = work + 5 * step_cells, *dc = work + 6 * step_cells;
  float* fh = work + 7 * step_cells;
  pad_rows(s, cell.c0, c_first);
  pad_rows(s, d.dhn, dh);
  pad_rows(s, d.dcn, dc);
  for (int64_t k = s.T - 1; k >= 0; k--) {
    check_interruption();
    const int64_t t = cell.step(k, s.T), rows = s.active(t);
    const float* c_before = k > 0 ? cell.c + cell.step(k - 1, s.T) * step_cells : c_first;
    const float *z = cell.z + t * s.N * s.wide, *c = cell.c + t * step_cells;
    const float* dy = d.dy ? d.dy + t * s.N * s.joined : nullptr;
    float* dz = d.dz + t * s.N * s.wide;
    std::fill_n(dz, s.N * s.wide, 0.0f);
    if (rows == 0) continue;
    for (int g = 0; g < kGates; g++) apply(*value_[g], rows, z + g * s.padded, s.wide, act[g], s.padded, cell.threads);
    apply(*value_[4], rows, c, s.padded, fh, s.padded, cell.threads);
    // h' = o*fh(c'): zo = dh*fh(c')*fo', dct = dc + dh*o*fh'(c') + Po^T zo
    over_units(s, rows, [&](int64_t n, int64_t j) {
      const int64_t e = n * s.padded + j;
      if (dy) dh[e] += dy[n * s.joined + j];
      fh[e] *= dh[e];
      dh[e] *= act[kOutput][e];
    });
    apply_back(*slope_[kOutput], rows, z + kOutput * s.padded, s.wide, fh, s.padded, dz + kOutput * s.padded, s.wide,
               cell.threads);
    apply_back(*slope_[4], rows, c, s.padded, dh, s.padded, fh, s.padded, cell.threads);
    over_units(s, rows, [&](int64_t n, int64_t j) { dc[n * s.padded + j] += fh[n * s.padded + j]; });
    if (cell.p[kOutput]) add_adjoint(s, rows, dz + kOutput * s.padded, cell.p[kOutput], dc, true, cell.threads);
    // c' = f*c + i*g: zi = dct*g*fi', zf = dct*c*ff', zg = dct*i*fg', dc = dct*f + sum of P^T z
    over_units(s, rows, [&](int64_t n, int64_t j) {
      const int64_t e = n * s.padded + j;
      const float dct = dc[e], i = act[kInput][e], g = act[kCandidate][e];
      dc[e] = dct * act[kForget][e];
      act[kInput][e] = dct * g;
      act[kForget][e] = dct * c_before[e];
      act[kCandidate][e] = dct * i;
    });
    for (int g = 0; g < kOutput; g++) {
      apply_back(*slope_[g], rows, z + g * s.padded, s.wide, act[g], s.padded, dz + g * s.padded, s.wide, cell.threads);
      if (cell.p[g]) add_adjoint(s, rows, dz + g * s.padded, cell.p[g], dc, true, cell.threads);
    }
    for (int g = 0; g < kGates; g++) add_adjoint(s, rows, dz + g * s.padded, cell.u[g], dh, g > 0, cell.threads);
  }
  if (d.dh0) unpad_rows(s, dh, d.dh0, d.dh0_adds);
  if (d.dc0) unpad_rows(s, dc, d.dc0, d.dc0_adds);
}

}  // namespace lstm
}  // namespace OPENBNNS_ISA
}  // namespace openbnns
