/*
 * BNNSGraph is another interface, which runs compiled Core ML models; it is not provided here. These stubs return what
 * it returns for a model that cannot be loaded, so that programs that mention it compile and run without it.
 */

/* Written by tools/make_header.py: edit its facts and text, not this file. */

#ifndef OPENBNNS_BNNS_GRAPH_H
#define OPENBNNS_BNNS_GRAPH_H

#include <openbnns/bnns.h>

#if defined(__clang__)
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wnullability-completeness" /* as in Apple's headers, some pointers do not say */
#pragma clang diagnostic ignored "-Wnullability-extension"
#if !defined(__cplusplus)
#pragma clang diagnostic ignored "-Wpedantic" /* enums with a fixed type, as Apple's headers have them */
#endif
#endif

#ifdef __cplusplus
extern "C" {
#endif

OPENBNNS_ENUM(BNNSGraphMessageLevel) {
    BNNSGraphMessageLevelInfo = 1,
    BNNSGraphMessageLevelUnsupported = 2,
    BNNSGraphMessageLevelWarning = 4,
    BNNSGraphMessageLevelError = 8,
};

OPENBNNS_ENUM(BNNSGraphOptimizationPreference) {
    BNNSGraphOptimizationPreferencePerformance = 0,
    BNNSGraphOptimizationPreferenceIRSize = 1,
};

OPENBNNS_ENUM(BNNSGraphArgumentIntent) {
    BNNSGraphArgumentIntentIn = 1,
    BNNSGraphArgumentIntentOut = 2,
    BNNSGraphArgumentIntentInOut = 3,
};

OPENBNNS_ENUM(BNNSGraphArgumentType) {
    BNNSGraphArgumentTypePointer = 0,
    BNNSGraphArgumentTypeTensor = 2,
};

typedef struct bnns_graph_t {
    void *data;
    size_t size;
} bnns_graph_t;

typedef struct bnns_graph_context_t {
    void *data;
    size_t size;
} bnns_graph_context_t;

typedef struct bnns_graph_compile_options_t {
    void *data;
    size_t size;
} bnns_graph_compile_options_t;

typedef struct bnns_graph_shape_t {
    size_t rank;
    uint64_t *shape;
} bnns_graph_shape_t;

typedef struct bnns_user_message_data_t {
    size_t size;
    void *data;
} bnns_user_message_data_t;

typedef struct bnns_graph_argument_t {
    union {
        BNNSTensor *tensor;
        BNNSNDArrayDescriptor *descriptor;
        void *data_ptr;
    };
    size_t data_ptr_size;
} bnns_graph_argument_t;

typedef int (*bnns_graph_realloc_fn_t)(void *user_memory_context, size_t user_memory_context_size, void **memptr,
                                       size_t alignment, size_t size);
typedef void (*bnns_graph_free_all_fn_t)(void *user_memory_context, size_t user_memory_context_size);
typedef void (*bnns_graph_compile_message_fn_t)(BNNSGraphMessageLevel msg_level, const char *error_msg,
                                                const char *source_location,
                                                bnns_user_message_data_t *additional_logging_arguments);
typedef void (*bnns_graph_execute_message_fn_t)(BNNSGraphMessageLevel msg_level, const char *error_msg,
                                                const char *op_info,
                                                bnns_user_message_data_t *additional_logging_arguments);

static inline bnns_graph_compile_options_t
BNNSGraphCompileOptionsMakeDefault(void) {
    bnns_graph_compile_options_t none = {NULL, 0};
    return none;
}

static inline void
BNNSGraphCompileOptionsDestroy(bnns_graph_compile_options_t options) {
    (void)options;
}

static inline void
BNNSGraphCompileOptionsSetTargetSingleThread(bnns_graph_compile_options_t options, bool value) {
    (void)options;
    (void)value;
}

static inline bool
BNNSGraphCompileOptionsGetTargetSingleThread(bnns_graph_compile_options_t options) {
    (void)options;
    return false;
}

static inline void
BNNSGraphCompileOptionsSetGenerateDebugInfo(bnns_graph_compile_options_t options, bool value) {
    (void)options;
    (void)value;
}

static inline bool
BNNSGraphCompileOptionsGetGenerateDebugInfo(bnns_graph_compile_options_t options) {
    (void)options;
    return false;
}

static inline void
BNNSGraphCompileOptionsSetOptimizationPreference(bnns_graph_compile_options_t options,
                                                 BNNSGraphOptimizationPreference preference) {
    (void)options;
    (void)preference;
}

static inline BNNSGraphOptimizationPreference
BNNSGraphCompileOptionsGetOptimizationPreference(bnns_graph_compile_options_t options) {
    (void)options;
    return BNNSGraphOptimizationPreferencePerformance;
}

static inline void
BNNSGraphCompileOptionsSetMessageLogCallback(bnns_graph_compile_options_t options,
                                             bnns_graph_compile_message_fn_t log_callback,
                                             bnns_user_message_data_t *additional_logging_arguments) {
    (void)options;
    (void)log_callback;
    (void)additional_logging_arguments;
}

static inline void
BNNSGraphCompileOptionsSetMessageLogMask(bnns_graph_compile_options_t options, uint32_t log_level_mask) {
    (void)options;
    (void)log_level_mask;
}

static inline void
BNNSGraphCompileOptionsSetOutputPath(bnns_graph_compile_options_t options, const char *path) {
    (void)options;
    (void)path;
}

static inline const char *
BNNSGraphCompileOptionsGetOutputPath(bnns_graph_compile_options_t options) {
    (void)options;
    return NULL;
}

static inline void
BNNSGraphCompileOptionsSetOutputFD(bnns_graph_compile_options_t options, int fd) {
    (void)options;
    (void)fd;
}

static inline int
BNNSGraphCompileOptionsGetOutputFD(bnns_graph_compile_options_t options) {
    (void)options;
    return -1;
}

static inline bnns_graph_t
BNNSGraphCompileFromFile(const char *filename, const char *function, bnns_graph_compile_options_t options) {
    (void)filename;
    (void)function;
    (void)options;
    bnns_graph_t none = {NULL, 0};
    return none;
}

static inline size_t
BNNSGraphGetInputCount(bnns_graph_t graph, const char *function) {
    (void)graph;
    (void)function;
    return SIZE_MAX;
}

static inline size_t
BNNSGraphGetOutputCount(bnns_graph_t graph, const char *function) {
    (void)graph;
    (void)function;
    return SIZE_MAX;
}

static inline size_t
BNNSGraphGetArgumentCount(bnns_graph_t graph, const char *function) {
    (void)graph;
    (void)function;
    return SIZE_MAX;
}

static inline size_t
BNNSGraphGetFunctionCount(bnns_graph_t graph) {
    (void)graph;
    return SIZE_MAX;
}

static inline int
BNNSGraphGetInputNames(bnns_graph_t graph, const char *function, size_t input_names_count, const char **input_names) {
    (void)graph;
    (void)function;
    (void)input_names_count;
    (void)input_names;
    return -1;
}

static inline int
BNNSGraphGetOutputNames(bnns_graph_t graph, const char *function, size_t output_names_count,
                        const char **output_names) {
    (void)graph;
    (void)function;
    (void)output_names_count;
    (void)output_names;
    return -1;
}

static inline int
BNNSGraphGetArgumentNames(bnns_graph_t graph, const char *function, size_t argument_names_count,
                          const char **argument_names) {
    (void)graph;
    (void)function;
    (void)argument_names_count;
    (void)argument_names;
    return -1;
}

static inline int
BNNSGraphGetFunctionNames(bnns_graph_t graph, size_t function_name_count, const char **function_names) {
    (void)graph;
    (void)function_name_count;
    (void)function_names;
    return -1;
}

static inline int
BNNSGraphGetArgumentIntents(bnns_graph_t graph, const char *function, size_t argument_intents_count,
                            BNNSGraphArgumentIntent *argument_intents) {
    (void)graph;
    (void)function;
    (void)argument_intents_count;
    (void)argument_intents;
    return -1;
}

static inline size_t
BNNSGraphGetArgumentPosition(bnns_graph_t graph, const char *function, const char *argument) {
    (void)graph;
    (void)function;
    (void)argument;
    return SIZE_MAX;
}

static inline int
BNNSGraphGetArgumentInterleaveFactors(bnns_graph_t graph, const char *function, size_t argument_count,
                                      const uint16_t **argument_interleave, size_t *argument_interleave_counts) {
    (void)graph;
    (void)function;
    (void)argument_count;
    (void)argument_interleave;
    (void)argument_interleave_counts;
    return -1;
}

static inline int
BNNSGraphTensorFillStrides(bnns_graph_t graph, const char *function, const char *argument, BNNSTensor *tensor) {
    (void)graph;
    (void)function;
    (void)argument;
    (void)tensor;
    return -1;
}

static inline bnns_graph_context_t
BNNSGraphContextMake(bnns_graph_t graph) {
    (void)graph;
    bnns_graph_context_t none = {NULL, 0};
    return none;
}

static inline bnns_graph_context_t
BNNSGraphContextMakeStreaming(bnns_graph_t graph, const char *function, size_t initial_states_count,
                              const BNNSTensor *initial_states) {
    (void)graph;
    (void)function;
    (void)initial_states_count;
    (void)initial_states;
    bnns_graph_context_t none = {NULL, 0};
    return none;
}

static inline void
BNNSGraphContextDestroy(bnns_graph_context_t context) {
    (void)context;
}

static inline int
BNNSGraphContextSetDynamicShapes(bnns_graph_context_t context, const char *function, size_t shapes_count,
                                 bnns_graph_shape_t *shapes) {
    (void)context;
    (void)function;
    (void)shapes_count;
    (void)shapes;
    return -1;
}

static inline int
BNNSGraphContextSetBatchSize(bnns_graph_context_t context, const char *function, uint64_t batch_size) {
    (void)context;
    (void)function;
    (void)batch_size;
    return -1;
}

static inline int
BNNSGraphContextSetArgumentType(bnns_graph_context_t context, BNNSGraphArgumentType argument_type) {
    (void)context;
    (void)argument_type;
    return -1;
}

static inline void
BNNSGraphContextEnableNanAndInfChecks(bnns_graph_context_t context, bool enable_check_for_nans_inf) {
    (void)context;
    (void)enable_check_for_nans_inf;
}

static inline int
BNNSGraphContextSetStreamingAdvanceCount(bnns_graph_context_t context, size_t advance_count) {
    (void)context;
    (void)advance_count;
    return -1;
}

static inline int
BNNSGraphContextExecute(bnns_graph_context_t context, const char *function, size_t argument_count,
                        bnns_graph_argument_t *arguments, size_t workspace_size, char *workspace) {
    (void)context;
    (void)function;
    (void)argument_count;
    (void)arguments;
    (void)workspace_size;
    (void)workspace;
    return -1;
}

static inline size_t
BNNSGraphContextGetWorkspaceSize(bnns_graph_context_t context, const char *function) {
    (void)context;
    (void)function;
    return SIZE_MAX;
}

static inline int
BNNSGraphContextGetTensor(bnns_graph_context_t context, const char *function, const char *argument,
                          bool fill_known_dynamic_shapes, BNNSTensor *tensor) {
    (void)context;
    (void)function;
    (void)argument;
    (void)fill_known_dynamic_shapes;
    (void)tensor;
    return -1;
}

static inline int
BNNSGraphContextSetWorkspaceAllocationCallback(bnns_graph_context_t context, bnns_graph_realloc_fn_t realloc_fn,
                                               bnns_graph_free_all_fn_t free_fn, size_t user_memory_context_size,
                                               void *user_memory_context) {
    (void)context;
    (void)realloc_fn;
    (void)free_fn;
    (void)user_memory_context_size;
    (void)user_memory_context;
    return -1;
}

static inline int
BNNSGraphContextSetOutputAllocationCallback(bnns_graph_context_t context, bnns_graph_realloc_fn_t realloc_fn,
                                            bnns_graph_free_all_fn_t free_fn, size_t user_memory_context_size,
                                            void *user_memory_context) {
    (void)context;
    (void)realloc_fn;
    (void)free_fn;
    (void)user_memory_context_size;
    (void)user_memory_context;
    return -1;
}

static inline int
BNNSGraphContextSetMessageLogCallback(bnns_graph_context_t context, bnns_graph_execute_message_fn_t log_callback_fn,
                                      bnns_user_message_data_t *additional_logging_arguments) {
    (void)context;
    (void)log_callback_fn;
    (void)additional_logging_arguments;
    return -1;
}

static inline int
BNNSGraphContextSetMessageLogMask(bnns_graph_context_t context, uint32_t log_level_mask) {
    (void)context;
    (void)log_level_mask;
    return -1;
}

#ifdef __cplusplus
}
#endif

#if defined(__clang__)
#pragma clang diagnostic pop
#endif

#endif /* OPENBNNS_BNNS_GRAPH_H */
