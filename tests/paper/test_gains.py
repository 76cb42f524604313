"""LCT less VS in tables and in words."""

import numpy as np
import pytest
from scipy import stats

from curvewise.paper.gains import ahead, gain_table, gains, paired_table, told
from curvewise.stats.cells import CellAreas
from curvewise.stats.differences import CellDifference

RNG = np.random.default_rng(1)
CELLS = [
    CellAreas("a", beta, 0, {"VS": RNG.uniform(0.5, 0.8, 6), "VS + LCT": RNG.uniform(0.55, 0.8, 6)})
    for beta in (5.0, 10.0, 20.0, 50.0)
]


def test_paired_table_against_scipy():
    rows = {row["AUC"]: row for row in paired_table(CELLS)}
    for name, take in (("mean", np.mean), ("min", np.min), ("max", np.max)):
        first, second = (
            [take(cell.areas[label]) for cell in CELLS] for label in ("VS", "VS + LCT")
        )
        assert rows[name]["t-test p"] == pytest.approx(stats.ttest_rel(second, first).pvalue)
        assert rows[name]["Wilcoxon p"] == pytest.approx(stats.wilcoxon(second, first).pvalue)
        assert rows[name]["LCT better"] == sum(b > a for a, b in zip(first, second, strict=True))


def test_a_row_names_what_lct_is_better_in():
    cell = CellAreas("a", None, 0, {"VS": [0.5, 0.7], "VS + LCT": [0.6, 0.65]})
    (row,) = gain_table(gains([cell]))
    assert row["LCT better in"] == "mean, min, std"
    assert row["max"] == pytest.approx(-0.05)
    worse = CellAreas("a", None, 0, {"VS": [0.8, 0.8], "VS + LCT": [0.6, 0.65]})
    assert gain_table(gains([worse]))[0]["LCT better in"] == "nothing"


def test_ahead_wants_every_statistic_in_every_cell():
    good = CellDifference("a", 1.0, 0, max=0.1, mean=0.1, min=0.1, std=-0.1)
    bad = CellDifference("b", 1.0, 0, max=0.1, mean=-0.01, min=0.1, std=0.01)
    assert ahead([good], ("mean", "min", "max", "std"))
    assert not ahead([good, bad], ("mean",))
    assert ahead([good, bad], ("mean",), tie=0.02)
    assert not ahead([good, bad], ("std",))
    assert not ahead([], ("mean",))


def test_single_models_have_no_std_and_are_told_without_a_warning():
    cell = CellAreas("a", None, 0, {"VS": [0.5], "VS + LCT": [0.6]})
    assert told(gains([cell]), ("mean", "std")) == "mean in 1 of 1 (+0.1000), std in 0 of 0 (nan)"
