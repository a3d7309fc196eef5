"""The results of a gradient check, as rows and as a table."""

from __future__ import annotations

from dataclasses import dataclass, field

from .._table import Table

SHOWN = 24
"""Rows of a table; of more, the worst are shown."""


@dataclass(frozen=True)
class GradientRow:
    """One comparison.

    Of a layer: the gradient of a tensor along one direction. Of a network: of all comparisons for one tensor the worst,
    at the entry ``index``, or along a direction through all of them if that is None. ``engine_error`` is how far the
    gradient of the engine in use is from that in float64, relative to its norm.
    """

    name: str
    analytic: float
    numeric: float
    relative_error: float
    passed: bool
    note: str = ""
    shape: tuple[int, ...] | None = None
    entries: int = 0
    index: tuple[int, ...] | None = None
    engine_error: float | None = None
    verdict: str = ""

    def __post_init__(self) -> None:
        if not self.verdict:
            object.__setattr__(self, "verdict", "ok" if self.passed else "FAILED")


@dataclass(frozen=True, repr=False)
class GradientReport:
    """The result of :func:`gradcheck`. True in a condition when every gradient passed; prints as a table.

    >>> from openbnns import *
    >>> report = gradcheck(ActivationLayer(function=ActivationFunction.tanh(), input=Shape.vector(5)), verbose=False)
    >>> report.passed, {row.name for row in report.rows}
    (True, {'input'})
    """

    title: str
    tolerance: float
    rows: tuple[GradientRow, ...] = field(default=())
    notes: tuple[str, ...] = ()
    engine: str = ""
    """The engine of ``engine_error``; "" for layers, whose rows are about that engine themselves."""
    printed: bool = field(default=False, compare=False)
    """True if it was printed already: notebooks then show a line in place of the table."""

    @property
    def passed(self) -> bool:
        """True if every gradient agrees with the finite differences."""
        return bool(self.rows) and all(row.passed for row in self.rows)

    @property
    def ok(self) -> bool:
        """The same as ``passed``."""
        return self.passed

    def __bool__(self) -> bool:
        return self.passed

    @property
    def failed(self) -> list[str]:
        """Names of the tensors whose gradients disagree."""
        return list(dict.fromkeys(row.name for row in self.rows if not row.passed))

    @property
    def worst(self) -> GradientRow | None:
        """The row with the largest error, one that failed if any did."""
        return max(self.rows, key=_severity, default=None)

    def __repr__(self) -> str:
        worst = self.worst
        said = "" if worst is None else f", worst error {worst.relative_error:.1e} ({worst.name})"
        return f"<GradientReport of {self.title}: {self._conclusion()}{said}>"

    def __str__(self) -> str:
        return str(self._table())

    def _repr_html_(self) -> str | None:
        return None if self.printed else self._table().html()

    def _table(self) -> Table:
        rows = [self._cells(row) for row in self._shown()]
        return Table(self._header(), rows, self._heading(), "\n".join(self._closing()), words=2 if self.engine else 1)

    def _heading(self) -> str:
        return f"{self.title}, tolerance {self.tolerance:g}"

    def _conclusion(self) -> str:
        return "all gradients agree" if self.passed else "GRADIENTS DISAGREE"

    def _closing(self) -> list[str]:
        hidden = len(self.rows) - len(self._shown())
        more = [f"and {hidden} more with smaller errors"] if hidden else []
        return [*more, *self.notes, self._conclusion()]

    def _shown(self) -> list[GradientRow]:
        if len(self.rows) <= SHOWN or not self.engine:
            return list(self.rows)
        return sorted(self.rows, key=_severity, reverse=True)[:SHOWN]

    def _header(self) -> list[str]:
        if not self.engine:
            return ["gradient", "analytic", "numeric", "rel. error", "verdict"]
        columns = ["gradient", "shape", "checked", "worst error", "at", "analytic", "numeric"]
        return [*columns, f"{self.engine} error", "verdict"]

    def _cells(self, row: GradientRow) -> list[str]:
        verdict = row.verdict + (f" ({row.note})" if row.note else "")
        numbers = [f"{row.analytic:.6g}", f"{row.numeric:.6g}"]
        if not self.engine:
            return [row.name, *numbers, f"{row.relative_error:.2e}", verdict]
        shape = str(row.shape)
        if not row.entries:
            return [row.name, shape, "-", "-", "-", "-", "-", "-", verdict]
        place = "a direction" if row.index is None else f"[{', '.join(map(str, row.index))}]"
        native = "-" if row.engine_error is None else f"{row.engine_error:.1e}"
        return [row.name, shape, str(row.entries), f"{row.relative_error:.1e}", place, *numbers, native, verdict]


def _severity(row: GradientRow) -> tuple[bool, float]:
    return not row.passed, row.relative_error
