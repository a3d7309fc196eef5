"""Files with source code."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ...graph.checks import whole_number
from ...graph.tensor import Array
from ...nn.arguments import choose
from ...nn.files.safetensors import write_atomically
from ...nn.module import Module
from ...nn.objective import read_losses
from ...nn.optimizer_base import Optimizer
from .code_memory import RESERVED
from .code_parts import BNNSCall, NetworkSource
from .network_code import contents, network_source

_DEFAULT_BATCH = {False: 1, True: 32}


class Written:
    """The written files: ``paths``, and as text which layer became which calls of BNNS."""

    def __init__(self, paths: list[Path], source: NetworkSource) -> None:
        self.paths, self._bytes = paths, max(source.bytes["weights"], 1)
        # Where they are, without the arrays: a view of a parameter keeps weights from being packed.
        self._weights = [
            (buffer.path, buffer.dtype, buffer.offset, buffer.contents.shape)
            for buffer in source.buffers
            if buffer.path and buffer.contents is not None
        ]
        self.rows = [(f.note, f.function) for f in source.filters]
        calls = [(step.note, step.function) for step in source.predict.steps if isinstance(step, BNNSCall)]
        self.rows += dict.fromkeys(call for call in calls if call[1].startswith("BNNSDirect"))

    def __iter__(self) -> Iterator[Path]:
        return iter(self.paths)

    def __repr__(self) -> str:
        return "\n".join([self.table(), *(f"written: {path}" for path in self.paths)])

    def read(self, path: Any) -> dict[str, Array]:
        """The parameters and buffers in a file of weights that the code has saved, for ``load_state_dict``."""
        data = Path(path).read_bytes()
        if len(data) != self._bytes:
            raise ValueError(f"{path} has {len(data)} bytes, but the weights of this network have {self._bytes}.")
        texts = {}
        for name, dtype, offset, shape in self._weights:
            array = np.frombuffer(data, dtype, math.prod(shape), offset)
            texts[name] = array.reshape(shape).copy()
        return texts

    def table(self) -> str:
        """Layers, and what makes them."""
        width = max((len(note) for note, _ in self.rows), default=0)
        return "\n".join(f"{note.ljust(width)}  {function}" for note, function in self.rows)


def to_c(
    network: Module, folder: Any, *, training: bool, name: str, batch_size: int | None, loss: Any, optimizer: Any
) -> Written:
    """Write ``name.c``, ``name.h`` and ``name.weights``; see :meth:`Module.to_c`."""
    from .c_code import CWriter

    source = _source("to_c", network, training, name, batch_size, loss, optimizer)
    writer = CWriter(source)
    return _write(folder, source, {f"{name}.c": writer.body(), f"{name}.h": writer.header()})


def to_swift(
    network: Module, folder: Any, *, training: bool, name: str, batch_size: int | None, loss: Any, optimizer: Any
) -> Written:
    """Write ``name.swift`` and ``name.weights``; see :meth:`Module.to_swift`."""
    from .swift_code import SwiftWriter

    source = _source("to_swift", network, training, name, batch_size, loss, optimizer)
    return _write(folder, source, {f"{name}.swift": SwiftWriter(source).text()})


def _source(
    who: str, network: Module, training: bool, name: str, batch_size: int | None, loss: Any, optimizer: Any
) -> NetworkSource:
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise ValueError(f"{who}: name is {name!r}. It begins all names in the code: use small letters, digits and _.")
    if name in RESERVED:
        raise ValueError(
            f"{who}: name is {name!r}, which the code needs for itself or C and Swift reserve. Use another."
        )
    if not network.built:
        raise RuntimeError(
            f"{who}: the network is not built, so its sizes are not known. Call build(...) or run it first."
        )
    batch = _DEFAULT_BATCH[training] if batch_size is None else whole_number(batch_size, f"{who}: batch_size", 1)
    if not training:
        if loss is not None or optimizer is not None:
            raise ValueError(f"{who}: loss and optimizer are for a training step. Pass training=True, too.")
        return network_source(who, network, name, batch, None, None)
    if loss is None or optimizer is None:
        raise ValueError(f"{who}: training=True needs a loss and an optimizer: loss='cross_entropy', optimizer='adam'.")
    from ...nn.optimizers import NAMED

    keys, losses = read_losses(loss, who)
    if len(keys) != 1:
        raise ValueError(f"{who}: there are {len(keys)} losses, but the training step has one. Pass one loss.")
    chosen: Optimizer = choose(optimizer, NAMED, Optimizer, f"{who}: optimizer")
    chosen.attach_network(network.parameters())
    return network_source(who, network, name, batch, losses[0], chosen)


def _write(folder: Any, source: NetworkSource, texts: dict[str, str]) -> Written:
    to = Path(folder)
    to.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, text in texts.items():
        paths.append(to / name)
        write_atomically(paths[-1], text.encode())
    paths.append(to / f"{source.name}.weights")
    write_atomically(paths[-1], contents(source) or b"\0")
    return Written(paths, source)
