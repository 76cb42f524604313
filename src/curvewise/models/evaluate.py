"""What a model is measured on, and the curve and numbers that then come out."""

import warnings
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from curvewise.base.errors import InputError, require
from curvewise.data.reading import group_names, labelled_rows, read_table, require_column
from curvewise.data.registry import SOURCES, load_task
from curvewise.data.tables import stored_encoder
from curvewise.data.task import SourceOptions, Task, arrays_digest, split_rows
from curvewise.estimator.classifier import FamilyClassifier
from curvewise.models.operating import find_threshold
from curvewise.roc.curve import RocCurve, check_scored, roc_curve
from curvewise.roc.interval import auc_interval
from curvewise.roc.metrics import metrics_on_curve
from curvewise.roc.operating import OperatingPoint, operating_point, threshold_by_rule
from curvewise.training.model import Model

RATES = (0.001, 0.01, 0.1)
SCORES = ("score", "probability")  # columns that are scores unless others are named


@dataclass(frozen=True)
class Evaluation:
    """Scores against labels: the curve, the point to work at, and all numbers, ready for JSON."""

    curve: RocCurve
    point: OperatingPoint
    numbers: dict[str, Any]
    origin: str  # of the threshold: whose choice it is


def evaluate(
    model: Model,
    x: NDArray[Any],
    y: NDArray[Any],
    *,
    at: dict[str, float] | None = None,
    threshold: float | None = None,
    rule: dict[str, float] | None = None,
    prevalence: float | None = None,
) -> Evaluation:
    """Measure a model's scores z1 - z0 of samples, at its own lambda or `at` another.

    `rule` is one of max_fpr, min_tpr, cost_ratio for an operating point chosen on these very data,
    which is why it is labelled so. The threshold metrics are at the `threshold` given, else with a
    rule at 0 (the paper's t = 0.5), else at the one that train chose, or 0.
    """
    score, origin = model.scores(x, **(at or {})), "given"
    if threshold is None and not rule:
        threshold, origin = find_threshold(model, model.lam(**(at or {})), None, None)
    threshold = threshold or 0.0
    curve = roc_curve(y, score)
    point = operating_point(y, score, threshold, prevalence=prevalence)
    metrics = asdict(metrics_on_curve(curve, check_scored(y, score), threshold))
    numbers = {
        "n_positive": point.n_positive,
        "n_negative": point.n_negative,
        "auc": asdict(auc_interval(y, score)),
        "partial_auc": {
            "fpr <= 0.1": curve.partial_auc(max_fpr=0.1, standardized=True),
            "tpr >= 0.9": curve.partial_auc(min_tpr=0.9, standardized=True),
        },
        "tpr_at_fpr": {f"{rate:g}": float(curve.tpr_at(rate)) for rate in RATES},
        "auprc": metrics["auprc"],
        "average_precision": metrics["average_precision"],
        "at_threshold": asdict(point)
        | {name: metrics[name] for name in ("precision", "accuracy", "f1", "fbeta", "gmean")},
    }
    if rule:
        chosen = threshold_by_rule(curve, **rule, prevalence=point.prevalence)
        point = operating_point(y, score, chosen, prevalence=prevalence)
        numbers["chosen_on_these_data"] = {"rule": rule, **asdict(point)}
    return Evaluation(curve, point, numbers, origin)


class MeasuredPart(NamedTuple):
    """Samples and labels that a model is measured on; `note` says what is not as one may think."""

    x: NDArray[Any]
    y: NDArray[np.int64]
    note: str = ""


def measured_part(
    model: Model, source: str, *, all_rows: bool = False, **options: Any
) -> MeasuredPart:
    """Return the samples and labels of a source that a model is measured on.

    `options` are those of `load_task`. What is not given is as the model was trained: the seed of
    the split, a table's target, the positive class, the size of image files. Training rows among
    the samples of a table are a warning.
    """
    kind, _, argument = source.partition(":")
    trained_seed = model.record.get("seed") or 0
    if options.get("seed") is None:  # another one would test on what was trained on
        options["seed"] = trained_seed
    seed, positive = options["seed"], options.get("positive")
    if kind == "table":
        wanted = model.class_names[1]
        fits = positive in (None, wanted)
        require(fits, f"--positive must be the model's own {wanted!r}, got {positive!r}")
        file = SourceOptions(data_dir=options.get("data_dir")).find("table:FILE", argument)
        return _table_part(model, file, options.get("target"), seed, trained_seed, all_rows)
    require(not all_rows, f"--all-rows is for tables, got {source}")
    if kind == "folder" and positive is None:
        options["positive"] = model.class_names[1]
    sized = kind in SOURCES and "image_size" in SOURCES[kind].takes
    if sized and options.get("image_size") is None:
        options["image_size"] = model.preprocessing.get("image_size")
    task = load_task(source, **options)
    got, shape = task.x_test.shape[1:], model.spec.in_shape
    require(got == shape, f"this model takes samples of shape {shape}, got {got} from {source}")
    if task.class_names != model.class_names:
        warnings.warn(
            f"the model tells {model.class_names} apart, the classes here are {task.class_names}",
            stacklevel=2,
        )
    return MeasuredPart(task.x_test, task.y_test, _note(model, task, seed, trained_seed))


def _note(model: Model, task: Task, seed: int, trained_seed: int) -> str:
    """Return what to say of a test part that is not the model's own; warn of training data."""
    if model.record.get("test_digest") in (None, task.test_digest):
        return ""
    if task.name == model.record.get("task") and seed != trained_seed:
        warnings.warn(
            f"with --seed {seed} samples that the model was trained on may be among those of "
            f"{task.name}; without it they are of its test part",
            stacklevel=2,
        )
        return ""
    return (
        f"measured on {len(task.y_test)} samples, the test part of {task.name}; the model was "
        "trained on other data"
    )


def _table_part(
    model: Model, file: Path, target: str | None, seed: int, trained_seed: int, all_rows: bool
) -> MeasuredPart:
    """Return encoded features and labels of a table: its test part by seed, or all of its rows."""
    encoder, kept = stored_encoder(model.preprocessing, model.record), model.preprocessing
    frame, y, _ = labelled_table(file, target or kept["target"], model.class_names[1])
    group = kept["group"]
    if all_rows and group is not None and (group not in frame or frame[group].isna().any()):
        group = None  # they are not split
    groups = None
    if group is not None:
        require_column("group", group, frame, file.name)
        groups = group_names(frame[group])
    x = encoder.transform(frame)
    digest, trained_on = model.record.get("test_digest"), False  # None: not known
    # Training by the model's seed would have tested on the same rows; few were never split.
    with suppress(InputError), warnings.catch_warnings(action="ignore"):
        _, rows = split_rows(y, seed=trained_seed, groups=groups)
        trained_on = digest == arrays_digest(x[rows], y[rows])
    if trained_on and (all_rows or seed != trained_seed):
        option = "--all-rows" if all_rows else f"--seed {seed}"
        warnings.warn(
            f"with {option} training rows of the model are among those of {file.name}, so the "
            "numbers are too good; without it they are of its test part",
            stacklevel=2,
        )
    if all_rows:
        return MeasuredPart(x, y)
    _, rows = split_rows(y, seed=seed, groups=groups)
    note = (
        f"measured on {len(rows)} rows, the test part of {file.name} by seed {seed}; the model "
        f"was trained on other data, so --all-rows may take all {len(y)}"
    )
    return MeasuredPart(x[rows], y[rows], "" if trained_on or digest is None else note)


def labelled_table(
    file: Path, target: str | None, positive: str | None
) -> tuple[pd.DataFrame, NDArray[np.int64], tuple[str, str]]:
    """Return the rows of a table that have a label, labels (n,) and class names."""
    frame = read_table(file)
    require_column("target", target, frame, file.name)
    return labelled_rows(frame, str(target), positive)


class LabelledScores(NamedTuple):
    """Scores (n,) by the name of what gave them, for the labels (n,) of a table's rows."""

    table: Path
    y: NDArray[np.int64]
    scores: dict[str, NDArray[Any]]
    class_names: tuple[str, str]


def scores_in_table(
    table: Path, *, target: str | None, positive: str | None, columns: Sequence[str]
) -> LabelledScores:
    """Return the columns of a table that hold scores: those named, else score and probability."""
    frame, y, names = labelled_table(table, target, positive)
    frame = frame.drop(columns=str(target))
    chosen = list(columns) or [name for name in SCORES if name in frame]
    usual = " or ".join(SCORES)
    sentence = f"--score must name a column of scores of {table.name}, got none and there is no"
    require(chosen, f"{sentence} {usual}")
    scores = {}
    for name in chosen:
        require_column("score", name, frame, table.name)
        scores[name] = pd.to_numeric(frame[name], errors="coerce").to_numpy(np.float64)
        finite = np.isfinite(scores[name]).all()
        require(finite, f"{name!r} of {table.name} must hold numbers in every row")
    return LabelledScores(table, y, scores, names)


def estimator_scores(
    estimator: FamilyClassifier, source: str | None, *, target: str | None, data_dir: Path | None
) -> LabelledScores:
    """Return an estimator's log-odds on all rows of table:FILE, which it must not have seen."""
    kind, _, name = (source or "").partition(":")
    if kind != "table":
        raise InputError(
            f"the page of an estimator needs --data table:FILE with rows that it has not seen, and "
            f"--target, the column with their label, got {source or 'none'}; of other data, "
            "curvewise.write_report makes one in Python"
        )
    n_classes = len(estimator.classes_)
    require(n_classes == 2, f"a report needs two classes, got {n_classes}")
    table = SourceOptions(data_dir=data_dir).find("table:FILE", name)
    frame, y, names = labelled_table(table, target, str(estimator.positive_class_))
    log_odds = estimator.rare_log_odds(frame.drop(columns=str(target)))
    return LabelledScores(table, y, {type(estimator).__name__: log_odds}, names)
