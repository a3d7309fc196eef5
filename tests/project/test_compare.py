"""The comparison with another commit sees what differs, and nothing else."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np
import pytest

import compare
from comparison import functions, networks
from openbnns import nn


def recorded(name: str) -> Any:
    return {
        "signatures": functions.signatures(),
        "answers": {name: functions.answers(name, functions.signatures()[name], 10)},
    }


def test_functions_whose_numbers_checks_or_messages_differ(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = recorded("relu")
    assert compare.compare_functions(before, recorded("relu")) == 0 and "RESULT" not in capsys.readouterr().out
    monkeypatch.setattr(nn.functional, "relu", lambda input, inplace=False: np.maximum(input, 1e-3, dtype=np.float32))
    assert compare.compare_functions(before, recorded("relu")) > 0
    printed = capsys.readouterr().out
    assert all(kind in printed for kind in ("RESULT", "ACCEPTED", "MESSAGE"))


def test_networks_whose_bits_or_memory_differ(capsys: pytest.CaptureFixture[str]) -> None:
    net = nn.Sequential(nn.Linear(3, 2), nn.Tanh()).build((3,), seed=0)
    arrays = (np.ones((2, 3), np.float32),)
    before = {"random 1": networks.measure(net, arrays, 0)}
    assert compare.compare_networks(before, {"random 1": networks.measure(net, arrays, 0)}) == 0
    larger = deepcopy(before)
    larger["random 1"]["bytes"]["training"] += 64
    assert compare.compare_networks(before, larger) == 1 and compare.compare_networks(larger, before) == 0
    next(net.parameters()).data[0, 0] += 1e-3
    assert compare.compare_networks(before, {"random 1": networks.measure(net, arrays, 0)}) == 1
    assert "BITS    random 1" in capsys.readouterr().out


def test_every_function_has_calls_that_succeed() -> None:
    """Lists of arguments that all fail would compare nothing but messages."""
    for name, signature in functions.signatures().items():
        answers = functions.answers(name, signature, 12).values()
        assert not all(compare.is_error(first) for first, _ in answers), name
