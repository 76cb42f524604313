"""What needs no training: the losses' landscapes and densities, and the counts of samples."""

from collections.abc import Mapping, Sequence
from functools import partial
from math import log
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import expit

from curvewise.base.errors import InputError
from curvewise.data.imbalance import subsample_to_beta
from curvewise.data.registry import load_task, source_missing
from curvewise.figures.frames import COLOR_LABEL, draw_landscape, landscapes, lines
from curvewise.figures.sheets import new_axes
from curvewise.losses.family import LinearDensity
from curvewise.losses.landscape import break_even, loss_landscape
from curvewise.paper.experiment import Claim, Data, Experiment, Reading
from curvewise.paper.measures import mostly, over_cells, within
from curvewise.paper.profiles import both, source_of

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
    points: dict[str, Any] = {}
    rows = []
    for name, values in varied.items():
        for value in values:
            setting: dict[str, Any] = PLAIN | {name: value}
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
        wanted: Any = rows.eval(expected)
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
        "omega shifts the line and does not turn it (largest change of slope)": off(
            "omega", "slope", "1.0", "shifts it"
        ),
        **TAU_SHIFTS,
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

COUNTED = "table-samples"
SEED = 0
RULE = "floor(majority / beta), complete data"
COUNTS = ["majority", "minority"]
PRINTED = [f"{name} (published)" for name in COUNTS]


class Line(NamedTuple):
    """A line of the paper's table.

    `minority` has the training samples of class 1 by beta; `whole` is how many of them there are.
    """

    title: str
    majority: int
    minority: dict[int, int]
    test: tuple[int, int]
    whole: int


PUBLISHED = {
    "cifar10:cat/dog": Line("CIFAR-10 pair", 5000, {10: 500, 100: 50, 200: 25}, (1000, 1000), 5000),
    "cifar100:household": Line("Household", 2500, {10: 250, 100: 25, 200: 13}, (500, 500), 2500),
    "dogs-vs-cats": Line(
        "Dogs vs. Cats", 11500, {10: 1500, 100: 150, 200: 75}, (1000, 1000), 11500
    ),
    # Its own imbalance, which the paper calls 12, stands in the column of 10.
    "melanoma": Line("Melanoma", 41051, {12: 4071, 100: 410, 200: 205}, (12300, 1035), 4071),
}


def _collect_samples(reading: Reading) -> Data:
    rows, sources = [], []
    for name, line in PUBLISHED.items():
        counts, state, notes = _counted(name, line, reading)
        sources.append({"task": name, "state": state, "notes": "; ".join(notes) or None})
        for beta in (*line.minority, None):
            part = {"task": name, "part": "test" if beta is None else "train", "beta": beta}
            rows.append(part | dict(zip(COUNTS, counts.get(beta, (None, None)), strict=True)))
    return {"": pd.DataFrame(rows), "sources": pd.DataFrame(sources)}


def _counted(name: str, line: Line, reading: Reading) -> tuple[dict[Any, Any], str, list[str]]:
    """Return the counts by beta (None: for testing), whether they can be had, and deviations."""
    # The settings of the sweeps, so that images which those have decoded are not read again.
    settings = reading.profile.spec(COUNTED, [name], both()).data.model_dump(exclude_none=True)
    asked = reading.problems
    places: Any = {"data_dir": asked.data_dir, "cache_dir": asked.cache_dir, **settings}
    try:
        task = load_task(name, seed=SEED, progress=asked.progress, **places)
    except InputError:  # the other lines can still be counted; the message has folders' names
        missing = source_missing(source_of(name), asked.data_dir)
        why = "not there" if missing else f"not usable: `curvewise data check {name}` says why"
        return {}, why, []
    labels = {beta: _thinned(task.y_train, beta) for beta in line.minority} | {None: task.y_test}
    counts = {beta: np.bincount(y, minlength=2).tolist() for beta, y in labels.items()}
    return counts, "counted", task.details.get("deviations", [])


def _thinned(y: NDArray[np.int64], beta: float) -> NDArray[np.int64]:
    return y[subsample_to_beta(y, beta, seed=SEED, minority=1)]


def sample_table(data: Data) -> pd.DataFrame:
    """Return what was counted beside what is published and what the rule gives."""
    rows = []
    for task, _, beta, *counts in data[""].itertuples(index=False):
        line, part, rule = PUBLISHED[task], "test", None
        published = line.test
        if not np.isnan(beta):
            part, published = f"train, beta = {beta:g}", (line.majority, line.minority[int(beta)])
            rule = int(_thinned(np.repeat([0, 1], [line.majority, line.whole]), beta).sum())
        known = not np.isnan(counts[0])
        ours = tuple(map(int, counts)) if known else (None, None)
        row: dict[str, Any] = {"data": line.title, "part": part}
        row |= dict(zip([*COUNTS, *PRINTED], (*ours, *published), strict=True))
        agrees = "yes" if ours == published else "no" if known else None
        rows.append({**row, RULE: rule, "agrees": agrees})
    return pd.DataFrame(rows)


def _same(a: str, b: str, data: Data) -> float:
    """Return of the lines that have a the share in which it is b, a column or a word."""
    table = sample_table(data).dropna(subset=a)
    return float((table[a] == table.get(b, b)).mean())


SAMPLES = Experiment(
    name=COUNTED,
    question="Are the training and test sets those of the paper?",
    collect=_collect_samples,
    claims={
        "The counts are those of the published table (share of its lines)": Claim(
            partial(_same, "agrees", "yes"), mostly, "the table"
        ),
        "The published minority is floor(majority / beta) (share of the lines)": Claim(
            partial(_same, RULE, PRINTED[1]), mostly
        ),
    },
    table=sample_table,
    caveats=(
        "CIFAR-100 and Dogs vs. Cats are parts of the published sets here; Melanoma is not there.",
        "Dogs vs. Cats has in print what 15,000 of the majority would give, not 11,500.",
        "Melanoma's 4,071 are all there are: an imbalance of 10.08, not 12.",
    ),
)
