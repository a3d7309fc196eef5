"""Networks from Core ML's ML programs, which a room above this one reads."""

from __future__ import annotations

import os

from .._spelling import spelled
from .module import Module


@spelled
def from_coreml(
    path: str | os.PathLike[str], *, function_name: str | None = None, batch_axis: int | None = 0
) -> Module:
    """The network that computes what an ML program of Core ML does, with its weights; see :func:`openbnns.coreml.from_coreml`.

    >>> import numpy as np, tempfile
    >>> from openbnns import nn
    >>> from openbnns.interop import coreml
    >>> text = '''program(1.3) { func main<ios17>(tensor<fp32, [1, 2]> x) {
    ...     tensor<fp32, [1, 2]> w = const()[val = tensor<fp32, [1, 2]>([[3, 4]])];
    ...     tensor<fp32, [1, 1]> y = linear(x = x, weight = w); } -> (y); }'''
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = coreml.write_package(coreml.make_model(coreml.parse(text)), f"{folder}/sum.mlpackage")
    ...     net = nn.from_coreml(path)
    >>> net(np.float32([[1, 1], [0, 2]])).tolist(), net.w
    ([[7.0], [8.0]], Parameter(shape=(1, 2)))
    """
    from ..coreml import from_coreml

    return from_coreml(path, function_name=function_name, batch_axis=batch_axis)
