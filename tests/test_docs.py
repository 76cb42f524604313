"""The documentation site: complete, built without a warning, and without the network."""

import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import curvewise

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
SETTINGS = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
HOMES = {name: home.removeprefix("curvewise.") for name, home in curvewise._HOME_OF.items()}


def pages_of(nav):
    """Return the paths in a (nested) navigation."""
    for entry in nav:
        for value in entry.values():
            yield from [value] if isinstance(value, str) else pages_of(value)


def test_the_navigation_has_every_page_once():
    named = list(pages_of(SETTINGS["nav"]))
    there = {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")}
    listed = {str(page.relative_to(DOCS)) for page in (DOCS / "results" / "paper").glob("*.md")}
    assert sorted(named) == sorted(there - listed)
    index = (DOCS / "results" / "paper.md").read_text()
    assert all(f"]({page.removeprefix('results/')})" in index for page in listed)


def test_the_reference_has_every_public_name_once_and_modules_that_pages_name_exist():
    text = "".join(page.read_text() for page in (DOCS / "api").glob("*.md"))
    told = re.findall(r"^::: curvewise\.([\w.]+)$", text, flags=re.MULTILINE)
    public = [name for name in curvewise.__all__ if name != "__version__"]
    assert sorted(told) == sorted(f"{HOMES[name]}.{name}" for name in public)
    text = "".join(page.read_text() for page in DOCS.rglob("*.md"))
    named = re.findall(r"`((?:\w+/)+\w+\.(?:py|js))`", text)
    assert len(named) > 30
    folders = (ROOT, ROOT / "src" / "curvewise")
    lost = {name for name in named if not any((folder / name).is_file() for folder in folders)}
    assert lost == set()


@pytest.mark.slow
def test_the_site_asks_nobody_and_its_reference_has_examples_and_defaults(tmp_path):
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", tmp_path]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for page in pages_of(SETTINGS["nav"]):
        html = (tmp_path / page).with_suffix(".html").read_text()
        loaded = re.findall(r'<(?:script|img|iframe)[^>]*\ssrc="?([^">\s]+)', html)
        loaded += re.findall(r'<link[^>]*\shref="?([^">\s]+)', html)
        assert loaded
        assert not [address for address in loaded if re.match(r"(https?:)?//", address)]
        assert "fonts.googleapis" not in html
    html = (tmp_path / "api" / "families.html").read_text()
    assert html.count("language-pycon") >= 4  # LossFamily, LinearDensity, condition, FiLM
    for page in (tmp_path / "api").glob("*.html"):
        assert "<blockquote>" not in page.read_text(), page  # what >>> is in plain Markdown
    html = (tmp_path / "api" / "estimators.html").read_text()
    first = html.split('id="curvewise.estimator.estimators.VSClassifier"')[0]
    text = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", first))
    defaults = inspect.signature(curvewise.LCTClassifier).parameters
    for name in ("learning_rate", "weight_decay", "steps", "batch_size", "random_state", "verbose"):
        default = re.escape(repr(defaults[name].default))
        assert re.search(rf" {name} \([^()]*default: {default} \)", text), name


def cells_of(line):
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_the_page_on_what_to_draw_has_the_numbers_of_the_results():
    first = {}  # of the values that a choice is scored at, the top of the range
    for line in (DOCS / "results" / "paper" / "fig-lambda-choice.md").read_text().splitlines():
        if line.startswith("| ") and len(cells_of(line)) == 7:
            first.setdefault(cells_of(line)[0], cells_of(line)[3:7])
    page = (DOCS / "howto" / "choosing-what-to-draw.md").read_text().splitlines()
    shown = [cells_of(line) for line in page if line.startswith("| ") and line.count("|") == 6]
    found = {name.replace("nothing (VS)", "VS"): numbers for name, *numbers in shown}
    found = {name: numbers for name, numbers in found.items() if name in first}
    assert found == {name: first[name] for name in found}
    assert len(found) == 5
