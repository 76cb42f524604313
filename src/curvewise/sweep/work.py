"""What runs are trained on, and the work itself: one stack of runs, trained and scored.

Tasks come from the data sources and are thinned, split and turned into features in the driver;
`train_stack` is what a worker does.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from curvewise.base.errors import require
from curvewise.base.files import require_file, sha256
from curvewise.data.feature_bank import FeatureBank, embedded
from curvewise.data.registry import load_task
from curvewise.data.task import Progress, SourceOptions, Task, split_rows
from curvewise.losses.family import LossFamily
from curvewise.losses.registry import METHODS, evaluation_lambda, make_objective
from curvewise.networks.conditioning import condition
from curvewise.networks.registry import (
    build_network,
    input_statistics,
    load_weights,
    read_weights,
)
from curvewise.roc.curve import roc_curve
from curvewise.roc.metrics import binary_metrics
from curvewise.sweep.plan import PlannedRun, Problem, ProblemInfo, Result, Stack
from curvewise.training.recipe import Recipe
from curvewise.training.stacked import fit_stacked
from curvewise.training.stacked_network import stacked_scores

LOW_RATES = (0.001, 0.01, 0.1)


class Problems:
    """Reads what planned runs train on; the last few sources stay in memory."""

    def __init__(
        self,
        *,
        data_dir: Path | None = None,
        cache_dir: Path | None = None,
        progress: Progress | None = None,
    ) -> None:
        self.data_dir, self.progress = data_dir, progress
        self.cache_dir = SourceOptions(cache_dir=cache_dir).cache_folder
        load = partial(load_task, data_dir=data_dir, cache_dir=self.cache_dir, progress=progress)
        self._task: Callable[..., Task] = lru_cache(3)(load)
        # One for all tasks, so that an image's features are computed once.
        self._bank = lru_cache(None)(partial(FeatureBank, self.cache_dir))

    def describe(self, run: PlannedRun) -> ProblemInfo:
        """Return the fingerprint and kind of a run's data, without the work of features."""
        task = self._thinned(run)
        if run.features.get("embed"):
            self._bank_of(run)  # a backbone that cannot be used is told before any work
            require(task.kind == "image", f"embed needs images, got {task.name} with {task.kind}")
        # Images go into an MLP as they are, pixel by pixel.
        flat = task.kind == "image" and run.network.get("name") == "mlp" and not run.features
        changes = (run.features, run.validation, run.seed, flat)
        weights = _weights_file(run).read_bytes() if run.network.get("weights") else b""
        kind = "features" if run.features or flat else task.kind
        return ProblemInfo(sha256([f"{task.fingerprint} {changes}", weights]), kind)

    def load(self, run: PlannedRun) -> Problem:
        """Return the arrays that a run trains and is tested on."""
        task, info = self._thinned(run), self.describe(run)
        if run.features.get("embed"):
            task = embedded(task, self._bank_of(run), progress=self.progress)
        y_validation, held = None, []
        if run.validation is not None:
            y, groups = task.y_train, task.groups
            inner, kept = split_rows(y, run.validation, seed=run.seed, groups=groups)
            y_validation, held = y[kept], [np.asarray(task.x_train[kept])]
            task = task.rows(inner)
        parts = [task.x_train, task.x_test, *held]
        scale = weights = None
        if run.network.get("weights"):
            weights = {name: v.numpy() for name, v in read_weights(_weights_file(run)).items()}
        if info.kind == "features":
            parts = as_features(parts, pca=run.features.get("pca"))
        elif weights is None:
            scale = task.normalization()
        else:
            with torch.device("meta"):
                network = build_network(run.network["name"], in_shape=task.x_train.shape[1:])
            # Published weights want what they were trained on.
            scale = input_statistics(network) or task.normalization()
        return Problem(
            x_train=parts[0],
            y_train=task.y_train,
            x_test=parts[1],
            y_test=task.y_test,
            fingerprint=info.fingerprint,
            class_names=task.class_names,
            kind=info.kind,
            normalization=scale,
            x_validation=parts[2] if held else None,
            y_validation=y_validation,
            weights=weights,
        )

    def _thinned(self, run: PlannedRun) -> Task:
        task = self._task(run.task, seed=run.seed, **run.data)
        return task if run.beta is None else task.at_beta(run.beta, seed=run.seed)

    def _bank_of(self, run: PlannedRun) -> FeatureBank:
        return self._bank(run.features["embed"], run.features.get("size"))


def _weights_file(run: PlannedRun) -> Path:
    return require_file("weights file", Path(run.network["weights"]))


def as_features(parts: list[NDArray[Any]], *, pca: int | None) -> list[NDArray[np.float32]]:
    """Return float32 features (n, d) of every part, scaled by what the first one (training) shows.

    Images become pixels in a row. With `pca` they are the leading principal components, scaled
    together so that their variances average 1; the columns keep their proportions. Without, every
    column is standardised.
    """
    flat = [np.asarray(part, dtype=np.float32).reshape(len(part), -1) for part in parts]
    mean = flat[0].mean(axis=0)
    if pca is None:
        scale = flat[0].std(axis=0)
        scale[scale < 1e-6] = 1.0  # a constant column stays 0
        return [(part - mean) / scale for part in flat]
    most = min(flat[0].shape)
    require(pca <= most, f"pca must be at most {most} here, got {pca}")
    from sklearn.decomposition import PCA

    components = PCA(pca, svd_solver="covariance_eigh").fit(flat[0].astype(np.float64))
    spread = float(np.sqrt(components.explained_variance_.mean()))
    return [(components.transform(part) / spread).astype(np.float32) for part in flat]


def train_stack(stack: Stack, problem: Problem) -> list[Result]:
    """Train all runs of a stack; a member that diverges says so, the others go on."""
    x, y, n_classes = problem.x_train, problem.y_train, len(problem.class_names)
    counts = np.bincount(y, minlength=n_classes).tolist()
    objectives = [make_objective(run.method, run.settings, counts) for run in stack.runs]
    recipes = [Recipe(**run.recipe) for run in stack.runs]
    first, given = stack.runs[0], problem.weights
    options = {name: value for name, value in first.network.items() if name != "weights"}
    name = options.pop("name", None) or ("mlp" if problem.kind == "features" else "small-cnn")
    options |= {"in_shape": tuple(x.shape[1:]), "n_classes": n_classes}

    def build(seed: int) -> torch.nn.Module:
        network = build_network(name, seed=seed, **options)
        if given is not None:
            load_weights(network, {n: torch.from_numpy(v) for n, v in given.items()})
        return condition_like(first.method, network)

    fitted = fit_stacked(build, objectives, x, y, recipes, normalization=problem.normalization)
    pairs = zip(objectives, stack.runs, strict=True)
    lams = torch.stack([evaluation_lambda(o, run.evaluate) for o, run in pairs])
    scored = partial(stacked_scores, fitted.networks, lams=lams, normalization=fitted.normalization)
    scores = scored(problem.x_test)[:, 0]
    kept = None if problem.x_validation is None else scored(problem.x_validation)[:, 0]
    seconds = fitted.seconds / len(fitted)
    results = []
    for k, identity in enumerate(stack.identities):
        reason = fitted.diverged.get(k)
        if reason is None and not np.isfinite(scores[k]).all():
            reason = "the trained model's scores are not finite"
        if reason is not None:
            results.append(Result(identity, "diverged", seconds=seconds, message=reason))
            continue
        metrics = score_metrics(problem.y_test, scores[k])
        validation = None if kept is None else kept[k]
        if validation is not None and problem.y_validation is not None:
            metrics["validation_auc"] = roc_curve(problem.y_validation, validation).auc
        results.append(Result(identity, "done", metrics, scores[k], validation, seconds))
    return results


def condition_like(method: str, network: torch.nn.Module) -> torch.nn.Module:
    """Return the network that `fit` is to be given for a method.

    That is the network itself, which `fit` conditions on what the objective draws; for a method
    that draws but has no FiLM, the network conditioned on nothing, which `fit` leaves alone.
    """
    made = METHODS[method]
    return condition(network, LossFamily()) if made.draws and not made.film else network


def score_metrics(y: Sequence[int] | NDArray[Any], score: NDArray[Any]) -> dict[str, float]:
    """Return what is recorded of a model's scores z1 - z0; rates are at the threshold 0.

    >>> score_metrics([0, 0, 1], np.array([-1.0, 0.5, 2.0]))["auc"]
    1.0
    """
    metrics = asdict(binary_metrics(y, score, threshold=0.0))
    curve = roc_curve(y, score)
    low = {f"tpr_at_fpr_{rate:g}": float(curve.tpr_at(rate)) for rate in LOW_RATES}
    return {"auc": metrics.pop("auroc"), **metrics, **low}
