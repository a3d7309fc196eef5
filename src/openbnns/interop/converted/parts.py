"""Modules that hold weights under the names that they have elsewhere."""

from __future__ import annotations

from typing import Any

from ...graph.parameter import Parameter
from ...nn.module import Module


class ForeignPart(Module):
    """A part of a network from elsewhere that is no layer of ours: it holds layers and parameters under their names."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self._kind = kind

    def place(self, name: str, part: Any) -> None:
        """Hold a module, a parameter or an array under a name, which may be one that modules use for something else."""
        # Not hasattr(self, name): for a name that is not there a module looks for similar ones, among thousands.
        free = name not in vars(self) and not hasattr(type(self), name) and not name.startswith("_")
        if isinstance(part, (Module, Parameter)) and free and name.isidentifier():
            setattr(self, name, part)
        elif isinstance(part, (Module, Parameter)):
            table: dict[str, Any] = self._children if isinstance(part, Module) else self._parameters
            table[name] = part
        elif free:
            self.register_buffer(name, part)
        else:
            self._buffers[name] = part

    def extra_repr(self) -> str:
        return f"{self._kind}," if self._children else self._kind
