"""`LCTClassifier` and `VSClassifier`: three lines from a table with a rare class to a model.

`to_parts` and `from_parts` take a fitted one apart into tensors and plain data, and rebuild it
without running code.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from curvewise.base.errors import require, require_choice, require_open
from curvewise.estimator.classifier import FamilyClassifier
from curvewise.estimator.ensemble import Ensemble, Member
from curvewise.estimator.fitting import Settings
from curvewise.estimator.inputs import inputs_from_dict
from curvewise.estimator.trees import Trees
from curvewise.losses.family import LossFamily


@dataclass(eq=False, repr=False)
class LCTClassifier(FamilyClassifier):
    """Classifier for a rare class: an ensemble over a family of losses, with nothing to tune.

    Takes tables (DataFrames with their types, categories and gaps, or arrays) and images
    (n, H, W, C). Members differ in omega, gamma, the density of tau, input scaling and
    seed; each leaves out a sixth of the rows, and what they say of those decides how much each
    counts. Probabilities are calibrated by the closed form of the loss, whatever it was.

    Parameters
    ----------
    n_members
        How many networks are trained together; 18 are three input scalings by six folds.
    trees
        Extremely randomised trees that are grown beside the networks of a table: so many up to
        3,333 rows, fewer above, none above 20,000. They count by how they rank rows they left out;
        0 leaves the family of losses to itself.
    hidden
        Widths of the layers (tables and backbones).
    tau_range
        What tau is drawn from.
    steps, batch_size
        Length of training and rows a step; None chooses both by the number of rows (a small
        network with convolutions always trains 600 steps).
    learning_rate, weight_decay
        Those of AdamW.
    backbone
        For images: "efficientnet-lite0" trains on its features (extra ``[pretrained]``). None
        trains a small network with convolutions.
    network
        A function (in_shape, n_classes) -> nn.Module that ends in a linear layer, instead.
    prior
        Share of the rare class (of each class, if more than two) where the model will be used; None
        takes that of the training rows.
    calibration_fraction
        Share of the rows that `fit` sets aside for `choose_operating_point`.
    warm_start
        With a larger `n_members`, a second `fit` trains the new members only.
    n_jobs
        Threads, as in scikit-learn: None is one, -1 all.
    random_state, verbose
        As in scikit-learn.

    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(600, weights=[0.95], random_state=0)
    >>> clf = LCTClassifier(n_members=6, random_state=0).fit(X, y)
    >>> clf.predict_proba(X[:2]).shape
    (2, 2)
    """

    n_members: int = 18
    _: KW_ONLY
    trees: int = 300
    tau_range: tuple[float, float] = (0.0, 3.0)

    def _settings(self) -> Settings:
        tau = self.tau_range
        fits = isinstance(tau, Sequence) and len(tau) == 2 and tau[0] < tau[1]
        require(fits, f"tau_range must be (low, high) with low < high, got {tau!r}")
        return Settings.of(self, tau_range=tuple(tau))


@dataclass(eq=False, repr=False)
class VSClassifier(FamilyClassifier):
    """As `LCTClassifier`, with one fixed vector-scaling loss: members differ in scaling and seed.

    `omega`, `gamma` and `tau` are those of `vs_loss`; their defaults are cross-entropy. The other
    parameters are those of `LCTClassifier`; trees grow only if asked for.

    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(600, weights=[0.95], random_state=0)
    >>> VSClassifier(tau=1.0, n_members=6, random_state=0).fit(X, y).classes_
    array([0, 1])
    """

    omega: float | Sequence[float] = 0.5
    gamma: float = 0.0
    tau: float = 0.0

    def _settings(self) -> Settings:
        if not isinstance(self.omega, Sequence) or isinstance(self.omega, str):
            require_open("omega", self.omega, 0, 1)  # at an end one class would count for nothing
        return Settings.of(self, fixed=(self.omega, self.gamma, self.tau))


KINDS: dict[str, Callable[..., FamilyClassifier]] = {
    kind.__name__: kind for kind in (LCTClassifier, VSClassifier)
}
ARRAYS = (
    "out_of_fold_",
    "out_of_fold_labels_",
    "calibration_scores_",
    "calibration_labels_",
    "class_counts_",
    "class_weights_",
)


def to_parts(estimator: FamilyClassifier) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return the tensors of a fitted estimator, and all else ready for JSON."""
    fitted = type(estimator).__name__ in KINDS and hasattr(estimator, "ensemble_")
    require(fitted, "an estimator must be fitted before it is saved, got one that is not")
    ensemble, classes = estimator.ensemble_, estimator.classes_
    slope, offset = estimator.recalibration_
    parameters = {  # as JSON has them: numbers and lists of Python, not of numpy
        name: value.tolist() if isinstance(value, np.generic | np.ndarray) else value
        for name, value in estimator.get_params(deep=False).items()
    }
    if not isinstance(parameters["random_state"], int | None):
        parameters["random_state"] = None
    require(
        parameters["network"] is None,
        "an estimator with a network function of its own cannot be saved safely, for loading "
        "would have to run it; pickle it instead",
    )
    same = estimator._settings().match(ensemble)
    require(same, "hidden and tau_range must be those of fit when a model is saved, got others")
    plain = classes.dtype.kind in "biufUSO"
    require(plain, f"labels must be numbers or text to be saved, got {classes.dtype}")
    states = [member.network.state_dict() for member in ensemble.members]
    tensors = {
        f"network.{name}": torch.stack([state[name] for state in states]) for name in states[0]
    }
    arrays = {"merit": ensemble.merits, "out_of_fold": ensemble.out_of_fold}
    arrays |= {name: np.ascontiguousarray(getattr(estimator, name)) for name in ARRAYS}
    tensors |= {name: torch.from_numpy(array) for name, array in arrays.items()}
    if ensemble.trees is not None:
        tensors |= ensemble.trees.to_tensors()
    return tensors, {
        "estimator": type(estimator).__name__,
        "parameters": parameters,
        "classes": {"dtype": str(classes.dtype), "values": classes.tolist()},
        "n_features": int(estimator.n_features_in_),
        "feature_names": list(getattr(estimator, "feature_names_in_", [])),
        "in_shape": ensemble.in_shape,
        "inputs": estimator.inputs_.to_dict(),
        "families": [member.family.to_dict() for member in ensemble.members],
        "class_counts": [member.class_counts for member in ensemble.members],
        "oversampling": [member.oversampling for member in ensemble.members],
        "taus": ensemble.taus,
        "n_members": ensemble.n_trained,
        "seed": estimator._seed,
        "rows_sum": estimator._rows_sum,
        "grouped": estimator._grouped,
        "slope": slope,
        "offset": offset.tolist(),
    }


def from_parts(tensors: Mapping[str, Tensor], about: Mapping[str, Any]) -> FamilyClassifier:
    """Return the estimator that `to_parts` took apart; it predicts the same bits."""
    kind = KINDS[require_choice("estimator", about["estimator"], KINDS)]
    parameters = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in about["parameters"].items()
    }
    estimator = kind(**parameters)
    classes, in_shape = about["classes"], tuple(about["in_shape"])
    estimator.classes_ = np.array(classes["values"], dtype=classes["dtype"])
    estimator.n_features_in_ = about["n_features"]
    if about["feature_names"]:
        estimator.feature_names_in_ = np.array(about["feature_names"], dtype=object)
    estimator.inputs_ = inputs_from_dict(about["inputs"])
    estimator._seed = about["seed"]
    estimator._rows_sum, estimator._grouped = about["rows_sum"], about["grouped"]
    for name in ARRAYS:
        setattr(estimator, name, tensors[name].numpy())
    estimator.recalibration_ = about["slope"], np.array(about["offset"])
    settings, members = estimator._settings(), []
    for k, state in enumerate(about["families"]):
        family = LossFamily.from_dict(state)
        network = settings.untrained(family, in_shape, len(estimator.classes_))
        names = network.state_dict()
        network.load_state_dict({name: tensors[f"network.{name}"][k] for name in names})
        counts, times = tuple(about["class_counts"][k]), tuple(about["oversampling"][k])
        members.append(Member(network.eval(), family, counts, times, float(tensors["merit"][k])))
    estimator.ensemble_ = Ensemble(
        members,
        n_trained=about["n_members"],
        taus=tuple(about["taus"]),
        in_shape=in_shape,
        normalization=estimator.inputs_.normalization,
        out_of_fold=tensors["out_of_fold"].numpy(),
        trees=Trees.from_tensors(tensors, in_shape[0]),
    )
    return estimator
