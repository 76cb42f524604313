"""What commands share: reading their options, and progress on the terminal."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from curvewise.base.errors import InputError, require_choice
from curvewise.data.registry import load_task
from curvewise.data.task import Task
from curvewise.losses.family import LossFamily
from curvewise.sweep.grid import normal_recipe_value
from curvewise.sweep.methods import parse_setting
from curvewise.training.loop import Progress as TrainingProgress
from curvewise.training.recipe import Recipe, preset

NETWORK = "network."  # before options of the network among those of --set
MEANS = ("weighted_mean", "mean", "expected_mean")  # reductions that training can minimise


def parse_family(omega: str, gamma: str, tau: str, reduction: str = "weighted_mean") -> LossFamily:
    """Return a family from texts: "0.5" is a number, "0:3:0.33" a density (low:high:height).

    >>> parse_family("0.5", "0.2", "0:3:0.33").drawn
    ('tau',)
    """
    require_choice("--reduction", reduction, MEANS)
    values = {
        name: parse_setting(name, text)
        for name, text in (("omega", omega), ("gamma", gamma), ("tau", tau))
    }
    return LossFamily(**values, reduction=reduction)


def parse_recipe(name: str, changes: list[str], seed: int) -> Recipe:
    """Return a preset with changes such as "epochs=20" and all seeds set."""
    seeds = {f"seed_{part}": seed for part in ("weights", "order", "lambda")}
    return preset(name, **{**seeds, **recipe_changes(changes)})


def recipe_changes(changes: list[str]) -> dict[str, Any]:
    """Return the settings of a recipe among texts such as "epochs=20", those of networks left out.

    >>> recipe_changes(["clip_norm=none", "milestones=5,8", "network.width=8"])
    {'clip_norm': None, 'milestones': ('5', '8')}
    """
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
    found = {}
    for key, text in _pairs(changes):
        if key.startswith(NETWORK):
            name = key.removeprefix(NETWORK)
            words = [_word(word) for word in text.split(",") if word]
            found[name] = words if name == "hidden" or len(words) != 1 else words[0]
    return found


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


def loaded_task(source: str, **options: Any) -> Task:
    """Load a task with a progress bar for long decoding."""
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
def training_bar() -> Iterator[Callable[[TrainingProgress], None]]:
    """Show step, loss and time left; without a terminal, one plain line a minute."""
    if not sys.stderr.isatty():
        last = time.monotonic()

        def line(progress: TrainingProgress) -> None:
            nonlocal last
            if time.monotonic() - last >= 60:
                last = time.monotonic()
                text = f"step {progress.step}/{progress.steps}, loss {progress.loss:.4f}"
                print(text, file=sys.stderr, flush=True)

        yield line
        return
    with _bar() as bar:
        task = bar.add_task("training", total=None)

        def update(progress: TrainingProgress) -> None:
            text = f"training, loss {progress.loss:.4f}"
            bar.update(task, completed=progress.step, total=progress.steps, description=text)

        yield update


def _bar() -> Progress:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed}/{task.total}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    silent = not sys.stderr.isatty()
    return Progress(*columns, console=Console(stderr=True), transient=True, disable=silent)
