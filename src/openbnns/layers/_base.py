"""Layers own a filter and run it on arrays or descriptors.

``apply`` and ``apply_backward`` first try the filter's fast call, which takes float32 C-contiguous arrays of the right
shape as they are. Everything else (descriptors, single samples, other types, mistakes) goes through full checks.

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

import functools
import re
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, ClassVar, NamedTuple, NoReturn, TypeVar

import numpy as np

from .._spelling import unexpected
from .._words import Caller
from ..abi.enums import BNNSFlags
from ..abi.structs import BNNSFilterParameters, BNNSNDArrayDescriptor
from ..calls.form import form
from ..errors import BNNSError, InvalidDescriptorError, LayerApplyError, LayerCreationError, Problem, as_exception
from ..filters._base import Filter
from ..filters._direct import known_calls, recorded
from ._misuse import STUMBLES, careful, meant_by_call, misuse
from ._ports import Arguments, DataProblem, Delta, Port, TensorLike, memory, raised, require, skip
from .types import ActivationFunction

_Result = TypeVar("_Result")
_SomeLayer = TypeVar("_SomeLayer", bound="Layer")

APPLY = form("apply", "batch_size in in_stride out out_stride")
BACKWARD = form(
    "apply_backward",
    "batch_size in in_stride in_delta in_delta_stride out out_stride out_delta out_delta_stride weights_delta bias_delta",
)

# How filters name the arguments of the C calls, and how layers name theirs.
APPLY_NAMES: dict[str, str] = {"in": "input", "out": "output"}
BACKWARD_NAMES: dict[str, str] = {
    "in": "input",
    "out": "output",
    "in_delta": "generating_input_gradient",
    "out_delta": "output_gradient",
    "weights_delta": "generating_weights_gradient",
    "bias_delta": "generating_bias_gradient",
}
CREATION_NAMES: dict[str, str] = {
    "i_desc": "input",
    "o_desc": "output",
    "w_desc": "weights",
    "filter_params": "filter_parameters",
    "BNNSFilterCreateLayerActivation": "ActivationLayer",
    "activation filter": "ActivationLayer",
}
"""What all constructors call fields of the C structs, and filters of C."""


class Gradients(NamedTuple):
    """What the backward pass of a layer with weights gives; ``None`` where a gradient was skipped or does not exist.

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
    """What the backward pass of a layer without parameters gives.

    >>> import numpy as np
    >>> from openbnns import *
    >>> layer = PermuteLayer(input=Shape([1, 2]), permutation=(1, 0))
    >>> layer.apply_backward(output_gradient=np.float32([[1], [2]])).input.tolist()
    [[1.0, 2.0]]
    """

    input: Any = None


class InputGradients(NamedTuple):
    """What the backward pass of a layer with two inputs gives.

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


def reworded(problem: Problem, words: Mapping[str, str]) -> Problem:
    """The same problem in the words of the Python face: ``w_desc`` is ``weights`` there."""
    pattern = "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))

    def said(text: str) -> str:
        return re.sub(rf"(?<!\w)(?:{pattern})(?!\w)", lambda match: words[match.group()], text)

    problem.reword(said)
    return problem


def attempt(
    caller: Caller, work: Callable[[Caller], Any], words: Mapping[str, str], family: type[BNNSError] = LayerApplyError
) -> Any:
    """Run the work of a function without a layer; its problems become exceptions of ``family``, in its words."""
    try:
        return work(caller)
    except Problem as problem:
        kind = InvalidDescriptorError if isinstance(problem, DataProblem) else family
        raise as_exception(reworded(problem, words), kind) from None
    except BNNSError:
        raise
    except STUMBLES as error:
        raise as_exception(misuse(error), family) from error


class KnownFunction:
    """A function without a layer: calls that have been made before are repeated at once.

    The output comes second in their keys, which hold all that decides about a call.
    """

    def __init__(self, names: dict[str, str], words: Mapping[str, str]) -> None:
        self.names, self.words, self.calls = names, words, known_calls(1)

    def __call__(
        self, name: str, work: Callable[..., Any], key: tuple[Any, ...], names: dict[str, str] | None = None
    ) -> Any:
        """``work`` takes a caller, and then what the key holds."""
        result = self.calls.run(*key)
        if result is not None:
            return result
        return attempt(
            Caller(name, names or self.names),
            lambda caller: recorded(self.calls, key, functools.partial(work, caller)),
            self.words,
        )


def client_pointer(filter_parameters: BNNSFilterParameters | None) -> bool:
    """Whether a layer is to use the caller's parameter arrays in place."""
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


class Layer:
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

    _words: ClassVar[dict[str, str]] = {
        "NULL": "None",
        "i_desc": "input",
        "o_desc": "output",
        "w_desc": "weights",
        "filter_params": "filter_parameters",
        "weights_delta": "generating_weights_gradient",
        "bias_delta": "generating_bias_gradient",
        "in_delta": "generating_input_gradient",
        "out_delta": "output_gradient",
        "BNNSFilterCreateLayerActivation": "ActivationLayer",
        "separate activation filter": "separate ActivationLayer",
    }
    _creation_error: ClassVar[type[BNNSError]] = LayerCreationError

    _filter: Filter
    _summary: dict[str, Any]

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError(
            f"{type(self).__name__} holds memory of the compiled core, so it cannot be copied or pickled. Make another one with "
            "the same arguments."
        )

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls._apply_caller = Caller(f"{cls.__name__}.apply", APPLY_NAMES)
        cls._backward_caller = Caller(f"{cls.__name__}.apply_backward", BACKWARD_NAMES)
        cls._creation_caller = Caller(cls._name(), CREATION_NAMES | cls._names, null="None")
        if "__init__" in cls.__dict__:
            cls.__init__ = careful(cls._creation_error)(cls.__init__)  # type: ignore[method-assign]

    _names: ClassVar[dict[str, str]] = {}  # what the constructor calls the fields of the C struct
    _creation_caller: ClassVar[Caller]
    _apply_caller: ClassVar[Caller]
    _backward_caller: ClassVar[Caller]

    @classmethod
    def _name(cls) -> str:
        """Who speaks in the messages of creation."""
        return cls.__name__

    def _create(
        self, make: Callable[[Caller], Filter], filter_parameters: BNNSFilterParameters | None, activation: Any = None
    ) -> None:
        """Make the filter; its problems become exceptions of the Python face."""
        who = self._creation_caller
        try:
            if filter_parameters is not None and not isinstance(filter_parameters, BNNSFilterParameters):
                raise Problem(
                    f"{who}: filter_parameters must be a BNNSFilterParameters or None, not "
                    f"{type(filter_parameters).__name__}.",
                    kind=TypeError,
                )
            if activation is not None:
                require(activation, ActivationFunction, f"{who}: the activation", "ActivationFunction.tanh()")
            self._filter = make(who)
        except Problem as problem:
            raise raised(problem, self._creation_error) from None

    def _exception(self, problem: Problem, family: type[BNNSError]) -> BNNSError:
        family = InvalidDescriptorError if isinstance(problem, DataProblem) else family
        return as_exception(reworded(problem, self._words), family)

    def _attempt(self, work: Callable[..., _Result], *arguments: Any) -> _Result:
        """Run a call with full checks."""
        try:
            return work(*arguments)
        except Problem as problem:
            raise self._exception(meant_by_call(problem, self, Port), LayerApplyError) from None
        except BNNSError:
            raise
        except STUMBLES as error:
            raise self._exception(misuse(error), LayerApplyError) from error

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
        described = ", ".join(f"{name}={value!r}" for name, value in self._summary.items() if value is not None)
        destroyed = "" if self._filter.alive else " (destroyed)"
        return f"{type(self).__name__}({described}){destroyed}"


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

    _input: Port
    _output: Port
    _weights: Port | None = None
    _bias: Port | None = None
    _weights_argument: ClassVar[str] = "generating_weights_gradient"
    _bias_argument: ClassVar[str] = "generating_bias_gradient"

    def apply(
        self,
        input: TensorLike,
        output: TensorLike | None = None,
        *,
        batch_size: int | None = None,
        **misspelled: NoReturn,
    ) -> TensorLike:
        """Run the layer forward.

        ``input`` is one sample or a batch. ``output`` is written and returned; when left out it is a new array.
        """
        if misspelled:
            raise unexpected(self.apply, misspelled)
        if type(input) is np.ndarray:
            lead = self._input.lead(input.shape, batch_size)
            if lead is not None:
                wanted = lead + self._output.shape
                target = np.empty(wanted, self._output.dtype) if output is None else output
                if (
                    type(target) is np.ndarray
                    and target.shape == wanted
                    and self._filter.native(APPLY)(lead[0] if lead else 1, input, 0, target, 0) == 0
                ):
                    return target
        return self._attempt(self._apply_checked, input, output, batch_size)

    def _apply_checked(self, input: TensorLike, output: TensorLike | None, batch_size: Any) -> TensorLike:
        caller = self._apply_caller
        self._filter.require_alive(caller)
        arguments = Arguments(caller.function, batch_size)
        x = arguments.take("input", self._input, input)
        y = None if output is None else arguments.take("output", self._output, output, output=True)
        arguments.settle()
        if y is None:
            y = output = self._output.empty(arguments.axis, f"{caller.function}: output")
        self._run(caller, arguments.batch, memory(x), memory(y))
        return output

    def apply_backward(
        self,
        input: TensorLike | None = None,
        output: TensorLike | None = None,
        output_gradient: TensorLike | None = None,
        generating_input_gradient: Any = None,
        *,
        batch_size: int | None = None,
        accumulate: bool = False,
        **misspelled: NoReturn,
    ) -> Any:
        """Run the layer backward: the gradient with respect to its input.

        ``input`` and ``output`` are those of the forward call; ``output_gradient`` is what arrives from the next layer.
        """
        if misspelled:
            raise unexpected(self.apply_backward, misspelled)
        return InputGradient(
            self._backward(
                input, output, output_gradient, batch_size, accumulate, generating_input_gradient, skip, skip
            )[0]
        )

    def _backward(
        self, x: Any, y: Any, dy: Any, batch_size: Any, accumulate: bool, input_gradient: Any, weights_gradient: Any,
        bias_gradient: Any,
    ) -> tuple[Any, Any, Any]:  # fmt: skip
        """The gradients with respect to input, weights and bias, each as its argument asks."""
        results = self._backward_fast(x, y, dy, batch_size, accumulate, input_gradient, weights_gradient, bias_gradient)
        if results is not None:
            return results
        return self._attempt(
            self._backward_checked, x, y, dy, batch_size, accumulate, input_gradient, weights_gradient, bias_gradient
        )

    def _backward_fast(
        self, x: Any, y: Any, dy: Any, batch_size: Any, accumulate: bool, input_gradient: Any, weights_gradient: Any,
        bias_gradient: Any,
    ) -> tuple[Any, Any, Any] | None:  # fmt: skip
        """The same if every argument is an array of the expected shape; ``None`` if the full checks are needed."""
        if type(dy) is not np.ndarray or type(accumulate) is not bool:
            return None
        shape = dy.shape
        lead = self._output.lead(shape, batch_size)
        if lead is None:
            return None
        wanted = lead + self._input.shape
        if not (x is None or (type(x) is np.ndarray and x.shape == wanted)):
            return None
        if not (y is None or (type(y) is np.ndarray and y.shape == shape)):
            return None
        flags = 1 if accumulate else 0
        input_part = self._input.quick(input_gradient, wanted, flags)
        weights_part = _quick_parameter(self._weights, weights_gradient, flags)
        bias_part = _quick_parameter(self._bias, bias_gradient, flags)
        if input_part is None or weights_part is None or bias_part is None:
            return None
        declined = self._run_backward_fast(
            lead[0] if lead else 1, x, input_part[1], y, Delta(self._output, dy, 0), weights_part[1], bias_part[1]
        )
        return None if declined else (input_part[0], weights_part[0], bias_part[0])

    def _backward_checked(
        self, x: Any, y: Any, dy: Any, batch_size: Any, accumulate: bool, input_gradient: Any, weights_gradient: Any,
        bias_gradient: Any,
    ) -> tuple[Any, Any, Any]:  # fmt: skip
        caller = self._backward_caller
        self._filter.require_alive(caller)
        arguments = Arguments(caller.function, batch_size)
        x = None if x is None else arguments.take("input", self._input, x)
        y = None if y is None else arguments.take("output", self._output, y)
        dy = arguments.take("output_gradient", self._output, dy)
        gradients = GradientArguments(arguments, accumulate)
        gradients.take("generating_input_gradient", self._input, input_gradient)
        gradients.take(self._weights_argument, self._weights, weights_gradient)
        gradients.take(self._bias_argument, self._bias, bias_gradient)
        arguments.settle()
        dx, dw, db = gradients.descriptors()
        self._run_backward(caller, arguments.batch, memory(x), dx, memory(y), self._output.delta(dy, False), dw, db)
        return gradients.results[0], gradients.results[1], gradients.results[2]

    # The calls of the filter, for layers that have more to pass along.

    def _run(self, caller: Caller, batch: int, x: Any, y: Any) -> None:
        self._filter.perform("apply", caller, batch, {"in": (x, 0), "out": (y, 0)})

    def _run_backward(self, caller: Caller, batch: int, x: Any, dx: Any, y: Any, dy: Any, dw: Any, db: Any) -> None:
        tensors = {
            "in": (x, 0), "in_delta": (dx, 0), "out": (y, 0), "out_delta": (dy, 0), "weights_delta": (dw, 0),
            "bias_delta": (db, 0),
        }  # fmt: skip
        self._filter.perform("apply_backward", caller, batch, tensors)

    def _run_backward_fast(self, batch: int, x: Any, dx: Any, y: Any, dy: Any, dw: Any, db: Any) -> Any:
        """Not 0 if the full checks are needed."""
        return self._filter.native(BACKWARD)(batch, x, 0, dx, 0, y, 0, dy, 0, dw, db)


def _quick_parameter(port: Port | None, value: Any, flags: int) -> tuple[Any, Delta | None] | None:
    if port is None:
        return (None, None) if value is None or value is skip else None
    return port.quick(value, port.shape, flags)


class GradientArguments:
    """The gradients that one backward call writes: given, to be made, skipped or impossible."""

    def __init__(self, arguments: Arguments, accumulate: bool) -> None:
        self._arguments = arguments
        self._accumulate = bool(accumulate)
        self._taken: list[tuple[str, Port | None, Any, Any]] = []
        self.results: list[Any] = []

    def take(self, name: str, port: Port | None, value: Any) -> None:
        """Check one gradient argument; ``port`` is ``None`` when the layer has no such gradient."""
        if value is skip or (value is None and port is None):
            self._taken.append((name, None, None, None))
            return
        if port is None:
            what = name.removeprefix("generating_").removesuffix("_gradient").replace("_", " ")
            raise Problem(
                f"{self._arguments.who}: {name} is given, but this layer has no gradient of {what}. Leave it out."
            )
        if value is not None and isinstance(value, BNNSNDArrayDescriptor):
            checked: Any = value  # the filter checks it, as gradients may have strides of their own
        else:
            checked = None if value is None else self._arguments.take(name, port, value, output=True)
        self._taken.append((name, port, value, checked))

    def descriptors(self) -> list[BNNSNDArrayDescriptor | None]:
        """One descriptor per gradient, once the batch size is settled; fills ``results``."""
        found: list[BNNSNDArrayDescriptor | None] = []
        for name, port, value, checked in self._taken:
            if port is None:
                self.results.append(None)
                found.append(None)
                continue
            if checked is None:
                value = checked = port.empty(self._arguments.axis, f"{self._arguments.who}: {name}")
                found.append(port.delta(checked, False))
            else:
                found.append(port.delta(checked, self._accumulate))
            self.results.append(value)
        return found


def port_of(value: Any) -> Port | None:
    """The port of an optional parameter descriptor."""
    return None if value is None else Port(value, batched=False)
