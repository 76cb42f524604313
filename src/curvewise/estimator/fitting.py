"""Training an ensemble: sizes, families and recipe by the number of rows, then its members."""

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from math import sqrt
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from curvewise.base.errors import InputError, require, require_number, require_open
from curvewise.estimator.ensemble import Ensemble, Member, join, judge, weigh
from curvewise.estimator.inputs import Rows, held_out, some_rows
from curvewise.estimator.trees import grow_trees, trees_for
from curvewise.losses.family import LinearDensity, LossFamily
from curvewise.networks.conditioning import Conditioned, find_last_linear
from curvewise.networks.registry import Normalization, build_network
from curvewise.tables.columns import Codes
from curvewise.tables.quantiles import column_weights
from curvewise.training.batches import seen_class_counts
from curvewise.training.loop import conditioned
from curvewise.training.recipe import Recipe
from curvewise.training.stacked import fit_stacked

FOLDS = 6
SCALINGS = ("mild", "none", "strong")
SNAPSHOTS = (0.4, 0.6, 0.8)  # of training; the end is the fourth
# Members go through these side by side. Omega goes with the scaling, as both have three values.
OMEGAS = (0.5, 0.7, 0.9)
GAMMAS = (0.0, 0.1, 0.2)
HEIGHTS = (0.0, 0.15, 0.33, 0.5)
EVALUATED = (0.0, 1 / 3, 2 / 3, 1.0)  # where in the range of tau models are read
CNN_STEPS = 600
# What an estimator's parameters may be: whole numbers from a least one, and other types.
WHOLE = {"n_members": 1, "trees": 0, "steps": 1, "batch_size": 2}
TYPES: dict[str, tuple[Any, str]] = {
    "hidden": (Sequence | np.ndarray, "a list of layer widths"),
    "warm_start": (bool | np.bool_, "True or False"),
    "n_jobs": (int | np.integer | None, "a whole number or None"),
    "verbose": (int | np.integer, "a whole number"),
}
WEIGHED_ROWS = 8_000  # from which the weights of columns are taken, at most
LEAST_SHARE = 0.05  # networks that count less than this share of the best are dropped
MOST = 2  # networks that are kept of each member's training, which leaves four,
MANY_ROWS = 20_000  # and 1 above so many rows: who has them, scores more of them


def steps_for(n: int) -> int:
    """Return how many steps a member trains on n rows of a table.

    Between 180 and 600, as sqrt(n), for up to 10,000 rows; as sqrt(n) again beyond, for larger
    batches as well (`batch_size_for`), so that time grows less than n.

    >>> steps_for(100), steps_for(1000), steps_for(10_000), steps_for(1_000_000)
    (180, 379, 600, 6000)
    """
    return round(6 * sqrt(n) if n > 10_000 else 0.6 * min(1000, max(300, 20 * sqrt(n))))


def batch_size_for(n: int) -> int:
    """Return the batch size for n rows.

    >>> [batch_size_for(n) for n in (500, 5000, 50_000, 100_000, 1_000_000)]
    [64, 128, 256, 512, 1024]
    """
    return 64 << int(np.searchsorted((1000, 10_000, 100_000, 1_000_000), n, side="right"))


@dataclass(frozen=True)
class Settings:
    """How members are trained: the parameters of an estimator, checked.

    `fixed` is (omega, gamma, tau) of one loss for all; without it, each has a family of its own
    with tau drawn from `tau_range`. `trees` are grown beside them on tables.
    """

    n_members: int = 18
    hidden: tuple[int, ...] = (64, 64)
    tau_range: tuple[float, float] = (0.0, 3.0)
    fixed: tuple[float | Sequence[float], float, float] | None = None
    steps: int | None = None
    batch_size: int | None = None
    learning_rate: float = 2e-3
    weight_decay: float = 1.0
    network: Callable[[tuple[int, ...], int], nn.Module] | None = None
    trees: int = 0

    @classmethod
    def of(cls, estimator: Any, **loss: Any) -> "Settings":
        """Return the settings of an estimator's parameters, or raise what is wrong with them."""
        names = {field.name for field in fields(cls)} - {"tau_range", "fixed"}
        values = {name: getattr(estimator, name) for name in names}
        for name, least in WHOLE.items():
            if values[name] is not None or name not in ("steps", "batch_size"):
                number = require_number(name, values[name], least)  # a whole one may be a float
                wanted = f"{name} must be a whole number >= {least}"
                require(number % 1 == 0, f"{wanted}, got {number:g}")
                values[name] = int(number)
        for name, (types, what) in TYPES.items():
            value = getattr(estimator, name)
            fits = isinstance(value, types) and not isinstance(value, str)
            require(fits, f"{name} must be {what}, got {value!r}")
        require_number("calibration_fraction", estimator.calibration_fraction, 0, 0.9)
        require_open("learning_rate", estimator.learning_rate, 0, float("inf"))
        require_number("weight_decay", estimator.weight_decay, 0)
        settings = cls(**values | {"hidden": tuple(values["hidden"])}, **loss)
        settings.family(0)  # its numbers are checked there
        return settings

    def family(self, k: int) -> LossFamily:
        """Return the family of losses that member k is trained with."""
        if self.fixed is not None:
            return LossFamily(*self.fixed, reduction="expected_mean")
        low, high = self.tau_range
        height = HEIGHTS[k % len(HEIGHTS)] * 3 / (high - low)
        return LossFamily(
            OMEGAS[k % len(OMEGAS)],
            GAMMAS[k // 2 % len(GAMMAS)],
            LinearDensity(low, high, height),
            reduction="expected_mean",
        )

    def taus(self) -> tuple[float, ...]:
        """Return the values of tau whose log-odds are averaged."""
        low, high = self.tau_range
        return tuple(low + share * (high - low) for share in EVALUATED)

    def is_mlp(self, in_shape: tuple[int, ...]) -> bool:
        """Tell whether members are our own networks on a table: inputs of others stay as they are.

        Others may begin with anything, which could not take in a scale, nor noise.
        """
        return len(in_shape) == 1 and self.network is None

    def build(self, in_shape: tuple[int, ...], n_classes: int, seed: int) -> nn.Module:
        """Return a member's network."""
        if self.network is not None:
            return _built(self.network, in_shape, n_classes, seed)
        name, options = (
            ("mlp", {"hidden": self.hidden}) if len(in_shape) == 1 else ("small-cnn", {})
        )
        return build_network(name, in_shape=in_shape, n_classes=n_classes, seed=seed, **options)

    def untrained(
        self, family: LossFamily, in_shape: tuple[int, ...], n_classes: int
    ) -> Conditioned:
        """Return a member's network with its FiLM, for weights that are there already."""
        body = self.build(in_shape, n_classes, seed=0)
        return conditioned(body, family, self.recipe(1, in_shape, seed=0))

    def match(self, ensemble: Ensemble) -> bool:
        """Tell whether members are of the shape these settings give, and read where they say."""
        n_classes = ensemble.out_of_fold.shape[1]
        own = self.untrained(self.family(0), ensemble.in_shape, n_classes).state_dict()
        theirs = ensemble.members[0].network.state_dict()
        shapes, wanted = ({name: v.shape for name, v in one.items()} for one in (theirs, own))
        return shapes == wanted and self.taus() == tuple(ensemble.taus)

    def recipe(self, n: int, in_shape: tuple[int, ...], seed: int) -> Recipe:
        """Return the recipe for n rows of a shape."""
        return Recipe(
            steps=self.steps or (CNN_STEPS if len(in_shape) == 3 else steps_for(n)),
            batch_size=min(self.batch_size or batch_size_for(n), max(2, n)),
            minority_per_batch=1,
            optimizer="adamw",
            lr=self.learning_rate,
            weight_decay=self.weight_decay,
            # Noise on the columns: many rows need no blurring.
            input_noise=0.5 * min(1.0, 20_000 / n) if self.is_mlp(in_shape) else 0.0,
            schedule="cosine",
            film_hidden=32,
            scale_lambda=True,
            compile="never",
        ).with_seed(seed)


def _built(network: Any, in_shape: tuple[int, ...], n_classes: int, seed: int) -> nn.Module:
    """Return what a user's function builds, tried on rows of a shape before anything is trained."""
    is_function = callable(network)
    require(is_function, f"network must be a function of (in_shape, n_classes), got {network!r}")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        body: nn.Module = network(in_shape, n_classes)
        is_module = isinstance(body, nn.Module)
        require(is_module, f"network must return an nn.Module, got {type(body).__name__}")
        logits: Any = body.get_submodule(find_last_linear(body)).out_features
        require(logits == n_classes, f"network must give {n_classes} logits, got {logits}")
        mode, device = body.training, next(body.parameters()).device
        try:  # lazy layers draw their weights here; eval: batch statistics stay
            with torch.no_grad():
                body.eval()(torch.zeros(2, *in_shape, device=device))
        except (RuntimeError, TypeError, ValueError, IndexError) as error:
            reason, *_ = str(error).splitlines() or [type(error).__name__]
            raise InputError(
                f"network must take rows of the shape {in_shape} that it is told, got: {reason}"
            ) from error
    return body.train(mode)


def fit_ensemble(
    rows: Rows,
    settings: Settings,
    *,
    seed: int,
    normalization: Normalization | None = None,
    before: Ensemble | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> Ensemble:
    """Train members on arrays of rows, x (n, ...) and labels y (n,) of 0 .. C-1.

    With an ensemble from `before`, only members beyond its number are trained, and join it and
    its trees.
    """
    x, y, in_shape = rows.x, rows.y, rows.x.shape[1:]
    trained = 0 if before is None else before.n_trained
    require(
        settings.n_members > trained,
        f"warm_start needs n_members above the {trained} there are, got {settings.n_members}",
    )
    require(
        before is None or settings.match(before),
        "warm_start needs the hidden, tau_range and network of the first fit, got others",
    )
    numbers = range(trained, settings.n_members)
    fold = held_out(y, FOLDS if settings.n_members > 1 else 1, seed, rows.group)
    options = {"normalization": normalization, "on_progress": on_progress}
    ensemble = Ensemble(
        train_members(numbers, rows, fold, settings, seed, **options),
        n_trained=settings.n_members,
        taus=settings.taus(),
        in_shape=in_shape,
        normalization=normalization,
        out_of_fold=np.full((len(x), int(y.max()) + 1), np.nan),
    )
    if fold.max() >= 0:
        judge(ensemble, x, y, fold)
    if before is not None:
        join(ensemble, before)
    weights, most = ensemble.weights, settings.n_members * (MOST if len(x) <= MANY_ROWS else 1)
    best = np.argsort(-weights, kind="stable")[:most]
    kept = np.sort(best[weights[best] >= LEAST_SHARE * weights.max()])
    ensemble.members = [ensemble.members[k] for k in kept]
    judged = settings.is_mlp(in_shape) and not np.isnan(ensemble.out_of_fold).all()
    number = trees_for(len(x), settings.trees) if judged else 0
    if number == 0:
        ensemble.trees = None
    elif ensemble.trees is None or len(ensemble.trees.trees) != number:
        ensemble.trees = grow_trees(rows, fold, number, seed=seed)
    if ensemble.trees is not None:
        weigh(ensemble.trees, ensemble.out_of_fold, y)
    return ensemble


def train_members(
    numbers: Sequence[int],
    rows: Rows,
    fold: Codes,
    settings: Settings,
    seed: int,
    **options: Any,
) -> list[Member]:
    """Train members of these numbers, each without a fold, and return each at four moments."""
    x, y, in_shape = rows.x, rows.y, rows.x.shape[1:]
    counts = np.bincount(y).astype(float)
    recipe = settings.recipe(len(x), in_shape, seed)
    scalings = SCALINGS if settings.is_mlp(in_shape) else ("none",)
    # Without folds all rows are in fold -1, which nobody leaves out.
    left_out = [k // len(scalings) % max(1, int(fold.max()) + 1) for k in numbers]
    weight = np.stack([(fold != left).astype(np.float64) for left in left_out])
    if rows.weight is not None:
        weight *= rows.weight
    scale = None
    if settings.is_mlp(in_shape):
        # By the rows that the member sees: those it leaves out judge its scaling, too.
        few = some_rows(y, WEIGHED_ROWS, seed)
        columns, labels = x[few], y[few]
        scale = np.stack(
            [
                column_weights(columns, labels, scalings[k % len(scalings)], sample_weight=own)
                for k, own in zip(numbers, weight[:, few], strict=True)
            ]
        ).astype(np.float32)
    families = [settings.family(k) for k in numbers]
    fitted = fit_stacked(
        lambda seed_weights: settings.build(in_shape, len(counts), seed_weights),
        families,
        x,
        y,
        [recipe.changed(seed_weights=seed + k, seed_lambda=seed + k) for k in numbers],
        sample_weight=weight,
        input_scale=scale,
        snapshots=SNAPSHOTS,
        **options,
    )
    why = next(iter(fitted.diverged.values()), "")
    require(len(fitted.diverged) < len(numbers), f"no member could be trained: {why}")
    oversampling = tuple(np.array(seen_class_counts(counts.tolist(), recipe)) / counts)
    members = []
    for moment, networks in enumerate([*fitted.snapshots, fitted.networks]):
        for place, (k, network) in enumerate(zip(numbers, networks, strict=True)):
            if place in fitted.diverged:
                continue
            if scale is not None:
                take_in_scale(network, torch.from_numpy(scale[place]))
            group = moment * len(scalings) + k % len(scalings)
            read = families[place], fitted.class_counts, oversampling
            members.append(Member(network, *read, left_out=left_out[place], group=group))
    return members


@torch.no_grad()
def take_in_scale(network: Conditioned, scale: Tensor) -> None:
    """Multiply the first layer's weights by what its inputs were multiplied by in training."""
    first = next(module for module in network.modules() if isinstance(module, nn.Linear))
    if first is network.linear and network.film is not None:
        # FiLM comes before the only layer and shifts what was scaled: its factors are scaled.
        last: Any = network.film.sigma[-1]
        last.weight.mul_(scale[:, None])
        last.bias.mul_(scale)
    else:
        first.weight.mul_(scale)


def printed(name: str) -> Callable[[int, int], None]:
    """Return a callback that writes a line at every tenth of the steps, with the time so far."""
    started, tenths = time.perf_counter(), 0

    def tell(done: int, total: int) -> None:
        nonlocal tenths
        if 10 * done // total > tenths:
            tenths = 10 * done // total
            progress = f"{10 * tenths} % of {total:,} steps, {time.perf_counter() - started:.1f} s"
            print(f"{name}: {progress}", file=sys.stderr, flush=True)

    return tell
