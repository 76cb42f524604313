"""TabM (Gorishniy et al. 2025, ICLR) with a training loop for one CPU thread.

Its authors' settings where they are affordable: 32 members, piecewise-linear embeddings of
quantile-normal numbers, AdamW at 2e-3, gradients clipped at 1. The blocks are 128 wide instead of
512: a sixteenth of the time, and tables of some thousand rows need no more. Training stops by
the log loss of the averaged probabilities on a stratified fifth that is held out; with a handful of
positives in it, that is steadier than its AUC. No class weights.
"""

import copy
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import QuantileTransformer
from torch import Tensor
from torch.nn.functional import binary_cross_entropy, binary_cross_entropy_with_logits

Floats = NDArray[np.float64]
Part = tuple[Tensor | None, Tensor | None, Tensor]  # numbers, columns of two values, labels

WIDTH, EMBEDDING, BINS = 128, 16, 48
LEARNING_RATE, WEIGHT_DECAY, CLIP = 2e-3, 3e-4, 1.0
MOST_STEPS = 2000
STEPS_BETWEEN_LOOKS = 10  # or an epoch, if that is longer: small tables have epochs of 1 step
PATIENCE = 16  # looks without a validation loss that is better by a thousandth
# A validation loss at which nothing is left to learn. Where classes can be told apart it falls by
# more than a thousandth at every look, to no end: all 2,000 steps, for probabilities nearer to 0.
NOTHING_LEFT = 1e-3


class TabMClassifier(ClassifierMixin, BaseEstimator):
    """TabM on a matrix of numbers (n, d) without gaps and labels 0 and 1."""

    def __init__(self, random_state: int = 0) -> None:
        self.random_state = random_state

    def fit(self, X: Floats, y: NDArray[np.int64]) -> Self:  # noqa: N803
        """Train on four fifths of the rows, stop by the rest."""
        self.classes_ = np.unique(y)
        folds = StratifiedKFold(min(5, int(y.sum())), shuffle=True, random_state=self.random_state)
        train, held_out = next(folds.split(X, y))
        self._fit_columns(X[train])
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.random_state)  # weights and dropout use the global state
            self._train(self._tensors(X[train], y[train]), self._tensors(X[held_out], y[held_out]))
        return self

    def predict_proba(self, X: Floats) -> Floats:  # noqa: N803
        """Return the probabilities (n, 2), averaged over the members."""
        numbers, switches, _ = self._tensors(X, np.zeros(len(X)))
        positive = self._probability(numbers, switches).double().numpy()
        return np.column_stack([1 - positive, positive])

    def _fit_columns(self, x: Floats) -> None:
        """Tell numbers from columns of two values (one-hot ones too); constant ones are dropped."""
        distinct = np.array([len(np.unique(column)) for column in x.T])
        self.numbers_, self.switches_ = np.flatnonzero(distinct > 2), np.flatnonzero(distinct == 2)
        self.high_ = x[:, self.switches_].max(axis=0)
        self.quantiles_ = None
        if len(self.numbers_):
            numbers = x[:, self.numbers_]
            # As its authors do: values that repeat would leave steps in the quantiles.
            generator = np.random.default_rng(self.random_state)
            noise = generator.normal(size=numbers.shape) * 1e-5 * numbers.std(axis=0)
            self.quantiles_ = QuantileTransformer(
                n_quantiles=max(min(len(x) // 30, 1000), 10),
                output_distribution="normal",
                random_state=self.random_state,
            ).fit(numbers + noise)

    def _tensors(self, x: Floats, y: NDArray) -> Part:
        numbers = switches = None
        if self.quantiles_ is not None:
            numbers = torch.tensor(self.quantiles_.transform(x[:, self.numbers_])).float()
        if len(self.switches_):
            switches = torch.tensor(x[:, self.switches_] == self.high_).long()
        return numbers, switches, torch.tensor(y).float()

    def _network(self, numbers: Tensor | None) -> torch.nn.Module:
        from rtdl_num_embeddings import PiecewiseLinearEmbeddings, compute_bins
        from tabm import TabM

        embeddings = None
        if numbers is not None:
            bins = compute_bins(numbers, min(BINS, len(numbers) - 1))
            embeddings = PiecewiseLinearEmbeddings(bins, EMBEDDING, activation=False, version="B")
        return TabM.make(
            n_num_features=0 if numbers is None else numbers.shape[1],
            cat_cardinalities=[2] * len(self.switches_),
            d_out=1,
            d_block=WIDTH,
            num_embeddings=embeddings,
        )

    def _train(self, given: Part, held_out: Part) -> None:
        numbers, switches, y = given
        held_numbers, held_switches, held_y = held_out
        self.network_ = self._network(numbers)
        optimizer = torch.optim.AdamW(
            self.network_.parameters(), lr=LEARNING_RATE, weight_decay=WEIGHT_DECAY
        )
        batch = 64 if len(y) < 1000 else 128 if len(y) < 4000 else 256
        looks = max(STEPS_BETWEEN_LOOKS, -(-len(y) // batch))
        best, since, state = float("inf"), 0, self.network_.state_dict()
        order = torch.empty(0, dtype=torch.long)
        for step in range(1, MOST_STEPS + 1):
            if len(order) == 0:
                order = torch.randperm(len(y))
            rows, order = order[:batch], order[batch:]
            logits = self.network_(_rows(numbers, rows), _rows(switches, rows)).squeeze(-1)
            # Each member has a loss of its own: averaged predictions would make them one.
            loss = binary_cross_entropy_with_logits(logits, y[rows, None].expand_as(logits))
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self.network_.parameters(), CLIP)
            optimizer.step()
            if step % looks == 0:
                probability = self._probability(held_numbers, held_switches)
                held = float(binary_cross_entropy(probability, held_y))
                since = 0 if held < best * 0.999 else since + 1
                if held < best:
                    best, state = held, copy.deepcopy(self.network_.state_dict())
                if since >= PATIENCE or held < NOTHING_LEFT:
                    break
        self.network_.load_state_dict(state)

    def _probability(self, numbers: Tensor | None, switches: Tensor | None) -> Tensor:
        self.network_.eval()
        with torch.inference_mode():
            probability = self.network_(numbers, switches).squeeze(-1).sigmoid().mean(1)
        self.network_.train()
        return probability


def _rows(values: Tensor | None, rows: Tensor) -> Tensor | None:
    return None if values is None else values[rows]
