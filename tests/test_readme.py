"""Every Python block of README and docs runs, and every command in them is a real one.

The pages that say "type along" are sessions: their blocks and commands run in order in one folder.
The shell blocks of the reference pages run in order, too: the same words on smaller problems.
"""

import json
import re
import shlex
import tomllib
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import typer

from command_line import command
from curvewise.cli.main import app
from curvewise.cli.options import UsageError
from curvewise.estimator import fitting
from curvewise.sweep import ray_cluster

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
FILES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
PAGES = {str(file.relative_to(ROOT)): file.read_text() for file in FILES}
HOWTOS = ("choosing-what-to-draw", "deployment", "images")
SESSIONS = ["docs/tutorial.md", *(f"docs/howto/{name}.md" for name in HOWTOS)]
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
    (page, words)
    for page in PAGES
    for _, text in fenced(page, "sh", "bash")
    for words in lines_of(text)
]
MENTIONED = [
    (page, shlex.split(text))
    for page in PAGES
    for text in IN_TEXT.findall(re.sub(r"^```.*?^```", "", PAGES[page], flags=re.S | re.M))
]


def run_python(text, page):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        exec(compile(text, page, "exec"), {"__name__": "__main__"})


def test_there_is_an_example_for_each_kind_of_user():
    assert len(BLOCKS) >= 3
    assert len(COMMANDS) >= 20
    assert len(MENTIONED) >= 20


@pytest.fixture
def small_estimators(monkeypatch):
    """Let estimators have two members and two trees: blocks show how one calls them."""
    settings_of = fitting.Settings.of

    def few(estimator, **loss):
        settings = settings_of(estimator, **loss)
        members, trees = min(settings.n_members, 2), min(settings.trees, 2)
        return replace(settings, n_members=members, trees=trees, steps=30)

    monkeypatch.setattr(fitting.Settings, "of", few)


@pytest.mark.usefixtures("small_estimators")
@pytest.mark.parametrize(("page", "text"), BLOCKS)
def test_block_runs(page, text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run_python(text, page)


@pytest.mark.slow
@pytest.mark.parametrize("page", SESSIONS)
def test_a_page_to_type_along_runs_from_top_to_bottom(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    blocks = fenced(page, "python", "sh", "bash")
    assert {kind for kind, _ in blocks} == {"python", "sh"}
    for kind, text in blocks:
        if kind == "python":
            run_python(text, page)
            continue
        for words in lines_of(text):
            run(words)
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


def test_a_command_has_a_name_and_options_that_exist():
    makefile = (ROOT / "Makefile").read_text()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for page, words in COMMANDS:
        if words[0] == "make":
            targets = re.findall(r"^(\S+):", makefile, flags=re.MULTILINE)
            assert set(words[1:]) <= set(targets), page
        elif words[:2] == ["pip", "install"]:
            for extra in re.findall(r"\[(.+?)\]", words[-1]):
                assert set(extra.split(",")) <= project["optional-dependencies"].keys(), page
        else:
            assert words[0] == "curvewise", (page, words)
            one, rest = found(words)
            try:
                one.make_context(one.name, rest)
            except UsageError as error:
                pytest.fail(f"{page}: {' '.join(words)}: {error}")


def test_a_command_in_a_sentence_has_options_that_exist():
    for page, words in MENTIONED:
        if words[1:] not in (["sweep"], ["paper"], ["data"]):
            one, rest = found(words)
            known = {name for parameter in one.params for name in parameter.opts}
            assert {word for word in rest if re.match(r"--?[a-z]", word)} <= known, (page, words)


def write_people(n):
    """Write people.csv, a table of people of whom one in ten is ill."""
    ill = np.arange(n) % 10 == 0
    table = {"age": np.random.default_rng(0).normal(50, 9, n) + 9 * ill}
    table["outcome"] = np.where(ill, "ill", "well")
    pd.DataFrame(table).to_csv("people.csv", index=False)


def test_the_terminal_session_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_people(300)
    pd.read_csv("people.csv")[["age"]].to_csv("new.csv", index=False)
    block = next(text for _, text in fenced("README.md", "sh") if "curvewise" in text)
    for words in lines_of(block):
        run(words)
    assert len(pd.read_csv("answers.csv")) == 300


def test_the_readmes_links_and_pictures_exist():
    links = re.findall(r"\]\(([^)#:]+)\)", README)
    pictures = re.findall(r'<img src="([^"]+)"', README)
    assert len(pictures) >= 2
    for link in links + pictures:
        assert (ROOT / link).exists(), link
    for picture in (ROOT / "docs" / "images").iterdir():
        assert picture.stat().st_size < 300_000, picture


# Of docs/sweeps.md's pairs.toml: the same keys, three minutes instead of hours.
SMALLER = {'"fashion-mnist:pairs"': '"digits:8", "digits:9"', "[10, 100]": "[20]"}
SMALLER |= {"[0, 1, 2]": "[0]", "pca = 64": "pca = 16"}
SMALLER |= {"epochs = 20": "epochs = 1", "repeats = 12": "repeats = 2"}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty folder with the files that the pages speak of."""
    monkeypatch.chdir(tmp_path)
    text = re.search(r"^```toml\n(.*?)^```", PAGES["docs/sweeps.md"], re.DOTALL | re.MULTILINE)[1]
    for long, short in SMALLER.items():
        assert long in text
        text = text.replace(long, short)
    Path("pairs.toml").write_text(text)
    write_people(600)
    return tmp_path


def run(words, *more):
    ended = command(*words[1:], *more)
    assert ended.code == 0, f"{' '.join(words)}: {ended.err}"
    return ended.out


def commands_of(page):
    """Return the commands of a page that are curvewise's."""
    lines = [words for _, text in fenced(page, "sh", "bash") for words in lines_of(text)]
    return [words for words in lines if words[0] == "curvewise"]


@pytest.mark.slow
def test_sweeps_reports_and_which_tool_when(folder):
    comparing, counting, *sweeping = commands_of("docs/sweeps.md")
    run(comparing)
    assert "128 runs" in run(counting)
    for words in sweeping:
        run(words)
    exported = pd.read_csv("runs.csv")
    assert set(exported["task"]) == {"digits:8", "digits:9"}
    assert (exported["state"] == "done").all()
    Path("out/digits").rename("out/demo")  # what `make demo` leaves
    run(["curvewise", "train", "table:people.csv", "--target", "outcome", "--out", "out/people"])
    of_store, of_task, of_model = commands_of("docs/report.md")
    for words in (of_store, [w.replace("fashion-mnist:0/6", "digits:8") for w in of_task]):
        run(words)
    run(of_model)
    for page in ("report.html", "pairs.html", "people.html"):
        assert Path(page).stat().st_size < 8e6
    (words,) = commands_of("docs/which-tool-when.md")
    found = json.loads(run(words, "--seeds", "1", "--epochs", "2", "--json"))
    assert len(found["methods"]) == 5
    assert Path("out/compared/report.html").exists()


@pytest.mark.slow
def test_a_cluster(folder, monkeypatch):
    for name, value in (ray_cluster.ENVIRONMENT | ray_cluster.ONLY_THIS_MACHINE).items():
        monkeypatch.setenv(name, value)  # before the import
    pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    begun, joined, status = commands_of("docs/howto/cluster.md")[:3]
    run(begun)
    node = {"num_cpus": 1, "num_gpus": 1, "node_ip_address": "127.0.0.1"}
    cluster = Cluster(initialize_head=True, head_node_args={**node, "include_dashboard": False})
    try:
        other = [word.replace("pairs.db", "joined.db") for word in joined]
        run([cluster.address if word == "auto" else word for word in other])
    finally:
        cluster.shutdown()
    assert run(status) == run([word.replace("pairs.db", "joined.db") for word in status])


@pytest.mark.slow
def test_the_paper(folder):
    pytest.importorskip("efficientnet_lite_pytorch")  # which the laptop profile needs
    listing, one, _, page = commands_of("docs/paper.md")  # `all` is the slow test of the profile
    assert "table-pairs" in run(listing)
    rows = {row["name"]: row for row in json.loads(run(listing, "--json"))}
    if "(missing)" in rows["table-pairs"]["data"]:
        pytest.skip("no CIFAR-10 on this machine: CURVEWISE_DATA names the folder")
    run(one, "--scale", "tiny")
    Path("docs/results").mkdir(parents=True)
    run([word.replace("paper-laptop", "paper-laptop-tiny") for word in page])
    assert "table-pairs" in Path("docs/results/paper.md").read_text()
