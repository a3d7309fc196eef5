"""Matrix products, contractions and Gram matrices as Python classes and functions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import openbnns as ob
from helpers import numbers
from openbnns import capi


@pytest.mark.covers("swift.BroadcastMatrixMultiplyLayer", "swift.BinaryLayer")
def test_product_layer(engine: str) -> None:
    a, b, dy = numbers(5, 2, 3, 4), numbers(5, 6, 4), numbers(5, 2, 3, 6)
    layer = ob.BroadcastMatrixMultiplyLayer(
        input_a=ob.Shape([2, 3, 4]), input_b=ob.Shape([6, 4]), input_b_transposed=True, alpha=0.5
    )
    assert isinstance(layer, ob.BinaryLayer)
    y = layer.apply(a, b)
    np.testing.assert_allclose(y, 0.5 * a @ b[:, None].swapaxes(-1, -2), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(layer.apply(a[0], b[0]), y[0], rtol=1e-5, atol=1e-6)  # one sample
    gradients = layer.apply_backward(a, b, output_gradient=dy)
    np.testing.assert_allclose(gradients.input_a, 0.5 * dy @ b[:, None], rtol=1e-4, atol=1e-5)
    db = 0.5 * (dy.swapaxes(-1, -2) @ a).sum(1)
    np.testing.assert_allclose(gradients.input_b, db, rtol=1e-4, atol=1e-5)
    into = np.ones_like(b)
    alone = layer.apply_backward(a, None, None, dy, ob.skip, into, accumulate=True, batch_size=5)
    assert alone.input_a is None and alone.input_b is into
    np.testing.assert_allclose(into, 1 + db, rtol=1e-4, atol=1e-5)
    assert "input_b_transposed=True" in repr(layer)


@pytest.mark.covers("swift.BroadcastMatrixMultiplyLayer")
@pytest.mark.parametrize("first_is_weights", [True, False])
def test_product_layer_with_weights(first_is_weights: bool) -> None:
    w, x = numbers(3, 4), numbers(5, 4, 2) if first_is_weights else numbers(5, 2, 3)
    if first_is_weights:
        layer = ob.BroadcastMatrixMultiplyLayer(
            input_a=w, input_a_is_weights=True, input_b=ob.Shape([4, 2]),
            filter_parameters=capi.BNNSFilterParameters(flags=capi.BNNSFlagsUseClientPtr),
        )  # fmt: skip
        y, dy = layer.apply(input_b=x), numbers(5, 3, 2)
        gradients = layer.apply_backward(input_b=x, output_gradient=dy)
        np.testing.assert_allclose(gradients.input_a, (dy @ x.swapaxes(1, 2)).sum(0), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(gradients.input_b, w.T @ dy, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(y, w @ x, rtol=1e-4, atol=1e-5)
        with pytest.raises(ob.LayerApplyError, match=r"apply: input_a is weights, which the layer holds. Leave it out"):
            layer.apply(w, x)
        with pytest.raises(
            ob.LayerApplyError, match="input_b is None, but the weights gradient needs the forward input"
        ):
            layer.apply_backward(output_gradient=dy)
    else:
        layer = ob.BroadcastMatrixMultiplyLayer(input_a=ob.Shape([2, 3]), input_b=w, input_b_is_weights=True)
        dy = numbers(5, 2, 4)
        gradients = layer.apply_backward(x, output_gradient=dy)
        np.testing.assert_allclose(layer.apply(x), x @ w, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(gradients.input_b, (x.swapaxes(1, 2) @ dy).sum(0), rtol=1e-4, atol=1e-5)
    assert ob.gradcheck(layer, verbose=False), str(ob.gradcheck(layer, verbose=False))


@pytest.mark.covers("swift.BroadcastMatrixMultiplyLayer")
def test_product_layer_that_accumulates_or_is_quadratic() -> None:
    x = numbers(3, 4, 4)
    layer = ob.BroadcastMatrixMultiplyLayer(input_a=x[0], is_quadratic=True, accumulates_to_output=True)
    output = np.ones((3, 4, 4), np.float32)
    assert layer.apply(x, output=output) is output
    np.testing.assert_allclose(output, 1 + x @ x, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(layer.apply(x), x @ x, rtol=1e-4, atol=1e-5)  # a new output starts at zero
    dy = numbers(3, 4, 4, seed=1)
    expected = dy @ x.swapaxes(1, 2) + x.swapaxes(1, 2) @ dy
    gradients = layer.apply_backward(x, output_gradient=dy)
    np.testing.assert_allclose(gradients.input_a, expected, rtol=1e-4, atol=1e-5)
    assert gradients.input_b is None
    with pytest.raises(ob.LayerApplyError, match=r"input_b does not exist in this layer. Leave it out"):
        layer.apply(x, x)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"input_a": ob.Shape([2, 3])}, "input_b is left out. Pass it, or set is_quadratic"),
        ({"input_a": ob.Shape([2, 3]), "input_b": ob.Shape([2, 3])}, "the 2 x 3 matrix of input_a has 3 columns"),
        (
            {"input_a": ob.Shape([2, 3]), "input_b": ob.Shape([3, 2]), "is_quadratic": True},
            "is_quadratic multiplies input_a by itself. Leave input_b out",
        ),
        (
            {"input_a": ob.Shape.vector(3), "input_b": ob.Shape([3, 2])},
            "input_a has the axes .3,., but a matrix product",
        ),
        (
            {"input_a": ob.Shape([2, 3]), "input_b": ob.Shape([3, 2]), "output": ob.Shape([3, 3])},
            "output has rows, columns and leading axes",
        ),
        (
            {"input_a": ob.Shape([2, 3]), "input_b": ob.Shape([3, 2]), "input_b_is_weights": True},
            "input_b.data is None, but this operand is weights",
        ),
    ],
)
def test_bad_product_layers(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ob.LayerCreationError, match=f"BroadcastMatrixMultiplyLayer: .*{message}"):
        ob.BroadcastMatrixMultiplyLayer(**options)


def test_bad_calls_of_product_layers() -> None:
    layer = ob.BroadcastMatrixMultiplyLayer(input_a=ob.Shape([2, 3]), input_b=ob.Shape([3, 2]))
    a, b = numbers(4, 2, 3), numbers(4, 3, 2)
    with pytest.raises(ob.LayerApplyError, match=r"input_b holds 3 samples, but input_a holds 4"):
        layer.apply(a, b[:3])
    with pytest.raises(ob.LayerApplyError, match=r"input_a has shape \(4, 3, 2\), but this layer expects \(2, 3\)"):
        layer.apply(b, b)
    with pytest.raises(ob.LayerApplyError, match="input_b is None, but it is needed"):
        layer.apply(a, None)
    with pytest.raises(ob.LayerApplyError, match="input_b is float64") as caught:
        layer.apply(a, b.astype(np.float64))
    assert isinstance(caught.value, TypeError)
    with pytest.raises(
        ob.LayerApplyError,
        match=r"input_a is None, but the gradient of the other .* no generating_input_b_grad",
    ):
        layer.apply_backward(None, b, output_gradient=numbers(4, 2, 2))


def test_contraction_layer(engine: str) -> None:
    a, b = numbers(3, 4, 5), numbers(3, 6, 5)
    layer = ob.TensorContractionLayer(operation="a_ik, b_jk -> c_ji", input_a=a, input_b=b, alpha=2.0)
    dy = numbers(3, 6, 4)
    np.testing.assert_allclose(layer.apply(a, b), 2 * np.einsum("nik,njk->nji", a, b), rtol=1e-4, atol=1e-5)
    gradients = layer.apply_backward(a, b, output_gradient=dy)
    np.testing.assert_allclose(gradients.input_a, 2 * np.einsum("nji,njk->nik", dy, b), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(gradients.input_b, 2 * np.einsum("nji,nik->njk", dy, a), rtol=1e-4, atol=1e-5)
    assert ob.gradcheck(layer, verbose=False), str(ob.gradcheck(layer, verbose=False))


@pytest.mark.parametrize(
    ("operation", "options"),
    [
        ("a_ij, w_jk -> c_ik", {"input_a": ob.Shape([3, 4]), "input_b": numbers(4, 2)}),
        ("w_jk, a_ij -> c_ik", {"input_a": numbers(4, 2), "input_b": ob.Shape([3, 4])}),
        ("x_ij, x_jk -> c_ik", {"input_a": ob.Shape([4, 4])}),
        ("x_ij, x_kj -> c_ik", {"input_a": ob.Shape([3, 4])}),
        ("x_*ij -> c_*ji", {"input_a": ob.Shape([2, 3, 4])}),
        ("x_iij -> c_j", {"input_a": ob.Shape([3, 3, 4])}),
        ("x_ij, y_kl -> c_il", {"input_a": ob.Shape([3, 4]), "input_b": ob.Shape([2, 5])}),
        ("x_*i, y_*ij -> c_*j", {"input_a": ob.Shape([2, 3]), "input_b": ob.Shape([4, 1, 3, 5])}),
    ],
)
def test_gradients_of_contraction_layers(operation: str, options: dict[str, Any], engine: str) -> None:
    layer = ob.TensorContractionLayer(operation=operation, alpha=0.7, **options)
    assert ob.gradcheck(layer, verbose=False), str(ob.gradcheck(layer, verbose=False))


def test_bad_contraction_layers() -> None:
    shape = ob.Shape([2, 3])
    bad: list[tuple[dict[str, Any], str]] = [
        ({"operation": "a_ij b_jk", "input_a": shape}, r"TensorContractionLayer: .*character 6"),
        ({"operation": 3, "input_a": shape}, "operation must be a string, not int"),
        ({"operation": "a_ij, b_jk -> c_ik", "input_a": shape}, "input_b is left out, but it is the operand b_jk"),
        (
            {"operation": "a_ij -> c_ji", "input_a": shape, "input_b": shape},
            "has one tensor on the left. Leave input_b out",
        ),
        ({"operation": "a_ijk -> c_ji", "input_a": shape}, "a_ijk has 3 axes"),
    ]
    for options, message in bad:
        with pytest.raises(ob.LayerCreationError, match=message):
            ob.TensorContractionLayer(**options)


@pytest.mark.covers("swift.GramLayer", "gram.fwd", "gram.bwd")
def test_gram_layer(engine: str) -> None:
    x, dy = numbers(3, 4, 5, 6), numbers(3, 4, 4)
    layer = ob.GramLayer(input=x, alpha=0.5)
    flat = x.reshape(3, 4, 30)
    np.testing.assert_allclose(layer.apply(x), 0.5 * flat @ flat.swapaxes(1, 2), rtol=1e-4, atol=1e-5)
    expected = 0.5 * ((dy + dy.swapaxes(1, 2)) @ flat).reshape(x.shape)
    gradient = layer.apply_backward(x, output_gradient=dy).input
    np.testing.assert_allclose(gradient, expected, rtol=1e-4, atol=1e-5)
    assert ob.gradcheck(layer, verbose=False), str(ob.gradcheck(layer, verbose=False))
    with pytest.raises(ob.LayerCreationError, match=r"GramLayer: output is .* the Gram matrix of the 4 channels"):
        ob.GramLayer(input=x, output=ob.Shape([3, 3]))


@pytest.mark.covers("direct.matmul", "direct.matmul.ws")
def test_matrix_multiplication_functions() -> None:
    a, b = numbers(2, 3, 4), numbers(5, 4)
    y = ob.apply_matrix_multiplication(a, b, input_b_transposed=True, alpha=2.0)
    np.testing.assert_allclose(y, 2 * a @ b.T, rtol=1e-4, atol=1e-5)
    into = np.empty((2, 3, 5), np.float32)
    assert ob.apply_matrix_multiplication(a, b.T, into) is into  # b.T is not in C order: it is copied
    np.testing.assert_allclose(into, a @ b.T, rtol=1e-4, atol=1e-5)
    half = ob.apply_matrix_multiplication(a.astype(np.float16), b.astype(np.float16), input_b_transposed=True)
    assert half.dtype == np.float16
    assert ob.matrix_multiplication_workspace_size(a, b, input_b_transposed=True) == 0
    assert ob.matrix_multiplication_workspace_size(ob.Shape([2, 3]), ob.Shape([2, 3])) is None
    with pytest.raises(
        ob.LayerApplyError, match="the 3 x 4 matrix of input_a has 4 columns, but the 5 x 4 matrix of input_b"
    ):
        ob.apply_matrix_multiplication(a, b)
    with pytest.raises(ob.LayerApplyError, match=r"input_a.data_type is Int8, but matrix products are floating point"):
        ob.apply_matrix_multiplication(a.astype(np.int8), b, input_b_transposed=True)
    with pytest.raises(ob.LayerApplyError, match=r"output of shape .* is not C-contiguous"):
        ob.apply_matrix_multiplication(a, b, np.empty((5, 3, 2), np.float32).T, input_b_transposed=True)
