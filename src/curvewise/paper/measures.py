"""What claims measure: LCT less VS, and any other method less another, over pairs or panels."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from math import sqrt
from typing import Any

import pandas as pd

from curvewise.paper.experiment import FAILS, HOLDS, PARTLY, Claim, Data, Measured, by_test
from curvewise.stats.areas import BETTER, CELL, DECIMALS, differences
from curvewise.stats.comparisons import classes_of, dyadic_test

VS, LCT = "VS", "VS + LCT"
# Of VS's four values of tau, 0 does nothing for the rare class, and LCT never stays there.
SHIFTED, AT_TWO = "VS at tau > 0", "VS at tau = 2"
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


def lead(models: pd.DataFrame, a: str = VS, b: str = LCT) -> pd.DataFrame:
    """Return the `differences` of a and b, where a may be SHIFTED or AT_TWO, controls of ours."""
    models = models.assign(**{name: 0 for name in CELL if name not in models})
    if a in (SHIFTED, AT_TWO):
        tau = pd.to_numeric(models["tau"], errors="coerce")
        rival = {SHIFTED: tau != 0, AT_TWO: tau == 2}[a] & (models["method"] == VS)
        models["method"] = models["method"].mask(rival, a)
    return differences(models, a, b)


def gain(
    statistic: str,
    data: Data,
    *,
    a: str = VS,
    b: str = LCT,
    where: str = "",
    parts: Sequence[str] = ("",),
    tie: float = 0.0,
    unit: str = "panels",
) -> Measured:
    """Return what a statistic of AUC over the models of b has more than over those of a.

    Units are cells (task, beta and seed, as far as data have them); with the unit "pairs" they are
    pairs of classes, seeds averaged. A loss of less than `tie` counts as none. The models are those
    of some `parts` of the data for which a query holds.
    """
    models = pd.concat([data[part] for part in parts])
    steps = lead(models.query(where) if where else models, a, b).dropna(subset=statistic)
    if unit != "pairs":
        return over_cells(steps[statistic], statistic, unit, tie)
    return over_pairs(steps.groupby("task", sort=False)[statistic].mean(), statistic)


def over_pairs(steps: "pd.Series[float]", statistic: str) -> Measured:
    """Return the mean of differences by task, tested as shared classes allow (`dyadic_test`)."""
    known = steps.dropna().round(DECIMALS)
    test = dyadic_test(known.to_list(), [classes_of(str(task)) for task in known.index])
    return replace(over_cells(known, statistic, "pairs"), **test._asdict())


def gains(
    *statistics: str,
    published: str | dict[str, str] = "",
    who: str = "LCT",
    beside: str = VS,
    when: str = "",
    family: str | None = None,
    **options: Any,
) -> dict[str, Claim]:
    """Return a claim for each statistic: that of LCT, or another method, is the better one.

    >>> list(gains("mean", "std", when="at beta >= 100"))[1]
    'LCT has the lower std of AUC than VS at beta >= 100'
    """
    claims, b = {}, LCT if who == "LCT" else who
    together = f"{beside} {when}" if family is None else family
    for name in statistics:
        word = "lower std of AUC" if name == "std" else f"higher {name} AUC"
        measure = partial(gain, name, a=beside, b=b, **options)
        told = published if isinstance(published, str) else published[name]
        text = f"{who} has the {word} than {beside} {when}".rstrip()
        claims[text] = Claim(measure, by_test, told, BETTER[name], together)
    return claims


def over_cells(steps: "pd.Series[float]", statistic: str, unit: str, tie: float = 0.0) -> Measured:
    """Return the mean of differences of a statistic over cells, and on how many it is better."""
    known = steps.dropna()
    better = int((BETTER[statistic] * known > -tie).sum())
    return Measured(float(known.mean()), better=better, units=len(known), unit=unit)


def welch(a: "pd.Series[float]", b: "pd.Series[float]") -> Measured:
    """Return the mean of a less that of b, of models trained apart, with Welch's interval."""
    error = sqrt(a.var(ddof=1) / len(a) + b.var(ddof=1) / len(b))
    step = float(a.mean() - b.mean())
    return Measured(step, step - 1.96 * error, step + 1.96 * error)


def within(low: float, high: float) -> Callable[[Measured, int], str]:
    """Return the rule that a value must lie in a range.

    >>> within(0, 0.5)(Measured(0.11), 1), within(0, 0.5)(Measured(0.83), 1)
    ('holds', 'does not hold')
    """
    return lambda found, sign: HOLDS if low <= found.value <= high else FAILS


def mostly(found: Measured, sign: int) -> str:
    """Judge a share: it must be 1, and holds partly above one half."""
    return HOLDS if found.value == 1 else PARTLY if found.value > 0.5 else FAILS


def beyond_error(found: Measured, sign: int) -> str:
    """Judge a difference by its interval: it holds partly if it leans right but may be 0."""
    if sign * found.value <= 0:
        return FAILS
    return PARTLY if found.low < 0 < found.high else HOLDS
