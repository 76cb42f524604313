"""The page of scores that another tool gave: probabilities, and scores that claim nothing."""

import numpy as np
import pytest
from browsing import SCREENSHOTS, copied, scrolled, shown
from scipy.special import expit

import curvewise as cw

RNG = np.random.default_rng(5)
Y = (RNG.random(2000) < 0.15).astype(int)
SCORES = {"forest": 2 * Y + RNG.normal(size=2000) - 2.5, "boosting": Y + RNG.normal(size=2000)}


def test_probabilities_of_two_tools_and_scores_that_claim_nothing(show, tmp_path, capsys):
    scores = {name: expit(own) for name, own in SCORES.items()}
    point = cw.choose_operating_point(Y, scores["forest"], max_fpr=0.1, confidence=0.95)
    page = scrolled(show(cw.write_report(tmp_path / "report.html", Y, scores, point=point)))
    numbers = shown(page)
    assert float(numbers["n-threshold"]) == pytest.approx(point.threshold, rel=1e-9)
    assert int(numbers["m-tp"].replace(",", "")) == point.true_positives
    assert page.is_visible("#reliability-chart")
    title = page.evaluate("document.querySelector('#histogram-chart').layout.xaxis.title.text")
    assert title == "Probability"
    assert not page.is_visible("#copy-command")
    exec(copied(page, "python"), {"y": Y, "score": scores["forest"]})
    assert f"threshold={point.threshold}"[:20] in capsys.readouterr().out
    page.fill("#max-fpr", "0.02")
    found = cw.choose_operating_point(Y, scores["forest"], max_fpr=0.02)
    assert int(shown(page)["m-fp"].replace(",", "")) == found.false_positives
    page.screenshot(path=SCREENSHOTS / "scores.png", full_page=True)
    page = scrolled(show(cw.write_report(tmp_path / "report.html", Y, SCORES["boosting"] * 7)))
    assert not page.is_visible("#reliability-chart")
    assert not page.is_visible("#reliability-details")
    assert "nothing but the order" in page.inner_text("#calibration-note")
    assert page.is_visible("#histogram-chart")
    names = page.evaluate("document.querySelector('#point-chart').data.map((each) => each.name)")
    assert "t = 0.5 (score 0)" not in names
