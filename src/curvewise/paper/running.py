"""All experiments, and to run one: what is missing of its sweeps, its data, claims and figure.

What came out is published as pages: one of all experiments on a screen, and one for each.
"""

import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from curvewise.base.errors import InputError, require
from curvewise.base.files import read_json, sha256, write_json
from curvewise.base.machine import machine, versions
from curvewise.data.registry import source_missing
from curvewise.paper import ensembles, imbalance, pairs, settings, training, untrained
from curvewise.paper.experiment import Data, Experiment, Reading, results, sentence
from curvewise.paper.profiles import Profile, source_of
from curvewise.sweep.executors import Executor
from curvewise.sweep.run import duration, sweep
from curvewise.sweep.spec import Spec
from curvewise.sweep.store import Store
from curvewise.sweep.work import Problems

# In the order of the paper, then those beyond it.
PUBLISHED = (
    imbalance.MELANOMA_BOX,
    settings.HYPER_DISTRIBUTION,
    settings.HYPER_METRICS,
    untrained.BREAK_EVEN_TAU,
    untrained.CONTOURS,
    imbalance.CIFAR_BANDS,
    imbalance.KAGGLE_BANDS,
    pairs.PAIRS,
    training.SAM_BOX,
    settings.LAMBDA_CHOICE,
    untrained.SAMPLES,
    settings.EVAL_LAMBDA,
    untrained.LINEAR_DENSITY,
    untrained.OMEGA_SOFTMAX,
)
BEYOND = (
    pairs.CONTROLS_TABLE,
    pairs.CONVERGENCE,
    training.ROBUSTNESS,
    ensembles.ENSEMBLES,
    ensembles.METHOD_TABLE,
    training.FILM_CHOICES,
    imbalance.BETA,
    pairs.EPOCHS_FIGURE,
    pairs.CONVERGENCE_PIXELS,
    pairs.PAIRS_FASHION,
)
EXPERIMENTS = {experiment.name: experiment for experiment in (*PUBLISHED, *BEYOND)}
STORE = "runs.db"
WHEN = {".png": "Software", ".svg": "Date"}
RECORDED = "name command profile scale date seconds machine versions models data figures"
TITLE = "# The paper's results\n\n"
START = "<!-- experiments: written by `curvewise paper page`; edit above this line only -->"
# Seconds that a model of the laptop profile takes an epoch on two cores with other work to do.
SECONDS = {"fashion-mnist": 0.008, "cifar10": 0.006, "cifar100": 0.003, "dogs-vs-cats": 0.007}
SLOWER = 0.02  # the same for what is not listed, and for all pixels of Fashion-MNIST
CLAIMS = ["claim", "published", "here", "verdict"]


class Shown(NamedTuple):
    """An experiment from its data: the claims' results, the table, the files written."""

    results: pd.DataFrame
    table: pd.DataFrame
    files: Sequence[Path] = ()


def listed(experiment: Experiment, profile: Profile, data_dir: Path | None) -> dict[str, Any]:
    """Return a line of `paper list` as plain data."""
    specs, sources = experiment.sweeps(profile), experiment.needs(profile)
    missing = {name: why for name in sources if (why := source_missing(name, data_dir))}
    return {
        "name": experiment.name,
        "question": experiment.question,
        "published": experiment in PUBLISHED,
        "models": sum(spec.size for spec in specs),
        "takes": _takes(specs, profile),
        "data": ", ".join(f"{name} (missing)" if name in missing else name for name in sources),
        "missing": missing,
    }


def _takes(specs: Sequence[Spec], profile: Profile) -> str:
    longest, seconds = 0, 0.0
    for spec in specs:
        epochs, source = [run.recipe["epochs"] for run in spec.runs()], source_of(spec.tasks[0])
        pixels = source == "fashion-mnist" and spec.features.pca is None
        seconds += sum(epochs) * (SLOWER if pixels else SECONDS.get(source, SLOWER))
        longest = max(longest, *epochs)
    if profile.name == "paper" and specs:
        return f"up to {longest} epochs a model"
    return f"about {duration(max(1, seconds))}" if specs else "seconds"


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
    again = read_data(name, files)
    shown = show(experiment, again)
    figures = draw(experiment, profile, again, shown, folder, ".png", ".svg")
    record = new | {
        "date": datetime.now(UTC).date().isoformat(),
        "seconds": round(seconds, 3),
        "machine": machine(),
        "versions": dict(versions()),
        "models": sum(spec.size for spec in specs),
        "data": [file.name for file in files],
        "sums": {file.name: sha256([file.read_bytes()])[:16] for file in files},
        "figures": [file.name for file in figures],
    }
    write_json(folder / f"{name}.json", record)
    return shown._replace(files=[*files, *figures])


def show(experiment: Experiment, data: Data) -> Shown:
    """Make results and table from data as their CSV files have them."""
    found = results(experiment.claims, data)
    return Shown(found, found if experiment.table is None else experiment.table(data))


def draw(
    experiment: Experiment, profile: Profile, data: Data, shown: Shown, folder: Path, *endings: str
) -> list[Path]:
    """Draw the figure that an experiment may have into files NAME.ENDING; return them."""
    if experiment.draw is None:
        return []
    title = experiment.finding or sentence(shown.results.iloc[0].drop("published"))
    title = f"tiny scale: no result. {title}" if profile.scale == "tiny" else title
    specs = experiment.sweeps(profile)
    named = [task for rows in data.values() if "task" in rows for task in rows["task"].unique()]
    tasks = named or [task for spec in specs for task in spec.tasks]
    caption = profile.caption(tasks, pixels=any(spec.features.pca is None for spec in specs))
    figure = experiment.draw(data, title=title, caption=caption)
    files = [folder / f"{experiment.name}{ending}" for ending in endings]
    for file in files:
        # Without what tells when it was drawn, the same data give the same file.
        figure.savefig(file, dpi=150, metadata={WHEN[file.suffix]: None})
    return files


def write_data(name: str, data: Data, folder: Path) -> list[Path]:
    """Write each frame as NAME.csv or NAME-PART.csv, numbers with seven digits."""
    files = []
    for part, rows in data.items():
        require(len(rows), f"{name} must have at least one row of data, got none")
        files.append(folder / (f"{name}-{part}.csv" if part else f"{name}.csv"))
        rows.to_csv(files[-1], index=False, float_format="%.7g", lineterminator="\n")
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
    return record if isinstance(record, dict) and record.keys() >= {*RECORDED.split()} else None


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
    shown = {}
    for name, record in (old | known).items():
        place = folder if name in known else beside
        with _usable(name, place):
            data = read_data(name, [place / file for file in record["data"]])
            shown[name] = data, show(EXPERIMENTS[name], data)
    beside.mkdir(parents=True, exist_ok=True)
    for name, record in known.items():
        if folder.resolve() != beside.resolve():
            for file in (*record["data"], f"{name}.json"):
                shutil.copyfile(folder / file, beside / file)
        with _usable(name, folder):
            profile = Profile(record["profile"], record["scale"])
            draw(EXPERIMENTS[name], profile, *shown[name], beside, ".png")
        text = experiment_page(EXPERIMENTS[name], record, shown[name][1])
        (beside / f"{name}.md").write_text(text)
    index = index_tables({name: both for name, (_, both) in shown.items()}, beside.name)
    page.write_text(f"{before}{START}\n\n{index}\n", encoding="utf-8")
    return len(known), len(shown) - len(known)


def index_tables(shown: dict[str, Shown], beside: str) -> str:
    """Return tables of what the paper trains, computes, and what is beyond it, with verdicts."""
    rows = []
    for name, experiment in EXPERIMENTS.items():
        if name in shown:
            part = "what is trained" if experiment.sweeps(Profile()) else "formulas and counts"
            part = f"In the paper: {part}" if experiment in PUBLISHED else "Beyond the paper"
            item = {"part": part, "item": f"[{name}]({beside}/{name}.md)"}
            rows.append({**item, **shown[name].results[CLAIMS].iloc[0]})
    parts = pd.DataFrame(rows).set_index("part").groupby(level=0, sort=False)
    return "\n\n".join(f"## {part}\n\n{markdown_table(own)}" for part, own in parts)


def experiment_page(experiment: Experiment, record: dict[str, Any], shown: Shown) -> str:
    """Return an experiment's page: question, answer, table, picture, caveats, where from."""
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
        "\n".join(f"{number}. {text}" for number, text in enumerate(experiment.caveats, 1)),
        f"- `{record['command']}`\n"
        f"- {record['date']}, {trained if record['models'] else 'nothing is trained'}\n"
        f"- {record['machine']}, torch {record['versions']['torch']}\n"
        f"- data: {files}",
    ]
    return "\n\n".join(parts) + "\n"


@contextmanager
def _usable(name: str, folder: Path) -> Iterator[None]:
    try:
        yield
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
