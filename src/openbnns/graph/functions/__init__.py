"""Functions of tensors, with PyTorch's names; each records operations, or runs at once on arrays."""

# ruff: noqa: F403
from typing import TYPE_CHECKING

from . import (
    activations,
    arrangements,
    attention,
    convolutions,
    creation,
    elementwise,
    fourier,
    indexing,
    losses,
    normalizations,
    poolings,
    products,
    random_numbers,
    reductions,
    resizing,
    shapes,
    windows,
)
from .activations import *
from .arrangements import *
from .attention import *
from .convolutions import *
from .creation import *
from .elementwise import *
from .fourier import *
from .indexing import *
from .losses import *
from .normalizations import *
from .poolings import *
from .products import *
from .random_numbers import *
from .reductions import *
from .resizing import *
from .shapes import *
from .windows import *

_MODULES = (
    activations, arrangements, attention, convolutions, creation, elementwise, fourier, indexing, losses, normalizations,
    poolings, products, random_numbers, reductions, resizing, shapes, windows,
)  # fmt: skip
NAMES = sorted(name for module in _MODULES for name in module.__all__)
if not TYPE_CHECKING:  # type checkers follow star imports, but hide names that a computed list might leave out
    __all__ = NAMES
