"""Captions, hover texts, marks, notes and the filter, against what is drawn."""

from browsing import in_view, scrolled, until

from curvewise.report.page import write_page
from page_samples import page_input, page_models


def test_the_filter_compares_and_says_what_it_cannot_read(compared_page):
    page = compared_page
    rows = page.evaluate(
        "curvewiseState.data.models.map((m) => [m.auc, m.tpr_01, m.settings.omega, m.method])"
    )
    total = len(rows)
    middle = sorted(row[0] for row in rows)[total // 2]

    def count(text: str) -> str:
        page.fill("#filter", text)
        return page.inner_text("#run-count")

    for text, kept in (
        (f"auc >= {middle}", lambda auc, *_: auc >= middle),
        (f"auc>{middle}", lambda auc, *_: auc > middle),
        (f"AUC <= {middle}", lambda auc, *_: auc <= middle),
        (f"auc <{middle}", lambda auc, *_: auc < middle),
        ("omega != 0.5", lambda _, __, omega, ___: omega != 0.5),
        ("omega = 0.50", lambda _, __, omega, ___: omega == 0.5),
        ("lct omega=0.5 auc > 50%", lambda auc, _, omega, method: (
            method == 1 and omega == 0.5 and auc > 0.5)),
        ("TPR at FPR 1 % >= 0.3", lambda _, tpr, *__: tpr >= 0.3),
        ('method = "vs + lct"', lambda *row: row[3] == 1),
        ("method != VS", lambda *row: row[3] == 1),
    ):  # fmt: skip
        expected = sum(kept(*row) for row in rows)
        assert 0 < expected < total, text
        assert count(text) == f"{expected} of {total} models", text
        assert page.locator("#runs tbody tr").count() in (expected, 50)
    for text, problem in (
        ("foo > 1", "no column foo"),
        ("vs foo=1", "no column foo"),
        ("> 1", "no column before >"),
        ("auc > abc", "auc needs a number, got abc"),
        ("auc = abc", "auc needs a number, got abc"),
        ("auc >", "auc needs a number, got none"),
        ("method > 2", "method has no numbers: compare it by = or !="),
        ("tau =", "tau needs a value, got none"),
        ("foo=1 auc>x", "no column foo; auc needs a number, got x"),
    ):
        assert count(text) == f"0 of {total} models: {problem}"
    assert page.get_attribute("#run-count", "role") == "status"
    assert "auc >= 0.9" in page.get_attribute("#filter", "placeholder")


def test_the_spread_tells_its_whiskers_and_marks_the_selected_model(compared_page):
    page = scrolled(compared_page)
    caption = " ".join(page.inner_text("#spread figcaption").split())
    assert "farthest model within 1.5 times the distance between the quartiles" in caption
    drawn = page.evaluate(
        """document.querySelector('#spread-chart').calcdata.map(([box]) =>
        [box.pts.map((point) => point.v), box.q1, box.q3, box.lf, box.uf])"""
    )
    for areas, low, high, *ends in drawn:
        reach = 1.5 * (high - low)
        within = [area for area in areas if low - reach <= area <= high + reach]
        assert ends == [min(within), max(within)]
    in_view(page, "#spread-chart")
    large = """[...document.querySelectorAll('#spread-chart .points path.point')]
        .map((dot) => [dot.getBoundingClientRect().width > 9, dot.__data__.i])
        .filter(([large]) => large).map(([, place]) => place)"""
    place = """(index) => { const { models } = curvewiseState.data;
        return models.filter((each) => each.method === models[index].method)
            .findIndex((each) => each.index === index); }"""
    for index in (3, 90):
        page.evaluate("index => select(curvewiseState, index)", index)
        until(page, f"String({large}) === String(({place})({index}))")


def test_a_single_curve_names_its_model_and_its_rates(compared_page):
    page = compared_page
    page.evaluate("window.scrollTo(0, 0)")
    caption = "#roc-chart + figcaption"
    assert "Click" not in page.inner_text(caption)
    page.check("#every-curve")
    until(page, "document.querySelector('#roc-chart').data.length > 8")
    assert "Click one model's curve to select it." in page.inner_text(caption)
    page.locator("#roc-chart").scroll_into_view_if_needed()
    names = set(
        page.evaluate("curvewiseState.data.models.map((m) => modelName(curvewiseState.data, m))")
    )
    place = page.evaluate(
        """() => { const chart = document.querySelector('#roc-chart');
        const trace = chart.data.findIndex((each) => each.name?.endsWith(', each'));
        Plotly.Fx.hover(chart, [{ curveNumber: trace, pointNumber: 4 }]);
        return [chart.data[trace].x[4], chart.data[trace].y[4]]; }"""
    )
    page.wait_for_selector("#roc-chart .hovertext")
    name, rates = page.locator("#roc-chart .hovertext .nums tspan").all_text_contents()
    assert name in names
    assert rates == f"TPR {place[1]:.2%}, FPR {place[0]:.3%}"
    page.uncheck("#every-curve")
    until(page, "document.querySelector('#roc-click').hidden")


def test_the_table_and_the_warning_of_one_model(trained_page, compared_page, show, tmp_path):
    alone = show(write_page(page_input(page_models()[:1]), tmp_path / "report.html"))
    for page in (trained_page, alone):
        heads = page.locator("#roc-table th[scope=col]").all_text_contents()
        assert heads == ["Model", "FPR", "TPR"]
        cells = page.locator("#roc-table td").all_text_contents()
        assert len(cells) == 12
        assert "" not in cells
    heads = compared_page.locator("#roc-table th[scope=col]").all_text_contents()
    assert heads == ["Method", "FPR", "TPR, mean", "minimum", "maximum", "std"]
    # Only biased probabilities are warned of.
    note = in_view(trained_page, "#calibration-note").inner_text("#calibration-note")
    assert "Corrected" in note
    assert "weighted_mean" not in note  # it was trained with expected_mean
    biased = page_input(page_models(), chosen=0, reduction="weighted_mean")
    page = in_view(show(write_page(biased, tmp_path / "report.html")), "#calibration-note")
    assert "weighted_mean" in page.inner_text("#calibration-note")
