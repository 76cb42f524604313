"""The pages of results: one of all experiments on a screen, and one for each."""

import shutil
from pathlib import Path
from typing import Any

import pandas as pd

from curvewise.base.errors import InputError, require
from curvewise.paper.catalogue import EXPERIMENTS
from curvewise.paper.experiment import Experiment, sentence
from curvewise.paper.profiles import Profile
from curvewise.paper.running import (
    Shown,
    file_sum,
    markdown_table,
    read_data,
    read_record,
    refuse_less,
    show,
)
from curvewise.sweep.run import duration

START = "<!-- experiments: written by `curvewise paper page`; edit above this line only -->"
CLAIMS = ["claim", "published", "here", "verdict"]


def write_page(folder: Path, page: Path) -> tuple[int, int]:
    """Write the results in a folder as pages: PAGE.md, and PAGE/NAME.md for each experiment.

    Data, figures and records go beside the latter. What stands in PAGE.md above the line START
    stays as it is, so that it may say what all of it means, and so do the pages of experiments
    that the folder has no results of. Returns how many were written, and how many were kept.
    """
    require(folder.is_dir(), f"there is no folder {folder}")
    named = f"the page must be a file such as {page.with_suffix('.md')}, got {page}"
    require(page.suffix == ".md", named)
    before, beside = _above(page), page.parent / page.stem
    known = _whole_records(folder)
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
            for name, experiment in EXPERIMENTS.items()
            if name in shown and experiment.published == published
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
        if not (folder / f"{name}.json").is_file():
            continue
        record = read_record(name, folder)
        if record is None:
            file = folder / f"{name}.json"
            raise InputError(f"{file} is no record of `curvewise paper run`; run {name} again")
        for path in (folder / file for file in record["data"]):
            require(path.is_file(), f"{folder} lacks {path.name}; run its experiment again")
            right = record.get("sums", {}).get(path.name) in (None, file_sum(path))
            require(right, f"{path} was changed after it was written; run {name} again")
        known[name] = record
    require(known, f"{folder} has no results of `curvewise paper run`")
    return known


def _above(page: Path) -> str:
    """Return what stands above the tables of a page."""
    if not page.exists():
        return "# The paper's results\n\n"
    try:
        return page.read_text(encoding="utf-8").partition(START)[0]
    except UnicodeDecodeError:
        raise InputError(f"{page} must be a Markdown file in UTF-8, got something else") from None
