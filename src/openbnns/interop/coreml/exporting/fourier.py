"""Fourier transforms, which Core ML does not have, as products with the matrices of their coefficients."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....graph.operations.fourier import FourierTransform
from ....graph.tensor import Array
from .program_builder import ProgramBuilder, Refused, writes

_MOST_COEFFICIENTS = 2**23


@writes(FourierTransform)
def _transform(b: ProgramBuilder, op: FourierTransform) -> None:
    x, y = op.inputs[0], op.output
    why = "a transform is a product with a matrix for a known number of entries"
    given, n = b.numbers([x.shape[op.axis], op.n], why)
    matrix = _coefficients(op.kind, given, n, op.norm)
    # Numbers along the axis, or pairs of them, come last.
    pairs = [1 if op.kind == "rfft" else 2, 1 if op.kind == "irfft" else 2]
    ranks = [value.ndim - (count - 1) for value, count in zip((x, y), pairs, strict=True)]
    axis = op.axis % ranks[0]
    order = [i for i in range(ranks[0]) if i != axis]
    moved = [*order, axis, *range(ranks[0], x.ndim)]
    source = b.get(x) if moved == list(range(x.ndim)) else b("transpose", x=b.get(x), perm=moved)
    others = [x.shape[i] for i in order]
    product = b("matmul", x=b.reshaped(source, [*others, len(matrix)]), y=matrix, transpose_x=False, transpose_y=False)
    count = matrix.shape[1] // pairs[1]
    result = b.reshaped(product, [*others, count, *[2] * (pairs[1] - 1)])
    back = [int(i) for i in np.argsort([*order, axis])] + list(range(ranks[1], y.ndim))
    b.set(y, result if back == list(range(y.ndim)) else b("transpose", x=result, perm=back))


def _coefficients(kind: str, given: int, n: int, norm: str) -> Array:
    """The results for each entry that is 1 while all others are 0: (numbers given, numbers found)."""
    rows, columns = given * (1 if kind == "rfft" else 2), 2 * (n // 2 + 1) if kind == "rfft" else 2 * n
    if rows * columns > _MOST_COEFFICIENTS:
        raise Refused(f"a transform of {n} entries would be a matrix of {rows} x {columns}. Transform shorter pieces")
    units = np.eye(rows)
    function: Any = getattr(np.fft, kind)
    results: Array = function(units if kind == "rfft" else units.view(np.complex128), n, -1, norm)
    return results.astype(np.float32) if kind == "irfft" else results.view(np.float64).astype(np.float32)
