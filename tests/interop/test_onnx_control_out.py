"""Networks whose path depends on numbers, written as ONNX files that hold all paths."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from control_cases import CASES, random_nest
from onnx_networks import BOOL, INT64, as_list, by_reference, floats, graph, info, node, write
from openbnns import nn


def operators(graph: Any) -> set[str]:
    """Operators of a graph and of all graphs in it."""
    own = {one.op_type for one in graph.node}
    inner = [a.g for one in graph.node for a in one.attribute if a.type == onnx.AttributeProto.GRAPH]
    return own.union(*map(operators, inner))


def trained(net: Any, samples: list[list[Any]]) -> None:
    """A few steps along gradients, with samples that take different paths."""
    net.train()
    for given in samples:
        y = net(*given)
        results = as_list(y)
        net.backward(tuple(0.1 * r for r in results) if isinstance(y, tuple) else 0.1 * y, input_gradient=False)
        nn.SGD([p for p in net.parameters() if p.requires_grad], lr=0.05).step()
    net.eval()


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_files_hold_all_paths(name: str, training: bool, tmp_path: Path) -> None:
    """For every sample, whichever was the last to run before the file was written, and after the weights have changed."""
    case = CASES[name]
    case.make(tmp_path / "first.onnx")
    net, samples = nn.from_onnx(tmp_path / "first.onnx"), case.samples(np.random.RandomState(0))
    before = [as_list(net(*given)) for given in samples]
    if training:
        trained(net, samples[:2])
    expected = [as_list(net(*given)) for given in samples]
    if training:
        assert any(not np.array_equal(a, b) for a, b in zip(before[0], expected[0], strict=True))
    for latest in samples[:2]:
        net(*latest)
        net.to_onnx(tmp_path / "again.onnx")
        model = onnx.load(tmp_path / "again.onnx")
        onnx.checker.check_model(model, full_check=True)
        assert set(case.operators.split()) <= operators(model.graph)
        again = nn.from_onnx(tmp_path / "again.onnx")
        state = again.state_dict()
        assert state.keys() == net.state_dict().keys()
        for key, value in net.state_dict().items():
            np.testing.assert_array_equal(state[key], value, key)
        for given, wanted in zip(samples, expected, strict=True):
            for actual, y in zip(as_list(again(*given)), wanted, strict=True):
                assert actual.shape == y.shape
                np.testing.assert_allclose(actual, y, 2e-5, 1e-5)


@pytest.mark.parametrize("name", CASES)
def test_model_files_hold_all_paths(name: str, tmp_path: Path) -> None:
    """Such a file is read, runs, and can be written as ONNX; Core ML is refused by name where there is no form."""
    case = CASES[name]
    case.make(tmp_path / "first.onnx")
    net, samples = nn.from_onnx(tmp_path / "first.onnx"), case.samples(np.random.RandomState(1))
    net(*samples[0])
    net.save_model(tmp_path / "net.safetensors")
    loaded = nn.load_model(tmp_path / "net.safetensors")
    loaded.to_onnx(tmp_path / "again.onnx")
    again = nn.from_onnx(tmp_path / "again.onnx")
    for given in samples:
        for one, other, y in zip(*(as_list(n(*given)) for n in (loaded, again, net)), strict=True):
            np.testing.assert_array_equal(one, y)
            np.testing.assert_allclose(other, y, 2e-5, 1e-5)
    if name == "branch":  # with results of one shape, so that it is part of a program
        net.to_coreml(tmp_path / "net.mlpackage")
        return
    with pytest.raises(ValueError, match=r"(If|Loop|Compress)_\w+: which operations run.*with to_onnx"):
        net.to_coreml(tmp_path / "net.mlpackage")


def refused(path: Path, message: str) -> None:
    net = nn.from_onnx(path, batch_axis=None)
    with pytest.raises(nn.onnx.Unsupported, match=message):
        net.to_onnx(path.with_suffix(".again"))
    assert not path.with_suffix(".again").exists()


def test_ranks_that_depend_on_numbers_are_refused(tmp_path: Path) -> None:
    """By the name of the node, and with what to do."""
    ways = {
        "then_branch": graph([node("Identity", "x", "t")], [info("t")]),
        "else_branch": graph([node("Unsqueeze", "x first", "e")], [info("e")]),
    }
    held = {"first": np.int64([0])}
    path = write(
        tmp_path / "m.onnx", [node("If", "c", "y", **ways)], {"x": [2, 3], "c": []}, ["y"], held, kinds={"c": BOOL}
    )
    told = r"If 'If_y': result 0 has the shape \(2, 3\) or \(1, 2, 3\).*number of axes(?s:.*)keep the network with save_model"
    refused(path, told)


@pytest.mark.parametrize("grows", [False, True])
def test_states_of_other_ranks_and_lists_are_refused(grows: bool, tmp_path: Path) -> None:
    """A state that gets an axis more in every step, and a list that gets longer."""
    body = [
        node("SequenceInsert", "s x", "s_") if grows else node("Unsqueeze", "s first", "s_"),
        node("Identity", "on", "after"),
    ]
    inner = graph(body, [info("after", BOOL, []), info("s_")], [info("i", INT64, []), info("on", BOOL, []), info("s")])
    nodes = [
        node("SequenceConstruct", "x", "s0") if grows else node("Identity", "x", "s0"),
        node("Loop", "steps yes s0", "end", body=inner),
        node("ConcatFromSequence", "end", "y", axis=0) if grows else node("Flatten", "end", "y"),
    ]  # fmt: skip
    held = {"first": np.int64([0]), "yes": np.array(True)}
    path = write(tmp_path / "m.onnx", nodes, {"x": [2, 3], "steps": []}, ["y"], held, kinds={"steps": INT64})
    refused(
        path,
        "Loop 'Loop_end': " + ("lists of tensors get longer" if grows else r"state 0 has the shape \(2, 3\) before"),
    )


def test_ways_that_nothing_takes_are_refused(tmp_path: Path) -> None:
    """The message names the branch and the node in it."""
    ways = {
        "then_branch": graph([node("MatMul", "x w", "t")], [info("t")]),
        "else_branch": graph([node("MatMul", "x v", "e")], [info("e")]),
    }
    held = {"w": floats(3, 2), "v": floats(5, 2)}
    path = write(
        tmp_path / "m.onnx", [node("If", "c", "y", **ways)], {"x": ["N", 3], "c": []}, ["y"], held, kinds={"c": BOOL}
    )
    refused(path, "If 'If_y': its else_branch cannot be recorded: MatMul 'MatMul_e'")


@pytest.mark.parametrize("seed", range(10))
def test_random_nests_of_branches_and_loops(seed: int, tmp_path: Path) -> None:
    """A file that is read again has the results of ONNX's own evaluator, whatever runs."""
    random = np.random.RandomState(seed)
    random_nest(tmp_path / "first.onnx", random)
    net = nn.from_onnx(tmp_path / "first.onnx")
    net.to_onnx(tmp_path / "again.onnx")
    again = nn.from_onnx(tmp_path / "again.onnx")
    for count in (2, 0, 1, 3):
        given = [random.standard_normal((random.randint(1, 5), 3)).astype(np.float32), np.array(count)]
        (expected,) = by_reference(tmp_path / "first.onnx", given)
        for actual in (net(*given), again(*given)):
            np.testing.assert_allclose(actual, expected, 2e-5, 1e-5)


@pytest.mark.parametrize("reads", [False, True])
def test_sizes_that_decide_in_a_branch(reads: bool, tmp_path: Path) -> None:
    """The branch fails for other sizes, the network does not; one that reads no value, which could show them, is refused."""
    factors = [graph([node("Mul", f"{'x' if reads else 'ones'} {name}", name * 2)], [info(name * 2)]) for name in "ab"]
    then = [
        node("Shape", "x", "s"), node("Gather", "s one", "n"), node("Equal", "n four", "is_four"),
        node("If", "is_four", "t", then_branch=factors[0], else_branch=factors[1]),
    ]  # fmt: skip
    ways = {"then_branch": graph(then, [info("t")]), "else_branch": graph([node("Neg", "x", "e")], [info("e")])}
    held = {
        "one": np.int64(1),
        "four": np.int64(4),
        "a": np.float32(2),
        "b": np.float32(3),
        "ones": np.ones((1, 4), "f"),
    }
    path = write(
        tmp_path / "m.onnx", [node("If", "c", "y", **ways)], {"x": ["N", "T"], "c": []}, ["y"], held, kinds={"c": BOOL}
    )
    net, x = nn.from_onnx(path), floats(2, 4)
    net(x, np.array(True))
    if not reads:
        with pytest.raises(nn.onnx.Unsupported, match="sizes decide something in a graph inside of it"):
            net.to_onnx(tmp_path / "again.onnx")
        return
    net.to_onnx(tmp_path / "again.onnx")
    again = nn.from_onnx(tmp_path / "again.onnx")
    for y, flag in ((x, True), (x, False), (floats(3, 5), False)):
        given = [y, np.array(flag)]
        for actual in (again(*given), by_reference(tmp_path / "again.onnx", given)[0]):
            np.testing.assert_array_equal(actual, by_reference(path, given)[0])
    other = [floats(3, 5), np.array(True)]
    np.testing.assert_array_equal(net(*other), 3 * other[0])
    with pytest.raises(ValueError, match="reshape"):
        by_reference(tmp_path / "again.onnx", other)
    with pytest.raises(ValueError, match="Reshape"):
        again(*other)
