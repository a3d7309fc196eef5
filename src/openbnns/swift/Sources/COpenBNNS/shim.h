#include <stdlib.h>

#include "../../../include/openbnns/bnns.h"

// Releases the memory of a graph; Swift's own module of the C library would tie this one to its version.
static inline void openbnns_free(void *memory) { free(memory); }
