"""Box plots at three beta: which task, and whether the claims hold on areas made for it."""

import numpy as np
import pytest
from made_up_models import MadeUpProblems, area_rows_of

from curvewise.paper.boxes import MELANOMA_BOX
from curvewise.paper.csv_files import rounded
from curvewise.paper.profiles import Profile
from curvewise.paper.running import read_data, run_experiment
from curvewise.sweep.executors import serial

FALLING = {10: (0.95, 0.01), 100: (0.9, 0.02), 200: (0.85, 0.04)}  # mean and half the range


def rows_of(task, found, gain):
    rows = []
    for beta, (mean, reach) in found.items():
        vs = [mean - reach, mean, mean + reach]
        lct = [mean + gain - reach / 2, mean + gain, mean + gain + reach / 2]
        rows += area_rows_of({"VS": vs, "VS + LCT": lct}, task, beta)
    return rounded({"": rows})


def test_claims_hold_where_they_were_put_in():
    outcome = MELANOMA_BOX.present(rows_of("dogs-vs-cats", FALLING, 0.03), Profile())
    assert "falls and spreads as beta grows holds here" in outcome.verdict
    assert "mean 0.9500, std 0.0100 to 0.8500, 0.0400" in outcome.verdict
    assert "LCT mends both holds" in outcome.verdict
    assert "mean in 2 of 2 (+0.0300)" in outcome.verdict
    assert "in place of Melanoma, whose images were not there" in outcome.verdict
    figure = outcome.figures["fig-melanoma-box"]
    assert "in place of Melanoma" in figure.get_suptitle()
    ticks = [text.get_text() for text in figure.axes[0].get_xticklabels()]
    assert ticks == ["beta = 10", "beta = 100", "beta = 200"]


def test_claims_do_not_hold_where_they_were_not():
    rising = dict(zip(FALLING, reversed(FALLING.values()), strict=True))
    verdict = MELANOMA_BOX.present(rows_of("dogs-vs-cats", rising, -0.01), Profile()).verdict
    assert "falls and spreads as beta grows does not hold here" in verdict
    assert "LCT mends both does not hold" in verdict
    assert "mean in 0 of 2 (-0.0100)" in verdict


def test_melanoma_as_it_is_comes_first():
    found = {None: FALLING[10], 100: FALLING[100], 200: FALLING[200]}
    outcome = MELANOMA_BOX.present(rows_of("melanoma", found, 0.01), Profile("paper"))
    assert "in place of" not in outcome.verdict
    assert "from mean 0.9500" in outcome.verdict
    ticks = [t.get_text() for t in outcome.figures["fig-melanoma-box"].axes[0].get_xticklabels()]
    assert ticks == ["data as they are", "beta = 100", "beta = 200"]


@pytest.mark.parametrize("melanoma", [False, True])
def test_from_the_store_to_files(tmp_path, melanoma):
    profile = Profile("laptop", "tiny", melanoma=melanoma)
    shown = run_experiment(MELANOMA_BOX, profile, tmp_path, serial(), MadeUpProblems())
    (rows,) = read_data("fig-melanoma-box", tmp_path).values()
    assert {row["task"] for row in rows} == {"melanoma" if melanoma else "dogs-vs-cats"}
    assert {row["beta"] for row in rows} == {None if melanoma else 10, 100}
    table = shown.outcome.tables["AUC by beta and method"]
    for line in table:
        own = [r["auc"] for r in rows if (r["beta"], r["method"]) == (line["beta"], line["method"])]
        assert line["mean AUC"] == pytest.approx(np.mean(own))
        assert line["models"] == len(own) == 2
