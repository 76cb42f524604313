"""`curvewise train|evaluate|predict|embed`: one model, from data to answers."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from curvewise.base.errors import InputError, require_choice, require_open
from curvewise.cli.options import (
    AsJson,
    Beta,
    CacheDir,
    CostRatio,
    DataDir,
    Group,
    ImageSize,
    MaxFpr,
    MinTpr,
    ModelPath,
    Positive,
    Prevalence,
    Seed,
    Source,
    Target,
)
from curvewise.cli.report import write_model_report


def train(
    source: Source,
    out: Annotated[Path, typer.Option(help="Folder for model, metrics and figure.")] = Path(
        "out/model"
    ),
    omega: Annotated[str, typer.Option(help="A number, or LOW:HIGH:HEIGHT to draw it.")] = "0.5",
    gamma: Annotated[str, typer.Option(help="A number, or LOW:HIGH:HEIGHT to draw it.")] = "0",
    tau: Annotated[str, typer.Option(help="A number, or LOW:HIGH:HEIGHT to draw it.")] = "0:3:0.33",
    reduction: Annotated[
        str,
        typer.Option(
            help="Mean of the loss over a batch: weighted_mean, mean, or expected_mean (for "
            "probabilities to be trusted)."
        ),
    ] = "weighted_mean",
    network: Annotated[str | None, typer.Option(help="mlp, small-cnn, resnet32, ...")] = None,
    preset: Annotated[
        str, typer.Option(help="Named recipe: quick, tabular, paper-cifar, ...")
    ] = "quick",
    change: Annotated[
        list[str] | None,
        typer.Option("--set", help="Change a setting: --set epochs=20, --set network.hidden=64,64"),
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
    """Train one model on a data source and test it."""
    from curvewise.base.files import without_nan
    from curvewise.cli.reading import (
        loaded_task,
        network_options,
        parse_family,
        parse_recipe,
        training_bar,
    )
    from curvewise.models.evaluate import evaluation_table
    from curvewise.models.train import require_free, train as run

    require_free(out, resume=resume)  # before a long read of data, not after it
    rule = _rule(max_fpr, min_tpr, cost_ratio)
    if validation is not None:
        require_open("--validation", validation, 0, 1)
    family = parse_family(omega, gamma, tau, reduction)
    recipe = parse_recipe(preset, change or [], seed)
    task = loaded_task(
        source, beta=beta, seed=seed, target=target, positive=positive, group=group,
        image_size=image_size, data_dir=data_dir, cache_dir=cache_dir,
    )  # fmt: skip
    part, test_digest = "test part", task.test_digest
    if validation is not None:
        task = task.with_validation(validation, seed=seed)
        part = "validation part"
    with training_bar() as on_progress:
        outcome = run(
            task, family, recipe, out, network=network,
            network_options=network_options(change or []), weights=weights, resume=resume,
            seed=seed, rule=rule, part=part, test_digest=test_digest, on_progress=on_progress,
        )  # fmt: skip
    if not outcome.finished:
        _fail(f"stopped after {outcome.steps} steps; go on with --resume", code=130)
    if as_json:
        print(json.dumps(without_nan(outcome.metrics), allow_nan=False))
        return
    samples = part.replace("part", "samples")
    Console().print(evaluation_table(outcome.metrics, task.name, samples))
    used = "the threshold chosen on these data" if rule else "0 as threshold (see --max-fpr)"
    print(f"model, metrics and figure are in {out}, and predict uses {used}")


def evaluate(
    source: Source,
    model: ModelPath,
    out: Annotated[Path | None, typer.Option(help="Folder for metrics, figure and report.")] = None,
    tau: Annotated[float | None, typer.Option(help="Evaluate at this tau.")] = None,
    threshold: Annotated[float | None, typer.Option(help="Call z1 - z0 >= this positive.")] = None,
    all_rows: Annotated[
        bool, typer.Option("--all-rows", help="Use all rows of a table, not its test part.")
    ] = False,
    seed: Annotated[
        int | None, typer.Option(help="Seed of the split (default: the model's own).")
    ] = None,
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
    """Measure a model on the test part of a source: that of its training, or of new data.

    Without --threshold and rules, the threshold is the one that train chose, or 0.
    """
    from curvewise.base.files import require_folder, without_nan, write_json
    from curvewise.cli.reading import showing
    from curvewise.models.evaluate import (
        MeasuredPart,
        draw_roc,
        evaluation,
        evaluation_table,
        measured_part,
    )
    from curvewise.models.saving import load_model
    from curvewise.models.thresholds import find_threshold

    rule = _rule(max_fpr, min_tpr, cost_ratio)
    if out is not None:
        require_folder(out)
    trained = load_model(_model_file(model))
    with showing() as progress:
        x, y, note = measured_part(
            trained, source, all_rows=all_rows, seed=seed, target=target, positive=positive,
            group=group, image_size=image_size, data_dir=data_dir, cache_dir=cache_dir,
            progress=progress,
        )  # fmt: skip
    at = {} if tau is None else {"tau": tau}
    score = trained.scores(x, **at)
    origin = "given"
    if threshold is None and rule is None:
        own = trained.lam(**at).tolist() == trained.lam().tolist()
        found = find_threshold(trained, own_lambda=own)
        threshold, origin = found.value, found.origin
    result = evaluation(y, score, rule=rule, threshold=threshold, prevalence=prevalence)
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        write_json(out / "metrics.json", result)
        draw_roc(y, score, result, source, out / "roc.png")
        options = {"seed": seed, "target": target, "data_dir": data_dir, "all_rows": all_rows}
        write_model_report(
            out, trained, _model_file(model), source, MeasuredPart(x, y, note), tau, options
        )
    if as_json:
        print(json.dumps(without_nan(result), allow_nan=False))
    else:
        samples = "samples, all rows" if all_rows else "test samples"
        Console().print(evaluation_table(result, source, samples))
        if not rule:
            print(f"the threshold is {origin}")
    if note:
        print(f"curvewise: {note}", file=sys.stderr)


def predict(
    inputs: Annotated[
        list[Path],
        typer.Argument(
            help="A table, images and folders of them, or an npz file; the model may come first."
        ),
    ],
    model: Annotated[
        Path | None, typer.Option(help="What train wrote: the model file or its folder.")
    ] = None,
    out: Annotated[Path, typer.Option(help="CSV file to write.")] = Path("predictions.csv"),
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the CSV file.")] = False,
    tau: Annotated[float | None, typer.Option(help="Predict at this tau.")] = None,
    threshold: Annotated[float | None, typer.Option(help="Call z1 - z0 >= this positive.")] = None,
    max_fpr: Annotated[
        float | None, typer.Option(help="Use the threshold of this FPR on the test part.")
    ] = None,
    min_tpr: Annotated[
        float | None, typer.Option(help="Use the threshold of this TPR on the test part.")
    ] = None,
    calibrated: Annotated[bool, typer.Option("--calibrated", help="Add probabilities.")] = False,
    prior: Annotated[
        float | None, typer.Option(help="Share of positives to expect, for --calibrated.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Score new rows of a table, new images or arrays into a CSV file.

    Without --threshold, --max-fpr and --min-tpr, the threshold is the one that train chose by such
    a rule, or 0.
    """
    from curvewise.cli.reading import showing
    from curvewise.models.predict import predict as run
    from curvewise.models.thresholds import threshold_text

    if model is None:
        model, *inputs = inputs
    if not inputs:
        raise InputError(f"predict needs --model and a table or images, got only {model}")
    with _stopping("nothing was written"), showing() as progress:
        summary = run(
            inputs, _model_file(model), out, tau=tau, threshold=threshold, max_fpr=max_fpr,
            min_tpr=min_tpr, calibrated=calibrated, prior=prior, overwrite=overwrite,
            progress=progress,
        )  # fmt: skip
    if as_json:
        print(json.dumps(summary))
        return
    at = "inf" if summary["threshold"] is None else threshold_text(summary["threshold"])
    print(
        f"{summary['rows']} rows, {summary['positive']} called positive at threshold {at} "
        f"({summary['threshold_from']}): {out}"
    )


def embed(
    source: Source,
    out: Annotated[Path, typer.Option(help="npz file to write, a source by itself.")],
    backbone: Annotated[str, typer.Option(help="Pretrained network.")] = "efficientnet-lite0",
    size: Annotated[
        int | None, typer.Option(help="Resize images to this side in pixels for the backbone.")
    ] = None,
    seed: Seed = 0,
    image_size: ImageSize = None,
    data_dir: DataDir = None,
    cache_dir: CacheDir = None,
    as_json: AsJson = False,
) -> None:
    """Turn images into features of a pretrained network; stopped, the same command goes on."""
    from curvewise.cli.reading import loaded_task, showing
    from curvewise.data.embed import embed as run
    from curvewise.networks.registry import PRETRAINED

    require_choice("--backbone", backbone, PRETRAINED)  # before a long read of data
    task = loaded_task(
        source, seed=seed, image_size=image_size, data_dir=data_dir, cache_dir=cache_dir
    )
    with _stopping("the same command goes on where it was"), showing() as progress:
        run(task, out, backbone=backbone, size=size, progress=progress)
    counts = {"train": len(task.y_train), "test": len(task.y_test), "out": str(out)}
    if as_json:
        print(json.dumps(counts))
    else:
        print(f"{counts['train']} + {counts['test']} images: train on npz:{out}")


def _rule(
    max_fpr: float | None, min_tpr: float | None, cost_ratio: float | None
) -> dict[str, float] | None:
    from curvewise.models.thresholds import require_one

    given = {"max_fpr": max_fpr, "min_tpr": min_tpr, "cost_ratio": cost_ratio}
    rule = {name: value for name, value in given.items() if value is not None}
    require_one(rule, given)
    return rule or None


def _model_file(given: Path) -> Path:
    """Return the model's file; a folder is the one that train wrote."""
    return given / "model.safetensors" if given.is_dir() else given


def _fail(sentence: str, code: int = 2) -> None:
    print(f"curvewise: {sentence}", file=sys.stderr)
    raise typer.Exit(code)


@contextmanager
def _stopping(what_now: str) -> Iterator[None]:
    """Make Ctrl-C end in a sentence."""
    try:
        yield
    except KeyboardInterrupt:
        _fail(f"stopped; {what_now}", code=130)
