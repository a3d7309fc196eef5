"""Arithmetic of the reference engine against its definitions and against finite differences."""

import warnings
from collections.abc import Callable

import numpy as np
import pytest

from differences import activation_name, assert_gradient, away_from, generator
from openbnns.parameters.activation import IDENTITY, Activation
from openbnns.parameters.activation import ActivationKind as A
from openbnns.parameters.arithmetic import NEEDS_OPERANDS, Needs
from openbnns.parameters.arithmetic import ArithmeticKind as Op
from openbnns.reference import activation, arithmetic

Array = activation.Array
TANH = Activation(A.TANH)


def spread_over(low: float, high: float, *kinks: float) -> Callable[[tuple[int, ...], int], Array]:
    """A maker of operands in (low, high), away from kinks."""
    return lambda shape, seed: away_from(generator(30, seed).uniform(low, high, shape), *kinks)


def nonzero(shape: tuple[int, ...], seed: int) -> Array:
    rng = generator(31, seed)
    return np.copysign(rng.uniform(0.5, 2.5, shape), rng.uniform(-1, 1, shape))


def between_steps(shape: tuple[int, ...], seed: int) -> Array:
    """Numbers k + 0.3: away from the steps of ceil, floor and round."""
    return np.floor(generator(32, seed).uniform(-4, 4, shape)) + 0.3


ANY, POSITIVE, INSIDE = spread_over(-2, 2, 0.0), spread_over(0.3, 3), spread_over(-0.9, 0.9)
OPERANDS: dict[Op, tuple[Callable[[tuple[int, ...], int], Array], ...]] = {
    **dict.fromkeys((Op.ADD, Op.SUBTRACT, Op.MULTIPLY, Op.MINIMUM, Op.MAXIMUM, Op.MULTIPLY_NO_NAN), (ANY, ANY)),
    **dict.fromkeys((Op.DIVIDE, Op.DIVIDE_NO_NAN), (ANY, nonzero)),
    **dict.fromkeys((Op.FLOOR_DIVIDE, Op.TRUNC_DIVIDE, Op.TRUNC_REMAINDER), (spread_over(-2, 2), POSITIVE)),
    Op.POW: (POSITIVE, ANY),
    **dict.fromkeys((Op.MULTIPLY_ADD, Op.SELECT), (ANY, ANY, ANY)),
    **dict.fromkeys((Op.SQUARE_ROOT, Op.RECIPROCAL_SQUARE_ROOT, Op.LOG, Op.LOG2), (POSITIVE,)),
    **dict.fromkeys((Op.CEIL, Op.FLOOR, Op.ROUND), (between_steps,)),
    **dict.fromkeys((Op.ASIN, Op.ACOS, Op.ATANH, Op.TAN), (INSIDE,)),
    Op.ACOSH: (spread_over(1.2, 4),),
    Op.RECIPROCAL: (nonzero,),
    **dict.fromkeys((Op.SIN, Op.COS, Op.ATAN, Op.SINH, Op.COSH, Op.TANH, Op.ASINH, Op.EXP, Op.EXP2), (ANY,)),
    **dict.fromkeys((Op.ABS, Op.SIGN, Op.NEGATE, Op.SQUARE, Op.ERF), (ANY,)),
}
SHAPES = [(3, 5, 2), (1, 5, 1), (1, 1, 2)]  # a Sample, and two operands without a batch axis that also broadcast


def test_every_arithmetic_function_is_tested() -> None:
    assert set(OPERANDS) == set(Op)
    assert {op: len(makers) for op, makers in OPERANDS.items()} == arithmetic.OPERAND_COUNT


def far_from_a_jump(op: Op, operands: list[Array]) -> list[Array]:
    """Move the first operand of a step function or a choice so that its result is the same nearby."""
    first = operands[0]
    if op in (Op.FLOOR_DIVIDE, Op.TRUNC_DIVIDE, Op.TRUNC_REMAINDER):
        quotient = first / operands[1]
        first = (np.round(quotient) + 0.4) * operands[1]
    if op in (Op.MINIMUM, Op.MAXIMUM):
        first = np.where(np.abs(first - operands[1]) < 0.01, first + 0.05, first)
    return [first, *operands[1:]]


@pytest.mark.parametrize("f", [IDENTITY, TANH], ids=activation_name)
@pytest.mark.parametrize("op", Op, ids=lambda op: op.name.lower())
def test_arithmetic_gradients(op: Op, f: Activation) -> None:
    operands = [make(SHAPES[k], k) for k, make in enumerate(OPERANDS[op])]
    operands = far_from_a_jump(op, operands)
    y = arithmetic.forward(op, operands, f)
    for k in range(len(operands)):
        wanted = tuple(k == other for other in range(len(operands)))

        def with_operand(value: Array, k: int = k) -> Array:
            return arithmetic.forward(op, [*operands[:k], value, *operands[k + 1 :]], f)

        def gradient(v: Array, k: int = k, wanted: tuple[bool, ...] = wanted) -> Array:
            result = arithmetic.backward(op, operands, y, v, f, wanted)
            assert [entry is not None for entry in result] == list(wanted)
            entry = result[k]
            assert entry is not None
            return entry

        assert_gradient(with_operand, gradient, operands[k])


def test_arithmetic_definitions() -> None:
    a, b = np.array([-7.0, 7.0, -7.0, 7.0]), np.array([2.0, -2.0, -2.0, 2.0])
    for op, expected in [
        (Op.FLOOR_DIVIDE, [-4, -4, 3, 3]),
        (Op.TRUNC_DIVIDE, [-3, -3, 3, 3]),
        (Op.TRUNC_REMAINDER, [-1, 1, -1, 1]),
    ]:
        np.testing.assert_array_equal(arithmetic.forward(op, [a, b], IDENTITY), expected)
    rounded = arithmetic.forward(Op.ROUND, [np.array([0.5, 1.5, -0.5, -2.5])], IDENTITY)
    np.testing.assert_array_equal(rounded, [0, 2, 0, -2])
    np.testing.assert_array_equal(arithmetic.forward(Op.SIGN, [np.array([-3.0, 0.0, 2.0])], IDENTITY), [-1, 0, 1])
    chosen = arithmetic.forward(Op.SELECT, [np.array([0.0, 2.0]), np.array([1.0, 3.0]), np.array([5.0, 7.0])], IDENTITY)
    np.testing.assert_array_equal(chosen, [5, 3])


def test_arithmetic_ties_go_to_the_first_operand() -> None:
    a = b = np.array([1.0, 2.0])
    for op in (Op.MINIMUM, Op.MAXIMUM):
        first, second = arithmetic.backward(op, [a, b], None, np.array([3.0, 4.0]), IDENTITY, (True, True))
        np.testing.assert_array_equal(first, [3, 4])
        np.testing.assert_array_equal(second, [0, 0])
        shared = arithmetic.backward(
            op, [a, np.array([1.0, 9.0])], None, np.array([3.0, 4.0]), IDENTITY, (True, True), split_ties=True
        )
        np.testing.assert_array_equal(shared, [[1.5, 4], [1.5, 0]] if op == Op.MINIMUM else [[1.5, 0], [1.5, 4]])


def test_arithmetic_no_nan_pair() -> None:
    a, b = np.array([np.nan, np.inf, 3.0, 2.0]), np.array([0.0, 0.0, 0.0, 4.0])
    dz = np.array([1.0, 2.0, 3.0, 4.0])
    np.testing.assert_array_equal(arithmetic.forward(Op.MULTIPLY_NO_NAN, [a, b], IDENTITY), [0, 0, 0, 8])
    np.testing.assert_array_equal(arithmetic.forward(Op.DIVIDE_NO_NAN, [a, b], IDENTITY), [0, 0, 0, 0.5])
    da, db = arithmetic.backward(Op.DIVIDE_NO_NAN, [a, b], None, dz, IDENTITY, (True, True))
    np.testing.assert_array_equal(da, [0, 0, 0, 1])
    np.testing.assert_array_equal(db, [0, 0, 0, -0.5])
    dz = np.array([0.0, 0.0, 3.0, 4.0])
    da, db = arithmetic.backward(Op.MULTIPLY_NO_NAN, [a, b], None, dz, IDENTITY, (True, True))
    np.testing.assert_array_equal(da, [0, 0, 0, 16])
    np.testing.assert_array_equal(db, [0, 0, 9, 8])


def test_arithmetic_power_at_zero() -> None:
    a, b = np.array([0.0, 0.0, 0.0]), np.array([0.0, 1.0, 2.0])
    da, db = arithmetic.backward(Op.POW, [a, b], None, np.full(3, 5.0), IDENTITY, (True, True))
    np.testing.assert_array_equal(da, [0, 5, 0])
    np.testing.assert_array_equal(db, [0, 0, 0])


def test_arithmetic_select_has_no_gradient_for_its_condition() -> None:
    operands = [np.array([1.0, 0.0]), np.array([2.0, 3.0]), np.array([4.0, 5.0])]
    gradients = arithmetic.backward(Op.SELECT, operands, None, np.array([6.0, 7.0]), IDENTITY, (True, True, True))
    np.testing.assert_array_equal(gradients, [[0, 0], [6, 0], [0, 7]])


@pytest.mark.parametrize("op", Op, ids=lambda op: op.name.lower())
def test_arithmetic_without_operands(op: Op) -> None:
    operands = far_from_a_jump(op, [make(SHAPES[k], k) for k, make in enumerate(OPERANDS[op])])
    y = arithmetic.forward(op, operands, IDENTITY)
    dy, shapes, wanted = generator(33).standard_normal(y.shape), [x.shape for x in operands], (True,) * len(operands)
    nothing = [None] * len(operands)
    expected = arithmetic.backward(op, operands, y, dy, IDENTITY, wanted)
    needs = NEEDS_OPERANDS[op]
    if needs is not Needs.OPERANDS:
        output = y if needs is Needs.OUTPUT else None
        for got, want in zip(
            arithmetic.backward(op, nothing, output, dy, IDENTITY, wanted, shapes), expected, strict=True
        ):
            np.testing.assert_array_equal(got, want)
    if needs is not Needs.NOTHING:
        with pytest.raises(ValueError, match="needs the o"):
            arithmetic.backward(op, nothing, np.tanh(y), dy, TANH, wanted, shapes)


def test_arithmetic_special_values_do_not_warn() -> None:
    x = np.array([0.0, -1.0, 2.0, np.inf, -np.inf, np.nan, 1e300, -1e300])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for op, count in arithmetic.OPERAND_COUNT.items():
            operands = [np.roll(x, k) for k in range(count)]
            y = arithmetic.forward(op, operands, TANH)
            arithmetic.backward(op, operands, y, x, TANH, (True,) * count)


def test_arithmetic_rejects_wrong_calls() -> None:
    with pytest.raises(ValueError, match="ADD takes 2"):
        arithmetic.forward(Op.ADD, [np.ones(2)], IDENTITY)
    with pytest.raises(ValueError, match="no function 41"):
        arithmetic.forward(41, [np.ones(2)], IDENTITY)
