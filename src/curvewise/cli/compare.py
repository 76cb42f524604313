"""`curvewise compare`: the main job, as a command."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from curvewise.base.errors import InputError
from curvewise.cli.options import (
    AsJson,
    Beta,
    CacheDir,
    DataDir,
    Group,
    ImageSize,
    Positive,
    Target,
)
from curvewise.cli.sweep import Address, ExecutorName, Gpus, Workers


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
    from curvewise.base.files import require_folder, without_nan
    from curvewise.cli.reading import loaded_task, showing
    from curvewise.paper.compare import compare as read_comparison, comparison_spec
    from curvewise.report.from_store import write_store_report
    from curvewise.report.page_library import PAGE
    from curvewise.sweep.problems import Problems
    from curvewise.sweep.progress import make_executor, sweep
    from curvewise.sweep.store import Store

    require_folder(out)
    changes = _changes(preset, change or [])  # before a long read of data
    given = {"target": target, "positive": positive, "group": group, "image_size": image_size}
    data = {name: value for name, value in given.items() if value is not None}
    task = loaded_task(source, beta=beta, data_dir=data_dir, cache_dir=cache_dir, **data)
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
        print(json.dumps(without_nan(comparison.as_dict())))
        return
    counts = " and ".join(
        f'{n} "{name}"' for n, name in zip(task.class_counts, task.class_names, strict=True)
    )
    _print(comparison, f"{task.name}: {counts} to train on, {len(task.y_test)} to test")


def _changes(name: str | None, given: list[str]) -> dict[str, Any]:
    """Return settings as numbers and texts of the recipe, once they are known to make one."""
    from curvewise.cli.reading import network_options, recipe_changes
    from curvewise.training.recipe import preset

    if options := network_options(given):
        raise InputError(f"--set is for the recipe here, got network.{next(iter(options))}")
    changes = recipe_changes(given)
    made = preset(name or "quick", **changes).model_dump(mode="json")
    return {key: made[key] for key in changes}


def _print(comparison: Any, title: str) -> None:
    console = Console()
    cells = max((row["cells"] for row in comparison.methods), default=0)
    over = f"AUC over the models of a subsample, averaged over {cells} subsamples"
    title += f"\n{over if cells > 1 else 'AUC over the models'}"
    table = Table("method", "models", "mean AUC", "min", "max", "std", title=title)
    for row in comparison.methods:
        areas = (_number(row[name], ".4f") for name in ("mean", "min", "max", "std"))
        table.add_row(row["label"], str(row["models"]), *areas)
    console.print(table)
    if comparison.differences:
        table = Table(
            "method", "AUC", "difference", "better in", "t-test p", "corrected p", "Wilcoxon p",
            title=f"less {comparison.differences[0]['a']}, paired by subsample",
        )  # fmt: skip
        for row in comparison.differences:
            table.add_row(
                row["b"],
                row["statistic"],
                _number(row["difference"], "+.4f"),
                f"{row['wins']} of {row['pairs']}",
                *(_number(row[name], ".2g") for name in ("t_test_p", "corrected_p", "wilcoxon_p")),
            )
        console.print(table)
        if why := why_no_p(comparison.differences):
            print(why)
    table = Table("ensemble of", "sample", "AUC (95 %)", "beats", "best model")
    for row in comparison.ensembles:
        table.add_row(
            row["label"],
            str(row["seed"]),
            f"{row['auc']:.4f} ({_number(row['low'], '.4f')}-{_number(row['high'], '.4f')})",
            f"{row['beats']} of {row['models']}",
            f"{row['best_model']:.4f}",
        )
    console.print(table)
    print(*comparison.answer, sep="\n")
    for file in comparison.files:
        print(file)


def _number(value: float, form: str) -> str:
    """Return a number, or "-" where there is none."""
    return "-" if value != value else format(value, form)


def why_no_p(rows: list[dict[str, Any]]) -> str:
    """Return in one line why some p of paired differences are missing, "" if none is.

    >>> row = {"b": "LCT", "reason": "too few", "corrected_reason": "too few"}
    >>> why_no_p([row | {"statistic": "max"}, row | {"statistic": "std", "reason": ""}])
    'no p for max: too few; no corrected p for std: too few'
    """
    found: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        if reason := row["reason"] or row["corrected_reason"]:
            what = "p" if row["reason"] else "corrected p"
            found.setdefault(f"no {what} for {{}}: {reason}", []).append(row)
    return "; ".join(text.format(_named(own, rows)) for text, own in found.items())


def _named(some: list[dict[str, Any]], rows: list[dict[str, Any]]) -> str:
    """Name rows by their statistic, where that is the same for every method."""
    statistics = dict.fromkeys(row["statistic"] for row in some)
    if len(some) == sum(row["statistic"] in statistics for row in rows):
        return ", ".join(statistics)
    return ", ".join(f"{row['b']} {row['statistic']}" for row in some)
