"""VS and VS + LCT as the rare class gets rarer: ROC bands, box plots, differences over beta."""

from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from curvewise.figures.curves import bands
from curvewise.figures.frames import boxes, lines
from curvewise.paper.experiment import AREAS, Claim, Data, Experiment, Reading
from curvewise.paper.measures import LCT, SHIFTED, TITLES, VS, gains, lead
from curvewise.paper.profiles import Profile, both
from curvewise.stats.areas import by_cell, roc_bands
from curvewise.sweep.spec import Spec

CAT_DOG, HOUSEHOLD = "cifar10:cat/dog", "cifar100:household"
DOGS_CATS, MELANOMA = PHOTOGRAPHS = ("dogs-vs-cats", "melanoma")
FEWEST = 2  # training samples of the minority below which a curve says nothing of a method
GRID = np.union1d(np.linspace(0, 1, 161), np.geomspace(1e-3, 1, 91))
DECIMALS = 6  # of a rate in a file
NO_MELANOMA = "Melanoma's images are not there: Dogs vs Cats stands in their place, or alone."
ONE_SUBSAMPLE = "One subsample a panel."
CHOSEN = "Recipes were chosen on Dogs vs Cats, so it is no test."
# Of which models claims are: from beta = 100 on the paper sees LCT ahead.
SEVERE: Any = {"where": "beta >= 100", "when": "at beta >= 100"}
MILD: Any = {"where": "beta < 100", "when": "at beta = 10 and 50"}
AT_100: Any = {"where": "beta == 100", "when": "at beta = 100", "unit": "cells"}
AT_500: Any = {"where": "beta == 500", "when": "at beta = 500", "unit": "cells"}


def collect_bands(reading: Reading) -> Data:
    """Collect sample counts and, of cells with enough samples, areas and bands on 250 rates."""
    models = reading.models(scores=True)
    cells = models.drop_duplicates(["task", "beta"])[["task", "beta", "fingerprint"]]
    counts = [
        [*reading.store.problem(key).class_counts, *np.bincount(reading.store.labels(key))]
        for key in cells["fingerprint"]
    ]
    named = ["majority", "minority", "test majority", "test minority"]
    samples = cells[["task", "beta"]].assign(**pd.DataFrame(counts, cells.index, named))
    enough = samples.loc[samples["minority"] >= FEWEST, ["task", "beta"]]
    kept = models.merge(enough, on=["task", "beta"])
    bands = [
        pd.DataFrame({"task": task, "beta": beta, "method": method, **vars(band)})
        for (task, beta), cell in kept.groupby(["task", "beta"], sort=False, dropna=False)
        for method, band in roc_bands(cell, GRID).items()
    ]
    return {"bands": pd.concat(bands).round(DECIMALS), "areas": kept[AREAS], "samples": samples}


def _beta_name(beta: float) -> str:
    return "as it is" if np.isnan(beta) else f"beta = {beta:g}"


def draw_bands(data: Data, **sheet: Any) -> Any:
    """Draw the bands of the four severest cells, with the mean AUC of each method."""
    cells = data["samples"][["task", "beta"]].sort_values("beta", kind="stable").tail(4)
    cells["panel"] = cells["task"].replace(TITLES) + ", " + cells["beta"].map(_beta_name)
    curves, models = (data[part].merge(cells, on=["task", "beta"]) for part in ("bands", "areas"))
    return bands(curves, panel="panel", areas=models, log="misses" in sheet, columns=2, **sheet)


BANDS: Any = {"parts": ["areas"]}
CIFAR_BANDS = Experiment(
    name="fig-cifar-bands",
    question="Is LCT's ROC curve better at beta = 100 and 200, on cat/dog and household?",
    sweeps=lambda profile: profile.specs(
        "fig-cifar-bands", [CAT_DOG, HOUSEHOLD], both(), betas=(10, 50, 100, 200)
    ),
    collect=collect_bands,
    draw=draw_bands,
    claims={
        **gains("mean", "max", "min", **BANDS, **SEVERE, published="on all"),
        **gains("std", **BANDS, **SEVERE),
        **gains("mean", "min", "std", **BANDS, **SEVERE, beside=SHIFTED),
        **gains("mean", **BANDS, **MILD, published="tied at 10"),
    },
    caveats=(
        ONE_SUBSAMPLE,
        "Household at beta = 10 has 530 of 2,500 majority samples: its minority is too small.",
    ),
)
KAGGLE_BANDS = Experiment(
    name="fig-kaggle-bands",
    question="Is LCT's ROC curve better at beta = 100 and 200 on Kaggle's photographs?",
    sweeps=lambda profile: profile.specs(
        "fig-kaggle-bands", PHOTOGRAPHS[: 1 + profile.melanoma], both(), betas=(100, 200)
    ),
    collect=collect_bands,
    draw=partial(draw_bands, misses=True),
    claims={
        **gains("mean", "max", **BANDS, tie=0.0005, published="better or tied"),
        **gains("min", "std", **BANDS),
        **gains("mean", "min", **BANDS, beside=SHIFTED),
    },
    caveats=(NO_MELANOMA, CHOSEN, ONE_SUBSAMPLE, "A loss below 0.0005 counts as a tie."),
)


def _box_sweeps(profile: Profile) -> list[Spec]:
    # Melanoma has 12 benign images to a malignant one as it is, by the paper's count.
    task, mildest = (MELANOMA, None) if profile.melanoma else (DOGS_CATS, 10)
    return [profile.spec("fig-melanoma-box", [task], both(), betas=(mildest, 100, 200))]


def from_mildest(statistic: str, data: Data) -> float:
    """Return what a statistic of VS's AUC changes from the mildest to the severest imbalance."""
    vs = data[""][data[""]["method"] == VS]
    cells = by_cell(vs.fillna({"beta": 1})).sort_values("beta")[statistic]
    return float(cells.iloc[-1] - cells.iloc[0])


MELANOMA_BOX = Experiment(
    name="fig-melanoma-box",
    question="Does AUC fall and spread as a class gets rarer, and does LCT mend both?",
    sweeps=_box_sweeps,
    draw=lambda data, **sheet: boxes(
        data[""].assign(beta=data[""]["beta"].map(_beta_name)), x="beta", hue="method", **sheet
    ),
    claims={
        "VS's mean AUC falls as beta grows": Claim(
            partial(from_mildest, "mean"), published="yes", better=-1
        ),
        "VS's AUC spreads as beta grows": Claim(partial(from_mildest, "std"), published="yes"),
        **gains("mean", "std", **SEVERE, published="yes"),
        **gains("mean", "std", **SEVERE, beside=SHIFTED),
    },
    caveats=(NO_MELANOMA, CHOSEN, ONE_SUBSAMPLE),
)

BETAS = (5, 10, 20, 50, 100, 200, 500)
BETA_TASKS = [CAT_DOG, "fashion-mnist:0/6", "fashion-mnist:2/4"]
SHOWN = {"mean": "mean AUC", "min": "min AUC", "std": "std (lower is better)"}


def slope(statistic: str, data: Data) -> float:
    """Return by how much LCT's gain grows as beta grows tenfold, a line through the averages.

    Averages of neighbouring beta may cross by chance: the trend is told by all of them.
    """
    means = lead(data[""]).groupby("beta")[statistic].mean()
    tens = np.log10(means.index.to_numpy(float))
    return float(np.polyfit(tens, means, 1)[0]) if len(means) > 1 else np.nan


def _draw_growth(data: Data, **sheet: Any) -> Any:
    steps = lead(data[""]).rename(columns=SHOWN).replace({"task": TITLES})
    long = steps.melt(["task", "beta"], list(SHOWN.values()), "panel", "step")
    looks: Any = {"x": "beta", "hue": "task", "panel": "panel", "ylabel": f"{LCT} less {VS}"}
    return lines(long, y="step", log=True, zero=True, bars=True, **looks, **sheet)


BETA = Experiment(
    name="fig-beta",
    question="Does LCT gain more as the imbalance grows from 5 to 500?",
    sweeps=lambda profile: profile.specs(
        "fig-beta", BETA_TASKS, both(), betas=BETAS, seeds=(0, 1, 2)
    ),
    draw=_draw_growth,
    claims={
        **{
            f"LCT's gain in {name} AUC grows with beta (for each factor of 10)": Claim(
                partial(slope, name)
            )
            for name in ("mean", "min")
        },
        **gains("mean", "min", "std", **AT_100),
        **gains("mean", "min", "std", **AT_500),
        **gains("mean", **AT_500, beside=SHIFTED),
    },
    caveats=(
        "Cells are three tasks with three subsamples each; bars reach from lowest to highest seed.",
        "Recipes were chosen on the two Fashion-MNIST pairs, at beta = 100.",
    ),
)
