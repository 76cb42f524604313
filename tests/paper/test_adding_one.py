"""What CONTRIBUTING.md says of adding an experiment, followed by script in a copy of src."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_an_experiment_is_added_as_the_page_says(tmp_path):
    page = (ROOT / "CONTRIBUTING.md").read_text()
    steps = re.findall(r"^\d\. (.*)$", page.partition("## Adding an experiment")[2], re.MULTILINE)
    assert len(steps) == 5
    shutil.copytree(ROOT / "src", tmp_path / "src")
    source, target = re.findall(r"`(\S+\.py)`", steps[0])
    shutil.copyfile(ROOT / source, tmp_path / target)
    assert len((ROOT / source).read_text().splitlines()) < 60
    catalogue = tmp_path / re.findall(r"`(\S+\.py)`", steps[2])[0]
    text = catalogue.read_text().replace("BEYOND = (\n", "BEYOND = (\n    EXPERIMENT,\n", 1)
    catalogue.write_text(f"from curvewise.paper.my_experiment import EXPERIMENT\n{text}")
    run, publish = (re.findall(r"`curvewise ([^`]+)`", steps[k])[0] for k in (3, 4))
    (tmp_path / "docs" / "results").mkdir(parents=True)
    # In one process, which must find the copy of src: to start one takes seconds.
    commands = (f"{run} --executor serial", publish.replace("out/paper-laptop", "out/tiny"))
    script = [f"done(*{shlex.split(words)!r})" for words in commands]
    path = os.pathsep.join(map(str, (tmp_path / "src", ROOT / "tests")))
    subprocess.run(
        [sys.executable, "-c", "\n".join(["from command_line import done", *script])],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        check=True,
    )
    own = (tmp_path / "docs" / "results" / "paper" / "my-experiment.md").read_text()
    assert "**Does LCT beat VS on handwritten digits at 50:1?**" in own
    assert "LCT has the lower std of AUC than VS" in own
    assert (tmp_path / "docs" / "results" / "paper" / "my-experiment.png").stat().st_size > 5_000
