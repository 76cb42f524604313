"""The losses themselves: landscapes, break-even lines, densities of tau. Nothing is trained."""

from collections.abc import Mapping, Sequence
from functools import partial
from math import log
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit

from curvewise.figures.frames import lines
from curvewise.figures.landscapes import landscapes
from curvewise.losses.family import LinearDensity
from curvewise.losses.landscape import BreakEven, Landscape, break_even, loss_landscape
from curvewise.paper.experiment import Claim, Data, Experiment, Measured, Reading, within
from curvewise.paper.measures import over_cells

BETA = 10
PLAIN = {"omega": 0.5, "gamma": 0.0, "tau": 0.0}  # cross-entropy
# The paper's text does not say which values its panels have. These are the values of its sweeps;
# gamma = 0.6 is of the 512 models' grid, for the other one ends at 0.4.
TAU = {"tau": (0.0, 1.0, 2.0, 3.0)}
ALL = {"omega": (0.5, 0.7, 0.9, 0.99), "gamma": (0.0, 0.2, 0.4, 0.6), **TAU}
EXACT = 1e-5  # relative, or the distance of a point from a line; the files have seven digits
NOTHING_TRAINED = "Nothing is trained, so this is the same under every profile."
Varied = Mapping[str, Sequence[float]]


def _collect_landscapes(varied: Varied, reading: Reading) -> Data:
    found: dict[str, Landscape] = {}
    rows = []
    for name, values in varied.items():
        for value in values:
            setting: dict[str, Any] = {**PLAIN, name: value}
            panel = f"{name} = {value:g}"
            found[panel] = loss_landscape(BETA, **setting)
            about = {"panel": panel, "varied": name, "beta": BETA, **setting}
            rows.append({**about, **vars(found[panel].line)})
    z = next(iter(found.values())).z
    z1, z0 = (values.ravel() for values in np.meshgrid(z, z, indexing="ij"))
    differences = {panel: one.difference.ravel() for panel, one in found.items()}
    return {"": pd.DataFrame({"z0": z0, "z1": z1, **differences}), "lines": pd.DataFrame(rows)}


def landscapes_from(data: Data) -> dict[str, Landscape]:
    """Return the landscapes by panel, from the rows of their points and lines."""
    z = np.unique(data[""]["z0"])
    return {
        str(line["panel"]): Landscape(
            z,
            data[""][line["panel"]].to_numpy(float).reshape(len(z), len(z)),
            BreakEven(line["alpha"], line["slope"], line["intercept"]),
        )
        for line in data["lines"].to_dict("records")
    }


def _draw_landscapes(data: Data, *, panels: Sequence[str], **sheet: Any) -> Any:
    words = {**sheet, "caption": f"beta = {BETA}; others as in cross-entropy; white: equal cost"}
    found = landscapes_from(data)
    return landscapes({name: found[name] for name in panels}, **words)


def off(name: str, column: str, expected: Any, published: str = "") -> Claim:
    """Return the largest relative error of a column of the lines where one setting is varied."""

    def measure(data: Data) -> float:
        rows = data["lines"][data["lines"]["varied"] == name]
        wanted = np.array([expected(row) for row in rows.itertuples()], float)
        errors = np.abs(rows[column] - wanted) / np.maximum(np.abs(wanted), 1)
        return float(errors.max())

    return Claim(measure, within(0, EXACT), published)


def sides(data: Data) -> float:
    """Return the share of points off the line at which the label on its side costs more."""
    right = []
    for one in landscapes_from(data).values():
        z0, z1 = np.meshgrid(one.z, one.z)
        below = one.line.z1(z0) - z1
        apart = np.abs(below) > EXACT
        right.append(np.sign(below[apart]) == np.sign(one.difference[apart]))
    return float(np.concatenate(right).mean())


def _score_at_two(data: Data) -> float:
    rows = data["lines"]
    return float(expit(rows.loc[rows["tau"] == 2, "intercept"].iloc[0]))


TAU_SHIFTS = {
    "tau shifts the break-even line by tau log(beta) (largest relative error)": off(
        "tau", "intercept", lambda row: row.tau * log(row.beta), "tau log(beta)"
    )
}
PARTS = {
    "The line parts where label 1 costs more from where label 0 does (share of points)": Claim(
        sides, within(1, 1)
    )
}
BREAK_EVEN_TAU = Experiment(
    name="fig-break-even-tau",
    question="What does tau do to the loss over the logits?",
    finding="tau shifts the line of equal cost by tau log(beta); its slope stays",
    published=True,
    collect=partial(_collect_landscapes, TAU),
    draw=partial(_draw_landscapes, panels=["tau = 0", "tau = 1", "tau = 2"]),
    claims={
        **TAU_SHIFTS,
        "At tau = 2 the softmax score on the line is 0.99": Claim(
            _score_at_two, within(0.985, 0.995), "0.99"
        ),
        **PARTS,
    },
    caveats=(NOTHING_TRAINED,),
)
CONTOURS = Experiment(
    name="fig-contours",
    question="What do omega, gamma and tau do to the loss over the logits?",
    finding="omega and tau shift the line of equal cost, gamma turns it about the origin",
    published=True,
    collect=partial(_collect_landscapes, ALL),
    draw=partial(
        _draw_landscapes,
        panels=["omega = 0.9", "gamma = 0.4", "tau = 1", "omega = 0.99", "gamma = 0.6", "tau = 2"],
    ),
    claims={
        **TAU_SHIFTS,
        "omega shifts the line and does not turn it (largest change of slope)": off(
            "omega", "slope", lambda row: 1.0, "shifts it"
        ),
        "gamma turns the line to slope beta^gamma (largest relative error)": off(
            "gamma", "slope", lambda row: row.beta**row.gamma, "turns it"
        ),
        **PARTS,
    },
    caveats=(
        NOTHING_TRAINED,
        "gamma favours class 1 only where z0 > 0, a condition that the paper's text lacks.",
        "The paper does not give the values of its panels: these are of its sweeps.",
    ),
)

LOW, HIGH = 0.0, 3.0
HEIGHTS = (0.0, 0.15, 0.33, 0.66)  # at HIGH: those of the paper's sweeps


def mean_of(density: LinearDensity) -> float:
    """Return the expectation; the density is a mixture of two triangles with theirs at 1/3, 2/3.

    >>> mean_of(LinearDensity(0.0, 3.0, 0.0))
    1.0
    """
    width = density.high - density.low
    share = density.height_at_high * width / 2  # of the triangle that rises
    return density.low + width * (1 + share) / 3


def _collect_densities(reading: Reading) -> Data:
    points, summary = [], []
    for height in HEIGHTS:
        density, tau = LinearDensity(LOW, HIGH, height), np.linspace(LOW, HIGH, 61)
        curves = {"pdf": density.pdf(tau), "cdf": density.cdf(tau)}
        points.append(pd.DataFrame({"height": height, "tau": tau, **curves}))
        moments = {"mean": mean_of(density), "median": float(density.ppf(0.5))}
        above = 1 - float(density.cdf((LOW + HIGH) / 2))
        ends = {"height": height, "height at low": density.height_at_low}
        summary.append({**ends, **moments, "above the middle": above})
    return {"": pd.concat(points), "summary": pd.DataFrame(summary)}


def _draw_densities(data: Data, **sheet: Any) -> Any:
    named = {"pdf": "density", "cdf": "cumulative probability"}
    rows = data[""].rename(columns=named).melt(["height", "tau"], list(named.values()), "panel")
    rows = rows.assign(height=rows["height"].map(f"height at {HIGH:g}: {{:g}}".format))
    return lines(rows, x="tau", y="value", hue="height", panel="panel", ylabel="", **sheet)


def _density(height: float, column: str) -> Any:
    def measure(data: Data) -> float:
        rows = data["summary"]
        return float(rows.loc[np.isclose(rows["height"], height), column].iloc[0])

    return measure


LINEAR_DENSITY = Experiment(
    name="fig-linear-density",
    question="From what densities is tau drawn?",
    finding="Height 0 at 3 is a triangle, 0.33 nearly uniform, 0.66 nearly all at the top",
    published=True,
    collect=_collect_densities,
    draw=_draw_densities,
    claims={
        "With height 0 at 3 it is a triangle: its mean is 1": Claim(
            _density(0.0, "mean"), within(1, 1), "a triangle"
        ),
        "With height 0.33 it is nearly uniform: its mean is nearly 1.5": Claim(
            _density(0.33, "mean"), within(1.49, 1.51), "uniform"
        ),
        "With height 0.66 nearly all is at the top: above 1.5 lies most": Claim(
            _density(0.66, "above the middle"), within(0.5, 1)
        ),
    },
    table=lambda data: data["summary"],
    caveats=(NOTHING_TRAINED, "No numbers are published for it."),
)

OMEGAS = (0.5, 0.7, 0.9, 0.99)  # those of the paper's sweeps; its text names none for the figure
SCORES = 1 / (1 + np.exp(-np.linspace(-9, 9, 181)))  # denser where losses are steep
HIGHEST = 2.5  # where the drawn losses end; they have no maximum


def _collect_softmax(reading: Reading) -> Data:
    points, crossings = [], []
    for omega in OMEGAS:
        costs = {"loss 0": -(1 - omega) * np.log1p(-SCORES), "loss 1": -omega * np.log(SCORES)}
        points.append(pd.DataFrame({"omega": omega, "p1": SCORES, **costs}))
        p1 = float(expit(break_even(BETA, omega).intercept))
        shifted = float(expit(break_even(BETA, omega, tau=2.0).intercept))
        crossings.append(
            {"omega": omega, "p1": p1, "loss": -omega * log(p1), "p1 with tau": shifted}
        )
    return {"": pd.concat(points), "crossings": pd.DataFrame(crossings)}


def _draw_softmax(data: Data, **sheet: Any) -> Any:
    named = {"loss 0": "label 0", "loss 1": "label 1"}
    rows = data[""].rename(columns=named).melt(["omega", "p1"], list(named.values()), "label")
    rows = rows[rows["value"] <= HIGHEST].assign(omega=rows["omega"].map("omega = {:g}".format))
    marked = data["crossings"].rename(columns={"loss": "value"})
    marked = marked.assign(
        text=marked["p1"].map("{:.4f}".format), omega=marked["omega"].map("omega = {:g}".format)
    )
    return lines(
        rows,
        x="p1",
        y="value",
        hue="label",
        panel="omega",
        points=marked,
        columns=2,
        xlabel="softmax score p1",
        ylabel="weighted cross-entropy",
        **sheet,
    )


def _crossing_steps(data: Data) -> Measured:
    return over_cells(data["crossings"]["p1"].diff(), "mean", "steps of omega")


OMEGA_SOFTMAX = Experiment(
    name="fig-omega-softmax",
    question="At which softmax score do both labels cost the same under class weights?",
    finding="Both labels cost the same at a softmax score that rises with omega",
    published=True,
    collect=_collect_softmax,
    draw=_draw_softmax,
    claims={
        "The crossing moves up as omega grows": Claim(
            _crossing_steps, published="rises with omega"
        ),
        "tau does not move the crossing of the plain softmax (score at tau = 2)": Claim(
            lambda data: data["crossings"]["p1 with tau"][0], within(0.45, 0.55), "unmoved: 0.5"
        ),
    },
    table=lambda data: data["crossings"],
    caveats=(NOTHING_TRAINED, "Of the softmax of shifted logits tau does not move the crossing."),
)
