"""The generator of initial values for layers without a seed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from .checks import whole_number

_generator = np.random.RandomState()


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
    _generator.seed(seed_number(seed, "manual_seed: seed"))


def next_seed() -> int:
    """A number from the generator, as the seed of another one."""
    return int(_generator.randint(2**32, dtype=np.uint32))


@contextmanager
def undisturbed() -> Iterator[None]:
    """Restore the generator at the end of the block, so that networks made in it do not change later draws."""
    state = _generator.get_state()
    try:
        yield
    finally:
        _generator.set_state(state)
