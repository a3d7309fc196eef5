"""Decision trees."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....graph.operations import Forest, Trees
from ....graph.operations.trees import ABOVE, AT_MOST, EQUAL, EQUAL_OR_MISSING, MEMBER, MEMBER_OR_MISSING
from ....graph.parameter import Parameter
from .._graph_file import GraphFile
from ..errors import NoForm
from ._registry import writes

_DOMAIN = "ai.onnx.ml"
_MODES = {AT_MOST: "BRANCH_LEQ", ABOVE: "BRANCH_GT", EQUAL: "BRANCH_EQ", EQUAL_OR_MISSING: "BRANCH_EQ"}
_NUMBERS = {AT_MOST: 0, ABOVE: 3, EQUAL: 4, EQUAL_OR_MISSING: 4, MEMBER: 6, MEMBER_OR_MISSING: 6}
_TOTALS = {"sum": "SUM", "mean": "AVERAGE", "minimum": "MIN", "maximum": "MAX"}


@writes(Trees)
def trees(file: GraphFile, operation: Trees) -> str:
    x, said = operation.inputs
    leaf = said.storage.leaf
    if leaf is None:
        raise NoForm("what its leaves say is computed, but attributes of a file are numbers")
    weights = np.asarray(leaf.data if isinstance(leaf, Parameter) else leaf, np.float32).reshape(-1)
    if len(operation.forest.members):
        return _with_sets(file, operation, file.use(x), weights)
    file.opsets[_DOMAIN] = max(3, file.opsets.get(_DOMAIN, 3))
    return _plain(file, operation, file.use(x), weights)


def _plain(file: GraphFile, operation: Trees, x: str, weights: Any) -> str:
    """The operator that all programs know."""
    f = operation.forest
    tree = _tree_of(f)
    own = np.arange(len(f.behind))
    is_leaf = f.behind == own
    leaves = np.repeat(own, np.diff(f.first_entries))
    modes = ["LEAF" if leaf else _MODES[kind] for leaf, kind in zip(is_leaf.tolist(), f.kinds.tolist(), strict=True)]
    return file.node(
        "TreeEnsembleRegressor", x, domain=_DOMAIN, aggregate_function=_TOTALS[operation.total],
        n_targets=int(operation.output.shape[1]), nodes_treeids=tree.tolist(), nodes_nodeids=own.tolist(),
        nodes_featureids=f.features.tolist(), nodes_modes=modes, nodes_values=np.where(is_leaf, 0, f.thresholds).tolist(),
        nodes_truenodeids=np.where(is_leaf, 0, f.behind + 1).tolist(),
        nodes_falsenodeids=np.where(is_leaf, 0, f.behind).tolist(),
        nodes_missing_value_tracks_true=(f.kinds == EQUAL_OR_MISSING).astype(np.int64).tolist(),
        target_treeids=tree[leaves].tolist(), target_nodeids=leaves.tolist(), target_ids=f.columns.tolist(),
        target_weights=weights.tolist(),
    )  # fmt: skip


def _tree_of(f: Forest) -> Any:
    """The number of the tree of each node: parents stand in front."""
    tree = np.zeros(len(f.behind), np.int64)
    tree[f.roots] = np.arange(len(f.roots))
    for node in np.flatnonzero(f.behind != np.arange(len(f.behind))).tolist():
        tree[f.behind[node] : f.behind[node] + 2] = tree[node]
    return tree


def _with_sets(file: GraphFile, operation: Trees, x: str, weights: Any) -> str:
    """The newer operator, which knows sets, but leaves about one result only."""
    f = operation.forest
    own = np.arange(len(f.behind))
    inner = np.flatnonzero(f.behind != own)
    counts = np.diff(f.first_entries)
    reached = np.concatenate([f.behind[inner], f.behind[inner] + 1])
    if (counts[reached][f.behind[reached] == reached] != 1).any() or not np.isin(f.roots, inner).all():
        raise NoForm("nodes ask for members of sets, and leaves tell several results, or none")
    number = np.zeros(len(own), np.int64)  # of inner nodes among these, and of leaves among their entries
    number[inner] = np.arange(len(inner))
    leaves = np.setdiff1d(own, inner)
    number[leaves] = f.first_entries[leaves]
    sets = [
        np.append(f.members[f.first_members[i] : f.first_members[i + 1]], np.nan)
        for i in inner.tolist() if f.kinds[i] >= MEMBER
    ]  # fmt: skip
    values = file.onnx.numpy_helper.from_array
    missing = np.isin(f.kinds[inner], (EQUAL_OR_MISSING, MEMBER_OR_MISSING))
    ways = {}
    for name, behind in (("false", f.behind[inner]), ("true", f.behind[inner] + 1)):
        ways[f"nodes_{name}nodeids"] = number[behind].tolist()
        ways[f"nodes_{name}leafs"] = np.isin(behind, leaves).astype(np.int64).tolist()
    file.opsets[_DOMAIN] = 5
    return file.node(
        "TreeEnsemble", x, domain=_DOMAIN, aggregate_function=("mean", "sum", "minimum", "maximum").index(operation.total),
        n_targets=int(operation.output.shape[1]), nodes_featureids=f.features[inner].tolist(),
        nodes_splits=values(np.where(f.kinds[inner] >= MEMBER, 0, f.thresholds[inner]).astype(np.float32)),
        nodes_modes=values(np.array([_NUMBERS[kind] for kind in f.kinds[inner].tolist()], np.uint8)),
        nodes_missing_value_tracks_true=missing.astype(np.int64).tolist(), leaf_targetids=f.columns.tolist(),
        leaf_weights=values(weights), membership_values=values(np.concatenate(sets).astype(np.float32)),
        tree_roots=number[f.roots].tolist(), **ways,
    )  # fmt: skip
