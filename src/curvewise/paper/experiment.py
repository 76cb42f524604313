"""What a figure or table of the paper is, as data: a question, its models, claims, a picture.

Data are collected from the store once and written as CSV; everything that is printed, drawn or
claimed is made from those files alone, so that anybody can do it again without the models.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isnan, nan
from typing import Any

import pandas as pd

from curvewise.paper.profiles import Profile, source_of
from curvewise.stats.comparisons import holm
from curvewise.sweep.frame import models
from curvewise.sweep.spec import Spec
from curvewise.sweep.store import Store
from curvewise.sweep.work import Problems

Data = dict[str, pd.DataFrame]  # by the part that the name of its CSV file ends with, or ""
SETTINGS = ["omega", "gamma", "tau"]
AREAS = ["task", "beta", "seed", "method", *SETTINGS, "auc"]
HOLDS, PARTLY, FAILS, UNTESTED = "holds", "partly", "does not hold", "not tested here"
SURE = 0.05
NUMBERS = ("value", "low", "high", "p", "better", "units")  # of what was measured, in a result


@dataclass(frozen=True)
class Reading:
    """What an experiment collects its data from: the sweeps' runs in a store, and the sources.

    `store` is None for experiments without sweeps.
    """

    profile: Profile
    store: Store
    problems: Problems
    sweeps: Sequence[str]

    def models(self, *sweeps: str, scores: bool = False) -> pd.DataFrame:
        """Return the models of sweeps, by default all, one row each; `method` is what people see.

        `auc` is nan where a model diverged. With `scores` there are `y` (n,) and `score` (n,), too,
        of models that did not. Settings of the recipe have their plain names.
        """
        rows = pd.concat([models(self.store, one, scores=scores) for one in sweeps or self.sweeps])
        plain = {name: str(name).removeprefix("recipe.") for name in rows}
        rows = rows.rename(columns={name: new for name, new in plain.items() if new not in rows})
        return rows.reindex(columns=[*rows, *(name for name in SETTINGS if name not in rows)])


@dataclass(frozen=True)
class Measured:
    """What a claim's measure gave.

    `value` is a difference over `units` (pairs of classes, panels, ...), of which `better` bear the
    claim out (`word` says how); or, without units, just a number. `low` and `high` are its interval
    at 95 %, `p` is that of no difference, nan where there is no test.
    """

    value: float
    low: float = nan
    high: float = nan
    p: float = nan
    better: int = 0
    units: int = 0
    unit: str = ""
    word: str = "better"


def by_test(found: Measured, sign: int) -> str:
    """Judge a difference: it holds if it is sure, partly if it leans that way, else not.

    Sure is p < 0.05, or where there is no test, better on every unit. To lean is to be better on
    average and on more than half of the units.

    >>> by_test(Measured(0.1, p=0.01, better=40, units=45), 1)
    'holds'
    >>> by_test(Measured(0.1, better=2, units=3), 1), by_test(Measured(0.1), -1)
    ('partly', 'does not hold')
    """
    if not sign * found.value > 0 or (found.units and 2 * found.better <= found.units):
        return FAILS
    sure = found.better == found.units if isnan(found.p) else found.p < SURE
    return HOLDS if sure else PARTLY


@dataclass(frozen=True)
class Claim:
    """How a sentence that can be wrong is measured; the sentence is its key in `Experiment.claims`.

    Parameters
    ----------
    measure
        From an experiment's data to what was measured; None says that it was not tested.
    holds
        From what was measured, and `better`, to the verdict.
    published
        What the paper says, as short as "45 of 45, +0.010"; empty for a claim of ours.
    better
        1 if higher bears the claim out, -1 if lower.
    family
        Claims of one family have their p corrected together, by Holm's steps.
    """

    measure: Callable[[Data], Measured | float | None]
    holds: Callable[[Measured, int], str] = by_test
    published: str = ""
    better: int = 1
    family: str = ""

    def result(self, text: str, found: Measured) -> dict[str, Any]:
        """Return the claim, what was found and the verdict, with the reason in a fixed form."""
        row = {"claim": text, "published": self.published}
        if isnan(found.value):
            return {**row, "value": nan, "here": "-", "verdict": UNTESTED}
        interval = not isnan(found.low)
        step = f"{'higher' if found.value > 0 else 'lower'} by {abs(found.value):.4f}"
        here = step if found.units or interval else f"{found.value:.3g}"
        here += f" [{found.low:+.4f}, {found.high:+.4f}]" if interval else ""
        if found.units:
            here += f", {found.word} on {found.better} of {found.units} {found.unit}"
        here += "" if isnan(found.p) else f", p = {found.p:.2g}"
        row |= {name: getattr(found, name) for name in NUMBERS}
        return {**row, "here": here, "verdict": self.holds(found, self.better)}


def results(claims: Mapping[str, Claim], data: Data) -> pd.DataFrame:
    """Return a row for each claim: what was published, what was found here, and the verdict."""
    values = {text: claim.measure(data) for text, claim in claims.items()}
    found = {
        text: value if isinstance(value, Measured) else Measured(nan if value is None else value)
        for text, value in values.items()
    }
    for family in {claim.family for claim in claims.values()}:
        known = [text for text in found if claims[text].family == family]
        corrected = holm(found[text].p for text in known)
        found |= {t: replace(found[t], p=p) for t, p in zip(known, corrected, strict=True)}
    return pd.DataFrame([claim.result(text, found[text]) for text, claim in claims.items()])


def sentence(result: "pd.Series[Any]") -> str:
    """Return a claim's result as one short sentence, always of the same form."""
    verdict, claim = result["verdict"].capitalize(), result["claim"]
    published = f"; published: {result['published']}" if result.get("published") else ""
    return f"{verdict}: {claim} ({result['here']}{published})."


@dataclass(frozen=True)
class Experiment:
    """One figure or table.

    Parameters
    ----------
    name
        As the command knows it: "fig-cifar-bands".
    question
        What it asks, in one sentence.
    claims
        The answers that are tested, by what they say, the most important first.
    draw
        From the data, with `title` and `caption`, to a figure, or none.
    sweeps
        The specs to be run before; their names must begin with the experiment's.
    collect
        From the finished sweeps to frames by CSV name.
    table
        From the data to the table that is shown; by default that of the claims.
    caveats
        What a reader must know, one line each.
    finding
        The title of the figure, where it cannot change; else it is the first claim's result.
    """

    name: str
    question: str
    claims: Mapping[str, Claim]
    draw: Callable[..., Any] | None = None
    sweeps: Callable[[Profile], Sequence[Spec]] = lambda profile: ()
    collect: Callable[[Reading], Data] = lambda reading: {"": reading.models()[AREAS]}
    table: Callable[[Data], pd.DataFrame] | None = None
    caveats: tuple[str, ...] = ()
    finding: str = ""

    def needs(self, profile: Profile) -> list[str]:
        """Return the sources that must be there, each once."""
        tasks = [task for spec in self.sweeps(profile) for task in spec.tasks]
        return list(dict.fromkeys(map(source_of, tasks)))
