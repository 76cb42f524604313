"""`curvewise data list|check|clean` and `curvewise embed`: sources, caches, features."""

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from curvewise.cli.options import (
    AsJson,
    Beta,
    CacheDir,
    DataDir,
    DataOptions,
    ImageSize,
    Seed,
    Source,
    examples,
    grouped,
    loaded_task,
    print_json,
    showing,
    stopping,
)

data_app = typer.Typer(no_args_is_help=True, help="List, check and clean up data.")


@data_app.command("list", epilog=examples("data list --data-dir downloads"))
def data_list(
    data_dir: DataDir = None, cache_dir: CacheDir = None, as_json: AsJson = False
) -> None:
    """Show the sources, which of them are there, and how to get the others."""
    from curvewise.data.registry import SOURCES, source_missing

    missing = {name: source_missing(name, data_dir) for name in SOURCES}
    if as_json:
        print_json(
            [
                {"name": s.name, "example": s.example, "what": s.what, "missing": missing[s.name]}
                for s in SOURCES.values()
            ]
        )
        return
    table = Table("source", "what", "state")
    for name, source in SOURCES.items():
        table.add_row(source.example, source.what, "missing" if missing[name] else "there")
    Console().print(table)
    for reason in filter(None, missing.values()):  # plain, so that addresses and paths stay whole
        print(f"- {reason}")


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
    test_counts = [int((task.y_test == c).sum()) for c in range(len(task.class_names))]
    if as_json:
        about = {
            "task": task.name,
            "kind": task.kind,
            "shape": task.x_train.shape[1:],
            "classes": task.class_names,
            "train": task.class_counts,
            "test": test_counts,
            "beta": task.beta,
            "fingerprint": task.fingerprint,
        }
        print_json(about)
        return
    print(f"{task.name}: {task.kind} of shape {task.x_train.shape[1:]}, beta = {task.beta:.2f}")
    table = Table("class", "train", "test")
    for name, n_train, n_test in zip(task.class_names, task.class_counts, test_counts, strict=True):
        table.add_row(name, f"{n_train:,}", f"{n_test:,}")
    Console().print(table)


@data_app.command("clean", epilog=examples("data clean --older-than 30 --yes"))
def data_clean(
    cache_dir: CacheDir = None,
    older_than: Annotated[
        float, typer.Option(help="Only what has not been used for so many days.")
    ] = 0.0,
    yes: Annotated[bool, typer.Option("--yes", help="Remove without asking.")] = False,
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
    if as_json:
        listed = [
            {"name": cache.path.name, "bytes": cache.size, "days": cache.days, "state": cache.state}
            for cache in caches
        ]
        print_json({"folder": str(folder), "caches": listed, "bytes": size, "freed": freed})
    elif caches:
        print(f"{_bytes(freed)} freed" if yes else "nothing removed; --yes removes them")


def _bytes(size: int) -> str:
    return f"{size / 1e9:.2f} GB" if size >= 1e9 else f"{size / 1e6:.2f} MB"


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
    from curvewise.data.feature_bank import embed as run, require_backbone

    require_backbone(backbone)  # before a long read of data
    data = DataOptions(image_size=image_size, data_dir=data_dir, cache_dir=cache_dir)
    task = loaded_task(source, data, seed=seed)
    with stopping("the same command goes on where it was"), showing() as progress:
        run(task, out, backbone=backbone, size=size, progress=progress)
    counts = {"train": len(task.y_train), "test": len(task.y_test), "out": str(out)}
    if as_json:
        print_json(counts)
    else:
        print(f"{counts['train']} + {counts['test']} images: train on npz:{out}")
