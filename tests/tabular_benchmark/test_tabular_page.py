"""The page on tables is what its committed means say."""

import re
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
    return frame.groupby(["base", "method"])[measure].mean().unstack()


def row_of(method: str, table: str) -> list[str]:
    rows = [line for line in table.splitlines() if line.startswith(f"| {method} ")]
    assert rows, method
    return [cell.strip() for cell in rows[0].strip("|").split("|")]


def test_every_method_has_every_table_its_ranks_and_means():
    table = PAGE.partition("## Probabilities")[0]
    auc = by_base(RANKED, "auc")
    ranks = np.mean([rankdata(-row) for row in auc.to_numpy().round(DIGITS)], axis=0)
    for method, rank in zip(auc.columns, ranks, strict=True):
        own = MEANS[MEANS["method"] == method]
        cells = row_of(f"{method} (blend)" if method == "tree-blend" else method, table)
        assert float(cells[1]) == pytest.approx(rank, abs=0.006)
        assert float(cells[2]) == pytest.approx(auc[method].mean(), abs=6e-5)
        assert float(cells[3]) == pytest.approx(own["auc"].mean(), abs=6e-5)
        assert float(cells[4]) == pytest.approx(by_base(own, "tpr_at_1").mean().item(), abs=6e-4)
    assert auc.mean().idxmax() == auc.columns[np.argmin(ranks)] == "lct"  # ours is first
    assert set(MEANS["dataset"]) == set(names_of_half("test"))
    assert (MEANS.groupby("method")["dataset"].nunique() == 22).all()
    assert set(MEANS["method"]) <= set(METHODS)
    assert MEANS["folds"].nunique() == 1


def test_the_pairs_and_probabilities():
    auc = by_base(RANKED, "auc")
    lines = [line for line in PAGE.splitlines() if len(line) < 90 and re.search(r" \| [+-]", line)]
    for other in set(auc.columns) - {"lct"}:
        gaps = (auc["lct"] - auc[other]).round(DIGITS)
        cells = row_of(other, "\n".join(lines))
        counts = [(gaps > 0).sum(), (gaps == 0).sum(), (gaps < 0).sum()]
        assert [int(cell) for cell in cells[1:4]] == counts
        assert float(cells[4]) == pytest.approx((auc["lct"] - auc[other]).mean(), abs=6e-5)
        assert cells[5] == f"{signed_rank_p(gaps.to_numpy()):.2g}"
    table = PAGE.partition("## Probabilities")[2]
    brier = by_base(MEANS, "brier")
    for method in ("lct", "isotonic-forest", "forest"):
        cells = row_of(method, table)
        assert float(cells[2]) == pytest.approx(brier[method].mean(), abs=6e-5)
        error = by_base(MEANS, "calibration_error")[method].mean()
        assert float(cells[4]) == pytest.approx(error, abs=6e-5)
    assert brier["lct"].mean() < brier["isotonic-forest"].mean()
