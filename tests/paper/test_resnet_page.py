"""The page of the ResNet sweep is what its committed runs say."""

from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import levene, ttest_ind, ttest_rel

RESULTS = Path(__file__).parents[2] / "docs" / "results"
PAGE = (RESULTS / "resnet.md").read_text()
RUNS = pd.read_csv(RESULTS / "resnet.csv")


def areas(runs):
    """Areas of VS and of LCT."""
    return [runs.loc[runs["method"] == method, "auc"].to_numpy() for method in ("vs", "lct")]


def test_every_run_is_there_and_the_tables_by_method_and_setting():
    vs, lct = areas(RUNS)
    assert (set(RUNS["state"]), len(vs), len(lct)) == ({"done"}, 24, 24)
    shared = ["fingerprint", "recipe.epochs", "recipe.lr", "network.name", "network.width"]
    assert (RUNS[shared].nunique() == 1).all()
    for name, own in (("VS", vs), ("VS + LCT", lct)):
        numbers = (own.mean(), own.min(), np.median(own), own.max(), own.std(ddof=1))
        row = " | ".join(f"{number:.4f}" for number in numbers)
        assert f"| {name} | 24 | {row} |" in PAGE
    assert f"p = {ttest_ind(lct, vs, equal_var=False).pvalue:.2f} (Welch)" in PAGE
    assert f"p = {levene(vs, lct).pvalue:.2f} (Levene)" in PAGE
    means = []
    for (omega, gamma), cell in RUNS.groupby(["omega", "gamma"]):
        pair = areas(cell)
        assert [len(own) for own in pair] == [4, 4]
        vs, lct = (own.mean() for own in pair)
        means.append((vs, lct))
        worst = f"{pair[0].min():.4f} | {pair[1].min():.4f}"
        assert f"| {omega} | {gamma} | {vs:.4f} | {lct:.4f} | {lct - vs:+.4f} | {worst} |" in PAGE
    assert len(means) == 6
    vs, lct = np.array(means).T
    assert f"p = {ttest_rel(lct, vs).pvalue:.2f} (paired over the six)" in PAGE
