"""Train one model on a task into a folder: model, metrics, figure; resumable."""

import json
import platform
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch

from curvewise.base.errors import InputError
from curvewise.base.files import require_folder, without_nan, write_json
from curvewise.base.machine import VERSION
from curvewise.data.task import Task
from curvewise.losses.family import Objective
from curvewise.models.evaluate import draw_roc, evaluation
from curvewise.models.saving import describe_objective, load_state, save, save_state
from curvewise.models.thresholds import rule_text
from curvewise.networks.registry import input_statistics
from curvewise.networks.weights import load_weights, read_weights
from curvewise.roc.curve import roc_curve
from curvewise.training.loop import Fitted, Progress, fit
from curvewise.training.model import Model, NetworkSpec
from curvewise.training.recipe import Recipe
from curvewise.training.run import TrainingState

MODEL, STATE, RUN = "model.safetensors", "state.safetensors", "run.json"


@dataclass(frozen=True)
class Outcome:
    """What a training job left behind; `model` is None if it was stopped before its end."""

    folder: Path
    model: Model | None
    metrics: dict[str, Any]
    steps: int
    finished: bool


def train(
    task: Task,
    objective: Objective,
    recipe: Recipe,
    folder: Path,
    *,
    network: str | None = None,
    network_options: dict[str, Any] | None = None,
    weights: Path | None = None,
    resume: bool = False,
    seed: int | None = None,
    save_minutes: float = 5.0,
    rule: dict[str, float] | None = None,
    part: str = "test part",
    test_digest: str | None = None,
    on_progress: Callable[[Progress], None] | None = None,
) -> Outcome:
    """Train on the task's training part and evaluate once, at the end, on its test part.

    The folder gets model.safetensors, metrics.json and roc.png; while training, state.safetensors
    every `save_minutes`, and when stopped by Ctrl-C. `resume` goes on from that state. `seed` is
    the one that split the task: the model remembers it, so that nobody tests it on training data.
    It also remembers the operating point that `rule` chooses, with `part`, the name of what the
    task has as its test part, and `test_digest`, that of the source's own (default: the task's).
    """
    require_free(folder, resume=resume)
    if recipe.augment != "none" and task.kind != "image":
        raise InputError(f"augment = {recipe.augment} needs images, got {task.name}")
    spec = default_spec(task, network, network_options)
    body = spec.build(seed=recipe.seed_weights)
    untouched = [] if weights is None else load_weights(body, read_weights(weights))
    # A network with published weights wants the pixels that those were trained on.
    scale = input_statistics(body) or task.normalization()
    identity = _identity(task, spec, objective)

    def keep(state: TrainingState) -> None:
        write_json(folder / RUN, identity)
        save_state(state, folder / STATE)

    with _folder(folder):
        if resume:
            _require_same(folder, identity)
        fitted = fit(
            body,
            objective,
            task.x_train,
            task.y_train,
            recipe,
            normalization=scale,
            state=load_state(folder / STATE) if resume else None,
            on_progress=_keeping(keep, save_minutes, on_progress),
        )
    if not fitted.finished:
        keep(fitted.state)
        return Outcome(folder, None, {}, fitted.steps, False)
    model = Model(
        network=fitted.network,
        spec=spec,
        objective=objective,
        recipe=recipe,
        class_names=task.class_names,
        class_counts=fitted.class_counts,
        normalization=scale,
        preprocessing=task.details,
        record=_record(task, fitted, identity["data"]) | {"not_loaded": untouched, "seed": seed},
    )
    model.record["test_digest"] = test_digest or task.test_digest
    metrics = _deliver(model, task, folder, rule, part)
    return Outcome(folder, model, metrics, fitted.steps, True)


def require_free(folder: Path, *, resume: bool) -> None:
    """Raise `InputError` if the folder has a model, or a stopped run that is not to be resumed."""
    require_folder(folder)
    model_file, state_file = folder / MODEL, folder / STATE
    if model_file.exists():
        raise InputError(f"{model_file} is there already; choose another folder or remove it")
    if state_file.exists() != resume:
        raise InputError(
            f"there is no {state_file} to go on from"
            if resume
            else f"{state_file} is of a stopped run; go on with --resume or remove it"
        )


@contextmanager
def _folder(folder: Path) -> Iterator[None]:
    """Make a folder; if the work in it fails and leaves nothing, take it away again."""
    made = [place for place in (folder, *folder.parents) if not place.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder} cannot be made into a folder: {error.strerror}") from None
    try:
        yield
    except BaseException:
        if not (folder / STATE).exists():
            (folder / RUN).unlink(missing_ok=True)
        with suppress(OSError):  # one that is not empty stays
            for place in made:
                place.rmdir()
        raise


def _identity(task: Task, spec: NetworkSpec, objective: Objective) -> dict[str, Any]:
    """Return what a resumed run must have in common with its beginning, besides the recipe."""
    return {
        "data": task.fingerprint,
        "network": [spec.name, list(spec.in_shape), spec.n_classes, spec.options],
        "objective": describe_objective(objective),
    }


def _require_same(folder: Path, identity: dict[str, Any]) -> None:
    """Raise `InputError` if another run was begun in the folder, by the note beside its state."""
    note = folder / RUN
    begun = json.loads(note.read_text()) if note.exists() else identity
    changed = [name for name in identity if begun.get(name) != identity[name]]
    if changed:
        raise InputError(
            f"the run in {folder} can be resumed only with the {' and '.join(changed)} it was "
            f"started with{' (source, --seed, --beta)' * ('data' in changed)}, got another"
        )


def _keeping(
    keep: Callable[[TrainingState], None],
    minutes: float,
    on_progress: Callable[[Progress], None] | None,
) -> Callable[[Progress], None]:
    """Return a callback that keeps the state every so many minutes, after the given one."""
    last_kept = time.monotonic()

    def step(progress: Progress) -> None:
        nonlocal last_kept
        if on_progress is not None:
            on_progress(progress)
        if time.monotonic() - last_kept > 60 * minutes:
            keep(progress.state())
            last_kept = time.monotonic()

    return step


def _deliver(
    model: Model, task: Task, folder: Path, rule: dict[str, float] | None, part: str
) -> dict[str, Any]:
    """Evaluate the model, write model, metrics and figure, and clear the state away."""
    score = model.scores(task.x_test)
    metrics = evaluation(task.y_test, score, rule=rule)
    curve = roc_curve(task.y_test, score)
    model.record["measured_on"] = part
    model.record["test_roc"] = {
        "fpr": curve.fpr.tolist(),
        "tpr": curve.tpr.tolist(),
        "thresholds": [None, *curve.thresholds[1:].tolist()],
    }
    if rule:
        chosen = metrics["chosen_on_these_data"]
        at = dict(zip(model.objective.drawn, model.lam()[0].tolist(), strict=True))
        about = {name: chosen[name] for name in ("threshold", "tpr", "fpr")}
        if not np.isfinite(about["threshold"]):
            warnings.warn(
                f"by {rule_text(rule)} on the {part} nothing is called positive, nor will predict",
                stacklevel=2,
            )
        model.record["operating_point"] = {
            "rule": rule,
            "lambda": at,
            "measured_on": part,
            **without_nan(about),  # a threshold of +inf, which nothing reaches, becomes None
        }
    save(model, folder / MODEL)
    write_json(folder / "metrics.json", metrics)
    draw_roc(task.y_test, score, metrics, task.name, folder / "roc.png")
    for name in (STATE, RUN):
        (folder / name).unlink(missing_ok=True)
    return metrics


def default_spec(
    task: Task, network: str | None, options: dict[str, Any] | None = None
) -> NetworkSpec:
    """Return the named network, or an MLP for features and the small CNN for images."""
    name = network or ("mlp" if task.kind == "features" else "small-cnn")
    shape = tuple(task.x_train.shape[1:])
    return NetworkSpec(name, shape, len(task.class_names), options or {})


def _record(task: Task, fitted: Fitted, fingerprint: str) -> dict[str, Any]:
    return {
        "task": task.name,
        "data_fingerprint": fingerprint,
        "beta": task.beta,
        "epoch_losses": fitted.epoch_losses,
        "steps": fitted.steps,
        "seconds": fitted.seconds,
        "compiled": fitted.compiled,
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "versions": {
            "curvewise": VERSION,
            "torch": torch.__version__,
            "python": platform.python_version(),
        },
    }
