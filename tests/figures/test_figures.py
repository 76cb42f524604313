"""Figures: what is drawn, where and under which name, not how the pixels look."""

import subprocess
import sys

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from pandas import DataFrame

from curvewise import (
    InputError,
    choose_operating_point,
    plot_band,
    plot_roc,
    plot_spread,
    roc_band,
    roc_curve,
)
from curvewise.figures.curves import COLORS, LOWEST_RATE, plot_differences

RNG = np.random.default_rng(0)
Y = np.arange(400) % 4 == 0


def random_curves(shift):
    return [roc_curve(Y, RNG.normal(size=400) + shift * Y) for _ in range(5)]


CURVES = {"VS": random_curves(1.0), "VS + LCT": random_curves(2.0)}
BANDS = {name: roc_band(curves) for name, curves in CURVES.items()}
AREAS = {name: [curve.auc for curve in curves] for name, curves in CURVES.items()}


def lines_of(axes, color):
    """Return the lines that have points, by their style."""
    drawn = [line for line in axes.get_lines() if len(line.get_xdata())]
    return {line.get_linestyle(): line for line in drawn if to_hex(line.get_color()) == color}


def shades_of(axes):
    """Return the shaded regions' corners, in the order of the bands."""
    shades = [shade for shade in axes.collections if isinstance(shade, PolyCollection)]
    return [shade.get_paths()[0].vertices for shade in shades if shade.get_paths()]


def legend_of(axes):
    return [text.get_text() for text in axes.get_legend().get_texts()]


def rendered(axes):
    """Draw, and return the size of the figure and the boxes of what is written in it."""
    canvas = axes.figure.canvas
    assert isinstance(canvas, FigureCanvasAgg)
    canvas.draw()
    left, right = axes.get_xlim()
    # Matplotlib keeps labels of ticks beyond the limits, and does not draw them.
    ticks = [tick for tick in axes.get_xticklabels() if left <= tick.get_position()[0] <= right]
    texts = [*ticks, axes.xaxis.label, axes.yaxis.label, axes.title]
    boxes = [text.get_window_extent() for text in texts if text.get_text()]
    if axes.get_legend():
        boxes.append(axes.get_legend().get_window_extent())
    return canvas.get_width_height(), boxes


def assert_nothing_is_cut_off(axes):
    (width, height), boxes = rendered(axes)
    for box in boxes:
        assert box.x0 >= 0, box
        assert box.y0 >= 0, box
        assert box.x1 <= width, box
        assert box.y1 <= height, box


def test_band_lines_are_mean_minimum_maximum():
    axes = plot_band(BANDS, title="digits")
    assert axes.get_title() == "digits"
    for color, band in zip(COLORS, BANDS.values(), strict=False):
        lines = lines_of(axes, color.lower())
        assert set(lines) == {"-", "--", "-."}
        for style, values in (("-", band.mean), ("--", band.low), ("-.", band.high)):
            np.testing.assert_array_equal(lines[style].get_xdata(), band.fpr)
            np.testing.assert_array_equal(lines[style].get_ydata(), values)


def test_band_shades_one_std_within_the_square():
    axes = plot_band(BANDS)
    shades = shades_of(axes)
    assert len(shades) == 2
    for corners, band in zip(shades, BANDS.values(), strict=True):
        for position in (5, 200, 800):
            x = band.fpr[position]
            there = corners[np.isclose(corners[:, 0], x, atol=1e-12), 1]
            edges = np.clip([band.mean[position] - s * band.std[position] for s in (1, -1)], 0, 1)
            assert (there.min(), there.max()) == pytest.approx(tuple(edges))
        assert corners[:, 1].min() >= 0
        assert corners[:, 1].max() <= 1


def test_band_of_one_curve_names_no_edges():
    one = roc_band([roc_curve([0, 1, 0, 1], [0.1, 0.9, 0.6, 0.4])])
    assert legend_of(plot_band({"VS": one})) == ["VS: mean AUC 0.750"]


def test_band_legend_names_methods_with_their_area_and_what_lines_are():
    styles = ["maximum", "minimum", "mean ± 1 std"]
    means = [np.mean(areas) for areas in AREAS.values()]
    exact = [
        f"VS: mean AUC {means[0]:.4f}",
        f"VS + LCT: mean AUC {means[1]:.4f}",
        *styles,
    ]
    assert legend_of(plot_band(BANDS, areas=AREAS)) == exact
    names = legend_of(plot_band(BANDS))
    assert names[2:] == styles
    for name, mean in zip(names, means, strict=False):
        assert float(name.split()[-1]) == pytest.approx(mean, abs=1.5e-3)
        assert len(name.split()[-1]) == len("0.123")  # no digits that a grid cannot give


@pytest.mark.parametrize("misses", [False, True])
def test_logarithmic_band_starts_at_the_lowest_rate_on_the_curve(misses):
    grid = np.geomspace(1e-4, 1, 300)
    curves = CURVES["VS"]
    axes = plot_band({"VS": roc_band(curves, grid)}, log=True, misses=misses)
    assert axes.get_xscale() == "log"
    assert axes.get_xlim() == (LOWEST_RATE, 1)
    line = lines_of(axes, COLORS[0].lower())["-"]
    x, y = line.get_xdata(), line.get_ydata()
    assert x[0] == LOWEST_RATE
    assert len(x) > 200
    assert (np.diff(x) > 0).all()
    expected = np.mean([curve.tpr_at(x[1:]) for curve in curves], axis=0)
    np.testing.assert_allclose(y[1:], 1 - expected if misses else expected, atol=1e-12)
    # Below the first negative, a 300th, the rate is the one at FPR 0.
    at_zero = np.mean([curve.tpr_at(0.0) for curve in curves])
    assert at_zero > 0
    assert y[0] == pytest.approx(1 - at_zero if misses else at_zero)


@pytest.mark.parametrize("log", [False, True])
def test_misses_are_drawn_logarithmically_to_below_one_sample(log):
    axes = plot_band(BANDS, misses=True, log=log)
    assert axes.get_yscale() == "log"
    assert axes.get_ylabel() == "1 - true positive rate"
    smallest = min((1 - band.low)[band.low < 1 - 1e-9].min() for band in BANDS.values())
    assert axes.get_ylim()[0] == pytest.approx(smallest / 10)
    perfect = roc_band([roc_curve([0, 0, 1, 1], [1, 2, 3, 4])])
    rendered(plot_band({"perfect": perfect}, misses=True, log=log))


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("misses", [False, True])
def test_nothing_of_a_band_is_cut_off(log, misses):
    axes = plot_band(BANDS, areas=AREAS, log=log, misses=misses, title="digits:8, beta = 100")
    assert_nothing_is_cut_off(axes)


def test_spread_shows_every_model_and_the_quartiles():
    areas = {"VS": RNG.uniform(0.7, 0.9, 48), "VS + LCT": RNG.uniform(0.8, 0.9, 31)}
    axes = plot_spread(areas, title="digits")
    assert [tick.get_text() for tick in axes.get_xticklabels()] == list(areas)
    assert (axes.get_ylabel(), axes.get_title()) == ("AUC", "digits")
    assert axes.get_legend() is None  # the axis names the methods
    for position, (color, values) in enumerate(zip(COLORS, areas.values(), strict=False)):
        (dots,) = [
            line
            for line in axes.get_lines()
            if line.get_marker() == "o" and to_hex(line.get_color()) == color.lower()
        ]
        np.testing.assert_array_equal(dots.get_ydata(), values)
        assert np.abs(dots.get_xdata() - position).max() < 0.3
        assert len(set(dots.get_xdata())) == len(values)
        box = axes.patches[position].get_path().vertices
        quartiles = np.quantile(values, [0.25, 0.75])
        assert (box[:, 1].min(), box[:, 1].max()) == pytest.approx(tuple(quartiles))
        assert to_hex(axes.patches[position].get_facecolor()) == color.lower()
        medians = [
            line.get_ydata()[0]
            for line in axes.get_lines()
            if line.get_color() == "black" and abs(np.mean(line.get_xdata()) - position) < 0.3
        ]
        assert medians == pytest.approx([np.median(values)])


def test_whiskers_reach_the_farthest_value_within_one_and_a_half_boxes():
    values = np.append(RNG.normal(size=40), [-9.0, 9.0])
    axes = plot_spread({"VS": values})
    low, middle, high = np.quantile(values, [0.25, 0.5, 0.75])
    within = [value for value in values if abs(value - (low + high) / 2) <= 2 * (high - low)]
    expected = [
        [(0, low), (0, min(within))],
        [(-0.12, min(within)), (0.12, min(within))],
        [(0, high), (0, max(within))],
        [(-0.12, max(within)), (0.12, max(within))],
        [(-0.24, middle), (0.24, middle)],
    ]
    assert min(within) > -9
    np.testing.assert_allclose([line.get_xydata() for line in axes.get_lines()[:5]], expected)


def test_dots_stay_where_they_are():
    values = RNG.uniform(size=20)
    first, second = (plot_spread({"VS": values}).get_lines()[-1].get_xdata() for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_groups_stand_side_by_side_with_one_color_a_method():
    areas = {
        "beta = 10": {"VS": [0.9, 0.8], "VS + LCT": [0.95, 0.9]},
        "beta = 100": {"VS + LCT": [0.85, 0.8], "CE": [0.5]},
    }
    axes = plot_spread(areas)
    assert [tick.get_text() for tick in axes.get_xticklabels()] == list(areas)
    assert legend_of(axes) == ["VS", "VS + LCT", "CE"]
    dots = [line for line in axes.get_lines() if line.get_marker() == "o"]
    found = [(to_hex(line.get_color()), list(line.get_ydata())) for line in dots]
    colors = [color.lower() for color in COLORS]
    assert found == [
        (colors[0], [0.9, 0.8]),
        (colors[1], [0.95, 0.9]),
        (colors[1], [0.85, 0.8]),
        (colors[2], [0.5]),
    ]
    centers = [np.mean(patch.get_path().vertices[:4, 0]) for patch in axes.patches]
    # A method keeps its place within the group, also where another is missing.
    assert centers == pytest.approx([-0.8 / 3, 0, 1, 1 + 0.8 / 3], abs=0.01)
    legend = axes.get_legend().legend_handles
    assert [to_hex(handle.get_color()) for handle in legend] == colors[:3]


def test_nothing_of_a_spread_is_cut_off_or_overlaps():
    names = ["cross-entropy", "weighted cross-entropy", "focal", "logit adjustment", "VS + LCT"]
    flat = plot_spread({name: RNG.uniform(size=9) for name in names})
    assert_nothing_is_cut_off(flat)
    assert {tick.get_rotation() for tick in flat.get_xticklabels()} == {30}
    short = plot_spread({"VS": [0.5, 0.6], "VS + LCT": [0.7, 0.8]}, title="digits:8")
    assert_nothing_is_cut_off(short)
    assert {tick.get_rotation() for tick in short.get_xticklabels()} == {0}
    boxes = [tick.get_window_extent() for tick in short.get_xticklabels()]
    assert boxes[0].x1 < boxes[1].x0
    pairs = {f"fashion-mnist:{k}/{k + 1}": {"VS": [0.5], "LCT": [0.6]} for k in range(45)}
    wide = plot_spread(pairs)
    assert wide.figure.get_figwidth() == 24
    assert_nothing_is_cut_off(wide)


def test_curves_and_operating_points_are_drawn():
    curve = CURVES["VS"][0]
    point = choose_operating_point(Y, RNG.normal(size=400) + Y, max_fpr=0.2)
    axes = plot_roc({"VS": curve}, points=[point])
    line = lines_of(axes, COLORS[0].lower())["-"]
    np.testing.assert_array_equal(line.get_xdata(), curve.fpr)
    np.testing.assert_array_equal(line.get_ydata(), curve.tpr)
    assert legend_of(axes)[0] == f"VS: AUC {curve.auc:.4f}"
    assert f"TPR {point.tpr:.3f}, FPR {point.fpr:.4f}" in legend_of(axes)[1]
    assert_nothing_is_cut_off(axes)


@pytest.mark.parametrize(
    ("draw", "data"),
    [(plot_roc, {"VS": CURVES["VS"][0]}), (plot_band, BANDS), (plot_spread, AREAS)],
)
def test_figures_are_drawn_on_given_axes(draw, data):
    given = Figure().add_subplot()
    assert draw(data, ax=given) is given
    assert given.get_lines()
    assert draw(data) is not given
    with pytest.raises(InputError, match=r"needs .*at least one"):
        draw({})


@pytest.mark.parametrize(
    ("areas", "message"),
    [
        ({"VS": [0.5, np.nan]}, "areas of 'VS' must be a list of finite numbers"),
        ({"VS": []}, "areas of 'VS' must be a list of finite numbers"),
        ({"beta = 10": {"VS": []}}, "areas of 'VS' must be a list of finite numbers"),
        ({"beta = 10": {}}, "at least one method"),
        ({"beta = 10": {"VS": [0.5]}, "CE": [0.4]}, r"all be in groups or none, got \['CE'\]"),
    ],
)
def test_areas_that_cannot_be_drawn_are_refused(areas, message):
    with pytest.raises(InputError, match=message):
        plot_spread(areas)


def test_areas_of_other_methods_are_refused():
    with pytest.raises(InputError, match=r"must be of the bands \['VS', 'VS \+ LCT'\], got \['VS'"):
        plot_band(BANDS, areas={"VS": [0.5]})


def test_data_without_names_are_refused():
    curve, band, p = CURVES["VS"][0], BANDS["VS"], np.array([0.1, 0.9, 0.6, 0.4])
    cases = [
        (lambda: plot_roc(curve), r"plot_roc needs curves by name, .*'model': .*, got RocCurve"),
        (lambda: plot_roc([curve]), "got list"),
        (lambda: plot_roc({"VS": (p, p, p)}), "each a RocCurve, got tuple for 'VS'"),
        (lambda: plot_band(band), "plot_band needs bands by name, .*, got RocBand"),
        (lambda: plot_band({"VS": curve}), "each a RocBand, got RocCurve for 'VS'"),
        (lambda: plot_band({"VS": band}, areas=[0.5]), "areas by name, .*, got list"),
        (lambda: plot_spread([0.5, 0.6]), "plot_spread needs areas by method, .*, got list"),
        (lambda: plot_spread({"VS": ["good"]}), "list of finite numbers, got .*good"),
        (lambda: plot_differences([0.1]), "plot_differences needs differences by name"),
        (lambda: plot_roc({"VS": curve}, points=[(0.1, 0.9)]), r"operating points, got \[\(0.1"),
        (
            lambda: plot_roc({"VS": curve}, points=choose_operating_point(Y, Y * 1.0, max_fpr=0)),
            "must be a list of operating points, got OperatingPoint",
        ),
    ]
    for draw, message in cases:
        with pytest.raises(InputError, match=message) as caught:
            draw()
        assert "\n" not in str(caught.value)


def test_a_table_has_its_columns_drawn():
    axes = plot_spread(DataFrame({"VS": [0.5, 0.6], "VS + LCT": [0.7, 0.8]}))
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["VS", "VS + LCT"]


def test_the_legend_of_curves_is_below_the_axes_or_within_where_it_would_be_cut_off():
    curves = {name: found[0] for name, found in CURVES.items()}
    point = choose_operating_point(Y, RNG.normal(size=400) + Y, max_fpr=0.2)
    ours = plot_roc(curves, points=[point])
    assert_nothing_is_cut_off(ours)
    below = ours.get_legend().get_window_extent()
    assert below.y1 < ours.xaxis.label.get_window_extent().y0
    plain = Figure()
    FigureCanvasAgg(plain)
    theirs = plot_roc(curves, points=[point], ax=plain.add_subplot())
    assert_nothing_is_cut_off(theirs)
    box, square = theirs.get_legend().get_window_extent(), theirs.get_window_extent()
    assert square.y0 <= box.y0 < box.y1 <= square.y1


DRAWN = """
import sys
{importing}
import curvewise as cw
curve = cw.roc_curve([0, 1, 0, 1], [0.1, 0.9, 0.6, 0.4])
figures = [cw.plot_spread({{"VS": [0.5, 0.6]}}).figure, cw.plot_roc({{"model": curve}}).figure]
[figure.canvas.draw() for figure in figures]
"""
KNOWN = """
from matplotlib import pyplot as plt
assert plt.get_fignums() == [1, 2]
assert plt.gcf() is figures[1] and plt.figure(1) is figures[0]
plt.savefig("seen.png")
"""
UNKNOWN = """
assert "matplotlib.pyplot" not in sys.modules
from matplotlib import pyplot as plt
assert plt.get_fignums() == []
figures[0].savefig("seen.png")
"""


@pytest.mark.parametrize(
    ("importing", "found"),
    [("from matplotlib import pyplot", KNOWN), ("", UNKNOWN)],
    ids=["pyplot in use", "without"],
)
def test_pyplot_knows_the_figures_if_it_was_there_before(importing, found, tmp_path, monkeypatch):
    # Asked for a backend that nobody named, matplotlib imports pyplot to find one.
    monkeypatch.delenv("MPLBACKEND", raising=False)
    if importing:
        monkeypatch.setenv("MPLBACKEND", "agg")
    script = DRAWN.format(importing=importing) + found
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "seen.png").stat().st_size > 1000
