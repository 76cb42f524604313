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
from sklearn.tree import ExtraTreeClassifier
from sklearn.tree._tree import Tree
from torch import Tensor

from curvewise.base.errors import InputError
from curvewise.estimator.merit import merit
from curvewise.estimator.tree_nodes import pack_trees, unpack_trees

Array = NDArray[Any]
Floats = NDArray[np.float64]
Codes = NDArray[np.int64]

BUDGET = 1_000_000  # rows times trees, at most: growing and asking trees takes time
MOST_ROWS = 20_000  # above, networks have enough to learn from, and fewer than 50 trees tie rows
SMALLEST = 1e-3  # probability that is told from 0
# A forest of m trees ranks worse than a large one by about 1.2 / m in AUC: 50 trees lost 0.02 on
# the benchmark's development half, 9 trees 0.05 to 0.12 on generated tables. Fewer are no measure.
HANDICAP, MOST_HANDICAP = 1.2, 0.1
SHARPNESS = 0.05  # the AUC by which trees must be worse than networks to count e times less


def trees_for(n: int, wanted: int) -> int:
    """Return how many trees are grown on n rows: at most 1,000,000 / n, none above 20,000 rows.

    >>> [trees_for(n, 300) for n in (1000, 5000, 20_000, 20_001)]
    [300, 200, 50, 0]
    """
    return min(wanted, BUDGET // n) if n <= MOST_ROWS else 0


@dataclass
class Trees:
    """Trees grown on all rows, and how they count beside networks.

    `out_of_fold` (n, C) has the log-probabilities of training rows by other trees, which were grown
    without their fold. `share` is how much the trees count, from 0 to 1, and `stretch` what brings
    their scores to the spread of the networks'. `judging` is how many trees judged each row.
    """

    trees: list[Tree]
    out_of_fold: Floats = field(repr=False)
    judging: int = 50
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

        It is :math:`1 / (1 + e^{(A_\mathrm{networks} - A_\mathrm{trees} - h) / 0.05})` of both
        AUCs. The m trees that judge a row are fewer than the T that score, hence the handicap
        h = 1.2 (1 / m - 1 / T), at most 0.1: 0.02 for 50 and 300.
        """
        there = ~np.isnan(networks[:, 0])
        theirs, own, labels = networks[there], self.out_of_fold[there], y[there]
        handicap = min(HANDICAP * (1 / self.judging - 1 / len(self.trees)), MOST_HANDICAP)
        behind = merit(labels, theirs) - merit(labels, own) - handicap
        self.share = float(1 / (1 + np.exp(behind / SHARPNESS)))
        self.stretch = spread(theirs) / max(spread(own), 1e-6)

    def to_tensors(self) -> dict[str, Tensor]:
        """Return the trees as tensors, for a file."""
        parts = pack_trees(self.trees)
        parts["weight"] = np.array([self.share, self.stretch, self.judging])
        parts["out_of_fold"] = self.out_of_fold
        return {f"trees.{name}": torch.from_numpy(part) for name, part in parts.items()}

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor], n_features: int) -> "Trees | None":
        """Return what `to_tensors` took apart, None where there is nothing of it."""
        if "trees.count" not in tensors:
            return None
        parts = {name: tensors[name].numpy() for name in tensors if name.startswith("trees.")}
        made = unpack_trees({name[6:]: part for name, part in parts.items()}, n_features)
        if not {"trees.weight", "trees.out_of_fold"} <= set(parts):
            raise InputError("the trees of a model must be whole, got no weight or scores")
        share, stretch, judging = parts["trees.weight"].tolist()
        return cls(made, parts["trees.out_of_fold"], int(judging), share, stretch)


def grow_trees(
    x: Array, y: Codes, fold: Codes, number: int, *, seed: int, sample_weight: Floats | None = None
) -> Trees:
    """Grow trees on x (n, d) and labels y, and as many again without a fold each, to judge them."""
    folds, n_classes = int(fold.max()) + 1, int(y.max()) + 1
    out = np.full((len(y), n_classes), np.nan)

    def grown(rows: Array, trees: int, own_seed: int) -> Trees:
        weight = None if sample_weight is None else sample_weight[rows]
        return Trees(grow(x[rows], y[rows], trees, own_seed % 2**32, weight), out, judging)

    judging = -(-number // folds)
    for left in range(folds):
        some = grown(np.flatnonzero(fold != left), judging, seed + 1 + left)
        rows = np.flatnonzero(fold == left)
        out[rows] = some.scores(x[rows])
    return grown(np.arange(len(y)), number, seed)


def grow(
    x: Array, y: Codes, number: int, seed: int, sample_weight: Floats | None = None
) -> list[Tree]:
    """Grow the trees of `ExtraTreesClassifier(number, random_state=seed)`, bit for bit.

    Its copies of an estimator for each tree take a fifth of the time of small tables.
    """
    seeds = np.random.RandomState(seed)
    rows, labels = np.ascontiguousarray(x, np.float32), y.astype(np.float64)[:, None]

    def one(own_seed: int) -> Tree:
        tree = ExtraTreeClassifier(max_features="sqrt", random_state=own_seed)
        return tree.fit(rows, labels, sample_weight, check_input=False).tree_

    with ThreadPoolExecutor(torch.get_num_threads()) as pool:
        return list(pool.map(one, [seeds.randint(2**31 - 1) for _ in range(number)]))


def log_shares(share: Floats) -> Floats:
    """Return the logarithm of probabilities that may be 0."""
    return np.asarray(np.log(share + SMALLEST))


def spread(scores: Floats) -> float:
    """Return how far scores (n, C) lie apart: the deviation of each class's from the row's mean."""
    own = scores - scores.mean(axis=1, keepdims=True)
    return float(own.std(axis=0).mean())
