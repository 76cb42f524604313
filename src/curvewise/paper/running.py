"""Run an experiment: the missing part of its sweeps, its data as CSV, its claims and its figure."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from curvewise.base.errors import InputError
from curvewise.base.files import read_json, sha256, write_json
from curvewise.base.machine import machine, versions
from curvewise.paper.experiment import Data, Experiment, Reading, results, sentence
from curvewise.paper.profiles import Profile
from curvewise.sweep.executors import Executor
from curvewise.sweep.run import sweep
from curvewise.sweep.store import Store
from curvewise.sweep.work import Problems

STORE = "runs.db"
DIGITS = "%.7g"  # of a number in a file; what is shown has fewer
NO_RESULT = "tiny scale: no result. "


@dataclass(frozen=True)
class Shown:
    """An experiment from its data: the claims' results, the table, the files written."""

    results: pd.DataFrame
    table: pd.DataFrame
    files: list[Path]


def run_experiment(
    experiment: Experiment,
    profile: Profile,
    folder: Path,
    executor: Executor,
    problems: Problems,
    command: str = "",
) -> Shown:
    """Train what is missing, then write CSV files, the figure (PNG and SVG) and a JSON record.

    Experiments that need the same models share them through the store in `folder`.
    """
    require_usable(folder)
    folder.mkdir(parents=True, exist_ok=True)
    _refuse_others(experiment.name, profile, folder)
    specs, seconds = experiment.sweeps(profile), 0.0
    names = [spec.name for spec in specs]
    if specs:
        with Store(folder / STORE) as store:
            for spec in specs:
                if sweep(spec, store, executor, problems).failed:
                    raise _failure(store, spec.name, folder)
            reading = Reading(profile, store, problems, names)
            # Of training, whenever that was: a run that was stopped, or finds models, took as long.
            seconds = sum(float(reading.models(name)["seconds"].sum()) for name in names)
            data = experiment.collect(reading)
    else:
        data = experiment.collect(Reading(profile, None, problems, names))
    (folder / f"{experiment.name}.json").unlink(missing_ok=True)  # it would name others' files
    files = write_data(experiment.name, data, folder)
    shown = show(experiment, profile, folder, save_to=folder)
    record = {
        "name": experiment.name,
        "command": command,
        "profile": profile.name,
        "scale": profile.scale,
        "date": datetime.now(UTC).date().isoformat(),
        "seconds": round(seconds, 3),
        "machine": machine(),
        "versions": dict(versions()),
        "models": sum(spec.size for spec in specs),
        "data": [file.name for file in files],
        "sums": {file.name: file_sum(file) for file in files},
        "figures": [file.name for file in shown.files],
    }
    write_json(folder / f"{experiment.name}.json", record)
    return replace(shown, files=[*files, *shown.files])


def _failure(store: Store, name: str, folder: Path) -> InputError:
    failed = list(store.runs(name, state="failed"))
    *_, cause = failed[0].message.strip().splitlines() or ["no message"]
    return InputError(
        f"{len(failed)} runs of {name} failed, one of them with: {cause}; `curvewise sweep status "
        f"{folder / STORE} --failed` has all, and the same command tries again"
    )


def show(
    experiment: Experiment, profile: Profile, folder: Path, *, save_to: Path | None = None
) -> Shown:
    """Make results, table and figure from the CSV files in a folder alone."""
    data = read_data(experiment.name, folder)
    found = results(experiment.claims, data)
    table = found if experiment.table is None else experiment.table(data)
    files = []
    if experiment.draw is not None and save_to is not None:
        title = experiment.finding or sentence(found.iloc[0].drop("published"))
        title = f"{NO_RESULT}{title}" if profile.scale == "tiny" else title
        specs = experiment.sweeps(profile)
        named = [task for rows in data.values() if "task" in rows for task in rows["task"].unique()]
        tasks = named or [task for spec in specs for task in spec.tasks]
        pixels = any(spec.features.pca is None for spec in specs)
        caption = profile.caption_of(tasks, pixels=pixels)
        figure = experiment.draw(data, title=title, caption=caption)
        for suffix in (".png", ".svg"):
            files.append(save_to / f"{experiment.name}{suffix}")
            # Without what tells when it was drawn, the same data give the same file.
            without = {"Date": None} if suffix == ".svg" else {"Software": None}
            figure.savefig(files[-1], dpi=150, metadata=without)
    return Shown(found, table, files)


def write_data(name: str, data: Data, folder: Path) -> list[Path]:
    """Write each frame as NAME.csv or NAME-PART.csv, numbers with seven digits."""
    files = []
    for part, rows in data.items():
        if rows.empty:
            raise InputError(f"{name} must have at least one row of data, got none")
        files.append(folder / (f"{name}-{part}.csv" if part else f"{name}.csv"))
        rows.to_csv(files[-1], index=False, float_format=DIGITS, lineterminator="\n")
    return files


def read_data(name: str, folder: Path) -> Data:
    """Read an experiment's CSV files by their part."""
    record = folder / f"{name}.json"
    if record.is_file():
        listed = read_json(record)["data"]
    else:
        listed = sorted(file.name for file in folder.glob(f"{name}*.csv"))
    if not listed:
        raise InputError(f"{folder} has no data of {name}; run it first")
    return {
        file.removesuffix(".csv").removeprefix(name).removeprefix("-"): pd.read_csv(
            folder / file, keep_default_na=False, na_values=[""]
        )
        for file in listed
    }


def file_sum(path: Path) -> str:
    """Return a checksum of a file's content."""
    return sha256([path.read_bytes()])[:16]


def require_usable(folder: Path) -> None:
    """Raise unless results can go to a folder, once it is made, and to the store in it."""
    for path in (folder, *folder.parents):
        if path.exists():
            if not path.is_dir():
                raise InputError(f"--out must be a folder, got the file {path}")
            break
    if (folder / STORE).exists():
        Store(folder / STORE).close()


def _refuse_others(name: str, profile: Profile, folder: Path) -> None:
    """Raise if a folder holds this experiment's results of another profile or scale."""
    try:
        record = read_json(folder / f"{name}.json")
        found = (record["profile"], record["scale"])
    except (OSError, ValueError, TypeError, KeyError):
        return  # none, or damaged: there is nothing to lose
    if found != (profile.name, profile.scale):
        raise InputError(
            f"{folder} has results of {name} of the profile {found[0]} at the scale {found[1]}, "
            f"which a run of {profile.name} at {profile.scale} would replace: name another --out"
        )


def markdown_table(rows: pd.DataFrame) -> str:
    """Return a frame as a Markdown table.

    >>> print(markdown_table(pd.DataFrame([{"method": "VS", "AUC": 0.91234, "models": 48}])))
    | method | AUC | models |
    |---|--:|--:|
    | VS | 0.9123 | 48 |
    """
    sides = ["--:" if pd.api.types.is_numeric_dtype(rows[name]) else "---" for name in rows]
    body = [[shown_value(value) for value in row] for row in rows.itertuples(index=False)]
    head = "| " + " | ".join(rows.columns) + " |"
    lines = ["| " + " | ".join(cells) + " |" for cells in body]
    return "\n".join([head, "|" + "|".join(sides) + "|", *lines])


def shown_value(value: Any) -> str:
    """Return a cell of a table: four decimals, small p-values in powers of ten.

    >>> shown_value(0.25), shown_value(3.2e-12), shown_value(None), shown_value(17.0)
    ('0.2500', '3.2e-12', '-', '17')
    """
    if value is None or value is pd.NA or value != value or value == "":
        return "-"
    if isinstance(value, bool | np.bool_) or not isinstance(value, float):
        return str(value)
    if value.is_integer():
        return str(int(value))
    return f"{value:.1e}" if 0 < abs(value) < 5e-5 else f"{value:.4f}"
