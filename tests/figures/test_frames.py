"""Figures from frames: one contract for all of them, and what is drawn against plain loops."""

import subprocess
import sys
from itertools import chain, pairwise

import numpy as np
import pytest
from matplotlib.colors import to_hex
from pandas import DataFrame, Series

from curvewise.figures.bands import bands, distribution
from curvewise.figures.curves import COLORS
from curvewise.figures.frames import boxes, dots, fits, lines
from curvewise.figures.landscapes import landscapes
from curvewise.figures.sheets import SMALL, WIDTH
from curvewise.losses.landscape import loss_landscape
from curvewise.stats.variance import polynomial_fit

RNG = np.random.default_rng(0)
TASKS = ("CIFAR-10 cat/dog", "CIFAR-100 household", "Dogs vs Cats", "Melanoma")
WORDS = {
    "title": "LCT is ahead of VS where the imbalance is severe, and as good where it is not: " * 2,
    "caption": "laptop profile: heads on 128 components of EfficientNet-Lite0 features " * 2,
}
MODELS = DataFrame(
    [
        {"task": task, "beta": beta, "method": method, "auc": RNG.uniform(0.7, 0.9), "seed": seed}
        for task in TASKS for beta in (10, 100.0, 200) for method in ("VS", "VS + LCT", "focal")
        for seed in range(9)
    ]
)  # fmt: skip
MODELS.loc[RNG.choice(len(MODELS), 40), "auc"] = np.nan
LONG = MODELS.assign(method=MODELS["method"].map("{}: equal share of all, drawn again".format))
MEANS = MODELS.groupby(["task", "beta", "method"], sort=False)["auc"].agg(["mean", "min", "max"])
MEANS = MEANS.reset_index()
FPR = np.linspace(0, 1, 50)
CURVES = DataFrame(
    [
        {"task": task, "method": method, "fpr": x, "mean": x**power, "low": x ** (2 * power),
         "high": x ** (power / 2), "std": 0.1, "note": "too few samples"}
        for task in TASKS for method, power in (("VS", 0.4), ("VS + LCT", 0.3)) for x in FPR
    ]
)  # fmt: skip
CURVES.loc[CURVES["task"] == TASKS[1], "mean"] = np.nan
EDGES = ("fpr", "mean", "minimum", "maximum", "lower", "upper")
POINTS = DataFrame({"task": TASKS, "fpr": 0.5, "high": 0.7, "text": "0.7"})
SETTINGS = DataFrame({"omega": RNG.uniform(size=60), "tau": RNG.uniform(0, 3, 60)})
SETTINGS["auc"] = 0.9 - 0.1 * (SETTINGS["tau"] - 1) ** 2
SETTINGS["tpr"] = 1.0

FIGURES = {
    "boxes": lambda: boxes(MODELS, x="beta", hue="method", xlabel="beta", **WORDS),
    "boxes in panels": lambda: boxes(
        MODELS, x="beta", hue="method", panel="task", diverged=True, sharey=True, columns=2,
        xlabel="beta", **WORDS,
    ),
    "boxes by name": lambda: boxes(
        LONG, x="method", hue="method", panel="task", zero=True, mean=True, xlabel="m", **WORDS
    ),
    "boxes of many": lambda: boxes(
        MODELS.assign(x=MODELS["task"] + MODELS["beta"].map(str)), x="x", xlabel="task", **WORDS
    ),
    "dots": lambda: dots(MODELS, x="task", y="auc", hue="method", xlabel="task", **WORDS),
    "lines with bars": lambda: lines(
        MEANS, x="beta", y="mean", hue="method", panel="task", low="min", high="max", log=True,
        zero=True, **WORDS,
    ),
    "lines with ranges": lambda: lines(
        MEANS, x="beta", y="mean", hue="method", style="task", low="min", high="max", shade=True,
        **WORDS,
    ),
    "curves": lambda: lines(
        CURVES, x="fpr", y="high", hue="method", points=POINTS, panel="task", square=True, **WORDS
    ),
    "bands": lambda: bands(CURVES, panel="task", areas=MODELS, **WORDS),
    "bands of misses": lambda: bands(CURVES, panel="task", log=True, misses=True, **WORDS),
    "distribution": lambda: distribution(
        DataFrame(dict.fromkeys(EDGES, FPR)), MODELS["auc"].dropna(), **WORDS
    ),
    "fits": lambda: fits(SETTINGS, x=["omega", "tau"], y={"auc": "AUC", "tpr": "TPR"}, **WORDS),
    "landscapes": lambda: landscapes(
        {f"tau = {tau}": loss_landscape(10, tau=tau, points=11) for tau in (0, 1, 2, 3)}, **WORDS
    ),
}  # fmt: skip
ONE_SERIES = ("boxes of many", "fits", "landscapes")


def ticks_of(axis, limits):
    """Return the labels of an axis that are seen."""
    low, high = sorted(limits)
    ticks = [tick for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high]
    return [tick.label1 for tick in ticks if tick.label1.get_visible() and tick.label1.get_text()]


def texts_of(figure):
    """Return all that is written in a figure, and that no ticks' labels are on each other."""
    texts = [figure._suptitle, *figure.texts]
    texts += [text for legend in figure.legends for text in legend.get_texts()]
    for axes in (axes for axes in figure.axes if axes.axison):
        labels = ticks_of(axes.xaxis, axes.get_xlim()), ticks_of(axes.yaxis, axes.get_ylim())
        for ticks in labels:
            boxes_of = [tick.get_window_extent() for tick in ticks if not tick.get_rotation()]
            assert not any(a.overlaps(b) for a, b in pairwise(boxes_of)), axes
        texts += [*chain(*labels), *axes.texts, axes.title, axes.xaxis.label, axes.yaxis.label]
    return [text for text in texts if text.get_text()]


@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_is_whole_legible_and_named(name):
    figure = FIGURES[name]()
    figure.canvas.draw()
    assert " ".join(figure.get_suptitle().split()) == WORDS["title"].strip()
    assert " ".join(figure.texts[-1].get_text().split()) == WORDS["caption"].strip()
    assert len(figure.legends) == (name not in ONE_SERIES)
    for axes in (axes for axes in figure.axes if axes.axison and axes.get_subplotspec()):
        assert axes.get_legend() is None
        place = axes.get_subplotspec()
        assert axes.get_ylabel() or not place.is_first_col()
        assert axes.get_xlabel() or not place.is_last_row() or name == "distribution"
    assert figure.get_figwidth() <= WIDTH
    width, height = figure.canvas.get_width_height()
    for text in texts_of(figure):
        box = text.get_window_extent()
        assert -1 <= box.x0 <= box.x1 <= width + 1, text
        assert -1 <= box.y0 <= box.y1 <= height + 1, text
        assert text.get_fontsize() >= SMALL, text


def test_no_figure_imports_pyplot(tmp_path):
    script = """
import sys
from pandas import DataFrame
from curvewise.figures.frames import boxes
boxes(DataFrame({"x": ["a"], "auc": [0.5]}), x="x").savefig("drawn.png")
assert "matplotlib.pyplot" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", script], cwd=tmp_path, check=True)


def points_of(axes, marker, color=None):
    """Return the points of all lines with a marker, and of one color if wanted."""
    return [
        line.get_xydata()
        for line in axes.get_lines()
        if line.get_marker() == marker
        and (color is None or to_hex(line.get_color()) == color.lower())
    ]


def test_boxes_have_a_dot_a_model_about_their_place_and_count_the_others():
    figure = boxes(MODELS, x="beta", hue="method", panel="task", mean=True, diverged=True)
    for axes, task in zip(figure.axes, TASKS, strict=True):
        assert axes.get_title() == task
        assert [text.get_text() for text in axes.get_xticklabels()] == ["10", "100", "200"]
        lost = []
        for color, method in zip(COLORS, ("VS", "VS + LCT", "focal"), strict=False):
            drawn = points_of(axes, "o", color)
            means = points_of(axes, "D")
            for place, beta in enumerate((10, 100, 200)):
                values = [
                    row["auc"]
                    for row in MODELS.to_dict("records")
                    if (row["task"], row["beta"], row["method"]) == (task, beta, method)
                ]
                finite = [value for value in values if value == value]
                if len(finite) < len(values):
                    lost.append((f"{len(values) - len(finite)}\ndiv.", color.lower()))
                np.testing.assert_array_equal(drawn[place][:, 1], finite)
                at = place + (COLORS.index(color) - 1) * 0.8 / 3
                assert np.abs(drawn[place][:, 0] - at).max() <= 0.4 * 0.8 / 3
                mean = next(point for point in means if abs(point[0, 0] - at) < 1e-9)
                assert mean[0, 1] == pytest.approx(sum(finite) / len(finite))
        texts = [(text.get_text(), to_hex(text.get_color())) for text in axes.texts]
        assert sorted(texts) == sorted(lost)


def test_a_box_of_nothing_but_diverged_models_is_a_number():
    frame = DataFrame({"x": ["a", "a", "b"], "auc": [np.nan, np.nan, 0.5]})
    (axes,) = boxes(frame, x="x", diverged=True).axes
    assert [text.get_text() for text in axes.texts] == ["2\ndiv."]
    assert len(points_of(axes, "o")) == 1


def test_methods_have_their_colours_in_every_figure():
    frame = DataFrame({"x": list("abc"), "method": ["focal", "VS + LCT", "VS"], "auc": 0.5})
    (axes,) = boxes(frame, x="x", hue="method").axes
    places = {to_hex(c): round(points_of(axes, "o", c)[0][0, 0]) for c in COLORS[:3]}
    assert places == {COLORS[2].lower(): 0, COLORS[1].lower(): 1, COLORS[0].lower(): 2}


def test_dots_have_a_bar_at_the_mean():
    frame = DataFrame({"x": ["a", "a", "b"], "way": ["u", "u", "v"], "gain": [0.1, 0.2, -0.4]})
    (axes,) = dots(frame, x="x", y="gain", hue="way").axes
    assert [points[:, 1].tolist() for points in points_of(axes, "o")] == [[0.1, 0.2]]
    assert [points[:, 1].tolist() for points in points_of(axes, "s")] == [[-0.4]]
    bars = [line.get_ydata() for line in axes.get_lines() if line.get_linewidth() == 2]
    np.testing.assert_allclose(bars, [[0.15] * 2, [-0.4] * 2])
    assert axes.get_lines()[0].get_ydata() == [0, 0]


def test_lines_stand_at_their_x_with_their_bars():
    figure = lines(
        MEANS, x="beta", y="mean", hue="method", panel="task", low="min", high="max", log=True
    )
    for axes, task in zip(figure.axes, TASKS, strict=True):
        assert axes.get_xscale() == "log"
        assert [text.get_text() for text in axes.get_xticklabels()] == ["10", "100", "200"]
        for method, drawn in zip(("VS", "VS + LCT", "focal"), axes.containers, strict=True):
            rows = [
                row for row in MEANS.to_dict("records")
                if (row["task"], row["method"]) == (task, method)
            ]  # fmt: skip
            along, values = drawn[0].get_xydata().T
            np.testing.assert_array_equal(values, [row["mean"] for row in rows])
            np.testing.assert_allclose(along, [10, 100, 200], rtol=0.07)
            ends = [segment[:, 1] for segment in drawn[2][0].get_segments()]
            np.testing.assert_allclose(ends, [[row["min"], row["max"]] for row in rows])


def test_marked_points_are_on_their_curves():
    (axes,) = lines(
        CURVES[CURVES["task"] == TASKS[0]], x="fpr", y="high", hue="method", square=True,
        points=DataFrame({"method": ["VS", "VS + LCT"], "fpr": [0.1, 0.2], "high": [0.3, 0.4]}),
    ).axes  # fmt: skip
    large = [line for line in axes.get_lines() if line.get_markersize() == 8]
    assert [line.get_xydata().tolist() for line in large] == [[[0.1, 0.3]], [[0.2, 0.4]]]
    assert [to_hex(line.get_color()).upper() for line in large] == list(COLORS[:2])
    (legend,) = axes.figure.legends
    assert [h.get_marker() for h in legend.legend_handles] == ["o", "s"]


def test_bands_are_of_their_panel_and_a_note_stands_where_there_are_none():
    figure = bands(CURVES, panel="task", areas=MODELS)
    assert [axes.get_title() for axes in figure.axes] == list(TASKS)
    for axes, task in zip(figure.axes, TASKS, strict=True):
        texts = [text.get_text() for text in axes.texts]
        if task == TASKS[1]:
            assert texts == ["too few samples"]
            continue
        for color, method in zip(COLORS, ("VS", "VS + LCT"), strict=False):
            rows = CURVES[(CURVES["task"] == task) & (CURVES["method"] == method)]
            drawn = [line for line in axes.get_lines() if to_hex(line.get_color()) == color.lower()]
            assert [line.get_linestyle() for line in drawn] == ["-.", "--", "-"]
            for line, column in zip(drawn, ("high", "low", "mean"), strict=True):
                np.testing.assert_array_equal(line.get_xydata(), rows[["fpr", column]])
            values = MODELS[(MODELS["task"] == task) & (MODELS["method"] == method)]["auc"]
            assert f"{method}: AUC {np.nanmean(values):.4f}" in texts


def test_a_distribution_has_its_band_and_all_its_dots():
    band = DataFrame({name: FPR ** (number + 1) for number, name in enumerate(EDGES)})
    left, right = distribution(band, Series([0.5, 0.6, 0.8]), level=0.9).axes
    drawn = {line.get_linestyle(): line.get_ydata() for line in left.get_lines()}
    for style, column in (("-", "mean"), ("-.", "maximum"), ("--", "minimum")):
        np.testing.assert_array_equal(drawn[style], band[column])
    (shade,) = left.collections
    corners = shade.get_paths()[0].vertices
    assert corners[:, 1].max() == 1
    assert [points[:, 1].tolist() for points in points_of(right, "o")] == [[0.5, 0.6, 0.8]]
    words = [text.get_text() for text in left.figure.legends[0].get_texts()]
    assert words == ["mean", "maximum", "minimum", "90 % of models"]


def test_fits_are_those_of_each_setting_alone():
    axes = fits(SETTINGS, x=["omega", "tau"], y={"auc": "AUC", "tpr": "TPR"}).axes
    assert [one.get_title() for one in axes[2:]] == ["no variance"] * 2
    for one, name in zip(axes, ("omega", "tau"), strict=False):
        x, y = SETTINGS[name].to_numpy(), SETTINGS["auc"].to_numpy()
        fit = polynomial_fit(x[:, None], y)
        dots_of, line = one.get_lines()
        np.testing.assert_array_equal(dots_of.get_xydata(), np.stack([x, y], axis=1))
        np.testing.assert_allclose(line.get_ydata(), fit.at(line.get_xdata()[:, None]))
        assert one.get_title() == f"$R^2$ = {fit.r2:.2f}"


def test_landscapes_share_their_colours():
    found = {"a": loss_landscape(10, points=9), "b": loss_landscape(10, tau=3.0, points=9)}
    panels = landscapes(found).axes[:2]
    assert [axes.get_title() for axes in panels] == ["a", "b"]
    limits = {axes.collections[0].get_clim() for axes in panels}
    assert len(limits) == 1
    assert next(iter(limits))[1] >= found["b"].limit
