"""`curvewise sweep run|status|export`: many models into one store."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from curvewise.base.errors import InputError
from curvewise.cli.options import AsJson, CacheDir, DataDir, examples

sweep_app = typer.Typer(no_args_is_help=True, help="Train many models into one store.")

StorePath = Annotated[Path, typer.Argument(help="The store, one SQLite file.")]
StoreOption = Annotated[
    Path | None, typer.Option("--store", help="The store, one SQLite file (default: SPEC.db).")
]
ExecutorName = Annotated[str, typer.Option("--executor", help="serial, processes or ray.")]
Workers = Annotated[int | None, typer.Option(help="Worker processes (default: one a processor).")]
Address = Annotated[str | None, typer.Option(help='A Ray cluster: "auto" or HOST:PORT.')]
Gpus = Annotated[float, typer.Option(help="GPUs a Ray task takes; may be a fraction.")]


@sweep_app.command("run", epilog=examples("sweep run pairs.toml --store pairs.db"))
def sweep_run(
    spec_file: Annotated[Path, typer.Argument(help="TOML file with tasks, methods and grids.")],
    store_file: StoreOption = None,
    executor: ExecutorName = "processes",
    workers: Workers = None,
    address: Address = None,
    gpus: Gpus = 0.0,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Count the runs and estimate the time, no more.")
    ] = False,
    data_dir: DataDir = None,
    cache_dir: CacheDir = None,
    as_json: AsJson = False,
) -> None:
    """Train what is missing of a sweep; start it again to go on after any interruption."""
    from curvewise.cli.reading import showing
    from curvewise.sweep.problems import Problems
    from curvewise.sweep.progress import make_executor, sweep
    from curvewise.sweep.spec import read_spec
    from curvewise.sweep.store import Store

    spec = read_spec(spec_file)
    path = store_file or spec_file.with_suffix(".db")
    with showing() as progress:
        problems = Problems(data_dir=data_dir, cache_dir=cache_dir, progress=progress)
        if dry_run:
            _dry_run(spec, problems, path, workers, as_json)
            return
        chosen = make_executor(executor, workers=workers, address=address, gpus=gpus)
        with Store(path) as store:
            done = sweep(spec, store, chosen, problems)
            rows = [vars_of(row) for row in store.status(spec.name, by_task=False)]
    if as_json:
        print(json.dumps({"store": str(path), "runs": done.total, "status": rows}))
    else:
        _print_status(rows)
        print(f"{done.done} of {done.total} runs in {path}")
    if done.failed:
        raise InputError(
            f"{done.failed} runs failed; `curvewise sweep status {path} --failed` says why, and "
            "starting again tries them again"
        )


def _dry_run(
    spec: Any, problems: Any, store_file: Path, workers: int | None, as_json: bool
) -> None:
    from curvewise.base.machine import processors
    from curvewise.sweep.estimate import estimated_seconds
    from curvewise.sweep.planning import make_plan
    from curvewise.sweep.progress import duration
    from curvewise.sweep.store import Store

    plan = make_plan(spec, problems.describe)
    runs = dict.fromkeys(identity for _, identity, _ in plan.rows)
    finished: set[str] = set()
    if store_file.exists():
        with Store(store_file, readonly=True) as store:
            finished = store.finished(list(runs))
    waiting = [stack for stack in plan.stacks if not finished.issuperset(stack.identities)]
    count = workers or processors()
    left = replace(plan, stacks=waiting)
    seconds = estimated_seconds(left, problems.load, workers=count)
    counts = {"runs": len(runs), "done": len(finished), "stacks": len(plan.stacks)}
    if as_json:
        print(json.dumps({**counts, "seconds": seconds}))
        return
    done = f", {len(finished):,} done" if finished else ""
    print(
        f"{spec.name}: {len(runs):,} runs in {len(plan.stacks):,} stacks{done}, "
        f"about {duration(seconds)} in {count} worker{'s' * (count > 1)}"
    )


@sweep_app.command("status", epilog=examples("sweep status pairs.db --by-task"))
def sweep_status(
    store_file: StorePath,
    by_task: Annotated[bool, typer.Option("--by-task", help="One line a task and method.")] = False,
    failed: Annotated[bool, typer.Option("--failed", help="Also why runs failed.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show how many runs are done, and their AUC, by method."""
    from curvewise.sweep.store import Store

    with Store(store_file, readonly=True) as store:
        latest = {each.name: each.id for each in store.sweeps()}
        listed = {
            name: [vars_of(row) for row in store.status(sweep, by_task=by_task)]
            for name, sweep in latest.items()
        }
        reasons = {
            record.identity: {
                "run": record.identity[:12], "method": record.run.label, "why": record.message
            }
            for sweep in (latest.values() if failed else ())
            for record in store.runs(sweep, state="failed")
        }  # fmt: skip
    if as_json:
        print(json.dumps({"sweeps": listed, "failed": list(reasons.values())}))
        return
    if not listed:
        print(f"{store_file} holds no sweep yet")
    for name, rows in listed.items():
        _print_status(rows, title=name)
    for reason in reasons.values():
        last = reason["why"].strip().splitlines()[-1] if reason["why"].strip() else "?"
        print(f"{reason['run']} {reason['method']}: {last}")


@sweep_app.command("export", epilog=examples("sweep export pairs.db runs.csv"))
def sweep_export(
    store_file: StorePath,
    out: Annotated[Path, typer.Argument(help="File to write: .csv or .parquet.")],
    sweep: Annotated[str | None, typer.Option(help="Only this sweep.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write one row a run, settings and metrics as columns."""
    from curvewise.sweep.export import export
    from curvewise.sweep.store import Store

    with Store(store_file, readonly=True) as store:
        rows = export(store, out, sweep=sweep, overwrite=overwrite)
    print(json.dumps({"file": str(out), "rows": rows}) if as_json else f"{rows} rows in {out}")


def vars_of(row: Any) -> dict[str, Any]:
    """Return a status row as plain data, nan as None."""
    return {key: None if value != value else value for key, value in vars(row).items()}


def _print_status(rows: list[dict[str, Any]], title: str | None = None) -> None:
    """Print counts and AUC; counts that are all 0 have no column, so that names have room."""
    table = Table(title=title, box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    by_task = any(row["task"] is not None for row in rows)
    rare = [name for name in ("pending", "diverged", "failed") if any(row[name] for row in rows)]
    for column in (*(["task"] if by_task else []), "method"):
        table.add_column(column, overflow="fold")
    for column in ("done", *rare, "mean AUC", "min", "max"):
        table.add_column(column, overflow="fold", justify="right")
    shown = None
    for row in rows:
        if by_task and shown not in (None, row["task"]):
            table.add_section()
        areas = [row[name] for name in ("mean_auc", "min_auc", "max_auc")]
        table.add_row(
            *(["" if row["task"] == shown else row["task"]] if by_task else []),
            row["label"],
            *(f"{row[name]:,}" for name in ("done", *rare)),
            *("-" if area is None else f"{area:.4f}" for area in areas),
        )
        shown = row["task"]
    Console().print(table)
