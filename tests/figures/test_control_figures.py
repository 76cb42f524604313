"""Figures of controls: what is drawn, not how it looks."""

import numpy as np
import pytest

from curvewise import InputError
from curvewise.figures.controls import (
    plot_arm_differences,
    plot_conditions,
    plot_growth,
    plot_methods,
)


def drawn(axes, marker):
    """Return the heights of all points with a marker."""
    lines = [line for line in axes.lines if line.get_marker() == marker]
    return [np.asarray(line.get_ydata(), float).tolist() for line in lines]


def test_differences_have_their_dots_means_and_zero():
    panels = {"mean": {"LCT": [0.1, 0.3], "control": []}, "std": {"LCT": [-0.1], "control": [0.2]}}
    figure = plot_arm_differences(panels, {"LCT": 1, "control": 2}, title="a")
    first, second = figure.axes
    assert drawn(first, "o") == [[0.1, 0.3]]
    assert drawn(first, "D")[:1] == [[0.2]]
    assert drawn(second, "o") == [[-0.1], [0.2]]
    assert first.lines[0].get_ydata() == [0, 0]
    assert [text.get_text() for text in first.get_xticklabels()] == ["LCT", "control"]
    with pytest.raises(InputError, match="got none"):
        plot_arm_differences({}, {}, title="a")


def test_conditions_leave_diverged_models_out_and_count_them():
    own = {"VS": [0.8, None, 0.9], "LCT": [None, None]}
    areas = {"a": {"short": {"0.1": own}}, "b": {"long": {"0.1": {"VS": [0.7]}}}}
    figure = plot_conditions(areas, xlabel="learning rate", title="")
    assert len(figure.axes) == 4
    first = figure.axes[0]
    assert drawn(first, "o") == [[0.8, 0.9]]
    assert [text.get_text() for text in first.texts] == ["1 div.", "2 div."]
    assert drawn(figure.axes[3], "o") == [[0.7]]
    with pytest.raises(InputError, match="got none"):
        plot_conditions({}, xlabel="", title="")


def test_growth_is_drawn_against_members_and_time():
    lines = [
        {"members": m, "seconds": 3.0 * m, "ensemble": 0.8 + 0.01 * m, "chosen": 0.8,
         "oracle": 0.9, "low": 0.7, "high": 0.95}
        for m in (1, 2, 4)
    ]  # fmt: skip
    figure = plot_growth({"a": {"VS": lines}, "b": {"VS": lines, "LCT": lines}}, title="")
    assert len(figure.axes) == 4
    above, below = figure.axes[0], figure.axes[2]
    np.testing.assert_array_equal([line.get_xdata() for line in above.lines], [[1, 2, 4]] * 3)
    np.testing.assert_array_equal([line.get_xdata() for line in below.lines], [[3, 6, 12]] * 3)
    np.testing.assert_allclose(above.lines[0].get_ydata(), [0.81, 0.82, 0.84])
    assert above.lines[2].get_linestyle() == "--"
    assert "cheating" in above.lines[2].get_label()
    with pytest.raises(InputError, match="got none"):
        plot_growth({}, title="")


def test_methods_have_a_dot_a_task_and_a_bar_at_the_mean():
    figure = plot_methods(
        {"CE": {"alone": [0.1, 0.2], "chosen": []}, "VS": {"alone": [0.0], "chosen": [0.4]}},
        ylabel="", title="",
    )  # fmt: skip
    axes = figure.axes[0]
    assert drawn(axes, "o")[:2] == [[0.1, 0.2], [0.0]]
    assert drawn(axes, "s")[:1] == [[0.4]]
    bars = [line.get_ydata() for line in axes.lines if line.get_linewidth() == 2]
    np.testing.assert_allclose(bars[:3], [[0.15] * 2, [0.0] * 2, [0.4] * 2])
    with pytest.raises(InputError, match="got none"):
        plot_methods({}, ylabel="", title="")
