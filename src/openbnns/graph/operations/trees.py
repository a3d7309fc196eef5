"""Decision trees: samples go down all of them, and what the leaves say is added."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np

from ... import engines
from ..calls import Calls, NumpyCall, PlanCall, clearing, computing
from ..operation import Operation
from ..tensor import FLOAT32, Array, Tensor

AT_MOST, ABOVE, EQUAL, EQUAL_OR_MISSING, MEMBER, MEMBER_OR_MISSING = range(6)
"""When samples go to the second of the two nodes behind one, by what they have there as ``feature``: x <= threshold,
x > threshold, x == threshold, that or NaN, x is a member, that or NaN (``Decision`` of ``core/kernels/trees/shape.h``)."""

TOTALS = ("sum", "mean", "minimum", "maximum")
_X, _W, _Y = range(3)  # TreesSlot
_MOST_FEATURES = 1 << 28
_MOST_NODES = 1 << 30


@dataclass(frozen=True, eq=False)
class Forest:
    """Nodes of all trees by number, parents in front of their children, and what leaves say, by number of the entry.

    A leaf is AT_MOST NaN, so that it leads to itself. Lists that begin with ``first_`` have one number more than there are nodes:
    those of node i are first[i] up to first[i + 1].
    """

    features: Array  # by node: the number that is looked at
    thresholds: Array
    kinds: Array
    behind: Array  # the first of the two nodes behind one; of a leaf, itself
    roots: Array  # by tree
    first_entries: Array
    columns: Array  # by entry: the result that it belongs to
    first_members: Array
    members: Array  # of the nodes of kind MEMBER, ascending

    def __post_init__(self) -> None:
        for name in ("thresholds", "members"):
            object.__setattr__(self, name, np.ascontiguousarray(getattr(self, name), np.float32).ravel())
        for name in ("features", "kinds", "behind", "roots", "first_entries", "columns", "first_members"):
            whole = np.asarray(getattr(self, name), np.int64).ravel()
            if whole.size and (whole.min() < 0 or whole.max() >= _MOST_NODES):
                raise ValueError(f"trees: {name} has numbers from {whole.min()} to {whole.max()}.")
            object.__setattr__(self, name, np.ascontiguousarray(whole, np.int32))
        self._check()

    def _check(self) -> None:
        count = len(self.features)
        own = np.arange(count)
        lengths = {len(self.thresholds), len(self.kinds), len(self.behind)}
        lengths |= {len(self.first_entries) - 1, len(self.first_members) - 1}
        if not count or lengths != {count} or not len(self.roots):
            raise ValueError("trees: there are none, or lists of nodes differ in length.")
        inner = self.behind != own
        leaves = (self.kinds[~inner] == AT_MOST) & np.isnan(self.thresholds[~inner])
        if self.kinds.max() > MEMBER_OR_MISSING or self.features.max() >= _MOST_FEATURES or not leaves.all():
            raise ValueError("trees: a node decides in no known way.")
        if (self.behind[inner] <= own[inner]).any() or (self.behind[inner] >= count - 1).any():
            raise ValueError("trees: nodes lead to others that are in front of them, or not there.")
        if self.roots.max() >= count:
            raise ValueError("trees: a root is not there.")
        for first, total in ((self.first_entries, len(self.columns)), (self.first_members, len(self.members))):
            if first[0] != 0 or first[-1] != total or (np.diff(first) < 0).any():
                raise ValueError("trees: the parts of nodes do not follow each other.")
        inside = np.diff(np.repeat(np.arange(count), np.diff(self.first_members))) == 0
        if not (np.diff(self.members)[inside] > 0).all() or np.isnan(self.members).any():
            raise ValueError("trees: the members of a node do not ascend.")

    def leaves(self, x: Array) -> Array:
        """The leaves where samples (N, features) end, (N, trees)."""
        at: Array = np.broadcast_to(self.roots, (len(x), len(self.roots)))
        samples = np.arange(len(x))[:, None]
        is_set = self.kinds >= MEMBER
        while True:
            asked, threshold, kind = x[samples, self.features[at]], self.thresholds[at], self.kinds[at]
            second = np.where(kind == ABOVE, asked > threshold, asked == threshold)
            second = np.where(kind == AT_MOST, asked <= threshold, second) & (kind < MEMBER)
            for node in np.flatnonzero(is_set) if is_set[at].any() else ():
                here = at == node
                own = self.members[self.first_members[node] : self.first_members[node + 1]]
                second[here] = np.isin(asked[here], own)
            second |= ((kind == EQUAL_OR_MISSING) | (kind == MEMBER_OR_MISSING)) & np.isnan(asked)
            following = self.behind[at] + second
            if np.array_equal(following, at):
                return at
            at = following

    def said(self, leaves: Array) -> tuple[Array, Array, Array]:
        """The entries of leaves (N, trees), one after the other: sample, number and column."""
        counts = np.diff(self.first_entries)[leaves]
        total = counts.reshape(-1)
        samples = np.repeat(np.arange(len(leaves)), counts.sum(1))
        within = np.arange(total.sum()) - np.repeat(np.cumsum(total) - total, total)
        entries = np.repeat(self.first_entries[leaves].reshape(-1), total) + within
        return samples, entries, self.columns[entries]


class Branch(Enum):
    """Comparisons that the nodes of trees make in files; samples for which one holds go to the first way."""

    LEQ = "<="
    LT = "<"
    GTE = ">="
    GT = ">"
    EQ = "=="
    NEQ = "!="
    MEMBER = "in"
    LEAF = ""


def planted(
    branches: Sequence[Branch], features: Array, values: Array, tracks: Array, ways: Sequence[Array], roots: Array,
    members: Mapping[int, Array], leaves: Array, columns: Array,
) -> tuple[Forest, Array]:  # fmt: skip
    """The forest of nodes in any order, with the entries of ``leaves`` by number.

    Of each node the comparison, the feature and the value compared with, whether NaN takes the first way, and the nodes where the
    two ways lead. Entries of one leaf about one column become one. Gives the new number of each entry as well, -1 for those of
    leaves that no way leads to.
    """
    count = len(branches)
    kinds, thresholds, turned = _decisions(branches, values.astype(np.float32), tracks)
    is_leaf = np.array([branch is Branch.LEAF for branch in branches])
    pairs = np.where(turned, ways, np.flip(np.array(ways), 0))  # the first and the second node behind each
    order, parents = _ordered(np.asarray(roots, np.int64), pairs, is_leaf)
    place = np.full(count, -1)
    place[order] = np.arange(len(order))
    behind = np.arange(len(order))
    behind[place[parents]] = place[pairs[0][parents]]
    is_member = kinds[order] >= MEMBER
    empty: Array = np.empty(0, np.float32)
    sets = [
        np.unique(members[node].astype(np.float32)) if asks else empty
        for node, asks in zip(order.tolist(), is_member, strict=True)
    ]
    here = place[leaves]
    there = np.flatnonzero(here >= 0)
    keys, numbers = np.unique(np.stack([here[there], columns[there]]), axis=1, return_inverse=True)
    entries = np.full(len(leaves), -1)
    entries[there] = numbers.reshape(-1)
    features = np.where(is_leaf, 0, features)[order]
    forest = Forest(
        features, thresholds[order], kinds[order], behind, place[roots], _starts(np.bincount(keys[0], minlength=len(order))),
        keys[1], _starts([len(one) for one in sets]), np.concatenate([*sets, empty]),
    )  # fmt: skip
    return forest, entries


def _starts(counts: Any) -> Array:
    starts: Array = np.concatenate([[0], np.cumsum(np.asarray(counts, np.int64))])
    return starts


def _decisions(branches: Sequence[Branch], values: Array, tracks: Array) -> tuple[Array, Array, Array]:
    """Kinds and thresholds by node, and whether the way for which the comparison holds is the first one behind it."""
    is_one = {branch: np.array([one is branch for one in branches]) for branch in Branch}
    at_least, less = is_one[Branch.GTE], is_one[Branch.LT]
    below = np.nextafter(values, np.float32(-np.inf))
    thresholds = np.where(at_least | less, below, values)  # x < t is x <= the number below t
    ordered = at_least | less | is_one[Branch.GT] | is_one[Branch.LEQ]
    # NaN goes to the first node behind one, for the comparisons that decide by order.
    turned = (ordered & tracks) | is_one[Branch.NEQ]
    above = (is_one[Branch.GT] | at_least) ^ (ordered & tracks)
    kinds = np.where(above, ABOVE, AT_MOST)
    kinds[is_one[Branch.EQ] | is_one[Branch.NEQ]] = EQUAL
    kinds[is_one[Branch.EQ] & tracks] = EQUAL_OR_MISSING
    kinds[is_one[Branch.MEMBER]] = MEMBER
    kinds[is_one[Branch.MEMBER] & tracks] = MEMBER_OR_MISSING
    # Nothing is less than -inf, everything but NaN is at least that, and nothing is compared with NaN.
    least = values == -np.inf
    kinds[at_least & least], thresholds[at_least & least] = AT_MOST, np.where(tracks, np.nan, np.inf)[at_least & least]
    never = (less & least) | (ordered & np.isnan(values))
    kinds[never] = np.where(tracks, EQUAL_OR_MISSING, AT_MOST)[never]
    turned[never], thresholds[never] = False, np.nan
    leaf = is_one[Branch.LEAF]
    kinds[leaf], thresholds[leaf], turned[leaf] = AT_MOST, np.nan, False
    return kinds, thresholds.astype(np.float32), turned


def _ordered(roots: Array, pairs: Array, is_leaf: Array) -> tuple[Array, Array]:
    """The nodes that ways lead to, tree by tree from the root down, pairs side by side; and the inner ones."""
    count = len(is_leaf)
    if not len(roots) or roots.min() < 0 or roots.max() >= count:
        raise ValueError("a root is not there")
    level, trees = roots, np.arange(len(roots))
    nodes, of_tree, parents = [level], [trees], []
    met = len(level)
    while True:
        inner = np.flatnonzero(~is_leaf[level])
        if not len(inner):
            break
        above = level[inner]
        level, trees = pairs[:, above].T.reshape(-1), np.repeat(trees[inner], 2)
        if level.min() < 0 or level.max() >= count:
            raise ValueError("its nodes lead to others that are not there")
        met += len(level)
        if met > count:
            break
        nodes.append(level)
        of_tree.append(trees)
        parents.append(above)
    order = np.concatenate(nodes)
    if met > count or len(np.unique(order)) < len(order):
        raise ValueError("it is not made of trees: several ways lead to one node")
    by_tree = np.argsort(np.concatenate(of_tree), kind="stable")
    return order[by_tree], np.concatenate([*parents, np.empty(0, np.int64)])


class Trees(Operation):
    """y[n][c] = the sum, or the mean, least or largest, of what the leaves of sample n in all trees say about column c.

    The gradient goes to what the leaves say. In a mean, a tree that says nothing counts as 0; in the others it does not count,
    and what no tree says anything about is 0. Of several equal ones, the first has the gradient of a least or largest one.
    """

    is_pure = True

    def __init__(self, x: Tensor, said: Tensor, forest: Forest, columns: int, total: str) -> None:
        self.forest, self.total, self.kind = forest, total, TOTALS.index(total)
        features = x.shape[1]
        if x.ndim != 2 or features <= int(forest.features.max()):
            raise ValueError(f"trees: look at feature {forest.features.max()} of samples {x.shape}.")
        if tuple(said.shape) != (len(forest.columns),) or (len(forest.columns) and forest.columns.max() >= columns):
            raise ValueError(f"trees: numbers {said.shape} for {len(forest.columns)} entries about {columns} columns.")
        super().__init__([x, said], Tensor(x.graph, (x.shape[0], columns)))

    def _plan(self, features: int, columns: int) -> Any:
        f = self.forest
        return self.made(
            (features, columns),
            lambda: engines._core.trees(
                features=features, columns=columns, total=self.kind, roots=f.roots.tobytes(), feature=f.features.tobytes(),
                kind=f.kinds.tobytes(), behind=f.behind.tobytes(), threshold=f.thresholds.tobytes(),
                first_entry=f.first_entries.tobytes(), column=f.columns.tobytes(), first_member=f.first_members.tobytes(),
                member=f.members.tobytes(),
            ),
        )  # fmt: skip

    def forward(self, x: list[Array], y: Array, training: bool) -> Calls:
        samples, said = x
        if any(array.dtype != FLOAT32 for array in (samples, said, y)):
            return computing(y, self._formula, samples, said, y.shape[1])
        return PlanCall(self._run, samples, said, y)

    def _run(self, x: Array, said: Array, y: Array) -> None:
        if engines.is_native():
            places = [(slot, array.ctypes.data, 0) for slot, array in ((_X, x), (_W, said), (_Y, y))]
            engines._core.run(self._plan(x.shape[1], y.shape[1]), False, len(x), places, repeatable=True)
        else:
            y[...] = self._formula(x, said.astype(np.float64), y.shape[1])

    def backward(self, x: list[Array], y: Array, dy: Array, dx: list[Array | None], dp: list[Array | None]) -> Calls:
        calls: list[Calls] = [] if dx[0] is None else [clearing(dx[0])]
        if dx[1] is not None:
            calls.append(NumpyCall(self._gradient, *x, dy, dx[1]))
        return calls

    # The formulas.

    def _formula(self, x: Array, said: Array, columns: int) -> Array:
        samples, entries, about = self.forest.said(self.forest.leaves(x))
        if self.total in ("sum", "mean"):
            flat = np.bincount(samples * columns + about, said[entries], len(x) * columns)
            total: Array = flat.reshape(len(x), columns)
            return total / len(self.forest.roots) if self.total == "mean" else total
        nothing = np.inf if self.total == "minimum" else -np.inf
        extreme = np.full((len(x), columns), nothing)
        (np.minimum if self.total == "minimum" else np.maximum).at(extreme, (samples, about), said[entries])
        return np.where(extreme == nothing, 0, extreme)

    def _gradient(self, x: Array, said: Array, dy: Array, target: Array) -> None:
        samples, entries, about = self.forest.said(self.forest.leaves(x))
        if self.total in ("minimum", "maximum"):
            chosen = said[entries] == self._formula(x, said, dy.shape[1])[samples, about]
            kept = np.flatnonzero(chosen)
            _, first = np.unique(samples[kept] * dy.shape[1] + about[kept], return_index=True)
            samples, entries, about = (each[kept[first]] for each in (samples, entries, about))
        target[...] = np.bincount(entries, dy[samples, about], target.size)
        if self.total == "mean":
            target /= len(self.forest.roots)
