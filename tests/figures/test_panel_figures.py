"""Panels: what is drawn in which, what is shared, and what a note replaces."""

import numpy as np
import pytest
from matplotlib.colors import to_hex

from curvewise import InputError
from curvewise.figures.curves import COLORS
from curvewise.figures.panels import (
    BandPanel,
    RangeLine,
    panel_axes,
    plot_band_panels,
    plot_range_panels,
    plot_spread_panels,
)
from curvewise.roc.curve import RocBand


def band(shift):
    fpr = np.array([0.0, 0.0, 0.1, 0.5, 1.0])
    mean = np.array([0.0, 0.1, 0.5 + shift, 0.8, 1.0])
    return RocBand(fpr, mean, mean - 0.05, np.minimum(mean + 0.05, 1), np.full(5, 0.02))


BANDS = {"VS": band(0.0), "VS + LCT": band(0.1)}
AREAS = {"VS": [0.7, 0.8], "VS + LCT": [0.8, 0.9]}


def texts(legend):
    return [text.get_text() for text in legend.get_texts()]


@pytest.mark.parametrize("log", [False, True])
def test_every_panel_has_its_bands_and_areas(log):
    panels = [BandPanel(name, BANDS, AREAS) for name in ("one", "two", "three", "four")]
    panels[2] = BandPanel("three", note="too few samples")
    figure = plot_band_panels(panels, columns=2, log=log, misses=log, title="t", caption="c")
    assert [axes.get_title() for axes in figure.axes] == ["one", "two", "three", "four"]
    assert texts(figure.axes[0].get_legend()) == [
        "VS: mean AUC 0.7500",
        "VS + LCT: mean AUC 0.8500",
    ]
    assert texts(figure.legends[0]) == ["maximum", "minimum", "mean \u00b1 1 std"]
    for number, axes in enumerate(figure.axes):
        drawn = {to_hex(line.get_color()).upper() for line in axes.lines}
        assert (set(COLORS[:2]) <= drawn) == (number != 2)
    assert [text.get_text() for text in figure.axes[2].texts] == ["too few samples"]
    assert figure.get_suptitle() == "t\nc"
    figure.canvas.draw()


def test_a_figure_of_notes_alone_is_a_figure():
    figure = plot_band_panels([BandPanel("one", note="nothing")])
    assert figure.legends == []


def test_boxes_share_one_legend():
    groups = {"raw, per batch": AREAS, "raw, per sample": AREAS}
    figure = plot_spread_panels({"a": groups, "b": groups, "c": groups}, columns=2)
    assert len(figure.axes) == 3
    assert all(axes.get_legend() is None for axes in figure.axes)
    assert texts(figure.legends[0]) == ["VS", "VS + LCT"]
    ticks = [text.get_text() for text in figure.axes[0].get_xticklabels()]
    assert ticks == ["raw,\nper batch", "raw,\nper sample"]
    assert [axes.get_ylabel() for axes in figure.axes] == ["AUC", "", "AUC"]


def test_lines_stand_at_their_beta_with_their_bars():
    line = RangeLine([5, 50, 500], [0.1, 0.2, 0.3], [0.0, 0.1, 0.3], [0.2, 0.25, 0.4])
    figure = plot_range_panels({"mean": {"a": line, "b": line}, "min": {"a": line}}, ylabel="gain")
    first = figure.axes[0]
    assert [text.get_text() for text in first.get_xticklabels()] == ["5", "50", "500"]
    assert first.get_xscale() == "log"
    assert [axes.get_ylabel() for axes in figure.axes] == ["gain", ""]
    points = [container.lines[0] for container in first.containers]
    for own in points:
        assert own.get_ydata().tolist() == [0.1, 0.2, 0.3]
        np.testing.assert_allclose(own.get_xdata(), [5, 50, 500], rtol=0.05)
    assert not np.array_equal(points[0].get_xdata(), points[1].get_xdata())
    (bars,) = first.containers[0].lines[2]
    ends = [segment[:, 1].tolist() for segment in bars.get_segments()]
    np.testing.assert_allclose(ends, [[0.0, 0.2], [0.1, 0.25], [0.3, 0.4]], atol=1e-12)
    assert texts(figure.legends[0]) == ["a", "b"]


def test_long_captions_are_broken_into_lines_that_fit():
    plot = plot_band_panels([BandPanel("one", BANDS, AREAS)], title="word " * 40, caption="end")
    plot.canvas.draw()
    box = plot._suptitle.get_window_extent()
    assert box.x0 >= 0
    assert box.x1 <= plot.bbox.width
    assert plot.get_suptitle().endswith("\nend")


def test_panels_fill_rows_of_the_width_asked_for():
    figure, axes = panel_axes(5, 3, width=2, height=1)
    assert figure.get_figwidth() == 6
    places = [one.get_subplotspec() for one in axes]
    assert [(place.rowspan.start, place.colspan.start) for place in places] == [
        (0, 0), (0, 1), (0, 2), (1, 0), (1, 1),
    ]  # fmt: skip


def test_bad_input():
    with pytest.raises(InputError, match="equally long"):
        RangeLine([1, 2], [0.1], [0.1], [0.1])
    with pytest.raises(InputError, match="at least one panel, got 0"):
        plot_band_panels([])
