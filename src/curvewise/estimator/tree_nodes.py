"""Trees of scikit-learn as plain arrays, and back: for files in which nothing is executed."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.tree._tree import NODE_DTYPE, Tree

from curvewise.base.errors import InputError

Array = NDArray[Any]
SPLITS = {
    "left_child": np.int32,
    "right_child": np.int32,
    "feature": np.int32,
    "threshold": np.float64,
}


def pack_trees(trees: Sequence[Tree]) -> dict[str, Array]:
    """Return the nodes of all trees one after the other, and how many each has.

    A node has the numbers of its children in its tree (-1: none), the column and the threshold that
    divide its rows, and `value`, the share of each class.
    """
    nodes = [tree.__getstate__()["nodes"] for tree in trees]
    parts = {
        name: np.concatenate([own[name] for own in nodes]).astype(kind)
        for name, kind in SPLITS.items()
    }
    parts["value"] = np.concatenate([tree.value[:, 0] for tree in trees])
    parts["count"] = np.array([tree.node_count for tree in trees])
    return parts


def unpack_trees(parts: Mapping[str, Array], n_features: int) -> list[Tree]:
    """Return the trees that `pack_trees` took apart.

    A file may come from anywhere, and scikit-learn follows nodes unchecked: they are checked here.
    """
    if not are_whole(parts, n_features):
        raise InputError("the trees of a model must be whole, got nodes that lead astray")
    n_classes = parts["value"].shape[1]
    ends = np.cumsum(parts["count"])
    made = []
    for start, end in zip(ends - parts["count"], ends, strict=True):
        nodes = np.zeros(end - start, NODE_DTYPE)
        for name in SPLITS:
            nodes[name] = parts[name][start:end]
        tree = Tree(n_features, np.array([n_classes], np.intp), 1)
        values = np.ascontiguousarray(parts["value"][start:end, None], np.float64)
        state = {"max_depth": 0, "node_count": end - start, "nodes": nodes, "values": values}
        tree.__setstate__(state)
        made.append(tree)
    return made


def are_whole(parts: Mapping[str, Array], n_features: int) -> bool:
    """Tell whether every node's children come after it and stay within its tree."""
    if any(name not in parts for name in (*SPLITS, "value", "count")):
        return False
    count, value = parts["count"], parts["value"]
    if count.ndim != 1 or value.ndim != 2 or not count.size or count.min() < 1:
        return False
    if any(parts[name].shape != (count.sum(),) for name in SPLITS) or len(value) != count.sum():
        return False
    left, right, feature = parts["left_child"], parts["right_child"], parts["feature"]
    own = np.arange(len(left)) - np.repeat(np.cumsum(count) - count, count)  # number in its tree
    leaf = (left == -1) & (right == -1)
    inside = np.maximum(left, right) < np.repeat(count, count)
    onward = (np.minimum(left, right) > own) & inside & (feature >= 0) & (feature < n_features)
    finite = np.isfinite(value).all() and np.isfinite(parts["threshold"]).all()
    return bool((leaf | onward).all() and finite)
