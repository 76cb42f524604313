"""Curvewise: train classifiers for the whole ROC curve when one class is rare.

Losses
    `vs_loss`, `VSLoss`: the vector-scaling loss; `break_even`, `calibrated_log_odds`,
    `calibrated_probability`: what training with it does to logits; `FocalLoss`, `LDAMLoss`,
    `AUCMarginLoss`: peers.
Training over a family of losses
    `LossFamily`, `LinearDensity`: what is fixed and what is drawn; `FiLM`, `condition`: a network
    that knows what was drawn; `SAM`: sharpness-aware minimisation.
ROC statistics
    `roc_curve`, `auc`, `roc_band`; `auc_interval`, `bootstrap_auc`, `compare_auc`;
    `choose_operating_point`, `operating_point`, `rate_interval`, `ppv`; `binary_metrics`;
    `one_vs_rest`, `macro_auc`, `accuracy_by_frequency`: many classes; `ensemble_score`: many
    models as one.
Estimators
    `LCTClassifier`, `VSClassifier`: scikit-learn classifiers for a rare class, with nothing to
    tune, calibrated probabilities and operating points that keep a promise.
Data, training, models
    `load_task`, `Task`, `subsample_to_beta`, `subsample_long_tail`; `build_network`; `Recipe`,
    `preset`, `fit`, `fit_stacked`, `stacked_scores`; `Model`, `save`, `load`; `plot_roc`,
    `plot_band`, `plot_spread`, `plot_operating_point`, `plot_calibration`, `plot_landscape`;
    `write_report`, the interactive page, of scores of any tool.

The method is that of Lieberman, Yuan, Ravindran, Tomasi, "Optimizing for ROC Curves on
Class-Imbalanced Data by Training over a Family of Loss Functions" (arXiv 2402.05400).
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from curvewise.base.errors import CurvewiseError, InputError
from curvewise.base.machine import VERSION

if TYPE_CHECKING:
    from curvewise.data.imbalance import subsample_long_tail, subsample_to_beta
    from curvewise.data.registry import load_task
    from curvewise.data.task import Task
    from curvewise.estimator.estimators import LCTClassifier, VSClassifier
    from curvewise.figures.curves import plot_band, plot_roc, plot_spread
    from curvewise.figures.landscapes import plot_landscape
    from curvewise.figures.points import plot_calibration, plot_operating_point
    from curvewise.losses.baselines import (
        AUCMarginLoss,
        FocalLoss,
        LDAMLoss,
        auc_margin_loss,
        focal_loss,
        ldam_loss,
        ldam_margins,
    )
    from curvewise.losses.family import LinearDensity, LossFamily, Objective
    from curvewise.losses.landscape import (
        BreakEven,
        break_even,
        calibrated_log_odds,
        calibrated_probability,
    )
    from curvewise.losses.vector_scaling import VSLoss, vs_loss
    from curvewise.models.saving import load, save
    from curvewise.networks.conditioning import Conditioned, FiLM, condition
    from curvewise.networks.registry import build_network
    from curvewise.report.page_scores import write_report
    from curvewise.roc.band import RocBand, roc_band
    from curvewise.roc.curve import RocCurve, auc, roc_curve
    from curvewise.roc.ensemble import ensemble_score
    from curvewise.roc.interval import (
        AucComparison,
        AucInterval,
        auc_interval,
        bootstrap_auc,
        compare_auc,
    )
    from curvewise.roc.many import ManyCurves, accuracy_by_frequency, macro_auc, one_vs_rest
    from curvewise.roc.metrics import BinaryMetrics, binary_metrics
    from curvewise.roc.operating import (
        OperatingPoint,
        choose_operating_point,
        operating_point,
        ppv,
        rate_interval,
    )
    from curvewise.training.loop import Fitted, fit
    from curvewise.training.model import Model, NetworkSpec
    from curvewise.training.recipe import Recipe, preset
    from curvewise.training.sam import SAM
    from curvewise.training.stacked import FittedStack, fit_stacked
    from curvewise.training.stacked_scoring import stacked_scores

__version__ = VERSION

# Where each public name lives; it is imported when first used, so `import curvewise` is quick.
_HOMES = {
    "models.saving": ("load", "save"),
    "networks.conditioning": ("Conditioned", "FiLM", "condition"),
    "data.registry": ("load_task",),
    "data.task": ("Task",),
    "estimator.estimators": ("LCTClassifier", "VSClassifier"),
    "losses.family": ("LinearDensity", "LossFamily", "Objective"),
    "data.imbalance": ("subsample_long_tail", "subsample_to_beta"),
    "losses.baselines": (
        "AUCMarginLoss",
        "FocalLoss",
        "LDAMLoss",
        "auc_margin_loss",
        "focal_loss",
        "ldam_loss",
        "ldam_margins",
    ),
    "losses.landscape": (
        "BreakEven",
        "break_even",
        "calibrated_log_odds",
        "calibrated_probability",
    ),
    "losses.vector_scaling": ("VSLoss", "vs_loss"),
    "networks.registry": ("build_network",),
    "figures.curves": ("plot_band", "plot_roc", "plot_spread"),
    "figures.landscapes": ("plot_landscape",),
    "report.page_scores": ("write_report",),
    "figures.points": ("plot_calibration", "plot_operating_point"),
    "roc.band": ("RocBand", "roc_band"),
    "roc.curve": ("RocCurve", "auc", "roc_curve"),
    "roc.ensemble": ("ensemble_score",),
    "roc.interval": (
        "AucComparison",
        "AucInterval",
        "auc_interval",
        "bootstrap_auc",
        "compare_auc",
    ),
    "roc.many": ("ManyCurves", "accuracy_by_frequency", "macro_auc", "one_vs_rest"),
    "roc.metrics": ("BinaryMetrics", "binary_metrics"),
    "roc.operating": (
        "OperatingPoint",
        "choose_operating_point",
        "operating_point",
        "ppv",
        "rate_interval",
    ),
    "training.loop": ("Fitted", "fit"),
    "training.model": ("Model", "NetworkSpec"),
    "training.recipe": ("Recipe", "preset"),
    "training.sam": ("SAM",),
    "training.stacked": ("FittedStack", "fit_stacked"),
    "training.stacked_scoring": ("stacked_scores",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "SAM",
    "AUCMarginLoss",
    "AucComparison",
    "AucInterval",
    "BinaryMetrics",
    "BreakEven",
    "Conditioned",
    "CurvewiseError",
    "FiLM",
    "Fitted",
    "FittedStack",
    "FocalLoss",
    "InputError",
    "LCTClassifier",
    "LDAMLoss",
    "LinearDensity",
    "LossFamily",
    "ManyCurves",
    "Model",
    "NetworkSpec",
    "Objective",
    "OperatingPoint",
    "Recipe",
    "RocBand",
    "RocCurve",
    "Task",
    "VSClassifier",
    "VSLoss",
    "__version__",
    "accuracy_by_frequency",
    "auc",
    "auc_interval",
    "auc_margin_loss",
    "binary_metrics",
    "bootstrap_auc",
    "break_even",
    "build_network",
    "calibrated_log_odds",
    "calibrated_probability",
    "choose_operating_point",
    "compare_auc",
    "condition",
    "ensemble_score",
    "fit",
    "fit_stacked",
    "focal_loss",
    "ldam_loss",
    "ldam_margins",
    "load",
    "load_task",
    "macro_auc",
    "one_vs_rest",
    "operating_point",
    "plot_band",
    "plot_calibration",
    "plot_landscape",
    "plot_operating_point",
    "plot_roc",
    "plot_spread",
    "ppv",
    "preset",
    "rate_interval",
    "roc_band",
    "roc_curve",
    "save",
    "stacked_scores",
    "subsample_long_tail",
    "subsample_to_beta",
    "vs_loss",
    "write_report",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'curvewise' has no attribute {name!r}")
    value = getattr(import_module(f"curvewise.{_HOME_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
