"""Forms of calls with arrays in tuples, lists and dictionaries: what fits, the order of the arrays, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from openbnns import nn
from openbnns.files.untrusted import DataError
from openbnns.graph.structure import Structure, flatten
from openbnns.nn.call_form import CallForm, StructuredCalls
from openbnns.nn.files.model_file import ModelError

ONE = Structure()
FORM = CallForm(
    ("batch", "pair"),
    (Structure(dict, ("a", "more"), (ONE, Structure(dict, ("b",), (ONE,)))), Structure(tuple, (), (ONE, ONE))),
)
A, B, C, D = (np.full((2, n), n, np.float32) for n in (1, 2, 3, 4))


@pytest.mark.parametrize(
    ("inputs", "named"),
    [
        (({"a": A, "more": {"b": B}}, (C, D)), {}),
        (({"more": {"b": B}, "a": A}, [C, D]), {}),
        (({"a": A, "more": {"b": B}},), {"pair": (C, D)}),
        ((), {"pair": (C, D), "batch": {"a": A, "more": {"b": B}}}),
        ((A, B, C, D), {}),
        ((A,), {"pair_1": D, "pair_0": C, "batch_more_b": B}),
    ],
)
def test_arrays_in_order(inputs: Any, named: Any) -> None:
    assert [id(x) for x in FORM.arrays("Net", inputs, named)] == [id(x) for x in (A, B, C, D)]


def test_the_only_dictionary_may_be_given_by_its_entries() -> None:
    form = CallForm(("batch",), FORM.structures[:1])
    assert form.arrays("Net", (), {"a": A, "more": {"b": B}}) == [A, B]


def test_names() -> None:
    assert FORM.input_names() == ["batch_a", "batch_more_b", "pair_0", "pair_1"]
    assert FORM.places() == ["batch['a']", "batch['more']['b']", "pair[0]", "pair[1]"]
    twice = CallForm(("x", "x_a"), (Structure(dict, ("a", "b c"), (ONE, ONE)), ONE))
    assert twice.input_names() == ["x_a", "x_b_c", "x_a_"]


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (({"a": A}, (C, D)), r"Net: batch is a dictionary with 'a', but must be a dictionary with 'a', 'more'"),
        (({"a": A, "more": B}, (C, D)), r"Net: batch\['more'\] is an array, but must be a dictionary with 'b'"),
        (({"a": (A,), "more": {"b": B}}, (C, D)), r"Net: batch\['a'\] is a tuple, but must be an array"),
        (({"a": A, "more": {"b": B}}, (C,)), r"Net: pair is a tuple of 1, but must be a tuple of 2"),
        (
            ({"a": A, "more": {"b": B}},),
            r"Net: missing .*'pair'\. It takes batch \(a dictionary with 'a', 'more'\), pair",
        ),
        ((A, B, C), r"Net: missing .*one by one: batch_a, batch_more_b, pair_0, pair_1"),
    ],
)
def test_refused(inputs: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        FORM.arrays("Net", inputs, {})


def test_random_structures() -> None:
    random = np.random.default_rng(0)

    def made(depth: int) -> Any:
        kind = random.integers(0, 4 if depth else 1)
        parts = [made(depth - 1) for _ in range(random.integers(1, 4))] if kind else []
        if kind == 1:
            return {f"k{i}": part for i, part in enumerate(parts)}
        return np.zeros(1) if not kind else tuple(parts) if kind == 2 else parts

    for _ in range(300):
        given = [made(3) for _ in range(random.integers(1, 4))]
        form = CallForm(tuple(f"x{i}" for i in range(len(given))), tuple(flatten(x)[1] for x in given))
        expected = [id(x) for x in flatten(given)[0]]
        assert [id(x) for x in form.arrays("Net", given, {})] == expected
        assert [id(x) for x in form.arrays("Net", (), dict(zip(form.arguments, given, strict=True)))] == expected
        assert len(set(form.input_names())) == len(expected) == len(form.places())


class Weighted(StructuredCalls):
    """A network that is called as FORM says, with a weight to train."""

    def __init__(self) -> None:
        super().__init__("Weighted")
        self.linear = nn.Linear(2, 3, bias=False)

    def _call_form(self) -> CallForm | None:
        return FORM

    def _call_signature(self) -> Any:
        import inspect

        names = FORM.input_names()
        return inspect.Signature([inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in names])

    def forward(self, *inputs: Any, **named: Any) -> Any:
        a, b, c, d = self._in_order(inputs, named)
        return self.linear(b) * c + a * d.sum(1, keepdim=True)


def _samples(n: int) -> tuple[Any, ...]:
    random = np.random.default_rng(n)
    a, b, c, d = (random.standard_normal((n, width)).astype(np.float32) for width in (1, 2, 3, 4))
    return {"a": a, "more": {"b": b}}, (c, d)


def test_a_network_in_every_call(tmp_path: Path) -> None:
    net, x = Weighted(), _samples(5)
    (a, b), (c, d) = (x[0]["a"], x[0]["more"]["b"]), x[1]
    y = net(*x)
    np.testing.assert_allclose(y, b @ net.linear.weight.data.T * c + a * d.sum(1, keepdims=True), rtol=1e-5, atol=1e-6)
    dy = np.random.default_rng(1).standard_normal(y.shape).astype(np.float32)
    gradients = net.backward(dy)
    expected = (dy * d.sum(1, keepdims=True)).sum(1, keepdims=True), dy * c @ net.linear.weight.data
    np.testing.assert_allclose(gradients[0], expected[0], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(gradients[1], expected[1], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(gradients[2], dy * (b @ net.linear.weight.data.T), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(gradients[3], np.repeat((dy * a).sum(1, keepdims=True), 4, 1), rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(net.run(*x), y)
    np.testing.assert_array_equal(np.asarray(net.predict(x)), y)
    np.testing.assert_array_equal(np.asarray(net.predict({"pair": x[1], "batch": x[0]})), y)
    trainer = nn.Trainer(net, "mse", nn.SGD(lr=0.1), seed=0, quiet=True)
    trainer.fit(x, y + 1, epochs=3)
    assert trainer.history[-1]["loss"] < trainer.history[0]["loss"]
    np.testing.assert_array_equal(trainer.predict(x), net.eval()(*x))
    net.save_model(tmp_path / "model.safetensors")
    read = nn.load_model(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(read(*x), net(*x))
    np.testing.assert_array_equal(read(a, b, c, d), net(*x))
    np.testing.assert_array_equal(np.asarray(read.predict(x)), net(*x))
    with pytest.raises(TypeError, match=r"Weighted: pair is a tuple of 1, but must be a tuple of 2"):
        read(x[0], (c,))


def test_inside_another_network() -> None:
    class Around(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Weighted()

        def forward(self, a: Any, b: Any, c: Any, d: Any) -> Any:
            return self.inner({"a": a * 2, "more": {"b": b}}, pair=(c, d))

    around, x = Around().eval(), _samples(4)
    twice = ({"a": x[0]["a"] * 2, "more": x[0]["more"]}, x[1])
    y = around(x[0]["a"], x[0]["more"]["b"], *x[1])
    np.testing.assert_allclose(y, around.inner.eval()(*twice), rtol=1e-6)


@pytest.mark.parametrize(
    "call",
    [
        {"arguments": ["x"], "structures": []},
        {"arguments": ["x"], "structures": [None]},
        {"arguments": ["a b"], "structures": [None]},
        {"arguments": [3], "structures": [None]},
        {"arguments": ["x"], "structures": [{"kind": "set", "names": [], "parts": []}]},
        "x",
    ],
)
def test_damaged_forms(call: Any) -> None:
    from openbnns.nn.files import graph_file

    net = Weighted().eval()
    net(*_samples(3))
    table, constants = graph_file.describe(net)
    arrays = {name: np.asarray(getattr(part, "data", part)) for name, part in net.named_state()} | constants
    graph_file.network_of(table, arrays, "file")
    with pytest.raises((ModelError, DataError), match="file: graph"):
        graph_file.network_of({**table, "call": call}, arrays, "file")
