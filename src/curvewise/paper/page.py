"""The page of results: every experiment that was run, with its data, figures and tables."""

import shutil
from pathlib import Path
from typing import Any

from curvewise.base.errors import InputError
from curvewise.base.files import read_json
from curvewise.paper.catalogue import EXPERIMENTS
from curvewise.paper.experiment import Experiment
from curvewise.paper.profiles import Profile
from curvewise.paper.running import draw_experiment, file_sum, markdown_table
from curvewise.sweep.progress import duration

RECORDED = {
    *("name", "command", "profile", "scale", "date", "seconds", "machine", "versions", "models"),
    *("data", "figures"),
}
START = "<!-- experiments: written by `curvewise paper page`; edit above this line only -->"


def write_page(folder: Path, page: Path) -> tuple[int, int]:
    """Write the results in a folder to a Markdown page; data and figures go beside it.

    What stands above the line START stays as it is, so that it may say what all of it means, and
    so do the sections of experiments that the folder has no results of. Returns how many
    experiments were written, and how many were kept.
    """
    if not folder.is_dir():
        raise InputError(f"there is no folder {folder}")
    if page.suffix != ".md":
        raise InputError(f"the page must be a file such as {page.with_suffix('.md')}, got {page}")
    records = {name: _record(folder, name) for name in EXPERIMENTS}
    there = {name: record for name, record in records.items() if record is not None}
    if not there:
        raise InputError(f"{folder} has no results of `curvewise paper run`")
    before, old = _read_page(page)
    beside = page.parent / page.stem
    for name, record in there.items():
        _refuse_less(record, _record(beside, name, damaged=False), page)
    files = [file for record in there.values() for file in _files(record)]
    for file in files:
        if not (folder / file).is_file():
            raise InputError(f"{folder} lacks {file}; run its experiment again")
    for name, record in there.items():
        for file, total in record.get("sums", {}).items():
            if file_sum(folder / file) != total:
                raise InputError(
                    f"{folder / file} was changed after it was written; run {name} again"
                )
    # All sections before anything is written: a damaged file must not leave half a page.
    new = {
        name: section(EXPERIMENTS[name], record, folder, beside.name)
        for name, record in there.items()
    }
    beside.mkdir(parents=True, exist_ok=True)
    if folder.resolve() != beside.resolve():
        for file in files:
            shutil.copyfile(folder / file, beside / file)
    both = old | new
    sections = [both[name] for name in EXPERIMENTS if name in both]
    page.write_text(before + "\n\n".join([START, *sections]) + "\n", encoding="utf-8")
    return len(new), len(sections) - len(new)


def _files(record: dict[str, Any]) -> list[str]:
    """Return the files of an experiment that go beside the page."""
    kept = [file for file in record["figures"] if file.endswith(".png")]
    return [*record["data"], *kept, f"{record['name']}.json"]


def _refuse_less(record: dict[str, Any], old: dict[str, Any] | None, page: Path) -> None:
    """Raise if a page has an experiment at another profile or scale, whose numbers would go."""
    new = record["profile"], record["scale"]
    if old is not None and (old["profile"], old["scale"]) != new:
        raise InputError(
            f"{page} has {record['name']} of the profile {old['profile']} at the scale "
            f"{old['scale']}, which that of {new[0]} at {new[1]} would replace: name another page"
        )


def _read_page(page: Path) -> tuple[str, dict[str, str]]:
    """Return what stands above the experiments of a page, and its sections by name."""
    if not page.exists():
        return "# The paper's results\n\n", {}
    try:
        before, _, rest = page.read_text(encoding="utf-8").partition(START)
    except UnicodeDecodeError:
        raise InputError(f"{page} must be a Markdown file in UTF-8, got something else") from None
    parts = [part.strip() for part in rest.split("\n## ")[1:]]
    return before, {part.partition("\n")[0]: f"## {part}" for part in parts}


def section(experiment: Experiment, record: dict[str, Any], folder: Path, beside: str) -> str:
    """Return an experiment's part of the page; tables are made from the CSV files in a folder.

    `beside` is the folder that the page links to.
    """
    profile = Profile(record["profile"], record["scale"])
    try:
        outcome = draw_experiment(experiment, profile, folder, save=False).outcome
    except (OSError, ValueError, KeyError, IndexError, TypeError) as error:
        raise InputError(
            f"the data of {experiment.name} in {folder} cannot be used ({error}); run it again"
        ) from None
    trained = f"{record['models']:,} models, {duration(record['seconds'])} of one core to train, "
    about = (
        f"`{record['command']}`, {record['date']}, {trained if record['models'] else ''}"
        f"{record['machine']}, torch {record['versions']['torch']}. Data: "
        + ", ".join(f"[{file}]({beside}/{file})" for file in record["data"])
    )
    parts = [f"## {experiment.name}", f"{experiment.shows}.", about]
    if experiment.published:
        parts.append(f"Published: {experiment.published}.")
    parts += [
        f"![{experiment.shows}]({beside}/{file})"
        for file in record["figures"]
        if file.endswith(".png")
    ]
    for title, rows in outcome.tables.items():
        parts += [f"{title}:", markdown_table(rows)]
    return "\n\n".join([*parts, f"**{outcome.verdict}**"])


def _record(folder: Path, name: str, *, damaged: bool = True) -> dict[str, Any] | None:
    """Return an experiment's record, None without one; a damaged one raises, or is none."""
    file = folder / f"{name}.json"
    if not file.is_file():
        return None
    try:
        record = read_json(file)
    except ValueError:
        record = None
    if not isinstance(record, dict) or not record.keys() >= RECORDED:
        if not damaged:
            return None
        raise InputError(f"{file} is no record of `curvewise paper run`; run {name} again")
    return record
