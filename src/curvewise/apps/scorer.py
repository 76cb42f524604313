"""A trained model asked one way: at one lambda, with one threshold."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from torch import Tensor

from curvewise.errors import InputError, require_number
from curvewise.family import LossFamily
from curvewise.losses.landscape import calibrated_probability
from curvewise.training.model import Model
from curvewise.training.scoring import logits_at


@dataclass(frozen=True)
class Scorer:
    """A model at one lambda (1, d), with the threshold of its calls."""

    model: Model
    lam: Tensor
    threshold: float
    calibrated: bool
    prior: float | None

    def columns(self, x: NDArray[Any]) -> pd.DataFrame:
        """Return score (z1 - z0), positive (0 or 1), class and perhaps probability of samples."""
        network, scale = self.model.network, self.model.normalization
        logits = logits_at(network, x, self.lam, normalization=scale)[0]
        score = (logits[:, 1] - logits[:, 0]).numpy()
        called = score.astype(np.float64) >= self.threshold
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

    A sample is called positive if its score reaches `threshold` (default 0, the paper's t = 0.5),
    or with `max_fpr` or `min_tpr` the one which keeps that rate on the model's test part.
    `prior`, the share of positives to expect, implies `calibrated`.
    """
    if len(model.class_names) != 2:
        raise InputError(f"predict needs a model of two classes, got {len(model.class_names)}")
    rule = {"threshold": threshold, "max_fpr": max_fpr, "min_tpr": min_tpr}
    given = {name: value for name, value in rule.items() if value is not None}
    if len(given) > 1:
        raise InputError(f"one of --threshold, --max-fpr, --min-tpr can be given, got {given}")
    calibrated = calibrated or prior is not None
    if calibrated and not isinstance(model.objective, LossFamily):
        kind = type(model.objective).__name__
        raise InputError(f"calibrated probabilities need the vector-scaling loss, got {kind}")
    lam = model.lam(**({} if tau is None else {"tau": tau}))
    if lam.tolist() != model.lam().tolist() and (max_fpr is not None or min_tpr is not None):
        raise InputError(
            "--max-fpr and --min-tpr know thresholds at the model's own lambda, got --tau too: "
            "choose a --threshold by curvewise evaluate"
        )
    at = 0.0 if threshold is None else require_number("threshold", threshold, -float("inf"))
    if max_fpr is not None or min_tpr is not None:
        at = _threshold(model, max_fpr=max_fpr, min_tpr=min_tpr)
    return Scorer(model, lam, at, calibrated, prior)


def _threshold(model: Model, *, max_fpr: float | None, min_tpr: float | None) -> float:
    """Return the threshold that `choose_operating_point` would choose on the model's test part."""
    corners = model.record.get("test_roc")
    if corners is None:
        raise InputError(
            "--max-fpr and --min-tpr need a model that was tested by curvewise train, got one "
            "without a test part: give a --threshold"
        )
    fpr, tpr = np.array(corners["fpr"]), np.array(corners["tpr"])
    if max_fpr is not None:
        allowed = fpr <= require_number("max_fpr", max_fpr, 0, 1)
    else:
        assert min_tpr is not None
        enough = tpr >= require_number("min_tpr", min_tpr, 0, 1)
        allowed = fpr == fpr[enough].min()
    best = int(np.argmax(np.where(allowed, tpr, -1.0)))  # of equals the highest threshold
    # The first corner calls nothing positive: its threshold is +inf, which JSON does not have.
    return float("inf") if best == 0 else float(corners["thresholds"][best])
