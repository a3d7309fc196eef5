"""The report of a training run or an evaluation: one HTML page that needs nothing else and runs nothing.

:func:`collect` gathers facts and computes scores, :func:`render` draws them, :func:`write` does both. Charts are inline SVG; text
stays text, and colours follow the light or dark setting of the reader.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import signature
from pathlib import Path
from typing import Concatenate, ParamSpec

from ..files.safetensors import write_atomically
from .markup import Panel, Section, table
from .page import render
from .run_facts import Facts, collect

__all__ = [
    "Facts",
    "Panel",
    "Section",
    "collect",
    "render",
    "table",
    "write",
]

_Given = ParamSpec("_Given")


def _with_arguments_of(
    collect: Callable[_Given, Facts],
) -> Callable[[Callable[[str | Path, Facts], None]], Callable[Concatenate[str | Path, _Given], None]]:
    """A decorator: a function of a path and facts takes what the facts are collected from instead."""

    def decorate(write: Callable[[str | Path, Facts], None]) -> Callable[Concatenate[str | Path, _Given], None]:
        @wraps(write)
        def decorated(path: str | Path, /, *arguments: _Given.args, **given: _Given.kwargs) -> None:
            write(path, collect(*arguments, **given))

        path, _ = signature(write).parameters.values()
        whole = signature(collect).replace(return_annotation="None")
        decorated.__signature__ = whole.replace(parameters=[path, *whole.parameters.values()])  # type: ignore[attr-defined]
        return decorated

    return decorate


@_with_arguments_of(collect)
def write(path: str | Path, facts: Facts) -> None:
    """Write the page of a training run, or of an evaluation if there is no ``history``.

    ``outputs`` are what the network gives for the test ``samples``, scores or probabilities of classes, labels or numbers, and
    ``targets`` what it should give; ``test`` are loss and metrics. ``task`` is "classification", "multilabel" or "regression" and
    follows from the targets if it is left out. ``class_names`` are what classes, labels or outputs are called, by default their
    numbers. ``parts`` are the targets of the training, validation and test samples, by these names: the page shows how they are
    split and balanced, and the baseline is that of the training samples. ``reference`` are targets for the baseline alone.

    ``history`` is that of a trainer, ``epoch`` the one whose weights the network has, by default the one that the trainer has
    chosen, or the last of a plain list. ``settings`` and ``command`` say how it was trained; ``notes`` are what readers should
    know about the data. ``profile`` is the time of the layers; True measures it on a batch of the samples, which takes ten
    training steps. ``images`` says whether samples are pictures, which else follows from their shape, and ``probabilities``
    whether ``outputs`` are such, not scores, which else follows from their values. ``origin`` says which lines or files the
    samples come from (``nn.data.load(...).origin``).
    ``sections`` are further parts of the page.

    >>> import os, tempfile
    >>> import numpy as np
    >>> from openbnns import nn
    >>> x = np.random.RandomState(0).standard_normal((60, 4)).astype(np.float32)
    >>> y = (x[:, 0] > 0).astype(np.int64)
    >>> net = nn.Sequential(nn.Linear(8), nn.ReLU(), nn.Linear(2))
    >>> trainer = nn.Trainer(net, "cross_entropy", nn.Adam(0.02), seed=1, quiet=True)
    >>> history = trainer.fit(x[:40], y[:40], epochs=3)
    >>> path = os.path.join(tempfile.mkdtemp(), "report.html")
    >>> nn.report.write(
    ...     path, title="mine", network=net, history=history, settings={"seed": 1}, command="python mine.py",
    ...     test=trainer.evaluate(x[40:], y[40:]), samples=x[40:], outputs=trainer.predict(x[40:]), targets=y[40:],
    ... )
    >>> os.path.getsize(path) < 100_000
    True
    """
    write_atomically(path, render(facts).encode())
