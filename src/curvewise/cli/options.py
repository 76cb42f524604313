"""Options that several commands share: declared, read, and told when wrong; bars for long work.

Nothing here imports torch, pandas or scikit-learn before it is needed: help and most refusals
come at once.
"""

import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from curvewise.base.errors import InputError, require_choice
from curvewise.base.files import json_text

if TYPE_CHECKING:
    from rich.progress import Progress

    from curvewise.data.task import Task
    from curvewise.losses.family import LossFamily
    from curvewise.training.loop import Progress as TrainingProgress
    from curvewise.training.recipe import Recipe

# Click's, of which recent versions of typer have a copy of their own.
UsageError: Any = typer.BadParameter.__mro__[1]

NETWORK = "network."  # before options of the network among those of --set
MEANS = ("weighted_mean", "mean", "expected_mean")  # reductions that training can minimise

Source = Annotated[str, typer.Argument(help="A data source, such as table:FILE or cifar10:cat/dog")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
DataDir = Annotated[Path | None, typer.Option(help="Folder with downloaded data sets.")]
CacheDir = Annotated[Path | None, typer.Option(help="Folder for decoded images.")]
Beta = Annotated[
    float | None,
    typer.Option(
        help="Thin the rare class of the training part to 1 in beta of the other; below the "
        "data's own ratio the other class is thinned."
    ),
]
Seed = Annotated[int, typer.Option(help="Seed of split, subsample, weights, order and draws.")]
Target = Annotated[str | None, typer.Option(help="Column with the label (tables).")]
Positive = Annotated[str | None, typer.Option(help="The positive class (default: the rarer).")]
Group = Annotated[str | None, typer.Option(help="Column whose values stay together in splits.")]
ImageSize = Annotated[int | None, typer.Option(help="Side of decoded images in pixels.")]
MaxFpr = Annotated[float | None, typer.Option(help="Operating point: FPR at most this.")]
MinTpr = Annotated[float | None, typer.Option(help="Operating point: TPR at least this.")]
CostRatio = Annotated[float | None, typer.Option(help="Cost of a miss over a false alarm.")]
ExecutorName = Annotated[str, typer.Option("--executor", help="serial, processes or ray.")]
Workers = Annotated[int | None, typer.Option(help="Worker processes (default: one a processor).")]
Address = Annotated[str | None, typer.Option(help='A Ray cluster: "auto" or HOST:PORT.')]
Gpus = Annotated[float, typer.Option(help="GPUs a Ray task takes; may be a fraction.")]


def print_json(data: Any) -> None:
    """Print data as one line of strict JSON: what is not a number becomes null."""
    print(json_text(data))


def number_text(value: float | None, form: str = ".4f") -> str:
    """Return a number for people, or "-" where there is none."""
    return "-" if value is None or value != value else format(value, form)


def examples(*commands: str) -> str:
    """Return the end of a help page."""
    return "\n\n".join(f"Example: curvewise {command}" for command in commands)


def usage_sentence(error: Any) -> str:
    """Return what is wrong with the words of a command, as one sentence with a way to its help."""
    text = " ".join(error.format_message().split()).rstrip(".").replace(". Did you", "; did you")
    text = re.sub(r"^Invalid value for '(--[^']*)': Input should be", r"\1 must be", text)
    text = text.partition(", unable to parse")[0]
    if " must be " in text and (value := _typed(text.partition(" ")[0])) is not None:
        text += f", got {value!r}"
    text = text if text.startswith("--") else text[:1].lower() + text[1:]
    where = error.ctx.command_path if error.ctx is not None else "curvewise"
    return f"{text}{' See' if text.endswith('?') else '; see'} {where} --help"


def _typed(option: str) -> str | None:
    """Return what was typed for an option, which errors of its reader do not tell."""
    for word, after in zip(sys.argv, [*sys.argv[1:], None], strict=True):
        if word == option:
            return after
        if word.startswith(f"{option}="):
            return word.removeprefix(f"{option}=")
    return None


def one_of(**options: float | None) -> dict[str, float]:
    """Return by name the one of these options that is there, if one is.

    >>> one_of(max_fpr=None, min_tpr=0.9)
    {'min_tpr': 0.9}
    """
    values = {name: value for name, value in options.items() if value is not None}
    if len(values) > 1:
        words = {name: f"--{name.replace('_', '-')}" for name in options}
        got = " and ".join(f"{words[name]} {value:g}" for name, value in values.items())
        raise InputError(f"one of {', '.join(words.values())} can be given, got {got}")
    return values


def parse_family(omega: str, gamma: str, tau: str, reduction: str) -> "LossFamily":
    """Return a family from texts: "0.5" is a number, "0:3:0.33" a density (low:high:height).

    >>> parse_family("0.5", "0.2", "0:3:0.33", "mean").drawn
    ('tau',)
    """
    require_choice("--reduction", reduction, MEANS)
    from curvewise.losses.family import LossFamily
    from curvewise.losses.registry import parse_setting

    texts = {"omega": omega, "gamma": gamma, "tau": tau}
    settings = {name: parse_setting(name, text) for name, text in texts.items()}
    return LossFamily(**settings, reduction=reduction)


def parse_recipe(name: str, changes: list[str], seed: int) -> "Recipe":
    """Return a preset with changes such as "epochs=20" and all seeds set."""
    from curvewise.training.recipe import preset

    seeds = {f"seed_{part}": seed for part in ("weights", "order", "lambda")}
    return preset(name, **{**seeds, **recipe_changes(changes)})


def recipe_changes(changes: list[str]) -> dict[str, Any]:
    """Return the settings of a recipe among texts such as "epochs=20", those of networks left out.

    >>> recipe_changes(["clip_norm=none", "milestones=5,8", "network.width=8"])
    {'clip_norm': None, 'milestones': ('5', '8')}
    """
    from curvewise.sweep.grid import normal_recipe_value

    return {
        key: normal_recipe_value(key, tuple(text.split(",")) if key == "milestones" else text)
        for key, text in _pairs(changes)
        if not key.startswith(NETWORK)
    }


def network_options(changes: list[str]) -> dict[str, Any]:
    """Return the options of a network among texts such as "network.hidden=64,64".

    >>> network_options(["epochs=20", "network.hidden=64,64", "network.width=8"])
    {'hidden': [64, 64], 'width': 8}
    """
    options: dict[str, Any] = {}
    for key, text in _pairs(changes):
        if key.startswith(NETWORK):
            name = key.removeprefix(NETWORK)
            words = [_word(word) for word in text.split(",") if word]
            options[name] = words if name == "hidden" or len(words) != 1 else words[0]
    return options


def _pairs(changes: list[str]) -> Iterator[tuple[str, str]]:
    for change in changes:
        key, sign, text = change.partition("=")
        if not sign:
            raise InputError(f"--set takes NAME=VALUE, got {change!r}")
        yield key, text


def _word(text: str) -> int | float | bool | str:
    """Return a number or true or false as what it is, anything else as text."""
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        with suppress(ValueError):
            return kind(text)
    return text


def loaded_task(source: str, **options: Any) -> "Task":
    """Load a task with a progress bar for long decoding."""
    from curvewise.data.registry import load_task

    with showing() as progress:
        return load_task(source, progress=progress, **options)


@contextmanager
def showing() -> Iterator[Callable[[str, int, int], None]]:
    """Show bars for work that reports itself as (what, done, total)."""
    with _bar() as bar:
        tasks: dict[str, Any] = {}

        def show(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = bar.add_task(what, total=total)
            bar.update(tasks[what], completed=done, total=total)

        yield show


@contextmanager
def training_bar() -> "Iterator[Callable[[TrainingProgress], None]]":
    """Show step, loss and time left; without a terminal, one plain line a minute."""
    last = time.monotonic()
    with _bar() as bar:
        task = bar.add_task("training", total=None)

        def update(progress: "TrainingProgress") -> None:
            nonlocal last
            loss, step, steps = f"loss {progress.loss:.4f}", progress.step, progress.steps
            if not bar.disable:
                bar.update(task, completed=step, total=steps, description=f"training, {loss}")
            elif time.monotonic() - last >= 60:
                last = time.monotonic()
                print(f"step {step}/{steps}, {loss}", file=sys.stderr, flush=True)

        yield update


def _bar() -> "Progress":
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed}/{task.total}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    silent = not sys.stderr.isatty()
    return Progress(*columns, console=Console(stderr=True), transient=True, disable=silent)
