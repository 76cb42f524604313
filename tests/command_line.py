"""Running a command in this process, as a person would type it, and files to run it on."""

import io
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

import numpy as np
import pandas as pd
from PIL import Image

from curvewise.cli.main import main

ROWS = 300
ILL = np.arange(ROWS) % 10 == 0


class Ended(NamedTuple):
    """How a command ended, and what it printed."""

    code: int
    out: str
    err: str


def command(*words: object) -> Ended:
    """Run `curvewise WORDS...`."""
    code, out, err = 0, io.StringIO(), io.StringIO()
    argv = ["curvewise", *map(str, words)]
    with patch.object(sys, "argv", argv), redirect_stdout(out), redirect_stderr(err):
        try:
            main()
        except SystemExit as stopped:
            code = int(stopped.code or 0)
    return Ended(code, out.getvalue(), err.getvalue())


def done(*words: object) -> str:
    """Run a command that must succeed; returns what it printed."""
    ended = command(*words)
    assert ended.code == 0, ended.err
    return ended.out


def people(**columns: object) -> pd.DataFrame:
    """A good table, with columns changed."""
    age = np.random.default_rng(0).normal(50, 9, ROWS).round(2) + 9 * ILL
    city = np.array(["Rome", "Oslo", "Bern"])[np.arange(ROWS) % 3]
    frame = pd.DataFrame({"age": age, "city": city, "outcome": np.where(ILL, "ill", "well")})
    return frame.assign(**columns)


def pictures(folder: Path, **counts: int) -> Path:
    """A folder with one sub-folder a class; red is the class, green the number."""
    for red, (name, count) in enumerate(counts.items()):
        (folder / name).mkdir(parents=True)
        for green in range(count):
            color = (100 * red, green, 0)
            Image.new("RGB", (12, 8), color).save(folder / name / f"{green}.png")
    return folder
