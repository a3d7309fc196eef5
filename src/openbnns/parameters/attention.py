"""Options and sizes of multihead attention."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Options:
    """zero_row appends a key and value of 0; dropout acts if 0 < dropout < 1.

    masked_rows_are_zero gives probability 0 to all keys of a row in which every key is masked, instead of NaN.
    """

    zero_row: bool = False
    dropout: float = 0.0
    masked_rows_are_zero: bool = False


@dataclass(frozen=True)
class Sizes:
    """The sizes of one sample, and the memory that follows from them, in elements."""

    target: int
    source: int
    model: int
    key: int
    value: int
    heads: int
    attention_bias: bool = False
    zero_row: bool = False

    @property
    def source_rows(self) -> int:
        """S' = S + 1 with attention bias rows + 1 with a zero row."""
        return self.source + self.attention_bias + self.zero_row

    def projection_elements(self, batch: int) -> int:
        """Qh, Kt, Vt and the concatenated heads: N H (T K + S' K + S' V + T V)."""
        return batch * self.heads * (self.target + self.source_rows) * (self.key + self.value)

    def probability_elements(self, batch: int) -> int:
        """P, or any array of its shape: N H T S'."""
        return batch * self.heads * self.target * self.source_rows

    def linear_cache_elements(self, batch: int) -> int:
        """A cache that grows with T and S only: projections, and one log(sum(exp(R))) per row to recompute P."""
        return self.projection_elements(batch) + batch * self.heads * self.target
