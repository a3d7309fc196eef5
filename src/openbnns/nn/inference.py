"""Frozen networks for inference on batches of a fixed size."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from threading import Lock, local
from typing import Any

import numpy as np

from .. import engines
from .._plural import plural
from ..graph.checks import whole_number
from ..graph.graph import Graph
from ..graph.program import Program
from ..graph.structure import Structure, flatten
from ..graph.tensor import Array
from .module import Module
from .quantized_inference import Quantization, check_options, quantize
from .recording import Recording, forget_recordings, input_shapes, recording_of

_WHO = "compile_inference"


class CompiledInference:
    """A network in inference mode: ``infer(x)`` runs it on a batch. :meth:`Module.compile_inference` makes one.

    It has copies of the parameters and of the statistics of normalizations, as they were when it was made. These never
    change, so that

    * batch normalizations are folded into the convolutions and linear layers before them, dropout is left out,
    * weights are kept in the order in which kernels read them, and
    * all native calls that follow each other, mostly the whole network, are one.

    Results are those of ``net.eval()(x)`` but for the rounding of the folded weights: a relative 1e-6 or so per layer, and
    none at all without batch normalization. With precision "int8" they differ more, and ``quantization`` says by how much.

    ``inputs`` and ``outputs`` are the memory of the calling thread's calls. What is in ``inputs`` already is not copied, and
    neither are results with ``out=infer.outputs``; the next call of the thread overwrites them. Threads may call at the same
    time: each has memory of its own.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> net = nn.Linear(2, 1, bias=False)
    >>> net.weight.data[:] = 1
    >>> infer = net.compile_inference(1)
    >>> net.weight.data[:] = 100  # not seen
    >>> infer(np.float32([[3, 4]])).tolist()
    [[7.0]]
    >>> infer.inputs[0][:] = 5
    >>> infer(*infer.inputs, out=infer.outputs) is infer.outputs, infer.outputs.tolist()
    (True, [[10.0]])
    """

    quantization: Quantization | None = None
    """With precision "int8": which layers are computed from bytes, the accuracy lost and the time gained."""

    def __init__(
        self,
        network: Module,
        batch_size: int,
        precision: str = engines.FLOAT32,
        calibration: Any = None,
        float32_layers: str = "auto",
    ) -> None:
        self.batch_size, self.precision = batch_size, precision
        of_bytes = precision == engines.INT8
        self._frozen = _frozen_copy(network, engines.FLOAT32 if of_bytes else precision)
        self._quantized: Graph | None = None
        if of_bytes:
            self._quantized, self.quantization = quantize(self._frozen, batch_size, calibration, float32_layers)
        self._weights = engines.new_weights_version()
        self._making = Lock()
        self._own = local()
        if self._frozen.built:
            self._program()

    def __repr__(self) -> str:
        return f"CompiledInference({type(self._frozen).__name__}, batch_size={self.batch_size})"

    @property
    def inputs(self) -> list[Array]:
        """The arrays that the calls of this thread read the inputs from."""
        return self._program().inputs

    @property
    def outputs(self) -> Any:
        """The arrays that the calls of this thread write the results to, as ``forward`` gives them."""
        self._program()
        return self._own.shown

    def __call__(self, *inputs: Any, out: Any = None, **named: Any) -> Any:
        """Run the network on a batch. Inputs are arrays, by position or by the names of ``forward``'s arguments.

        The result is a new array, or what ``forward`` gives with new arrays in it. With ``out``, float32 arrays of its
        shape in the same structure, or :attr:`outputs`, it is written there; gives ``out``.
        """
        given = self._frozen._in_order(inputs, named) if named else inputs
        program = getattr(self._own, "program", None) or self._program(given)
        targets = None if out is None or out is self._own.shown else self._checked_out(out, program)
        if program.fits(given):
            program.forward_on(given, self._weights)
        else:
            self._fill(program, given)
            program.forward(self._weights)
        if targets is not None:
            for target, result in zip(targets, program.outputs, strict=True):
                np.copyto(target, result)
        if out is not None:
            return out
        structure: Structure = self._own.structure
        return structure.fill([array.copy() for array in program.outputs])

    @property
    def _recording(self) -> Recording:
        return recording_of(self._frozen, False)

    @property
    def _structure(self) -> Structure:
        return self._recording.structure

    def _program(self, given: Sequence[Any] | None = None) -> Program:
        """The program of this thread; ``given`` are inputs whose shapes tell what the network is to be built for."""
        program: Program | None = getattr(self._own, "program", None)
        if program is None:
            with self._making:
                if not self._frozen.built:
                    if given is None:
                        raise RuntimeError(
                            f"{_WHO}: the shape of samples is not known yet. Build the network, or call this on a batch, first."
                        )
                    self._build(given)
                graph = self._recording.inference_graph if self._quantized is None else self._quantized
                program = Program(graph, graph.sizes_for(self.batch_size), training=False)
            self._own.structure = self._structure
            self._own.shown = self._structure.fill(program.outputs)
            self._own.program = program
        return program

    def _build(self, given: Sequence[Any]) -> None:
        arrays = [_as_numbers(x, i) for i, x in enumerate(given)]
        for i, array in enumerate(arrays):
            if array.ndim < 1 or len(array) != self.batch_size:
                raise self._misfit(i, array, "N" if array.ndim < 1 else array.shape[1:])
        self._frozen._inputs(arrays)

    def _fill(self, program: Program, given: Sequence[Any]) -> None:
        targets = program.inputs
        if len(given) != len(targets):
            raise TypeError(f"{_WHO}: the network takes {plural(len(targets), 'input')}, {len(given)} given.")
        arrays = [x if isinstance(x, np.ndarray) else _as_numbers(x, i) for i, x in enumerate(given)]
        for i, (array, target) in enumerate(zip(arrays, targets, strict=True)):
            if array.shape != target.shape:
                raise self._misfit(i, array, target.shape[1:])
            if array.dtype != target.dtype:
                _as_numbers(array, i)
        for i, (array, target) in enumerate(zip(arrays, targets, strict=True)):
            if array is not target:
                program.fill(i, array)

    def _misfit(self, index: int, array: Array, sample: Any) -> ValueError:
        wanted = (self.batch_size, *sample) if isinstance(sample, tuple) else sample
        return ValueError(
            f"{_WHO}: input {index} has shape {array.shape}, but {wanted} is needed: this is for batches of "
            f"{self.batch_size}. Fill a smaller batch up with any samples, or compile for its size, too."
        )

    def _checked_out(self, out: Any, program: Program) -> list[Array]:
        targets, structure = flatten(out)
        if structure != self._structure:
            raise ValueError(f"{_WHO}: out must be {self._structure.describe()}, as forward gives it.")
        for target, result in zip(targets, program.outputs, strict=True):
            if not isinstance(target, np.ndarray) or target.shape != result.shape or target.dtype != result.dtype:
                got = (
                    f"{target.dtype} of shape {target.shape}"
                    if isinstance(target, np.ndarray)
                    else f"a {type(target).__name__}"
                )
                raise ValueError(f"{_WHO}: out must be {result.dtype} of shape {result.shape}, not {got}.")
            if not target.flags.writeable:
                raise ValueError(f"{_WHO}: out is read-only. Pass an array that can be written.")
        return targets


def compile_inference(
    network: Module, batch_size: Any, precision: str | None, calibration: Any, float32_layers: str
) -> CompiledInference:
    """See ``Module.compile_inference``."""
    size = whole_number(batch_size, f"{_WHO}: batch_size", 1)
    network._require_samples(size, _WHO)
    chosen = network._precision if precision is None else precision
    engines.check_precision(chosen, _WHO, engines.INFERENCE_PRECISIONS)
    check_options(chosen, calibration, float32_layers)
    return CompiledInference(network, size, chosen, calibration, float32_layers)


def _frozen_copy(network: Module, precision: str) -> Module:
    """A private copy, built for inference."""
    network._require_built(_WHO)
    for parameter in network.parameters():
        parameter.make(parameter.shape)  # now, so that both have the same values
    shapes = None if network._built is None else input_shapes(network)
    try:
        copied = deepcopy(network).eval()
    except Exception as error:
        raise TypeError(
            f"{_WHO}: {type(network).__name__} cannot be copied ({type(error).__name__}: {error}). Keep what cannot be copied "
            "out of its attributes."
        ) from error
    for parameter in copied.parameters():
        parameter.bind_grad(None)
        parameter.requires_grad = False
    forget_recordings(copied)
    copied._frozen = True
    copied._precision = precision
    if shapes is not None:
        recording_of(copied, False, shapes)
    return copied


def _as_numbers(x: Any, index: int) -> Array:
    array = np.asarray(x)
    if array.dtype.kind not in "fiub":
        raise TypeError(f"{_WHO}: input {index} is {array.dtype}. Pass an array of numbers.")
    return array
