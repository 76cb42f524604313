"""Opening pages in Chromium: whatever a page complains of fails the test."""

import io
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync"]
FLAGS += ["--disable-background-networking", "--disable-component-update"]
SCREENSHOTS = Path(__file__).parents[2] / "out" / "screenshots"


class Opener:
    """Opens pages from files, each in a profile of its own, and collects what is wrong."""

    def __init__(self, browser: Any) -> None:
        self.browser, self.contexts, self.problems = browser, [], []

    def __call__(self, path: Path, width: int = 1200, **options: Any) -> Any:
        context = self.browser.new_context(viewport={"width": width, "height": 900}, **options)
        self.contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: self.problems.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.on("request", lambda request: self._only_files(request.url))
        page.goto(path.as_uri())
        page.wait_for_selector("html[data-ready]", state="attached")
        return page

    def _only_files(self, url: str) -> None:
        if not url.startswith(("file:", "blob:", "data:")):
            self.problems.append(f"asked for {url}")


@contextmanager
def opening(browser: Any) -> Iterator[Opener]:
    opener = Opener(browser)
    yield opener
    for context in opener.contexts:
        context.close()
    assert opener.problems == []


def until(page: Any, condition: str, seconds: float = 20) -> None:
    """Wait for a condition; Playwright's own waiting needs `eval`, which the page forbids."""
    came_true = page.evaluate(
        f"""() => new Promise((answer) => {{
            const last = Date.now() + {1000 * seconds};
            const look = () => {{
                if ({condition}) answer(true);
                else if (Date.now() > last) answer(false);
                else setTimeout(look, 10);
            }};
            look();
        }})"""
    )
    assert came_true, f"it never came true that {condition}"


def settled(page: Any) -> Any:
    """Wait until what has come into view is drawn."""
    for _ in range(2):  # a chart may change the height of the page, and what is in view
        page.evaluate(
            "() => new Promise((on) => requestAnimationFrame(() => requestAnimationFrame(on)))"
        )
        until(page, "curvewiseState.drawing === 0")
    return page


def scrolled(page: Any) -> Any:
    """Scroll through a page, so that all of its charts are drawn."""
    height = page.evaluate("document.documentElement.scrollHeight")
    for place in range(0, height, 600):
        page.evaluate(f"window.scrollTo(0, {place})")
        settled(page)
    page.evaluate("window.scrollTo(0, 0)")
    until(page, "curvewiseState.stale.size === 0")
    return settled(page)


def in_view(page: Any, selector: str) -> Any:
    """Scroll to an element, and wait until what is there is drawn."""
    page.locator(selector).scroll_into_view_if_needed()
    return settled(page)


def as_opened(page: Any) -> Any:
    """Undo what was typed and chosen, in front of all other pages, which else get no frames."""
    page.bring_to_front()
    page.evaluate(
        """async () => {
        const state = curvewiseState;
        for (const field of document.querySelectorAll("input")) {
            if (field.checked !== field.defaultChecked) field.click();
            if (field.type !== "text" || !field.value) continue;
            field.value = "";
            field.dispatchEvent(new Event("input"));
        }
        Object.assign(state, { sort: { key: "auc", sign: -1 }, all: false });
        drawRuns(state);
        const { dataset } = document.documentElement;
        if (dataset.theme !== "light") document.querySelector("#theme").click();
        await select(state, state.data.chosen);
        window.scrollTo(0, 0);
        }"""
    )
    return settled(page)


def slide(page: Any, place: int) -> None:
    """Move the slider of the model's lambda."""
    page.evaluate(
        """place => { const slider = document.querySelector('#swept'); slider.value = place;
        slider.dispatchEvent(new Event('input')); }""",
        place,
    )


def python_said(page: Any) -> str:
    """Press the button that copies Python, run it, and return what it prints."""
    with redirect_stdout(io.StringIO()) as printed:
        exec(copied(page, "python"), {"__name__": "__main__"})
    return printed.getvalue()


def percent(text: str) -> float:
    return float(text.replace("\u00a0", " ").split(" %")[0]) / 100


def selected(page: Any, store: Any) -> tuple[Any, Any]:
    """Labels and scores of the model that the page shows."""
    identity = page.evaluate("curvewiseState.data.models[curvewiseState.model].fill.identity")
    return store.labels(store.run(identity).fingerprint), store.scores(identity)


def shown(page: Any) -> dict[str, str]:
    """The explorer's numbers, as they are read."""
    ids = ("n-threshold", "n-tpr", "n-fpr", "n-ppv", "n-alarms", "m-tp", "m-fn", "m-fp", "m-tn")
    return {name: page.inner_text(f"#{name}") for name in ids}


def copied(page: Any, kind: str) -> str:
    """Press a button that copies, and return the text."""
    page.click(f"#copy-{kind}")
    until(page, "document.querySelector('#copied').textContent !== ''")
    return page.text_content("#copy-text")
