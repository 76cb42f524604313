"""What the parts of a sweep hand each other: planned runs, problems, stacks and results."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from curvewise.base.errors import InputError
from curvewise.base.files import sha256
from curvewise.base.machine import NUMERICS_VERSION

STACK_LIMIT = 48  # members of a stack

State = Literal["done", "diverged", "failed"]
PlannedRow = tuple["PlannedRun", str, str]  # with its identity and its data's fingerprint


@dataclass(frozen=True)
class PlannedRun:
    """One model to be trained; plain data, ready for JSON.

    `task` is the source as the spec names it ("digits:8"), read as `data` tells (target, positive,
    group, image_size) and thinned to `beta` (None: as it is). `seed` is that of split, subsample
    and batch order, `validation` the fraction of the training part that is kept for model
    selection. `features` are {"pca": 64}, {"embed": "efficientnet-lite0"}, perhaps with "size", or
    {}; `network` is {"name": "mlp", "hidden": [64, 64]}, or {"name": None} for the one that suits
    the data, with "weights" for a file of weights to start from.

    `method` and `settings` are "vs" and {"omega": 0.5, ...}, numbers or densities as texts
    LOW:HIGH:HEIGHT; `label` is the method's name in this sweep. `recipe` holds all settings of a
    `Recipe`, seeds included, `evaluate` the lambda at which the model is scored; names left out
    stand for the top of their ranges. `number` is the position within its method's grid, which
    its seeds of weights and lambda come from.
    """

    task: str
    beta: float | None
    seed: int
    label: str
    method: str
    settings: dict[str, Any]
    network: dict[str, Any]
    features: dict[str, Any]
    recipe: dict[str, Any]
    evaluate: dict[str, float]
    number: int
    validation: float | None = None
    data: dict[str, Any] = field(default_factory=dict)

    def identity(self, fingerprint: str) -> str:
        """Return the sha256 (hex) of all that determines the result on data of a fingerprint.

        Neither the label nor the number is part of it (the recipe holds the seeds that the number
        gives), nor the order of keys, nor whether a number is written 2 or 2.0.
        """
        known = {**vars(self), "fingerprint": fingerprint, "numerics": NUMERICS_VERSION}
        del known["label"], known["number"]
        try:
            return sha256([json.dumps(_canonical(known), sort_keys=True, allow_nan=False)])
        except (TypeError, ValueError) as error:
            raise InputError(f"a run must hold plain, finite data, got {error}") from None


@dataclass(frozen=True)
class Problem:
    """The arrays that a stack trains and is tested on.

    `x_*` are uint8 images (n, C, H, W) or float32 features (n, d), as `kind` says ("image" or
    "features"), `y_*` int64 labels (n,); `normalization` is (mean, std) per channel of images,
    `weights` what networks start from if that is not drawn.
    """

    x_train: NDArray[Any]
    y_train: NDArray[np.int64]
    x_test: NDArray[Any]
    y_test: NDArray[np.int64]
    fingerprint: str
    class_names: tuple[str, ...]
    kind: str
    normalization: tuple[tuple[float, ...], tuple[float, ...]] | None = None
    x_validation: NDArray[Any] | None = None
    y_validation: NDArray[np.int64] | None = None
    weights: dict[str, NDArray[Any]] | None = None


@dataclass(frozen=True)
class Result:
    """What became of a run: metrics and scores (n_test,), or why there are none."""

    identity: str
    state: State
    metrics: dict[str, float] = field(default_factory=dict)
    scores: NDArray[np.float32] | None = None
    validation_scores: NDArray[np.float32] | None = None
    seconds: float = 0.0
    message: str = ""


@dataclass(frozen=True)
class ProblemInfo:
    """What must be known of a problem before anything is trained on it."""

    fingerprint: str
    kind: str


@dataclass(frozen=True)
class Stack:
    """Runs to be trained as one program, with their identities and their data's fingerprint."""

    runs: tuple[PlannedRun, ...]
    identities: tuple[str, ...]
    fingerprint: str


def make_plan(
    runs: Sequence[PlannedRun],
    describe: Callable[[PlannedRun], ProblemInfo],
    *,
    on_read: Callable[[int, int], None] = lambda done, total: None,
) -> tuple[list[PlannedRow], list[Stack]]:
    """Return rows and stacks of all runs of a spec; they depend on them and the data alone.

    `describe` reads a run's data; `on_read(done, total)` counts the problems. A stack is of MLPs;
    other networks train one by one.
    """
    problems = {_data_of(run): run for run in runs}
    known: dict[str, ProblemInfo] = {}
    for key, run in problems.items():
        known[key] = describe(run)
        on_read(len(known), len(problems))
    rows, limits = [], []
    for run in runs:
        info = known[_data_of(run)]
        rows.append((run, run.identity(info.fingerprint), info.fingerprint))
        mlp = (run.network.get("name") or info.kind) in ("mlp", "features")
        limits.append(STACK_LIMIT if mlp else 1)
    made = []
    for places in stacks(runs, limits):
        members, identities, fingerprints = zip(*(rows[place] for place in places), strict=True)
        made.append(Stack(members, identities, fingerprints[0]))
    return rows, made


def _data_of(run: PlannedRun) -> str:
    """Return a text that runs on the same data share."""
    parts = (run.task, run.beta, run.seed, run.features, run.validation, run.data)
    return repr((*parts, run.network.get("weights")))


def stacks(runs: Sequence[PlannedRun], limits: Sequence[int]) -> list[list[int]]:
    """Return the places of runs that can be trained as one program, by their first.

    A run is in a stack of at most its limit. Runs of a stack share task, beta, seed, network and
    the structure of the objective, and the recipe up to learning rate, weight decay and the seeds
    of weights and lambda. The stacks depend on the runs alone, so pass all of a spec's, not only
    those still to be done.
    """
    groups: dict[tuple[str, int], list[int]] = {}
    for place, (run, limit) in enumerate(zip(runs, limits, strict=True)):
        groups.setdefault((_shared(run), limit), []).append(place)
    return sorted(
        places[start : start + limit]
        for (_, limit), places in groups.items()
        for start in range(0, len(places), limit)
    )


def _shared(run: PlannedRun) -> str:
    """Return a text of all that the runs of a stack have in common."""
    from curvewise.losses.registry import structure  # torch, which readers of a store do without
    from curvewise.training.stacked import OWN

    own = {"label", "method", "settings", "number"}
    shared: dict[str, Any] = {name: v for name, v in vars(run).items() if name not in own}
    shared["recipe"] = {name: v for name, v in run.recipe.items() if name not in OWN}
    shared["structure"] = structure(run.method, run.settings)
    return json.dumps(shared, sort_keys=True)


def _canonical(value: Any) -> Any:
    """Return plain data in which equal numbers are written alike."""
    if isinstance(value, dict):
        return {str(key): _canonical(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_canonical(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value
