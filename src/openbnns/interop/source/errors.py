"""The error for networks that BNNS alone cannot run."""

from __future__ import annotations

from collections.abc import Sequence


class NotInBNNS(ValueError):
    """An error for a network with operations that no call of BNNS computes. ``layers`` lists each such layer with the
    reason."""

    def __init__(self, who: str, layers: Sequence[tuple[str, str]]) -> None:
        self.layers = list(layers)
        listed = "".join(f"\n  {name}: {reason}" for name, reason in self.layers)
        super().__init__(f"{who}: BNNS cannot run this network by itself:{listed}")


class Refused(Exception):
    """The reason why a call cannot be written as source code."""
