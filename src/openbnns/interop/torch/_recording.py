"""The steps of a PyTorch module's ``forward`` on a batch.

The module runs on real tensors while a ``TorchFunctionMode`` sees every function of PyTorch that it calls. In contrast to a
symbolic trace, all Python code works: loops over sizes, assertions, tests of types. Code that looks at the numbers of a
tensor is refused, because its result would hold for this batch alone.
"""

from __future__ import annotations

import ast
import inspect
import linecache
import os
import sys
import threading
import traceback
import types
from collections.abc import Callable, Container, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

import numpy as np

from ...graph.structure import flatten
from ..converted.tensors import Misfit
from .compositions import COMPOSITIONS
from .errors import Place, Unsupported, refusal

# Operators that change their first argument.
IN_PLACE = {"__iadd__", "__isub__", "__imul__", "__itruediv__", "__ipow__", "__imod__", "__ifloordiv__"}
# Functions that give numbers of a tensor to Python, which may then decide by them.
READING = {
    "item", "tolist", "numpy", "__array__", "__bool__", "__int__", "__float__", "__index__", "__complex__", "equal",
    "allclose", "is_nonzero", "__contains__",
}  # fmt: skip
# Functions whose result depends on the sizes of a tensor alone.
BY_SIZE = {
    "zeros_like", "ones_like", "full_like", "empty_like", "new_zeros", "new_ones", "new_full", "new_empty", "new_tensor",
}  # fmt: skip
# Functions that go by another name inside PyTorch than in people's code.
WRITTEN = {
    "F._threshold": "F.threshold", "log_sigmoid": "F.logsigmoid", "special_expit": "special.expit",
    "special_logit": "logit", "special_xlogy": "xlogy",
}  # fmt: skip
FAMILIES = ("linalg_", "special_", "fft_")  # modules of torch, whose functions have these names inside it
NUMPY = {"axis": "dim", "keepdims": "keepdim"}  # arguments by NumPy's name, which PyTorch takes as well
PACKING = ("_pack_padded_sequence", "_pad_packed_sequence")
# Functions that tell whether there are infinities, or NaN, and the answer that is recorded.
FINITE = {"isfinite", "isinf", "isnan"}
LOGIC = {"any", "all", "logical_not", "logical_or", "logical_and", "__invert__", "__or__", "__and__"}
# Functions whose result may share the memory of their first argument.
RESHAPES = {"view", "reshape", "unsqueeze", "squeeze", "flatten", "unflatten", "view_as"}
VIEWS = {"__getitem__", "transpose", "permute", "select", "narrow", *RESHAPES}
PARTING = {"split", "split_with_sizes", "chunk", "unbind"}  # functions that give all parts of a tensor
FILLING = {"bernoulli_", "uniform_", "normal_", "exponential_"}  # a tensor, whatever was in it
OVERWRITING = {"copy_", "zero_", "fill_"}
EMPTY = {"empty", "empty_like", "new_empty"}  # which hold any numbers, and zeros here
TURNING = {"t", "swapaxes", "swapdims"}  # which change the shape of a tensor, as t_
RANDOM = {
    "randn",
    "rand",
    "randn_like",
    "rand_like",
    "bernoulli",
    "normal",
    "randint",
    "randint_like",
    "randperm",
    *FILLING,
}


@dataclass(frozen=True)
class Ref:
    """A tensor of the record, by number."""

    index: int


@dataclass(frozen=True)
class Kind:
    """A data type, a device or another option that is not a number."""

    name: str


@dataclass(frozen=True, eq=False)
class Recipe:
    """How a constant was made: by which function, from numbers, arrays and other recipes."""

    function: str
    args: Any
    kwargs: Any
    array: Any
    letter: str


@dataclass
class Record:
    """One step. ``kind`` is "input", "parameter", "buffer", "constant", "module" or "function"; ``target`` says which."""

    kind: str
    target: str
    place: Place | None = None
    args: Any = ()
    kwargs: Any = field(default_factory=dict)
    outputs: Any = None  # Refs, in the structure in which the function gives tensors
    shapes: dict[int, tuple[Any, ...]] = field(default_factory=dict)
    dtypes: dict[int, str] = field(default_factory=dict)  # "f" numbers, "i" whole numbers, "b" booleans
    array: Any = None  # of a constant
    recipe: Recipe | None = None  # of a constant that was computed
    detached: bool = False  # ran under torch.no_grad()


@dataclass
class Trace:
    """All steps of one run, and its result with Refs in place of tensors."""

    records: list[Record]
    result: Any
    left_out: dict[str, str] = field(default_factory=dict)  # parts of the result other than tensors: names and classes
    changed: tuple[str, ...] = ()  # buffers that the run has changed, other than the statistics of layers
    spacing: float = 0.0  # of the numbers near 1, in the coarsest type that a step gives


@dataclass(frozen=True)
class _View:
    """A tensor that shares the memory of another one, and the steps that lead from there to it."""

    tensor: Any
    parent: Any
    function: str
    args: Any
    kwargs: Any


@dataclass
class _Known:
    tensor: Any
    ref: Ref
    version: int
    detached: bool


class Recorder:
    """A recorder that runs a module and records its steps.

    ``leaf`` says which modules are taken down as one step, ``steps`` holds the names of functions that are one; other functions
    that PyTorch writes in Python are looked into. With ``exporting``, code that asks is told that this is an export.
    """

    def __init__(
        self, torch: Any, root: Any, leaf: Callable[[Any], bool], steps: Container[str] = (), *, exporting: bool = True
    ) -> None:
        self.torch, self.root, self.leaf, self.steps, self.exporting = torch, root, leaf, steps, exporting
        self.records: list[Record] = []
        self._paths = {id(module): path for path, module in root.named_modules()}
        self._parameters = {id(p): name for name, p in root.named_parameters()}
        self._buffers = {id(b): name for name, b in root.named_buffers()}
        # Tensors stay alive as long as we know them, so that no other one gets their identity.
        self._live: dict[int, _Known] = {}
        self._constants: dict[tuple[int, int], tuple[Any, Ref]] = {}
        self._made: dict[int, tuple[Any, int, str, Any, Any]] = {}  # constants that were computed
        self._views: dict[int, _View] = {}
        self._about_infinities: set[int] = set()
        self._drawn: set[int] = set()  # random numbers, and what is computed from these alone
        self._packed: dict[
            int, tuple[Any, tuple[int, ...]]
        ] = {}  # numbers of packed sequences, and the shape of the samples
        self._mode: Any = None
        self._looked_into: list[Any] = []
        self._sources: dict[str, Ref] = {}  # parameters and buffers that were used
        self._stack: list[Any] = [root]
        self._paused = 0
        self._count = 0
        self._spacing = 0.0
        self._thread = threading.get_ident()
        self._folders = (os.path.dirname(torch.__file__), os.path.dirname(__file__))

    def run(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Trace:
        """Call the module on tensors whose first axis is the batch; they may be in tuples, lists and dictionaries."""
        given, _ = flatten([list(args), dict(kwargs)])
        for number, tensor in enumerate(given):
            record = Record("input", str(number))
            record.outputs = self._bind(tensor, record, detached=False)
            self.records.append(record)
        self._mode = _mode(self.torch, self._function)
        with self._mode, self._patched():
            result = self.root(*args, **kwargs)
        left_out: dict[str, str] = {}
        return Trace(self.records, self._result(result, "", left_out), left_out, spacing=self._spacing)

    def _result(self, given: Any, name: str, left_out: dict[str, str]) -> Any:
        """The result of forward, with Refs in place of tensors and None in place of everything else."""
        if isinstance(given, self.torch.Tensor):
            return self._ref(given)
        if isinstance(given, Mapping):
            return {key: self._result(part, f"{name}[{key!r}]", left_out) for key, part in given.items()}
        if is_dataclass(given) and not isinstance(given, type):
            return {
                part.name: self._result(getattr(given, part.name), f"{name}.{part.name}", left_out)
                for part in fields(given)
            }
        if isinstance(given, (tuple, list)):
            parts = [self._result(part, f"{name}[{i}]", left_out) for i, part in enumerate(given)]
            return parts if isinstance(given, list) else tuple(parts)
        if not (given is None or isinstance(given, (bool, int, float, str))):
            left_out[name] = type(given).__name__
        return None

    @contextmanager
    def _patched(self) -> Any:
        """Redirect calls of modules to the recorder, as torch.fx does; code that avoids reading numbers in an export avoids
        it here."""
        base, compiler = self.torch.nn.Module, self.torch.compiler
        functions = self.torch.autograd.Function.__mro__[
            1
        ]  # whose apply that of Function ends in, even one bound long ago
        original = base.__call__
        exporting, compiling = compiler.is_exporting, compiler.is_compiling
        recorder = self

        def call(module: Any, *args: Any, **kwargs: Any) -> Any:
            return recorder._module(module, original, args, kwargs)

        def custom(function: Any, *args: Any, **kwargs: Any) -> Any:
            above: Any = super(functions, function)
            return recorder._custom(function, above.apply, args, kwargs)

        base.__call__, functions.apply = call, classmethod(custom)
        if self.exporting:
            compiler.is_exporting = compiler.is_compiling = lambda: True  # an export is a compilation to those who ask
        try:
            yield
        finally:
            base.__call__ = original
            del functions.apply
            compiler.is_exporting, compiler.is_compiling = exporting, compiling

    # Modules.

    def _module(self, module: Any, original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if threading.get_ident() != self._thread or self._paused:
            return original(module, *args, **kwargs)
        self._stack.append(module)
        try:
            if isinstance(module, self.torch.jit.ScriptModule):
                raise refusal(
                    f"{getattr(module, 'original_name', 'a part')} is compiled by torch.jit, whose steps cannot be seen",
                    self.place(), "Use the module as it is without torch.jit.script or torch.jit.trace.",
                )  # fmt: skip
            if id(module) not in self._paths or not self.leaf(module) or self._passes_on(module, args):
                return original(module, *args, **kwargs)
            record = Record("module", self._paths[id(module)])
            bound = inspect.signature(module.forward).bind(*args, **kwargs)
            record.args, record.kwargs = self._encode(bound.args), self._encode(bound.kwargs)
            self._paused += 1
            try:
                result = original(module, *args, **kwargs)
            finally:
                self._paused -= 1
            if isinstance(result, tuple) and isinstance(result[0], self.torch.nn.utils.rnn.PackedSequence):
                packed, states = result
                self._finish_packed(
                    record, (packed.data, states), (*self._packed[id(args[0].data)][1][:2], packed.data.shape[-1])
                )
                return result
            return self._finish(record, result) if self._has_tensor(result) else result
        finally:
            self._stack.pop()

    def _passes_on(self, module: Any, args: tuple[Any, ...]) -> bool:
        """True for an ``nn.Identity`` that stands for a module of several tensors."""
        return isinstance(module, self.torch.nn.Identity) and isinstance(args[0] if args else None, (tuple, list, dict))

    # Functions.

    def _function(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self._paused or threading.get_ident() != self._thread:
            return function(*args, **kwargs)
        name = self._name(function)
        if name == "_is_all_true" and self._is_check():
            return function(*args, **kwargs)
        kwargs = {NUMPY.get(key, key): value for key, value in kwargs.items()}
        if function is self.torch.Tensor.where:  # whose condition comes second
            function, args = (
                self.torch.where,
                (args[1], args[0], *args[2:]) if len(args) > 1 else (kwargs.pop("condition"), *args),
            )
        others = self._others(name, function, args, kwargs) if self._any_live((args, kwargs)) else None
        if others is not None:
            with self._mode:  # which PyTorch switches off while we are called
                return others(*args, **kwargs)
        self._paused += 1
        try:
            bare = name.removeprefix("F.")
            if not self._any_live((args, kwargs)) and bare not in RANDOM:
                return self._note_constant(name, args, kwargs, function(*args, **kwargs))
            if bare in READING:
                return self._read(name, function, args, kwargs)
            if name == "__set__":
                self._set_attribute(function, *args)
                return None
            if name == "__setitem__" and self._is_part(*args):
                return None
            changes = name == "__setitem__" or (bare.endswith("_") and not bare.endswith("__")) or bare in IN_PLACE
            above = self._above(args[0]) if changes else []
            record, error = Record("function", name), None
            try:
                given = args[1:] if bare in FILLING or bare in OVERWRITING else args
                record.args, record.kwargs = self._encode(given), self._encode(kwargs)
            except Unsupported as problem:  # which does not matter to a function that looks at sizes alone
                error = problem
            if bare in PACKING:
                return (
                    self._pack(record, function, args) if bare == PACKING[0] else self._unpack(record, function, args)
                )
            if name == "__iter__":  # which hides its tensors
                record.target, function = "unbind", self.torch.Tensor.unbind
            result = function(*args, **kwargs)
            if bare in EMPTY:
                result.zero_()
            made = args[0] if name == "__setitem__" else result  # which changes a tensor and gives nothing
            if bare not in BY_SIZE and self._has_tensor(made):
                if error is not None:
                    raise error
                made = self._finish(record, made)
                result = result if name == "__setitem__" else made
                self._note_view(name, made, args, kwargs)
                self._note_logic(bare, record)
                for view, parent in above:
                    self._change(view, parent)
            return iter(result) if name == "__iter__" else result
        finally:
            self._paused -= 1

    def _others(
        self, name: str, function: Any, args: tuple[Any, ...], given: dict[str, Any]
    ) -> Callable[..., Any] | None:
        """The composition of other functions that is recorded in place of a function."""
        if name in COMPOSITIONS:
            return lambda *args, **kwargs: self._composed(name, *args, **kwargs)
        if name == "as_strided":
            return self._strided
        if given.get("out") is not None:
            return lambda *args, out, **kwargs: out.copy_(function(*args, **kwargs))
        if name == "__setitem__" and self._sets_where(*args):
            return self._set_where
        if name == "__getitem__" and any(map(self._is_mask, args[1] if isinstance(args[1], tuple) else args[1:])):
            raise refusal(
                "the size of x[mask] depends on numbers; what depends on a mask is chosen with torch.where",
                self.place(),
            )
        if name in self.steps:
            return None
        changed = name[:-1] if name.endswith("_") and not name.endswith("__") else ""
        if changed in COMPOSITIONS or (changed in self.steps and changed not in TURNING):
            return lambda x, *args, **kwargs: x.copy_(getattr(self.torch.Tensor, changed)(x, *args, **kwargs))
        modules = (self.torch.nn.functional.__name__, self.torch.functional.__name__)
        in_python = isinstance(function, types.FunctionType) and function.__module__ in modules
        if not in_python or function in self._looked_into:  # one that asks for itself again
            return None
        return lambda *args, **kwargs: self._inside(function, args, kwargs)

    def _inside(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        self._looked_into.append(function)
        try:
            return _without_dispatch(function)(*args, **kwargs)
        finally:
            self._looked_into.pop()

    def _composed(self, name: str, *args: Any, **kwargs: Any) -> Any:
        try:
            return COMPOSITIONS[name](self.torch, *args, **kwargs)
        except (Misfit, TypeError) as error:
            raise refusal(f"{full_name(name)}: {str(error).rstrip('.')}", self.place()) from error

    def _is_mask(self, key: Any) -> bool:
        """True for booleans that depend on numbers."""
        return isinstance(key, self.torch.Tensor) and key.dtype == self.torch.bool and self._is_live(key)

    def _sets_where(self, x: Any, key: Any, value: Any) -> bool:
        """True if a mask says which entries get the same value, or if it depends on numbers."""
        if self._is_mask(key):
            return True
        same = not isinstance(value, self.torch.Tensor) or value.dim() <= x.dim() - getattr(key, "ndim", 0)
        return isinstance(key, self.torch.Tensor) and key.dtype == self.torch.bool and same

    def _set_where(self, x: Any, mask: Any, value: Any) -> None:
        """``x[mask] = value``."""
        rest = x.dim() - mask.dim()
        if isinstance(value, self.torch.Tensor) and value.dim() > rest:
            raise refusal(
                "x[mask] = y takes as many numbers as the mask has places, which is not known before there are numbers",
                self.place(), "Use torch.where(mask, y, x), with y of the shape of x.",
            )  # fmt: skip
        x.copy_(self.torch.where(mask.reshape([*mask.shape, *[1] * rest]), value, x))

    def _strided(self, x: Any, size: Any, stride: Any, storage_offset: Any = None) -> Any:
        """``as_strided``, which numbers places in memory, by numbers along axes: those that lie in memory as one are made one."""
        groups: list[list[int]] = []  # length and stride
        kept = next(
            (
                i
                for i, own in enumerate(zip(x.shape, x.stride(), strict=True))
                if (*own,) != (*size[i : i + 1], *stride[i : i + 1])
            ),
            x.ndim,
        )  # axes in front that are as they were, such as that of the samples
        for axis, (length, step) in enumerate(zip(x.shape, x.stride(), strict=True)):
            if axis > kept and groups[-1][1] == length * step:
                groups[-1] = [groups[-1][0] * length, step]
            else:
                groups.append([int(length), int(step)])
        axes = [(n, step) for n, step in zip(size, stride, strict=True)]
        taken: list[Any] = []
        for length, step in groups:  # each of them is indexed by the next axes of the result, as many as fit into it
            places = np.zeros((), np.int64)
            while axes and axes[0][1] % step == 0:
                more = places[..., None] + np.arange(axes[0][0]) * (axes[0][1] // step)
                if more.max(initial=0) >= length:
                    break
                places = more
                axes.pop(0)
            taken.append(places.ravel())
        if axes or storage_offset not in (None, x.storage_offset()):
            raise refusal(
                "torch.as_strided numbers places in memory in a way that has no counterpart", self.place(),
                "Use Tensor.unfold, or an index.",
            )  # fmt: skip
        x = x.reshape([length for length, _ in groups])
        for axis, places in enumerate(taken):
            if not np.array_equal(places, np.arange(groups[axis][0])):
                x = x.index_select(axis, self.torch.as_tensor(places))
        return x.reshape(tuple(size))

    def _read(self, name: str, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Numbers for Python: for assertions, and for checks of infinities, which numbers of a network pass."""
        place = self.place()
        known = self._live.get(id(args[0]))
        if (
            (known is not None and known.ref.index in self._about_infinities)
            or _is_assertion(place)
            or self._is_check()
        ):
            return function(*args, **kwargs)
        if known is not None and known.ref.index in self._drawn:
            raise refusal(
                "a random number decides here what forward does, as where layers are dropped in training",
                place,
                "Make the module with a probability of 0 for that, such as encoder_layerdrop=0.0, decoder_layerdrop=0.0 in "
                "a configuration of transformers.",
            )
        raise refusal(
            f"{name} turns numbers of a tensor into Python's, so that the network depends on them",
            place,
            "Choose with torch.where, or take that part out of forward.",
        )

    def _is_check(self) -> bool:
        """True in ``torch._check_tensor_all`` and its like, which are assertions."""
        frame: Any = sys._getframe(1)
        while frame is not None and frame.f_code is not Recorder.run.__code__:
            if frame.f_code.co_name.startswith("_check") and frame.f_code.co_filename == self.torch.__file__:
                return True
            frame = frame.f_back
        return False

    def _note_logic(self, name: str, record: Record) -> None:
        given = [ref for ref in record.args if isinstance(ref, Ref)]
        if name in RANDOM or (given and all(ref.index in self._drawn for ref in given)):
            self._drawn.update(record.shapes)
        about = name in FINITE or (
            name in LOGIC and bool(given) and all(ref.index in self._about_infinities for ref in given)
        )
        if about:
            self._about_infinities.update(record.shapes)

    # Packed sequences, which are recorded as samples with the steps that they have, and with zeros behind their lengths.

    def _pack(self, record: Record, function: Any, args: tuple[Any, ...]) -> Any:
        """The steps of all samples one behind the other, and how many samples have each: here the samples and their lengths."""
        samples, lengths, batch_first = args
        shape = samples.shape if batch_first else (samples.shape[1], samples.shape[0], *samples.shape[2:])
        result = function(*args)
        self._finish_packed(record, result, shape)
        record.shapes[record.outputs[1].index] = tuple(int(n) for n in lengths.shape)
        return result

    def _unpack(self, record: Record, function: Any, args: tuple[Any, ...]) -> Any:
        data = args[0]
        frame: Any = sys._getframe()
        while frame is not None and frame.f_code is not self.torch.nn.utils.rnn.pad_packed_sequence.__code__:
            frame = frame.f_back
        steps = self._packed[id(data)][1][1] if id(data) in self._packed else None
        if steps is None or frame is None or frame.f_locals.get("total_length") != steps:
            raise refusal(
                "pad_packed_sequence gives as many steps as the longest sample has, which is not known before there are numbers",
                self.place(), f"Pass total_length={steps or 'T'}, the number of steps in front of pack_padded_sequence.",
            )  # fmt: skip
        return self._finish(record, function(*args))

    def _finish_packed(self, record: Record, result: Any, shape: tuple[Any, ...]) -> None:
        """Take down a step that gives packed numbers, whose record has the shape of the samples."""
        self._finish(record, result)
        first = record.outputs[0].index
        record.shapes[first] = tuple(int(n) for n in shape)
        self._packed[id(result[0])] = result[0], record.shapes[first]

    # Constants, and tensors that share memory.

    def _note_constant(self, name: str, args: Any, kwargs: Any, result: Any) -> Any:
        """Remember how a constant was made, in case that it changes with the size of the batch."""
        if name in EMPTY:
            name, result = name.replace("empty", "zeros"), result.zero_()
        changed = isinstance(result, self.torch.Tensor) and any(result is x for x in args)
        if name in PARTING and isinstance(args[0], self.torch.Tensor):
            self._note_parts(name, args, kwargs, result)
        if isinstance(result, self.torch.Tensor) and not changed:
            self._made[id(result)] = result, _version(result), name, args, kwargs
            self._note_view(name, result, args, kwargs)
        return result

    def _note_parts(self, name: str, args: Any, kwargs: Any, parts: Any) -> None:
        """Remember of the parts of a constant that each is one by itself."""
        given = dict(zip(("dim",) if name == "unbind" else ("sizes", "dim"), args[1:], strict=False)) | kwargs
        dim, start = given.get("dim", 0), 0
        for number, part in enumerate(parts):
            if name == "unbind":
                self._made[id(part)] = part, _version(part), "select", (args[0], dim, number), {}
            else:
                length = part.shape[dim]
                self._made[id(part)] = part, _version(part), "narrow", (args[0], dim, start, length), {}
                start += length

    def _note_view(self, name: str, result: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Note that a tensor shares its memory with another one."""
        tensor = self.torch.Tensor
        if name not in VIEWS or not isinstance(result, tensor) or not isinstance(args[0], tensor):
            return
        whole = args[0] if args[0]._base is None else args[0]._base
        if result is not args[0] and result._base is whole and not _holds_tensor(tensor, (args[1:], kwargs)):
            rest = self._encode(tuple(args[1:])), self._encode(kwargs)
            self._views[id(result)] = _View(result, args[0], name, *rest)

    def _above(self, tensor: Any) -> list[tuple[_View, Ref]]:
        """The tensors of which one that is about to change is a part, as they are before that."""
        views = []
        view = self._views.get(id(tensor))
        while view is not None:
            views.append((view, self._ref(view.parent)))
            view = self._views.get(id(view.parent))
        return views

    def _change(self, view: _View, parent: Ref) -> None:
        """Write a part that has changed back to the tensor that it belongs to."""
        part = self._live[id(view.tensor)].ref
        record = Record("function", "__setitem__", self.place(), detached=not self.torch.is_grad_enabled())
        shape = tuple(int(n) for n in view.parent.shape)
        if view.function in RESHAPES:
            record.target, record.args = "reshape", (part, shape)
        elif view.function == "transpose":
            record.target, record.args, record.kwargs = "transpose", (part, *view.args), view.kwargs
        elif view.function == "permute":
            order = view.args[0] if view.args and isinstance(view.args[0], (tuple, list)) else view.args
            order = [axis % len(shape) for axis in (order or view.kwargs["dims"])]
            record.target, record.args = "permute", (part, tuple(order.index(axis) for axis in range(len(shape))))
        else:
            record.args = (parent, _key(view, len(shape)), part)
        record.outputs = self._bind(view.parent, record, record.detached)
        self.records.append(record)

    def _seen_again(self, tensor: Any) -> Ref:
        """A part of a tensor that has changed since it was taken."""
        view = self._views[id(tensor)]
        record = Record("function", view.function, self.place(), (self._ref(view.parent), *view.args), view.kwargs)
        record.outputs = self._bind(tensor, record, detached=False)
        self.records.append(record)
        return self._live[id(tensor)].ref

    def _is_part(self, target: Any, key: Any, value: Any) -> bool:
        """True for what ``x[key] += y`` does last: it assigns a part of x that has changed in place to itself."""
        if id(target) not in self._live or not isinstance(value, self.torch.Tensor) or id(value) not in self._views:
            return False
        part = target[key]
        same = (part.data_ptr(), part.shape, part.stride()) == (value.data_ptr(), value.shape, value.stride())
        return same and self._live[id(target)].version == _version(target)

    # Functions with a backward pass of their own.

    def _custom(self, function: Any, apply: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A torch.autograd.Function by the steps of its forward pass, if these have the gradient that its backward gives."""
        if threading.get_ident() != self._thread or self._paused or not self._any_live((args, kwargs)):
            return apply(*args, **kwargs)
        self._paused += 1
        try:
            agree = self._has_gradient_of_steps(function, apply, args, kwargs)
        finally:
            self._paused -= 1
        if not agree:
            raise refusal(
                f"{function.__name__}, a torch.autograd.Function, has a backward pass of its own, which cannot be converted",
                self.place(),
                "Write it with operations of PyTorch, or as an nn.Function here.",
            )
        return _by_steps(self.torch, function, args, kwargs)

    def _has_gradient_of_steps(self, function: Any, apply: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        torch = self.torch
        trials: list[list[Any]] = []
        for run in (apply, lambda *a, **k: _by_steps(torch, function, a, k)):
            leaves = [
                x.detach().clone().requires_grad_(x.is_floating_point()) if isinstance(x, torch.Tensor) else x
                for x in args
            ]
            wanted = [x for x in leaves if isinstance(x, torch.Tensor) and x.requires_grad]
            try:
                with torch.random.fork_rng(devices=[]):  # the same random numbers in both trials
                    torch.manual_seed(0)
                    # Not the leaves themselves, which must not change in place.
                    result = run(*(x.clone() if isinstance(x, torch.Tensor) else x for x in leaves), **kwargs)
            except Exception:
                return False
            results = [
                y for y in (result if isinstance(result, (tuple, list)) else [result]) if isinstance(y, torch.Tensor)
            ]
            generator = torch.Generator().manual_seed(1)
            pairs = [(y, torch.randn(y.shape, generator=generator).to(y.dtype)) for y in results if y.requires_grad]
            if not pairs or not wanted:
                trials.append([])
                continue
            try:
                gradients = torch.autograd.grad([y for y, _ in pairs], wanted, [c for _, c in pairs], allow_unused=True)
            except RuntimeError:  # such as one about a tensor that has changed in place
                return False
            trials.append([torch.zeros_like(x) if g is None else g for g, x in zip(gradients, wanted, strict=True)])
        if len(trials[0]) != len(trials[1]):
            return False
        return all(
            bool((a - b).abs().max() <= 1e-4 * b.abs().max().clamp_min(1e-6)) if a.numel() else True
            for a, b in zip(*trials, strict=True)
        )

    def _set_attribute(self, function: Any, tensor: Any, value: Any) -> None:
        """``x.requires_grad = True`` says what holds anyway, as does ``x.data = x.data``, which ``module.to`` ends in."""
        name = function.__self__.__name__
        if name == "data" and (value.data_ptr(), value.shape, value.dtype) == (
            tensor.data_ptr(),
            tensor.shape,
            tensor.dtype,
        ):
            return
        if name != "requires_grad" or not value:
            raise refusal(
                f"x.{name} = ... changes a tensor in a way that cannot be converted",
                self.place(),
                "Compute another tensor instead, or take that line out of forward.",
            )

    def _finish(self, record: Record, result: Any) -> Any:
        """Record a step and return its result, a separate tensor even where the function returns its argument."""
        known = self._live.get(id(result))
        if known is not None and known.version == _version(
            result
        ):  # as a dropout does, in one mode and not in the other
            self._paused += 1
            result = result.view_as(result)
            self._paused -= 1
        record.place = self.place()
        record.detached = not self.torch.is_grad_enabled()
        record.outputs = self._bind(result, record, record.detached)
        self.records.append(record)
        return result

    def _bind(self, result: Any, record: Record, detached: bool) -> Any:
        """Refs for the tensors of a result."""
        if isinstance(result, self.torch.Tensor):
            ref = Ref(self._count)
            self._count += 1
            self._live[id(result)] = _Known(result, ref, _version(result), detached)
            record.shapes[ref.index] = tuple(int(n) for n in result.shape)
            record.dtypes[ref.index] = _letter(result)
            if result.is_floating_point():
                self._spacing = max(self._spacing, self.torch.finfo(result.dtype).eps)
            return ref
        if isinstance(result, (tuple, list)):
            return tuple(self._bind(part, record, detached) for part in result)
        return result

    # Arguments.

    def _is_live(self, tensor: Any) -> bool:
        """True for a tensor that depends on inputs or parameters, also where it is part of one that came to depend on them."""
        while id(tensor) not in self._live and id(tensor) not in self._parameters:
            if id(tensor) not in self._views:
                return False
            tensor = self._views[id(tensor)].parent
        return True

    def _any_live(self, given: Any) -> bool:
        if isinstance(given, self.torch.Tensor):
            return self._is_live(given)
        if isinstance(given, (tuple, list)):
            return any(map(self._any_live, given))
        if isinstance(given, dict):
            return any(map(self._any_live, given.values()))
        return False

    def _has_tensor(self, result: Any) -> bool:
        if isinstance(result, (tuple, list)):
            return any(map(self._has_tensor, result))
        return isinstance(result, self.torch.Tensor)

    def _encode(self, given: Any) -> Any:
        """Arguments with Refs in place of tensors, and nothing of PyTorch in them."""
        torch = self.torch
        if isinstance(given, torch.Tensor):
            return self._ref(given)
        if isinstance(given, slice):
            return slice(self._encode(given.start), self._encode(given.stop), self._encode(given.step))
        if isinstance(given, (tuple, list)):
            parts = [self._encode(part) for part in given]
            return parts if isinstance(given, list) else tuple(parts)
        if isinstance(given, Mapping):
            return {name: self._encode(part) for name, part in given.items()}
        if given is None or given is Ellipsis or isinstance(given, (bool, int, float, complex, str)):
            return given
        if isinstance(given, (torch.dtype, torch.device, torch.layout, torch.memory_format)):
            return Kind(str(given))
        if isinstance(given, np.generic):
            return given.item()
        raise refusal(
            f"an object of class {type(given).__name__} is an argument that cannot be converted", self.place()
        )

    def _ref(self, tensor: Any) -> Ref:
        known = self._live.get(id(tensor))
        view = self._views.get(id(tensor))
        if view is not None and (known is None or known.version != _version(tensor)) and self._is_live(view.parent):
            return self._seen_again(tensor)
        if known is not None:
            if known.version != _version(tensor):
                raise refusal(
                    "a tensor is used here that was changed in place through another view of it",
                    self.place(),
                    "Write that change without the underscore, x = x.add(...), or join parts with torch.cat.",
                )
            return known.ref
        for kind, names in (("parameter", self._parameters), ("buffer", self._buffers)):
            if id(tensor) in names:
                return self._source(kind, names[id(tensor)], tensor)
        return self._constant(tensor)

    def _source(self, kind: str, name: str, tensor: Any) -> Ref:
        if name not in self._sources:
            self._sources[name] = self._new(Record(kind, name), tensor)
        return self._sources[name]

    def _constant(self, tensor: Any) -> Ref:
        if tensor.requires_grad:
            raise refusal(
                "a tensor is used here that depends on inputs or parameters in a way that cannot be seen, or that is a parameter "
                "which the module does not hold",
                self.place(),
                "Assign parameters to attributes of the module, and compute with functions of PyTorch.",
            )
        key = id(tensor), _version(tensor)
        if key not in self._constants:
            record = Record("constant", "", self.place(), array=array_of(tensor), recipe=self._recipe(tensor))
            self._constants[key] = tensor, self._new(record, tensor)
        return self._constants[key][1]

    def _recipe(self, tensor: Any) -> Recipe | None:
        made = self._made.get(id(tensor))
        if made is None or made[1] != _version(tensor):
            return None
        _, _, name, args, kwargs = made
        try:
            return Recipe(name, self._ingredients(args), self._ingredients(kwargs), array_of(tensor), _letter(tensor))
        except Unsupported:
            return None

    def _ingredients(self, given: Any) -> Any:
        """Arguments with recipes, or arrays, in place of tensors."""
        if isinstance(given, self.torch.Tensor):
            recipe = self._recipe(given)
            return Recipe("", (), {}, array_of(given), _letter(given)) if recipe is None else recipe
        if isinstance(given, (tuple, list)):
            parts = [self._ingredients(part) for part in given]
            return parts if isinstance(given, list) else tuple(parts)
        if isinstance(given, Mapping):
            return {name: self._ingredients(part) for name, part in given.items()}
        return self._encode(given)

    def _new(self, record: Record, tensor: Any) -> Ref:
        ref = Ref(self._count)
        self._count += 1
        record.outputs = ref
        record.shapes[ref.index] = tuple(int(n) for n in tensor.shape)
        record.dtypes[ref.index] = _letter(tensor)
        self.records.append(record)
        return ref

    # Names and places.

    def _name(self, function: Any) -> str:
        """``relu`` for torch.relu and Tensor.relu, ``F.relu`` for torch.nn.functional.relu."""
        name = str(getattr(function, "__name__", type(function).__name__))
        if name == "__get__":
            return str(function.__self__.__name__)
        functional = self.torch.nn.functional
        known = (
            getattr(functional, name, None) is function or getattr(function, "__module__", "") == functional.__name__
        )
        name = f"F.{name}" if known else name
        family = next((family for family in FAMILIES if name.startswith(family)), "")
        return WRITTEN.get(name, f"{family[:-1]}.{name.removeprefix(family)}" if family else name)

    def place(self) -> Place:
        frame: Any = sys._getframe(1)
        while frame is not None and frame.f_code is not Recorder.run.__code__:
            if not frame.f_code.co_filename.startswith(self._folders):
                return self._place(frame.f_code.co_filename, frame.f_lineno)
            frame = frame.f_back
        return self._place()

    def place_of(self, error: BaseException) -> Place:
        """The last line that is neither PyTorch's nor ours on the way to an error."""
        frames = [
            (frame.f_code.co_filename, line)
            for frame, line in traceback.walk_tb(error.__traceback__)
            if not frame.f_code.co_filename.startswith(self._folders)
        ]
        return self._place(*frames[-1]) if frames else self._place()

    def _place(self, file: str = "", line: int = 0) -> Place:
        module = self._stack[-1]
        path = self._paths.get(id(module), "")
        shown = f"{path} ({type(module).__name__})" if path else type(module).__name__
        return Place(shown, file, line, linecache.getline(file, line).strip() if file else "")


def full_name(name: str) -> str:
    """The name of a function or method as it is written: ``F.relu``, ``torch.fft_fft``, ``x[...]``."""
    if name.startswith("F."):
        return f"torch.nn.functional.{name[2:]}"
    return f"Tensor.{name}" if name.startswith("__") or name.endswith("_") else f"torch.{name}"


def array_of(tensor: Any) -> Any:
    """The numbers of a tensor in NumPy, as they are now; complex ones are pairs."""
    plain = tensor.detach().cpu()
    if plain.is_complex():
        plain = plain.resolve_conj().contiguous()
        plain = plain.view(plain.real.dtype).reshape(*plain.shape, 2)
    if plain.is_floating_point():
        plain = plain.float()
    return np.array(plain.numpy(), order="C")


def _version(tensor: Any) -> int:
    try:
        return int(tensor._version)
    except RuntimeError:  # made in inference mode, where nothing counts
        return 0


def _letter(tensor: Any) -> str:
    name = str(tensor.dtype)
    return "b" if name == "torch.bool" else "f" if tensor.is_floating_point() else "c" if "complex" in name else "i"


def _mode(torch: Any, seen: Callable[..., Any]) -> Any:
    """In the block, every function of PyTorch goes through ``seen``."""

    class Mode(torch.overrides.TorchFunctionMode):  # type: ignore[misc, name-defined, unused-ignore]
        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return seen(function, args, kwargs or {})

    return Mode()


def _without_dispatch(function: Any) -> Any:
    """A function of PyTorch that does not ask whether someone else wants to run it; those that it calls do."""
    asking = ("has_torch_function", "has_torch_function_unary", "has_torch_function_variadic")
    names = function.__globals__ | dict.fromkeys(asking, lambda *_: False)
    plain = types.FunctionType(function.__code__, names, function.__name__, function.__defaults__, function.__closure__)
    plain.__kwdefaults__ = function.__kwdefaults__
    return plain


class _Context:
    """The context of a torch.autograd.Function; what its forward pass saves for the backward pass is not needed here."""

    needs_input_grad: tuple[bool, ...] = ()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *args, **kwargs: None


def _by_steps(torch: Any, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The forward pass of a torch.autograd.Function, as a function."""
    context = _Context()
    context.needs_input_grad = tuple(bool(getattr(x, "requires_grad", False)) for x in args)
    apart = function.setup_context is not torch.autograd.Function.setup_context
    return function.forward(*args, **kwargs) if apart else function.forward(context, *args, **kwargs)


def _key(view: _View, rank: int) -> Any:
    """The index that names the same part of a tensor as a view."""
    if view.function == "__getitem__":
        return view.args[0]
    named = (
        dict(zip(("dim", "start" if view.function == "narrow" else "index", "length"), view.args, strict=False))
        | view.kwargs
    )
    front = (slice(None),) * (named["dim"] % rank)
    if view.function == "select":
        return (*front, named["index"])
    return (*front, slice(named["start"], named["start"] + named["length"]))


def _holds_tensor(tensor: Any, given: Any) -> bool:
    if isinstance(given, (tuple, list)):
        return any(_holds_tensor(tensor, part) for part in given)
    if isinstance(given, dict):
        return any(_holds_tensor(tensor, part) for part in given.values())
    return isinstance(given, tensor)


def _is_assertion(place: Place) -> bool:
    """True if a line belongs to an assertion, which decides about nothing but whether there is a result."""
    try:
        tree = ast.parse("".join(linecache.getlines(place.file)))
    except SyntaxError:
        return False
    return any(
        isinstance(node, ast.Assert) and node.lineno <= place.line <= (node.end_lineno or node.lineno)
        for node in ast.walk(tree)
    )
