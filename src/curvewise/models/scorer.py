"""A trained model asked one way: at one lambda, with one threshold."""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from torch import Tensor

from curvewise.base.errors import InputError, require_open
from curvewise.losses.family import LossFamily
from curvewise.losses.landscape import calibrated_probability
from curvewise.models.thresholds import Threshold, find_threshold
from curvewise.training.model import Model
from curvewise.training.scoring import logits_at


@dataclass(frozen=True)
class Scorer:
    """A model at one lambda (1, d), with the threshold of its calls."""

    model: Model
    lam: Tensor
    threshold: Threshold
    calibrated: bool
    prior: float | None

    def columns(self, x: NDArray[Any]) -> pd.DataFrame:
        """Return score (z1 - z0), positive (0 or 1), class and perhaps probability of samples."""
        network, scale = self.model.network, self.model.normalization
        logits = logits_at(network, x, self.lam, normalization=scale)[0]
        # As float64, so that a file has all the digits, and comparing them gives these calls.
        score = (logits[:, 1] - logits[:, 0]).numpy().astype(np.float64)
        called = score >= self.threshold.value
        negative, positive = self.model.class_names
        columns: dict[str, Any] = {
            "score": score,
            "positive": called.astype(int),
            "class": np.where(called, positive, negative),
        }
        if self.calibrated:
            assert isinstance(self.model.objective, LossFamily)
            columns["probability"] = calibrated_probability(
                logits,
                class_counts=self.model.class_counts,
                prior=self.prior,
                **self.model.objective.hyperparameters(self.lam[0]),
            ).numpy()
        return pd.DataFrame(columns)


def make_scorer(
    model: Model,
    *,
    tau: float | None = None,
    threshold: float | None = None,
    max_fpr: float | None = None,
    min_tpr: float | None = None,
    calibrated: bool = False,
    prior: float | None = None,
) -> Scorer:
    """Return the scorer of these settings; all that is wrong with them is said before any work.

    A sample is called positive if its score reaches `threshold`, or with `max_fpr` or `min_tpr`
    the one which keeps that rate on the model's test part; without any of them, what training
    chose, or 0 (the paper's t = 0.5). `prior` is the share of positives to expect in calibrated
    probabilities.
    """
    if len(model.class_names) != 2:
        raise InputError(f"predict needs a model of two classes, got {len(model.class_names)}")
    if prior is not None and not calibrated:
        raise InputError(
            f"--prior is for probabilities: give --calibrated too, got {prior:g} alone"
        )
    if calibrated and not isinstance(model.objective, LossFamily):
        kind = type(model.objective).__name__
        raise InputError(f"calibrated probabilities need the vector-scaling loss, got {kind}")
    lam = model.lam(**({} if tau is None else {"tau": tau}))
    found = find_threshold(
        model,
        own_lambda=lam.tolist() == model.lam().tolist(),
        threshold=threshold,
        max_fpr=max_fpr,
        min_tpr=min_tpr,
    )
    if prior is not None:
        require_open("prior", prior, 0, 1)
    objective = model.objective
    biased = isinstance(objective, LossFamily) and objective.reduction == "weighted_mean"
    if calibrated and biased:
        warnings.warn(
            "this model's probabilities are biased, by training with the reduction weighted_mean; "
            "to trust them, train with --reduction expected_mean",
            stacklevel=2,
        )
    return Scorer(model, lam, found, calibrated, prior)
