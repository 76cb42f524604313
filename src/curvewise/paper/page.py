"""The pages of results: one of all experiments on a screen, and one for each."""

import shutil
from pathlib import Path
from typing import Any

import pandas as pd

from curvewise.base.errors import InputError
from curvewise.base.files import read_json
from curvewise.paper.catalogue import EXPERIMENTS
from curvewise.paper.experiment import Experiment
from curvewise.paper.profiles import Profile
from curvewise.paper.running import Shown, file_sum, markdown_table, show
from curvewise.sweep.run import duration

RECORDED = {
    *("name", "command", "profile", "scale", "date", "seconds", "machine", "versions", "models"),
    *("data", "figures"),
}
START = "<!-- experiments: written by `curvewise paper page`; edit above this line only -->"
CLAIMS = ["claim", "published", "here", "verdict"]


def write_page(folder: Path, page: Path) -> tuple[int, int]:
    """Write the results in a folder as pages: PAGE.md, and PAGE/NAME.md for each experiment.

    Data, figures and records go beside the latter. What stands in PAGE.md above the line START
    stays as it is, so that it may say what all of it means, and so do the pages of experiments
    that the folder has no results of. Returns how many were written, and how many were kept.
    """
    if not folder.is_dir():
        raise InputError(f"there is no folder {folder}")
    if page.suffix != ".md":
        raise InputError(f"the page must be a file such as {page.with_suffix('.md')}, got {page}")
    before, beside = _above(page), page.parent / page.stem
    known = {name: record for name in EXPERIMENTS if (record := _record(folder, name))}
    if not known:
        raise InputError(f"{folder} has no results of `curvewise paper run`")
    for name, record in known.items():
        _refuse_less(record, _record(beside, name, damaged=False), page)
        _require_whole(record, folder)
    # All of them before anything is written: damaged data must not leave half of the pages.
    shown = {name: _shown(EXPERIMENTS[name], record, folder) for name, record in known.items()}
    beside.mkdir(parents=True, exist_ok=True)
    for name, record in known.items():
        if folder.resolve() != beside.resolve():
            for file in (*record["data"], f"{name}.json"):
                shutil.copyfile(folder / file, beside / file)
        experiment = EXPERIMENTS[name]
        drawn = show(experiment, _profile(record), beside, save_to=beside).files
        for file in drawn:
            if file.suffix != ".png":
                file.unlink()
        (beside / f"{name}.md").write_text(experiment_page(experiment, record, shown[name]))
    kept = {
        name: _shown(EXPERIMENTS[name], record, beside)
        for name in EXPERIMENTS
        if name not in known and (record := _record(beside, name, damaged=False))
    }
    index = index_tables({**shown, **kept}, beside.name)
    page.write_text(f"{before}{START}\n\n{index}\n", encoding="utf-8")
    return len(shown), len(kept)


def index_tables(shown: dict[str, Shown], beside: str) -> str:
    """Return the tables of what is in the paper and what is beyond: item, claim and verdict."""
    parts = []
    for title, published in (("In the paper", True), ("Beyond the paper", False)):
        rows = [
            {
                "item": f"[{name}]({beside}/{name}.md)",
                **shown[name].results[CLAIMS].iloc[0],
            }
            for name, experiment in EXPERIMENTS.items()
            if name in shown and experiment.published == published
        ]
        if rows:
            parts += [f"## {title}", markdown_table(pd.DataFrame(rows))]
    return "\n\n".join(parts)


def experiment_page(experiment: Experiment, record: dict[str, Any], shown: Shown) -> str:
    """Return an experiment's page: question, answer, table, picture, caveats, where from."""
    caveats = [f"{number}. {text}" for number, text in enumerate(experiment.caveats, 1)]
    claims = shown.results[CLAIMS]
    trained = f"{record['models']:,} models, {duration(record['seconds'])} of one core to train"
    files = ", ".join(f"[{file}]({file})" for file in record["data"])
    parts = [
        f"# {experiment.name}",
        f"**{experiment.question}**",
        *experiment.answer(shown.results),
        markdown_table(claims),
    ]
    if experiment.draw is not None:
        parts.append(f"![{experiment.question}]({experiment.name}.png)")
    if experiment.table is not None:
        parts.append(markdown_table(shown.table))
    parts += [
        "\n".join(caveats),
        f"- `{record['command']}`\n"
        f"- {record['date']}, {trained if record['models'] else 'nothing is trained'}\n"
        f"- {record['machine']}, torch {record['versions']['torch']}\n"
        f"- data: {files}",
    ]
    return "\n\n".join(parts) + "\n"


def _shown(experiment: Experiment, record: dict[str, Any], folder: Path) -> Shown:
    try:
        return show(experiment, _profile(record), folder)
    except (OSError, ValueError, KeyError, IndexError, TypeError) as error:
        raise InputError(
            f"the data of {experiment.name} in {folder} cannot be used ({error}); run it again"
        ) from None


def _profile(record: dict[str, Any]) -> Profile:
    return Profile(record["profile"], record["scale"])


def _require_whole(record: dict[str, Any], folder: Path) -> None:
    """Raise if a file of an experiment is not there, or is not as it was written."""
    for file in record["data"]:
        if not (folder / file).is_file():
            raise InputError(f"{folder} lacks {file}; run its experiment again")
        if record.get("sums", {}).get(file) not in (None, file_sum(folder / file)):
            name = record["name"]
            raise InputError(f"{folder / file} was changed after it was written; run {name} again")


def _refuse_less(record: dict[str, Any], old: dict[str, Any] | None, page: Path) -> None:
    """Raise if a page has an experiment at another profile or scale, whose numbers would go."""
    new = record["profile"], record["scale"]
    if old is not None and (old["profile"], old["scale"]) != new:
        raise InputError(
            f"{page} has {record['name']} of the profile {old['profile']} at the scale "
            f"{old['scale']}, which that of {new[0]} at {new[1]} would replace: name another page"
        )


def _above(page: Path) -> str:
    """Return what stands above the tables of a page."""
    if not page.exists():
        return "# The paper's results\n\n"
    try:
        return page.read_text(encoding="utf-8").partition(START)[0]
    except UnicodeDecodeError:
        raise InputError(f"{page} must be a Markdown file in UTF-8, got something else") from None


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
