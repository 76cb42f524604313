"""`curvewise paper` from the command line."""

import json
import subprocess
import sys

from curvewise.apps.paper.catalogue import EXPERIMENTS


def curvewise(*words):
    command = [sys.executable, "-m", "curvewise.cli", "paper", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_list_names_all_with_what_they_need(tmp_path):
    found = curvewise("list", "--json", "--data-dir", str(tmp_path))
    assert found.returncode == 0, found.stderr
    rows = {row["name"]: row for row in json.loads(found.stdout)}
    assert list(rows) == list(EXPERIMENTS)
    assert rows["table-pairs"]["models"] == 45 * 96
    assert rows["table-pairs"]["data"] == "cifar10 (missing)"
    assert rows["fig-contours"]["takes"] == "seconds"


def test_wrong_words_are_one_sentence(tmp_path):
    missing = ("run", "table-pairs", "--data-dir", str(tmp_path), "--out", str(tmp_path / "out"))
    for words, told in (
        (("run", "fig-sams"), "did you mean 'fig-sam'?"),
        (("run", "fig-sam", "--profile", "desktop"), "profile must be one of"),
        (("run", "fig-sam", "--weights", "none.pth"), "there is no weights file none.pth"),
        (("page", str(tmp_path), str(tmp_path / "a.md")), "has no results"),
        (missing, "cifar10"),
    ):
        found = curvewise(*words)
        assert found.returncode == 2
        assert told in found.stderr
        assert found.stderr.count("\n") == 1
        assert "Traceback" not in found.stderr
