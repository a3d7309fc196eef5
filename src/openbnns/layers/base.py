"""Layers own a filter and run it on arrays or descriptors. Their methods are declared: see :mod:`._methods`.

Rules that all layers share:

* An array is one sample, or has a batch axis in front; ``batch_size`` follows from it. With descriptors alone it
  follows from the size of their memory, or is given.
* An output or gradient that is left out is made and returned; one that is given is written in place and returned.
* ``skip`` as a gradient argument means that this gradient is not computed; its place in the result is ``None``.
* Gradients overwrite what a given array holds, or are added to it with ``accumulate=True``. A descriptor's own flags
  say what happens to its memory.
* Inputs that are not C-contiguous are copied; outputs must be.
* A failed call raises :class:`openbnns.LayerApplyError` and writes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, ClassVar, NamedTuple, NoReturn, TypeVar

from .._listing import Listed
from .._words import Caller
from ..abi.enums import BNNSFlags
from ..abi.structs import BNNSFilterParameters
from ..errors import BNNSError, LayerApplyError, LayerCreationError, Problem
from ..filters.base import Filter
from ..tensors.operands import Operand, Parameter
from ._methods import DECLARED, method
from ._misuse import MISUSE_ERRORS, misuse_in, reports_misuse
from ._ports import TensorLike, check_filter_parameters, raised, require, shape_of
from .types import ActivationFunction

__all__ = ["Gradients", "InputGradient", "InputGradients", "Layer", "UnaryLayer"]

_Result = TypeVar("_Result")
_SomeLayer = TypeVar("_SomeLayer", bound="Layer")

CREATION_NAMES: dict[str, str] = {
    "i_desc": "input",
    "o_desc": "output",
    "w_desc": "weights",
    "filter_params": "filter_parameters",
    "BNNSFilterCreateLayerActivation": "ActivationLayer",
    "activation filter": "ActivationLayer",
}
"""The names that all constructors have for fields of the C structs and for filters of C."""


class Gradients(NamedTuple):
    """The gradients of a layer with weights; ``None`` where a gradient was skipped or does not exist.

    >>> import numpy as np
    >>> from openbnns import *
    >>> layer = FullyConnectedLayer(input=Shape.vector(2), output=Shape.vector(1), weights=np.float32([[2, 3]]))
    >>> dx, dw, db = layer.apply_backward(input=np.float32([5, 6]), output_gradient=np.float32([10]))
    >>> dx.tolist(), dw.tolist(), db
    ([20.0, 30.0], [[50.0, 60.0]], None)
    """

    input: Any = None
    weights: Any = None
    bias: Any = None


class InputGradient(NamedTuple):
    """The gradient of a layer without parameters.

    >>> import numpy as np
    >>> from openbnns import *
    >>> layer = PermuteLayer(input=Shape([1, 2]), permutation=(1, 0))
    >>> layer.apply_backward(output_gradient=np.float32([[1], [2]])).input.tolist()
    [[1.0, 2.0]]
    """

    input: Any = None


class InputGradients(NamedTuple):
    """The gradients of a layer with two inputs.

    >>> import numpy as np
    >>> from openbnns import *
    >>> v = Shape.vector(2)
    >>> layer = BinaryArithmeticLayer(input_a=v, input_b=v, output=v, function=ArithmeticBinaryFunction.SUBTRACT)
    >>> da, db = layer.apply_backward(output_gradient=np.float32([1, 2]))
    >>> da.tolist(), db.tolist()
    ([1.0, 2.0], [-1.0, -2.0])
    """

    input_a: Any = None
    input_b: Any = None


def client_pointer(filter_parameters: BNNSFilterParameters | None) -> bool:
    """True if a layer is to use the caller's parameter arrays in place."""
    return filter_parameters is not None and bool(int(filter_parameters.flags) & BNNSFlags.BNNSFlagsUseClientPtr)


class _Given:
    """A parameter given at creation. Assigning to it would change nothing, so that is refused."""

    def __get__(self, layer: Any, owner: Any = None) -> Any:
        if layer is None:
            return self
        raise self._refusal(layer)

    def __set__(self, layer: Any, value: Any) -> None:
        raise self._refusal(layer)

    def _refusal(self, layer: Any) -> AttributeError:
        return AttributeError(
            f"{type(layer).__name__} does not show the parameters that it was given. Created with filter_parameters="
            "BNNSFilterParameters(flags=BNNSFlagsUseClientPtr) it uses your arrays: change those in place. Otherwise it has "
            "copies: create another layer."
        )


class Layer(Listed):
    """Owns one filter, which is destroyed with it, at the end of a ``with`` block, or by :meth:`destroy`.

    A subclass makes the filter inside :meth:`_create`.

    >>> import numpy as np
    >>> from openbnns import *
    >>> with ActivationLayer(function=ActivationFunction.abs(), input=Shape.vector(2)) as layer:
    ...     layer.apply(np.float32([-1, 2])).tolist()
    [1.0, 2.0]
    >>> layer.apply(np.float32([-1, 2]))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    openbnns.errors.LayerApplyError: ...
    """

    _creation_error: ClassVar[type[BNNSError]] = LayerCreationError

    _filter: Filter
    _summary: dict[str, Any]  # what the constructor was given, and the filter's tensors, for repr

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError(
            f"{type(self).__name__} holds memory of the compiled core, so it cannot be copied or pickled. Make another one with "
            "the same arguments."
        )

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls._creation_caller = Caller(cls._name(), CREATION_NAMES | cls._names, null="None")
        if "__init__" in cls.__dict__:
            cls.__init__ = reports_misuse(cls._creation_error)(cls.__init__)  # type: ignore[method-assign]

    _names: ClassVar[dict[str, str]] = {}  # what the constructor calls the fields of the C struct
    _creation_caller: ClassVar[Caller]

    @classmethod
    def _name(cls) -> str:
        """The name that begins messages about creation."""
        return cls.__name__

    def _create(
        self, make: Callable[[Caller], Filter], filter_parameters: BNNSFilterParameters | None, activation: Any = None
    ) -> None:
        """Make the filter; its problems become exceptions of the Python face."""
        who = self._creation_caller
        try:
            check_filter_parameters(filter_parameters, who)
            if activation is not None:
                require(activation, ActivationFunction, f"{who}: the activation", "ActivationFunction.tanh()")
            self._filter = make(who)
        except Problem as problem:
            raise raised(problem, self._creation_error) from None

    # What a layer provides to the declared methods.

    _training_call: ClassVar[str] = ""  # how its forward call of a training step is made
    _array_shapes: Mapping[str, tuple[int, ...]] = {}  # shapes of arrays that are not those of their tensors

    @classmethod
    def _call_name(cls, method: str) -> str:
        """The name that begins messages about a call."""
        return f"{cls._name()}.{method}"

    def _declares(self, call: str) -> tuple[str, Mapping[str, str | None]]:
        """The call that a method makes on this layer, and the C names of arguments that differ from layer to layer."""
        return call, {}

    def _choice(self, call: str, chosen: Any) -> Any:
        """The variant of a call, by the argument that chooses it."""
        return None

    def _converted(self, caller: Caller, name: str, value: Any) -> Any:
        """An argument in the form that the layer's tensors have, if it takes others too."""
        return value

    def _counted(self, who: str, value: Any, broadcasts: bool, batch: int) -> tuple[Any, int]:
        """Memory and number of elements of an argument that has as many as the call needs."""
        raise NotImplementedError

    def _entries_of(self, name: str) -> Sequence[str]:
        """The parameters behind a list of gradients."""
        raise NotImplementedError

    def _reason_without(self, name: str) -> str:
        """Why the layer does not take an argument."""
        return "is given, but this layer does not take it"

    def _attempt(self, work: Callable[..., _Result], *arguments: Any) -> _Result:
        """Run a call with full checks."""
        try:
            return work(*arguments)
        except Problem as problem:
            raise raised(problem, LayerApplyError) from None
        except BNNSError:
            raise
        except MISUSE_ERRORS as error:
            raise raised(misuse_in(None, error), LayerApplyError) from error

    weights = bias = beta = gamma = dictionary = _Given()

    @property
    def bnns_filter(self) -> Filter:
        """The filter, for calls of ``openbnns.capi`` that have no method here."""
        return self._filter

    def destroy(self) -> None:
        """Release the filter now; later calls of this layer fail."""
        self._filter.destroy()

    def __enter__(self: _SomeLayer) -> _SomeLayer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.destroy()

    def __repr__(self) -> str:
        shown = {name: _shown(value) for name, value in self._summary.items()}
        described = ", ".join(f"{name}={value!r}" for name, value in shown.items() if value is not None)
        destroyed = "" if self._filter.alive else " (destroyed)"
        return f"{type(self).__name__}({described}){destroyed}"


def _shown(value: Any) -> Any:
    """An entry of a summary; tensors of the filter show their shapes."""
    if isinstance(value, (Operand, Parameter)):
        return None if value.absent else shape_of(value.view)
    return value


class UnaryLayer(Layer):
    """Base of the layers with one input.

    >>> import numpy as np
    >>> from openbnns import *
    >>> layer = ActivationLayer(function=ActivationFunction.abs(), input=Shape.vector(2))
    >>> x, y = np.float32([[-1, 2], [3, -4]]), np.empty((2, 2), np.float32)
    >>> layer.apply(x, y) is y  # written in place; left out, it is allocated
    True
    >>> layer.apply_backward(input=x, output=y, output_gradient=np.ones_like(y)).input.tolist()
    [[-1.0, 1.0], [1.0, -1.0]]
    """

    @method("apply")
    def apply(
        self, input: TensorLike, output: TensorLike | None = None, *, batch_size: int | None = None
    ) -> TensorLike:
        """Run the layer forward.

        ``input`` is one sample or a batch. ``output`` is written and returned; when left out it is a new array.
        """
        raise DECLARED

    @method("apply_backward", returns=InputGradient)
    def apply_backward(
        self,
        input: TensorLike | None = None,
        output: TensorLike | None = None,
        output_gradient: TensorLike | None = None,
        generating_input_gradient: Any = None,
        *,
        batch_size: int | None = None,
        accumulate: bool = False,
    ) -> Any:
        """Run the layer backward: the gradient with respect to its input.

        ``input`` and ``output`` are those of the forward call; ``output_gradient`` comes from the next layer.
        """
        raise DECLARED
