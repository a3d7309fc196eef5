#include <stdlib.h>

#include "../../../include/openbnns/bnns.h"

// Releases the memory of a graph; Swift's own module of the C library would tie this one to its version.
static inline void openbnns_free(void *memory) { free(memory); }

// Mathematical functions, for the same reason without the module of the C library.
static inline float openbnns_expf(float x) { return __builtin_expf(x); }
static inline double openbnns_exp(double x) { return __builtin_exp(x); }
static inline float openbnns_logf(float x) { return __builtin_logf(x); }
static inline double openbnns_log(double x) { return __builtin_log(x); }
static inline float openbnns_tanhf(float x) { return __builtin_tanhf(x); }
static inline double openbnns_tanh(double x) { return __builtin_tanh(x); }
