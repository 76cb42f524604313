"""All experiments in the order of the paper, then those beyond it."""

from curvewise.apps.paper.experiment import Experiment
from curvewise.apps.paper.pairs import PAIRS, PAIRS_FASHION
from curvewise.errors import require_choice

EXPERIMENTS = {experiment.name: experiment for experiment in (PAIRS, PAIRS_FASHION)}


def experiment_named(name: str) -> Experiment:
    """Return an experiment; a wrong name is an error that suggests the nearest.

    >>> experiment_named("table-pairs").name
    'table-pairs'
    """
    return EXPERIMENTS[require_choice("experiment", name, EXPERIMENTS)]
