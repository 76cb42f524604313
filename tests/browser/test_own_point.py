"""Typed thresholds, the point that a model begins at, and copied texts of a point that is gone."""

import re

import numpy as np
from browsing import copied, scrolled, selected, shown, slide

import curvewise as cw
from curvewise.models.evaluate import measured_part
from curvewise.models.operating import short_threshold
from curvewise.report.page_data import corners
from curvewise.sweep.store import Store


def test_a_typed_threshold_is_the_last_corner_that_reaches_it(compared_page, compared):
    page = compared_page
    rng = np.random.default_rng(3)
    told = 0
    with Store(compared.store, readonly=True) as store:
        for _ in range(12):
            page.select_option("#model", str(int(rng.integers(96))))
            y, score = selected(page, store)
            score = score.astype(np.float64)
            t = round(float(rng.uniform(score.min() - 1, score.max() + 1)), 2)
            page.fill("#threshold", str(t))
            kept = corners(cw.roc_curve(y, score), y == 1).thresholds
            expected = float(kept[kept >= t].min())
            at = page.evaluate("String(curvewiseState.point.threshold)")
            assert float(at.replace("Infinity", "inf")) == expected
            tp, fp = page.evaluate("[curvewiseState.point.tp, curvewiseState.point.fp]")
            assert (tp, fp) == tuple((score[y == label] >= expected).sum() for label in (1, 0))
            # Samples between the corner and what was typed are of one class, and told.
            between = (score >= t).sum() - (tp + fp)
            note = page.inner_text("#target-note") if page.is_visible("#target-note") else ""
            most = re.search(r"up to ([\d,]+) more", note)
            assert between <= (int(most[1].replace(",", "")) if most else 0)
            told += bool(most)
    assert told  # else nothing was tried that lies between two corners
    page.fill("#max-fpr", "0.05")  # rules exclude each other
    assert page.input_value("#threshold") == ""
    assert not page.is_visible("#target-note")
    page.fill("#threshold", "1e9")
    assert page.evaluate("curvewiseState.corner") == 0
    assert page.input_value("#max-fpr") == ""


def test_a_shown_threshold_typed_again_is_the_same_point(compared_page):
    page = compared_page
    for fpr in ("0.02", "0.1", "0.4"):
        page.fill("#max-fpr", fpr)
        before = shown(page)
        exact = page.evaluate("String(curvewiseState.point.threshold)")
        for text in (before["n-threshold"], exact):
            page.fill("#threshold", text)
            assert shown(page) == before
    # It has no point of its own, so none is marked.
    assert page.evaluate("[curvewiseState.data.own, ownTraces(curvewiseState).length]") == [None, 0]


def test_a_model_begins_at_its_own_operating_point(show, trained):
    page = scrolled(show(trained.page))
    model = cw.load(trained.model)
    x, y, _ = measured_part(model, "digits:8")
    stored = model.record["operating_point"]
    called = model.scores(x).astype(np.float64) >= stored["threshold"]
    state = page.evaluate("curvewiseState.point")
    assert (state["tp"], state["fp"]) == ((called & (y == 1)).sum(), (called & (y == 0)).sum())
    assert (state["tpr"], state["fpr"]) == (stored["tpr"], stored["fpr"])
    assert float(page.inner_text("#n-threshold")) == short_threshold(stored["threshold"])
    assert stored["fpr"] > 0.01  # where pages without one begin
    answer, threshold = page.inner_text("#answer-text"), page.inner_text("#n-threshold")
    assert f"predict works at tau = 3 and threshold {threshold}, chosen by train" in answer
    for name in ("tpr", "fpr"):  # the very numbers that the explorer has
        rate, interval = page.inner_text(f"#n-{name}").replace("\u00a0", " ").split(" (")
        assert f"{rate} (exact 95 % interval {interval}" in answer
    (mark,) = page.evaluate(
        """document.querySelector('#point-chart').data.filter((trace) =>
        trace.name === "the model's own point").map(({ x, y }) => [x[0], y[0]])"""
    )
    assert mark == [stored["fpr"], stored["tpr"]]
    assert "the model's own point" in page.locator("#point-chart .legend").text_content()


def test_no_copied_text_outlives_what_it_was_of(trained_page):
    page = scrolled(trained_page)

    def gone() -> bool:
        return not page.is_visible("#copy-text") and page.text_content("#copied") == ""

    changes = (
        lambda: page.fill("#max-fpr", "0.03"),
        lambda: page.fill("#prevalence", "0.01"),
        lambda: slide(page, 2),
        lambda: page.select_option("#model", "4"),
        lambda: page.press("#handle", "ArrowRight"),
    )
    for change in changes:
        assert copied(page, "python")
        assert not gone()
        change()
        assert gone()
