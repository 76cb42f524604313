"""An ensemble over a family of losses: its members, how they are read and judged, its scores.

At a fixed lambda, FiLM scales and shifts the features before a linear layer, and calibration is
linear in the logits. So is their mean over several lambdas: conditioning costs nothing when a
model is used.
"""

import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from scipy.optimize import minimize
from scipy.special import logsumexp, softmax
from torch import Tensor, nn

from curvewise.base.errors import require, require_number, require_open
from curvewise.estimator.inputs import Array
from curvewise.estimator.trees import Trees
from curvewise.losses.factors import class_factors
from curvewise.losses.family import LossFamily
from curvewise.networks.conditioning import Conditioned
from curvewise.networks.registry import Normalization
from curvewise.roc.curve import auc
from curvewise.roc.metrics import macro_auc
from curvewise.tables.columns import Codes, Floats
from curvewise.training.batches import Samples
from curvewise.training.stacked_network import StackedNetwork, layers_of

ROWS = 512  # a time: what K members make of them stays in the cache
SHARPNESS = 0.01  # the AUC by which a group must be worse to count e times less
# A forest of m trees ranks worse than a large one by about 1.2 / m in AUC: 50 trees lost 0.02 on
# the benchmark's development half, 9 trees 0.05 to 0.12 on generated tables. Fewer are no measure.
HANDICAP, MOST_HANDICAP = 1.2, 0.1
TREE_SHARPNESS = 0.05  # the AUC by which trees must be worse than networks to count e times less
STRENGTH = 5.0  # of the belief that nothing is to be recalibrated, in units of log-likelihood
LEAST_SLOPE = 0.05  # above 0, so that every row keeps its place


@dataclass
class Member:
    """A network as it was at one moment of its training, and what it takes to read it.

    `class_counts` are what its loss was told, `oversampling` how many times too often its training
    showed each class; both (C,). `left_out` is the fold of rows that it did not see, `group` with
    whom it is judged by them (those of its scaling and moment), and `merit` the AUC of that group.
    """

    network: Conditioned
    family: LossFamily
    class_counts: tuple[float, ...]
    oversampling: tuple[float, ...]
    merit: float = 0.0
    left_out: int = -1
    group: int = 0

    @torch.no_grad()
    def logit_readout(self, taus: Sequence[float]) -> tuple[Tensor, Tensor]:
        r"""Return weights (L, C, F) and biases (L, C) that give the logits at each of L taus.

        With FiLM's scale sigma and shift mu at a lambda and the last layer's W and b, the logits
        are :math:`W(\sigma f + \mu) + b`, so the weights are :math:`W\,\mathrm{diag}(\sigma)` and
        the biases :math:`W\mu + b`. Where nothing is drawn, L is 1.
        """
        linear, film, lams = self.network.linear, self.network.film, self._lambdas(taus)
        assert isinstance(linear, nn.Linear)
        weight, bias = linear.weight.double(), linear.bias.double()
        if film is None:
            return weight.expand(len(lams), -1, -1), bias.expand(len(lams), -1)
        scaled = (lams.to(film.middle) - film.middle) / film.reach
        sigma, mu = film.sigma(scaled).double(), film.mu(scaled).double()
        return weight * sigma[:, None, :], mu @ weight.T + bias

    @torch.no_grad()
    def calibrated_readout(self, taus: Sequence[float]) -> tuple[Tensor, Tensor]:
        """Return weights (C, F) and biases (C,) that give log-probabilities up to a constant.

        It is the mean over lambdas of `calibrated_log_odds` before its last step, less the
        logarithm of how many times too often training showed each class.
        """
        weight, bias = self.logit_readout(taus)
        settings = self.family.hyperparameters(self._lambdas(taus).double())
        factors = class_factors(self.class_counts, settings, bias)
        scale = factors.scale.expand_as(bias)
        shown = torch.tensor(self.oversampling, dtype=torch.float64)
        shift = factors.shift - factors.weight.log() - shown.log()
        return (weight * scale[..., None]).mean(0), (bias * scale + shift).mean(0)

    def _lambdas(self, taus: Sequence[float]) -> Tensor:
        """Return lambda (L, d) at values of tau, or one empty lambda where nothing is drawn."""
        return torch.tensor([[tau] for tau in taus]) if self.family.drawn else torch.zeros(1, 0)


class Reader:
    """Networks and the linear maps that read their last features.

    `readouts` has for each of K networks weights (C, F) and biases (C,); `mixed` gives the sum over
    networks, `each` the networks apart. Rows are taken 512 at a time, and the last block is
    filled up: rounding depends on a block's size, and a row's score must not depend on
    which others it came with.
    """

    def __init__(
        self,
        networks: Sequence[Conditioned],
        readouts: Sequence[tuple[Tensor, Tensor]],
        normalization: Normalization | None = None,
    ) -> None:
        self.networks, self.normalization = [one.eval() for one in networks], normalization
        self.weight = torch.stack([weight for weight, _ in readouts]).float()  # (K, C, F)
        self.bias = torch.stack([bias for _, bias in readouts])
        self.stack = None if layers_of(networks[0]) is None else StackedNetwork(networks)

    def _features(self, x: Array) -> Iterator[Tensor]:
        """Yield the features (K, F, 512) of some rows at a time."""
        samples = Samples(x, torch.device("cpu"), self.normalization)
        for start in range(0, len(x), ROWS):
            rows = torch.arange(start, start + ROWS) % len(x)
            block = samples.prepared(samples.raw(rows))
            if self.stack is None:
                yield torch.stack([network.features(block).T for network in self.networks])
            else:
                features = self.stack.features(block)
                yield features.expand(len(self.networks), *features.shape[-2:])

    @torch.no_grad()
    def mixed(self, x: Array) -> Floats:
        """Return the sum over networks, (n, C)."""
        weight = self.weight.transpose(0, 1).flatten(1)  # (C, K F)
        parts = [(weight @ features.flatten(0, 1)).T for features in self._features(x)]
        return np.asarray(torch.cat(parts)[: len(x)].double().numpy() + self.bias.sum(0).numpy())

    @torch.no_grad()
    def each(self, x: Array) -> Floats:
        """Return what each network says, (K, n, C)."""
        parts = [torch.bmm(self.weight, features) for features in self._features(x)]
        scores = torch.cat(parts, dim=2)[:, :, : len(x)].double() + self.bias[..., None]
        return np.asarray(scores.transpose(1, 2).numpy())


@dataclass
class Ensemble:
    """Members of one shape, and trees that may stand beside them.

    `n_trained` is how many networks were trained, of which members are what was kept. `taus` are
    where they are read. `out_of_fold` (n, C) has what members say of training rows that they left
    out, NaN for rows that none did.
    """

    members: list[Member]
    n_trained: int
    taus: tuple[float, ...]
    in_shape: tuple[int, ...]
    normalization: Normalization | None
    out_of_fold: Floats = field(repr=False)
    trees: Trees | None = field(default=None, repr=False)

    @property
    def merits(self) -> Floats:
        """The members' merits, (K,)."""
        return np.array([member.merit for member in self.members], np.float64)

    @property
    def weights(self) -> Floats:
        """How much each member counts, (K,), 1 in sum."""
        return shares(self.merits)

    @property
    def tau_range(self) -> tuple[float, float]:
        """The range that tau was drawn from."""
        family = self.members[0].family
        require(family.drawn, "lambda can be chosen if it was drawn in training, got a fixed loss")
        return family.ranges[0]

    def checksum(self, others: Floats) -> int:
        """Return a number that tells these members and trees, and other numbers, from others.

        It is the same for copies, also through a file.
        """
        trees = [] if self.trees is None else [self.trees.share, self.trees.stretch]
        total = zlib.crc32(np.concatenate([others, self.weights, trees]).data)
        for member in self.members:
            weight: Any = member.network.linear.weight  # torch's types do not know that it is one
            total = zlib.crc32(weight.detach().cpu().contiguous().numpy(), total)
        return total

    @cached_property
    def _reader(self) -> Reader:
        return self._mixing([member.calibrated_readout(self.taus) for member in self.members])

    def scores(self, blocks: Iterable[Array]) -> Floats:
        """Return calibrated log-probabilities up to a constant, (n, C): the weighted mean."""
        trees, parts = self.trees, []
        for x in blocks:
            scores = self._reader.mixed(x)
            parts.append(scores if trees is None else trees.joined(scores, trees.scores(x)))
        return np.concatenate(parts)

    @property
    def left_out_scores(self) -> Floats:
        """Scores of training rows by members and trees that left them out, NaN where none did."""
        if self.trees is None:
            return self.out_of_fold
        return self.trees.joined(self.out_of_fold, self.trees.out_of_fold)

    def logits(self, blocks: Iterable[Array], taus: Sequence[float | None]) -> Floats:
        """Return the members' mean logits at values of tau, (n, len(taus), C), uncalibrated.

        None is the top of the range. A loss that draws nothing has no other.
        """
        drawn = self.members[0].family.drawn
        fixed = f"this model has a fixed loss, so no tau can be chosen, got {taus[0]}"
        require(drawn or set(taus) == {None}, fixed)
        low, top = self.tau_range if drawn else (0.0, 0.0)
        wanted = [top if tau is None else require_number("tau", tau, low, top) for tau in taus]
        readouts = [member.logit_readout(wanted) for member in self.members]
        reader = self._mixing([(weight.flatten(0, 1), bias.flatten()) for weight, bias in readouts])
        mixed = np.concatenate([reader.mixed(x) for x in blocks])
        return mixed.reshape(len(mixed), len(taus), -1)

    def _mixing(self, readouts: Sequence[tuple[Tensor, Tensor]]) -> Reader:
        """Return a reader whose sum over members is their weighted mean."""
        pairs = zip(self.weights, readouts, strict=True)
        weighted = [(share * weight, share * bias) for share, (weight, bias) in pairs]
        return Reader([member.network for member in self.members], weighted, self.normalization)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_reader"}


def shares(merits: Floats) -> Floats:
    """Return exp(merit / 0.01), 1 in sum."""
    weights = np.exp((merits - merits.max()) / SHARPNESS)
    return np.asarray(weights / weights.sum())


def judge(ensemble: Ensemble, x: Array, y: Codes, fold: Codes) -> None:
    """Set the members' merit, and the ensemble's scores of rows by members that left them out."""
    _, group_of = np.unique([member.group for member in ensemble.members], return_inverse=True)
    left_out = np.array([member.left_out for member in ensemble.members])
    sizes, n_classes = np.bincount(group_of), int(y.max()) + 1
    sums = np.zeros((len(sizes), len(y), n_classes))
    judges = np.zeros((len(sizes), len(y), 1))
    for left in np.unique(left_out):
        rows, places = np.flatnonzero(fold == left), np.flatnonzero(left_out == left)
        members = [ensemble.members[place] for place in places]
        readouts = [member.calibrated_readout(ensemble.taus) for member in members]
        reader = Reader([m.network for m in members], readouts, ensemble.normalization)
        for group, scores in zip(group_of[places], reader.each(x[rows]), strict=True):
            sums[group, rows] += scores
            judges[group, rows] += 1
    judged = (judges > 0).all((0, 2))
    scores, labels = sums[:, judged] / judges[:, judged], y[judged]
    if len(np.unique(labels)) < n_classes:
        return
    merits = np.array([merit(labels, group) for group in scores])
    for member, group in zip(ensemble.members, group_of, strict=True):
        member.merit = merits[group]
    weights = shares(merits) * sizes
    ensemble.out_of_fold[judged] = np.tensordot(weights / weights.sum(), scores, 1)


def join(ensemble: Ensemble, before: Ensemble) -> None:
    """Put the members from before in front of an ensemble's, and take over their trees.

    Old and new count by their numbers of members: their merits were measured on different rows,
    so they cannot be compared. What was fitted before stays as it is.
    """

    def worth(merits: Floats, members: int) -> Floats:  # exp(merit / 0.01) sums up to members
        return np.asarray(merits - SHARPNESS * (logsumexp(merits / SHARPNESS) - np.log(members)))

    added = ensemble.n_trained - before.n_trained
    merits = np.concatenate([worth(before.merits, before.n_trained), worth(ensemble.merits, added)])
    first = float(shares(merits)[: len(before.members)].sum())
    old, new = before.out_of_fold, ensemble.out_of_fold
    mixed = first * old + (1 - first) * new
    ensemble.out_of_fold = np.where(np.isnan(mixed), np.where(np.isnan(old), new, old), mixed)
    members = zip([*before.members, *ensemble.members], merits, strict=True)
    ensemble.members = [replace(member, merit=merit) for member, merit in members]
    ensemble.trees = before.trees and replace(before.trees)  # to be weighed anew


def weigh(trees: Trees, networks: Floats, y: Codes) -> None:
    r"""Set the trees' share by how both rank rows that they left out, (n, C) with NaN rows.

    It is :math:`1 / (1 + e^{(A_\mathrm{networks} - A_\mathrm{trees} - h) / 0.05})` of both
    AUCs. The m trees that judge a row are fewer than the T that score, hence the handicap
    h = 1.2 (1 / m - 1 / T), at most 0.1: 0.02 for 50 and 300.
    """
    judged = ~np.isnan(networks[:, 0])
    by_networks, by_trees, labels = networks[judged], trees.out_of_fold[judged], y[judged]
    handicap = min(HANDICAP * (1 / trees.judging - 1 / len(trees.trees)), MOST_HANDICAP)
    behind = merit(labels, by_networks) - merit(labels, by_trees) - handicap
    trees.share = float(1 / (1 + np.exp(behind / TREE_SHARPNESS)))
    trees.stretch = spread(by_networks) / max(spread(by_trees), 1e-6)


def merit(y: Codes, scores: Floats) -> float:
    """Return the AUC of scores (n, C); of more classes the mean AUC of one against the rest."""
    if scores.shape[1] == 2:
        return auc(y, scores[:, 1] - scores[:, 0])
    return macro_auc(y, scores - np.logaddexp.reduce(scores, axis=1)[:, None])


def spread(scores: Floats) -> float:
    """Return how far scores (n, C) lie apart: the deviation of each class's from the row's mean."""
    centred = scores - scores.mean(axis=1, keepdims=True)
    return float(centred.std(axis=0).mean())


def fit_recalibration(
    scores: Floats, codes: Codes, weight: Floats | None = None
) -> tuple[float, Floats]:
    r"""Return the slope a and the offsets b (C,) that make the labels most likely (Platt 1999).

    Log-probabilities (n, C), up to a constant, become ``a * scores + b``. Weight decay leaves
    log-odds too flat, and few rows leave them too steep. One slope for all keeps the order of the
    rows. The penalty :math:`5 ((a-1)^2 + \sum_c b_c^2)` holds both near "change nothing" where
    there are few rows. Rows of NaN were not left out by any member; where those left out lack a
    class, nothing is changed.
    """
    n_classes = int(codes.max()) + 1
    held = ~np.isnan(scores[:, 0])
    if len(np.unique(codes[held])) < n_classes:  # a class that is never seen would be ruled out
        return 1.0, np.zeros(n_classes)
    share = np.ones(held.sum()) if weight is None else weight[held]
    centred = scores[held] - scores[held].mean(axis=1, keepdims=True)
    truth = np.eye(n_classes)[codes[held]]

    def cost(values: Floats) -> tuple[float, Floats]:
        slope, offset = values[0], values[1:]
        logits = slope * centred + offset
        peak = logits.max(axis=1, keepdims=True)
        log_sum = peak[:, 0] + np.log(np.exp(logits - peak).sum(axis=1))
        errors = share[:, None] * (softmax(logits, axis=1) - truth)
        gradient = np.array([(errors * centred).sum(), *errors.sum(axis=0)])
        likelihood = (share * (log_sum - logits[truth == 1])).sum()
        change = np.array([slope - 1, *offset])
        return float(likelihood + STRENGTH * change @ change), gradient + 2 * STRENGTH * change

    start = np.array([1.0, *np.zeros(n_classes)])
    bounds = [(LEAST_SLOPE, None)] + [(None, None)] * n_classes
    best = minimize(cost, start, jac=True, method="L-BFGS-B", bounds=bounds).x
    return float(best[0]), np.asarray(best[1:])


def prior_shift(
    prior: float | Sequence[float] | None, class_counts: Sequence[float] | Floats, rare: int = 1
) -> Floats:
    """Return what to add to log-probabilities (C,) for another prior than the training rows'.

    `class_counts` are those of the rows, or the sums of their weights. `prior` is the probability
    of the class `rare` of two, or of each class.
    """
    counts = np.asarray(class_counts, np.float64)
    if prior is None:
        return np.zeros(len(counts))
    wanted = np.array([require_open("prior", share, 0, 1) for share in np.atleast_1d(prior)])
    if np.ndim(prior) == 0 and len(counts) == 2:
        wanted = np.where(np.arange(2) == rare, wanted, 1 - wanted)
    fits = len(wanted) == len(counts) and abs(wanted.sum() - 1) <= 1e-6
    require(fits, f"prior must hold {len(counts)} probabilities that sum to 1, got {prior!r}")
    return np.asarray(np.log(wanted) - np.log(counts / counts.sum()))
