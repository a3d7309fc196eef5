"""What the ``forward`` of a PyTorch module does on a batch, step by step.

The module runs on real tensors while a ``TorchFunctionMode`` sees every function of PyTorch that it calls. In contrast to a
symbolic trace, all Python code works: loops over sizes, assertions, tests of types. Code that looks at the numbers of a
tensor is refused, because its result would hold for this batch alone.
"""

from __future__ import annotations

import inspect
import linecache
import os
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .errors import Place, Unsupported, refusal

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
    "linalg_norm": "linalg.norm", "linalg_vector_norm": "linalg.vector_norm",
}  # fmt: skip
FILLING = {"bernoulli_", "uniform_", "normal_"}  # a tensor, whatever was in it
RANDOM = {"randn", "rand", "randn_like", "rand_like", "bernoulli", "normal", "randint", "randperm", *FILLING}


@dataclass(frozen=True)
class Ref:
    """A tensor of the record, by number."""

    index: int


@dataclass(frozen=True)
class Kind:
    """A data type, a device or another option that is no number."""

    name: str


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
    detached: bool = False  # ran under torch.no_grad()


@dataclass
class Trace:
    """All steps of one run, and its result with Refs in place of tensors."""

    records: list[Record]
    result: Any
    left_out: dict[str, str] = field(default_factory=dict)  # parts of the result that are no tensors: names and classes


@dataclass
class _Known:
    tensor: Any
    ref: Ref
    version: int
    detached: bool


class Recorder:
    """Runs a module and takes down what it does. ``leaf`` says which modules are taken down as one step."""

    def __init__(self, torch: Any, root: Any, leaf: Callable[[Any], bool]) -> None:
        self.torch, self.root, self.leaf = torch, root, leaf
        self.records: list[Record] = []
        self._paths = {id(module): path for path, module in root.named_modules()}
        self._parameters = {id(p): name for name, p in root.named_parameters()}
        self._buffers = {id(b): name for name, b in root.named_buffers()}
        # Tensors stay alive as long as we know them, so that no other one gets their identity.
        self._live: dict[int, _Known] = {}
        self._constants: dict[tuple[int, int], tuple[Any, Ref]] = {}
        self._sources: dict[str, Ref] = {}  # parameters and buffers that were used
        self._stack: list[Any] = [root]
        self._paused = 0
        self._count = 0
        self._thread = threading.get_ident()
        self._folders = (os.path.dirname(torch.__file__), os.path.dirname(__file__))

    def run(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Trace:
        """Call the module on tensors whose first axis is the batch."""
        given = [*args, *kwargs.values()]
        for number, tensor in enumerate(given):
            record = Record("input", str(number))
            record.outputs = self._bind(tensor, record, detached=False)
            self.records.append(record)
        with _mode(self.torch, self._function), self._patched():
            result = self.root(*args, **kwargs)
        left_out: dict[str, str] = {}
        return Trace(self.records, self._result(result, "", left_out), left_out)

    def _result(self, given: Any, name: str, left_out: dict[str, str]) -> Any:
        """What forward gives, with Refs in place of tensors and None in place of what is no tensor."""
        if isinstance(given, self.torch.Tensor):
            return self._ref(given)
        if isinstance(given, Mapping):
            return {key: self._result(part, f"{name}[{key!r}]", left_out) for key, part in given.items()}
        if isinstance(given, (tuple, list)):
            parts = [self._result(part, f"{name}[{i}]", left_out) for i, part in enumerate(given)]
            return parts if isinstance(given, list) else tuple(parts)
        if not (given is None or isinstance(given, (bool, int, float, str))):
            left_out[name] = type(given).__name__
        return None

    @contextmanager
    def _patched(self) -> Any:
        """Calls of modules come to us, as torch.fx does it; code that avoids looking at numbers in an export does so."""
        base, compiler = self.torch.nn.Module, self.torch.compiler
        original, exporting = base.__call__, compiler.is_exporting
        recorder = self

        def call(module: Any, *args: Any, **kwargs: Any) -> Any:
            return recorder._module(module, original, args, kwargs)

        base.__call__, compiler.is_exporting = call, lambda: True
        try:
            yield
        finally:
            base.__call__, compiler.is_exporting = original, exporting

    # Modules.

    def _module(self, module: Any, original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if threading.get_ident() != self._thread or self._paused:
            return original(module, *args, **kwargs)
        self._stack.append(module)
        try:
            if id(module) not in self._paths or not self.leaf(module):
                return original(module, *args, **kwargs)
            record = Record("module", self._paths[id(module)])
            bound = inspect.signature(module.forward).bind(*args, **kwargs)
            record.args, record.kwargs = self._encode(bound.args), self._encode(bound.kwargs)
            self._paused += 1
            try:
                result = original(module, *args, **kwargs)
            finally:
                self._paused -= 1
            return self._finish(record, result) if self._has_tensor(result) else result
        finally:
            self._stack.pop()

    # Functions.

    def _function(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self._paused or threading.get_ident() != self._thread:
            return function(*args, **kwargs)
        self._paused += 1
        try:
            name = self._name(function)
            bare = name.removeprefix("F.")
            if not self._any_live((args, kwargs)) and bare not in RANDOM:
                return function(*args, **kwargs)
            if bare in READING:
                raise refusal(
                    f"{name} turns numbers of a tensor into Python's, so that the network depends on them",
                    self.place(),
                    "Choose with torch.where, or take that part out of forward.",
                )
            if name == "__set__":
                self._set_attribute(function, *args)
                return None
            if name == "__setitem__":
                self._expect_change(*args)
            record, error = Record("function", name), None
            try:
                given = args[1:] if bare in FILLING else args
                record.args, record.kwargs = self._encode(given), self._encode(kwargs)
            except Unsupported as problem:  # which does not matter to a function that looks at sizes alone
                error = problem
            if name == "__iter__":  # which hides its tensors
                record.target, function = "unbind", self.torch.Tensor.unbind
            result = function(*args, **kwargs)
            made = args[0] if name == "__setitem__" else result  # which changes a tensor and gives nothing
            if bare not in BY_SIZE and self._has_tensor(made):
                if error is not None:
                    raise error
                made = self._finish(record, made)
                result = result if name == "__setitem__" else made
            return iter(result) if name == "__iter__" else result
        finally:
            self._paused -= 1

    def _set_attribute(self, function: Any, tensor: Any, value: Any) -> None:
        """``x.requires_grad = True`` says what holds anyway, here as in a training of the network."""
        name = function.__self__.__name__
        if name != "requires_grad" or not value:
            raise refusal(
                f"x.{name} = ... changes a tensor in a way that cannot be taken over",
                self.place(),
                "Compute another tensor instead, or take that line out of forward.",
            )

    def _expect_change(self, target: Any, key: Any, value: Any) -> None:
        """``x[key] += y`` changes that part of x in place and then assigns it: all else of x is as it was."""
        known = self._live.get(id(target))
        if known is None or id(value) not in self._live or _version(value) != known.version + 1:
            return
        part = target[key]
        if part.data_ptr() == value.data_ptr() and (part.shape, part.stride()) == (value.shape, value.stride()):
            known.version += 1

    def _finish(self, record: Record, result: Any) -> Any:
        """Take a step down; gives its result, which is a tensor of its own even where a function gives back its argument."""
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
            return ref
        if isinstance(result, (tuple, list)):
            return tuple(self._bind(part, record, detached) for part in result)
        return result

    # Arguments.

    def _any_live(self, given: Any) -> bool:
        if isinstance(given, self.torch.Tensor):
            return id(given) in self._live or id(given) in self._parameters
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
        if given is None or given is Ellipsis or isinstance(given, (bool, int, float, str)):
            return given
        if isinstance(given, (torch.dtype, torch.device, torch.layout, torch.memory_format)):
            return Kind(str(given))
        if isinstance(given, np.generic):
            return given.item()
        raise refusal(f"an object of class {type(given).__name__} is no argument that can be taken over", self.place())

    def _ref(self, tensor: Any) -> Ref:
        known = self._live.get(id(tensor))
        if known is not None:
            if known.version != _version(tensor):
                raise refusal(
                    "a tensor is used here that was changed in place through another view of it",
                    self.place(),
                    "Write that change without the underscore, x = x.add(...), or join parts with torch.cat.",
                )
            if known.detached and tensor.requires_grad:
                raise refusal(
                    "a torch.autograd.Function has a backward pass of its own, which cannot be taken over",
                    self.place(),
                    "Write it with operations of PyTorch, or as an nn.Function here.",
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
            record = Record("constant", "", self.place(), array=array_of(tensor))
            self._constants[key] = tensor, self._new(record, tensor)
        return self._constants[key][1]

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
        return WRITTEN.get(name, name)

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


def array_of(tensor: Any) -> Any:
    """The numbers of a tensor in NumPy, as they are now."""
    plain = tensor.detach().cpu()
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


@contextmanager
def _mode(torch: Any, seen: Callable[..., Any]) -> Any:
    """While this lasts, every function of PyTorch goes through ``seen``."""

    class Mode(torch.overrides.TorchFunctionMode):  # type: ignore[misc, name-defined, unused-ignore]
        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return seen(function, args, kwargs or {})

    with Mode():
        yield
