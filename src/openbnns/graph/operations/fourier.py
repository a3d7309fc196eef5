"""Fourier transforms of real numbers, and of complex ones as a last axis of two: the real and the imaginary part."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from ..calls import Calls, computing
from ..operation import Operation
from ..sizes import AnySize, bound
from ..tensor import Array, Tensor

Kind = Literal["fft", "ifft", "rfft", "irfft"]
_ADJOINT = {"fft": np.fft.ifft, "ifft": np.fft.fft, "rfft": np.fft.ifft, "irfft": np.fft.rfft}
_ADJOINT_NORM = {"backward": "forward", "forward": "backward", "ortho": "ortho"}


class FourierTransform(Operation):
    """A transform of ``n`` entries along an axis, which is cut or filled up with zeros; ``norm`` as NumPy has it.

    All are linear, so that the gradient of the input is the transform the other way, with the factor of this way.
    """

    is_pure = True
    keeps_inputs = False

    def __init__(self, x: Tensor, kind: Kind, axis: int, n: AnySize, norm: str) -> None:
        self.kind, self.axis, self.n, self.norm = kind, axis, n, norm
        sizes = list(x.shape if kind == "rfft" else x.shape[:-1])
        sizes[axis] = n // 2 + 1 if kind == "rfft" else n
        super().__init__([x], Tensor(x.graph, sizes if kind == "irfft" else [*sizes, 2]))

    def forward(self, x: list[Array], y: Array, training: bool) -> Calls:
        (n,) = bound((self.n,), self.bound_sizes)
        function: Any = getattr(np.fft, self.kind)
        given = x[0] if self.kind == "rfft" else _complex(x[0])
        return computing(y if self.kind == "irfft" else _complex(y), function, given, n, self.axis, self.norm)

    def backward(self, x: list[Array], y: Array, dy: Array, dx: list[Array | None], dp: list[Array | None]) -> Calls:
        assert dx[0] is not None
        (n,) = bound((self.n,), self.bound_sizes)
        real = self.kind == "rfft"
        target = dx[0] if real else _complex(dx[0])
        arriving = dy if self.kind == "irfft" else _complex(dy)
        adjoint: Any = _ADJOINT[self.kind]
        norm = _ADJOINT_NORM[self.norm]

        def formula() -> Array:
            spectrum: Array = np.moveaxis(adjoint(arriving, n, self.axis, norm), self.axis, -1)
            if self.kind == "irfft":  # what stands for two entries of the whole spectrum
                spectrum[..., 1 : (n + 1) // 2] *= 2
            result: Array = np.zeros(np.moveaxis(target, self.axis, -1).shape, target.dtype)
            used = min(result.shape[-1], spectrum.shape[-1])
            part = spectrum[..., :used]
            result[..., :used] = part.real if real else part
            return np.moveaxis(result, -1, self.axis)

        return computing(target, formula)


def _complex(pairs: Array) -> Array:
    """Pairs along the last axis as complex numbers, on the same memory."""
    return pairs.view(np.complex64 if pairs.dtype == np.float32 else np.complex128)[..., 0]
