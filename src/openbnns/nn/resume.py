"""Checks of checkpoints, and of runs that continue them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from enum import Enum
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import ActivationFunction, compat
from ..graph.tensor import Array
from .batches import ArraySource
from .checkpoints import EARLIER, Checkpoint, CheckpointError, step_of
from .data.sources.rows import Rows, spans
from .files.safetensors import DamagedFile
from .recording import modes_of, recording_of
from .run_metrics import describe as describe_metrics
from .transforms import describe as describe_transforms

if TYPE_CHECKING:
    from .batch_stream import Feed
    from .module import Module
    from .schedules import Schedule
    from .training_run import Run

_POINTS = 4097  # steps of a run at which schedules are compared
_HASHED_WHOLE = 2**28
_BLOCKS, _BLOCK = 2**12, 2**14
# Settings that may be of several types.
_NUMBERS_OR_NONE = {"learning rate", "early stopping", "validation data", "validation split", "class weights"}
# Settings that checkpoints did not always have, and what they were before.
_LATER = {"shards": 0, "synchronized batch normalization": False, "parts in inference mode": [], "precision": "float32"}


def fingerprint(x: Array | list[Array], y: Array | list[Array]) -> dict[str, Any]:
    """Sizes, types and a hash of samples and targets, each one array or several.

    The hash covers every byte of an array of up to 256 MiB. A larger one is cut into 4096 parts of the same size, and the
    first and the last 16 KiB of each are hashed, 128 MiB in all. Rows of files know themselves what to hash.
    """
    samples, targets = (part if isinstance(part, list) else [part] for part in (x, y))
    digest = hashlib.sha256()
    for array in (*samples, *targets):
        digest.update(f"{array.dtype.str} {array.shape}".encode())
        for piece in array.pieces() if isinstance(array, Rows) else _pieces(array):
            digest.update(piece)
    shapes = [list(array.shape[1:]) for array in samples]
    return {
        "samples": len(samples[0]),
        "of": "samples",
        "shape": shapes[0] if len(shapes) == 1 else shapes,
        "types": " and ".join(", ".join(str(array.dtype) for array in part) for part in (samples, targets) if part),
        "sha256": digest.hexdigest(),
    }


def _pieces(array: Array) -> Iterator[Any]:
    if array.nbytes > _HASHED_WHOLE and not array.flags.c_contiguous:  # a file that is not in memory stays there
        array = array[np.linspace(0, len(array) - 1, min(len(array), _BLOCKS)).astype(np.int64)]
    data = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
    return (data[start:end] for start, end in spans(len(data), _HASHED_WHOLE, _BLOCKS, _BLOCK))


def _data(feed: Feed) -> dict[str, Any]:
    """The fingerprint of data in a checkpoint: of all arrays, or of an iterable's first batch and number of batches."""
    found = fingerprint(*feed.source.arrays)
    return found if isinstance(feed.source, ArraySource) else {**found, "samples": feed.source.batches, "of": "batches"}


def _points(total: int) -> list[int]:
    """All steps of a run, or as many of a long one as it takes to tell schedules apart."""
    return sorted({round(i * (total - 1) / (_POINTS - 1)) for i in range(_POINTS)})


def _factors(schedule: Schedule, total: int) -> str:
    """A hash of what a schedule does over a run of so many steps."""
    factors = np.array([schedule(step, total) for step in _points(total)], np.float64)
    return hashlib.sha256(factors.tobytes()).hexdigest()


def settings(run: Run) -> dict[str, Any]:
    """Everything that decides which numbers a run computes, as plain JSON."""
    from ..runtime import config

    trainer, feed = run.trainer, run.feed
    network, optimizer = trainer.network, trainer.optimizer
    arrays = {f"network.{name}": array for name, array in network.state_dict().items()}
    arrays |= {f"optimizer.{name}": array for name, array in optimizer.state_dict().items()}
    trained = {id(p) for p in optimizer.parameters if getattr(p, "requires_grad", True)}
    total = run.epochs * run.steps
    here = config()
    weights = run.passes.class_weights
    stopping = run.best.stopping
    split = trainer._validation_split  # the training data are a part of the split data
    found = {
        "learning rate": trainer._base_rate,
        "schedule": {
            "name": trainer._schedule_name, "steps": total, "batches": run.batches,
            "sha256": _factors(trainer.schedule, total),
        },
        "epochs": run.epochs,
        "batch size": feed.source.batch_size if isinstance(feed.source, ArraySource) else 0,
        "gradient accumulation": run.accumulate,
        "shards": 0 if trainer.distributed is None else trainer.shards,
        "synchronized batch normalization": trainer.sync_batch_norm,
        "early stopping": None if stopping is None else stopping.setting(),
        "metrics": describe_metrics(trainer.metrics),
        "loss": repr(trainer.loss) if trainer.loss_weights is None else f"{trainer.loss!r} times {trainer.loss_weights!r}",
        "class weights": None if weights is None else weights.table.tolist(),
        "transforms": describe_transforms(feed.changes),
        "optimizer": _optimizer(optimizer),
        "not trained": [name for name, p in network.named_parameters() if id(p) not in trained],
        "parts in inference mode": [name for name, part in network.named_modules() if part in modes_of(network, True)],
        "training data": _data(feed),
        "validation data": None if run.validation is None or split is not None else _data(run.validation),
        "validation split": split,
        "engine": here["engine"],
        "accuracy": here.get("accuracy", "fast"),
        "precision": network._precision,
        "switches": sorted(name for name in vars(compat.switches) if getattr(compat.switches, name)),
        "instruction set": here["instruction set"],
        "seed": trainer.seed,
        "layers": layers_of(network),
        "arrays": {name: [array.dtype.str, list(array.shape)] for name, array in arrays.items()},
    }  # fmt: skip
    plain: dict[str, Any] = json.loads(json.dumps(found))
    return plain


def _optimizer(optimizer: Any) -> dict[str, str]:
    """Its name and numbers, group by group if there are several; without those that change from step to step."""
    groups = getattr(optimizer, "param_groups", [optimizer])
    found = {"name": type(optimizer).__name__}
    for number, group in enumerate(groups, 1):
        prefix = f"group {number}, " if len(groups) > 1 else ""
        values = {**group.bnns.hyperparameters, **getattr(group, "beyond_bnns", {})}
        if hasattr(optimizer, "_clipping"):  # as the user set it, without a norm that is known by now
            values["gradient_clipping"] = optimizer._clipping
        if len(groups) > 1:
            values["share of the learning rate"] = group.share
        for name, value in values.items():
            if name not in ("learning_rate", "time_step"):
                found[prefix + name] = value.name if isinstance(value, Enum) else repr(value)
    return found


def layers_of(network: Module) -> list[str]:
    """The steps of a network, one text each, with every plain number of their layers."""
    return [
        f"{' + '.join(map(_layer, operation.modules)) or type(operation).__name__} gives {operation.output.shape[1:]}"
        for operation in recording_of(network, False).graph.operations
    ]


def _layer(module: Module) -> str:
    numbers = {name: value for name, value in vars(module).items() if not name.startswith("_") and is_plain(value)}
    return f"{type(module).__name__}({', '.join(f'{name}={value!r}' for name, value in numbers.items())})"


def is_plain(value: Any) -> bool:
    """A value that is written in the same way in every process; objects of Python show their address."""
    if isinstance(value, (tuple, list)):
        return all(map(is_plain, value))
    return isinstance(value, (bool, int, float, str, ActivationFunction))


# Is it a checkpoint?


def examine(path: Path, found: Checkpoint, ours: dict[str, Any]) -> None:
    """Raise DamagedFile for a state that no run writes."""

    def require(condition: bool, what: str) -> None:
        if not condition:
            raise DamagedFile(f"{path}: its description of the run is invalid ({what}).")

    state, theirs = found.state, found.state.get("settings")
    if isinstance(theirs, dict):
        for name in _LATER:
            theirs.setdefault(name, _LATER[name])
    require(isinstance(theirs, dict) and set(theirs) == set(ours), "settings")
    assert isinstance(theirs, dict)
    for name, now in ours.items():
        if name not in _NUMBERS_OR_NONE:
            require(type(theirs[name]) is type(now), name)
    data, schedule = theirs["training data"], theirs["schedule"]
    for part in (data, {} if theirs["validation data"] is None else theirs["validation data"]):
        require(isinstance(part, dict) and (not part or set(part) == set(ours["training data"])), "data")
        require(isinstance(part.get("shape", []), list), "data")
    require(set(schedule) == set(ours["schedule"]), "schedule")
    counts = [
        theirs["epochs"],
        theirs["gradient accumulation"],
        data.get("samples"),
        schedule["batches"],
        schedule["steps"],
    ]
    require(all(type(n) is int and 0 < n < 2**40 for n in counts), "numbers of epochs and samples")
    epochs, accumulate, samples, batches, steps = counts
    size, of_arrays = theirs["batch size"], data["of"] == "samples"
    require((size > 0) == of_arrays, "batch size")
    if not of_arrays:
        require(samples == batches, "number of batches")
    elif theirs["validation split"] is None:  # which leaves a part of the samples
        require(batches == -(-samples // size), "number of batches")
    in_epoch = -(-batches // accumulate)
    require(steps == epochs * in_epoch, "number of steps")
    epoch, batch, waited = (state.get(name) for name in ("epoch", "batch", "waited"))
    require(type(epoch) is int and 0 <= epoch <= epochs, "epoch")
    require(type(batch) is int and 0 <= batch < batches, "batch")
    assert isinstance(epoch, int) and isinstance(batch, int)
    require(batch % accumulate == 0, "batch")
    require(step_of(path) == epoch * in_epoch + batch // accumulate, "its step is not that of its name")
    require(type(waited) is int and 0 <= waited <= epoch, "epochs without gain")
    best_value = state.get("best_value", "")
    require(best_value is None or _are_numbers([best_value]), "best value")
    sums, metrics = state.get("sums"), theirs["metrics"]
    require(all(isinstance(name, str) for name in metrics), "metrics")
    require(
        isinstance(sums, dict) and set(sums) == {"losses", "weights"} and all(map(_are_numbers, sums.values())), "sums"
    )
    called = state.get("callbacks")
    require(isinstance(called, list) and all(isinstance(c, list) and len(c) == 2 for c in called), "callbacks")
    assert isinstance(called, list)
    with_arrays = [c[1] for i, c in enumerate(called) if found.part(f"callback.{i}")]
    require(all(isinstance(plain, dict) for plain in with_arrays), "callbacks")
    history = state.get("history")
    require(isinstance(history, list) and len(history) == epoch, "history")
    assert isinstance(history, list)
    for number, record in enumerate(history, 1):
        require(_is_record(record, number), "history")
    listed = {name: [array.dtype.str, list(array.shape)] for name, array in found.arrays.items()}
    best = {name: entry for name, entry in listed.items() if name.startswith("best.")}
    require(batch > 0 or not found.part("metric"), "metrics")
    apart = ("best.", "metric.", "callback.")
    others = {name: entry for name, entry in listed.items() if not name.startswith(apart)}
    require(theirs["arrays"] == others, "arrays")
    network = {f"best.{name}": listed[f"network.{name}"] for name in found.part("network")}
    require(not best or best == network, "best weights")


def _are_numbers(values: Any) -> bool:
    return isinstance(values, list) and all(type(value) in (int, float) for value in values)


def _is_record(record: Any, number: int) -> bool:
    """True for a record of the kind that a run adds to its history at the end of an epoch."""
    if not isinstance(record, dict) or record.get("epoch") != number:
        return False
    tables = [record.get(name) for name in ("gradient_norms", "phase_seconds")]
    needed = {"epoch", "step", "learning_rate", "loss", "seconds"}
    return _are_numbers([record.get(name) for name in needed]) and all(
        isinstance(table, dict) and _are_numbers([*table.values()]) for table in tables
    )


# Is it the same run?


def refuse_or_say(folder: Path, told: dict[str, str], override: bool, say: Callable[[str], None]) -> None:
    """Raise CheckpointError for what differs, or, where that can be overridden and shall be, say what happens."""
    listed = "\n".join(f"  {name}: {text}" for name, text in told.items())
    fixed = any(name.startswith("network, ") for name in told)
    if fixed or not override:
        cure = (
            "The weights do not fit this network, so start again in another folder."
            if fixed
            else "Use the same settings, or another folder; or go on from these weights with the new settings: --resume "
            "--override (in Python resume='override')."
        )
        raise CheckpointError(f"{folder}: the checkpoint belongs to another run:\n{listed}\n{cure}")
    say(
        f"{folder}: going on from the weights of the checkpoint with other settings:\n{listed}\nThe files so far move to "
        f"{folder / EARLIER} when the first new checkpoint is written."
    )


def differences(found: Checkpoint, ours: dict[str, Any], schedule: Schedule) -> dict[str, str]:
    """The differences between this run and the one of the checkpoint, by setting; instruction sets may differ."""
    theirs = found.state["settings"]
    told = _other_schedule(theirs, ours, schedule, found.state["epoch"])
    for name, now in ours.items():
        before = theirs[name]
        if name in ("epochs", "schedule", "arrays", "layers", "instruction set") or before == now:
            continue
        if name == "optimizer" and before.get("name") == now["name"]:
            told |= {
                f"optimizer, {part}": f"{before.get(part)} in the checkpoint, {now.get(part)} now"
                for part in sorted({*before, *now})
                if before.get(part) != now.get(part)
            }
        elif name == "optimizer":
            told[name] = f"{before.get('name')} in the checkpoint, {now['name']} now"
        elif name in ("training data", "validation data"):
            told[name] = _other_data(before, now)
        else:
            told[name] = f"{before!r} in the checkpoint, {now!r} now"
    told |= {
        f"network, {name}": f"shape {_shape(theirs, name)} in the checkpoint, {_shape(ours, name)} now"
        for name in sorted({*_network(theirs), *_network(ours)})
        if _network(theirs).get(name) != _network(ours).get(name)
    }
    if theirs["layers"] != ours["layers"] and not any(name.startswith("network, ") for name in told):
        told |= _other_layers(theirs["layers"], ours["layers"])
    return told


def _network(run: dict[str, Any]) -> dict[str, Any]:
    return {name.removeprefix("network."): e for name, e in run["arrays"].items() if name.startswith("network.")}


def _shape(run: dict[str, Any], name: str) -> Any:
    return _network(run).get(name, ("", "none"))[1]


def _other_data(before: Any, now: Any) -> str:
    def sizes(data: Any) -> str:
        if data is None:
            return "none"
        return f"{data['samples']} {data['of']} of shape {tuple(data['shape'])}, {data['types']}"

    if sizes(before) == sizes(now):
        return f"{sizes(now)}, but with other contents than for the checkpoint"
    return f"{sizes(before)} in the checkpoint, {sizes(now)} now"


def _other_schedule(theirs: dict[str, Any], ours: dict[str, Any], schedule: Schedule, done: int) -> dict[str, str]:
    """The schedule, and the number of epochs if the schedule depends on it; else a run may be made longer or shorter."""
    before, total = theirs["schedule"], theirs["schedule"]["steps"]
    if before["sha256"] != _factors(schedule, total):
        names = before["name"], ours["schedule"]["name"]
        told = f"{names[0]} in the checkpoint, {names[1]} now"
        return {
            "schedule": told if names[0] != names[1] else f"{names[0]}, but with other numbers than in the checkpoint"
        }
    if theirs["epochs"] == ours["epochs"] or ours["epochs"] <= done:
        return {}
    other = total // theirs["epochs"] * ours["epochs"]
    if all(schedule(step, total) == schedule(step, other) for step in _points(total) if step < other):
        return {}
    return {
        "epochs": f"{theirs['epochs']} in the checkpoint, {ours['epochs']} now, and the learning rates of the schedule "
        f"{before['name']} depend on their number"
    }


def _other_layers(before: list[Any], now: list[str]) -> dict[str, str]:
    pairs = zip_longest(before, now, fillvalue="nothing")
    return {
        f"step {i} of the network": f"{one} in the checkpoint, {other} now"
        for i, (one, other) in enumerate(pairs, 1)
        if one != other
    }
