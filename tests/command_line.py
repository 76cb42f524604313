"""Running a command in this process, as a person would type it."""

import io
import sys
from contextlib import redirect_stderr, redirect_stdout
from typing import NamedTuple
from unittest.mock import patch

from curvewise.cli.main import main


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
