"""Many ROC curves at once, from tidy frames: bands in panels, and one band beside its areas."""

from collections.abc import Mapping
from textwrap import fill
from typing import TYPE_CHECKING, Unpack

from curvewise.figures.curves import COLORS, draw_bands, draw_box
from curvewise.figures.frames import CHANCE, DOT, GRAY, UNIT
from curvewise.figures.sheets import (
    SMALL,
    WIDTH,
    Look,
    Sheet,
    add_legend,
    colors_of,
    new_sheet,
    split,
)
from curvewise.roc.curve import RocBand

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from pandas import DataFrame, Series

BAND = ["fpr", "mean", "low", "high", "std"]
EDGES: dict[str, Look] = {
    "maximum": {"color": GRAY, "linewidth": 0.8, "linestyle": "-."},
    "minimum": {"color": GRAY, "linewidth": 0.8, "linestyle": "--"},
    "mean \u00b1 1 std": {"color": GRAY, "linewidth": 8, "alpha": 0.2},
}


def bands(
    frame: "DataFrame",
    *,
    panel: str,
    hue: str = "method",
    areas: "DataFrame | None" = None,
    log: bool = False,
    misses: bool = False,
    **sheet: Unpack[Sheet],
) -> "Figure":
    """Draw bands of ROC curves as `plot_band` does, in panels with the mean AUC of each `hue`.

    `frame` has "fpr", "mean", "low", "high" and "std" for each false positive rate, `areas` an
    "auc" for each model. A panel without a mean shows the text of its column "note".

    >>> from pandas import DataFrame
    >>> frame = DataFrame({"panel": "a", "method": "VS", "fpr": [0.0, 1.0], "mean": [0.0, 1.0],
    ...                    "low": [0.0, 1.0], "high": [0.0, 1.0], "std": [0.0, 0.0]})
    >>> bands(frame, panel="panel", title="By chance").axes[0].get_title()
    'a'
    """
    sheet.setdefault("xlabel", "False positive rate")
    sheet.setdefault("ylabel", "1 - true positive rate" if misses else "True positive rate")
    sheet.setdefault("height", 3.3)
    panels, colors = split(frame, panel), colors_of(split(frame, hue))
    width = (6.0, 8.0, WIDTH)[min(sheet.get("columns", 3), len(panels), 3) - 1]
    figure, all_axes = new_sheet(panels, width, sheet)
    for name, axes in all_axes.items():
        rows = split(panels[name].dropna(subset="mean"), hue)
        if not rows:
            axes.set_axis_off()
            note = fill(str(panels[name]["note"].iloc[0]), 24)
            axes.text(0.5, 0.5, note, ha="center", va="center", transform=axes.transAxes)
            continue
        found = {key: RocBand(*own[BAND].to_numpy(float).T) for key, own in rows.items()}
        draw_bands(axes, found, colors, {key: key for key in found}, log=log, misses=misses)
        if areas is not None:
            means = split(areas[areas[panel] == panels[name][panel].iloc[0]], hue)
            words = {key: f"{key}: AUC {means[key]['auc'].mean():.4f}" for key in found}
            _write_corner(axes, words, colors, left=log or misses, top=log and not misses)
    add_legend(figure, {**{key: {"color": color} for key, color in colors.items()}, **EDGES})
    return figure


def _write_corner(
    axes: "Axes", words: Mapping[str, str], colors: Mapping[str, str], *, left: bool, top: bool
) -> None:
    """Write a line for each name in its colour, in a corner where no curves are."""
    for number, (key, text) in enumerate(words.items()):
        line = number if top else len(words) - 1 - number
        axes.annotate(
            text, (0.04 if left else 0.96, 0.96 if top else 0.04), xycoords="axes fraction",
            xytext=(0, (-1 if top else 1) * line * 1.3 * SMALL), textcoords="offset points",
            ha="left" if left else "right", va="top" if top else "bottom", color=colors[key],
            fontsize=SMALL,
        )  # fmt: skip


def distribution(
    band: "DataFrame", areas: "Series[float]", *, level: float = 0.95, **sheet: Unpack[Sheet]
) -> "Figure":
    """Draw many models: their ROC curves as a band on the left, their AUC as a box on the right.

    `band` has "fpr", "mean", "minimum", "maximum", and the ends "lower", "upper" of the range
    that holds `level` of the models.

    >>> from pandas import DataFrame, Series
    >>> edges = ("fpr", "mean", "minimum", "maximum", "lower", "upper")
    >>> band = DataFrame({name: [0.0, 1.0] for name in edges})
    >>> figure = distribution(band, Series([0.5, 0.6]), title="Two models")
    >>> [axes.get_ylabel() for axes in figure.axes]
    ['True positive rate', 'AUC']
    """
    sheet.setdefault("height", 3.8)
    figure, panels = new_sheet(
        ["ROC curves", f"AUC of {len(areas)} models"], 8.0, {**sheet, "columns": 2}
    )
    left, right = panels.values()
    color, x = COLORS[0], band["fpr"]
    shade: Look = {"color": color, "alpha": 0.25}
    looks: dict[str, Look] = {
        "mean": {"color": color},
        "maximum": {"color": color, "linewidth": 0.9, "linestyle": "-."},
        "minimum": {"color": color, "linewidth": 0.9, "linestyle": "--"},
    }
    left.plot([0, 1], [0, 1], **CHANCE)
    left.fill_between(x, band["lower"], band["upper"], linewidth=0, **shade)
    for name, look in looks.items():
        left.plot(x, band[name], **look)
    left.set(xlabel="False positive rate", ylabel="True positive rate", **UNIT)
    draw_box(right, 0, areas.to_numpy(float), width=0.6, color=color, dot=DOT)
    right.set(ylabel="AUC", xticks=[], xlim=(-0.6, 0.6))
    add_legend(figure, {**looks, f"{100 * level:g} % of models": {**shade, "linewidth": 8}})
    return figure
