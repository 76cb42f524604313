"""Static figures by matplotlib, each drawn on given axes or new ones and returning them."""

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np

from curvewise.base.errors import InputError
from curvewise.roc.curve import Floats, RocBand, RocCurve
from curvewise.roc.operating import OperatingPoint

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's colours: told apart in print and by the colour-blind.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
LOWEST_RATE = 1e-3  # where logarithmic axes start; a test set rarely tells more
GOLDEN = 0.6180339887498949  # its multiples spread evenly over [0, 1), however many there are
WIDEST, CHARACTER = 24.0, 0.1  # inches: of a figure, of a letter below an axis
LETTER, HANDLE = 0.066, 0.5  # inches in a legend: of a letter, of what stands before the words

Areas = Mapping[str, Sequence[float] | Floats]
Corner = Literal["best", "lower right", "upper left", "center right"]


def color_of(number: int) -> str:
    """Return the color of the method at this position, the same in every figure."""
    return COLORS[number % len(COLORS)]


def new_axes(width: float = 5.5) -> "Axes":
    """Return axes of a new figure, `width` inches wide, which pyplot knows if it is in use.

    Whoever calls ``plt.show()`` or ``plt.savefig()`` has imported pyplot, and expects it to find
    this figure.
    """
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is None:
        return bare_axes(width)
    figure: Figure = pyplot.figure(figsize=(width, 5), layout="constrained")
    return figure.add_subplot()


def bare_axes(width: float = 5.5) -> "Axes":
    """Return axes of a new figure for a file: it needs no screen, and goes when its axes go.

    Pyplot would keep it until it is closed.
    """
    from matplotlib import figure as figures
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    figure = figures.Figure(figsize=(width, 5), layout="constrained")
    FigureCanvasAgg(figure)
    return figure.add_subplot()


def figure_of(axes: "Axes") -> "Figure":
    """Return the figure that axes belong to."""
    figure = axes.get_figure(root=True)
    assert figure is not None
    return figure


def place_legend(axes: "Axes", within: Corner = "best") -> None:
    """Draw the legend below the axes, where no data are, in one column or in two that fit.

    A figure without a layout engine would cut it off there: then it goes to the corner `within`.
    """
    if figure_of(axes).get_layout_engine() is None:
        axes.legend(loc=within, fontsize="small")
        return
    lengths = [len(label) for label in axes.get_legend_handles_labels()[1]]
    half = (len(lengths) + 1) // 2
    letters = max(lengths[:half]) + max(lengths[half:], default=0)
    place = axes.get_window_extent().width / axes.figure.dpi
    axes.legend(
        loc="upper center", bbox_to_anchor=(0.5, 0), fontsize="small",
        borderaxespad=5,  # in letters: leaves ticks and label their place in panels of any height
        ncols=2 if letters * LETTER + 2 * HANDLE <= place else 1,
    )  # fmt: skip


def require_named(function: str, example: str, given: object, kind: type | None = None) -> None:
    """Raise `InputError` unless `given` holds something by name, all of it of one kind.

    >>> require_named("plot_roc", "curves by name", 3)
    Traceback (most recent call last):
    curvewise.base.errors.InputError: plot_roc needs curves by name, got int
    """
    found = getattr(given, "items", None)  # a DataFrame has it, too
    if not callable(found):
        raise InputError(f"{function} needs {example}, got {type(given).__name__}")
    for name, value in found():
        if kind is not None and not isinstance(value, kind):
            got = f"{type(value).__name__} for {name!r}"
            raise InputError(f"{function} needs {example}, each a {kind.__name__}, got {got}")


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
    if isinstance(points, OperatingPoint) or not all(
        isinstance(point, OperatingPoint) for point in points
    ):
        raise InputError(f"points must be a list of operating points, got {points!r}")
    if not curves:
        raise InputError("plot_roc needs at least one curve, got none")
    axes = ax if ax is not None else new_axes()
    axes.plot([0, 1], [0, 1], color="0.8", linewidth=1, zorder=0)
    for number, (name, curve) in enumerate(curves.items()):
        label = f"{name}: AUC {curve.auc:.4f}"
        axes.plot(curve.fpr, curve.tpr, color=color_of(number), label=label)
    for point in points:
        below = np.array([[point.fpr - point.fpr_interval[0]], [point.fpr_interval[1] - point.fpr]])
        beside = np.array(
            [[point.tpr - point.tpr_interval[0]], [point.tpr_interval[1] - point.tpr]]
        )
        label = f"threshold {point.threshold:.4g}: TPR {point.tpr:.3f}, FPR {point.fpr:.4f}"
        axes.errorbar(
            point.fpr, point.tpr, xerr=below, yerr=beside, fmt="o", color="black", capsize=3,
            label=label,
        )  # fmt: skip
    axes.set(
        xlabel="False positive rate",
        ylabel="True positive rate",
        title=title or "",
        xlim=(-0.02, 1.02),
        ylim=(-0.02, 1.02),
        aspect="equal",
    )
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
    if not bands:
        raise InputError("plot_band needs at least one band, got none")
    if areas is not None and set(areas) != set(bands):
        raise InputError(f"areas must be of the bands {list(bands)}, got {list(areas)}")
    axes = ax if ax is not None else new_axes()
    labels = {
        name: f"{name}: mean AUC {np.trapezoid(band.mean, band.fpr):.3f}"
        if areas is None
        else f"{name}: mean AUC {np.mean(areas[name]):.4f}"
        for name, band in bands.items()
    }
    colors = {name: color_of(number) for number, name in enumerate(bands)}
    draw_bands(axes, bands, colors, labels, log=log, misses=misses)
    if any((band.high > band.low).any() for band in bands.values()):  # else there is one curve
        for label, style in (("maximum", "-."), ("minimum", "--")):
            axes.plot([], [], color="0.4", linewidth=0.8, linestyle=style, label=label)
        label = "mean \u00b1 1 std"
        axes.fill_between([], [], [], color="0.4", alpha=0.2, linewidth=0, label=label)
    axes.set(
        xlabel="False positive rate",
        ylabel="1 - true positive rate" if misses else "True positive rate",
        title=title or "",
    )
    if log or misses:  # no corner is always free of curves
        place_legend(axes)
    else:
        axes.legend(loc="lower right", fontsize="small")
    return axes


def draw_bands(
    axes: "Axes",
    bands: Mapping[str, RocBand],
    colors: Mapping[str, str],
    labels: Mapping[str, str],
    *,
    log: bool,
    misses: bool,
) -> None:
    """Draw bands by name, as `plot_band` does, on axes that are scaled for them."""
    chance = np.linspace(0, 1, 1001)
    axes.plot(*_seen(chance, chance, log, misses), color="0.8", linewidth=1, zorder=0)
    axes.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
    for name, band in bands.items():
        _draw_band(axes, band, colors[name], labels[name], log, misses)
    if log:
        axes.set(xscale="log", xlim=(LOWEST_RATE, 1))
    if misses:
        missed = np.concatenate([1 - band.low for band in bands.values()])
        axes.set_yscale("log", nonpositive="clip")
        # The worst model misses one sample before it misses none: a decade below that is enough.
        axes.set_ylim(float(missed[missed > 1e-9].min()) / 10, 1.2)
    if not (log or misses):
        axes.set_aspect("equal")


def _seen(fpr: Floats, tpr: Floats, log: bool, misses: bool) -> tuple[Floats, Floats]:
    """Return x and y as drawn; a logarithmic x starts at LOWEST_RATE."""
    if log:
        x = np.append(LOWEST_RATE, fpr[fpr > LOWEST_RATE])
        fpr, tpr = x, np.interp(x, fpr, tpr)
    return fpr, 1 - tpr if misses else tpr


def _draw_band(
    axes: "Axes", band: RocBand, color: str, label: str, log: bool, misses: bool
) -> None:
    x, mean = _seen(band.fpr, band.mean, log, misses)
    low, high = (
        _seen(band.fpr, np.clip(edge, 0, 1), log, misses)[1]
        for edge in (band.mean - band.std, band.mean + band.std)
    )
    axes.fill_between(x, low, high, color=color, alpha=0.2, linewidth=0)
    for line, style in ((band.high, "-."), (band.low, "--")):
        axes.plot(*_seen(band.fpr, line, log, misses), color=color, linewidth=0.8, linestyle=style)
    axes.plot(x, mean, color=color, label=label)


def plot_spread(
    areas: Areas | Mapping[str, Areas],
    *,
    ylabel: str = "AUC",
    title: str | None = None,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw a box plot for each method and every model as a dot.

    `areas` holds values by method, or by group (a beta, a task) and method; groups then stand
    side by side, and the legend names the methods. Boxes span the quartiles, whiskers reach the
    farthest model within 1.5 times that; the line is the median.

    >>> axes = plot_spread({"VS": [0.91, 0.93, 0.92], "VS + LCT": [0.94, 0.93, 0.95]})
    >>> [label.get_text() for label in axes.get_xticklabels()]
    ['VS', 'VS + LCT']
    """
    groups, nested = _groups(areas)
    names = list(dict.fromkeys(name for group in groups.values() for name in group))
    width = 0.8 / len(names) if nested else 0.6
    inches = 1.5 + 0.5 * len(groups) * len(names)
    axes = ax if ax is not None else new_axes(min(max(5.5, inches), WIDEST))
    for position, group in enumerate(groups.values()):
        for name, values in group.items():
            number = names.index(name)
            x = position + (number - (len(names) - 1) / 2) * width if nested else number
            draw_box(axes, x, _values(name, values), width=width, color=color_of(number))
    _name_ticks(axes, list(groups) if nested else names)
    axes.set(ylabel=ylabel, title=title or "")
    axes.grid(axis="y", color="0.9")
    axes.set_axisbelow(True)
    if nested:
        for number, name in enumerate(names):
            axes.plot([], [], "s", color=color_of(number), label=name)
        axes.legend(loc="best", fontsize="small")
    return axes


def _name_ticks(axes: "Axes", names: list[str]) -> None:
    axes.set_xticks(range(len(names)), names)
    axes.set_xlim(-0.6, len(names) - 0.4)
    place = axes.get_window_extent().width / axes.figure.dpi / len(names)
    if max(map(len, names)) * CHARACTER > place:
        axes.tick_params("x", rotation=30)
        for text in axes.get_xticklabels():
            text.set(ha="right", rotation_mode="anchor")


def _groups(areas: Areas | Mapping[str, Areas]) -> tuple[dict[str, Areas], bool]:
    """Return the areas by group and method, and whether they were given in groups."""
    require_named("plot_spread", "areas by method, such as {'VS': [0.91, 0.93]}", areas)
    inner = {name: values for name, values in areas.items() if isinstance(values, Mapping)}
    flat = {name: values for name, values in areas.items() if not isinstance(values, Mapping)}
    if inner and flat:
        raise InputError(f"areas must all be in groups or none, got {list(flat)} outside")
    if (not inner and not flat) or not all(inner.values()):
        raise InputError("plot_spread needs areas of at least one method, got none")
    return (inner, True) if inner else ({"": flat}, False)


def _values(name: str, values: Sequence[float] | Floats) -> Floats:
    try:
        found = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        found = np.empty(0)  # text, or lists of unequal length
    if found.ndim != 1 or len(found) == 0 or not np.isfinite(found).all():
        raise InputError(f"areas of {name!r} must be a list of finite numbers, got {values!r}")
    return found


def draw_box(
    axes: "Axes",
    x: float,
    values: Sequence[float] | Floats,
    *,
    width: float,
    color: str,
    dot: float = 3.0,
) -> None:
    """Draw a box (quartiles, median, whiskers within 1.5 times the box) and a dot each value."""
    from matplotlib.cbook import boxplot_stats
    from matplotlib.patches import Polygon

    # Not by Axes.boxplot: it reads all of matplotlib's settings, the backend among them, which
    # imports pyplot, and `new_axes` would take that for somebody's wish.
    (found,) = boxplot_stats(np.asarray(values))
    left, right, half = x - 0.4 * width, x + 0.4 * width, 0.2 * width
    low, high = found["q1"], found["q3"]
    corners = [(left, low), (right, low), (right, high), (left, high)]
    axes.add_patch(Polygon(corners, facecolor=color, edgecolor=color, alpha=0.25, zorder=2))
    for start, end in ((low, found["whislo"]), (high, found["whishi"])):
        axes.plot([x, x], [start, end], color=color, linewidth=1)
        axes.plot([x - half, x + half], [end, end], color=color, linewidth=1)
    axes.plot([left, right], [found["med"]] * 2, color="black", linewidth=1, zorder=2.1)
    across = (np.arange(1, len(values) + 1) * GOLDEN) % 1 - 0.5
    axes.plot(x + 0.6 * width * across, values, "o", color=color, markersize=dot, alpha=0.7)


def plot_differences(
    differences: Mapping[str, Sequence[float] | Floats],
    *,
    ylabel: str = "difference of AUC",
    title: str | None = None,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw paired differences by name, each list in rising order, around a line at 0.

    >>> plot_differences({"mean": [0.01, -0.02]}).lines[1].get_ydata().tolist()
    [-0.02, 0.01]
    """
    require_named(
        "plot_differences", "differences by name, such as {'mean': [0.01, -0.02]}", differences
    )
    if not differences:
        raise InputError("plot_differences needs at least one list, got none")
    axes = ax if ax is not None else new_axes(7.5)
    axes.axhline(0, color="0.5", linewidth=1)
    for number, (name, values) in enumerate(differences.items()):
        found = np.sort(_values(name, values))
        label = f"{name}: above 0 in {int((found > 0).sum())} of {len(found)}"
        marker = "os^Dv"[number % 5]
        axes.plot(np.arange(1, len(found) + 1), found, marker, color=color_of(number),
                  markersize=4, label=label)  # fmt: skip
    axes.set(xlabel="place in rising order", ylabel=ylabel)
    axes.set_title(title or "", fontsize="medium")
    axes.grid(axis="y", color="0.9")
    axes.set_axisbelow(True)
    axes.legend(loc="best", fontsize="small")
    return axes
