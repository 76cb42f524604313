"""The charts' toolbars: which buttons they have, and that nothing leads out of the page."""

import pytest
from browsing import scrolled, settled

BUTTONS = ["Download plot as a PNG", "Zoom", "Pan", "Zoom in", "Zoom out", "Reset axes"]


@pytest.mark.parametrize("which", ["compared", "trained"])
def test_toolbars_have_these_buttons_and_nothing_leads_away(show, which, request):
    page = scrolled(show(request.getfixturevalue(which).page))
    opened = []
    page.context.on("page", lambda new: opened.append(new))
    toolbars = page.evaluate(
        """[...document.querySelectorAll('.js-plotly-plot')].map((chart) =>
        [...chart.querySelectorAll('.modebar-btn')].map((button) => button.dataset.title))"""
    )
    assert len(toolbars) >= 5
    assert all(toolbar == BUTTONS for toolbar in toolbars), toolbars
    links = page.evaluate(
        """[...document.querySelectorAll('*')].flatMap((each) =>
        ['href', 'xlink:href', 'src', 'action', 'formaction', 'target', 'ping']
        .map((name) => each.getAttribute(name)).filter(Boolean))"""
    )
    assert all(link.startswith(("#", "data:image/")) for link in links), links
    for button in page.locator("#roc-chart .modebar-btn").all():
        page.hover("#roc-chart")
        button.click()
    assert show.problems == []
    # Nor can the library itself be made to open a window for a chart.
    page.evaluate(
        "Plotly.Plots.sendDataToCloud?.(document.querySelector('#roc-chart'), 'https://a.b')"
    )
    assert page.evaluate("window.open('https://a.b')") is None
    settled(page)
    assert opened == []
    show.problems.clear()  # it says that it could not


def test_toolbars_are_faint_and_fingers_have_none(compared_page, show, compared):
    page = scrolled(compared_page)
    for theme in ("light", "dark"):
        text = page.evaluate("cssColor('text')")
        red, green, blue = bytes.fromhex(text[1:])
        bar = page.evaluate("document.querySelector('#roc-chart')._fullLayout.modebar")
        assert bar["bgcolor"] == "rgba(0,0,0,0)"
        assert bar["color"] == f"rgba({red},{green},{blue},0.35)"
        assert bar["activecolor"] == text
        if theme == "light":
            page.click("#theme")
            scrolled(page)
    page = scrolled(show(compared.page, width=390, has_touch=True, is_mobile=True))
    assert page.locator(".js-plotly-plot").count() == 10
    assert page.locator(".modebar-btn").count() == 0
