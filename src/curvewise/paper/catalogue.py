"""All experiments in the order of the paper, then those beyond it."""

from curvewise.base.errors import require_choice
from curvewise.paper.bands import CIFAR_BANDS, KAGGLE_BANDS
from curvewise.paper.beta import BETA
from curvewise.paper.boxes import MELANOMA_BOX
from curvewise.paper.controls import CONTROLS
from curvewise.paper.convergence import CONVERGENCE, CONVERGENCE_PIXELS
from curvewise.paper.densities import LINEAR_DENSITY
from curvewise.paper.ensembles import ENSEMBLES
from curvewise.paper.epochs import EPOCHS_FIGURE
from curvewise.paper.eval_lambda import EVAL_LAMBDA
from curvewise.paper.experiment import Experiment
from curvewise.paper.film import FILM
from curvewise.paper.hyper import HYPER_DISTRIBUTION
from curvewise.paper.hyper_metrics import HYPER_METRICS
from curvewise.paper.lambda_choice import LAMBDA_CHOICE
from curvewise.paper.landscapes import BREAK_EVEN_TAU, CONTOURS
from curvewise.paper.method_table import METHOD_TABLE
from curvewise.paper.omega_softmax import OMEGA_SOFTMAX
from curvewise.paper.pairs import PAIRS, PAIRS_FASHION
from curvewise.paper.robustness import ROBUSTNESS
from curvewise.paper.sam import SAM_BOX
from curvewise.paper.samples import SAMPLES

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
