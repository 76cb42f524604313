"""When does drawing the loss help on tables? LCT beside VS, model by model and as ensembles.

    python -m benchmarks.tabular.conditioning --csv out/conditioning.csv
    python -m benchmarks.tabular.conditioning --csv docs/results/tabular_lct.csv --summary

Of each base set of the development half the table with most rare rows, three folds. Every arm
trains 16 networks (two layers of 64 on the estimator's own columns): VS at omega .5, .9, gamma
0, .2, tau 0, 1, 2, 3; LCT at the same omega and gamma with four densities of tau, drawn for each
batch or for each sample, and evaluated at tau = 3. All are trained with AdamW as the estimator
does, with SGD as the paper does (momentum, clipping) at two rates, and three times as long. A run
that is stopped goes on.
"""

import argparse
import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from benchmarks.tabular.datasets import BASES, bases_of_half, folds, load, seed_of
from benchmarks.tabular.ranking import DIGITS

from curvewise.base.errors import InputError
from curvewise.estimator.fitting import Settings
from curvewise.estimator.inputs import TableInputs
from curvewise.losses.family import LinearDensity, LossFamily
from curvewise.roc.curve import auc
from curvewise.roc.metrics import ensemble_score
from curvewise.stats.comparisons import signed_rank_p
from curvewise.training.recipe import Recipe
from curvewise.training.stacked import fit_stacked
from curvewise.training.stacked_network import stacked_scores

TRAINING: dict[str, dict[str, Any]] = {
    "AdamW": {},
    "SGD 0.1": {"optimizer": "sgd", "lr": 0.1, "weight_decay": 1e-3, "clip_norm": 0.5},
    "SGD 0.01": {"optimizer": "sgd", "lr": 0.01, "weight_decay": 1e-3, "clip_norm": 0.5},
}
LENGTHS = (1, 3)
FOLDS = 3  # of the five of the first repeat
ARMS = {"VS": "batch", "LCT a batch": "batch", "LCT a sample": "sample"}
STATISTICS = {"mean": 1, "min": 1, "std": -1, "ensemble": 1}  # and which sign is better
KEYS = ["dataset", "fold", "training", "length", "arm"]


class Way(NamedTuple):
    """How a stack is trained."""

    training: str
    length: int
    arm: str


def tables() -> list[str]:
    """Return the table with most rare rows of each base set of the development half."""
    return [
        max(BASES[base], key=lambda name: load(name).positives) for base in bases_of_half("dev")
    ]


def families(arm: str) -> list[LossFamily]:
    """Return the 16 losses, or families of losses, of an arm."""
    fixed = (0.0, 1.0, 2.0, 3.0)
    taus = fixed if arm == "VS" else [LinearDensity(0.0, 3.0, h) for h in (0.0, 0.15, 0.33, 0.5)]
    return [
        LossFamily(omega, gamma, tau, reduction="expected_mean")
        for omega, gamma, tau in product((0.5, 0.9), (0.0, 0.2), taus)
    ]


def recipe_of(way: Way, n: int, columns: int, seed: int) -> Recipe:
    """Return the estimator's recipe for n rows with the changes of a way."""
    own = Settings().recipe(n, (columns,), seed)
    assert own.steps is not None
    return own.changed(steps=way.length * own.steps, draw=ARMS[way.arm], **TRAINING[way.training])


def measured(dataset: str, fold: int, way: Way) -> dict[str, Any]:
    """Train an arm on one fold; return the AUC of its models and of their mean score."""
    data = load(dataset)
    train, test = folds(data)[fold]
    inputs = TableInputs()
    x = inputs.fit(data.x.iloc[train])
    seed = seed_of(dataset, fold) % 2**31
    losses = families(way.arm)
    settings = Settings()
    fitted = fit_stacked(
        lambda own: settings.build(x.shape[1:], 2, own),
        losses,
        x,
        data.y[train],
        recipe_of(way, len(x), x.shape[1], seed),
    )
    rows = np.concatenate(list(inputs.blocks(data.x.iloc[test])))
    lam = losses[0].at(tau=3.0) if losses[0].drawn else torch.zeros(0)
    scores = stacked_scores(fitted.networks, rows, lam[None])[:, 0]
    areas = [auc(data.y[test], np.nan_to_num(score)) for score in scores]
    return {
        **dict(zip(KEYS, (dataset, fold, *way), strict=True)),
        "mean": float(np.mean(areas)),
        "min": float(np.min(areas)),
        "max": float(np.max(areas)),
        "std": float(np.std(areas, ddof=1)),
        "ensemble": auc(data.y[test], ensemble_score(np.nan_to_num(scores))),
        "diverged": len(fitted.diverged),
    }


def missing(done: pd.DataFrame) -> Iterator[tuple[str, int, Way]]:
    """Yield what is not there yet, fold by fold."""
    there = set(done[KEYS].itertuples(index=False, name=None)) if len(done) else set()
    ways = [Way(*some) for some in product(TRAINING, LENGTHS, ARMS)]
    for fold, dataset, way in product(range(FOLDS), tables(), ways):
        if (dataset, fold, *way) not in there:
            yield dataset, fold, way


def summary(frame: pd.DataFrame) -> str:
    """Return averages over base sets, and LCT against VS with a signed-rank test over them."""
    means = frame.groupby(["training", "length", "arm", "dataset"])[list(STATISTICS)].mean()
    lines = [
        "| training | length | arm | mean AUC | min | std | ensemble |",
        "|---|--:|---|--:|--:|--:|--:|",
    ]
    against = [
        "| training | length | arm less VS | mean AUC | min | std | ensemble |",
        "|---|--:|---|---|---|---|---|",
    ]
    for training, length, arm in product(TRAINING, LENGTHS, ARMS):
        own = means.loc[(training, length, arm)]
        values = " | ".join(f"{own[name].mean():.4f}" for name in STATISTICS)
        lines.append(f"| {training} | {length} | {arm} | {values} |")
        if arm == "VS":
            plain = own
            continue
        gaps = {name: (own[name] - plain[name]).round(DIGITS) for name in STATISTICS}
        cells = [
            f"{gap.mean():+.4f} ({int((sign * gap > 0).sum())} of {len(gap)}, "
            f"p = {signed_rank_p(gap.to_numpy()):.2g})"
            for (name, gap), sign in zip(gaps.items(), STATISTICS.values(), strict=True)
        ]
        against.append(f"| {training} | {length} | {arm} | {' | '.join(cells)} |")
    return "\n".join([*lines, "", *against])


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tabular.conditioning")
    parser.add_argument("--csv", type=Path, default=Path("out/conditioning.csv"))
    parser.add_argument("--summary", action="store_true", help="only print what is there")
    chosen = parser.parse_args(arguments)
    rows = pd.read_csv(chosen.csv).to_dict("records") if chosen.csv.is_file() else []
    if chosen.summary and not rows:
        raise InputError(f"--csv must be a file that this has written, got {chosen.csv}")
    left = [] if chosen.summary else list(missing(pd.DataFrame(rows)))
    chosen.csv.parent.mkdir(parents=True, exist_ok=True)
    for number, (dataset, fold, way) in enumerate(left, 1):
        rows.append(measured(dataset, fold, way))
        whole = chosen.csv.with_suffix(".part")
        pd.DataFrame(rows).round(6).to_csv(whole, index=False)
        whole.replace(chosen.csv)  # a kill leaves the file of before
        print(
            f"{number}/{len(left)}: {dataset}, fold {fold}, {', '.join(map(str, way))}", flush=True
        )
    lacking = len(list(missing(pd.DataFrame(rows))))
    if lacking:
        raise InputError(f"{chosen.csv} lacks {lacking} fits; the same command without --summary")
    print(summary(pd.DataFrame(rows)))


if __name__ == "__main__":
    try:
        main()
    except InputError as error:
        sys.exit(f"error: {error}")
