"""The page of the ResNet sweep is what its committed runs say."""

import csv
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import levene, ttest_ind, ttest_rel

RESULTS = Path(__file__).parents[2] / "docs" / "results"
PAGE = (RESULTS / "resnet.md").read_text()
with (RESULTS / "resnet.csv").open() as file:
    RUNS = list(csv.DictReader(file))


def areas(method: str, **wanted: str) -> np.ndarray:
    chosen = [
        float(run["auc"])
        for run in RUNS
        if run["method"] == method and all(run[name] == value for name, value in wanted.items())
    ]
    return np.array(chosen)


VS, LCT = areas("vs"), areas("lct")
CELLS = sorted({(run["omega"], run["gamma"]) for run in RUNS})


def test_every_run_is_there_with_the_same_data_and_recipe():
    assert [run["state"] for run in RUNS] == ["done"] * 48
    assert len(VS) == len(LCT) == 24
    for column in ("fingerprint", "recipe.epochs", "recipe.lr", "network.name", "network.width"):
        assert len({run[column] for run in RUNS}) == 1
    assert len(CELLS) == 6


@pytest.mark.parametrize(("name", "own"), [("VS", VS), ("VS + LCT", LCT)])
def test_the_table_by_method(name, own):
    numbers = (own.mean(), own.min(), np.median(own), own.max(), own.std(ddof=1))
    row = " | ".join(f"{number:.4f}" for number in numbers)
    assert f"| {name} | 24 | {row} |" in PAGE


def test_the_table_by_setting():
    means = []
    for omega, gamma in CELLS:
        pair = [areas(method, omega=omega, gamma=gamma) for method in ("vs", "lct")]
        assert [len(own) for own in pair] == [4, 4]
        vs, lct = (own.mean() for own in pair)
        means.append((vs, lct))
        worst = f"{pair[0].min():.4f} | {pair[1].min():.4f}"
        row = f"| {omega} | {gamma} | {vs:.4f} | {lct:.4f} | {lct - vs:+.4f} | {worst} |"
        assert row in PAGE
    vs, lct = np.array(means).T
    assert f"p = {ttest_rel(lct, vs).pvalue:.2f} (paired over the six)" in PAGE


def test_the_tests():
    assert f"p = {ttest_ind(LCT, VS, equal_var=False).pvalue:.2f} (Welch)" in PAGE
    assert f"p = {levene(VS, LCT).pvalue:.2f} (Levene)" in PAGE
