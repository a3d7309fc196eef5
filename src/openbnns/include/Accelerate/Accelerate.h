/*
 * For programs written for macOS: #include <Accelerate/Accelerate.h>
 *
 * Of Accelerate, OpenBNNS has classic BNNS and nothing else. vDSP, BLAS, LAPACK, vImage and the others are not here; take
 * them from other libraries.
 */

#ifndef OPENBNNS_ACCELERATE_H
#define OPENBNNS_ACCELERATE_H

#include <openbnns/bnns.h>

#endif /* OPENBNNS_ACCELERATE_H */
