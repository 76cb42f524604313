"""The shell blocks of the reference pages, run in order: the same words on smaller problems."""

import importlib.util
import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from command_line import command
from curvewise.sweep import ray_cluster
from test_readme import PAGES, fenced, lines_of

pytestmark = pytest.mark.slow
SMALLER = (  # of docs/sweeps.md's pairs.toml: the same keys, three minutes instead of hours
    ('"fashion-mnist:pairs"', '"digits:8", "digits:9"'),
    ("[10, 100]", "[20]"),
    ("[0, 1, 2]", "[0]"),
    ("pca = 64", "pca = 16"),
    ("epochs = 20", "epochs = 1"),
    ("repeats = 12", "repeats = 2"),
)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty folder with the files that the pages speak of."""
    monkeypatch.chdir(tmp_path)
    text = re.search(r"^```toml\n(.*?)^```", PAGES["docs/sweeps.md"], re.DOTALL | re.MULTILINE)[1]
    for long, short in SMALLER:
        assert long in text
        text = text.replace(long, short)
    Path("pairs.toml").write_text(text)
    rng = np.random.default_rng(0)
    ill = np.arange(600) % 10 == 0
    people = {"age": rng.normal(50, 9, 600) + 9 * ill, "outcome": np.where(ill, "ill", "well")}
    pd.DataFrame(people).to_csv("people.csv", index=False)
    return tmp_path


def run(words, *more):
    ended = command(*words[1:], *more)
    assert ended.code == 0, f"{' '.join(words)}: {ended.err}"
    return ended.out


def commands_of(page):
    """Return the commands of a page that are curvewise's."""
    lines = [words for _, text in fenced(page, "sh", "bash") for words in lines_of(text)]
    return [words for words in lines if words[0] == "curvewise"]


def test_sweeps_and_reports(folder):
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


def test_which_tool_when(folder):
    (words,) = commands_of("docs/which-tool-when.md")
    found = json.loads(run(words, "--seeds", "1", "--epochs", "2", "--json"))
    assert len(found["methods"]) == 5
    assert Path("out/compared/report.html").exists()


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


@pytest.mark.skipif(
    importlib.util.find_spec("efficientnet_lite_pytorch") is None,
    reason="the laptop profile needs the extra [pretrained]",
)
def test_the_paper(folder):
    listing, one, _, page = commands_of("docs/paper.md")  # `all` is the slow test of the profile
    assert "table-pairs" in run(listing)
    rows = {row["name"]: row for row in json.loads(run(listing, "--json"))}
    if "(missing)" in rows["table-pairs"]["data"]:
        pytest.skip("no CIFAR-10 on this machine: CURVEWISE_DATA names the folder")
    run(one, "--scale", "tiny")
    Path("docs/results").mkdir(parents=True)
    run([word.replace("paper-laptop", "paper-laptop-tiny") for word in page])
    assert "table-pairs" in Path("docs/results/paper.md").read_text()
