"""Contexts of graphs in Python: arguments, open sizes and what decides them, states, streaming, checks, damage."""

from __future__ import annotations

import gc
import json
import re
import struct
import threading
import time
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from openbnns import BNNSError, capi, graph, last_error
from openbnns.interop import coreml

FACTS = Path(__file__).parents[2] / "tools" / "facts"


def file(folder: Path, text: str) -> Path:
    path = folder / "model.mil"
    path.write_text(text)
    return path


def function(inputs: str, operations: str, outputs: str, attributes: str = "") -> str:
    return f"program(1.3) {{ func main<ios18>({inputs}){attributes} {{ {operations} }} -> ({outputs}); }}"


def test_dynamic(tmp_path: Path) -> None:
    """The steps that AppleAccelerate.jl takes on a Mac."""
    context = graph.Context(
        file(tmp_path, function("tensor<fp32, [?, 3]> x", "tensor<fp32, [?, 3]> z = relu(x = x);", "z"))
    )
    assert context.function_names == ["main"] and context.argument_names() == ["z", "x"]
    assert context.argument_position("x") == 1 and context.shape("x") == context.shape("z") == (-1, 3)
    with pytest.raises(BNNSError, match="size 0 of x is open"):
        context.workspace_size  # noqa: B018
    context.set_batch_size(5)
    assert context.shape("z") == (5, 3) and context.workspace_size == 16384
    context.set_batch_size(-1)  # no effect
    assert context.shape("x") == (5, 3)
    assert context.set_dynamic_shapes({"x": (7, 0)}) == {"z": (7, 3), "x": (7, 3)}
    x = np.random.default_rng(0).standard_normal((4, 3)).astype(np.float32)
    assert np.array_equal(context.execute({"x": x})["z"], np.maximum(x, 0))  # arrays bring their sizes
    assert context.shape("z") == (4, 3)
    z = np.zeros((4, 3), np.float32)
    assert context.execute_arguments([z, x])[0] is z and np.array_equal(z, np.maximum(x, 0))


def test_mistakes(tmp_path: Path) -> None:
    context = graph.Context(
        file(tmp_path, function("tensor<fp32, [?, 3]> x", "tensor<fp32, [?, 3]> z = relu(x = x);", "z"))
    )
    x = np.zeros((2, 3), np.float32)
    bad: list[tuple[Any, str]] = [
        (lambda: context.execute({"y": x}), "there is no input 'y'. The inputs are x"),
        (lambda: context.execute({}), "the input x"),
        (lambda: context.execute({"x": x[0]}), r"x has shape \(3,\)"),
        (lambda: context.execute({"x": np.zeros((2, 4), np.float32)}), "size 1 of x is 4"),
        (lambda: context.execute({"x": x.astype(complex)}), "x is complex128"),
        (lambda: context.execute_arguments([x]), "got 1 arguments, but the function has 2: z, x"),
        (lambda: context.execute_arguments([np.zeros((3, 3), np.float32), x]), r"z is float32 \(3, 3\)"),
        (lambda: context.set_dynamic_shapes({"x": (2, 4)}), "Only sizes shown as"),
        (lambda: context.set_dynamic_shapes({"w": (2, 4)}), "argument is 'w'"),
        (lambda: context.shape("z", "other"), "function is 'other', but the graph has main"),
        (lambda: context.streaming_advance(1), "not a streaming one"),
    ]
    for call, message in bad:
        with pytest.raises(BNNSError, match=message):
            call()
    with pytest.raises(FileNotFoundError):
        graph.Context(tmp_path / "nothing.mil")


def test_defaults_and_ranges(tmp_path: Path) -> None:
    """Sizes that a text gives by FlexibleShapeInformation, tried with 1, 2, 4, 1 numbers as on a Mac."""
    flexible = (
        "[FlexibleShapeInformation = tuple<tuple<string, dict<string, tensor<int32, [?]>>>, "
        "tuple<string, dict<string, list<tensor<int32, [2]>, ?>>>>"
        '((("DefaultShapes", {{"input", [4]}}), ("RangeDims", {{"input", [[0, 4]]}})))]'
    )
    text = function("tensor<fp32, [?]> input", "tensor<fp32, [?]> output = relu(x = input);", "output", flexible)
    context = graph.Context(file(tmp_path, text))
    assert context.shape("input") == (4,) and context.shape("output") == (4,) and context.workspace_size > 0
    for count in (1, 2, 4, 1):
        x = np.arange(count, dtype=np.float32) - 1
        assert np.array_equal(context.execute({"input": x})["output"], np.maximum(x, 0))
    with pytest.raises(BNNSError, match="the model allows 0 to 4"):
        context.set_dynamic_shapes({"input": [5]})


@pytest.mark.parametrize(
    ("operations", "output", "code", "bound"),
    [
        ("tensor<fp32, [?, 3]> z = relu(x = x);", "z", 0, (6, 3)),
        ("tensor<int32, [2]> n = shape(x = x); tensor<fp32, [?, ?]> z = reshape(x = x, shape = n);", "z", 0, (6, 3)),
        ("tensor<int32, [?, 2]> z = non_zero(x = x);", "z", 1, (18, 2)),
        ("tensor<int32, [?, 2]> i = non_zero(x = x); tensor<int32, [?, 2]> z = add(x = i, y = i);", "z", 2, (0, 2)),
        (
            "tensor<int32, [?, 3]> i = cast(dtype = string(\"int32\"), x = x); tensor<int32, []> n = reduce_max(x = i);"
            " tensor<int32, [?]> z = range_1d(start = int32(0), end = n, step = int32(1));",
            "z", 2, (0,),
        ),
    ],
)  # fmt: skip
def test_what_decides_sizes(operations: str, output: str, code: int, bound: tuple[int, ...], tmp_path: Path) -> None:
    """0 for exact shapes, 1 for bounds, 2 for sizes that depend on values."""
    path = file(tmp_path, function("tensor<fp32, [?, 3]> x", operations, output))
    compiled = capi.BNNSGraphCompileFromFile(path, None, capi.bnns_graph_compile_options_t())
    context = capi.BNNSGraphContextMake(compiled)
    shapes = [capi.bnns_graph_shape_t(len(bound), [9] * len(bound)), capi.bnns_graph_shape_t(2, [6, 3])]
    assert capi.BNNSGraphContextSetDynamicShapes(context, None, 2, shapes) == code, last_error()
    assert tuple(shapes[0].shape) == bound
    x = np.zeros((6, 3), np.float32)
    x[1, 2] = 4
    arguments = [capi.bnns_graph_argument_t(), capi.bnns_graph_argument_t(data_ptr=x)]
    assert capi.BNNSGraphContextExecute(context, None, 2, arguments, 0) == 0, last_error()
    assert arguments[0].data_ptr.ndim == len(bound)


def test_memory_of_arguments(tmp_path: Path) -> None:
    """In Python arrays know their size and type, so that mistakes in them are refused before anything is written."""
    path = file(tmp_path, function("tensor<fp32, [2, 3]> x", "tensor<fp32, [2, 3]> z = relu(x = x);", "z"))
    context = capi.BNNSGraphContextMake(capi.BNNSGraphCompileFromFile(path, None, capi.bnns_graph_compile_options_t()))
    good = np.ones((2, 3), np.float32)
    read_only = good.copy()
    read_only.flags.writeable = False

    def status(z: Any, x: Any) -> int:
        arguments = [capi.bnns_graph_argument_t(data_ptr=each) for each in (z, x)]
        return capi.BNNSGraphContextExecute(context, None, 2, arguments, 0)

    assert status(good.copy(), read_only) == 0 and status(bytearray(24), good.view(np.uint8)) == 0
    for z, x, message in [
        (good, good.astype(np.float64), "x holds float64 items, but the program says float32"),
        (np.zeros(6, np.int32), good, "z holds int32 items"),
        (read_only, good, "z is written, but its array is read-only"),
        (good, np.ones((3, 2), np.float32).T, "x is not a contiguous array"),
        (good[0], good, "z has 12 bytes, but takes 24"),
        (good, None, "x is NULL, but is read"),
    ]:
        assert status(z, x) == -1 and message in (last_error() or "")


def test_shapes_that_fail_change_nothing(tmp_path: Path) -> None:
    operations = "tensor<fp32, [?, ?]> z = add(x = a, y = b);"
    context = graph.Context(file(tmp_path, function("tensor<fp32, [?, 2]> a, tensor<fp32, [?, 2]> b", operations, "z")))
    context.set_dynamic_shapes({"a": (3, 2), "b": (3, 2)})
    with pytest.raises(BNNSError, match="cannot run with these shapes"):
        context.set_dynamic_shapes({"a": (3, 2), "b": (4, 2)})
    assert context.shape("b") == (3, 2) and context.shape("z") == (3, 2)


def test_two_functions_and_the_order_of_inputs(tmp_path: Path) -> None:
    """Inputs of a package are sorted by name, as Apple's compiler does it; those of a text are as they stand."""
    ports = "tensor<fp32, [2]> b, tensor<fp32, [2]> a"
    text = f"""program(1.3) {{
        func second<ios16>({ports}) {{ tensor<fp32, [2]> y = sub(x = b, y = a); }} -> (y);
        func first<ios16>(tensor<fp32, [4]> x) {{ tensor<fp32, [4]> y = relu(x = x); }} -> (y); }}"""
    context = graph.Context(file(tmp_path, text))
    assert context.function_names == ["second", "first"]
    assert context.argument_names("second") == ["y", "b", "a"] and context.argument_names("first") == ["y", "x"]
    assert graph.Context(tmp_path / "model.mil", "first").function_names == ["first"]
    with pytest.raises(coreml.CoreMLError, match=r"has no function 'third'\. It has second, first"):
        graph.Context(tmp_path / "model.mil", "third")
    package = coreml.write_package(coreml.make_model(coreml.parse(text)), tmp_path / "model.mlpackage")
    sorted_ = graph.Context(package)
    assert sorted_.argument_names("second") == ["y", "a", "b"]
    outputs = sorted_.execute({"a": np.float32([1, 2]), "b": np.float32([5, 5])}, "second")
    assert outputs["y"].tolist() == [4, 3]


STREAMING = '[BNNSOptions = dict<string, string>({{"StateMode", "Streaming"}})]'


def test_streaming_by_joining(tmp_path: Path) -> None:
    """A filter over the last five samples gives, piece by piece, what it gives at once."""
    operations = (
        "tensor<fp32, [1, 1, 4]> before = read_state(input = past);"
        "tensor<fp32, [1, 1, 7]> all = concat(axis = int32(2), interleave = bool(false), values = (before, x));"
        "tensor<fp32, [1, 1, 5]> w = const()[val = tensor<fp32, [1, 1, 5]>([[[1, -2, 3, 0.5, 2]]])];"
        "tensor<fp32, [1, 1, 3]> y = conv(weight = w, x = all);"
    )
    inputs = "state<tensor<fp32, [1, 1, 4]>> past, tensor<fp32, [1, 1, 3]> x"
    path = file(tmp_path, function(inputs, operations, "y", STREAMING))
    signal = np.random.default_rng(2).standard_normal(24).astype(np.float32)
    context = graph.Context(path, streaming=True)
    pieces = [context.execute({"x": signal[i : i + 3].reshape(1, 1, 3)})["y"].ravel() for i in range(0, 24, 3)]
    padded = np.concatenate([np.zeros(4, np.float32), signal])
    expected = np.convolve(padded, np.float32([1, -2, 3, 0.5, 2])[::-1], "valid")
    np.testing.assert_allclose(np.concatenate(pieces), expected, rtol=1e-4, atol=1e-5)
    started = graph.Context(path, streaming=True, initial_states={"past": signal[:4].reshape(1, 1, 4)})
    first = started.execute({"x": signal[4:7].reshape(1, 1, 3)})["y"].ravel()
    np.testing.assert_allclose(first, expected[4:7], rtol=1e-4, atol=1e-5)
    with pytest.raises(BNNSError, match="there is no state 'future'"):
        graph.Context(path, streaming=True, initial_states={"future": signal[:4]})


def test_streaming_by_updates(tmp_path: Path) -> None:
    """The end of the state is replaced; then it advances by the size of the update, or as the caller says."""
    operations = (
        "tensor<fp32, [6]> before = read_state(input = past);"
        "tensor<fp32, [6]> all = slice_update(begin = tensor<int32, [1]>([-2]), end = tensor<int32, [1]>([0]),"
        "  end_mask = tensor<bool, [1]>([true]), update = x, x = before);"
        "tensor<fp32, [6]> y = identity(x = all);"
    )
    inputs = "state<tensor<fp32, [6]>> past, tensor<fp32, [2]> x"
    context = graph.Context(file(tmp_path, function(inputs, operations, "y", STREAMING)), streaming=True)
    first = context.execute({"x": np.float32([1, 2])})["y"]
    second = context.execute({"x": np.float32([3, 4])})["y"]
    third = context.execute({"x": np.float32([5, 6])})["y"]
    assert first.tolist() == [0, 0, 0, 0, 1, 2]
    assert second.tolist() == [0, 0, 1, 2, 3, 4]
    assert third.tolist() == [1, 2, 3, 4, 5, 6]


def test_functions_that_do_not_stream(tmp_path: Path) -> None:
    text = function("tensor<fp32, [2]> x", "tensor<fp32, [2]> y = relu(x = x);", "y")
    with pytest.raises(BNNSError, match="does not say StateMode = Streaming"):
        graph.Context(file(tmp_path, text), streaming=True)


def test_checks_for_nans(tmp_path: Path) -> None:
    """Every tensor on the way is looked at; with debug information the message says where it is computed."""
    operations = (
        "tensor<fp32, [3]> r = sqrt(x = x);\n"
        "tensor<fp32, [3]> y = clip(alpha = fp32(0), beta = fp32(1), x = r);"
    )  # fmt: skip
    path = file(tmp_path, function("tensor<fp32, [3]> x", operations, "y"))
    context = graph.Context(path, options=graph.CompileOptions(generate_debug_info=True))
    x = np.float32([-1, 4, np.inf])
    context.execute({"x": x})
    context.check_for_nans_and_infinities = True
    with pytest.warns(UserWarning) as seen:
        context.execute({"x": x})
    said = [str(warning.message) for warning in seen]
    assert re.search(r"model.mil:1:\d+: sqrt 'r': r has 1 NaN and 1 infinite values of 3", said[0])
    assert re.search(r"model.mil:2:1: clip 'y': y has 1 NaN and 0 infinite", said[1]) and len(said) == 2


def test_one_thread_at_a_time(tmp_path: Path) -> None:
    context = graph.Context(file(tmp_path, function("tensor<fp32, [3]> x", "tensor<fp32, [3]> y = relu(x = x);", "y")))
    seen: list[str] = []

    def meanwhile() -> None:
        try:
            context.execute({"x": np.zeros(3, np.float32)})
        except BNNSError as error:
            seen.append(str(error))

    with context.executing("test"):
        thread = threading.Thread(target=meanwhile)
        thread.start()
        thread.join()
    assert seen and "another thread is executing this context" in seen[0]
    meanwhile()
    assert len(seen) == 1


def test_other_threads_go_on(tmp_path: Path) -> None:
    """Kernels run without the interpreter's lock: a thread of Python counts on while a large product is computed."""
    shapes = "tensor<fp32, [900, 900]> x, tensor<fp32, [900, 900]> w"
    product = "tensor<fp32, [900, 900]> y = matmul(transpose_x = bool(false), transpose_y = bool(false), x = x, y = w);"
    context = graph.Context(file(tmp_path, function(shapes, product, "y")))
    values = np.ones((900, 900), np.float32)
    context.execute({"x": values, "w": values})
    started, done = threading.Event(), threading.Event()

    def work() -> None:
        started.set()
        for _ in range(5):
            context.execute({"x": values, "w": values})
        done.set()

    longest = 0.0
    thread = threading.Thread(target=work)
    thread.start()
    started.wait()
    counted = 0
    begin = last = time.perf_counter()
    while not done.is_set():
        now = time.perf_counter()
        longest, last, counted = max(longest, now - last), now, counted + 1
    thread.join()
    assert counted > 100 and longest < (time.perf_counter() - begin) / 2


def test_memory_does_not_grow(tmp_path: Path) -> None:
    context = graph.Context(
        file(tmp_path, function("tensor<fp32, [?, 3]> x", "tensor<fp32, [?, 3]> z = relu(x = x);", "z"))
    )
    arrays = [np.zeros((n, 3), np.float32) for n in range(1, 6)]

    def rounds(count: int) -> int:
        for i in range(count):
            context.execute({"x": arrays[i % 5]})
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    rounds(50)
    tracemalloc.start()
    try:
        before = rounds(50)
        assert rounds(300) - before < 20_000
    finally:
        tracemalloc.stop()


def test_a_context_that_nobody_has_is_released_at_once(tmp_path: Path) -> None:
    """With its programs, without waiting for the garbage collector."""
    import weakref

    context = graph.Context(file(tmp_path, function("tensor<fp32, [3]> x", "tensor<fp32, [3]> y = relu(x = x);", "y")))
    for _ in range(4):
        context.execute({"x": np.zeros(3, np.float32)})
    assert context.latest is not None and context.latest.entry is not None
    released = [weakref.ref(context), weakref.ref(context.latest)]
    gc.collect()
    gc.disable()
    try:
        del context
        assert [held() for held in released] == [None, None]
    finally:
        gc.enable()


def test_damaged_graphs(tmp_path: Path) -> None:
    """A block that is cut, or has other bytes, gives a message and no context."""
    path = file(tmp_path, function("tensor<fp32, [3]> x", "tensor<fp32, [3]> y = relu(x = x);", "y"))
    block = capi.BNNSGraphCompileFromFile(path, None, capi.bnns_graph_compile_options_t()).data
    random = np.random.default_rng(7)
    for trial in range(200):
        changed = np.array(block)
        if trial % 2:
            changed = changed[: random.integers(0, len(block))]
        else:
            changed[random.integers(0, len(block), 3)] = random.integers(0, 256, 3)
        context = capi.BNNSGraphContextMake(capi.bnns_graph_t(changed, len(changed)))
        if context.data is None:
            assert "is not one that OpenBNNS has compiled" in (last_error() or "")
        else:  # only bytes that are never read have changed: the gaps between the parts, or the sizes of the weights
            same = changed[:64] == block[:64]
            assert len(changed) == len(block) and same[:16].all()


def test_the_header_of_a_block(tmp_path: Path) -> None:
    path = file(tmp_path, function("tensor<fp32, [3]> x", "tensor<fp32, [3]> y = relu(x = x);", "y"))
    block = capi.BNNSGraphCompileFromFile(path, None, capi.bnns_graph_compile_options_t()).data
    magic, _, size = struct.unpack_from("<4sIQ", block)
    assert magic == b"OBG1" and size == len(block) and len(block) % 64 == 0


def golden(case: dict[str, Any]) -> str:
    """The text of a program of the recorded cases."""

    def type(element: str, shape: list[Any]) -> str:
        return f"tensor<{element}, [{', '.join(map(str, shape))}]>" if shape else element

    def literal(value: Any) -> str:
        if isinstance(value, list):
            return f"[{', '.join(map(literal, value))}]"
        return str(value).lower()

    program = case["program"]
    lines = []
    for name, (element, shape, value) in program.get("constants", {}).items():
        lines.append(f"{type(element, shape)} {name} = const()[val = {type(element, shape)}({literal(value)})];")
    shapes = {name: (element, shape) for name, element, shape in program["inputs"]}
    results: dict[str, Any] = {"matmul": ("fp32", [2, 4]), "greater": ("bool", [4])}
    for name, kind, inputs in program["operations"]:
        type_and_name = results.get(kind) or shapes[inputs["x"]]
        shapes[name] = type_and_name
        arguments = ", ".join(f"{key} = {value}" for key, value in sorted(inputs.items()))
        lines.append(f"{type(*type_and_name)} {name} = {kind}({arguments});")
    ports = ", ".join(f"{type(element, shape)} {name}" for name, element, shape in program["inputs"])
    return (
        f"program({program['version']}) {{ func main<{program['opset']}>({ports}) {{ {' '.join(lines)} }} "
        f"-> ({', '.join(program['outputs'])}); }}"
    )


CASES = json.loads((FACTS / "graph_golden.json").read_text(encoding="utf-8"))["cases"]
RECORDED = [case for case in CASES if isinstance(case.get("program"), dict) and isinstance(case.get("inputs"), dict)]


@pytest.mark.parametrize("case", RECORDED, ids=[case["id"] for case in RECORDED])
def test_cases_from_macs(case: dict[str, Any], tmp_path: Path) -> None:
    context = graph.Context(file(tmp_path, golden(case)))
    kinds = {"fp32": np.float32, "fp16": np.float16, "int32": np.int32}
    inputs = {name: np.array(case["inputs"][name], kinds[element]) for name, element, _ in case["program"]["inputs"]}
    actual = context.execute(inputs)
    for name, expected in case["expected"].items():
        assert actual[name].tolist() == expected
    also = case.get("also", {})
    assert context.argument_names() == also.get("argument names", context.argument_names())
    for name, shape in also.get("shapes", {}).items():
        assert context.shape(name) == tuple(shape)


def test_gather_with_negative_indices(tmp_path: Path) -> None:
    """As recorded with Core ML: the program adds the number of rows to negative indices before it gathers."""
    operations = (
        "tensor<bool, [1, ?]> below = less(x = indices, y = int32(0));"
        "tensor<int32, [1, ?]> more = add(x = indices, y = int32(3));"
        "tensor<int32, [1, ?]> whole = select(a = more, b = indices, cond = below);"
        "tensor<fp32, [1, ?, 2]> rows = gather(axis = int32(0), indices = whole, x = data);"
    )
    inputs = "tensor<fp32, [3, 2]> data, tensor<int32, [1, ?]> indices"
    context = graph.Context(file(tmp_path, function(inputs, operations, "rows")))
    data = np.float32([[10, 11], [20, 21], [30, 31]])
    for count in (1, 2, 3, 4):
        indices = np.int32([[0, -1, 1, -2]])[:, :count]
        actual = context.execute({"data": data, "indices": indices})["rows"]
        assert np.array_equal(actual, data[[0, 2, 1, 1]][None, :count])


def test_subnormal_halves(tmp_path: Path) -> None:
    """As recorded with Core ML: constants of float16 below the smallest normal number keep their values."""
    case = next(case for case in CASES if case["id"] == "export/fp16 subnormals")
    halves = np.array([0x0001, 0x00A8, 0x03FF, 0x0400, 0x80A8], np.uint16).view(np.float16)
    values = ", ".join(value.hex() for value in halves.astype(float).tolist())
    operations = (
        f"tensor<fp16, [5]> held = const()[val = tensor<fp16, [5]>([{values}])];"
        'tensor<fp32, [5]> wide = cast(dtype = string("fp32"), x = held);'
        "tensor<fp32, [5]> y = add(x = wide, y = x);"
    )
    context = graph.Context(file(tmp_path, function("tensor<fp32, [5]> x", operations, "y")))
    for given, expected in zip(case["inputs"], case["expected"], strict=True):
        assert context.execute({"x": np.float32(given)})["y"].tolist() == expected


def test_quantized_constant(tmp_path: Path) -> None:
    """As recorded with Core ML, from a text and from a package."""
    case = next(case for case in CASES if case["id"] == "export/int8 constexpr")
    text = """program(1.0) { func main<ios16>(tensor<fp32, [4]> x) {
        tensor<fp32, [4]> w = constexpr_affine_dequantize()[axis = tensor<int32, []>(0),
            quantized_data = tensor<int8, [4]>([-128, -1, 0, 127]), scale = tensor<fp32, []>(0x1p-1),
            zero_point = tensor<int8, []>(-1)];
        tensor<fp32, [4]> y = add(x = w, y = x); } -> (y); }"""
    package = coreml.write_package(coreml.make_model(coreml.parse(text)), tmp_path / "model.mlpackage")
    for path in (file(tmp_path, text), package):
        context = graph.Context(path)
        for given, expected in zip(case["inputs"], case["expected"], strict=True):
            assert context.execute({"x": np.float32(given)})["y"].tolist() == expected
