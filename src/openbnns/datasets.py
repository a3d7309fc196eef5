"""The data set that comes with the package."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ._listing import of_module as _of_module

CREDIT = (
    "Optical Recognition of Handwritten Digits (test part), E. Alpaydin and C. Kaynak, 1998, UCI Machine Learning "
    "Repository, CC BY 4.0, in the copy that scikit-learn (BSD-3) ships; the same numbers, packed tighter."
)


def load_digits() -> tuple[NDArray[np.float32], NDArray[np.int64], NDArray[np.float32], NDArray[np.int64]]:
    """1,797 handwritten digits of 8 x 8 pixels, always split in the same way: train_x, train_y, test_x, test_y.

    ``x`` is (samples, 64), float32 between 0 and 1, rows of pixels from the top; ``y`` is (samples,) with the digit.
    The samples are shuffled, and every fifth one is for testing. Source: :data:`CREDIT`.

    >>> from openbnns.datasets import load_digits
    >>> train_x, train_y, test_x, test_y = load_digits()
    >>> train_x.shape, test_x.shape, float(train_x.max())
    ((1437, 64), (360, 64), 1.0)
    """
    import gzip  # here, so that importing the package stays quick
    from importlib import resources

    # Bytes: for each of the 64 pixels its values, 0 to 16, in all of the samples, then the digits.
    packed = resources.files(__package__).joinpath("data").joinpath("optdigits.gz").read_bytes()
    table = np.frombuffer(gzip.decompress(packed), np.uint8).reshape(65, -1).T
    # RandomState, because its streams never change between versions of NumPy.
    table = table[np.random.RandomState(0).permutation(len(table))]
    x, y = (table[:, :64] / 16).astype(np.float32), table[:, 64].astype(np.int64)
    test = np.arange(len(table)) % 5 == 0
    return x[~test], y[~test], x[test], y[test]


__all__ = ["load_digits"]

__dir__ = _of_module(__name__)
