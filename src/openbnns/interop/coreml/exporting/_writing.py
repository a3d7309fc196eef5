"""Packages with ML programs."""

from __future__ import annotations

import io
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from ....graph.graph import Graph
from ....graph.sizes import Size, is_same_shape, number_of
from ....nn.data.preprocessing.arrays import ArrayPreparation
from ....nn.data.preprocessing.images import ImagePreparation
from ....nn.data.preprocessing.tables import TablePreparation
from ....nn.files.model_file import ModelCard
from ....nn.module import Module
from ....nn.names import argument_names, step_names
from ....nn.recording import input_shapes, separate_graph
from . import _functions, _layers, _recurrent, _sequences, _shapes  # noqa: F401  (each says what it writes)
from ._builder import Builder, Refused, Var

_MOST_SAMPLES = 1024  # that a program with a flexible batch says it takes
PRECISIONS = ("float32", "float16")


class NotInCoreML(ValueError):
    """A network has layers that cannot be part of an ML program. ``layers`` lists each with the reason."""

    def __init__(self, layers: Sequence[tuple[str, str]]) -> None:
        self.layers = list(layers)
        listed = "".join(f"\n  {name}: {reason}" for name, reason in self.layers)
        super().__init__(f"to_coreml: this network cannot be written as an ML program:{listed}")


class Package:
    """What was written: its ``path``, and which layer became which operations (``rows``)."""

    def __init__(self, path: Path, rows: list[tuple[str, str]]) -> None:
        self.path, self.rows = path, rows

    def table(self) -> str:
        """Layers, and what became of them."""
        width = max((len(layer) for layer, _ in self.rows), default=0)
        return "\n".join(f"{layer.ljust(width)}  {became}" for layer, became in self.rows)

    def __repr__(self) -> str:
        return f"{self.table()}\nwritten: {self.path}"


def coremltools() -> Any:
    """The package, or an error that says how to get it."""
    try:
        with _quiet():
            return import_module("coremltools")
    except ImportError as error:
        raise ImportError(f'Core ML packages need coremltools: pip install "openbnns[coreml]". ({error})') from None


@contextmanager
def _quiet() -> Iterator[None]:
    """Without what coremltools says about other frameworks, and about running models, which Linux cannot."""
    import logging

    logger = logging.getLogger("coremltools")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(), redirect_stderr(io.StringIO()):  # where it draws progress bars
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


def to_coreml(
    network: Module, path: Any, *, precision: str, batch_size: int | None, classes: Sequence[str] | None
) -> Package:
    """Write an ML program; see :meth:`Module.to_coreml`."""
    to = Path(path)
    if to.suffix != ".mlpackage":
        raise ValueError(f"to_coreml: the name is {to.name!r}. An ML program is a package: end it in .mlpackage.")
    if precision not in PRECISIONS:
        raise ValueError(f"to_coreml: precision is {precision!r}. Use one of {', '.join(PRECISIONS)}.")
    if not network.built:
        raise RuntimeError("to_coreml: the network is not built, so its sizes are not known. Call build(...) first.")
    card = network.model_card or ModelCard()
    labels = list(classes if classes is not None else card.classes if card.task == "classification" else ())
    samples = 1 if labels and batch_size is None else batch_size  # a classifier has one answer
    graph, _ = separate_graph(network, input_shapes(network, samples), training=False)
    if labels and (len(graph.outputs) != 1 or not is_same_shape(graph.output.shape[1:], (len(labels),))):
        raise ValueError(
            f"to_coreml: there are {len(labels)} classes, but the network gives {graph.output.shape[1:]}. Pass one for each "
            "output."
        )
    ct = coremltools()
    with _quiet():
        return _Writing(ct, network, graph, card, precision, samples is None, labels).write(to)


class _Writing:
    def __init__(
        self, ct: Any, network: Module, graph: Graph, card: ModelCard, precision: str, flexible: bool,
        labels: list[str],
    ) -> None:  # fmt: skip
        self.ct, self.network, self.graph, self.card = ct, network, graph, card
        self.precision, self.labels = precision, labels
        self.sizes: Mapping[str, str | int] = graph.sizes.without_guards() if flexible else graph.sizes.numbers
        self.names = argument_names(network, len(graph.inputs))
        table = card.preparation
        self.preparation = table.as_arrays() if isinstance(table, TablePreparation) else table

    def write(self, to: Path) -> Package:
        ct, mil = self.ct, import_module("coremltools.converters.mil.mil")
        program, target = mil.Program(), ct.target.iOS16
        kinds = [mil.types.fp32 if value.dtype == np.float32 else mil.types.int32 for value in self.graph.inputs]
        shapes = self._shapes(lambda: mil.get_new_symbol())
        given = {
            name: mil.Builder.placeholder(shape, dtype=kind)
            for name, shape, kind in zip(self.names, shapes, kinds, strict=True)
        }
        with mil.Function(given, opset_version=target) as function:
            inputs = [function.inputs[name] for name in self.names]
            outputs, rows = self._body(Builder(mil.Builder, self.sizes), inputs)
            function.set_outputs(outputs)
            program.add_function("main", function)
        options: dict[str, Any] = {}
        if self.labels:
            options["classifier_config"] = ct.ClassifierConfig(self.labels)
        if any(isinstance(size, str) for size in self.sizes.values()):
            ranges = self._shapes(lambda: ct.RangeDim(lower_bound=1, upper_bound=_MOST_SAMPLES, default=1))
            options["inputs"] = [
                ct.TensorType(name=name, shape=shape, dtype=None if value.dtype == np.float32 else np.int32)
                for name, shape, value in zip(self.names, ranges, self.graph.inputs, strict=True)
            ]
        precision = ct.precision.FLOAT16 if self.precision == "float16" else ct.precision.FLOAT32
        model = ct.convert(
            program, source="milinternal", convert_to="mlprogram", minimum_deployment_target=target,
            compute_precision=precision, skip_model_load=True, **options,
        )  # fmt: skip
        self._describe(model)
        _save(model, to)
        return Package(to, rows)

    def _shapes(self, flexible: Callable[[], Any]) -> list[tuple[Any, ...]]:
        """The shapes of the inputs, with something new for each flexible size."""
        made: dict[str | int, Any] = {size: flexible() for size in {*self.sizes.values()} if isinstance(size, str)}
        chosen = {name: made.get(size, size) for name, size in self.sizes.items()}
        return [tuple(chosen[str(n)] if isinstance(n, Size) else n for n in value.shape) for value in self.graph.inputs]

    def _body(self, b: Builder, inputs: list[Var]) -> tuple[list[Var], list[tuple[str, str]]]:
        rows: list[tuple[str, str]] = []
        problems: dict[tuple[str, str], None] = {}
        for value, var in zip(self.graph.inputs, inputs, strict=True):
            b.name_next("preparation")
            b.begin(value, self._prepared(b, var))
            if b.made:
                rows.append(("preparation", ", ".join(b.made)))
        operations = self.graph.operations
        for operation, place in zip(operations, step_names(self.network, operations), strict=True):
            name = f"{place.path}: {place.kind}" if place.path else place.kind
            b.name_next(place.path.split(", ")[0] or place.kind)
            try:
                b.write(operation)
                rows.append((name, ", ".join(b.made) or "nothing"))
            except Refused as reason:
                problems[name, f"{reason}."] = None
                for value in operation.outputs:  # so that what follows is looked at, too
                    b.set(value, np.zeros([number_of(n) for n in value.shape], np.float32))
        if problems:
            raise NotInCoreML(list(problems))
        b.name_next("result")
        outputs = [self._result(b, b.get(value), i) for i, value in enumerate(self.graph.outputs)]
        return outputs, rows

    def _prepared(self, b: Builder, x: Var) -> Var:
        """What the model file says is done to samples, as far as they are numbers."""
        preparation = self.preparation
        if isinstance(preparation, ImagePreparation) or (
            isinstance(preparation, ArrayPreparation) and preparation.pixels
        ):
            return b("mul", x=x, y=np.float32(1 / 255))
        if isinstance(preparation, ArrayPreparation) and preparation.mean is not None and preparation.std is not None:
            centered = b("sub", x=x, y=preparation.mean.astype(np.float32))
            return b("real_div", x=centered, y=preparation.std.astype(np.float32))
        return x

    def _result(self, b: Builder, y: Var, index: int) -> Var:
        if self.labels:
            return b("softmax", x=y, axis=-1)
        if self.card.target_mean is not None and self.card.target_std is not None and index == 0:
            scaled = b("mul", x=y, y=np.array(self.card.target_std, np.float32))
            y = b("add", x=scaled, y=np.array(self.card.target_mean, np.float32))
        name = "output" if len(self.graph.outputs) == 1 else f"output_{index}"
        return b.mb.identity(x=y, name=b.unique(name))

    def _describe(self, model: Any) -> None:
        card = self.card
        model.short_description = f"{type(self.network).__name__}, written by OpenBNNS"
        if card.preparation is not None:
            model.user_defined_metadata["openbnns.preparation"] = " ".join(card.preparation.said())
            if self.preparation is None:
                model.user_defined_metadata["openbnns.features"] = "\n".join(card.preparation.formulas())
        if card.task is not None:
            model.user_defined_metadata["openbnns.task"] = card.task


def _save(model: Any, to: Path) -> None:
    """Beside its place first, so that a package is there whole or not at all."""
    to.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=to.parent, prefix=f".{to.stem}-") as folder:
        made = Path(folder) / to.name
        model.save(str(made))
        if to.exists():
            to.rename(Path(folder) / "before")
        shutil.move(str(made), to)
