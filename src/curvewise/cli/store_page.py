"""A store's runs as a page: one task of one sweep, all of its betas and subsamples."""

import json
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from curvewise.base.errors import InputError, did_you_mean, require
from curvewise.base.machine import this_command
from curvewise.report.page import has_plotly, write_page
from curvewise.report.page_input import CopyTexts, Page, page_models
from curvewise.sweep.frame import corrected_scores
from curvewise.sweep.grid import base_recipe
from curvewise.sweep.plan import PlannedRun
from curvewise.sweep.store import Record, Store

TRAINED = ("vs", "lct", "ce", "logit-adjustment")  # methods that `curvewise train` has too
PYTHON = """import curvewise as cw
from curvewise.sweep.store import Store

with Store({store}, readonly=True) as store:
    run = store.run("{{identity}}")
    y, score = store.labels(run.fingerprint), store.scores(run.identity)
print(cw.operating_point(y, score, {{threshold}}, prevalence={{prevalence}}))
"""
COMMAND = """# a store keeps scores, not models: {again}, then keep the same FPR
{train} &&
  curvewise predict {new} --model {folder} --max-fpr {fpr}
"""
SAME = "train this one again"
ALIKE = "train one with its settings (its AUC will differ: sweeps standardise features)"


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
    first = done[0].run.recipe
    changing = [  # settings of the recipe that differ between runs, seeds aside
        name
        for name in first
        if not name.startswith("seed")
        and any(record.run.recipe.get(name) != first[name] for record in done)
    ]
    new = {"table": "new.csv", "folder": "new-images"}.get(task.partition(":")[0], "new.npz")
    models = []
    for record in done:
        run, y, score = record.run, labels[record.fingerprint], store.scores(record.identity)
        counts = problems[record.fingerprint].class_counts
        changed = {name: run.recipe[name] for name in changing}
        models.append(
            {
                "method": run.label,
                "beta": run.beta,
                "seed": run.seed,
                "y": y,
                "score": score,
                "settings": run.settings
                | {n: v if isinstance(v, int | float) else str(v) for n, v in changed.items()},
                "log_odds": corrected_scores(run, counts, score, prior=float(np.mean(y == 1))),
                "fill": {"identity": record.identity, "new": new} | _train(run, record.identity),
                "seconds": record.seconds,
                "n_train": sum(counts),
            }
        )
    return Page(
        task=task,
        class_names=(names[0], names[1]),
        models=page_models(models),
        train_counts={known.beta: tuple(known.class_counts) for known in problems.values()},
        diverged=len(records) - len(done),
        copy=CopyTexts(COMMAND, PYTHON.format(store=json.dumps(_shown(store)))),
        provenance=_provenance(store, sweep, done),
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
    for name, value in options.items():
        words += [] if value is None else [f"--{name.replace('_', '-')}", _text(value)]
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


def _provenance(store: Store, sweep: str, done: Sequence[Record]) -> dict[str, str]:
    first = done[0].run
    registered = [each for each in store.sweeps() if each.name == sweep][-1]
    recipe = {name: value for name, value in first.recipe.items() if not name.startswith("seed")}
    versions = [
        ", ".join(f"{name} {value}" for name, value in (record.versions or {}).items())
        for record in done
    ]
    finished = sorted(record.finished for record in done if record.finished)
    return {
        "command": this_command(),
        "store": _shown(store),
        "sweep": f"{sweep}, begun {registered.created}",
        "runs": f"{len(done):,}, finished {finished[0]} to {finished[-1]}" if finished else "",
        "machine": _distinct([record.machine for record in done]),
        "versions": _distinct(versions),
        "seeds of subsamples": _distinct([str(record.run.seed) for record in done], ", "),
        "data fingerprints": _distinct([f"seed {r.run.seed}: {r.fingerprint[:16]}" for r in done]),
        "network": json.dumps(first.network),
        "features": json.dumps(first.features) if first.features else "as they are",
        "recipe": json.dumps(recipe),
    }


def _distinct(texts: Sequence[str], separator: str = "; ") -> str:
    return separator.join(dict.fromkeys(filter(None, texts)))
