"""Train one model on a task into a folder: model and metrics; resumable."""

import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

from curvewise.base.errors import InputError
from curvewise.base.files import read_json, write_json
from curvewise.base.machine import versions
from curvewise.data.task import Task
from curvewise.losses.family import Objective
from curvewise.losses.registry import describe_objective
from curvewise.models import METRICS, MODEL, RUN, STATE
from curvewise.models.evaluate import Evaluation, evaluation
from curvewise.models.operating import curve_record, own_lambda_values, rule_text
from curvewise.models.saving import load_state, save, save_state
from curvewise.networks.pretrained import load_weights, read_weights
from curvewise.networks.registry import input_statistics
from curvewise.training.loop import Progress, TrainingState, fit
from curvewise.training.model import Model, NetworkSpec
from curvewise.training.recipe import Recipe


@dataclass(frozen=True)
class Outcome:
    """What a training job came to; a job that was stopped before its end has no model."""

    steps: int
    model: Model | None = None
    test: Evaluation | None = None


def train(
    task: Task,
    objective: Objective,
    recipe: Recipe,
    folder: Path,
    *,
    network: str | None = None,
    network_options: dict[str, Any] | None = None,
    weights: Path | None = None,
    validation: float | None = None,
    rule: dict[str, float] | None = None,
    resume: bool = False,
    seed: int | None = None,
    save_minutes: float = 5.0,
    on_progress: Callable[[Progress], None] | None = None,
) -> Outcome:
    """Train on the task's training part and evaluate once, at the end, on its test part.

    The folder gets model.safetensors and metrics.json; while training, state.safetensors every
    `save_minutes`, and when stopped by Ctrl-C. `resume` goes on from that state. `network` is an
    MLP for features and the small CNN for images, if left out. `seed` is the one that split the
    task: the model remembers it, so that nobody tests it on training data. It also remembers the
    operating point that `rule` chooses on what it was tested on. With `validation`, that is this
    fraction of the training part instead.
    """
    if recipe.augment != "none" and task.kind != "image":
        raise InputError(f"augment = {recipe.augment} needs images, got {task.name}")
    test_digest, part = task.test_digest, "test part"
    if validation is not None:
        task, part = task.with_validation(validation, seed=seed or 0), "validation part"
    name = network or ("mlp" if task.kind == "features" else "small-cnn")
    shape = tuple(task.x_train.shape[1:])
    spec = NetworkSpec(name, shape, len(task.class_names), network_options or {})
    body = spec.build(seed=recipe.seed_weights)
    untouched = [] if weights is None else load_weights(body, read_weights(weights))
    # A network with published weights wants the pixels that those were trained on.
    scale = input_statistics(body) or task.normalization()
    identity = {  # what a resumed run must have in common with its beginning, besides the recipe
        "data": task.fingerprint,
        "network": [spec.name, list(spec.in_shape), spec.n_classes, spec.options],
        "objective": describe_objective(objective),
    }

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
        return Outcome(fitted.steps)
    model = Model(
        network=fitted.network,
        spec=spec,
        objective=objective,
        recipe=recipe,
        class_names=task.class_names,
        class_counts=fitted.class_counts,
        normalization=scale,
        preprocessing=task.details,
        record={
            "task": task.name,
            "data_fingerprint": identity["data"],
            "beta": task.beta,
            "epoch_losses": fitted.epoch_losses,
            "steps": fitted.steps,
            "seconds": fitted.seconds,
            "compiled": fitted.compiled,
            "date": f"{date.today()}",
            "versions": versions(),
            "not_loaded": untouched,
            "seed": seed,
            "test_digest": test_digest,
            "measured_on": part,
        },
    )
    test = evaluation(task.y_test, model.scores(task.x_test), rule=rule)
    _remember(model, test, rule)
    save(model, folder / MODEL)
    write_json(folder / METRICS, test.numbers)
    for name in (STATE, RUN):
        (folder / name).unlink(missing_ok=True)
    return Outcome(fitted.steps, model, test)


def _remember(model: Model, test: Evaluation, rule: dict[str, float] | None) -> None:
    """Keep in a model's record the curve that it was tested with, and the point chosen on it."""
    model.record["test_roc"] = curve_record(test.curve)
    if not rule:
        return
    part, point = model.record["measured_on"], test.point
    if not np.isfinite(point.threshold):
        warnings.warn(
            f"by {rule_text(rule)} on the {part} nothing is called positive, nor will predict",
            stacklevel=2,
        )
    model.record["operating_point"] = {
        "rule": rule,
        "lambda": own_lambda_values(model),
        "measured_on": part,
        "threshold": point.threshold if np.isfinite(point.threshold) else None,
        "tpr": point.tpr,
        "fpr": point.fpr,
    }


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


def _require_same(folder: Path, identity: dict[str, Any]) -> None:
    """Raise `InputError` if another run was begun in the folder, by the note beside its state."""
    note = folder / RUN
    begun = read_json(note) if note.exists() else identity
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
