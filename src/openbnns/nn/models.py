"""Ready networks, and networks from a TOML file."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

from .._listing import of_module as _of_module
from .._spelling import nearest
from ..files import memory_limit
from ..files.checked_json import ModelError
from ..files.memory_limit import size_text
from ..files.untrusted import open_regular
from .containers import Sequential
from .files.layer_file import Maker, ParameterBudget, Rows
from .module import Module
from .recording import recorded_graph


def mlp(outputs: int) -> Sequential:
    """Two hidden layers of 64 and 32 units.

    >>> from openbnns import nn
    >>> sum(p.size for p in nn.models.mlp(10).build((64,)).parameters())
    6570
    """
    from . import Flatten, Linear, ReLU

    return Sequential(Flatten(), Linear(64), ReLU(), Linear(32), ReLU(), Linear(outputs))


def tabular(outputs: int, *, width: int = 64, depth: int = 2, dropout: float = 0.2) -> Sequential:
    """A residual network with batch normalization and dropout, for rows of a table; ``depth`` is its number of blocks.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.models.tabular(3)(np.zeros((2, 7), np.float32)).shape
    (2, 3)
    """
    from . import BatchNorm1d, Dropout, Flatten, Linear, ReLU, Residual

    def block() -> Residual:
        return Residual(
            BatchNorm1d(), Linear(2 * width), ReLU(), Dropout(dropout), Linear(width), Dropout(dropout)
        )  # fmt: skip

    blocks = [block() for _ in range(depth)]
    return Sequential(Flatten(), Linear(width), *blocks, BatchNorm1d(), ReLU(), Linear(outputs))


def cnn(outputs: int) -> Sequential:
    """Three convolutions with batch normalization, for small images.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.models.cnn(10)(np.zeros((2, 1, 28, 28), np.float32)).shape
    (2, 10)
    """
    from . import BatchNorm2d, Conv2d, Dropout, Flatten, Linear, MaxPool2d, ReLU

    return Sequential(
        Conv2d(32, 3, padding=1, bias=False), BatchNorm2d(), ReLU(),
        Conv2d(32, 3, padding=1, bias=False), BatchNorm2d(), ReLU(), MaxPool2d(2),
        Conv2d(64, 3, padding=1, bias=False), BatchNorm2d(), ReLU(), MaxPool2d(2),
        Flatten(), Dropout(0.3), Linear(outputs),
    )  # fmt: skip


def transformer(outputs: int) -> Sequential:
    """Two transformer encoder layers over the rows of an image, or over a sequence (length, features).

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.models.transformer(10)(np.zeros((2, 1, 8, 8), np.float32)).shape
    (2, 10)
    """
    from . import Flatten, Linear, TransformerEncoderLayer

    return Sequential(
        Rows(), Linear(32), TransformerEncoderLayer(32, 4, dim_feedforward=64, dropout=0.1),
        TransformerEncoderLayer(32, 4, dim_feedforward=64, dropout=0.1), Flatten(), Linear(outputs),
    )  # fmt: skip


NAMED: dict[str, Callable[[int], Sequential]] = {
    "mlp": mlp,
    "tabular": tabular,
    "cnn": cnn,
    "transformer": transformer,
}

_LARGEST_FILE = 2**24


def from_file(path: str | Path, outputs: int = 0) -> Sequential:
    """A network from a TOML file.

    ::

        [[layers]]
        type = "Conv2d"
        out_channels = 16
        kernel_size = 3

        [[layers]]
        type = "Residual"
        body = [{ type = "Conv2d", out_channels = 16, kernel_size = 3, padding = 1 }, { type = "ReLU" }]

    ``out_features = "classes"`` stands for the number of classes of the data. Parameters that take more than 1 GiB are refused
    before memory is taken for them, unless ``OPENBNNS_MEMORY_LIMIT`` says otherwise.
    """
    import tomllib

    try:
        with open_regular(path, ModelError) as (file, size):
            if size > _LARGEST_FILE:
                raise ModelError(f"{path}: has {size_text(size)}, too much for a description of layers.")
            text = file.read().decode()
    except OSError as error:
        raise ModelError(f"{path}: cannot be read ({error.strerror}).") from None
    except UnicodeDecodeError as error:
        raise ModelError(f"{path}: is not valid TOML: {error}.") from None
    try:
        table = tomllib.loads(text)
    except (ValueError, ArithmeticError, RecursionError) as error:  # dates, numbers and depths that do not exist
        raise ModelError(f"{path}: is not valid TOML: {error}.") from None
    for name in table:
        if name not in ("name", "layers"):
            raise ModelError(f"{path}: unknown field {name!r}.{nearest(name, ('name', 'layers'))}")
    parts = table.get("layers")
    if not isinstance(parts, list) or not parts:
        raise ModelError(f"{path}: has no [[layers]]. Give at least one, with a field type.")
    make = Maker(outputs, budget=ParameterBudget(str(path)))
    return Sequential(*(make.layer(part, f"{path}: layers[{i}]", str(i)) for i, part in enumerate(parts)))


def require_room(network: Module, source: str) -> None:
    """Refuse a network from a file whose layers give more for a single sample than the limit for memory allows."""
    outputs = [operation.output.shape[1:] for operation in recorded_graph(network).operations]
    largest = max(outputs, key=math.prod, default=())
    memory_limit.check(
        4 * sum(map(math.prod, outputs)),
        f"{source}: what the layers give for one sample, up to {largest} numbers,",
        ModelError,
    )


__all__ = ["NAMED", "ModelError", "cnn", "from_file", "mlp", "tabular", "transformer"]

__dir__ = _of_module(__name__)
