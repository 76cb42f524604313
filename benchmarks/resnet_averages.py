"""The paper's kind of network from scratch, and what the average of its weights does to it.

Trains every run of examples/resnet_cat_dog.toml (CIFAR-10 cat/dog at beta = 100) once, and measures
its test AUC with three sets of weights: the last ones, their average over the paper's share of the
run (2 %), and the average that the paper's code would keep in so short a run (decay 0.9 an epoch,
which lags by ten epochs). One line of --out a run and set; what is there is not trained again.
Hours: it can be stopped and started at any time. No target: the question is which is ahead.

    python benchmarks/resnet_averages.py --data-dir DIR --out docs/results/resnet.csv
"""

import argparse
import csv
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from curvewise.losses.registry import evaluation_lambda, make_objective
from curvewise.roc.curve import auc
from curvewise.sweep.executors import Job, processes
from curvewise.sweep.plan import PlannedRun, Problem
from curvewise.sweep.spec import read_spec
from curvewise.sweep.work import Problems, network_of
from curvewise.training.loop import Progress, conditioned, fit
from curvewise.training.model import NetworkSpec, logits_at
from curvewise.training.recipe import Recipe

SPEC = Path(__file__).parents[1] / "examples" / "resnet_cat_dog.toml"
COLUMNS = ("method", "number", "omega", "gamma", "tau", "epochs", "weights", "auc", "seconds")
LAST, SHARE, LAGGING = "last", "average of 2 % of the run", "average lagging by 10 epochs"
DECAY = 0.9  # of the paper's code, an epoch


def trained(run: PlannedRun, problem: Problem) -> list[dict[str, Any]]:
    """Train a run; return a row for each set of its weights."""
    share = float(run.recipe["ema_share"])
    recipe = Recipe(**{**run.recipe, "ema_share": None})
    counts = np.bincount(problem.y_train).tolist()
    objective = make_objective(run.method, run.settings, counts)
    name, options = network_of(run, problem)
    spec = NetworkSpec(name, problem.x_train.shape[1:], 2, options)
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


def main() -> None:
    """Train what is missing in --out."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    done = set()
    if options.out.exists():
        with options.out.open(newline="") as file:
            done = {(row["method"], row["number"]) for row in csv.DictReader(file)}
    runs = [run for run in read_spec(SPEC).runs() if (run.label, str(run.number)) not in done]
    runs.sort(key=lambda run: run.number)  # all arms grow together
    problems = Problems(data_dir=options.data_dir)
    jobs = [Job(key, run, "cat/dog") for key, run in enumerate(runs)]
    for end in processes().execute(jobs, trained, lambda _: problems.load(runs[0])):
        if end.error:
            print(end.error, flush=True)
            continue
        new = not options.out.exists()
        with options.out.open("a", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            if new:
                writer.writeheader()
            writer.writerows(end.outcome)
        print(*end.outcome, sep="\n", flush=True)


if __name__ == "__main__":
    main()
