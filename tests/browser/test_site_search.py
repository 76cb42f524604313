"""The documentation opened from disk: its search finds pages, without a server or the network."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_search_works_from_disk(browser, tmp_path):
    words = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(tmp_path)]
    subprocess.run(words, cwd=ROOT, check=True, capture_output=True)
    context = browser.new_context()
    page = context.new_page()
    problems = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("request", lambda asked: asked.url.startswith("file:") or problems.append(asked.url))
    page.goto((tmp_path / "howto" / "images.html").as_uri())
    page.click("[data-md-component=search-query]")
    page.keyboard.type("operating point", delay=10)
    page.locator(".md-search-result__link").first.wait_for(timeout=10_000)
    found = page.locator(".md-search-result__link").evaluate_all("links => links.map(String)")
    assert any(target.startswith((tmp_path / "tutorial.html").as_uri()) for target in found)
    assert problems == []
    context.close()
