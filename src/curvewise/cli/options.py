"""Options that several commands share, and the examples that end their help."""

import re
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

# Click's, of which recent versions of typer have a copy of their own.
UsageError: Any = typer.BadParameter.__mro__[1]


def usage_sentence(error: Any) -> str:
    """Return what is wrong with the words of a command, as one sentence with a way to its help."""
    text = " ".join(error.format_message().split()).rstrip(".").replace(". Did you", "; did you")
    text = re.sub(r"^Invalid value for '(--[^']*)': Input should be", r"\1 must be", text)
    text = text.partition(", unable to parse")[0]
    if " must be " in text and (value := _given(text.partition(" ")[0])) is not None:
        text += f", got {value!r}"
    text = text if text.startswith("--") else text[:1].lower() + text[1:]
    where = error.ctx.command_path if error.ctx is not None else "curvewise"
    return f"{text}{' See' if text.endswith('?') else '; see'} {where} --help"


def _given(option: str) -> str | None:
    """Return what an option was given, which errors of its reader do not tell."""
    for word, after in zip(sys.argv, [*sys.argv[1:], None], strict=True):
        if word == option:
            return after
        if word.startswith(f"{option}="):
            return word.removeprefix(f"{option}=")
    return None


def examples(*commands: str) -> str:
    """Return the end of a help page."""
    return "\n\n".join(f"Example: curvewise {command}" for command in commands)


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
ModelPath = Annotated[Path, typer.Option(help="What train wrote: the model file or its folder.")]
MaxFpr = Annotated[float | None, typer.Option(help="Operating point: FPR at most this.")]
MinTpr = Annotated[float | None, typer.Option(help="Operating point: TPR at least this.")]
CostRatio = Annotated[float | None, typer.Option(help="Cost of a miss over a false alarm.")]
Prevalence = Annotated[float | None, typer.Option(help="Share of positives in deployment.")]
