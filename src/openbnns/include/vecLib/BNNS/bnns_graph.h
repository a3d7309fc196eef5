/* For programs written for macOS: BNNSGraph is not here, but for stubs with -DOPENBNNS_GRAPH_STUBS. */

#ifndef OPENBNNS_VECLIB_BNNS_GRAPH_H
#define OPENBNNS_VECLIB_BNNS_GRAPH_H

#include <openbnns/bnns.h>

#endif /* OPENBNNS_VECLIB_BNNS_GRAPH_H */
