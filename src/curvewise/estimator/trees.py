"""Extremely randomised trees beside the networks of an ensemble.

Where a class has ten rows, networks smooth over what a row's nearest neighbours say; trees do not.
"""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.tree._tree import NODE_DTYPE, Tree
from torch import Tensor

from curvewise.estimator.merit import merit

Array = NDArray[Any]
Floats = NDArray[np.float64]
Codes = NDArray[np.int64]

BUDGET = 1_000_000  # rows times trees, at most: growing and asking trees takes time
FEWEST = 50  # trees that are worth having: fewer give many rows the same score
SMALLEST = 1e-3  # probability that is told from 0
HANDICAP = 0.02  # what the trees that judge lose, as a sixth of those that score (60 against 300)
SHARPNESS = 0.05  # the AUC by which trees must be worse than networks to count e times less
NODES = {
    "left_child": np.int32,
    "right_child": np.int32,
    "feature": np.int32,
    "threshold": np.float64,
}


def trees_for(n: int, wanted: int) -> int:
    """Return how many trees are grown on n rows: as many as wanted, fewer above 3,000, then none.

    >>> [trees_for(n, 300) for n in (1000, 5000, 20_000, 20_001)]
    [300, 200, 50, 0]
    """
    affordable = min(wanted, BUDGET // n)
    return affordable if affordable >= min(FEWEST, wanted) else 0


@dataclass
class Trees:
    """Trees grown on all rows, and how they count beside networks.

    `out_of_fold` (n, C) has the log-probabilities of training rows by other trees, which were grown
    without their fold. `share` is how much the trees count, from 0 to 1, and `stretch` what brings
    their scores to the spread of the networks'.
    """

    trees: list[Tree]
    out_of_fold: Floats = field(repr=False)
    share: float = 0.5
    stretch: float = 1.0

    def scores(self, x: Array) -> Floats:
        """Return log-probabilities of rows x (n, d), (n, C), with 1/1000 added to each."""
        pieces = np.array_split(np.ascontiguousarray(x, np.float32), torch.get_num_threads())
        with ThreadPoolExecutor(len(pieces)) as pool:
            return log_shares(np.concatenate(list(pool.map(self._mean, pieces))))

    def _mean(self, x: Array) -> Floats:
        total = np.zeros((len(x), self.out_of_fold.shape[1]))
        for tree in self.trees:
            total += tree.predict(x)
        return total / len(self.trees)

    def joined(self, networks: Floats, own: Floats) -> Floats:
        """Return scores (n, C) of both: the networks' and the trees' own, weighted."""
        return (1 - self.share) * networks + self.share * self.stretch * own

    def weigh(self, networks: Floats, y: Codes) -> None:
        r"""Set the trees' share by how both rank rows that they left out, (n, C) with NaN rows.

        It is :math:`1 / (1 + e^{(A_\mathrm{networks} - A_\mathrm{trees} - 0.02) / 0.05})` of both
        AUCs: there are six times fewer trees without a fold, which costs them 0.02.
        """
        there = ~np.isnan(networks[:, 0])
        theirs, own, labels = networks[there], self.out_of_fold[there], y[there]
        behind = merit(labels, theirs) - merit(labels, own) - HANDICAP
        self.share = float(1 / (1 + np.exp(behind / SHARPNESS)))
        self.stretch = spread(theirs) / max(spread(own), 1e-6)

    def to_tensors(self) -> dict[str, Tensor]:
        """Return the trees as arrays: all their nodes one after the other."""
        parts = {
            name: np.concatenate([_nodes(tree)[name] for tree in self.trees]).astype(kind)
            for name, kind in NODES.items()
        }
        parts["value"] = np.concatenate([tree.value[:, 0] for tree in self.trees])
        parts["count"] = np.array([tree.node_count for tree in self.trees])
        parts["weight"] = np.array([self.share, self.stretch])
        parts["out_of_fold"] = self.out_of_fold
        return {f"trees.{name}": torch.from_numpy(part) for name, part in parts.items()}

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor], n_features: int) -> "Trees | None":
        """Return what `to_tensors` took apart, None where there is nothing of it."""
        if "trees.count" not in tensors:
            return None
        parts = {
            name.removeprefix("trees."): tensor.numpy()
            for name, tensor in tensors.items()
            if name.startswith("trees.")
        }
        n_classes = parts["value"].shape[1]
        ends = np.cumsum(parts["count"])
        made = []
        for start, end in zip(ends - parts["count"], ends, strict=True):
            nodes = np.zeros(end - start, NODE_DTYPE)
            for name in NODES:
                nodes[name] = parts[name][start:end]
            tree = Tree(n_features, np.array([n_classes], np.intp), 1)
            values = np.ascontiguousarray(parts["value"][start:end, None])
            state = {"max_depth": 0, "node_count": end - start, "nodes": nodes, "values": values}
            tree.__setstate__(state)
            made.append(tree)
        share, stretch = parts["weight"].tolist()
        return cls(made, parts["out_of_fold"], share, stretch)


def grow_trees(
    x: Array, y: Codes, fold: Codes, number: int, *, seed: int, sample_weight: Floats | None = None
) -> Trees:
    """Grow trees on x (n, d) and labels y, and as many again without a fold each, to judge them."""
    folds, n_classes = int(fold.max()) + 1, int(y.max()) + 1
    out = np.full((len(y), n_classes), np.nan)

    def grown(rows: Array, trees: int, own_seed: int) -> Trees:
        model = ExtraTreesClassifier(
            trees, random_state=own_seed % 2**32, n_jobs=torch.get_num_threads()
        )
        model.fit(x[rows], y[rows], None if sample_weight is None else sample_weight[rows])
        return Trees([tree.tree_ for tree in model.estimators_], out)

    for left in range(folds):
        some = grown(np.flatnonzero(fold != left), -(-number // folds), seed + 1 + left)
        rows = np.flatnonzero(fold == left)
        out[rows] = some.scores(x[rows])
    return grown(np.arange(len(y)), number, seed)


def log_shares(share: Floats) -> Floats:
    """Return the logarithm of probabilities that may be 0."""
    return np.asarray(np.log(share + SMALLEST))


def spread(scores: Floats) -> float:
    """Return how far scores (n, C) lie apart: the deviation of each class's from the row's mean."""
    own = scores - scores.mean(axis=1, keepdims=True)
    return float(own.std(axis=0).mean())


def _nodes(tree: Tree) -> Any:
    return tree.__getstate__()["nodes"]
