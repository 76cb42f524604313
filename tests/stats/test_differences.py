"""Differences of two methods cell by cell and over seeds, against plain loops."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

from curvewise import InputError
from curvewise.stats.cells import CellAreas
from curvewise.stats.differences import cell_differences, count_better, over_seeds, values_of

AREAS = st.lists(st.floats(0, 1), min_size=2, max_size=6)


@given(st.lists(st.tuples(AREAS, AREAS), min_size=1, max_size=5))
def test_differences_are_those_of_numpy(pairs):
    cells = [CellAreas("a", 10.0, k, {"A": a, "B": b}) for k, (a, b) in enumerate(pairs)]
    for line, (a, b) in zip(cell_differences(cells, "A", "B").lines, pairs, strict=True):
        assert line.mean == pytest.approx(np.mean(b) - np.mean(a), abs=1e-9)
        assert line.min == pytest.approx(min(b) - min(a), abs=1e-9)
        assert line.max == pytest.approx(max(b) - max(a), abs=1e-9)
        assert line.std == pytest.approx(np.std(b, ddof=1) - np.std(a, ddof=1), abs=1e-9)


def test_cells_that_lack_a_label_are_left_out():
    cells = [
        CellAreas("a", None, 0, {"A": [0.5], "B": [0.6]}),
        CellAreas("b", None, 0, {"A": [0.5]}, diverged={"B": 3}),
    ]
    lines = cell_differences(cells, "A", "B").lines
    assert [line.task for line in lines] == ["a"]
    assert values_of(lines, "std") == []  # one model has none
    with pytest.raises(InputError, match="label"):
        cell_differences(cells, "A", "C")


def test_ranges_over_seeds_by_task_and_beta():
    gains = {("a", 5.0): [0.1, -0.1, 0.3], ("a", 10.0): [0.2], ("b", 5.0): [-0.1, -0.2]}
    cells = [
        CellAreas(task, beta, seed, {"A": [0.5, 0.5], "B": [0.5 + gain, 0.5 + gain]})
        for (task, beta), own in gains.items()
        for seed, gain in enumerate(own)
    ]
    lines = over_seeds(cell_differences(cells, "A", "B").lines, "mean").lines
    assert [(line.task, line.beta) for line in lines] == list(gains)
    for line, own in zip(lines, gains.values(), strict=True):
        assert line.average == pytest.approx(sum(own) / len(own))
        assert (line.low, line.high) == (pytest.approx(min(own)), pytest.approx(max(own)))
        assert (line.seeds, line.better) == (len(own), sum(gain > 0 for gain in own))


def test_less_spread_is_better():
    assert count_better([0.1, -0.1, -0.2, 0.0], "std") == 2
    assert count_better([0.1, -0.1, -0.2, 0.0], "min") == 1
    with pytest.raises(InputError, match="statistic"):
        values_of([], "median")
