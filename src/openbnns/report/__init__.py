"""The report of a training run or an evaluation: one HTML page that needs nothing else and runs nothing.

:func:`write` gathers facts and computes scores (``run_facts.py``, ``scores.py``), and draws them (``sections``). Charts
are inline SVG; text stays text, and colours follow the light or dark setting of the reader.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .._machine import describe
from .._plural import plural
from ..files.safetensors import write_atomically
from ..graph.tensor import Array
from .markup import Panel, Section, table
from .page import render
from .run_facts import TASKS, Facts, Shown, Task, layers_of, part_of, profile_of, scores_of, task_of

if TYPE_CHECKING:
    from ..nn.data.sample_origin import Origin
    from ..nn.module import Module
    from ..nn.profiling import Profile

__all__ = ["Panel", "Section", "table", "write"]


def write(
    path: str | Path, *, title: str, network: Module | None, settings: Mapping[str, Any], command: str,
    history: Sequence[Mapping[str, Any]] = (), test: Mapping[str, float] | None = None, samples: Array | None = None,
    outputs: Array | None = None, targets: Array | None = None, class_names: Sequence[str] = (), epoch: int | None = None,
    notes: Sequence[str] = (), parts: Mapping[str, Array] | None = None, reference: Array | None = None,
    task: Task | None = None, profile: Profile | bool = True, images: bool | None = None,
    probabilities: bool | None = None, origin: Origin | None = None, sections: Iterable[Section] = (),
) -> None:  # fmt: skip
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
    if task is not None and task not in TASKS:
        raise ValueError(f"report: task is {task!r}. Use {', '.join(TASKS)}, or leave it out.")
    scored: dict[str, Any] = {}
    if outputs is not None and targets is not None:
        if len(outputs) != len(targets):
            count = f"{plural(len(outputs), 'output')}, but {plural(len(targets), 'target')}"
            raise ValueError(f"report: there are {count}. Pass one for each sample.")
        outputs, targets = np.asarray(outputs), np.asarray(targets)
        task = task or (task_of(outputs, targets) if len(outputs) else None)
        known = reference if reference is not None else (parts or {}).get("training")
        if task is not None and len(outputs):
            shown = Shown(samples, images, origin)
            training = None if known is None else np.asarray(known)
            scored = scores_of(task, outputs, targets, class_names, training, shown, probabilities)
    given = dict(parts or ({} if targets is None or not len(targets) else {"test": targets}))
    size = len(scored["classes"].names) if "classes" in scored else 0
    layers, inputs = ((), ()) if network is None else layers_of(network)
    facts = Facts(
        title, settings, command, tuple(notes), list(history), epoch or getattr(history, "chosen_epoch", None), test, task,
        tuple(part_of(name, np.asarray(y), task, size) for name, y in given.items()), tuple(class_names), tuple(sections),
        layers, inputs, 0 if network is None else sum(p.size for p in network.parameters()),
        profile_of(network, samples, settings, profile), describe(),
        f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d %H:%M UTC}", **scored,
    )  # fmt: skip
    write_atomically(path, render(facts).encode())
