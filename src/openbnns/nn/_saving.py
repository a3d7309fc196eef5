"""Checkpoints of a run: writing, finding and restoring them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..graph.parameter import Mismatch
from ..graph.tensor import Array
from . import checkpoints
from .checkpoints import Checkpoint, CheckpointError
from .history import History
from .resume import differences, examine, refuse_or_say

if TYPE_CHECKING:
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
    arrays |= {f"optimizer.{name}": array for name, array in run.optimizer_state().items()}
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
        "best_value": run.best.value if run.best.known else None,
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
        trainer._say(f"{trainer.out}: the files of an earlier run are now in {aside}: {', '.join(moved)}.")
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


def _remind(callbacks: Sequence[Any], found: Checkpoint) -> None:
    """Give callbacks back what those of their kind remembered, in their order."""
    left = list(enumerate(found.state["callbacks"]))
    for callback in callbacks:
        own = next((entry for entry in left if entry[1][0] == type(callback).__qualname__), None)
        if own is None:
            continue
        left.remove(own)
        number, (_, state) = own
        arrays = found.part(f"callback.{number}")
        if (state is not None or arrays) and hasattr(callback, "load_state_dict"):
            callback.load_state_dict({**state, **arrays} if arrays else state)


def load(run: Run, *, override: bool) -> None:
    """Go on from the latest checkpoint, if there is one and it is one of this run."""
    trainer = run.trainer
    assert trainer.out is not None
    ours, say = run.settings, trainer._say
    folder = trainer.out
    found = run.once(lambda: checkpoints.latest(folder, say, lambda path, found: examine(path, found, ours)))
    if found is None:
        say(f"{trainer.out}: no checkpoint yet, starting from the beginning.")
        return
    told = differences(found, ours, trainer.schedule)
    if told:
        refuse_or_say(trainer.out, told, override, say)
    _take(run, found, told)
    if run.done:
        say(f"{trainer.out}: nothing to do, {_why_done(run)}.")
        return
    theirs = found.state["settings"]
    if theirs["epochs"] != run.epochs:
        say(f"Training for {run.epochs} epochs in all instead of {theirs['epochs']}.")
    if theirs["instruction set"] != ours["instruction set"]:
        say(
            f"This CPU computes with {ours['instruction set']}, that of the checkpoint with {theirs['instruction set']}: the "
            "last digits will differ from an uninterrupted run."
        )
    say(f"Resuming at epoch {run.epoch + 1}, step {run.step + 1}.")


def _why_done(run: Run) -> str:
    done = f"{run.epoch} epoch{'s are' if run.epoch != 1 else ' is'} done"
    if run.best.ended:
        return f"{done} and training stopped early"
    return done if run.epoch == run.epochs else f"{done} already and {run.epochs} were asked for"


def _of_optimizer(settings: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Its kind and the arrays of its state."""
    arrays = {name: entry for name, entry in settings["arrays"].items() if name.startswith("optimizer.")}
    return settings["optimizer"].get("name"), arrays


def _chosen_otherwise(run: Run, theirs: dict[str, Any], told: dict[str, str]) -> bool:
    """True if early stopping used another metric than now; a different patience does not matter."""
    patience = all(
        isinstance(s["early stopping"], int) or s["early stopping"] == "never" for s in (theirs, run.settings)
    )
    by_metric = run.best.stopping is not None and not run.best.stopping.metric.endswith("loss")
    return ("early stopping" in told and not patience) or ("metrics" in told and by_metric)


def _take(run: Run, found: Checkpoint, told: dict[str, str]) -> None:
    """Take over the state of a checkpoint, but for what the settings that differ make meaningless."""
    trainer, state = run.trainer, found.state
    try:
        trainer.network.load_state_dict(found.part("network"))
        if "not trained" in told or _of_optimizer(state["settings"]) != _of_optimizer(run.settings):
            trainer._say("The optimizer starts anew: its state belongs to another one or to other parameters.")
        else:
            run.load_optimizer_state(found.part("optimizer"))
        if state["batch"] and not _OF_AN_EPOCH & set(told):
            measures = run.new_measures()
            measures.restore(state["sums"], found.part("metric"))
            run.batch, run.measures = state["batch"], measures
    except (Mismatch, ValueError) as error:
        raise CheckpointError(f"{trainer.out}: the checkpoint does not fit. {error}") from None
    run.begins = bool(told)
    run.epoch, trainer.history = state["epoch"], History(state["history"])
    if state["batch"] and not run.batch:
        trainer._say(f"Epoch {run.epoch + 1} starts again: the samples or their order differ.")
    if not _OF_A_BEST_EPOCH & set(told) and not _chosen_otherwise(run, state["settings"], told):
        if state["best_value"] is not None:
            run.best.value = state["best_value"]
        run.best.waited = state["waited"]
        if run.best_weights is not None:
            run.best_weights = found.part("best")
    elif state["best_value"] is not None:
        trainer._say("The best epoch so far no longer counts: it was chosen by another measure.")
    _remind(run.callbacks, found)
