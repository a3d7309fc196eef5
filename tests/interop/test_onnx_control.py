"""ONNX models whose path or sizes depend on numbers: branches, loops, sequences, positions that are found."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import openbnns
from onnx_networks import BOOL, FLOAT, INT64, branching, by_reference, floats, graph, info, looping, node, write
from openbnns import nn
from openbnns.graph.program import Program
from openbnns.graph.segments import _MET, Guards
from openbnns.graph.sizes import FreeSizes
from openbnns.nn.recording import recording_of


def check(path: Path, *inputs: Any, **options: Any) -> Any:
    """The network, whose results are those of ONNX's own evaluator, or of a function."""
    net, function = options.pop("net", None), options.pop("function", None)
    net = net or nn.from_onnx(path, **options)
    outputs = net(*inputs)
    expected = function(*inputs) if function else by_reference(path, list(inputs))
    for y, wanted in zip(outputs if isinstance(outputs, tuple) else [outputs], expected, strict=True):
        assert y.shape == np.asarray(wanted).shape
        np.testing.assert_allclose(y, wanted, 1e-5, 1e-5)
    return net


def check_gradients(net: Any, inputs: list[Any], place: int = 0) -> None:
    """Gradients of an input and of all parameters along a random direction, for a random cotangent; points are not at kinks."""
    net.train()
    random = np.random.RandomState(3)
    y = net(*inputs)
    results = y if isinstance(y, tuple) else (y,)
    v = [random.standard_normal(one.shape).astype(np.float32) for one in results]
    given = net.backward(tuple(v) if isinstance(y, tuple) else v[0])
    dx = given[place] if isinstance(given, tuple) else given
    pairs = [(inputs[place], dx), *((p.data, p.grad.copy()) for p in net.parameters())]
    for array, gradient in pairs:
        u = random.standard_normal(array.shape).astype(np.float32)
        start, h, slope = array.copy(), 1e-2, 0.0
        for factor, weight in ((1, 8), (-1, -8), (2, -1), (-2, 1)):  # which is exact up to the fourth power of h
            array[...] = start + factor * h * u
            y = net(*inputs)
            pairs_of_results = zip(v, y if isinstance(y, tuple) else (y,), strict=True)
            slope += weight * sum(float((a * b).sum(dtype=np.float64)) for a, b in pairs_of_results) / (12 * h)
        array[...] = start
        assert abs(slope - float((gradient * u).sum())) < 2e-3 * max(1, abs(slope))
    net.eval()


def test_a_sum_of_a_size_and_one_that_numbers_tell(tmp_path: Path) -> None:
    """Both are those of the run where a recording relies on their sum, as a cast does."""
    nodes = [
        node("ReduceMax", "x axis", "m", keepdims=0), node("Greater", "m zero", "keep"),
        node("Compress", "x keep", "part", axis=0), node("Concat", "x part", "both", axis=0), node("Shape", "both", "shape"),
        node("Gather", "shape first", "count"), node("Cast", "count", "number", to=FLOAT), node("Add", "both number", "y"),
    ]  # fmt: skip
    weights = {"axis": np.int64([1]), "zero": np.float32(0), "first": np.int64(0)}
    path = write(tmp_path / "m.onnx", nodes, {"x": ("N", 2)}, ["y"], weights)
    net = nn.from_onnx(path)
    for count in (3, 7, 2, 3, 20):
        check(path, floats(count, 2), net=net)


@pytest.mark.parametrize("same", [True, False])
def test_a_branch_by_numbers(same: bool, tmp_path: Path) -> None:
    path = branching(tmp_path / "m.onnx", same)
    net = nn.from_onnx(path)
    assert {"w", "w_"} == dict(net.named_parameters()).keys()
    x = floats(5, 3)
    for sign in (1, -1, 1, -1):
        check(path, sign * np.abs(x) + 0.1 * sign, net=net)
        check(path, sign * np.abs(x[:2]) + 0.1 * sign, net=net)
        check_gradients(net, [sign * np.abs(x) + sign])
    assert nn.Trainer(net, "mse", nn.SGD(0.01), quiet=True).fit(np.abs(x), floats(5, 4), epochs=2) if same else True


def test_a_branch_is_part_of_a_program(tmp_path: Path) -> None:
    """Both ways are programs of their own, within one that is compiled, profiled, checked and described."""
    net, x = nn.from_onnx(branching(tmp_path / "m.onnx", True)), floats(4, 3)
    infer = net.compile_inference(4)
    for sign in (1, -1):
        given = sign * np.abs(x) + sign
        np.testing.assert_allclose(infer(given), net(given), 1e-6)
        assert openbnns.gradcheck(net.train(), given, verbose=False).passed
        net.eval()
    assert "Branch" in str(net.program(4, training=False).describe())
    assert "If_y" in net.profile(x, repeats=1).rows[-1].layer


def test_a_branch_keeps_prepared_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its program is told the version of the parameters, which is another one once any of them has changed."""
    net, x, told = nn.from_onnx(branching(tmp_path / "m.onnx", True)), np.abs(floats(4, 3)), list[int]()
    run = Program.forward

    def noted(program: Program, weights: int = 0) -> Any:
        told.append(weights)
        return run(program, weights)

    monkeypatch.setattr(Program, "forward", noted)
    for _ in range(4):
        before = net(x)
    (recording,) = net._recordings
    assert told[-1] == told[-2] == recording.weights_version() != 0
    for parameter in net.parameters():
        parameter.data *= 2
        after = net(x)
        assert told[-1] == 0 or told[-1] != told[-2]  # 0 while there is a view to write through
    assert not np.array_equal(before, after)
    check(tmp_path / "m.onnx", -x, net=nn.from_onnx(tmp_path / "m.onnx"))


def test_weights_out_of_constants_are_prepared_once(tmp_path: Path) -> None:
    """Nothing else can write to them, so their version is known."""
    kernel = node("Constant", "", "k", value=onnx.numpy_helper.from_array(floats(4, 2, 3)))
    path = write(tmp_path / "m.onnx", [kernel, node("Conv", "x k", "y")], {"x": ["N", 2, 9]}, ["y"], {})
    net = check(path, floats(2, 2, 9))
    (recording,) = net._recordings
    assert recording.graph.parameters
    assert recording.weights_version() != 0


def test_guards_remember_numbers_that_meet_them() -> None:
    """As many as a bound says; numbers that do not meet them are never remembered."""
    free = FreeSizes({"N": 4, "M": 7})
    assert free.size("N") < 20
    assert free.size("M") != free.size("N")
    guards, random = Guards(free.guards), np.random.RandomState(2)
    for _ in range(2):
        for n, m in random.randint(1, 30, (500, 2)):
            sizes = {"M": int(m), "N": int(n), "other": 1}
            assert guards.are_met(sizes) is guards.are_met(sizes) is bool(n < 20 and m != n)
    assert 0 < len(guards._met) <= _MET


@pytest.mark.parametrize("same", [True, False])
def test_model_files(same: bool, tmp_path: Path) -> None:
    """Branches are kept, and a path that a number decides."""
    net, x = nn.from_onnx(branching(tmp_path / "m.onnx", same)), np.abs(floats(4, 3))
    net.save_model(tmp_path / "m.safetensors")
    again = nn.load_model(tmp_path / "m.safetensors")
    for given in (x, -x):
        np.testing.assert_array_equal(again(given), net(given))
    net.to_onnx(tmp_path / "again.onnx")
    for given in (x, -x, x[:3]):
        check(tmp_path / "again.onnx", given)
        np.testing.assert_allclose(nn.from_onnx(tmp_path / "again.onnx")(given), net(given), 1e-6)


def test_a_network_of_the_user_around_a_branch_is_not_written(tmp_path: Path) -> None:
    """A file holds one graph; with another inside it would be read as itself, over and over."""

    class Around(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.from_onnx(branching(tmp_path / "m.onnx", True))

        def forward(self, x: Any) -> Any:
            return self.inner(x) * 2.0

    net = Around().build((3,))
    with pytest.raises(TypeError, match="it decides by a number between two graphs, of which a file holds one alone"):
        net.save_model(tmp_path / "m.safetensors")
    assert not (tmp_path / "m.safetensors").exists()


def test_a_branch_by_a_size(tmp_path: Path) -> None:
    """The branch that PyTorch writes for squeeze: the condition is known from shapes."""
    then = graph([node("Squeeze", "x one", "t")], [info("t")])
    other = graph([node("Identity", "x", "e")], [info("e")])
    nodes = [
        node("Shape", "x", "s"), node("Gather", "s one", "n"), node("Equal", "n one", "c"),
        node("If", "c", "y", then_branch=then, else_branch=other),
    ]  # fmt: skip
    path = write(tmp_path / "m.onnx", nodes, {"x": ["N", "T", 3]}, ["y"], {"one": np.array([1])})
    net = nn.from_onnx(path)
    for shape in ((4, 1, 3), (2, 5, 3), (3, 1, 3), (1, 1, 3)):
        check(path, floats(*shape), net=net)


def test_a_loop_of_known_length(tmp_path: Path) -> None:
    function = looping(path := tmp_path / "m.onnx", "four", False)
    net = check(path, floats(5, 3), function=function)
    check(path, floats(2, 3), net=net, function=function)
    check_gradients(net, [floats(2, 3)])
    assert net.compile_inference(2)(floats(2, 3))[1].shape == (4,)


@pytest.mark.parametrize("kind", ["condition", "number", "both"])
def test_a_loop_whose_length_is_computed(kind: str, tmp_path: Path) -> None:
    function = looping(path := tmp_path / "m.onnx", "four" if kind == "condition" else "steps", kind != "number")
    net, lengths = nn.from_onnx(path), set()
    for scale in (0.1, 8, 1, 3, 8):
        given = [scale * np.ones((5, 3), np.float32), *([np.array(int(scale) + 1)] if kind != "condition" else [])]
        check(path, *given, net=net, function=function)
        lengths.add(count := len(net(*given)[1]))
        # Gradients are those of a loop with that number of steps.
        looping(fixed := tmp_path / "fixed.onnx", "four", False, {"w": net.w.data, "four": np.int64(count)})
        nets = [net.train(), nn.from_onnx(fixed).train()]
        results = [nets[0](*given), nets[1](given[0])]
        cotangents = tuple(floats(*y.shape) for y in results[0])
        actual, expected = (one.backward(cotangents) for one in nets)
        actual = actual[0] if isinstance(actual, tuple) else actual
        np.testing.assert_allclose(actual, expected, 1e-5, 1e-6)
        np.testing.assert_allclose(net.w.grad, nets[1].w.grad, 1e-5, 1e-5)
        net.eval()
    assert len(lengths) > 1
    described = str(net.program(tuple(np.shape(x) for x in given), training=False).describe())
    assert "finds sizes" in described and "Loop_y" in described
    with pytest.raises(TypeError, match="'Loop_y' gives results whose sizes depend on the numbers"):
        net.compile_inference(5)


def test_steps_of_loops_share_what_they_all_compute(tmp_path: Path) -> None:
    """A product of a value from outside is computed once, those of the state in every step; gradients are added."""
    body = [
        node("MatMul", "x w", "p"), node("Mul", "p half", "q"), node("MatMul", "h v", "r"), node("Add", "q r", "s"),
        node("Tanh", "s", "g"), node("Identity", "before", "goes_on"),
    ]  # fmt: skip
    state = [info("i", INT64, []), info("before", BOOL, []), info("h")]
    inner = graph(body, [info("goes_on", BOOL), info("g")], state, {"half": np.float32(0.5)})
    held = {"w": 0.3 * floats(3, 3), "v": 0.3 * floats(3, 3), "yes": np.array(True)}
    nodes = [node("Loop", "steps yes x", "y", body=inner)]
    path = write(tmp_path / "m.onnx", nodes, {"x": ["N", 3], "steps": []}, ["y"], held, kinds={"steps": INT64})

    def compute(x: Any, steps: Any) -> Any:
        h = x
        for _ in range(int(steps)):
            h = np.tanh(0.5 * (x @ held["w"]) + h @ held["v"])
        return [h]

    net = nn.from_onnx(path)
    for steps in (3, 1, 5, 3):
        check(path, floats(4, 3), np.array(steps), net=net, function=compute)
        check_gradients(net, [floats(4, 3), np.array(steps)])
    (recording,) = (r for r in net._recordings if not r.graph.training)
    counts = {
        sum(type(operation).__name__ == "MatrixProduct" for operation in made.operations)
        for made in (recording.graph, *recording._others)
    }
    assert counts >= {1 + 3, 1 + 5}


def test_long_loops_take_few_recordings(tmp_path: Path) -> None:
    """The condition of a step is expected to be that of the step before."""
    inner = graph(
        [node("Add", "h one", "g"), node("ReduceMax", "g", "m", keepdims=0), node("Less", "m end", "goes_on")],
        [info("goes_on", BOOL), info("g")], [info("i", INT64, []), info("before", BOOL, []), info("h")],
    )  # fmt: skip
    held = {"yes": np.array(True), "one": np.float32(1), "far": np.int64(500)}
    path = write(
        tmp_path / "m.onnx", [node("Loop", "far yes x", "y", body=inner)], {"x": ["N", 3], "end": []}, ["y"], held
    )
    net, x = nn.from_onnx(path), np.zeros((2, 3), np.float32)
    for end in (60, 3, 61, 60):
        np.testing.assert_array_equal(net(x, np.float32(end)), x + end)
    assert len(recording_of(net, False, ((2, 3), ()))._others) <= 10


def test_a_path_by_numbers_is_trained_and_shared(tmp_path: Path) -> None:
    """By a trainer, whose batches take different numbers of steps, and by threads that take different paths."""
    looping(path := tmp_path / "m.onnx", "four", True)
    model = onnx.load(path)
    del model.graph.output[1:], model.graph.node[-1]
    path.write_bytes(model.SerializeToString())
    net = nn.from_onnx(path)
    x = floats(48, 3) * np.repeat(np.float32([0.05, 5]), 24)[:, None]
    trainer = nn.Trainer(net, "mse", nn.SGD(0.1), batch_size=24, quiet=True)
    for part in (x[:24], x[24:], x[:24]):
        before, target = net.w.data.copy(), 0.3 * np.tanh(part)
        net.train().backward(2 * (net(part) - target) / target.size)
        expected = before - 0.1 * net.w.grad
        trainer.fit(part, target, epochs=1)
        np.testing.assert_allclose(net.w.data, expected, 1e-5, 1e-6)
        assert not np.array_equal(expected, before)
    net.eval()
    batches = [x[i : i + 1 + i % 3] for i in range(0, 48, 7)]
    expected, wrong = [net(one) for one in batches], []

    def work() -> None:
        for _ in range(10):
            wrong.extend(not np.array_equal(net(one), y) for one, y in zip(batches, expected, strict=True))

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(wrong) == 30 * len(batches) and not any(wrong)


def test_a_loop_that_never_ends(tmp_path: Path) -> None:
    inner = graph(
        [node("Add", "h h", "g"), node("Identity", "before", "goes_on")], [info("goes_on", BOOL), info("g")],
        [info("i", INT64, []), info("before", BOOL, []), info("h")],
    )  # fmt: skip
    nodes = [node("Loop", "far yes x", "y", body=inner)]
    held = {"yes": np.array(True), "far": np.int64(2**62)}
    path = write(tmp_path / "m.onnx", nodes, {"x": ["N", 3]}, ["y"], held)
    with pytest.raises(nn.onnx.Unsupported, match=r"Loop 'Loop_y': it has not ended after \d+ steps"):
        nn.from_onnx(path)


@pytest.mark.parametrize("backward", [0, 1])
def test_a_scan(backward: int, tmp_path: Path) -> None:
    body = [node("MatMul", "h w", "p"), node("Add", "p x", "q"), node("Tanh", "q", "g"), node("Identity", "g", "o")]
    inner = graph(body, [info("g"), info("o")], [info("h"), info("x")])
    nodes = [
        node("Scan", "first x", "last all", body=inner, num_scan_inputs=1, scan_input_axes=[1], scan_output_axes=[1],
             scan_input_directions=[backward], scan_output_directions=[backward]),
    ]  # fmt: skip
    held = {"w": floats(3, 3), "first": floats(2, 3)}
    path = write(tmp_path / "m.onnx", nodes, {"x": [2, "T", 3]}, ["last", "all"], held)
    net = nn.from_onnx(path, batch_axis=None)
    for length in (5, 3, 5):
        x, h, rows = floats(2, length, 3), held["first"], []
        for step in range(length)[:: -1 if backward else 1]:
            h = np.tanh(h @ held["w"] + x[:, step])
            rows.append(h)
        last, states = net(x)
        np.testing.assert_allclose(last, h, 1e-5, 1e-6)
        np.testing.assert_allclose(states, np.stack(rows[:: -1 if backward else 1], 1), 1e-5, 1e-6)
    check_gradients(net, [floats(2, 3, 3)])


def test_positions_that_are_found(tmp_path: Path) -> None:
    """NonZero, and the elements there, through which gradients go."""
    nodes = [
        node("Greater", "x zero", "c"), node("NonZero", "c", "p"), node("Transpose", "p", "q", perm=[1, 0]),
        node("GatherND", "x q", "v"), node("Mul", "v v", "s"), node("ReduceSum", "s", "y", keepdims=0),
    ]  # fmt: skip
    path = write(tmp_path / "m.onnx", nodes, {"x": ["N", 3]}, ["p", "s", "y"], {"zero": np.float32(0)})
    net = nn.from_onnx(path)
    for x in (floats(5, 3), floats(2, 3), np.float32([[1, -1, 2]]), np.full((2, 3), -1, np.float32)):
        check(path, x, net=net)
    check_gradients(net, [np.sign(floats(4, 3)) * (1 + np.abs(floats(4, 3)))])


def test_compress_and_unique(tmp_path: Path) -> None:
    nodes = [node("Compress", "x c", "a", axis=1), node("Compress", "x d", "b"), node("Mul", "a a", "y")]
    path = write(
        tmp_path / "m.onnx", nodes, {"x": ["N", 3], "c": [3], "d": ["M"]}, ["y", "b"], kinds={"c": BOOL, "d": BOOL}
    )
    net = nn.from_onnx(path, batch_axis={"x": 0, "c": None, "d": None})
    for c in ([1, 0, 1], [0, 0, 1], [1, 1, 1]):
        given = [floats(4, 3), np.array(c, bool), np.array([*c, 1, 0], bool)]
        check(path, *given, net=net)
        check_gradients(net, given)
    nodes = [node("Unique", "x", "a b c d", axis=0), node("Add", "a a", "y")]
    path = write(tmp_path / "m.onnx", nodes, {"x": ["N", 2]}, ["y", "b", "c", "d"], kinds=dict.fromkeys("bcd", INT64))
    net = nn.from_onnx(path)
    for rows in ([0, 1, 0], [2, 1, 0, 1, 1]):
        check(path, np.float32([[1, 2], [3, 4], [0, 1]])[rows], net=net)


@pytest.mark.parametrize("centred", [0, 1])
def test_detections(centred: int, tmp_path: Path) -> None:
    """Boxes that are left, and what is looked up for them."""
    nodes = [
        node("NonMaxSuppression", "boxes scores most overlap least", "s", center_point_box=centred),
        node("Gather", "s two", "i", axis=1), node("Squeeze", "i one", "j"), node("Gather", "flat j", "y"),
        node("Reshape", "boxes rows", "flat"),
    ]  # fmt: skip
    held = {
        "most": np.array([3]), "overlap": np.float32([0.4]), "least": np.float32([0.1]), "two": np.array([2]),
        "one": np.array([1]), "rows": np.array([-1, 4]),
    }  # fmt: skip
    path = write(
        tmp_path / "m.onnx", [*nodes[:3], nodes[4], nodes[3]], {"boxes": [1, "A", 4], "scores": [1, 2, "A"]}, ["s", "y"], held,
        kinds={"s": INT64},
    )  # fmt: skip
    net = nn.from_onnx(path, batch_axis=None)
    random = np.random.RandomState(0)
    for count in (12, 5, 12):
        boxes = random.uniform(0, 2, (1, count, 4)).astype(np.float32)
        check(path, boxes, random.uniform(0, 1, (1, 2, count)).astype(np.float32), net=net)
    assert net(boxes, np.zeros((1, 2, 12), np.float32))[1].shape == (0, 4)


def test_shapes_that_are_computed(tmp_path: Path) -> None:
    """Numbers of inputs as shapes, bounds and counts."""
    nodes = [
        node("Reshape", "x shape", "a"), node("Slice", "a zero end", "b"), node("Range", "nought count unit", "r"),
        node("Cast", "r", "f", to=FLOAT), node("ReduceSum", "f", "g", keepdims=0), node("Add", "b g", "y"),
    ]  # fmt: skip
    held = {"zero": np.array([0]), "nought": np.int64(0), "unit": np.int64(1)}
    path = write(
        tmp_path / "m.onnx", nodes, {"x": [12], "shape": [2], "end": [1], "count": []}, ["y"], held,
        kinds=dict.fromkeys(["shape", "end", "count"], INT64),
    )  # fmt: skip
    net = nn.from_onnx(path, batch_axis=None)
    for shape, end, count in (((3, 4), 2, 5), ((4, 3), 3, 2), ((-1, 6), 1, 5), ((2, 6), -1, 3)):
        check(path, floats(12), np.array(shape), np.array([end]), np.array(count), net=net)
    with pytest.raises(ValueError, match="Reshape"):
        net(floats(12), np.array([5, 5]), np.array([1]), np.array(2))


def test_sequences(tmp_path: Path) -> None:
    nodes = [
        node("SplitToSequence", "x", "s", axis=1), node("SequenceAt", "s last", "a"), node("SequenceErase", "s first", "t"),
        node("SequenceInsert", "t a", "u"), node("ConcatFromSequence", "u", "y", axis=0), node("SequenceLength", "u", "n"),
        node("SequenceConstruct", "a x", "v"), node("ConcatFromSequence", "v", "z", axis=1),
    ]  # fmt: skip
    held = {"last": np.int64(-1), "first": np.int64(0)}
    path = write(tmp_path / "m.onnx", nodes, {"x": ["N", 3]}, ["y", "n", "z"], held, kinds={"n": INT64})
    check_gradients(check(path, floats(4, 3)), [floats(2, 3)])


def test_functions_of_a_model(tmp_path: Path) -> None:
    """Local functions, also with branches in them, are put in place."""
    path = branching(tmp_path / "m.onnx", True)
    model = onnx.load(path)
    square = helper.make_function(
        "own", "Twice", ["a"], ["b"], [node("Add", "a a", "b")], [helper.make_opsetid("", 21)]
    )
    model.functions.append(square)
    model.opset_import.append(helper.make_opsetid("own", 1))
    model.graph.node.append(helper.make_node("Twice", ["y"], ["z"], domain="own"))
    model.graph.output[0].name = "z"
    path.write_bytes(model.SerializeToString())
    check(path, floats(4, 3))


@pytest.mark.parametrize("seed", range(8))
def test_random_paths(seed: int, tmp_path: Path) -> None:
    """Programs that are kept for some numbers, and runs in any order, against the evaluator, which keeps nothing."""
    random = np.random.RandomState(seed)
    function = looping(path := tmp_path / "m.onnx", "steps", bool(seed % 2))
    net = nn.from_onnx(path)
    for _ in range(12):
        x = random.uniform(0.5, 5) * random.standard_normal((random.randint(1, 4), 3)).astype(np.float32)
        check(path, x, np.array(random.randint(0, 6)), net=net, function=function)


def test_custom_operators_are_named_with_a_cure(tmp_path: Path) -> None:
    path = write(tmp_path / "m.onnx", [node("Relu", "x", "y")], {"x": ["N", 3]}, ["y"])
    model = onnx.load(path)
    for domain, name in (("com.microsoft", "BeamSearch"), ("my.own", "Thing")):
        model.graph.node.append(helper.make_node(name, ["y"], [name], name=name, domain=domain))
        model.graph.output.append(info(name))
    path.write_bytes(model.SerializeToString())
    told = r"(?s)com\.microsoft\.BeamSearch 'BeamSearch'.*my\.own\.Thing.*before onnxruntime optimized it.*Those of my\.own are"
    with pytest.raises(nn.onnx.Unsupported, match=told):
        nn.from_onnx(path)


def test_ways_that_take_other_sizes(tmp_path: Path) -> None:
    """A way is recorded for the sizes of the run that takes it, which are not those of an earlier run that took the other."""
    ways = {
        name: graph([node("Reshape", f"x {rows}", f"{name}a"), node("MatMul", f"{name}a {weight}", name)], [info(name)])
        for name, rows, weight in (("then_branch", "six", "w"), ("else_branch", "eight", "v"))
    }
    held = {"six": np.array([-1, 6]), "eight": np.array([-1, 8]), "w": floats(6, 2), "v": floats(8, 3)}
    path = write(
        tmp_path / "m.onnx", [node("If", "c", "y", **ways)], {"x": ["N", "T"], "c": []}, ["y"], held, kinds={"c": BOOL}
    )
    net = nn.from_onnx(path)
    for count, width, flag in (
        (1, 6, True),
        (1, 24, False),
        (1, 24, True),
        (2, 8, False),
        (1, 18, True),
        (3, 8, False),
    ):
        check(path, floats(count, width), np.array(flag), net=net)
