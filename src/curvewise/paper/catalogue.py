"""All experiments in the order of the paper, then those beyond it, and what each needs."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from curvewise.data.registry import source_missing
from curvewise.paper import ensembles, imbalance, loss_figures, pairs, samples, settings, training
from curvewise.paper.experiment import Experiment
from curvewise.paper.profiles import Profile, source_of
from curvewise.sweep.run import duration
from curvewise.sweep.spec import Spec

PUBLISHED = {
    experiment.name: experiment
    for experiment in (
        imbalance.MELANOMA_BOX,
        settings.HYPER_DISTRIBUTION,
        settings.HYPER_METRICS,
        loss_figures.BREAK_EVEN_TAU,
        loss_figures.CONTOURS,
        imbalance.CIFAR_BANDS,
        imbalance.KAGGLE_BANDS,
        pairs.PAIRS,
        training.SAM_BOX,
        settings.LAMBDA_CHOICE,
        samples.SAMPLES,
        settings.EVAL_LAMBDA,
        loss_figures.LINEAR_DENSITY,
        loss_figures.OMEGA_SOFTMAX,
    )
}
EXPERIMENTS = PUBLISHED | {
    experiment.name: experiment
    for experiment in (
        pairs.CONTROLS_TABLE,
        pairs.CONVERGENCE,
        training.ROBUSTNESS,
        ensembles.ENSEMBLES,
        ensembles.METHOD_TABLE,
        training.FILM_CHOICES,
        imbalance.BETA,
        pairs.EPOCHS_FIGURE,
        pairs.CONVERGENCE_PIXELS,
        pairs.PAIRS_FASHION,
    )
}
# Seconds that a model of the laptop profile takes an epoch on two cores with other work to do.
SECONDS = {"fashion-mnist": 0.008, "cifar10": 0.006, "cifar100": 0.003, "dogs-vs-cats": 0.007}
SLOWER = 0.02  # the same for what is not listed, and for all pixels of Fashion-MNIST


def listed(experiment: Experiment, profile: Profile, data_dir: Path | None) -> dict[str, Any]:
    """Return a line of `paper list` as plain data."""
    specs, sources = experiment.sweeps(profile), experiment.needs(profile)
    missing = {name: why for name in sources if (why := source_missing(name, data_dir))}
    return {
        "name": experiment.name,
        "question": experiment.question,
        "published": experiment.name in PUBLISHED,
        "models": sum(spec.size for spec in specs),
        "takes": _takes(specs, profile),
        "data": ", ".join(f"{name} (missing)" if name in missing else name for name in sources),
        "missing": missing,
    }


def _takes(specs: Sequence[Spec], profile: Profile) -> str:
    longest, seconds = 0, 0.0
    for spec in specs:
        epochs, source = [run.recipe["epochs"] for run in spec.runs()], source_of(spec.tasks[0])
        pixels = source == "fashion-mnist" and spec.features.pca is None
        seconds += sum(epochs) * (SLOWER if pixels else SECONDS.get(source, SLOWER))
        longest = max(longest, *epochs)
    if profile.name == "paper" and specs:
        return f"up to {longest} epochs a model"
    return f"about {duration(max(1, seconds))}" if specs else "seconds"
