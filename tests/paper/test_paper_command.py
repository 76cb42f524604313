"""`curvewise paper` from the command line."""

import json
import sys

from command_line import command
from curvewise.paper.running import EXPERIMENTS


def test_the_list_names_all_with_what_they_need(tmp_path):
    found = command("paper", "list", "--json", "--data-dir", str(tmp_path))
    assert found.code == 0, found.err
    rows = {row["name"]: row for row in json.loads(found.out)}
    assert list(rows) == list(EXPERIMENTS)
    assert rows["table-pairs"]["models"] == 45 * 96
    assert rows["table-pairs"]["data"] == "cifar10 (missing)"
    assert rows["fig-contours"]["takes"] == "seconds"


def test_wrong_words_are_one_sentence(tmp_path, monkeypatch):
    missing = ("run", "table-pairs", "--data-dir", str(tmp_path), "--out", str(tmp_path / "out"))
    paper, no_store = ("run", "fig-sam", "--profile", "paper"), tmp_path / "no-store"
    no_store.mkdir()
    (no_store / "runs.db").write_text("omega, gamma\n" * 99)
    for words, told in (
        (("run", "fig-sams"), "did you mean 'fig-sam'?"),
        (("run", "fig-sam", "--profile", "desktop"), "profile must be one of"),
        (("run", "fig-sam", "--weights", "none.pth"), "there is no weights file none.pth"),
        (("run", "fig-sam", "--weights", sys.executable), "--weights goes with --profile paper"),
        ((*paper, "--weights", sys.executable), "cannot be read as plain weights"),
        (("page", str(tmp_path), str(tmp_path / "a.md")), "has no results"),
        (("run", "all", "--data-dir", str(tmp_path / "none")), "--data-dir must be a folder, got"),
        (("list", "--data-dir", str(tmp_path / "none")), "--data-dir must be a folder, got"),
        (("run", "fig-sam", "--cache-dir", sys.executable), "--cache-dir must be a folder, got"),
        (("run", "fig-sam", "--gpus", "-1"), "gpus must be >= 0"),
        (("run", "fig-sam", "--gpus", "1"), "go with --executor ray"),
        (("run", "fig-sam", "--address", "a:1"), "go with --executor ray"),
        (("page", str(tmp_path), str(tmp_path / "a.csv")), "the page must be a file such as"),
        (missing, "cifar10"),
        (("run", "all", "--out", sys.executable), "--out must be a folder, got the file"),
        (("run", "all", "--out", f"{sys.executable}/deep/x"), "--out must be a folder, got the"),
        (("run", "all", "--out", str(no_store)), "must be a Curvewise store"),
    ):
        found = command("paper", *words)
        assert told in found.err
        assert (found.code, found.err.count("\n")) == (2, 1)
    monkeypatch.setenv("CURVEWISE_DATA", str(tmp_path / "none"))
    found = command("paper", "run", "table-samples", "--out", str(tmp_path / "other"))
    assert found.code == 2
    assert found.err == f"curvewise: CURVEWISE_DATA must be a folder, got {tmp_path / 'none'}\n"
    assert not (tmp_path / "other").exists()
