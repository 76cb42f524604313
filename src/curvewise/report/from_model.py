"""A model file as a page: its scores on a test part, at several lambda if it knows them."""

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

from curvewise.base.errors import InputError, require
from curvewise.base.machine import this_command
from curvewise.figures.curves import plot_roc
from curvewise.figures.sheets import new_axes, save
from curvewise.models.evaluate import Evaluation, MeasuredPart, estimator_scores, measured_part
from curvewise.models.operating import threshold_text, trained_point
from curvewise.models.predict import Levels, at_levels
from curvewise.models.saving import is_estimator, load
from curvewise.report.page import PAGE, has_plotly, write_page
from curvewise.report.page_input import CopyTexts, OwnPoint, Page, page_models
from curvewise.report.page_scores import estimator_page

PYTHON = """import curvewise as cw
from curvewise.models.evaluate import measured_part

model = cw.load({file})
x, y, _ = measured_part(model, {source}{options})  # or samples of your own, prepared alike
score = model.scores(x{{at}})
print(cw.operating_point(y, score, {{threshold}}, prevalence={{prevalence}}))
"""


def saved_page(
    file: Path,
    source: str | None,
    options: dict[str, Any],
    *,
    command: str = "",
    progress: Callable[[str, int, int], None] | None = None,
) -> Page:
    """Return the page of a file that `save` wrote, on a source or, of a model, on its own data."""
    model = load(file)
    if is_estimator(model):
        for name in ("positive", "group", "image_size"):
            option, absent = name.replace("_", "-"), options[name] is None
            require(absent, f"--{option} is for models of train, got an estimator, {file}")
        target, data_dir = options["target"], options["data_dir"]
        scored = estimator_scores(model, source, target=target, data_dir=data_dir)
        return estimator_page(scored, file, command)
    measured_on = source or model.record.get("task")
    require(measured_on, f"--data must name what to measure {file} on, got none")
    try:
        part = measured_part(model, measured_on, progress=progress, **options)
    except InputError as error:
        if source is not None:
            raise
        raise InputError(f"the model's own data cannot be read, give --data: {error}") from None
    return model_page(at_levels(model, part), file, measured_on, options=options, command=command)


def write_model_report(
    folder: Path,
    model: Any,
    part: MeasuredPart,
    at: dict[str, float],
    *,
    file: Path,
    source: str,
    options: dict[str, Any],
) -> None:
    """Write report.html of a model that was just measured; without Plotly, say how to have it."""
    if has_plotly():
        levels = at_levels(model, part, **at)
        page = model_page(levels, file, source, options=options, command=this_command())
        write_page(page, folder / PAGE)


def draw_roc(measured: Evaluation, title: str, folder: Path) -> None:
    """Draw the ROC curve with the chosen or given operating point as roc.png."""
    axes = new_axes(bare=True)
    plot_roc({"test": measured.curve}, points=[measured.point], title=title, ax=axes)
    save(axes, folder / "roc.png")


def model_page(
    levels: Levels,
    file: Path,
    source: str,
    *,
    options: dict[str, Any] | None = None,
    command: str = "",
) -> Page:
    """Return what the page shows of a model on the samples of a source.

    The operating point that train chose, if it did, is the one to begin at. `options` are those
    that found the samples.
    """
    model, part, varied = levels.model, levels.part, levels.varied
    fixed = {
        name: value
        for name, value in getattr(model.objective, "settings", {}).items()
        if isinstance(value, int | float)
    }
    counts = tuple(int(count) for count in model.class_counts)
    beta = model.record.get("beta")
    models = page_models(
        {
            "method": levels.label,
            "beta": beta,
            "seed": model.record.get("seed") or 0,
            "y": part.y,
            "score": score,
            "settings": fixed | ({} if varied is None else {varied: round(value, 6)}),
            "log_odds": log_odds,
            "fill": _fill(varied, value, levels.values[-1]),
            "n_train": sum(counts),
        }
        for value, score, log_odds in zip(
            levels.values, levels.scores, levels.log_odds, strict=True
        )
    )
    kept = {key: value for key, value in (options or {}).items() if value is not None}
    arguments = "".join(f", {key}={_written(value)}" for key, value in kept.items())
    new = "new.csv" if "encoder" in model.preprocessing else "new.npz"
    new = "new-images" if len(model.spec.in_shape) == 3 else new
    return Page(
        task=source,
        class_names=(model.class_names[0], model.class_names[1]),
        models=models,
        train_counts={beta: counts},
        swept=varied,
        chosen=levels.start,
        own_point=_own_point(levels),
        reduction=getattr(model.objective, "reduction", ""),
        notes=(part.note,) if part.note else (),
        copy=CopyTexts(
            f"curvewise predict {new} --model {shlex.quote(str(file))}"
            "{option} --threshold={threshold}\n",
            PYTHON.format(file=json.dumps(str(file)), source=json.dumps(source), options=arguments),
        ),
        provenance=_provenance(levels, file, source, command),
    )


def _written(value: Any) -> str:
    return repr(str(value)) if isinstance(value, Path) else repr(value)


def _own_point(levels: Levels) -> OwnPoint | None:
    """Return the operating point that train chose, if its lambda is among the levels."""
    point = trained_point(levels.model)
    if point is None or levels.own is None:
        return None
    where = f"on the model's {point.measured_on}"
    if point.measured_on == "test part" and levels.on_test_part:
        where = "on these very samples (expect less on new ones)"
    rule = f"chosen by train for {point.rule} {where}"
    return OwnPoint(levels.own, point.threshold, threshold_text(point.threshold), rule)


def _fill(name: str | None, value: float, top: float) -> dict[str, str]:
    """Return what commands say of lambda; predict can be told tau only."""
    if name is None:
        return {"option": "", "at": ""}
    at = {"at": f", {name}={value:g}"}
    if name == "tau":
        return at | {"option": f" --tau {value:g}"}
    return at | {"option": ""} if value == top else at


def _provenance(levels: Levels, file: Path, source: str, command: str) -> list[tuple[str, str]]:
    model, record = levels.model, levels.model.record
    about = {
        "command": command,
        "model": str(file),
        "trained": f"{record.get('date', '')} on {record.get('task', 'arrays')}".strip(),
        "measured on": source,
        "loss": repr(model.objective),
        "network": f"{model.spec.name} {json.dumps(model.spec.options)}",
        "recipe": json.dumps(model.recipe.model_dump()),
        "versions": ", ".join(f"{k} {v}" for k, v in record.get("versions", {}).items()),
        "seed": str(record.get("seed", "")),
        "data fingerprint": str(record.get("data_fingerprint", "")),
        "test digest": str(record.get("test_digest", "")),
    }
    return [(name, text) for name, text in about.items() if text]
