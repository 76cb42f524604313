"""What claims measure: LCT less VS, and any other method less another, over pairs or panels."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import sqrt
from typing import Any

import pandas as pd

from curvewise.paper.experiment import FAILS, HOLDS, PARTLY, Claim, Data, Measured, by_test
from curvewise.stats.areas import BETTER, DECIMALS, differences
from curvewise.stats.comparisons import classes_of, dyadic_test

VS, LCT = "VS", "VS + LCT"
# Of VS's four values of tau, 0 does nothing for the rare class, and LCT never stays there.
SHIFTED = "VS at tau > 0"
TITLES = {  # of tasks, for readers
    "cifar10:cat/dog": "CIFAR-10 cat/dog",
    "cifar100:household": "CIFAR-100 household",
    "dogs-vs-cats": "Dogs vs Cats",
    "melanoma": "Melanoma",
    "fashion-mnist:0/6": "Fashion t-shirt/shirt",
    "fashion-mnist:2/4": "Fashion pullover/coat",
    "fashion-mnist:1/3": "Fashion trouser/dress",
    "fashion-mnist:3/6": "Fashion dress/shirt",
    "fashion-mnist:4/6": "Fashion coat/shirt",
    "fashion-mnist:5/7": "Fashion sandal/sneaker",
    "fashion-mnist:7/9": "Fashion sneaker/boot",
}
Where = Callable[[pd.DataFrame], pd.DataFrame]


def severe(models: pd.DataFrame) -> pd.DataFrame:
    """Return the models at beta of 100 or more, from where the paper sees LCT ahead."""
    return models[models["beta"] >= 100]


def shifted(models: pd.DataFrame) -> pd.DataFrame:
    """Return the models without those of VS at tau = 0: a control that the paper lacks."""
    return models[(models["method"] != VS) | (pd.to_numeric(models["tau"], errors="coerce") != 0)]


def at_two(models: pd.DataFrame) -> pd.DataFrame:
    """Return the models without those of VS at another tau than 2."""
    return models[(models["method"] != VS) | (pd.to_numeric(models["tau"], errors="coerce") == 2)]


def gain(
    statistic: str,
    *,
    a: str = VS,
    b: str = LCT,
    where: Where = lambda models: models,
    parts: Sequence[str] = ("",),
    tie: float = 0.0,
    unit: str = "panels",
) -> Callable[[Data], Measured | None]:
    """Return what a statistic of AUC over the models of b has more than over those of a.

    Units are cells (task, beta and seed); with the unit "pairs" they are pairs of classes, seeds
    averaged, and tested with what shared classes allow (Aronow et al. 2015). A loss of less than
    `tie` counts as none. The models are those of some `parts` of the data.
    """

    def measure(data: Data) -> Measured | None:
        models = where(pd.concat([data[part] for part in parts]))
        if not {a, b} <= set(models["method"]):
            return None
        steps = differences(models, a, b).dropna(subset=statistic)
        if unit != "pairs":
            return over_cells(steps[statistic], statistic, unit, tie)
        means = steps.groupby("task", sort=False)[statistic].mean().round(DECIMALS)
        test = dyadic_test(means.to_numpy(), [classes_of(str(task)) for task in means.index])
        return replace(over_cells(means, statistic, unit), **test._asdict())

    return measure


def gains(
    *statistics: str,
    published: dict[str, str] | None = None,
    beside: str = VS,
    when: str = "",
    **options: Any,
) -> dict[str, Claim]:
    """Return a claim for each statistic: that of LCT is the better one.

    >>> list(gains("mean", "std", when="at beta >= 100"))[1]
    'LCT has the lower std of AUC than VS at beta >= 100'
    """
    claims = {}
    for name in statistics:
        word = "lower std of AUC" if name == "std" else f"higher {name} AUC"
        told = (published or {}).get(name, "")
        claims[f"LCT has the {word} than {beside} {when}".rstrip()] = Claim(
            gain(name, **options), by_test, told, BETTER[name], f"{beside} {when}"
        )
    return claims


def over_cells(steps: "pd.Series[float]", statistic: str, unit: str, tie: float = 0.0) -> Measured:
    """Return the mean of differences of a statistic over cells, and on how many it is better."""
    known = steps.dropna()
    better = int((BETTER[statistic] * known > -tie).sum())
    return Measured(float(known.mean()), better=better, units=len(known), unit=unit)


def mean_difference(a: "pd.Series[float]", b: "pd.Series[float]") -> Measured:
    """Return the mean of a less that of b, of models trained apart, with Welch's interval."""
    error = sqrt(a.var(ddof=1) / len(a) + b.var(ddof=1) / len(b))
    step = float(a.mean() - b.mean())
    return Measured(step, step - 1.96 * error, step + 1.96 * error)


def beyond_error(found: Measured, sign: int) -> str:
    """Judge a difference by its interval: it holds partly if it leans right but may be 0."""
    if sign * found.value <= 0:
        return FAILS
    return PARTLY if found.low < 0 < found.high else HOLDS
