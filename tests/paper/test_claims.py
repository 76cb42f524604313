"""Claims: what they measure, against loops and scipy, and the verdicts that follow."""

from itertools import product
from math import isnan, nan

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st
from scipy import stats

from curvewise.paper.experiment import Claim, Measured, by_test, results, sentence
from curvewise.paper.measures import AT_TWO, SHIFTED, VS, beyond_error, gain, welch, within
from curvewise.stats.comparisons import dyadic_test, holm

RNG = np.random.default_rng(0)
PAIRS = [(i, j) for i in range(5) for j in range(i)]


def made_up(betas=(100.0,), seeds=(0, 1)):
    """Three models of VS (one at tau = 0) and two of LCT on ten pairs of classes."""
    arms = [("VS", tau) for tau in ("0", "1", "2")]
    arms += [("VS + LCT", tau) for tau in ("0:3:0", "0:3:0.33")]
    tasks = [f"cifar10:{j}/{i}" for i, j in PAIRS]
    rows = [(*cell, *arm) for *cell, arm in product(tasks, betas, seeds, arms)]
    models = pd.DataFrame(rows, columns=["task", "beta", "seed", "method", "tau"])
    return models.assign(omega=0.5, gamma=0.0, auc=RNG.uniform(0.6, 0.9, len(rows)))


MODELS = made_up()
TAUS = {VS: {"0", "1", "2"}, SHIFTED: {"1", "2"}, AT_TWO: {"2"}}  # of VS that are compared


def steps(models, reduce):
    """What a statistic of LCT has more than that of VS, cell by cell, by a plain loop."""
    found = {}
    for (task, beta, seed), cell in models.groupby(["task", "beta", "seed"]):
        arms = {name: own["auc"].tolist() for name, own in cell.groupby("method")}
        found[task, beta, seed] = reduce(arms["VS + LCT"]) - reduce(arms["VS"])
    return found


@pytest.mark.parametrize(("name", "sign"), [("mean", 1), ("min", 1), ("max", 1), ("std", -1)])
@pytest.mark.parametrize("rival", TAUS)
def test_a_gain_over_cells_is_a_loop(name, sign, rival):
    kept = MODELS[(MODELS["method"] != VS) | MODELS["tau"].isin(TAUS[rival])]
    if name == "std" and rival == AT_TWO:
        return  # one model of VS has none
    reduce = {"mean": np.mean, "min": min, "max": max, "std": lambda a: np.std(a, ddof=1)}[name]
    expected = np.array(list(steps(kept, reduce).values()))
    found = gain(name, {"": MODELS}, a=rival)
    assert found.value == pytest.approx(expected.mean())
    assert (found.better, found.units) == ((sign * expected > 0).sum(), 20)
    assert isnan(found.p)


def test_a_gain_over_pairs_averages_seeds_and_allows_for_shared_classes():
    by_cell = steps(MODELS, np.mean)
    expected = [
        np.mean([by_cell[f"cifar10:{j}/{i}", 100.0, seed] for seed in (0, 1)]) for i, j in PAIRS
    ]
    test = dyadic_test(expected, PAIRS)
    found = gain("mean", {"": MODELS}, unit="pairs")
    assert found.value == pytest.approx(np.mean(expected))
    assert (found.p, found.low, found.high) == pytest.approx(test)
    assert (found.better, found.units) == (sum(step > 0 for step in expected), 10)


def test_models_are_left_out_as_they_say_and_a_small_loss_can_count_as_a_tie():
    mild = made_up(betas=(10.0, 100.0, 200.0))
    severe = np.mean(list(steps(mild[mild["beta"] >= 100], np.mean).values()))
    data = {"": mild[:100], "more": mild[100:], "other": mild}
    found = gain("mean", data, parts=["", "more"], where="beta >= 100")
    assert (found.value, found.units) == (pytest.approx(severe), 40)
    assert isnan(gain("mean", {"": mild}, b="another").value)
    rows = {"task": "a", "beta": 9.0, "seed": 0, "tau": "1"}
    models = [{**rows, "method": "VS", "auc": 0.8}, {**rows, "method": "VS + LCT", "auc": 0.7996}]
    for tie, better in ((0.0, 0), (0.0005, 1)):
        assert gain("mean", {"": pd.DataFrame(models)}, tie=tie).better == better


def test_differences_of_models_trained_apart_have_welchs_error():
    a, b = pd.Series(RNG.normal(1, 1, 30)), pd.Series(RNG.normal(0, 3, 20))
    found = welch(a, b)
    error = (found.high - found.low) / (2 * 1.96)
    assert found.value / error == pytest.approx(stats.ttest_ind(a, b, equal_var=False).statistic)


@pytest.mark.parametrize(
    ("judge", "found", "sign", "verdict"),
    [
        (by_test, Measured(0.1, p=0.01, better=40, units=45), 1, "holds"),
        (by_test, Measured(0.1, p=0.2, better=40, units=45), 1, "partly"),
        # A few make the average.
        (by_test, Measured(0.1, p=0.01, better=22, units=45), 1, "does not hold"),
        (by_test, Measured(-0.1, p=0.01, better=40, units=45), 1, "does not hold"),
        (by_test, Measured(-0.1, p=0.01, better=40, units=45), -1, "holds"),
        (by_test, Measured(0.1, better=4, units=4), 1, "holds"),
        (by_test, Measured(0.1, better=3, units=4), 1, "partly"),
        (by_test, Measured(0.1), 1, "holds"),
        (by_test, Measured(0.0), 1, "does not hold"),
        (beyond_error, Measured(0.1, 0.05, 0.2), 1, "holds"),
        (beyond_error, Measured(0.1, -0.05, 0.2), 1, "partly"),
        (beyond_error, Measured(-0.1, -0.2, 0.1), 1, "does not hold"),
    ],
)
def test_verdicts(judge, found, sign, verdict):
    assert judge(found, sign) == verdict


@given(st.lists(st.floats(0, 1), min_size=1, max_size=6), st.integers(0, 5))
def test_p_values_are_corrected_within_their_family(p_values, split):
    measures = [lambda data, p=p: Measured(1.0, p=p, better=3, units=3) for p in p_values]
    claims = {str(k): Claim(one, family=str(k < split)) for k, one in enumerate(measures)}
    assert results(claims, {})["p"].to_list() == holm(p_values[:split]) + holm(p_values[split:])


def test_a_result_is_one_sentence_of_a_fixed_form():
    leads = Measured(0.1, 0.05, 0.2, 0.01, 4, 5, "pairs")
    claims = {
        "LCT leads": Claim(lambda data: leads, published="5 of 5"),
        "It is small": Claim(lambda data: 0.25, within(0, 1)),
        "It was run": Claim(lambda data: None),
        "It can be had": Claim(lambda data: Measured(nan)),
    }
    found = results(claims, {})
    assert [sentence(row) for _, row in found.iterrows()] == [
        "Holds: LCT leads (higher by 0.1000 [+0.0500, +0.2000], better on 4 of 5 pairs, p = 0.01; "
        "published: 5 of 5).",
        "Holds: It is small (0.25).",
        "Not tested here: It was run (-).",
        "Not tested here: It can be had (-).",
    ]
