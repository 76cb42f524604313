"""Curvewise: train classifiers for the whole ROC curve when one class is rare.

Losses
    `vs_loss`, `VSLoss`: the vector-scaling loss; `break_even`, `calibrated_log_odds`,
    `calibrated_probability`: what training with it does to logits; `FocalLoss`, `LDAMLoss`,
    `GLMCLoss`, `AUCMarginLoss`: peers.
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

import ast
from importlib import import_module
from pathlib import Path
from typing import Any

from curvewise.base.machine import VERSION

__version__ = VERSION

# Where each public name lives, by the stub beside this file; it is imported when first used, so
# that `import curvewise` is quick.
_HOME_OF = {
    alias.name: str(node.module)
    for node in ast.parse(Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8")).body
    if isinstance(node, ast.ImportFrom)
    for alias in node.names
}

__all__ = ["__version__", *_HOME_OF]


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'curvewise' has no attribute {name!r}")
    value = getattr(import_module(_HOME_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
