"""Run an experiment: the missing part of its sweeps, its data as CSV, its claims and its figure.

What came out is published as pages: one of all experiments on a screen, and one for each.
"""

import shutil
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from curvewise.base.errors import InputError, require
from curvewise.base.files import read_json, sha256, write_json
from curvewise.base.machine import machine, versions
from curvewise.paper.catalogue import EXPERIMENTS, PUBLISHED
from curvewise.paper.experiment import Data, Experiment, Reading, results, sentence
from curvewise.paper.profiles import Profile
from curvewise.sweep.executors import Executor
from curvewise.sweep.run import duration, sweep
from curvewise.sweep.store import Store
from curvewise.sweep.work import Problems

STORE = "runs.db"
DIGITS = "%.7g"  # of a number in a file; what is shown has fewer
WHEN = {".png": "Software", ".svg": "Date"}
NO_RESULT = "tiny scale: no result. "
RECORDED = {
    *("name", "command", "profile", "scale", "date", "seconds", "machine", "versions", "models"),
    *("data", "figures"),
}
TITLE = "# The paper's results\n\n"
START = "<!-- experiments: written by `curvewise paper page`; edit above this line only -->"
CLAIMS = ["claim", "published", "here", "verdict"]


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
    name, specs = experiment.name, experiment.sweeps(profile)
    new = {"name": name, "command": command, "profile": profile.name, "scale": profile.scale}
    refuse_less(folder, read_record(name, folder), new, "--out")
    opened: Any = Store(folder / STORE) if specs else nullcontext()
    with opened as store:
        for spec in specs:
            if sweep(spec, store, executor, problems).failed:
                failed = list(store.runs(spec.name, state="failed"))
                *_, cause = failed[0].message.strip().splitlines() or ["no message"]
                raise InputError(
                    f"{len(failed)} runs of {spec.name} failed, one of them with: {cause}; "
                    f"`curvewise sweep status {folder / STORE} --failed` has all, and the same "
                    "command tries again"
                )
        reading = Reading(profile, store, problems, [spec.name for spec in specs])
        # Of training, whenever that was: a run that was stopped, or finds models, took as long.
        seconds = float(reading.models()["seconds"].sum()) if specs else 0.0
        data = experiment.collect(reading)
    (folder / f"{name}.json").unlink(missing_ok=True)  # it would be of other data
    files = write_data(name, data, folder)
    shown = show(experiment, profile, read_data(name, files), save_to=folder)
    record = new | {
        "date": datetime.now(UTC).date().isoformat(),
        "seconds": round(seconds, 3),
        "machine": machine(),
        "versions": dict(versions()),
        "models": sum(spec.size for spec in specs),
        "data": [file.name for file in files],
        "sums": {file.name: sha256([file.read_bytes()])[:16] for file in files},
        "figures": [file.name for file in shown.files],
    }
    write_json(folder / f"{name}.json", record)
    return Shown(shown.results, shown.table, [*files, *shown.files])


def show(
    experiment: Experiment,
    profile: Profile,
    data: Data,
    *,
    save_to: Path | None = None,
    endings: Sequence[str] = (".png", ".svg"),
) -> Shown:
    """Make results, table and figure from data as their CSV files have them."""
    found = results(experiment.claims, data)
    table = found if experiment.table is None else experiment.table(data)
    files = []
    if experiment.draw is not None and save_to is not None:
        title = experiment.finding or sentence(found.iloc[0].drop("published"))
        title = f"{NO_RESULT}{title}" if profile.scale == "tiny" else title
        specs = experiment.sweeps(profile)
        named = [task for rows in data.values() if "task" in rows for task in rows["task"].unique()]
        tasks = named or [task for spec in specs for task in spec.tasks]
        caption = profile.caption(tasks, pixels=any(spec.features.pca is None for spec in specs))
        figure = experiment.draw(data, title=title, caption=caption)
        files = [save_to / f"{experiment.name}{ending}" for ending in endings]
        for file in files:
            # Without what tells when it was drawn, the same data give the same file.
            figure.savefig(file, dpi=150, metadata={WHEN[file.suffix]: None})
    return Shown(found, table, files)


def write_data(name: str, data: Data, folder: Path) -> list[Path]:
    """Write each frame as NAME.csv or NAME-PART.csv, numbers with seven digits."""
    files = []
    for part, rows in data.items():
        require(len(rows), f"{name} must have at least one row of data, got none")
        files.append(folder / (f"{name}-{part}.csv" if part else f"{name}.csv"))
        rows.to_csv(files[-1], index=False, float_format=DIGITS, lineterminator="\n")
    return files


def read_data(name: str, files: Iterable[Path]) -> Data:
    """Read an experiment's CSV files by their part."""
    parts = {file.stem.removeprefix(name).removeprefix("-"): file for file in files}
    blank: Any = {"keep_default_na": False, "na_values": [""]}  # "none" is a word
    return {part: pd.read_csv(file, **blank) for part, file in parts.items()}


def read_record(name: str, folder: Path) -> dict[str, Any] | None:
    """Return an experiment's record; None without one, or if it is damaged."""
    try:
        record = read_json(folder / f"{name}.json")
    except (OSError, ValueError):
        return None
    return record if isinstance(record, dict) and record.keys() >= RECORDED else None


def refuse_less(place: Path, old: dict[str, Any] | None, new: dict[str, Any], other: str) -> None:
    """Raise if an experiment at another profile or scale would take the place of its results."""
    was, comes = ([one["profile"], one["scale"]] for one in (old or new, new))
    require(
        was == comes,
        f"{place} has {new['name']} of the profile {was[0]} at the scale {was[1]}, which that of "
        f"{comes[0]} at {comes[1]} would replace: name another {other}",
    )


def require_usable(folder: Path) -> None:
    """Raise unless results can go to a folder, once it is made, and to the store in it."""
    there = next(path for path in (folder, *folder.parents) if path.exists())
    require(there.is_dir(), f"--out must be a folder, got the file {there}")
    if (folder / STORE).exists():
        Store(folder / STORE).close()


def markdown_table(rows: pd.DataFrame) -> str:
    """Return a frame as a Markdown table.

    >>> print(markdown_table(pd.DataFrame([{"method": "VS", "AUC": 0.91234, "models": 48}])))
    | method | AUC | models |
    |---|--:|--:|
    | VS | 0.9123 | 48 |
    """
    sides = ["--:" if pd.api.types.is_numeric_dtype(rows[name]) else "---" for name in rows]
    cells = [list(rows.columns), *(map(shown_value, row) for row in rows.itertuples(index=False))]
    head, *body = (f"| {' | '.join(row)} |" for row in cells)
    return "\n".join([head, f"|{'|'.join(sides)}|", *body])


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


def write_page(folder: Path, page: Path) -> tuple[int, int]:
    """Write the results in a folder as pages: PAGE.md, and PAGE/NAME.md for each experiment.

    Data, figures and records go beside the latter. What stands in PAGE.md above the line START
    stays as it is, so that it may say what all of it means, and so do the pages of experiments
    that the folder has no results of. Returns how many were written, and how many were kept.
    """
    require(folder.is_dir(), f"there is no folder {folder}")
    wanted = f"the page must be a file such as {page.with_suffix('.md')}, got {page}"
    require(page.suffix == ".md", wanted)
    try:
        before = page.read_text(encoding="utf-8").partition(START)[0] if page.exists() else TITLE
    except UnicodeDecodeError:
        raise InputError(f"{page} must be a Markdown file in UTF-8, got something else") from None
    beside, known = page.parent / page.stem, _whole_records(folder)
    old = {name: record for name in EXPERIMENTS if (record := read_record(name, beside))}
    for name, record in known.items():
        refuse_less(page, old.get(name), record, "page")
    # All of them before anything is written: damaged data must not leave half of the pages.
    shown = {name: _shown(record, folder) for name, record in known.items()}
    beside.mkdir(parents=True, exist_ok=True)
    for name, record in known.items():
        if folder.resolve() != beside.resolve():
            for file in (*record["data"], f"{name}.json"):
                shutil.copyfile(folder / file, beside / file)
        _shown(record, beside, save_to=beside)
        text = experiment_page(EXPERIMENTS[name], record, shown[name])
        (beside / f"{name}.md").write_text(text)
    kept = {name: _shown(old[name], beside) for name in old if name not in known}
    index = index_tables({**shown, **kept}, beside.name)
    page.write_text(f"{before}{START}\n\n{index}\n", encoding="utf-8")
    return len(shown), len(kept)


def index_tables(shown: dict[str, Shown], beside: str) -> str:
    """Return the tables of what is in the paper and what is beyond: item, claim and verdict."""
    parts = []
    for title, published in (("In the paper", True), ("Beyond the paper", False)):
        rows = [
            {"item": f"[{name}]({beside}/{name}.md)", **shown[name].results[CLAIMS].iloc[0]}
            for name in EXPERIMENTS
            if name in shown and (name in PUBLISHED) == published
        ]
        if rows:
            parts += [f"## {title}", markdown_table(pd.DataFrame(rows))]
    return "\n\n".join(parts)


def experiment_page(experiment: Experiment, record: dict[str, Any], shown: Shown) -> str:
    """Return an experiment's page: question, answer, table, picture, caveats, where from."""
    caveats = [f"{number}. {text}" for number, text in enumerate(experiment.caveats, 1)]
    trained = f"{record['models']:,} models, {duration(record['seconds'])} of one core to train"
    files = ", ".join(f"[{file}]({file})" for file in record["data"])
    question, picture = experiment.question, f"({experiment.name}.png)"
    parts = [
        f"# {experiment.name}",
        f"**{question}**",
        *(sentence(row) for _, row in shown.results.head(2).iterrows()),
        markdown_table(shown.results[CLAIMS]),
        *([] if experiment.draw is None else [f"![{question}]{picture}"]),
        *([] if experiment.table is None else [markdown_table(shown.table)]),
        "\n".join(caveats),
        f"- `{record['command']}`\n"
        f"- {record['date']}, {trained if record['models'] else 'nothing is trained'}\n"
        f"- {record['machine']}, torch {record['versions']['torch']}\n"
        f"- data: {files}",
    ]
    return "\n\n".join(parts) + "\n"


def _shown(record: dict[str, Any], folder: Path, save_to: Path | None = None) -> Shown:
    name, profile = record["name"], Profile(record["profile"], record["scale"])
    try:
        data = read_data(name, [folder / file for file in record["data"]])
        return show(EXPERIMENTS[name], profile, data, save_to=save_to, endings=[".png"])
    except (OSError, ValueError, KeyError, IndexError, TypeError) as error:
        raise InputError(
            f"the data of {name} in {folder} cannot be used ({error}); run it again"
        ) from None


def _whole_records(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the records in a folder, or raise if one or a file of its data is damaged."""
    known = {}
    for name in EXPERIMENTS:
        file, record = folder / f"{name}.json", read_record(name, folder)
        if not file.is_file():
            continue
        if record is None:
            raise InputError(f"{file} is no record of `curvewise paper run`; run {name} again")
        for path in (folder / file for file in record["data"]):
            require(path.is_file(), f"{folder} lacks {path.name}; run its experiment again")
            checksum = sha256([path.read_bytes()])[:16]
            right = record.get("sums", {}).get(path.name, checksum) == checksum
            require(right, f"{path} was changed after it was written; run {name} again")
        known[name] = record
    require(known, f"{folder} has no results of `curvewise paper run`")
    return known
