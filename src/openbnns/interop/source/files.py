"""Files with source code."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from ...files.safetensors import write_atomically
from ...graph.checks import whole_number
from ...nn.arguments import choose
from ...nn.exported import StoredArray, Written
from ...nn.module import Module
from ...nn.objective import read_losses
from ...nn.optimizer_base import Optimizer
from .code_memory import RESERVED
from .code_parts import BNNSCall, NetworkSource
from .network_code import contents, network_source

_DEFAULT_BATCH = {False: 1, True: 32}


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
    # Where arrays are, without the arrays: a view of a parameter keeps weights from being packed.
    arrays = [
        StoredArray(buffer.path, buffer.dtype, buffer.offset, buffer.contents.shape)
        for buffer in source.buffers
        if buffer.path and buffer.contents is not None
    ]
    return Written(paths, _rows(source), arrays, max(source.bytes["weights"], 1))


def _rows(source: NetworkSource) -> list[tuple[str, str]]:
    """Layers, and the function that makes or runs each."""
    calls = [(step.note, step.function) for step in source.predict.steps if isinstance(step, BNNSCall)]
    direct = dict.fromkeys(call for call in calls if call[1].startswith("BNNSDirect"))
    return [*((made.note, made.function) for made in source.filters), *direct]
