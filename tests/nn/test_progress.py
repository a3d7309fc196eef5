"""The progress line of a run."""

from __future__ import annotations

import io
import re

import numpy as np
import pytest

from openbnns import nn
from openbnns.nn import progress
from openbnns.nn.progress import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_line_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_EVERY", 0.0)
    monkeypatch.setenv("COLUMNS", "300")
    terminal, said = Terminal(), []
    with Progress(3, 10, 10, quiet=False, say=said.append, stream=terminal) as shown:
        for _ in range(5):
            shown.advance(32, rate=0.001, measured=lambda: {"loss": 0.5, "loss_box": 9.0, "accuracy": 0.75})
    last = terminal.getvalue().split("\r\x1b[K")[-2]
    assert re.fullmatch(
        r"epoch 2/3  \[##########----------\]  batch 5/10  loss 0\.5000  accuracy 75\.0%  [\d,]+ samples/s  lr 0\.001  "
        r"\d+:\d\d left",
        last,
    )
    assert terminal.getvalue().endswith("\r\x1b[K")  # nothing is left behind
    monkeypatch.setenv("COLUMNS", "30")
    with Progress(3, 10, 0, quiet=False, say=said.append, stream=terminal) as shown:
        shown.advance(32)
    assert max(len(line) for line in terminal.getvalue().split("\r\x1b[K")[-2:]) < 30


def test_plain_lines_elsewhere() -> None:
    said: list[str] = []
    stream = io.StringIO()
    with Progress(2, 4, 0, quiet=False, say=said.append, stream=stream) as shown:
        shown.advance(32, measured=lambda: pytest.fail("asked for without need"))
        shown.end_epoch(
            {"epoch": 1, "step": 4, "loss": 0.25, "accuracy": 0.5, "learning_rate": 0.1, "seconds": 1.25}, 2
        )
    assert stream.getvalue() == "" and said == ["epoch 1/2  loss 0.2500  accuracy 50.0%  1.2 s"]
    x = np.random.RandomState(0).standard_normal((20, 2)).astype(np.float32)
    nn.Trainer(nn.Linear(2), seed=1, say=said.append).fit(x, (x[:, 0] > 0).astype(int), epochs=2)
    assert [line[:9] for line in said[1:]] == ["epoch 1/2", "epoch 2/2"]


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0:00"), (7, "0:07"), (750, "12:30"), (11100, "3:05:00"), (1e300, "99999:59:59")]
)
def test_times(seconds: float, text: str) -> None:
    assert progress._clock(seconds) == text
