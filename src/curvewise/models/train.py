"""Train one model on a task into a folder: model and metrics; resumable."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from curvewise.base.errors import InputError, require, require_choice
from curvewise.base.files import read_json, write_json
from curvewise.base.machine import versions
from curvewise.data.task import Task
from curvewise.losses.family import LossFamily, Objective
from curvewise.losses.registry import describe_objective, parse_setting
from curvewise.models import METRICS, MODEL, RUN, STATE
from curvewise.models.evaluate import Evaluation, evaluate
from curvewise.models.operating import remember_test
from curvewise.models.saving import load_state, save, save_state
from curvewise.roc.operating import require_rule
from curvewise.training.loop import Fitted, Progress, TrainingState, fit
from curvewise.training.model import Model, NetworkSpec
from curvewise.training.recipe import Recipe

MEANS = ("weighted_mean", "mean", "expected_mean")  # reductions that training can minimise


@dataclass(frozen=True)
class Outcome:
    """What a training job came to; a job that was stopped before its end has no model."""

    steps: int
    model: Model | None = None
    test: Evaluation | None = None


def read_family(omega: str, gamma: str, tau: str, reduction: str) -> LossFamily:
    """Return a family from texts: "0.5" is a number, "0:3:0.33" a density (low:high:height)."""
    require_choice("--reduction", reduction, MEANS)
    texts = {"omega": omega, "gamma": gamma, "tau": tau}
    settings = {name: parse_setting(name, text) for name, text in texts.items()}
    return LossFamily(**settings, reduction=reduction)


def require_weights(weights: Path, network: str, in_shape: tuple[int, ...]) -> None:
    """Raise `InputError` unless a file's weights fit a network by name."""
    NetworkSpec(network, in_shape).start(None, weights)


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
    fits = recipe.augment == "none" or task.kind == "image"
    require(fits, f"augment = {recipe.augment} needs images, got {task.name}")
    if rule:  # before the training, not after it
        require_rule(**rule)
    test_digest = task.test_digest
    if validation is not None:
        task = task.with_validation(validation, seed=seed or 0)
    name = network or ("mlp" if task.kind == "features" else "small-cnn")
    shape, n_classes = task.x_train.shape[1:], len(task.class_names)
    spec = NetworkSpec(name, shape, n_classes, network_options or {})
    body, untouched, published = spec.start(recipe.seed_weights, weights)
    scale = published or task.normalization()
    identity = _identity(task, spec, objective)
    last_kept = time.monotonic()

    def step(progress: Progress) -> None:
        nonlocal last_kept
        if on_progress is not None:
            on_progress(progress)
        if time.monotonic() - last_kept > 60 * save_minutes:
            _keep(folder, identity, progress.state())
            last_kept = time.monotonic()

    with _made(folder):
        fitted = fit(
            body,
            objective,
            task.x_train,
            task.y_train,
            recipe,
            normalization=scale,
            state=_begun(folder, identity) if resume else None,
            on_progress=step,
        )
    if not fitted.finished:
        _keep(folder, identity, fitted.state)
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
        record=_record(task, fitted, not_loaded=untouched, seed=seed, test_digest=test_digest)
        | {"measured_on": "test part" if validation is None else "validation part"},
    )
    test = evaluate(model, task.x_test, task.y_test, rule=rule)
    remember_test(model, test, rule)
    save(model, folder / MODEL)
    write_json(folder / METRICS, test.numbers)
    for kept in (STATE, RUN):
        (folder / kept).unlink(missing_ok=True)
    return Outcome(fitted.steps, model, test)


def _record(task: Task, fitted: Fitted, **more: Any) -> dict[str, Any]:
    return {
        "task": task.name,
        "data_fingerprint": task.fingerprint,
        "beta": task.beta,
        "epoch_losses": fitted.epoch_losses,
        "steps": fitted.steps,
        "seconds": fitted.seconds,
        "compiled": fitted.compiled,
        "date": f"{date.today()}",
        "versions": versions(),
        **more,
    }


def _identity(task: Task, spec: NetworkSpec, objective: Objective) -> dict[str, Any]:
    """Return what a resumed run must have in common with its beginning, besides the recipe."""
    return {
        "data": task.fingerprint,
        "network": [spec.name, list(spec.in_shape), spec.n_classes, spec.options],
        "objective": describe_objective(objective),
    }


def _keep(folder: Path, identity: dict[str, Any], state: TrainingState) -> None:
    write_json(folder / RUN, identity)
    save_state(state, folder / STATE)


@contextmanager
def _made(folder: Path) -> Iterator[None]:
    """Make a folder to train in; work that fails and leaves no state leaves no folder."""
    created = [place for place in (folder, *folder.parents) if not place.exists()]
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
            for place in created:
                place.rmdir()
        raise


def _begun(folder: Path, identity: dict[str, Any]) -> TrainingState:
    """Return the state to go on from, if the note beside it is of the same run."""
    note = folder / RUN
    begun = read_json(note) if note.exists() else identity
    changed = [name for name, value in identity.items() if begun.get(name) != value]
    require(
        not changed,
        f"the run in {folder} can be resumed only with the {' and '.join(changed)} it was started "
        f"with{' (source, --seed, --beta)' * ('data' in changed)}, got another",
    )
    return load_state(folder / STATE)
