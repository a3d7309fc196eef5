"""What every preparation does."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from ....graph.tensor import Array


class Preparation(ABC):
    """Turns samples as people have them into the numbers that a network takes, always in the same way.

    It is made from the training samples alone and stored in the model file.
    """

    kind: str

    @abstractmethod
    def apply(self, samples: Any, who: str = "predict") -> Array:
        """The samples as the network takes them: (N, ...) of float32."""

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """Everything about it, as plain JSON."""

    @abstractmethod
    def said(self) -> list[str]:
        """What it does, in sentences for people."""

    def formulas(self) -> list[str]:
        """How each number that the network takes is computed, where they differ, for programs that do it themselves."""
        return []
