"""Networks for inference on bytes: calibration by samples, which layers take part, and what that costs and gains."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np

from .. import engines
from .._plural import plural
from .._table import Table
from ..graph.attention_projections import projections_apart
from ..graph.graph import Graph
from ..graph.operation import Operation
from ..graph.program import Program
from ..graph.quantization import Ranges, candidates, quantized
from ..graph.tensor import Array
from .module import Module
from .names import step_names
from .nested_arrays import parts_of
from .recording import NetworkGraph, recording_of

_CHOICES = ("auto", "none", "first", "last", "both")  # the ends of a network that are kept in float32
_TOLERANCE = 0.05  # of the difference of outputs, for "auto"
_TIMED = 7  # runs of each program
_WHO = "compile_inference"


@dataclass(frozen=True)
class LayerPrecision:
    """A layer with weights, and whether its products are those of bytes: ``precision`` is "int8" or "float32"."""

    name: str
    kind: str
    precision: str


@dataclass(frozen=True)
class Quantization:
    """The result of compiling a network for int8: precisions, accuracy and time.

    ``difference`` is the root mean square of what outputs differ by on the calibration samples, in units of that of the outputs
    in float32; ``agreement`` the share of samples whose largest output is the same one, or None if there are no classes.
    ``float32_seconds`` and ``int8_seconds`` are what a batch takes: the fastest of some runs by turns when it was compiled.
    """

    layers: tuple[LayerPrecision, ...]
    samples: int
    difference: float
    agreement: float | None
    float32_seconds: float
    int8_seconds: float

    @property
    def speedup(self) -> float:
        """The time of a batch in float32 over that in int8."""
        return self.float32_seconds / self.int8_seconds

    def describe(self) -> Table:
        """The layers with their precision, and what was lost and gained."""
        share = "" if self.agreement is None else f", the largest output is the same for {self.agreement:.2%}"
        footer = (
            f"outputs of {plural(self.samples, 'sample')} differ by {self.difference:.2%}{share}\n"
            f"{1e3 * self.int8_seconds:.3f} ms a batch, {1e3 * self.float32_seconds:.3f} ms in float32: {self.speedup:.2f} "
            "times as fast"
        )
        return Table(("layer", "kind", "precision"), [tuple(vars(row).values()) for row in self.layers], "", footer, 3)


def quantize(network: Module, batch_size: int, calibration: Any, float32_layers: str) -> tuple[Graph, Quantization]:
    """The graph of a frozen network on bytes, and the report."""
    samples = _Samples(network, batch_size, calibration)
    graph = recording_of(network, False).graph
    parts = projections_apart(graph.operations)
    quantizable = candidates(parts)
    if not quantizable:
        raise ValueError(
            f"{_WHO}: nothing of {type(network).__name__} can be computed from bytes: it has no linear layer, no "
            "convolution of signals or images with weights of its own, no attention of a value to itself and no product with a "
            "constant matrix. Use precision='float32'."
        )
    exact = Program(graph, graph.sizes_for(batch_size), training=False)
    ranges = Ranges(parts)
    observed = Program(graph.part(graph.inputs, parts, graph.outputs), exact.sizes, training=False)
    try:
        ranges.collect(lambda: samples.filled(observed))
    except FloatingPointError as error:
        raise ValueError(
            f"{_WHO}: {error}, so that bytes cannot stand for it. Check the weights, or pass other samples."
        ) from None
    wanted = samples.outputs(exact)
    best: tuple[float, list[Operation], NetworkGraph, Program, list[Array]] | None = None
    for kept in ("none", "first", "last", "both") if float32_layers == "auto" else (float32_layers,):
        chosen = _chosen(quantizable, kept)
        if not chosen and best is not None:
            continue
        operations = quantized(parts, graph.outputs, chosen, ranges)
        tried = graph.part(graph.inputs, operations, graph.outputs)
        program = Program(tried, graph.sizes_for(batch_size), training=False)
        outputs = samples.outputs(program)
        difference = _difference(outputs, wanted)
        if best is None or difference < best[0]:
            best = difference, chosen, tried, program, outputs
        if difference <= _TOLERANCE:
            break
    assert best is not None
    difference, chosen, tried, program, outputs = best
    if not chosen:
        raise ValueError(
            f"{_WHO}: float32_layers is {float32_layers!r}, which leaves none of the {plural(len(quantizable), 'layer')} that "
            "could be computed from bytes. Pass float32_layers='none', or use precision='float32'."
        )
    names = step_names(network, quantizable)
    layers = [
        LayerPrecision(name.path, name.kind, "int8" if op in chosen else "float32")
        for op, name in zip(quantizable, names, strict=True)
    ]
    seconds = _times(exact, program)
    agreement = _agreement(outputs, wanted)
    return tried, Quantization(tuple(dict.fromkeys(layers)), samples.count, difference, agreement, *seconds)


def check_options(precision: str, calibration: Any, float32_layers: str) -> None:
    """Raise an error for options that exclude each other, and warn if bytes are slow on this CPU."""
    if float32_layers not in _CHOICES:
        raise ValueError(
            f"{_WHO}: float32_layers is {float32_layers!r}. Choose 'auto', 'none', 'first', 'last' or 'both': the ends of the "
            "network that stay in float32."
        )
    if precision != engines.INT8:
        if calibration is not None:
            raise ValueError(
                f"{_WHO}: calibration is for precision='int8', but the precision is {precision!r}. Leave it out, or pass "
                "precision='int8'."
            )
        return
    if calibration is None:
        raise ValueError(
            f"{_WHO}: precision 'int8' needs to know which numbers come up inside the network, but calibration is None. Pass "
            "calibration=x with samples such as it will run on, for example a few hundred that it was trained on."
        )
    if engines._core is None or not engines._core.multiplies_bytes():
        kernels = (
            "has no compiled core" if engines._core is None else f"uses {engines._core.instruction_set()!r} without it"
        )
        warnings.warn(
            f"openbnns: precision 'int8' is fast on CPUs that multiply bytes four at a time (VNNI), but this process {kernels}: "
            "results are the same, but little faster than those of precision='float32', if at all. "
            "infer.quantization.describe() has both times.",
            RuntimeWarning,
            stacklevel=5,
        )


class _Samples:
    """Calibration samples, checked, as batches of the size that programs take."""

    def __init__(self, network: Module, batch_size: int, calibration: Any) -> None:
        arrays = [_numbers(part, i) for i, part in enumerate(parts_of(calibration))]
        counts = dict.fromkeys(map(len, arrays))
        if len(counts) != 1 or 0 in counts:
            got = "there are none" if not any(counts) else f"the inputs have {', '.join(map(str, counts))}"
            raise ValueError(
                f"{_WHO}: calibration needs samples, as many of each input of the network, but {got}. Pass a few hundred."
            )
        if not any(array.any() for array in arrays) and all(array.dtype.kind == "f" for array in arrays):
            raise ValueError(
                f"{_WHO}: calibration has nothing but zeros, which do not show the numbers that come up inside the network. Pass "
                "samples such as it will run on, for example a few hundred that it was trained on."
            )
        self.count, self._size, self._arrays = next(iter(counts)), batch_size, arrays
        self.shapes = tuple((batch_size, *array.shape[1:]) for array in arrays)
        if network._built is not None:
            self._check_shapes(network._built.graph)
        else:
            network._inputs([np.resize(a, shape) for a, shape in zip(arrays, self.shapes, strict=True)])

    def _check_shapes(self, graph: Graph) -> None:
        wanted = [value.concrete(graph.sizes_for(self._size)) for value in graph.inputs]
        if len(wanted) != len(self.shapes):
            raise ValueError(
                f"{_WHO}: calibration has {plural(len(self.shapes), 'array')}, but the network takes "
                f"{plural(len(wanted), 'input')}. Pass one array, or a tuple of one for each input."
            )
        for i, (got, expected) in enumerate(zip(self.shapes, wanted, strict=True)):
            if got != expected:
                raise ValueError(
                    f"{_WHO}: calibration has samples of shape {got[1:]} for input {i}, but the network takes {expected[1:]}. "
                    f"Pass an array of shape (samples, {', '.join(map(str, expected[1:]))})."
                )

    def filled(self, program: Program) -> Iterator[Program]:
        """The program with one batch after the other in its inputs; the last one is filled up with the first samples."""
        for first in range(0, self.count, self._size):
            rows = np.arange(first, first + self._size) % self.count
            for i, array in enumerate(self._arrays):
                program.fill(i, array[rows])
            yield program

    def outputs(self, program: Program) -> list[Array]:
        """The outputs for all samples, where their first axis counts them; others for each batch."""
        batches: list[list[Array]] = []
        for ready in self.filled(program):
            ready.forward()
            batches.append([np.array(output, np.float64) for output in ready.outputs])
        whole = [np.concatenate([np.atleast_1d(batch[i]) for batch in batches]) for i in range(len(batches[0]))]
        return [output[: self.count] if len(output) == len(batches) * self._size else output for output in whole]


def _numbers(given: Any, index: int) -> Array:
    array = np.asarray(given)
    if array.dtype.kind not in "fiub" or array.ndim < 1:
        raise TypeError(
            f"{_WHO}: calibration has {array.dtype} of shape {array.shape} for input {index}. Pass an array of numbers with the "
            "samples along the first axis."
        )
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        wrong = int(np.argwhere(~np.isfinite(array.reshape(len(array), -1)).all(1))[0, 0])
        raise ValueError(
            f"{_WHO}: calibration has NaN or infinity, first in sample {wrong} of input {index}, and bytes have no range then. "
            "Leave such samples out."
        )
    return array


def _chosen(operations: Sequence[Operation], kept: str) -> list[Operation]:
    first, last = kept in ("first", "both"), kept in ("last", "both")
    return list(operations[int(first) : len(operations) - int(last)])


def _difference(outputs: Sequence[Array], wanted: Sequence[Array]) -> float:
    wrong = sum(float(((a - b) ** 2).sum()) for a, b in zip(outputs, wanted, strict=True))
    whole = sum(float((b**2).sum()) for b in wanted)
    return math.sqrt(wrong / whole) if whole else math.sqrt(wrong)


def _agreement(outputs: Sequence[Array], wanted: Sequence[Array]) -> float | None:
    if len(wanted) != 1 or wanted[0].ndim != 2 or wanted[0].shape[1] < 2:
        return None
    return float((outputs[0].argmax(1) == wanted[0].argmax(1)).mean())


def _times(*programs: Program) -> list[float]:
    """The seconds that the fastest of some runs of each program takes, by turns."""
    times: list[list[float]] = [[] for _ in programs]
    weights = [engines.new_weights_version() for _ in programs]
    for turn in range(_TIMED + 2):
        for program, version, seconds in zip(programs, weights, times, strict=True):
            began = perf_counter()
            program.forward(version)
            if turn >= 2:  # the first ones prepare what others use
                seconds.append(perf_counter() - began)
    return [min(seconds) for seconds in times]
