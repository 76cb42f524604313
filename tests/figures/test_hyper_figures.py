"""Figures of hyperparameters: what is drawn and where, not how the pixels look."""

import numpy as np
import pytest
from matplotlib.colors import to_hex

from curvewise import InputError
from curvewise.figures.curves import COLORS
from curvewise.figures.hyper import (
    MarkedCurve,
    Panel,
    plot_choices,
    plot_fits,
    plot_marked_curves,
)
from curvewise.stats.variance import polynomial_fit

AREAS = {
    "VS": {"VS": [0.6, 0.7, 0.8]},
    "tau": {"top": [0.7, 0.75], "middle": [0.8, 0.85]},
}


def panel(y):
    x = np.arange(5.0)
    values = np.asarray(y, dtype=np.float64)
    return Panel("tau", "TPR", x, values, polynomial_fit(x[:, None], values))


def test_boxes_stand_about_the_name_of_their_choice():
    (axes,) = plot_choices(AREAS, title="a title").axes
    dots = [line for line in axes.get_lines() if line.get_marker() == "o"]
    middles = [line.get_xdata().mean() for line in dots]
    assert middles == pytest.approx([0, 0.82, 1.18], abs=0.1)
    assert [list(line.get_ydata()) for line in dots] == [
        own for group in AREAS.values() for own in group.values()
    ]
    assert [to_hex(line.get_color()).upper() for line in dots] == list(COLORS[:3])
    assert axes.get_title() == "a title"


def test_a_legend_names_variants_where_there_are_several():
    (legend,) = plot_choices(AREAS).legends
    assert [text.get_text() for text in legend.get_texts()] == ["VS", "top", "middle"]
    assert plot_choices({"a": {"VS": [0.5]}, "b": {"VS": [0.6]}}).legends == []


def test_a_metric_that_does_not_vary_has_no_share():
    left, right = plot_fits([[panel([0.0] * 5), panel([0, 1, 0, 1, 0])]]).axes
    assert left.get_title() == "no variance"
    assert right.get_title().startswith("$R^2$ = 0.")
    np.testing.assert_allclose(left.get_lines()[1].get_ydata(), 0, atol=1e-12)


def test_rows_share_their_axis():
    axes = plot_fits([[panel([0, 1, 2, 3, 4]), panel([5, 6, 7, 8, 9])]]).axes
    assert axes[0].get_ylim() == axes[1].get_ylim()


def test_nothing_to_draw_is_refused():
    with pytest.raises(InputError, match="at least one choice, got none"):
        plot_choices({})
    with pytest.raises(InputError, match=r"rows of one length, got \[1, 2\]"):
        plot_fits([[panel(range(5))], [panel(range(5))] * 2])
    with pytest.raises(InputError, match="at least one curve, got none"):
        plot_marked_curves({})


def test_curves_on_each_other_differ_in_style_and_marker():
    curve = MarkedCurve(np.array([0.0, 0.0, 1.0]), np.array([0.0, 0.5, 1.0]), 0.75, (0.0, 0.5))
    (axes,) = plot_marked_curves({f"tau = {tau}": curve for tau in range(4)}).axes
    lines = [line for line in axes.get_lines() if line.get_label().startswith("tau")]
    assert len({line.get_linestyle() for line in lines}) == 4
    assert len({line.get_color() for line in lines}) == 4
    marks = [line for line in axes.get_lines() if list(line.get_ydata()) == [0.5]]
    assert len({line.get_marker() for line in marks}) == 4
