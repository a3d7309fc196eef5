"""BNNSGraph: ML programs that are compiled into graphs, and contexts that execute them.

Handles are structs whose ``data`` is an object: a block of memory, options or a context. Text may be ``str``, ``bytes`` or a
path; an array that a function fills is a list, or anything else that takes assignments.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, MutableSequence, Sequence
from typing import Any, TypeVar

from ..abi.enums import (
    BNNSGraphArgumentIntent,
    BNNSGraphArgumentType,
    BNNSGraphMessageLevel,
    BNNSGraphOptimizationPreference,
)
from ..abi.structs import (
    BNNSTensor,
    bnns_graph_argument_t,
    bnns_graph_compile_options_t,
    bnns_graph_context_t,
    bnns_graph_shape_t,
    bnns_graph_t,
)
from ..errors import Problem, succeeded
from .graph_objects import (
    Allocator,
    GraphContext,
    Messages,
    Options,
    block_allocator,
    context_of,
    contiguous,
    describe,
    execute,
    graph_of,
    initial_state,
    mapped_file,
    new_memory,
    number_of,
    options_of,
    reported,
    signature_of,
    text_of,
)
from .utility import SIZE_MAX

__all__ = [
    "BNNSGraphCompileFromFile",
    "BNNSGraphCompileFromFile_v2",
    "BNNSGraphCompileOptionsDestroy",
    "BNNSGraphCompileOptionsGetGenerateDebugInfo",
    "BNNSGraphCompileOptionsGetOptimizationPreference",
    "BNNSGraphCompileOptionsGetOutputFD",
    "BNNSGraphCompileOptionsGetOutputPath",
    "BNNSGraphCompileOptionsGetTargetSingleThread",
    "BNNSGraphCompileOptionsMakeDefault",
    "BNNSGraphCompileOptionsSetGenerateDebugInfo",
    "BNNSGraphCompileOptionsSetMessageLogCallback",
    "BNNSGraphCompileOptionsSetMessageLogMask",
    "BNNSGraphCompileOptionsSetOptimizationPreference",
    "BNNSGraphCompileOptionsSetOutputFD",
    "BNNSGraphCompileOptionsSetOutputPath",
    "BNNSGraphCompileOptionsSetTargetSingleThread",
    "BNNSGraphContextDestroy",
    "BNNSGraphContextDestroy_v2",
    "BNNSGraphContextEnableNanAndInfChecks",
    "BNNSGraphContextExecute",
    "BNNSGraphContextExecute_v2",
    "BNNSGraphContextGetTensor",
    "BNNSGraphContextGetWorkspaceSize",
    "BNNSGraphContextGetWorkspaceSize_v2",
    "BNNSGraphContextMake",
    "BNNSGraphContextMakeStreaming",
    "BNNSGraphContextSetArgumentType",
    "BNNSGraphContextSetBatchSize",
    "BNNSGraphContextSetBatchSize_v2",
    "BNNSGraphContextSetDynamicShapes",
    "BNNSGraphContextSetDynamicShapes_v2",
    "BNNSGraphContextSetMessageLogCallback",
    "BNNSGraphContextSetMessageLogMask",
    "BNNSGraphContextSetOutputAllocationCallback",
    "BNNSGraphContextSetOutputAllocationCallback_v2",
    "BNNSGraphContextSetStreamingAdvanceCount",
    "BNNSGraphContextSetWorkspaceAllocationCallback",
    "BNNSGraphContextSetWorkspaceAllocationCallback_v2",
    "BNNSGraphGetArgumentCount",
    "BNNSGraphGetArgumentIntents",
    "BNNSGraphGetArgumentInterleaveFactors",
    "BNNSGraphGetArgumentNames",
    "BNNSGraphGetArgumentPosition",
    "BNNSGraphGetFunctionCount",
    "BNNSGraphGetFunctionNames",
    "BNNSGraphGetInputCount",
    "BNNSGraphGetInputNames",
    "BNNSGraphGetInputNames_v2",
    "BNNSGraphGetOutputCount",
    "BNNSGraphGetOutputNames",
    "BNNSGraphGetOutputNames_v2",
    "BNNSGraphTensorFillStrides",
]

Text = Any
_Held = TypeVar("_Held")
_INTENTS = {
    "in": BNNSGraphArgumentIntent.BNNSGraphArgumentIntentIn,
    "out": BNNSGraphArgumentIntent.BNNSGraphArgumentIntentOut,
    "inout": BNNSGraphArgumentIntent.BNNSGraphArgumentIntentInOut,
}
_HANDLE_SIZE = 16


def BNNSGraphCompileOptionsMakeDefault() -> bnns_graph_compile_options_t:
    """Options with their defaults: several threads, no debug information, speed preferred, no file.

    >>> from openbnns.capi import *
    >>> options = BNNSGraphCompileOptionsMakeDefault()
    >>> BNNSGraphCompileOptionsGetTargetSingleThread(options)
    False
    """
    return succeeded(bnns_graph_compile_options_t(Options(), _HANDLE_SIZE))


def BNNSGraphCompileOptionsDestroy(options: bnns_graph_compile_options_t) -> None:
    """Release options.

    >>> from openbnns.capi import *
    >>> options = BNNSGraphCompileOptionsMakeDefault()
    >>> BNNSGraphCompileOptionsDestroy(options)
    """
    if isinstance(options, bnns_graph_compile_options_t) and options.data is None:
        return
    with reported("BNNSGraphCompileOptionsDestroy", destroys=True):
        options_of(options, "BNNSGraphCompileOptionsDestroy").destroyed = True


def _option(options: bnns_graph_compile_options_t, who: str, name: str, otherwise: _Held) -> _Held:
    """An option; ``otherwise`` on failure."""
    with reported(who):
        held: _Held = getattr(options_of(options, who, required=True), name)
        return succeeded(held)
    return otherwise


def _set_option(options: bnns_graph_compile_options_t, who: str, name: str, value: Any) -> None:
    with reported(who):
        setattr(options_of(options, who, required=True), name, value)


def BNNSGraphCompileOptionsSetTargetSingleThread(options: bnns_graph_compile_options_t, value: bool) -> None:
    """Choose whether executions use one thread.

    >>> from openbnns.capi import *
    >>> options = BNNSGraphCompileOptionsMakeDefault()
    >>> BNNSGraphCompileOptionsSetTargetSingleThread(options, True)
    >>> BNNSGraphCompileOptionsGetTargetSingleThread(options)
    True
    """
    _set_option(options, "BNNSGraphCompileOptionsSetTargetSingleThread", "single_thread", bool(value))


def BNNSGraphCompileOptionsGetTargetSingleThread(options: bnns_graph_compile_options_t) -> bool:
    """True if executions use one thread.

    >>> from openbnns.capi import *
    >>> BNNSGraphCompileOptionsGetTargetSingleThread(BNNSGraphCompileOptionsMakeDefault())
    False
    """
    return _option(options, "BNNSGraphCompileOptionsGetTargetSingleThread", "single_thread", False)


def BNNSGraphCompileOptionsSetGenerateDebugInfo(options: bnns_graph_compile_options_t, value: bool) -> None:
    """Choose whether messages of executions say where operations stand in the program.

    >>> from openbnns.capi import *
    >>> options = BNNSGraphCompileOptionsMakeDefault()
    >>> BNNSGraphCompileOptionsSetGenerateDebugInfo(options, True)
    >>> BNNSGraphCompileOptionsGetGenerateDebugInfo(options)
    True
    """
    _set_option(options, "BNNSGraphCompileOptionsSetGenerateDebugInfo", "debug", bool(value))


def BNNSGraphCompileOptionsGetGenerateDebugInfo(options: bnns_graph_compile_options_t) -> bool:
    """True if messages of executions say where operations stand in the program.

    >>> from openbnns.capi import *
    >>> BNNSGraphCompileOptionsGetGenerateDebugInfo(BNNSGraphCompileOptionsMakeDefault())
    False
    """
    return _option(options, "BNNSGraphCompileOptionsGetGenerateDebugInfo", "debug", False)


def BNNSGraphCompileOptionsSetOptimizationPreference(
    options: bnns_graph_compile_options_t,
    preference: BNNSGraphOptimizationPreference | int,
) -> None:
    """Choose between speed and a small graph, which here are the same.

    >>> from openbnns.capi import *
    >>> options = BNNSGraphCompileOptionsMakeDefault()
    >>> BNNSGraphCompileOptionsSetOptimizationPreference(options, BNNSGraphOptimizationPreferenceIRSize)
    >>> BNNSGraphCompileOptionsGetOptimizationPreference(options)
    BNNSGraphOptimizationPreferenceIRSize
    """
    who = "BNNSGraphCompileOptionsSetOptimizationPreference"
    number = number_of(preference, who, "preference")
    if number not in (0, 1):
        with reported(who):
            raise Problem(f"{who}: preference is {number}. Pass a member of BNNSGraphOptimizationPreference.")
        return
    _set_option(options, who, "preference", BNNSGraphOptimizationPreference(number))


def BNNSGraphCompileOptionsGetOptimizationPreference(
    options: bnns_graph_compile_options_t,
) -> BNNSGraphOptimizationPreference | int:
    """The preference: speed or a small graph.

    >>> from openbnns.capi import *
    >>> BNNSGraphCompileOptionsGetOptimizationPreference(BNNSGraphCompileOptionsMakeDefault())
    BNNSGraphOptimizationPreferencePerformance
    """
    return _option(
        options, "BNNSGraphCompileOptionsGetOptimizationPreference", "preference", BNNSGraphOptimizationPreference(0)
    )


def BNNSGraphCompileOptionsSetMessageLogCallback(
    options: bnns_graph_compile_options_t,
    log_callback: Callable[..., Any] | None = None,
    additional_logging_arguments: Any = None,
) -> None:
    """Pass messages of the compiler to a function: level, text, place or None, and what is to be passed on.

    >>> from openbnns.capi import *
    >>> options = BNNSGraphCompileOptionsMakeDefault()
    >>> BNNSGraphCompileOptionsSetMessageLogCallback(options, lambda level, text, place, more: print(level))
    >>> BNNSGraphCompileFromFile("no such file.mil", None, options).data
    BNNSGraphMessageLevelError
    """
    who = "BNNSGraphCompileOptionsSetMessageLogCallback"
    with reported(who):
        _set_callback(options_of(options, who, required=True).messages, log_callback, additional_logging_arguments, who)


def BNNSGraphCompileOptionsSetMessageLogMask(options: bnns_graph_compile_options_t, log_level_mask: int) -> None:
    """Choose the levels that the callback is called for.

    >>> from openbnns.capi import *
    >>> options = BNNSGraphCompileOptionsMakeDefault()
    >>> BNNSGraphCompileOptionsSetMessageLogMask(options, int(BNNSGraphMessageLevelError))
    """
    who = "BNNSGraphCompileOptionsSetMessageLogMask"
    number = number_of(log_level_mask, who, "log_level_mask")
    with reported(who):
        options_of(options, who, required=True).messages.mask = number


def BNNSGraphCompileOptionsSetOutputPath(options: bnns_graph_compile_options_t, path: Text = None) -> None:
    """Write graphs to a file, which is mapped; None resets it.

    >>> from openbnns.capi import *
    >>> options = BNNSGraphCompileOptionsMakeDefault()
    >>> BNNSGraphCompileOptionsSetOutputPath(options, "graph.bin")
    >>> BNNSGraphCompileOptionsGetOutputPath(options)
    'graph.bin'
    """
    who = "BNNSGraphCompileOptionsSetOutputPath"
    _set_option(options, who, "path", text_of(path, who, "path"))


def BNNSGraphCompileOptionsGetOutputPath(options: bnns_graph_compile_options_t) -> str | None:
    """Path of the file that graphs are written to.

    >>> from openbnns.capi import *
    >>> BNNSGraphCompileOptionsGetOutputPath(BNNSGraphCompileOptionsMakeDefault()) is None
    True
    """
    return _option(options, "BNNSGraphCompileOptionsGetOutputPath", "path", None)


def BNNSGraphCompileOptionsSetOutputFD(options: bnns_graph_compile_options_t, fd: int) -> None:
    """Write graphs to a file that is open for reading and writing; -1 resets it.

    >>> from openbnns.capi import *
    >>> options = BNNSGraphCompileOptionsMakeDefault()
    >>> BNNSGraphCompileOptionsSetOutputFD(options, -1)
    """
    who = "BNNSGraphCompileOptionsSetOutputFD"
    _set_option(options, who, "descriptor", number_of(fd, who, "fd"))


def BNNSGraphCompileOptionsGetOutputFD(options: bnns_graph_compile_options_t) -> int:
    """Descriptor of the file that graphs are written to, or -1.

    >>> from openbnns.capi import *
    >>> BNNSGraphCompileOptionsGetOutputFD(BNNSGraphCompileOptionsMakeDefault())
    -1
    """
    return _option(options, "BNNSGraphCompileOptionsGetOutputFD", "descriptor", -1)


def _set_callback(messages: Messages, callback: Any, additional: Any, who: str) -> None:
    if callback is not None and not callable(callback):
        raise TypeError(f"{who}: the callback must be a function, not {type(callback).__name__}.")
    messages.callback, messages.additional = callback, additional


def BNNSGraphCompileFromFile(filename: Text, function: Text, options: bnns_graph_compile_options_t) -> bnns_graph_t:
    """Compile a function, or all if none is named, of an ``.mlmodelc``, ``model.mil`` or ``.mlpackage``; data is None on failure.

    >>> from openbnns.capi import *
    >>> from openbnns.examples import DENSE
    >>> graph = BNNSGraphCompileFromFile(DENSE, None, bnns_graph_compile_options_t())
    >>> graph.data is not None
    True
    """
    return compile_file(filename, function, options, new_memory, mapped_file)


BNNSGraphCompileFromFile_v2 = BNNSGraphCompileFromFile


def compile_file(
    filename: Text,
    function: Text,
    options: bnns_graph_compile_options_t,
    new: Callable[[int], memoryview],
    map_file: Callable[[int, int], memoryview],
) -> bnns_graph_t:
    """A graph in memory that these functions give."""
    from ..interop.coreml import compiled

    who = "BNNSGraphCompileFromFile"
    held = Options()
    with reported(who, lambda: held.messages):
        held = options_of(options, who)
        path, name = text_of(filename, who, "filename"), text_of(function, who, "function")
        if path is None:
            raise Problem(
                f"{who}: filename is NULL. Pass the path of an .mlmodelc folder, a model.mil or an .mlpackage."
            )
        graph = compiled.checked_file(path, name, held.debug)
        block = compiled.compiled(graph, block_allocator(held, new, map_file))
        return succeeded(bnns_graph_t(block.obj, len(block)))
    return bnns_graph_t()


def _count_arguments(graph: bnns_graph_t, function: Text, who: str, intents: Collection[str]) -> int:
    with reported(who):
        return succeeded(sum(a.intent in intents for a in signature_of(graph, function, who).arguments))
    return SIZE_MAX


def BNNSGraphGetInputCount(graph: bnns_graph_t, function: Text = None) -> int:
    """Number of inputs, states included, of a function; SIZE_MAX on failure.

    >>> from openbnns.capi import *
    >>> from openbnns.examples import DENSE
    >>> graph = BNNSGraphCompileFromFile(DENSE, None, bnns_graph_compile_options_t())
    >>> BNNSGraphGetInputCount(graph)
    1
    """
    return _count_arguments(graph, function, "BNNSGraphGetInputCount", ("in", "inout"))


def BNNSGraphGetOutputCount(graph: bnns_graph_t, function: Text = None) -> int:
    """Number of outputs of a function; SIZE_MAX on failure.

    >>> from openbnns.capi import *
    >>> from openbnns.examples import DENSE
    >>> graph = BNNSGraphCompileFromFile(DENSE, None, bnns_graph_compile_options_t())
    >>> BNNSGraphGetOutputCount(graph)
    1
    """
    return _count_arguments(graph, function, "BNNSGraphGetOutputCount", ("out",))


def BNNSGraphGetArgumentCount(graph: bnns_graph_t, function: Text = None) -> int:
    """Number of outputs and inputs of a function; SIZE_MAX on failure.

    >>> from openbnns.capi import *
    >>> from openbnns.examples import DENSE
    >>> graph = BNNSGraphCompileFromFile(DENSE, None, bnns_graph_compile_options_t())
    >>> BNNSGraphGetArgumentCount(graph)
    2
    """
    return _count_arguments(graph, function, "BNNSGraphGetArgumentCount", _INTENTS)


def BNNSGraphGetFunctionCount(graph: bnns_graph_t) -> int:
    """Number of functions; SIZE_MAX on failure.

    >>> from openbnns.capi import *
    >>> from openbnns.examples import DENSE
    >>> graph = BNNSGraphCompileFromFile(DENSE, None, bnns_graph_compile_options_t())
    >>> BNNSGraphGetFunctionCount(graph)
    1
    """
    with reported("BNNSGraphGetFunctionCount"):
        return succeeded(len(graph_of(graph, "BNNSGraphGetFunctionCount").functions))
    return SIZE_MAX


def _fill(target: Any, count: Any, values: Sequence[Any], who: str, name: str) -> int:
    """Write as many values as there is room for."""
    number = number_of(count, who, f"{name}_count")
    if target is None:
        raise Problem(f"{who}: {name} is NULL. Pass an array with room for {len(values)} entries.")
    for i, value in enumerate(values[:number]):
        target[i] = value
    return succeeded(0)


def _fill_names(
    graph: bnns_graph_t, function: Text, count: Any, target: Any, who: str, intents: Collection[str]
) -> int:
    with reported(who):
        names = [a.name for a in signature_of(graph, function, who).arguments if a.intent in intents]
        return _fill(
            target, count, names, who, f"{who.removeprefix('BNNSGraphGet').removesuffix('Names').lower()}_names"
        )
    return -1


def BNNSGraphGetInputNames(
    graph: bnns_graph_t,
    function: Text,
    input_names_count: int,
    input_names: MutableSequence[Any] | None,
) -> int:
    """Write the names of the inputs.

    >>> from openbnns.capi import *
    >>> from openbnns.examples import DENSE
    >>> graph = BNNSGraphCompileFromFile(DENSE, None, bnns_graph_compile_options_t())
    >>> names = [None] * 1
    >>> BNNSGraphGetInputNames(graph, None, 1, names), names
    (0, ['x'])
    """
    who = "BNNSGraphGetInputNames"
    return _fill_names(graph, function, input_names_count, input_names, who, ("in", "inout"))


BNNSGraphGetInputNames_v2 = BNNSGraphGetInputNames


def BNNSGraphGetOutputNames(
    graph: bnns_graph_t,
    function: Text,
    output_names_count: int,
    output_names: MutableSequence[Any] | None,
) -> int:
    """Write the names of the outputs.

    >>> from openbnns.capi import *
    >>> from openbnns.examples import DENSE
    >>> graph = BNNSGraphCompileFromFile(DENSE, None, bnns_graph_compile_options_t())
    >>> names = [None] * 1
    >>> BNNSGraphGetOutputNames(graph, None, 1, names), names
    (0, ['y'])
    """
    who = "BNNSGraphGetOutputNames"
    return _fill_names(graph, function, output_names_count, output_names, who, ("out",))


BNNSGraphGetOutputNames_v2 = BNNSGraphGetOutputNames


def BNNSGraphGetArgumentNames(
    graph: bnns_graph_t,
    function: Text,
    argument_names_count: int,
    argument_names: MutableSequence[Any] | None,
) -> int:
    """Write the names of the arguments, outputs first.

    >>> from openbnns.capi import *
    >>> from openbnns.examples import DENSE
    >>> graph = BNNSGraphCompileFromFile(DENSE, None, bnns_graph_compile_options_t())
    >>> names = [None] * 2
    >>> BNNSGraphGetArgumentNames(graph, None, 2, names), names
    (0, ['y', 'x'])
    """
    who = "BNNSGraphGetArgumentNames"
    return _fill_names(graph, function, argument_names_count, argument_names, who, _INTENTS)


def BNNSGraphGetFunctionNames(
    graph: bnns_graph_t,
    function_name_count: int,
    function_names: MutableSequence[Any] | None,
) -> int:
    """Write the names of the functions.

    >>> from openbnns.capi import *
    >>> from openbnns.examples import DENSE
    >>> graph = BNNSGraphCompileFromFile(DENSE, None, bnns_graph_compile_options_t())
    >>> names = [None]
    >>> BNNSGraphGetFunctionNames(graph, 1, names), names
    (0, ['main'])
    """
    who = "BNNSGraphGetFunctionNames"
    with reported(who):
        return _fill(function_names, function_name_count, list(graph_of(graph, who).functions), who, "function_names")
    return -1


def BNNSGraphGetArgumentIntents(
    graph: bnns_graph_t,
    function: Text,
    argument_intents_count: int,
    argument_intents: MutableSequence[Any] | None,
) -> int:
    """Write for each argument whether it is read, written or both.

    >>> from openbnns.capi import *
    >>> from openbnns.examples import DENSE
    >>> graph = BNNSGraphCompileFromFile(DENSE, None, bnns_graph_compile_options_t())
    >>> intents = [0, 0]
    >>> BNNSGraphGetArgumentIntents(graph, None, 2, intents), intents
    (0, [BNNSGraphArgumentIntentOut, BNNSGraphArgumentIntentIn])
    """
    who = "BNNSGraphGetArgumentIntents"
    with reported(who):
        intents = [_INTENTS[a.intent] for a in signature_of(graph, function, who).arguments]
        return _fill(argument_intents, argument_intents_count, intents, who, "argument_intents")
    return -1


def BNNSGraphGetArgumentPosition(graph: bnns_graph_t, function: Text, argument: Text) -> int:
    """Position of an argument among all arguments; SIZE_MAX on failure.

    >>> from openbnns.capi import *
    >>> from openbnns.examples import DENSE
    >>> graph = BNNSGraphCompileFromFile(DENSE, None, bnns_graph_compile_options_t())
    >>> BNNSGraphGetArgumentPosition(graph, None, "x")
    1
    """
    from ..interop.coreml.context import Context

    who = "BNNSGraphGetArgumentPosition"
    with reported(who):
        signature = signature_of(graph, function, who)
        return succeeded(Context.position(signature, text_of(argument, who, "argument"), who))
    return SIZE_MAX


def BNNSGraphGetArgumentInterleaveFactors(
    graph: bnns_graph_t,
    function: Text,
    argument_count: int,
    argument_interleave: MutableSequence[Any] | None,
    argument_interleave_counts: MutableSequence[Any] | None,
) -> int:
    """Write the interleave factors of the arguments: None and 0, as they are plain tensors.

    >>> from openbnns.capi import *
    >>> from openbnns.examples import DENSE
    >>> graph = BNNSGraphCompileFromFile(DENSE, None, bnns_graph_compile_options_t())
    >>> factors, counts = [1, 1], [1, 1]
    >>> BNNSGraphGetArgumentInterleaveFactors(graph, None, 2, factors, counts), factors, counts
    (0, [None, None], [0, 0])
    """
    who = "BNNSGraphGetArgumentInterleaveFactors"
    with reported(who):
        count = len(signature_of(graph, function, who).arguments)
        for name, target in (
            ("argument_interleave", argument_interleave),
            ("argument_interleave_counts", argument_interleave_counts),
        ):
            if target is None:
                raise Problem(f"{who}: {name} is NULL. Pass an array with room for {count} entries.")
        _fill(argument_interleave, argument_count, [None] * count, who, "argument_interleave")
        return _fill(argument_interleave_counts, argument_count, [0] * count, who, "argument_interleave_counts")
    return -1


def _tensor(tensor: Any, who: str) -> BNNSTensor:
    if tensor is None:
        raise Problem(f"{who}: tensor is NULL. Pass a BNNSTensor.")
    if not isinstance(tensor, BNNSTensor):
        raise TypeError(f"{who}: tensor must be a BNNSTensor, not {type(tensor).__name__}.")
    return tensor


def BNNSGraphTensorFillStrides(graph: bnns_graph_t, function: Text, argument: Text, tensor: BNNSTensor) -> int:
    """Fill the strides of a tensor whose shape is known.

    >>> from openbnns.capi import *
    >>> from openbnns.examples import DENSE
    >>> graph = BNNSGraphCompileFromFile(DENSE, None, bnns_graph_compile_options_t())
    >>> tensor = BNNSTensor(rank=2, shape=[5, 3])
    >>> BNNSGraphTensorFillStrides(graph, None, "x", tensor), tensor.stride[:2]
    (0, [3, 1])
    """
    from ..interop.coreml.context import Context

    who = "BNNSGraphTensorFillStrides"
    with reported(who):
        signature, held = signature_of(graph, function, who), _tensor(tensor, who)
        entry = signature.arguments[Context.position(signature, text_of(argument, who, "argument"), who)]
        shape = held.shape[: held.rank]
        if held.rank != len(entry.shape) or min(shape, default=0) < 0:
            raise Problem(
                f"{who}: tensor has rank {held.rank} and shape {list(shape)}, but {entry.name} has rank {len(entry.shape)}. Set "
                "rank and all sizes first."
            )
        held.stride = list(contiguous(shape))
        return succeeded(0)
    return -1


def BNNSGraphContextMake(graph: bnns_graph_t) -> bnns_graph_context_t:
    """A context for all functions of a graph; data is None on failure.

    >>> from openbnns.capi import *
    >>> from openbnns.examples import DENSE
    >>> graph = BNNSGraphCompileFromFile(DENSE, None, bnns_graph_compile_options_t())
    >>> BNNSGraphContextMake(graph).data is not None
    True
    """
    from ..interop.coreml.context import Context

    who = "BNNSGraphContextMake"
    with reported(who):
        made = GraphContext(Context.of_graph(graph_of(graph, who)))
        return succeeded(bnns_graph_context_t(made, _HANDLE_SIZE))
    return bnns_graph_context_t()


def BNNSGraphContextMakeStreaming(
    graph: bnns_graph_t,
    function: Text,
    initial_states_count: int,
    initial_states: Sequence[BNNSTensor] | None = None,
) -> bnns_graph_context_t:
    """A context that keeps the states of a function in ring buffers; data is None on failure.

    >>> from openbnns.capi import *
    >>> from openbnns.examples import DENSE
    >>> graph = BNNSGraphCompileFromFile(DENSE, None, bnns_graph_compile_options_t())
    >>> BNNSGraphContextMakeStreaming(graph, None, 0).data is None  # it has no states
    True
    """
    from ..interop.coreml.context import Context

    who = "BNNSGraphContextMakeStreaming"
    with reported(who):
        context = Context.of_graph(graph_of(graph, who))
        count = number_of(initial_states_count, who, "initial_states_count")
        if count and initial_states is None:
            raise Problem(f"{who}: initial_states is NULL, but initial_states_count is {count}.")
        name = text_of(function, who, "function")
        run = context.run_of(name, who)
        states = dict(initial_state(_tensor(each, who), run, who) for each in (initial_states or ())[:count])
        context.stream(name, states, who)
        return succeeded(bnns_graph_context_t(GraphContext(context, run.signature.name), _HANDLE_SIZE))
    return bnns_graph_context_t()


def BNNSGraphContextDestroy(context: bnns_graph_context_t) -> None:
    """Release a context and the outputs that it has allocated.

    >>> from openbnns.capi import *
    >>> from openbnns.examples import DENSE
    >>> graph = BNNSGraphCompileFromFile(DENSE, None, bnns_graph_compile_options_t())
    >>> BNNSGraphContextDestroy(BNNSGraphContextMake(graph))
    """
    if isinstance(context, bnns_graph_context_t) and context.data is None:
        return
    with reported("BNNSGraphContextDestroy", destroys=True):
        context_of(context, "BNNSGraphContextDestroy").destroy()


BNNSGraphContextDestroy_v2 = BNNSGraphContextDestroy


def _of(context: bnns_graph_context_t) -> Callable[[], Messages]:
    """The messages of a context, if there is one."""
    held = getattr(context, "data", None)
    return lambda: held.messages if isinstance(held, GraphContext) else Messages()


def BNNSGraphContextSetDynamicShapes(
    context: bnns_graph_context_t,
    function: Text,
    shapes_count: int,
    shapes: Sequence[bnns_graph_shape_t] | None,
) -> int:
    """Set the shapes of all arguments: 0 if those of outputs are exact, 1 if bounds, 2 if open, negative on failure.

    >>> from openbnns.capi import *
    >>> from openbnns.examples import DENSE
    >>> graph = BNNSGraphCompileFromFile(DENSE, None, bnns_graph_compile_options_t())
    >>> context = BNNSGraphContextMake(graph)
    >>> shapes = [bnns_graph_shape_t(2, [0, 0]), bnns_graph_shape_t(2, [7, 3])]
    >>> BNNSGraphContextSetDynamicShapes(context, None, 2, shapes), shapes[0].shape
    (0, [7, 2])
    """
    who = "BNNSGraphContextSetDynamicShapes"
    with reported(who, _of(context)):
        run = context_of(context, who).context.run_of(text_of(function, who, "function"), who)
        if shapes is None:
            raise Problem(f"{who}: shapes is NULL. Pass one shape for each argument.")
        given = list(shapes[: number_of(shapes_count, who, "shapes_count")])
        for shape in given:
            if not isinstance(shape, bnns_graph_shape_t):
                raise TypeError(f"{who}: shapes must be bnns_graph_shape_t, not {type(shape).__name__}.")
            if shape.rank and shape.shape is None:
                raise Problem(f"{who}: a shape of rank {shape.rank} is NULL. Pass its sizes, or rank 0.")
        code: int = run.set_shapes([shape.shape[: shape.rank] if shape.rank else None for shape in given], who)
        for argument, shape in zip(run.signature.arguments, given, strict=True):
            if argument.intent == "out" and shape.rank:
                for axis, size in enumerate(run.bounds(argument.name, who)[: shape.rank]):
                    shape.shape[axis] = size
        return succeeded(code)
    return -1


BNNSGraphContextSetDynamicShapes_v2 = BNNSGraphContextSetDynamicShapes


def BNNSGraphContextSetBatchSize(context: bnns_graph_context_t, function: Text, batch_size: int) -> int:
    """Set all open sizes, which must be those of first axes.

    >>> from openbnns.capi import *
    >>> from openbnns.examples import DENSE
    >>> graph = BNNSGraphCompileFromFile(DENSE, None, bnns_graph_compile_options_t())
    >>> context = BNNSGraphContextMake(graph)
    >>> BNNSGraphContextSetBatchSize(context, None, 5)
    0
    """
    who = "BNNSGraphContextSetBatchSize"
    with reported(who, _of(context)):
        run = context_of(context, who).context.run_of(text_of(function, who, "function"), who)
        run.set_batch_size(number_of(batch_size, who, "batch_size"), who)
        return succeeded(0)
    return -1


BNNSGraphContextSetBatchSize_v2 = BNNSGraphContextSetBatchSize


def BNNSGraphContextSetArgumentType(context: bnns_graph_context_t, argument_type: BNNSGraphArgumentType | int) -> int:
    """Choose between pointers, the default, and tensors as arguments.

    >>> from openbnns.capi import *
    >>> from openbnns.examples import DENSE
    >>> graph = BNNSGraphCompileFromFile(DENSE, None, bnns_graph_compile_options_t())
    >>> context = BNNSGraphContextMake(graph)
    >>> BNNSGraphContextSetArgumentType(context, BNNSGraphArgumentTypeTensor)
    0
    """
    who = "BNNSGraphContextSetArgumentType"
    with reported(who, _of(context)):
        number = number_of(argument_type, who, "argument_type")
        if number not in (0, 2):
            raise Problem(
                f"{who}: argument_type is {number}. Pass BNNSGraphArgumentTypePointer or BNNSGraphArgumentTypeTensor."
            )
        context_of(context, who).set_argument_type(number)
        return succeeded(0)
    return -1


def BNNSGraphContextEnableNanAndInfChecks(context: bnns_graph_context_t, enable_check_for_nans_inf: bool) -> None:
    """Choose whether executions look for NaN and infinity in all that they compute.

    >>> from openbnns.capi import *
    >>> from openbnns.examples import DENSE
    >>> graph = BNNSGraphCompileFromFile(DENSE, None, bnns_graph_compile_options_t())
    >>> context = BNNSGraphContextMake(graph)
    >>> BNNSGraphContextEnableNanAndInfChecks(context, True)
    """
    who = "BNNSGraphContextEnableNanAndInfChecks"
    with reported(who, _of(context)):
        context_of(context, who).context.check_for_nans_and_infinities = bool(enable_check_for_nans_inf)


def BNNSGraphContextSetStreamingAdvanceCount(context: bnns_graph_context_t, advance_count: int) -> int:
    """Set by how much ring buffers advance where the program leaves the size of an update open.

    >>> from openbnns.capi import *
    >>> from openbnns.examples import DENSE
    >>> graph = BNNSGraphCompileFromFile(DENSE, None, bnns_graph_compile_options_t())
    >>> context = BNNSGraphContextMake(graph)
    >>> BNNSGraphContextSetStreamingAdvanceCount(context, 1)  # not a streaming context
    -1
    """
    who = "BNNSGraphContextSetStreamingAdvanceCount"
    with reported(who, _of(context)):
        held = context_of(context, who)
        held.context.set_advance(number_of(advance_count, who, "advance_count"), held.streaming, who)
        return succeeded(0)
    return -1


def BNNSGraphContextExecute(
    context: bnns_graph_context_t,
    function: Text,
    argument_count: int,
    arguments: Sequence[bnns_graph_argument_t] | None,
    workspace_size: int,
    workspace: Any = None,
) -> int:
    """Run a function; outputs stand first among the arguments. No workspace is needed.

    >>> from openbnns.capi import *
    >>> import numpy as np
    >>> from openbnns.examples import DENSE
    >>> graph = BNNSGraphCompileFromFile(DENSE, None, bnns_graph_compile_options_t())
    >>> context = BNNSGraphContextMake(graph)
    >>> BNNSGraphContextSetBatchSize(context, None, 1)
    0
    >>> x, y = np.float32([[1, 1, 1]]), np.zeros((1, 2), np.float32)
    >>> arguments = [bnns_graph_argument_t(data_ptr=a, data_ptr_size=a.nbytes) for a in (y, x)]
    >>> BNNSGraphContextExecute(context, None, 2, arguments, 0), y.tolist()
    (0, [[6.0, 0.0]])
    """
    who = "BNNSGraphContextExecute"
    with reported(who, _of(context)):
        held = context_of(context, who)
        if arguments is None:
            raise Problem(f"{who}: arguments is NULL. Pass outputs and inputs.")
        count = number_of(argument_count, who, "argument_count")
        if count > len(arguments):
            raise Problem(f"{who}: argument_count is {count}, but there are {len(arguments)} arguments.")
        execute(held, text_of(function, who, "function"), arguments[:count], who)
        return succeeded(0)
    return -1


BNNSGraphContextExecute_v2 = BNNSGraphContextExecute


def BNNSGraphContextGetWorkspaceSize(context: bnns_graph_context_t, function: Text = None) -> int:
    """Bytes of workspace: one page, which executions do not need; SIZE_MAX while sizes are open.

    >>> from openbnns.capi import *
    >>> from openbnns.examples import DENSE
    >>> graph = BNNSGraphCompileFromFile(DENSE, None, bnns_graph_compile_options_t())
    >>> context = BNNSGraphContextMake(graph)
    >>> BNNSGraphContextSetBatchSize(context, None, 1), BNNSGraphContextGetWorkspaceSize(context)
    (0, 16384)
    """
    who = "BNNSGraphContextGetWorkspaceSize"
    with reported(who, _of(context)):
        run = context_of(context, who).context.run_of(text_of(function, who, "function"), who)
        return succeeded(int(run.workspace_size(who)))
    return SIZE_MAX


BNNSGraphContextGetWorkspaceSize_v2 = BNNSGraphContextGetWorkspaceSize


def BNNSGraphContextGetTensor(
    context: bnns_graph_context_t,
    function: Text,
    argument: Text,
    fill_known_dynamic_shapes: bool,
    tensor: BNNSTensor,
) -> int:
    """Describe an argument, with -1 for sizes that are not known.

    >>> from openbnns.capi import *
    >>> from openbnns.examples import DENSE
    >>> graph = BNNSGraphCompileFromFile(DENSE, None, bnns_graph_compile_options_t())
    >>> context = BNNSGraphContextMake(graph)
    >>> tensor = BNNSTensor()
    >>> BNNSGraphContextGetTensor(context, None, "x", True, tensor), tensor.shape[:2]
    (0, [-1, 3])
    """
    who = "BNNSGraphContextGetTensor"
    with reported(who, _of(context)):
        run = context_of(context, who).context.run_of(text_of(function, who, "function"), who)
        held, name = _tensor(tensor, who), text_of(argument, who, "argument")
        shape = run.shape(name, bool(fill_known_dynamic_shapes), who)
        describe(held, run.arguments[name], shape)
        return succeeded(0)
    return -1


def _allocator(
    realloc: Any, free: Any, user_memory_context_size: int, user_memory_context: Any, who: str
) -> Allocator | None:
    if (realloc is None) != (free is None):
        raise Problem(f"{who}: only one of realloc and free is NULL. Pass both functions, or neither.")
    size = number_of(user_memory_context_size, who, "user_memory_context_size")
    return None if realloc is None else Allocator(realloc, free, size, user_memory_context)


def BNNSGraphContextSetWorkspaceAllocationCallback(
    context: bnns_graph_context_t,
    realloc: Callable[..., int] | None,
    free: Callable[..., None] | None,
    user_memory_context_size: int,
    user_memory_context: Any = None,
) -> int:
    """Set the functions that allocate workspace, which executions do not need; None resets them.

    >>> from openbnns.capi import *
    >>> from openbnns.examples import DENSE
    >>> graph = BNNSGraphCompileFromFile(DENSE, None, bnns_graph_compile_options_t())
    >>> context = BNNSGraphContextMake(graph)
    >>> BNNSGraphContextSetWorkspaceAllocationCallback(context, None, None, 0)
    0
    """
    who = "BNNSGraphContextSetWorkspaceAllocationCallback"
    with reported(who, _of(context)):
        held = context_of(context, who)
        allocator = _allocator(realloc, free, user_memory_context_size, user_memory_context, who)
        held.workspace_allocator = allocator
        return succeeded(0)
    return -1


BNNSGraphContextSetWorkspaceAllocationCallback_v2 = BNNSGraphContextSetWorkspaceAllocationCallback


def BNNSGraphContextSetOutputAllocationCallback(
    context: bnns_graph_context_t,
    realloc: Callable[..., int] | None,
    free: Callable[..., None] | None,
    user_memory_context_size: int,
    user_memory_context: Any = None,
) -> int:
    """Set the functions that allocate outputs; None resets them.

    >>> from openbnns.capi import *
    >>> from openbnns.examples import DENSE
    >>> graph = BNNSGraphCompileFromFile(DENSE, None, bnns_graph_compile_options_t())
    >>> context = BNNSGraphContextMake(graph)
    >>> BNNSGraphContextSetOutputAllocationCallback(context, None, None, 0)
    0
    """
    who = "BNNSGraphContextSetOutputAllocationCallback"
    with reported(who, _of(context)):
        held = context_of(context, who)
        allocator = _allocator(realloc, free, user_memory_context_size, user_memory_context, who)
        held.set_output_allocator(allocator)
        return succeeded(0)
    return -1


BNNSGraphContextSetOutputAllocationCallback_v2 = BNNSGraphContextSetOutputAllocationCallback


def BNNSGraphContextSetMessageLogCallback(
    context: bnns_graph_context_t,
    log_callback_fn: Callable[..., Any] | None = None,
    additional_logging_arguments: Any = None,
) -> int:
    """Pass messages of executions to a function: level, text, operation or None, and what is to be passed on.

    >>> from openbnns.capi import *
    >>> from openbnns.examples import DENSE
    >>> graph = BNNSGraphCompileFromFile(DENSE, None, bnns_graph_compile_options_t())
    >>> context = BNNSGraphContextMake(graph)
    >>> BNNSGraphContextSetMessageLogCallback(context, lambda level, text, operation, more: print(level))
    0
    >>> BNNSGraphContextGetWorkspaceSize(context) == 2**64 - 1  # sizes are open
    BNNSGraphMessageLevelError
    True
    """
    who = "BNNSGraphContextSetMessageLogCallback"
    with reported(who, _of(context)):
        _set_callback(context_of(context, who).messages, log_callback_fn, additional_logging_arguments, who)
        return succeeded(0)
    return -1


def BNNSGraphContextSetMessageLogMask(
    context: bnns_graph_context_t,
    log_level_mask: BNNSGraphMessageLevel | int,
) -> int:
    """Choose the levels that the callback is called for.

    >>> from openbnns.capi import *
    >>> from openbnns.examples import DENSE
    >>> graph = BNNSGraphCompileFromFile(DENSE, None, bnns_graph_compile_options_t())
    >>> context = BNNSGraphContextMake(graph)
    >>> BNNSGraphContextSetMessageLogMask(context, BNNSGraphMessageLevelError | BNNSGraphMessageLevelWarning)
    0
    """
    who = "BNNSGraphContextSetMessageLogMask"
    with reported(who, _of(context)):
        context_of(context, who).messages.mask = number_of(log_level_mask, who, "log_level_mask")
        return succeeded(0)
    return -1
