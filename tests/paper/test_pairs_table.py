"""The table over pairs, from made-up areas with known answers."""

import numpy as np
import pytest
from scipy.stats import ttest_rel, wilcoxon

from curvewise.paper.areas import area_rows, cells_from
from curvewise.paper.csv_files import rounded
from curvewise.paper.gains import LCT, SHIFTED, VS
from curvewise.paper.pairs import PAIRS, PAIRS_FASHION, verdict
from curvewise.paper.profiles import Profile
from curvewise.stats.cells import Cell


def made_up_rows(gain, seed=0):
    """45 pairs, 12 models a method; LCT's areas are VS's plus a gain and noise."""
    rng, rows = np.random.default_rng(seed), []
    for first in range(10):
        for second in range(first + 1, 10):
            base = rng.uniform(0.7, 0.9)
            for label, shift in ((VS, 0.0), (LCT, gain)):
                areas = base + shift + rng.normal(0, 0.01, 12)
                place = {"task": f"cifar10:{first}/{second}", "beta": 100, "seed": 0}
                none = {"omega": None, "gamma": None, "tau": None}
                rows += [{**place, "method": label, **none, "auc": area} for area in areas]
    return rounded({"": rows})


def statistics(data, label):
    tasks = dict.fromkeys(row["task"] for row in data[""])
    return np.array(
        [
            [f([r["auc"] for r in data[""] if r["task"] == task and r["method"] == label])
             for f in (np.max, np.mean, np.min, lambda a: np.std(a, ddof=1))]
            for task in tasks
        ]
    )  # fmt: skip


@pytest.mark.parametrize("gain", [0.01, -0.01, 0.0])
def test_the_table_is_scipys(gain):
    data = made_up_rows(gain)
    outcome = PAIRS.present(data, Profile())
    table = next(iter(outcome.tables.values()))
    vs, lct = statistics(data, VS), statistics(data, LCT)
    for number, row in enumerate(table):
        difference = lct[:, number] - vs[:, number]
        better = difference > 0 if row["AUC"] != "std" else difference < 0
        assert row["LCT better"] == better.sum()
        assert row["average difference"] == pytest.approx(difference.mean())
        assert row["t-test p"] == pytest.approx(ttest_rel(lct[:, number], vs[:, number]).pvalue)
        assert row["Wilcoxon p"] == pytest.approx(wilcoxon(difference).pvalue)
    assert [row["published: LCT better"] for row in table] == [37, 45, 43, 43]
    drawn = outcome.figures["table-pairs"].axes[0].lines[1:]
    for line, number, sign in zip(drawn, (1, 2, 0, 3), (1, 1, 1, -1), strict=True):
        expected = np.sort(sign * (lct[:, number] - vs[:, number]))
        np.testing.assert_allclose(line.get_ydata(), expected, atol=1e-12)


def test_the_verdict_follows_the_numbers():
    rng = np.random.default_rng(1)
    data = made_up_rows(0.02)
    for row in data[""]:  # a smaller spread as well
        if row["method"] == LCT:
            row["auc"] = 0.95 + rng.normal(0, 0.001)
    verdict = PAIRS.present(data, Profile()).verdict
    assert verdict.startswith("By the paper's own t-test its claim holds here: LCT is better in")
    assert "what remains is max, mean, min and std in favour of LCT and nothing in f" in verdict
    worse = PAIRS.present(made_up_rows(-0.02), Profile()).verdict
    assert "its claim does not hold here and is reversed for max, mean and min: LCT" in worse
    assert "nothing in favour of LCT and max, mean and min in favour of VS" in worse
    assert "without tau = 0" not in worse  # no model says its tau


def test_models_of_vs_at_tau_0_can_be_left_out():
    data = made_up_rows(0.01)
    for number, row in enumerate(data[""]):
        if row["method"] == VS:
            row["tau"] = number % 4
            row["auc"] -= 0.1 * (row["tau"] == 0)
    outcome = PAIRS.present(data, Profile())
    table = outcome.tables[SHIFTED]
    kept = {"": [row for row in data[""] if row["method"] == LCT or row["tau"] > 0]}
    vs, lct = statistics(kept, VS), statistics(kept, LCT)
    for number, row in enumerate(table):
        assert row["average difference"] == pytest.approx((lct - vs)[:, number].mean())
    assert "Beside VS without tau = 0 it is better in max on" in outcome.verdict


def test_the_sweep_is_the_papers():
    spec = PAIRS.sweeps(Profile())[0]
    assert spec.size == 45 * 96
    assert PAIRS.needs(Profile()) == ["cifar10"]
    assert PAIRS_FASHION.needs(Profile()) == ["fashion-mnist"]
    paper = PAIRS.sweeps(Profile("paper"))[0].runs()[0]
    assert paper.network["name"] == "resnet32"
    assert paper.recipe["epochs"] == 500
    tiny = PAIRS.sweeps(Profile("paper", "tiny"))[0]
    assert tiny.size == 3 * 2 * 2
    assert tiny.runs()[0].recipe["epochs"] == 2


def test_areas_to_rows_and_back():
    y = [0, 0, 1, 1]
    scores = {VS: [[1, 2, 3, 4], [4, 3, 2, 1]], LCT: [[1, 3, 2, 4]]}
    settings = {VS: [{"omega": 0.5, "gamma": 0.0, "tau": t} for t in (0, 1)],
                LCT: [{"omega": 0.5, "gamma": 0.0, "tau": "0:3:0.33"}]}  # fmt: skip
    cell = Cell("a", 100.0, 2, y, scores, settings, {VS: 0, LCT: 3})
    rows = rounded({"": area_rows([cell])})[""]
    assert [row["auc"] for row in rows] == [1, 0, 0.75, None, None, None]
    (back,) = cells_from(rows)
    assert (back.task, back.beta, back.seed) == ("a", 100, 2)
    np.testing.assert_allclose(back.areas[VS], [1, 0])
    assert back.diverged == {VS: 0, LCT: 3}
    assert back.settings[LCT][0]["tau"] == "0:3:0.33"


def test_more_pairs_won_with_a_lower_average_is_no_lead():
    row = {"AUC": "mean", "better": 30, "worse": 15, "pairs": 45, "difference": -0.0033}
    row |= {"t-test p": 4e-5, "p (Holm)": 4e-5}
    rows = [{**row, "AUC": name} for name in ("max", "mean", "min")]
    assert "its claim does not hold here" in verdict(rows, [])
    leading = [{**one, "difference": 0.0033} for one in rows]
    assert "its claim holds here" in verdict(leading, [])


def test_a_part_of_the_claim_and_a_statistic_without_pairs_are_said_so():
    row = {"pairs": 45, "better": 40, "worse": 5, "difference": 0.01, "t-test p": 1e-5}
    row["p (Holm)"] = 0.01
    lost = {"better": 5, "worse": 40, "difference": -0.01}
    none = {"pairs": 0, "better": 0, "worse": 0, "difference": float("nan")}
    rows = [row | lost | {"AUC": "max"}, row | {"AUC": "mean"}, row | {"AUC": "min"}]
    told = verdict([*rows, row | none | {"AUC": "std", "t-test p": float("nan")}], [])
    assert "claim holds here for mean and min and is reversed for max: LCT is better in" in told
    assert "mean and min in favour of LCT and max in favour of VS." in told
    assert "nan" not in told
