"""The text of the header about graphs: ML programs that are compiled and executed."""

from __future__ import annotations

from . import Section

CALLBACKS = """
/**
 * Allocates memory for *memptr, which is NULL at first, or changes its size, as realloc does, but aligned; 0 is success.
 */
typedef int (*bnns_graph_realloc_fn_t)(void *user_memory_context, size_t user_memory_context_size, void **memptr,
                                       size_t alignment, size_t size);
/** Frees everything that was allocated with the same user_memory_context. */
typedef void (*bnns_graph_free_all_fn_t)(void *user_memory_context, size_t user_memory_context_size);
/** Takes a message of the compiler; source_location is file:line:column, or NULL. */
typedef void (*bnns_graph_compile_message_fn_t)(BNNSGraphMessageLevel msg_level, const char *error_msg,
                                                const char *source_location,
                                                bnns_user_message_data_t *additional_logging_arguments);
/** Takes a message of an execution; op_info names an operation, or is NULL. */
typedef void (*bnns_graph_execute_message_fn_t)(BNNSGraphMessageLevel msg_level, const char *error_msg,
                                                const char *op_info,
                                                bnns_user_message_data_t *additional_logging_arguments);
"""

SECTIONS = (
    Section(
        "Graphs: compiling",
        """
A graph is a Core ML program in compiled form: compile it, make a context, execute. Functions that return a count or a
position return SIZE_MAX on failure, those that return a struct one whose data is NULL. openbnns_last_error() says what was
wrong, and message callbacks say where.

Ten functions have a second name that ends in _v2, because bindings for other languages call them by it.
""",
        enums=("BNNSGraphMessageLevel", "BNNSGraphOptimizationPreference"),
        structs=("bnns_graph_t", "bnns_graph_context_t", "bnns_graph_compile_options_t", "bnns_user_message_data_t"),
        types=CALLBACKS,
        functions={
            "BNNSGraphCompileOptionsMakeDefault": """
Options: several threads, no debug information, speed preferred, the graph in memory. Destroy them after use.
""",
            "BNNSGraphCompileOptionsDestroy": """
Release options. Options whose data is NULL are ignored.
""",
            "BNNSGraphCompileOptionsSetTargetSingleThread": """
Whether executions use one thread only. False unless set.
""",
            "BNNSGraphCompileOptionsGetTargetSingleThread": """
Whether executions use one thread only.
""",
            "BNNSGraphCompileOptionsSetGenerateDebugInfo": """
Whether messages of executions name the places of operations in the program. False unless set.
""",
            "BNNSGraphCompileOptionsGetGenerateDebugInfo": """
Whether messages of executions name the places of operations in the program.
""",
            "BNNSGraphCompileOptionsSetOptimizationPreference": """
Whether speed or a small graph is preferred. Has no effect here: graphs keep weights as the program stores them.
""",
            "BNNSGraphCompileOptionsGetOptimizationPreference": """
Whether speed or a small graph is preferred.
""",
            "BNNSGraphCompileOptionsSetMessageLogCallback": """
Pass messages of the compiler to log_callback, and additional_logging_arguments, which may be NULL, with them. A NULL
log_callback resets it.
""",
            "BNNSGraphCompileOptionsSetMessageLogMask": """
The levels of messages that the callback is called for: bits of BNNSGraphMessageLevel. All but information unless set.
""",
            "BNNSGraphCompileOptionsSetOutputPath": """
Write the graph to a file, readable by its owner only, which is then mapped: release the graph with munmap(data, size). The
path is copied; a NULL path resets it.
""",
            "BNNSGraphCompileOptionsGetOutputPath": """
The path that was set, or NULL. It is valid as long as the options are, and until another path is set.
""",
            "BNNSGraphCompileOptionsSetOutputFD": """
The same with a file that is open for reading and writing, which is cut to the size of the graph; this overrides a path. -1
resets it.
""",
            "BNNSGraphCompileOptionsGetOutputFD": """
The descriptor that was set, or -1.
""",
            "BNNSGraphCompileFromFile": """
Compile a function of an ML program, or all of them if function is NULL or "". The file is an .mlmodelc folder, the model.mil
in it, or an .mlpackage. Release the graph with free(data), or with munmap(data, size) if the options name a file.
""",
        },
    ),
    Section(
        "Graphs: functions and arguments",
        """
Arguments of a function stand in the order of BNNSGraphGetArgumentNames: outputs first, then inputs and states, each in the
order of the program. A function that is NULL or "" is the only one of the graph, or its default function. Names belong to
the graph. If there is room for fewer than there are, as many are written.
""",
        enums=("BNNSGraphArgumentIntent",),
        functions={
            "BNNSGraphGetInputCount": """
Number of inputs, states included, of a function (or NULL).
""",
            "BNNSGraphGetOutputCount": """
Number of outputs of a function (or NULL).
""",
            "BNNSGraphGetArgumentCount": """
Number of outputs and inputs of a function (or NULL).
""",
            "BNNSGraphGetFunctionCount": """
Number of functions of a graph.
""",
            "BNNSGraphGetInputNames": """
Names of the inputs of a function (or NULL).
""",
            "BNNSGraphGetOutputNames": """
Names of the outputs of a function (or NULL).
""",
            "BNNSGraphGetArgumentNames": """
Names of the arguments of a function (or NULL): outputs, then inputs.
""",
            "BNNSGraphGetFunctionNames": """
Names of the functions of a graph.
""",
            "BNNSGraphGetArgumentIntents": """
For each argument of a function (or NULL): read, written, or both, as a state is.
""",
            "BNNSGraphGetArgumentPosition": """
Position of an argument of a function (or NULL) among arguments[].
""",
            "BNNSGraphGetArgumentInterleaveFactors": """
Interleave factors and their number for each argument of a function (or NULL): NULL and 0 for all that are plain tensors.
""",
            "BNNSGraphTensorFillStrides": """
Fill stride[] of a tensor from its shape[], which must be known, as an argument of a function (or NULL) takes it: contiguous.
""",
        },
    ),
    Section(
        "Graphs: contexts and execution",
        """
A context belongs to one thread at a time and must not outlive its graph; several contexts can share a graph. Sizes that the
program leaves open are set before an execution, or come with tensors as arguments.
""",
        enums=("BNNSGraphArgumentType",),
        structs=("bnns_graph_shape_t", "bnns_graph_argument_t"),
        functions={
            "BNNSGraphContextMake": """
Make a context for all functions of a graph. Destroy it after use.
""",
            "BNNSGraphContextMakeStreaming": """
Make a context that keeps the states of a function (or NULL) in ring buffers, which advance after every execution. The
function must say StateMode = Streaming among its BNNSOptions. initial_states, which may be NULL, are matched by name; other
states begin with zeros.
""",
            "BNNSGraphContextDestroy": """
Release a context and the outputs that it has allocated. A context whose data is NULL is ignored.
""",
            "BNNSGraphContextSetDynamicShapes": """
Set the shapes of all arguments of a function (or NULL): an entry of rank 0, and a size of 0, stand for what the model says.
Entries of outputs that have a rank receive the shapes that follow, 0 for a size that depends on values.
""",
            "BNNSGraphContextSetBatchSize": """
Set all open sizes of a function (or NULL), which must be those of first axes.
""",
            "BNNSGraphContextSetArgumentType": """
Whether arguments are pointers, which is the default, or tensors.
""",
            "BNNSGraphContextEnableNanAndInfChecks": """
Whether executions look for NaN and infinity in every tensor that they compute, and log a message for each that has one. Slow.
""",
            "BNNSGraphContextSetStreamingAdvanceCount": """
By how much the ring buffers advance after the next executions, where the program leaves the size of an update open.
""",
            "BNNSGraphContextExecute": """
Run a function (or NULL). An output whose data is NULL is allocated by the context, which uses the memory again for the next
execution. workspace is not needed and may be NULL with a size of 0.
""",
            "BNNSGraphContextGetWorkspaceSize": """
Bytes of workspace for a function (or NULL): one page, which execution does not need. Fails while sizes are open.
""",
            "BNNSGraphContextGetTensor": """
Describe an argument of a function (or NULL): all but data and data_size_in_bytes, with -1 for a size that is not known. Sizes
that have been set, or have a default, are known if fill_known_dynamic_shapes says so.
""",
            "BNNSGraphContextSetWorkspaceAllocationCallback": """
Set the functions that allocate workspace, both or none: NULL realloc and free reset them. As no workspace is needed, they are
not called, but for free, with user_memory_context (which may be NULL), when the context is destroyed.
""",
            "BNNSGraphContextSetOutputAllocationCallback": """
Set the functions that allocate outputs, both or none: NULL realloc and free reset them. free is called once for each
user_memory_context (which may be NULL) when the context is destroyed.
""",
            "BNNSGraphContextSetMessageLogCallback": """
Pass messages of executions to log_callback_fn, and additional_logging_arguments, which may be NULL, with them. A NULL
log_callback_fn resets it.
""",
            "BNNSGraphContextSetMessageLogMask": """
The levels of messages that the callback is called for: bits of BNNSGraphMessageLevel. All but information unless set.
""",
        },
    ),
    Section(
        "Graphs: describing them operation by operation",
        """
A builder makes a graph without a file: add arguments, constants and operations, then compile the tensors that are outputs.
These names are ours. The operations are those of Swift's BNNSGraph.Builder, under the names that openbnns.graph.Builder and
its tensors have in Python. Each is written in JSON:

    {"operation": "argument", "arguments": {"name": "x", "data_type": 65568, "shape": [-1, 3]}}
    {"operation": "constant", "arguments": {"data_type": 65568, "shape": [3]}}
    {"operation": "add", "tensor": 0, "arguments": {"y": {"tensor": 1}}}
    {"operation": "softmax", "tensor": 2, "arguments": {"axis": -1}}

"tensor" is the number of the tensor that the operation belongs to; arguments that are tensors are written {"tensor": number},
and a "data_type", also that of "cast", is a number of
BNNSDataType. The operators are "add", "subtract", "multiply", "divide", "remainder", "equal",
"not_equal", "less", "less_equal", "greater", "greater_equal", "and", "or", "xor" and "not". "slice" and "slice_update" have a
"place", a list with a number, {"start": 0, "stop": -1, "step": 1} (or null for each) or "fill", for all that is left, per axis;
"slice_update" also has an "update", and its result is the changed tensor.

A builder belongs to one thread at a time.
""",
        functions={
            "openbnns_graph_builder_make": """
Begin a graph. Destroy the builder after use.
""",
            "openbnns_graph_builder_add": """
Add an operation. Tensors are numbered from 0 in the order in which they are made, so that further results of an operation have
the numbers that follow. data, data_size bytes, are the elements of a constant, which are copied; NULL for everything else.
""",
            "openbnns_graph_builder_get_tensor": """
Describe a tensor: its type, rank, shape and strides, with -1 for those that an open size leaves open.
""",
            "openbnns_graph_builder_compile": """
Compile the graph that computes these tensors, its only function main. Outputs come first among its arguments, then
arguments in the order in which they were added. Release its memory as that of any graph.
""",
            "openbnns_graph_builder_destroy": """
Release a builder. NULL is ignored; graphs that it has compiled stay.
""",
        },
    ),
)
