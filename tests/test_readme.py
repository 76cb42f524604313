"""Every Python block of README and docs runs, each in a fresh process as a reader would."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
PAGES = [README, *(page.read_text() for page in sorted((ROOT / "docs").glob("*.md")))]
BLOCKS = [block for page in PAGES for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL)]


def test_there_is_an_example_for_each_kind_of_user():
    assert len(BLOCKS) >= 3


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_block_runs(number, tmp_path):
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", BLOCKS[number]],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_the_terminal_session_runs(tmp_path, monkeypatch, capsys):
    from curvewise.cli import main

    rng = np.random.default_rng(0)
    ill = np.arange(300) % 10 == 0
    people = pd.DataFrame(
        {"age": rng.normal(50, 9, 300) + 9 * ill, "outcome": np.where(ill, "ill", "well")}
    )
    people.to_csv(tmp_path / "people.csv", index=False)
    people[["age"]].to_csv(tmp_path / "new.csv", index=False)
    monkeypatch.chdir(tmp_path)
    block = next(b for b in re.findall(r"```sh\n(.*?)```", README, re.DOTALL) if "curvewise" in b)
    for line in block.strip().splitlines():
        monkeypatch.setattr(sys, "argv", shlex.split(line, comments=True))
        with pytest.raises(SystemExit) as stopped:
            main()
        assert not stopped.value.code, capsys.readouterr().err
    assert len(pd.read_csv("answers.csv")) == 300


def test_the_readmes_commands_and_links_exist():
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"make ([a-z-]+) ", README.split("```sh")[1].split("```")[0]):
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE), target
    for link in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (ROOT / link).exists(), link
