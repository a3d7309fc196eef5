"""Fused chains of the reference engine against their definitions and against finite differences."""

import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from differences import activation_name, assert_close, assert_gradient, generator, normal
from openbnns.parameters.activation import IDENTITY, Activation
from openbnns.parameters.activation import ActivationKind as A
from openbnns.parameters.arithmetic import ArithmeticKind as Op
from openbnns.parameters.convolution import Geometry
from openbnns.parameters.normalization import Kind, Normalization
from openbnns.reference import fused, normalization
from openbnns.reference.activation import Array
from openbnns.reference.normalization import Moving
from reference.test_normalization import NORMALIZATIONS, parameters

RELU = Activation(A.RECTIFIED_LINEAR)
TANH = Activation(A.TANH)
SILU = Activation(A.SILU)
EPSILON = 1e-3

CONVOLUTION = Geometry((2, 1), (1, 2), (1, 0, 2, 1), 2, (3, 5))  # kernel (2, 3) on (5, 6)
TRANSPOSED = Geometry((2, 1), (1, 1), (0, 1, 1, 0), 1, (5, 4))  # kernel (2, 3) on (3, 3)

# (first layer, shape of its input)
WEIGHTED: dict[str, tuple[fused.Weighted, tuple[int, ...]]] = {
    "convolution": (fused.Convolution(normal(50, 6, 2, 2, 3), normal(51, 6), CONVOLUTION), (3, 4, 5, 6)),
    "transposed": (
        fused.Convolution(normal(52, 4, 6, 2, 3), normal(53, 6), TRANSPOSED, transposed=True),
        (3, 4, 3, 3),
    ),
    "fully connected": (fused.FullyConnected(normal(54, 6, 5), normal(55, 6)), (5, 5)),
}
weighted = pytest.mark.parametrize(("first", "shape"), WEIGHTED.values(), ids=WEIGHTED)
fused_kinds = pytest.mark.parametrize(
    "n",
    [NORMALIZATIONS[name] for name in ("batch", "instance", "layer 0", "layer 2", "group 3")],
    ids=["batch", "instance", "layer 0", "layer 2", "group 3"],
)


def training(first: fused.FirstLayer, n: Normalization, inputs: list[Array], *rest: Any) -> Array:
    return fused.training_forward(first, n, inputs, *rest)[0]


@weighted
@fused_kinds
@pytest.mark.parametrize("f", [IDENTITY, TANH, SILU], ids=activation_name)
def test_fused_weighted_gradients(
    first: fused.Weighted, shape: tuple[int, ...], n: Normalization, f: Activation
) -> None:
    x = normal(56, *shape)
    boundary = fused.first_forward(first, [x])
    beta, gamma = parameters(n, boundary.shape)
    y, state, _ = fused.training_forward(first, n, [x], beta, gamma, f)
    assert fused.parameter_slots(first) == ("weights", "bias", "beta", "gamma")
    assert first.bias is not None

    def slot(k: int) -> Callable[[Array], Array]:
        def gradient(v: Array) -> Array:
            wanted = [number == k for number in range(4)]
            inputs, gradients = fused.backward(first, n, state, [x], beta, gamma, y, v, f, [False], wanted)
            assert inputs == [None]
            assert [entry is not None for entry in gradients] == wanted
            entry = gradients[k]
            assert entry is not None
            return entry

        return gradient

    def input_gradient(v: Array) -> Array:
        inputs, gradients = fused.backward(first, n, state, [x], beta, gamma, y, v, f, [True], [False] * 4)
        assert gradients == [None] * 4
        entry = inputs[0]
        assert entry is not None
        return entry

    assert_gradient(lambda x: training(first, n, [x], beta, gamma, f), input_gradient, x)
    assert_gradient(
        lambda w: training(replace(first, weights=w), n, [x], beta, gamma, f), slot(0), np.asarray(first.weights)
    )
    assert_gradient(lambda b: training(replace(first, bias=b), n, [x], beta, gamma, f), slot(1), first.bias)
    assert_gradient(lambda beta: training(first, n, [x], beta, gamma, f), slot(2), beta)
    assert_gradient(lambda gamma: training(first, n, [x], beta, gamma, f), slot(3), gamma)


@weighted
def test_fused_all_gradients_at_once(first: fused.Weighted, shape: tuple[int, ...]) -> None:
    """One call for all gives what one call for each gives, and None for the rest."""
    n, x = NORMALIZATIONS["batch"], normal(57, *shape)
    y, state, _ = fused.training_forward(first, n, [x], None, None, TANH)
    dy = normal(58, *y.shape)

    def run(wanted_inputs: list[bool], wanted: list[bool]) -> list[Array | None]:
        inputs, gradients = fused.backward(first, n, state, [x], None, None, y, dy, TANH, wanted_inputs, wanted)
        return inputs + gradients

    everything = run([True], [True] * 4)
    for wanted in itertools.product([False, True], repeat=5):
        for got, expected, is_wanted in zip(run([wanted[0]], list(wanted[1:])), everything, wanted, strict=True):
            assert (got is not None) == is_wanted
            if is_wanted:
                np.testing.assert_array_equal(got, expected)


@weighted
def test_fused_without_its_input(first: fused.Weighted, shape: tuple[int, ...]) -> None:
    """The input is needed for the gradient of the weights only."""
    n, x = NORMALIZATIONS["instance" if len(shape) == 4 else "layer 0"], normal(59, *shape)
    y, state, _ = fused.training_forward(first, n, [x], None, None, TANH)
    dy = normal(60, *y.shape)
    wanted = [False, True, True, True]
    expected = fused.backward(first, n, state, [x], None, None, y, dy, TANH, [True], wanted)
    got = fused.backward(first, n, state, [None], None, None, y, dy, TANH, [True], wanted, [shape])
    for ours, theirs in zip(got[0] + got[1], expected[0] + expected[1], strict=True):
        np.testing.assert_array_equal(ours, theirs)
    with pytest.raises(ValueError, match="dw needs the input x"):
        fused.backward(first, n, state, [None], None, None, y, dy, TANH, [False], [True] * 4, [shape])


def test_fused_by_hand() -> None:
    """Without a bias: z = x W^T, then batch normalization of every column, in training and in inference."""
    n, x, w = replace(NORMALIZATIONS["batch"], momentum=0.25), normal(61, 5, 3), normal(62, 4, 3)
    beta, gamma, moving = normal(63, 4), normal(64, 4), Moving(normal(65, 4), np.full(4, 0.5))
    first, h = fused.FullyConnected(w, None), x @ w.T
    y, _, after = fused.training_forward(first, n, [x], beta, gamma, RELU, moving)
    expected = gamma * (h - h.mean(axis=0)) / np.sqrt(h.var(axis=0) + EPSILON) + beta
    np.testing.assert_allclose(y, np.maximum(expected, 0.0), rtol=1e-10, atol=1e-12)
    assert moving.mean is not None
    assert_close(after.mean, 0.25 * moving.mean + 0.75 * h.mean(axis=0))
    y = fused.inference_forward(first, n, [x], beta, gamma, RELU, moving)
    expected = gamma * (h - moving.mean) / math.sqrt(0.5 + EPSILON) + beta
    np.testing.assert_allclose(y, np.maximum(expected, 0.0), rtol=1e-10, atol=1e-12)


def test_fused_inference_may_have_an_activation_in_between() -> None:
    n, x = NORMALIZATIONS["layer 0"], normal(66, 4, 5)
    first = fused.FullyConnected(normal(67, 6, 5), None, TANH)
    y = fused.inference_forward(first, n, [x], None, None, IDENTITY)
    between = np.tanh(x @ first.weights.T)
    np.testing.assert_array_equal(y, normalization.inference_forward(n, between, None, None, IDENTITY))
    with pytest.raises(ValueError, match=r"only the last layer has an activation; .* function 4"):
        fused.training_forward(first, n, [x], None, None, IDENTITY)
    _, state, _ = normalization.training_forward(n, between, None, None, IDENTITY)
    with pytest.raises(ValueError, match="only the last layer has an activation"):
        fused.backward(first, n, state, [x], None, None, y, y, IDENTITY, [True], [True] * 4)


# Operands: a sample, a parameter (one copy for all samples) and one that is broadcast along an axis as well.
OPERANDS: dict[Op, list[Array]] = {
    Op.TANH: [normal(70, 3, 6, 2, 3)],
    Op.EXP: [normal(71, 3, 6, 2, 3)],
    Op.ADD: [normal(72, 3, 6, 2, 3), normal(73, 3, 6, 2, 3)],
    Op.SUBTRACT: [normal(74, 1, 6, 1, 3), normal(75, 3, 6, 2, 1)],
    Op.MULTIPLY: [normal(76, 3, 6, 2, 3), normal(77, 1, 6, 2, 3)],
    Op.DIVIDE: [normal(78, 3, 6, 2, 3), generator(79).uniform(1, 2, (1, 1, 2, 3))],
    Op.MULTIPLY_ADD: [normal(80, 3, 6, 2, 3), normal(81, 1, 6, 1, 1), normal(82, 3, 1, 2, 3)],
    Op.SELECT: [np.sign(normal(83, 3, 6, 2, 3)) + 1.0, normal(84, 3, 6, 2, 3), normal(85, 1, 6, 2, 3)],
}


@fused_kinds
@pytest.mark.parametrize("op", OPERANDS, ids=lambda op: op.name.lower())
@pytest.mark.parametrize("f", [IDENTITY, TANH], ids=activation_name)
def test_fused_arithmetic_gradients(op: Op, n: Normalization, f: Activation) -> None:
    first, inputs = fused.Arithmetic(op), OPERANDS[op]
    beta, gamma = parameters(n, (3, 6, 2, 3))
    y, state, _ = fused.training_forward(first, n, inputs, beta, gamma, f)
    assert y.shape == (3, 6, 2, 3)
    assert fused.parameter_slots(first) == ("beta", "gamma")

    for k, operand in enumerate(inputs):
        wanted = [number == k for number in range(len(inputs))]

        def forward(x: Array, k: int = k) -> Array:
            return training(first, n, [*inputs[:k], x, *inputs[k + 1 :]], beta, gamma, f)

        def gradient(v: Array, k: int = k, wanted: list[bool] = wanted) -> Array:
            gradients, parameters = fused.backward(
                first, n, state, inputs, beta, gamma, y, v, f, wanted, [False, False]
            )
            assert parameters == [None, None]
            assert [entry is not None for entry in gradients] == wanted
            entry = gradients[k]
            assert entry is not None
            return entry

        if op == Op.SELECT and k == 0:
            assert not np.any(gradient(y))
        else:
            assert_gradient(forward, gradient, operand)

    def slot(v: Array, k: int) -> Array:
        input_gradients, parameters = fused.backward(
            first, n, state, inputs, beta, gamma, y, v, f, [False] * len(inputs), [k == 0, k == 1]
        )
        assert input_gradients == [None] * len(inputs)
        entry = parameters[k]
        assert entry is not None
        return entry

    assert_gradient(lambda beta: training(first, n, inputs, beta, gamma, f), lambda v: slot(v, 0), beta)
    assert_gradient(lambda gamma: training(first, n, inputs, beta, gamma, f), lambda v: slot(v, 1), gamma)


@fused_kinds
def test_fused_arithmetic_of_parameters_alone(n: Normalization) -> None:
    """Every sample is the same; the gradient is the sum over the batch."""
    first, inputs = fused.Arithmetic(Op.MULTIPLY), [normal(86, 1, 6, 2, 3), normal(87, 1, 6, 2, 3)]
    y, state, _ = fused.training_forward(first, n, inputs, None, None, TANH, samples=4)
    assert y.shape == (4, 6, 2, 3)
    inference = fused.inference_forward(first, n, inputs, None, None, TANH, samples=4)
    np.testing.assert_array_equal(inference, y)

    def gradient(v: Array) -> Array:
        gradients, _ = fused.backward(first, n, state, inputs, None, None, y, v, TANH, [True, False], [False, False])
        assert gradients[0] is not None
        return gradients[0]

    assert_gradient(
        lambda a: fused.training_forward(first, n, [a, inputs[1]], None, None, TANH, samples=4)[0], gradient, inputs[0]
    )


def test_fused_addition_does_not_need_its_operands() -> None:
    n, first, sizes = NORMALIZATIONS["batch"], fused.Arithmetic(Op.ADD), [(3, 6), (1, 6)]
    inputs = [normal(88, *sizes[0]), normal(89, *sizes[1])]
    y, state, _ = fused.training_forward(first, n, inputs, None, None, RELU)
    dy, both = normal(90, *y.shape), [True, True]
    expected, _ = fused.backward(first, n, state, inputs, None, None, y, dy, RELU, both, both)
    got, _ = fused.backward(first, n, state, [None, None], None, None, y, dy, RELU, both, both, sizes)
    for ours, theirs in zip(got, expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    # The output of the chain is not the exponential itself.
    with pytest.raises(ValueError, match="EXP needs"):
        fused.backward(fused.Arithmetic(Op.EXP), n, state, [None], None, None, y, dy, RELU, [True], both, [(3, 6)])


def test_fused_ties() -> None:
    n, a = NORMALIZATIONS["layer 0"], normal(91, 2, 5)
    for split in (False, True):
        first = fused.Arithmetic(Op.MAXIMUM, split_ties=split)
        _, state, _ = fused.training_forward(first, n, [a, a], None, None, IDENTITY)
        dy, both = normal(92, 2, 5), [True, True]
        (da, db), _ = fused.backward(first, n, state, [a, a], None, None, None, dy, IDENTITY, both, both)
        dh = normalization.backward(n, state, None, None, None, dy, IDENTITY, {"dx"})["dx"]
        np.testing.assert_array_equal(da, 0.5 * dh if split else dh)
        np.testing.assert_array_equal(db, 0.5 * dh if split else np.zeros((2, 5)))


def test_fused_observed_values() -> None:
    n, both = Normalization(Kind.BATCH, 1e-5), [True, True]
    beta, gamma, dy = np.zeros(2), np.ones(2), np.array([[1.0, 0.0], [0.0, 2.0]])
    x = np.array([[1.0, 2.0], [3.0, 4.0]])
    first = fused.FullyConnected(np.eye(2), np.zeros(2))
    y, state, _ = fused.training_forward(first, n, [x], beta, gamma, IDENTITY)
    np.testing.assert_allclose(y, [[-1, -1], [1, 1]], atol=1e-4)
    (dx,), (dw, db, dbeta, dgamma) = fused.backward(
        first, n, state, [x], beta, gamma, y, dy, IDENTITY, [True], [True] * 4
    )
    assert_close(dbeta, [1, 2], atol=1e-4)
    assert_close(dgamma, [-1, 2], atol=1e-4)
    for gradient in (dx, dw, db):
        assert_close(gradient, np.zeros_like(gradient), atol=1e-4)

    a, b, add = np.array([[1.0, 2.0], [2.0, 3.0]]), np.array([[0.0, 0.0], [1.0, 1.0]]), fused.Arithmetic(Op.ADD)
    y, state, _ = fused.training_forward(add, n, [a, b], beta, gamma, IDENTITY)
    np.testing.assert_allclose(y, [[-1, -1], [1, 1]], atol=1e-4)
    (da, db), (dbeta, dgamma) = fused.backward(add, n, state, [a, b], beta, gamma, y, dy, IDENTITY, both, both)
    assert_close(dbeta, [1, 2], atol=1e-4)
    assert_close(dgamma, [-1, 2], atol=1e-4)
    for gradient in (da, db):
        assert_close(gradient, np.zeros((2, 2)), atol=1e-4)


@weighted
def test_fused_empty_batch(first: fused.Weighted, shape: tuple[int, ...]) -> None:
    for n in NORMALIZATIONS.values():
        x = np.zeros((0, *shape[1:]))
        y, state, _ = fused.training_forward(first, n, [x], None, None, TANH)
        assert len(y) == 0
        (dx,), parameters = fused.backward(first, n, state, [x], None, None, y, y, TANH, [True], [True] * 4)
        assert dx is not None
        assert dx.shape == x.shape
        for gradient in parameters:
            assert gradient is not None
            assert not np.any(gradient)


def test_fused_rejects_wrong_calls() -> None:
    n, x, first = NORMALIZATIONS["batch"], normal(93, 3, 5), fused.FullyConnected(normal(94, 6, 5), None)
    y, state, _ = fused.training_forward(first, n, [x], None, None, IDENTITY)
    with pytest.raises(ValueError, match="4 parameter gradients, weights, bias, beta, gamma; got 2"):
        fused.backward(first, n, state, [x], None, None, y, y, IDENTITY, [True], [True] * 2)
    with pytest.raises(ValueError, match="2 parameter gradients, beta, gamma; got 4"):
        fused.backward(fused.Arithmetic(Op.TANH), n, state, [y], None, None, y, y, IDENTITY, [True], [True] * 4)
    convolve, shape = WEIGHTED["convolution"]
    y, state, _ = fused.training_forward(convolve, n, [normal(95, *shape)], None, None, IDENTITY)
    with pytest.raises(ValueError, match="its input or its input's shape"):
        fused.backward(convolve, n, state, [None], None, None, y, y, IDENTITY, [True], [False] * 4)
