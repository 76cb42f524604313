"""`curvewise data list|check|clean` and `curvewise embed`: sources, caches, features."""

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from typer import Option

from curvewise.cli.options import (
    AsJson,
    Beta,
    CacheDir,
    DataDir,
    DataOptions,
    EmbedSize,
    ImageSize,
    Seed,
    Source,
    examples,
    grouped,
    loaded_task,
    showing,
    stopping,
    tell,
)

data_app = typer.Typer(no_args_is_help=True, help="List, check and clean up data.")


@data_app.command("list", epilog=examples("data list --data-dir downloads"))
def data_list(
    data_dir: DataDir = None, cache_dir: CacheDir = None, as_json: AsJson = False
) -> None:
    """Show the sources, which of them are there, and how to get the others."""
    from curvewise.data.registry import SOURCES, source_missing

    listed, reasons, table = [], [], Table("source", "what", "state")
    for name, source in SOURCES.items():
        missing = source_missing(name, data_dir)
        about = {"name": name, "example": source.example, "what": source.what}
        listed.append({**about, "missing": missing})
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
    about = {
        "task": task.name,
        "kind": task.kind,
        "shape": shape,
        "classes": names,
        "train": task.class_counts,
        "test": test_counts,
        "beta": task.beta,
        "fingerprint": task.fingerprint,
    }
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
    counts = {"train": len(task.y_train), "test": len(task.y_test)}
    text = f"{counts['train']} + {counts['test']} images: train on npz:{out}"
    tell(as_json, {**counts, "out": str(out)}, text)
