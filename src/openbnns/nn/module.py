"""Networks: modules that hold parameters and other modules, and run forward and backward.

A module describes its work by calling other modules on values in ``forward``::

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.act, self.two = nn.Linear(64), nn.ReLU(), nn.Linear(64)

        def forward(self, x):
            return x + self.two(self.act(self.one(x)))

Layers whose sizes are given have their parameters from the start, others when the first call on an array tells all sizes.
From there on calls reuse memory that was planned once per batch size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from inspect import BoundArguments, Signature, signature
from textwrap import indent
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar, overload

import numpy as np

from .. import engines
from .._flags import flag, with_flags
from .._spelling import spelled
from ..graph.graph import current_graph
from ..graph.program import Program
from ..graph.structure import Structure, flatten
from ..graph.tensor import Array, Tensor
from . import _turns
from ._exports import Exports
from ._parts import is_plain
from ._turns import Worker, this_worker
from .recording import Shapes

if TYPE_CHECKING:
    from .compiled import CompiledStep
    from .files.model_file import ModelCard
    from .inference import CompiledInference
    from .optimizers import Optimizer, OptimizerName
    from .predictions import Predictions
    from .profiling import Profile
    from .summary import Summary

_SomeModule = TypeVar("_SomeModule", bound="Module")


def _shapes(arrays: Sequence[Array]) -> Shapes:
    return tuple(array.shape for array in arrays)


class TrainingPass(NamedTuple):
    """A forward pass in training mode, the structure of its outputs, and the thread that made it."""

    program: Program
    structure: Structure
    worker: Worker


class Module(Exports):
    """Base of all networks and layers. A subclass makes its parts in ``__init__`` and joins them in ``forward``.

    ``module(x)`` runs it on an array (N, ...); ``module.backward(dy)`` gives the gradient of x and fills every ``grad``.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> class Twice(nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.linear = nn.Linear(3, bias=False)
    ...     def forward(self, x):
    ...         return x + self.linear(self.linear(x))
    >>> net = Twice().build((3,), seed=0)
    >>> y = net(np.ones((5, 3), np.float32))
    >>> net.backward(y).shape, [name for name, parameter in net.named_parameters()]
    ((5, 3), ['linear.weight'])
    """

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if cls.__module__.startswith("openbnns."):
            for name in {"__init__", "forward"} & cls.__dict__.keys():
                setattr(cls, name, with_flags(cls.__dict__[name], spelled(cls.__dict__[name])))
            if "__init__" in cls.__dict__:
                cls.__init__ = _noted(cls.__dict__["__init__"])  # type: ignore[method-assign]

    def add_module(self, name: str, module: Module) -> None:
        """The same as assigning to an attribute of that name, for names that are computed."""
        check_module(module, f"{type(self).__name__}.add_module: {name}")
        setattr(self, name, module)

    # Description.

    def forward(self, *inputs: Any) -> Any:
        """Join the parts: values in, a value out, or several. Recorded once, not run at every call."""
        raise NotImplementedError(f"{type(self).__name__} has no forward(). Define it: values in, a value out.")

    def extra_repr(self) -> str:
        """The text that ``repr`` shows between the brackets."""
        return ""

    # Modes.

    @property
    def training(self) -> bool:
        """The mode: true in training. Every module has its own mode, which may be set; ``train()`` sets those of all.

        A pass of a network can be gone back through if the network itself is in training mode, whatever its parts are in.
        """
        graph = current_graph()
        return self._training if graph is None else graph.mode_of(self)

    @training.setter
    def training(self, mode: bool) -> None:
        training = flag(mode, f"{type(self).__name__}.training")
        if training != self._training:
            self.__dict__["_training"] = training
            self._mode_changed()

    def train(self: _SomeModule, mode: bool = True) -> _SomeModule:
        """Training mode, for this module and all below it: batch statistics, dropout, and what backward needs is kept.

        A part that is put into inference mode after that, with ``eval()``, stays in it: a batch normalization then uses its
        running statistics and leaves them as they are, a dropout passes everything on, and gradients go through both. To
        keep a part so for good, override ``train``:

        >>> import numpy as np
        >>> from openbnns import nn
        >>> class Tuned(nn.Sequential):
        ...     def train(self, mode=True):
        ...         super().train(mode)
        ...         self[1].eval()
        ...         return self
        >>> net = Tuned(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Linear(3, 1)).train()
        >>> y = net(np.float32([[1, 2], [3, 4]]))
        >>> net.training, net[1].training, net[1].running_mean.tolist()
        (True, False, [0.0, 0.0, 0.0])
        """
        training = flag(mode, f"{type(self).__name__}.train: mode")
        self.training = training
        for child in self.children():
            child.train(training)
        return self

    def eval(self: _SomeModule) -> _SomeModule:
        """Inference mode, for this module and all below it: moving statistics, no dropout, less memory."""
        return self.train(False)

    def _chooses_modes(self) -> bool:
        return type(self).train is not Module.train or type(self).eval is not Module.eval

    # Running.

    def __call__(self, *inputs: Any, **named: Any) -> Any:
        """Record on values; run on arrays with a batch axis in front. The result of a run is a new array.

        If ``forward`` gives a tuple, list or dictionary, so does the call. Inputs may be passed by the names of
        ``forward``'s arguments.
        """
        graph = current_graph()
        if graph is not None:
            graph.require_parts(self)
            with graph.calling(module=self):
                return self.forward(*map(graph.value, inputs), **{name: graph.value(x) for name, x in named.items()})
        if not named and not self._training and inputs and type(inputs[0]) is np.ndarray and inputs[0].ndim:
            shapes = (inputs[0].shape,)
            recording = self._found_recordings.get((False, shapes))
            if recording is not None and recording.arithmetic == self._arithmetic():
                program = recording.idle(shapes)
                if program is not None:
                    if program.fits(inputs):
                        if self._latest is not None:
                            self.__dict__["_latest"] = None
                        program.forward_on(inputs[0], recording.weights_version())
                        results = [array.copy() for array in program.outputs]
                        recording.give_back(program)
                        return recording.structure.fill(results)
                    recording.give_back(program)
        if not self._in_a_row(inputs, named):
            return self._call_with(inputs, named)[0]
        return self._run(inputs, named)

    def _in_a_row(self, inputs: tuple[Any, ...], named: Mapping[str, Any]) -> bool:
        """True if all arguments are arrays and fill the parameters of ``forward`` in order, without gaps."""
        if not is_plain(inputs, named):
            return False
        return not named or not self._bound(inputs, named).kwargs

    def _call_with(self, inputs: tuple[Any, ...], named: Mapping[str, Any]) -> tuple[Any, bool]:
        """Run on arguments of any kind; gives the result, and whether it was taken apart."""
        self._bound(inputs, named)
        from ._arguments import arrays_and_call

        arrays, call = arrays_and_call(self, inputs, named)
        result = call._run(tuple(arrays), {})
        self.__dict__["_latest"] = call._latest
        return result, call.apart

    def run(self, *inputs: Any, **named: Any) -> Any:
        """Like a call, but the result lies in memory that the next such call overwrites.

        It is for one thread at a time: threads overwrite each other's results.
        """
        arrays = self._inputs(self._in_order(inputs, named) if named else inputs)
        if self._training:
            return self._train_on(arrays, shown=True)
        shapes = _shapes(arrays)
        recording, program = self._recording(False, shapes), self.program(shapes, training=False)
        for i, x in enumerate(arrays):
            program.fill(i, x)
        program.forward(recording.weights_version())
        return recording.structure.fill(program.outputs)

    def _run(self, inputs: tuple[Any, ...], named: Mapping[str, Any]) -> Any:
        """Run on arrays, in the mode of the network; the result is a new array, or several."""
        arrays = self._inputs(self._in_order(inputs, named) if named else inputs)
        if self._training:
            return self._train_on(arrays)
        self.__dict__["_latest"] = None
        structure, outputs = self._infer(arrays)
        return structure.fill(outputs)

    def _infer(self, arrays: Sequence[Array]) -> tuple[Structure, list[Array]]:
        """The outputs for a batch in inference mode, and the structure in which ``forward`` gives them."""
        shapes = _shapes(arrays)
        recording = self._recording(False, shapes)
        program = recording.lend(shapes)
        for i, x in enumerate(arrays):
            program.fill(i, x)
        program.forward(recording.weights_version())
        outputs = [array.copy() for array in program.outputs]
        recording.give_back(program)
        return recording.structure, outputs

    def _train_on(self, arrays: Sequence[Array], *, shown: bool = False) -> Any:
        """Run on a batch in training mode, for ``backward``; ``shown`` results lie where the program has them."""
        ours = _turns.take(self, self._who)
        try:
            _turns.begin_pass(self)
            self.__dict__["_latest"] = (
                None  # a run that is interrupted has no backward, not even that of the run before
            )
            shapes = _shapes(arrays)
            structure = self._recording(True, shapes).structure
            program = self.program(shapes, training=True, input_gradients=True)
            for i, x in enumerate(arrays):
                program.fill(i, x)
            program.forward()
            outputs = program.outputs if shown else [array.copy() for array in program.outputs]
            self.__dict__["_latest"] = TrainingPass(program, structure, this_worker())
        finally:
            if ours:
                _turns.end(self)
        return structure.fill(outputs)

    def _inputs(self, given: Sequence[Any]) -> list[Array]:
        """The inputs of a call, checked; builds the network for them."""
        if self._graph is None:
            self._bound(tuple(given), {})
        if not given:
            raise TypeError(f"{self._who}: there is no input. Pass an array, the batch axis in front.")
        arrays = [self._input_array(x, i) for i, x in enumerate(given)]
        shapes = _shapes(arrays)
        try:
            self._recording(self._training, shapes)
        except (ValueError, TypeError, IndexError) as error:
            counts = dict.fromkeys(len(array) for array in arrays if array.ndim)
            if len(counts) > 1:
                raise type(error)(f"{error} The inputs have {', '.join(map(str, counts))} samples.") from error
            raise
        return arrays

    def _call_signature(self) -> Signature:
        """The arguments that it is called with."""
        return signature(self.forward)

    def _bound(self, inputs: tuple[Any, ...], named: Mapping[str, Any]) -> BoundArguments:
        try:
            return self._call_signature().bind(*inputs, **named)
        except TypeError as error:
            told = f"{type(self).__name__}: {error}. Inputs are named as the arguments of forward."
            if len(inputs) == 1 and isinstance(inputs[0], Mapping):
                told += " Pass a dictionary of them with two stars: net(**inputs)."
            raise TypeError(told) from None

    def _in_order(self, inputs: tuple[Any, ...], named: Mapping[str, Any]) -> list[Any]:
        """Inputs by position, where some are given by the names that ``forward`` has for them."""
        bound = self._bound(inputs, named)
        if bound.kwargs:
            raise TypeError(f"{type(self).__name__}: forward takes {next(iter(bound.kwargs))} by keyword only.")
        return list(bound.args)

    def _input_array(self, x: Any, index: int) -> Array:
        array = np.asarray(x)
        if array.ndim < 1 or array.dtype.kind not in "fiub" or len(array) == 0:
            raise ValueError(
                f"{self._who}: input {index} is {array.dtype} of shape {array.shape}. Pass an array of numbers "
                "with at least one sample, batch axis first."
            )
        return array

    @spelled
    def backward(self, output_gradient: Any, *, accumulate: bool = False, input_gradient: bool = True) -> Any:
        """Gradients of all parameters into their ``grad``; returns that of the input (a tuple if there are several).

        Belongs to the latest call, which must have been in training mode. Gradients are overwritten, or with
        ``accumulate=True`` added to. Frozen parameters get none; with ``input_gradient=False``, which returns None, the
        pass ends at the first layer that is trained.
        """
        _turns.require_pass(self)
        latest = self._latest
        if latest is None:
            raise RuntimeError(
                f"{type(self).__name__}.backward: there is no forward pass in training mode to go back through, or it was gone "
                "back through already, which uses up what it kept. Call train(), run the network on a batch, then backward."
            )
        program = latest.program
        ours = _turns.take(self, f"{type(self).__name__}.backward")
        try:
            self._take_gradients(latest, output_gradient)
            before = [p.grad.copy() for p in program.trained] if accumulate else []
            self.__dict__["_latest"] = None
            program.backward(input_gradients=input_gradient)
            for parameter, old in zip(program.trained, before, strict=bool(accumulate)):
                parameter.grad += old
            _turns.note_gradients(program.trained)
            if not input_gradient:
                return None
            gradients = tuple(None if g is None else g.copy() for g in program.input_gradients)
        finally:
            if ours:
                _turns.end(self)
        return gradients[0] if len(gradients) == 1 else gradients

    def _take_gradients(self, latest: TrainingPass, output_gradient: Any) -> None:
        """Copy the gradients of the outputs to where the backward pass reads them; None stands for zeros."""
        program, wanted, _ = latest
        given, structure = flatten(output_gradient)
        if len(program.outputs) != 1 and structure != wanted:
            raise ValueError(
                f"{type(self).__name__}.backward: output_gradient must be {wanted.describe()}, as forward gives it, "
                "with None for outputs whose gradient is zero."
            )
        gradients = [None if gradient is None else np.asarray(gradient) for gradient in given]
        for gradient, output in zip(gradients, program.outputs, strict=True):
            if gradient is not None and gradient.shape != output.shape:
                raise ValueError(
                    f"{type(self).__name__}.backward: output_gradient has shape {gradient.shape}, but the output of the latest "
                    f"call has shape {output.shape}."
                )
        program.fill_gradients(gradients)

    # Looking.

    def summary(self) -> Summary:
        """A table of the layers with output shapes and numbers of parameters, as text that notebooks show as a table.

        Layers have the names that you gave them; functions have their own, in the module that calls them.

        >>> from openbnns import nn
        >>> class Block(nn.Module):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.first, self.last = nn.Linear(4, 8), nn.Linear(8, 4)
        ...     def forward(self, x):
        ...         return nn.functional.tanh(x + self.last(nn.functional.relu(self.first(x))))
        >>> nn.Sequential(Block(), nn.Linear(4, 1)).build((4,)).summary()
        layer            computes       output of a sample  parameters
        ---------------  -------------  ------------------  ----------
        0.first, 0.relu  Linear + relu  (8,)                        40
        0.last           Linear         (4,)                        36
        0.add, 0.tanh    add + tanh     (4,)                         -
        1                Linear         (1,)                         5
        81 parameters, 0.00 MB
        """
        from .summary import summary

        self._require_built("summary")
        return summary(self)

    @spelled
    def compile_step(
        self,
        loss: Any,
        optimizer: Optimizer | OptimizerName,
        batch_size: int,
        *,
        loss_weights: Any = None,
        precision: Literal["float32", "bfloat16"] | None = None,
    ) -> CompiledStep:
        """A training step for batches of this size as one native call: ``value = step(x, y)``.

        ``loss`` and ``optimizer`` are what :class:`Trainer` takes, and so are ``x``, ``y`` and ``loss_weights``. Numbers are the
        same, to the last bit, as those of forward, loss, backward and optimizer by themselves. The learning rate and all
        other settings of the optimizer may change between steps. ``precision`` is that of the network from now on, as with
        :class:`Trainer`.

        >>> import numpy as np
        >>> from openbnns import nn
        >>> net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
        >>> step = net.compile_step("cross_entropy", nn.Adam(net.parameters(), lr=0.01), 32)
        >>> x = np.random.RandomState(0).standard_normal((32, 4)).astype(np.float32)
        >>> losses = [step(x, (x[:, 0] > 0).astype(np.int64)) for i in range(50)]
        >>> losses[-1] < losses[0] / 2
        True
        """
        from ..graph.checks import whole_number
        from .choose import choose
        from .compiled import CompiledStep
        from .optimizers import NAMED, Optimizer

        size = whole_number(batch_size, "compile_step: batch_size", 1)
        chosen: Optimizer = choose(optimizer, NAMED, Optimizer, "compile_step: optimizer")
        if precision is not None:
            self._precision = engines.check_precision(precision, "compile_step")
        return CompiledStep(self, loss, chosen, size, loss_weights)

    @spelled
    def compile_inference(
        self, batch_size: int, *, precision: Literal["float32", "bfloat16"] | None = None
    ) -> CompiledInference:
        """The network as it is now, for inference on batches of this size as one native call: ``y = infer(x)``.

        Parameters and statistics are copied, and frozen: nothing that happens to the network later changes the result. See
        :class:`~openbnns.nn.inference.CompiledInference`. ``precision`` is that of its products (:class:`Trainer`), by default
        the network's.

        >>> import numpy as np
        >>> from openbnns import nn
        >>> net = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2))
        >>> infer = net.compile_inference(3)
        >>> x = np.ones((3, 4), np.float32)
        >>> np.allclose(infer(x), net.eval()(x), atol=1e-6)
        True
        """
        from ..graph.checks import whole_number
        from .inference import CompiledInference

        size = whole_number(batch_size, "compile_inference: batch_size", 1)
        chosen = self._precision if precision is None else engines.check_precision(precision, "compile_inference")
        return CompiledInference(self, size, chosen)

    @spelled
    def profile(self, *inputs: Any, repeats: int | None = None) -> Profile:
        """Time, share, arithmetic and memory of every layer on these inputs, as a table; see :class:`Profile`.

        In training mode a step is measured, forward and backward without loss and optimizer, else a forward pass. It is
        run ``repeats`` times, by default for about a second. Weights, gradients, running statistics and the choices of
        dropout stay as they are.
        """
        from .profiling import profile

        if repeats is not None and (isinstance(repeats, bool) or not isinstance(repeats, int) or repeats < 1):
            raise ValueError(f"{type(self).__name__}.profile: repeats is {repeats!r}. Use a whole number, 1 or more.")
        if not inputs:
            raise TypeError(f"{type(self).__name__}.profile: pass the inputs of a call, profile(x).")
        return profile(self, self._inputs(inputs), repeats)

    # Using.

    @spelled
    def save_model(
        self,
        path: Any,
        *,
        task: Literal["classification", "multilabel", "regression"] | None = None,
        classes: Sequence[str] | None = None,
        card: ModelCard | None = None,
    ) -> None:
        """Write weights, architecture and whatever is known about samples and classes; :func:`nn.load_model` reads it.

        ``task`` and ``classes`` are what the outputs mean, for :meth:`predict`. ``card`` says everything else; a network that
        was loaded has one already. Any reader of ``.safetensors`` finds the weights in the file. Of
        classes of your own, and of what comes from :func:`nn.from_torch`, the file holds what ``forward`` records, for the shapes
        of samples that the network has met, so that ``load_model`` needs none of these classes. An :class:`nn.Function` of your
        own is code, which no file holds: a network that calls one is refused.
        """
        from dataclasses import replace

        from .files.model_file import ModelCard, save

        found = card or self._card or ModelCard()
        if task is not None:
            found = replace(found, task=task)
        if classes is not None:
            found = replace(found, classes=tuple(map(str, classes)))
        save(self, path, found)
        self._card = found

    @spelled
    def predict(self, samples: Any, *, batch_size: int = 256) -> Predictions:
        """The network's predictions for samples, in inference mode, in batches; see :class:`Predictions`.

        A network from :func:`nn.load_model` takes samples as they were before training: it scales and encodes them as the
        training samples were. Others take arrays, as a call does.

        >>> import numpy as np
        >>> from openbnns import nn
        >>> net = nn.Sequential(nn.Dropout(0.5), nn.Linear(1, bias=False)).build((2,))
        >>> net[1].weight.data[:] = 1
        >>> np.asarray(net.predict(np.float32([[1, 2], [3, 4]]))).tolist()
        [[3.0], [7.0]]
        """
        from .files.model_file import predict

        return predict(self, samples, batch_size)

    @property
    def model_card(self) -> ModelCard | None:
        """The model card of the file that the network was loaded from or saved to: task, classes, preparation."""
        return self._card

    def to_torch_state_dict(self) -> dict[str, Any]:
        """The weights as tensors that the same module of PyTorch loads; see :func:`openbnns.nn.to_torch_state_dict`."""
        from ..interop.torch import to_torch_state_dict

        return to_torch_state_dict(self)

    def __repr__(self) -> str:
        children = [(name, repr(child)) for name, child in self._children.items()]
        return nested(type(self).__name__, self.extra_repr(), children)

    def _repr_html_(self) -> str | None:
        """The table of the layers, for notebooks; until the network is built they show its text."""
        from .summary import table

        return table(self).html() if self.built else None


class Layer(Module):
    """A module that gives one value for values, and one array for arrays; type checkers know it."""

    if TYPE_CHECKING:

        @overload
        def __call__(self, *inputs: Tensor, **named: Tensor) -> Tensor: ...

        @overload
        def __call__(self, *inputs: Array, **named: Array) -> Array: ...

        @overload
        def __call__(self, *inputs: Any, **named: Any) -> Any: ...

        def __call__(self, *inputs: Any, **named: Any) -> Any: ...


def _noted(init: Callable[..., None]) -> Callable[..., None]:
    """A constructor that notes what it was called with: what a model file says about the layer."""

    @wraps(init)
    def make(self: Module, *given: Any, **named: Any) -> None:
        if not self._is_container:
            # Arguments of the class itself, not of its base classes.
            self.__dict__.setdefault("_made_with", (given, named))
        init(self, *given, **named)

    return make


def nested(name: str, options: str, children: Iterable[tuple[str, str]]) -> str:
    """A module with those that it holds, on lines of their own."""
    lines = [indent(f"({child}): {text}", "  ") for child, text in children]
    return "\n".join([f"{name}({options}", *lines, ")"]) if lines else f"{name}({options})"


def check_module(module: Any, who: str) -> None:
    if not isinstance(module, Module):
        hint = " Call it to make one, e.g. nn.ReLU()." if isinstance(module, type) else ""
        if not hint and callable(module):
            hint = " Call functions in forward() of a module of your own, or use a layer, such as nn.ReLU()."
        raise TypeError(f"{who} is {module!r}, which is not an nn.Module.{hint}")
