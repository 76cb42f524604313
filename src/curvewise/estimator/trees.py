"""Extremely randomised trees beside the networks of an ensemble.

Where a class has ten rows, networks smooth over what a row's nearest neighbours say; trees do not.
For files, in which nothing is executed, they become plain arrays.
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from sklearn.tree import ExtraTreeClassifier
from sklearn.tree._tree import NODE_DTYPE, Tree
from torch import Tensor

from curvewise.base.errors import require
from curvewise.estimator.inputs import Array, Rows
from curvewise.tables.columns import Codes, Floats

BUDGET = 1_000_000  # rows times trees, at most: growing and asking trees takes time
MOST_ROWS = 20_000  # above, networks have enough to learn from, and fewer than 50 trees tie rows
SMALLEST = 1e-3  # probability that is told from 0
SPLITS = {
    "left_child": np.int32,
    "right_child": np.int32,
    "feature": np.int32,
    "threshold": np.float64,
}


def trees_for(n: int, wanted: int) -> int:
    """Return how many trees are grown on n rows: at most 1,000,000 / n, none above 20,000 rows."""
    return min(wanted, BUDGET // n) if n <= MOST_ROWS else 0


@dataclass
class Trees:
    """Trees grown on all rows, and how they count beside networks.

    `out_of_fold` (n, C) has the log-probabilities of training rows by other trees, which were grown
    without their fold. `judging` is how many trees judged each row. `share` is how much the trees
    count, from 0 to 1, and `stretch` what brings their scores to the spread of the networks'.
    """

    trees: list[Tree]
    out_of_fold: Floats = field(repr=False)
    judging: int = 50
    share: float = 0.5
    stretch: float = 1.0

    def scores(self, x: Array) -> Floats:
        """Return log-probabilities of rows x (n, d), (n, C)."""
        return log_shares(self.trees, x)

    def joined(self, networks: Floats, trees: Floats) -> Floats:
        """Return scores (n, C) of both, weighted."""
        return (1 - self.share) * networks + self.share * self.stretch * trees

    def to_tensors(self) -> dict[str, Tensor]:
        """Return the trees as tensors, for a file.

        Their nodes stand one after the other, `count` of each tree. A node has the numbers of its
        children in its tree (-1: none), the column and the threshold that divide its rows, and
        `value`, the share of each class.
        """
        nodes = [tree.__getstate__()["nodes"] for tree in self.trees]
        parts = {
            name: np.concatenate([part[name] for part in nodes]).astype(kind)
            for name, kind in SPLITS.items()
        }
        parts["value"] = np.concatenate([tree.value[:, 0] for tree in self.trees])
        parts["count"] = np.array([tree.node_count for tree in self.trees])
        parts["weight"] = np.array([self.share, self.stretch, self.judging])
        parts["out_of_fold"] = self.out_of_fold
        return {f"trees.{name}": torch.from_numpy(part) for name, part in parts.items()}

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor], n_features: int) -> "Trees | None":
        """Return what `to_tensors` took apart, None where there is nothing of it.

        A file may come from anywhere, and scikit-learn follows nodes unchecked: they are checked
        here.
        """
        if "trees.count" not in tensors:
            return None
        names = [*SPLITS, "value", "count", "weight", "out_of_fold"]
        complete = {f"trees.{name}" for name in names} <= tensors.keys()
        parts = {name: tensors[f"trees.{name}"].numpy() for name in names} if complete else {}
        whole = complete and _whole(parts, n_features)
        require(whole, "the trees of a model must be whole, got nodes that lead astray")
        ends = np.cumsum(parts["count"])
        trees = [
            _tree({name: parts[name][start:end] for name in (*SPLITS, "value")}, n_features)
            for start, end in zip(ends - parts["count"], ends, strict=True)
        ]
        share, stretch, judging = parts["weight"].tolist()
        return cls(trees, parts["out_of_fold"], int(judging), share, stretch)


def _whole(parts: Mapping[str, Array], n_features: int) -> bool:
    """Tell whether every node's children come after it and stay within its tree."""
    count, value = parts["count"], parts["value"]
    lengths = {parts[name].shape for name in SPLITS} | {value.shape[:1]}
    shaped = value.ndim == 2 and count.ndim == 1 and count.size and lengths == {(count.sum(),)}
    if not shaped or count.min() < 1:
        return False
    left, right, feature = parts["left_child"], parts["right_child"], parts["feature"]
    place = np.arange(len(left)) - np.repeat(np.cumsum(count) - count, count)  # within its tree
    leaf = (left == -1) & (right == -1)
    inside = np.maximum(left, right) < np.repeat(count, count)
    onward = (np.minimum(left, right) > place) & inside & (feature >= 0) & (feature < n_features)
    finite = np.isfinite(value).all() and np.isfinite(parts["threshold"]).all()
    return bool((leaf | onward).all() and finite)


def _tree(parts: Mapping[str, Array], n_features: int) -> Tree:
    """Return scikit-learn's tree of some nodes."""
    value = np.ascontiguousarray(parts["value"][:, None], np.float64)
    nodes = np.zeros(len(value), NODE_DTYPE)
    for name in SPLITS:
        nodes[name] = parts[name]
    tree = Tree(n_features, np.array([value.shape[2]], np.intp), 1)
    tree.__setstate__({"max_depth": 0, "node_count": len(nodes), "nodes": nodes, "values": value})
    return tree


def grow_trees(rows: Rows, fold: Codes, number: int, *, seed: int) -> Trees:
    """Grow trees on rows, and as many again without a fold each, to judge them."""
    folds = int(fold.max()) + 1
    judging = -(-number // folds)
    out_of_fold = np.full((len(rows.y), int(rows.y.max()) + 1), np.nan)
    for left in range(folds):
        trees = grow(rows.some(fold != left), judging, seed + 1 + left)
        out_of_fold[fold == left] = log_shares(trees, rows.x[fold == left])
    return Trees(grow(rows, number, seed), out_of_fold, judging)


def grow(rows: Rows, number: int, seed: int) -> list[Tree]:
    """Grow the trees of `ExtraTreesClassifier(number, random_state=seed)`, bit for bit.

    Its copies of an estimator for each tree take a fifth of the time of small tables.
    """
    seeds = np.random.RandomState(seed % 2**32)
    x, labels = np.ascontiguousarray(rows.x, np.float32), rows.y.astype(np.float64)[:, None]

    def one(seed: int) -> Tree:
        tree = ExtraTreeClassifier(max_features="sqrt", random_state=seed)
        return tree.fit(x, labels, rows.weight, check_input=False).tree_

    with ThreadPoolExecutor(torch.get_num_threads()) as pool:
        return list(pool.map(one, [seeds.randint(2**31 - 1) for _ in range(number)]))


def log_shares(trees: Sequence[Tree], x: Array) -> Floats:
    """Return log-probabilities of rows x (n, d), (n, C): the trees' mean share, with 1/1000 added.

    Pieces of the rows are scored side by side.
    """

    def mean(piece: Array) -> Any:
        return sum(tree.predict(piece) for tree in trees) / len(trees)

    pieces = np.array_split(np.ascontiguousarray(x, np.float32), torch.get_num_threads())
    with ThreadPoolExecutor(len(pieces)) as pool:
        return np.asarray(np.log(np.concatenate(list(pool.map(mean, pieces))) + SMALLEST))
