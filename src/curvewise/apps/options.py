"""Options that several commands share, and the examples that end their help."""

from pathlib import Path
from typing import Annotated

import typer


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
