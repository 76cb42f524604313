"""The published page is what its own data say."""

from pathlib import Path

import pytest

from curvewise.paper.catalogue import EXPERIMENTS
from curvewise.paper.page import START
from curvewise.paper.profiles import Profile
from curvewise.paper.running import draw_experiment, markdown_table

PAGE = Path(__file__).parents[2] / "docs" / "results" / "paper.md"
DATA = PAGE.parent / "paper"
THERE = [name for name in EXPERIMENTS if f"\n## {name}\n" in PAGE.read_text()]


@pytest.mark.parametrize("name", THERE)
def test_tables_and_verdict_follow_from_the_committed_data(name):
    text = PAGE.read_text().partition(START)[2]
    section = text.partition(f"\n## {name}\n")[2].partition("\n## ")[0]
    outcome = draw_experiment(EXPERIMENTS[name], Profile(), DATA, save=False).outcome
    assert f"**{outcome.verdict}**" in section
    for title, rows in outcome.tables.items():
        assert f"{title}:\n\n{markdown_table(rows)}" in section
    assert outcome.tables or outcome.figures
    for figure in outcome.figures:
        assert f"(paper/{figure}.png)" in section
        assert (DATA / f"{figure}.png").stat().st_size > 10_000


def test_the_page_has_no_other_experiments():
    lines = PAGE.read_text().partition(START)[2].splitlines()
    sections = [line[3:] for line in lines if line.startswith("## ")]
    assert sections == THERE
    listed = {file.name.partition(".")[0] for file in DATA.glob("*.csv")}
    assert all(any(one == name or one.startswith(f"{name}-") for name in THERE) for one in listed)
