/* For programs written for macOS: BNNS is the only part of vecLib that is here. */

#ifndef OPENBNNS_VECLIB_H
#define OPENBNNS_VECLIB_H

#include <openbnns/bnns.h>

#endif /* OPENBNNS_VECLIB_H */
