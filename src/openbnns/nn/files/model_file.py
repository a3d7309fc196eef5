"""Model files: weights, with everything needed to use them, in one ``.safetensors`` file.

Any reader of safetensors finds the weights; the rest is JSON in the metadata, under ``openbnns.model``. It is data, never code:
a network is made from the names of layers and their arguments. Everything in a file is checked before it is used, and sizes
are bounded by those of the weights in it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ... import ActivationFunction, __version__
from ..._elsewhere import refuse_file
from ..._listing import of_module as _of_module
from ..._spelling import spelled
from ...files import memory_limit
from ...files import safetensors as weights
from ...files.checked_json import CheckedTable, ModelError
from ...files.memory_limit import size_text
from ...files.safetensors import DamagedFile
from ...graph.checks import whole_number
from ...graph.parameter import Mismatch
from ...graph.seeds import undisturbed
from ...graph.sizes import number_of
from ...graph.tensor import Array
from ..data import preprocessing
from ..data.preprocessing import SamplePreparation
from ..module import Module, shared_names
from ..nested_arrays import keys_of, parts_of
from ..objective import arrange
from ..predictions import BATCH, Predictions, run_all
from ..recording import recorded_graph
from ..run_checkpoints import is_plain, layers_of
from .layer_file import CannotDescribe, Maker, describe, parameters_of

if TYPE_CHECKING:
    from os import PathLike

KEY = "openbnns.model"
VERSION = 1
CONSTANT = "openbnns.constant."
"""The prefix of the names of arrays that are neither parameters nor buffers, but constants of a graph."""
TASKS = ("classification", "multilabel", "regression")
_LARGEST_TEXT = 2**26
_ALWAYS = 2**16  # numbers in a description up to this one are fine with any weights


@dataclass(frozen=True)
class ModelCard:
    """The description of a model in its file, besides the weights.

    >>> from openbnns import nn
    >>> card = nn.ModelCard(task="classification", classes=("cat", "dog"))
    >>> card.task, card.library.count(".")
    ('classification', 2)
    """

    task: str | None = None
    """classification, multilabel, regression, or None if the outputs are just numbers."""
    classes: tuple[str, ...] = ()
    """The names of the outputs: classes, labels, or the numbers that are predicted."""
    preparation: SamplePreparation | None = None
    """The preprocessing of samples before the network sees them."""
    targets: tuple[str, ...] = ()
    """The columns of a table that are predicted."""
    target_mean: tuple[float, ...] | None = None
    target_std: tuple[float, ...] | None = None
    """The mean and deviation of the numbers to predict; the network learns them with mean 0 and deviation 1."""
    training: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the run, as text and numbers."""
    split: Mapping[str, Any] = field(default_factory=dict)
    """The split into samples to train on, to validate with and to test with."""
    results: Mapping[str, Any] = field(default_factory=dict)
    """Measurements at the end of the run."""
    library: str = __version__
    """The version of OpenBNNS that wrote the file."""

    def __post_init__(self) -> None:
        if self.task not in (None, *TASKS):
            raise ValueError(f"ModelCard: task is {self.task!r}. Use one of {', '.join(TASKS)}.")

    def state(self) -> dict[str, Any]:
        """The card as JSON."""
        return {
            "library": __version__,
            "task": self.task,
            "classes": list(self.classes),
            "preparation": None if self.preparation is None else self.preparation.state(),
            "targets": list(self.targets),
            "target_mean": None if self.target_mean is None else list(self.target_mean),
            "target_std": None if self.target_std is None else list(self.target_std),
            "training": dict(self.training),
            "split": dict(self.split),
            "results": dict(self.results),
        }

    @classmethod
    def from_state(cls, said: CheckedTable) -> ModelCard:
        prepared, means = said.get("preparation"), said.get("target_mean")
        return cls(
            None if said.get("task") is None else said.text("task", TASKS),
            tuple(said.texts("classes")),
            None if prepared is None else preprocessing.from_state(prepared, f"{said.where}: preparation"),
            tuple(said.texts("targets")),
            None if means is None else tuple(said.numbers("target_mean")),
            None if means is None else tuple(said.numbers("target_std", len(means), positive=True)),
            said.table("training"),
            said.table("split"),
            said.table("results"),
            said.text("library"),
        )


ModelCard.__init__ = spelled(ModelCard.__init__)  # type: ignore[method-assign]


# Writing.


def save(
    network: Module,
    path: str | PathLike[str],
    card: ModelCard | None = None,
    task: str | None = None,
    classes: Sequence[str] | None = None,
) -> None:
    """Write a model file; see ``nn.Module.save_model``."""
    who = f"{type(network).__name__}.save_model"
    card = card or network._card or ModelCard()
    if task is not None:
        card = replace(card, task=task)
    if classes is not None:
        card = replace(card, classes=tuple(map(str, classes)))
    if not network.built:
        raise RuntimeError(
            f"{who}: the shape of samples is not known. Call build(sample_shape), or run one batch, first."
        )
    arrays = network.state_dict()
    shared = {other: names[0] for names in shared_names(arrays).values() for other in names[1:]}
    table: dict[str, Any] | None = None
    graph: dict[str, Any] | None = None
    constants: dict[str, Array] = {}
    try:
        table = _description(network)
    except CannotDescribe:
        graph, constants = _graph(network, who)
    said = {
        "version": VERSION,
        **card.state(),
        "network": table,
        "graph": graph,
        "inputs": [
            {"shape": list(shape), "dtype": str(value.dtype)}
            for value, shape in zip(recorded_graph(network).inputs, input_shapes(network), strict=True)
        ],
    }
    try:
        text = json.dumps(said, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError) as error:
        raise TypeError(f"{who}: the model card holds what JSON cannot hold ({error}).") from None
    if len(text) > _LARGEST_TEXT:
        raise ValueError(
            f"{who}: the description has {size_text(len(text))}, but {size_text(_LARGEST_TEXT)} are the most."
        )
    stored = {name: array for name, array in arrays.items() if name not in shared}
    weights.save(path, {**stored, **constants}, {KEY: text, **shared})
    network._card = card


def _graph(network: Module, who: str) -> tuple[dict[str, Any], dict[str, Array]]:
    """The network as what its ``forward`` records, tried: it gives a network."""
    from . import graph_file

    try:
        with undisturbed():
            table, constants = graph_file.describe(network)
            graph_file.network_of(json.loads(json.dumps(table)), {**network.state_dict(), **constants}, "the file")
            return table, constants
    except (CannotDescribe, ModelError) as error:
        raise TypeError(
            f"{who}: {error}. Use functions of nn.functional instead; or write the weights alone with net.save(path), and load "
            "them into a network that your code has made."
        ) from None


def _description(network: Module) -> dict[str, Any]:
    """The table of a network, tried: it gives one that does the same."""
    state, shapes = network.state_dict(), input_shapes(network)
    table: dict[str, Any] = {
        "layers": describe(network),
        "shared": [names for names in shared_names(parameters_of(network)).values() if len(names) > 1],
        "frozen": [name for name, parameter in network.named_parameters() if not parameter.requires_grad],
        "options": {},
    }
    with undisturbed():
        try:
            again = _make(table, state, shapes, "it", 2**31 - 1)
            table["options"] = _changed_options(network, again)
            if table["options"]:
                again = _make(table, state, shapes, "it", 2**31 - 1)
        except (ValueError, TypeError, RuntimeError) as error:
            raise CannotDescribe(f"it cannot be made anew from its layers ({error})") from None
    for one, other in zip_longest(layers_of(network), layers_of(again), fillvalue="nothing"):
        if one != other:
            raise CannotDescribe(f"a layer was changed after it was made: it does {one}, where a new one does {other}")
    return table


def _changed_options(network: Module, again: Module) -> dict[str, dict[str, Any]]:
    """Options that were set after the layers were made, by path."""
    changed: dict[str, dict[str, Any]] = {}
    for (path, module), (_, other) in zip(network.named_modules(), again.named_modules(), strict=True):
        for name, value in vars(module).items():
            new = vars(other).get(name)
            if name.startswith("_") or name == "training" or not (is_plain(value) and is_plain(new)) or value == new:
                continue
            if not isinstance(value, ActivationFunction):
                changed.setdefault(path, {})[name] = value
    return changed


def predict(network: Module, samples: Any, batch_size: int) -> Predictions:
    """See ``nn.Module.predict``."""
    who = f"{type(network).__name__}.predict"
    batch_size = whole_number(batch_size, f"{who}: batch_size", 1)
    card = network._card or ModelCard()
    if card.preparation is not None:
        samples = fit_inputs(network, card.preparation.apply(samples, who))
    keys, parts = keys_of(samples), [np.asarray(part) for part in parts_of(samples)]
    if not parts or parts[0].ndim < 1 or not len(parts[0]):
        raise ValueError(f"{who}: there are no samples. Pass at least one.")
    if any(len(part) != len(parts[0]) for part in parts):
        raise ValueError(
            f"{who}: the parts of samples have {[len(part) for part in parts]}. Pass the same number of each."
        )
    arrays = [network._input_array(parts[i], n) for n, i in enumerate(arrange(network, keys, who))]
    return _predictions(network, run_all(network, arrays, batch_size))


def predict_prepared(network: Module, samples: Array, batch_size: int = BATCH) -> Predictions:
    """The predictions for samples that were prepared already."""
    return _predictions(network, run_all(network, [samples], batch_size))


def _predictions(network: Module, outputs: Any) -> Predictions:
    card, who = network._card or ModelCard(), f"{type(network).__name__}.predict"
    if card.task is not None and not (isinstance(outputs, np.ndarray) and outputs.ndim == 2):
        raise ValueError(
            f"{who}: a model for {card.task} gives scores (N, outputs), but this network gives something else."
        )
    return Predictions.of(outputs, card.task, card.classes, mean=card.target_mean, std=card.target_std)


def input_shapes(network: Module) -> list[tuple[int, ...]]:
    """The shapes of samples that a network was built for."""
    return [value.concrete(recorded_graph(network).sizes.numbers)[1:] for value in recorded_graph(network).inputs]


def fit_inputs(network: Module, samples: Array) -> Array:
    """Samples in the shape that the network takes them in; gray images may lack the axis of channels."""
    if network.built and len(recorded_graph(network).inputs) == 1:
        (wanted,) = input_shapes(network)
        if samples.shape[1:] != wanted and math.prod(samples.shape[1:]) == math.prod(wanted):
            return samples.reshape(-1, *wanted)
    return samples


# Reading.


def load(path: str | PathLike[str], network: Module | None = None) -> Module:
    """A network that is ready for ``predict``, from a file that ``net.save_model`` or ``openbnns train`` has written.

    The network is made from what the file says. Of your own classes, and of models from PyTorch, the file holds what their
    ``forward`` recorded, for the shapes of samples that the network has met; to have them as objects of your classes, make the
    network as you did when you trained it, and pass it as ``network``. A file that is damaged, was made by something else, or
    asks for too much memory, is refused with a reason; nothing in it is ever run as code.

    >>> import numpy as np, tempfile
    >>> from openbnns import nn
    >>> net = nn.Sequential(nn.Linear(8), nn.ReLU(), nn.Linear(2)).build((4,), seed=0)
    >>> path = tempfile.mkdtemp() + "/model.safetensors"
    >>> net.save_model(path, task="classification", classes=["cat", "dog"])
    >>> nn.load_model(path).predict(np.ones((1, 4), np.float32)).labels.tolist()
    ['cat']
    """
    arrays, said = read(path)
    where = str(path)
    shapes = [part.sizes("shape") for part in said.tables("inputs")]
    if not shapes:
        raise ModelError(f"{where}: says nothing about the shape of samples.")
    card = ModelCard.from_state(said)
    if network is not None:
        if not isinstance(network, Module):
            raise TypeError(f"load_model: network is a {type(network).__name__}, but must be an openbnns.nn.Module.")
        try:
            network.build(*shapes)
            network.load_state_dict({name: array for name, array in arrays.items() if not name.startswith(CONSTANT)})
        except (Mismatch, ValueError) as error:
            raise ModelError(f"{where}: the network that was passed does not fit. {error}") from None
    else:
        table, graph = said.get("network"), said.get("graph")
        if table is None and graph is None:
            raise ModelError(f"{where}: says nothing about the network. The file is damaged.")
        if table is None:
            from . import graph_file

            network = graph_file.network_of(graph, arrays, where)
            network._card = card
            return network
        elements = max((array.size for array in arrays.values()), default=0)
        largest = max(_ALWAYS, elements, *(math.prod(shape) for shape in shapes))
        network = _make(table, arrays, shapes, where, min(largest, 2**31 - 1))
    network._card = card
    return network.eval()


_READERS = {
    ".onnx": "nn.from_onnx(path)", ".mlpackage": "nn.from_coreml(path)", ".mlmodelc": "nn.from_coreml(path)",
    ".mlmodel": "nn.from_coreml(path)", ".npz": "net.load(path)",
}  # fmt: skip


def _cure(path: Path) -> str:
    """Advice for a path that is not a model file."""
    inside = path / "model.safetensors"  # in a folder of openbnns train
    if inside.is_file():
        return f"Did you mean {inside}?"
    reader = _READERS.get(path.suffix.lower())
    return f"Use {reader}." if reader else "A model file is what net.save_model or openbnns train writes."


def read(path: str | PathLike[str]) -> tuple[dict[str, Array], CheckedTable]:
    """The weights of a model file and its description of the model; raises if it is not a model file."""
    refuse_file(path)
    try:
        arrays, metadata = weights.read(path)
    except DamagedFile as error:
        raise ModelError(f"{error} {_cure(Path(path))}") from None
    text = metadata.get(KEY)
    if text is None:
        if str(metadata.get("format", "")).startswith("openbnns-checkpoint"):
            raise ModelError(
                f"{path}: is a checkpoint, not a model. openbnns train --resume goes on from it and writes model.safetensors."
            )
        raise ModelError(
            f"{path}: has {len(arrays)} arrays of weights, but does not say which network they belong to. Make the network and "
            "call its load(path); net.save_model(path) writes files that know."
        )
    if len(text) > _LARGEST_TEXT:
        raise ModelError(
            f"{path}: its description has {size_text(len(text))}, but {size_text(_LARGEST_TEXT)} are the most."
        )
    try:
        said = CheckedTable(json.loads(text, parse_constant=_refuse), str(path))
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{path}: its description of the model is damaged ({error}).") from None
    version = said.get("version")
    if type(version) is not int or version < 1:
        raise ModelError(f"{path}: does not say in which version it describes the model.")
    if version > VERSION:
        raise ModelError(
            f"{path}: describes the model in version {version}, written by OpenBNNS {said.get('library')!s:.20}; this is "
            f"{__version__}, which knows version {VERSION}. Install a newer one."
        )
    return arrays, said


def _refuse(text: str) -> float:
    raise ValueError(f"{text} is not JSON")


def _make(
    table: Any, arrays: Mapping[str, Array], shapes: Sequence[tuple[int, ...]], where: str, largest: int
) -> Module:
    """The network of a table with these weights, built for samples of these shapes.

    Parameters get their values before anything is built, so that none is ever made larger than what the file holds.
    """
    said = CheckedTable(table, f"{where}: network")
    network = Maker(largest=largest).layer(said.get("layers"), f"{where}: layers")
    _set_options(network, said)
    own = parameters_of(network)
    for names in said.get("shared") or []:
        if not isinstance(names, list) or not all(isinstance(name, str) and name in own for name in names):
            raise ModelError(f"{where}: shared names parameters that are not there.")
        for name in names[1:]:
            if own[name] is not own[names[0]]:
                path, _, last = name.rpartition(".")
                setattr(network.get_submodule(path), last, own[names[0]])
    own = parameters_of(network)
    for names in shared_names(own).values():
        missing = next((name for name in names if name in arrays), None)
        if missing is None:
            raise ModelError(f"{where}: has no weights for {names[0]}. The file is damaged, or was changed.")
        own[missing]._set(arrays[missing])
    try:
        network.build(*shapes)
        network.load_state_dict(arrays)
    except (Mismatch, ValueError, TypeError, RuntimeError, OverflowError) as error:
        raise ModelError(f"{where}: weights and layers do not fit each other. {error}") from None
    for operation in recorded_graph(network).operations:
        sample = tuple(map(number_of, operation.output.shape[1:]))
        memory_limit.check(4 * math.prod(sample), f"{where}: the result {sample} of a layer for one sample", ModelError)
    own = parameters_of(network)
    for name in said.texts("frozen"):
        if name not in own:
            raise ModelError(f"{where}: frozen names a parameter that is not there, {name[:60]!r}.")
        own[name].requires_grad = False
    return network


def _set_options(network: Module, said: CheckedTable) -> None:
    """Restore options that were set after the layers were made; only options that such layers have, in the same type."""
    modules = dict(network.named_modules())
    for path, values in said.table("options").items():
        for name, value in values.items() if isinstance(values, dict) and path in modules else [("", None)]:
            value = tuple(value) if isinstance(value, list) else value
            old = vars(modules.get(path, network)).get(name)
            if (
                name.startswith("_")
                or not (is_plain(old) and is_plain(value))
                or isinstance(old, str) != isinstance(value, str)
            ):
                raise ModelError(f"{said.where}: options has {path}.{name}, which is not an option of that layer.")
            setattr(modules[path], name, value)


__all__ = ["ModelCard", "ModelError", "load", "save"]

__dir__ = _of_module(__name__)
