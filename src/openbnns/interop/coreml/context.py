"""Contexts: graphs with what changes from one execution to the next: sizes that the program leaves open, states, messages."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from ... import engines
from ...errors import BNNSError, Problem, as_exception
from .compiled import Argument, GraphProgram, Signature, checked_file, checked_program
from .elements import ELEMENTS, Array
from .execution import Executable, Moved, Repetition, State
from .native_executions import Entry, NativeExecutions, can_be_passed
from .program import Function, Program, TensorType
from .value_sizes import Sizes, sizes_by_values

PAGE = 16384
"""The workspace that a context asks for: a page of any Mac, as programs may treat 0 bytes as a failure."""

INFO, UNSUPPORTED, WARNING, ERROR = 1, 2, 4, 8
"""Levels of messages."""

Shape = tuple[int, ...]
Log = Callable[[int, str, "str | None"], None]


@dataclass(frozen=True)
class CompileOptions:
    """Options of a compilation, as Swift's ``BNNSGraph.CompileOptions`` has them.

    ``generate_debug_info`` makes messages say where an operation stands in the program. The other two have no effect: the
    number of threads is that of the library (:func:`openbnns.set_num_threads`), and weights stay as the program has them.

    >>> from openbnns import graph
    >>> graph.CompileOptions(generate_debug_info=True).use_single_thread
    False
    """

    use_single_thread: bool = False
    generate_debug_info: bool = False
    optimization_preference: Literal["performance", "internal_representation_size"] = "performance"


class Context:
    """A compiled graph that can be executed; for one thread at a time.

    ``path`` is an ``.mlmodelc`` folder, its ``model.mil`` or an ``.mlpackage``; ``function`` names the only function to compile.
    Arguments stand in the order of BNNSGraph: outputs first, then inputs and states. Open sizes are -1 until they are set.

    >>> import numpy as np
    >>> from openbnns import graph
    >>> context = graph.make_context(lambda b: [b.argument("x", np.float32, [-1, 3]).relu()])
    >>> context.argument_names()
    ['output', 'x']
    >>> context.shape("x"), context.set_dynamic_shapes({"x": (2, 3)})
    ((-1, 3), {'output': (2, 3), 'x': (2, 3)})
    >>> context.execute({"x": np.float32([[-1, 0, 1], [2, -2, 0]])})["output"].tolist()
    [[0.0, 0.0, 1.0], [2.0, 0.0, 0.0]]
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        function: str | None = None,
        options: CompileOptions | None = None,
        *,
        streaming: bool = False,
        initial_states: Mapping[str, Any] | None = None,
    ) -> None:
        debug = options is not None and options.generate_debug_info
        self._open(checked_file(path, function, debug))
        if streaming:
            with _raised():
                self.stream(function, initial_states or {}, "Context")

    @classmethod
    def of_graph(cls, graph: GraphProgram) -> Context:
        """A context for a graph. If that has been compiled, its memory must stay."""
        context = cls.__new__(cls)
        context._open(graph)
        return context

    @classmethod
    def of_program(cls, program: Program, options: CompileOptions | None = None) -> Context:
        """A context for a program."""
        debug = options is not None and options.generate_debug_info
        return cls.of_graph(checked_program(program, debug=debug))

    def _open(self, graph: GraphProgram) -> None:
        self.graph = graph
        self.log: Log | None = None
        self.latest: Run | None = None
        """The function that Python has executed last."""
        self._checks = False
        self._program = graph.program()
        self._runs: dict[str, Run] = {}
        self.busy: Any = _Lock() if engines._core is None else engines._core.Busy()
        self.native = None if engines._core is None else NativeExecutions(graph, self.busy)

    # What Python programs call.

    @property
    def check_for_nans_and_infinities(self) -> bool:
        """True if executions report all values that they compute that are not finite."""
        return self._checks

    @check_for_nans_and_infinities.setter
    def check_for_nans_and_infinities(self, check: bool) -> None:
        self._checks = check
        if self.native is not None:
            self.native.check_values(check)

    @property
    def function_names(self) -> list[str]:
        """Names of the functions."""
        return list(self.graph.functions)

    def argument_names(self, function: str | None = None) -> list[str]:
        """Names of the arguments of a function: outputs, then inputs and states."""
        with _raised():
            return [argument.name for argument in self.signature(function, "Context.argument_names").arguments]

    def argument_position(self, name: str, function: str | None = None) -> int:
        """Where an argument stands among the arguments."""
        with _raised():
            return self.position(
                self.signature(function, "Context.argument_position"), name, "Context.argument_position"
            )

    def shape(self, name: str, function: str | None = None) -> Shape:
        """The shape of an argument; -1 for a size that is open and has no default."""
        with _raised():
            return self.run_of(function, "Context.shape").shape(name, True, "Context.shape")

    def set_dynamic_shapes(self, shapes: Mapping[str, Sequence[int]], function: str | None = None) -> dict[str, Shape]:
        """Set open sizes by the shapes of arguments; those left out, and sizes of 0, have their default. Gives all shapes."""
        who = "Context.set_dynamic_shapes"
        with _raised():
            run = self.run_of(function, who)
            for name in shapes:
                self.position(run.signature, name, who)
            run.set_shapes([shapes.get(argument.name) for argument in run.signature.arguments], who)
            return {argument.name: run.shape(argument.name, True, who) for argument in run.signature.arguments}

    def set_batch_size(self, batch_size: int, function: str | None = None) -> None:
        """Set all open sizes, which must be those of first axes. A negative number has no effect."""
        who = "Context.set_batch_size"
        if batch_size >= 0:
            with _raised():
                self.run_of(function, who).set_batch_size(batch_size, who)

    @property
    def workspace_size(self) -> int:
        """Bytes of workspace that C programs have to provide, though execution needs none; fails while sizes are open."""
        with _raised():
            return self.run_of(None, "Context.workspace_size").workspace_size("Context.workspace_size")

    def execute(self, inputs: Mapping[str, Any], function: str | None = None) -> dict[str, Array]:
        """Run a function on arrays by name. States may be left out: the context keeps them, from zeros on.

        An array that is given for a state is read and then changed. Shapes of arrays set open sizes.
        """
        who = "Context.execute"
        repeated = self._repeated(inputs, function)
        if repeated is not None:
            return repeated
        with _raised():
            run = self.run_of(function, who)
            known = {argument.name: argument for argument in run.signature.arguments if argument.intent != "out"}
            for name in inputs:
                if name not in known:
                    raise Problem(f"{who}: there is no input {name!r}. The inputs are {', '.join(known) or 'none'}.")
            arrays = {name: run.as_input(known[name], value, who) for name, value in inputs.items()}
            outputs = self.run(run, arrays, who)
        if self.native is not None:
            self.native.entry_of(run)
        return outputs

    def _repeated(
        self, inputs: Mapping[str, Any], function: str | None, written: Mapping[str, Any] | None = None
    ) -> dict[str, Array] | None:
        """The outputs, if native code repeats a former execution; None if Python has to look."""
        run = self._runs.get(function or self.graph.default)
        if run is None or run.entry is None or self.native is None or not engines.is_of_process():
            return None
        return self.native.execute(run, inputs, written)

    def execute_arguments(self, arguments: Sequence[Any], function: str | None = None) -> list[Array]:
        """Run a function on arrays in the order of C, outputs first, and give the outputs.

        An array at the place of an output is written; None there means a new array.
        """
        who = "Context.execute_arguments"
        with _raised():
            run = self.run_of(function, who)
            expected = run.signature.arguments
            if len(arguments) != len(expected):
                names = ", ".join(argument.name for argument in expected)
                raise Problem(f"{who}: got {len(arguments)} arguments, but the function has {len(expected)}: {names}.")
            pairs = list(zip(expected, arguments, strict=True))
            given = {a.name: v for a, v in pairs if v is not None and a.intent != "out"}
            written = {a.name: v for a, v in pairs if v is not None and a.intent == "out"}
            repeated = self._repeated(given, function, written)
            if repeated is not None:
                return [repeated[a.name] for a in expected if a.intent == "out"]
            inputs = {a.name: run.as_input(a, v, who) for a, v in pairs if a.intent != "out" and v is not None}
            run.take_shapes({name: array.shape for name, array in inputs.items()}, who)
            for argument, value in pairs:
                if argument.intent == "out" and value is not None:
                    run.check_output(argument, value, who)
            results = self.run(run, inputs, who)
            outputs = []
            for argument, value in pairs:
                if argument.intent == "out":
                    if value is not None:
                        value[...] = results[argument.name]
                    outputs.append(results[argument.name] if value is None else value)
        if self.native is not None:
            self.native.entry_of(run)
        return outputs

    def streaming_advance(self, count: int, function: str | None = None) -> None:
        """By how much ring buffers advance after executions, where the program leaves the size of an update open."""
        with _raised():
            self.set_advance(count, function, "Context.streaming_advance")

    def close(self) -> None:
        """Wait for executions without Python, and let no others begin."""
        if self.native is not None:
            self.native.end()

    def __del__(self, at_exit: Callable[[], bool] = sys.is_finalizing) -> None:
        """Release programs, which would wait for the garbage collector."""
        if vars(self).get("native") is not None and not at_exit():  # else it could not be made, or all ends
            self.close()

    # What both faces call; ``who`` is the function that messages name.

    def signature(self, function: str | None, who: str) -> Signature:
        """The arguments of a function."""
        try:
            return self.graph.function(function)
        except KeyError:
            names = ", ".join(self.graph.functions)
            raise Problem(f"{who}: function is {function!r}, but the graph has {names}.") from None

    @staticmethod
    def position(signature: Signature, name: str | None, who: str) -> int:
        """Where an argument stands."""
        for i, argument in enumerate(signature.arguments):
            if argument.name == name:
                return i
        names = ", ".join(argument.name for argument in signature.arguments)
        raise Problem(f"{who}: argument is {name!r}, but function {signature.name!r} has {names}.")

    def run_of(self, function: str | None, who: str) -> Run:
        """A function of the graph, ready to run."""
        if self.native is not None:
            self.native.follow()
        signature = self.signature(function, who)
        if signature.name not in self._runs:
            self._runs[signature.name] = Run(signature, self._program.functions[signature.name], self.native)
        return self._runs[signature.name]

    def stream(self, function: str | None, initial: Mapping[str, Any], who: str) -> None:
        """Keep the states of a function in ring buffers."""
        self.run_of(function, who).stream(initial, who)

    def set_advance(self, count: int, function: str | None, who: str) -> None:
        """By how much ring buffers advance."""
        run = self.run_of(function, who)
        if not run.streaming:
            raise Problem(f"{who}: the context is not a streaming one. Make it with BNNSGraphContextMakeStreaming.")
        if count < 0:
            raise Problem(f"{who}: count is {count}. Pass the number of new entries of each state.")
        if run.advance != count:
            run.advance = count
            if self.native is not None:
                self.native.forget(run)

    def run(self, run: Run, inputs: dict[str, Array], who: str, *, lent: bool = False) -> dict[str, Array]:
        """The outputs of a function; ``lent`` ones are overwritten by the next execution."""
        with self.executing(who):
            outputs = run(inputs, self._report if self._checks else None, who, lent=lent)
        self.latest = run
        return outputs

    @contextmanager
    def executing(self, who: str) -> Iterator[None]:
        """Keep other threads from executing this context."""
        if not self.busy.acquire():
            raise Problem(f"{who}: another thread is executing this context. Make a context for each thread.")
        try:
            yield
        finally:
            self.busy.release()

    def _report(self, level: int, text: str, operation: str | None) -> None:
        if self.log is not None:
            self.log(level, text, operation)
        else:
            import warnings

            warnings.warn(text if operation is None else f"{operation}: {text}", stacklevel=4)


class _Lock:
    """A lock without waiting, where there is no native code."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.release = self._lock.release

    def acquire(self) -> bool:
        return self._lock.acquire(blocking=False)


@contextmanager
def _raised() -> Iterator[None]:
    """Problems as exceptions."""
    try:
        yield
    except Problem as problem:
        raise as_exception(problem, BNNSError) from None


_TRIES = 2  # after how many executions in Python it is settled what else can make them


class Run:
    """A function of a context: sizes that have been set, states, and what executes it."""

    def __init__(self, signature: Signature, function: Function, native: NativeExecutions | None) -> None:
        self.signature, self.function = signature, function
        self.entry: Entry | None = None
        """The entry that native code repeats for the present sizes."""
        self._native = native
        self.arguments = {argument.name: argument for argument in signature.arguments}
        self.streaming, self.advance = False, 0
        self.code: int | None = None
        self._executable: Executable | None = None
        self._watching: tuple[Executable, list[tuple[str, str]]] | None = None
        self._states: dict[str, Array] = {}
        self._rings: list[_Ring] = []
        self._shapes: dict[str, Shape] = {}
        self._tried: tuple[dict[str, Shape], bool, engines.Arithmetic] | None = None
        self._tries = 0
        self._set_defaults()

    # Shapes.

    def _set_defaults(self) -> None:
        self._shapes = {}
        for argument in self.inputs:
            sizes = _filled(argument, None)
            if None not in sizes:
                self._shapes[argument.name] = tuple(n for n in sizes if n is not None)

    @property
    def inputs(self) -> list[Argument]:
        return [argument for argument in self.signature.arguments if argument.intent != "out"]

    def shape(self, name: str | None, filled: bool, who: str) -> Shape:
        """The shape of an argument, with -1 for what is not known, or, if not ``filled``, is open in the program."""
        argument = self.signature.arguments[Context.position(self.signature, name, who)]
        if filled and argument.name in self._shapes:
            return self._shapes[argument.name]
        if filled and argument.intent == "out" and len(self._shapes) >= len(self.inputs) and None in argument.shape:
            self._infer(who)
            if argument.name in self._shapes:
                return self._shapes[argument.name]
        sizes = _filled(argument, None) if filled else argument.shape
        return tuple(-1 if n is None else n for n in sizes)

    def set_shapes(self, shapes: Sequence[Sequence[int] | None], who: str) -> int:
        """Set shapes by position; None stands for the default. Gives 0 for exact shapes, 1 for bounds, 2 for none."""
        if len(shapes) != len(self.signature.arguments):
            names = ", ".join(self.arguments)
            raise Problem(
                f"{who}: got {len(shapes)} shapes, but function {self.signature.name!r} has {len(self.arguments)} arguments: "
                f"{names}. Pass one for each; rank 0 stands for the shape of the model."
            )
        resolved: dict[str, Shape] = {}
        for argument, given in zip(self.signature.arguments, shapes, strict=True):
            if argument.intent != "out":
                resolved[argument.name] = self._resolved(argument, given, who)
        known = None if self._native is None or self.code != 0 else self._native.shapes_of(self, resolved)
        before, self._shapes = self._shapes, resolved if known is None else dict(known)
        try:
            if known is None:
                self._infer(who)
        except Problem:
            self._shapes = before
            raise
        self._changed()
        return self.code or 0

    @property
    def known_shapes(self) -> Mapping[str, Shape]:
        """Shapes of arguments, as far as they are known."""
        return self._shapes

    def _changed(self) -> None:
        """Let native code know of other sizes."""
        if self._native is not None:
            self._native.select(self)

    def _resolved(self, argument: Argument, given: Sequence[int] | None, who: str) -> Shape:
        if given is not None and len(given) and len(given) != len(argument.shape):
            raise Problem(
                f"{who}: {argument.name} has rank {len(given)}, but the program says {_shown(argument)}. Pass "
                f"{len(argument.shape)} sizes."
            )
        sizes = _filled(argument, given if given is not None and len(given) else None)
        for axis, (size, declared) in enumerate(zip(sizes, argument.shape, strict=True)):
            if size is None:
                raise Problem(
                    f"{who}: size {axis} of {argument.name} is open and has no default ({_shown(argument)}). Set it."
                )
            if declared is not None and size != declared:
                raise Problem(
                    f"{who}: size {axis} of {argument.name} is {size}, but the program says {_shown(argument)}. Only sizes "
                    "shown as ? can be set."
                )
            if axis < len(argument.ranges):
                low, high = argument.ranges[axis]
                if size < low or (high is not None and size > high):
                    limits = f"at least {low}" if high is None else f"{low} to {high}"
                    raise Problem(f"{who}: size {axis} of {argument.name} is {size}, but the model allows {limits}.")
        return tuple(n for n in sizes if n is not None)

    def take_shapes(self, shapes: Mapping[str, Shape], who: str) -> None:
        """Take over the shapes of arrays that come with an execution."""
        if all(self._shapes.get(name) == shape for name, shape in shapes.items()):
            return
        for name, shape in shapes.items():
            argument = self.arguments[name]
            _same_rank(argument, shape, who)
            if 0 not in shape:  # which would stand for the default
                self._resolved(argument, shape, who)
        self._shapes = {
            argument.name: self._shapes[argument.name] for argument in self.inputs if argument.name in self._shapes
        }
        self._shapes.update(shapes)
        self._changed()

    def set_batch_size(self, batch: int, who: str) -> None:
        """Set all open sizes."""
        shapes: list[Shape | None] = []
        for argument in self.signature.arguments:
            if argument.intent == "out" or None not in argument.shape:
                shapes.append(None)
                continue
            if None in argument.shape[1:]:
                raise Problem(
                    f"{who}: {argument.name} is {_shown(argument)}: not only its first size is open. Use "
                    "BNNSGraphContextSetDynamicShapes."
                )
            shapes.append((batch, *(n for n in argument.shape[1:] if n is not None)))
        self.set_shapes(shapes, who)

    @staticmethod
    def dtype(argument: Argument) -> np.dtype[Any]:
        """The type of the elements of an argument."""
        return ELEMENTS[argument.element].numpy

    def known_shape(self, argument: Argument, who: str) -> Shape:
        """The shape of an input, which must not be open."""
        return self._shapes.get(argument.name) or self._resolved(argument, None, who)

    def require_shapes(self, who: str) -> None:
        """Refuse to go on while sizes are open."""
        for argument in self.inputs:
            if argument.name not in self._shapes:
                self._resolved(argument, None, who)

    def workspace_size(self, who: str) -> int:
        self.require_shapes(who)
        return PAGE

    def _infer(self, who: str) -> None:
        """Find the shapes of outputs, as far as those of inputs decide them."""
        outputs = [argument for argument in self.signature.arguments if argument.intent == "out"]
        decided = sizes_by_values(self.function)
        self.code = max((int(decided[argument.name][0]) for argument in outputs), default=0)
        for argument in outputs:
            self._shapes.pop(argument.name, None)
            if None not in argument.shape:
                self._shapes[argument.name] = tuple(n for n in argument.shape if n is not None)
        if all(argument.name in self._shapes or decided[argument.name][0] == Sizes.OPEN for argument in outputs):
            return
        bounding = [value for _, value in decided.values() if value]
        executable = self.executable  # which is then ready to run with these shapes
        if bounding:
            executable = Executable(_with_outputs(self.function, [*self.function.block.outputs, *bounding]))
        try:
            computed = executable.run(self._zeros("in"), self._held(self._zeros("inout")))
        except ValueError as error:
            raise Problem(f"{who}: the function cannot run with these shapes: {error}") from None
        for argument in outputs:
            kind, bound = decided[argument.name]
            if kind == Sizes.EXACT:
                self._shapes[argument.name] = computed[argument.name].shape
            elif bound:
                self._shapes[argument.name] = computed[bound].size, computed[bound].ndim

    def _zeros(self, intent: str) -> dict[str, Array]:
        return {a.name: np.zeros(self._shapes[a.name], self.dtype(a)) for a in self.inputs if a.intent == intent}

    def bounds(self, name: str, who: str) -> Shape:
        """The shape of an output, or what it cannot exceed; 0 for a size that depends on values."""
        return tuple(max(n, 0) for n in self.shape(name, True, who))

    @property
    def executable(self) -> Executable:
        if self._executable is None:
            self._executable = Executable(self.function)
        return self._executable

    # Execution.

    def as_input(self, argument: Argument, value: Any, who: str) -> Array:
        """An array as an input; only one for a state is not converted, because it is changed."""
        dtype = self.dtype(argument)
        if argument.intent == "inout":
            if not isinstance(value, np.ndarray) or value.dtype != dtype or not value.flags.writeable:
                raise Problem(f"{who}: {argument.name} is a state. Pass a writable array of {dtype}, which is changed.")
            return value
        array = np.asarray(value)
        if array.dtype != dtype:
            if array.dtype.kind not in "biuf" or not np.can_cast(array.dtype, dtype, "same_kind"):
                raise Problem(
                    f"{who}: {argument.name} is {array.dtype}, but the program says {_shown(argument)}. Pass {dtype}.",
                    kind=TypeError,
                )
            array = array.astype(dtype)
        return array

    def check_output(self, argument: Argument, value: Any, who: str) -> None:
        """Refuse an array that cannot hold an output."""
        shape = self.shape(argument.name, True, who)
        if not isinstance(value, np.ndarray) or value.dtype != self.dtype(argument) or value.shape != shape:
            got = f"{value.dtype} {value.shape}" if isinstance(value, np.ndarray) else type(value).__name__
            raise Problem(f"{who}: {argument.name} is {got}, but the output is {self.dtype(argument)} {shape}.")

    def __call__(
        self, inputs: dict[str, Array], report: Log | None, who: str, *, lent: bool = False
    ) -> dict[str, Array]:
        for argument in self.inputs:
            if argument.name not in inputs:
                if argument.intent != "inout":
                    raise Problem(f"{who}: the input {argument.name} ({_shown(argument)}) is missing.")
                inputs[argument.name] = self._own_state(argument, who)
        self.take_shapes({name: array.shape for name, array in inputs.items()}, who)
        self.require_shapes(who)
        states = {name: array for name, array in inputs.items() if self.arguments[name].intent == "inout"}
        values = {name: array for name, array in inputs.items() if name not in states}
        executable, watched = (self.executable, []) if report is None else self._watched()
        computed = executable.run(values, self._held(states), lent=lent)
        if report is not None:
            self._check(computed, watched, report)
        for ring in self._rings:
            ring.move(states, {**values, **computed}, self.advance)
        outputs = {a.name: computed[a.name] for a in self.signature.arguments if a.intent == "out"}
        self._shapes.update((name, array.shape) for name, array in outputs.items())
        return outputs

    # Executions without Python.

    def repetition(self, checks: bool) -> Repetition | None:
        """The latest execution, with or without checks of all values, for native code to repeat; None if it cannot.

        The first time after an execution it has to be native, as one more in Python may be what makes it so.
        """
        tried = dict(self._shapes), checks, engines.arithmetic()
        again = tried == self._tried
        self._tries = self._tries + 1 if again else 1
        self._tried = tried
        executable = self._executable if not checks else self._watching and self._watching[0]
        if self._tries > _TRIES or not executable or not can_be_passed(self):
            return None
        arguments = self.signature.arguments
        signature = tuple([(a.name, self.dtype(a), self._shapes[a.name]) for a in arguments if a.intent == "in"])
        made = executable.repetition(signature)
        if made is not None and made.calls is None and self._tries < _TRIES:
            made.end()
            return None
        if made is None and self._tries == _TRIES and not checks and not self.streaming:
            made = executable.repetition_in_python({a.name: self._shapes[a.name] for a in arguments})
        if made is not None and self.streaming:
            made = self._advancing(made)
        if made is not None and checks:
            made = made.checking([a.name for a in arguments if a.intent == "out"], executable.outputs)
        self._tries = 0 if made is not None else self._tries
        return made

    def _advancing(self, made: Repetition) -> Repetition | None:
        """An execution after which states advance in memory of the context; None if native code cannot move them."""
        own = {a.name: self._own_state(a, "BNNSGraphContextExecute") for a in self.inputs if a.intent == "inout"}
        moved: dict[str, Moved] = {}
        for ring in self._rings:
            state, value = own[ring.state], made.outputs.get(ring.value)
            known = value is not None and value.ndim == state.ndim and ring.state not in (*moved, *made.outputs)
            if value is None or not known or made.calls is None or ring.state not in made.inputs:
                made.end()
                return None
            axis, first = ring.oldest(state.shape, {**made.inputs, **made.outputs}, self.advance)
            if first < 0 or [n for i, n in enumerate(value.shape) if i != axis] != [
                n for i, n in enumerate(state.shape) if i != axis
            ]:
                made.end()
                return None
            moved[ring.state] = Moved(value, axis, first)
        outputs = {a.name for a in self.signature.arguments if a.intent != "in"}
        kept = {name: array for name, array in made.outputs.items() if name in outputs}
        return replace(made, outputs=kept, states=own, moved=moved)

    def give_up_repeating(self) -> None:
        """Leave executions like the latest one to Python from now on."""
        self._tries = _TRIES

    def follow(self, shapes: Mapping[str, Shape]) -> None:
        """Take over the sizes of an execution that was not made here."""
        if self._shapes != shapes:
            self._shapes = dict(shapes)
            self._changed()

    def _held(self, arrays: Mapping[str, Array]) -> State | None:
        """States that an execution changes in place."""
        if not arrays:
            return None
        state = State(())
        state.arrays.update(arrays)
        return state

    def _own_state(self, argument: Argument, who: str) -> Array:
        if argument.name not in self._states:
            self._states[argument.name] = np.zeros(self._resolved(argument, None, who), self.dtype(argument))
        return self._states[argument.name]

    def with_own_states(self, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        """Inputs with the states that the context keeps in place of those left out."""
        return {**self._states, **inputs} if self._states else inputs

    def state(self, name: str, who: str) -> Array:
        """The state that a streaming context keeps."""
        return self._own_state(self.arguments[name], who)

    # Checks of all values.

    def _watched(self) -> tuple[Executable, list[tuple[str, str]]]:
        """The function with all that it computes as outputs, and the names of those and of their operations."""
        if self._watching is None:
            extra = [
                (port.name, str(operation))
                for operation in self.function.block.operations
                if operation.type != "const"
                for port in operation.outputs
                if isinstance(port.type, TensorType) and port.type.element in ("fp16", "fp32", "fp64")
            ]
            names = [*self._function_outputs(), *(name for name, _ in extra)]
            self._watching = Executable(_with_outputs(self.function, names)), extra
        return self._watching

    def _check(self, computed: Mapping[str, Array], watched: list[tuple[str, str]], report: Log) -> None:
        for name, operation in watched:
            array = np.asarray(computed[name])
            nans, infinities = int(np.isnan(array).sum()), int(np.isinf(array).sum())
            if nans or infinities:
                place = self.signature.places.get(name)
                where = operation if place is None else f"{place}: {operation}"
                report(ERROR, f"{name} has {nans} NaN and {infinities} infinite values of {array.size}.", where)

    # Streaming.

    def _function_outputs(self) -> list[str]:
        names = [name for ring in self._rings for name in (ring.value, ring.update)]
        return [*self.function.block.outputs, *(name for name in names if name not in self.arguments)]

    def stream(self, initial: Mapping[str, Any], who: str) -> None:
        """Keep the states in ring buffers."""
        if not self.signature.streaming:
            raise Problem(
                f"{who}: function {self.signature.name!r} does not say StateMode = Streaming. Give it the attribute BNNSOptions "
                'with {"StateMode": "Streaming"} and compile it again.'
            )
        states = {argument.name: argument for argument in self.inputs if argument.intent == "inout"}
        for name, value in initial.items():
            if name not in states:
                raise Problem(f"{who}: there is no state {name!r}. The states are {', '.join(states) or 'none'}.")
            array = np.array(value, self.dtype(states[name]))
            self._states[name] = array.reshape(self._resolved(states[name], array.shape, who))
        self.streaming = True
        self._rings = list(_rings(self.function))
        self.function = _with_outputs(self.function, self._function_outputs())
        self._executable = self._watching = None


@dataclass(frozen=True)
class _Ring:
    """A state that advances after an execution: ``value`` is what it has become, longer or with new entries at its end.

    ``update`` has the new entries; ``is_open``: the program does not say how many.
    """

    state: str
    value: str
    update: str
    is_open: bool

    def move(self, states: dict[str, Array], computed: Mapping[str, Array], advance: int) -> None:
        state, value = states[self.state], computed[self.value]
        axis, first = self.oldest(state.shape, computed, advance)
        places = (first + np.arange(state.shape[axis])) % value.shape[axis]
        state[...] = np.take(value, places, axis)

    def oldest(self, state: Shape, computed: Mapping[str, Array], advance: int) -> tuple[int, int]:
        """The axis along which it advances, and the entry of the value there that becomes the first one of the state."""
        value, update = computed[self.value].shape, computed[self.update].shape
        longer = [axis for axis in range(len(state)) if value[axis] != state[axis]]
        if longer:  # joined on: the oldest entries leave
            return longer[0], value[longer[0]] - state[longer[0]]
        axes = [axis for axis in range(min(len(state), len(update))) if update[axis] != state[axis]]
        axis = axes[0] if axes else 0
        count = advance if self.is_open and advance else update[axis] if update else 1
        return axis, count % state[axis]


def _rings(function: Function) -> Iterator[_Ring]:
    """The states that a function reads and joins something on, or updates in part."""
    held: dict[str, str] = {}
    types = {port.name: port.type for port in function.inputs}
    for operation in function.block.operations:
        types.update((port.name, port.type) for port in operation.outputs)
        given = operation.inputs
        if operation.type == "read_state":
            held[operation.outputs[0].name] = str(given["input"][0])
        elif operation.type in ("concat", "slice_update"):
            before, new = (given["x"][0], given["update"][0]) if "update" in given else given["values"][:2]
            if isinstance(before, str) and before in held and isinstance(new, str):
                type = types[new]
                is_open = isinstance(type, TensorType) and (type.shape is None or None in type.shape)
                yield _Ring(held[before], operation.outputs[0].name, new, is_open)


def _with_outputs(function: Function, names: Sequence[str]) -> Function:
    outputs = list(dict.fromkeys(names))
    return replace(function, block=replace(function.block, outputs=outputs))


def _shown(argument: Argument) -> str:
    return str(TensorType(argument.element, argument.shape))


def _same_rank(argument: Argument, shape: Shape, who: str) -> None:
    if len(shape) != len(argument.shape):
        raise Problem(f"{who}: {argument.name} has shape {shape}, but the program says {_shown(argument)}.")


def _filled(argument: Argument, given: Sequence[int] | None) -> list[int | None]:
    """The sizes of an argument: as given, or the default, or as the program says."""
    sizes: list[int | None] = []
    for axis, declared in enumerate(argument.shape):
        size: int | None = int(given[axis]) if given is not None else 0
        if size == 0:
            size = declared if declared is not None else argument.default[axis] if argument.default else None
        sizes.append(size)
    return sizes
