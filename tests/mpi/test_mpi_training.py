"""Training on several ranks gives bitwise the result of one."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from mpi.jobs import differing, run, train
from mpi.problems import PROBLEMS
from openbnns import engines


def test_any_number_of_ranks_gives_the_same_bits(tmp_path: Path) -> None:
    """Weights, running statistics, losses and metrics have the same bits; one rank works with two threads."""
    one = train(1, tmp_path, OPENBNNS_NUM_THREADS="2")
    assert {key.split("/")[0] for key in one} == set(PROBLEMS)
    assert all(np.isfinite(array).all() for array in one.values())
    for ranks in (2, 3, 4):
        assert differing(one, train(ranks, tmp_path, OPENBNNS_NUM_THREADS="1")) == [], f"{ranks} ranks"


@pytest.mark.parametrize("ranks", (2, 3, 4))
def test_ranks_sum_in_the_order_of_one_process(ranks: int) -> None:
    """Shards that are one subtree for a rank, or several; vectors with fewer elements than ranks."""
    done = run(ranks, "exchanges.py")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [[]] * ranks


def test_products_in_bfloat16_give_the_same_bits(tmp_path: Path) -> None:
    """On ranks with one thread and with two, and other bits than in float32 where the CPU multiplies bfloat16."""
    if not engines._core.multiplies_bfloat16():
        return
    told = {"fit": {"epochs": 1}}
    rounded = {**told, "trainer": {"precision": "bfloat16"}}
    one = train(1, tmp_path, rounded, OPENBNNS_NUM_THREADS="2")
    assert all(np.isfinite(array).all() for array in one.values())
    for ranks in (2, 3):
        assert differing(one, train(ranks, tmp_path, rounded, OPENBNNS_NUM_THREADS="1")) == [], f"{ranks} ranks"
    changed = {name.split("/")[0] for name in differing(one, train(1, tmp_path, told))}
    assert {"mlp", "cnn", "transformer"} <= changed


def test_a_run_may_go_on_with_another_number_of_ranks(tmp_path: Path) -> None:
    """On 4, then on 2, then on 3, stopped in the middle of epochs: the end is that of one rank that never stopped."""
    told = {"problems": ["cnn", "transformer"], "fit": {"epochs": 3}}
    whole = train(1, tmp_path, told)
    stopped = {**told, "out": str(tmp_path), "fit": {"epochs": 3, "resume": True}}
    train(4, tmp_path, {**stopped, "stop_at": 1})
    train(2, tmp_path, {**stopped, "stop_at": 4})
    assert differing(whole, train(3, tmp_path, stopped)) == []


def test_synchronized_batch_normalization_is_that_of_the_whole_batch(tmp_path: Path) -> None:
    """The same bits on any number of ranks, and all but the last digits of a trainer that knows nothing of shards."""
    told = {"problems": ["cnn", "two_outputs"], "fit": {"transforms": None}}
    synchronized = {**told, "trainer": {"sync_batch_norm": True}}
    one = train(1, tmp_path, synchronized)
    several_batches = {"trainer": {"sync_batch_norm": True, "accumulate": 2}}
    assert differing(one, train(3, tmp_path, synchronized)) == []
    twice = train(1, tmp_path, told | several_batches)
    assert differing(twice, train(2, tmp_path, told | several_batches)) == []
    plain = train(1, tmp_path, {**told, "plain": True})
    plain_twice = train(1, tmp_path, {**told, "plain": True, "trainer": {"accumulate": 2}})
    for name in ("cnn/history", "two_outputs/history", "cnn/network/1.running_var", "cnn/network/11.weight"):
        np.testing.assert_allclose(one[name], plain[name], rtol=1e-5, atol=1e-6, err_msg=name)
        if name.startswith("cnn"):  # one loss: means over two batches, also without shards
            np.testing.assert_allclose(twice[name], plain_twice[name], rtol=1e-5, atol=1e-6, err_msg=name)
    by_shards = train(1, tmp_path, told)
    assert abs(by_shards["cnn/history"] - plain["cnn/history"]).max() > 1e-3


def test_shards_change_no_more_than_the_last_digits(tmp_path: Path) -> None:
    """But for batch normalization and dropout: weights of samples, ignored classes and several batches count as a whole."""
    told = {"problems": ["mlp", "transformer", "lstm"], "without_dropout": True}
    shards, plain = train(2, tmp_path, told), train(1, tmp_path, {**told, "plain": True})
    for name in ("mlp/history", "transformer/history", "lstm/history", "mlp/network/4.weight"):
        np.testing.assert_allclose(shards[name], plain[name], rtol=1e-5, atol=1e-6, err_msg=name)
    for problem in ("mlp", "transformer", "lstm"):
        assert shards[f"{problem}/steps"].tolist() == plain[f"{problem}/steps"].tolist(), problem
        assert (plain[f"{problem}/steps"] > 1).all(), problem
