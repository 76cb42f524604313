"""The package as a stranger gets it: a wheel, base dependencies only, an environment of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from command_line import people, pictures

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.slow


# What makes another Python see this one's packages.
CLEAN = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}


def ran(*words, folder=None):
    words = list(map(str, words))
    return subprocess.run(words, cwd=folder, env=CLEAN, capture_output=True, text=True, check=False)


def worked(*words):
    ended = ran(*words)
    assert ended.returncode == 0, ended.stderr


@pytest.fixture(scope="module")
def curvewise(tmp_path_factory):
    """Run the installed command in a folder with tables and pictures."""
    folder = tmp_path_factory.mktemp("clean")
    # By way of a source distribution: what is left in build/ would go into a wheel made directly.
    worked(sys.executable, "-m", "build", "--outdir", folder / "dist", ROOT)
    worked(sys.executable, "-m", "venv", "--without-pip", folder / "env")
    python = folder / "env" / "bin" / "python"
    pip = (sys.executable, "-m", "pip", "--python", python, "install", "--no-compile", "--quiet")
    worked(*pip, "--constraint", ROOT / "constraints.txt", *(folder / "dist").glob("*.whl"))
    people().to_csv(folder / "people.csv", index=False)
    (folder / "people.parquet").write_bytes(b"PAR1")
    pictures(folder / "photos", cat=8, dog=8)
    (folder / "sweep.toml").write_text('tasks = "digits:8"\n[[methods]]\nmethod = "vs"\n')
    return lambda *words: ran(folder / "env" / "bin" / "curvewise", *words, folder=folder)


def test_it_trains_and_predicts(curvewise):
    words = "train table:people.csv --target outcome --out model --max-fpr 0.1"
    trained = curvewise(*words.split())
    assert trained.returncode == 0, trained.stderr
    predicted = curvewise("predict", "people.csv", "--model", "model", "--out", "answers.csv")
    assert predicted.returncode == 0, predicted.stderr
    folder = Path(predicted.args[0]).parents[2]
    answers = pd.read_csv(folder / "answers.csv")
    assert list(answers) == ["score", "positive", "class"]
    assert answers["score"][::10].mean() > answers["score"].mean()


EXTRAS = {
    "report": "report model -o page.html",
    "pretrained": "embed folder:photos --image-size 8 --out features.npz",
    "cluster": "sweep run sweep.toml --executor ray",
    "parquet": "train table:people.parquet --target outcome --out other",
}


@pytest.mark.parametrize("extra", EXTRAS)
def test_what_needs_an_extra_names_it(curvewise, extra):
    refused = curvewise(*EXTRAS[extra].split())
    assert refused.returncode == 2
    assert f"curvewise[{extra}]" in refused.stderr
    assert "Traceback" not in refused.stderr
