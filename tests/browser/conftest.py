"""A real Chromium, and pages for it: one of a small comparison, one of a model, made once."""

import os
import shutil
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from browsing import FLAGS, Opener, as_opened, opening

from command_line import done


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    chromium = shutil.which("chromium")
    if not os.environ.get("CI"):
        pytest.importorskip("playwright", reason="playwright is in the extra [dev]")
        if chromium is None:
            pytest.skip("no chromium on this machine: `make system` installs Debian's")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        yield started
        started.close()


@pytest.fixture
def show(browser: Any) -> Iterator[Opener]:
    with opening(browser) as opener:
        yield opener


@pytest.fixture(scope="module")
def shared(browser: Any) -> Iterator[dict[Any, Any]]:
    """Pages that the tests of a module share, by name, as opening one takes a second or two."""
    with opening(browser) as opener:
        yield {"opener": opener}


def opened_once(shared: dict[Any, Any], made: Any) -> Any:
    if made.page not in shared:
        shared[made.page] = shared["opener"](made.page)
    return as_opened(shared[made.page])


@pytest.fixture
def compared_page(shared: dict[Any, Any], compared: Any) -> Any:
    return opened_once(shared, compared)


@pytest.fixture
def trained_page(shared: dict[Any, Any], trained: Any) -> Any:
    return opened_once(shared, trained)


@pytest.fixture(scope="session")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A comparison of two methods on two subsamples, with its store and its page."""
    out = tmp_path_factory.mktemp("compared")
    printed = done(
        "compare", "digits:8", "--beta", 50, "--seeds", 2, "--epochs", 3, "--methods", "vs,lct",
        "--executor", "serial", "--out", out, "--json",
    )  # fmt: skip
    return SimpleNamespace(store=out / "runs.db", page=out / "report.html", printed=printed)


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A model trained over tau, with an operating point of its own, and its page."""
    out = tmp_path_factory.mktemp("trained")
    words = ("train", "digits:8", "--beta", 20, "--set", "epochs=20", "--out", out / "model")
    done(*words, "--max-fpr", 0.05, "--reduction", "expected_mean")
    done("report", out / "model", "-o", out / "report.html")
    model = out / "model" / "model.safetensors"
    return SimpleNamespace(model=model, page=out / "report.html")
