"""Test parts, and scores and labels to the numbers one reports: as data, table and figure."""

import os
import warnings
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from rich.table import Table

from curvewise.base.errors import InputError, did_you_mean
from curvewise.data.options import SourceOptions
from curvewise.data.registry import DATA_VARIABLE, load_task
from curvewise.data.tables import (
    binary_labels,
    find_file,
    group_names,
    read_table,
    split_labels,
)
from curvewise.data.task import Task, arrays_digest
from curvewise.figures.curves import bare_axes, plot_roc
from curvewise.models.predict import table_encoder
from curvewise.models.thresholds import threshold_text
from curvewise.roc.curve import roc_curve
from curvewise.roc.interval import auc_interval
from curvewise.roc.metrics import binary_metrics
from curvewise.roc.operating import OperatingPoint, choose_operating_point, operating_point
from curvewise.tables.reading import column_levels
from curvewise.training.model import Model

RATES = (0.001, 0.01, 0.1)
SIZED = ("folder", "dogs-vs-cats", "melanoma")  # sources that --image-size is for


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
    name, _, argument = source.partition(":")
    if options.get("seed") is None:  # another one would test on what was trained on
        options["seed"] = model.record.get("seed") or 0
    if name == "table":
        table = table_file(argument, options.get("data_dir"))
        target, seed, positive = options.get("target"), options["seed"], options.get("positive")
        if positive not in (None, model.class_names[1]):
            raise InputError(
                f"--positive must be the model's own {model.class_names[1]!r}, got {positive!r}"
            )
        return labelled_rows(model, table, target=target, seed=seed, all_rows=all_rows)
    if all_rows:
        raise InputError(f"--all-rows is for tables, got {source}")
    if name == "folder" and options.get("positive") is None:
        options["positive"] = model.class_names[1]
    if name in SIZED and options.get("image_size") is None:
        options["image_size"] = model.preprocessing.get("image_size")
    task = load_task(source, **options)
    if task.x_test.shape[1:] != model.spec.in_shape:
        raise InputError(
            f"this model takes samples of shape {model.spec.in_shape}, got "
            f"{task.x_test.shape[1:]} from {source}"
        )
    if task.class_names != model.class_names:
        warnings.warn(
            f"the model tells {model.class_names} apart, the classes here are {task.class_names}",
            stacklevel=2,
        )
    return MeasuredPart(task.x_test, task.y_test, _note(model, task, options["seed"]))


def table_file(argument: str, data_dir: Path | None) -> Path:
    """Return the file of the source table:ARGUMENT, as given or inside the data folder."""
    folder = data_dir or os.environ.get(DATA_VARIABLE) or "data"
    return find_file(argument, "table:FILE", SourceOptions(data_dir=Path(folder)))


def _note(model: Model, task: Task, seed: int) -> str:
    """Return what to say of a test part that is not the model's own; warn of training data."""
    if model.record.get("test_digest") in (None, task.test_digest):
        return ""
    if task.name == model.record.get("task") and seed != (model.record.get("seed") or 0):
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


def labelled_rows(
    model: Model, table: Path, *, target: str | None, seed: int, all_rows: bool
) -> MeasuredPart:
    """Return encoded features and labels of a table: its test part by seed, or all of its rows."""
    encoder, frame = table_encoder(model), read_table(table)
    column = target or str(model.preprocessing.get("target"))
    group = model.preprocessing.get("group")
    if all_rows and group is not None and (group not in frame or frame[group].isna().any()):
        group = None  # they are not split
    for option, name in (("target", column), ("group", group)):
        if name is not None and name not in frame.columns:
            raise InputError(
                f"--{option} must be a column of {table.name}, got {name!r}"
                f"{did_you_mean(name, frame.columns)}"
            )
    frame = frame[column_levels(frame[column])[0] >= 0]
    y, _ = binary_labels(frame[column], model.class_names[1], f"target {column!r}")
    x = encoder.transform(frame)
    groups = None if group is None else group_names(frame[group])
    own_seed = model.record.get("seed") or 0
    trained_on = _has_test_part(model, x, y, seed=own_seed, groups=groups)
    if trained_on and (all_rows or seed != own_seed):
        option = "--all-rows" if all_rows else f"--seed {seed}"
        warnings.warn(
            f"with {option} training rows of the model are among those of {table.name}, so the "
            "numbers are too good; without it they are of its test part",
            stacklevel=2,
        )
    if all_rows:
        return MeasuredPart(x, y)
    _, rows = split_labels(y, seed=seed, groups=groups)
    note = (
        f"measured on {len(rows)} rows, the test part of {table.name} by seed {seed}; the model "
        f"was trained on other data, so --all-rows may take all {len(y)}"
    )
    return MeasuredPart(x[rows], y[rows], note if trained_on is False else "")


def _has_test_part(
    model: Model,
    x: NDArray[Any],
    y: NDArray[np.int64],
    *,
    seed: int,
    groups: NDArray[Any] | None,
) -> bool | None:
    """Tell whether these rows, split by the model's seed, have its test part; None: not known."""
    digest = model.record.get("test_digest")
    if digest is None:
        return None
    try:
        with warnings.catch_warnings():  # of few members of a class
            warnings.simplefilter("ignore")
            _, rows = split_labels(y, seed=seed, groups=groups)
    except InputError:  # so few that they cannot be split, and never were
        return False
    return bool(digest == arrays_digest(x[rows], y[rows]))


def evaluation(
    y: NDArray[Any],
    score: NDArray[Any],
    *,
    rule: dict[str, float] | None = None,
    threshold: float | None = None,
    prevalence: float | None = None,
) -> dict[str, Any]:
    """Return all reported numbers of scores z1 - z0, ready for JSON.

    The threshold metrics are at `threshold` (0, the paper's t = 0.5, if left out). `rule` is one of
    max_fpr, min_tpr, cost_ratio for an operating point chosen on these very data, which is why it
    is labelled so.
    """
    curve = roc_curve(y, score)
    at = 0.0 if threshold is None else threshold
    metrics = asdict(binary_metrics(y, score, at))
    result = {
        "n_positive": int(np.sum(y)),
        "n_negative": int(len(y) - np.sum(y)),
        "auc": asdict(auc_interval(y, score)),
        "partial_auc": {
            "fpr <= 0.1": curve.partial_auc(max_fpr=0.1, standardized=True),
            "tpr >= 0.9": curve.partial_auc(min_tpr=0.9, standardized=True),
        },
        "tpr_at_fpr": {f"{rate:g}": float(curve.tpr_at(rate)) for rate in RATES},
        "auprc": metrics["auprc"],
        "average_precision": metrics["average_precision"],
        "at_threshold": asdict(operating_point(y, score, at, prevalence=prevalence))
        | {name: metrics[name] for name in ("precision", "accuracy", "f1", "fbeta", "gmean")},
    }
    if rule:
        point = choose_operating_point(y, score, **rule, prevalence=prevalence)
        result["chosen_on_these_data"] = {"rule": rule, **asdict(point)}
    return result


def draw_roc(
    y: NDArray[Any], score: NDArray[Any], result: dict[str, Any], title: str, path: Path
) -> Path:
    """Draw the ROC curve with the chosen or given operating point; PNG, SVG or PDF by suffix."""
    chosen = result.get("chosen_on_these_data") or result["at_threshold"]
    fields = {name: chosen[name] for name in OperatingPoint.__dataclass_fields__}
    points = [OperatingPoint(**fields)]
    axes = plot_roc({"test": roc_curve(y, score)}, points=points, title=title, ax=bare_axes())
    path.parent.mkdir(parents=True, exist_ok=True)
    axes.get_figure(root=True).savefig(path, dpi=150)  # type: ignore[union-attr]
    return path


def evaluation_table(result: dict[str, Any], title: str, samples: str = "test samples") -> Table:
    """Return an evaluation as a table for the terminal; `samples` says what it was done on."""
    area = result["auc"]
    table = Table("metric", "value", title=title)
    table.add_row(samples, f"{result['n_positive']} positive, {result['n_negative']} negative")
    bounds = f"{area['low']:.4f}-{area['high']:.4f}, {area['level']:.0%}, {area['method']}"
    table.add_row("AUC", f"{area['auc']:.4f} ({bounds})")
    for name, value in result["partial_auc"].items():
        table.add_row(f"partial AUC, {name}, standardised", f"{value:.4f}")
    for rate, value in result["tpr_at_fpr"].items():
        table.add_row(f"TPR at FPR {float(rate):.1%}", f"{value:.4f}")
    table.add_row("AUPRC (trapezoid)", f"{result['auprc']:.4f}")
    for key in ("at_threshold", "chosen_on_these_data"):
        if key not in result:
            continue
        point = result[key]
        table.add_section()
        rates = [
            "{:.4f} ({:.4f}-{:.4f})".format(point[name], *point[f"{name}_interval"])
            for name in ("tpr", "fpr")
        ]
        table.add_row(key.replace("_", " "), threshold_text(point["threshold"]))
        table.add_row("TPR, FPR", " and ".join(rates))
        table.add_row("PPV", f"{_number(point['ppv'])} at prevalence {point['prevalence']:.4f}")
        if "f1" in point:
            table.add_row("F1, G-mean", f"{_number(point['f1'])}, {_number(point['gmean'])}")
    return table


def _number(value: float) -> str:
    return "-" if value != value else f"{value:.4f}"
