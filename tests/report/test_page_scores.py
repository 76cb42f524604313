"""Pages of scores of any tool: what they claim, and what they begin with."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit
from sklearn.calibration import calibration_curve
from sklearn.metrics import brier_score_loss

import curvewise as cw
from curvewise.base.errors import InputError

RNG = np.random.default_rng(3)
Y = (RNG.random(3000) < 0.1).astype(int)
LOG_ODDS = 2 * Y + RNG.normal(size=3000) - 3.2
AT_TAU = replace(cw.operating_point(Y, LOG_ODDS, 0.0), tau=1.0)


def page(tmp_path, *words, **more):
    text = cw.write_report(tmp_path / "report.html", *words, **more).read_text(encoding="utf-8")
    found = re.search(r'<script type="application/json" id="page-data">(.*?)</script>', text, re.S)
    return json.loads(found[1])


def test_probabilities_are_taken_as_they_are(tmp_path):
    p = expit(LOG_ODDS)
    data = page(tmp_path, Y, {"forest": p, "other": 1 - p}, class_names=("well", "ill"))
    assert data["unit"] == "probability"
    assert data["methods"] == ["forest", "other"]
    assert data["classes"] == ["well", "ill"]
    row = data["models"][0]
    assert row["brier"] == pytest.approx(brier_score_loss(Y, p), rel=1e-4)
    share, claimed = calibration_curve(Y, p, n_bins=10)
    np.testing.assert_allclose(row["raw"]["p"], claimed, rtol=1e-4)
    np.testing.assert_allclose(np.divide(row["raw"]["k"], row["raw"]["n"]), share, rtol=1e-9)
    assert row["tpr_zero"] == pytest.approx((p[Y == 1] >= 0.5).mean(), rel=1e-5)
    assert row["fpr_zero"] == pytest.approx((p[Y == 0] >= 0.5).mean(), rel=1e-5)
    assert ["tpr_zero", "TPR at threshold 0.5"] in data["columns"]


def test_log_odds_claim_their_sigmoid_and_other_scores_nothing(tmp_path):
    data = page(tmp_path, Y, LOG_ODDS, unit="log-odds")
    row = data["models"][0]
    assert row["brier"] == pytest.approx(brier_score_loss(Y, expit(LOG_ODDS)), rel=1e-4)
    assert row["tpr_zero"] == pytest.approx((LOG_ODDS[Y == 1] >= 0).mean(), rel=1e-5)
    assert data["half"] == "log-odds 0"
    data = page(tmp_path, Y, 10 * LOG_ODDS)
    row = data["models"][0]
    assert data["unit"] == "score"
    assert row["raw"] is row["brier"] is row["tpr_zero"] is None
    assert not {"brier", "tpr_zero", "fpr_zero"} & {key for key, _ in data["columns"]}


@pytest.mark.filterwarnings("ignore")
def test_a_point_chosen_on_other_rows_is_where_the_page_begins_and_says_what_it_promises(tmp_path):
    known, new = np.arange(3000) < 1500, np.arange(3000) >= 1500
    point = cw.choose_operating_point(Y[known], LOG_ODDS[known], max_fpr=0.05, confidence=0.95)
    data = page(tmp_path, Y[new], LOG_ODDS[new], unit="log-odds", point=point)
    there = cw.operating_point(Y[new], LOG_ODDS[new], point.threshold)
    answer = " ".join(data["groups"][0]["answer"])
    assert "The operating point works at threshold" in answer
    assert point.note.rstrip(".") in answer
    assert f"{100 * there.tpr:.4g} %" in answer
    assert data["own"]["model"] == data["chosen"] == 0
    for rule, words in (
        ({"max_fpr": 0.001}, "calls nothing positive"),
        ({"min_tpr": 0.999}, "threshold -inf"),
    ):
        point = cw.choose_operating_point(Y[:200], LOG_ODDS[:200], confidence=0.95, **rule)
        data = page(tmp_path, Y, LOG_ODDS, point=point)
        assert words in " ".join(data["groups"][0]["answer"])


def test_two_models_are_compared_as_such(tmp_path):
    data = page(tmp_path, Y, {"a": LOG_ODDS, "b": RNG.normal(size=3000)})
    first, second = data["groups"][0]["answer"]
    assert first.startswith("a has the higher AUC: ")
    assert "models" not in first
    assert second.startswith("They differ by +")


@pytest.mark.parametrize(
    ("words", "more", "message"),
    [
        ((Y, {}), {}, "one method or more"),
        ((Y, LOG_ODDS[:5]), {}, "same length"),
        ((Y, LOG_ODDS), {"unit": "probability"}, r"lie in \[0, 1\]"),
        ((Y, LOG_ODDS), {"unit": "odds"}, "unit must be one of"),
        ((Y, LOG_ODDS), {"point": AT_TAU}, "got one at tau = 1"),
    ],
)
def test_what_is_no_page(tmp_path, words, more, message):
    with pytest.raises(InputError, match=message):
        cw.write_report(tmp_path / "none.html", *words, **more)
    assert not (tmp_path / "none.html").exists()
