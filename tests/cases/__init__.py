"""Sample problems: one record list per family, and the means to run them through openbnns.capi."""

from . import activation, arithmetic, contraction, convolution, fully_connected, legacy, pooling, transposed_convolution

ALL = [
    *fully_connected.CASES, *convolution.CASES, *transposed_convolution.CASES, *activation.CASES, *arithmetic.CASES,
    *pooling.CASES, *legacy.CASES, *contraction.CASES,
]  # fmt: skip
"""Every case of every family."""
