"""Padding, resize and crop-resize of the reference engine against their definitions."""

import math
import warnings

import numpy as np
import numpy.typing as npt
import pytest

from differences import assert_adjoint, generator
from openbnns.parameters.crop_resize import Box, Sampling, Settings
from openbnns.parameters.padding import Mode
from openbnns.parameters.resize import Method
from openbnns.reference import crop_resize, padding, resize

Array = npt.NDArray[np.float64]


# ---------------------------------------------------------------------------------------------------------------------
# Padding


def padded_element(mode: Mode, x: Array, index: list[int], value: float) -> float:
    """Element of the padded tensor at `index`, counted from the first element of x."""
    for axis, i in enumerate(index):
        n = x.shape[axis]
        if mode == Mode.CONSTANT and not 0 <= i < n:
            return value
        if mode == Mode.REFLECT:
            i = -i if i < 0 else 2 * (n - 1) - i if i >= n else i
        elif mode == Mode.SYMMETRIC:
            i = -1 - i if i < 0 else 2 * n - 1 - i if i >= n else i
        index[axis] = i
    return float(x[tuple(index)])


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("widths", [((0, 0), (2, 1), (0, 3)), ((0, 0), (0, 0), (0, 0)), ((1, 1), (2, 2), (3, 0))])
def test_padding(mode: Mode, widths: tuple[tuple[int, int], ...]) -> None:
    x = generator(4).standard_normal((2, 3, 4))
    y = padding.forward(mode, x, widths, 7.5)
    assert y.shape == tuple(n + before + after for n, (before, after) in zip(x.shape, widths, strict=True))
    for index in np.ndindex(y.shape):
        inside = [i - before for i, (before, _) in zip(index, widths, strict=True)]
        assert y[index] == padded_element(mode, x, inside, 7.5)
    assert_adjoint(lambda x: padding.forward(mode, x, widths), lambda v: padding.backward(mode, v, widths), x.shape)


def test_padding_examples() -> None:
    x = np.array([[1.0, 2.0, 3.0]])
    np.testing.assert_array_equal(padding.forward(0, x, [(0, 0), (1, 2)], 7.0), [[7, 1, 2, 3, 7, 7]])
    np.testing.assert_array_equal(padding.forward(1, x, [(0, 0), (2, 2)]), [[3, 2, 1, 2, 3, 2, 1]])
    np.testing.assert_array_equal(padding.forward(2, x, [(0, 0), (3, 2)]), [[3, 2, 1, 1, 2, 3, 3, 2]])
    assert np.isnan(padding.forward(0, x, [(0, 0), (1, 0)], math.nan)[0, 0])
    for mode in Mode:
        assert padding.forward(mode, np.zeros((0, 3)), [(0, 0), (1, 2)]).shape == (0, 6)
        assert padding.backward(mode, np.zeros((0, 6)), [(0, 0), (1, 2)]).shape == (0, 3)


def test_padding_errors() -> None:
    x = np.zeros((2, 3))
    with pytest.raises(ValueError, match="REFLECT pads axis 1 by 3, but it has only 3 elements; at most 2"):
        padding.forward(Mode.REFLECT, x, [(0, 0), (3, 0)])
    with pytest.raises(ValueError, match="SYMMETRIC pads axis 1 by 4, but it has only 3 elements; at most 3"):
        padding.forward(Mode.SYMMETRIC, x, [(0, 0), (0, 4)])
    with pytest.raises(ValueError, match=r"cannot be padded by \(-1, 0\)"):
        padding.forward(Mode.CONSTANT, x, [(0, 0), (-1, 0)])
    with pytest.raises(ValueError, match="1 pairs of widths for 2 axes"):
        padding.forward(Mode.CONSTANT, x, [(0, 0)])
    with pytest.raises(ValueError, match="no mode 3"):
        padding.forward(3, x, [(0, 0), (0, 0)])


# ---------------------------------------------------------------------------------------------------------------------
# Resize


LINEAR_FORMS = [(False, False), (True, False), (False, True)]  # (align_corners, asymmetric)


def sampled_line(x: Array, n: int, align_corners: bool, asymmetric: bool) -> list[float]:
    """Linear resampling of a vector, one output at a time."""
    m, line = len(x), []
    for i in range(n):
        if align_corners:
            position = 0.0 if n == 1 else i * (m - 1) / (n - 1)
        else:
            position = i * m / n if asymmetric else (i + 0.5) * m / n - 0.5
        position = min(max(position, 0.0), m - 1.0)
        low = int(position)
        high = low + 1 if low + 1 < m else low
        line.append(float(x[low] + (position - low) * (x[high] - x[low])))
    return line


@pytest.mark.parametrize(("align_corners", "asymmetric"), LINEAR_FORMS)
@pytest.mark.parametrize(("m", "n"), [(2, 4), (3, 7), (5, 2), (6, 3), (1, 4), (4, 1), (7, 113), (3, 3)])
def test_linear_resize_of_a_line(m: int, n: int, align_corners: bool, asymmetric: bool) -> None:
    x = generator(5).standard_normal((2, m))
    y = resize.forward(Method.LINEAR, x, (2, n), align_corners, asymmetric)
    expected = [sampled_line(row, n, align_corners, asymmetric) if m != n else row for row in x]
    np.testing.assert_allclose(y, expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("method", list(Method))
@pytest.mark.parametrize(("align_corners", "asymmetric"), LINEAR_FORMS)
@pytest.mark.parametrize("out_shape", [(2, 3, 10, 8), (2, 3, 5, 9), (2, 3, 2, 2), (2, 6, 10, 8), (2, 3, 1, 1)])
def test_resize_is_adjoint(method: Method, align_corners: bool, asymmetric: bool, out_shape: tuple[int, ...]) -> None:
    shape = (2, 3, 5, 4)
    assert_adjoint(
        lambda x: resize.forward(method, x, out_shape, align_corners, asymmetric),
        lambda v: resize.backward(method, v, shape, align_corners, asymmetric),
        shape,
    )


def test_resize_of_planes_is_rows_then_columns() -> None:
    x = generator(6).standard_normal((1, 1, 3, 4))
    y = resize.forward(Method.LINEAR, x, (1, 1, 6, 7))[0, 0]
    columns = np.array([sampled_line(column, 6, False, False) for column in x[0, 0].T]).T
    np.testing.assert_allclose(y, [sampled_line(row, 7, False, False) for row in columns], atol=1e-14)


def test_nearest_resize() -> None:
    x = np.array([[[[1.0, 2.0], [3.0, 4.0]]]])
    doubled = resize.forward(Method.NEAREST, x, (1, 1, 4, 4))
    np.testing.assert_array_equal(doubled.ravel(), [1, 1, 2, 2, 1, 1, 2, 2, 3, 3, 4, 4, 3, 3, 4, 4])
    for m, n in [(3, 7), (7, 3), (5, 1), (1, 5), (49, 10)]:
        line = np.arange(float(m))[np.newaxis]
        np.testing.assert_array_equal(resize.forward(Method.NEAREST, line, (1, n))[0], [i * m // n for i in range(n)])
    infinite = np.array([[np.inf, 1.0]])
    np.testing.assert_array_equal(resize.forward(Method.NEAREST, infinite, (1, 4)), [[np.inf, np.inf, 1, 1]])
    np.testing.assert_array_equal(resize.backward(Method.NEAREST, infinite.repeat(2, 1), (1, 2)), [[np.inf, 2]])


def test_linear_resize_keeps_constants_and_corners() -> None:
    for form in LINEAR_FORMS:
        np.testing.assert_allclose(resize.forward(Method.LINEAR, np.full((1, 5), 3.0), (1, 13), *form), 3.0)
    x = generator(7).standard_normal((1, 5))
    y = resize.forward(Method.LINEAR, x, (1, 9), align_corners=True)
    np.testing.assert_array_equal(y[:, ::2], x)


def test_resize_errors_and_empty_batch() -> None:
    assert resize.forward(Method.LINEAR, np.zeros((0, 3, 4)), (0, 6, 8)).shape == (0, 6, 8)
    assert resize.backward(Method.LINEAR, np.zeros((0, 6, 8)), (0, 3, 4)).shape == (0, 3, 4)
    with pytest.raises(ValueError, match="no method 2"):
        resize.forward(2, np.zeros((1, 2)), (1, 4))
    with pytest.raises(ValueError, match="must have one rank"):
        resize.forward(0, np.zeros((1, 2)), (1, 4, 4))
    with pytest.raises(ValueError, match="axis 1 cannot go from size 2 to size 0"):
        resize.forward(0, np.zeros((1, 2)), (1, 0))


# ---------------------------------------------------------------------------------------------------------------------
# Crop-resize


def crop_positions(sampling: Sampling, start: float, end: float, n: int, plain: bool) -> list[float]:
    """Sample positions along one axis, as the register writes them."""
    length, positions = end - start, []
    extent = length if plain else length + 1
    for i in range(n):
        p = 0.0
        if sampling == Sampling.DEFAULT and n > 1:
            p = i * (extent - extent / n) / (n - 1)
        elif sampling in (Sampling.ALIGN_CORNERS, Sampling.STRICT_ALIGN_CORNERS) and n > 1:
            p = i * length / (n - 1)
        elif sampling == Sampling.ALIGN_CORNERS:
            p = length / 2
        elif sampling == Sampling.UNALIGN_CORNERS:
            p = (i + 0.5) * extent / n - 0.5
        elif sampling == Sampling.OFFSET_CORNERS:
            p = (i + 0.5) * max(1, length) / n
        positions.append(start + min(max(p, min(0, length)), max(0, length)))
    return positions


def bilinear(plane: Array, y: float, x: float, outside: float) -> float:
    """One sample of an image, or `outside`."""
    height, width = plane.shape
    if not (0 <= y <= height - 1 and 0 <= x <= width - 1):
        return outside
    top, left = int(y), int(x)
    bottom, right = min(top + 1, height - 1), min(left + 1, width - 1)
    v, h = y - top, x - left
    upper = plane[top, left] * (1 - h) + plane[top, right] * h
    lower = plane[bottom, left] * (1 - h) + plane[bottom, right] * h
    return float(upper * (1 - v) + lower * v)


def box_corners(settings: Settings, box: Array, image: tuple[int, int]) -> list[tuple[float, float]]:
    """(start, end) in height and in width."""
    a, b, c, d = box * settings.spatial_scale
    if settings.box in (Box.CORNERS_WIDTH_FIRST, Box.CENTER_SIZE_WIDTH_FIRST):
        a, b, c, d = b, a, d, c
    if settings.normalized:
        a, b, c, d = a * image[0], b * image[1], c * image[0], d * image[1]
    if settings.box in (Box.CENTER_SIZE_HEIGHT_FIRST, Box.CENTER_SIZE_WIDTH_FIRST):
        return [(a - c / 2, a + c / 2), (b - d / 2, b + d / 2)]
    return [(a, c), (b, d)]


BOXES = {
    Box.CORNERS_HEIGHT_FIRST: [
        [0.5, 1.0, 4.0, 3.5],
        [-1.5, 2.0, 2.25, 9.0],
        [1.0, 1.0, 1.0, 1.0],
        [4.0, 3.0, 1.0, 0.5],
    ],
    Box.CENTER_SIZE_HEIGHT_FIRST: [[2.0, 2.5, 3.0, 2.5], [0.5, 6.0, 4.0, 3.0], [3.0, 3.0, 0.0, 0.5]],
}
BOXES[Box.CORNERS_WIDTH_FIRST] = BOXES[Box.CORNERS_HEIGHT_FIRST]
BOXES[Box.CENTER_SIZE_WIDTH_FIRST] = BOXES[Box.CENTER_SIZE_HEIGHT_FIRST]


@pytest.mark.parametrize("out_size", [(3, 4), (1, 2), (7, 1)])
@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("box", list(Box))
@pytest.mark.parametrize("sampling", list(Sampling))
def test_crop_resize(sampling: Sampling, box: Box, plain: bool, out_size: tuple[int, int]) -> None:
    x = generator(20).standard_normal((2, 3, 5, 7))
    for normalized, scale in [(False, 1.0), (True, 1 / 6), (False, 0.7)]:
        settings = Settings(sampling, box, normalized, scale, extrapolation_value=-4.0, plain_extent=plain)
        boxes = np.array(BOXES[box])
        y = crop_resize.forward(settings, x, boxes, out_size)
        assert y.shape == (len(boxes), 2, 3, *out_size)
        expected = np.empty(y.shape)
        for b, row in enumerate(boxes):
            (top, bottom), (left, right) = box_corners(settings, row, (5, 7))
            ys = crop_positions(sampling, top, bottom, out_size[0], plain)
            xs = crop_positions(sampling, left, right, out_size[1], plain)
            for n, c, i, j in np.ndindex(2, 3, *out_size):
                expected[b, n, c, i, j] = bilinear(x[n, c], ys[i], xs[j], -4.0)
        np.testing.assert_allclose(y, expected, rtol=1e-11, atol=1e-12)
        still = Settings(sampling, box, normalized, scale, plain_extent=plain)
        assert_adjoint(
            lambda x, still=still, boxes=boxes: crop_resize.forward(still, x, boxes, out_size),  # type: ignore[misc]
            lambda v, still=still, boxes=boxes: crop_resize.backward(still, v, boxes, x.shape),  # type: ignore[misc]
            x.shape,
        )


def test_published_crop_resize() -> None:
    image = [0, 1, 0, 0, 0, 0, 1, 1, 1, 0, 0, 0, 0, 1, 0, 9, 0, 9, 0, 0, 0, 0, 9, 0, 0, 0, 0, 9, 0, 9]
    x = np.array(image, float).reshape(1, 1, 5, 6)
    settings = Settings(Sampling.OFFSET_CORNERS, Box.CENTER_SIZE_WIDTH_FIRST)
    boxes = np.array([[1.0, 1, 3, 3], [4, 3, 3, 3]])
    y = crop_resize.forward(settings, x, boxes, (3, 3))
    np.testing.assert_array_equal(y.ravel(), [0, 1, 0, 1, 1, 1, 0, 1, 0, 9, 0, 9, 0, 9, 0, 9, 0, 9])


def test_crop_resize_outside_and_strange_boxes() -> None:
    x = np.full((1, 1, 2, 2), np.inf)
    settings = Settings(Sampling.STRICT_ALIGN_CORNERS, Box.CORNERS_HEIGHT_FIRST, extrapolation_value=5.0)
    boxes = np.array([[np.nan, 0, 1, 1], [0, -np.inf, 1, np.inf], [3.0, 3.0, 9.0, 9.0]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(crop_resize.forward(settings, x, boxes, (2, 2)), np.full((3, 1, 1, 2, 2), 5.0))
        dx = crop_resize.backward(settings, np.full((3, 1, 1, 2, 2), np.inf), boxes, (1, 1, 2, 2))
        np.testing.assert_array_equal(dx, np.zeros((1, 1, 2, 2)))
        assert crop_resize.forward(settings, x, np.zeros((0, 4)), (2, 3)).shape == (0, 1, 1, 2, 3)
        assert crop_resize.forward(settings, x[:0], boxes, (2, 3)).shape == (3, 0, 1, 2, 3)


def test_crop_resize_errors() -> None:
    x, boxes = np.zeros((1, 1, 2, 2)), np.zeros((1, 4))
    with pytest.raises(ValueError, match="no sampling mode 5"):
        crop_resize.forward(Settings(5, 0), x, boxes, (1, 1))
    with pytest.raises(ValueError, match="no box mode 4"):
        crop_resize.forward(Settings(0, 4), x, boxes, (1, 1))
