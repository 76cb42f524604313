"""The page of results: every experiment that was run, with its data, figures and tables."""

import json
import shutil
from pathlib import Path
from typing import Any

from curvewise.apps.paper.catalogue import EXPERIMENTS
from curvewise.apps.paper.experiment import Experiment
from curvewise.apps.paper.profiles import Profile
from curvewise.apps.paper.running import draw_experiment, markdown_table
from curvewise.apps.sweeping import duration
from curvewise.errors import InputError

START = "<!-- experiments: written by `curvewise paper page`; edit above this line only -->"


def write_page(folder: Path, page: Path) -> int:
    """Write the results in a folder to a Markdown page; data and figures go beside it.

    What stands above the line START stays as it is, so that it may say what all of it means.
    Returns how many experiments there are.
    """
    records = {name: _record(folder, name) for name in EXPERIMENTS}
    there = {name: record for name, record in records.items() if record is not None}
    if not there:
        raise InputError(f"{folder} has no results of `curvewise paper run`")
    beside = page.parent / page.stem
    beside.mkdir(parents=True, exist_ok=True)
    for record in there.values():
        kept = [file for file in record["figures"] if file.endswith(".png")]
        for file in (*record["data"], *kept, f"{record['name']}.json"):
            shutil.copyfile(folder / file, beside / file)
    before = page.read_text().partition(START)[0] if page.exists() else "# The paper's results\n\n"
    sections = [section(EXPERIMENTS[name], record, beside) for name, record in there.items()]
    page.write_text(before + "\n\n".join([START, *sections]) + "\n")
    return len(there)


def section(experiment: Experiment, record: dict[str, Any], beside: Path) -> str:
    """Return an experiment's part of the page; tables are made from the CSV files in `beside`."""
    profile = Profile(record["profile"], record["scale"])
    outcome = draw_experiment(experiment, profile, beside, save=False).outcome
    about = (
        f"`{record['command']}`, {record['date']}, {record['models']:,} models, "
        f"{duration(record['seconds'])} (less what the store had), {record['machine']}, torch "
        f"{record['versions']['torch']}. Data: "
        + ", ".join(f"[{file}]({beside.name}/{file})" for file in record["data"])
    )
    parts = [f"## {experiment.name}", f"{experiment.shows}.", about]
    if experiment.published:
        parts.append(f"Published: {experiment.published}.")
    parts += [
        f"![{experiment.shows}]({beside.name}/{file})"
        for file in record["figures"]
        if file.endswith(".png")
    ]
    for title, rows in outcome.tables.items():
        parts += [f"{title}:", markdown_table(rows)]
    return "\n\n".join([*parts, f"**{outcome.verdict}**"])


def _record(folder: Path, name: str) -> dict[str, Any] | None:
    file = folder / f"{name}.json"
    if not file.is_file():
        return None
    record: dict[str, Any] = json.loads(file.read_text())
    return record
