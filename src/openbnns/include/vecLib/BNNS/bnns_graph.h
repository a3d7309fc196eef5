/* For programs written for macOS that include the parts of BNNS one by one: each is the whole. */

#ifndef OPENBNNS_VECLIB_BNNS_GRAPH_H
#define OPENBNNS_VECLIB_BNNS_GRAPH_H

#include <openbnns/bnns.h>

#endif /* OPENBNNS_VECLIB_BNNS_GRAPH_H */
