"""Networks whose path depends on numbers: onnxruntime has the same results from the files that they are written as."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from control_cases import CASES, random_nest
from onnx_networks import as_list
from openbnns import nn

pytestmark = pytest.mark.peers


def run(path: Path, given: list[Any]) -> list[Any]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    kinds = {"tensor(bool)": np.bool_, "tensor(int64)": np.int64, "tensor(float)": np.float32}
    ports = session.get_inputs()
    results = session.run(None, {p.name: np.asarray(x, kinds[p.type]) for p, x in zip(ports, given, strict=True)})
    return list(results)


@pytest.mark.parametrize("name", CASES)
def test_files_hold_all_paths(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    case.make(tmp_path / "first.onnx")
    net = nn.from_onnx(tmp_path / "first.onnx")
    for seed in range(3):
        samples = case.samples(np.random.RandomState(seed))
        net(*samples[seed % 2])
        net.to_onnx(tmp_path / "again.onnx")
        for given in samples:
            expected, actual = (run(tmp_path / f"{which}.onnx", given) for which in ("first", "again"))
            for one, other, here in zip(actual, expected, as_list(net(*given)), strict=True):
                assert one.shape == other.shape == here.shape
                np.testing.assert_allclose(one, other, 2e-5, 1e-5)
                np.testing.assert_allclose(here, other, 2e-5, 1e-5)


@pytest.mark.parametrize("steps", [0, 1, 4])
def test_a_loop_after_training(steps: int, tmp_path: Path) -> None:
    """The weights of a branch in a loop are those that were trained, in the branch and around it."""
    CASES["branch in a loop"].make(tmp_path / "first.onnx")
    net, random = nn.from_onnx(tmp_path / "first.onnx"), np.random.RandomState(0)
    net.train()
    for _ in range(4):
        y, parts = net(random.standard_normal((3, 3)).astype(np.float32), np.array(3))
        net.backward((0.1 * y, 0.1 * parts), input_gradient=False)
        nn.SGD(list(net.parameters()), lr=0.1).step()
    net.eval().to_onnx(tmp_path / "again.onnx")
    before, after = (onnx.load(tmp_path / f"{name}.onnx").graph.initializer for name in ("first", "again"))
    weights = [{w.name: onnx.numpy_helper.to_array(w) for w in one} for one in (before, after)]
    assert all(not np.array_equal(w, weights[0][name]) for name, w in weights[1].items() if name in weights[0])
    for _ in range(6):
        given = [random.standard_normal((4, 3)).astype(np.float32), np.array(steps)]
        for actual, expected in zip(run(tmp_path / "again.onnx", given), net(*given), strict=True):
            np.testing.assert_allclose(actual, expected, 2e-5, 1e-5)


@pytest.mark.parametrize("seed", range(12))
def test_random_nests_of_branches_and_loops(seed: int, tmp_path: Path) -> None:
    random = np.random.RandomState(seed)
    random_nest(tmp_path / "first.onnx", random)
    net = nn.from_onnx(tmp_path / "first.onnx")
    net.to_onnx(tmp_path / "again.onnx")
    for count in (2, 0, 1, 3):
        given = [random.standard_normal((random.randint(1, 5), 3)).astype(np.float32), np.array(count)]
        expected, actual = (run(tmp_path / f"{which}.onnx", given)[0] for which in ("first", "again"))
        for y in (actual, net(*given)):
            np.testing.assert_allclose(y, expected, 2e-5, 1e-5)
