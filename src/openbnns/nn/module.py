"""Networks: modules that hold parameters and other modules, and run forward and backward.

A module describes its work by calling other modules on values in ``forward``::

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.act, self.two = nn.Linear(64), nn.ReLU(), nn.Linear(64)

        def forward(self, x):
            return x + self.two(self.act(self.one(x)))

Layers with given sizes have their parameters from the start, others from the first call on an array, which tells the sizes.
From then on, calls reuse memory that is planned once per batch size.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import wraps
from inspect import BoundArguments, Signature, signature
from textwrap import indent
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, TypeVar, overload

import numpy as np

from .. import engines
from .._flags import flag, with_flags
from .._listing import public
from .._plural import plural
from .._spelling import nearest, spelled
from ..graph.graph import current_graph
from ..graph.memory import Arena
from ..graph.parameter import Mismatch, Parameter, as_float_array, making, requiring_gradients
from ..graph.program import Program
from ..graph.seeds import seed_number
from ..graph.sizes import AnySize, FreeSizes, is_same_shape
from ..graph.structure import Structure, flatten
from ..graph.tensor import Array, Tensor
from . import turns
from .nested_arrays import is_plain
from .recording import Recording, Shapes, input_shapes, recording_of
from .turns import Worker, this_worker

if TYPE_CHECKING:
    from .compiled_step import CompiledStep
    from .exported import Package, Written
    from .files.model_file import ModelCard
    from .inference import CompiledInference
    from .optimizers import Optimizer, OptimizerName
    from .predictions import Predictions
    from .profiling import Profile, Summary

_SomeModule = TypeVar("_SomeModule", bound="Module")

_NOT_NEEDED = "Leave it out: everything computes in float32 on the CPU."
_ELSEWHERE = {
    "to": _NOT_NEEDED,
    "cpu": _NOT_NEEDED,
    "cuda": _NOT_NEEDED,
    "float": _NOT_NEEDED,
    "double": f"{_NOT_NEEDED} openbnns.engine('reference') computes in float64, to compare.",
    "half": _NOT_NEEDED,
    "type": _NOT_NEEDED,
    "register_forward_hook": "Return what you want to see from forward, as an additional output.",
    "register_full_backward_hook": "Read the grad of parameters after backward, or use an nn.Callback.",
    "fit": "Write nn.Trainer(net, loss, optimizer).fit(x, y, epochs=...).",
    "compile": "Write nn.Trainer(net, loss, optimizer); networks are compiled automatically.",
}

_PROGRAMS = 4  # programs for training that one recording keeps
_SOME_SAMPLES = 7  # the batch size to record with if none is known; other sizes are rarely 7
_PLAIN = (bool, int, float, complex, str, bytes, type(None))


def _nothing_built() -> dict[str, Any]:
    """The state of a network that has no recordings and calls yet."""
    return {
        "_built": None,  # the first recording of the present version
        "_recordings": [],  # recordings of the present version, the latest at the end
        # The same by training and shapes of the inputs, as long as no mode and no choice of arithmetic changes, each with the
        # arithmetic around the call that it was looked up for.
        "_recordings_by_shapes": {},
        "_forward_version": object(),  # replaced as soon as something changes that ``forward`` may have read
        "_latest": None,  # the latest pass in training mode, until its backward pass
        "_overtaken": weakref.WeakKeyDictionary(),  # threads whose pass in training mode another one has ended
        "_arena": Arena(),  # memory of programs for training
        "_calls": [],  # forms of calls other than arrays in a row: arguments.py
        "_holders": {},  # built networks that contain it, itself included, by identity
    }


_NOT_COPIED = frozenset((*_nothing_built(), "_turn"))
_NEVER_READ = _NOT_COPIED | {"_accuracy", "_card", "_frozen", "_made_with", "_precision", "_programs_kept", "_who"}
"""Attributes that ``forward`` does not read."""


def _shapes(arrays: Sequence[Array]) -> Shapes:
    return tuple(array.shape for array in arrays)


class TrainingPass(NamedTuple):
    """A forward pass in training mode, the structure of its outputs, and the thread that made it."""

    program: Program
    structure: Structure
    worker: Worker


class Module:
    """Base of all networks and layers. A subclass makes its parts in ``__init__`` and joins them in ``forward``.

    ``module(x)`` runs it on an array (N, ...); ``module.backward(dy)`` gives the gradient of x and fills every ``grad``.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> class Twice(nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.linear = nn.Linear(3, bias=False)
    ...     def forward(self, x):
    ...         return x + self.linear(self.linear(x))
    >>> net = Twice().build((3,), seed=0)
    >>> y = net(np.ones((5, 3), np.float32))
    >>> net.backward(y).shape, [name for name, parameter in net.named_parameters()]
    ((5, 3), ['linear.weight'])
    """

    _unlisted: ClassVar[frozenset[str]] = frozenset({"program"})  # public names that users do not need
    _programs_kept = _PROGRAMS
    _frozen = False  # whether it is a copy for inference only: see compile_inference
    _most_samples: int | None = None  # that a call takes, if it does not take any number
    _why_few = ""  # samples are taken at a time, for messages
    _budget: Any = None  # for the parameters of a network that a file describes
    _names_nodes: ClassVar[bool] = False  # whether its ``forward`` names what it calls, as the nodes of a file
    _is_container: ClassVar[bool] = False  # whether it is nothing but the modules it holds, which may be replaced

    def __init__(self) -> None:
        self.__dict__.update(_children={}, _parameters={}, _buffers={}, _training=True)
        self._forget_recordings()
        self._accuracy: str | None = None  # accuracy of its filters; None: that of the process
        self._precision = engines.FLOAT32  # of products in its filters
        self._who = type(self).__name__  # in messages about calls
        self._card: Any = None  # what a model file says about it

    _children: dict[str, Module]
    _parameters: dict[str, Parameter]
    _buffers: dict[str, Array]
    _training: bool
    _built: Recording | None
    _latest: TrainingPass | None
    _overtaken: weakref.WeakKeyDictionary[Worker, str]
    _arena: Arena
    _calls: list[Any]
    _recordings: list[Recording]
    _recordings_by_shapes: dict[tuple[bool, Shapes], tuple[engines.Arithmetic, Recording]]
    _forward_version: object
    _holders: dict[int, weakref.ref[Module]]

    def _forget_recordings(self) -> None:
        """Forget everything that was built."""
        self.__dict__.update(_nothing_built())

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if cls.__module__.startswith("openbnns."):
            for name in {"__init__", "forward"} & cls.__dict__.keys():
                setattr(cls, name, with_flags(cls.__dict__[name], spelled(cls.__dict__[name])))
            if "__init__" in cls.__dict__:
                cls.__init__ = _noted(cls.__dict__["__init__"])  # type: ignore[method-assign]

    # Description.

    def forward(self, *inputs: Any) -> Any:
        """Join the parts: values in, a value out, or several. Recorded once, not run at every call."""
        raise NotImplementedError(f"{type(self).__name__} has no forward(). Define it: values in, a value out.")

    def extra_repr(self) -> str:
        """The text that ``repr`` shows between the brackets."""
        return ""

    # Parts and attributes.

    def add_module(self, name: str, module: Module) -> None:
        """The same as assigning to an attribute of that name, for names that are computed."""
        check_module(module, f"{type(self).__name__}.add_module: {name}")
        setattr(self, name, module)

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """The same as assigning to an attribute of that name, for names that are computed."""
        if not isinstance(param, (Parameter, type(None))):
            raise TypeError(
                f"{type(self).__name__}.register_parameter: {name} is a {type(param).__name__}. Pass an nn.Parameter."
            )
        setattr(self, name, param)

    def register_buffer(self, name: str, array: Array) -> None:
        """Keep an array that is saved with the parameters but not trained, such as a moving mean."""
        self._buffers[name] = array
        super().__setattr__(name, array)

    if not TYPE_CHECKING:  # so that misspelled attributes of networks are found before they run

        def __getattr__(self, name: str) -> Any:
            children = self.__dict__.get("_children", {})
            if name in children:
                return children[name]
            who = type(self).__name__
            if name.startswith("__") or "_children" not in self.__dict__:
                raise AttributeError(f"{who} has no attribute {name!r}", name=name, obj=self)
            hint = f" {_ELSEWHERE[name]}" if name in _ELSEWHERE else nearest(name, public(dir(self)))
            raise AttributeError(f"{who} has no attribute {name!r}.{hint}", name=name)

    def __dir__(self) -> list[str]:
        named = [name for name in self._children if name.isidentifier()]
        return public([*super().__dir__(), *named], type(self)._unlisted)

    def __setattr__(self, name: str, value: Any) -> None:
        if "_children" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__}.{name}: call super().__init__() first in __init__.")
        old = self.__dict__.get(name, self)
        if name == "training":
            super().__setattr__(name, value)
            return
        if isinstance(value, Parameter):
            self._children.pop(name, None)
            self._replace(self._parameters, name, value)
        elif isinstance(value, Module):
            self._parameters.pop(name, None)
            self._replace(self._children, name, value)
        elif name in self._parameters:
            if value is not None:
                raise TypeError(
                    f"{type(self).__name__}.{name} is a Parameter. To change its values, assign to {name}.data; to "
                    "replace it, assign another nn.Parameter."
                )
            self._replace(self._parameters, name, None)
        elif name in self._children:
            if value is not None:
                raise TypeError(
                    f"{type(self).__name__}.{name} is a module, but {value!r} is not. To replace it, assign another module; "
                    "to remove it, None."
                )
            self._replace(self._children, name, None)
        elif name in self._buffers:
            if current_graph() is not None:
                raise TypeError(
                    f"{type(self).__name__}.{name} is a buffer, and forward assigns to it. forward is recorded once, and the "
                    f"recording runs for every batch, so that this would happen once. Return the new value as a further output, "
                    f"and assign it after the call, net.{name} = value; or use nn.BatchNorm1d and its siblings, which keep "
                    "running statistics."
                )
            self._buffers[name][...] = value  # filters hold its memory
            return
        super().__setattr__(name, value)
        if self._holders and self._is_read(name) and not _is_same(old, value):
            self._changed()

    def __delattr__(self, name: str) -> None:
        tables: list[dict[str, Any]] = [self._parameters, self._children, self._buffers]
        held = [table for table in tables if name in table]
        for table in held:
            self._replace(table, name, None)
        if name in self.__dict__ or not held:
            super().__delattr__(name)
        self._changed()

    def _is_read(self, name: str) -> bool:
        """True if ``forward`` may read this attribute."""
        ours = type(self).__module__.startswith("openbnns.")
        return not (name.startswith("_") and (ours or name in _NEVER_READ))

    def _replace(self, parts: dict[str, Any], name: str, new: Any) -> None:
        """Put a part in its place, or with None remove it."""
        old = parts.get(name)
        attribute = old is not None and self.__dict__.get(name) is old
        if new is None:
            parts.pop(name, None)
            if attribute:
                del self.__dict__[name]
        else:
            parts[name] = new
            if attribute:
                self.__dict__[name] = new
        if old is not new:
            self._changed()

    def _changed(self) -> None:
        """Let the networks that hold this module record again at their next call."""
        for network in self._networks():
            network.__dict__["_forward_version"] = (
                object()
            )  # first, so that a thread that still finds a recording sees that it is outdated
            network.__dict__["_recordings_by_shapes"] = {}

    def _mode_changed(self) -> None:
        """Let the networks that hold this module look up the recording for its new mode."""
        for network in self._networks():
            network.__dict__["_recordings_by_shapes"] = {}

    def _networks(self) -> list[Module]:
        """The networks to notify of a change of this module; none while a ``forward`` makes the change."""
        if not self._holders or current_graph() is not None:
            return []
        return [network for network in (holder() for holder in list(self._holders.values())) if network is not None]

    def _held_by(self, network: Module) -> None:
        """Notify a network of every change from now on."""
        holders, key = self._holders, id(network)
        if key not in holders:
            holders[key] = weakref.ref(network, lambda _: holders.pop(key, None))

    def __getstate__(self) -> dict[str, Any]:
        """For copies and pickles: everything but what was built, which is made again from the shapes of the inputs."""
        state = {name: value for name, value in self.__dict__.items() if name not in _NOT_COPIED}
        return {**state, "_graph": None if self._built is None else input_shapes(self)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        own = dict(state)
        shapes = own.pop("_graph")
        self.__dict__.update(own)
        self._forget_recordings()
        if shapes is not None:
            recording_of(self, self._training, shapes)

    # Modules, parameters and buffers by path.

    def children(self) -> Iterator[Module]:
        """The modules that this one holds directly."""
        yield from self._children.values()

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """The modules that this one holds directly, with their names."""
        yield from self._children.items()

    def named_modules(self, prefix: str = "") -> Iterator[tuple[str, Module]]:
        """This module and all below it, each once: ``("", self)``, ``("0", ...)``, ``("0.body", ...)``."""
        seen: set[Module] = set()
        for path, module in self._paths(prefix):
            if module not in seen:
                seen.add(module)
                yield path, module

    def _paths(self, prefix: str = "") -> Iterator[tuple[str, Module]]:
        """This module and all below it, under every path that leads to them."""
        yield prefix, self
        for name, child in self._children.items():
            yield from child._paths(f"{prefix}.{name}" if prefix else name)

    def modules(self) -> Iterator[Module]:
        """This module and all below it, each once."""
        for _, module in self.named_modules():
            yield module

    def named_parameters(self) -> Iterator[tuple[str, Parameter]]:
        """Every parameter once, with its first path, such as ``("0.weight", Parameter(...))``."""
        seen: set[int] = set()
        for path, module in self.named_modules():
            for name, parameter in module._parameters.items():
                if id(parameter) not in seen:
                    seen.add(id(parameter))
                    yield (f"{path}.{name}" if path else name), parameter

    def parameters(self) -> Iterator[Parameter]:
        """Every parameter once, for optimizers."""
        for _, parameter in self.named_parameters():
            yield parameter

    def named_buffers(self) -> Iterator[tuple[str, Array]]:
        """Arrays that are saved but not trained, with their paths."""
        for path, module in self.named_modules():
            for name, array in module._buffers.items():
                yield (f"{path}.{name}" if path else name), array

    def get_submodule(self, target: str) -> Module:
        """The module at a path such as ``"body.0"``; with ``""`` this one.

        >>> from openbnns import nn
        >>> nn.Sequential(nn.Sequential(nn.ReLU(), nn.Tanh()), nn.Linear(2)).get_submodule("0.1")
        Tanh()
        """
        part: Any = self
        for name in target.split(".") if target else []:
            if name not in part._children:
                known = ", ".join(map(repr, part._children)) or "no modules"
                raise AttributeError(
                    f"{type(self).__name__}.get_submodule: there is no {target!r}, as {type(part).__name__} has no {name!r}. "
                    f"It has {known}."
                )
            part = part._children[name]
        module: Module = part
        return module

    def get_parameter(self, target: str) -> Parameter:
        """The parameter at a path such as ``"body.0.weight"``."""
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        if name not in module._parameters:
            known = ", ".join(map(repr, module._parameters)) or "no parameters"
            raise AttributeError(
                f"{type(self).__name__}.get_parameter: there is no {target!r}, as {type(module).__name__} has no {name!r}. It "
                f"has {known}."
            )
        return module._parameters[name]

    def apply(self: _SomeModule, fn: Callable[[Any], object]) -> _SomeModule:
        """Call ``fn`` with every module, this one last; for example to set initial values of parameters.

        >>> from openbnns import nn
        >>> def begin(module):
        ...     if isinstance(module, nn.Linear):
        ...         module.bias.data[:] = 1
        >>> net = nn.Sequential(nn.Linear(3, 2), nn.ReLU()).apply(begin)
        >>> net[0].bias.data.tolist()
        [1.0, 1.0]
        """
        for child in self._children.values():
            child.apply(fn)
        fn(self)
        return self

    @spelled
    def zero_grad(self, set_to_none: bool = True) -> None:
        """Set every gradient to zero. Not needed before ``backward``, which overwrites.

        PyTorch's ``set_to_none`` is accepted and makes no difference: gradients keep their memory.
        """
        for parameter in self.parameters():
            if parameter.used:
                parameter.grad[...] = 0

    @spelled
    def requires_grad_(self: _SomeModule, requires_grad: bool = True) -> _SomeModule:
        """Train all parameters, or with False freeze them: they get neither gradients nor steps, but running statistics are
        still updated.

        >>> from openbnns import nn
        >>> net = nn.Sequential(nn.Linear(8), nn.ReLU(), nn.Linear(2))
        >>> frozen = net[0].requires_grad_(False)  # before it is built or after
        >>> [name for name, parameter in net.named_parameters() if parameter.requires_grad]
        ['2.weight', '2.bias']
        """
        for parameter in self.parameters():
            parameter.requires_grad = requires_grad
        return self

    # Modes.

    @property
    def training(self) -> bool:
        """The mode: true in training. Every module has its own mode, which may be set; ``train()`` sets those of all.

        ``backward`` works if the network itself is in training mode, whatever the modes of its parts.
        """
        graph = current_graph()
        return self._training if graph is None else graph.mode_of(self)

    @training.setter
    def training(self, mode: bool) -> None:
        training = flag(mode, f"{type(self).__name__}.training")
        if training != self._training:
            self.__dict__["_training"] = training
            self._mode_changed()

    def train(self: _SomeModule, mode: bool = True) -> _SomeModule:
        """Training mode, for this module and all below it: batch statistics, dropout, and what backward needs is kept.

        A part that is put into inference mode after that, with ``eval()``, stays in it: a batch normalization then uses its
        running statistics and leaves them as they are, a dropout passes everything on, and gradients go through both. To
        keep a part in it for good, override ``train``:

        >>> import numpy as np
        >>> from openbnns import nn
        >>> class Tuned(nn.Sequential):
        ...     def train(self, mode=True):
        ...         super().train(mode)
        ...         self[1].eval()
        ...         return self
        >>> net = Tuned(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Linear(3, 1)).train()
        >>> y = net(np.float32([[1, 2], [3, 4]]))
        >>> net.training, net[1].training, net[1].running_mean.tolist()
        (True, False, [0.0, 0.0, 0.0])
        """
        training = flag(mode, f"{type(self).__name__}.train: mode")
        self.training = training
        for child in self.children():
            child.train(training)
        return self

    def eval(self: _SomeModule) -> _SomeModule:
        """Inference mode, for this module and all below it: moving statistics, no dropout, less memory."""
        return self.train(False)

    def _chooses_modes(self) -> bool:
        return type(self).train is not Module.train or type(self).eval is not Module.eval

    # Weights.

    def state_dict(self) -> dict[str, Array]:
        """All parameters and buffers by path. The arrays are those of the network, not copies.

        Shared ones appear under each of their paths, as in PyTorch, with the same array.
        """
        self._require_built("state_dict")
        return {path: one.data if isinstance(one, Parameter) else one for path, one in self.named_state()}

    def named_state(self) -> Iterator[tuple[str, Parameter | Array]]:
        """All parameters and buffers under every one of their paths."""
        for path, module in self._paths():
            start = f"{path}." if path else ""
            yield from ((start + name, parameter) for name, parameter in module._parameters.items())
            yield from ((start + name, array) for name, array in module._buffers.items())

    def load_state_dict(self, arrays: Mapping[str, Any], *, strict: bool = True) -> list[str]:
        """Load weights by path; they are copied. A PyTorch ``state_dict`` of the same network fits as it is.

        Every mismatch is listed at once, and then nothing is changed. With ``strict=False`` missing and unknown names
        are allowed; they are returned. For a shared parameter one of its names is enough.
        """
        if not isinstance(arrays, Mapping):
            hint = " Pass its state_dict()." if isinstance(arrays, Module) else ""
            raise TypeError(f"load_state_dict: takes arrays by name, not a {type(arrays).__name__}.{hint}")
        self._require_built("load_state_dict")
        own = dict(self.named_state())
        shared = shared_names(own)
        given = {name: as_float_array(array) for name, array in arrays.items() if not _is_counter(name)}
        for name, array in given.items():
            if array.shape == () and name in own and own[name].shape == (1,):
                given[name] = array.reshape(1)  # a parameter that is a number has an axis here, and none in PyTorch
        unfit = [
            f"{name}: shape {given[name].shape} given, {own[name].shape} needed"
            for name in own
            if name in given and given[name].shape != own[name].shape
        ]
        unfit += [
            f"{' and '.join(same)}: one shared parameter of the network, but different values given"
            for same in ([name for name in names if name in given] for names in shared.values())
            if any(not np.array_equal(given[same[0]], given[name], equal_nan=True) for name in same[1:])
        ]
        names = [
            f"{name}: missing" for name, array in own.items() if not any(same in given for same in shared[id(array)])
        ]
        names += [f"{name}: not in the network" for name in given if name not in own]
        if unfit or (strict and names):
            wrong = unfit + (names if strict else [])
            raise Mismatch(
                f"load_state_dict: {plural(len(wrong), 'mismatch')}, nothing was changed:\n  " + "\n  ".join(wrong)
            )
        for name, target in own.items():
            if name not in given:
                continue
            if isinstance(target, Parameter):
                target.data = given[name]
            else:
                target[...] = given[name]
        return names

    def save(self, path: Any) -> None:
        """Write all weights to a ``.safetensors`` file, or to one for NumPy if its name ends in ``.npz``.

        A ``.safetensors`` file has every shared parameter once, under its first name, and maps its other names to that in
        the metadata, as ``safetensors.torch.save_model`` does. An ``.npz`` file repeats it under every name.
        """
        from ..interop.weight_files import save_from

        save_from(self, path)

    def load(self, path: Any, *, strict: bool = True) -> list[str]:
        """Read weights from a file; see :meth:`load_state_dict`.

        ``.safetensors`` files may be ours or PyTorch's, ``.npz`` files NumPy's.
        """
        from ..interop.weight_files import load_into

        return load_into(self, path, strict=strict)

    def _require_built(self, what: str) -> None:
        if any(module._lazy() for module in self.modules()):
            raise RuntimeError(
                f"{type(self).__name__}.{what}: sizes are not known yet. Give layers their input sizes, call "
                "build(sample_shape), or run one batch first."
            )

    def _lazy(self) -> bool:
        """True if parameters or buffers are still to be made."""
        return any(not p.sized for p in self._parameters.values())

    def has_state(self) -> bool:
        """True if the module itself, without its submodules, has parameters or buffers."""
        return bool(self._parameters or self._buffers) or self._lazy()

    # Parameters.

    def _initial(self, name: str, shape: tuple[int, ...], generator: np.random.RandomState) -> Array:
        """The initial values of a parameter that this layer has made with ``Parameter.of``."""
        raise NotImplementedError

    def _shape_of(self, name: str) -> tuple[int, ...] | None:
        """The shape of a parameter that this layer has made with ``Parameter.of``; None if sizes are not known yet."""
        return None

    def _fit_optional(self, name: str, shape: tuple[int, ...], generator: np.random.RandomState) -> Parameter | None:
        """The parameter, if the layer has it, with values drawn now if it has none; raises an error if it has another
        shape."""
        parameter = self._parameters.get(name)
        if parameter is None:
            return None
        parameter.make(shape, generator)
        parameter.used = True
        if parameter.shape != shape:
            raise ValueError(
                f"{type(self).__name__}.{name}: has shape {parameter.shape}, but {shape} is needed here. A parameter that layers "
                "share, or that is put in place of another, must fit the sizes of the layer."
            )
        return parameter

    def _fit(self, name: str, shape: tuple[int, ...], generator: np.random.RandomState) -> Parameter:
        parameter = self._fit_optional(name, shape, generator)
        if parameter is None:
            raise ValueError(f"{type(self).__name__}.{name}: is None. Assign an nn.Parameter of shape {shape}.")
        return parameter

    # Construction.

    @property
    def built(self) -> bool:
        """True if all sizes are known, so that the module can be run."""
        return self._built is not None

    def build(self: _SomeModule, *input_shapes: Sequence[int] | int, seed: int | None = None) -> _SomeModule:
        """Infer all sizes and make the parameters. ``input_shapes`` are those of one sample, without the batch axis.

        With ``seed`` the initial weights are the same on every machine; only those that were read, set or loaded
        before stay as they are. The first call with an array does this by itself; building again for the same shapes
        changes nothing.
        """
        samples = [(s,) if isinstance(s, int) else tuple(s) for s in input_shapes]
        built = self._built
        if built is not None and built.version is self._forward_version:
            known = [value.shape[1:] for value in built.graph.inputs]
            if len(known) == len(samples) and all(map(is_same_shape, known, samples)):
                return self
        number = None if seed is None else seed_number(seed, f"{type(self).__name__}.build: seed")
        recording_of(self, self._training, tuple((_SOME_SAMPLES, *sample) for sample in samples), number)
        return self

    def _compute_with(self, who: str, accuracy: str | None, precision: str | None) -> None:
        """Choose the accuracy of its filters, the precision of their products, or both; None leaves it as it is."""
        if accuracy is not None:
            self._accuracy = engines.check_accuracy(accuracy, who)
        if precision is not None:
            self._precision = engines.check_precision(precision, who)
        self.__dict__["_recordings_by_shapes"] = {}  # they are those of the former choice

    def _compute_like(self, other: Module) -> None:
        """Take the accuracy and the precision of another module."""
        if (self._accuracy, self._precision) != (other._accuracy, other._precision):
            self._accuracy, self._precision = other._accuracy, other._precision
            self.__dict__["_recordings_by_shapes"] = {}

    def _arithmetic(self, surrounding: engines.Arithmetic) -> engines.Arithmetic:
        """The arithmetic of its filters: its own settings, or else those of ``surrounding``, the block or process around
        the call."""
        return engines.Arithmetic(self._accuracy or surrounding.accuracy, self._precision)

    def _require_samples(self, count: int, who: str) -> None:
        """Refuse batches of more samples than a call takes."""
        most = self._most_samples
        if most is not None and count > most:
            taken = plural(most, "sample")
            raise ValueError(
                f"{who}: batch_size is {count}, but the network takes {taken} at a time. {self._why_few} Or pass "
                f"batch_size={most}."
            )

    def _misfit(self, built: Recording, shapes: Shapes, error: Exception) -> str:
        """The error message for inputs of other shapes than those that the network was built for."""
        wanted = [value.shape for value in built.graph.inputs]
        pairs = zip(shapes, wanted, strict=False)
        index = next((i for i, (shape, known) in enumerate(pairs) if not is_same_shape(shape[1:], known[1:])), 0)
        if len(shapes) != len(wanted):
            return f"{self._who}: {plural(len(shapes), 'input')} given, but the network was built for {len(wanted)}. {error}"
        shape, known = shapes[index], wanted[index]
        cure = " For one sample pass x[None]." if is_same_shape(shape, known[1:]) else ""
        return (
            f"{self._who}: input {index} has shape {shape}, but the network is built for {known}, and forward fails for the "
            f"new shape: {error} The first axis is the batch.{cure}"
        )

    def _with_free_sizes(self, shapes: Shapes, free: FreeSizes) -> list[Sequence[AnySize]]:
        """The shapes of inputs with free sizes in place of some numbers: of the first axis of each.

        Inputs with the same number of samples have the same free size.
        """
        names = {shape[0]: f"N{i}" if i else "N" for i, shape in reversed(list(enumerate(shapes))) if shape}
        free.numbers.update({name: number for number, name in names.items()})
        return [(free.size(names[shape[0]]), *shape[1:]) if shape else () for shape in shapes]

    def program(self, inputs: int | Shapes, *, training: bool, input_gradients: bool = False) -> Program:
        """The network with memory for inputs of these shapes, or for this many samples; the last few programs are kept."""
        shapes = input_shapes(self, inputs) if isinstance(inputs, int) else inputs
        recording = recording_of(self, training, shapes)
        key = shapes, training, input_gradients, requiring_gradients(recording.graph.parameters) if training else ()
        with making:
            program = recording.kept(key)
            if program is None:
                program = recording.make(key, self._arena)
                room = self._programs_kept
                for known in [recording, *(r for r in reversed(self._recordings) if r is not recording)]:
                    room -= known.forget(room)
        return program

    # Running.

    def __call__(self, *inputs: Any, **named: Any) -> Any:
        """Record on values; run on arrays with a batch axis in front. The result of a run is a new array.

        If ``forward`` gives a tuple, list or dictionary, so does the call. Inputs may be passed by the names of
        ``forward``'s arguments.
        """
        graph = current_graph()
        if graph is not None:
            graph.require_parts(self)
            with graph.calling(module=self):
                return self.forward(*map(graph.value, inputs), **{name: graph.value(x) for name, x in named.items()})
        if not named and not self._training:
            again = self._run_again(inputs)
            if again is not None:
                return again
        if not self._in_a_row(inputs, named):
            return self._call_with(inputs, named)[0]
        return self._run(inputs, named)

    def _run_again(self, inputs: tuple[Any, ...]) -> Any:
        """The result for arrays like those of an earlier run, with an idle program and without checks; else None."""
        for x in inputs:
            if type(x) is not np.ndarray:
                return None
        if len(inputs) > 1 and self._takes_structures():
            return None
        shapes = tuple([x.shape for x in inputs])
        known = self._recordings_by_shapes.get((False, shapes))
        if known is None or known[0] != engines.arithmetic():
            return None
        recording = known[1]
        program = recording.idle(shapes)
        if program is None:
            return None
        if not program.fits(inputs):
            recording.give_back(program)
            return None
        if self._latest is not None:
            self.__dict__["_latest"] = None
        program.forward_on(inputs, recording.weights_version())
        results = [array.copy() for array in program.outputs]
        recording.give_back(program)
        return recording.structure.fill(results)

    def _in_a_row(self, inputs: tuple[Any, ...], named: Mapping[str, Any]) -> bool:
        """True if all arguments are arrays and fill the parameters of ``forward`` in order, without gaps."""
        if not is_plain(inputs, named):
            return False
        return not named or not self._bound(inputs, named).kwargs

    def _takes_samples(self) -> bool:
        """True if the first axis of every input is the batch."""
        return True

    def _takes_structures(self) -> bool:
        """True if the arrays of samples may be in nested tuples and dictionaries, which ``_in_order`` puts in a row."""
        return False

    def _call_with(self, inputs: tuple[Any, ...], named: Mapping[str, Any]) -> tuple[Any, bool]:
        """Run on arguments of any kind; gives the result, and whether it was unpacked."""
        self._bound(inputs, named)
        from .bound_module import bind_arguments

        arrays, call = bind_arguments(self, inputs, named)
        result = call._run(tuple(arrays), {})
        self.__dict__["_latest"] = call._latest
        return result, call.apart

    def run(self, *inputs: Any, **named: Any) -> Any:
        """Like a call, but the result lies in memory that the next such call overwrites.

        It is for one thread at a time: threads overwrite each other's results.
        """
        arrays = self._inputs(self._in_order(inputs, named) if named else inputs)
        if self._training:
            return self._train_on(arrays, shown=True)
        shapes = _shapes(arrays)
        recording, program = recording_of(self, False, shapes), self.program(shapes, training=False)
        for i, x in enumerate(arrays):
            program.fill(i, x)
        program.forward(recording.weights_version())
        return recording.structure.fill(program.outputs)

    def _run(self, inputs: tuple[Any, ...], named: Mapping[str, Any]) -> Any:
        """Run on arrays, in the mode of the network; the result is a new array, or several."""
        arrays = self._inputs(self._in_order(inputs, named) if named else inputs)
        if self._training:
            return self._train_on(arrays)
        self.__dict__["_latest"] = None
        structure, outputs = self._infer(arrays)
        return structure.fill(outputs)

    def _infer(self, arrays: Sequence[Array], *, lent: bool = False) -> tuple[Structure, list[Array]]:
        """The outputs for a batch in inference mode, and the structure in which ``forward`` gives them.

        With ``lent`` they are those of a program, which the next call may overwrite.
        """
        shapes = _shapes(arrays)
        recording = recording_of(self, False, shapes)
        program = recording.lend(shapes)
        for i, x in enumerate(arrays):
            program.fill(i, x)
        program.forward(recording.weights_version())
        outputs = list(program.outputs) if lent else [array.copy() for array in program.outputs]
        recording.give_back(program)
        return recording.structure, outputs

    def _train_on(self, arrays: Sequence[Array], *, shown: bool = False) -> Any:
        """Run on a batch in training mode, for ``backward``; ``shown`` results lie where the program has them."""
        ours = turns.take(self, self._who)
        try:
            turns.begin_pass(self)
            self.__dict__["_latest"] = (
                None  # after an interrupted run there is no backward pass, not even of the run before
            )
            shapes = _shapes(arrays)
            structure = recording_of(self, True, shapes).structure
            program = self.program(shapes, training=True, input_gradients=True)
            for i, x in enumerate(arrays):
                program.fill(i, x)
            program.forward()
            outputs = program.outputs if shown else [array.copy() for array in program.outputs]
            self.__dict__["_latest"] = TrainingPass(program, structure, this_worker())
        finally:
            if ours:
                turns.end(self)
        return structure.fill(outputs)

    def _inputs(self, given: Sequence[Any]) -> list[Array]:
        """The inputs of a call, checked; builds the network for them."""
        if self._built is None:
            self._bound(tuple(given), {})
        if not given:
            raise TypeError(f"{self._who}: there is no input. Pass an array, the batch axis in front.")
        arrays = [self._input_array(x, i) for i, x in enumerate(given)]
        shapes = _shapes(arrays)
        try:
            recording_of(self, self._training, shapes)
        except (ValueError, TypeError, IndexError) as error:
            counts = dict.fromkeys(len(array) for array in arrays if array.ndim)
            if len(counts) > 1 and self._takes_samples():
                raise type(error)(f"{error} The inputs have {', '.join(map(str, counts))} samples.") from error
            raise
        return arrays

    def _call_signature(self) -> Signature:
        """The arguments that it is called with."""
        return signature(self.forward)

    def _bound(self, inputs: tuple[Any, ...], named: Mapping[str, Any]) -> BoundArguments:
        try:
            return self._call_signature().bind(*inputs, **named)
        except TypeError as error:
            told = f"{type(self).__name__}: {error}. Inputs are named as the arguments of forward."
            if len(inputs) == 1 and isinstance(inputs[0], Mapping):
                told += " Pass a dictionary of them with two stars: net(**inputs)."
            raise TypeError(told) from None

    def _in_order(self, inputs: tuple[Any, ...], named: Mapping[str, Any]) -> list[Any]:
        """The inputs by position, where some are given by the names of ``forward``'s arguments."""
        bound = self._bound(inputs, named)
        if bound.kwargs:
            raise TypeError(f"{type(self).__name__}: forward takes {next(iter(bound.kwargs))} by keyword only.")
        return list(bound.args)

    def _input_array(self, x: Any, index: int) -> Array:
        array = np.asarray(x)
        if array.ndim < 1 or array.dtype.kind not in "fiub" or len(array) == 0:
            raise ValueError(
                f"{self._who}: input {index} is {array.dtype} of shape {array.shape}. Pass an array of numbers "
                "with at least one sample, batch axis first."
            )
        return array

    @spelled
    def backward(self, output_gradient: Any, *, accumulate: bool = False, input_gradient: bool = True) -> Any:
        """Gradients of all parameters into their ``grad``; returns that of the input (a tuple if there are several).

        Belongs to the latest call, which must have been in training mode. Gradients are overwritten, or with
        ``accumulate=True`` added to. Frozen parameters get none; with ``input_gradient=False``, which returns None, the
        pass ends at the first layer that is trained.
        """
        turns.require_pass(self)
        latest = self._latest
        if latest is None:
            raise RuntimeError(
                f"{type(self).__name__}.backward: there is no forward pass in training mode to go back through, or an earlier "
                "backward has used it up. Call train(), run the network on a batch, then backward."
            )
        program = latest.program
        ours = turns.take(self, f"{type(self).__name__}.backward")
        try:
            self._take_gradients(latest, output_gradient)
            before = [p.grad.copy() for p in program.trained] if accumulate else []
            self.__dict__["_latest"] = None
            program.backward(input_gradients=input_gradient)
            for parameter, old in zip(program.trained, before, strict=bool(accumulate)):
                parameter.grad += old
            turns.note_gradients(program.trained)
            if not input_gradient:
                return None
            gradients = tuple(None if g is None else g.copy() for g in program.input_gradients)
        finally:
            if ours:
                turns.end(self)
        return gradients[0] if len(gradients) == 1 else gradients

    def _take_gradients(self, latest: TrainingPass, output_gradient: Any) -> None:
        """Copy the gradients of the outputs to where the backward pass reads them; None stands for zeros."""
        program, wanted, _ = latest
        given, structure = flatten(output_gradient)
        if len(program.outputs) != 1 and structure != wanted:
            raise ValueError(
                f"{type(self).__name__}.backward: output_gradient must be {wanted.describe()}, as forward gives it, "
                "with None for outputs whose gradient is zero."
            )
        gradients = [None if gradient is None else np.asarray(gradient) for gradient in given]
        for gradient, output in zip(gradients, program.outputs, strict=True):
            if gradient is not None and gradient.shape != output.shape:
                raise ValueError(
                    f"{type(self).__name__}.backward: output_gradient has shape {gradient.shape}, but the output of the latest "
                    f"call has shape {output.shape}."
                )
        program.fill_gradients(gradients)

    # Inspection and compilation.

    def summary(self) -> Summary:
        """A table of the layers with output shapes and numbers of parameters, as text that notebooks show as a table.

        Layers have the names that you gave them; functions have their own, in the module that calls them.

        >>> from openbnns import nn
        >>> class Block(nn.Module):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.first, self.last = nn.Linear(4, 8), nn.Linear(8, 4)
        ...     def forward(self, x):
        ...         return nn.functional.tanh(x + self.last(nn.functional.relu(self.first(x))))
        >>> nn.Sequential(Block(), nn.Linear(4, 1)).build((4,)).summary()
        layer            computes       output of a sample  parameters
        ---------------  -------------  ------------------  ----------
        0.first, 0.relu  Linear + relu  (8,)                        40
        0.last           Linear         (4,)                        36
        0.add, 0.tanh    add + tanh     (4,)                         -
        1                Linear         (1,)                         5
        81 parameters, 0.00 MB
        """
        from .profiling import summary

        return summary(self)

    @spelled
    def compile_step(
        self,
        loss: Any,
        optimizer: Optimizer | OptimizerName,
        batch_size: int,
        *,
        loss_weights: Any = None,
        precision: Literal["float32", "bfloat16"] | None = None,
    ) -> CompiledStep:
        """A training step for batches of this size as one native call: ``value = step(x, y)``.

        ``loss`` and ``optimizer`` are what :class:`Trainer` takes, and so are ``x``, ``y`` and ``loss_weights``. Numbers are the
        same, to the last bit, as those of forward, loss, backward and optimizer by themselves. The learning rate and all
        other settings of the optimizer may change between steps. ``precision`` is that of the network from now on, as with
        :class:`Trainer`.

        >>> import numpy as np
        >>> from openbnns import nn
        >>> net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
        >>> step = net.compile_step("cross_entropy", nn.Adam(net.parameters(), lr=0.01), 32)
        >>> x = np.random.RandomState(0).standard_normal((32, 4)).astype(np.float32)
        >>> losses = [step(x, (x[:, 0] > 0).astype(np.int64)) for i in range(50)]
        >>> losses[-1] < losses[0] / 2
        True
        """
        from .compiled_step import compile_step

        return compile_step(self, loss, optimizer, batch_size, loss_weights, precision)

    @spelled
    def compile_inference(
        self,
        batch_size: int,
        *,
        precision: Literal["float32", "bfloat16", "int8"] | None = None,
        calibration: Any = None,
        float32_layers: Literal["auto", "none", "first", "last", "both"] = "auto",
    ) -> CompiledInference:
        """The network as it is now, for inference on batches of this size as one native call: ``y = infer(x)``.

        Parameters and statistics are copied, and frozen: nothing that happens to the network later changes the result. See
        :class:`~openbnns.nn.inference.CompiledInference`. ``precision`` is that of its products (:class:`Trainer`), by default
        the network's.

        With "int8", linear layers, convolutions, projections of attention and products with constant matrices multiply bytes, and
        ``calibration`` are the samples that tell the ranges of their inputs: an array, or a tuple of one for each input.
        ``float32_layers`` are the ends of the network that stay in float32, by default those that accuracy on these samples
        requires. See ``infer.quantization`` and docs/quantization.md.

        >>> import numpy as np
        >>> from openbnns import nn
        >>> net = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2))
        >>> infer = net.compile_inference(3)
        >>> x = np.ones((3, 4), np.float32)
        >>> np.allclose(infer(x), net.eval()(x), atol=1e-6)
        True
        """
        from .inference import compile_inference

        return compile_inference(self, batch_size, precision, calibration, float32_layers)

    @spelled
    def profile(self, *inputs: Any, repeats: int | None = None) -> Profile:
        """Time, share, arithmetic and memory of every layer on these inputs, as a table; see :class:`Profile`.

        In training mode a step is measured, forward and backward without loss and optimizer, else a forward pass. It is
        run ``repeats`` times, by default for about a second. Weights, gradients, running statistics and the choices of
        dropout stay as they are.
        """
        from .profiling import profile

        return profile(self, inputs, repeats)

    # Model files and predictions.

    @spelled
    def save_model(
        self,
        path: Any,
        *,
        task: Literal["classification", "multilabel", "regression"] | None = None,
        classes: Sequence[str] | None = None,
        card: ModelCard | None = None,
    ) -> None:
        """Write weights, architecture and all that is known about samples and classes; :func:`nn.load_model` reads it.

        ``task`` and ``classes`` are what the outputs mean, for :meth:`predict`. ``card`` says everything else; a network that
        was loaded has one already. Any reader of ``.safetensors`` finds the weights in the file. Of
        classes of your own, and of what comes from :func:`nn.from_torch`, the file holds what ``forward`` records, for the shapes
        of samples that the network has met, so that ``load_model`` needs none of these classes. An :class:`nn.Function` of your
        own is code, which no file holds: a network that calls one is refused.
        """
        from .files.model_file import save

        save(self, path, card, task, classes)

    @spelled
    def predict(self, samples: Any, *, batch_size: int = 256) -> Predictions:
        """The network's predictions for samples, in inference mode, in batches; see :class:`Predictions`.

        A network from :func:`nn.load_model` takes samples as they were before training: it scales and encodes them as the
        training samples were. Others take arrays, as a call does.

        >>> import numpy as np
        >>> from openbnns import nn
        >>> net = nn.Sequential(nn.Dropout(0.5), nn.Linear(1, bias=False)).build((2,))
        >>> net[1].weight.data[:] = 1
        >>> np.asarray(net.predict(np.float32([[1, 2], [3, 4]]))).tolist()
        [[3.0], [7.0]]
        """
        from .files.model_file import predict

        return predict(self, samples, batch_size)

    @property
    def model_card(self) -> ModelCard | None:
        """The model card of the file that the network was loaded from or saved to: task, classes, preparation."""
        return self._card  # type: ignore[no-any-return]

    # Export.

    @spelled
    def to_c(
        self,
        folder: Any,
        training: bool = False,
        *,
        name: str = "network",
        batch_size: int | None = None,
        loss: Any = None,
        optimizer: Any = None,
    ) -> Written:
        """Write C source code that builds the network with BNNS calls: ``name.c``, ``name.h`` and ``name.weights``.

        It compiles on macOS with ``-framework Accelerate`` and elsewhere with ``$(openbnns c-flags)``. Its functions are
        ``name_create``, ``name_predict`` for ``batch_size`` samples (1 unless given, 32 for training) and ``name_destroy``;
        with ``training=True``, a ``loss`` and an ``optimizer`` also ``name_train_step``. Results are those of the network to the
        last bit. A network with layers that BNNS does not have is refused: the error names all of them.

        >>> import tempfile
        >>> from openbnns import nn
        >>> net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)).build((4,))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     written = net.to_c(folder, name="classifier")
        ...     [path.name for path in written]
        ['classifier.c', 'classifier.h', 'classifier.weights']
        >>> print(written.table())
        0, 1: Linear + ReLU  BNNSFilterCreateLayerFullyConnected
        2: Linear            BNNSFilterCreateLayerFullyConnected
        """
        from ..interop.source import to_c

        return to_c(self, folder, training=training, name=name, batch_size=batch_size, loss=loss, optimizer=optimizer)

    @spelled
    def to_swift(
        self,
        folder: Any,
        training: bool = False,
        *,
        name: str = "network",
        batch_size: int | None = None,
        loss: Any = None,
        optimizer: Any = None,
    ) -> Written:
        """Write Swift source code that builds the network with BNNS calls: ``name.swift`` and ``name.weights``.

        The arguments are those of :meth:`to_c`, and so is the structure of the code: a class that is made from the file with
        the weights, ``predict``, and with ``training=True`` also ``trainStep``.
        """
        from ..interop.source import to_swift

        return to_swift(
            self, folder, training=training, name=name, batch_size=batch_size, loss=loss, optimizer=optimizer
        )

    @spelled
    def to_coreml(
        self,
        path: Any,
        *,
        precision: Literal["float32", "float16"] = "float32",
        batch_size: int | None = None,
        classes: Sequence[str] | None = None,
    ) -> Package:
        """Write an ML program for Core ML and BNNSGraph, ``path`` ending in ``.mlpackage``.

        It takes any number of samples, or ``batch_size`` of them. With ``classes``, or those of the model file, it is a
        classifier: it takes one sample and gives its class with probabilities. What the model file says about the
        preparation of samples is part of the program where samples are numbers or pixels. The result says which layer
        became which operations.
        """
        from ..interop.coreml.exporting import to_coreml

        return to_coreml(self, path, precision=precision, batch_size=batch_size, classes=classes)

    @spelled
    def to_onnx(self, path: Any, *, preprocessing: bool = True) -> None:
        """Write the network as an ONNX file, for inference by any program that runs such files, for every batch size.

        Weights keep their names. What ``predict`` does to samples first, and to the results of a regression, is part of the
        graph unless ``preprocessing=False``; tables have an input for each column. Task and class names are in the metadata.
        ``nn.from_onnx`` reads the network back. Operations that ONNX does not have raise
        :class:`openbnns.interop.onnx.Unsupported`, which names all of them and their layers. Needs
        ``pip install "openbnns[onnx]"``.
        """
        from ..interop.onnx import to_onnx

        to_onnx(self, path, preprocessing=preprocessing)

    def to_torch_state_dict(self) -> dict[str, Any]:
        """The weights as tensors that the same module of PyTorch loads; see :func:`openbnns.nn.to_torch_state_dict`."""
        from ..interop.torch import to_torch_state_dict

        return to_torch_state_dict(self)

    def __repr__(self) -> str:
        children = [(name, repr(child)) for name, child in self._children.items()]
        return nested(type(self).__name__, self.extra_repr(), children)

    def _repr_html_(self) -> str | None:
        """The table of the layers, for notebooks; until the network is built they show its text."""
        from .profiling import html_table

        return html_table(self)


class Layer(Module):
    """A module that gives one value for values, and one array for arrays; type checkers know it."""

    if TYPE_CHECKING:

        @overload
        def __call__(self, *inputs: Tensor, **named: Tensor) -> Tensor: ...

        @overload
        def __call__(self, *inputs: Array, **named: Array) -> Array: ...

        @overload
        def __call__(self, *inputs: Any, **named: Any) -> Any: ...

        def __call__(self, *inputs: Any, **named: Any) -> Any: ...


def _noted(init: Callable[..., None]) -> Callable[..., None]:
    """A constructor that notes its arguments, which model files record."""

    @wraps(init)
    def make(self: Module, *given: Any, **named: Any) -> None:
        if not self._is_container:
            # Arguments of the class itself, not of its base classes.
            self.__dict__.setdefault("_made_with", (given, named))
        init(self, *given, **named)

    return make


def nested(name: str, options: str, children: Iterable[tuple[str, str]]) -> str:
    """The text of a module, with each module that it holds on a line of its own."""
    lines = [indent(f"({child}): {text}", "  ") for child, text in children]
    return "\n".join([f"{name}({options}", *lines, ")"]) if lines else f"{name}({options})"


def check_module(module: Any, who: str) -> None:
    if not isinstance(module, Module):
        hint = " Call it to make one, e.g. nn.ReLU()." if isinstance(module, type) else ""
        if not hint and callable(module):
            hint = " Call functions in forward() of a module of your own, or use a layer, such as nn.ReLU()."
        raise TypeError(f"{who} is {module!r}, which is not an nn.Module.{hint}")


def shared_names(state: Mapping[str, object]) -> dict[int, list[str]]:
    """The names of every array or parameter of a network; several where it is shared."""
    names: dict[int, list[str]] = {}
    for name, one in state.items():
        names.setdefault(id(one), []).append(name)
    return names


def _is_counter(name: str) -> bool:
    """True for PyTorch's count of the batches that a normalization has seen, which nothing here depends on."""
    return name.rsplit(".", 1)[-1] == "num_batches_tracked"


def _is_same(old: Any, new: Any) -> bool:
    """True if a plain value was replaced by an equal one; any other may have changed, even if it is the same object."""
    if isinstance(new, tuple) and isinstance(old, tuple):
        return len(old) == len(new) and all(map(_is_same, old, new))
    return type(old) is type(new) and type(new) in _PLAIN and bool(old == new)
