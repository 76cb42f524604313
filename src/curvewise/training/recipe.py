"""`Recipe`: every setting of a training run, frozen and checked, with the paper's as presets."""

import re
from math import cos, pi
from typing import Any, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    ValidationError,
    model_serializer,
    model_validator,
)

from curvewise.base.errors import InputError, did_you_mean, require, require_choice

Augmentation = Literal["none", "flip", "crop-flip", "resized-crop-flip", "resized-crop-flips"]


class Recipe(BaseModel):
    """Settings of one training run. Unknown keys and all errors are reported together.

    Exactly one of `epochs` and `steps` sets the length. `rho` > 0 wraps the optimiser in SAM.
    `milestones` are epochs (fractions allowed) at which the "step" schedule multiplies the
    learning rate by `decay`. `ema_share` keeps a moving average of the weights that reaches back
    over this share of the run, and is what the trained model has; `ema_decay`, as in the paper's
    code, keeps one with this decay every step or epoch, however short the run. `draw` is one
    lambda a batch (the paper) or one a sample. Every batch holds at least `minority_per_batch`
    samples of the rarest class, which are repeated within an epoch where there are too few.
    `input_noise` is the standard deviation of normal noise that is added to what the network takes
    in, in training only. Seeds are separate for initial weights, batch order (with augmentation
    and noise) and lambda.

    >>> Recipe(epochs=20, lr=0.05).batch_size
    128
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    epochs: int | None = Field(None, ge=1)
    steps: int | None = Field(None, ge=1)
    batch_size: int = Field(128, ge=1)
    minority_per_batch: int = Field(0, ge=0)
    optimizer: Literal["sgd", "adamw"] = "sgd"
    lr: float = Field(0.1, gt=0)
    momentum: float = Field(0.9, ge=0, lt=1)
    weight_decay: float = Field(0.0, ge=0)
    rho: float = Field(0.0, ge=0)
    adaptive: bool = False
    schedule: Literal["constant", "step", "cosine"] = "constant"
    milestones: tuple[float, ...] = ()
    decay: float = Field(0.1, gt=0, le=1)
    warmup_epochs: float = Field(0.0, ge=0)
    clip_norm: float | None = Field(None, gt=0)
    ema_decay: float | None = Field(None, ge=0, lt=1)
    ema_every: Literal["step", "epoch"] = "epoch"
    ema_share: float | None = Field(None, gt=0, lt=1)
    label_smoothing: float = Field(0.0, ge=0, lt=1)
    draw: Literal["batch", "sample"] = "batch"
    augment: Augmentation = "none"
    input_noise: float = Field(0.0, ge=0)
    film_at: Literal["penultimate", "logits", "both"] = "penultimate"
    film_init: Literal["paper", "identity"] = "identity"
    film_hidden: int = Field(128, ge=1)
    scale_lambda: bool = False
    device: str = "auto"
    precision: Literal["float32", "bfloat16"] = "float32"
    compile: Literal["auto", "always", "never"] = "auto"
    seed_weights: int = Field(0, ge=0)
    seed_order: int = Field(0, ge=0)
    seed_lambda: int = Field(0, ge=0)

    def __init__(self, **settings: Any) -> None:
        try:
            super().__init__(**settings)
        except ValidationError as error:
            raise InputError("recipe: " + "; ".join(findings(error, Recipe))) from None

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        require(
            (self.epochs is None) != (self.steps is None),
            f"exactly one of epochs and steps must be given, got {self.epochs} and {self.steps}",
        )
        require(
            self.minority_per_batch < self.batch_size,
            f"minority_per_batch must be less than batch_size = {self.batch_size}, got "
            f"{self.minority_per_batch}",
        )
        require(
            None in (self.ema_decay, self.ema_share),
            f"one of ema_decay and ema_share can be given, got {self.ema_decay} and "
            f"{self.ema_share}",
        )
        milestones = list(self.milestones)
        increasing = milestones == sorted(set(milestones))
        require(increasing, f"milestones must increase, got {milestones}")
        require(
            (self.schedule == "step") == bool(milestones),
            f'the schedule "step" and milestones go together, got {self.schedule!r} and '
            f"{milestones}",
        )
        return self

    @model_serializer(mode="wrap")
    def _plain(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out a setting that came later at its default: older runs keep their identity."""
        later = ("minority_per_batch", "input_noise", "ema_share")
        settings = serialize(self).items()
        return {name: value for name, value in settings if name not in later or value}

    def with_seed(self, seed: int) -> "Recipe":
        """Return the recipe with all three seeds set."""
        return self.changed(seed_weights=seed, seed_order=seed, seed_lambda=seed)

    def changed(self, **settings: Any) -> "Recipe":
        """Return the recipe with some settings replaced, checked again.

        Giving `epochs` takes `steps` out, and the other way round; so with the two averages.
        """
        old = self.model_dump()
        for pair in (("epochs", "steps"), ("ema_share", "ema_decay")):
            for one, other in (pair, pair[::-1]):
                if settings.get(one) is not None:
                    old[other] = None
        return Recipe(**{**old, **settings})


def findings(error: ValidationError, model: Any) -> list[str]:
    """Return what pydantic finds wrong with a model's fields, in sentences of ours."""
    sentences = []
    for detail in error.errors():
        place = [str(part) for part in detail["loc"]]
        name, message = ".".join(place), detail["msg"].removeprefix("Value error, ")
        if detail["type"] == "extra_forbidden":
            owner = model.model_fields[place[0]].annotation if len(place) > 1 else model
            known = list(owner.model_fields)
            hint = did_you_mean(place[-1], known) or f", which are {', '.join(known)}"
            sentences.append(f"{name!r} is no setting{hint}")
        elif detail["type"] == "missing":
            sentences.append(f"{name} must be given")
        elif detail["type"] == "value_error":
            sentences.append(f"{name}: {message}" if name else message)
        else:
            requirement = re.sub("^(Input|String) should", "must", message)
            requirement = requirement.partition(", unable to")[0]
            sentences.append(f"{name} {requirement}, got {detail['input']!r}")
    return sentences


def learning_rate(recipe: Recipe, step: int, steps: int, steps_per_epoch: int) -> float:
    """Return the learning rate of step 0 .. steps-1; a resumed run needs no schedule state.

    Linear warm-up over `warmup_epochs`, times the schedule: constant, multiplied by `decay` at
    each milestone, or a half cosine from 1 to 0.

    >>> recipe = Recipe(epochs=4, schedule="step", milestones=(2,), lr=1.0)
    >>> [learning_rate(recipe, step, 4, 1) for step in range(4)]
    [1.0, 1.0, 0.1, 0.1]
    """
    rate = recipe.lr
    if recipe.schedule == "step":
        rate *= recipe.decay ** sum(step >= m * steps_per_epoch for m in recipe.milestones)
    elif recipe.schedule == "cosine":
        rate *= (1 + cos(pi * step / steps)) / 2
    warmup = recipe.warmup_epochs * steps_per_epoch
    return rate * min(1.0, (step + 1) / warmup) if warmup else rate


def average_reach(recipe: Recipe, steps: int, steps_per_epoch: int) -> float:
    """Return over how many steps the average of a run's weights reaches back; 0 without one.

    >>> recipe = Recipe(epochs=40, ema_decay=0.9)  # 1 / (1 - 0.9) = 10 epochs
    >>> round(average_reach(recipe, 400, 10))
    100
    >>> average_reach(Recipe(epochs=40, ema_share=0.02), 400, 10)
    8.0
    """
    if recipe.ema_decay is not None:
        return (steps_per_epoch if recipe.ema_every == "epoch" else 1) / (1 - recipe.ema_decay)
    return (recipe.ema_share or 0.0) * steps


def _paper(
    epochs: int, lr: float, milestones: tuple[int, ...], augment: Augmentation, **more: float
) -> dict[str, Any]:
    length = {"epochs": epochs, "lr": lr, "milestones": milestones, "schedule": "step"}
    shared = {"clip_norm": 0.5, "batch_size": 128, "film_init": "paper"}
    return {**length, **shared, "augment": augment, **more}


# Where text and public code of the paper differ, the code is complete, so presets follow it; the
# "-text" preset has the learning rates that the text prints.
PRESETS: dict[str, dict[str, Any]] = {
    "paper-cifar": _paper(
        500, 0.1, (400, 450), "crop-flip", weight_decay=2e-4, warmup_epochs=5, ema_decay=0.9
    ),
    "paper-cifar-text": _paper(500, 0.1, (400, 450), "crop-flip", decay=0.01),
    "paper-melanoma": _paper(10, 0.01, (5,), "resized-crop-flips", weight_decay=1e-3),
    "paper-dogs-cats": _paper(30, 0.01, (15, 20, 25), "resized-crop-flip", weight_decay=1e-6),
    "tabular": {
        "epochs": 60,
        "optimizer": "adamw",
        "lr": 2e-3,
        "weight_decay": 0.1,
        "schedule": "cosine",
        "clip_norm": 0.5,
    },
    "quick": {"epochs": 10, "lr": 0.1, "schedule": "cosine", "clip_norm": 0.5, "warmup_epochs": 1},
}


def preset(name: str, **changes: Any) -> Recipe:
    """Return a named recipe, with changes if any.

    What the paper's recipes have at epochs (milestones, warm-up, the average of weights) keeps its
    share of the run when `epochs` changes.

    >>> short = preset("paper-cifar", epochs=50)
    >>> short.milestones, short.warmup_epochs, round(short.ema_share, 4)
    ((40.0, 45.0), 0.5, 0.02)
    """
    require_choice("preset", name, PRESETS)
    whole = Recipe(**PRESETS[name])
    recipe = whole.changed(**changes)
    if whole.schedule != "step" or None in (whole.epochs, recipe.epochs):
        return recipe
    share = (recipe.epochs or 0) / (whole.epochs or 1)
    shares: dict[str, Any] = {
        "milestones": tuple(share * epoch for epoch in whole.milestones),
        "warmup_epochs": share * whole.warmup_epochs,
    }
    if whole.ema_decay is not None and not changes.keys() & {"ema_decay", "ema_every"}:
        shares["ema_share"] = 1 / (1 - whole.ema_decay) / (whole.epochs or 1)
    return recipe.changed(**shares | changes) if share != 1 else recipe
