"""The page in a browser: what people see, hover, click, filter, download and print."""

import json

import numpy as np
import pandas as pd
import pytest
from browsing import SCREENSHOTS, in_view, scrolled, settled, until

from curvewise.report.page import write_page
from curvewise.sweep.store import Store
from page_samples import page_input, page_models


def svg_text(page, selector):
    return " ".join(page.locator(selector).first.text_content().split())


def test_it_opens_and_answers_and_hyperparameters_have_fits_and_a_heat_map(compared_page, compared):
    page = scrolled(compared_page)
    text = page.inner_text("#answer-text")
    rows = {row["label"]: row for row in json.loads(compared.printed)["methods"]}
    best = max(rows.values(), key=lambda row: row["mean"])
    assert text.startswith(f"{best['label']} has the higher mean AUC: {best['mean']:.4f}")
    assert "95 % interval" in text
    assert "positives" in page.inner_text("#warnings")
    assert page.locator(".js-plotly-plot").count() == 6 + 3 + 1
    assert page.locator("#panels .chart").count() == 3
    titles = page.locator("#panels .gtitle").all_text_contents()
    assert all(title.startswith("R²") for title in titles)
    page.select_option("#metric", "tpr_01")
    page.select_option("#settings-method", label="VS + LCT")
    page.select_option("#heat-x", "gamma")
    cells = page.evaluate("document.querySelector('#heat-chart').data[0].z")
    own = page.evaluate(
        "curvewiseState.data.models.filter(m => m.method === 1)"
        ".map(m => [m.settings.tau, m.settings.gamma, m.tpr_01])"
    )
    expected = np.mean([value for tau, gamma, value in own if tau == "0:3:0" and gamma == 0])
    assert cells[0][0] == pytest.approx(expected)


@pytest.mark.parametrize("which", [pytest.param("many", marks=pytest.mark.slow), "trained"])
def test_axe_finds_nothing_serious(show, which, request, tmp_path):
    from axe_playwright_python.sync_playwright import Axe

    if which == "many":  # few suffice: it looks at every dot
        given = page_input(page_models(betas=(10.0, 100.0), seeds=2))
        path = write_page(given, tmp_path / "report.html")
    else:
        path = request.getfixturevalue(which).page
    page = scrolled(show(path, bypass_csp=True))
    page.evaluate("for (const each of document.querySelectorAll('details')) each.open = true")
    page.click("#copy-python")
    contrast = {"runOnly": {"type": "rule", "values": ["color-contrast"]}}
    for theme, options in (("light", {}), ("dark", contrast)):
        if theme == "dark":
            page.click("#theme")
            settled(page)
        found = Axe().run(page, options=options).response["violations"]
        serious = [each for each in found if each["impact"] in ("serious", "critical")]
        told = [(each["id"], [n["html"][:150] for n in each["nodes"][:3]]) for each in serious]
        assert told == [], theme


def test_hovering_a_curve_and_hovering_and_clicking_a_dot_of_the_spread(compared_page):
    page = in_view(compared_page, "#explorer")
    box = page.locator("#point-chart").bounding_box()
    x, y = page.evaluate(
        """() => {
        const at = pixels(curvewiseState), curve = curvewiseState.curves[curvewiseState.model];
        const i = Math.floor(curve.fpr.length / 2);
        return [at.x(curve.fpr[i]), at.y(curve.tpr[i])];
    }"""
    )
    page.mouse.move(box["x"] + x + 3, box["y"] + y)
    page.mouse.move(box["x"] + x, box["y"] + y)
    page.wait_for_selector("#point-chart .hovertext")
    text = svg_text(page, "#point-chart .hovertext")
    assert all(word in text for word in ("TPR", "FPR", "threshold"))
    in_view(page, "#spread")
    dot = page.locator("#spread-chart .points path.point").nth(10)
    box = dot.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.wait_for_selector("#spread-chart .hovertext")
    text = svg_text(page, "#spread-chart .hovertext")
    assert "omega =" in text
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    name = "modelName(curvewiseState.data, curvewiseState.data.models[curvewiseState.model])"
    until(page, f"{json.dumps(text)}.startsWith({name})")


def test_bands_single_curves_logarithmic_rates_and_the_theme(compared_page):
    page = compared_page
    count = "document.querySelector('#roc-chart').data.length"
    before = page.evaluate(count)
    page.check("#every-curve")
    until(page, f"{count} === {before + 2}")
    page.check("input[value=log]")
    until(page, "document.querySelector('#roc-chart')._fullLayout.xaxis.type === 'log'")
    page.check("input[value=corner]")
    until(page, "document.querySelector('#roc-chart')._fullLayout.xaxis.range[1] < 0.11")
    page.check("input[value=std]")
    drawn = page.evaluate("document.querySelector('#roc-chart').data[2].y[100]")
    assert drawn < page.evaluate("curvewiseState.data.bands[0].high[100]")
    page.click("#theme")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 28)"
    until(page, "document.querySelector('#roc-chart')._fullLayout.font.color === '#e8ebef'")
    assert page.get_attribute("#theme", "aria-pressed") == "true"
    page.click("#theme")
    until(page, "document.querySelector('#roc-chart')._fullLayout.font.color !== '#e8ebef'")


def test_filter_sort_and_download(compared_page, compared, tmp_path):
    page = compared_page
    with Store(compared.store, readonly=True) as store:
        records = [r for r in store.runs("compare") if r.state == "done"]
    total, rows = len(records), page.locator("#runs tbody tr")

    def areas():
        texts = page.locator("#runs tbody td:nth-child(6)").all_inner_texts()
        return [float(text) for text in texts]

    assert page.inner_text("#run-count") == f"{total} of {total} models"
    assert rows.count() == 50
    page.click("#more")
    assert rows.count() == total
    assert areas() == sorted(areas(), reverse=True)
    assert areas()[0] == pytest.approx(max(r.auc for r in records), abs=5.1e-5)
    page.click("#runs thead button[data-key=auc]")
    assert areas() == sorted(areas())
    assert page.get_attribute("#runs thead th:nth-child(6)", "aria-sort") == "ascending"
    page.fill("#filter", "lct omega=0.5 auc>0.5")
    half = [r for r in records if r.run.method == "lct" and r.run.settings["omega"] == 0.5]
    expected = [r for r in half if round(r.auc, 7) > 0.5]
    assert page.inner_text("#run-count") == f"{len(expected)} of {total} models"
    with page.expect_download() as waiting:
        page.click("#download")
    waiting.value.save_as(tmp_path / "models.csv")
    found = pd.read_csv(tmp_path / "models.csv")
    heads = page.locator("#runs thead button").all_text_contents()
    assert list(found) == [head.removesuffix(" \u25b2") for head in heads]
    assert found["AUC"].tolist() == pytest.approx(sorted(r.auc for r in expected), abs=1e-6)
    assert set(found["tau"]) == {r.run.settings["tau"] for r in expected}
    page.fill("#filter", "nothing of the kind")
    assert rows.count() == 0


def test_names_from_data_are_shown_as_they_are_and_betas_chosen_above(show, tmp_path):
    names = ("<b>no</b>", "<script>alert(1)</script>")
    models = page_models(betas=(10.0, 100.0))
    for model in models:
        model["settings"]["note"] = '=HYPERLINK("x")'
    given = page_input(models, task="</script>", class_names=names)
    page = scrolled(show(write_page(given, tmp_path / "report.html")))
    assert names[1] in page.inner_text("#question")
    assert names[1] in page.inner_text(".matrix")
    assert names[1] in svg_text(page, "#histogram-chart .legend")
    assert page.inner_text("h1").startswith("</script>:")
    assert page.locator("main b").count() == 0
    line = page.evaluate("runsCsv(curvewiseState)").splitlines()[1]
    assert '"\'=HYPERLINK(""x"")"' in line  # which no spreadsheet runs
    page.select_option("#group", label="beta = 100")
    until(page, "curvewiseState.data.models[curvewiseState.model].group === 1")
    assert "beta = 100" in page.inner_text("#question")
    assert page.locator("#model option").count() == 8
    page.locator("#runs tr[data-model='3'] button").click()  # a model of the first beta
    until(page, "curvewiseState.group === 0")
    assert "beta = 10;" in page.inner_text("#question")
    assert [page.input_value(field) for field in ("#group", "#model")] == ["0", "3"]


@pytest.mark.parametrize("which", ["compared", "trained"])
def test_nothing_is_cut_and_screenshots_are_kept(show, which, request):
    page = show(request.getfixturevalue(which).page)
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    for width, theme in ((1200, "light"), (375, "dark")):
        page.set_viewport_size({"width": width, "height": 900})
        if theme == "dark":
            page.click("#theme")
        scrolled(page)
        assert page.evaluate("document.documentElement.scrollWidth") == width
        page.screenshot(path=SCREENSHOTS / f"{which}-{width}-{theme}.png", full_page=True)


def test_print_is_light_and_whole_and_dark_is_the_systems(show, compared):
    page = show(compared.page, color_scheme="dark")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    page.pdf(path=SCREENSHOTS / "printed.pdf", format="A4", print_background=True)
    until(page, "document.querySelectorAll('.js-plotly-plot').length === 10")  # drawn for it
    settled(page)
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
