"""One table of the losses that are trained: sweeps, saved models and figures read it.

To add a loss is one entry of `METHODS`. A setting is a number, or a density as a text
LOW:HIGH:HEIGHT where the method draws. Two methods are controls of training over a family:
"constant-film" has the FiLM layers but nothing to tell them, "unconditioned" draws the loss but
has no FiLM to tell.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from curvewise.base.errors import InputError, did_you_mean, require, require_choice, require_number
from curvewise.losses.baselines import AUCMarginLoss, FocalLoss, LDAMLoss
from curvewise.losses.factors import check_class_counts
from curvewise.losses.family import LinearDensity, LossFamily, Objective, require_setting
from curvewise.losses.glmc import GLMCLoss

Setting = float | str  # a number, or a density as a text
Grid = Mapping[str, tuple[Setting, ...]]

FAMILY: dict[str, float] = {"omega": 0.5, "gamma": 0.0, "tau": 0.0}
_PAPER: Grid = {"omega": (0.5, 0.7, 0.9, 0.99), "gamma": (0.0, 0.2, 0.4)}
PAPER_FIXED: Grid = {**_PAPER, "tau": (0.0, 1.0, 2.0, 3.0)}
PAPER_DRAWN: Grid = {**_PAPER, "tau": ("0:3:0", "0:3:0.15", "0:3:0.33", "0:3:0.66")}


class ConstantFilm(LossFamily):
    """One fixed loss for a network that has FiLM all the same: lambda is always its tau.

    >>> ConstantFilm(tau=2.0).draw(3).tolist()
    [[2.0], [2.0], [2.0]]
    """

    def __init__(self, omega: float = 0.5, gamma: float = 0.0, tau: float = 0.0) -> None:
        self.constant = require_number("tau", tau, 0)
        super().__init__(omega, gamma, self.constant)

    @property
    def drawn(self) -> tuple[str, ...]:
        """The one entry of lambda, which gives the network as many FiLM layers as LCT's."""
        return ("tau",)

    @property
    def ranges(self) -> tuple[tuple[float, float], ...]:
        """A range with the constant at its top, since scaling lambda divides by the width."""
        return ((self.constant - 1.0, self.constant),)

    def draw(self, n: int, *, generator: torch.Generator | None = None) -> Tensor:
        """Return the constant n times, shape (n, 1)."""
        return torch.full((n, 1), self.constant, dtype=torch.get_default_dtype())

    def hyperparameters(self, lam: Tensor) -> dict[str, Any]:
        """Return the fixed omega, gamma, tau, whatever lambda (..., 1) is."""
        super().hyperparameters(lam)  # for its check of the shape
        return self.settings


def _by_frequency(class_counts: Sequence[float]) -> dict[str, float]:
    """Return the omega that weighs classes by 1/n_c; for two the paper's n_0 / n."""
    counts = check_class_counts(class_counts)
    return {"omega": max(counts) / (max(counts) + min(counts))}


@dataclass(frozen=True)
class Method:
    """A method: its label in figures, its loss, its settings with defaults, the paper's grid.

    `loss` makes an `Objective` of the settings, and of those that `from_counts` works out from
    the training samples per class. `draws` says that at least one setting is a density, `film`
    that the network has FiLM layers.
    """

    name: str
    label: str
    settings: Mapping[str, float] = field(default_factory=dict)
    loss: Callable[..., Objective] = LossFamily
    from_counts: Callable[[Sequence[float]], Mapping[str, float]] | None = None
    draws: bool = False
    film: bool = False
    paper: Grid | None = None

    @property
    def scored_at_lambda(self) -> bool:
        """Whether the scores of its models depend on lambda."""
        return self.draws and self.film


METHODS = {
    method.name: method
    for method in (
        Method("ce", "CE"),
        Method("weighted-ce", "weighted CE", from_counts=_by_frequency),
        Method("focal", "focal", {"focus": 2.0}, FocalLoss),
        Method("ldam", "LDAM", {"max_margin": 0.5, "scale": 30.0}, LDAMLoss),
        Method("logit-adjustment", "logit adjustment", {"tau": 1.0}),
        Method("vs", "VS", FAMILY, paper=PAPER_FIXED),
        Method("lct", "VS + LCT", FAMILY, draws=True, film=True, paper=PAPER_DRAWN),
        Method("glmc", "GLMC", {"power": 1.0, "consistency": 10.0, "sampling": 0.2}, GLMCLoss),
        Method("auc-margin", "AUC margin", {"margin": 1.0}, AUCMarginLoss),
        Method(
            "constant-film", "VS, constant FiLM", FAMILY, ConstantFilm, film=True, paper=PAPER_FIXED
        ),
        Method("unconditioned", "tau drawn, no FiLM", FAMILY, draws=True, paper=PAPER_DRAWN),
    )
}
# The kind of an objective in a model file: a method's name, where it has a loss of its own.
VECTOR_SCALING = "vector-scaling"
KINDS = {name: method.loss for name, method in METHODS.items() if method.loss is not LossFamily}


def make_objective(
    method: str, settings: Mapping[str, Any], class_counts: Sequence[float]
) -> Objective:
    """Return what a method minimises on training data with these class counts.

    Settings that are left out have the method's defaults.

    >>> make_objective("lct", {"tau": "0:3:0.33"}, (1000, 10)).drawn
    ('tau',)
    """
    values = {n: parse_setting(n, v) for n, v in normal_settings(method, settings).items()}
    of_counts = METHODS[method].from_counts
    return METHODS[method].loss(**values, **(of_counts(class_counts) if of_counts else {}))


def describe_objective(objective: Objective) -> dict[str, Any]:
    """Return one of the table's objectives as plain data.

    >>> describe_objective(FocalLoss(focus=1.5))
    {'kind': 'focal', 'focus': 1.5}
    """
    for kind, loss in KINDS.items():
        if type(objective) is loss:
            settings = {name: getattr(objective, name) for name in METHODS[kind].settings}
            return {"kind": kind, **settings}
    if not isinstance(objective, LossFamily):
        raise InputError(f"a model can be saved with Curvewise's own objectives, got {objective!r}")
    return {"kind": VECTOR_SCALING, **objective.to_dict()}


def build_objective(about: Mapping[str, Any]) -> Objective:
    """Return the objective that `describe_objective` described."""
    settings = {name: value for name, value in about.items() if name != "kind"}
    kind = require_choice("objective", about["kind"], [VECTOR_SCALING, *KINDS])
    return LossFamily.from_dict(settings) if kind == VECTOR_SCALING else KINDS[kind](**settings)


def evaluation_lambda(objective: Objective, evaluate: Mapping[str, float]) -> Tensor:
    """Return the lambda (1, d) at which a model is scored.

    Values are taken for the names that the objective draws; one that is left out is at the top
    of its range. A constant FiLM is fed its constant.

    >>> family = LossFamily(gamma=LinearDensity(0, 0.4, 2), tau=LinearDensity(0, 3, 0.33))
    >>> evaluation_lambda(family, {"gamma": 0.25}).tolist()
    [[0.25, 3.0]]
    """
    ranges: Sequence[tuple[float, float]] = getattr(objective, "ranges", ())
    tops = {name: high for name, (_, high) in zip(objective.drawn, ranges, strict=True)}
    if not isinstance(objective, ConstantFilm):
        tops |= {name: float(evaluate[name]) for name in tops if name in evaluate}
    return torch.tensor([list(tops.values())], dtype=torch.get_default_dtype())


def structure(method: str, settings: Mapping[str, Any]) -> tuple[str, tuple[str, ...], bool]:
    """Return (kind of objective, names drawn, whether there is FiLM).

    Models that agree in these can be trained as one program: all vector-scaling losses without
    draws, for one, whatever their settings. Other losses must also have the same settings.

    >>> structure("ce", {}) == structure("vs", {"tau": 2.0})
    True
    """
    values, made = normal_settings(method, settings), METHODS[method]
    if made.loss is ConstantFilm:
        return method, ("tau",), made.film
    kind = VECTOR_SCALING if made.loss is LossFamily else f"{method} {values}"
    return kind, tuple(n for n, value in values.items() if isinstance(value, str)), made.film


def normal_settings(method: str, settings: Mapping[str, Any]) -> dict[str, Setting]:
    """Return all settings of a method in one form: floats and densities as `density_text`.

    >>> normal_settings("lct", {"tau": "0:3.0:.33", "omega": 1})
    {'omega': 1.0, 'gamma': 0.0, 'tau': '0:3:0.33'}
    """
    defaults = METHODS[require_choice("method", method, METHODS)].settings
    for name in settings:
        if name not in defaults:
            raise InputError(foreign_setting(method, name))
    asked = {**defaults, **settings}
    values = {name: normal_setting(method, name, value) for name, value in asked.items()}
    if METHODS[method].draws and not any(isinstance(value, str) for value in values.values()):
        raise InputError(
            f"{method} needs a density LOW:HIGH:HEIGHT for at least one of {', '.join(values)} in "
            f"every run, got {', '.join(f'{name} = {value}' for name, value in values.items())}"
        )
    return values


def normal_setting(method: str, name: str, value: Any) -> Setting:
    """Return one checked setting of a method: a float, or a density as `density_text`."""
    parsed = require_setting(name, parse_setting(name, value))
    if not isinstance(parsed, LinearDensity):
        return float(parsed) + 0.0  # -0.0 becomes 0.0
    drawing = [known.name for known in METHODS.values() if known.draws]
    require(
        method in drawing,
        f"{name} of {method} must be a number, got the density {value!r}; "
        f"densities are for {' and '.join(drawing)}",
    )
    return density_text(parsed)


def foreign_setting(method: str, name: str, others: Sequence[str] = ()) -> str:
    """Return the sentence that a name is no setting of a method; `others` may be meant too."""
    owners = [known.name for known in METHODS.values() if name in known.settings]
    if owners:
        return f"{name} belongs to {', '.join(owners)}, not to {method}"
    known = [*METHODS[method].settings, *others]
    return f"{name!r} is no setting of {method}{did_you_mean(name, known)}"


def parse_setting(name: str, value: Any) -> Any:
    """Return a value as it is, but of a text what it stands for: a number or a density.

    >>> parse_setting("tau", "0:3:0.33")  # low:high:height
    LinearDensity(low=0.0, high=3.0, height_at_high=0.33)
    """
    if not isinstance(value, str):
        return value
    try:
        numbers = [float(part) for part in value.split(":")]
        return numbers[0] if len(numbers) == 1 else LinearDensity(*numbers)
    except InputError as error:
        raise InputError(f"{name} = {value}: {error}") from None
    except (TypeError, ValueError):
        raise InputError(f"{name} must be a number or LOW:HIGH:HEIGHT, got {value!r}") from None


def density_text(density: LinearDensity) -> str:
    """Return LOW:HIGH:HEIGHT, such that equal densities have equal texts."""
    ends = (density.low, density.high, density.height_at_high)
    return ":".join(repr(value + 0.0).removesuffix(".0") for value in ends)
