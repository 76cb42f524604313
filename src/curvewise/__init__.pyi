# The public names and where each lives: `__init__.py` reads this list, type checkers as well.
from curvewise.base.errors import CurvewiseError as CurvewiseError, InputError as InputError
from curvewise.data.imbalance import (
    subsample_long_tail as subsample_long_tail,
    subsample_to_beta as subsample_to_beta,
)
from curvewise.data.registry import load_task as load_task
from curvewise.data.task import Task as Task
from curvewise.estimator.estimators import (
    LCTClassifier as LCTClassifier,
    VSClassifier as VSClassifier,
)
from curvewise.figures.curves import (
    plot_band as plot_band,
    plot_calibration as plot_calibration,
    plot_operating_point as plot_operating_point,
    plot_roc as plot_roc,
)
from curvewise.figures.frames import plot_spread as plot_spread
from curvewise.losses.baselines import (
    AUCMarginLoss as AUCMarginLoss,
    FocalLoss as FocalLoss,
    LDAMLoss as LDAMLoss,
    auc_margin_loss as auc_margin_loss,
    focal_loss as focal_loss,
    ldam_loss as ldam_loss,
    ldam_margins as ldam_margins,
)
from curvewise.losses.family import (
    LinearDensity as LinearDensity,
    LossFamily as LossFamily,
    Objective as Objective,
)
from curvewise.losses.glmc import (
    GLMCLoss as GLMCLoss,
    glmc_loss as glmc_loss,
)
from curvewise.losses.landscape import (
    BreakEven as BreakEven,
    break_even as break_even,
    calibrated_log_odds as calibrated_log_odds,
    calibrated_probability as calibrated_probability,
)
from curvewise.losses.vector_scaling import VSLoss as VSLoss, vs_loss as vs_loss
from curvewise.models.saving import load as load, save as save
from curvewise.networks.conditioning import (
    Conditioned as Conditioned,
    FiLM as FiLM,
    condition as condition,
)
from curvewise.networks.registry import build_network as build_network
from curvewise.paper.untrained import plot_landscape as plot_landscape
from curvewise.report.page_scores import write_report as write_report
from curvewise.roc.curve import (
    RocBand as RocBand,
    RocCurve as RocCurve,
    auc as auc,
    roc_band as roc_band,
    roc_curve as roc_curve,
)
from curvewise.roc.interval import (
    AucComparison as AucComparison,
    AucInterval as AucInterval,
    auc_interval as auc_interval,
    bootstrap_auc as bootstrap_auc,
    compare_auc as compare_auc,
)
from curvewise.roc.metrics import (
    BinaryMetrics as BinaryMetrics,
    ManyCurves as ManyCurves,
    accuracy_by_frequency as accuracy_by_frequency,
    binary_metrics as binary_metrics,
    ensemble_score as ensemble_score,
    macro_auc as macro_auc,
    one_vs_rest as one_vs_rest,
)
from curvewise.roc.operating import (
    OperatingPoint as OperatingPoint,
    choose_operating_point as choose_operating_point,
    operating_point as operating_point,
    ppv as ppv,
    rate_interval as rate_interval,
)
from curvewise.training.loop import Fitted as Fitted, fit as fit
from curvewise.training.model import Model as Model, NetworkSpec as NetworkSpec
from curvewise.training.optimizers import SAM as SAM
from curvewise.training.recipe import Recipe as Recipe, preset as preset
from curvewise.training.stacked import (
    FittedStack as FittedStack,
    fit_stacked as fit_stacked,
)
from curvewise.training.stacked_network import stacked_scores as stacked_scores

__version__: str
__all__: list[str]
