"""``apply`` and ``apply_backward`` of the layers, made from their signatures and the records of filters.

    @method("apply_backward", returns=Gradients)
    def apply_backward(self, input=None, output=None, output_gradient=None, generating_input_gradient=None, ...):
        '''Run the layer backward.'''
        raise DECLARED

Such a method hands arrays of the right shape straight to the filter's native call (:mod:`._method_code`). Everything else
(descriptors, single samples, other types, mistakes) is checked here, argument by argument, against the record of the call:
which tensor each argument is, whether it is written, needed or shared by the batch.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from .._spelling import unexpected
from .._words import Caller
from ..abi.structs import BNNSNDArrayDescriptor
from ..calls.form import Form, form
from ..errors import BNNSError, LayerApplyError, Problem
from ._method_code import compiled
from ._misuse import MISUSE_ERRORS, flag, misuse
from ._ports import Arguments, DataProblem, Port, memory, raised, skip

if TYPE_CHECKING:
    from ..calls.signature import Argument, Call
    from .base import Layer

DECLARED = NotImplementedError("a declared method is replaced by the code that makes its call")
"""The error in the written body of a declared method, which never runs."""

_Callable = TypeVar("_Callable", bound=Callable[..., Any])

# What the arguments of methods are called in C, unless a method says otherwise.
_TENSORS = {
    "input": "in",
    "output": "out",
    "input_a": "inA",
    "input_b": "inB",
    "output_gradient": "out_delta",
    "generating_input_gradient": "in_delta",
    "generating_input_a_gradient": "inA_delta",
    "generating_input_b_gradient": "inB_delta",
    "generating_weights_gradient": "weights_delta",
    "generating_bias_gradient": "bias_delta",
    "generating_parameter_gradients": "delta_parameters",
}
_KEPT_SIZES = 256  # combinations of shapes that a layer remembers


class Role(enum.Enum):
    """The role of an argument of a method."""

    INPUT = "read, may be left out unless the record says otherwise"
    COUNTED = "read, passed along with its number of elements"
    OUTPUT = "written, made if left out"
    OUTPUT_GRADIENT = "a gradient that is read"
    GRADIENT = "a gradient that is written, made if left out, not computed if it is skip"
    GRADIENTS = "a list of gradients that are written"


class TensorArgument(NamedTuple):
    """A tensor among the arguments of a method."""

    name: str
    c_name: str
    role: Role

    @property
    def described(self) -> str:
        """The tensor of the layer that it is, or is the gradient of: ``weights`` for ``generating_weights_gradient``."""
        return self.name.removeprefix("generating_").removesuffix("_gradient")


def method(
    call: str, *, returns: type[Any] | None = None, chooses: tuple[str, type[enum.Enum]] | None = None, name: str = "",
    passes: Mapping[str, str] | None = None, leading: Sequence[str] = (), **c_names: str,
) -> Callable[[_Callable], _Callable]:  # fmt: skip
    """Make a method that makes the named call of the layer's filter.

    ``c_names`` says what the call calls an argument, where that does not follow from its name. ``returns`` is the type of
    the result: a named tuple of gradients, by default the output alone. ``chooses`` names an argument that is not a tensor
    but selects a variant of the call, and its type; ``passes`` maps further tensors of the call to attributes of the
    layer. The arrays of ``leading`` tell the shapes of all others. Messages call the method ``name``.
    """

    def decorate(function: _Callable) -> _Callable:
        return Method(function, call, returns, chooses, name, passes or {}, leading, c_names).made  # type: ignore[return-value]

    return decorate


class Method:
    """A method of a class of layers."""

    def __init__(
        self, function: Callable[..., Any], call: str, returns: type[Any] | None,
        chooses: tuple[str, type[enum.Enum]] | None, name: str, passes: Mapping[str, str], leading: Sequence[str],
        c_names: Mapping[str, str],
    ) -> None:  # fmt: skip
        code = function.__code__
        count = code.co_argcount + code.co_kwonlyargcount
        self.function, self.call, self.returns, self.passes = function, call, returns, passes
        self.arguments = code.co_varnames[1:count]
        self.keyword_only = code.co_varnames[code.co_argcount : count]
        self.chooser, self.choices = chooses or ("", enum.Enum)
        self.name = name or function.__name__
        self.attribute = f"_{function.__qualname__.replace('.', '_')}"
        options = {"batch_size", "accumulate", self.chooser, *(f"broadcasts_{n}" for n in self.arguments)}
        self.tensors = [self._tensor(n, c_names) for n in self.arguments if n not in options]
        self.tensor_names = tuple(t.name for t in self.tensors)
        without_default = code.co_varnames[1 : code.co_argcount - len(function.__defaults__ or ())]
        self.leading = tuple(leading) or (without_default if self.forward else ("output_gradient",))
        self.result_names = [self._argument_of(field) for field in getattr(returns, "_fields", ("output",))]
        self.made = compiled(self)

    @property
    def forward(self) -> bool:
        return not self.call.startswith("apply_backward")

    def _tensor(self, name: str, c_names: Mapping[str, str]) -> TensorArgument:
        role = Role.INPUT
        if name.startswith("generating_"):
            role = Role.GRADIENTS if name.endswith("gradients") else Role.GRADIENT
        elif name == "output_gradient":
            role = Role.OUTPUT_GRADIENT
        elif name == "output" and self.forward:
            role = Role.OUTPUT
        elif f"broadcasts_{name}" in self.arguments:
            role = Role.COUNTED
        return TensorArgument(name, c_names.get(name) or _TENSORS.get(name, name), role)

    def _argument_of(self, field: str) -> str | None:
        """The argument behind a field of the result; ``None`` if this method does not compute it."""
        meant = (f"generating_{field}_gradient", f"generating_{field[:-1]}_gradients", f"generating_{field}")
        names = [name for name in meant if name in self.arguments]
        return names[0] if names else "output" if field == "output" else None

    # What a layer's own record says.

    def prepare(self, layer: Layer) -> Prepared:
        """The call of one layer, made when first asked for."""
        if not layer._filter.alive:
            return Prepared(self, layer, None)
        made = Prepared(self, layer, self._forward_record(layer))
        if made.record is not None:
            setattr(layer, self.attribute, made)
        return made

    def _forward_record(self, layer: Layer) -> Call | None:
        """The record of ``apply``, for tensors that the layer takes backward and the call of its filter does not."""
        forward = getattr(getattr(type(layer), "apply", None), "declared", None)
        if self.forward or not isinstance(forward, Method):
            return None
        return forward.prepared(layer).record

    def prepared(self, layer: Layer) -> Prepared:
        prepared = layer.__dict__.get(self.attribute)
        return prepared if isinstance(prepared, Prepared) else self.prepare(layer)

    # The call with every check.

    def checked(self, layer: Layer, misspelled: Iterable[str], values: dict[str, Any]) -> Any:
        """Make the call with any arguments; raises exceptions in the words of the layer."""
        if misspelled:
            raise unexpected(self.function, misspelled, layer._call_name(self.name))
        try:
            prepared = self.prepared(layer)
            return _CheckedCall(layer, prepared, values).run()
        except Problem as problem:
            raise raised(self._meant(problem, layer, values), LayerApplyError) from None
        except BNNSError:
            raise
        except MISUSE_ERRORS as error:
            annotations = self.function.__annotations__
            raise raised(misuse(error, layer._call_name(self.name), annotations, values), LayerApplyError) from error

    def _meant(self, problem: Problem, layer: Layer, values: Mapping[str, Any]) -> Problem:
        """The problem, with a better cure if the arrays suggest what the call was meant to be."""
        from .. import diagnosis

        ports = self.prepared(layer).ports
        arrays = [(t.name, port.shape, values[t.name]) for t in self.tensors if (port := ports.get(t.name)) is not None]
        return diagnosis.of_arrays(problem, arrays)


class Prepared:
    """A call of one layer: its record, and what follows from that."""

    __slots__ = (
        "call",
        "caller",
        "forms",
        "leading",
        "lists",
        "method",
        "names",
        "ports",
        "record",
        "sizes",
        "waiting",
    )

    def __init__(self, method: Method, layer: Layer, forward: Call | None) -> None:
        self.method = method
        self.call, given_names = layer._declares(method.call)
        self.names = {t.name: given_names.get(t.name, t.c_name) or f"no_{t.name}" for t in method.tensors}
        self.caller = self._caller(layer)
        self.ports: dict[str, Port | None] = {}
        self.lists: dict[str, list[tuple[str, Port | None]]] = {}
        self.sizes: dict[Any, tuple[Any, ...]] = {}
        self.forms: dict[Any, Form] = {}
        self.leading: list[Port | None] = []
        self.record: Call | None = None
        filter = layer._filter
        if not filter.alive:
            return
        order = list(dict.fromkeys(["batch_size", *self._form_names()]))
        for chosen in list(method.choices) if method.chooser else [None]:
            variant = filter.choose(self.call, layer._choice(self.call, chosen), self.caller)
            self.forms[chosen] = form(self.call, order, variant)
            self.record = filter.declared(self.call, variant)
        if self.record is None:
            return
        for t in method.tensors:
            if t.role is Role.GRADIENTS:
                self.lists[t.name] = self._list_of(layer, t)
            else:
                self.ports[t.name] = self._port(layer, t, forward)
        self.leading = [self.ports[name] for name in method.leading]

    def _caller(self, layer: Layer) -> Caller:
        names = {**layer._creation_caller.names, **{c_name: name for name, c_name in self.names.items()}}
        if self.method.chooser:
            names["training"] = self.method.chooser
        return Caller(layer._call_name(self.method.name), names, null="None", training_call=layer._training_call)

    def _form_names(self) -> Iterable[str]:
        for t in self.method.tensors:
            yield self.names[t.name].partition("[")[0]
            if t.role is Role.COUNTED:
                yield f"{t.c_name}_size"
        yield from self.method.passes

    def argument(self, t: TensorArgument) -> Argument | None:
        """The record of an argument; ``None`` if the call of the filter does not take it."""
        return None if self.record is None else self.record.by_name.get(self.names[t.name])

    def _port(self, layer: Layer, t: TensorArgument, forward: Call | None) -> Port | None:
        argument = self.argument(t)
        if (argument is None or argument.tensor is None) and t.role is Role.INPUT and forward is not None:
            argument = forward.by_name.get(self.names[t.name])  # checked, though it has no effect
        return _port_of(argument, layer._array_shapes.get(t.described))

    def _list_of(self, layer: Layer, t: TensorArgument) -> list[tuple[str, Port | None]]:
        assert self.record is not None
        labels = layer._entries_of(t.name)
        items = self.record.items(t.c_name)
        for i, label in enumerate(labels):
            self.caller.names[f"{t.c_name}[{i}]"] = f"{t.name}[{i}] ({label})"  # type: ignore[index]
        return [
            (label, _port_of(item, layer._array_shapes.get(label))) for label, item in zip(labels, items, strict=True)
        ]

    def settle(self, key: Any) -> tuple[Any, ...] | None:
        """Batch and shapes of a call whose leading arrays have these shapes; ``None`` if the full checks are needed."""
        if self.record is None:
            return None
        shapes = key if len(self.leading) > 1 else (key,)
        lead = self._lead(shapes)
        if lead is None or lead == (0,):
            return None
        parts: list[Any] = [lead[0] if lead else 1, lead[0] if lead else None]
        for t in self.method.tensors:
            if t.role is Role.GRADIENTS:
                parts.append([(port and port.full_shape(*lead), port) for _, port in self.lists[t.name]])
                continue
            port = self.ports[t.name]
            if t.name not in self.method.leading and t.role is not Role.COUNTED:
                parts.append(port and port.full_shape(*lead))
            if t.role is Role.OUTPUT:
                argument = self.argument(t)
                parts += [port and port.stored, np.zeros if argument is not None and argument.updates else np.empty]
            elif t.role in (Role.OUTPUT_GRADIENT, Role.GRADIENT):
                parts.append(port)
        if len(self.sizes) >= _KEPT_SIZES:
            self.sizes.clear()
        self.sizes[key] = settled = tuple(parts)
        return settled

    def _lead(self, shapes: Sequence[Any]) -> tuple[int, ...] | None:
        """The axes in front of those of a sample, which all leading arrays that have samples share."""
        common: tuple[int, ...] | None = None
        for port, shape in zip(self.leading, shapes, strict=True):
            if shape is False:
                continue
            if port is None or not port.dense:
                return None
            if not port.batched:
                if shape != port.shape:
                    return None
                continue
            lead = port.lead(shape)
            if lead is None or (common is not None and lead != common):
                return None
            common = lead
        if common is None and not any(port is not None and port.batched for port in self.ports.values()):
            return ()
        return common


def _port_of(argument: Argument | None, shape: tuple[int, ...] | None) -> Port | None:
    """The tensor of an argument, if the filter has it; ``shape`` is that of arrays where it is not that of the tensor."""
    tensor = None if argument is None else argument.tensor
    if argument is None or tensor is None or tensor.absent:
        return None
    return Port.of(tensor.view, batched=argument.batched, shape=shape)


class _CheckedCall:
    """One call with every check."""

    def __init__(self, layer: Layer, prepared: Prepared, values: dict[str, Any]) -> None:
        self.layer, self.prepared, self.method = layer, prepared, prepared.method
        self.caller, self.values = prepared.caller, values
        self.results: dict[str, Any] = {}
        self.given: dict[str, tuple[Any, Any]] = {}

    def run(self) -> Any:
        layer, prepared, method, values = self.layer, self.prepared, self.method, self.values
        layer._filter.require_alive(self.caller)
        if prepared.record is None:
            raise layer._filter.refusal(prepared.call, self.caller)
        chosen = values[method.chooser] if method.chooser else None
        if method.chooser and not isinstance(chosen, method.choices):
            wanted = " or ".join(map(str, method.choices))
            raise Problem(f"{self.caller('training')} must be {wanted}, not {type(chosen).__name__}.", kind=TypeError)
        self.accumulates = flag(values.get("accumulate"))
        self.arguments = Arguments(self.caller.function, values["batch_size"])
        self.converted = {t.name: layer._converted(self.caller, t.name, values[t.name]) for t in method.tensors}
        taken = {t.name: self._take(t) for t in method.tensors}
        self.arguments.settle()
        for t in method.tensors:
            self._give(t, taken[t.name])
        for c_name, attribute in method.passes.items():
            self.given[c_name] = (getattr(layer, attribute), 0)
        for name in prepared.record.lists:
            if name not in self.given:  # its entries are arguments of their own
                items = prepared.record.items(name)
                self.given[name] = ([self.given.pop(item.name, (None, 0))[0] for item in items], None)
        if self._wants_something() and not self._runs_natively(prepared.forms[chosen]):
            choice = layer._choice(prepared.call, chosen)
            layer._filter.perform(prepared.call, self.caller, self.arguments.batch, self.given, choice)
        results = [None if name is None else self.results.get(name) for name in method.result_names]
        return results[0] if method.returns is None else method.returns(*results)

    def _runs_natively(self, chosen: Form) -> bool:
        """True if native code accepts and runs the prepared arguments."""
        ordered: list[Any] = [self.arguments.batch]
        for name, counted in chosen.tensors:
            value, count = self.given.get(name, (None, 0))
            ordered += [value, count] if counted else [value]
        return bool(self.layer._filter.native(chosen)(*ordered) == 0)

    def _wants_something(self) -> bool:
        """A call that computes a single gradient has nothing to do when that is skipped."""
        record = self.prepared.record
        assert record is not None
        required = [a.name for a in record.arguments if a.required and a.writes]
        return all(self.given.get(name, (None, 0))[0] is not None for name in required)

    # Taking what was given.

    def _take(self, t: TensorArgument) -> Any:
        value = self.converted[t.name]
        if t.role is Role.GRADIENTS:
            entries = self._entries(t, value)
            labels = self.prepared.lists[t.name]
            return [
                self._take_gradient(f"{t.name}[{i}] ({label})", label, port, entry)
                for i, ((label, port), entry) in enumerate(zip(labels, entries, strict=True))
            ]
        port, argument = self.prepared.ports[t.name], self.prepared.argument(t)
        if t.role is Role.GRADIENT:
            return self._take_gradient(t.name, t.described, port, value)
        if t.role is Role.COUNTED:
            return value
        if port is None:
            if value is not None:
                raise Problem(f"{self.caller.function}: {t.name} {self.layer._reason_without(t.name)}. Leave it out.")
            return None
        if value is None and not (argument is not None and argument.required and t.role is not Role.OUTPUT):
            return None
        if value is None and argument is not None and argument.default is not None:
            return None
        if value is None and argument is not None and argument.purpose and not argument.described:
            raise Problem(f"{self.caller.function}: {t.name} is None, but {argument.purpose}")
        return self.arguments.take(t.name, port, value, output=t.role is Role.OUTPUT)

    def _take_gradient(self, name: str, what: str, port: Port | None, value: Any) -> Any:
        if value is skip or (value is None and port is None):
            return skip
        if port is None:
            raise Problem(
                f"{self.caller.function}: {name} is given, but this layer has no gradient of {what.replace('_', ' ')}. "
                "Leave it out."
            )
        if isinstance(value, BNNSNDArrayDescriptor) and value.data is None:
            raise DataProblem(
                f"{self.caller.function}: {name}.data is None. Give the descriptor memory, or pass skip to leave it out."
            )
        if value is None or isinstance(value, BNNSNDArrayDescriptor):
            return value  # the filter checks it, as gradients may have strides of their own
        return self.arguments.take(name, port, value, output=True)

    def _entries(self, t: TensorArgument, value: Any) -> list[Any]:
        """One entry for each of a list of gradients."""
        labels = [label for label, _ in self.prepared.lists[t.name]]
        if value is None or value is skip:
            return [value] * len(labels)
        order = ", ".join(labels)
        who = f"{self.caller.function}: {t.name}"
        if isinstance(value, np.ndarray) or not isinstance(value, Sequence):
            raise Problem(
                f"{who} must be a list with one entry for each of {order}, not {type(value).__name__}.", kind=TypeError
            )
        if len(value) != len(labels):
            raise Problem(
                f"{who} has {len(value)} entries, but this layer has {len(labels)} parameter gradients, in the order {order}. "
                "Pass skip for one that is not wanted."
            )
        return [skip if isinstance(v, BNNSNDArrayDescriptor) and v.data is None else v for v in value]

    # Passing it on.

    def _give(self, t: TensorArgument, taken: Any) -> None:
        c_name, port, value = self.prepared.names[t.name], self.prepared.ports.get(t.name), self.values[t.name]
        if t.role is Role.GRADIENTS:
            given = [
                self._delta(f"{t.name}[{i}] ({label})", entry_port, entry)
                for i, ((label, entry_port), entry) in enumerate(zip(self.prepared.lists[t.name], taken, strict=True))
            ]
            entries = self._entries(t, value)
            self.results[t.name] = [
                made if entry is None else None if entry is skip else entry
                for entry, (made, _) in zip(entries, given, strict=True)
            ]
            self.given[c_name] = ([delta for _, delta in given], None)
        elif t.role is Role.GRADIENT:
            made, delta = self._delta(t.name, port, taken)
            self.results[t.name] = made if value is None else None if value is skip else value
            self.given[c_name] = (delta, 0)
        elif t.role is Role.COUNTED:
            self.given[c_name] = self.layer._counted(
                self.caller(c_name), value, self.values[f"broadcasts_{t.name}"], self.arguments.batch
            )
        elif t.role is Role.OUTPUT_GRADIENT:
            assert port is not None
            self.given[c_name] = (port.delta(taken, False), 0)
        elif t.role is Role.OUTPUT:
            assert port is not None
            if taken is None:
                argument = self.prepared.argument(t)
                taken = value = port.empty(self.arguments.axis, f"{self.caller.function}: {t.name}")
                if argument is not None and argument.updates:
                    taken.fill(0)
            self.results[t.name] = value
            self.given[c_name] = (memory(taken), 0)
        else:
            self.given[c_name] = (memory(taken), 0)

    def _delta(self, name: str, port: Port | None, taken: Any) -> tuple[Any, BNNSNDArrayDescriptor | None]:
        """A gradient as (what was made or taken, the descriptor for the filter)."""
        if taken is skip:
            return None, None
        assert port is not None
        if taken is None:
            taken = port.empty(self.arguments.axis, f"{self.caller.function}: {name}")
            return taken, port.delta(taken, False)
        return taken, port.delta(taken, self.accumulates)
