"""An experiment on scikit-learn's digits with a small network, which needs seconds and no files."""

from dataclasses import replace

from curvewise.paper.profiles import Profile
from curvewise.paper.running import run_experiment
from curvewise.sweep.executors import make_executor
from curvewise.sweep.problems import Problems
from curvewise.sweep.spec import Spec

SMALL = {
    "tasks": ["digits:8"],
    "betas": [50],
    "features": {},
    "data": {},
    "network": {"name": "mlp", "hidden": [4]},
    "recipe": {"epochs": 3},
}


def on_digits(experiment):
    """Return an experiment whose sweeps are the same but for data, network and epochs."""
    return replace(
        experiment,
        sweeps=lambda profile: [
            Spec.from_dict({**spec.to_dict(), **SMALL}) for spec in experiment.sweeps(profile)
        ],
    )


def run_on_digits(experiment, folder):
    """Run all of an experiment at the tiny scale; return what it shows."""
    executor = make_executor("serial", workers=None, address=None, gpus=0.0)
    profile = Profile("laptop", "tiny")
    return run_experiment(on_digits(experiment), profile, folder, executor, Problems())
