"""The page on tables is what its committed means say."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from benchmarks.tabular.datasets import names_of_half
from benchmarks.tabular.peers import METHODS, UNRANKED
from benchmarks.tabular.ranking import DIGITS
from scipy.stats import rankdata

from curvewise.stats.comparisons import signed_rank_p

RESULTS = Path(__file__).parents[2] / "docs" / "results"
PAGE = (RESULTS / "tabular.md").read_text()
MEANS = pd.read_csv(RESULTS / "tabular.csv")
RANKED = MEANS[~MEANS["method"].isin(UNRANKED)]


def by_base(frame: pd.DataFrame, measure: str) -> pd.DataFrame:
    means = frame.groupby(["base", "method"])[measure].mean()
    return means.unstack()


def row_of(method: str, table: str) -> list[str]:
    rows = [line for line in table.splitlines() if line.startswith(f"| {method} ")]
    assert rows, method
    return [cell.strip() for cell in rows[0].strip("|").split("|")]


def test_every_method_has_every_table():
    assert set(MEANS["dataset"]) == set(names_of_half("test"))
    counts = MEANS.groupby("method")["dataset"].nunique()
    assert (counts == 22).all()
    assert set(MEANS["method"]) <= set(METHODS)
    assert MEANS["folds"].nunique() == 1


@pytest.mark.parametrize("method", sorted(set(RANKED["method"])))
def test_ranks_and_means(method):
    table = PAGE.partition("## Probabilities")[0]
    label = f"{method} (blend)" if method == "tree-blend" else method
    cells = row_of(label, table)
    auc = by_base(RANKED, "auc")
    ranks = np.mean([rankdata(-row) for row in auc.to_numpy().round(DIGITS)], axis=0)
    rank = dict(zip(auc.columns, ranks, strict=True))[method]
    assert float(cells[1]) == pytest.approx(rank, abs=0.006)
    assert float(cells[2]) == pytest.approx(auc[method].mean(), abs=6e-5)
    own = MEANS[MEANS["method"] == method]
    assert float(cells[3]) == pytest.approx(own["auc"].mean(), abs=6e-5)
    assert float(cells[4]) == pytest.approx(by_base(own, "tpr_at_1").mean().item(), abs=6e-4)


def test_ours_is_first():
    auc = by_base(RANKED, "auc")
    assert auc.mean().idxmax() == "lct"
    ranks = [rankdata(-row) for row in auc.to_numpy().round(DIGITS)]
    assert auc.columns[np.argmin(np.mean(ranks, axis=0))] == "lct"


@pytest.mark.parametrize("other", sorted(set(RANKED["method"]) - {"lct"}))
def test_the_pairs(other):
    auc = by_base(RANKED, "auc")
    gaps = (auc["lct"] - auc[other]).round(DIGITS)
    line = next(
        line
        for line in PAGE.splitlines()
        if line.startswith(f"| {other} |") and len(line) < 90 and (" | +" in line or " | -" in line)
    )
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    assert [int(cell) for cell in cells[1:4]] == [
        (gaps > 0).sum(),
        (gaps == 0).sum(),
        (gaps < 0).sum(),
    ]
    assert float(cells[4]) == pytest.approx((auc["lct"] - auc[other]).mean(), abs=6e-5)
    assert cells[5] == f"{signed_rank_p(gaps.to_numpy()):.2g}"


def test_probabilities():
    table = PAGE.partition("## Probabilities")[2]
    brier = by_base(MEANS, "brier")
    for method in ("lct", "isotonic-forest", "forest"):
        cells = row_of(method, table)
        assert float(cells[2]) == pytest.approx(brier[method].mean(), abs=6e-5)
        error = by_base(MEANS, "calibration_error")[method].mean()
        assert float(cells[4]) == pytest.approx(error, abs=6e-5)
    assert brier["lct"].mean() < brier["isotonic-forest"].mean()
