"""From a PyTorch module and an example to a network."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..._plural import plural
from ..._spelling import spelled
from ...graph.parameter import Parameter
from ...nn.containers import ModuleDict, ModuleList, Sequential, hold
from ...nn.module import Module
from ..converted.tensors import Misfit
from ._example import Example, example_of
from ._layers import kind_of
from ._network import Network, Part, Signature, described
from ._recording import RANDOM, Record, Recorder, Ref, Trace, array_of
from ._steps import for_all_sizes, for_both_modes, refs, told
from .errors import Unsupported, problem, refusal, require_torch
from .operations import FUNCTIONS

_TOLERANCE = 1e-3
"""The largest difference from PyTorch's outputs at a conversion, relative to the largest; mistakes cause far larger ones."""
_ROUNDINGS = 16
"""How many roundings to the module's own type, such as bfloat16, may differ besides: networks here compute in float32."""

_MULTIPLE = 3
"""How many times as far from float64 as PyTorch's outputs ours may be, where those are farther than that."""

_CONTAINERS = {"Sequential": Sequential, "ModuleList": ModuleList, "ModuleDict": ModuleDict}


@spelled
def from_torch(
    module: Any,
    example: Any,
    *,
    batch_axis: int | Mapping[str, int | None] | None = 0,
    input_shapes: Mapping[str, Sequence[int | str]] | None = None,
) -> Network:
    """The network that computes what a ``torch.nn.Module`` does, with its weights; it trains, saves and runs on its own.

    ``example`` is what the module is called with: an array or tensor, a tuple of arguments, or a dictionary of arguments by
    name. An argument may be a tuple, list or dictionary of arrays, also inside each other, and
    calls of the network then take the same.

    The network takes any number of samples: axis ``batch_axis`` of every input is free, the first one, and has the same size in
    all of them. ``batch_axis`` may name axes by input, with None for inputs that have no batch. ``input_shapes`` names
    other sizes that are free, by input: ``{"x": ("N", 16), "edges": (2, "E")}``, with the numbers of the example elsewhere.

    The module runs a few times on small batches of it, in training and in evaluation, and its operations are recorded.
    Submodules keep their names, so that ``state_dict()`` has PyTorch's names; what is shared stays shared. Every layer is in the
    mode that it has there. ``nn.pytorch.supported()`` lists what can be converted; all else raises
    :class:`openbnns.interop.torch.Unsupported`, which names the operation and its place.

    ``net = nn.from_torch(torchvision.models.resnet18(), np.zeros((1, 3, 224, 224), np.float32))`` is a residual network that
    needs PyTorch no more, and ``module.load_state_dict(net.to_torch_state_dict())`` brings its weights back.

    >>> from openbnns import nn
    >>> "nn.Conv2d" in nn.pytorch.supported()["modules"], "F.ctc_loss" in str(nn.pytorch.supported())
    (True, False)
    """
    torch = require_torch("nn.from_torch")
    if not isinstance(module, torch.nn.Module):
        raise TypeError(f"from_torch: takes a torch.nn.Module, not a {type(module).__name__}.")
    given = example_of(torch, module, example, batch_axis, input_shapes or {})
    with _untouched(torch, module):
        steps = _recorded_in_either_way(torch, module, given)
    _check_functions(steps.records)
    result = _without_none(steps.result)
    if result is None:
        classes = ", ".join(steps.left_out.values())
        raise refusal(
            f"forward gives no tensor{f', but {classes}' if classes else ''}", None,
            "Wrap the module in one whose forward gives tensors, or tuples, lists and dictionaries of them.",
        )  # fmt: skip
    if steps.left_out:
        _warn_of(steps.left_out)
    if steps.changed:
        warnings.warn(
            f"from_torch: forward changes {plural(len(steps.changed), 'buffer')} ({', '.join(steps.changed)}). The network "
            "leaves them as they are: change them in the loop that trains it, by net.load_state_dict, if they matter.",
            stacklevel=2,
        )  # fmt: skip
    network = _built(torch, module, steps, result, given)
    with _untouched(torch, module):
        _compare(torch, module, network, given, steps)
    network.train(bool(module.training))
    parts = dict(network._paths())
    for path, part in module.named_modules():
        if path in parts:
            parts[path].training = bool(part.training)
    return network


def _warn_of(left_out: Mapping[str, str]) -> None:
    """Warn about parts of a result that the network does not return."""
    parts = ", ".join(f"result{name} ({kind})" for name, kind in left_out.items())
    cure = " A model of transformers makes no cache with model.config.use_cache = False."
    warnings.warn(
        f"from_torch: the network leaves out {parts}, which is not a tensor in both modes."
        f"{cure if any('Cache' in kind for kind in left_out.values()) else ''}",
        stacklevel=3,
    )


# Recording.


@contextmanager
def _untouched(torch: Any, module: Any) -> Iterator[None]:
    """Restore the module and PyTorch's random numbers after the block."""
    modes = [(m, m.training) for m in module.modules()]
    buffers = [
        (m._buffers, name, b, b.clone()) for m in module.modules() for name, b in m._buffers.items() if b is not None
    ]
    fast = torch.backends.mha.get_fastpath_enabled()
    try:
        torch.backends.mha.set_fastpath_enabled(False)
        with torch.random.fork_rng(devices=[]), torch.enable_grad():
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
        for m, mode in modes:
            m.training = mode
        with torch.no_grad():
            for table, name, buffer, values in buffers:
                table[name] = buffer
                buffer.copy_(values)


def _recorded_in_either_way(torch: Any, module: Any, given: Example) -> Trace:
    """The steps of the module as in an export; or, if it fails in that, as in a usual run."""
    try:
        return _recorded(torch, module, given, exporting=True)
    except Unsupported as first:
        if first.__cause__ is None or isinstance(first.__cause__, (Unsupported, Misfit)):
            raise
        try:
            return _recorded(torch, module, given, exporting=False)
        except Unsupported:
            raise first from first.__cause__


def _recorded(torch: Any, module: Any, given: Example, *, exporting: bool) -> Trace:
    """The steps of the module, for all free sizes and both modes."""
    if any(torch.nn.parameter.is_lazy(p) for p in module.parameters()):
        given.call(module, given.batch(torch, given.trials.sizes[0]))  # tells lazy modules their sizes

    def run(training: bool, sizes: Mapping[str, int]) -> Trace:
        module.train()  # at which modules forget tables that they keep for evaluation, made of parameters
        module.train(training)
        recorder = Recorder(
            torch, module, lambda part: kind_of(torch, part) is not None, FUNCTIONS, exporting=exporting
        )
        args, named = given.arguments(given.batch(torch, sizes))
        before = {name: buffer.clone() for name, buffer in module.named_buffers()}
        try:
            trace = recorder.run(tuple(args), named)
            trace.changed = _changed(torch, module, before, trace.records)
            return trace
        except Unsupported:
            raise
        except Exception as error:  # of the module, or of PyTorch in it
            _run_alone(torch, module, given, sizes)
            raise refusal(
                f"forward fails while it is recorded ({problem(error)})", recorder.place_of(error),
                "It does not fail by itself: take what that line does out of forward.",
            ) from error  # fmt: skip

    def steps(mode: bool) -> Trace:
        traces = [run(mode, sizes) for sizes in given.trials.sizes]
        try:
            return for_all_sizes(traces, given.trials, FUNCTIONS)
        except (
            Unsupported
        ):  # a module may do something in its first run alone, such as making tables or scaling weights
            return for_all_sizes([run(mode, sizes) for sizes in given.trials.sizes], given.trials, FUNCTIONS)

    start = {name: buffer.clone() for name, buffer in module.named_buffers()}
    training = steps(True)
    with torch.no_grad():
        for name in training.changed:
            module.get_buffer(name).copy_(start[name])
    evaluation = steps(False)
    parts = dict(module.named_modules())
    return for_both_modes(training, evaluation, lambda path: bool(getattr(parts[path], "track_running_stats", False)))


def _changed(torch: Any, module: Any, before: dict[str, Any], records: list[Record]) -> tuple[str, ...]:
    """The buffers that a run has changed, but for the statistics of layers and of ``F.batch_norm``."""
    parts = dict(module.named_modules())
    sources = {record.outputs.index: record.target for record in records if record.kind == "buffer"}
    kept = {
        sources.get(ref.index) for record in records if record.target == "F.batch_norm"
        for ref in refs((record.args, record.kwargs))
    }  # fmt: skip
    now = dict(module.named_buffers())
    return tuple(
        name
        for name, buffer in before.items()
        if name not in kept
        and not name.endswith("num_batches_tracked")
        and kind_of(torch, parts[name.rpartition(".")[0]]) is None
        and name in now
        and not torch.equal(buffer, now[name])
    )


def _run_alone(torch: Any, module: Any, given: Example, sizes: Mapping[str, int]) -> None:
    """Run a failed module again without recording: if it fails again, module and example do not fit."""
    try:
        given.call(module, [x.detach() for x in given.batch(torch, sizes)])
    except Exception as error:
        mode = "training" if module.training else "evaluation"
        raise ValueError(
            f"from_torch: {type(module).__name__} fails in PyTorch itself on {told(sizes)} of the example, in {mode} "
            f"mode ({problem(error)}). Pass an example that module(example) takes in both modes."
        ) from error


def _check_functions(records: list[Record]) -> None:
    for record in records:
        if record.kind == "function" and record.target not in FUNCTIONS:
            raise refusal(
                f"{described(record, {})} has no counterpart",
                record.place,
                "nn.pytorch.supported() lists what has one; write that line with it, or the layer by hand.",
            )


def _without_none(result: Any) -> Any:
    """The tensors among the outputs of forward."""
    if isinstance(result, Ref):
        return result
    if isinstance(result, dict):
        parts = {name: _without_none(part) for name, part in result.items()}
        return {name: part for name, part in parts.items() if part is not None} or None
    if isinstance(result, (tuple, list)):
        kept = [part for part in map(_without_none, result) if part is not None]
        if len(kept) < len(result) and len(kept) == 1:
            return kept[0]
        return type(result)(kept) if kept else None
    return None


# Building.


def _built(torch: Any, module: Any, steps: Trace, result: Any, given: Example) -> Network:
    used = {record.target: record for record in steps.records if record.kind == "module"}
    paths = dict(module.named_modules())
    signature = Signature(
        given.names, tuple(not x.is_floating_point() for x in given.tensors), result,
        {path: bool(getattr(paths[path], "batch_first", True)) for path in used},
        {path: type(paths[path]).__name__ for path in used},
        given.form, tuple(name for name, tensor in module.state_dict().items() if tensor.is_complex()),
    )  # fmt: skip
    builder = _Builder(torch, module, used)
    network = Network(type(module).__name__, steps.records, signature, builder.loose())
    if "" in used:  # a layer by itself
        hold(network, "", builder.part(module, ""))
    else:
        builder.fill(network, module, "")
    return network


@dataclass
class _Builder:
    """The parts of a network, each made once."""

    torch: Any
    root: Any
    used: dict[str, Record]

    def __post_init__(self) -> None:
        self._made: dict[int, Module] = {}
        self._parameters: dict[int, Parameter] = {}
        self._buffers: dict[int, Any] = {}

    def loose(self) -> dict[str, Any]:
        """Buffers that PyTorch does not save, by path."""
        return {
            f"{path}.{name}" if path else name: self._buffer(m._buffers[name])
            for path, m in self.root.named_modules()
            for name in m._non_persistent_buffers_set
            if m._buffers.get(name) is not None
        }

    def fill(self, ours: Part, theirs: Any, path: str) -> None:
        """Give a part the parameters, buffers and submodules of PyTorch's module, in the same order."""
        self._made[id(theirs)] = ours
        for name, parameter in theirs._parameters.items():
            if parameter is not None:
                ours.place(name, self._parameter(parameter))
        for name, buffer in theirs._buffers.items():
            counts = name == "num_batches_tracked"  # which nothing here depends on, as in our layers
            if buffer is not None and not counts and name not in theirs._non_persistent_buffers_set:
                ours.place(name, self._buffer(buffer))
        for name, child in theirs._modules.items():
            if child is not None:
                ours.place(name, self.part(child, f"{path}.{name}" if path else name))

    def part(self, theirs: Any, path: str) -> Module:
        if id(theirs) in self._made:
            return self._made[id(theirs)]
        kind = kind_of(self.torch, theirs)
        if kind is not None:
            try:
                layer = kind.make(theirs)
            except (Misfit, ValueError, TypeError) as error:
                if path in self.used:
                    raise refusal(
                        f"nn.{type(theirs).__name__}: {str(error).rstrip('.')}", self.used[path].place
                    ) from error
            else:
                self._made[id(theirs)] = layer
                self._give_weights(layer, theirs)
                return layer
        container = _CONTAINERS.get(type(theirs).__name__)
        complete = all(child is not None for child in theirs._modules.values())
        if container is not None and complete and getattr(self.torch.nn, type(theirs).__name__) is type(theirs):
            series: Module = container()
            self._made[id(theirs)] = series
            for name, child in theirs._modules.items():
                hold(series, name, self.part(child, f"{path}.{name}" if path else name))
            return series
        part = Part(type(theirs).__name__)
        self.fill(part, theirs, path)
        return part

    def _give_weights(self, layer: Module, theirs: Any) -> None:
        """The weights of a layer, which has the same names for them, and of what it holds."""
        for name, parameter in theirs._parameters.items():
            if parameter is not None:
                setattr(layer, name, self._parameter(parameter))
        for name, buffer in theirs._buffers.items():
            if buffer is not None and name in layer._buffers:
                layer.register_buffer(name, self._buffer(buffer))
        held = dict(layer.named_children())
        for name, child in theirs._modules.items():
            if name in held:
                self._made[id(child)] = held[name]
                self._give_weights(held[name], child)

    def _parameter(self, parameter: Any) -> Parameter:
        if id(parameter) not in self._parameters:
            made = Parameter.owning(array_of(parameter), requires_grad=bool(parameter.requires_grad))
            self._parameters[id(parameter)] = made
        return self._parameters[id(parameter)]

    def _buffer(self, buffer: Any) -> Any:
        if id(buffer) not in self._buffers:
            self._buffers[id(buffer)] = array_of(buffer)
        return self._buffers[id(buffer)]


# Checking.


def _compare(torch: Any, module: Any, network: Network, given: Example, steps: Trace) -> None:
    """Run both on the example: mistakes of this package become errors here, never wrong numbers later."""
    module.eval()
    arrays = [array_of(x) for x in given.tensors]
    ours = network.eval()(*arrays)
    with torch.no_grad():
        theirs = given.call(module, [x.clone() for x in given.tensors])
        if any(record.kind == "function" and record.target in RANDOM for record in steps.records):
            again = given.call(module, [x.clone() for x in given.tensors])
            pairs = zip(_tensors(torch, theirs, steps.result), _tensors(torch, again, steps.result), strict=True)
            if not all(torch.equal(a, b) for (a, _), (b, _) in pairs):
                return  # numbers that evaluation draws cannot be compared
    for x, (tensor, _) in zip(_arrays(ours), _tensors(torch, theirs, steps.result), strict=True):
        expected = array_of(tensor)
        largest = float(np.abs(expected[np.isfinite(expected)]).max(initial=1e-3))
        tolerance = largest * max(_TOLERANCE, _ROUNDINGS * steps.spacing)
        close = x.shape == expected.shape and np.allclose(x, expected, 0, tolerance, equal_nan=True)
        if not close and not _differs_by_rounding(torch, module, given, steps, ours, theirs):
            raise RuntimeError(
                f"from_torch: on the example the network gives {x.shape} with a mean of {x.mean():g} where PyTorch gives "
                f"{expected.shape} with {expected.mean():g}. This is a mistake of openbnns; please report it with the module."
            )


def _differs_by_rounding(torch: Any, module: Any, given: Example, steps: Trace, ours: Any, theirs: Any) -> bool:
    """True if all outputs are about as close to those of the module in float64 as its own are, as where a deep module with
    random weights makes a difference in the last digit a large one."""
    try:
        double = copy.deepcopy(module).double()
        with torch.no_grad():
            exact = given.call(double, [x.double() if x.is_floating_point() else x.clone() for x in given.tensors])
        results = [[array_of(x) for x, _ in _tensors(torch, result, steps.result)] for result in (theirs, exact)]
        return all(
            x.shape == y.shape
            and bool(np.abs(x - z).max() <= max(_MULTIPLE * np.abs(y - z).max(), _TOLERANCE * np.abs(z).max()))
            for x, y, z in zip(_arrays(ours), *results, strict=True)
        )
    except Exception:  # a module that cannot be copied, or only runs in its own type
        return False


def _arrays(result: Any) -> Iterator[Any]:
    parts = result.values() if isinstance(result, dict) else result if isinstance(result, (tuple, list)) else None
    if parts is None:
        yield result
    else:
        for part in parts:
            yield from _arrays(part)


def _tensors(torch: Any, result: Any, structure: Any) -> Iterator[tuple[Any, Ref]]:
    """The tensors of a result with their Refs in the record."""
    if isinstance(structure, Ref):
        yield result, structure
    elif isinstance(structure, dict):
        for name, part in structure.items():
            held = (
                result[name] if isinstance(result, Mapping) else getattr(result, name)
            )  # of a dictionary or a dataclass
            yield from _tensors(torch, held, part)
    elif isinstance(structure, (tuple, list)):
        for each, part in zip(result, structure, strict=True):
            yield from _tensors(torch, each, part)
