"""What the page is made of: models with their scores as a frame, and a few words about them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import pandas as pd

# What scores are: z1 - z0 of a network, calibrated log-odds, probabilities, or an order only.
Unit = Literal["logits", "log-odds", "probability", "score"]
UNITS: tuple[Unit, ...] = get_args(Unit)


class CopyTexts(NamedTuple):
    """Texts to copy, with {threshold}, {fpr} and the keys of `fill`; a model may lack one."""

    command: str = ""
    python: str = ""


class OwnPoint(NamedTuple):
    """The operating point that a model was saved with, at which it works unless told otherwise.

    `model` is the place of the one with its lambda among the page's models. Scores of at least
    `threshold` are called positive (infinity: none are); `text` is that number for people, and
    `rule` says in words how it was chosen; `subject` is who works there.
    """

    model: int
    threshold: float
    text: str
    rule: str
    subject: str = "Unless told otherwise, predict"


def page_models(models: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """Return models as the frame of a page, one row each.

    Each has `method`, labels `y` (n,) and `score` (n,), higher for class 1, and may have `beta`,
    `seed` (models with the same of both share y), `settings` (plain numbers and texts),
    `log_odds` (n,), which are scores corrected for the loss and for the test's share of positives,
    where the scores tell them, `fill`, what the page puts into its commands for this model,
    `seconds` and `n_train`.

    >>> page_models([{"method": "VS", "y": [0, 1], "score": [0.2, 0.7]}])["n_test"].tolist()
    [2]
    """
    absent: dict[str, Any] = {"beta": None, "seed": 0, "log_odds": None}
    absent |= {"settings": {}, "fill": {}, "seconds": None, "n_train": None}
    frame = pd.DataFrame([absent | {"n_test": len(model["y"]), **model} for model in models])
    return frame.astype(dict.fromkeys(("beta", "seconds", "n_train"), np.float64))


@dataclass(frozen=True, eq=False)
class Page:
    """A task, its models (as `page_models` makes them), and where they come from.

    `class_names` are (negative, positive), `train_counts` by beta (None: data as they are). `swept`
    names the setting that one and the same model was scored at several values of, such as tau;
    without, the models were each trained by themselves. `diverged` counts runs without scores,
    `chosen` is the model that the page begins with (default: a typical one), `own_point` the
    operating point that it was saved with, if any. `unit` is what the scores are. `reduction` is
    that of the loss: probabilities of models trained with "weighted_mean" are biased, and the page
    says so.
    """

    task: str
    class_names: tuple[str, str]
    models: pd.DataFrame
    train_counts: dict[float | None, tuple[int, ...]] = field(default_factory=dict)
    swept: str | None = None
    diverged: int = 0
    chosen: int | None = None
    own_point: OwnPoint | None = None
    unit: Unit = "logits"
    reduction: str = "weighted_mean"
    notes: Sequence[str] = ()
    copy: CopyTexts = field(default_factory=CopyTexts)
    provenance: Mapping[str, str] = field(default_factory=dict)
