"""ROC curves, bands of them, an operating point, probabilities: drawn on given axes or new ones."""

from collections.abc import Callable, Mapping, Sequence
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from curvewise.base.errors import InputError, require, require_numbers, require_type
from curvewise.figures.sheets import (
    CHANCE,
    GRAY,
    RATES,
    SMALL,
    UNIT,
    Look,
    add_legend,
    color_of,
    colors_of,
    new_axes,
    new_sheet,
    place_legend,
    split,
)
from curvewise.roc.curve import Floats, Labels, RocBand, RocCurve, check_scored
from curvewise.roc.metrics import probability_bins
from curvewise.roc.operating import OperatingPoint, rate_interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from pandas import DataFrame

LOWEST_RATE = 1e-3  # where logarithmic axes start; a test set rarely tells more
SAME = 1e-9  # rates that differ by less are one: a sample of a billion would make more
LETTERS = 40  # of a note, before it is broken
EDGES: dict[str, Look] = {
    "maximum": {"color": GRAY, "linewidth": 0.8, "linestyle": "-."},
    "minimum": {"color": GRAY, "linewidth": 0.8, "linestyle": "--"},
}
SHADED, SHADE = "mean \u00b1 1 std", 0.2  # what is shaded, and how
MISSES: Look = RATES | {"ylabel": "1 - true positive rate"}
BAND = ["fpr", "mean", "low", "high", "std"]

Areas = Mapping[str, Sequence[float] | Floats]


def require_named(function: str, example: str, given: object, kind: type = object) -> None:
    """Raise `InputError` unless `given` holds something by name, all of it of one kind.

    >>> require_named("plot_roc", "curves by name", 3)
    Traceback (most recent call last):
    curvewise.base.errors.InputError: plot_roc needs curves by name, got int
    """
    items = getattr(given, "items", None)  # a DataFrame has it, too
    if not callable(items):
        raise InputError(f"{function} needs {example}, got {type(given).__name__}")
    named = dict(items())
    require(named, f"{function} needs {example}, at least one, got none")
    for name, value in named.items():
        got = f"a {kind.__name__}, got {type(value).__name__} for {name!r}"
        require(isinstance(value, kind), f"{function} needs {example}, each {got}")


def plot_roc(
    curves: Mapping[str, RocCurve],
    *,
    points: Sequence[OperatingPoint] = (),
    title: str | None = None,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw ROC curves by name, with their areas, and operating points with their intervals.

    The legend is below the axes if the figure has a layout engine (``layout="constrained"``, as
    new figures here have), else in the emptiest corner.

    >>> from curvewise.roc.curve import roc_curve
    >>> axes = plot_roc({"model": roc_curve([0, 1, 0, 1], [0.1, 0.9, 0.6, 0.4])})
    >>> axes.get_xlabel()
    'False positive rate'
    """
    require_named("plot_roc", "curves by name, such as {'model': curve}", curves, RocCurve)
    if isinstance(points, OperatingPoint) or not all(isinstance(p, OperatingPoint) for p in points):
        raise InputError(f"points must be a list of operating points, got {points!r}")
    axes = ax if ax is not None else new_axes()
    axes.plot([0, 1], [0, 1], **CHANCE)
    for number, (name, curve) in enumerate(curves.items()):
        label = f"{name}: AUC {curve.auc:.4f}"
        axes.plot(curve.fpr, curve.tpr, color=color_of(number), label=label)
    for point in points:
        label = f"threshold {point.threshold:.4g}: TPR {point.tpr:.3f}, FPR {point.fpr:.4f}"
        _draw_point(axes, point, label)
    axes.set(**RATES, **UNIT, title=title or "")
    place_legend(axes)
    return axes


def _draw_point(axes: "Axes", point: OperatingPoint, label: str, lowest: float = 0.0) -> None:
    """Draw a point and its intervals; FPR is nowhere below `lowest`."""
    x, left, right = (max(rate, lowest) for rate in (point.fpr, *point.fpr_interval))
    y, (below, above) = point.tpr, point.tpr_interval
    axes.errorbar(
        [x], [y], xerr=[[x - left], [right - x]], yerr=[[y - below], [above - y]], fmt="o",
        color="black", capsize=3, label=label,
    )  # fmt: skip


def plot_operating_point(
    curve: RocCurve,
    point: OperatingPoint,
    *,
    name: str = "model",
    log: bool = False,
    title: str | None = None,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw a ROC curve, the point chosen on it, its exact intervals, and what it means in use.

    The point must lie on the curve: one that was chosen on other data is first measured on these,
    by ``operating_point(y, score, point.threshold)``. What the point promises is its `note`.

    Parameters
    ----------
    log
        Draw the false positive rate logarithmically, which shows where rare classes are decided.

    >>> from curvewise.roc.curve import roc_curve
    >>> from curvewise.roc.operating import choose_operating_point
    >>> y, score = [0, 0, 1, 1], [0.1, 0.6, 0.4, 0.9]
    >>> point = choose_operating_point(y, score, max_fpr=0.0)
    >>> axes = plot_operating_point(roc_curve(y, score), point)
    >>> axes.texts[0].get_text().splitlines()[1]
    'TPR 0.500 (0.013 to 0.987)'
    """
    _require_on_curve(curve, point)
    axes = ax if ax is not None else new_axes()
    lowest = LOWEST_RATE if log else 0.0
    label = f"{name}: AUC {curve.auc:.4f}"
    axes.plot(np.maximum(curve.fpr, lowest), curve.tpr, color=color_of(0), label=label)
    _draw_point(axes, point, f"operating point, {point.level:.0%} intervals", lowest)
    x, y = max(point.fpr, lowest), point.tpr
    axes.plot([x, x, lowest], [0, y, y], color="0.6", linewidth=0.8, linestyle=":")
    axes.set(**RATES, title=title or "", xlim=UNIT["xlim"], ylim=UNIT["ylim"])
    if log:
        axes.set(xscale="log", xlim=(lowest, 1))
    above = _free_above(curve, lowest)
    corner = (0.03, 0.97, "left", "top") if above else (0.97, 0.03, "right", "bottom")
    axes.text(
        *corner[:2], _in_words(point), ha=corner[2], va=corner[3], transform=axes.transAxes,
        fontsize="small", bbox={"facecolor": "white", "edgecolor": "0.8", "alpha": 0.85},
    )  # fmt: skip
    place_legend(axes, "lower right" if above else "upper left" if log else "center right")
    return axes


def _free_above(curve: RocCurve, lowest: float) -> bool:
    """Return whether a box of words has more room above the curve, left, than below it, right."""
    # The inner corner of the box, in shares of the axes, is what comes nearest to the curve.
    across, up = 0.62, 0.42
    left, right = (lowest ** (1 - x) if lowest else x for x in (1 - across, across))
    tpr_left, tpr_right = np.interp([left, right], curve.fpr, curve.tpr)
    return bool((1 - up) - tpr_right > tpr_left - up)


def _require_on_curve(curve: RocCurve, point: OperatingPoint) -> None:
    require_type("curve", curve, RocCurve)
    require_type("point", point, OperatingPoint)
    # Along a ROC curve the sum of both rates only grows, so it tells where on it a point must be.
    away = abs(np.interp(point.fpr + point.tpr, curve.fpr + curve.tpr, curve.fpr) - point.fpr)
    require(
        away <= SAME,
        f"the point must lie on the curve, got FPR {point.fpr:.6g} and TPR {point.tpr:.6g}, "
        f"{away:.2g} away: measure its threshold on the curve's data by operating_point",
    )


def _in_words(point: OperatingPoint) -> str:
    alarms = 1000 * (point.prevalence * point.tpr + (1 - point.prevalence) * point.fpr)
    lines = [
        f"score at least {point.threshold:.4g}",
        f"TPR {point.tpr:.3f} ({point.tpr_interval[0]:.3f} to {point.tpr_interval[1]:.3f})",
        f"FPR {point.fpr:.4f} ({point.fpr_interval[0]:.4f} to {point.fpr_interval[1]:.4f})",
        f"precision {point.ppv:.3f} where {point.prevalence:.2%} are positive"
        if np.isfinite(point.ppv)
        else "no precision: nothing is called positive",
        f"{alarms:.1f} alarms per 1,000 cases",
        fill(point.note, LETTERS),  # one rate is promised, not all that stand above
    ]
    return "\n".join(lines).strip()


def plot_calibration(
    y: Labels,
    probabilities: Mapping[str, ArrayLike],
    *,
    level: float = 0.95,
    title: str | None = None,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw a reliability diagram: how often what was claimed came true, in ten bins.

    `probabilities` holds those of the rare class by name, each of shape (n,), as `y`. Bars are
    exact intervals (Clopper-Pearson) at `level`; the legend has the Brier score, lower is better.

    >>> axes = plot_calibration([0, 0, 1, 1], {"model": [0.1, 0.4, 0.4, 0.9]})
    >>> axes.get_legend_handles_labels()[1]
    ['model: Brier 0.1350']
    """
    require_named("plot_calibration", "probabilities by name, such as {'model': p}", probabilities)
    axes = ax if ax is not None else new_axes()
    axes.plot([0, 1], [0, 1], **CHANCE)
    for number, (name, values) in enumerate(probabilities.items()):
        data = check_scored(y, values)
        p = require_numbers(f"probabilities of {name!r}", data.score, 0, 1)
        found = probability_bins(data.positive, p)
        k, n = np.array(found["k"]), np.array(found["n"])
        ends = np.array([rate_interval(int(a), int(b), level) for a, b in zip(k, n, strict=True)])
        axes.errorbar(
            found["p"], k / n, yerr=np.abs(ends.T - k / n), color=color_of(number),
            marker="os^Dv"[number % 5], markersize=5, linewidth=1.2, elinewidth=0.8, capsize=2,
            label=f"{name}: Brier {found['brier']:.4f}",
        )  # fmt: skip
    axes.set(xlabel="Probability claimed, mean of the bin", ylabel="Share of positives", **UNIT)
    axes.set_title(title or "")
    place_legend(axes)
    return axes


def plot_band(
    bands: Mapping[str, RocBand],
    *,
    areas: Areas | None = None,
    log: bool = False,
    misses: bool = False,
    title: str | None = None,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw bands of ROC curves by name: mean, minimum, maximum, and one std shaded.

    Parameters
    ----------
    areas
        AUC of every model by name, for the mean in the legend. Without them it is that of the mean
        curve, to three digits, because a band knows its curves on a grid only.
    log
        Draw the false positive rate logarithmically.
    misses
        Draw 1 - TPR logarithmically instead of TPR, which shows differences near TPR = 1.

    >>> from curvewise.roc.curve import roc_band
    >>> from curvewise.roc.curve import roc_curve
    >>> band = roc_band([roc_curve([0, 1, 0, 1], [0.1, 0.9, 0.6, 0.4])])
    >>> plot_band({"VS": band}).get_legend_handles_labels()[1][0]
    'VS: mean AUC 0.750'
    """
    require_named("plot_band", "bands by name, such as {'VS': band}", bands, RocBand)
    if areas is not None:
        require_named("plot_band", "areas by name, such as {'VS': [0.91, 0.93]}", areas)
        same = set(areas) == set(bands)
        require(same, f"areas must be of the bands {list(bands)}, got {list(areas)}")
    labels = [
        f"{name}: mean AUC {np.trapezoid(band.mean, band.fpr):.3f}"
        if areas is None
        else f"{name}: mean AUC {np.mean(areas[name]):.4f}"
        for name, band in bands.items()
    ]
    axes = ax if ax is not None else new_axes()
    colors = [color_of(number) for number in range(len(bands))]
    draw_bands(axes, list(bands.values()), colors, labels, log, misses)
    if any((band.high > band.low).any() for band in bands.values()):  # else there is one curve
        for label, look in EDGES.items():
            axes.plot([], [], label=label, **look)
        axes.fill_between([], [], [], color=GRAY, alpha=SHADE, linewidth=0, label=SHADED)
    axes.set(**MISSES if misses else RATES, title=title or "")
    if log or misses:  # no corner is always free of curves
        place_legend(axes)
    else:
        axes.legend(loc="lower right", fontsize="small")
    return axes


def draw_bands(
    axes: "Axes",
    bands: Sequence[RocBand],
    colors: Sequence[str],
    labels: Sequence[str],
    log: bool,
    misses: bool,
) -> None:
    """Draw bands as `plot_band` does, on axes that are scaled for them."""

    def draw(kind: Callable[..., object], fpr: Floats, *rates: Floats, **look: Any) -> None:
        if log:  # x starts at LOWEST_RATE
            x = np.append(LOWEST_RATE, fpr[fpr > LOWEST_RATE])
            fpr, rates = x, tuple(np.interp(x, fpr, tpr) for tpr in rates)
        kind(fpr, *(1 - tpr if misses else tpr for tpr in rates), **look)

    chance = np.linspace(0, 1, 1001)
    draw(axes.plot, chance, chance, **CHANCE)
    for band, color, label in zip(bands, colors, labels, strict=True):
        low, high = (np.clip(band.mean + sign * band.std, 0, 1) for sign in (-1, 1))
        draw(axes.fill_between, band.fpr, low, high, color=color, alpha=SHADE, linewidth=0)
        for tpr, edge in ((band.high, "maximum"), (band.low, "minimum")):
            draw(axes.plot, band.fpr, tpr, **EDGES[edge] | {"color": color})
        draw(axes.plot, band.fpr, band.mean, color=color, label=label)
    axes.set(xlim=UNIT["xlim"], ylim=UNIT["ylim"], aspect="auto" if log or misses else "equal")
    if log:
        axes.set(xscale="log", xlim=(LOWEST_RATE, 1))
    if misses:
        missed = np.concatenate([1 - band.low for band in bands])
        axes.set_yscale("log", nonpositive="clip")
        # The worst model misses one sample before it misses none: a decade below that is enough.
        axes.set_ylim(float(missed[missed > 1e-9].min()) / 10, 1.2)


def bands(
    frame: "DataFrame",
    *,
    panel: str,
    areas: "DataFrame",
    hue: str = "method",
    log: bool = False,
    misses: bool = False,
    **sheet: Any,
) -> "Figure":
    """Draw bands of ROC curves as `plot_band` does, in panels with the mean AUC of each `hue`.

    `frame` has "fpr", "mean", "low", "high" and "std" for each false positive rate, `areas` an
    "auc" for each model.
    """
    named = MISSES if misses else RATES
    colors, all_areas = colors_of(split(frame, hue)), split(areas, panel)
    panels = split(frame, panel)
    figure, all_axes = new_sheet(panels, **{"height": 3.3, **named, **sheet})
    for name, axes in all_axes.items():
        rows, means = split(panels[name], hue), all_areas[name].groupby(hue)["auc"].mean()
        found = [RocBand(*own[BAND].to_numpy(float).T) for own in rows.values()]
        labels = [f"{key}: AUC {means[key]:.4f}" for key in rows]
        draw_bands(axes, found, [colors[key] for key in rows], labels, log, misses)
        axes.legend(
            loc="lower left" if misses else "upper left" if log else "lower right",
            fontsize=SMALL, frameon=False, handlelength=0, labelcolor="linecolor",
        )  # fmt: skip
    shaded: Look = {"color": GRAY, "linewidth": 8, "alpha": SHADE}
    hues: dict[str, Look] = {key: {"color": color} for key, color in colors.items()}
    add_legend(figure, hues | EDGES | {SHADED: shaded})
    return figure
