"""The page's data against scikit-learn, numpy and plain loops."""

import base64
import json
import zlib

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.stats import beta, t as student
from sklearn.metrics import average_precision_score, brier_score_loss, roc_auc_score, roc_curve

import curvewise as cw
from curvewise.report.page_answer import answer, difference, warnings_of
from curvewise.report.page_data import (
    GRID,
    RECALL,
    corner_at,
    corners,
    packed_corners,
    page_data,
    setting_number,
)
from curvewise.report.page_input import OwnPoint
from curvewise.roc.metrics import histogram
from page_samples import page_input, page_models

labelled = st.integers(0, 2**32 - 1).map(np.random.default_rng)


def samples(rng, ties):
    n = int(rng.integers(2, 60))
    y = rng.permutation(np.arange(n) < rng.integers(1, n))
    score = rng.integers(0, 8, n) / 2 if ties else rng.normal(size=n)
    return y.astype(int), score.astype(np.float32)


def cornered(y, score, keep_at=None):
    return corners(cw.roc_curve(y, score), np.asarray(y) == 1, keep_at)


@settings(max_examples=150, deadline=None)
@given(labelled, st.booleans())
def test_corners_are_points_of_the_curve_with_its_area(rng, ties):
    y, score = samples(rng, ties)
    fpr, tpr, thresholds = roc_curve(y, score, drop_intermediate=False)
    every = set(zip(fpr.tolist(), tpr.tolist(), thresholds.tolist(), strict=True))
    found = cornered(y, score)
    rates = found.false / (y == 0).sum(), found.true / y.sum()
    assert set(zip(*(each.tolist() for each in (*rates, found.thresholds)), strict=True)) <= every
    assert np.trapezoid(rates[1], rates[0]) == pytest.approx(roc_auc_score(y, score), abs=1e-12)


@settings(max_examples=150, deadline=None)
@given(labelled, st.booleans(), st.floats(-4, 6))
def test_the_point_of_a_kept_threshold_calls_its_samples(rng, ties, threshold):
    y, score = samples(rng, ties)
    found = cornered(y, score, threshold)
    at = corner_at(found.thresholds, threshold)
    called = [label for label, each in zip(y, score, strict=True) if float(each) >= threshold]
    assert (found.true[at], found.false[at]) == (sum(called), len(called) - sum(called))
    assert len(found.true) - len(cornered(y, score).true) in (0, 1)


def chosen(found, rule, value, share):
    """The page's rule, as a plain loop over its corners: the first among equals."""
    costs = {}
    for false, true, threshold in zip(*found, strict=True):
        fpr, tpr = false / found.false[-1], true / found.true[-1]
        if rule == "cost_ratio":
            costs[float(threshold)] = value * share * (1 - tpr) + (1 - share) * fpr
        elif rule == "max_fpr" and fpr <= value:
            costs[float(threshold)] = -tpr
        elif rule == "min_tpr" and tpr >= value:
            costs[float(threshold)] = (fpr, -tpr)
    return min(costs, key=costs.get)


@settings(max_examples=200, deadline=None)
@given(
    labelled,
    st.booleans(),
    st.integers(0, 1000).map(lambda thousandths: thousandths / 1000),  # no product is subnormal
    st.sampled_from(("max_fpr", "min_tpr", "cost_ratio")),
)
def test_no_rule_ever_chooses_a_point_that_was_left_out(rng, ties, value, rule):
    y, score = samples(rng, ties)
    value = value * 30 if rule == "cost_ratio" else value
    expected = cw.choose_operating_point(y, score, **{rule: value}).threshold
    assert chosen(cornered(y, score), rule, value, y.mean()) == expected


def unpacked(packed):
    data = zlib.decompress(base64.b64decode(packed["data"]))
    total, found, start = sum(packed["lengths"]), [], 0
    for kind in ("<u4", "<u4", f"<f{packed['bytes']}"):
        size = np.dtype(kind).itemsize
        planes = np.frombuffer(data, np.uint8, total * size, start).reshape(size, total)
        found.append(np.ascontiguousarray(planes.T).view(kind)[:, 0])
        start += total * size
    assert start == len(data)
    return [np.split(each, np.cumsum(packed["lengths"])[:-1]) for each in found]


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_packed_corners_come_back_exactly(kind):
    rng = np.random.default_rng(0)
    y = np.arange(300) % 7 == 0
    curves = [cornered(y, (rng.normal(size=300) + y).astype(kind)) for _ in range(3)]
    packed = packed_corners(curves)
    assert packed["bytes"] == np.dtype(kind).itemsize
    for curve, false, true, thresholds in zip(curves, *unpacked(packed), strict=True):
        back = (np.cumsum(false), np.cumsum(true), thresholds)
        for part, expected in zip(back, curve, strict=True):
            np.testing.assert_array_equal(part, expected)


def test_metrics_of_every_model():
    given = page_input(page_models(ties=True))
    data = page_data(given)
    for model, row in zip(given.models.itertuples(), data["models"], strict=True):
        y, score = model.y, model.score
        assert row["auc"] == pytest.approx(roc_auc_score(y, score), abs=1e-6)
        precision = average_precision_score(y, score)
        assert row["average_precision"] == pytest.approx(precision, rel=1e-5)
        for name, label in (("tpr_zero", 1), ("fpr_zero", 0)):
            assert row[name] == pytest.approx((score[y == label] >= 0).mean(), rel=1e-5)
        fpr, tpr, _ = roc_curve(y, score, drop_intermediate=False)
        last = np.flatnonzero(fpr <= 0.01)[-1]
        slope = (tpr[last + 1] - tpr[last]) / (fpr[last + 1] - fpr[last])
        assert row["tpr_01"] == pytest.approx(tpr[last] + slope * (0.01 - fpr[last]), rel=1e-5)
        p = 1 / (1 + np.exp(-score.astype(float)))
        assert row["brier"] == pytest.approx(brier_score_loss(y, p), rel=1e-4)


def test_histograms_count_every_sample():
    rng = np.random.default_rng(2)
    y, score = rng.integers(0, 2, 200), rng.normal(size=200)
    found = histogram(y, score)
    assert sum(found["negative"]) == (y == 0).sum()
    edges = np.linspace(score.min(), score.max(), 41)
    assert found["positive"][0] == ((score >= edges[0]) & (score < edges[1]) & (y == 1)).sum()
    same = histogram([0, 1], [2.0, 2.0])
    assert sum(same["negative"]) == sum(same["positive"]) == 1


def test_bands_average_the_curves_of_a_method():
    given = page_input()
    data = page_data(given)
    place = int(np.argmin(np.abs(GRID - 0.2)))
    own = [model for model in given.models.itertuples() if model.method == "VS"]
    curves = [roc_curve(model.y, model.score, drop_intermediate=False) for model in own]
    # Upright steps only: there are no ties here.
    rates = [tpr[fpr <= GRID[place] + 1e-12].max() for fpr, tpr, _ in curves]
    band = data["bands"][0]
    assert band["models"] == 4
    step = 1 / 360  # a slanted line between two corners is at most one negative wide
    assert data["grid"][place + 1] == pytest.approx(0.2)
    assert band["mean"][place + 1] == pytest.approx(np.mean(rates), abs=1e-4 + step)
    ends = [band[name][place + 1] for name in ("low", "high")]
    assert ends == pytest.approx([min(rates), max(rates)], abs=1e-4)
    half = int(np.argmin(np.abs(RECALL - 0.5)))
    precisions = []
    for model in own:
        ordered = np.sort(model.score[model.y == 1])[::-1]
        threshold = ordered[int(np.ceil(0.5 * len(ordered))) - 1]
        precisions.append(model.y[model.score >= threshold].mean())
    assert data["precision"][0]["mean"][half] == pytest.approx(np.mean(precisions), abs=1e-3)


def test_panels_fit_as_numpy_does():
    given = page_input(page_models(models=8))
    data = page_data(given)
    (panel,) = (p for p in data["panels"] if p["method"] == 0 and p["setting"] == "tau")
    own = given.models[given.models["method"] == "VS"]
    x = np.array([settings["tau"] for settings in own["settings"]])
    y = np.array([row["auc"] for row in data["models"] if row["method"] == 0])
    coefficients = np.polyfit(x, y, 2)
    left = y - np.polyval(coefficients, x)
    fit = panel["fits"]["auc"]
    assert fit["r2"] == pytest.approx(1 - (left**2).sum() / ((y - y.mean()) ** 2).sum(), abs=1e-3)
    np.testing.assert_allclose(fit["y"], np.polyval(coefficients, fit["x"]), atol=1e-4)
    (dense,) = (p for p in data["panels"] if p["method"] == 1 and p["setting"] == "tau")
    assert dense["x"] == pytest.approx([0.1 * k for k in range(8)])
    assert "density" in dense["axis"]
    assert [setting_number(value) for value in (True, "0:3", 2)] == [None, None, 2.0]


def measured(**changes):
    """Models as the answer takes them, with their areas by scikit-learn."""
    models = page_input(page_models(**changes)).models.assign(task="digits:8")
    return models.assign(auc=[roc_auc_score(model.y, model.score) for model in models.itertuples()])


def test_the_answer_has_the_corrected_interval():
    models = measured(seeds=4)
    means = models.groupby(["method", "seed"])["auc"].mean()
    d = (means["VS + LCT"] - means["VS"]).to_numpy()
    half = student.ppf(0.975, 3) * d.std(ddof=1) * np.sqrt(1 / 4 + 400 / 400)
    expected = (d.mean(), d.mean() - half, d.mean() + half)
    found = difference(models, "VS + LCT", "VS")
    assert (found.value, found.low, found.high) == pytest.approx(expected)
    first, second = answer(models)
    assert first.startswith("VS + LCT has the higher mean AUC")
    assert f"{d.mean():+.4f}" in second
    assert "4 subsamples" in second
    assert ("holds 0" in second) == (abs(d.mean()) <= half)


def test_the_answer_on_one_subsample_is_delongs_and_few_positives_are_a_warning():
    models = measured()
    ordered = models.sort_values("auc").groupby("method")["score"]
    vs, lct = (ordered.get_group(name).iloc[1] for name in ("VS", "VS + LCT"))  # lower medians
    expected = cw.compare_auc(models["y"].iloc[0], lct, vs)
    found = difference(models, "VS + LCT", "VS")
    assert (found.low, found.high) == (expected.low, expected.high)
    assert f"{expected.difference:+.4f}" in answer(models)[1]
    few = warnings_of(measured(n=2000, share=0.01))
    assert [text for text in few if "only 20 positives" in text]
    assert warnings_of(measured(n=2000, share=0.2)) == []
    assert "999 negatives" in warnings_of(measured(n=1999, share=0.5))[0]


def test_several_betas_are_groups_of_their_own():
    data = page_data(page_input(page_models(betas=(10.0, None))))
    assert [group["name"] for group in data["groups"]] == ["beta = 10", "data as they are"]
    assert json.loads(json.dumps(data, allow_nan=False)) == data
    assert len(data["bands"]) == 4
    assert {row["group"] for row in data["models"]} == {0, 1}
    assert {panel["group"] for panel in data["panels"]} == {0, 1}
    # The first model shown is a typical one of the best method.
    data = page_data(page_input())
    own = sorted(row["auc"] for row in data["models"] if row["method"] == 1)
    assert data["models"][data["chosen"]]["auc"] == own[1]


def test_one_model_at_several_tau_answers_for_the_chosen_one_and_tells_its_own_point():
    rng, y = np.random.default_rng(4), np.arange(200) % 4 == 0
    shared = {"method": "VS + LCT", "beta": 9.0, "y": y}
    scores = [(rng.normal(size=200) + y).round(3) for _ in range(3)]
    taus = zip(scores, (0.0, 1.5, 3.0), strict=True)
    models = [shared | {"score": score, "settings": {"tau": tau}} for score, tau in taus]
    data = page_data(page_input(models, swept="tau", chosen=1))
    (group,) = data["groups"]
    assert (data["bands"], group["about"]) == ([], "At tau = 1.5: ")
    assert f"{roc_auc_score(y, scores[1]):.4f}" in group["answer"][0]
    score = scores[2]

    def with_own(threshold):
        own = OwnPoint(2, threshold, f"{threshold:g}", "by hand")
        data = page_data(page_input(models, swept="tau", chosen=2, own_point=own))
        return data, data["groups"][0]["answer"][-1]

    for threshold in (-9.0, 0.1234, 0.6, float(score[7]), 9.0):
        data, sentence = with_own(threshold)
        false, true, _ = (each[2] for each in unpacked(data["corners"]))
        place, called = data["own"]["corner"], score >= threshold
        k, n = int((called & ~y).sum()), int((~y).sum())
        assert (np.cumsum(true)[place], np.cumsum(false)[place]) == ((called & y).sum(), k)
        assert data["own"]["threshold"] == threshold
        low = beta.ppf(0.025, k, n - k + 1) if k else 0.0
        high = beta.ppf(0.975, k + 1, n - k) if k < n else 1.0
        assert f"predict works at tau = 3 and threshold {threshold:g}, by hand" in sentence
        ends = f"{100 * low:.4g} % to {100 * high:.4g} %"
        assert sentence.endswith(f"{100 * k / n:.4g} % (exact 95 % interval {ends}).")
    data, sentence = with_own(np.inf)
    assert data["own"] == {"model": 2, "corner": 0, "threshold": None, "rule": "by hand"}
    assert "predict calls nothing positive" in sentence
    assert page_data(page_input(models))["own"] is None
