"""Every page has short sentences and paragraphs; pages of results are short and of one form."""

import re
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
EVERY = [*sorted(ROOT.glob("*.md")), *sorted(DOCS.rglob("*.md"))]
PAGES = [*sorted((DOCS / "results").rglob("*.md")), DOCS / "which-tool-when.md"]
PARAGRAPH, SENTENCE, LINES = 60, 30, 150  # at most: words, words, lines that are not of tables


def paragraphs(text: str) -> Iterator[str]:
    """Yield paragraphs and items of lists in plain words; no tables, titles, pictures, code."""
    text = re.sub(r"```.*?```|<!--.*?-->", "\n\n", text, flags=re.DOTALL)
    for block in re.split(r"\n\s*\n", text):
        for item in re.split(r"\n(?=\s*(?:[-*]|\d+\.) )", block):
            if item.strip() and not item.lstrip().startswith(("|", "#", "![", "<img")):
                words = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", " ".join(item.split()))
                words = words.replace("**", "")
                yield re.sub(r"^\s*(?:[-*]|\d+\.) ", "", re.sub(r"`[^`]*`", "code", words))


def words_of(text: str) -> int:
    return len(re.findall(r"[^\W\d_][\w'-]*|\d[\d.,%-]*", text))


def sentences(text: str) -> list[str]:
    return re.split(r"(?<=[.!?:;])\s+(?=[A-Z*(\"])|(?<=[.!?])\s+(?=code\b)", text)


@pytest.mark.parametrize("page", EVERY, ids=lambda page: page.stem)
def test_sentences_and_paragraphs_are_short(page):
    long = [
        part
        for paragraph in paragraphs(page.read_text())
        for part in [paragraph] * (words_of(paragraph) > PARAGRAPH)
        + [own for own in sentences(paragraph) if words_of(own) > SENTENCE]
    ]
    assert long == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_is_short_and_has_question_answer_table_picture_and_where_it_is_from(page):
    text = page.read_text()
    assert sum(not line.startswith("|") for line in text.splitlines()) <= LINES
    if page.name == "paper.md":  # the table of the others
        return
    form = r"# [^\n]+\n\n\*\*[^\n]+\?\*\*\n\n[^|!#].*\n\n\|.*"
    assert re.match(form, text, re.DOTALL)
    pictures = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", text)
    assert pictures or page.stem == "table-samples"  # which only counts
    assert all((page.parent / picture).is_file() for picture in pictures)
    if page.parent != DOCS:
        assert re.search(r"\n- `[^\n]+`\n", text)  # the command
        assert re.search(r"\n- (each |)[^\n]*20\d\d-\d\d-\d\d", text)


def test_the_answer_on_the_papers_page_is_that_of_its_pairs():
    models = pd.read_csv(DOCS / "results" / "paper" / "table-pairs.csv")
    vs = models["method"] == "VS"
    at_two = vs & (pd.to_numeric(models["tau"], errors="coerce") == 2)
    page = (DOCS / "results" / "paper.md").read_text()
    for arm in (vs, ~vs, at_two):
        areas = models[arm].groupby("task")["auc"]
        numbers = (areas.mean(), areas.min(), areas.max(), areas.std())
        assert " | ".join(f"{number.mean():.4f}" for number in numbers) + " |\n" in page


def test_what_is_counted():
    text = "# Title\n\n1. One [two](a.md) `b c d`.\n2. Three: Four\n\n| a |\n\n```\nx y\n```\n"
    assert list(paragraphs(text)) == ["One two code.", "Three: Four"]
    assert [words_of(part) for part in paragraphs(text)] == [3, 2]
    parts = ["One, 2.", "Three:", "Four (five). 0.5 six.", "One.", "code takes; code, three: code"]
    assert sentences(" ".join(parts)) == parts
