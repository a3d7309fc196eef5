"""Whether a checkpoint makes sense, and whether a run is the continuation of the one that wrote it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from enum import Enum
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import ActivationFunction, compat
from ._value import Array
from .checkpoints import EARLIER, Checkpoint, CheckpointError, step_of
from .weights import DamagedFile

if TYPE_CHECKING:
    from .module import Module
    from .schedules import Schedule
    from .trainer import Trainer

_POINTS = 4097  # of a run, at which schedules are compared
_HASHED_WHOLE = 2**28
_BLOCKS, _BLOCK = 2**12, 2**14


def fingerprint(x: Array, y: Array) -> dict[str, Any]:
    """Sizes, types and a hash of samples and targets.

    The hash covers every byte of an array of up to 256 MiB. A larger one is cut into 4096 parts of the same size, and the
    first and the last 16 KiB of each are hashed, 128 MiB in all.
    """
    digest = hashlib.sha256()
    for array in (x, y):
        digest.update(f"{array.dtype.str} {array.shape}".encode())
        data = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
        if len(data) <= _HASHED_WHOLE:
            digest.update(data)
            continue
        stride = len(data) / _BLOCKS
        for i in range(_BLOCKS):
            start, end = int(i * stride), int((i + 1) * stride)
            digest.update(data[start : start + _BLOCK])
            digest.update(data[end - _BLOCK : end])
    return {
        "samples": len(x),
        "shape": list(x.shape[1:]),
        "types": f"{x.dtype} and {y.dtype}",
        "sha256": digest.hexdigest(),
    }


def _points(total: int) -> list[int]:
    """All steps of a run, or as many of a long one as it takes to tell schedules apart."""
    return sorted({round(i * (total - 1) / (_POINTS - 1)) for i in range(_POINTS)})


def _factors(schedule: Schedule, total: int) -> str:
    """A hash of what a schedule does over a run of so many steps."""
    factors = np.array([schedule(step, total) for step in _points(total)], np.float64)
    return hashlib.sha256(factors.tobytes()).hexdigest()


def settings(
    trainer: Trainer, x: Array, y: Array, validation: tuple[Array, Array] | None, epochs: int
) -> dict[str, Any]:
    """Everything that decides which numbers a run computes, as plain JSON."""
    from ..runtime import config

    network, optimizer = trainer.network, trainer.optimizer
    arrays = {f"network.{name}": array for name, array in network.state_dict().items()}
    arrays |= {f"optimizer.{name}": array for name, array in optimizer.state_dict().items()}
    trained = {id(p) for p in optimizer.parameters if getattr(p, "requires_grad", True)}
    total = epochs * -(-len(x) // trainer.batch_size)
    here = config()
    found = {
        "learning rate": trainer._base_rate,
        "schedule": {"name": trainer._schedule_name, "steps": total, "sha256": _factors(trainer.schedule, total)},
        "epochs": epochs,
        "batch size": trainer.batch_size,
        "early stopping": trainer.early_stopping,
        "metrics": list(trainer.metrics),
        "loss": repr(trainer.loss),
        "optimizer": _optimizer(optimizer),
        "not trained": [name for name, p in network.named_parameters() if id(p) not in trained],
        "training data": fingerprint(x, y),
        "validation data": None if validation is None else fingerprint(*validation),
        "engine": here["engine"],
        "accuracy": here.get("accuracy", "fast"),
        "switches": sorted(name for name in vars(compat.switches) if getattr(compat.switches, name)),
        "instruction set": here["instruction set"],
        "seed": trainer.seed,
        "layers": _layers(network),
        "arrays": {name: [array.dtype.str, list(array.shape)] for name, array in arrays.items()},
    }
    plain: dict[str, Any] = json.loads(json.dumps(found))
    return plain


def _optimizer(optimizer: Any) -> dict[str, str]:
    """Its name and numbers, group by group if there are several; without those that change from step to step."""
    groups = getattr(optimizer, "param_groups", [optimizer])
    found = {"name": type(optimizer).__name__}
    for number, group in enumerate(groups, 1):
        prefix = f"group {number}, " if len(groups) > 1 else ""
        values = group.bnns.hyperparameters
        if hasattr(optimizer, "_clipping"):  # as it was asked for, without a norm that is known by now
            values["gradient_clipping"] = optimizer._clipping
        if len(groups) > 1:
            values["share of the learning rate"] = group.share
        for name, value in values.items():
            if name not in ("learning_rate", "time_step"):
                found[prefix + name] = value.name if isinstance(value, Enum) else repr(value)
    return found


def _layers(network: Module) -> list[str]:
    """What runs, one text per step, with every plain number of the layers that do it."""
    assert network._graph is not None
    return [
        f"{' + '.join(map(_layer, operation.modules)) or type(operation).__name__} gives {operation.output.sample}"
        for operation in network._graph.operations
    ]


def _layer(module: Module) -> str:
    numbers = {
        name: value
        for name, value in vars(module).items()
        if not name.startswith("_") and name != "training" and _is_plain(value)
    }
    return f"{type(module).__name__}({', '.join(f'{name}={value!r}' for name, value in numbers.items())})"


def _is_plain(value: Any) -> bool:
    """A value that is written in the same way in every process; objects of Python show their address."""
    if isinstance(value, (tuple, list)):
        return all(map(_is_plain, value))
    return isinstance(value, (bool, int, float, str, ActivationFunction))


# Is it a checkpoint?


def examine(path: Path, found: Checkpoint, ours: dict[str, Any]) -> None:
    """Raise DamagedFile for a state that no run writes."""

    def require(condition: bool, what: str) -> None:
        if not condition:
            raise DamagedFile(f"{path}: what it says about the run makes no sense ({what}).")

    state, theirs = found.state, found.state.get("settings")
    require(isinstance(theirs, dict) and set(theirs) == set(ours), "settings")
    assert isinstance(theirs, dict)
    for name, now in ours.items():
        if name not in ("learning rate", "early stopping", "validation data"):  # a number of either kind; or none
            require(type(theirs[name]) is type(now), name)
    data, schedule = theirs["training data"], theirs["schedule"]
    for part in (data, {} if theirs["validation data"] is None else theirs["validation data"]):
        require(isinstance(part, dict) and (not part or set(part) == set(ours["training data"])), "data")
        require(isinstance(part.get("shape", []), list), "data")
    require(set(schedule) == set(ours["schedule"]), "schedule")
    counts = [theirs["epochs"], theirs["batch size"], data.get("samples"), schedule["steps"]]
    require(all(type(n) is int and 0 < n < 2**40 for n in counts), "numbers of epochs and samples")
    epochs, batch_size, samples, steps = counts
    batches = -(-samples // batch_size)
    require(steps == epochs * batches, "number of steps")
    epoch, batch, waited = (state.get(name) for name in ("epoch", "batch", "waited"))
    require(type(epoch) is int and 0 <= epoch <= epochs, "epoch")
    require(type(batch) is int and 0 <= batch < batches, "batch")
    assert isinstance(epoch, int) and isinstance(batch, int)
    require(step_of(path) == epoch * batches + batch, "its step is not that of its name")
    require(type(waited) is int and 0 <= waited <= epoch, "epochs without gain")
    best_loss = state.get("best_loss", "")
    require(best_loss is None or _are_numbers([best_loss]), "best loss")
    sums, metrics = state.get("sums"), theirs["metrics"]
    require(all(isinstance(name, str) for name in metrics), "metrics")
    require(isinstance(sums, dict) and set(sums) == {"loss", *metrics} and _are_numbers([*sums.values()]), "sums")
    history = state.get("history")
    require(isinstance(history, list) and len(history) == epoch, "history")
    assert isinstance(history, list)
    for number, record in enumerate(history, 1):
        require(_is_record(record, number), "history")
    listed = {name: [array.dtype.str, list(array.shape)] for name, array in found.arrays.items()}
    best = {name: entry for name, entry in listed.items() if name.startswith("best.")}
    require(theirs["arrays"] == {name: entry for name, entry in listed.items() if name not in best}, "arrays")
    network = {f"best.{name}": listed[f"network.{name}"] for name in found.part("network")}
    require(not best or best == network, "best weights")


def _are_numbers(values: Any) -> bool:
    return isinstance(values, list) and all(type(value) in (int, float) for value in values)


def _is_record(record: Any, number: int) -> bool:
    """Whether this is what a run notes at the end of an epoch."""
    if not isinstance(record, dict) or record.get("epoch") != number:
        return False
    norms = record.get("gradient_norms")
    rest = [value for name, value in record.items() if name != "gradient_norms"]
    needed = {"epoch", "step", "learning_rate", "loss", "seconds"} <= set(record)
    return needed and _are_numbers(rest) and isinstance(norms, dict) and _are_numbers([*norms.values()])


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
        f"{folder}: going on from the weights of the checkpoint with other settings:\n{listed}\nThe checkpoints so far move to "
        f"{folder / EARLIER} when the first new one is written."
    )


def differences(found: Checkpoint, ours: dict[str, Any], schedule: Schedule) -> dict[str, str]:
    """What this run would do otherwise than the one of the checkpoint, by setting; instruction sets may differ."""
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
        return "none" if data is None else f"{data['samples']} samples of shape {tuple(data['shape'])}, {data['types']}"

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
