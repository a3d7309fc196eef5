"""The generator of initial values for layers without a seed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

from .checks import whole_number

_generator = np.random.RandomState()
_of_block: ContextVar[np.random.RandomState | None] = ContextVar("seeds", default=None)


def seed_number(value: Any, who: str) -> int:
    """A seed that NumPy's generators take, too."""
    return whole_number(value, who, 0, 2**32 - 1)


def manual_seed(seed: int) -> None:
    """Make the initial values of all layers created, and networks built without a seed, from here on repeatable.

    ``build(..., seed=)`` and ``Trainer(seed=)`` do not need it: they decide the values of every parameter whose values
    have not been read or set before.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> def first_weights():
    ...     nn.manual_seed(7)
    ...     return nn.Linear(3, 2).weight.data
    >>> bool(np.array_equal(first_weights(), first_weights()))
    True
    """
    _current().seed(seed_number(seed, "manual_seed: seed"))


def _current() -> np.random.RandomState:
    return _of_block.get() or _generator


def next_seed() -> int:
    """A number from the generator, as the seed of another one."""
    return int(_current().randint(2**32, dtype=np.uint32))


@contextmanager
def undisturbed() -> Iterator[None]:
    """Draw from a copy of the generator, so that networks made in the block do not change later draws, in any thread."""
    own = np.random.RandomState()
    own.set_state(_current().get_state())
    token = _of_block.set(own)
    try:
        yield
    finally:
        _of_block.reset(token)
