"""512 VS models that differ in omega, gamma and tau alone: how far apart their curves lie."""

import numpy as np

from curvewise.figures.hyper import plot_distribution
from curvewise.paper.areas import area_rows
from curvewise.paper.experiment import Data, Experiment, Outcome, Reading, Rows
from curvewise.paper.profiles import Profile
from curvewise.roc.curve import Floats, roc_curve
from curvewise.stats.bands import PercentileBand, percentile_band
from curvewise.sweep.spec import Spec

NAME = "fig-hyper-distribution"
TASK, BETA = "cifar10:cat/dog", 100
GRID: dict[str, list[float]] = {
    "omega": [0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 0.999],
    "gamma": [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7],
    "tau": [0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5],
}
PUBLISHED = {"minimum": 0.58, "maximum": 0.74, "standard deviation": 0.03, "models": 512}
LEVEL = 0.95
EDGES = ("fpr", "mean", "minimum", "maximum", "lower", "upper")


def hyper_sweep(name: str, profile: Profile) -> Spec:
    """Return the paper's 512 settings under a name; whatever it is, the runs are the same."""
    return profile.spec(name, [TASK], [{"method": "vs", **GRID}], betas=[BETA])


def _sweeps(profile: Profile) -> list[Spec]:
    return [hyper_sweep(NAME, profile)]


def _collect(reading: Reading) -> Data:
    cells = reading.cells(NAME)
    curves = [
        roc_curve(cell.y, score)
        for cell in cells
        for scores in cell.scores.values()
        for score in np.asarray(scores)
    ]
    return {"areas": area_rows(cells), "band": band_rows(percentile_band(curves, level=LEVEL))}


def band_rows(band: PercentileBand) -> Rows:
    """Return a band as rows, one a false positive rate."""
    columns = {name: getattr(band, name) for name in EDGES}
    return [{name: float(edge[k]) for name, edge in columns.items()} for k in range(len(band.fpr))]


def band_from(rows: Rows) -> PercentileBand:
    """Return the band of `band_rows`."""
    edges = {name: np.array([row[name] for row in rows], dtype=np.float64) for name in EDGES}
    return PercentileBand(**edges, level=LEVEL)


def _present(data: Data, profile: Profile) -> Outcome:
    there = [row["auc"] for row in data["areas"] if row["auc"] is not None]
    areas: Floats = np.array(there, dtype=np.float64)
    diverged = len(data["areas"]) - len(areas)
    title = f"{TASK}, beta = {BETA} ({profile.caption(TASK)})"
    found = distribution(areas)
    return Outcome(
        verdict=verdict(found) + (f" {diverged} models diverged." if diverged else ""),
        tables={
            "AUC over the settings of VS": [
                {"AUC": name, "ours": value, "published": PUBLISHED.get(name)}
                for name, value in found.items()
            ]
        },
        figures={NAME: plot_distribution(band_from(data["band"]), areas, title=title)},
    )


def distribution(areas: Floats) -> dict[str, float]:
    """Return what a box plot shows of areas, and their mean and standard deviation.

    >>> distribution(np.array([0.6, 0.7, 0.8]))["median"]
    0.7
    """
    low, first, median, third, high = (float(q) for q in np.percentile(areas, [0, 25, 50, 75, 100]))
    return {
        "models": len(areas),
        "minimum": low,
        "lower quartile": first,
        "median": median,
        "upper quartile": third,
        "maximum": high,
        "mean": float(areas.mean()),
        "standard deviation": float(areas.std(ddof=1)) if len(areas) > 1 else float("nan"),
    }


def verdict(found: dict[str, float]) -> str:
    """Say whether the models lie apart as widely as published, or at least half as widely."""
    std, published = found["standard deviation"], PUBLISHED["standard deviation"]
    holds = "holds" if std >= published / 2 else "does not hold"
    return (
        f"The paper's claim that VS models vary widely with their settings {holds} here: AUC runs "
        f"from {found['minimum']:.3f} to {found['maximum']:.3f} (published {PUBLISHED['minimum']} "
        f"to {PUBLISHED['maximum']}) with a standard deviation of {std:.4f} (published "
        f"{published}; half of that counts as holding)."
    )


HYPER_DISTRIBUTION = Experiment(
    name=NAME,
    shows="512 VS models: ROC mean, minimum, maximum, 95 % band, and box plot of AUC",
    published="AUC from 0.58 to 0.74 with a standard deviation of 0.03",
    sweeps=_sweeps,
    collect=_collect,
    present=_present,
)
