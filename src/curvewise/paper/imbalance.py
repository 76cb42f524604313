"""VS and VS + LCT as the rare class gets rarer: ROC bands, box plots, differences over beta."""

from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from curvewise.figures.curves import bands
from curvewise.figures.frames import boxes, lines
from curvewise.paper.experiment import AREAS, Claim, Data, Experiment, Measured, Reading
from curvewise.paper.measures import (
    LCT,
    SHIFTED,
    VS,
    cell_names,
    gains,
    severe,
    shifted,
    title_of,
)
from curvewise.paper.profiles import Profile, both
from curvewise.stats.areas import by_cell, differences
from curvewise.stats.bands import roc_bands
from curvewise.sweep.spec import Spec

CAT_DOG, HOUSEHOLD = "cifar10:cat/dog", "cifar100:household"
DOGS_CATS, MELANOMA = "dogs-vs-cats", "melanoma"
FEWEST = 2  # training samples of the minority below which a curve says nothing of a method
GRID = np.union1d(np.linspace(0, 1, 161), np.geomspace(1e-3, 1, 91))
DECIMALS = 6  # of a rate in a file
NO_MELANOMA = "Melanoma's images are not there: Dogs vs Cats stands in their place, or alone."
ONE_SUBSAMPLE = "One subsample a panel."
CHOSEN = "Recipes were chosen on Dogs vs Cats, so it is no test."


def severely_shifted(models: pd.DataFrame) -> pd.DataFrame:
    """Return the models at beta of 100 or more, without those of VS at tau = 0."""
    return shifted(severe(models))


def collect_bands(reading: Reading) -> Data:
    """Collect ROC bands on about 250 rates, areas, and how many samples there were.

    Cells with too few samples of the minority have no bands and no areas.
    """
    models = pd.concat([reading.models(sweep, scores=True) for sweep in reading.sweeps])
    samples = samples_of(reading, models)
    enough = samples.loc[samples["minority"] >= FEWEST, ["task", "beta"]]
    kept = models.merge(enough, on=["task", "beta"])
    rows = []
    for (task, beta), cell in kept.groupby(["task", "beta"], sort=False, dropna=False):
        for method, band in roc_bands(cell, GRID).items():
            columns = {name: np.round(values, DECIMALS) for name, values in vars(band).items()}
            place = {"task": task, "beta": beta, "method": method}
            rows.append(pd.DataFrame({**place, **columns}))
    return {"bands": pd.concat(rows), "areas": kept[AREAS], "samples": samples}


def samples_of(reading: Reading, models: pd.DataFrame) -> pd.DataFrame:
    """Return how many samples of both classes each task has at each beta."""
    assert reading.store is not None
    rows = []
    for _, run in models.drop_duplicates(["task", "beta"]).iterrows():
        majority, minority = reading.store.problem(run["fingerprint"]).class_counts
        test = np.bincount(reading.store.labels(run["fingerprint"]), minlength=2)
        counts = {"majority": majority, "minority": minority}
        tested = {"test majority": int(test[0]), "test minority": int(test[1])}
        rows.append({"task": run["task"], "beta": run["beta"], **counts, **tested})
    return pd.DataFrame(rows)


def draw_bands(data: Data, *, panels: int, **sheet: Any) -> Any:
    """Draw the bands of the severest `panels` cells, with the mean AUC of each method."""
    cells = data["samples"][["task", "beta"]].sort_values("beta", kind="stable").tail(panels)
    curves, models = (
        rows.merge(cells, on=["task", "beta"]) for rows in (data["bands"], data["areas"])
    )
    curves, models = (rows.assign(panel=cell_names(rows)) for rows in (curves, models))
    return bands(curves, panel="panel", areas=models, log="misses" in sheet, **sheet)


def _band_sweeps(name: str, betas: tuple[int, ...], profile: Profile) -> list[Spec]:
    tasks = [CAT_DOG, HOUSEHOLD]
    if name == "fig-kaggle-bands":
        tasks = [DOGS_CATS, *([MELANOMA] if profile.melanoma else [])]
    return [
        profile.spec(f"{name}-{task.partition(':')[0]}", [task], both(), betas=betas)
        for task in tasks
    ]


CIFAR_BANDS = Experiment(
    name="fig-cifar-bands",
    question="Is LCT's ROC curve better at beta = 100 and 200, on cat/dog and household?",
    published=True,
    sweeps=partial(_band_sweeps, "fig-cifar-bands", (10, 50, 100, 200)),
    collect=collect_bands,
    draw=partial(draw_bands, panels=4, columns=2),
    claims=(
        *gains(
            ("mean", "max", "min"),
            part="areas",
            where=severe,
            when="at beta >= 100",
            published=dict.fromkeys(("mean", "max", "min"), "on all"),
        ),
        *gains(("std",), part="areas", where=severe, when="at beta >= 100"),
        *gains(
            ("mean", "min", "std"),
            part="areas",
            beside=SHIFTED,
            where=severely_shifted,
            when="at beta >= 100",
        ),
        *gains(
            ("mean",),
            part="areas",
            where=lambda m: m[m["beta"] < 100],
            when="at beta = 10 and 50",
            published={"mean": "tied at 10"},
        ),
    ),
    caveats=(
        ONE_SUBSAMPLE,
        "Household at beta = 10 has 530 of 2,500 majority samples: its minority is too small.",
    ),
)
KAGGLE_BANDS = Experiment(
    name="fig-kaggle-bands",
    question="Is LCT's ROC curve better at beta = 100 and 200 on Kaggle's photographs?",
    published=True,
    sweeps=partial(_band_sweeps, "fig-kaggle-bands", (100, 200)),
    collect=collect_bands,
    draw=partial(draw_bands, panels=4, columns=2, misses=True),
    claims=(
        *gains(
            ("mean", "max"),
            part="areas",
            tie=0.0005,
            published={"mean": "better or tied", "max": "better or tied"},
        ),
        *gains(("min", "std"), part="areas"),
        *gains(("mean", "min"), part="areas", beside=SHIFTED, where=shifted),
    ),
    caveats=(NO_MELANOMA, CHOSEN, ONE_SUBSAMPLE, "A loss below 0.0005 counts as a tie."),
)

BOX = "fig-melanoma-box"
# Melanoma has 12 benign images to a malignant one as it is, by the paper's count.
BOX_BETAS: dict[str, tuple[float | None, ...]] = {
    MELANOMA: (None, 100, 200),
    DOGS_CATS: (10, 100, 200),
}


def _box_sweeps(profile: Profile) -> list[Spec]:
    task = MELANOMA if profile.melanoma else DOGS_CATS
    return [profile.spec(BOX, [task], both(), betas=BOX_BETAS[task])]


def severest_less_mildest(data: Data, statistic: str) -> Measured:
    """Return what a statistic of VS's AUC changes from the mildest to the severest imbalance."""
    vs = data[""][data[""]["method"] == VS]
    cells = by_cell(vs.assign(beta=vs["beta"].fillna(1))).sort_values("beta")
    return Measured(float(cells[statistic].iloc[-1] - cells[statistic].iloc[0]))


def _draw_boxes(data: Data, **sheet: Any) -> Any:
    models = data[""].assign(
        place=data[""]["beta"].map(lambda b: "as it is" if np.isnan(b) else f"beta = {b:g}")
    )
    return boxes(models, x="place", hue="method", **sheet)


MELANOMA_BOX = Experiment(
    name=BOX,
    question="Does AUC fall and spread as a class gets rarer, and does LCT mend both?",
    published=True,
    sweeps=_box_sweeps,
    draw=_draw_boxes,
    claims=(
        Claim(
            "VS's mean AUC falls as beta grows",
            partial(severest_less_mildest, statistic="mean"),
            "yes",
            better=-1,
        ),
        Claim(
            "VS's AUC spreads as beta grows", partial(severest_less_mildest, statistic="std"), "yes"
        ),
        *gains(
            ("mean", "std"),
            where=severe,
            when="at beta >= 100",
            published={"mean": "yes", "std": "yes"},
        ),
        *gains(("mean", "std"), beside=SHIFTED, where=severely_shifted, when="at beta >= 100"),
    ),
    caveats=(NO_MELANOMA, CHOSEN, ONE_SUBSAMPLE),
)

GROWTH = "fig-beta"
TASKS = ((CAT_DOG,), ("fashion-mnist:0/6", "fashion-mnist:2/4"))
BETAS = (5, 10, 20, 50, 100, 200, 500)


def _growth_sweeps(profile: Profile) -> list[Spec]:
    return [
        profile.spec(
            f"{GROWTH}-{tasks[0].partition(':')[0]}",
            list(tasks),
            both(),
            betas=BETAS,
            seeds=(0, 1, 2),
        )
        for tasks in TASKS
    ]


def slope(data: Data, statistic: str) -> Measured:
    """Return by how much LCT's gain grows as beta grows tenfold, a line through the averages.

    Averages of neighbouring beta may cross by chance: the trend is told by all of them.
    """
    means = differences(data[""], VS, LCT).groupby("beta")[statistic].mean()
    if len(means) < 2:
        return Measured(np.nan)
    return Measured(float(np.polyfit(np.log10(means.index.to_numpy(float)), means, 1)[0]))


def over_seeds(models: pd.DataFrame) -> pd.DataFrame:
    """Return LCT less VS by task and beta: average, lowest and highest of the seeds."""
    steps = differences(models, VS, LCT)
    rows = []
    for name, panel in (("mean", "mean AUC"), ("min", "min AUC"), ("std", "std (lower is better)")):
        ends = steps.groupby(["task", "beta"], sort=False)[name].agg(["mean", "min", "max"])
        rows.append(ends.reset_index().assign(panel=panel))
    return pd.concat(rows)


def _draw_growth(data: Data, **sheet: Any) -> Any:
    rows = over_seeds(data[""])
    return lines(
        rows.assign(task=rows["task"].map(title_of)),
        x="beta",
        y="mean",
        low="min",
        high="max",
        hue="task",
        panel="panel",
        log=True,
        zero=True,
        ylabel=f"{LCT} less {VS}",
        **sheet,
    )


def _only(beta: int) -> Any:
    return lambda models: models[models["beta"] == beta]


BETA = Experiment(
    name=GROWTH,
    question="Does LCT gain more as the imbalance grows from 5 to 500?",
    sweeps=_growth_sweeps,
    draw=_draw_growth,
    claims=(
        Claim(
            "LCT's gain in mean AUC grows with beta (change for each factor of 10)",
            partial(slope, statistic="mean"),
        ),
        Claim(
            "LCT's gain in min AUC grows with beta (change for each factor of 10)",
            partial(slope, statistic="min"),
        ),
        *gains(("mean", "min", "std"), where=_only(100), when="at beta = 100", unit="cells"),
        *gains(("mean", "min", "std"), where=_only(500), when="at beta = 500", unit="cells"),
        *gains(
            ("mean",),
            beside=SHIFTED,
            where=lambda models: shifted(_only(500)(models)),
            when="at beta = 500",
            unit="cells",
        ),
    ),
    caveats=(
        "Cells are three tasks with three subsamples each; bars reach from the lowest seed to the "
        "highest.",
        "Recipes were chosen on the two Fashion-MNIST pairs, at beta = 100.",
    ),
)
