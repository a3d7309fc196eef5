"""A run in its checkpoints: written, found again, and taken over."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import checkpoints
from ._measures import Measures
from ._resume import differences, examine, refuse_or_say
from .checkpoints import Checkpoint, CheckpointError
from .parameter import Mismatch

if TYPE_CHECKING:
    from ._run import Run

# What makes the samples of an epoch, or what is counted over them, other ones.
_OF_AN_EPOCH = {
    "batch size", "seed", "training data", "validation split", "metrics", "loss", "transforms", "gradient accumulation",
    "class weights",
}  # fmt: skip
_OF_A_BEST_EPOCH = {"validation data", "validation split", "loss", "class weights"}


def save(run: Run) -> Path:
    """Write a checkpoint of the run as it is now."""
    trainer = run.trainer
    assert trainer.out is not None
    arrays = {f"network.{name}": array for name, array in trainer.network.state_dict().items()}
    arrays |= {f"optimizer.{name}": array for name, array in trainer.optimizer.state_dict().items()}
    arrays |= {f"best.{name}": array for name, array in (run.best_weights or {}).items()}
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
        "callbacks": [[type(callback).__qualname__, _state(callback)] for callback in run.callbacks],
    }
    if run.begins and checkpoints.set_aside(trainer.out):
        trainer._say(
            f"{trainer.out}: the checkpoints of an earlier run are now in {trainer.out / checkpoints.EARLIER}."
        )
    run.begins = False
    return checkpoints.save(trainer.out, run.step, Checkpoint(arrays, state))


def _state(callback: Any) -> Any:
    """What a callback remembers, as plain JSON; None if it remembers nothing."""
    if not hasattr(callback, "state_dict"):
        return None
    state = callback.state_dict()
    try:
        return json.loads(json.dumps(state))
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"Trainer.fit: {type(callback).__name__}.state_dict gave what JSON cannot hold ({error}). Give numbers, texts, lists "
            "and dictionaries of them."
        ) from None


def load(run: Run, *, override: bool) -> None:
    """Go on from the latest checkpoint, if there is one and it is one of this run."""
    trainer = run.trainer
    assert trainer.out is not None
    ours, say = run.settings, trainer._say
    found = checkpoints.latest(trainer.out, say, lambda path, found: examine(path, found, ours))
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
    """Whether early stopping went by another number than now; epochs of patience do not matter."""
    patience = isinstance(theirs["early stopping"], int) and isinstance(run.settings["early stopping"], int)
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
            trainer.optimizer.load_state_dict(found.part("optimizer"), settings=False)
        if state["batch"] and not _OF_AN_EPOCH & set(told):
            measures = Measures(trainer.metrics, run.passes)
            measures.restore(state["sums"], found.part("metric"))
            run.batch, run.measures = state["batch"], measures
    except (Mismatch, ValueError) as error:
        raise CheckpointError(f"{trainer.out}: the checkpoint does not fit. {error}") from None
    run.begins = bool(told)
    run.epoch, trainer.history = state["epoch"], state["history"]
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
    remembered = list(state["callbacks"])
    for callback in run.callbacks:
        own = next((entry for entry in remembered if entry[0] == type(callback).__qualname__), None)
        if own is not None:
            remembered.remove(own)  # the next of its kind has the next state
            if own[1] is not None and hasattr(callback, "load_state_dict"):
                callback.load_state_dict(own[1])
