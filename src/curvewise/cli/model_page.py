"""A page of what a file holds: a model of train at several lambda, an estimator, a table of scores.

Of an estimator and a table the scores are all there is.
"""

import json
import shlex
from pathlib import Path
from typing import Any

from curvewise.base.errors import InputError, require
from curvewise.base.machine import this_command
from curvewise.data.task import Progress
from curvewise.models.evaluate import (
    LabelledScores,
    estimator_scores,
    measured_part,
    scores_in_table,
)
from curvewise.models.operating import rule_text, threshold_text, trained_point
from curvewise.models.predict import Levels
from curvewise.models.saving import is_estimator, load
from curvewise.report.page_input import CopyTexts, OwnPoint, Page, page_models
from curvewise.report.page_scores import scores_page

PYTHON = """import curvewise as cw
from curvewise.models.evaluate import measured_part

model = cw.load({file})
x, y, _ = measured_part(model, {source}{options})  # or samples of your own, prepared alike
score = model.scores(x{{at}})
print(cw.operating_point(y, score, {{threshold}}, prevalence={{prevalence}}))
"""
ESTIMATOR = """import curvewise as cw
import pandas as pd

clf = cw.load({file})
new = pd.read_csv("new.csv")  # the columns that it was fitted on
print(clf.rare_log_odds(new) >= {{threshold}})
"""


def saved_page(
    file: Path, source: str | None, options: dict[str, Any], progress: Progress | None = None
) -> Page:
    """Return the page of a file that `save` wrote, on a source or, of a model, on its own data."""
    model = load(file)
    if is_estimator(model):
        for name in ("positive", "group", "image_size"):
            option, absent = name.replace("_", "-"), options[name] is None
            require(absent, f"--{option} is for models of train, got an estimator, {file}")
        target, data_dir = options["target"], options["data_dir"]
        scored = estimator_scores(model, source, target=target, data_dir=data_dir)
        return _estimator_page(scored, file)
    measured_on = source or model.record.get("task")
    require(measured_on, f"--data must name what to measure {file} on, got none")
    try:
        part = measured_part(model, measured_on, progress=progress, **options)
    except InputError as error:
        if source is not None:
            raise
        raise InputError(f"the model's own data cannot be read, give --data: {error}") from None
    return model_page(Levels(model, part), file, measured_on, options)


def model_page(
    levels: Levels, file: Path, source: str, options: dict[str, Any] | None = None
) -> Page:
    """Return what the page shows of a model on the samples of a source.

    The operating point that train chose, if it did, is the one to begin at. `options` are those
    that found the samples.
    """
    model, part, varied = levels.model, levels.part, levels.varied
    settings = getattr(model.objective, "settings", {})
    fixed = {name: value for name, value in settings.items() if isinstance(value, int | float)}
    counts = tuple(int(count) for count in model.class_counts)
    beta = model.record.get("beta")
    found = zip(levels.values, levels.scores, levels.log_odds, strict=True)
    models = [
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
        for value, score, log_odds in found
    ]
    kept = {key: value for key, value in (options or {}).items() if value is not None}
    arguments = [
        f", {key}={(str(value) if isinstance(value, Path) else value)!r}"
        for key, value in kept.items()
    ]
    new = "new.csv" if "encoder" in model.preprocessing else "new.npz"
    new = "new-images" if len(model.spec.in_shape) == 3 else new
    predict = f"curvewise predict {new} --model {shlex.quote(str(file))}"
    names = {"file": json.dumps(str(file)), "source": json.dumps(source)}
    return Page(
        task=source,
        class_names=(model.class_names[0], model.class_names[1]),
        models=page_models(models),
        train_counts={beta: counts},
        swept=varied,
        chosen=levels.start,
        own_point=_own_point(levels),
        reduction=getattr(model.objective, "reduction", ""),
        notes=[part.note] if part.note else [],
        copy=CopyTexts(
            f"{predict}{{option}} --threshold={{threshold}}\n",
            PYTHON.format(**names, options="".join(arguments)),
        ),
        provenance=_provenance(levels, file, source),
    )


def _own_point(levels: Levels) -> OwnPoint | None:
    """Return the operating point that train chose, if its lambda is among the levels."""
    point = trained_point(levels.model)
    if point is None or levels.own is None:
        return None
    where = f"on the model's {point['measured_on']}"
    if point["measured_on"] == "test part" and levels.on_test_part:
        where = "on these very samples (expect less on new ones)"
    rule = f"chosen by train for {rule_text(point['rule'])} {where}"
    return OwnPoint(levels.own, point["threshold"], threshold_text(point["threshold"]), rule)


def _fill(name: str | None, value: float, top: float) -> dict[str, str]:
    """Return what commands say of lambda; predict can be told tau only."""
    if name is None:
        return {"option": "", "at": ""}
    at = {"at": f", {name}={value:g}"}
    if name == "tau":
        return at | {"option": f" --tau {value:g}"}
    return at | {"option": ""} if value == top else at


def _provenance(levels: Levels, file: Path, source: str) -> dict[str, str]:
    model, record = levels.model, levels.model.record
    return {
        "command": this_command(),
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


def _estimator_page(scored: LabelledScores, file: Path) -> Page:
    """Return the page of an estimator on all rows of a table, which it must not have seen."""
    note = (
        f"Measured on all {len(scored.y):,} rows of {scored.table.name}: if the model was "
        "fitted on some of them, the numbers are too good."
    )
    copy = CopyTexts("", ESTIMATOR.format(file=json.dumps(str(file))))
    where = {"model": f"{file}: {next(iter(scored.scores))}"}
    where |= {"measured on": f"all rows of {scored.table}"}
    title = f"table:{scored.table.name}"
    return _scored_page(title, scored, where, unit="log-odds", notes=[note], copy=copy)


def table_page(file: Path, options: dict[str, Any], columns: list[str]) -> Page:
    """Return the page of a table that has labels and scores of one method or more."""
    target, positive = options["target"], options["positive"]
    scored = scores_in_table(file, target=target, positive=positive, columns=columns)
    return _scored_page(scored.table.name, scored, {"scores": str(scored.table)})


def _scored_page(title: str, scored: LabelledScores, where: dict[str, str], **about: Any) -> Page:
    about["provenance"] = {"command": this_command(), **where}
    return scores_page(title, scored.y, scored.scores, scored.class_names, **about)
