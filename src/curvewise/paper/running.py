"""Run an experiment: the missing part of its sweeps, its data as CSV, its tables and figures."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from curvewise.base.errors import InputError
from curvewise.base.files import read_json, sha256, write_json
from curvewise.base.machine import machine, versions
from curvewise.paper.csv_files import read_rows, write_rows
from curvewise.paper.experiment import Data, Experiment, Outcome, Reading, Rows
from curvewise.paper.profiles import Profile
from curvewise.report.from_store import write_store_report
from curvewise.sweep.executors import Executor
from curvewise.sweep.problems import Problems
from curvewise.sweep.progress import sweep
from curvewise.sweep.store import Store

STORE = "runs.db"
NO_RESULT = "At the tiny scale nothing is trained long enough to be a result. "


@dataclass(frozen=True)
class Shown:
    """An experiment that has been run: what it shows and the files it left."""

    outcome: Outcome
    files: list[Path]


def run_experiment(
    experiment: Experiment,
    profile: Profile,
    folder: Path,
    executor: Executor,
    problems: Problems,
    command: str = "",
) -> Shown:
    """Train what is missing, then write CSV files, figures (PNG and SVG) and a JSON record.

    Experiments that need the same models share them through the store in `folder`.
    """
    require_usable(folder)
    folder.mkdir(parents=True, exist_ok=True)
    _refuse_others(experiment.name, profile, folder)
    specs, seconds = experiment.sweeps(profile), 0.0
    if specs:
        with Store(folder / STORE) as store:
            for spec in specs:
                done = sweep(spec, store, executor, problems)
                if done.failed:
                    first = next(iter(store.runs(spec.name, state="failed")))
                    *_, cause = first.message.strip().splitlines() or ["no message"]
                    raise InputError(
                        f"{done.failed} runs of {spec.name} failed, one of them with: "
                        f"{cause}; `curvewise sweep status {folder / STORE} --failed` has "
                        "all, and the same command tries again"
                    )
            # Of training, whenever that was: a run that was stopped, or finds models, took as long.
            seconds = sum(row.seconds for spec in specs for row in store.status(spec.name))
            data = experiment.collect(Reading(profile, store, problems))
    else:
        data = experiment.collect(Reading(profile, None, problems))
    files = _write(experiment.name, data, folder)
    shown = draw_experiment(experiment, profile, folder)
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
        "verdict": shown.outcome.verdict,
        "tables": dict(shown.outcome.tables),
    }
    write_json(folder / f"{experiment.name}.json", record)
    return Shown(shown.outcome, [*files, *shown.files])


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


def draw_experiment(
    experiment: Experiment, profile: Profile, folder: Path, *, save: bool = True
) -> Shown:
    """Make tables and figures from the CSV files in a folder alone."""
    outcome = experiment.present(read_data(experiment.name, folder), profile)
    if profile.scale == "tiny":
        outcome = replace(outcome, verdict=f"{NO_RESULT}{outcome.verdict}")
    files = []
    for name, figure in outcome.figures.items() if save else ():
        for suffix in (".png", ".svg"):
            path = folder / f"{name}{suffix}"
            figure.savefig(path, dpi=150, metadata=_without_date(suffix))
            files.append(path)
    return Shown(outcome, files)


def write_report(experiment: Experiment, profile: Profile, folder: Path) -> list[Path]:
    """Write NAME.html: the models of the experiment's first task, to look into one by one.

    `curvewise report` makes the pages of other tasks from the same store.
    """
    specs = experiment.sweeps(profile)
    if not specs:
        return []
    with Store(folder / STORE, readonly=True) as store:
        path = folder / f"{experiment.name}.html"
        return write_store_report(path, store, specs[0].name, specs[0].all_tasks[0])


def read_data(name: str, folder: Path) -> Data:
    """Read an experiment's CSV files, NAME.csv or NAME-PART.csv, by their part."""
    record = folder / f"{name}.json"
    listed: Sequence[str] = (
        read_json(record)["data"]
        if record.is_file()
        else sorted(file.name for file in folder.glob(f"{name}*.csv"))
    )
    if not listed:
        raise InputError(f"{folder} has no data of {name}; run it first")
    return {_part(name, file): read_rows(folder / file) for file in listed}


def _write(name: str, data: Data, folder: Path) -> list[Path]:
    (folder / f"{name}.json").unlink(missing_ok=True)  # it would name the files of another run
    files = []
    for part, rows in data.items():
        path = folder / (f"{name}-{part}.csv" if part else f"{name}.csv")
        write_rows(path, rows)
        files.append(path)
    return files


def _part(name: str, file: str) -> str:
    return file.removesuffix(".csv").removeprefix(name).removeprefix("-")


def _without_date(suffix: str) -> dict[str, Any]:
    """Return metadata under which the same data give the same file."""
    return {"Date": None} if suffix == ".svg" else {"Software": None}


def markdown_table(rows: Rows) -> str:
    """Return rows as a Markdown table.

    >>> print(markdown_table([{"method": "VS", "AUC": 0.91234, "models": 48}]))
    | method | AUC | models |
    |---|---|---|
    | VS | 0.9123 | 48 |
    """
    columns = list(rows[0])
    lines = [columns, *([shown_value(row[name]) for name in columns] for row in rows)]
    head, *body = ("| " + " | ".join(cells) + " |" for cells in lines)
    return "\n".join([head, "|" + "---|" * len(columns), *body])


def shown_value(value: Any) -> str:
    """Return a cell of a table: four decimals, small p-values in powers of ten.

    >>> shown_value(0.25), shown_value(3.2e-12), shown_value(None), shown_value(17)
    ('0.2500', '3.2e-12', '-', '17')
    """
    if value is None or value != value:
        return "-"
    if isinstance(value, bool) or not isinstance(value, float):
        return str(value)
    if value.is_integer() and abs(value) >= 1:
        return str(int(value))
    return f"{value:.1e}" if 0 < abs(value) < 5e-5 else f"{value:.4f}"
