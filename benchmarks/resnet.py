"""The paper's kind of network from scratch, with and without an average of weights that lags.

Trains every run of examples/resnet_cat_dog.toml (CIFAR-10 cat/dog at beta = 100, ResNet-20 of width
8, 60 epochs) once, and measures its test AUC with three sets of weights: the last ones, their
average over the paper's share of the run (2 %), and the average that the paper's code would keep in
so short a run (decay 0.9 an epoch, which lags by ten epochs). Six hours of one core;
docs/results/resnet_runs.csv has a line for each run and set, and what is there is not trained
again. Needs CIFAR-10, found by CURVEWISE_DATA.

Targets
-------
- The paper's claim, for FiLM as the paper starts it and from the identity, with the last weights:
  the mean of AUC over the settings at least that of VS, the lowest AUC too, the spread at most.
"""

import csv
import statistics
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from _measure import Result, main
from curvewise.losses.registry import evaluation_lambda, make_objective
from curvewise.roc.curve import auc
from curvewise.sweep.executors import Job
from curvewise.sweep.plan import PlannedRun, Problem
from curvewise.sweep.spec import read_spec
from curvewise.sweep.work import Problems
from curvewise.sweep.worker_processes import WorkerProcesses
from curvewise.training.loop import Progress, conditioned, fit
from curvewise.training.model import NetworkSpec, logits_at
from curvewise.training.recipe import Recipe

QUESTION = "Has a small ResNet, trained from scratch, better ROC curves over a family of losses?"
CAVEATS = (
    "One pair (cat/dog at beta = 100), one subsample and one seed a setting.",
    "ResNet-20 of width 8 for 60 epochs; the paper has ResNet-32 for 500.",
    "Nothing was chosen on these runs.",
)
ROOT = Path(__file__).parents[1]
SPEC = ROOT / "examples" / "resnet_cat_dog.toml"
OUT = ROOT / "docs" / "results" / "resnet_runs.csv"
COLUMNS = ("method", "number", "omega", "gamma", "tau", "epochs", "weights", "auc", "seconds")
LAST, SHARE, LAGGING = "last", "average of 2 % of the run", "average lagging by 10 epochs"
DECAY = 0.9  # of the paper's code, an epoch
STATISTICS = (
    ("mean AUC", statistics.fmean, True),
    ("lowest AUC", min, True),
    ("std of AUC", statistics.stdev, False),
)


def trained(run: PlannedRun, problem: Problem) -> list[dict[str, Any]]:
    """Train a run; return a row for each set of its weights."""
    share = float(run.recipe["ema_share"])
    recipe = Recipe(**{**run.recipe, "ema_share": None})
    counts = np.bincount(problem.y_train).tolist()
    objective = make_objective(run.method, run.settings, counts)
    options = {name: value for name, value in run.network.items() if name != "name"}
    spec = NetworkSpec(run.network["name"], problem.x_train.shape[1:], 2, options)
    start = conditioned(spec.build(recipe.seed_weights), objective, recipe).state_dict()
    sets = dict.fromkeys((SHARE, LAGGING), start)

    def follow(progress: Progress) -> None:
        now = progress.state().model
        sets[SHARE] = moved(sets[SHARE], now, 1 / (share * progress.steps))
        if progress.step % (progress.steps // recipe.epochs) == 0:
            sets[LAGGING] = moved(sets[LAGGING], now, 1 - DECAY)

    fitted = fit(
        spec.build(recipe.seed_weights),
        objective,
        problem.x_train,
        problem.y_train,
        recipe,
        normalization=problem.normalization,
        on_progress=follow,
    )
    lam, rows = evaluation_lambda(objective, run.evaluate), []
    for weights, tensors in {LAST: fitted.state.model, **sets}.items():
        fitted.network.load_state_dict(tensors)
        scale = problem.normalization
        logits = logits_at(fitted.network, problem.x_test, lam, normalization=scale)[0]
        area = auc(problem.y_test, (logits[:, 1] - logits[:, 0]).numpy())
        setting = {"method": run.label, "number": run.number, **run.settings}
        seconds = round(fitted.seconds, 1)
        of_run = {"epochs": recipe.epochs, "weights": weights, "auc": area, "seconds": seconds}
        rows.append(setting | of_run)
    return rows


def moved(average: dict[str, Tensor], now: dict[str, Tensor], pull: float) -> dict[str, Tensor]:
    """Return an average moved towards the weights as they are; counters are taken over."""
    return {
        name: torch.lerp(average[name], value, pull) if value.is_floating_point() else value
        for name, value in now.items()
    }


def train_missing() -> None:
    """Train the runs that the file does not have."""
    if not OUT.exists():
        OUT.write_text(",".join(COLUMNS) + "\n")
    done = {(row["method"], row["number"]) for row in rows()}
    runs = [run for run in read_spec(SPEC).runs() if (run.label, str(run.number)) not in done]
    runs.sort(key=lambda run: run.number)  # all arms grow together
    problems = Problems()
    jobs = [Job(key, run, "cat/dog") for key, run in enumerate(runs)]
    for end in WorkerProcesses().execute(jobs, trained, lambda _: problems.load(runs[0])):
        if end.error:
            raise SystemExit(end.error)
        with OUT.open("a", newline="") as file:
            csv.DictWriter(file, COLUMNS, lineterminator="\n").writerows(end.outcome)
        print(*end.outcome, sep="\n", file=sys.stderr, flush=True)


def rows() -> list[dict[str, str]]:
    """Return what was measured."""
    with OUT.open(newline="") as file:
        return list(csv.DictReader(file))


def measure() -> list[Result]:
    """Train what is missing, and compare the arms with each set of weights."""
    train_missing()
    measured = rows()
    methods = list(dict.fromkeys(row["method"] for row in measured))
    results = []
    for weights in (LAST, SHARE, LAGGING):
        areas = {
            method: [
                float(row["auc"])
                for row in measured
                if (row["method"], row["weights"]) == (method, weights)
            ]
            for method in methods
        }
        for method in methods[1:]:
            for name, of, at_least in STATISTICS:
                ours, peer = of(areas[method]), of(areas[methods[0]])
                what = f"{weights}: {name}, {method}"
                results.append(Result(what, ours, peer, ours / peer, 1.0, at_least, unit=""))
    return results


if __name__ == "__main__":
    main("A ResNet from scratch", measure, QUESTION, CAVEATS)
