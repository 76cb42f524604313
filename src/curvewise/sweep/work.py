"""What a worker does: train one stack of runs on a problem and score it."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from curvewise.losses.family import LossFamily
from curvewise.losses.registry import METHODS, evaluation_lambda, make_objective
from curvewise.networks.conditioning import condition
from curvewise.networks.registry import build_network, load_weights
from curvewise.roc.curve import roc_curve
from curvewise.roc.metrics import binary_metrics
from curvewise.sweep.plan import PlannedRun, Problem, Result, Stack
from curvewise.training.recipe import Recipe
from curvewise.training.stacked import FittedStack, fit_stacked, stacked_scores

LOW_RATES = (0.001, 0.01, 0.1)


def train_stack(stack: Stack, problem: Problem) -> list[Result]:
    """Train all runs of a stack; a member that diverges says so, the others go on."""
    counts = np.bincount(problem.y_train, minlength=len(problem.class_names)).tolist()
    objectives = [make_objective(run.method, run.settings, counts) for run in stack.runs]
    recipes = [Recipe(**run.recipe) for run in stack.runs]
    first = stack.runs[0]
    name, options = network_of(first, problem)

    def build(seed: int) -> torch.nn.Module:
        network = build_network(
            name,
            in_shape=tuple(problem.x_train.shape[1:]),
            n_classes=len(problem.class_names),
            seed=seed,
            **options,
        )
        if problem.weights is not None:
            load_weights(network, {n: torch.from_numpy(v) for n, v in problem.weights.items()})
        return condition_like(first.method, network)

    fitted = fit_stacked(
        build,
        objectives,
        problem.x_train,
        problem.y_train,
        recipes,
        normalization=problem.normalization,
    )
    lams = torch.stack(
        [evaluation_lambda(o, run.evaluate) for o, run in zip(objectives, stack.runs, strict=True)]
    )
    scores = _scores(fitted, problem.x_test, lams)
    kept = None if problem.x_validation is None else _scores(fitted, problem.x_validation, lams)
    return [
        _result(fitted, k, identity, problem, scores, kept)
        for k, identity in enumerate(stack.identities)
    ]


def condition_like(method: str, network: torch.nn.Module) -> torch.nn.Module:
    """Return the network that `fit` is to be given for a method.

    That is the network itself, which `fit` conditions on what the objective draws; for a method
    that draws but has no FiLM, the network conditioned on nothing, which `fit` leaves alone.
    """
    made = METHODS[method]
    return condition(network, LossFamily()) if made.draws and not made.film else network


def network_of(run: PlannedRun, problem: Problem) -> tuple[str, dict[str, Any]]:
    """Return the name and options of a run's network; by the kind of data if it names none."""
    options = dict(run.network)
    options.pop("weights", None)  # the problem brings them
    name = options.pop("name", None)
    return name or ("mlp" if problem.kind == "features" else "small-cnn"), options


def _scores(fitted: FittedStack, x: NDArray[Any], lams: torch.Tensor) -> NDArray[np.float32]:
    return stacked_scores(fitted.networks, x, lams, normalization=fitted.normalization)[:, 0]


def _result(
    fitted: FittedStack,
    k: int,
    identity: str,
    problem: Problem,
    scores: NDArray[np.float32],
    kept: NDArray[np.float32] | None,
) -> Result:
    seconds = fitted.seconds / len(fitted)
    reason = fitted.diverged.get(k)
    if reason is None and not np.isfinite(scores[k]).all():
        reason = "the trained model's scores are not finite"
    if reason is not None:
        return Result(identity, "diverged", {}, None, None, seconds, reason)
    metrics = score_metrics(problem.y_test, scores[k])
    if kept is not None and problem.y_validation is not None:
        metrics["validation_auc"] = roc_curve(problem.y_validation, kept[k]).auc
    own = None if kept is None else kept[k]
    return Result(identity, "done", metrics, scores[k], own, seconds)


def score_metrics(y: Sequence[int] | NDArray[Any], score: NDArray[Any]) -> dict[str, float]:
    """Return what is recorded of a model's scores z1 - z0; rates are at the threshold 0.

    >>> score_metrics([0, 0, 1], np.array([-1.0, 0.5, 2.0]))["auc"]
    1.0
    """
    metrics = asdict(binary_metrics(y, score, threshold=0.0))
    curve = roc_curve(y, score)
    low = {f"tpr_at_fpr_{rate:g}": float(curve.tpr_at(rate)) for rate in LOW_RATES}
    return {"auc": metrics.pop("auroc"), **metrics, **low}
