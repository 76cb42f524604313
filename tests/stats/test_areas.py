"""Statistics of AUC in cells, by method, and their differences, against plain loops."""

from statistics import mean, stdev

import numpy as np
import pytest
from hypothesis import given, strategies as st
from model_frames import area_frame

from curvewise import InputError
from curvewise.stats.areas import BETTER, by_cell, by_method, differences

AREAS = st.lists(st.floats(0, 1), min_size=2, max_size=6)
CELLS = [
    ("a", 100.0, 0, {"VS": [0.5, 0.7, 0.9], "LCT": [0.6, 0.65]}),
    ("a", 10.0, 0, {"VS": [0.8, 0.7], "LCT": [0.9]}),
    ("a", None, 1, {"VS": [0.4], "LCT": [0.3, None]}),
]


def test_cells_have_the_statistics_of_their_models():
    found = by_cell(area_frame(CELLS))
    expected = [(*cell[:3], method, own) for cell in CELLS for method, own in cell[3].items()]
    for row, (task, beta, seed, method, areas) in zip(found.itertuples(), expected, strict=True):
        there = [area for area in areas if area is not None]
        assert (row.task, row.seed, row.method) == (task, seed, method)
        assert row.beta == beta or (np.isnan(row.beta) and beta is None)
        assert (row.models, row.diverged) == (len(there), len(areas) - len(there))
        assert (row.min, row.max) == (min(there), max(there))
        assert row.mean == pytest.approx(mean(there), abs=1e-12)
        if len(there) > 1:
            assert row.std == pytest.approx(stdev(there), abs=1e-12)  # divided by models - 1
        else:
            assert np.isnan(row.std)


def test_a_method_is_averaged_over_cells_not_over_models():
    cells = [
        ("a", None, 0, {"VS": [0.5, 0.7, None, None], "CE": [0.6], "SAM": [None, None]}),
        ("b", None, 0, {"VS": [0.9, 0.8, 0.7, 0.8]}),
        ("c", None, 0, {"VS": [0.4]}),
    ]
    vs, ce, sam = by_method(area_frame(cells)).to_dict("records")
    assert vs == {
        "method": "VS",
        "cells": 3,
        "models": 7,
        "diverged": 2,
        "mean": pytest.approx((0.6 + 0.8 + 0.4) / 3),
        "min": pytest.approx((0.5 + 0.7 + 0.4) / 3),
        "max": pytest.approx((0.7 + 0.9 + 0.4) / 3),
        "std": pytest.approx((stdev([0.5, 0.7]) + stdev([0.9, 0.8, 0.7, 0.8])) / 2),
    }
    assert (ce["cells"], ce["models"], ce["mean"]) == (1, 1, 0.6)
    assert np.isnan(ce["std"])
    assert (sam["method"], sam["cells"], sam["models"], sam["diverged"]) == ("SAM", 0, 0, 2)
    assert np.isnan(sam["mean"])


@given(st.lists(st.tuples(AREAS, AREAS), min_size=1, max_size=5))
def test_differences_are_those_of_numpy(pairs):
    cells = [("a", 10.0, k, {"A": a, "B": b}) for k, (a, b) in enumerate(pairs)]
    found = differences(area_frame(cells), "A", "B")
    for row, (a, b) in zip(found.itertuples(), pairs, strict=True):
        assert row.mean == pytest.approx(np.mean(b) - np.mean(a), abs=1e-9)
        assert row.min == pytest.approx(min(b) - min(a), abs=1e-9)
        assert row.max == pytest.approx(max(b) - max(a), abs=1e-9)
        assert row.std == pytest.approx(np.std(b, ddof=1) - np.std(a, ddof=1), abs=1e-9)


def test_cells_that_lack_a_method_are_left_out():
    cells = [
        ("a", None, 0, {"A": [0.5], "B": [0.6]}),
        ("b", None, 0, {"A": [0.5], "B": [None]}),
        ("c", None, 0, {"B": [0.5]}),
    ]
    found = differences(area_frame(cells), "A", "B")
    assert found["task"].tolist() == ["a"]
    assert list(found) == ["task", "beta", "seed", *BETTER]
    assert np.isnan(found["std"]).all()  # one model has none
    with pytest.raises(InputError, match="method must be one of 'A', 'B', got 'C'"):
        differences(area_frame(cells), "A", "C")


def test_rounding_errors_are_no_differences():
    cells = [("a", 9.0, 0, {"A": [0.1 + 0.2], "B": [0.3]})]
    assert differences(area_frame(cells), "A", "B")["mean"].tolist() == [0.0]
