"""The losses themselves: landscapes, break-even lines, densities of tau. Nothing is trained."""

from collections.abc import Mapping, Sequence
from functools import partial
from math import log
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy.special import expit

from curvewise.figures.frames import COLOR_LABEL, draw_landscape, landscapes, lines
from curvewise.figures.sheets import new_axes
from curvewise.losses.family import LinearDensity
from curvewise.losses.landscape import break_even, loss_landscape
from curvewise.paper.experiment import Claim, Data, Experiment, Reading
from curvewise.paper.measures import over_cells, within

if TYPE_CHECKING:
    from matplotlib.axes import Axes

REACH = 5.0  # of logits, where the line needs no more
BETA = 10
PLAIN = {"omega": 0.5, "gamma": 0.0, "tau": 0.0}  # cross-entropy
# The paper's text does not say which values its panels have. These are the values of its sweeps;
# gamma = 0.6 is of the 512 models' grid, for the other one ends at 0.4.
TAU = {"tau": (0.0, 1.0, 2.0, 3.0)}
ALL = {"omega": (0.5, 0.7, 0.9, 0.99), "gamma": (0.0, 0.2, 0.4, 0.6), **TAU}
EXACT = 1e-5  # relative, or the distance of a point from a line; the files have seven digits
NOTHING_TRAINED = "Nothing is trained, so this is the same under every profile."


def plot_landscape(
    beta: float,
    *,
    omega: float = 0.5,
    gamma: float = 0.0,
    tau: float = 0.0,
    reach: float | None = None,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw by how much label 1 costs more than label 0 for all logits up to `reach`.

    Red where a sample costs more if its label is 1, the minority, blue where it costs more if it
    is 0, white where both cost the same; the white line is that of `break_even`. Without `reach`
    logits go to 5, or as far as it takes to see the line; with one that is too small, the figure
    says where the line is.

    >>> axes = plot_landscape(10, tau=1.0)
    >>> axes.get_xlabel(), axes.get_title()
    ('$z_0$', 'beta = 10, omega = 0.5, gamma = 0, tau = 1')
    """
    line = break_even(beta, omega, gamma, tau)
    if reach is None:
        where_z1_is_0 = abs(line.intercept / line.slope)  # the slope is at least 1
        reach = max(REACH, float(np.ceil(1.2 * where_z1_is_0)))
    # Steep landscapes need more points than tables do for smooth contours.
    found = loss_landscape(beta, omega=omega, gamma=gamma, tau=tau, reach=reach, points=121)
    axes = ax if ax is not None else new_axes(6.2)
    at, limit = (line.slope, line.intercept), float(np.abs(found.difference).max())
    drawn = draw_landscape(axes, found.z, found.difference, at, limit)
    axes.set_title(f"beta = {beta:g}, omega = {omega:g}, gamma = {gamma:g}, tau = {tau:g}")
    axes.figure.colorbar(drawn, ax=axes, label=COLOR_LABEL)
    if abs(line.intercept) >= reach * (1 + line.slope):  # beyond the corner
        times = "" if line.slope == 1 else f"{line.slope:.3g} "
        sign = "-" if line.intercept < 0 else "+"
        axes.text(
            0.5, 0.5, "Both labels cost the same outside of this square:\n"
            f"$z_1 = {times}z_0 {sign} {abs(line.intercept):.3g}$", transform=axes.transAxes,
            ha="center", va="center", fontsize="small", bbox={"facecolor": "white", "alpha": 0.85},
        )  # fmt: skip
    return axes


def _collect_landscapes(varied: Mapping[str, Sequence[float]], reading: Reading) -> Data:
    points, rows = {}, []
    for name, values in varied.items():
        for value in values:
            setting = PLAIN | {name: value}
            panel, found = f"{name} = {value:g}", loss_landscape(BETA, **setting)
            z1, z0 = (along.ravel() for along in np.meshgrid(found.z, found.z, indexing="ij"))
            points |= {"z0": z0, "z1": z1, panel: found.difference.ravel()}
            about = {"panel": panel, "varied": name, "beta": BETA}
            rows.append({**about, **setting, **vars(found.line)})
    return {"": pd.DataFrame(points), "lines": pd.DataFrame(rows)}


def _draw_landscapes(data: Data, *, panels: Sequence[str], **sheet: Any) -> Any:
    sheet["caption"] = f"beta = {BETA}; others as in cross-entropy; white: equal cost"
    return landscapes(data[""], data["lines"], panels, **sheet)


def off(name: str, column: str, expected: str, published: str = "") -> Claim:
    """Return the largest relative error of a column of the lines where one setting is varied."""

    def measure(data: Data) -> float:
        rows = data["lines"][data["lines"]["varied"] == name]
        wanted = rows.eval(expected)
        return float((np.abs(rows[column] - wanted) / np.maximum(np.abs(wanted), 1)).max())

    return Claim(measure, within(0, EXACT), published)


def sides(data: Data) -> float:
    """Return the share of points off the line at which the label on its side costs more."""
    right = []
    for line in data["lines"].to_dict("records"):
        below = line["slope"] * data[""]["z0"] + line["intercept"] - data[""]["z1"]
        apart = below.abs() > EXACT
        right.append(np.sign(below[apart]) == np.sign(data[""].loc[apart, line["panel"]]))
    return float(np.concatenate(right).mean())


TAU_SHIFTS = {
    "tau shifts the break-even line by tau log(beta) (largest relative error)": off(
        "tau", "intercept", "tau * log(beta)", "tau log(beta)"
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
    collect=partial(_collect_landscapes, TAU),
    draw=partial(_draw_landscapes, panels=["tau = 0", "tau = 1", "tau = 2"]),
    claims={
        **TAU_SHIFTS,
        "At tau = 2 the softmax score on the line is 0.99": Claim(
            lambda data: float(expit(data["lines"].set_index("panel")["intercept"]["tau = 2"])),
            within(0.985, 0.995),
            "0.99",
        ),
        **PARTS,
    },
    caveats=(NOTHING_TRAINED,),
)
CONTOURS = Experiment(
    name="fig-contours",
    question="What do omega, gamma and tau do to the loss over the logits?",
    finding="omega and tau shift the line of equal cost, gamma turns it about the origin",
    collect=partial(_collect_landscapes, ALL),
    draw=partial(
        _draw_landscapes,
        panels=["omega = 0.9", "gamma = 0.4", "tau = 1", "omega = 0.99", "gamma = 0.6", "tau = 2"],
    ),
    claims={
        **TAU_SHIFTS,
        "omega shifts the line and does not turn it (largest change of slope)": off(
            "omega", "slope", "1.0", "shifts it"
        ),
        "gamma turns the line to slope beta^gamma (largest relative error)": off(
            "gamma", "slope", "beta**gamma", "turns it"
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


def _collect_densities(reading: Reading) -> Data:
    points, summary = [], []
    for height in HEIGHTS:
        density, tau = LinearDensity(LOW, HIGH, height), np.linspace(LOW, HIGH, 61)
        curves = {"pdf": density.pdf(tau), "cdf": density.cdf(tau)}
        points.append(pd.DataFrame({"height": height, "tau": tau, **curves}))
        # A mixture of two triangles, whose means are at 1/3 and at 2/3 of the width.
        rising, median = height * (HIGH - LOW) / 2, float(density.ppf(0.5))
        row = {"height": height, "height at low": density.height_at_low}
        row |= {"mean": LOW + (HIGH - LOW) * (1 + rising) / 3, "median": median}
        summary.append(row | {"above the middle": 1 - float(density.cdf((LOW + HIGH) / 2))})
    return {"": pd.concat(points), "summary": pd.DataFrame(summary)}


def _draw_densities(data: Data, **sheet: Any) -> Any:
    named = {"pdf": "density", "cdf": "cumulative probability"}
    rows = data[""].rename(columns=named).melt(["height", "tau"], list(named.values()), "panel")
    rows["height"] = rows["height"].map(f"height at {HIGH:g}: {{:g}}".format)
    return lines(rows, x="tau", y="value", hue="height", panel="panel", ylabel="", **sheet)


LINEAR_DENSITY = Experiment(
    name="fig-linear-density",
    question="From what densities is tau drawn?",
    finding="Height 0 at 3 is a triangle, 0.33 nearly uniform, 0.66 nearly all at the top",
    collect=_collect_densities,
    draw=_draw_densities,
    claims={
        "With height 0 at 3 it is a triangle: its mean is 1": Claim(
            lambda data: data["summary"].set_index("height")["mean"][0], within(1, 1), "a triangle"
        ),
        "With height 0.33 it is nearly uniform: its mean is nearly 1.5": Claim(
            lambda data: data["summary"].set_index("height")["mean"][0.33],
            within(1.49, 1.51),
            "uniform",
        ),
        "With height 0.66 nearly all is at the top: above 1.5 lies most": Claim(
            lambda data: data["summary"].set_index("height")["above the middle"][0.66],
            within(0.5, 1),
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
        p1, moved = (float(expit(break_even(BETA, omega, tau=t).intercept)) for t in (0.0, 2.0))
        crossings.append({"omega": omega, "p1": p1, "loss": -omega * log(p1), "p1 with tau": moved})
    return {"": pd.concat(points), "crossings": pd.DataFrame(crossings)}


def _draw_softmax(data: Data, **sheet: Any) -> Any:
    named = {"loss 0": "label 0", "loss 1": "label 1"}
    rows = data[""].rename(columns=named).melt(["omega", "p1"], list(named.values()), "label")
    marked = data["crossings"].rename(columns={"loss": "value"})
    marked["text"] = marked["p1"].map("{:.4f}".format)
    drawn, points = (
        one.assign(omega=one["omega"].map("omega = {:g}".format))
        for one in (rows[rows["value"] <= HIGHEST], marked)
    )
    looks: Any = {"hue": "label", "panel": "omega", "points": points, "columns": 2}
    looks |= {"xlabel": "softmax score p1", "ylabel": "weighted cross-entropy"}
    return lines(drawn, x="p1", y="value", **looks, **sheet)


OMEGA_SOFTMAX = Experiment(
    name="fig-omega-softmax",
    question="At which softmax score do both labels cost the same under class weights?",
    finding="Both labels cost the same at a softmax score that rises with omega",
    collect=_collect_softmax,
    draw=_draw_softmax,
    claims={
        "The crossing moves up as omega grows": Claim(
            lambda data: over_cells(data["crossings"]["p1"].diff(), "mean", "steps of omega"),
            published="rises with omega",
        ),
        "tau does not move the crossing of the plain softmax (score at tau = 2)": Claim(
            lambda data: data["crossings"]["p1 with tau"][0], within(0.45, 0.55), "unmoved: 0.5"
        ),
    },
    table=lambda data: data["crossings"],
    caveats=(NOTHING_TRAINED, "Of the softmax of shifted logits tau does not move the crossing."),
)
