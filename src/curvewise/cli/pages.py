"""What a page is told: of a store's runs, of a model, of an estimator or a table of scores."""

import json
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from curvewise.base.errors import InputError, did_you_mean, require
from curvewise.base.machine import this_command
from curvewise.cli.options import given, option_name
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
from curvewise.report.page import has_plotly, write_page
from curvewise.report.page_input import CopyTexts, OwnPoint, Page, page_models
from curvewise.report.page_scores import scores_page
from curvewise.sweep.frame import corrected_scores
from curvewise.sweep.grid import base_recipe
from curvewise.sweep.plan import PlannedRun
from curvewise.sweep.store import Record, Store

TRAINED = ("vs", "lct", "ce", "logit-adjustment")  # methods that `curvewise train` has too
COMMAND = """# a store keeps scores, not models: {again}, then keep the same FPR
{train} &&
  curvewise predict {new} --model {folder} --max-fpr {fpr}
"""
SAME = "train this one again"
ALIKE = "train one with its settings (its AUC will differ: sweeps standardise features)"
RUN = """import curvewise as cw
from curvewise.sweep.store import Store

with Store({store}, readonly=True) as store:
    run = store.run("{{identity}}")
    y, score = store.labels(run.fingerprint), store.scores(run.identity)
print(cw.operating_point(y, score, {{threshold}}, prevalence={{prevalence}}))
"""
MODEL = """import curvewise as cw
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


def store_page(
    store: Store, *, sweep: str | None = None, task: str | None = None, beta: float | None = None
) -> Page:
    """Return the page of a store; what there are several of must be chosen, beta may be."""
    sweep = _only("--sweep", sweep, [each.name for each in store.sweeps()], store)
    task = _only("--task", task, [record.run.task for record in store.runs(sweep)], store)
    all_betas = list(store.runs(sweep, task=task))
    records = [record for record in all_betas if beta is None or record.run.beta == beta]
    if not records:
        known = dict.fromkeys(record.run.beta for record in all_betas)
        texts = ["none (data as they are)" if value is None else f"{value:g}" for value in known]
        raise InputError(f"--beta must be one of {', '.join(texts)} in {task}, got {beta:g}")
    done = [record for record in records if record.state == "done"]
    require(done, f"a report needs a finished run of {task}, got {len(records)} unfinished")
    problems = {record.fingerprint: store.problem(record.fingerprint) for record in done}
    labels = {each: store.labels(each) for each in problems}
    names = problems[done[0].fingerprint].class_names
    require(len(names) == 2, f"a report needs two classes, got {len(names)} of {task}")
    recipes = [record.run.recipe for record in done]
    first = _without_seeds(recipes[0])
    changing = [n for n in first if any(recipe.get(n) != first[n] for recipe in recipes)]
    new = {"table": "new.csv", "folder": "new-images"}.get(task.partition(":")[0], "new.npz")
    models = []
    for record in done:
        run, y, score = record.run, labels[record.fingerprint], store.scores(record.identity)
        counts = problems[record.fingerprint].class_counts
        changed = [(name, run.recipe[name]) for name in changing]
        shown = {n: v if isinstance(v, int | float) else str(v) for n, v in changed}
        row: dict[str, Any] = {"method": run.label, "beta": run.beta, "seed": run.seed, "y": y}
        row |= {"score": score, "seconds": record.seconds, "n_train": sum(counts)}
        row["settings"] = run.settings | shown
        row["log_odds"] = corrected_scores(run, counts, score, prior=float(np.mean(y == 1)))
        fill = {"identity": record.identity, "new": new}
        models.append(row | {"fill": fill | _train(run, record.identity)})
    return Page(
        task=task,
        class_names=(names[0], names[1]),
        models=page_models(models),
        train_counts={known.beta: tuple(known.class_counts) for known in problems.values()},
        diverged=len(records) - len(done),
        copy=CopyTexts(COMMAND, RUN.format(store=json.dumps(_shown(store)))),
        provenance=_provenance_of_runs(store, sweep, done),
    )


def write_store_report(path: Path, store: Store, sweep: str, task: str | None = None) -> list[Path]:
    """Write the page of a sweep that was just run; without Plotly, say how to have it."""
    return [write_page(store_page(store, sweep=sweep, task=task), path)] if has_plotly() else []


def _only(option: str, wanted: str | None, known: Sequence[str], store: Store) -> str:
    names = list(dict.fromkeys(known))
    require(names, f"{_shown(store)} must hold runs to report on, it has none")
    if wanted is None and len(names) == 1:
        return names[0]
    shown = ", ".join(names[:12]) + (f", ... ({len(names)})" if len(names) > 12 else "")
    if wanted is None:
        raise InputError(f"{option} must choose one of {shown}, got none")
    near = did_you_mean(wanted, names)
    require(wanted in names, f"{option} must be one of {shown}, got {wanted!r}{near}")
    return wanted


def _shown(store: Store) -> str:
    """Return a store's path as seen from here, where it is below here."""
    here = Path.cwd()
    return str(store.path.relative_to(here) if store.path.is_relative_to(here) else store.path)


def _train(run: PlannedRun, identity: str) -> dict[str, str]:
    """Return the command that trains a run's model, its folder, and how alike it will be.

    The seeds are the run's own, so on images it is the same model, but for rounding. There is no
    such command for methods that only sweeps have.
    """
    if run.method not in TRAINED or run.features or run.network.get("weights"):
        return {}
    network = dict(run.network)
    options = {"beta": run.beta, "seed": run.seed, **run.data}
    options |= {name: run.settings.get(name, 0) for name in ("gamma", "tau")}
    options |= {"omega": run.settings.get("omega", 0.5), "network": network.pop("name", None)}
    changes = {f"network.{name}": value for name, value in network.items()}
    like = base_recipe({}).with_seed(run.seed).model_dump(mode="json")
    changes |= {name: value for name, value in run.recipe.items() if value != like.get(name)}
    for length, other in (("epochs", "steps"), ("steps", "epochs")):
        if changes.get(other) is not None:
            changes.pop(length, None)  # giving one takes the other out
    words = ["curvewise", "train", run.task]
    for name, value in given(options).items():
        words += [option_name(name), _text(value)]
    for name, value in changes.items():
        words += ["--set", f"{name}={_text(value)}"]
    folder = f"out/{run.method}-{identity[:8]}"
    again = ALIKE if run.network.get("name") in (None, "mlp") else SAME
    return {"train": shlex.join([*words, "--out", folder]), "folder": folder, "again": again}


def _text(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ",".join(map(_text, value))
    if isinstance(value, float):
        return repr(value).removesuffix(".0")
    return "none" if value is None else str(value)


def _provenance_of_runs(store: Store, sweep: str, done: Sequence[Record]) -> dict[str, str]:
    first = done[0].run
    registered = [each for each in store.sweeps() if each.name == sweep][-1]
    finished = sorted(record.finished for record in done if record.finished)
    return {
        "command": this_command(),
        "store": _shown(store),
        "sweep": f"{sweep}, begun {registered.created}",
        "runs": f"{len(done):,}, finished {finished[0]} to {finished[-1]}" if finished else "",
        "machine": _distinct([record.machine for record in done]),
        "versions": _distinct([_listed(record.versions or {}) for record in done]),
        "seeds of subsamples": _distinct([str(record.run.seed) for record in done], ", "),
        "data fingerprints": _distinct([f"seed {r.run.seed}: {r.fingerprint[:16]}" for r in done]),
        "network": json.dumps(first.network),
        "features": json.dumps(first.features) if first.features else "as they are",
        "recipe": json.dumps(_without_seeds(first.recipe)),
    }


def _without_seeds(recipe: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in recipe.items() if not name.startswith("seed")}


def _listed(versions: dict[str, str]) -> str:
    return ", ".join(f"{name} {value}" for name, value in versions.items())


def _distinct(texts: Sequence[str], separator: str = "; ") -> str:
    return separator.join(dict.fromkeys(filter(None, texts)))


def saved_page(
    file: Path, source: str | None, options: dict[str, Any], progress: Progress | None = None
) -> Page:
    """Return the page of a file that `save` wrote, on a source or, of a model, on its own data."""
    model = load(file)
    if is_estimator(model):
        for name in ("positive", "group", "image_size"):
            sentence = f"{option_name(name)} is for models of train, got an estimator, {file}"
            require(options[name] is None, sentence)
        where = {name: options[name] for name in ("target", "data_dir")}
        scored = estimator_scores(model, source, **where)
        name, (method,) = scored.table.name, scored.scores
        note = (  # no part of the table is known to be new
            f"Measured on all {len(scored.y):,} rows of {name}: if the model was "
            "fitted on some of them, the numbers are too good."
        )
        about = {"model": f"{file}: {method}", "measured on": f"all rows of {scored.table}"}
        copy = CopyTexts("", ESTIMATOR.format(file=json.dumps(str(file))))
        more: dict[str, Any] = {"unit": "log-odds", "notes": [note], "copy": copy}
        return _scored_page(f"table:{name}", scored, about, **more)
    measured_on = source or model.record.get("task")
    require(measured_on, f"--data must name what to measure {file} on, got none")
    try:
        part = measured_part(model, measured_on, progress=progress, **options)
    except InputError as error:
        if source is not None:
            raise
        raise InputError(f"the model's own data cannot be read, give --data: {error}") from None
    return model_page(Levels(model, part), file, measured_on, options)


def model_page(levels: Levels, file: Path, source: str, options: dict[str, Any]) -> Page:
    """Return what the page shows of a model on the samples of a source.

    The operating point that train chose, if it did, is the one to begin at. `options` are those
    that found the samples.
    """
    model, part, varied = levels.model, levels.part, levels.varied
    settings = getattr(model.objective, "settings", {})
    fixed = {name: value for name, value in settings.items() if isinstance(value, int | float)}
    counts = tuple(int(count) for count in model.class_counts)
    beta = model.record.get("beta")
    same = {"method": levels.label, "beta": beta, "seed": model.record.get("seed") or 0}
    same |= {"y": part.y, "n_train": sum(counts)}
    models = []
    for value, score, log_odds in zip(levels.values, levels.scores, levels.log_odds, strict=True):
        at = fixed | ({} if varied is None else {varied: round(value, 6)})
        row = {"score": score, "settings": at, "log_odds": log_odds}
        models.append(same | row | {"fill": _fill(varied, value, levels.values[-1])})
    plain = [(n, str(v) if isinstance(v, Path) else v) for n, v in given(options).items()]
    new = "new.csv" if "encoder" in model.preprocessing else "new.npz"
    new = "new-images" if len(model.spec.in_shape) == 3 else new
    predict = f"curvewise predict {new} --model {shlex.quote(str(file))}"
    names = {"file": json.dumps(str(file)), "source": json.dumps(source)}
    names["options"] = "".join(f", {name}={value!r}" for name, value in plain)
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
        copy=CopyTexts(f"{predict}{{option}} --threshold={{threshold}}\n", MODEL.format(**names)),
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
        "versions": _listed(record.get("versions", {})),
        "seed": str(record.get("seed", "")),
        "data fingerprint": str(record.get("data_fingerprint", "")),
        "test digest": str(record.get("test_digest", "")),
    }


def table_page(file: Path, options: dict[str, Any], columns: list[str]) -> Page:
    """Return the page of a table that has labels and scores of one method or more."""
    target, positive = options["target"], options["positive"]
    scored = scores_in_table(file, target=target, positive=positive, columns=columns)
    return _scored_page(scored.table.name, scored, {"scores": str(scored.table)})


def _scored_page(title: str, scored: LabelledScores, where: dict[str, str], **about: Any) -> Page:
    about["provenance"] = {"command": this_command(), **where}
    return scores_page(title, scored.y, scored.scores, scored.class_names, **about)
