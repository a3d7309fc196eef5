"""Multihead attention: every option and gradient against the formulas, both engines; memory, masks, bad input."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import openbnns as ob
from cases.attention import CASES, GRADIENTS, TARGETS, AttentionCase, AttentionRun, random_case
from helpers import Array, assert_within


@pytest.fixture(params=["native", "reference"])
def engine(request: pytest.FixtureRequest) -> Iterator[str]:
    with ob.engine(request.param):
        yield request.param


def check(case: AttentionCase, wanted: list[str] | None = None) -> None:
    """Output and gradients against float64; nothing else is read or written."""
    values = case.values()
    y, gradients = case.expected(values)
    run = AttentionRun(case, values)
    cache = run.new_cache() if case.cached else None
    workspace = None
    if case.workspace:
        workspace = np.full(max(1, run.sizes()[1]) if case.cached else 1 << 20, 0xFF, np.uint8)
    out = run.forward(cache, workspace)
    assert_within(case.logical("o", out.read()), y, case.bound("y", y, gradients), "output")
    out.assert_guards_intact("output")
    names = case.gradients if wanted is None else wanted
    storages = run.results(names)
    kept = None if cache is None else cache.copy()
    run.backward(storages, cache, run.backward_workspace(case.cached) if case.workspace else None)
    for name in names:
        actual = run.read(name, storages[name])
        assert_within(actual, gradients[name], case.bound(name, gradients[name], gradients), name)
        storages[name].assert_guards_intact(name)
    for name, storage in (run.inputs | run.parameters).items():
        storage.assert_unchanged(name)
    if cache is not None and kept is not None:
        assert np.array_equal(cache.view(np.uint8), kept.view(np.uint8)), "the cache was changed"


@pytest.mark.parametrize("name", CASES)
def test_cases(name: str, engine: str) -> None:
    check(CASES[name])


@pytest.mark.parametrize("seed", range(150))
def test_random_configurations(seed: int, engine: str) -> None:
    check(random_case(seed))
