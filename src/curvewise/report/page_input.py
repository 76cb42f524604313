"""What the page is made of: models with their scores, and what is known about them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike

from curvewise.base.errors import InputError
from curvewise.roc.curve import Floats
from curvewise.stats.cells import Cell

# What scores are: z1 - z0 of a network, calibrated log-odds, probabilities, or an order only.
Unit = Literal["logits", "log-odds", "probability", "score"]
UNITS: tuple[Unit, ...] = get_args(Unit)


@dataclass(frozen=True, eq=False)
class PageModel:
    """One model on its test samples: labels y (n,) and scores (n,), higher for class 1.

    `log_odds` (n,) are scores corrected for the loss and for the test's share of positives, None
    where the scores alone do not tell them. `settings` are plain numbers and texts, `fill` what
    the page puts into its commands for this model. Models with the same beta and seed share y.
    """

    label: str
    beta: float | None
    seed: int
    y: ArrayLike
    score: ArrayLike
    settings: dict[str, Any] = field(default_factory=dict)
    log_odds: ArrayLike | None = None
    fill: dict[str, str] = field(default_factory=dict)
    seconds: float | None = None
    n_train: int | None = None


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


@dataclass(frozen=True, eq=False)
class PageInput:
    """A task, its models, and where they come from.

    `class_names` are (negative, positive), `train_counts` by beta. `swept` names the setting that
    one and the same model was scored at several values of, such as tau; without, the models were
    each trained by themselves. `diverged` counts runs without scores, `chosen` is the model that
    the page begins with (default: a typical one), `own_point` the operating point that it was
    saved with, if any. `unit` is what the scores are. `reduction` is that of the loss:
    probabilities of models trained with "weighted_mean" are biased, and the page says so.
    """

    task: str
    class_names: tuple[str, str]
    models: Sequence[PageModel]
    train_counts: dict[float | None, tuple[int, ...]] = field(default_factory=dict)
    swept: str | None = None
    diverged: int = 0
    chosen: int | None = None
    own_point: OwnPoint | None = None
    unit: Unit = "logits"
    reduction: str = "weighted_mean"
    notes: tuple[str, ...] = ()
    copy: CopyTexts = field(default_factory=CopyTexts)
    provenance: Sequence[tuple[str, str]] = ()

    def __post_init__(self) -> None:
        if not self.models:
            raise InputError(f"a report needs at least one finished model of {self.task}, got none")
        for model in self.models:
            n = np.shape(model.y)
            for name, values in (("scores", model.score), ("log-odds", model.log_odds)):
                if values is not None and np.shape(values) != n:
                    raise InputError(
                        f"{name} of {model.label!r} must have the labels' shape {n}, "
                        f"got {np.shape(values)}"
                    )
        if self.own_point is not None and not 0 <= self.own_point.model < len(self.models):
            raise InputError(
                f"the model of the own point must be one of {len(self.models)}, "
                f"got number {self.own_point.model}"
            )

    @property
    def betas(self) -> list[float | None]:
        """The betas of the models, in the order in which they first appear."""
        return list(dict.fromkeys(model.beta for model in self.models))

    @property
    def labels(self) -> list[str]:
        """The labels of the models, in the order in which they first appear."""
        return list(dict.fromkeys(model.label for model in self.models))

    def cells(self, beta: float | None) -> list[Cell]:
        """Return the models of one beta as cells, for the tables that are made from cells.

        Of one model at several values of a setting, it is the chosen one alone.
        """
        groups: dict[int, list[PageModel]] = {}
        one = self.swept is not None and self.chosen is not None
        for model in self.models if not one else [self.models[self.chosen or 0]]:
            if model.beta == beta:
                groups.setdefault(model.seed, []).append(model)
        return [
            Cell(
                task=self.task,
                beta=beta,
                seed=seed,
                y=own[0].y,
                scores={label: _scores(own, label) for label in self.labels if _has(own, label)},
                n_train=own[0].n_train,
            )
            for seed, own in groups.items()
        ]


def _has(models: Sequence[PageModel], label: str) -> bool:
    return any(model.label == label for model in models)


def _scores(models: Sequence[PageModel], label: str) -> Floats:
    return np.stack([np.asarray(model.score) for model in models if model.label == label])
