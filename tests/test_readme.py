"""Every Python block of README and docs runs, and every command in them is a real one.

Each block of the README runs in a fresh process, as a reader would run it, those of other pages in
this one, for starting takes longer than most of them. The pages that say "type along" are sessions:
their blocks and commands run in order in one folder.
"""

import re
import shlex
import subprocess
import sys
import tomllib
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import typer

from command_line import command
from curvewise.cli.main import app
from curvewise.cli.options import UsageError

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
FILES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
PAGES = {str(file.relative_to(ROOT)): file.read_text() for file in FILES}
SESSIONS = [
    "docs/tutorial.md",
    "docs/howto/choosing-what-to-draw.md",
    "docs/howto/deployment.md",
    "docs/howto/images.md",
]
FENCED = re.compile(r"^```(python|sh|bash)\n(.*?)^```", re.DOTALL | re.MULTILINE)
IN_TEXT = re.compile(r"`(curvewise [^`]+)`")


def fenced(page, *kinds):
    """Return the (kind, text) of a page's blocks, in order."""
    return [(kind, text) for kind, text in FENCED.findall(PAGES[page]) if kind in kinds]


def lines_of(text):
    """Return the commands of a shell block as lists of words."""
    lines = text.replace("\\\n", " ").splitlines()
    return [words for line in lines if (words := shlex.split(line, comments=True))]


BLOCKS = [
    pytest.param(page, text, id=f"{page}:{number}")
    for page in PAGES
    if page not in SESSIONS
    for number, (_, text) in enumerate(fenced(page, "python"))
]
COMMANDS = [
    pytest.param(words, id=f"{page}:{' '.join(words)}")
    for page in PAGES
    for _, text in fenced(page, "sh", "bash")
    for words in lines_of(text)
]
MENTIONED = [
    pytest.param(shlex.split(" ".join(text.split())), id=f"{page}:{' '.join(text.split())}")
    for page in PAGES
    for text in IN_TEXT.findall(re.sub(r"^```.*?^```", "", PAGES[page], flags=re.S | re.M))
]


def run_python(text, folder):
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", text],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_there_is_an_example_for_each_kind_of_user():
    assert len(BLOCKS) >= 3
    assert len(COMMANDS) >= 20
    assert len(MENTIONED) >= 20


@pytest.mark.parametrize(("page", "text"), BLOCKS)
def test_block_runs(page, text, tmp_path, monkeypatch):
    if page == "README.md":
        run_python(text, tmp_path)
        return
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        exec(compile(text, page, "exec"), {"__name__": "__main__"})


@pytest.mark.parametrize(
    "page", [SESSIONS[0], *(pytest.param(page, marks=pytest.mark.slow) for page in SESSIONS[1:])]
)
def test_a_page_to_type_along_runs_from_top_to_bottom(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    blocks = fenced(page, "python", "sh", "bash")
    assert {kind for kind, _ in blocks} == {"python", "sh"}
    for kind, text in blocks:
        if kind == "python":
            run_python(text, tmp_path)
            continue
        for words in lines_of(text):
            ended = command(*words[1:])
            assert ended.code == 0, f"{' '.join(words)}: {ended.err}"
    if page == "docs/tutorial.md":
        assert (tmp_path / "out" / "parts-test" / "report.html").exists()
        assert len(pd.read_csv("answers.csv")) == 500


def found(words):
    """Return the command that `curvewise WORDS...` names, and the words that are left for it."""
    here, rest = typer.main.get_command(app), list(words[1:])
    while hasattr(here, "commands"):
        assert rest, f"{' '.join(words)} names no command"
        assert rest[0] in here.commands, f"there is no command {rest[0]!r}"
        here = here.commands[rest.pop(0)]
    return here, rest


@pytest.mark.parametrize("words", COMMANDS)
def test_a_command_has_a_name_and_options_that_exist(words):
    if words[0] == "make":
        makefile = (ROOT / "Makefile").read_text()
        for target in words[1:]:
            assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE), target
    elif words[:2] == ["pip", "install"]:
        extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
        for extra in re.findall(r"\[(.+?)\]", words[-1]):
            assert set(extra.split(",")) <= extras["optional-dependencies"].keys()
    else:
        assert words[0] == "curvewise", words
        one, rest = found(words)
        try:
            one.make_context(one.name, rest)
        except UsageError as error:
            pytest.fail(f"{' '.join(words)}: {error}")


@pytest.mark.parametrize("words", MENTIONED)
def test_a_command_in_a_sentence_has_options_that_exist(words):
    if words[1:] in (["sweep"], ["paper"], ["data"]):
        return
    one, rest = found(words)
    known = {name for parameter in one.params for name in parameter.opts}
    assert {word for word in rest if re.match(r"--?[a-z]", word)} <= known


def test_the_terminal_session_runs(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    ill = np.arange(300) % 10 == 0
    people = pd.DataFrame(
        {"age": rng.normal(50, 9, 300) + 9 * ill, "outcome": np.where(ill, "ill", "well")}
    )
    people.to_csv(tmp_path / "people.csv", index=False)
    people[["age"]].to_csv(tmp_path / "new.csv", index=False)
    monkeypatch.chdir(tmp_path)
    block = next(text for _, text in fenced("README.md", "sh") if "curvewise" in text)
    for words in lines_of(block):
        ended = command(*words[1:])
        assert ended.code == 0, ended.err
    assert len(pd.read_csv("answers.csv")) == 300


def test_the_readmes_links_and_pictures_exist():
    links = re.findall(r"\]\(([^)#:]+)\)", README)
    pictures = re.findall(r'<img src="([^"]+)"', README)
    assert len(pictures) >= 2
    for link in links + pictures:
        assert (ROOT / link).exists(), link
    for picture in (ROOT / "docs" / "images").iterdir():
        assert picture.stat().st_size < 300_000, picture
