"""`curvewise paper list|run|page`: every figure and table of the paper as one command."""

import os
import shlex
import sys
from pathlib import Path
from textwrap import fill
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Column, Table

from curvewise.base.errors import CurvewiseError, InputError
from curvewise.base.files import require_file
from curvewise.cli.options import (
    Address,
    AsJson,
    CacheDir,
    DataDir,
    ExecutorName,
    Gpus,
    Workers,
    examples,
    print_json,
    showing,
)

paper_app = typer.Typer(no_args_is_help=True, help="Redo the paper's figures and tables.")

WIDEST = 500  # characters of a table in the terminal
ProfileName = Annotated[
    str, typer.Option("--profile", help="laptop (frozen features, small networks) or paper.")
]
Scale = Annotated[str, typer.Option(help="full, or tiny: to see that everything works.")]


@paper_app.command("list", epilog=examples("paper list --profile paper"))
def paper_list(
    profile: ProfileName = "laptop", data_dir: DataDir = None, as_json: AsJson = False
) -> None:
    """Name all figures and tables, what they need and how long they take."""
    from curvewise.paper.catalogue import EXPERIMENTS
    from curvewise.paper.listing import listed

    require_data_folder(data_dir)
    settings = _profile(profile, "full", None, data_dir)
    rows = [listed(one, settings, data_dir) for one in EXPERIMENTS.values()]
    if as_json:
        print_json(rows)
        return
    name_width, time_width = (max(len(row[key]) for row in rows) for key in ("name", "takes"))
    for row in rows:
        models = f"{row['models']:,} models" if row["models"] else "no models"
        first = f"{row['name']:<{name_width}} {models:>13}  {row['takes']:<{time_width}}"
        print(f"{first}  {row['data']}".rstrip())
        print(fill(row["shows"], 76, initial_indent="    ", subsequent_indent="    "))
    if profile == "laptop":
        print("Times are for two cores; features of photographs, computed once, take minutes more.")
    if any(row["missing"] for row in rows):
        print("`curvewise data list` says where missing data are looked for and how to get them.")


@paper_app.command("run", epilog=examples("paper run table-pairs", "paper run all"))
def paper_run(
    name: Annotated[str, typer.Argument(help="A name of `paper list`, or all.")],
    profile: ProfileName = "laptop",
    scale: Scale = "full",
    out: Annotated[
        Path | None, typer.Option(help="Folder (default: out/paper-PROFILE, -tiny added).")
    ] = None,
    weights: Annotated[
        Path | None, typer.Option(help="ImageNet weights of ResNeXt50, for the profile paper.")
    ] = None,
    executor: ExecutorName = "processes",
    workers: Workers = None,
    address: Address = None,
    gpus: Gpus = 0.0,
    data_dir: DataDir = None,
    cache_dir: CacheDir = None,
    as_json: AsJson = False,
) -> None:
    """Run what is missing of an experiment's sweep, draw its figure, print its table."""
    from curvewise.paper.catalogue import EXPERIMENTS, experiment_named
    from curvewise.paper.running import require_usable, run_experiment, write_report
    from curvewise.sweep.problems import Problems
    from curvewise.sweep.progress import make_executor

    require_data_folder(data_dir)
    if cache_dir is not None and cache_dir.exists():
        require_folder("--cache-dir", cache_dir)
    chosen = list(EXPERIMENTS.values()) if name == "all" else [experiment_named(name)]
    settings = _profile(profile, scale, weights, data_dir)
    folder = out or Path("out") / (f"paper-{profile}" + ("-tiny" if scale == "tiny" else ""))
    require_usable(folder)  # once, instead of for each experiment
    _say_what_weights(chosen, settings)
    failed: dict[str, str] = {}
    shown: list[dict[str, Any]] = []
    with showing() as progress:
        problems = Problems(data_dir=data_dir, cache_dir=cache_dir, progress=progress)
        for number, one in enumerate(chosen, 1):
            if len(chosen) > 1:
                print(f"{one.name} ({number} of {len(chosen)})", file=sys.stderr, flush=True)
            more = ["--scale", scale] if scale != "full" else []
            more += ["--weights", weights.name] if weights is not None else []  # not whose folder
            command = shlex.join(
                ["curvewise", "paper", "run", one.name, "--profile", profile, *more]
            )
            try:
                found = run_experiment(
                    one,
                    settings,
                    folder,
                    make_executor(executor, workers=workers, address=address, gpus=gpus),
                    problems,
                    command,
                )
                found.files.extend(write_report(one, settings, folder))
            except CurvewiseError as error:
                if len(chosen) == 1:
                    raise
                failed[one.name] = str(error)
                print(f"curvewise: {one.name}: {error}", file=sys.stderr, flush=True)
                continue
            if as_json:
                shown.append(_plain(one.name, found))
            else:
                _print(one, found)
    if as_json:
        print_json({"experiments": shown, "failed": failed})
    if failed:
        raise InputError(f"{len(failed)} of {len(chosen)} could not be run: {', '.join(failed)}")


@paper_app.command("page", epilog=examples("paper page out/paper-laptop docs/results/paper.md"))
def paper_page(
    folder: Annotated[Path, typer.Argument(help="Folder that `paper run` wrote to.")],
    page: Annotated[Path, typer.Argument(help="Markdown file; what stands on top is kept.")],
    as_json: AsJson = False,
) -> None:
    """Write all results of a folder to one Markdown page, with data and figures beside it."""
    from curvewise.paper.page import write_page

    count, kept = write_page(folder, page)
    if as_json:
        print_json({"page": str(page), "experiments": count, "kept": kept})
    else:
        print(f"{count} experiments in {page}" + (f", {kept} as they were" if kept else ""))


def require_folder(option: str, path: Path | None) -> None:
    """Raise if a folder was named that is not there, before hours of work without it."""
    if path is not None and not path.is_dir():
        raise InputError(f"{option} must be a folder, got {path}")


def require_data_folder(data_dir: Path | None) -> None:
    """Raise if the data folder that an option or the environment names is not there."""
    from curvewise.data.registry import DATA_VARIABLE

    require_folder("--data-dir", data_dir)
    named = os.environ.get(DATA_VARIABLE)
    if data_dir is None and named:
        require_folder(DATA_VARIABLE, Path(named))


def _profile(name: str, scale: str, weights: Path | None, data_dir: Path | None) -> Any:
    from curvewise.paper.listing import source_missing
    from curvewise.paper.profiles import Profile

    if weights is not None:
        _try_weights(name, require_file("weights file", weights))
    there = source_missing("melanoma", data_dir) is None
    return Profile(name, scale, None if weights is None else str(weights), there)


def _try_weights(profile: str, weights: Path) -> None:
    """Raise for weights that cannot be used: once, and not by every model."""
    from curvewise.networks.architectures import ResNeXt50
    from curvewise.networks.pretrained import load_weights, read_weights

    if profile == "laptop":
        raise InputError("--weights goes with --profile paper, got the profile laptop")
    load_weights(ResNeXt50(), read_weights(weights))


def _say_what_weights(chosen: list[Any], profile: Any) -> None:
    """Say before the training that a pretrained network will not be one."""
    specs = [spec for one in chosen for spec in one.sweeps(profile)]
    names = {run.network["name"] for spec in specs for run in spec.runs()}
    if profile.weights is None and "resnext50-32x4d" in names:
        print(
            "curvewise: warning: without --weights ResNeXt50 starts from random weights, which is "
            "not the paper's protocol",
            file=sys.stderr,
        )


def _plain(name: str, found: Any) -> dict[str, Any]:
    outcome, files = found.outcome, [str(file) for file in found.files]
    return {"name": name, "verdict": outcome.verdict, "tables": outcome.tables, "files": files}


def _print(experiment: Any, found: Any) -> None:
    from curvewise.paper.running import shown_value

    console = Console()
    for title, rows in found.outcome.tables.items():
        table = Table(*(Column(name, no_wrap=True) for name in rows[0]), title=title)
        for row in rows:
            table.add_row(*(shown_value(value) for value in row.values()))
        # A table that is too wide for the terminal goes on in the next line: cut numbers say less.
        width = max(console.width, Console(width=WIDEST).measure(table).maximum)
        Console(width=width).print(table, soft_wrap=True)
    if experiment.published:
        print(f"Published: {experiment.published}.")
    print(found.outcome.verdict)
    for file in found.files:
        print(file)
