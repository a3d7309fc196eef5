"""Execution of ML programs: operations are recorded on the graph and computed by native kernels.

Whatever can be recorded between two operations that cannot is one part, recorded once for all sizes that it allows. What
cannot be recorded, since its shape follows from numbers, since it decides what is run next, or since it draws random
numbers, runs on arrays between the parts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np

from ..._spelling import did_you_mean
from ...files import memory_limit
from ...graph.operations.rounding import RoundToHalf
from ...graph.parameter import Parameter
from ...graph.sizes import Size, number_of
from ..converted.programs import Body, Port, Programs, computed_at_once
from ..converted.tensors import ForeignTensor, Misfit, kind_of
from .compression import decompressed
from .elements import ELEMENTS, Array
from .errors import CoreMLError
from .lowering import AT_ONCE, RECORDED, Call
from .lowering.arguments import listed_results, setting_of, settings, tensor_of
from .lowering.elementwise import in_kind
from .lowering.recurrent import ORDERS, in_our_order
from .operation_rules import Input
from .operations import Bound, Reference, Scope, bind
from .operations import kind_of as operation_kind
from .program import Block, Constant, Function, Operation, StateType, TensorType, ValueType

Precision = Literal["float16", "float32"]
MOST_TURNS = 1_000_000
"""Turns that a loop may take before it is said to be endless, unless a program is given another number."""

MOST_UNROLLED = 2_000
"""Operations that a loop may be unrolled to; a longer one runs turn by turn. A network may have fifty times as many."""

_BLOCKS = {"cond", "while_loop"}
_OF_STATES = {"read_state", "write_state"}
_CONTROL = {*_BLOCKS, *_OF_STATES}

# Inputs that are trained, if a network is made of a program: floats along axes.
_WEIGHTS = {
    "conv": ("weight", "bias"), "conv_transpose": ("weight", "bias"), "linear": ("weight", "bias"), "matmul": ("x", "y"),
    "layer_norm": ("gamma", "beta"), "instance_norm": ("gamma", "beta"), "batch_norm": ("gamma", "beta"),
    "prelu": ("alpha",), "gather": ("x",), "add": ("x", "y"), "sub": ("x", "y"), "mul": ("x", "y"), "real_div": ("x", "y"),
    "lstm": ("weight_ih", "weight_hh", "bias", "weight_ih_back", "weight_hh_back", "bias_back"),
    "gru": ("weight_ih", "weight_hh", "bias", "input_bias"), "rnn": ("weight_ih", "weight_hh", "bias"),
}  # fmt: skip

_ARITHMETIC = {"matmul", "gather", "add", "sub", "mul", "real_div"}
"""Operations of which a single number is a setting, such as an epsilon, and not a weight."""

# Moving statistics, which a network keeps with its weights.
_STATISTICS = {"batch_norm": ("mean", "variance")}


@dataclass(frozen=True)
class Argument:
    """An input or output of a function: ``shape`` has None for sizes that are free, and is None if nothing is known."""

    name: str
    type: ValueType

    @cached_property
    def shape(self) -> tuple[int | None, ...] | None:
        type = self.type.wrapped if isinstance(self.type, StateType) else self.type
        return type.shape if isinstance(type, TensorType) else None

    @cached_property
    def dtype(self) -> np.dtype[Any] | None:
        """The type of its numbers; None for text, lists and dictionaries."""
        type = self.type.wrapped if isinstance(self.type, StateType) else self.type
        if not isinstance(type, TensorType) or type.element == "string":
            return None
        return ELEMENTS[type.element].numpy


Signature = tuple[tuple[str, np.dtype[Any], tuple[int, ...]], ...]
"""The names, types and shapes of inputs: what passed a check once need not be checked again."""

MOST_SIGNATURES = 256


def signature_of(inputs: Mapping[str, Any]) -> Signature | None:
    """The signature of inputs that are arrays; None if some are not."""
    for x in inputs.values():
        if type(x) is not np.ndarray:
            return None
    return tuple([(name, x.dtype, x.shape) for name, x in inputs.items()])


class State:
    """The numbers that a program keeps from one run to the next: arrays by name, zeros at first."""

    def __init__(self, arguments: Sequence[Argument]) -> None:
        self.arrays: dict[str, Array] = {}
        for argument in arguments:
            if argument.shape is None or argument.dtype is None or None in argument.shape:
                raise CoreMLError(f"the state {argument.name!r} is {argument.type}, but must have a fixed shape.")
            shape = tuple(n or 0 for n in argument.shape)
            size = math.prod(shape) * argument.dtype.itemsize
            memory_limit.check(size, f"the state {argument.name!r} of shape {shape}", CoreMLError)
            self.arrays[argument.name] = np.zeros(shape, argument.dtype)


class Moved(NamedTuple):
    """A state after an execution: the entries of a value along an axis, from ``first`` on, with the first ones after the last."""

    value: Array
    axis: int
    first: int


@dataclass(frozen=True)
class Repetition:
    """An execution that is made again and again, on memory that stays where it is.

    ``inputs`` are the arrays that it reads, where an input that has no effect is missing, and ``outputs`` those that it writes.
    ``calls`` are all that it does as native code, on weights of a version; None if it takes ``run``.
    """

    inputs: dict[str, Array]
    outputs: dict[str, Array]
    calls: Any
    weights: int
    run: Callable[[], object]
    end: Callable[[], None]
    checked: Sequence[tuple[Array, bool]] = ()
    """Floats that have to be finite, each with True if they are stored as float16."""
    states: Mapping[str, Array] = field(default_factory=dict)
    """States in memory of the context."""
    moved: Mapping[str, Moved] = field(default_factory=dict)
    """States that advance."""

    def checking(self, outputs: Sequence[str], values: Sequence[Argument]) -> Repetition:
        """An execution with these outputs that requires all values it computes to be finite."""
        checked = [
            (self.outputs[value.name], value.dtype == np.float16)
            for value in values
            if value.dtype is not None and value.dtype.kind == "f"
        ]
        watched = {value.name for value in values} - set(outputs)
        kept = {name: array for name, array in self.outputs.items() if name not in watched}
        return replace(self, outputs=kept, checked=checked)


class Executable:
    """A function of a program, ready to run on arrays.

    Numbers are computed in float32. What the function gives out, and what it stores in states, is rounded to the types
    of the program; ``precision="float16"`` rounds to float16 after every operation that gives float16, to show what a
    device will give, and ``"float32"`` rounds nowhere, so that outputs of float16 are float32.

    >>> import numpy as np
    >>> from openbnns.interop import coreml
    >>> program = coreml.parse('''program(1.3) { func main<ios17>(tensor<fp16, [?, 3]> x) {
    ...     tensor<fp16, [?, 3]> y = relu(x = x); } -> (y); }''')
    >>> main = coreml.Executable(program.functions["main"])
    >>> main.run({"x": np.array([[-1, 2, 3]], np.float16)})
    {'y': array([[0., 2., 3.]], dtype=float16)}
    """

    def __init__(self, function: Function, precision: Precision | None = None, *, most_turns: int = MOST_TURNS) -> None:
        if precision not in (None, "float16", "float32"):
            raise ValueError(f"Executable: precision is {precision!r}. Use 'float16', 'float32' or None.")
        self.function, self.precision, self.most_turns = function, precision, most_turns
        self.inputs = [Argument(p.name, p.type) for p in function.inputs if not isinstance(p.type, StateType)]
        self.states = [Argument(p.name, p.type) for p in function.inputs if isinstance(p.type, StateType)]
        self.outputs = [Argument(p.name, p.type) for p in function.output_types()]
        self._who = f"function {function.name!r}"
        self._converted: dict[str, Array] = {}  # outputs that are lent, of types that nothing computes
        self._settled: dict[Signature, _Part] = {}  # parts that take inputs as they are, and compute all outputs
        self.body = _Steps(function.block, Scope.of(function), self)

    def new_state(self) -> State:
        """States as they are before the first run."""
        return State(self.states)

    def run(self, inputs: Mapping[str, Any], state: State | None = None, *, lent: bool = False) -> dict[str, Any]:
        """The outputs by name, for inputs by name: arrays; text and dictionaries where the program gives such.

        A program with states needs one from :meth:`new_state`, which it changes. ``lent`` outputs are overwritten by the next
        run; a program that is recorded as a whole then allocates no memory for tensors.
        """
        signature = signature_of(inputs)
        repeated = self.repeated(signature, inputs, state, lent=lent)
        if repeated is not None:
            return repeated
        values: dict[str, Any] = self._checked(inputs)
        checked = list(values.values())
        if self.states:
            if state is None:
                raise ValueError(
                    f"{self._who}: keeps {_listed([s.name for s in self.states])} from run to run. Pass state=new_state()."
                )
            values |= {argument.name: state for argument in self.states}
        results = self.body.run(values, lent=lent)
        lent = lent and self.runs_as_one
        outputs = {port.name: self._given_out(x, port, lent) for port, x in zip(self.outputs, results, strict=True)}
        as_given = all(x.size and any(x is given for given in inputs.values()) for x in checked)
        part = self._only_part
        if signature is not None and as_given and part is not None:
            if len(self._settled) >= MOST_SIGNATURES:
                self._settled.clear()
            self._settled[signature] = part
        return outputs

    def repeated(
        self, signature: Signature | None, inputs: Mapping[str, Any], state: State | None = None, *, lent: bool = False
    ) -> dict[str, Any] | None:
        """The outputs for inputs like those of a former run, if one part computed it; None if there was none."""
        part = None if signature is None else self._settled.get(signature)
        if part is None or (self.states and state is None):
            return None
        values = {**inputs, **{argument.name: state for argument in self.states}} if self.states else inputs
        computed = part.without_states(part.computed(part.given(values), lent), values)
        return {port.name: self._given_out(computed[port.name], port, lent, owned=not lent) for port in self.outputs}

    def repetition(self, signature: Signature) -> Repetition | None:
        """An execution on inputs like those of a former one that one part computed; None if there was none."""
        part = self._settled.get(signature)
        if part is None or self.precision is not None:
            return None
        shapes = {name: shape for name, _, shape in signature}
        shapes |= {port.name: tuple(n or 0 for n in port.shape or ()) for port in part.ports if port.name not in shapes}
        program = part.programs.lend(tuple([shapes[port.name] for port in part.ports]))
        if program is None:
            return None
        computed = dict(zip((name for name, _ in part.results), program.outputs, strict=True))
        return Repetition(
            dict(zip((port.name for port in part.ports), program.inputs, strict=True)),
            {name: computed[name] for name in (*[port.name for port in self.outputs], *part.written)},
            program.calls, program.weights, program.run, program.give_back,
        )  # fmt: skip

    def repetition_in_python(self, shapes: Mapping[str, tuple[int, ...]]) -> Repetition:
        """An execution in Python, on memory of its own for arguments of these shapes."""

        def arrays(arguments: Sequence[Argument]) -> dict[str, Array]:
            return {argument.name: np.zeros(shapes[argument.name], argument.dtype) for argument in arguments}

        inputs, outputs, state = arrays(self.inputs), arrays(self.outputs), State(())
        state.arrays = arrays(self.states)

        def run() -> None:
            values: dict[str, Any] = {**inputs, **dict.fromkeys(state.arrays, state)}
            results = self.body.run(values, lent=True)
            with np.errstate(over="ignore"):
                for (name, target), result in zip(outputs.items(), results, strict=True):
                    if np.shape(result) != target.shape:
                        raise CoreMLError(f"the output {name!r} has become {np.shape(result)}, and was {target.shape}.")
                    np.copyto(target, result, casting="unsafe")

        return Repetition(inputs | state.arrays, outputs | state.arrays, None, 0, run, lambda: None)

    @property
    def _only_part(self) -> _Part | None:
        """The part that computes all outputs from all inputs; None if there is more to do."""
        plan = self.body.plan
        if len(plan) != 1 or not isinstance(plan[0], _Part):
            return None
        return plan[0] if {port.name for port in self.outputs} <= {name for name, _ in plan[0].results} else None

    @property
    def runs_as_one(self) -> bool:
        """True if all operations are recorded, as far as is known yet: none runs by itself."""
        return all(isinstance(part, _Part) for part in self.body.plan)

    def _checked(self, inputs: Mapping[str, Any]) -> dict[str, Array]:
        names = [argument.name for argument in self.inputs]
        for name in inputs:
            if name not in names:
                raise ValueError(
                    f"{self._who}: there is no input {name!r}. It takes {_listed(names)}.{did_you_mean(name, names)}"
                )
        arrays = {}
        for argument in self.inputs:
            if argument.name not in inputs:
                raise ValueError(f"{self._who}: the input {argument.name!r} is missing. It takes {_listed(names)}.")
            arrays[argument.name] = _checked_array(argument, inputs[argument.name], self._who)
        return arrays

    def _given_out(self, result: Any, port: Argument, lent: bool, *, owned: bool = False) -> Any:
        """An output in its type: a copy, unless it is lent or not shared."""
        kind = port.dtype
        if kind is None or not isinstance(result, np.ndarray) or (result.dtype == kind and (lent or owned)):
            return result
        if self.precision == "float32" and kind == np.float16:
            kind = result.dtype
        with np.errstate(over="ignore"):
            if not lent:
                return np.array(result, kind)
            kept = self._converted.get(port.name)
            if kept is None or kept.shape != result.shape:
                kept = self._converted[port.name] = np.empty(result.shape, kind)
            np.copyto(kept, result, casting="unsafe")
            return kept


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names)) or "none"


def _checked_array(argument: Argument, given: Any, who: str) -> Array:
    array = np.asarray(given)
    where = f"{who}: the input {argument.name!r}"
    if argument.dtype is None:
        raise CoreMLError(f"{where} is {argument.type}, which cannot be passed as an array.")
    safe = array.dtype.kind in {"f": "fiub", "i": "iub", "u": "iub", "b": "b"}.get(argument.dtype.kind, "")
    if not safe:
        raise TypeError(
            f"{where} is {array.dtype}, but the program takes {argument.dtype}. Convert it: x.astype(np.{argument.dtype})."
        )
    shape = argument.shape
    if shape is not None and (
        len(shape) != array.ndim or any(n is not None and n != m for n, m in zip(shape, array.shape, strict=True))
    ):
        if not shape and array.size == 1:
            return array.reshape(()).astype(argument.dtype)
        shown = ", ".join("?" if n is None else str(n) for n in shape)
        raise ValueError(f"{where} has shape {array.shape}, but the program takes ({shown}).")
    return array.astype(argument.dtype, copy=False)


# Blocks.


class CannotBeRecorded(Exception):
    """A signal that an operation cannot be recorded in a part, and has to run by itself."""

    def __init__(self, operation: Operation, reason: Exception) -> None:
        self.operation, self.reason = operation, reason
        super().__init__(f"{operation}: {reason}")


@dataclass
class _Line:
    """An operation with its inputs, and where it stands among the others."""

    operation: Operation
    inputs: dict[str, Bound | tuple[Constant | Reference, ...]]
    rules: dict[str, Input]
    opset: str
    blocks: list[_Steps] = field(default_factory=list)
    decompressed: tuple[Array, ...] | None = None
    state: str | None = None
    """The state that it reads or writes, if it is recorded with what stands around it."""

    @property
    def reads(self) -> set[str]:
        """The names of values that it needs."""
        names = {one.name for value in self.inputs.values() for one in _each(value) if isinstance(one, Reference)}
        return names.union(*(block.outside for block in self.blocks))

    @property
    def references(self) -> Iterator[Reference]:
        """Everything that it and the operations of its blocks read from outside of it."""
        for value in self.inputs.values():
            yield from (one for one in _each(value) if isinstance(one, Reference))
        for block in self.blocks:
            inner = [reference for line in block.lines for reference in line.references]
            outputs = [value for value in block.outputs if isinstance(value, Reference)]
            yield from (reference for reference in (*inner, *outputs) if reference.name in block.outside)

    @property
    def can_be_recorded(self) -> bool:
        """True unless some operation has no counterpart on the graph. Branches and loops may still prove too variable."""
        if self.state is not None:
            return True
        if self.operation.type in _BLOCKS:
            return all(line.can_be_recorded for block in self.blocks for line in block.lines)
        return self.operation.type in RECORDED

    def walk(self) -> Iterator[tuple[_Line, _Steps | None]]:
        """It and the lines of its blocks, each with the block that it stands in; None for the line itself."""
        yield self, None
        for block in self.blocks:
            for line in block.lines:
                yield from ((inner, steps or block) for inner, steps in line.walk())


def _each(value: Bound | tuple[Constant | Reference, ...]) -> tuple[Bound, ...]:
    return value if isinstance(value, tuple) else (value,)


class _Steps:
    """A block: parts that are recorded, and operations that run by themselves, in their order."""

    def __init__(self, block: Block, scope: Scope, owner: Executable, around: _Steps | None = None) -> None:
        self.owner, self.block = owner, block
        # The constexpr operations that can be read here, by the names of their outputs.
        self.expressions: dict[str, _Line] = {} if around is None else dict(around.expressions)
        self.lines: list[_Line] = []
        self._alone: set[int] = set()
        for operation in block.operations:
            kind = operation_kind(operation)
            if operation.type != "const":
                opset = operation.opset or scope.opset
                rules = {rule.name: rule for rule in kind.inputs(opset)}
                line = _Line(operation, bind(operation, scope), rules, opset)
                line.blocks = [_Steps(inner, scope.inside(inner), owner, self) for inner in operation.blocks]
                if around is None and operation.type in _OF_STATES:
                    line.state = _recorded_state(line)
                if operation.type.startswith("constexpr_"):
                    self.expressions.update((port.name, line) for port in operation.outputs)
                else:
                    self._require(operation)
                    self.lines.append(line)
            scope.add(operation)
        self.outputs = [scope.value(name) for name in block.outputs]
        self.outside = self._read_outside()
        self.plan: list[_Part | _Line] = self._planned()

    def _require(self, operation: Operation) -> None:
        known = operation.type in RECORDED or operation.type in AT_ONCE or operation.type in _CONTROL
        if not known:
            where = f"{operation.place}: " if operation.place else ""
            message = f"{where}{operation}: the operation {operation.type} cannot be run here."
            raise CoreMLError(message, operation.place, unsupported=True)

    def _read_outside(self) -> set[str]:
        own = {port.name for port in self.block.inputs} | set(self.expressions)
        needed: set[str] = set()
        for line in [*self.expressions.values(), *self.lines]:
            needed |= line.reads
            own |= {port.name for port in line.operation.outputs}
        needed |= {value.name for value in self.outputs if isinstance(value, Reference)}
        return needed - own

    def _planned(self) -> list[_Part | _Line]:
        """The lines, with those that can be recorded joined to parts."""
        runs: list[list[_Line] | _Line] = []
        for line in self.lines:
            if not line.can_be_recorded or id(line) in self._alone:
                runs.append(line)
            elif runs and isinstance(runs[-1], list):
                runs[-1].append(line)
            else:
                runs.append([line])
        needed = {value.name for value in self.outputs if isinstance(value, Reference)}
        plan: list[_Part | _Line] = []
        for run in reversed(runs):
            if isinstance(run, _Line):
                plan.append(run)
                needed = (needed - {port.name for port in run.operation.outputs}) | run.reads
            else:
                part = _Part(run, needed, self)
                plan.append(part)
                needed = (needed - part.made) | part.reads
        return plan[::-1]

    def run_apart(self) -> None:
        """Run every operation by itself from now on, which gives the same as recording them, for tests."""
        self._alone = {id(line) for line in self.lines}
        self.plan = self._planned()
        self.owner._settled.clear()
        for line in self.lines:
            for block in line.blocks:
                block.run_apart()

    def constant(self, name: str) -> Any:
        """The array of a constexpr operation, computed when it is first read."""
        line = self.expressions[name]
        if line.decompressed is None:
            inputs = {
                key: None if value is None else self._array(value)  # type: ignore[arg-type]
                for key, value in line.inputs.items()
            }
            line.decompressed = decompressed(line.operation.type, inputs)
        return line.decompressed[[port.name for port in line.operation.outputs].index(name)]

    def _array(self, value: Constant | Reference) -> Any:
        return value.array if isinstance(value, Constant) else self.constant(value.name)

    def run(self, values: dict[str, Any], *, lent: bool = False) -> list[Any]:
        """The outputs of the block; ``values`` are its inputs and what stands outside of it, and get what it computes.

        ``lent``: they are overwritten when it runs again, which blocks of operations do before they are read.
        """
        step = 0
        while step < len(self.plan):
            part = self.plan[step]
            try:
                if isinstance(part, _Line):
                    self._run_alone(part, values)
                else:
                    part.run(values, lent)
            except CannotBeRecorded as refused:
                # It is tried on arrays: there, all shapes and numbers are known.
                self._alone |= {id(line) for line in self.lines if line.operation is refused.operation}
                self.plan = self._planned()
                continue
            step += 1
        return [self._value(value, values) for value in self.outputs]

    def _value(self, value: Constant | Reference, values: Mapping[str, Any]) -> Any:
        """The value of an argument for an operation that runs by itself."""
        if isinstance(value, Constant):
            return value.array if isinstance(value.type, TensorType) else value.python
        return self.constant(value.name) if value.name in self.expressions else values[value.name]

    def _run_alone(self, line: _Line, values: dict[str, Any]) -> None:
        operation = line.operation
        try:
            results = self._results_alone(line, values)
        except CoreMLError:
            raise
        except ERRORS as error:
            where = f"{operation.place}: " if operation.place else ""
            reason = str(error).rstrip(".") or type(error).__name__
            raise CoreMLError(f"{where}{operation}: {reason}.") from error
        for port, result in zip(operation.outputs, results, strict=True):
            values[port.name] = _stored(result, port.type, self.owner.precision)

    def _results_alone(self, line: _Line, values: dict[str, Any]) -> Sequence[Any]:
        kind, operation = line.operation.type, line.operation
        if kind == "cond":
            pred = self._value(line.inputs["pred"], values)  # type: ignore[arg-type]
            return line.blocks[0 if bool(np.all(pred)) else 1].run(dict(values))
        if kind == "while_loop":
            return self._repeated(line, values)
        if kind in ("read_state", "write_state"):
            return self._state(line, values)
        call = Call(kind, line.opset, len(operation.outputs))
        if kind in AT_ONCE:
            given = {name: self._argument(value, line.rules[name], values) for name, value in line.inputs.items()}
            results = AT_ONCE[kind](call, **given)
            return results if isinstance(results, tuple) else (results,)
        tensors = {name: self._tensors(value, values) for name, value in line.inputs.items()}

        def body() -> list[ForeignTensor]:
            return listed_results(RECORDED[kind](call, **settings(line.rules, tensors)))

        return computed_at_once(body)[: len(operation.outputs)]

    def _argument(self, value: Any, rule: Input, values: Mapping[str, Any]) -> Any:
        if isinstance(value, tuple):
            return [self._value(one, values) for one in value]
        if value is None:
            return None
        if isinstance(value, Constant) and (rule.constant or not isinstance(value.type, TensorType)):
            return setting_of(value)
        return self._value(value, values)

    def _tensors(self, value: Any, values: Mapping[str, Any]) -> Any:
        if isinstance(value, tuple):
            return [self._tensors(one, values) for one in value]
        if value is None:
            return None
        return value if isinstance(value, Constant) else tensor_of(self._value(value, values))

    def _repeated(self, line: _Line, values: dict[str, Any]) -> Sequence[Any]:
        condition, body = line.blocks
        given: Any = line.inputs["loop_vars"]
        state = [self._value(one, values) for one in given]
        for _ in range(self.owner.most_turns):
            inside = dict(values)
            inside.update((port.name, one) for port, one in zip(condition.block.inputs, state, strict=True))
            if not bool(np.all(condition.run(inside)[0])):
                return state
            inside = dict(values)
            inside.update((port.name, one) for port, one in zip(body.block.inputs, state, strict=True))
            state = body.run(inside)
        raise CoreMLError(
            f"{line.operation}: the loop has not ended after {self.owner.most_turns} turns. If it needs more, make the "
            "Executable with most_turns=..."
        )

    def _state(self, line: _Line, values: dict[str, Any]) -> Sequence[Any]:
        target: Any = line.inputs["input"]
        arrays = values[target.name].arrays
        if line.operation.type == "read_state":
            return [arrays[target.name].copy()]
        data = np.asarray(self._value(line.inputs["data"], values))  # type: ignore[arg-type]
        _written(arrays[target.name], data, target.name, line.operation)
        return []


def _array_of(value: Any, name: str) -> Array:
    return value.arrays[name] if isinstance(value, State) else np.asarray(value)


def _recorded_state(line: _Line) -> str | None:
    """The state of an operation outside of branches and loops; None if it is not of floats, or is empty."""
    target: Any = line.inputs["input"]
    type = target.type.wrapped if isinstance(target.type, StateType) else None
    if not isinstance(type, TensorType) or ELEMENTS[type.element].numpy.kind != "f":
        return None
    name: str = target.name
    return name if type.shape and 0 not in type.shape and None not in type.shape else None


def _written(held: Array, data: Array, name: str, who: object) -> None:
    """Store the numbers of a state."""
    if data.shape != held.shape:
        raise CoreMLError(f"{who} writes {data.shape} to the state {name!r} of shape {held.shape}.")
    with np.errstate(over="ignore"):
        held[...] = data


def _stored(result: Any, type: ValueType, precision: Precision | None, *, copies: bool = True) -> Any:
    """The result of an operation, in the type that the program says."""
    if not isinstance(result, (np.ndarray, np.generic)) or not isinstance(type, TensorType):
        return result
    wanted = ELEMENTS[type.element].numpy
    array = np.asarray(result)
    if array.dtype == object:
        array = np.array([int(n) for n in array.ravel()], np.int64).reshape(array.shape)
    if wanted.kind == "f":
        if wanted == np.float16 and precision == "float16":
            with np.errstate(over="ignore"):
                array = array.astype(np.float16)
        return array.astype(np.float32, copy=copies)
    return array.astype(wanted, copy=copies)


# Parts.

ERRORS = (
    ValueError, TypeError, IndexError, KeyError, AttributeError, ArithmeticError, RuntimeError, AssertionError, MemoryError,
)  # fmt: skip
"""Errors that a malformed operation may raise."""


class _Part:
    """Operations that are recorded together. It reads states before all others, and writes them after all others."""

    def __init__(self, lines: list[_Line], needed: set[str], steps: _Steps) -> None:
        self.lines, self.steps = lines, steps
        self.made = {port.name for line in lines for port in line.operation.outputs}
        self.reads: set[str] = set()
        ports: dict[str, Port] = {}
        known: set[str] = set()
        self.written: dict[str, Operation] = {}
        """States that it changes, with the last operation that does so."""
        for line in lines:
            if line.operation.type == "write_state" and line.state is not None:
                known.add(line.state)
                self.written[line.state] = line.operation
            for one in line.references:
                if one.name not in known and one.name not in steps.expressions:
                    self.reads.add(one.name)
                    ports.setdefault(one.name, _port(one))
            known |= {port.name for port in line.operation.outputs}
        self.results = [
            (port.name, port.type) for line in lines for port in line.operation.outputs if port.name in needed
        ]
        self.results += [
            (argument.name, argument.type) for argument in steps.owner.states if argument.name in self.written
        ]
        self.ports = list(ports.values())
        self.weights: dict[str, Parameter | Array] = {}  # parameters, and statistics that go with them
        self._held: dict[tuple[int, str], Parameter | Array] = {}  # the same for the inputs of lines, by their ids
        self._programs: Programs | None = None

    @property
    def programs(self) -> Programs:
        if self._programs is None:
            self.hold_weights(trained=False)
            self._programs = Programs(self.ports, self.record)
        return self._programs

    def hold_weights(self, *, trained: bool) -> None:
        """Make parameters of the constants that layers hold, under their names in the program."""
        origins: dict[str, Constant | _Line] = {}
        for line, block in (pair for outer in self.lines for pair in outer.walk()):
            kind, steps = line.operation.type, block or self.steps
            for name in (*_WEIGHTS.get(kind, ()), *_STATISTICS.get(kind, ())):
                value: Any = line.inputs.get(name)
                held = _weight(kind, value, steps)
                if held is None or name not in line.operation.inputs:  # defaults are not weights
                    continue
                key = weight_name(line.operation, name)
                origin = value if isinstance(value, Constant) else steps.expressions[value.name]
                if origins.setdefault(key, origin) is not origin:  # blocks side by side may share a name
                    continue
                if key not in self.weights:
                    is_statistic = name in _STATISTICS.get(kind, ())
                    # What is not trained stays mapped, if it lies in the file as it is needed.
                    owned = np.array(held, np.float32) if trained or is_statistic else held
                    self.weights[key] = owned if is_statistic else Parameter.owning(owned, trained)
                self._held[id(line), name] = self.weights[key]

    def run(self, values: dict[str, Any], lent: bool) -> None:
        if not self.results:
            return
        arrays = self.given(values)
        if not arrays or any(array.size == 0 for array in arrays):
            held = {port.name: tensor_of(array) for port, array in zip(self.ports, arrays, strict=True)}
            computed = self._stored(computed_at_once(lambda: self.record(held, {}, at_once=True)))
        else:
            computed = self.computed(arrays, lent)
        values |= self.without_states(computed, values)

    def given(self, values: Mapping[str, Any]) -> list[Array]:
        """The arrays that it reads, among values and states."""
        return [_array_of(values[port.name], port.name) for port in self.ports]

    def without_states(self, computed: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
        """Store the states among the results; gives the others."""
        for name, operation in self.written.items():
            _written(values[name].arrays[name], computed.pop(name), name, operation)
        return computed

    def computed(self, arrays: Sequence[Array], lent: bool) -> dict[str, Any]:
        """The results for arrays that have elements; new arrays, unless they are lent."""
        try:
            return self._stored(self.programs.computed(arrays, lent=lent))
        except IndexError as error:
            looking = [str(line.operation) for line in self.lines if "indices" in line.inputs]
            raise CoreMLError(f"{', '.join(looking) or self.steps.owner._who}: {error}") from error

    def _stored(self, arrays: Sequence[Array]) -> dict[str, Any]:
        precision = self.steps.owner.precision
        return {
            name: _stored(array, type, precision, copies=False)
            for (name, type), array in zip(self.results, arrays, strict=True)
        }

    def record(
        self, held: dict[str, ForeignTensor], freed: Mapping[int, Size], *, at_once: bool = False, network: bool = False
    ) -> list[ForeignTensor]:
        """Record all operations; gives the results.

        ``at_once``: there is no network that holds the weights. ``network``: nothing else than recording will do.
        """
        recording = _Recording({} if at_once else self._held, freed, self.steps.owner.precision, network)
        recording.record(self.lines, held, self.steps)
        return [held[name] for name, _ in self.results]


class _Recording:
    """Operations put on the graph, those of branches and loops included if constants decide which of them run."""

    def __init__(
        self, weights: Mapping[tuple[int, str], Parameter | Array], freed: Mapping[int, Size], precision: Precision | None,
        network: bool,
    ) -> None:  # fmt: skip
        self._weights, self._freed, self._precision, self._network = weights, freed, precision, network

    def record(self, lines: Sequence[_Line], held: dict[str, ForeignTensor], steps: _Steps) -> None:
        """Record lines of a block; ``held`` has the tensors that they read, and gets those that they make."""
        for line in lines:
            try:
                if line.state is not None and line.operation.type == "write_state":
                    held[line.state] = self._state(line, held, steps)
                    continue
                results = self._results(line, held, steps)
            except (*ERRORS, CannotBeRecorded) as error:
                raise CannotBeRecorded(line.operation, error) from error
            for port, tensor in zip(line.operation.outputs, results, strict=False):
                held[port.name] = tensor

    def _state(self, line: _Line, held: Mapping[str, ForeignTensor], steps: _Steps) -> ForeignTensor:
        """The numbers of a state, rounded to its type, as an operation after this one may read them."""
        target: Any = line.inputs["input"]
        tensor = in_kind(_tensor(line.inputs["data"], held, steps), "f")
        return _rounded_to_half(tensor) if target.type.wrapped.element == "fp16" else tensor

    def _results(self, line: _Line, held: Mapping[str, ForeignTensor], steps: _Steps) -> list[ForeignTensor]:
        operation = line.operation
        if line.state is not None:
            return [held[line.state]]
        if operation.type == "cond":
            results = self._branch(line, held, steps)
        elif operation.type == "while_loop":
            results = self._unrolled(line, held, steps)
        else:
            call = Call(operation.type, line.opset, len(operation.outputs), self._freed)
            tensors = {name: self._given(line, name, value, held, steps) for name, value in line.inputs.items()}
            results = listed_results(RECORDED[operation.type](call, **settings(line.rules, tensors)))
        if len(results) < len(operation.outputs):
            raise ValueError(f"it gives {len(results)} results, but {len(operation.outputs)} are named")
        return [self._conforming(tensor, port.type) for tensor, port in zip(results, operation.outputs, strict=False)]

    def _branch(self, line: _Line, held: Mapping[str, ForeignTensor], steps: _Steps) -> list[ForeignTensor]:
        chosen = _decided(_tensor(line.inputs["pred"], held, steps), "which branch is taken")
        return self._block(line.blocks[0 if chosen else 1], dict(held))

    def _unrolled(self, line: _Line, held: Mapping[str, ForeignTensor], steps: _Steps) -> list[ForeignTensor]:
        condition, body = line.blocks
        state = [_tensor(one, held, steps) for one in _each(line.inputs["loop_vars"])]
        if not self._network and any(_has_sizes(tensor) for tensor in (*state, *_seen(condition, held))):
            raise Misfit("the number of turns follows from a size that is free")
        most = MOST_UNROLLED * (50 if self._network else 1)
        length = sum(1 for inner in body.lines for _ in inner.walk())
        turns = 0
        while _decided(self._block(condition, _entered(condition, held, state))[0], "the number of turns"):
            turns += 1
            if turns * length > most:
                raise Misfit(f"it has more than the {most} operations that a loop is unrolled to")
            state = self._block(body, _entered(body, held, state))
        samples = self._freed.get(turns)
        if samples is not None and number_of(samples) != turns:
            raise Misfit(f"it takes {turns} turns, as many as there are samples, so that those cannot be of any number")
        return state

    def _block(self, block: _Steps, held: dict[str, ForeignTensor]) -> list[ForeignTensor]:
        self.record(block.lines, held, block)
        return [_tensor(value, held, block) for value in block.outputs]

    def _given(self, line: _Line, name: str, value: Any, held: Mapping[str, ForeignTensor], steps: _Steps) -> Any:
        if isinstance(value, tuple):
            return [self._given(line, name, one, held, steps) for one in value]
        if value is None:
            return None
        if (id(line), name) in self._weights:
            return ForeignTensor(self._weights[id(line), name])
        return value if isinstance(value, Constant) else _tensor(value, held, steps)

    def _conforming(self, tensor: ForeignTensor, type: ValueType) -> ForeignTensor:
        """A result of the kind that the program says, and as precise."""
        if not isinstance(type, TensorType):
            return tensor
        element = ELEMENTS[type.element]
        kind = kind_of(element.numpy)
        if kind != tensor.kind and not (tensor.kind == "f" and element.bits == 8):
            tensor = in_kind(tensor, kind)
        if element.name == "fp16" and self._precision == "float16":
            return _rounded_to_half(tensor)
        return tensor


def _rounded_to_half(tensor: ForeignTensor) -> ForeignTensor:
    if tensor.constant:
        with np.errstate(over="ignore"):
            return ForeignTensor(tensor.held.astype(np.float16).astype(np.float32))
    return ForeignTensor(tensor.numbers.graph.append(RoundToHalf(tensor.numbers)))


def _tensor(value: Any, held: Mapping[str, ForeignTensor], steps: _Steps) -> ForeignTensor:
    """The value of an argument while operations are recorded."""
    if isinstance(value, Constant):
        return tensor_of(value.array)
    return tensor_of(steps.constant(value.name)) if value.name in steps.expressions else held[value.name]


def _entered(
    block: _Steps, held: Mapping[str, ForeignTensor], state: Sequence[ForeignTensor]
) -> dict[str, ForeignTensor]:
    """The tensors that are known in a block of a loop."""
    return {**held, **{port.name: one for port, one in zip(block.block.inputs, state, strict=True)}}


def _seen(block: _Steps, held: Mapping[str, ForeignTensor]) -> list[ForeignTensor]:
    """The tensors that a block reads from outside of it."""
    return [held[name] for name in block.outside if name in held]


def _has_sizes(tensor: ForeignTensor) -> bool:
    return tensor.constant and tensor.held.dtype == object


def _decided(tensor: ForeignTensor, what: str) -> bool:
    """A condition that constants decide."""
    if not tensor.constant:
        raise Misfit(f"{what} is computed")
    return bool(np.all(tensor.held))


def _weight(kind: str, value: Any, steps: _Steps) -> Array | None:
    """The numbers of an input that layers hold; None if it is computed, or a single number of arithmetic."""
    if isinstance(value, Reference) and value.name in steps.expressions:
        array = steps.constant(value.name)
    elif isinstance(value, Constant) and isinstance(value.type, TensorType) and value.type.element != "string":
        array = value.array
    else:
        return None
    least = 2 if kind in _ARITHMETIC else 1
    if array.dtype.kind != "f" or not array.ndim or array.size < least or not np.isfinite(array).all():
        return None
    ordered: Array = in_our_order(kind, array) if kind in ORDERS else array
    return ordered


def weight_name(operation: Operation, name: str) -> str:
    """The name of a weight: that of its constant in the program, or of its input if it has none of its own."""
    arguments = operation.inputs.get(name) or ()
    if len(arguments) == 1 and isinstance(arguments[0], str):
        return arguments[0]
    return f"{operation.name}_{name}"


def _port(value: Reference) -> Port:
    type = value.type.wrapped if isinstance(value.type, StateType) else value.type
    if not isinstance(type, TensorType):
        raise CoreMLError(f"the value {value.name!r} is {type}, which no operation can compute with.")
    return Port(value.name, kind_of(ELEMENTS[type.element].numpy), type.shape)


# Functions that are recorded as a whole.


class Whole(NamedTuple):
    """A function as steps that are recorded as a whole: what reads and gives them, and their weights by name."""

    ports: list[Port]
    body: Body
    weights: Mapping[str, Parameter | Array]
    inputs: list[Argument]
    outputs: list[Argument]


def whole_of(function: Function, title: str) -> Whole:
    """The steps of a function, with its weights as parameters; raises CoreMLError for one that is not recorded as a whole."""
    executable = Executable(function)
    plan = executable.body.plan
    if executable.states or len(plan) != 1 or not isinstance(plan[0], _Part):
        alone = sorted({line.operation.type for line in plan if isinstance(line, _Line)})
        obstacles = ", ".join(["states"] if executable.states else alone) or "nothing to compute"
        raise CoreMLError(
            f"{title}: a network can be made of what is recorded as a whole, but the program has {obstacles}."
        )
    part = plan[0]
    part.hold_weights(trained=True)
    names = [argument.name for argument in executable.outputs]
    made = [name for name, _ in part.results]
    if set(names) - set(made):
        raise CoreMLError(f"{title}: outputs that are inputs or constants, {_listed(sorted(set(names) - set(made)))}.")
    by_name = {argument.name: argument for argument in executable.inputs}
    read = {port.name: port for port in part.ports}
    ports = [read[name] for name in by_name if name in read]  # in the order of the function, not of their first use

    def body(held: dict[str, ForeignTensor], freed: Mapping[int, Size]) -> list[ForeignTensor]:
        results = dict(zip(made, part.record(held, freed, network=True), strict=True))
        return [results[name] for name in names]

    return Whole(ports, body, part.weights, [by_name[port.name] for port in ports], executable.outputs)


__all__ = ["Argument", "Executable", "Precision", "State", "Whole", "whole_of"]
