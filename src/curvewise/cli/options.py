"""Options that several commands share: declared, read, and told when wrong; bars for long work.

Nothing here imports torch, pandas or scikit-learn before it is needed: help and most refusals
come at once.
"""

import inspect
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields, is_dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from typer import Argument, Option

from curvewise.base.errors import require
from curvewise.base.files import json_text
from curvewise.sweep.executors import Executor, make_executor

if TYPE_CHECKING:
    from curvewise.data.task import Task

# Click's, of which recent versions of typer have a copy of their own.
UsageError: Any = typer.BadParameter.__mro__[1]

NETWORK = "network."  # before options of the network among those of --set

Source = Annotated[str, Argument(help="A data source, such as table:FILE or cifar10:cat/dog")]
AsJson = Annotated[bool, Option("--json", help="Print JSON for machines.")]
Overwrite = Annotated[bool, Option("--overwrite", help="Replace the file.")]
DataDir = Annotated[Path | None, Option(help="Folder with downloaded data sets.")]
CacheDir = Annotated[Path | None, Option(help="Folder for decoded images.")]
ImageSize = Annotated[int | None, Option(help="Side of decoded images in pixels.")]
EmbedSize = Annotated[
    int | None, Option(help="Resize images to this side in pixels for the backbone.")
]
Beta = Annotated[
    float | None,
    Option(
        help="Thin the rare class of the training part to 1 in beta of the other; below the "
        "data's own ratio the other class is thinned."
    ),
]
Seed = Annotated[int, Option(help="Seed of split, subsample, weights, order and draws.")]
ModelPath = Annotated[
    Path, Option("--model", help="What train wrote: the model file or its folder.")
]
Threshold = Annotated[float | None, Option(help="Call z1 - z0 >= this positive.")]


@dataclass
class DataOptions:
    """What of the data is meant, and where they are: arguments of `load_task`."""

    target: Annotated[str | None, Option(help="Column with the label (tables).")] = None
    positive: Annotated[str | None, Option(help="The positive class (default: the rarer).")] = None
    group: Annotated[str | None, Option(help="Column whose values stay together in splits.")] = None
    image_size: ImageSize = None
    data_dir: DataDir = None
    cache_dir: CacheDir = None


@dataclass
class RuleOptions:
    """The rule of an operating point."""

    max_fpr: Annotated[float | None, Option(help="Operating point: FPR at most this.")] = None
    min_tpr: Annotated[float | None, Option(help="Operating point: TPR at least this.")] = None
    cost_ratio: Annotated[float | None, Option(help="Cost of a miss over a false alarm.")] = None


@dataclass
class ExecutorOptions:
    """Where the models of a sweep are trained."""

    executor: Annotated[str, Option(help="serial, processes or ray.")] = "processes"
    workers: Annotated[int | None, Option(help="Worker processes (default: one a processor).")] = (
        None
    )
    address: Annotated[str | None, Option(help='A Ray cluster: "auto" or HOST:PORT.')] = None
    gpus: Annotated[float, Option(help="GPUs a Ray task takes; may be a fraction.")] = 0.0

    def start(self) -> Executor:
        """Return the executor."""
        return make_executor(**vars(self))


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """Make each field of a command's parameters that are groups, as those above, an option.

    >>> def check(source: Source, data: DataOptions) -> None:
    ...     print(source, data.target)
    >>> grouped(check)(source="table:a.csv", **vars(DataOptions(target="y")))
    table:a.csv y
    """
    own = inspect.signature(command).parameters.values()
    groups: dict[str, Any] = {p.name: p.annotation for p in own if is_dataclass(p.annotation)}
    options = [each for each in own if each.name not in groups]
    for kind in groups.values():
        options += inspect.signature(kind).parameters.values()

    @wraps(command)
    def run(**values: Any) -> None:
        for name, kind in groups.items():
            values[name] = kind(**{each.name: values.pop(each.name) for each in fields(kind)})
        command(**values)

    run.__annotations__ = {each.name: each.annotation for each in options}
    run.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [each.replace(kind=each.KEYWORD_ONLY) for each in options]
    )
    return run


def tell(as_json: bool, data: Any, *shown: str | Table) -> None:
    """Print data as one line of strict JSON for machines, or what is shown to people instead."""
    if as_json:
        print(json_text(data))
        return
    for each in shown:
        if isinstance(each, str):  # plain, so that paths and addresses stay whole
            print(each)
        else:
            Console().print(each)


def number_text(value: float | None, form: str = ".4f") -> str:
    """Return a number for people, or "-" where there is none."""
    return "-" if value is None or value != value else format(value, form)


def require_all_done(done: Any, store_file: Path, more: str = "") -> None:
    """Raise `InputError` if runs of a sweep that ended failed."""
    why = f"`curvewise sweep status {store_file} --failed` says why"
    require(not done.failed, f"{done.failed} runs failed; {why}{more}")


def examples(*commands: str) -> str:
    """Return the end of a help page."""
    return "\n\n".join(f"Example: curvewise {command}" for command in commands)


def usage_sentence(error: Any) -> str:
    """Return what is wrong with the words of a command, as one sentence with a way to its help."""
    text = " ".join(error.format_message().split()).rstrip(".").replace(". Did you", "; did you")
    text = re.sub(r"^Invalid value for '(--[^']*)': Input should be", r"\1 must be", text)
    text = text.partition(", unable to parse")[0]
    option = re.escape(text.partition(" ")[0])
    typed = re.search(rf"\0{option}[=\0]([^\0]*)", "\0".join(sys.argv))
    if " must be " in text and typed:  # its reader does not tell
        text += f", got {typed[1]!r}"
    text = text if text.startswith("--") else text[:1].lower() + text[1:]
    where = error.ctx.command_path if error.ctx is not None else "curvewise"
    return f"{text}{' See' if text.endswith('?') else '; see'} {where} --help"


def option_name(name: str) -> str:
    """Return a parameter as it is typed."""
    return f"--{name.replace('_', '-')}"


def given(options: dict[str, Any]) -> dict[str, Any]:
    """Return by name what is given of options."""
    return {name: value for name, value in options.items() if value is not None}


def one_of(**options: float | None) -> dict[str, float]:
    """Return by name the one of these options that is there, if one is.

    >>> one_of(max_fpr=None, min_tpr=0.9)
    {'min_tpr': 0.9}
    """
    values = given(options)
    got = " and ".join(f"{option_name(name)} {value:g}" for name, value in values.items())
    names = ", ".join(map(option_name, options))
    require(len(values) < 2, f"one of {names} can be given, got {got}")
    return values


def read_changes(changes: list[str] | None) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return settings of a recipe, and options of a network, of texts NAME=VALUE.

    >>> read_changes(["lr=0.1", "milestones=5,8", "network.hidden=64,64", "network.width=8"])
    ({'lr': '0.1', 'milestones': ['5', '8']}, {'hidden': [64, 64], 'width': 8})
    """
    recipe: dict[str, Any] = {}
    network: dict[str, Any] = {}
    for change in changes or []:
        name, sign, text = change.partition("=")
        require(sign, f"--set takes NAME=VALUE, got {change!r}")
        if name.startswith(NETWORK):
            name, words = name.removeprefix(NETWORK), [_word(word) for word in text.split(",")]
            network[name] = words if name == "hidden" or len(words) > 1 else words[0]
        else:
            recipe[name] = text.split(",") if name == "milestones" else text
    return recipe, network


def _word(text: str) -> int | float | bool | str:
    """Return a number or true or false as what it is, anything else as text."""
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        with suppress(ValueError):
            return kind(text)
    return text


def loaded_task(source: str, data: DataOptions, **options: Any) -> "Task":
    """Load a task with a progress bar for long decoding."""
    from curvewise.data.registry import load_task

    with showing() as progress:
        return load_task(source, progress=progress, **vars(data), **options)


@contextmanager
def showing() -> Iterator[Callable[..., None]]:
    """Show bars for work that reports itself as (what, done, total), and perhaps a note."""
    from rich.progress import BarColumn, Progress, TimeElapsedColumn, TimeRemainingColumn

    columns = ("{task.description}", BarColumn(), "{task.completed}/{task.total}")
    times = (TimeElapsedColumn(), TimeRemainingColumn())
    console, silent = Console(stderr=True), not sys.stderr.isatty()
    with Progress(*columns, *times, console=console, transient=True, disable=silent) as bar:
        tasks: dict[str, Any] = {}

        def show(what: str, done: int, total: int, note: str = "") -> None:
            if what not in tasks:
                tasks[what] = bar.add_task(what, total=total)
            bar.update(tasks[what], completed=done, total=total, description=what + note)

        yield show


@contextmanager
def training_bar() -> Iterator[Callable[[Any], None]]:
    """Show step, loss and time left; without a terminal, one plain line a minute."""
    last = time.monotonic()
    with showing() as show:

        def update(progress: Any) -> None:
            nonlocal last
            loss, step, steps = f"loss {progress.loss:.4f}", progress.step, progress.steps
            show("training", step, steps, f", {loss}")
            if not sys.stderr.isatty() and time.monotonic() - last >= 60:
                last = time.monotonic()
                print(f"step {step}/{steps}, {loss}", file=sys.stderr, flush=True)

        yield update


@contextmanager
def stopping(what_now: str) -> Iterator[None]:
    """Make Ctrl-C end in a sentence."""
    try:
        yield
    except KeyboardInterrupt:
        print(f"curvewise: stopped; {what_now}", file=sys.stderr)
        raise typer.Exit(130) from None
