"""``openbnns train --tune N``: a random search for settings, on the training samples alone, which ends poor settings
early."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np

from .._plural import plural

_ROUNDS = 3  # of which each has half as many settings as the one before, and twice as many epochs
_SHARE = 0.2  # of the training samples, by which settings are compared


def draw(random: np.random.RandomState) -> dict[str, Any]:
    """Random settings: those of the network, and learning rate and weight decay."""
    return {
        "width": int(random.choice([32, 64, 128, 256])),
        "depth": int(random.choice([1, 2, 3])),
        "dropout": float(random.choice([0.0, 0.1, 0.2, 0.3, 0.5])),
        "lr": float(f"{10 ** random.uniform(-3.5, -2):.2g}"),
        "weight_decay": float(f"{10 ** random.uniform(-4, -1):.2g}"),
    }


def search(options: argparse.Namespace, data: Any, say: Callable[[str], None]) -> dict[str, Any]:
    """The best of ``options.tune`` settings, the usual ones among them: sets options, and gives arguments of the network."""
    from ..nn.data.splitting import split_rows

    random = np.random.RandomState(options.seed)
    usual = {"width": 64, "depth": 2, "dropout": 0.2, "lr": options.lr, "weight_decay": options.weight_decay}
    known = [usual, *(draw(random) for _ in range(options.tune - 1))]
    y = data.train_y if data.train_y.ndim == 1 or data.task == "multilabel" else data.train_y[:, 0]
    compared, trained = split_rows(y, _SHARE, options.seed, "--tune")
    parts = [(data.train_x[rows], data.train_y[rows]) for rows in (trained, compared)]
    losses: list[float] = []
    for number in range(_ROUNDS):
        epochs = max(1, options.epochs // 2 ** (_ROUNDS - 1 - number))
        losses = [_loss(options, data, settings, parts, epochs) for settings in known]
        order = np.argsort(losses, kind="stable")
        tried = f"{plural(len(known), 'setting')}, {plural(epochs, 'epoch')}"
        say(f"Tuning, round {number + 1} of {_ROUNDS}: {tried}, lowest loss {min(losses):.4f}")
        kept = order[: max(1, len(known) // 2)] if number < _ROUNDS - 1 else order[:1]
        known = [known[i] for i in kept]
    best = known[0]
    say(f"Best settings: {', '.join(f'{name} {value:g}' for name, value in best.items())}.")
    options.lr, options.weight_decay = best.pop("lr"), best.pop("weight_decay")
    return best


def _loss(options: argparse.Namespace, data: Any, settings: dict[str, Any], parts: Any, epochs: int) -> float:
    """The lowest loss on the samples that settings are compared by; infinite if training diverges."""
    from ..nn import EarlyStopping, Trainer, evaluation, models, optimizers
    from ..nn.trainer import Diverged

    shape = {name: settings[name] for name in ("width", "depth", "dropout")}
    optimizer: Any = optimizers.NAMED[options.optimizer]
    trainer = Trainer(
        models.tabular(data.outputs, **shape), evaluation.LOSSES[data.task](),
        optimizer(settings["lr"], weight_decay=settings["weight_decay"]), schedule=options.schedule, seed=options.seed,
        batch_size=options.batch_size, clip_norm=options.clip_norm, early_stopping=EarlyStopping(5), quiet=True,
    )  # fmt: skip
    try:
        history = trainer.fit(*parts[0], epochs=epochs, validation=parts[1])
    except Diverged:
        return float("inf")
    return min(float(record["validation_loss"]) for record in history)
