"""`curvewise report`: a store or a model as one HTML file."""

from pathlib import Path
from typing import Annotated, Any

import typer

from curvewise.base.errors import InputError
from curvewise.base.machine import this_command
from curvewise.cli.options import (
    AsJson,
    CacheDir,
    DataDir,
    Group,
    ImageSize,
    Positive,
    Target,
    print_json,
    showing,
)
from curvewise.models import MODEL

SQLITE = b"SQLite format 3\x00"
OPTIONS = {  # that each kind of file has
    "store": ("--sweep", "--task", "--beta"),
    "model": ("--data", "--target", "--positive", "--group", "--image-size"),
    "table": ("--target", "--positive", "--score"),
}


def report(
    place: Annotated[
        Path,
        typer.Argument(
            help="A store (runs.db), a model or estimator file, a folder with one, or a table "
            "with labels and scores of any tool."
        ),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="HTML file to write.")] = Path(
        "report.html"
    ),
    sweep: Annotated[str | None, typer.Option(help="Store: the sweep, if it has several.")] = None,
    task: Annotated[str | None, typer.Option(help="Store: the task, if it has several.")] = None,
    beta: Annotated[
        float | None, typer.Option(help="Store: this imbalance only (default: all).")
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(help="Model: the source to measure it on (default: that of its training)."),
    ] = None,
    score: Annotated[
        list[str] | None,
        typer.Option(help="Table: a column of scores (default: score, probability)."),
    ] = None,
    target: Target = None,
    positive: Positive = None,
    group: Group = None,
    image_size: ImageSize = None,
    data_dir: DataDir = None,
    cache_dir: CacheDir = None,
    as_json: AsJson = False,
) -> None:
    """Write models, or scores of any tool, as an interactive page that needs no network."""
    _require_page(out)
    file = _file(place)
    kind = _kind(file)
    columns = {"target": target, "positive": positive, "group": group, "image_size": image_size}
    chosen = {"sweep": sweep, "task": task, "beta": beta, "data": data, "score": score or None}
    for name, value in (chosen | columns).items():
        option = f"--{name.replace('_', '-')}"
        if value is not None and option not in OPTIONS[kind]:
            fit = " and ".join(f"{name}s" for name, options in OPTIONS.items() if option in options)
            raise InputError(f"{option} is for {fit}, got a {kind}, {file}")
    from curvewise.report.page import write_page
    from curvewise.report.page_library import plotly_script

    plotly_script()  # before a long read of data
    if kind == "store":
        from curvewise.report.from_store import store_input
        from curvewise.sweep.store import Store

        with Store(file, readonly=True) as opened:
            page = store_input(opened, sweep=sweep, task=task, beta=beta, command=this_command())
    elif kind == "table":
        from curvewise.models.evaluate import scores_in_table
        from curvewise.report.from_scores import table_input

        scored = scores_in_table(file, target=target, positive=positive, columns=score or [])
        page = table_input(scored, this_command())
    else:
        page = _model_page(file, data, {**columns, "data_dir": data_dir, "cache_dir": cache_dir})
    write_page(page, out)
    size = out.stat().st_size
    if as_json:
        print_json({"file": str(out), "models": len(page.models), "bytes": size})
    else:
        print(f"{len(page.models):,} curves of {page.task}: {out} ({size / 1e6:.1f} MB)")


def _model_page(file: Path, data: str | None, options: dict[str, Any]) -> Any:
    from curvewise.models.evaluate import estimator_scores, measured_part
    from curvewise.models.predict import at_levels
    from curvewise.models.saving import load
    from curvewise.report.from_model import model_input
    from curvewise.report.from_scores import estimator_input
    from curvewise.training.model import Model

    model = load(file)
    if not isinstance(model, Model):
        for name in ("positive", "group", "image_size"):
            if options[name] is not None:
                option = f"--{name.replace('_', '-')}"
                raise InputError(f"{option} is for models of train, got an estimator, {file}")
        scored = estimator_scores(
            model, data, target=options["target"], data_dir=options["data_dir"]
        )
        return estimator_input(scored, file, this_command())
    source = data or model.record.get("task")
    if source is None:
        raise InputError(f"--data must name what to measure {file} on, got none")
    try:
        with showing() as progress:
            part = measured_part(model, source, **options, progress=progress)
    except InputError as error:
        if data is not None:
            raise
        raise InputError(f"the model's own data cannot be read, give --data: {error}") from None
    levels = at_levels(model, part)
    return model_input(levels, file, source, options=options, command=this_command())


def write_model_report(
    folder: Path,
    model: Any,
    file: Path,
    source: str,
    part: Any,
    at: dict[str, float],
    options: dict[str, Any],
) -> None:
    """Write report.html of a model that was just measured; without Plotly, say how to have it."""
    from curvewise.models.predict import at_levels
    from curvewise.report.from_model import model_input
    from curvewise.report.page import write_page
    from curvewise.report.page_library import PAGE, told_missing

    if told_missing():
        return
    kept = {name: value for name, value in options.items() if value not in (None, False)}
    levels = at_levels(model, part, **at)
    page = model_input(levels, file, source, options=kept, command=this_command())
    write_page(page, folder / PAGE)


def _require_page(out: Path) -> None:
    """Raise `InputError` if a file is there that is no report, or no file can be."""
    if out.is_dir():
        raise InputError(f"--out must be an HTML file, got the folder {out}")
    if out.exists() and b'content="Curvewise ' not in out.read_bytes()[:4096]:
        raise InputError(f"{out} exists and is no report: choose another --out")
    for above in out.parents:
        if above.exists() and not above.is_dir():
            raise InputError(f"--out {out} cannot be written: {above} is a file")


def _file(place: Path) -> Path:
    """Return the store or model; a folder is what train or compare wrote."""
    if not place.is_dir():
        if not place.exists():
            raise InputError(f"there is no {place} to report on; give a store or a model file")
        return place
    files = [place / name for name in (MODEL, "runs.db") if (place / name).exists()]
    if len(files) != 1:
        raise InputError(
            f"{place} must hold one of {MODEL} and runs.db, got {len(files) or 'none'}"
        )
    return files[0]


def _kind(file: Path) -> str:
    """Return whether a file is a store, a table or a model."""
    from curvewise.data.tables import ENDINGS

    with file.open("rb") as opened:
        if opened.read(len(SQLITE)) == SQLITE:
            return "store"
    table = file.with_suffix("") if file.suffix == ".gz" else file
    return "table" if table.suffix.lower() in ENDINGS else "model"
