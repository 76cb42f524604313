"""`curvewise data`, `embed`, `train`, `evaluate`, `predict`: one model, from data to answers."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from typer import Argument, Option

from curvewise.base.errors import require, require_open
from curvewise.base.files import require_folder, require_target, write_json
from curvewise.cli.options import (
    AsJson,
    Beta,
    CacheDir,
    DataDir,
    DataOptions,
    EmbedSize,
    ImageSize,
    ModelPath,
    Overwrite,
    RuleOptions,
    Seed,
    Source,
    Threshold,
    examples,
    grouped,
    loaded_task,
    number_text,
    one_of,
    read_changes,
    showing,
    stopping,
    tell,
    training_bar,
)
from curvewise.models import METRICS, MODEL, require_free

if TYPE_CHECKING:
    from curvewise.models.evaluate import Evaluation

data_app = typer.Typer(no_args_is_help=True, help="List, check and clean up data.")


@data_app.command("list", epilog=examples("data list --data-dir downloads"))
def data_list(
    data_dir: DataDir = None, cache_dir: CacheDir = None, as_json: AsJson = False
) -> None:
    """Show the sources, which of them are there, and how to get the others."""
    from curvewise.data.registry import SOURCES, source_missing

    listed, reasons, table = [], [], Table("source", "what", "state")
    for name, source in SOURCES.items():
        missing, about = source_missing(name, data_dir), {"name": name, "example": source.example}
        listed.append({**about, "what": source.what, "missing": missing})
        table.add_row(source.example, source.what, "missing" if missing else "there")
        reasons += [f"- {missing}"] if missing else []
    tell(as_json, listed, table, *reasons)


@data_app.command("check", epilog=examples("data check cifar10:cat/dog --beta 100"))
@grouped
def data_check(
    source: Source,
    data: DataOptions,
    beta: Beta = None,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Print counts per class and split."""
    task = loaded_task(source, data, beta=beta, seed=seed)
    names, shape = task.class_names, task.x_train.shape[1:]
    test_counts = [int((task.y_test == c).sum()) for c in range(len(names))]
    about: dict[str, Any] = {"task": task.name, "kind": task.kind, "shape": shape, "classes": names}
    about |= {"train": task.class_counts, "test": test_counts, "beta": task.beta}
    about["fingerprint"] = task.fingerprint
    table = Table("class", "train", "test")
    for name, n_train, n_test in zip(names, task.class_counts, test_counts, strict=True):
        table.add_row(name, f"{n_train:,}", f"{n_test:,}")
    text = f"{task.name}: {task.kind} of shape {shape}, beta = {task.beta:.2f}"
    tell(as_json, about, text, table)


@data_app.command("clean", epilog=examples("data clean --older-than 30 --yes"))
def data_clean(
    cache_dir: CacheDir = None,
    older_than: Annotated[float, Option(help="Only what was not used for so many days.")] = 0.0,
    yes: Annotated[bool, Option("--yes", help="Remove without asking.")] = False,
    as_json: AsJson = False,
) -> None:
    """Remove decoded images and features from the cache; they are made anew when needed."""
    from curvewise.data.cache import find_caches, remove_caches
    from curvewise.data.task import SourceOptions

    folder = SourceOptions(cache_dir=cache_dir).cache_folder
    exists = cache_dir is not None or folder.is_dir()  # the default one is made when needed
    caches = find_caches(folder, older_than=older_than) if exists else []
    size = sum(cache.size for cache in caches)
    if not as_json:
        for cache in caches:
            line = f"{_bytes(cache.size):>9}  {cache.days:5.1f} days  {cache.state}"
            print(f"{line}  {cache.path.name}")
        print(f"{len(caches)} caches, {_bytes(size)}, in {folder}")
        if caches and not yes:
            yes = sys.stdin.isatty() and typer.confirm("Remove them?")
    freed = remove_caches(caches) if yes else 0
    listed = [
        {"name": cache.path.name, "bytes": cache.size, "days": cache.days, "state": cache.state}
        for cache in caches
    ]
    removed = f"{_bytes(freed)} freed" if yes else "nothing removed; --yes removes them"
    about = {"folder": str(folder), "caches": listed, "bytes": size, "freed": freed}
    tell(as_json, about, *([removed] if caches else []))


def _bytes(size: int) -> str:
    return f"{size / 1e9:.2f} GB" if size >= 1e9 else f"{size / 1e6:.2f} MB"


def embed(
    source: Source,
    out: Annotated[Path, Option(help="npz file to write, a source by itself.")],
    backbone: Annotated[str, Option(help="Pretrained network.")] = "efficientnet-lite0",
    size: EmbedSize = None,
    seed: Seed = 0,
    image_size: ImageSize = None,
    data_dir: DataDir = None,
    cache_dir: CacheDir = None,
    as_json: AsJson = False,
) -> None:
    """Turn images into features of a pretrained network; stopped, the same command goes on."""
    from curvewise.data.feature_bank import embed as run, require_backbone

    require_backbone(backbone)  # before a long read of data
    data = DataOptions(image_size=image_size, data_dir=data_dir, cache_dir=cache_dir)
    task = loaded_task(source, data, seed=seed)
    with stopping("the same command goes on where it was"), showing() as progress:
        run(task, out, backbone=backbone, size=size, progress=progress)
    n_train, n_test = len(task.y_train), len(task.y_test)
    about = {"train": n_train, "test": n_test, "out": str(out)}
    tell(as_json, about, f"{n_train} + {n_test} images: train on npz:{out}")


@grouped
def train(
    source: Source,
    data: DataOptions,
    point: RuleOptions,
    out: Annotated[Path, Option(help="Folder for model, metrics and figure.")] = Path("out/model"),
    omega: Annotated[str, Option(help="A number, or LOW:HIGH:HEIGHT to draw it.")] = "0.5",
    gamma: Annotated[str, Option(help="A number, or LOW:HIGH:HEIGHT to draw it.")] = "0",
    tau: Annotated[str, Option(help="A number, or LOW:HIGH:HEIGHT to draw it.")] = "0:3:0.33",
    reduction: Annotated[
        str,
        Option(
            help="Mean of the loss over a batch: weighted_mean, mean, or expected_mean (for "
            "probabilities to be trusted)."
        ),
    ] = "weighted_mean",
    network: Annotated[str | None, Option(help="mlp, small-cnn, resnet32, ...")] = None,
    preset: Annotated[str, Option(help="Named recipe: quick, tabular, paper-cifar, ...")] = "quick",
    change: Annotated[
        list[str] | None,
        Option("--set", help="Change a setting: --set epochs=20, --set network.hidden=64,64"),
    ] = None,
    weights: Annotated[Path | None, Option(help="Start from these weights.")] = None,
    validation: Annotated[
        float | None, Option(help="Evaluate on this fraction of the training part instead.")
    ] = None,
    resume: Annotated[bool, Option("--resume", help="Go on with a stopped run.")] = False,
    beta: Beta = None,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Train one model on a data source and test it."""
    require_free(out, resume=resume)  # before a long read of data, not after it
    rule = one_of(**vars(point))
    if validation is not None:
        require_open("--validation", validation, 0, 1)
    changes, network_options = read_changes(change)
    from curvewise.models.train import read_family, train as run
    from curvewise.sweep.grid import base_recipe

    family = read_family(omega, gamma, tau, reduction)
    seeds = {f"seed_{part}": seed for part in ("weights", "order", "lambda")}
    recipe = base_recipe({"preset": preset, **seeds, **changes})
    task = loaded_task(source, data, beta=beta, seed=seed)
    with training_bar() as on_progress:
        outcome = run(
            task,
            family,
            recipe,
            out,
            network=network,
            network_options=network_options,
            weights=weights,
            validation=validation,
            rule=rule,
            resume=resume,
            seed=seed,
            on_progress=on_progress,
        )
    if outcome.test is None:
        print(
            f"curvewise: stopped after {outcome.steps} steps; go on with --resume", file=sys.stderr
        )
        raise typer.Exit(130)
    part = "test" if validation is None else "validation"
    draw_roc(outcome.test, task.name, out, part)
    used = "the threshold chosen on these data" if rule else "0 as threshold (see --max-fpr)"
    text = f"model, metrics and figure are in {out}, and predict uses {used}"
    shown = evaluation_table(outcome.test, task.name, f"{part} samples")
    tell(as_json, outcome.test.numbers, shown, text)


@grouped
def evaluate(
    source: Source,
    model: ModelPath,
    data: DataOptions,
    point: RuleOptions,
    out: Annotated[Path | None, Option(help="Folder for metrics, figure and report.")] = None,
    tau: Annotated[float | None, Option(help="Evaluate at this tau.")] = None,
    threshold: Threshold = None,
    all_rows: Annotated[
        bool, Option("--all-rows", help="Use all rows of a table, not its test part.")
    ] = False,
    seed: Annotated[int | None, Option(help="Seed of the split (default: the model's).")] = None,
    prevalence: Annotated[float | None, Option(help="Share of positives in deployment.")] = None,
    as_json: AsJson = False,
) -> None:
    """Measure a model on the test part of a source: that of its training, or of new data.

    Without --threshold and rules, the threshold is the one that train chose, or 0.
    """
    rule, at = one_of(**vars(point)), one_of(tau=tau)
    if out is not None:
        require_folder(out)
    from curvewise.models.evaluate import evaluate as run, measured_part
    from curvewise.models.saving import load_model

    file = model_file(model)
    trained = load_model(file)
    with showing() as progress:
        part = measured_part(
            trained, source, all_rows=all_rows, seed=seed, progress=progress, **vars(data)
        )
    measured = run(
        trained, part.x, part.y, at=at, threshold=threshold, rule=rule, prevalence=prevalence
    )
    if out is not None:
        from curvewise.cli.pages import model_page
        from curvewise.models.predict import Levels
        from curvewise.report.page import PAGE, has_plotly, write_page

        out.mkdir(parents=True, exist_ok=True)
        write_json(out / METRICS, measured.numbers)
        draw_roc(measured, source, out)
        if has_plotly():
            found = {"seed": seed, "target": data.target, "data_dir": data.data_dir}
            found["all_rows"] = all_rows or None
            write_page(model_page(Levels(trained, part, **at), file, source, found), out / PAGE)
    samples = "samples, all rows" if all_rows else "test samples"
    lines = [] if rule else [f"the threshold is {measured.origin}"]
    tell(as_json, measured.numbers, evaluation_table(measured, source, samples), *lines)
    if part.note:
        print(f"curvewise: {part.note}", file=sys.stderr)


def predict(
    inputs: Annotated[
        list[Path],
        Argument(
            help="A table, images and folders of them, or an npz file; the model may come first."
        ),
    ],
    model: Annotated[
        Path | None, Option(help="What train wrote: the model file or its folder.")
    ] = None,
    out: Annotated[Path, Option(help="CSV file to write.")] = Path("predictions.csv"),
    overwrite: Overwrite = False,
    tau: Annotated[float | None, Option(help="Predict at this tau.")] = None,
    threshold: Threshold = None,
    max_fpr: Annotated[float | None, Option(help="Threshold of this FPR on the test part.")] = None,
    min_tpr: Annotated[float | None, Option(help="Threshold of this TPR on the test part.")] = None,
    calibrated: Annotated[bool, Option("--calibrated", help="Add probabilities.")] = False,
    prior: Annotated[float | None, Option(help="Share of positives, for --calibrated.")] = None,
    as_json: AsJson = False,
) -> None:
    """Score new rows of a table, new images or arrays into a CSV file.

    Without --threshold, --max-fpr and --min-tpr, the threshold is the one that train chose by such
    a rule, or 0.
    """
    if model is None:
        model, *inputs = inputs
    require(inputs, f"predict needs --model and a table or images, got only {model}")
    for path in inputs:
        there = path.exists()
        require(there, f"there is no {path} to predict: give a table, images, or an .npz file")
    file = model_file(model)
    files = [path.resolve() for path in (*inputs, file)]
    require(out.resolve() not in files, f"--out must be a CSV file of its own, got {out}")
    require_target("--out", out, overwrite=overwrite)
    rule = one_of(threshold=threshold, max_fpr=max_fpr, min_tpr=min_tpr)
    from curvewise.models.operating import threshold_text
    from curvewise.models.predict import predict as run

    with stopping("nothing was written"), showing() as progress:
        summary = run(
            inputs,
            file,
            out,
            tau=tau,
            threshold=rule.pop("threshold", None),
            rule=rule,
            calibrated=calibrated,
            prior=prior,
            progress=progress,
        )
    at = "inf" if summary["threshold"] is None else threshold_text(summary["threshold"])
    called = f"{summary['rows']} rows, {summary['positive']} called positive at threshold {at}"
    tell(as_json, summary, f"{called} ({summary['threshold_from']}): {out}")


def model_file(place: Path) -> Path:
    """Return the model's file; a folder is the one that train wrote."""
    return place / MODEL if place.is_dir() else place


def draw_roc(measured: "Evaluation", title: str, folder: Path, part: str = "test") -> None:
    """Draw the ROC curve of a part with the chosen or given operating point as roc.png."""
    from curvewise.figures.curves import plot_roc
    from curvewise.figures.sheets import new_axes, save

    axes = new_axes(bare=True)
    plot_roc({part: measured.curve}, points=[measured.point], title=title, ax=axes)
    save(axes, folder / "roc.png")


def evaluation_table(measured: "Evaluation", title: str, samples: str) -> Table:
    """Return an evaluation as a table for the terminal; `samples` says what it was done on."""
    from curvewise.models.operating import threshold_text

    numbers = measured.numbers
    area = numbers["auc"]
    table = Table("metric", "value", title=title)
    table.add_row(samples, f"{numbers['n_positive']} positive, {numbers['n_negative']} negative")
    bounds = f"{area['low']:.4f}-{area['high']:.4f}, {area['level']:.0%}, {area['method']}"
    table.add_row("AUC", f"{area['auc']:.4f} ({bounds})")
    for name, value in numbers["partial_auc"].items():
        table.add_row(f"partial AUC, {name}, standardised", f"{value:.4f}")
    for rate, value in numbers["tpr_at_fpr"].items():
        table.add_row(f"TPR at FPR {float(rate):.1%}", f"{value:.4f}")
    table.add_row("AUPRC (trapezoid)", f"{numbers['auprc']:.4f}")
    for key in ("at_threshold", "chosen_on_these_data"):
        if key not in numbers:
            continue
        point, form = numbers[key], "{:.4f} ({:.4f}-{:.4f})"
        table.add_section()
        tpr, fpr = (form.format(point[n], *point[f"{n}_interval"]) for n in ("tpr", "fpr"))
        table.add_row(key.replace("_", " "), threshold_text(point["threshold"]))
        table.add_row("TPR, FPR", f"{tpr} and {fpr}")
        table.add_row("PPV", f"{number_text(point['ppv'])} at prevalence {point['prevalence']:.4f}")
        if "f1" in point:
            f1, gmean = number_text(point["f1"]), number_text(point["gmean"])
            table.add_row("F1, G-mean", f"{f1}, {gmean}")
    return table
