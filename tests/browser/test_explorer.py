"""The operating point explorer against `choose_operating_point`, scipy, and what it copies."""

import json
import shlex

import numpy as np
import pytest
from browsing import copied, in_view, percent, python_said, scrolled, selected, shown, slide, until
from scipy.stats import beta as beta_distribution

import curvewise as cw
from command_line import done
from curvewise.models.evaluate import measured_part
from curvewise.models.operating import short_threshold
from curvewise.report.page_data import corners
from curvewise.sweep.store import Store


def test_twenty_random_targets_give_the_points_of_python(compared_page, compared):
    page = compared_page
    rng = np.random.default_rng(5)
    with Store(compared.store, readonly=True) as store:
        for number in range(20):
            page.select_option("#model", str(rng.integers(96)))
            rule = ("max_fpr", "min_tpr", "cost_ratio")[number % 3]
            value = float(rng.integers(1, 200)) if rule == "cost_ratio" else round(rng.random(), 3)
            prevalence = round(float(rng.uniform(0.001, 0.5)), 4) if number % 2 else None
            page.fill("#prevalence", "" if prevalence is None else str(prevalence))
            page.fill(f"#{rule.replace('_', '-')}", str(value))
            y, score = selected(page, store)
            point = cw.choose_operating_point(y, score, **{rule: value}, prevalence=prevalence)
            state, numbers = page.evaluate("curvewiseState.point"), shown(page)
            at = page.evaluate("String(curvewiseState.point.threshold)")
            assert float(at.replace("Infinity", "inf")) == point.threshold
            assert (state["tp"], state["fp"]) == (point.true_positives, point.false_positives)
            assert state["prevalence"] == pytest.approx(point.prevalence, rel=1e-14)
            for name in ("tpr", "fpr"):
                exact, interval = getattr(point, name), getattr(point, f"{name}_interval")
                assert state[name] == pytest.approx(exact, rel=1e-14)
                assert state[f"{name}Interval"] == pytest.approx(interval, rel=1e-9, abs=1e-12)
                assert percent(numbers[f"n-{name}"]) == pytest.approx(exact, rel=1e-3)
            if np.isnan(point.ppv):
                assert numbers["n-ppv"].startswith("\u2013")
            else:
                assert percent(numbers["n-ppv"]) == pytest.approx(point.ppv, rel=1e-3)
                assert float(numbers["n-threshold"]) == pytest.approx(point.threshold, rel=1e-6)
            alarms = 1000 * (point.tpr * point.prevalence + point.fpr * (1 - point.prevalence))
            assert float(numbers["n-alarms"]) == pytest.approx(alarms, rel=1e-3)
            tp, fp = point.true_positives, point.false_positives
            counts = {"tp": tp, "fn": point.n_positive - tp, "fp": fp, "tn": point.n_negative - fp}
            for name, count in counts.items():
                assert numbers[f"m-{name}"] == f"{count:,}"


def test_ties_and_targets_on_corners_are_python_too(compared_page):
    rng = np.random.default_rng(1)
    cases, expected = [], []
    for _ in range(120):
        n = int(rng.integers(3, 30))
        y = rng.permutation(np.arange(n) < rng.integers(1, n)).astype(int)
        score = (rng.integers(0, 6, n) / 2).astype(np.float32)  # many ties
        curve = cw.roc_curve(y, score)
        found = corners(curve, y == 1)
        rates = {"fpr": found.false / found.false[-1], "tpr": found.true / found.true[-1]}
        rates = {name: rate.tolist() for name, rate in rates.items()}
        for rule, name, on in (
            ("max_fpr", "maxFpr", curve.fpr), ("min_tpr", "minTpr", curve.tpr),
            ("cost_ratio", "costRatio", [0.0, 1.0, 2.0]),
        ):  # fmt: skip
            for value in (*map(float, on), *(() if rule == "cost_ratio" else (0.0, 0.37, 1.0))):
                cases.append([rates, name, value, float(y.mean())])
                point = cw.choose_operating_point(y, score, **{rule: value})
                expected.append(np.flatnonzero(found.thresholds == point.threshold).tolist())
    indices = compared_page.evaluate("cases => cases.map((each) => chooseCorner(...each))", cases)
    assert [[index] for index in indices] == expected


def test_intervals_are_scipys_and_thresholds_are_short_and_call_the_same(compared_page):
    rng, sizes = np.random.default_rng(0), (1, 2, 7, 50, 999, 13335, 200_000)
    cases = [(k, n) for n in sizes for k in (0, 1, n - 1, n, *rng.integers(n + 1, size=6).tolist())]
    found = compared_page.evaluate("cases => cases.map(([k, n]) => rateInterval(k, n))", cases)
    for (k, n), (low, high) in zip(cases, found, strict=True):
        expected = beta_distribution.ppf(0.025, k, n - k + 1) if k else 0
        assert low == pytest.approx(expected, rel=1e-8, abs=1e-15)
        expected = beta_distribution.ppf(0.975, k + 1, n - k) if k < n else 1
        assert high == pytest.approx(expected, rel=1e-8)
    values = (rng.normal(size=300) * 10.0 ** rng.integers(-6, 4, 300)).astype(np.float32)
    values = np.append(values, np.float32([0.0, 1.0, -1.0, 0.5, 1e-30]))
    short = "values => values.map((value) => thresholdText(value, true))"
    texts = compared_page.evaluate(short, values.tolist())
    for value, text in zip(values, texts, strict=True):
        assert float(np.nextafter(value, np.float32(-np.inf))) < float(text) <= float(value), text
        assert float(text) == short_threshold(float(value))


def test_dragging_and_keys_move_along_the_curve_and_a_reader_is_told(compared_page):
    page = in_view(compared_page, "#explorer")
    page.fill("#max-fpr", "0.01")
    before = page.evaluate("curvewiseState.corner")
    box = page.locator("#handle").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 90, y - 60, steps=6)
    page.mouse.up()
    after, point = page.evaluate("[curvewiseState.corner, curvewiseState.point]")
    assert after > before
    assert page.input_value("#max-fpr") == ""  # a point chosen by hand follows no rule
    assert percent(page.inner_text("#n-fpr")) == pytest.approx(point["fpr"], rel=1e-3)
    moved = page.locator("#handle").bounding_box()
    assert moved["x"] > box["x"]
    nearest = page.evaluate(
        """([x, y]) => { const stage = document.querySelector('.stage').getBoundingClientRect();
        return nearestCorner(curvewiseState, x - stage.left, y - stage.top); }""",
        [x + 90, y - 60],
    )
    assert nearest == after
    page.fill("#max-fpr", "0.05")
    corner = page.evaluate("curvewiseState.corner")
    page.focus("#handle")
    page.keyboard.press("ArrowRight")
    assert page.evaluate("curvewiseState.corner") == corner + 1
    for key in ("ArrowDown", "ArrowLeft"):
        page.keyboard.press(key)
    assert page.evaluate("curvewiseState.corner") == corner - 1
    page.keyboard.press("End")
    assert percent(page.inner_text("#n-tpr")) == 1
    assert float(page.get_attribute("#handle", "aria-valuenow")) == 1
    page.keyboard.press("Home")
    assert "nothing is called positive" in page.inner_text("#n-threshold")
    page.click("#copy-command")
    assert "nothing positive" in page.inner_text("#copied")
    until(page, "document.querySelector('#spoken').textContent.includes('TPR 0')")
    assert page.get_attribute("#spoken", "aria-live") == "polite"


def test_bad_targets_are_told_and_change_nothing(compared_page):
    page = compared_page
    page.fill("#max-fpr", "0.05")
    before = shown(page)
    bad = [("#max-fpr", "150"), ("#min-tpr", "x"), ("#cost-ratio", "-1"), ("#cost-ratio", "40%")]
    bad += [("#threshold", "low"), ("#threshold", "5 %"), ("#prevalence", "0")]
    for field, text in (*bad, ("#max-fpr", "5"), ("#min-tpr", "99.5"), ("#prevalence", "1,5")):
        page.fill(field, text)
        hint = "" if (field, text) in bad else f" (for {text} % write {text} %)"
        assert page.inner_text("#target-error").endswith(f"got {text}{hint}")
        assert shown(page) == before
        page.fill(field, "")
    page.fill("#max-fpr", "5 %")
    assert shown(page) == before


def test_what_is_copied_of_a_store_runs(compared_page, compared):
    page = compared_page
    page.fill("#min-tpr", "0.8")
    with Store(compared.store, readonly=True) as store:
        y, score = selected(page, store)
    point = cw.choose_operating_point(y, score, min_tpr=0.8)
    calls = f"true_positives={point.true_positives}, false_positives={point.false_positives},"
    assert calls in python_said(page)
    words, predict = map(shlex.split, copied(page, "command").splitlines()[1:])
    assert words[:3] == ["curvewise", "train", "digits:8"]
    assert words[words.index("--beta") + 1] == "50"
    assert "epochs=3" in words
    assert predict[-2:] == ["--max-fpr", str(point.fpr)]


def test_a_model_moves_with_its_tau_and_is_copied(trained_page, trained, tmp_path, monkeypatch):
    page, model = scrolled(trained_page), cw.load(trained.model)
    x, y, _ = measured_part(model, "digits:8")
    for place, tau in ((0, 0.0), (3, 1.5), (6, 3.0)):
        slide(page, place)
        assert page.inner_text("#swept-value") == f"{tau:g}"
        score = model.scores(x, tau=tau)
        row = page.evaluate("curvewiseState.data.models[curvewiseState.model]")
        assert row["auc"] == pytest.approx(cw.auc(y, score), abs=1e-6)
        rates = [(score[y == label] >= 0).mean() for label in (1, 0)]
        assert [row["tpr_zero"], row["fpr_zero"]] == pytest.approx(rates, abs=1e-5)
    slide(page, 2)
    page.fill("#max-fpr", "0.02")
    point = cw.choose_operating_point(y, model.scores(x, tau=1.0), max_fpr=0.02)
    calls = f"true_positives={point.true_positives}, false_positives={point.false_positives},"
    assert calls in python_said(page)
    monkeypatch.chdir(tmp_path)
    np.savez("new.npz", x=x)
    text = copied(page, "command")
    assert "--tau 1 " in text
    answered = json.loads(done(*shlex.split(text)[1:], "--json"))
    assert answered["positive"] == point.true_positives + point.false_positives
