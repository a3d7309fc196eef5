"""A network in two forms, and how both are trained from the same weights on the same batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openbnns import nn

Array = NDArray[Any]
Batch = tuple[Array, ...]

STEPS = 20
FORMS = ("eager", "channels last", "compiled", "compiled, channels last")
"""In which PyTorch may run."""
FLOAT64 = "float64"
"""One more, to see what rounding does."""


@dataclass(frozen=True)
class Pair:
    """One network, twice.

    ``ours(sizes)`` makes an object that holds networks in attributes, together with what trains them, and that has a
    method ``step(*batch)``: one training step, which gives the loss, or several of them. ``pytorch()`` imports torch and
    gives a class of the same kind: its networks have the same names, and so have their weights.
    """

    title: str
    ours: Callable[[Any], Any]
    pytorch: Callable[[], Callable[[Any], Any]]
    batch: Callable[..., Batch]
    """``batch(sizes, random, held_out=False)``: samples for training, or of the part that is kept for the end."""
    full: Any
    """The sizes that are common practice, for benchmarks."""
    small: Any
    """Sizes at which 20 steps take a moment, for tests."""

    def batches(self, sizes: Any, count: int) -> list[Batch]:
        """The same ones whenever they are asked for."""
        random = np.random.RandomState(0)
        return [self.batch(sizes, random) for _ in range(count)]


def find_pairs() -> dict[str, Pair]:
    """The pairs of this folder, by the names of their files."""
    modules = {entry.name: f"{__package__}.{entry.name}" for entry in iter_modules(import_module(__package__).__path__)}
    loaded = {name: import_module(path) for name, path in modules.items() if name != "__main__"}
    return {name: module.PAIR for name, module in loaded.items() if hasattr(module, "PAIR")}


def networks(side: Any, kind: type) -> Iterator[tuple[str, Any]]:
    """The networks among the attributes of a side, with their names."""
    return ((name, network) for name, network in vars(side).items() if isinstance(network, kind))


def make_pytorch(pair: Pair, sizes: Any, form: str = "eager") -> Any:
    """PyTorch's side in one of the ``FORMS``, or in float64; the initial weights are always the same."""
    import torch

    torch.manual_seed(0)
    side = pair.pytorch()(sizes)
    if form == FLOAT64:  # other random numbers would be drawn in float64
        given = {name: network.state_dict() for name, network in networks(side, torch.nn.Module)}
        with _default_dtype(torch.float64):
            side = pair.pytorch()(sizes)
        for name, network in networks(side, torch.nn.Module):
            network.load_state_dict(given[name])
    for _, network in networks(side, torch.nn.Module):
        if "channels last" in form:
            network.to(memory_format=torch.channels_last)
        if "compiled" in form:
            network.compile()
    return side


@contextmanager
def _default_dtype(dtype: Any) -> Iterator[None]:
    """While this lasts, PyTorch makes tensors of this type."""
    import torch

    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def make_ours(pair: Pair, sizes: Any, theirs: Any = None) -> Any:
    """Our side, with the present weights of PyTorch's, if that is given."""
    nn.manual_seed(0)
    side = pair.ours(sizes)
    if theirs is not None:
        for name, network in networks(side, nn.Module):
            network.load_state_dict(getattr(theirs, name).state_dict())
    return side


def tensors(batch: Batch, form: str = "eager") -> tuple[Any, ...]:
    """A batch as PyTorch takes it."""
    import torch

    given = (torch.from_numpy(array) for array in batch)
    if form == FLOAT64:
        return tuple(t.double() if t.is_floating_point() else t for t in given)
    if "channels last" not in form:
        return tuple(given)
    return tuple(t.contiguous(memory_format=torch.channels_last) if t.dim() == 4 else t for t in given)


def train(side: Any, batches: list[Any]) -> Array:
    """One step per batch; the losses (steps, losses of a step)."""
    return np.array([np.atleast_1d(side.step(*batch)) for batch in batches])


@dataclass(frozen=True)
class Losses:
    """Losses (steps, losses of a step) from the same weights on the same batches."""

    ours: Array
    theirs: Array
    """PyTorch's, in float32 as well."""
    exact: Array
    """PyTorch's in float64: what either of them would be without rounding."""

    @property
    def difference(self) -> float:
        """How far we are from PyTorch."""
        return difference(self.ours, self.theirs)

    @property
    def our_rounding(self) -> float:
        return difference(self.ours, self.exact)

    @property
    def their_rounding(self) -> float:
        return difference(self.theirs, self.exact)


def compare_losses(pair: Pair, sizes: Any, steps: int = STEPS) -> Losses:
    """Train both sides, and PyTorch's in float64."""
    import torch

    batches = pair.batches(sizes, steps)
    theirs = make_pytorch(pair, sizes)
    ours = make_ours(pair, sizes, theirs)
    losses = train(ours, batches), train(theirs, [tensors(batch) for batch in batches])
    del ours, theirs
    wide = make_pytorch(pair, sizes, FLOAT64)
    with _default_dtype(torch.float64):
        exact = train(wide, [tensors(batch, FLOAT64) for batch in batches])
    return Losses(*losses, exact)


def difference(some: Array, others: Array) -> float:
    """The largest relative difference of two losses; infinite if anything is NaN."""
    worst = float(np.max(np.abs(some - others) / np.abs(others)))
    return worst if np.isfinite(worst) else float("inf")
