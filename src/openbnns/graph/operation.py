"""One step of a graph: what it computes, and the calls that compute it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, NamedTuple, Self

import numpy as np

from .calls import Calls, NumpyCall, by_element
from .parameter import Parameter
from .tensor import FLOAT32, INT64, Array, Tensor, inexact

NO_MEMORY: Array = np.empty(0, np.float32)
_MADE = 8  # layers that an operation keeps, each for other sizes


class CalledFunction(NamedTuple):
    """A function of tensors that was called while a graph was recorded; ``number`` tells the call from all others."""

    name: str
    number: int


class Operation:
    """One step of a network: ``outputs`` from ``inputs`` and parameters, and the gradients of both.

    ``keeps_inputs`` and ``keeps_output`` say what the backward pass reads of the forward one; everything else may be
    overwritten as soon as the forward pass no longer needs it.
    """

    keeps_inputs = True
    keeps_output = False
    random = False  # draws random numbers in training
    stops_gradient = False  # its inputs get no gradient from it
    only_trains = False  # it is the identity except in training
    takes_integers = False  # its inputs may be whole numbers wherever numbers are meant
    is_mask = False  # its output is 1 where something holds, else 0
    moves = False  # its outputs are elements of its inputs, whole numbers or others
    finds_sizes = False  # the sizes of its results are known only when it has run
    is_pure = False  # the same inputs give the same outputs, bit by bit: no state, no choices, no parameters beside the inputs
    changes_gradient = False  # what it passes on is not the gradient of the output, but written over that one
    repeatable = False  # its output may be computed a second time rather than kept: cheap, from what is kept anyway

    made_with: tuple[tuple[Any, ...], dict[str, Any]]  # the arguments of its class, for files

    def __new__(cls, *given: Any, **named: Any) -> Self:
        operation = super().__new__(cls)
        operation.made_with = given, named
        return operation

    def __init__(
        self, inputs: Sequence[Tensor], outputs: Tensor | Sequence[Tensor], parameters: Sequence[Parameter] = ()
    ) -> None:
        self.inputs = list(inputs)
        self.outputs = [outputs] if isinstance(outputs, Tensor) else list(outputs)
        self.parameters = list(parameters)
        self.modules: list[Any] = []  # the modules that recorded it; several once fused
        # Memory and sizes of the program that is being made; scratch of the direction that is being made.
        self.scratch = self.kept = NO_MEMORY
        self.bound_sizes: Mapping[str, int] = {}
        self.settled: AbstractSet[Tensor] = frozenset()  # storages whose numbers change only with those of parameters
        self.functions: list[CalledFunction | None] = []  # the calls of functions that these modules made
        self.trains = False  # whether its module is in training mode while the network is not

    @property
    def output(self) -> Tensor:
        """The first output, which for most operations is the only one."""
        return self.outputs[0]

    @property
    def title(self) -> str:
        """The name in messages: the function that recorded the operation, or its kind."""
        return next((call.name for call in self.functions if call is not None), type(self).__name__)

    def check(self) -> None:
        """Raise an error for arguments that no function records: graphs are read from files, too."""

    def taken_apart(self) -> list[Operation]:
        """The operations that it stands for: itself, unless it is several under one name."""
        return [self]

    def prepare(self) -> None:
        """Prepare what does not depend on free sizes, once all fusing is done."""

    def made(self, key: Any, make: Callable[[], Any]) -> Any:
        """The result of ``make``, such as a layer for certain sizes; the latest ones are kept."""
        kept: dict[Any, Any] = self.__dict__.setdefault("_kept_layers", {})
        if key not in kept:
            while len(kept) >= _MADE:
                del kept[next(iter(kept))]
            kept[key] = make()
        return kept[key]

    def all_made(self) -> Iterable[Any]:
        """All that ``made`` keeps."""
        return tuple(self.__dict__.get("_kept_layers", {}).values())

    def reseed(self, seed: int, step: int, index: int) -> None:
        """Seed the random numbers of the next forward pass, if the operation draws any."""

    def passed_on(self) -> Sequence[int]:
        """The positions of the inputs whose gradient equals that of the output, element by element.

        With ``changes_gradient`` they equal each other, and ``backward`` can write them over that of the output.
        """
        return ()

    def reads_where_told(self) -> bool:
        """True if ``backward`` reads inputs from the arrays it is given, which may differ from those of ``forward``."""
        return False

    def fuse(self, following: Operation) -> bool:
        """Absorb the only operation that reads this one's output; False if that is not possible."""
        return False

    def scratch_size(self, sizes: Mapping[str, int], backward: bool) -> int:
        """Numbers of ``scratch``, memory that holds nothing from one call to the next, for each of the two directions."""
        return 0

    def kept_size(self, sizes: Mapping[str, int]) -> int:
        """Numbers of ``kept``, memory that holds in training what a forward pass leaves for the backward pass."""
        return 0

    def forward(self, x: list[Array], y: Array, training: bool) -> Calls:
        """The calls of a forward pass on these arrays, which stay where they are."""
        raise NotImplementedError

    def repeat(self, x: list[Array], y: Array) -> Calls:
        """The calls that compute the output of the latest forward pass again, into another array, if it is repeatable."""
        return self.forward(x, y, True)

    def backward(self, x: list[Array], y: Array, dy: Array, dx: list[Array | None], dp: list[Array | None]) -> Calls:
        """The calls of a backward pass, which write the gradients that are not ``None``.

        ``dp`` holds one array per parameter. Arrays of forward values that are not kept must not be read.
        """
        raise NotImplementedError

    def forward_all(self, x: list[Array], y: list[Array], training: bool) -> Calls:
        """:meth:`forward` with all outputs, for operations that have several."""
        return self.forward(x, y[0], training)

    def backward_all(
        self, x: list[Array], y: list[Array], dy: list[Array | None], dx: list[Array | None], dp: list[Array | None]
    ) -> Calls:
        """:meth:`backward` with all outputs; outputs that nothing depends on have the gradient None, but never all of
        them."""
        assert dy[0] is not None
        return self.backward(x, y[0], dy[0], dx, dp)


class Convert(Operation):
    """Integers as float32, or numbers cut to int64 towards zero; no gradient goes through.

    Functions record it, and a graph puts it in front of operations whose inputs turn out to be integers. Those of a function
    ``who`` that was not asked to round are refused if float32 does not hold them.
    """

    is_pure = True
    keeps_inputs = False
    stops_gradient = True
    takes_integers = True

    def __init__(self, x: Tensor, *, whole: bool, who: str = "") -> None:
        self.whole, self.who = whole, who
        super().__init__([x], Tensor(x.graph, x.shape, INT64 if whole else FLOAT32))

    def forward(self, x: list[Array], y: Array, training: bool) -> Calls:
        converting = by_element(y, "convert", np.trunc if self.whole and x[0].dtype.kind == "f" else np.asarray, x[0])
        if self.whole or not self.who:
            return converting
        return [NumpyCall(require_exact, x[0], self.who), converting]


def require_exact(integers: Array, who: str) -> None:
    """Raise an error for integers that float32 does not hold."""
    lost = inexact(integers, FLOAT32)
    if lost is not None:
        raise ValueError(
            f"{who}: computes in float32, which does not hold the integer {lost}: it would be rounded. If that is meant, convert "
            "it before: x.float() in a network, x.astype(np.float32) for an array."
        )
