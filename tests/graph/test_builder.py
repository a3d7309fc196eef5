"""The builder of graphs: examples that Apple prints, every operation against NumPy, shapes, states and mistakes."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from builder_cases import CASES, INSIDE, POSITIVE, UNARY, X, sigmoid
from openbnns import graph
from openbnns.interop.coreml import CoreMLError
from openbnns.interop.coreml.builder import Builder, Tensor

FACTS = json.loads((Path(__file__).parents[2] / "tools" / "facts" / "swift_graph.json").read_text(encoding="utf-8"))
COUNT = np.arange(1, 9, dtype=np.float32)


def outputs(function: Callable[[Builder], Any], *inputs: np.ndarray) -> list[np.ndarray]:
    context = graph.make_context(function)
    free = len(context.argument_names()) - len(inputs)
    return context.execute_arguments([None] * free + list(inputs))


# Examples with the numbers that Apple's pages print.


def test_product() -> None:
    actual = outputs(lambda b: b.argument("x", np.float32, [8]) * b.argument("y", np.float32, [8]), COUNT, COUNT[::-1])
    assert actual[0].tolist() == [8, 14, 18, 20, 20, 18, 14, 8]


def test_product_and_mean() -> None:
    def build(b: Builder) -> list[Tensor]:
        product = b.argument("x", np.float32, [8]) * b.argument("y", np.float32, [8])
        mean = product.mean(axes=[0], keep_dimensions=True)
        assert repr(mean).startswith("shape: [1] | stride: [1]")
        return [product, mean]

    context = graph.make_context(build)
    assert context.argument_names()[2:] == ["x", "y"]  # outputs come first
    product, mean = context.execute_arguments([None, None, COUNT, COUNT[::-1].copy()])
    assert product.tolist() == [8, 14, 18, 20, 20, 18, 14, 8] and mean.tolist() == [15]


def test_constants_alone() -> None:
    actual = outputs(lambda b: b.constant(value=np.float32(10)) + b.constant(values=COUNT))
    assert actual[0].tolist() == [11, 12, 13, 14, 15, 16, 17, 18]


def test_selection() -> None:
    def build(b: Builder) -> Tensor:
        x, y = b.argument("x", np.float32, [8]), b.argument("y", np.float32, [8])
        return b.argument("z", np.bool_, [8]).select(x, y)

    decides = np.array([True, True, False, False] * 2)
    actual = outputs(build, COUNT, COUNT * 10, decides)
    assert actual[0].tolist() == [1, 2, 30, 40, 5, 6, 70, 80]


def test_product_of_vectors() -> None:
    def build(b: Builder) -> Tensor:
        return b.argument("x", np.float32, [4]).matmul(transpose=True, other=b.argument("y", np.float32, [4]))

    assert outputs(build, COUNT[:4], COUNT[4:])[0].tolist() == [70]


def test_open_size() -> None:
    context = graph.make_context(lambda b: b.argument("x", np.float32, [-1]) + b.argument("y", np.float32, [-1]))
    context.set_batch_size(8)
    assert context.shape("output") == (8,)
    actual = context.execute({"x": COUNT, "y": COUNT * 10})["output"]
    assert actual.tolist() == [11, 22, 33, 44, 55, 66, 77, 88]
    assert context.set_dynamic_shapes({"x": [3], "y": [3]})["output"] == (3,)
    assert context.execute({"x": COUNT[:3], "y": COUNT[:3]})["output"].tolist() == [2, 4, 6]


def test_shapes_of_outputs() -> None:
    context = graph.make_context(lambda b: b.argument("x", np.float32, [-1, 1, 1]).exp())
    assert context.set_dynamic_shapes({"x": [1024, 1, 1]})["output"] == (1024, 1, 1)


# Every operation against NumPy.


FOR_TWO_SAMPLES = (
    "matmul", "fma", "min", "pow", "arithmetic", "gather_along_axis", "gather_nd", "scatter", "reshape", "mod",
)  # fmt: skip
"""Operations whose other operands are for two samples."""
CASES += [(name, (-1, 3, 5)) for name in UNARY if not name.startswith(FOR_TWO_SAMPLES)]


@pytest.mark.parametrize(("name", "shape"), CASES)
def test_operations(name: str, shape: tuple[int, ...]) -> None:
    """With a known and with an open number of samples, where the operation lets it be open."""
    build, expected = UNARY[name]
    x = POSITIVE.get(name, X / 2 if name in INSIDE else X)
    seen: list[Tensor] = []

    def function(b: Builder) -> Tensor:
        seen.append(build(b.argument("x", np.float32, shape)))
        return seen[0]

    (actual,) = outputs(function, x)
    with np.errstate(all="ignore"):
        wanted = np.asarray(expected(x))
    assert (
        actual.shape
        == wanted.shape
        == tuple(m if n < 0 else n for n, m in zip(seen[0].shape, actual.shape, strict=True))
    )
    np.testing.assert_allclose(actual, wanted, rtol=2e-5, atol=2e-5)


def snake(name: str) -> str:
    for word in ("ReLU", "LSTM", "ND", "MatMul"):
        name = name.replace(word, word.capitalize())
    return re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name).lower()


def test_every_operation_of_swift_is_here() -> None:
    """Swift's methods of builders and tensors by their names in snake case, with their arguments; its operators by Python's."""
    operators = {"+": "add", "-": "sub", "*": "mul", "/": "truediv", "%": "mod", ".==": "eq", ".!=": "ne", ".<": "lt",
                 ".<=": "le", ".>": "gt", ".>=": "ge", ".&": "and", ".|": "or", ".^": "xor", ".!": "invert"}  # fmt: skip
    methods = set()
    for type in FACTS["types"]:
        if type["name"] not in (f"BNNSGraph.Builder{part}" for part in ("", ".Tensor", ".OperationParameter")):
            continue
        ours = Builder if type["name"] == "BNNSGraph.Builder" else Tensor
        for method in type["methods"]:
            if method["name"] == "graphBuilderTensor":  # operands are converted without being asked
                continue
            if method["static"]:
                name, wanted = f"__{operators[method['name']]}__", set()
            else:
                name = snake(method["name"])
                wanted = {snake(a["label"] if a["label"] != "_" else a["name"]) for a in method["args"]}
            assert hasattr(ours, name), name
            assert wanted <= set(inspect.signature(getattr(ours, name)).parameters), (name, wanted)
            methods.add(name)
    assert len(methods) == 109
    assert hasattr(Tensor, "__getitem__") and hasattr(Tensor, "__setitem__")


# Recurrent cells.


@pytest.mark.parametrize("sequence", [False, True])
def test_recurrent(sequence: bool) -> None:
    random = np.random.default_rng(4)
    x, h = random.standard_normal((6, 2, 3)).astype(np.float32), np.zeros((2, 4), np.float32)
    w, u, bias = (random.standard_normal(s).astype(np.float32) for s in ((4, 3), (4, 4), 4))
    states = []
    for step in x:
        h = np.tanh(step @ w.T + h @ u.T + bias)
        states.append(h)
    zeros = np.zeros((2, 4), np.float32)
    sequence_output, last = outputs(
        lambda b: b.argument("x", np.float32, [6, 2, 3]).rnn(zeros, w, u, bias, output_sequence=sequence), x
    )
    np.testing.assert_allclose(
        sequence_output, np.stack(states) if sequence else states[-1][None], rtol=1e-4, atol=1e-5
    )
    np.testing.assert_allclose(last, states[-1], rtol=1e-4, atol=1e-5)


def test_long_short_term_memory_and_gated_units() -> None:
    random = np.random.default_rng(5)
    x = random.standard_normal((6, 2, 3)).astype(np.float32)
    w, u, bias = (random.standard_normal(s).astype(np.float32) for s in ((16, 3), (16, 4), 16))
    h = c = zeros = np.zeros((2, 4), np.float32)
    for step in x:
        i, f, o, g = np.split(step @ w.T + h @ u.T + bias, 4, 1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
    _, last, cell = outputs(lambda b: b.argument("x", np.float32, [6, 2, 3]).lstm(zeros, zeros, w, u, bias), x)
    np.testing.assert_allclose(last, h, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(cell, c, rtol=1e-4, atol=1e-5)

    both = outputs(
        lambda b: b.argument("x", np.float32, [6, 2, 3]).bidirectional_lstm(
            np.zeros((2, 8)), np.zeros((2, 8)), w, u, bias, input_hidden_weight_back=w,
            hidden_hidden_weight_back=u, bias_back=bias,
        ),
        x,
    )  # fmt: skip
    np.testing.assert_allclose(both[1][:, :4], h, rtol=1e-4, atol=1e-5)

    w, u, bias = w[:12], u[:12], bias[:12]
    inner = random.standard_normal(12).astype(np.float32)
    for after in (False, True):
        h = zeros
        for step in x:
            r, _, z = np.split(sigmoid(step @ w.T + h @ u.T + bias + (inner if after else 0)), 3, 1)
            seen = r * (h @ u[4:8].T + bias[4:8]) + inner[4:8] if after else (r * h) @ u[4:8].T + bias[4:8]
            n = np.tanh(step @ w[4:8].T + seen)
            h = (1 - z) * n + z * h

        def build(b: Builder, after: bool = after) -> Any:
            more = {"input_bias": inner, "apply_reset_gate_after_matmul": True} if after else {}
            return b.argument("x", np.float32, [6, 2, 3]).gru(zeros, w, u, bias, **more)

        np.testing.assert_allclose(outputs(build, x)[1], h, rtol=1e-4, atol=1e-5)


# Assignments, states, types.


def test_assignment_to_a_part() -> None:
    def build(b: Builder) -> Tensor:
        x = b.argument("x", np.float32, [2, 3])
        x[0] = x[1] * 2
        x[:, 2] = 7
        return x

    (actual,) = outputs(build, np.float32([[1, 2, 3], [4, 5, 6]]))
    assert actual.tolist() == [[8, 10, 7], [4, 5, 7]]


@pytest.mark.parametrize("kind", [np.float32, np.float16])
def test_weights_may_be_computed_of_constants(kind: type) -> None:
    """As where a program joins the gates of a cell, or changes a part of its weights."""
    random = np.random.default_rng(6)
    w, u, bias = (random.standard_normal(s).astype(kind) for s in ((4, 3, 4), (16, 4), 16))
    x = random.standard_normal((6, 2, 3)).astype(kind)

    def build(b: Builder, joined: bool) -> Any:
        weight: Any = w.reshape(4, 3, 4).transpose(0, 2, 1).reshape(16, 3)
        shifted: Any = np.concatenate([bias[:8] + kind(1), np.full(4, 7, kind), bias[12:] + kind(1)])
        if joined:
            gates = [b.constant(values=gate).transpose([1, 0]) for gate in w]
            weight, shifted = b.concatenate(gates, axis=0), b.constant(values=bias) + kind(1)
            shifted[8:12] = 7
        zeros = np.zeros((2, 4))
        return b.argument("x", kind, [6, 2, 3]).lstm(zeros, zeros, weight, u, shifted)

    both = [outputs(lambda b, joined=joined: build(b, joined), x) for joined in (False, True)]
    for plain, computed in zip(*both, strict=True):
        assert plain.tobytes() == computed.tobytes()


@pytest.mark.parametrize(("kind", "number"), [(np.float32, 7), (np.int32, 7), (np.bool_, True), (np.bool_, False)])
def test_a_number_for_a_part(kind: type, number: float) -> None:
    """The part is this number whatever it was, also no number or infinite."""

    def build(b: Builder) -> Tensor:
        x = b.argument("x", kind, [3])
        x[1:] = number
        return x

    with np.errstate(invalid="ignore"):
        x = np.array([0, 1, 0] if kind != np.float32 else [np.nan, np.nan, np.inf]).astype(kind)
    (actual,) = outputs(build, x)
    assert actual[1:].tolist() == [number, number] and actual.dtype == kind


def test_a_state() -> None:
    def build(b: Builder) -> Tensor:
        past = b.argument("past", np.float32, [4], "input_output")
        past[1:3] = b.argument("x", np.float32, [2])
        return past.sum(axes=[0], keep_dimensions=True)

    context = graph.make_context(build)
    held = np.float32([1, 2, 3, 4])
    assert context.execute({"x": np.float32([10, 20]), "past": held})["output"].tolist() == [35]
    assert held.tolist() == [1, 10, 20, 4]
    assert context.execute({"x": np.float32([1, 1])})["output"].tolist() == [2]  # the context's own begins with zeros
    assert context.execute({"x": np.float32([5, 1])})["output"].tolist() == [6]


@pytest.mark.parametrize("kind", [np.float16, np.int32])
def test_element_types(kind: type) -> None:
    x = np.array([1, -2, 3], kind)
    (actual,) = outputs(lambda b: b.concatenate([b.argument("x", kind, [3]) * 2, b.constant(values=x)], axis=0), x)
    assert actual.dtype == kind and actual.tolist() == [2, -4, 6, 1, -2, 3]


def test_columns() -> None:
    (actual,) = outputs(lambda b: b.constant(values=[[1.0, 2], [3, 4]], row_major=False) + 0)
    assert actual.tolist() == [[1, 3], [2, 4]]


# Mistakes.


def test_mistakes() -> None:
    def built(function: Callable[[Builder], Any]) -> None:
        graph.make_context(function)

    with pytest.raises(ValueError, match="two tensors named 'x'"):
        built(lambda b: b.argument("x", np.float32, [3]) + b.argument("x", np.float32, [3]))
    with pytest.raises((CoreMLError, ValueError), match="matmul"):
        built(lambda b: b.argument("x", np.float32, [2, 3]).matmul(b.argument("y", np.float32, [2, 3])))
    with pytest.raises(TypeError, match="must give tensors"):
        built(lambda b: [1])
    with pytest.raises(TypeError, match="select"):
        built(lambda b: b.argument("x", np.float32, [3]) if b.argument("y", np.float32, [3]) > 0 else None)
    with pytest.raises(ValueError, match="mode is 'replace'"):
        built(lambda b: b.argument("x", np.float32, [3]).scatter([1], [0], mode="replace", axis=0))
    with pytest.raises(ValueError, match="another builder"):
        other = Builder().argument("x", np.float32, [3])
        built(lambda b: b.argument("x", np.float32, [3]) + other)
    with pytest.raises(TypeError, match="pass value"):
        built(lambda b: b.constant())


# Random graphs.

STEPS: list[Callable[[Any, Any], Any]] = [
    lambda a, b: a + b, lambda a, b: a * b, lambda a, b: a - b * 2, lambda a, b: a.max(b), lambda a, b: (a > b).select(a, b),
    lambda a, b: a.tanh(), lambda a, b: a.sigmoid() + a, lambda a, b: a.softmax(axis=-1), lambda a, b: a.abs().sqrt(),
    lambda a, b: a.layer_norm(axes=[2], epsilon=1e-3), lambda a, b: a.transpose([0, 2, 1]).transpose([0, 2, 1]),
    lambda a, b: a + a.mean(axes=[1], keep_dimensions=True), lambda a, b: a[:, :2].sum([1], True) + a,
    lambda a, b: a.builder.concatenate([a[:, 1:], b[:, :1]], axis=1), lambda a, b: a.matmul(b, transpose_other=True).matmul(b),
    lambda a, b: a.clip(to=(-1, 1)), lambda a, b: a.linear(weight=np.eye(4)[::-1], bias=[1, 0, -1, 0]),
]  # fmt: skip


@pytest.mark.parametrize("seed", range(6))
def test_random_graphs_survive_every_form(seed: int, tmp_path: Path) -> None:
    """The same bits from the program itself, a compiled block, a text, a folder and a package, for several sizes."""
    from openbnns.interop import coreml
    from openbnns.interop.coreml.compiled import CompiledGraph, checked_program, compiled

    random = np.random.default_rng(seed)
    steps = [STEPS[i] for i in random.integers(0, len(STEPS), 8)]
    places = random.integers(0, 100, (8, 2))
    constants = random.standard_normal((2, 1, 3, 4)).astype(np.float32)

    def build(b: Builder) -> dict[str, Tensor]:
        known = [b.argument("x", np.float32, [-1, 3, 4]), b.constant(values=constants[0])]
        known[1] = known[0] * 0 + known[1]  # with samples
        for step, (i, j) in zip(steps, places, strict=True):
            known.append(step(known[i % len(known)], known[j % len(known)]))
        return {"first": known[-1], "second": known[-2] + constants[1]}

    builder = Builder()
    program = builder.program(build(builder))
    model = coreml.make_model(program)
    (tmp_path / "model.mil").write_text(coreml.render(program))
    contexts = [
        graph.make_context(build),
        graph.Context.of_graph(CompiledGraph(compiled(checked_program(program), lambda n: memoryview(bytearray(n))))),
        graph.Context(tmp_path / "model.mil"),
        graph.Context(coreml.write_compiled(model, tmp_path / "m.mlmodelc")),
        graph.Context(coreml.write_package(model, tmp_path / "m.mlpackage")),
    ]
    for count in (1, 5, 2, 5):
        x = random.standard_normal((count, 3, 4)).astype(np.float32)
        results = [context.execute({"x": x}) for context in contexts]
        for result in results:
            for name in ("first", "second"):
                assert result[name].shape == (count, 3, 4)
                assert np.array_equal(result[name], results[0][name], equal_nan=True)
