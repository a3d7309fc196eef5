/* The way of C programs into native calls: plain words instead of Python objects, no interpreter, no lock of its.
 *
 * openbnns._core.raw_calls is a capsule (PyCapsule_Import(OPENBNNS_RAW_CALLS, 0)) with the table below, which stays
 * valid for ever. Whoever has it runs calls by number. Python gives the numbers, once per filter and function:
 *
 *     openbnns.capi.numbers.of_filter("BNNSFilterApply", filter)     a function that drives a filter
 *     openbnns.capi.numbers.of_function("BNNSCopy")                  a function without a filter, such as this
 *
 * 0 stands for a call that always has to take the way through Python. A number never comes back: once its filter is
 * destroyed, or what it stands for has changed, calls by that number are declined, and Python gives another one if
 * there is one. So ask again when a call was declined that Python then has carried out. A function without a filter
 * repeats what Python has done before for descriptors that say the same (all but their data).
 *
 * `words` are the arguments of the C function in their order, without its filter:
 *   - sizes, strides, flags and choices (batch_size, training, number_of_inputs, indices_data_type) as numbers;
 *   - memory and structs (BNNSNDArrayDescriptor in Apple's layout, 176 bytes) as pointers, NULL where there is none;
 *   - arrays (inputs of arithmetic and fused filters, their strides and gradients) as pointers to their first entry.
 *
 * run returns 0 when the call is done. It returns 1 when it declines: nothing has been written then, and the way
 * through Python computes the result or words the error. Any number of threads may run calls at once, with or without
 * the interpreter's lock. A filter that is destroyed meanwhile waits until the calls that use it have ended. A call
 * that is done also clears the error of the thread's latest call (openbnns.last_error).
 */
#ifndef OPENBNNS_RAW_H
#define OPENBNNS_RAW_H

#include <stddef.h>
#include <stdint.h>

#define OPENBNNS_RAW_CALLS "openbnns._core.raw_calls"
#define OPENBNNS_RAW_VERSION 1

typedef union OpenBNNSWord {
  const void* pointer;
  uint64_t number; /* signed ones and bool extended to 64 bits */
  double real;     /* float, too */
} OpenBNNSWord;

typedef struct OpenBNNSRawCalls {
  int version; /* OPENBNNS_RAW_VERSION of the module: a table of another one is not for you */
  int (*run)(uint64_t call, const OpenBNNSWord* words, size_t count);
} OpenBNNSRawCalls;

#endif
