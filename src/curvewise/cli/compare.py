"""`curvewise compare` and `curvewise report`: what ends in a page."""

from pathlib import Path
from typing import Annotated, Any

from rich.table import Table
from typer import Argument, Option

from curvewise.base.errors import require
from curvewise.base.files import require_folder, require_target
from curvewise.cli.options import (
    AsJson,
    Beta,
    DataOptions,
    EmbedSize,
    ExecutorOptions,
    Source,
    given,
    grouped,
    loaded_task,
    number_text,
    option_name,
    read_changes,
    require_all_done,
    showing,
    tell,
)
from curvewise.models import MODEL
from curvewise.sweep.store import Store

PLACES = ("data_dir", "cache_dir")
STORE, SQLITE = "runs.db", b"SQLite format 3\x00"
OPTIONS = {  # that each kind of file has
    "store": ("--sweep", "--task", "--beta"),
    "model": ("--data", "--target", "--positive", "--group", "--image-size"),
    "table": ("--target", "--positive", "--score"),
}


@grouped
def compare(
    data: DataOptions,
    where: ExecutorOptions,
    source: Source = "digits:8",
    out: Annotated[Path, Option(help="Folder for store, tables, figures and report.")] = Path(
        "out/compare"
    ),
    beta: Beta = None,
    methods: Annotated[
        str, Option(help="Methods, the first is compared with each other: vs,lct,ce,...")
    ] = "vs,lct",
    seeds: Annotated[int, Option(help="Subsamples of the data, by the seeds 0, 1, ...")] = 5,
    epochs: Annotated[int | None, Option(help="Epochs (default: by the size of the data).")] = None,
    network: Annotated[str, Option(help="mlp, small-cnn, resnet32, ...")] = "mlp",
    preset: Annotated[
        str | None, Option(help="Named recipe: tabular, paper-cifar, ... (default: short).")
    ] = None,
    change: Annotated[
        list[str] | None, Option("--set", help="Change a setting of all: --set lr=0.01")
    ] = None,
    embed: Annotated[
        str | None, Option(help="For images: train on this backbone's features.")
    ] = None,
    embed_size: EmbedSize = None,
    as_json: AsJson = False,
) -> None:
    """Compare methods over the paper's 48 settings each and several subsamples."""
    require_folder(out)
    from curvewise.sweep.grid import base_recipe

    changes, options = read_changes(change)  # known to make a recipe before a long read of data
    require(not options, f"--set is for the recipe here, got network.{next(iter(options), '')}")
    recipe = base_recipe({"preset": preset or "quick", **changes}).model_dump(mode="json")
    task = loaded_task(source, data, beta=beta)
    images = embed is None or task.kind == "image"
    require(images, f"--embed needs images, got {task.name} with {task.kind}")
    from curvewise.cli.pages import write_store_report
    from curvewise.paper.compare import compare as read_comparison
    from curvewise.report.page import PAGE
    from curvewise.report.page_answer import answer
    from curvewise.sweep.frame import models as models_of
    from curvewise.sweep.run import sweep
    from curvewise.sweep.spec import comparison_spec
    from curvewise.sweep.work import Problems

    spec = comparison_spec(
        source,
        beta=beta,
        methods=[name.strip() for name in methods.split(",")],
        seeds=seeds,
        n_train=len(task.y_train),
        network=network,
        preset=preset,
        changes=given({"epochs": epochs}) | {name: recipe[name] for name in changes},
        features=given({"embed": embed, "size": embed_size}),
        data={name: value for name, value in given(vars(data)).items() if name not in PLACES},
    )
    out.mkdir(parents=True, exist_ok=True)
    executor = where.start()
    with showing() as progress, Store(out / STORE) as store:
        problems = Problems(data_dir=data.data_dir, cache_dir=data.cache_dir, progress=progress)
        require_all_done(sweep(spec, store, executor, problems), out / STORE)
        models = models_of(store, spec.name)
        comparison = read_comparison(models, answer(models), out)
        comparison["files"] += map(str, write_store_report(out / PAGE, store, spec.name))
    counts = " and ".join(
        f'{n} "{name}"' for n, name in zip(task.class_counts, task.class_names, strict=True)
    )
    title = f"{task.name}: {counts} to train on, {len(task.y_test)} to test"
    lines = (*comparison["answer"], *comparison["files"])
    tell(as_json, comparison, *_tables(comparison, title), *lines)


def _tables(comparison: Any, title: str) -> list[Table | str]:
    differences = comparison["differences"]
    cells = max((row["cells"] for row in comparison["methods"]), default=0)
    over = f"AUC over the models of a subsample, averaged over {cells} subsamples"
    title += f"\n{over if cells > 1 else 'AUC over the models'}"
    table = Table("method", "models", "mean AUC", "min", "max", "std", title=title)
    for row in comparison["methods"]:
        table.add_row(row["label"], str(row["models"]), *_texts(row, "mean", "min", "max", "std"))
    shown: list[Table | str] = [table]
    if differences:
        columns = ("method", "AUC", "difference", "better in", "t-test p", "corrected p")
        title = f"less {differences[0]['a']}, paired by subsample"
        table = Table(*columns, "Wilcoxon p", title=title)
        for row in differences:
            better = f"{row['wins']} of {row['pairs']}"
            (step,) = _texts(row, "difference", form="+.4f")
            p = _texts(row, "t_test_p", "corrected_p", "wilcoxon_p", form=".2g")
            table.add_row(row["b"], row["statistic"], step, better, *p)
        why = why_no_p(differences)
        shown += [table, why] if why else [table]
    table = Table("ensemble of", "sample", "AUC (95 %)", "beats", "best model")
    for row in comparison["ensembles"]:
        area, low, high, best = _texts(row, "auc", "low", "high", "best_model")
        beats = f"{row['beats']} of {row['models']}"
        table.add_row(row["label"], str(row["seed"]), f"{area} ({low}-{high})", beats, best)
    return [*shown, table]


def _texts(row: dict[str, Any], *names: str, form: str = ".4f") -> list[str]:
    return [number_text(row[name], form) for name in names]


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


@grouped
def report(
    place: Annotated[
        Path,
        Argument(
            help="A store (runs.db), a model or estimator file, a folder with one, or a table "
            "with labels and scores of any tool."
        ),
    ],
    columns: DataOptions,
    out: Annotated[Path, Option("--out", "-o", help="HTML file to write.")] = Path("report.html"),
    sweep: Annotated[str | None, Option(help="Store: the sweep, if it has several.")] = None,
    task: Annotated[str | None, Option(help="Store: the task, if it has several.")] = None,
    beta: Annotated[float | None, Option(help="Store: this imbalance only (default: all).")] = None,
    data: Annotated[
        str | None,
        Option(help="Model: the source to measure it on (default: that of its training)."),
    ] = None,
    score: Annotated[
        list[str] | None,
        Option(help="Table: a column of scores (default: score, probability)."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write models, or scores of any tool, as an interactive page that needs no network."""
    require_target("--out", out, overwrite=True)
    ours = not out.exists() or b'content="Curvewise ' in out.read_bytes()[:4096]
    require(ours, f"{out} exists and is no report: choose another --out")
    file, kind = _file_and_kind(place)
    chosen = {"sweep": sweep, "task": task, "beta": beta, "data": data, "score": score or None}
    for name in given(chosen | vars(columns)):
        option = option_name(name)
        fit = " and ".join(f"{each}s" for each, options in OPTIONS.items() if option in options)
        allowed = name in PLACES or option in OPTIONS[kind]
        require(allowed, f"{option} is for {fit}, got a {kind}, {file}")
    from curvewise.cli.pages import saved_page, store_page, table_page
    from curvewise.report.page import plotly_script, write_page

    plotly_script()  # before a long read of data
    if kind == "store":
        with Store(file, readonly=True) as opened:
            page = store_page(opened, sweep=sweep, task=task, beta=beta)
    elif kind == "table":
        page = table_page(file, vars(columns), score or [])
    else:
        with showing() as progress:
            page = saved_page(file, data, vars(columns), progress)
    write_page(page, out)
    size, count = out.stat().st_size, len(page.models)
    text = f"{count:,} curves of {page.task}: {out} ({size / 1e6:.1f} MB)"
    tell(as_json, {"file": str(out), "models": count, "bytes": size}, text)


def _file_and_kind(place: Path) -> tuple[Path, str]:
    """Return the file, in a folder that of train or compare, and "store", "table" or "model"."""
    from curvewise.data.registry import source_of

    require(place.exists(), f"there is no {place} to report on; give a store or a model file")
    if place.is_dir():
        files = [place / name for name in (MODEL, STORE) if (place / name).exists()]
        count = len(files) or "none"
        require(len(files) == 1, f"{place} must hold one of {MODEL} and {STORE}, got {count}")
        place = files[0]
    with place.open("rb") as opened:
        if opened.read(len(SQLITE)) == SQLITE:
            return place, "store"
    return place, "table" if source_of(place) == "table" else "model"
