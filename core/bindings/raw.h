/* How C programs make native calls: plain words instead of Python objects, without the interpreter or its lock.
 *
 * openbnns._core.raw_calls is a capsule (PyCapsule_Import(OPENBNNS_RAW_CALLS, 0)) with the table below, which stays
 * valid forever. With it, a program runs calls by number. Python provides the numbers, once per filter and function:
 *
 *     openbnns.capi.numbers.of_filter("BNNSFilterApply", filter)     a function that drives a filter
 *     openbnns.capi.numbers.of_function("BNNSCopy")                  a function without a filter, such as this
 *     openbnns.capi.numbers.of_context(context)                      BNNSGraphContextExecute, as it was made last
 *
 * 0 stands for a call that always has to go through Python. A number is never reused: once its filter is destroyed, or
 * what it stands for has changed, calls by that number are declined, and Python provides a new number if there is one.
 * So ask again after a call that was declined here and then succeeded in Python. A function without a filter repeats
 * what Python has done before for equal descriptors (all but their data).
 *
 * `words` are the arguments of the C function in their order, without its filter:
 *   - sizes, strides, flags and choices (batch_size, training, number_of_inputs, indices_data_type) as numbers;
 *   - memory and structs (BNNSNDArrayDescriptor in Apple's layout, 176 bytes) as pointers, NULL where there is none;
 *   - arrays (inputs of arithmetic and fused filters, their strides and gradients) as pointers to their first entry.
 *
 * run returns 0 when the call is done. It returns 1 when it declines: nothing has been written, and the call through
 * Python computes the result or words the error. Any number of threads may run calls at once, with or without the
 * interpreter's lock. Destroying a filter waits until the calls that use it have ended. A call that is done also clears
 * the error of the thread's latest call (openbnns.last_error).
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
  int version; /* OPENBNNS_RAW_VERSION of the module: do not use a table of another version */
  int (*run)(uint64_t call, const OpenBNNSWord* words, size_t count);
} OpenBNNSRawCalls;

#endif
