"""The measurements of a training run, epoch by epoch."""

from __future__ import annotations

from typing import Any

from .._table import Table


class History(list[dict[str, Any]]):
    """One record per epoch: loss, metrics, learning rate, seconds. Prints as a table, and shows as one in notebooks.

    It is a list of dictionaries, ``history[-1]["loss"]``; ``history.column("loss")`` is one number of all epochs.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> x = np.float32([[1], [2]])
    >>> history = nn.Trainer(nn.Linear(1), "mse", nn.SGD(0.01), quiet=True, seed=0).fit(x, x, epochs=2)
    >>> print(history)  # doctest: +ELLIPSIS
    epoch  step  learning rate    loss  seconds
    -----  ----  -------------  ------  -------
    1         1           0.01  ...
    2         2           0.01  ...
    >>> len(history.column("loss"))
    2
    """

    chosen_epoch = 0
    """The number of the epoch whose weights the network has after the run, from 1; 0 before that."""

    def column(self, name: str) -> list[Any]:
        """One entry of all records; None for epochs that do not have it."""
        if self and not any(name in record for record in self):
            from .._spelling import nearest

            known = list(dict.fromkeys(key for record in self for key in record))
            raise KeyError(f"history: there is no {name!r}.{nearest(name, known)} There are {', '.join(known)}.")
        return [record.get(name) for record in self]

    def table(self) -> Table:
        """The entries of all epochs that are single numbers."""
        names = list(dict.fromkeys(key for record in self for key, value in record.items() if _is_number(value)))
        rows = [[_text(name, record.get(name)) for name in names] for record in self]
        return Table([name.replace("_", " ") for name in names], rows)

    def __str__(self) -> str:
        return str(self.table()) if self else "no epochs yet"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return self.table().html() if self else "<p>no epochs yet</p>"


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _text(name: str, value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, int):
        return str(value)
    if name == "learning_rate":
        return f"{value:.3g}"
    if "accuracy" in name:
        return f"{value:.1%}"
    return f"{value:.1f}" if name == "seconds" else f"{value:.4f}" if 1e-3 <= abs(value) < 1e4 else f"{value:.4g}"
