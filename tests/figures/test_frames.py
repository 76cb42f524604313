"""One contract for all figures, and what boxes, lines, fits and bands draw against plain loops."""

import subprocess
import sys
from itertools import chain, pairwise

import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from pandas import DataFrame

import curvewise as cw
from curvewise.figures.curves import bands
from curvewise.figures.frames import boxes, distribution, fits, landscapes, lines
from curvewise.figures.sheets import COLORS, WIDTH
from curvewise.stats.variance import polynomial_fit

RNG = np.random.default_rng(0)
TASKS = ("CIFAR-10 cat/dog", "CIFAR-100 household", "Dogs vs Cats", "Melanoma")
METHODS = dict(zip(("VS", "VS + LCT", "focal"), COLORS, strict=False))
TITLE = "LCT is ahead of VS where the imbalance is severe, and as good where it is not: " * 2
WORDS = {"title": TITLE, "caption": "laptop profile: heads on 128 components of features; " * 3}
CELLS = [(task, beta, name) for task in TASKS for beta in (10, 100.0, 200) for name in METHODS]
MODELS = DataFrame(np.repeat(CELLS, 9, axis=0), columns=["task", "beta", "method"])
MODELS = MODELS.assign(beta=MODELS["beta"].astype(float), auc=RNG.uniform(0.7, 0.9, len(MODELS)))
MODELS.loc[RNG.choice(len(MODELS), 40), "auc"] = np.nan
LONG = MODELS.assign(method=MODELS["method"].map("{}: equal share of all, drawn again".format))
MANY = MODELS.assign(task=MODELS["task"] + MODELS["beta"].map(str))
MEANS = MODELS.groupby(["task", "beta", "method"], sort=False)["auc"]
MEANS = MEANS.agg(["mean", "min", "max"]).reset_index()
FPR = np.linspace(0, 1, 50)
CURVES = DataFrame(
    [
        {"task": task, "method": method, "fpr": x, "mean": x**power, "low": x ** (2 * power),
         "high": x ** (power / 2), "std": 0.1}
        for task in TASKS for method, power in (("VS", 0.4), ("VS + LCT", 0.3)) for x in FPR
    ]
)  # fmt: skip
POINTS = DataFrame({"task": TASKS, "fpr": 0.5, "high": 0.7, "text": "0.7"})
POWERS = {"fpr": 1, "mean": 1, "minimum": 2, "maximum": 0.5, "lower": 1.5, "upper": 0.7}
BAND = DataFrame({name: FPR**power for name, power in POWERS.items()})
SETTINGS = DataFrame({"omega": RNG.uniform(size=60), "tau": RNG.uniform(0, 3, 60), "tpr": 1.0})
SETTINGS["auc"] = 0.9 - 0.1 * (SETTINGS["tau"] - 1) ** 2
METRICS = {"auc": "AUC", "tpr": "TPR"}
Y = np.arange(400) % 4 == 0
SCORE = RNG.normal(size=400) + Y
ROC = {f"a model of {name}": cw.roc_curve(Y, SCORE + RNG.normal(size=400)) for name in METHODS}
CHOSEN = cw.choose_operating_point(Y, SCORE, max_fpr=0.2, confidence=0.9)
ROC_BANDS = {"VS": cw.roc_band(list(ROC.values())), "VS + LCT": cw.roc_band(list(ROC.values())[:2])}
AREAS = {f"pair {n}/{n + 1}": {"VS": RNG.uniform(size=9), "CE": [0.5]} for n in range(45)}
Z1, Z0 = (z.ravel() for z in np.meshgrid(range(-5, 6), range(-5, 6), indexing="ij"))
PANELS = [f"tau = {tau}" for tau in range(4)]
LANDSCAPES = DataFrame({"z0": Z0, "z1": Z1} | {p: Z0 - Z1 + k for k, p in enumerate(PANELS)})
EQUAL = DataFrame({"panel": PANELS, "slope": 1.0, "intercept": range(4)})

SHEETS = {
    "boxes": lambda: boxes(MODELS, x="beta", hue="method", xlabel="beta", **WORDS),
    "box panels": lambda: boxes(
        MODELS, x="beta", hue="method", panel="task", diverged=True, columns=2, xlabel="b", **WORDS
    ),
    "box names": lambda: boxes(
        LONG, x="method", hue="method", panel="task", zero=True, mean=True, xlabel="m", **WORDS
    ),
    "box many": lambda: boxes(MANY, x="task", xlabel="task", **WORDS),
    "dots": lambda: boxes(MODELS, x="task", hue="method", box=False, xlabel="task", **WORDS),
    "bars": lambda: lines(
        MODELS, x="beta", y="auc", hue="method", panel="task", bars=True, log=True,
        zero=True, **WORDS,
    ),
    "styles": lambda: lines(MEANS, x="beta", y="mean", hue="method", style="task", **WORDS),
    "curves": lambda: lines(
        CURVES, x="fpr", y="high", hue="method", points=POINTS, panel="task", square=True, **WORDS
    ),
    "bands": lambda: bands(CURVES, panel="task", areas=MODELS, columns=2, **WORDS),
    "misses": lambda: bands(CURVES, panel="task", areas=MODELS, log=True, misses=True, **WORDS),
    "distribution": lambda: distribution(BAND, MODELS["auc"].dropna(), **WORDS),
    "fits": lambda: fits(SETTINGS, x=["omega", "tau"], y=METRICS, fit=polynomial_fit, **WORDS),
    "landscapes": lambda: landscapes(LANDSCAPES, EQUAL, PANELS, **WORDS),
}  # fmt: skip
SINGLE = {
    "roc": lambda **to: cw.plot_roc(ROC, points=[CHOSEN], title=TITLE[:60], **to),
    "band": lambda **to: cw.plot_band(ROC_BANDS, title=TITLE[:60], **to),
    "log band": lambda **to: cw.plot_band(ROC_BANDS, log=True, misses=True, title="t", **to),
    "spread": lambda **to: cw.plot_spread(AREAS, title="t", **to),
    "point": lambda **to: cw.plot_operating_point(cw.roc_curve(Y, SCORE), CHOSEN, title="t", **to),
    "calibration": lambda **to: cw.plot_calibration(Y, {"m": Y / 2, "n": 1 - Y}, title="t", **to),
    "landscape": lambda **to: cw.plot_landscape(10, **to),
}


def texts_of(figure):
    """Return all that is written in a figure; labels of ticks must not be on each other."""
    legends = [*figure.legends, *(axes.get_legend() for axes in figure.axes)]
    texts = [*figure.texts, *chain(*(legend.get_texts() for legend in legends if legend))]
    for axes in figure.axes:
        for axis, (low, high) in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim())):
            ticks = [tick for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high]
            labels = [tick.label1 for tick in ticks if tick.label1.get_visible()]
            places = [label.get_window_extent() for label in labels if not label.get_rotation()]
            assert not any(a.overlaps(b) for a, b in pairwise(places)), axes
            texts += [*labels, axis.label]
        texts += [*axes.texts, axes.title]
    return [text for text in texts if text.get_text()]


@pytest.mark.parametrize("name", [*SHEETS, *SINGLE])
def test_every_figure_is_whole_named_and_legible(name):
    figure = SHEETS[name]() if name in SHEETS else SINGLE[name]().figure
    figure.canvas.draw()
    panels = [axes for axes in figure.axes if axes.get_subplotspec()]
    for axes, place in ((axes, axes.get_subplotspec()) for axes in panels):
        assert axes.get_ylabel() or not place.is_first_col()
        assert axes.get_xlabel() or not place.is_last_row() or name in ("distribution", "spread")
    legends = figure.legends if name in SHEETS else [panels[0].get_legend()]
    assert any(legends) == (name not in ("box many", "fits", "landscapes", "landscape"))
    width, height = figure.canvas.get_width_height()
    texts = texts_of(figure)
    for box in (text.get_window_extent() for text in texts):
        assert -1 <= box.x0 <= box.x1 <= width + 1
        assert -1 <= box.y0 <= box.y1 <= height + 1
    if name in SINGLE:
        assert panels[0].get_title()
        given = Figure().add_subplot()
        assert SINGLE[name](ax=given) is given
    else:
        written = (figure.get_suptitle(), figure.texts[-1].get_text())
        assert [text.split() for text in written] == [text.split() for text in WORDS.values()]
        assert figure.get_figwidth() <= WIDTH
        assert min(text.get_fontsize() for text in texts) >= 9


SCRIPT = """
import sys
import curvewise as cw
from curvewise.figures.frames import boxes
from pandas import DataFrame
for known in (False, True):
    figures = [cw.plot_spread({"VS": [0.5, 0.6]}).figure, cw.plot_landscape(10).figure]
    [figure.canvas.draw() for figure in figures]
    boxes(DataFrame({"x": ["a"], "auc": [0.5]}), x="x").savefig("boxes.png")
    assert ("matplotlib.pyplot" in sys.modules) == known
    import matplotlib
    matplotlib.use("agg")
    from matplotlib import pyplot as plt
    assert plt.get_fignums() == ([1, 2] if known else [])
    assert not known or plt.gcf() is figures[1]
"""


def test_pyplot_knows_the_figures_if_it_was_there_before(tmp_path, monkeypatch):
    # Asked for a backend that nobody named, matplotlib imports pyplot to find one.
    monkeypatch.delenv("MPLBACKEND", raising=False)
    subprocess.run([sys.executable, "-W", "error", "-c", SCRIPT], cwd=tmp_path, check=True)


def points_of(axes, marker="o", color=None):
    """Return the points of all lines with a marker, and of one color if wanted."""
    drawn = [line for line in axes.get_lines() if line.get_marker() == marker]
    return [one.get_xydata() for one in drawn if color in (None, to_hex(one.get_color()).upper())]


def rows_of(frame, **wanted):
    return [row for row in frame.to_dict("records") if wanted.items() <= row.items()]


def test_boxes_have_quartiles_whiskers_and_every_model():
    values = np.append(RNG.normal(size=40), [-9.0, 9.0])
    axes = cw.plot_spread({"VS": values})
    low, middle, high = np.quantile(values, [0.25, 0.5, 0.75])
    within = [value for value in values if abs(value - (low + high) / 2) <= 2 * (high - low)]
    assert min(within) > -9
    corners = axes.patches[0].get_path().vertices[:, 1]
    assert (corners.min(), corners.max()) == pytest.approx((low, high))
    for line, start, end in zip(axes.lines, (low, high), (min(within), max(within)), strict=False):
        whisker = [(0, start), (0, end), (-0.12, end), (0.12, end)]
        np.testing.assert_allclose(line.get_xydata(), whisker, atol=1e-12)
    np.testing.assert_allclose(axes.lines[2].get_xydata(), [(-0.24, middle), (0.24, middle)])
    (dots,) = points_of(axes)
    np.testing.assert_array_equal(dots[:, 1], values)
    assert np.abs(dots[:, 0]).max() < 0.3
    assert len(set(dots[:, 0])) == len(values)


def test_groups_stand_side_by_side_with_one_color_a_method():
    table = DataFrame({"VS": [0.9, 0.8], "VS + LCT": [0.95, 0.9]})
    axes = cw.plot_spread({"beta = 10": dict(table), "beta = 100": {"CE": [0.5]}})
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["beta = 10", "beta = 100"]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["VS", "VS + LCT", "CE"]
    expected = (([0.9, 0.8], -0.2), ([0.95, 0.9], 0.2), ([0.5], 1))
    for color, (values, at) in zip(COLORS, expected, strict=False):
        (dots,) = points_of(axes, color=color)
        assert dots[:, 1].tolist() == values
        assert np.abs(dots[:, 0] - at).max() < 0.15
    flat = cw.plot_spread(table)
    assert [tick.get_text() for tick in flat.get_xticklabels()] == ["VS", "VS + LCT"]
    assert flat.get_legend() is None  # the axis names the methods


def test_boxes_of_a_frame_count_and_average_what_has_a_value():
    figure = boxes(MODELS, x="beta", hue="method", panel="task", mean=True, diverged=True)
    for axes, task in zip(figure.axes, TASKS, strict=True):
        assert [text.get_text() for text in axes.get_xticklabels()] == ["10", "100", "200"]
        lost = {(round(text.get_position()[0], 6), text.get_text()) for text in axes.texts}
        means = {round(x, 6): y for ((x, y),) in points_of(axes, "D")}
        for number, (method, color) in enumerate(METHODS.items()):
            for place, drawn in enumerate(points_of(axes, color=color)):
                rows = rows_of(MODELS, task=task, beta=(10, 100, 200)[place], method=method)
                values = [row["auc"] for row in rows if row["auc"] == row["auc"]]
                at = round(place + (number - 1) * 0.8 / 3, 6)
                np.testing.assert_array_equal(drawn[:, 1], values)
                assert np.abs(drawn[:, 0] - at).max() <= 0.4 * 0.8 / 3
                assert means[at] == pytest.approx(sum(values) / len(values))
                assert ((at, f"{9 - len(values)}\ndiv.") in lost) == (len(values) < 9)
    (axes,) = boxes(DataFrame({"x": ["a", "b"], "auc": [np.nan, 0.5]}), x="x", diverged=True).axes
    assert [text.get_text() for text in axes.texts] == ["1\ndiv."]


def test_lines_stand_at_their_x_with_their_bars_and_points():
    for axes, task in zip(SHEETS["bars"]().axes, TASKS, strict=True):
        assert axes.get_xscale() == "log"
        assert [text.get_text() for text in axes.get_xticklabels()] == ["10", "100", "200"]
        for method, drawn in zip(METHODS, axes.containers, strict=True):
            rows = rows_of(MEANS, task=task, method=method)
            along, values = np.array(drawn[0].get_xydata(), float).T
            np.testing.assert_array_equal(values, [row["mean"] for row in rows])
            np.testing.assert_allclose(along, [10, 100, 200], rtol=0.07)
            ends = [segment[:, 1] for segment in drawn[2][0].get_segments()]
            np.testing.assert_allclose(ends, [[row["min"], row["max"]] for row in rows])
    marked = DataFrame({"method": ["VS", "VS + LCT"], "fpr": [0.1, 0.2], "high": [0.3, 0.4]})
    one = CURVES[CURVES["task"] == TASKS[0]]
    (axes,) = lines(one, x="fpr", y="high", hue="method", square=True, points=marked).axes
    large = [line for line in axes.get_lines() if line.get_markersize() == 8]
    assert [line.get_xydata().tolist() for line in large] == [[[0.1, 0.3]], [[0.2, 0.4]]]
    assert [line.get_color() for line in large] == list(COLORS[:2])
    assert [key.get_marker() for key in axes.figure.legends[0].legend_handles] == ["o", "s"]


def test_bands_and_a_distribution_are_those_of_their_rows():
    for axes, task in zip(SHEETS["bands"]().axes, TASKS, strict=True):
        for method, color in list(METHODS.items())[:2]:
            rows = CURVES[(CURVES["task"] == task) & (CURVES["method"] == method)]
            drawn = [line for line in axes.get_lines() if line.get_color() == color]
            for line, column in zip(drawn, ("high", "low", "mean"), strict=True):
                np.testing.assert_array_equal(line.get_xydata(), rows[["fpr", column]])
            values = [row["auc"] for row in rows_of(MODELS, task=task, method=method)]
            assert drawn[-1].get_label() == f"{method}: AUC {np.nanmean(values):.4f}"
    left, right = distribution(BAND, MODELS["auc"][:2]).axes
    drawn = {line.get_linestyle(): line.get_ydata() for line in left.get_lines()}
    for style, column in (("-", "mean"), ("-.", "maximum"), ("--", "minimum")):
        np.testing.assert_array_equal(drawn[style], BAND[column])
    assert [points[:, 1].tolist() for points in points_of(right)] == [MODELS["auc"][:2].tolist()]


def test_landscapes_share_their_colours_and_fits_are_those_of_each_setting_alone():
    panels = SHEETS["landscapes"]().axes[:4]
    assert [axes.get_title() for axes in panels] == PANELS
    ((low, high),) = {axes.collections[0].get_clim() for axes in panels}
    assert -low == high >= 13
    for intercept, axes in enumerate(panels):
        line = axes.get_lines()[0].get_xydata()
        assert line.tolist() == [[-5, intercept - 5], [5, intercept + 5]]
    axes = SHEETS["fits"]().axes
    assert [one.get_title() for one in axes[2:]] == ["no variance"] * 2
    for one, name in zip(axes, ("omega", "tau"), strict=False):
        fit = polynomial_fit(SETTINGS[[name]], SETTINGS["auc"])
        dots, line = one.get_lines()
        np.testing.assert_array_equal(dots.get_xydata(), SETTINGS[[name, "auc"]])
        np.testing.assert_allclose(line.get_ydata(), fit.at(line.get_xdata()[:, None]))
        assert one.get_title() == f"$R^2$ = {fit.r2:.2f}"
