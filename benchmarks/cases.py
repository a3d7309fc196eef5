"""The cases that a benchmark compares: the same work through OpenBNNS and through PyTorch, on the same numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openbnns import capi

Arrays = dict[str, NDArray[np.float32]]
"""The caller's buffers by name: inputs (``x``, ``w``, ``b``), output ``y``, and a gradient ``d...`` for each."""


@dataclass(frozen=True)
class Calls:
    """The two calls that are timed; each returns a status, 0 for success."""

    filter: Any
    forward: Callable[[], int]
    backward: Callable[[], int]


@dataclass(frozen=True)
class Case:
    """One comparison: forward and backward of one layer.

    ``shapes`` holds the shape of every input and of ``y``. ``calls`` creates our filter on the caller's buffers.
    ``peer`` is given the module ``torch`` and returns the function that computes ``y`` from the inputs.
    """

    name: str
    shapes: dict[str, tuple[int, ...]]
    calls: Callable[[Arrays], Calls]
    peer: Callable[[ModuleType], Callable[..., Any]]
    flops: float = 0.0  # forward and backward; 0 where memory is the limit
    bytes: float = 0.0  # least traffic of forward and backward
    target: float | None = None  # least ratio torch / ours
    share_target: float | None = None  # least share of the copy bandwidth
    layouts: tuple[str, ...] = ("contiguous",)  # torch runs in each, the fastest counts
    # For a sum autograd.grad hands back ``dy`` itself; backward() gives every input a gradient of its own, as we do.
    own_gradients: bool = False

    @property
    def inputs(self) -> tuple[str, ...]:
        return tuple(name for name in self.shapes if name != "y")

    @property
    def results(self) -> tuple[str, ...]:
        return ("y", *(f"d{name}" for name in self.inputs))

    def arrays(self) -> Arrays:
        """The caller's buffers: random inputs and ``dy``, results full of NaN; every page has been touched."""
        rng = np.random.default_rng(1)
        arrays: Arrays = {}
        for name, shape in self.shapes.items():
            for key in (name, f"d{name}"):
                arrays[key] = np.empty(shape, np.float32)
                if key in self.results:
                    arrays[key].fill(np.nan)
                else:
                    rng.standard_normal(out=arrays[key], dtype=np.float32)
        return arrays


def vector(size: int, data: Any = None) -> capi.BNNSNDArrayDescriptor:
    """Descriptor of a float32 vector."""
    return describe(capi.BNNSDataLayoutVector, (size,), data)


def describe(layout: int, size: Iterable[int], data: Any = None) -> capi.BNNSNDArrayDescriptor:
    """Descriptor of a packed float32 array."""
    return capi.BNNSNDArrayDescriptor(layout=layout, size=tuple(size), data=data, data_type=capi.BNNSDataTypeFloat32)


def training_parameters() -> capi.BNNSFilterParameters:
    """Parameters stay in the caller's memory, as in training: nothing about their values may be kept between calls."""
    return capi.BNNSFilterParameters(flags=capi.BNNSFlagsUseClientPtr)


def created(filter: Any) -> Any:
    """The filter, which must exist."""
    if filter is None:
        from openbnns import last_error

        raise RuntimeError(f"filter not created: {last_error()}")
    return filter
