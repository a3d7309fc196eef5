"""ML programs run: the cases of coremltools' suite, cases of real Macs, control flow, states, precision, and bad input."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import openbnns
from coreml_cases import Case, cases
from openbnns import nn
from openbnns.interop import coreml

GOLDEN = {
    case["id"]: case
    for case in json.loads((Path(__file__).parents[1] / "data" / "graph_golden.json").read_text(encoding="utf-8"))[
        "cases"
    ]
}


def program(body: str, inputs: str, outputs: str, opset: str = "ios18") -> coreml.Function:
    """The function main of a program with these lines."""
    return coreml.parse(f"program(1.3) {{ func main<{opset}>({inputs}) {{ {body} }} -> ({outputs}); }}").functions[
        "main"
    ]


def run(function: coreml.Function, precision: Any = None, **inputs: Any) -> dict[str, Any]:
    return coreml.Executable(function, precision).run(inputs)


def convolution_of_bytes(weights: str, kind: str = "linear") -> coreml.Function:
    """A convolution of two channels with weights of four bits, a scale for each output channel, and one bias."""
    body = f"""tensor<fp32, [1, 2, 3]> y = conv_quantized(x = x, weight = tensor<uint8, [2, 2, 2]>({weights}), nbits = int32(4),
        quantization_type = string("{kind}"), quant_scale = tensor<fp32, [2]>([0.5, 2]), quant_bias = tensor<fp32, [1]>([-3]),
        bias = tensor<uint8, [2]>([1, 200]), pad_type = string("custom"), pad = tensor<int32, [2]>([1, 0]));"""
    return program(body, "tensor<fp32, [1, 2, 3]> x", "y")


def test_a_convolution_of_bytes_is_one_of_its_numbers() -> None:
    weights = np.random.default_rng(5).integers(0, 16, (2, 2, 2))
    x = np.random.default_rng(6).normal(size=(1, 2, 3)).astype(np.float32)
    held = weights * np.array([0.5, 2]).reshape(2, 1, 1) - 3
    seen = np.pad(x, ((0, 0), (0, 0), (1, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(seen, 2, -1)  # (N, I, T, K)
    expected = np.einsum("nitk,oik->not", windows, held) + np.array([1, 200]).reshape(2, 1)
    actual = run(convolution_of_bytes(str(weights.tolist())), x=x)["y"]
    np.testing.assert_allclose(actual, expected, 1e-5, 1e-5)


@pytest.mark.parametrize(
    ("weights", "kind", "message"),
    [
        ("[[[1, 16], [0, 0]], [[0, 0], [0, 0]]]", "linear", "weights are from 0 to 16, which 4 bits do not hold"),
        ("[[[1, 5], [0, 0]], [[0, 0], [0, 0]]]", "lut", "quantization_type is 'lut', but no input holds a table"),
    ],
)
def test_a_convolution_of_bytes_has_bounds(weights: str, kind: str, message: str) -> None:
    with pytest.raises(coreml.CoreMLError, match=f"conv_quantized 'y': {message}"):
        run(convolution_of_bytes(weights, kind), x=np.ones((1, 2, 3), np.float32))


# The suite of coremltools.

# Cases that come out in another way, each with the reason, by parts of their names.
EXPLAINED = {
    "TestScatter::test_ios17_invalid_indices": "the suite expects an error for indices that name nothing, which is given",
    "TestScatterAlongAxis::test_ios17_invalid_indices": "the same",
    "TestScatterNd::test_ios17_invalid_indices": "the same",
    "TestCropResize::test_builder_to_backend_ios1": "the suite writes one of twelve expected numbers with three digits: 7.899",
    "TestCropResize::test_builder_to_backend_smoke": "a box from 200 % to 100 % of the image: out of the documented range",
}


def has_halves(case: Case) -> bool:
    return "fp16" in case.text


def misfit(case: Case, executable: coreml.Executable) -> str | None:
    """How the results of a case differ from those expected; None if they do not."""
    state = executable.new_state() if executable.states else None
    # The suite computes in float32 or float64 also where programs say float16, whose resolution is a thousandth.
    least = 1e-3 if has_halves(case) else 0.0
    for inputs, outputs in case.calls:
        results = executable.run(inputs, state)
        for name, expected in outputs.items():
            got = np.asarray(results[name], np.float64).reshape(expected.shape)
            atol, rtol = max(case.atol, least), max(case.rtol, least)
            if not np.allclose(got, np.asarray(expected, np.float64), rtol, atol, equal_nan=True):
                return f"{name} is off by {np.abs(got - expected).max():.3g}"
            port = next(port for port in executable.outputs if port.name == name)
            assert results[name].dtype == port.dtype
    return None


def test_the_cases_of_coremltools_come_out_as_expected() -> None:
    wrong: dict[str, str] = {}
    for case in cases():
        try:
            problem = misfit(case, coreml.Executable(case.program.functions["main"]))
        except coreml.CoreMLError as error:
            problem = str(error)
        if problem is not None:
            wrong[case.test] = problem
    explained = [test for test in wrong if any(part in test for part in EXPLAINED)]
    assert {test: why for test, why in wrong.items() if test not in explained} == {}
    assert len(explained) <= 0.01 * len(cases())  # the goal is three hundredths at most


def test_operations_that_run_by_themselves_give_the_same_as_recorded_ones() -> None:
    count = 0
    for case in cases()[::11]:
        function = case.program.functions["main"]
        if any(kind.startswith("random") for kind in case.operations) or any(part in case.test for part in EXPLAINED):
            continue
        apart = coreml.Executable(function)
        apart.body.run_apart()
        count += 1
        assert misfit(case, apart) is None, case.test
    assert count > 180


# Cases of real Macs.


def golden_function(held: dict[str, Any]) -> coreml.Function:
    lines, types = [], {}

    def tensor(element: str, shape: list[Any]) -> str:
        return f"tensor<{element}, [{', '.join(map(str, shape))}]>"

    for name, element, shape in held["inputs"]:
        types[name] = element, shape
    for name, (element, shape, value) in held.get("constants", {}).items():
        types[name] = element, shape
        shown = json.dumps(value)
        lines.append(f"{tensor(element, shape)} {name} = const()[val = {tensor(element, shape)}({shown})];")
    for name, kind, arguments in held["operations"]:
        element, shape = types[next(iter(arguments.values()))]
        types[name] = ("bool" if kind == "greater" else element), ["?"] * len(shape)
        given = ", ".join(f"{key} = {value}" for key, value in arguments.items())
        lines.append(f"{tensor(*types[name])} {name} = {kind}({given});")
    inputs = ", ".join(f"{tensor(element, shape)} {name}" for name, element, shape in held["inputs"])
    return program("\n".join(lines), inputs, ", ".join(held["outputs"]), held["opset"])


@pytest.mark.parametrize("case", ["julia/dense", "julia/float16", "julia/int32 and bool"])
def test_programs_give_what_a_mac_gives(case: str) -> None:
    held = GOLDEN[case]
    function = golden_function(held["program"])
    executable = coreml.Executable(function)
    ports = {port.name: port for port in executable.inputs}
    second = GOLDEN.get(f"{case}b")  # the same program on other inputs
    for one in [held] if second is None else [held, second]:
        inputs = {name: np.array(value, ports[name].dtype) for name, value in one["inputs"].items()}
        actual = executable.run(inputs)
        for name, expected in one["expected"].items():
            assert actual[name].tolist() == expected


@pytest.mark.parametrize("case", ["julia/dynamic", "export/flexible-range"])
def test_a_size_may_differ_from_run_to_run(case: str) -> None:
    executable = coreml.Executable(golden_function(GOLDEN[case]["program"]))
    (port,), (output,) = executable.inputs, executable.outputs
    assert port.shape is not None and port.shape[0] is None
    for n in (1, 2, 4, 1, 5, 7):
        x = np.random.default_rng(n).standard_normal([n, *port.shape[1:]]).astype(np.float32)
        np.testing.assert_array_equal(executable.run({port.name: x})[output.name], np.maximum(x, 0))


def test_a_gather_takes_indices_of_any_number() -> None:
    function = program(
        """tensor<fp32, [3, 2]> data = const()[val = tensor<fp32, [3, 2]>([[10, 11], [20, 21], [30, 31]])];
        int32 zero = const()[val = int32(0)]; int32 three = const()[val = int32(3)];
        tensor<bool, [1, ?]> low = less(x = indices, y = zero); tensor<int32, [1, ?]> up = add(x = indices, y = three);
        tensor<int32, [1, ?]> chosen = select(cond = low, a = up, b = indices);
        tensor<fp32, [1, ?, 2]> y = gather(x = data, indices = chosen, axis = zero);""",
        "tensor<int32, [1, ?]> indices", "y",
    )  # fmt: skip
    executable = coreml.Executable(function)
    rows = np.float32([[10, 11], [30, 31], [20, 21], [20, 21]])
    for n in (1, 4, 3):
        actual = executable.run({"indices": np.array([[0, -1, 1, -2][:n]], np.int32)})["y"]
        np.testing.assert_array_equal(actual, rows[None, :n])


def test_small_halves_and_compressed_weights_are_exact() -> None:
    bits = np.array([0x0001, 0x00A8, 0x03FF, 0x0400, 0x80A8], np.uint16).view(np.float16)
    shown = ", ".join(float(x).hex() for x in bits)
    function = program(
        f"""tensor<fp16, [5]> c = const()[val = tensor<fp16, [5]>([{shown}])]; string kind = const()[val = string("fp32")];
        tensor<fp32, [5]> wide = cast(x = c, dtype = kind); tensor<fp32, [5]> y = add(x = x, y = wide);""",
        "tensor<fp32, [5]> x", "y",
    )  # fmt: skip
    case = GOLDEN["export/fp16 subnormals"]
    for given, expected in zip(case["inputs"], case["expected"], strict=True):
        assert run(function, x=np.float32(given))["y"].tolist() == expected
    function = program(
        """tensor<fp32, [4]> w = constexpr_affine_dequantize()[axis = int32(0), quantized_data = tensor<int8, [4]>([-128, -1, 0,
        127]), scale = fp32(0.5), zero_point = int8(-1)]; tensor<fp32, [4]> y = add(x = x, y = w);""",
        "tensor<fp32, [4]> x", "y", "ios16",
    )  # fmt: skip
    case = GOLDEN["export/int8 constexpr"]
    for given, expected in zip(case["inputs"], case["expected"], strict=True):
        assert run(function, x=np.float32(given))["y"].tolist() == expected


# What is decided while a program runs.

COUNTING = """int32 n, tensor<fp32, [2]> s = while_loop(loop_vars = (count, x)) (int32 i, tensor<fp32, [2]> a) {
    bool more = greater(x = i, y = zero);
} -> (more) (int32 j, tensor<fp32, [2]> b) {
    int32 k = sub(x = j, y = step);
    tensor<fp32, [2]> c = add(x = b, y = b);
} -> (k, c);"""


def counting(step: int) -> coreml.Function:
    return program(
        f"int32 zero = const()[val = int32(0)]; int32 step = const()[val = int32({step})]; {COUNTING}",
        "tensor<fp32, [2]> x, int32 count", "n, s",
    )  # fmt: skip


@pytest.mark.parametrize("turns", [0, 1, 5])
def test_a_loop_runs_as_often_as_its_condition_says(turns: int) -> None:
    actual = run(counting(1), x=np.float32([1, -3]), count=np.int32(turns))
    assert actual["s"].tolist() == [2.0**turns, -3 * 2.0**turns]
    assert actual["n"] == 0 and actual["n"].dtype == np.int32


def test_an_endless_loop_is_ended() -> None:
    executable = coreml.Executable(counting(0), most_turns=50)
    with pytest.raises(coreml.CoreMLError, match=r"has not ended after 50 turns.*most_turns"):
        executable.run({"x": np.zeros(2, np.float32), "count": np.int32(1)})


def recurrent_loop(steps: str) -> coreml.Function:
    """A cell over the first axis of x, as converters write it: a loop that gathers inputs and adds outputs to rows of zeros."""
    random = np.random.default_rng(8)

    def weight(name: str) -> str:
        kind = "tensor<fp32, [4, 4]>"
        return f"{kind} {name} = const()[val = {kind}({json.dumps(random.normal(size=(4, 4)).astype(np.float32).tolist())})];"

    rows, pair, row = f"tensor<fp32, [{steps}, 2, 4]>", "tensor<fp32, [2, 4]>", "tensor<fp32, [1, 2, 4]>"
    one = "tensor<int32, [1]>"
    return program(
        f"""{weight("inner")} tensor<int32, [3]> size = shape(x = x); {rows} empty = fill(shape = size, value = fp32(0));
        {pair} zeros = fill(shape = tensor<int32, [2]>([2, 4]), value = fp32(0));
        {one} count = slice_by_size(x = size, begin = {one}([0]), size = {one}([1])); {one} first = const()[val = {one}([0])];
        {one} last, {pair} h, {rows} y = while_loop(loop_vars = (first, zeros, empty))({one} i, {pair} a, {rows} b) {{
            tensor<bool, [1]> more = less(x = i, y = count);
        }} -> (more) ({one} j, {pair} c, {rows} d) {{
            {weight("outer")} {row} seen = gather(x = x, indices = j, axis = int32(0));
            {pair} flat = squeeze(x = seen, axes = {one}([0]));
            {pair} left = linear(x = flat, weight = inner); {pair} right = linear(x = c, weight = outer);
            {pair} sum = add(x = left, y = right); {pair} new = tanh(x = sum);
            {row} wide = expand_dims(x = new, axes = {one}([0]));
            {rows} longer = scatter(data = d, indices = j, updates = wide, axis = int32(0));
            {one} k = add(x = j, y = int32(1));
        }} -> (k, new, longer);""",
        f"{rows} x", "h, y",
    )  # fmt: skip


def by_hand(function: coreml.Function, x: np.ndarray) -> np.ndarray:
    (inner, outer) = (
        operation.attributes["val"].array
        for operation in function.walk()
        if operation.outputs[0].name in ("inner", "outer")
    )
    h, rows = np.zeros((2, 4)), []
    for row in x:
        h = np.tanh(row @ inner.T + h @ outer.T)
        rows.append(h)
    return np.stack(rows)


def test_a_loop_of_a_known_length_is_part_of_a_network(tmp_path: Path) -> None:
    function = recurrent_loop("5")
    x = np.random.default_rng(3).normal(size=(5, 2, 4)).astype(np.float32)
    executable = coreml.Executable(function)
    actual = executable.run({"x": x})
    assert executable.runs_as_one
    np.testing.assert_allclose(actual["y"], by_hand(function, x), atol=1e-6)
    np.testing.assert_array_equal(actual["h"], actual["y"][-1])
    executable.body.run_apart()
    for name, expected in executable.run({"x": x}).items():
        np.testing.assert_allclose(actual[name], expected, atol=1e-6)
    path = coreml.write_package(coreml.make_model(coreml.Program({"main": function})), tmp_path / "loop.mlpackage")
    network = nn.from_coreml(path, batch_axis=None)
    assert [name for name, _ in network.named_parameters()] == ["inner", "outer"]
    np.testing.assert_array_equal(network(x)[1], actual["y"])
    assert openbnns.gradcheck(network.train(), x).ok
    with pytest.raises(
        ValueError, match=r"takes \(5, 2, 4\).*made for 5 samples.* N "
    ):  # the number of turns is that of steps
        nn.from_coreml(path)(x[:3])


@pytest.mark.parametrize("samples", [4, 5])
def test_a_loop_over_samples_keeps_their_number(samples: int, tmp_path: Path) -> None:
    function = program(
        " ".join(f"int32 {name} = const()[val = int32({n})];" for name, n in (("count", 5), ("zero", 0), ("step", 1)))
        + COUNTING, f"tensor<fp32, [{samples}, 2]> x", "s",
    )  # fmt: skip
    function.block.operations[-1].outputs[1] = coreml.NamedType("s", function.inputs[0].type)
    path = coreml.write_package(coreml.make_model(coreml.Program({"main": function})), tmp_path / "loop.mlpackage")
    x = np.random.default_rng(4).normal(size=(7, 2)).astype(np.float32)
    if samples == 5:
        with pytest.raises(ValueError, match=r"made for 5 samples.*it takes 5 turns, as many as there are samples"):
            nn.from_coreml(path)(x)
        np.testing.assert_array_equal(nn.from_coreml(path)(x[:5]), 32 * x[:5])
    else:
        np.testing.assert_array_equal(nn.from_coreml(path)(x), 32 * x)


def test_a_loop_over_a_free_axis_runs_turn_by_turn() -> None:
    function = recurrent_loop("?")
    executable = coreml.Executable(function)
    for steps in (3, 6, 1, 3):
        x = np.random.default_rng(steps).normal(size=(steps, 2, 4)).astype(np.float32)
        np.testing.assert_allclose(executable.run({"x": x})["y"], by_hand(function, x), atol=1e-6)
    assert not executable.runs_as_one  # it would be recorded anew for every length


def test_blocks_side_by_side_may_use_a_name_for_different_weights() -> None:
    def block(sign: int) -> str:
        return f"""{{ tensor<fp32, [2, 2]> w = const()[val = tensor<fp32, [2, 2]>([[{sign}, 0], [0, {3 * sign}]])];
            tensor<fp32, [1, 2]> z = linear(x = x, weight = w); }} -> (z)"""

    function = program(
        f"""bool up = const()[val = bool(true)]; bool down = const()[val = bool(false)];
        tensor<fp32, [1, 2]> a = cond(pred = up) {block(1)} {block(-1)};
        tensor<fp32, [1, 2]> b = cond(pred = down) {block(5)} {block(7)};""",
        "tensor<fp32, [1, 2]> x", "a, b",
    )  # fmt: skip
    executable = coreml.Executable(function)
    actual = executable.run({"x": np.float32([[2, 1]])})
    assert executable.runs_as_one
    assert (actual["a"].tolist(), actual["b"].tolist()) == ([[2, 3]], [[14, 21]])


def test_a_branch_sees_what_stands_outside() -> None:
    function = program(
        """fp32 zero = const()[val = fp32(0)]; tensor<int32, [1]> first = const()[val = tensor<int32, [1]>([0])];
        tensor<fp32, [3]> twice = add(x = x, y = x); fp32 sum = reduce_sum(x = x, axes = first, keep_dims = bool(false));
        bool up = greater(x = sum, y = zero);
        tensor<fp32, [3]> y = cond(pred = up) { } -> (twice) {
            tensor<fp32, [3]> other = square(x = twice);
        } -> (other);""",
        "tensor<fp32, [3]> x", "y",
    )  # fmt: skip
    assert run(function, x=np.float32([1, 2, 3]))["y"].tolist() == [2, 4, 6]
    assert run(function, x=np.float32([-1, -2, -3]))["y"].tolist() == [4, 16, 36]


def test_shapes_may_follow_from_numbers() -> None:
    function = program(
        """tensor<int32, [?, 1]> places = non_zero(x = x); tensor<int32, [2]> size = shape(x = places);
        tensor<fp32, [?, ?]> y = fill(shape = shape, value = fp32(3)); tensor<fp32, [?, ?]> z = exp(x = y);""",
        "tensor<fp32, [4]> x, tensor<int32, [2]> shape", "places, size, z",
    )  # fmt: skip
    executable = coreml.Executable(function)
    for x, shape in (([0, 1, 0, 2], (2, 3)), ([0, 0, 0, 0], (1, 5)), ([1, 1, 1, 1], (4, 1))):
        actual = executable.run({"x": np.float32(x), "shape": np.array(shape, np.int32)})
        places = np.flatnonzero(x)
        assert actual["places"].tolist() == places[:, None].tolist()
        assert actual["size"].tolist() == [len(places), 1]
        np.testing.assert_allclose(actual["z"], np.full(shape, np.exp(3)), rtol=1e-6)


def test_boxes_that_overlap_are_suppressed() -> None:
    function = program(
        """tensor<fp32, [1, 3, 4]> b, tensor<fp32, [1, 3, 2]> s, tensor<int32, [1, 3]> i, tensor<int32, [1]> n =
        non_maximum_suppression(boxes = boxes, scores = scores, iou_threshold = fp32(0.5), score_threshold = fp32(0.2),
        max_boxes = int32(3), per_class_suppression = bool(false));""",
        "tensor<fp32, [1, 4, 4]> boxes, tensor<fp32, [1, 4, 2]> scores", "b, s, i, n", "ios16",
    )  # fmt: skip
    boxes = np.float32([[[5, 5, 4, 4], [5, 5, 4, 5], [20, 20, 4, 4], [40, 40, 2, 2]]])
    scores = np.float32([[[0.3, 0.1], [0.8, 0.1], [0.1, 0.6], [0.1, 0.1]]])
    actual = run(function, boxes=boxes, scores=scores)
    assert actual["n"].tolist() == [2] and actual["i"].tolist() == [[1, 2, -1]]
    np.testing.assert_array_equal(actual["b"][0, :2], boxes[0, 1:3])


def test_states_stay_from_run_to_run() -> None:
    function = program(
        """tensor<fp16, [3]> before = read_state(input = total); tensor<fp16, [3]> after = add(x = before, y = x);
        write_state(input = total, data = after); tensor<fp16, [3]> y = read_state(input = total);""",
        "state<tensor<fp16, [3]>> total, tensor<fp16, [3]> x", "y",
    )  # fmt: skip
    executable = coreml.Executable(function)
    one, other = executable.new_state(), executable.new_state()
    x = np.array([1, 2, 3], np.float16)
    for turn in (1, 2, 3):
        assert executable.run({"x": x}, one)["y"].tolist() == (turn * x).tolist()
    assert executable.run({"x": x}, other)["y"].tolist() == x.tolist()
    with pytest.raises(ValueError, match=r"keeps 'total' from run to run. Pass state=new_state\(\)"):
        executable.run({"x": x})


# Precision.


def test_precision_decides_where_halves_are_rounded() -> None:
    function = program(
        """tensor<fp16, [2]> a = add(x = x, y = fp16(1024)); tensor<fp16, [2]> b = sub(x = a, y = fp16(1024));
        tensor<fp16, [2]> c = mul(x = b, y = fp16(0x1.55p-2));""",
        "tensor<fp16, [2]> x", "c",
    )  # fmt: skip
    x = np.array([0.3, 0.7], np.float16)
    factor = np.float16(float.fromhex("0x1.55p-2"))
    exact = (x.astype(np.float32) + 1024 - 1024) * np.float32(factor)
    usual, device, nowhere = (run(function, precision, x=x)["c"] for precision in (None, "float16", "float32"))
    assert (usual.dtype, device.dtype, nowhere.dtype) == (np.float16, np.float16, np.float32)
    np.testing.assert_array_equal(usual, exact.astype(np.float16))
    np.testing.assert_array_equal(nowhere, exact)
    np.testing.assert_array_equal(device, ((x + np.float16(1024)) - np.float16(1024)) * factor)
    assert (device != usual).any()
    with pytest.raises(ValueError, match=r"precision is 'half'. Use 'float16', 'float32' or None"):
        coreml.Executable(function, "half")  # type: ignore[arg-type]


# Bad input.


@pytest.mark.parametrize(
    ("inputs", "error", "message"),
    [
        ({}, ValueError, "the input 'x' is missing. It takes 'x', 'count'"),
        ({"x": np.zeros(2, np.float32), "y": 1}, ValueError, "there is no input 'y'. It takes 'x', 'count'"),
        ({"x": np.zeros(2, np.float32), "counts": 1}, ValueError, "Did you mean count"),
        ({"x": np.zeros(3, np.float32), "count": 1}, ValueError, r"has shape \(3,\), but the program takes \(2\)"),
        ({"x": np.zeros((1, 2)), "count": 1}, ValueError, r"has shape \(1, 2\)"),
        ({"x": np.array(["a", "b"]), "count": 1}, TypeError, r"Convert it: x.astype\(np.float32\)"),
        ({"x": np.zeros(2, np.float32), "count": 1.5}, TypeError, "'count' is float64, but the program takes int32"),
    ],
)  # fmt: skip
def test_bad_inputs_are_refused(inputs: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        coreml.Executable(counting(1)).run(inputs)


def test_an_operation_that_cannot_be_computed_says_where() -> None:
    function = coreml.parse(
        """program(1.3)
{
    func main<ios17>(tensor<fp32, [2, 3]> x, tensor<int32, [2]> shape) {
        tensor<fp32, [?, ?]> y = reshape(x = x, shape = shape);
    } -> (y);
}""",
        name="some.mil",
    ).functions["main"]
    executable = coreml.Executable(function)
    assert executable.run({"x": np.zeros((2, 3)), "shape": np.array([3, 2])})["y"].shape == (3, 2)
    with pytest.raises(coreml.CoreMLError, match=r"some.mil:4:9: reshape 'y': .*4"):
        executable.run({"x": np.zeros((2, 3)), "shape": np.array([4, 2])})


def test_too_much_memory_is_refused() -> None:
    huge = program(
        "tensor<fp32, [?]> y = pad(x = x, pad = tensor<int32, [2]>([0, 2147483647])); tensor<fp32, [?]> z = tile(x = y, reps ="
        " tensor<int32, [1]>([100]));",
        "tensor<fp32, [3]> x", "z",
    )  # fmt: skip
    with pytest.raises(coreml.CoreMLError, match=r"pad 'y': .*2147483650.*"):
        run(huge, x=np.zeros(3, np.float32))
    state = program(
        "tensor<fp16, [99999, 99999]> y = read_state(input = s);", "state<tensor<fp16, [99999, 99999]>> s", "y"
    )
    with pytest.raises(coreml.CoreMLError, match=r"the state 's' of shape \(99999, 99999\)"):
        coreml.Executable(state).new_state()


# Training.


def trainable(folder: Path) -> Path:
    """A package with a convolution, an LSTM and a linear layer, for one sample."""
    random = np.random.default_rng(0)

    def weight(name: str, *shape: int) -> str:
        values = (random.standard_normal(shape) * 0.4).astype(np.float32)
        kind = f"tensor<fp32, [{', '.join(map(str, shape))}]>"
        return f"{kind} {name} = const()[val = {kind}({json.dumps(values.tolist())})];"

    function = program(
        "\n".join([
            weight("kernel", 4, 2, 3), weight("shift", 4), weight("inputs", 20, 4), weight("cells", 20, 5), weight("head", 3, 5),
            weight("bias", 3), "tensor<fp32, [1, 5]> zeros = fill(shape = tensor<int32, [2]>([1, 5]), value = fp32(0));",
            "tensor<fp32, [1, 4, 6]> c = conv(x = x, weight = kernel, bias = shift, pad_type = string(\"same\"));",
            "tensor<fp32, [1, 4, 6]> t = tanh(x = c);",
            "tensor<fp32, [6, 1, 4]> s = transpose(x = t, perm = tensor<int32, [3]>([2, 0, 1]));",
            "tensor<fp32, [1, 1, 5]> h, tensor<fp32, [1, 5]> last, tensor<fp32, [1, 5]> cell = lstm(x = s, initial_h = zeros,"
            " initial_c = zeros, weight_ih = inputs, weight_hh = cells);",
            "tensor<fp32, [1, 3]> y = linear(x = last, weight = head, bias = bias);",
        ]),
        "tensor<fp32, [1, 2, 6]> x", "y",
    )  # fmt: skip
    return coreml.write_package(coreml.make_model(coreml.Program({"main": function})), folder / "trainable.mlpackage")


def test_a_network_of_a_program_has_its_weights_and_gradients(tmp_path: Path) -> None:
    path = trainable(tmp_path)
    network = nn.from_coreml(path)
    assert [name for name, _ in network.named_parameters()] == ["kernel", "shift", "inputs", "cells", "head", "bias"]
    x = np.random.default_rng(1).standard_normal((3, 2, 6)).astype(np.float32)
    executable = coreml.Executable(coreml.read(path).program.functions["main"])  # type: ignore[union-attr]
    one_by_one = np.concatenate([executable.run({"x": sample[None]})["y"] for sample in x])
    np.testing.assert_allclose(network(x), one_by_one, atol=1e-6)
    assert openbnns.gradcheck(network.train(), x).ok


def test_a_network_of_a_program_is_trained_and_written_back(tmp_path: Path) -> None:
    network = nn.from_coreml(trainable(tmp_path))
    random = np.random.default_rng(2)
    x = random.standard_normal((64, 2, 6)).astype(np.float32)
    y = (x[:, 0].sum(1) > 0).astype(np.int64)
    before = network(x)
    history = nn.Trainer(network, "cross_entropy", nn.Adam(network.parameters(), lr=0.02), quiet=True).fit(
        x, y, epochs=20
    )
    assert history[-1]["loss"] < 0.5 * history[0]["loss"]
    network.eval()
    network.to_coreml(tmp_path / "trained.mlpackage")
    again = openbnns.coreml.MLModel(tmp_path / "trained.mlpackage")
    (name,), (output,) = again.input_description, again.output_description
    np.testing.assert_allclose(again.predict({name: x[:5]})[output], network(x[:5]), atol=1e-5)
    assert np.abs(network(x) - before).max() > 0.1
    network.save_model(tmp_path / "trained.safetensors")
    np.testing.assert_allclose(nn.load_model(tmp_path / "trained.safetensors")(x), network(x), atol=1e-6)


def test_a_program_that_is_no_network_is_refused(tmp_path: Path) -> None:
    model = coreml.make_model(coreml.Program({"main": counting(1)}))
    path = coreml.write_package(model, tmp_path / "loop.mlpackage")
    with pytest.raises(coreml.CoreMLError, match=r"while_loop 'n': the number of turns is computed\.$"):
        nn.from_coreml(path)


def parts_replaced(random: np.random.Generator) -> tuple[coreml.Function, dict[str, np.ndarray]]:
    """A program that replaces a random part of a tensor, and inputs for it."""
    shape = [int(n) for n in random.integers(2, 6, random.integers(1, 4))]
    rank, keys = len(shape), []
    settings: dict[str, list[Any]] = {
        name: [] for name in ("begin", "end", "stride", "begin_mask", "end_mask", "squeeze_mask")
    }
    for n in shape:
        first, step = int(random.integers(0, n)), int(random.choice([1, 1, 2]))
        last = int(random.integers(first + 1, n + 1))
        open_start, open_end, squeezed = (bool(random.random() < p) for p in (0.2, 0.2, 0.2))
        for name, value in zip(settings, (first, last, step, open_start, open_end, squeezed), strict=True):
            settings[name].append(value)
        keys.append(first if squeezed else slice(None if open_start else first, None if open_end else last, step))
    update = np.empty(shape)[tuple(keys)].shape
    listed = {
        name: f"tensor<{kind}, [{rank}]>({json.dumps(settings[name])})"
        for name, kind in zip(settings, ["int32"] * 3 + ["bool"] * 3, strict=True)
    }
    given = ", ".join(f"{name} = {text}" for name, text in listed.items())
    function = program(
        f"tensor<fp32, {shape}> y = slice_update(x = x, update = u, {given});",
        f"tensor<fp32, {shape}> x, tensor<fp32, {list(update)}> u", "y",
    )  # fmt: skip
    arrays = {"x": random.normal(size=shape).astype(np.float32), "u": random.normal(size=update).astype(np.float32)}
    expected = arrays["x"].copy()
    expected[tuple(keys)] = arrays["u"]
    return function, {**arrays, "expected": expected}


@pytest.mark.parametrize("seed", range(20))
def test_parts_are_replaced_whether_recorded_or_not(seed: int) -> None:
    function, arrays = parts_replaced(np.random.default_rng(seed))
    expected = arrays.pop("expected")
    executable = coreml.Executable(function)
    np.testing.assert_array_equal(executable.run(arrays)["y"], expected)
    assert executable.runs_as_one
    executable.body.run_apart()
    np.testing.assert_array_equal(executable.run(arrays)["y"], expected)


def network_of_program(function: coreml.Function, folder: Path, **options: Any) -> Any:
    program = coreml.make_model(coreml.Program({"main": function}))
    return nn.from_coreml(coreml.write_package(program, folder / "program.mlpackage"), **options)


def test_parts_of_all_samples_are_replaced_though_the_program_has_their_number(tmp_path: Path) -> None:
    function = program(
        """tensor<fp32, [3, 2]> u = sin(x = v); tensor<fp32, [3, 5]> y = slice_update(x = x, update = u,
        begin = tensor<int32, [2]>([0, 1]), end = tensor<int32, [2]>([3, 3]));""",
        "tensor<fp32, [3, 5]> x, tensor<fp32, [3, 2]> v", "y",
    )  # fmt: skip
    network, random = network_of_program(function, tmp_path), np.random.default_rng(7)
    for n in (3, 4):
        x, v = random.normal(size=(n, 5)).astype(np.float32), random.normal(size=(n, 2)).astype(np.float32)
        expected = np.concatenate([x[:, :1], np.sin(v), x[:, 3:]], axis=1)
        np.testing.assert_allclose(network(x, v), expected, atol=1e-6)
    assert openbnns.gradcheck(network.train(), x, v).ok


def test_parts_of_samples_are_replaced_in_a_network(tmp_path: Path) -> None:
    function = program(
        """tensor<fp32, [?, 2, 2]> y = slice_update(x = x, update = u, begin = tensor<int32, [3]>([0, 4, 0]),
        end = tensor<int32, [3]>([0, 1, 0]), stride = tensor<int32, [3]>([1, -2, 1]),
        begin_mask = tensor<bool, [3]>([true, false, true]), end_mask = tensor<bool, [3]>([true, false, true]));""",
        "tensor<fp32, [?, 5, 2]> x, tensor<fp32, [?, 2, 2]> u", "y",
    )  # fmt: skip
    network = network_of_program(function, tmp_path)
    random = np.random.default_rng(4)
    for n in (3, 1, 6):
        x, u = random.normal(size=(n, 5, 2)).astype(np.float32), random.normal(size=(n, 2, 2)).astype(np.float32)
        expected = x.copy()
        expected[:, 4:1:-2] = u
        np.testing.assert_array_equal(network(x, u), expected)
    assert openbnns.gradcheck(network.train(), x, u).ok


PLACED = {
    "scatter_along_axis, update": ("[4, 3]", "[2, 3]", 'mode = string("update")', [[2, 0, 1], [3, 1, 0]]),
    "scatter_along_axis, add": ("[4, 3]", "[3, 2]", 'mode = string("add")', [[2, 0], [2, 1], [0, 0]]),
    "scatter_along_axis, sub": ("[4, 3]", "[2, 2]", 'mode = string("sub"), axis = int32(1)', [[2, 2], [0, 1]]),
    "scatter_nd, update": ("[4, 3]", "[2, 3]", 'mode = string("update")', [[3], [1]]),
    "scatter_nd, add": ("[4, 3]", "[3]", 'mode = string("add")', [[3, 1], [0, 2], [3, 1]]),
    "scatter_nd, sub": ("[4, 3]", "[3, 3]", 'mode = string("sub")', [[1], [0], [1]]),
}
"""By operation: shapes of what is changed and of the changes, settings, and places."""


@pytest.mark.parametrize("case", PLACED)
def test_numbers_are_put_at_places_in_a_network(case: str, tmp_path: Path) -> None:
    data, updates, settings, places = PLACED[case]
    kind = f"tensor<int32, {list(np.shape(places))}>"
    function = program(
        f"tensor<fp32, {data}> y = {case.split(',')[0]}(data = x, indices = {kind}({places}), updates = u, {settings});",
        f"tensor<fp32, {data}> x, tensor<fp32, {updates}> u", "y",
    )  # fmt: skip
    random = np.random.default_rng(5)
    arrays = {
        name: random.normal(size=json.loads(shape)).astype(np.float32) for name, shape in (("x", data), ("u", updates))
    }
    apart = coreml.Executable(function)
    apart.body.run_apart()
    expected = apart.run(arrays)["y"]
    executable = coreml.Executable(function)
    np.testing.assert_allclose(executable.run(arrays)["y"], expected, atol=1e-6)
    assert executable.runs_as_one and not np.allclose(expected, arrays["x"])
    network = network_of_program(function, tmp_path, batch_axis=None)
    np.testing.assert_allclose(network(*arrays.values()), expected, atol=1e-6)
    assert openbnns.gradcheck(network.train(), *arrays.values()).ok


def test_numbers_for_places_of_other_samples_are_refused(tmp_path: Path) -> None:
    function = program(
        """tensor<fp32, [3, 2]> y = scatter_along_axis(data = tensor<fp32, [3, 2]>([[0, 0], [0, 0], [0, 0]]),
        indices = tensor<int32, [3, 1]>([[0], [1], [1]]), updates = x, axis = int32(1), mode = string("update"));""",
        "tensor<fp32, [3, 1]> x", "y",
    )  # fmt: skip
    network, x = network_of_program(function, tmp_path), np.float32([[1], [2], [3]])
    np.testing.assert_array_equal(network(x), [[1, 0], [0, 2], [0, 3]])
    with pytest.raises(
        ValueError, match=r"made for 3 samples.*updates of shape \(N, 1\) do not fit indices of shape \(3, 1\)"
    ):
        network(x[:2])


def test_sequences_are_reversed_in_a_network(tmp_path: Path) -> None:
    function = program(
        """tensor<fp32, [?, 4, 2]> y = reverse_sequence(x = x, lengths = n, seq_axis = int32(1), batch_axis = int32(0));""",
        "tensor<fp32, [?, 4, 2]> x, tensor<int32, [?]> n", "y",
    )  # fmt: skip
    network = network_of_program(function, tmp_path)
    x, lengths = np.random.default_rng(6).normal(size=(3, 4, 2)).astype(np.float32), np.int32([3, 4, 1])
    expected = np.stack([np.concatenate([one[:n][::-1], one[n:]]) for one, n in zip(x, lengths, strict=True)])
    np.testing.assert_array_equal(network(x, lengths), expected)
    executable = coreml.Executable(function)
    np.testing.assert_array_equal(executable.run({"x": x, "n": lengths})["y"], expected)
    assert executable.runs_as_one
    assert openbnns.gradcheck(network.train(), x, lengths).ok


def test_a_run_like_a_former_one_owns_its_outputs() -> None:
    function = program(
        """tensor<fp32, [?, 3]> y = relu(x = x); tensor<fp16, [?, 3]> z = cast(x = y, dtype = string("fp16"));
        tensor<fp32, [3]> k = mul(x = w, y = w);""",
        "tensor<fp32, [?, 3]> x, tensor<fp32, [3]> w", "y, z, k",
    )  # fmt: skip
    executable, random = coreml.Executable(function), np.random.default_rng(2)
    kept = []
    for n in (4, 4, 2, 4, 4):
        x, w = random.normal(size=(n, 3)).astype(np.float32), random.normal(size=3).astype(np.float32)
        kept.append((executable.run({"x": x, "w": w}), np.maximum(x, 0), w * w))
    for outputs, y, k in kept:  # none was overwritten by a later run
        np.testing.assert_array_equal(outputs["y"], y)
        np.testing.assert_array_equal(outputs["z"], y.astype(np.float16))
        np.testing.assert_allclose(outputs["k"], k, rtol=1e-6)
        assert outputs["z"].dtype == np.float16
    with pytest.raises(ValueError, match=r"x' has shape \(4, 2\)"):
        executable.run({"x": np.zeros((4, 2), np.float32), "w": w})
    with pytest.raises(TypeError, match="is complex64"):
        executable.run({"x": np.zeros((4, 3), np.complex64), "w": w})
    with pytest.raises(ValueError, match="there is no input 'v'"):
        executable.run({"x": x, "v": w})


def test_a_network_takes_inputs_in_the_order_of_the_program(tmp_path: Path) -> None:
    function = program(
        "tensor<fp32, [1, 2]> t = square(x = b); tensor<fp32, [1, 2]> s = sub(x = t, y = a);",
        "tensor<fp32, [1, 2]> a, tensor<fp32, [1, 2]> b", "s",
    )  # fmt: skip
    path = coreml.write_package(coreml.make_model(coreml.Program({"main": function})), tmp_path / "m.mlpackage")
    net = nn.from_coreml(path)
    assert net(np.float32([[1, 2]]), np.float32([[3, 4]])).tolist() == [[8, 14]]
    again = net.to_coreml(tmp_path / "again.mlpackage").path
    assert [port.name for port in coreml.read(again).program.functions["main"].inputs] == ["a", "b"]


@pytest.mark.parametrize("cell", ["lstm", "rnn"])
@pytest.mark.parametrize("same", [True, False])
def test_a_constant_state_serves_any_number_of_samples_if_it_is_that_of_each(
    cell: str, same: bool, tmp_path: Path
) -> None:
    gates = 4 if cell == "lstm" else 1
    names = ("weight_ih", f"[{gates}, 2]"), ("weight_hh", f"[{gates}, 1]"), ("bias", f"[{gates}]")
    shapes = "".join(
        f"tensor<fp32, {shape}> {name} = const()[val = tensor<fp32, {shape}>({filled})];"
        for (name, shape), filled in zip(
            names, (str([[0.5, -1.0]] * gates), str([[0.25]] * gates), str([0.125] * gates)), strict=True
        )
    )
    state = "[[0.5], [0.5]]" if same else "[[0.5], [0.25]]"
    states = "initial_h = h, initial_c = h" if cell == "lstm" else "initial_h = h"
    outputs = ["y", "a", "b"][: 3 if cell == "lstm" else 2]
    types = ", ".join(
        f"tensor<fp32, {shape}> {name}" for name, shape in zip(outputs, ["[3, 2, 1]", "[2, 1]", "[2, 1]"], strict=False)
    )
    function = program(
        f"{shapes} tensor<fp32, [2, 1]> h = const()[val = tensor<fp32, [2, 1]>({state})];"
        "tensor<int32, [3]> p = const()[val = tensor<int32, [3]>([1, 0, 2])]; bool all = const()[val = bool(true)];"
        f"tensor<fp32, [3, 2, 2]> t = transpose(x = x, perm = p); {types} = {cell}(x = t, {states}, "
        "weight_ih = weight_ih, weight_hh = weight_hh, bias = bias, output_sequence = all);"
        "tensor<fp32, [2, 3, 1]> z = transpose(x = y, perm = p);",
        "tensor<fp32, [2, 3, 2]> x", "z",
    )  # fmt: skip
    path = coreml.write_package(coreml.make_model(coreml.Program({"main": function})), tmp_path / "m.mlpackage")
    if not same:
        with pytest.raises(ValueError, match=r"made for 2 samples.*a state .* does not fit"):
            nn.from_coreml(path)(np.zeros((5, 3, 2), np.float32))
        return
    net, x = nn.from_coreml(path), np.random.default_rng(5).normal(size=(5, 3, 2)).astype(np.float32)
    executable = coreml.Executable(function)
    for first in (0, 2, 3):
        two = x[first : first + 2]
        np.testing.assert_allclose(net(x)[first : first + 2], executable.run({"x": two})["z"], atol=1e-6)


def test_cells_may_have_a_hard_sigmoid() -> None:
    function = program(
        "tensor<fp32, [1, 1]> one = const()[val = tensor<fp32, [1, 1]>([[1]])];"
        "tensor<fp32, [1, 1]> h = const()[val = tensor<fp32, [1, 1]>([[0]])];"
        'string hard = const()[val = string("sigmoid_hard")]; tensor<fp32, [1, 1, 1]> y, tensor<fp32, [1, 1]> e = '
        "rnn(x = x, initial_h = h, weight_ih = one, weight_hh = one, activation = hard);",
        "tensor<fp32, [2, 1, 1]> x", "e",
    )  # fmt: skip
    x = np.float32([0.5, 1]).reshape(2, 1, 1)
    np.testing.assert_allclose(coreml.Executable(function).run({"x": x})["e"], [[0.2 * (0.6 + 1) + 0.5]], rtol=1e-6)


def test_a_bias_of_one_output_is_trained(tmp_path: Path) -> None:
    function = program(
        """tensor<fp32, [1, 2]> w = const()[val = tensor<fp32, [1, 2]>([[3, 4]])];
        tensor<fp32, [1]> b = const()[val = tensor<fp32, [1]>([5])];
        tensor<fp32, [1]> tiny = const()[val = tensor<fp32, [1]>([6])];
        tensor<fp32, [?, 1]> z = linear(x = x, weight = w, bias = b); tensor<fp32, [?, 1]> y = add(x = z, y = tiny);""",
        "tensor<fp32, [?, 2]> x", "y",
    )  # fmt: skip
    network = network_of_program(function, tmp_path)
    assert [name for name, _ in network.named_parameters()] == ["w", "b"]
    assert network(np.float32([[1, 1]])).tolist() == [[18]]
    assert openbnns.gradcheck(network.train(), np.float32([[1, 2], [0.5, -1]])).ok


@pytest.mark.parametrize("one_by_one", [False, True])
def test_indices_that_name_nothing(one_by_one: bool) -> None:
    executable = coreml.Executable(
        program("tensor<fp32, [1, 2]> y = gather(x = x, indices = i, axis = int32(0));",
                "tensor<fp32, [3, 2]> x, tensor<int32, [1]> i", "y")
    )  # fmt: skip
    if one_by_one:
        executable.body.run_apart()
    x = np.ones((3, 2), np.float32)
    assert executable.run({"x": x, "i": np.int32([2])})["y"].tolist() == [[1, 1]]
    with pytest.raises(coreml.CoreMLError, match=r"gather 'y': .*7 is out of (range|bounds)"):
        executable.run({"x": x, "i": np.int32([7])})
