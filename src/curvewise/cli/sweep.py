"""`curvewise sweep run|status|export` and `curvewise paper list|run|page`: many models."""

import os
import shlex
import sys
import warnings
from pathlib import Path
from textwrap import fill, indent
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.table import Column, Table
from typer import Argument, Option

from curvewise.base.errors import CurvewiseError, require, require_choice
from curvewise.base.files import require_file
from curvewise.cli.options import (
    AsJson,
    CacheDir,
    DataDir,
    ExecutorOptions,
    Overwrite,
    examples,
    grouped,
    number_text,
    require_all_done,
    showing,
    tell,
)
from curvewise.sweep.plan import make_plan
from curvewise.sweep.store import Store

sweep_app = typer.Typer(no_args_is_help=True, help="Train many models into one store.")

StorePath = Annotated[Path, Argument(help="The store, one SQLite file.")]


@sweep_app.command("run", epilog=examples("sweep run pairs.toml --store pairs.db"))
@grouped
def sweep_run(
    spec_file: Annotated[Path, Argument(help="TOML file with tasks, methods and grids.")],
    where: ExecutorOptions,
    store_file: Annotated[
        Path | None, Option("--store", help="The store, one SQLite file (default: SPEC.db).")
    ] = None,
    dry_run: Annotated[
        bool, Option("--dry-run", help="Count the runs and estimate the time, no more.")
    ] = False,
    data_dir: DataDir = None,
    cache_dir: CacheDir = None,
    as_json: AsJson = False,
) -> None:
    """Train what is missing of a sweep; start it again to go on after any interruption."""
    from curvewise.sweep.run import sweep
    from curvewise.sweep.spec import read_spec
    from curvewise.sweep.work import Problems

    spec = read_spec(spec_file)
    path = store_file or spec_file.with_suffix(".db")
    with showing() as progress:
        problems = Problems(data_dir=data_dir, cache_dir=cache_dir, progress=progress)
        if dry_run:
            _dry_run(spec, problems, path, where.workers, as_json)
            return
        executor = where.start()
        with Store(path) as store:
            done = sweep(spec, store, executor, problems)
            rows = store.status(spec.name, by_task=False)
    shown = status_table(rows), f"{done.done} of {done.total} runs in {path}"
    tell(as_json, {"store": str(path), "runs": done.total, "status": rows}, *shown)
    require_all_done(done, path, ", and starting again tries them again")


def _dry_run(
    spec: Any, problems: Any, store_file: Path, workers: int | None, as_json: bool
) -> None:
    from curvewise.base.machine import processors
    from curvewise.sweep.run import duration, estimated_seconds

    rows, stacks = make_plan(spec.runs(), problems.describe)
    runs = {identity for _, identity, _ in rows}
    finished: set[str] = set()
    if store_file.exists():
        with Store(store_file, readonly=True) as store:
            finished = store.finished(runs)
    waiting = [stack for stack in stacks if not finished.issuperset(stack.identities)]
    count = workers or processors()
    seconds = estimated_seconds(waiting, problems.load, workers=count)
    counts = {"runs": len(runs), "done": len(finished), "stacks": len(stacks)}
    of_them = f", {len(finished):,} done" if finished else ""
    text = (
        f"{spec.name}: {len(runs):,} runs in {len(stacks):,} stacks{of_them}, "
        f"about {duration(seconds)} in {count} worker{'s' * (count > 1)}"
    )
    tell(as_json, {**counts, "seconds": seconds}, text)


@sweep_app.command("status", epilog=examples("sweep status pairs.db --by-task"))
def sweep_status(
    store_file: StorePath,
    by_task: Annotated[bool, Option("--by-task", help="One line a task and method.")] = False,
    failed: Annotated[bool, Option("--failed", help="Also why runs failed.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show how many runs are done, and their AUC, by method."""
    with Store(store_file, readonly=True) as store:
        latest = {each.name: each.id for each in store.sweeps()}
        listed = {name: store.status(sweep, by_task=by_task) for name, sweep in latest.items()}
        reasons = {
            one.identity: {"run": one.identity[:12], "method": one.run.label, "why": one.message}
            for sweep in (latest.values() if failed else ())
            for one in store.runs(sweep, state="failed")
        }
    shown: list[Table | str] = [status_table(rows, name) for name, rows in listed.items()]
    for reason in reasons.values():
        *_, last = reason["why"].strip().splitlines() or ["?"]
        shown.append(f"{reason['run']} {reason['method']}: {last}")
    about = {"sweeps": listed, "failed": list(reasons.values())}
    tell(as_json, about, *(shown or [f"{store_file} holds no sweep yet"]))


@sweep_app.command("export", epilog=examples("sweep export pairs.db runs.csv"))
def sweep_export(
    store_file: StorePath,
    out: Annotated[Path, Argument(help="File to write: .csv or .parquet.")],
    sweep: Annotated[str | None, Option(help="Only this sweep.")] = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Write one row a run, settings and metrics as columns."""
    from curvewise.sweep.frame import export

    with Store(store_file, readonly=True) as store:
        rows = export(store, out, sweep=sweep, overwrite=overwrite)
    tell(as_json, {"file": str(out), "rows": rows}, f"{rows} rows in {out}")


def status_table(rows: list[dict[str, Any]], title: str | None = None) -> Table:
    """Return counts and AUC; counts that are all 0 have no column, so that names have room."""
    made = Table(title=title, box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    by_task = any(row["task"] is not None for row in rows)
    rare = [name for name in ("pending", "diverged", "failed") if any(row[name] for row in rows)]
    first = ("task", "method") if by_task else ("method",)
    for column in first:
        made.add_column(column, overflow="fold")
    for column in ("done", *rare, "mean AUC", "min", "max"):
        made.add_column(column, overflow="fold", justify="right")
    shown = None
    for row in rows:
        if by_task and shown not in (None, row["task"]):
            made.add_section()
        names = {"task": "" if row["task"] == shown else row["task"], "method": row["label"]}
        counts = [f"{row[name]:,}" for name in ("done", *rare)]
        areas = [number_text(row[name]) for name in ("mean_auc", "min_auc", "max_auc")]
        made.add_row(*(names[column] for column in first), *counts, *areas)
        shown = row["task"]
    return made


paper_app = typer.Typer(no_args_is_help=True, help="Redo the paper's figures and tables.")

WIDEST = 500  # characters of a table in the terminal
ProfileName = Annotated[
    str, Option("--profile", help="laptop (frozen features, small networks) or paper.")
]
Scale = Annotated[str, Option(help="full, or tiny: to see that everything works.")]


@paper_app.command("list", epilog=examples("paper list --profile paper"))
def paper_list(
    profile: ProfileName = "laptop", data_dir: DataDir = None, as_json: AsJson = False
) -> None:
    """Name all figures and tables, what they need and how long they take."""
    from curvewise.paper.running import EXPERIMENTS, listed

    require_data_folder(data_dir)
    settings = _profile(profile, "full", None, data_dir)
    rows = [listed(one, settings, data_dir) for one in EXPERIMENTS.values()]
    name_width, time_width = (max(len(row[key]) for row in rows) for key in ("name", "takes"))
    lines = []
    for row in rows:
        models = f"{row['models']:,} models" if row["models"] else "no models"
        first = f"{row['name']:<{name_width}} {models:>13}  {row['takes']:<{time_width}}"
        lines += [f"{first}  {row['data']}".rstrip(), indent(fill(row["question"], 72), "    ")]
    times = "Times are for two cores; features of photographs, computed once, take minutes more."
    missing = "`curvewise data list` says where missing data are looked for and how to get them."
    lines += [times] if profile == "laptop" else []
    lines += [missing] if any(row["missing"] for row in rows) else []
    tell(as_json, rows, *lines)


@paper_app.command("run", epilog=examples("paper run table-pairs", "paper run all"))
@grouped
def paper_run(
    name: Annotated[str, Argument(help="A name of `paper list`, or all.")],
    where: ExecutorOptions,
    profile: ProfileName = "laptop",
    scale: Scale = "full",
    out: Annotated[
        Path | None, Option(help="Folder (default: out/paper-PROFILE, -tiny added).")
    ] = None,
    weights: Annotated[
        Path | None, Option(help="ImageNet weights of ResNeXt50, for the profile paper.")
    ] = None,
    data_dir: DataDir = None,
    cache_dir: CacheDir = None,
    as_json: AsJson = False,
) -> None:
    """Run what is missing of an experiment's sweep, draw its figure, print its table."""
    from curvewise.paper.running import EXPERIMENTS, require_usable, run_experiment
    from curvewise.sweep.work import Problems

    require_data_folder(data_dir)
    usable = cache_dir is None or cache_dir.is_dir() or not cache_dir.exists()
    require(usable, f"--cache-dir must be a folder, got {cache_dir}")
    chosen = list(EXPERIMENTS.values())
    if name != "all":
        chosen = [EXPERIMENTS[require_choice("experiment (or all)", name, EXPERIMENTS)]]
    settings = _profile(profile, scale, weights, data_dir)
    folder = out or Path("out") / (f"paper-{profile}" + ("-tiny" if scale == "tiny" else ""))
    require_usable(folder)  # once, instead of for each experiment
    _say_what_weights(chosen, settings)
    words = ["--profile", profile, *(["--scale", scale] if scale != "full" else [])]
    words += ["--weights", weights.name] if weights is not None else []  # not whose folder
    failed: dict[str, str] = {}
    shown: list[dict[str, Any]] = []
    with showing() as progress:
        problems = Problems(data_dir=data_dir, cache_dir=cache_dir, progress=progress)
        for number, one in enumerate(chosen, 1):
            if len(chosen) > 1:
                print(f"{one.name} ({number} of {len(chosen)})", file=sys.stderr, flush=True)
            command = shlex.join(["curvewise", "paper", "run", one.name, *words])
            try:
                result = run_experiment(one, settings, folder, where.start(), problems, command)
                files = [*result.files, *_models_page(one, settings, folder)]
            except CurvewiseError as error:
                if len(chosen) == 1:
                    raise
                failed[one.name] = str(error)
                print(f"curvewise: {one.name}: {error}", file=sys.stderr, flush=True)
                continue
            if not as_json:
                _print(one, result, files)
            claims, table = (rows.to_dict("records") for rows in (result.results, result.table))
            about = {"name": one.name, "question": one.question, "claims": claims, "table": table}
            shown.append(about | {"files": [str(file) for file in files]})
    tell(as_json, {"experiments": shown, "failed": failed})
    count = f"{len(failed)} of {len(chosen)}"
    require(not failed, f"{count} could not be run: {', '.join(failed)}")


@paper_app.command("page", epilog=examples("paper page out/paper-laptop docs/results/paper.md"))
def paper_page(
    folder: Annotated[Path, Argument(help="Folder that `paper run` wrote to.")],
    page: Annotated[Path, Argument(help="Markdown file; what stands on top is kept.")],
    as_json: AsJson = False,
) -> None:
    """Write all results of a folder as pages: one of all, and beside it one for each."""
    from curvewise.paper.running import write_page

    count, kept = write_page(folder, page)
    text = f"{count} experiments in {page}" + (f", {kept} as they were" if kept else "")
    tell(as_json, {"page": str(page), "experiments": count, "kept": kept}, text)


def require_data_folder(data_dir: Path | None) -> None:
    """Raise if the data folder that is named is not there, before hours of work without it."""
    from curvewise.data.task import DATA_VARIABLE

    named = os.environ.get(DATA_VARIABLE)
    name, place = ("--data-dir", data_dir) if data_dir else (DATA_VARIABLE, named)
    require(not place or Path(place).is_dir(), f"{name} must be a folder, got {place}")


def _profile(name: str, scale: str, weights: Path | None, data_dir: Path | None) -> Any:
    from curvewise.data.registry import source_missing
    from curvewise.paper.profiles import Profile

    if weights is not None:
        from curvewise.models.train import require_weights

        require_file("weights file", weights)
        require(name != "laptop", "--weights goes with --profile paper, got the profile laptop")
        require_weights(weights, "resnext50-32x4d", (3, 224, 224))  # once, not by every model
    there = source_missing("melanoma", data_dir) is None
    return Profile(name, scale, None if weights is None else str(weights), there)


def _say_what_weights(chosen: list[Any], profile: Any) -> None:
    """Say before the training that a pretrained network will not be one."""
    specs = [spec for one in chosen for spec in one.sweeps(profile)]
    names = {run.network["name"] for spec in specs for run in spec.runs()}
    if profile.weights is None and "resnext50-32x4d" in names:
        text = "without --weights ResNeXt50 starts from random weights, "
        warnings.warn(f"{text}which is not the paper's protocol", stacklevel=2)


def _models_page(experiment: Any, profile: Any, folder: Path) -> list[Path]:
    """Write NAME.html: the models of an experiment's first task, to look into one by one."""
    from curvewise.cli.pages import write_store_report
    from curvewise.paper.running import STORE

    specs = experiment.sweeps(profile)
    if not specs:
        return []
    with Store(folder / STORE, readonly=True) as store:
        page = folder / f"{experiment.name}.html"
        return write_store_report(page, store, specs[0].name, specs[0].all_tasks[0])


def _print(experiment: Any, result: Any, files: list[Path]) -> None:
    from curvewise.paper.running import CLAIMS, shown_value

    print(experiment.question)
    for rows in (result.results[CLAIMS], *([] if experiment.table is None else [result.table])):
        table = Table(*(Column(str(name), no_wrap=True) for name in rows))
        for row in rows.itertuples(index=False):
            table.add_row(*map(shown_value, row))
        # A table that is too wide for the terminal goes on in the next line: cut numbers say less.
        width = max(Console().width, Console(width=WIDEST).measure(table).maximum)
        Console(width=width).print(table, soft_wrap=True)
    for number, text in enumerate(experiment.caveats, 1):
        print(f"{number}. {text}")
    for file in files:
        print(file)
