"""The names of BNNSGraph, which is not part of classic BNNS: stubs let programs that mention them compile and link."""

from __future__ import annotations

TEXT = """
BNNSGraph is another interface, which runs compiled Core ML models; it is not provided here. These stubs return what it
returns for a model that cannot be loaded, so that programs that mention it compile and run without it.
"""

TYPES = """
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
"""

Parameters = tuple[tuple[str, str], ...]

_OPTIONS = ("bnns_graph_compile_options_t", "options")
_GRAPH = ("bnns_graph_t", "graph")
_CONTEXT = ("bnns_graph_context_t", "context")
_FUNCTION = ("const char *", "function")
_ARGUMENT = ("const char *", "argument")
_LOGGING = ("bnns_user_message_data_t *", "additional_logging_arguments")
_MEMORY = (
    ("bnns_graph_realloc_fn_t", "realloc_fn"),
    ("bnns_graph_free_all_fn_t", "free_fn"),
    ("size_t", "user_memory_context_size"),
    ("void *", "user_memory_context"),
)

FUNCTIONS: dict[str, tuple[str, Parameters]] = {
    "BNNSGraphCompileOptionsMakeDefault": ("bnns_graph_compile_options_t", ()),
    "BNNSGraphCompileOptionsDestroy": ("void", (_OPTIONS,)),
    "BNNSGraphCompileOptionsSetTargetSingleThread": ("void", (_OPTIONS, ("bool", "value"))),
    "BNNSGraphCompileOptionsGetTargetSingleThread": ("bool", (_OPTIONS,)),
    "BNNSGraphCompileOptionsSetGenerateDebugInfo": ("void", (_OPTIONS, ("bool", "value"))),
    "BNNSGraphCompileOptionsGetGenerateDebugInfo": ("bool", (_OPTIONS,)),
    "BNNSGraphCompileOptionsSetOptimizationPreference": (
        "void",
        (_OPTIONS, ("BNNSGraphOptimizationPreference", "preference")),
    ),
    "BNNSGraphCompileOptionsGetOptimizationPreference": ("BNNSGraphOptimizationPreference", (_OPTIONS,)),
    "BNNSGraphCompileOptionsSetMessageLogCallback": (
        "void",
        (_OPTIONS, ("bnns_graph_compile_message_fn_t", "log_callback"), _LOGGING),
    ),
    "BNNSGraphCompileOptionsSetMessageLogMask": ("void", (_OPTIONS, ("uint32_t", "log_level_mask"))),
    "BNNSGraphCompileOptionsSetOutputPath": ("void", (_OPTIONS, ("const char *", "path"))),
    "BNNSGraphCompileOptionsGetOutputPath": ("const char *", (_OPTIONS,)),
    "BNNSGraphCompileOptionsSetOutputFD": ("void", (_OPTIONS, ("int", "fd"))),
    "BNNSGraphCompileOptionsGetOutputFD": ("int", (_OPTIONS,)),
    "BNNSGraphCompileFromFile": ("bnns_graph_t", (("const char *", "filename"), _FUNCTION, _OPTIONS)),
    "BNNSGraphGetInputCount": ("size_t", (_GRAPH, _FUNCTION)),
    "BNNSGraphGetOutputCount": ("size_t", (_GRAPH, _FUNCTION)),
    "BNNSGraphGetArgumentCount": ("size_t", (_GRAPH, _FUNCTION)),
    "BNNSGraphGetFunctionCount": ("size_t", (_GRAPH,)),
    "BNNSGraphGetInputNames": (
        "int",
        (_GRAPH, _FUNCTION, ("size_t", "input_names_count"), ("const char **", "input_names")),
    ),
    "BNNSGraphGetOutputNames": (
        "int",
        (_GRAPH, _FUNCTION, ("size_t", "output_names_count"), ("const char **", "output_names")),
    ),
    "BNNSGraphGetArgumentNames": (
        "int",
        (_GRAPH, _FUNCTION, ("size_t", "argument_names_count"), ("const char **", "argument_names")),
    ),
    "BNNSGraphGetFunctionNames": (
        "int",
        (_GRAPH, ("size_t", "function_name_count"), ("const char **", "function_names")),
    ),
    "BNNSGraphGetArgumentIntents": (
        "int",
        (
            _GRAPH,
            _FUNCTION,
            ("size_t", "argument_intents_count"),
            ("BNNSGraphArgumentIntent *", "argument_intents"),
        ),
    ),
    "BNNSGraphGetArgumentPosition": ("size_t", (_GRAPH, _FUNCTION, _ARGUMENT)),
    "BNNSGraphGetArgumentInterleaveFactors": (
        "int",
        (
            _GRAPH,
            _FUNCTION,
            ("size_t", "argument_count"),
            ("const uint16_t **", "argument_interleave"),
            ("size_t *", "argument_interleave_counts"),
        ),
    ),
    "BNNSGraphTensorFillStrides": ("int", (_GRAPH, _FUNCTION, _ARGUMENT, ("BNNSTensor *", "tensor"))),
    "BNNSGraphContextMake": ("bnns_graph_context_t", (_GRAPH,)),
    "BNNSGraphContextMakeStreaming": (
        "bnns_graph_context_t",
        (_GRAPH, _FUNCTION, ("size_t", "initial_states_count"), ("const BNNSTensor *", "initial_states")),
    ),
    "BNNSGraphContextDestroy": ("void", (_CONTEXT,)),
    "BNNSGraphContextSetDynamicShapes": (
        "int",
        (_CONTEXT, _FUNCTION, ("size_t", "shapes_count"), ("bnns_graph_shape_t *", "shapes")),
    ),
    "BNNSGraphContextSetBatchSize": ("int", (_CONTEXT, _FUNCTION, ("uint64_t", "batch_size"))),
    "BNNSGraphContextSetArgumentType": ("int", (_CONTEXT, ("BNNSGraphArgumentType", "argument_type"))),
    "BNNSGraphContextEnableNanAndInfChecks": ("void", (_CONTEXT, ("bool", "enable_check_for_nans_inf"))),
    "BNNSGraphContextSetStreamingAdvanceCount": ("int", (_CONTEXT, ("size_t", "advance_count"))),
    "BNNSGraphContextExecute": (
        "int",
        (
            _CONTEXT,
            _FUNCTION,
            ("size_t", "argument_count"),
            ("bnns_graph_argument_t *", "arguments"),
            ("size_t", "workspace_size"),
            ("char *", "workspace"),
        ),
    ),
    "BNNSGraphContextGetWorkspaceSize": ("size_t", (_CONTEXT, _FUNCTION)),
    "BNNSGraphContextGetTensor": (
        "int",
        (_CONTEXT, _FUNCTION, _ARGUMENT, ("bool", "fill_known_dynamic_shapes"), ("BNNSTensor *", "tensor")),
    ),
    "BNNSGraphContextSetWorkspaceAllocationCallback": ("int", (_CONTEXT, *_MEMORY)),
    "BNNSGraphContextSetOutputAllocationCallback": ("int", (_CONTEXT, *_MEMORY)),
    "BNNSGraphContextSetMessageLogCallback": (
        "int",
        (_CONTEXT, ("bnns_graph_execute_message_fn_t", "log_callback_fn"), _LOGGING),
    ),
    "BNNSGraphContextSetMessageLogMask": ("int", (_CONTEXT, ("uint32_t", "log_level_mask"))),
}
"""The return type and the parameters of each function."""

FAILURES = {
    "int": "-1",
    "size_t": "SIZE_MAX",
    "bool": "false",
    "const char *": "NULL",
    "BNNSGraphOptimizationPreference": "BNNSGraphOptimizationPreferencePerformance",
}
"""The return value of a stub, by type; structs come back with NULL data."""
