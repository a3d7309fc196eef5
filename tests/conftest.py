"""Shared set-up of the tests: the scoreboard, the peers switch, and one engine state for every test.

A test claims rows of coverage.csv with ``@pytest.mark.covers("conv.fwd", ...)``. At the end of a run the outcome of
every claiming test is kept in ``.scoreboard.json``; ``tests/scoreboard.py`` reads it. A run of the whole suite replaces
the file; a run of a part (other files, ``-k``, another ``OPENBNNS_ISA``) only updates the tests that it ran.
"""

from __future__ import annotations

import gc
import importlib.util
import logging
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# Products of the reference engine are small, and tests run on all cores: threads of OpenBLAS would only wait for each other.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import hypothesis
import numpy as np
import pytest

import c_tools
import openbnns
import scoreboard
from bad_calls import Observed

HERE = Path(__file__).resolve().parent

# The time of one example says nothing on a machine that others use too.
hypothesis.settings.register_profile("shared machine", deadline=None)
hypothesis.settings.load_profile("shared machine")


def wants_peers(config: pytest.Config) -> bool:
    """True if the run asks for the cross-checks that need PyTorch (``-m peers``)."""
    expression = config.option.markexpr
    return "peers" in expression and "not peers" not in expression


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--portion", default="1/1", metavar="K/N", help="the Kth of N parts of every test with parameters")


def portion_of(items: list[pytest.Item], portion: str) -> list[pytest.Item]:
    """Every Nth test of each group, beginning with the Kth, or the first if there are fewer."""
    k, n = (int(word) for word in portion.split("/"))
    if not 1 <= k <= n:
        raise pytest.UsageError(f"--portion is {portion}, but has to be K/N with 1 <= K <= N")
    groups: dict[str, list[pytest.Item]] = {}
    for item in items:
        groups.setdefault(item.nodeid.split("-")[0], []).append(item)
    chosen = {item.nodeid for group in groups.values() for item in group[k - 1 :: n] or group[:1]}
    return [item for item in items if item.nodeid in chosen]


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Files that import peers are left out unless asked for, those that start MPI jobs where there is no mpi4py, and those
    that look at wheels or programs for other machines where `make test-wheels` or `make test-cross` does not say which.
    """
    if any(peer in collection_path.name for peer in ("vs_torch", "vs_sklearn")) and not wants_peers(config):
        return True
    if collection_path.name == "mpi" and importlib.util.find_spec("mpi4py") is None:  # make test installs it
        return True
    if collection_path.name == "wheels" and "OPENBNNS_WHEELS" not in os.environ:
        return True
    if collection_path.name == "cross" and "OPENBNNS_CROSS" not in os.environ:
        return True
    return None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Attach claims to the tests, refuse unknown rows, and drop what needs PyTorch unless it was asked for."""
    known = {row.id for row in scoreboard.read_rows()}
    for item in items:
        rows = sorted({row for mark in item.iter_markers("covers") for row in mark.args})
        unknown = [row for row in rows if row not in known]
        if unknown:
            raise pytest.UsageError(
                f"{item.nodeid} claims rows that tests/coverage.csv does not have: {', '.join(unknown)}"
            )
        if rows:
            item.user_properties.append(("covers", rows))
    if not wants_peers(config):
        peers = [item for item in items if item.get_closest_marker("peers")]
        if peers:
            config.hook.pytest_deselected(items=peers)
            items[:] = [item for item in items if not item.get_closest_marker("peers")]
    items[:] = portion_of(items, config.option.portion)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Leave what is there now, which is all tests, out of garbage collections: these are a third of a second each without."""
    gc.collect()
    gc.freeze()


def why_partial(config: pytest.Config) -> str:
    """Empty for a run of the whole suite, else what makes it a part."""
    option = config.option
    if option.keyword:
        return f"-k {option.keyword!r}"
    if option.markexpr not in ("", "not peers"):
        return f"-m {option.markexpr!r}"
    if option.portion != "1/1":
        return f"--portion {option.portion}"
    if getattr(option, "lf", False) or getattr(option, "last_failed_no_failures", "all") != "all":
        return "--last-failed"
    if option.deselect or option.ignore or option.ignore_glob:
        return "--deselect or --ignore"
    if os.environ.get("OPENBNNS_ISA"):
        return f"OPENBNNS_ISA={os.environ['OPENBNNS_ISA']}"
    places = [Path(str(argument).split("::")[0]).resolve() for argument in config.args]
    if not any(place == HERE or place in HERE.parents for place in places):
        return "only " + " ".join(str(argument) for argument in config.args)
    return ""


class Recorder:
    """A collector of the outcome of every claiming test, in the process that reports (the controller under xdist)."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.tests: dict[str, dict[str, Any]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        rows = dict(report.user_properties).get("covers")
        if not rows:
            return
        isa = os.environ.get("OPENBNNS_ISA")
        entry = self.tests.setdefault(report.nodeid + (f" @{isa}" if isa else ""), {"rows": rows, "outcome": "open"})
        if report.failed:
            entry["outcome"] = "failed"
        elif report.when == "call" and report.passed and entry["outcome"] == "open":
            entry["outcome"] = "passed"

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        if self.config.option.collectonly:
            return
        reason = why_partial(self.config)
        if not reason and exitstatus not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
            reason = f"stopped with exit status {int(exitstatus)}"
        if not reason and (session.shouldstop or session.shouldfail):
            reason = "stopped early"
        scoreboard.record(self.tests, reason)


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Recorder(config), "scoreboard-recorder")


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Name the tools that the tests of C programs lacked."""
    reports = [report for group in terminalreporter.stats.values() for report in group]
    if any("c/test_programs.py" in getattr(report, "nodeid", "") for report in reports) and c_tools.missing():
        names = ", ".join(c_tools.missing())
        terminalreporter.write_line(f"C programs: not run for lack of {names}", yellow=True)


@pytest.fixture(autouse=True)
def same_state() -> Iterator[None]:
    """No test leaves another engine, accuracy, thread limit or floating-point handling behind."""
    engine, threads, handling = openbnns.current_engine(), openbnns.get_num_threads(), np.geterr()
    accuracy = openbnns.get_accuracy()
    yield
    assert openbnns.current_engine() == engine
    assert openbnns.get_accuracy() == accuracy
    assert openbnns.get_num_threads() == threads
    assert np.geterr() == handling


@pytest.fixture
def short_turns() -> Iterator[None]:
    """Threads take turns more often than usual, so that races come to light."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(2e-5)
    yield
    sys.setswitchinterval(before)


@pytest.fixture(scope="module")
def poisoned_scratch() -> Iterator[None]:
    """Scratch memory holds garbage before every call."""
    openbnns.engines._core.set_scratch_poison(True)
    yield
    openbnns.engines._core.set_scratch_poison(False)


@pytest.fixture
def recorded_schedule() -> Iterator[None]:
    """A test may record the schedule of calls and limit threads; both end with it."""
    yield
    openbnns.engines._core.record_schedule(False)
    openbnns.engines._core.take_schedule()
    openbnns.set_num_threads(0)


@pytest.fixture(params=["native", "reference"])
def engine(request: pytest.FixtureRequest) -> Iterator[str]:
    """A test that takes it runs once on each engine."""
    with openbnns.engine(request.param):
        yield request.param


@pytest.fixture(params=["fast", "exact"])
def accuracy(request: pytest.FixtureRequest) -> Iterator[str]:
    """A test that takes it runs once in each accuracy."""
    with openbnns.engines.using_arithmetic(openbnns.engines.Arithmetic(request.param)):
        yield request.param


@pytest.fixture
def observed(caplog: pytest.LogCaptureFixture) -> Iterator[Observed]:
    """Watches calls that fail."""
    with caplog.at_level(logging.DEBUG, "openbnns"):
        yield Observed(caplog)
