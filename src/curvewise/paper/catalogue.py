"""All experiments in the order of the paper, then those beyond it, and what each needs."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from curvewise.data.registry import source_missing
from curvewise.paper.ensembles import ENSEMBLES, METHOD_TABLE
from curvewise.paper.experiment import Experiment
from curvewise.paper.imbalance import BETA, CIFAR_BANDS, KAGGLE_BANDS, MELANOMA_BOX
from curvewise.paper.loss_figures import BREAK_EVEN_TAU, CONTOURS, LINEAR_DENSITY, OMEGA_SOFTMAX
from curvewise.paper.pairs import (
    CONTROLS_TABLE,
    CONVERGENCE,
    CONVERGENCE_PIXELS,
    EPOCHS_FIGURE,
    PAIRS,
    PAIRS_FASHION,
)
from curvewise.paper.profiles import Profile, source_of
from curvewise.paper.samples import SAMPLES
from curvewise.paper.settings import EVAL_LAMBDA, HYPER_DISTRIBUTION, HYPER_METRICS, LAMBDA_CHOICE
from curvewise.paper.training import FILM_CHOICES, ROBUSTNESS, SAM_BOX
from curvewise.sweep.run import duration
from curvewise.sweep.spec import Spec

EXPERIMENTS = {
    experiment.name: experiment
    for experiment in (
        MELANOMA_BOX,
        HYPER_DISTRIBUTION,
        HYPER_METRICS,
        BREAK_EVEN_TAU,
        CONTOURS,
        CIFAR_BANDS,
        KAGGLE_BANDS,
        PAIRS,
        SAM_BOX,
        LAMBDA_CHOICE,
        SAMPLES,
        EVAL_LAMBDA,
        LINEAR_DENSITY,
        OMEGA_SOFTMAX,
        CONTROLS_TABLE,
        CONVERGENCE,
        ROBUSTNESS,
        ENSEMBLES,
        METHOD_TABLE,
        FILM_CHOICES,
        BETA,
        EPOCHS_FIGURE,
        CONVERGENCE_PIXELS,
        PAIRS_FASHION,
    )
}
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
    specs, sources = experiment.sweeps(profile), experiment.needs(profile)
    missing = {name: why for name in sources if (why := source_missing(name, data_dir))}
    return {
        "name": experiment.name,
        "question": experiment.question,
        "published": experiment.published,
        "models": sum(spec.size for spec in specs),
        "takes": _takes(specs, profile),
        "data": ", ".join(f"{name} (missing)" if name in missing else name for name in sources),
        "missing": missing,
    }


def _takes(specs: Sequence[Spec], profile: Profile) -> str:
    if not specs:
        return "seconds"
    epochs = [[run.recipe["epochs"] for run in spec.runs()] for spec in specs]
    if profile.name == "paper":
        return f"up to {max(map(max, epochs))} epochs a model"
    seconds = sum(sum(own) * _an_epoch(spec) for own, spec in zip(epochs, specs, strict=True))
    return f"about {duration(max(1, seconds))}"


def _an_epoch(spec: Spec) -> float:
    source = source_of(spec.tasks[0])
    pixels = source == "fashion-mnist" and spec.features.pca is None
    return SLOWER if pixels else SECONDS_AN_EPOCH.get(source, SLOWER)
