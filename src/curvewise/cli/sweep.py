"""`curvewise sweep run|status|export` and `curvewise compare`: many models into one store."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from curvewise.base.errors import InputError
from curvewise.base.files import require_folder
from curvewise.cli.options import (
    Address,
    AsJson,
    Beta,
    CacheDir,
    DataDir,
    ExecutorName,
    Gpus,
    Group,
    ImageSize,
    Positive,
    Target,
    Workers,
    examples,
    loaded_task,
    network_options,
    number_text,
    print_json,
    recipe_changes,
    showing,
)

sweep_app = typer.Typer(no_args_is_help=True, help="Train many models into one store.")

StorePath = Annotated[Path, typer.Argument(help="The store, one SQLite file.")]
StoreOption = Annotated[
    Path | None, typer.Option("--store", help="The store, one SQLite file (default: SPEC.db).")
]


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
            rows = [vars(row) for row in store.status(spec.name, by_task=False)]
    if as_json:
        print_json({"store": str(path), "runs": done.total, "status": rows})
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
        print_json({**counts, "seconds": seconds})
        return
    of_them = f", {len(finished):,} done" if finished else ""
    print(
        f"{spec.name}: {len(runs):,} runs in {len(plan.stacks):,} stacks{of_them}, "
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
            name: [vars(row) for row in store.status(sweep, by_task=by_task)]
            for name, sweep in latest.items()
        }
        reasons = {
            one.identity: {"run": one.identity[:12], "method": one.run.label, "why": one.message}
            for sweep in (latest.values() if failed else ())
            for one in store.runs(sweep, state="failed")
        }
    if as_json:
        print_json({"sweeps": listed, "failed": list(reasons.values())})
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
    from curvewise.sweep.frame import export
    from curvewise.sweep.store import Store

    with Store(store_file, readonly=True) as store:
        rows = export(store, out, sweep=sweep, overwrite=overwrite)
    if as_json:
        print_json({"file": str(out), "rows": rows})
    else:
        print(f"{rows} rows in {out}")


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
            *(number_text(area) for area in areas),
        )
        shown = row["task"]
    Console().print(table)


def compare(
    source: Annotated[
        str, typer.Argument(help="A data source, such as digits:8 or table:FILE")
    ] = "digits:8",
    out: Annotated[Path, typer.Option(help="Folder for store, tables, figures and report.")] = Path(
        "out/compare"
    ),
    beta: Beta = None,
    methods: Annotated[
        str, typer.Option(help="Methods, the first is compared with each other: vs,lct,ce,...")
    ] = "vs,lct",
    seeds: Annotated[int, typer.Option(help="Subsamples of the data, by the seeds 0, 1, ...")] = 5,
    epochs: Annotated[
        int | None, typer.Option(help="Passes over the data (default: by their size).")
    ] = None,
    network: Annotated[str, typer.Option(help="mlp, small-cnn, resnet32, ...")] = "mlp",
    preset: Annotated[
        str | None, typer.Option(help="Named recipe: tabular, paper-cifar, ... (default: short).")
    ] = None,
    change: Annotated[
        list[str] | None, typer.Option("--set", help="Change a setting of all: --set lr=0.01")
    ] = None,
    embed: Annotated[
        str | None, typer.Option(help="For images: train on features of this backbone.")
    ] = None,
    embed_size: Annotated[
        int | None, typer.Option(help="Resize images to this side in pixels for the backbone.")
    ] = None,
    executor: ExecutorName = "processes",
    workers: Workers = None,
    address: Address = None,
    gpus: Gpus = 0.0,
    target: Target = None,
    positive: Positive = None,
    group: Group = None,
    image_size: ImageSize = None,
    data_dir: DataDir = None,
    cache_dir: CacheDir = None,
    as_json: AsJson = False,
) -> None:
    """Compare methods over the paper's 48 settings each and several subsamples."""
    require_folder(out)
    changes = _changes(preset, change or [])  # before a long read of data
    columns = {"target": target, "positive": positive, "group": group, "image_size": image_size}
    data = {name: value for name, value in columns.items() if value is not None}
    task = loaded_task(source, beta=beta, data_dir=data_dir, cache_dir=cache_dir, **data)
    from curvewise.paper.compare import compare as read_comparison, comparison_spec
    from curvewise.report.from_store import write_store_report
    from curvewise.report.page_library import PAGE
    from curvewise.sweep.problems import Problems
    from curvewise.sweep.progress import make_executor, sweep
    from curvewise.sweep.store import Store

    spec = comparison_spec(
        source,
        beta=beta,
        methods=[name.strip() for name in methods.split(",")],
        seeds=seeds,
        n_train=len(task.y_train),
        embed=embed,
        embed_size=embed_size,
        epochs=epochs,
        network=network,
        preset=preset,
        changes=changes,
        data=data,
    )
    out.mkdir(parents=True, exist_ok=True)
    chosen = make_executor(executor, workers=workers, address=address, gpus=gpus)
    with showing() as progress, Store(out / "runs.db") as store:
        problems = Problems(data_dir=data_dir, cache_dir=cache_dir, progress=progress)
        done = sweep(spec, store, chosen, problems)
        if done.failed:
            raise InputError(
                f"{done.failed} runs failed; `curvewise sweep status {out / 'runs.db'} --failed` "
                "says why"
            )
        comparison = read_comparison(store, spec.name, out)
        comparison.files.extend(write_store_report(out / PAGE, store, spec.name))
    if as_json:
        print_json(comparison.as_dict())
        return
    counts = " and ".join(
        f'{n} "{name}"' for n, name in zip(task.class_counts, task.class_names, strict=True)
    )
    _print_comparison(comparison, f"{task.name}: {counts} to train on, {len(task.y_test)} to test")


def _changes(name: str | None, texts: list[str]) -> dict[str, Any]:
    """Return settings as numbers and texts of the recipe, once they are known to make one."""
    from curvewise.training.recipe import preset

    if options := network_options(texts):
        raise InputError(f"--set is for the recipe here, got network.{next(iter(options))}")
    changes = recipe_changes(texts)
    recipe = preset(name or "quick", **changes).model_dump(mode="json")
    return {key: recipe[key] for key in changes}


def _print_comparison(comparison: Any, title: str) -> None:
    console = Console()
    cells = max((row["cells"] for row in comparison.methods), default=0)
    over = f"AUC over the models of a subsample, averaged over {cells} subsamples"
    title += f"\n{over if cells > 1 else 'AUC over the models'}"
    table = Table("method", "models", "mean AUC", "min", "max", "std", title=title)
    for row in comparison.methods:
        areas = (number_text(row[name]) for name in ("mean", "min", "max", "std"))
        table.add_row(row["label"], str(row["models"]), *areas)
    console.print(table)
    if comparison.differences:
        columns = ("method", "AUC", "difference", "better in", "t-test p", "corrected p")
        title = f"less {comparison.differences[0]['a']}, paired by subsample"
        table = Table(*columns, "Wilcoxon p", title=title)
        for row in comparison.differences:
            table.add_row(
                row["b"],
                row["statistic"],
                number_text(row["difference"], "+.4f"),
                f"{row['wins']} of {row['pairs']}",
                *(
                    number_text(row[name], ".2g")
                    for name in ("t_test_p", "corrected_p", "wilcoxon_p")
                ),
            )
        console.print(table)
        if why := why_no_p(comparison.differences):
            print(why)
    table = Table("ensemble of", "sample", "AUC (95 %)", "beats", "best model")
    for row in comparison.ensembles:
        table.add_row(
            row["label"],
            str(row["seed"]),
            f"{row['auc']:.4f} ({number_text(row['low'])}-{number_text(row['high'], '.4f')})",
            f"{row['beats']} of {row['models']}",
            f"{row['best_model']:.4f}",
        )
    console.print(table)
    print(*comparison.answer, sep="\n")
    for file in comparison.files:
        print(file)


def why_no_p(rows: list[dict[str, Any]]) -> str:
    """Return in one line why some p of paired differences are missing, "" if none is.

    >>> row = {"b": "LCT", "reason": "too few", "corrected_reason": "too few"}
    >>> why_no_p([row | {"statistic": "max"}, row | {"statistic": "std", "reason": ""}])
    'no p for max: too few; no corrected p for std: too few'
    """
    without: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        if reason := row["reason"] or row["corrected_reason"]:
            what = "p" if row["reason"] else "corrected p"
            without.setdefault(f"no {what} for {{}}: {reason}", []).append(row)
    return "; ".join(text.format(_named(some, rows)) for text, some in without.items())


def _named(some: list[dict[str, Any]], rows: list[dict[str, Any]]) -> str:
    """Name rows by their statistic, where that is the same for every method."""
    statistics = dict.fromkeys(row["statistic"] for row in some)
    if len(some) == sum(row["statistic"] in statistics for row in rows):
        return ", ".join(statistics)
    return ", ".join(f"{row['b']} {row['statistic']}" for row in some)
