"""What an experiment needs and how long it takes, before anything is run."""

from pathlib import Path
from typing import Any

from curvewise.base.errors import InputError
from curvewise.data.registry import list_sources
from curvewise.paper.experiment import Experiment
from curvewise.paper.profiles import Profile
from curvewise.sweep.progress import duration
from curvewise.sweep.spec import Spec

# Seconds that a model of the laptop profile takes an epoch on two cores with other work to do.
SECONDS_AN_EPOCH = {
    "fashion-mnist": 0.008,  # its components
    "cifar10": 0.006,
    "cifar100": 0.003,
    "dogs-vs-cats": 0.007,
}
SLOWER = 0.02  # the same for what is not listed, and for all pixels of Fashion-MNIST


def listed(experiment: Experiment, profile: Profile, data_dir: Path | None) -> dict[str, Any]:
    """Return a line of `paper list` as plain data."""
    specs = experiment.sweeps(profile)
    missing = {
        source: reason
        for source in experiment.needs(profile)
        if (reason := source_missing(source, data_dir))
    }
    return {
        "name": experiment.name,
        "shows": experiment.shows,
        "published": experiment.published,
        "models": sum(spec.size for spec in specs),
        "takes": _takes(specs, profile),
        "data": ", ".join(
            f"{source} (missing)" if source in missing else source
            for source in experiment.needs(profile)
        ),
        "missing": missing,
    }


def source_missing(name: str, data_dir: Path | None) -> str | None:
    """Return how to get a source's data, or None if they are there."""
    for source in list_sources(data_dir=data_dir):
        if source.name == name:
            return source.missing
    raise InputError(f"there is no source {name}")


def _takes(specs: Any, profile: Profile) -> str:
    if not specs:
        return "seconds"
    if profile.name == "paper":
        return f"up to {max(epochs for spec in specs for epochs in _epochs(spec))} epochs a model"
    seconds = sum(sum(_epochs(spec)) * _an_epoch(spec) for spec in specs)
    return f"about {duration(max(1, seconds))}"


def _an_epoch(spec: Spec) -> float:
    source = spec.tasks[0].partition(":")[0]
    if source == "fashion-mnist" and spec.features.pca is None:
        return SLOWER
    return SECONDS_AN_EPOCH.get(source, SLOWER)


def _epochs(spec: Spec) -> list[int]:
    """Return how many epochs each model trains."""
    return [run.recipe["epochs"] for run in spec.runs()]
