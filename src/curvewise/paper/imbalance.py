"""VS and VS + LCT as the rare class gets rarer: ROC bands, box plots, differences over beta."""

from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from curvewise.figures.curves import bands
from curvewise.figures.frames import boxes, lines
from curvewise.paper.experiment import AREAS, Claim, Data, Experiment, Reading
from curvewise.paper.measures import LCT, SHIFTED, TITLES, VS, gains, severe, shifted
from curvewise.paper.profiles import Profile, both
from curvewise.stats.areas import by_cell, differences, roc_bands
from curvewise.sweep.spec import Spec

CAT_DOG, HOUSEHOLD = "cifar10:cat/dog", "cifar100:household"
DOGS_CATS, MELANOMA = PHOTOGRAPHS = ("dogs-vs-cats", "melanoma")
FEWEST = 2  # training samples of the minority below which a curve says nothing of a method
GRID = np.union1d(np.linspace(0, 1, 161), np.geomspace(1e-3, 1, 91))
DECIMALS = 6  # of a rate in a file
SEVERE: Any = {"where": severe, "when": "at beta >= 100"}
SHIFTED_SEVERE: Any = SEVERE | {"where": lambda m: shifted(severe(m)), "beside": SHIFTED}
NO_MELANOMA = "Melanoma's images are not there: Dogs vs Cats stands in their place, or alone."
ONE_SUBSAMPLE = "One subsample a panel."
CHOSEN = "Recipes were chosen on Dogs vs Cats, so it is no test."


def collect_bands(reading: Reading) -> Data:
    """Collect ROC bands on about 250 rates, areas, and how many samples there were.

    Cells with too few samples of the minority have no bands and no areas.
    """
    assert reading.store is not None
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
    rows = []
    for (task, beta), cell in kept.groupby(["task", "beta"], sort=False, dropna=False):
        for method, band in roc_bands(cell, GRID).items():
            columns = {name: np.round(values, DECIMALS) for name, values in vars(band).items()}
            rows.append(pd.DataFrame({"task": task, "beta": beta, "method": method, **columns}))
    return {"bands": pd.concat(rows), "areas": kept[AREAS], "samples": samples}


def beta_name(beta: float) -> str:
    """Return an imbalance for readers: "beta = 100", or that data are as they are."""
    return "as it is" if np.isnan(beta) else f"beta = {beta:g}"


def draw_bands(data: Data, **sheet: Any) -> Any:
    """Draw the bands of the four severest cells, with the mean AUC of each method."""
    cells = data["samples"][["task", "beta"]].sort_values("beta", kind="stable").tail(4)
    cells["panel"] = cells["task"].replace(TITLES) + ", " + cells["beta"].map(beta_name)
    curves, models = (data[part].merge(cells, on=["task", "beta"]) for part in ("bands", "areas"))
    return bands(curves, panel="panel", areas=models, log="misses" in sheet, columns=2, **sheet)


BANDS: Any = {"parts": ["areas"]}
MILD: Any = {"where": lambda models: models[models["beta"] < 100], "when": "at beta = 10 and 50"}
ON_ALL = dict.fromkeys(("mean", "max", "min"), "on all")
OR_TIED = dict.fromkeys(("mean", "max"), "better or tied")
CIFAR_BANDS = Experiment(
    name="fig-cifar-bands",
    question="Is LCT's ROC curve better at beta = 100 and 200, on cat/dog and household?",
    published=True,
    sweeps=lambda profile: profile.specs(
        "fig-cifar-bands", [CAT_DOG, HOUSEHOLD], both(), betas=(10, 50, 100, 200)
    ),
    collect=collect_bands,
    draw=draw_bands,
    claims={
        **gains("mean", "max", "min", "std", **BANDS, **SEVERE, published=ON_ALL),
        **gains("mean", "min", "std", **BANDS, **SHIFTED_SEVERE),
        **gains("mean", **BANDS, **MILD, published={"mean": "tied at 10"}),
    },
    caveats=(
        ONE_SUBSAMPLE,
        "Household at beta = 10 has 530 of 2,500 majority samples: its minority is too small.",
    ),
)
KAGGLE_BANDS = Experiment(
    name="fig-kaggle-bands",
    question="Is LCT's ROC curve better at beta = 100 and 200 on Kaggle's photographs?",
    published=True,
    sweeps=lambda profile: profile.specs(
        "fig-kaggle-bands", PHOTOGRAPHS[: 1 + profile.melanoma], both(), betas=(100, 200)
    ),
    collect=collect_bands,
    draw=partial(draw_bands, misses=True),
    claims={
        **gains("mean", "max", **BANDS, tie=0.0005, published=OR_TIED),
        **gains("min", "std", **BANDS),
        **gains("mean", "min", **BANDS, beside=SHIFTED, where=shifted),
    },
    caveats=(NO_MELANOMA, CHOSEN, ONE_SUBSAMPLE, "A loss below 0.0005 counts as a tie."),
)


def _box_sweeps(profile: Profile) -> list[Spec]:
    # Melanoma has 12 benign images to a malignant one as it is, by the paper's count.
    task, mildest = (MELANOMA, None) if profile.melanoma else (DOGS_CATS, 10)
    return [profile.spec("fig-melanoma-box", [task], both(), betas=(mildest, 100, 200))]


def from_mildest(data: Data, statistic: str) -> float:
    """Return what a statistic of VS's AUC changes from the mildest to the severest imbalance."""
    vs = data[""][data[""]["method"] == VS]
    cells = by_cell(vs.assign(beta=vs["beta"].fillna(1))).sort_values("beta")[statistic]
    return float(cells.iloc[-1] - cells.iloc[0])


MELANOMA_BOX = Experiment(
    name="fig-melanoma-box",
    question="Does AUC fall and spread as a class gets rarer, and does LCT mend both?",
    published=True,
    sweeps=_box_sweeps,
    draw=lambda data, **sheet: boxes(
        data[""].assign(beta=data[""]["beta"].map(beta_name)), x="beta", hue="method", **sheet
    ),
    claims={
        "VS's mean AUC falls as beta grows": Claim(
            lambda data: from_mildest(data, "mean"), published="yes", better=-1
        ),
        "VS's AUC spreads as beta grows": Claim(
            lambda data: from_mildest(data, "std"), published="yes"
        ),
        **gains("mean", "std", **SEVERE, published={"mean": "yes", "std": "yes"}),
        **gains("mean", "std", **SHIFTED_SEVERE),
    },
    caveats=(NO_MELANOMA, CHOSEN, ONE_SUBSAMPLE),
)

SHOWN = {"mean": "mean AUC", "min": "min AUC", "std": "std (lower is better)"}


def slope(data: Data, statistic: str) -> float | None:
    """Return by how much LCT's gain grows as beta grows tenfold, a line through the averages.

    Averages of neighbouring beta may cross by chance: the trend is told by all of them.
    """
    means = differences(data[""], VS, LCT).groupby("beta")[statistic].mean()
    if len(means) < 2:
        return None
    return float(np.polyfit(np.log10(means.index.to_numpy(float)), means, 1)[0])


def _draw_growth(data: Data, **sheet: Any) -> Any:
    steps = differences(data[""], VS, LCT).rename(columns=SHOWN).replace({"task": TITLES})
    long = steps.melt(["task", "beta"], list(SHOWN.values()), "panel", "step")
    seeds = long.groupby(["panel", "task", "beta"], sort=False)["step"]
    rows = seeds.agg(["mean", "min", "max"]).reset_index()
    ends: Any = {"y": "mean", "low": "min", "high": "max", "ylabel": f"{LCT} less {VS}"}
    return lines(rows, x="beta", hue="task", panel="panel", log=True, zero=True, **ends, **sheet)


def _at(beta: int, **more: Any) -> Any:
    where: Any = {"where": lambda models: models[models["beta"] == beta]}
    return {**where, "when": f"at beta = {beta}", "unit": "cells", **more}


BETA = Experiment(
    name="fig-beta",
    question="Does LCT gain more as the imbalance grows from 5 to 500?",
    sweeps=lambda profile: profile.specs(
        "fig-beta",
        [CAT_DOG, "fashion-mnist:0/6", "fashion-mnist:2/4"],
        both(),
        betas=(5, 10, 20, 50, 100, 200, 500),
        seeds=(0, 1, 2),
    ),
    draw=_draw_growth,
    claims={
        "LCT's gain in mean AUC grows with beta (for each factor of 10)": Claim(
            lambda data: slope(data, "mean")
        ),
        "LCT's gain in min AUC grows with beta (for each factor of 10)": Claim(
            lambda data: slope(data, "min")
        ),
        **gains("mean", "min", "std", **_at(100)),
        **gains("mean", "min", "std", **_at(500)),
        **gains(
            "mean",
            **_at(500, where=lambda models: shifted(models[models["beta"] == 500])),
            beside=SHIFTED,
        ),
    },
    caveats=(
        "Cells are three tasks with three subsamples each; bars reach from lowest to highest seed.",
        "Recipes were chosen on the two Fashion-MNIST pairs, at beta = 100.",
    ),
)
