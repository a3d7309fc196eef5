"""Dropout: masks by definition, sharing, state, memory, the layer, switches and bad input."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import openbnns as ob
from bad_calls import refused
from cases._base import created, succeed
from helpers import (
    BFLOAT16,
    EPSILON,
    FIRST_MAJOR_2D,
    FLOAT16,
    INT8,
    LAST_MAJOR_2D,
    ROW_MAJOR,
    Array,
    Storage,
    Tensor,
    assert_bitwise,
    assert_within,
    image,
    vector,
)
from openbnns import capi, compat
from openbnns.parameters.random_numbers import Stream
from openbnns.reference import random_numbers

TENSORS = [
    vector(1), vector(13), image(3, 5, 7), Tensor(ROW_MAJOR, (7, 4)), Tensor(FIRST_MAJOR_2D, (7, 4)),
    Tensor(LAST_MAJOR_2D, (5, 9)), image(2, 3, 5, stride=(1, 8, 40)), image(1, 1, 6), image(4, 1, 1),
    Tensor(capi.BNNSDataLayout.BNNSDataLayout5DFirstMajor, (2, 3, 2, 3, 2)),
]  # fmt: skip


def make(tensor: Tensor, rate: float = 0.4, seed: int = 7, control: int = 0, threads: int = 0, **more: Any) -> Any:
    fields = {
        "i_desc": tensor.descriptor(),
        "o_desc": tensor.descriptor(),
        "rate": rate,
        "seed": seed,
        "control": control,
    }
    p = capi.BNNSLayerParametersDropout(**(fields | more))
    return capi.BNNSFilterCreateLayerDropout(p, capi.BNNSFilterParameters(n_threads=threads))


def decisions(tensor: Tensor, batch: int, rate: float, seed: int, control: int, draw: int = 0) -> Array:
    """The mask by definition, (batch, *size): word i of the draw decides cell i, counting in memory order over the cells
    that are left when shared axes count as 1."""
    rank = len(tensor.size)
    memory = tensor.stepped[::-1]  # slowest to fastest
    shared = [d for d in range(min(rank, 3)) if control >> d & 1]
    counts = [1 if control >> 3 & 1 else batch, *(1 if d in shared else tensor.size[d] for d in memory)]
    words = random_numbers.words(Stream(seed, draw), int(np.prod(counts)))
    kept = (words.astype(np.float64) >= float(np.float32(rate)) * 2.0**32).reshape(counts)
    ordered = kept.transpose(0, *(1 + memory.index(d) for d in range(rank)))
    return np.broadcast_to(ordered, (batch, *tensor.size))


class Run:
    """A filter with memory for a batch, gaps between its samples."""

    def __init__(self, tensor: Tensor, batch: int = 3, gap: int = 2, **options: Any) -> None:
        rng = np.random.default_rng(batch)
        self.filter, self.batch = created(make(tensor, **options)), batch
        self.x = Storage(tensor, batch, gap, rng.standard_normal((batch, *tensor.size)))
        self.y, self.dx = Storage(tensor, batch, gap and gap + 1), Storage(tensor, batch, gap and gap + 3)
        self.dy = Storage(tensor, batch, gap and gap + 5, rng.standard_normal((batch, *tensor.size)))

    def forward(self) -> Array:
        succeed(
            capi.BNNSFilterApplyBatch(
                self.filter, self.batch, self.x.elements, self.x.stride, self.y.elements, self.y.stride
            )
        )
        return self.y.read()

    def backward(self, flags: int = 0, **changes: Any) -> Array:
        arguments = {
            "filter": self.filter, "batch_size": self.batch, "in_": None, "in_stride": 0,
            "in_delta": self.dx.descriptor(flags), "in_delta_stride": self.dx.stride, "out": None, "out_stride": 0,
            "out_delta": self.dy.descriptor(), "out_delta_stride": self.dy.stride,
        }  # fmt: skip
        succeed(capi.BNNSFilterApplyBackwardBatch(**(arguments | changes)))
        return self.dx.read()


# ---------------------------------------------------------------------------------------------------------------------
# Values


@pytest.mark.covers("dropout.fwd", "dropout.bwd", "dropout.control", "dropout.seed", "fn.BNNSFilterCreateLayerDropout")
@pytest.mark.parametrize("control", [*range(16), 0xF3])
@pytest.mark.parametrize("tensor", TENSORS, ids=lambda t: f"{t.layout.name[14:]}{t.size}")
def test_masks_by_definition(tensor: Tensor, control: int, engine: str) -> None:
    """Three draws, forward, backward, accumulated; gaps stay as they are."""
    run, rate = Run(tensor, control=control), 0.4
    for draw in range(3):
        mask = decisions(tensor, 3, rate, 7, control, draw)
        factor = mask / (1.0 - float(np.float32(rate)))
        y = run.forward()
        np.testing.assert_array_equal(y != 0, mask & (run.x.read() != 0))
        assert_within(y, run.x.read() * factor, 2 * EPSILON * np.abs(run.x.read() * factor), "y")
        expected = run.dy.read() * factor
        dx = run.backward()
        assert_within(dx, expected, 2 * EPSILON * np.abs(expected), "dx")
        total = run.backward(flags=1)
        assert_within(total, 2 * expected, 4 * EPSILON * np.abs(expected), "dx added")
    for name, storage in (("y", run.y), ("dx", run.dx)):
        storage.before[:] = storage.memory
        storage.assert_guards_intact(name)
    run.x.assert_unchanged("x")
    run.dy.assert_unchanged("dy")


@pytest.mark.covers("dropout.seed")
def test_the_stream_is_the_same_everywhere(engine: str) -> None:
    """Bits recorded once: any machine, instruction set and release must draw these."""
    run = Run(vector(32), 1, 0, rate=0.5, seed=1234)
    first, second = (int("".join("1" if v else "0" for v in run.forward()[0] != 0), 2) for _ in range(2))
    assert (first, second) == (0x5A795BFB, 0xA11661B4)


@pytest.mark.covers("dropout.fwd", "dropout.bwd")
def test_large_batches_and_threads_give_the_same_bits() -> None:
    for control in (0, 0b0011, 0b0100, 0b1000):
        expected: tuple[Any, ...] = ()
        for threads in (1, 2, 3):
            for gap in (0, 5):
                run = Run(image(5, 61, 113), 4, gap, control=control, threads=threads)
                run.forward()
                run.backward()
                actual = run.y.raw(), run.dx.raw()
                expected = expected or actual
                assert_bitwise(actual[0], expected[0], f"y with {threads} threads")
                assert_bitwise(actual[1], expected[1], f"dx with {threads} threads")


@pytest.mark.covers("dropout.fwd", "dropout.seed")
@pytest.mark.parametrize("rate", [0.05, 0.3, 0.5, 0.9])
def test_rate_and_independence(rate: float) -> None:
    """The share of zeros is the rate, the mean stays, neighbours and draws are independent."""
    layer = ob.DropoutLayer(input=ob.Shape.vector(1 << 18), rate=rate, seed=99)
    x = np.ones(1 << 18, np.float32)
    a, b = layer.apply(x), layer.apply(x)
    spread = np.sqrt(rate * (1 - rate) / x.size)
    for y in (a, b):
        assert abs(np.mean(y == 0) - rate) < 5 * spread
    for one, other in ((a[1:], a[:-1]), (a, b)):
        both = np.mean((one == 0) & (other == 0))
        assert abs(both - rate * rate) < 5 * np.sqrt(rate * rate / x.size)


@pytest.mark.covers("dropout.seed")
def test_seeds(engine: str) -> None:
    """Equal seeds draw alike, others do not; 0 is a new seed each time."""
    x = np.ones((2, 300), np.float32)

    def draw(seed: int) -> Array:
        return ob.DropoutLayer(input=x, rate=0.5, seed=seed).apply(x)

    assert np.array_equal(draw(5), draw(5))
    assert not np.array_equal(draw(5), draw(6))
    assert not np.array_equal(draw(0), draw(0))
    assert np.array_equal(draw(2**32 - 1), draw(2**32 - 1))


def test_rate_zero_is_the_identity(engine: str) -> None:
    x = np.float32([[1.5, -0.0, np.inf, -np.inf, np.nan, 1e-44]])
    layer = ob.DropoutLayer(input=x, rate=0.0)
    assert_bitwise(layer.apply(x), x, "y")
    assert_bitwise(layer.apply_backward(output_gradient=x).input, x, "dx")


def test_special_numbers_are_products(engine: str) -> None:
    """A dropped NaN or infinity gives NaN, as x * 0 does."""
    x = np.tile(np.float32([np.nan, np.inf, -1.0, 0.0]), 50)
    y = ob.DropoutLayer(input=ob.Shape.vector(200), rate=0.5, seed=3).apply(x)
    mask = decisions(vector(200), 1, 0.5, 3, 0)[0]
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(y, x * (2.0 * mask))


@pytest.mark.parametrize("kind", [FLOAT16, BFLOAT16, INT8])
def test_other_types_forward(kind: Any, engine: str) -> None:
    tensor = vector(57, data_type=kind, scale=0.1 if kind == INT8 else 0.0)
    run_x = Storage(tensor, 2, 3, np.random.default_rng(0).standard_normal((2, 57)))
    y = Storage(tensor, 2, 1)
    made = created(make(tensor))
    succeed(capi.BNNSFilterApplyBatch(made, 2, run_x.elements, run_x.stride, y.elements, y.stride))
    expected = run_x.read() * decisions(vector(57), 2, 0.4, 7, 0) / 0.6
    assert_within(y.read(), expected, 1.01 * tensor.unit(expected) + 1e-6, "y")
    d = Storage(vector(57), 2)
    refused(
        capi.BNNSFilterApplyBackwardBatch(made, 2, None, 0, d.descriptor(), 0, None, 0, d.descriptor(), 0),
        "training works on Float32 only",
    )


def test_engines_take_turns() -> None:
    """Forward on one engine, backward on the other: one mask, one count of draws."""
    run = Run(image(3, 5, 7), control=0b0001)
    for draw, (one, other) in enumerate([("native", "reference"), ("reference", "native")]):
        with ob.engine(one):
            run.forward()
        with ob.engine(other):
            dx = run.backward()
        np.testing.assert_array_equal(dx != 0, decisions(image(3, 5, 7), 3, 0.4, 7, 1, draw))


@pytest.mark.covers("dropout.control")
def test_control_reversed(engine: str) -> None:
    """The other interpretation: bit 0 is the batch, then the axes from the slowest."""
    with compat.using(dropout_control_reversed=True):
        reversed_bits = Run(image(3, 5, 7), control=0b0010)
    plain = Run(image(3, 5, 7), control=0b0100)
    np.testing.assert_array_equal(reversed_bits.forward(), plain.forward())
    assert not np.array_equal(Run(image(3, 5, 7), control=0b0010).forward(), plain.forward())


@pytest.mark.covers("dropout.bwd")
@pytest.mark.parametrize("control", [0, 0b0011, 0b1100])
def test_gradients_agree_with_finite_differences(control: int, engine: str) -> None:
    assert ob.gradcheck(created(make(image(3, 4, 5), control=control)), verbose=False).passed


# ---------------------------------------------------------------------------------------------------------------------
# The layer


@pytest.mark.covers("swift.DropoutLayer", "swift.UnaryLayer", "dropout.fwd", "dropout.bwd")
def test_layer(engine: str) -> None:
    x = np.random.default_rng(0).standard_normal((4, 3, 5, 7)).astype(np.float32)
    run = Run(image(3, 5, 7), 4, 0, control=0b0011, seed=21, rate=0.25)
    run.x.write(x.transpose(0, 3, 2, 1))
    run.dy.write(x[::-1].transpose(0, 3, 2, 1))
    expected, gradient = run.forward(), run.backward()
    with ob.DropoutLayer(input=ob.Shape.image_chw(7, 5, 3), rate=0.25, seed=21, control=0b0011) as layer:
        y = layer.apply(x)
        np.testing.assert_array_equal(y.transpose(0, 3, 2, 1), expected)
        dx = np.ones_like(x)
        result = layer.apply_backward(
            x, y, np.ascontiguousarray(x[::-1]), generating_input_gradient=dx, batch_size=4, accumulate=True
        )
        assert result.input is dx
        np.testing.assert_allclose(dx.transpose(0, 3, 2, 1), 1 + gradient, rtol=1e-6, atol=1e-6)
        assert layer.apply_backward(output_gradient=x, generating_input_gradient=ob.skip).input is None
    with pytest.raises(ob.LayerApplyError, match="destroyed"):
        layer.apply(x)


# ---------------------------------------------------------------------------------------------------------------------
# Bad input


@pytest.mark.parametrize(
    "changes, pattern",
    [
        ({"rate": 1.0}, r"rate is 1\. It is the probability of dropping an element: at least 0 and less than 1"),
        ({"rate": -0.1}, r"rate is -0\.1"),
        ({"rate": float("nan")}, r"rate is nan"),
        ({"rate": 0.99999999999}, r"rate is 1\."),
        ({"o_desc": vector(5).descriptor()}, r"i_desc is Vector size \(4,\).*Dropout keeps the shape"),
        ({"o_desc": image(1, 1, 4).descriptor()}, r"Dropout keeps the shape"),
        ({"i_desc": capi.BNNSNDArrayDescriptor()}, r"i_desc\.layout is 0x0"),
    ],
    ids=lambda v: v[:20] if isinstance(v, str) else "",
)
def test_bad_descriptions(changes: dict[str, Any], pattern: str, engine: str) -> None:
    assert make(vector(4), **changes) is None
    message = str(ob.last_error())
    assert message.startswith("BNNSFilterCreateLayerDropout: ") and re.search(pattern, message), message


def test_backward_needs_the_mask_of_a_forward_call(engine: str) -> None:
    run = Run(vector(9), 3)

    def refused(pattern: str, **changes: Any) -> None:
        before = run.dx.memory.copy()
        with pytest.raises(AssertionError):
            run.backward(**changes)
        assert re.search(pattern, str(ob.last_error())), ob.last_error()
        assert np.array_equal(run.dx.memory, before)

    refused("there is no mask, because the filter has not run forward")
    run.forward()
    refused("batch_size is 2, but the latest forward call, whose mask is used, had 3", batch_size=2)
    refused("out_delta is NULL", out_delta=None)
    refused("in_delta.flags is 3", flags=3)
    run.backward(in_=np.zeros(1, np.float32), out=np.zeros(1, np.float32))  # both are ignored
    run.backward(in_delta=None)
    run.backward(batch_size=0)
    capi.BNNSFilterDestroy(run.filter)
    refused("the filter has been destroyed")


def test_layer_errors(engine: str) -> None:
    shape = ob.Shape.vector(4)
    for options, kind, pattern in [
        ({"rate": 1.5}, ValueError, "DropoutLayer: rate is 1.5"),
        ({"rate": 0.5, "seed": -1}, ValueError, "DropoutLayer: .*seed"),
        ({"rate": 0.5, "seed": 2**32}, ValueError, "DropoutLayer: .*seed"),
        ({"rate": 0.5, "control": 256}, ValueError, "DropoutLayer: .*control"),
        ({"rate": "a"}, TypeError, "DropoutLayer: .*rate"),
        ({"rate": 0.5, "output": ob.Shape.vector(5)}, ValueError, "input is Vector.*output is Vector"),
    ]:
        with pytest.raises(kind, match=pattern) as caught:
            ob.DropoutLayer(input=shape, **options)
        assert isinstance(caught.value, ob.LayerCreationError)
    layer = ob.DropoutLayer(input=shape, rate=0.5)
    with pytest.raises(ob.LayerApplyError, match="there is no mask"):
        layer.apply_backward(output_gradient=np.ones(4, np.float32))


def test_setting_the_number_of_draws_repeats_a_mask() -> None:
    layer, x = ob.DropoutLayer(input=ob.Shape.vector(64), rate=0.5, seed=7), np.ones((3, 64), np.float32)
    first, second = layer.apply(x), layer.apply(x)
    assert layer.draws == 2 and not np.array_equal(first, second)
    layer.draws = 0
    np.testing.assert_array_equal(layer.apply(x), first)
    layer.draws = 1
    np.testing.assert_array_equal(layer.apply(x), second)
