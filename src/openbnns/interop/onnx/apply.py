"""ONNX's operators on tensors, for other formats whose operations are the same: constants are folded, all else is recorded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...graph.sizes import Size
from ..converted.tensors import ForeignTensor
from ._call import Call
from ._file import NEWEST, Node
from ._network import result_of


def apply(
    op: str, *tensors: ForeignTensor | None, outputs: int = 1, freed: Mapping[int, Size] | None = None, cells: Any = None,
    **attributes: Any,
) -> Any:  # fmt: skip
    """The result of an operator of the newest version, or a tuple of ``outputs`` if there are several.

    ``freed`` are sizes that are free here though a file has one number for them, by that number; ``cells`` are the weights of
    recurrent cells, one :class:`~openbnns.interop.onnx.operators.cells.Cells` for each direction.
    """
    given = list(tensors)
    while given and given[-1] is None:
        given.pop()
    held = {name: tuple(value) if isinstance(value, list) else value for name, value in attributes.items()}
    node = Node("", op, ("x",) * len(given), tuple(map(str, range(outputs))), held, 0)
    results = result_of(Call(node, NEWEST, freed or {}, cells), given)
    return results[0] if outputs == 1 else results[:outputs]
