"""Checkpoints of a training run: written, compared with the run that continues them, and restored."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import ActivationFunction, compat
from ..files.safetensors import DamagedFile
from ..graph.parameter import Mismatch
from ..graph.tensor import Array
from . import checkpoints
from .batches import ArraySource
from .checkpoints import EARLIER, Checkpoint, CheckpointError, step_of
from .data.sources.rows import Rows, spans
from .epoch_metrics import describe as describe_metrics
from .history import History
from .recording import modes_of, recording_of
from .transforms import describe as describe_transforms

if TYPE_CHECKING:
    from .batches import BatchStream
    from .module import Module
    from .schedules import Schedule
    from .trainer import Trainer
    from .training_run import Run

# Settings that change the samples of an epoch, or what is counted over them.
_OF_AN_EPOCH = {
    "batch size", "seed", "training data", "validation split", "metrics", "loss", "transforms", "gradient accumulation",
    "class weights", "shards",
}  # fmt: skip
_OF_A_BEST_EPOCH = {"validation data", "validation split", "loss", "class weights"}


def save(run: Run) -> Path:
    """Write a checkpoint of the run as it is now."""
    trainer = run.trainer
    assert trainer.out is not None
    arrays = {f"network.{name}": array for name, array in trainer.network.state_dict().items()}
    arrays |= {f"optimizer.{name}": array for name, array in trainer.optimizer.state_dict().items()}
    arrays |= {f"best.{name}": array for name, array in (run.best_weights or {}).items()}
    remembered, kept = _remembered(run.callbacks)
    arrays |= {f"callback.{name}": array for name, array in kept.items()}
    if run.batch:
        arrays |= {f"metric.{name}": array for name, array in run.measures.arrays().items()}
    state = {
        "settings": run.settings,
        "epoch": run.epoch,
        "batch": run.batch,
        "sums": run.measures.sums(),
        "best_value": run.best.value if run.best.has_value else None,
        "waited": run.best.waited,
        "history": trainer.history,
        "callbacks": remembered,
    }
    begins, run.begins = run.begins, False
    run.confirm(arrays)
    return run.once(lambda: _write(trainer, begins, run.step, Checkpoint(arrays, state)))


def _write(trainer: Trainer, begins: bool, step: int, checkpoint: Checkpoint) -> Path:
    assert trainer.out is not None
    if begins and (moved := checkpoints.set_aside(trainer.out)):
        aside = trainer.out / checkpoints.EARLIER
        trainer.say(f"{trainer.out}: the files of an earlier run are now in {aside}: {', '.join(moved)}.")
    return checkpoints.save(trainer.out, step, checkpoint)


def _remembered(callbacks: Sequence[Any]) -> tuple[list[Any], dict[str, Array]]:
    """The states of callbacks: their kinds with plain JSON (None without a state), and arrays by number and name."""
    plain: list[Any] = []
    arrays: dict[str, Array] = {}
    for number, callback in enumerate(callbacks):
        state = callback.state_dict() if hasattr(callback, "state_dict") else None
        if isinstance(state, Mapping):
            arrays |= {f"{number}.{name}": a for name, a in state.items() if isinstance(a, np.ndarray)}
            state = {name: value for name, value in state.items() if not isinstance(value, np.ndarray)}
        try:
            plain.append([type(callback).__qualname__, json.loads(json.dumps(state))])
        except (TypeError, ValueError) as error:
            raise TypeError(
                f"Trainer.fit: {type(callback).__name__}.state_dict gave what JSON cannot hold ({error}). Give a dictionary of "
                "numbers, texts, arrays, and lists and dictionaries of numbers and texts."
            ) from None
    return plain, arrays


def _remind(callbacks: Sequence[Any], checkpoint: Checkpoint) -> None:
    """Restore the states of callbacks, matched by kind and order."""
    left = list(enumerate(checkpoint.state["callbacks"]))
    for callback in callbacks:
        own = next((entry for entry in left if entry[1][0] == type(callback).__qualname__), None)
        if own is None:
            continue
        left.remove(own)
        number, (_, state) = own
        arrays = checkpoint.part(f"callback.{number}")
        if (state is not None or arrays) and hasattr(callback, "load_state_dict"):
            callback.load_state_dict({**state, **arrays} if arrays else state)


def load(run: Run, *, override: bool) -> None:
    """Continue from the latest checkpoint, if there is one and it belongs to this run."""
    trainer = run.trainer
    assert trainer.out is not None
    ours, say = run.settings, trainer.say
    folder = trainer.out
    checkpoint = run.once(
        lambda: checkpoints.latest(folder, say, lambda path, checkpoint: examine(path, checkpoint, ours))
    )
    if checkpoint is None:
        say(f"{trainer.out}: no checkpoint yet, starting from the beginning.")
        return
    told = differences(checkpoint, ours, trainer.schedule)
    if told:
        refuse_or_say(trainer.out, told, override, say)
    _take(run, checkpoint, told)
    if run.done:
        say(f"{trainer.out}: nothing to do, {_reason_done(run)}.")
        return
    theirs = checkpoint.state["settings"]
    if theirs["epochs"] != run.epochs:
        say(f"Training for {run.epochs} epochs in all instead of {theirs['epochs']}.")
    if theirs["instruction set"] != ours["instruction set"]:
        say(
            f"This CPU computes with {ours['instruction set']}, that of the checkpoint with {theirs['instruction set']}: the "
            "last digits will differ from an uninterrupted run."
        )
    say(f"Resuming at epoch {run.epoch + 1}, step {run.step + 1}.")


def _reason_done(run: Run) -> str:
    done = f"{run.epoch} epoch{'s are' if run.epoch != 1 else ' is'} done"
    if run.best.ended:
        return f"{done} and training stopped early"
    return done if run.epoch == run.epochs else f"{done} already and {run.epochs} were asked for"


def _of_optimizer(settings: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The kind of an optimizer and the arrays of its state."""
    arrays = {name: entry for name, entry in settings["arrays"].items() if name.startswith("optimizer.")}
    return settings["optimizer"].get("name"), arrays


def _selects_differently(run: Run, theirs: dict[str, Any], told: dict[str, str]) -> bool:
    """True if early stopping used a metric other than the present one; a different patience does not matter."""
    patience = all(
        isinstance(s["early stopping"], int) or s["early stopping"] == "never" for s in (theirs, run.settings)
    )
    by_metric = run.best.stopping is not None and not run.best.stopping.metric.endswith("loss")
    return ("early stopping" in told and not patience) or ("metrics" in told and by_metric)


def _take(run: Run, checkpoint: Checkpoint, told: dict[str, str]) -> None:
    """Restore the state of a checkpoint, except for parts that changed settings make meaningless."""
    trainer, state = run.trainer, checkpoint.state
    try:
        trainer.network.load_state_dict(checkpoint.part("network"))
        if "not trained" in told or _of_optimizer(state["settings"]) != _of_optimizer(run.settings):
            trainer.say("The optimizer starts anew: its state belongs to another one or to other parameters.")
        else:
            run.trainer.optimizer.load_state_dict(checkpoint.part("optimizer"), settings=False)
        if state["batch"] and not _OF_AN_EPOCH & set(told):
            measures = run.new_measures()
            measures.restore(state["sums"], checkpoint.part("metric"))
            run.batch, run.measures = state["batch"], measures
    except (Mismatch, ValueError) as error:
        raise CheckpointError(f"{trainer.out}: the checkpoint does not fit. {error}") from None
    run.begins = bool(told)
    run.epoch, trainer.history = state["epoch"], History(state["history"])
    if state["batch"] and not run.batch:
        trainer.say(f"Epoch {run.epoch + 1} starts again: the samples or their order differ.")
    if not _OF_A_BEST_EPOCH & set(told) and not _selects_differently(run, state["settings"], told):
        if state["best_value"] is not None:
            run.best.value = state["best_value"]
        run.best.waited = state["waited"]
        if run.best_weights is not None:
            run.best_weights = checkpoint.part("best")
    elif state["best_value"] is not None:
        trainer.say("The best epoch so far no longer counts: it was chosen by another measure.")
    _remind(run.callbacks, checkpoint)


_POINTS = 4097  # steps of a run at which schedules are compared
_HASHED_WHOLE = 2**28
_BLOCKS, _BLOCK = 2**12, 2**14
# Settings that may be of several types.
_NUMBERS_OR_NONE = {"learning rate", "early stopping", "validation data", "validation split", "class weights"}


def fingerprint(x: Array | list[Array], y: Array | list[Array]) -> dict[str, Any]:
    """Sizes, types and a hash of samples and targets, each one array or several.

    The hash covers every byte of an array of up to 256 MiB. A larger one is cut into 4096 parts of the same size, and the
    first and the last 16 KiB of each are hashed, 128 MiB in all. Rows of files choose themselves what to hash.
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


def _data(feed: BatchStream) -> dict[str, Any]:
    """The fingerprint of data in a checkpoint: of all arrays, or of an iterable's first batch and number of batches."""
    described = fingerprint(*feed.source.arrays)
    if not isinstance(feed.source, ArraySource):
        described |= {"samples": feed.source.batches, "of": "batches"}
    return described


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
    weights = run.objective.class_weights
    stopping = run.best.stopping
    split = trainer._validation_split  # the training data are a part of the split data
    held = {
        "learning rate": trainer.base_learning_rate,
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
        "accuracy": here["accuracy"],
        "precision": network._precision,
        "switches": sorted(name for name in vars(compat.switches) if getattr(compat.switches, name)),
        "instruction set": here["instruction set"],
        "seed": trainer.seed,
        "layers": layers_of(network),
        "arrays": {name: [array.dtype.str, list(array.shape)] for name, array in arrays.items()},
    }  # fmt: skip
    plain: dict[str, Any] = json.loads(json.dumps(held))
    return plain


def _optimizer(optimizer: Any) -> dict[str, str]:
    """Its name and numbers, group by group if there are several; without those that change from step to step."""
    groups = getattr(optimizer, "param_groups", [optimizer])
    described = {"name": type(optimizer).__name__}
    for number, group in enumerate(groups, 1):
        prefix = f"group {number}, " if len(groups) > 1 else ""
        values = {**group.bnns.hyperparameters, **getattr(group, "beyond_bnns", {})}
        if hasattr(optimizer, "_clipping"):  # as the user set it, without a norm that is known by now
            values["gradient_clipping"] = optimizer._clipping
        if len(groups) > 1:
            values["share of the learning rate"] = group.share
        for name, value in values.items():
            if name not in ("learning_rate", "time_step"):
                described[prefix + name] = value.name if isinstance(value, Enum) else repr(value)
    return described


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


def examine(path: Path, checkpoint: Checkpoint, ours: dict[str, Any]) -> None:
    """Raise DamagedFile for a state that no run writes."""

    def require(condition: bool, what: str) -> None:
        if not condition:
            raise DamagedFile(f"{path}: its description of the run is invalid ({what}).")

    state, theirs = checkpoint.state, checkpoint.state.get("settings")
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
    with_arrays = [c[1] for i, c in enumerate(called) if checkpoint.part(f"callback.{i}")]
    require(all(isinstance(plain, dict) for plain in with_arrays), "callbacks")
    history = state.get("history")
    require(isinstance(history, list) and len(history) == epoch, "history")
    assert isinstance(history, list)
    for number, record in enumerate(history, 1):
        require(_is_record(record, number), "history")
    listed = {name: [array.dtype.str, list(array.shape)] for name, array in checkpoint.arrays.items()}
    best = {name: entry for name, entry in listed.items() if name.startswith("best.")}
    require(batch > 0 or not checkpoint.part("metric"), "metrics")
    apart = ("best.", "metric.", "callback.")
    others = {name: entry for name, entry in listed.items() if not name.startswith(apart)}
    require(theirs["arrays"] == others, "arrays")
    network = {f"best.{name}": listed[f"network.{name}"] for name in checkpoint.part("network")}
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
    """Raise CheckpointError for differences, or report them if they are overridden."""
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


def differences(checkpoint: Checkpoint, ours: dict[str, Any], schedule: Schedule) -> dict[str, str]:
    """The differences between this run and the one of the checkpoint, by setting; instruction sets may differ."""
    theirs = checkpoint.state["settings"]
    told = _other_schedule(theirs, ours, schedule, checkpoint.state["epoch"])
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
