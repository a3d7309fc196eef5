"""The table of layers and functions that can be converted."""

from __future__ import annotations

from ._layers import KINDS
from .compositions import COMPOSED
from .operations import GROUPS


def supported() -> dict[str, tuple[str, ...]]:
    """Names of the modules and functions that :func:`openbnns.nn.from_torch` converts, by kind.

    ``nn.Linear`` is a module of ``torch.nn``, ``F.relu`` a function of ``torch.nn.functional``; other names stand for functions
    of ``torch`` and methods of tensors alike. Modules of any other class are looked into.

    >>> from openbnns import nn
    >>> "nn.Conv2d" in nn.pytorch.supported()["modules"], "einsum" in nn.pytorch.supported()["products"]
    (True, True)
    """
    modules = tuple(f"nn.{name}" for name in sorted([*KINDS, "Sequential", "ModuleList", "ModuleDict"]))
    names = {group: tuple(sorted([*names, *COMPOSED.get(group, ())])) for group, names in GROUPS.items()}
    return {"modules": modules, **names}


def table() -> str:
    """The same in Markdown, as the documentation has it. Operators and changes in place stand for their function."""
    lines = ["| kind | names |", "|---|---|"]
    for group, names in supported().items():
        shown = [name for name in names if not name.startswith("__") and not name.endswith("_")]
        lines.append(f"| {group} | {' '.join(f'`{name}`' for name in shown)} |")
    return "\n".join(lines)
