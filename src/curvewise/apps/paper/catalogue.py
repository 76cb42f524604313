"""All experiments in the order of the paper, then those beyond it."""

from curvewise.apps.paper.bands import CIFAR_BANDS, KAGGLE_BANDS
from curvewise.apps.paper.beta import BETA
from curvewise.apps.paper.boxes import MELANOMA_BOX
from curvewise.apps.paper.controls import CONTROLS
from curvewise.apps.paper.convergence import CONVERGENCE, CONVERGENCE_PIXELS
from curvewise.apps.paper.densities import LINEAR_DENSITY
from curvewise.apps.paper.ensembles import ENSEMBLES
from curvewise.apps.paper.epochs import EPOCHS_FIGURE
from curvewise.apps.paper.eval_lambda import EVAL_LAMBDA
from curvewise.apps.paper.experiment import Experiment
from curvewise.apps.paper.film import FILM
from curvewise.apps.paper.hyper import HYPER_DISTRIBUTION
from curvewise.apps.paper.hyper_metrics import HYPER_METRICS
from curvewise.apps.paper.lambda_choice import LAMBDA_CHOICE
from curvewise.apps.paper.landscapes import BREAK_EVEN_TAU, CONTOURS
from curvewise.apps.paper.method_table import METHOD_TABLE
from curvewise.apps.paper.omega_softmax import OMEGA_SOFTMAX
from curvewise.apps.paper.pairs import PAIRS, PAIRS_FASHION
from curvewise.apps.paper.robustness import ROBUSTNESS
from curvewise.apps.paper.sam import SAM_BOX
from curvewise.apps.paper.samples import SAMPLES
from curvewise.errors import require_choice

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
        CONTROLS,
        CONVERGENCE,
        ROBUSTNESS,
        ENSEMBLES,
        METHOD_TABLE,
        FILM,
        BETA,
        EPOCHS_FIGURE,
        CONVERGENCE_PIXELS,
        PAIRS_FASHION,
    )
}


def experiment_named(name: str) -> Experiment:
    """Return an experiment; a wrong name is an error that suggests the nearest.

    >>> experiment_named("table-pairs").name
    'table-pairs'
    """
    return EXPERIMENTS[require_choice("experiment (or all)", name, EXPERIMENTS)]
