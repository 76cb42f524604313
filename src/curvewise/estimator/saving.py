"""A fitted estimator as tensors and plain data, from which it is rebuilt without running code."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from curvewise.base.errors import InputError
from curvewise.estimator.classifier import FamilyClassifier
from curvewise.estimator.ensemble import Ensemble
from curvewise.estimator.estimators import LCTClassifier, VSClassifier
from curvewise.estimator.inputs import inputs_from_dict
from curvewise.estimator.recalibration import Recalibration
from curvewise.estimator.trees import Trees
from curvewise.losses.family import LossFamily
from curvewise.training.run import conditioned

KINDS: dict[str, type[FamilyClassifier]] = {
    "LCTClassifier": LCTClassifier,
    "VSClassifier": VSClassifier,
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
    if type(estimator).__name__ not in KINDS or not hasattr(estimator, "ensemble_"):
        raise InputError("an estimator must be fitted before it is saved, got one that is not")
    parameters = estimator.get_params(deep=False)
    if parameters["network"] is not None:
        raise InputError(
            "an estimator with a network function of its own cannot be saved safely, for loading "
            "would have to run it; pickle it instead"
        )
    parameters = {name: plain(value) for name, value in parameters.items()}
    if not isinstance(parameters["random_state"], int | None):
        parameters["random_state"] = None
    made = estimator.ensemble_
    if not estimator._settings().made(made.networks[0], made.taus, made.in_shape):
        raise InputError(
            "hidden and tau_range must be those of fit when a model is saved, got others"
        )
    if estimator.classes_.dtype.kind not in "biufUSO":
        raise InputError(
            f"labels must be numbers or text to be saved, got {estimator.classes_.dtype}"
        )
    states = [network.state_dict() for network in made.networks]
    tensors = {
        f"network.{name}": torch.stack([state[name] for state in states]) for name in states[0]
    }
    tensors["merit"] = torch.from_numpy(made.merit)
    tensors["out_of_fold"] = torch.from_numpy(made.out_of_fold)
    if made.trees is not None:
        tensors |= made.trees.to_tensors()
    for name in ARRAYS:
        if hasattr(estimator, name):
            tensors[name] = torch.from_numpy(np.ascontiguousarray(getattr(estimator, name)))
    return tensors, {
        "estimator": type(estimator).__name__,
        "parameters": parameters,
        "classes": {"dtype": str(estimator.classes_.dtype), "values": estimator.classes_.tolist()},
        "n_features": int(estimator.n_features_in_),
        "feature_names": list(getattr(estimator, "feature_names_in_", [])),
        "in_shape": made.in_shape,
        "inputs": estimator.inputs_.to_dict(),
        "families": [family.to_dict() for family in made.families],
        "class_counts": made.class_counts,
        "oversampling": made.oversampling,
        "taus": made.taus,
        "n_members": made.n_members,
        "seed": estimator._seed,
        "rows_sum": estimator._rows_sum,
        "grouped": estimator._grouped,
        "slope": estimator.recalibration_.slope,
        "offset": estimator.recalibration_.offset.tolist(),
    }


def from_parts(tensors: Mapping[str, Tensor], about: Mapping[str, Any]) -> FamilyClassifier:
    """Return the estimator that `to_parts` took apart; it predicts the same bits."""
    if about["estimator"] not in KINDS:
        raise InputError(f"an estimator must be one of {list(KINDS)}, got {about['estimator']!r}")
    estimator = KINDS[about["estimator"]](**_tuples(about["parameters"]))
    classes = about["classes"]
    estimator.classes_ = np.array(classes["values"], dtype=classes["dtype"])
    estimator.n_features_in_ = about["n_features"]
    if about["feature_names"]:
        estimator.feature_names_in_ = np.array(about["feature_names"], dtype=object)
    estimator.inputs_ = inputs_from_dict(about["inputs"])
    estimator._seed = about["seed"]
    estimator._rows_sum, estimator._grouped = about["rows_sum"], about["grouped"]
    for name in ARRAYS:
        if name in tensors:
            setattr(estimator, name, tensors[name].numpy())
    estimator.recalibration_ = Recalibration(about["slope"], np.array(about["offset"]))
    families = [LossFamily.from_dict(state) for state in about["families"]]
    estimator.ensemble_ = Ensemble(
        networks=_networks(estimator, tensors, families, tuple(about["in_shape"])),
        families=families,
        merit=_array(tensors["merit"]),
        class_counts=[tuple(counts) for counts in about["class_counts"]],
        oversampling=[tuple(times) for times in about["oversampling"]],
        taus=tuple(about["taus"]),
        n_members=about["n_members"],
        normalization=estimator.inputs_.normalization,
        out_of_fold=_array(tensors["out_of_fold"]),
        in_shape=tuple(about["in_shape"]),
        trees=Trees.from_tensors(tensors, about["in_shape"][0]),
    )
    return estimator


def _networks(
    estimator: FamilyClassifier,
    tensors: Mapping[str, Tensor],
    families: list[LossFamily],
    in_shape: tuple[int, ...],
) -> list[Any]:
    settings, made = estimator._settings(), []
    recipe = settings.recipe(1, in_shape, seed=0)
    for k, family in enumerate(families):
        body = settings.build(in_shape, len(estimator.classes_), seed=0)
        network = conditioned(body, family, recipe)
        names = network.state_dict()
        network.load_state_dict({name: tensors[f"network.{name}"][k] for name in names})
        made.append(network.eval())
    return made


def plain(value: Any) -> Any:
    """Return a parameter as JSON has it: numbers and lists of Python, not of numpy.

    >>> plain(np.int64(3)), plain(np.array([0.5, 0.5]))
    (3, [0.5, 0.5])
    """
    return value.tolist() if isinstance(value, np.generic | np.ndarray) else value


def _tuples(parameters: Mapping[str, Any]) -> dict[str, Any]:
    return {k: tuple(v) if isinstance(v, list) else v for k, v in parameters.items()}


def _array(tensor: Tensor) -> NDArray[Any]:
    array: NDArray[Any] = tensor.numpy()
    return array
