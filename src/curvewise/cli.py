"""The command line: `curvewise train`, `evaluate`, `predict`, `embed`, `data list|check`."""

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from curvewise.errors import CurvewiseError, InputError

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Train classifiers for the whole ROC curve when one class is rare.",
)
data_app = typer.Typer(no_args_is_help=True, help="What data there is.")
app.add_typer(data_app, name="data")

Source = Annotated[str, typer.Argument(help="A data source, such as table:FILE or cifar10:cat/dog")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
DataDir = Annotated[Path | None, typer.Option(help="Folder with downloaded data sets.")]
CacheDir = Annotated[Path | None, typer.Option(help="Folder for decoded images.")]
Beta = Annotated[float | None, typer.Option(help="Thin the rare class of the training part.")]
Seed = Annotated[int, typer.Option(help="Seed of split, subsample, weights, order and draws.")]
Target = Annotated[str | None, typer.Option(help="Column with the label (tables).")]
Positive = Annotated[str | None, typer.Option(help="The positive class (default: the rarer).")]
Group = Annotated[str | None, typer.Option(help="Column whose values stay together in splits.")]
ImageSize = Annotated[int | None, typer.Option(help="Side of decoded images in pixels.")]
MaxFpr = Annotated[float | None, typer.Option(help="Operating point: FPR at most this.")]
MinTpr = Annotated[float | None, typer.Option(help="Operating point: TPR at least this.")]
CostRatio = Annotated[float | None, typer.Option(help="Cost of a miss over a false alarm.")]
Prevalence = Annotated[float | None, typer.Option(help="Share of positives in deployment.")]


@app.command()
def train(
    source: Source,
    out: Annotated[Path, typer.Option(help="Folder for model, metrics and figure.")] = Path(
        "out/model"
    ),
    omega: Annotated[str, typer.Option(help="A number, or LOW:HIGH:HEIGHT to draw it.")] = "0.5",
    gamma: Annotated[str, typer.Option(help="A number, or LOW:HIGH:HEIGHT to draw it.")] = "0",
    tau: Annotated[str, typer.Option(help="A number, or LOW:HIGH:HEIGHT to draw it.")] = "0:3:0.33",
    network: Annotated[str | None, typer.Option(help="mlp, small-cnn, resnet32, ...")] = None,
    preset: Annotated[
        str, typer.Option(help="Named recipe: quick, tabular, paper-cifar, ...")
    ] = "quick",
    change: Annotated[
        list[str] | None, typer.Option("--set", help="Change a setting: --set epochs=20")
    ] = None,
    weights: Annotated[Path | None, typer.Option(help="Start from these weights.")] = None,
    validation: Annotated[
        float | None, typer.Option(help="Evaluate on this fraction of the training part instead.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a stopped run.")] = False,
    beta: Beta = None,
    seed: Seed = 0,
    target: Target = None,
    positive: Positive = None,
    group: Group = None,
    image_size: ImageSize = None,
    data_dir: DataDir = None,
    cache_dir: CacheDir = None,
    max_fpr: MaxFpr = None,
    min_tpr: MinTpr = None,
    cost_ratio: CostRatio = None,
    as_json: AsJson = False,
) -> None:
    """Train one model: curvewise train digits:8 --beta 50 --out out/digits."""
    from curvewise.apps.commands import loaded_task, parse_family, parse_recipe, training_bar
    from curvewise.apps.train import train as run
    from curvewise.apps.train import without_nan

    family = parse_family(omega, gamma, tau)
    recipe = parse_recipe(preset, change or [], seed)
    task = loaded_task(
        source, beta=beta, seed=seed, target=target, positive=positive, group=group,
        image_size=image_size, data_dir=data_dir, cache_dir=cache_dir,
    )  # fmt: skip
    if validation is not None:
        task = task.with_validation(validation, seed=seed)
    rule = _rule(max_fpr, min_tpr, cost_ratio)
    with training_bar() as on_progress:
        outcome = run(
            task, family, recipe, out, network=network, weights=weights, resume=resume, rule=rule,
            on_progress=on_progress,
        )  # fmt: skip
    if not outcome.finished:
        _fail(f"stopped after {outcome.steps} steps; go on with --resume", code=130)
    if as_json:
        print(json.dumps(without_nan(outcome.metrics), allow_nan=False))
        return
    _show(outcome.metrics, task.name)
    Console().print(f"model, metrics and figure are in {out}")


@app.command()
def evaluate(
    source: Source,
    model: Annotated[Path, typer.Option(help="Model file written by train.")],
    out: Annotated[Path | None, typer.Option(help="Folder for metrics and figure.")] = None,
    tau: Annotated[float | None, typer.Option(help="Evaluate at this tau.")] = None,
    threshold: Annotated[float | None, typer.Option(help="Call z1 - z0 >= this positive.")] = None,
    all_rows: Annotated[
        bool, typer.Option("--all-rows", help="Use all rows of a table, not its test part.")
    ] = False,
    seed: Seed = 0,
    target: Target = None,
    positive: Positive = None,
    group: Group = None,
    image_size: ImageSize = None,
    data_dir: DataDir = None,
    cache_dir: CacheDir = None,
    max_fpr: MaxFpr = None,
    min_tpr: MinTpr = None,
    cost_ratio: CostRatio = None,
    prevalence: Prevalence = None,
    as_json: AsJson = False,
) -> None:
    """Measure a model: curvewise evaluate digits:8 --model out/digits/model.safetensors."""
    from curvewise.apps.commands import loaded_task
    from curvewise.apps.evaluate import draw_roc, evaluation
    from curvewise.apps.predict import labelled_rows
    from curvewise.apps.train import without_nan, write_json
    from curvewise.artifacts import load

    trained = load(model)
    if source.startswith("table:"):
        file = Path(source.removeprefix("table:"))
        x, y = labelled_rows(trained, file, target=target, seed=seed, all_rows=all_rows)
    else:
        task = loaded_task(
            source, beta=None, seed=seed, target=target, positive=positive, group=group,
            image_size=image_size, data_dir=data_dir, cache_dir=cache_dir,
        )  # fmt: skip
        x, y = task.x_test, task.y_test
    score = trained.scores(x, **({} if tau is None else {"tau": tau}))
    rule = _rule(max_fpr, min_tpr, cost_ratio)
    result = evaluation(y, score, rule=rule, threshold=threshold, prevalence=prevalence)
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        write_json(out / "metrics.json", result)
        draw_roc(y, score, result, source, out / "roc.png")
    if as_json:
        print(json.dumps(without_nan(result), allow_nan=False))
    else:
        _show(result, source)


@app.command()
def predict(
    table: Annotated[Path, typer.Argument(help="CSV, TSV or Parquet file with the columns.")],
    model: Annotated[Path, typer.Option(help="Model file written by train.")],
    out: Annotated[Path, typer.Option(help="CSV file to write.")] = Path("predictions.csv"),
    tau: Annotated[float | None, typer.Option(help="Predict at this tau.")] = None,
    max_fpr: Annotated[
        float | None, typer.Option(help="Use the threshold of this FPR on the test part.")
    ] = None,
    calibrated: Annotated[bool, typer.Option("--calibrated", help="Add probabilities.")] = False,
    prior: Annotated[float | None, typer.Option(help="Share of positives to expect.")] = None,
    as_json: AsJson = False,
) -> None:
    """Score new rows: curvewise predict new.csv --model out/model/model.safetensors."""
    from curvewise.apps.predict import predict_table

    summary = predict_table(
        table, model, out, tau=tau, max_fpr=max_fpr, calibrated=calibrated, prior=prior
    )
    if as_json:
        print(json.dumps(summary))
    else:
        Console().print(f"{summary['rows']} rows, {summary['positive']} called positive: {out}")


@app.command()
def embed(
    source: Source,
    out: Annotated[Path, typer.Option(help="npz file to write, a source by itself.")],
    backbone: Annotated[str, typer.Option(help="Pretrained network.")] = "efficientnet-lite0",
    seed: Seed = 0,
    image_size: ImageSize = None,
    data_dir: DataDir = None,
    cache_dir: CacheDir = None,
    as_json: AsJson = False,
) -> None:
    """Turn images into features: curvewise embed dogs-vs-cats --out features.npz."""
    from curvewise.apps.commands import loaded_task, showing
    from curvewise.apps.embed import embed as run

    task = loaded_task(
        source, seed=seed, image_size=image_size, data_dir=data_dir, cache_dir=cache_dir
    )
    with showing() as progress:
        run(task, out, backbone=backbone, progress=progress)
    counts = {"train": len(task.y_train), "test": len(task.y_test), "out": str(out)}
    if as_json:
        print(json.dumps(counts))
    else:
        Console().print(f"{counts['train']} + {counts['test']} images: train on npz:{out}")


@data_app.command("list")
def data_list(
    data_dir: DataDir = None, cache_dir: CacheDir = None, as_json: AsJson = False
) -> None:
    """Show the sources, which of them are there, and how to get the others."""
    from curvewise.data.registry import list_sources

    sources = list_sources(data_dir=data_dir, cache_dir=cache_dir)
    if as_json:
        print(json.dumps([vars(source) for source in sources]))
        return
    table = Table("source", "example", "what", "state")
    for source in sources:
        table.add_row(source.name, source.example, source.what, source.missing or "there")
    Console().print(table)


@data_app.command("check")
def data_check(
    source: Source,
    beta: Beta = None,
    seed: Seed = 0,
    target: Target = None,
    positive: Positive = None,
    group: Group = None,
    image_size: ImageSize = None,
    data_dir: DataDir = None,
    cache_dir: CacheDir = None,
    as_json: AsJson = False,
) -> None:
    """Print counts per class and split: curvewise data check cifar10:cat/dog --beta 100."""
    from curvewise.apps.commands import loaded_task

    task = loaded_task(
        source, beta=beta, seed=seed, target=target, positive=positive, group=group,
        image_size=image_size, data_dir=data_dir, cache_dir=cache_dir,
    )  # fmt: skip
    test_counts = [int((task.y_test == c).sum()) for c in range(len(task.class_names))]
    if as_json:
        print(
            json.dumps(
                {
                    "task": task.name, "kind": task.kind, "shape": list(task.x_train.shape[1:]),
                    "classes": list(task.class_names), "train": list(task.class_counts),
                    "test": test_counts, "beta": task.beta, "fingerprint": task.fingerprint,
                }
            )
        )  # fmt: skip
        return
    table = Table("class", "train", "test", title=f"{task.name}, beta = {task.beta:.2f}")
    for name, n_train, n_test in zip(task.class_names, task.class_counts, test_counts, strict=True):
        table.add_row(name, f"{n_train:,}", f"{n_test:,}")
    Console().print(table)


def _rule(
    max_fpr: float | None, min_tpr: float | None, cost_ratio: float | None
) -> dict[str, float] | None:
    given = {"max_fpr": max_fpr, "min_tpr": min_tpr, "cost_ratio": cost_ratio}
    rule = {name: value for name, value in given.items() if value is not None}
    if len(rule) > 1:
        raise InputError(f"one of --max-fpr, --min-tpr, --cost-ratio can be given, got {rule}")
    return rule or None


def _show(result: dict[str, Any], title: str) -> None:
    """Print an evaluation as a table."""
    area = result["auc"]
    table = Table("metric", "value", title=title)
    table.add_row(
        "test samples", f"{result['n_positive']} positive, {result['n_negative']} negative"
    )
    bounds = f"{area['low']:.4f}-{area['high']:.4f}, {area['level']:.0%}, {area['method']}"
    table.add_row("AUC", f"{area['auc']:.4f} ({bounds})")
    for name, value in result["partial_auc"].items():
        table.add_row(f"partial AUC, {name}, standardised", f"{value:.4f}")
    for rate, value in result["tpr_at_fpr"].items():
        table.add_row(f"TPR at FPR {float(rate):.1%}", f"{value:.4f}")
    table.add_row("AUPRC (trapezoid)", f"{result['auprc']:.4f}")
    for key in ("at_threshold", "chosen_on_these_data"):
        if key not in result:
            continue
        point = result[key]
        table.add_section()
        rates = [
            "{:.4f} ({:.4f}-{:.4f})".format(point[name], *point[f"{name}_interval"])
            for name in ("tpr", "fpr")
        ]
        table.add_row(key.replace("_", " "), f"{point['threshold']:.4g}")
        table.add_row("TPR, FPR", " and ".join(rates))
        table.add_row("PPV", f"{point['ppv']:.4f} at prevalence {point['prevalence']:.4f}")
        if "f1" in point:
            table.add_row("F1, G-mean", f"{point['f1']:.4f}, {point['gmean']:.4f}")
    Console().print(table)


def _fail(sentence: str, code: int = 2) -> None:
    print(f"curvewise: {sentence}", file=sys.stderr)
    raise typer.Exit(code)


def main() -> None:
    """Run the command line; bad input ends in one sentence and exit code 2."""
    try:
        app()
    except CurvewiseError as error:
        print(f"curvewise: {error}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
