"""`Spec`: a sweep as one TOML file, tasks x betas x seeds x methods and their grids, to runs."""

import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import combinations
from os import PathLike
from pathlib import Path
from typing import Annotated, Any, Self

import torch
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from curvewise.base.errors import (
    InputError,
    did_you_mean,
    require,
    require_choice,
    require_type,
    require_whole,
)
from curvewise.losses.registry import METHODS
from curvewise.networks.architectures import MLP
from curvewise.networks.registry import TIMM, build_network
from curvewise.sweep.grid import (
    MOST_RUNS,
    MethodGrid,
    all_findings,
    base_recipe,
    read_method,
    read_recipe,
    require_distinct,
    require_lambda,
)
from curvewise.sweep.plan import PlannedRun
from curvewise.training.recipe import findings

SEED_STRIDE = 10_000  # seeds of weights and lambda are this times the seed, plus the number
PAIRS_OF_TEN = ("fashion-mnist", "cifar10")
# Of a comparison: what small data are gone through, and what its networks are.
LEAST_EPOCHS, LEAST_STEPS, BATCH, HIDDEN = 20, 420, 128, [64, 64]
CLOSED: ConfigDict = {"frozen": True, "extra": "forbid", "allow_inf_nan": False}


def expanded_task(text: str) -> list[str]:
    """Return the 45 pairs that NAME:pairs stands for, any other task as it is.

    >>> pairs = expanded_task("cifar10:pairs")
    >>> len(pairs), pairs[0], pairs[-1]
    (45, 'cifar10:0/1', 'cifar10:8/9')
    """
    name, _, argument = text.partition(":")
    if argument == "pairs" and name in PAIRS_OF_TEN:
        return [f"{name}:{first}/{second}" for first, second in combinations(range(10), 2)]
    near = did_you_mean(name, PAIRS_OF_TEN) if argument == "pairs" else ""  # or a folder's name
    require(not near, f"NAME:pairs is for {' and '.join(PAIRS_OF_TEN)}, got {text!r}{near}")
    return [text]


def _listed(value: Any) -> Any:
    """Return a scalar as a list of one; a list must hold something."""
    require(value not in ([], ()), "must list at least one value, got []")
    return value if isinstance(value, list | tuple) else [value]


def _seeds(value: Any) -> Any:
    """Return a list of seeds; a number alone could be meant as one seed, or as how many."""
    require(isinstance(value, list | tuple), f"must be a list, such as [0, 1, 2], got {value!r}")
    return _listed(value)


def _distinct_tasks(tasks: tuple[str, ...]) -> tuple[str, ...]:
    require_distinct([task for text in tasks for task in expanded_task(text)])
    return tasks


Text = Annotated[str, Field(strict=True, min_length=1)]
Beta = Annotated[float | None, Field(strict=True, ge=1)]
Seed = Annotated[int, Field(strict=True, ge=0, le=10**9)]
Number = Annotated[float, Field(strict=True)]
Distinct = AfterValidator(require_distinct)


class _Section(BaseModel):
    model_config = ConfigDict(**CLOSED, strict=True)


class DataSettings(_Section):
    """How the sources are read, where they must be told; see `load_task`."""

    target: str | None = None
    positive: str | None = None
    group: str | None = None
    image_size: int | None = Field(default=None, ge=1)


class Features(_Section):
    """What the networks see instead of the data: principal components, or a backbone's output.

    With both it is the principal components of the backbone's output. `size` is the side in pixels
    that images are resized to for the backbone.
    """

    pca: int | None = Field(default=None, ge=1)
    embed: str | None = Field(default=None, min_length=1)
    size: int | None = Field(default=None, ge=8)

    @model_validator(mode="after")
    def _size_needs_embed(self) -> Self:
        if self.size is not None and self.embed is None:
            raise ValueError(f"size goes together with embed, got size = {self.size} alone")
        return self


class Spec(BaseModel):
    """A sweep, checked as a whole; `read_spec` makes it from a file, `from_dict` from plain data.

    >>> spec = Spec.from_dict({"tasks": "digits:8", "betas": [10, 100], "methods": [
    ...     {"method": "vs", "grid": "paper"}, {"method": "ce", "rho": [0.0, 0.1]}]})
    >>> spec.size, spec.runs()[0].settings
    (100, {'omega': 0.5, 'gamma': 0.0, 'tau': 0.0})
    """

    model_config = CLOSED

    name: Text = "sweep"
    tasks: Annotated[tuple[Text, ...], BeforeValidator(_listed), AfterValidator(_distinct_tasks)]
    betas: Annotated[tuple[Beta, ...], BeforeValidator(_listed), Distinct] = (None,)
    seeds: Annotated[tuple[Seed, ...], BeforeValidator(_seeds), Distinct] = (0,)
    validation: float | None = Field(None, strict=True, gt=0, lt=1)
    data: DataSettings = DataSettings()
    features: Features = Features()
    network: dict[str, Any] = Field({"name": None}, validate_default=True)
    recipe: Annotated[dict[str, Any], AfterValidator(read_recipe)] = Field(
        {}, validate_default=True
    )
    methods: tuple[MethodGrid, ...]
    evaluate: dict[str, Number] = {}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Spec":
        """Return the spec of plain data, as TOML or JSON gives them."""
        require(isinstance(values, Mapping), f"a spec must be a table, got {values!r}")
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            raise InputError("; ".join(findings(error, Spec))) from None

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, ready for JSON, that `from_dict` makes the same spec of."""
        plain = self.model_dump(mode="json", exclude={"methods"})
        return plain | self._sources() | {"methods": [grid.to_dict() for grid in self.methods]}

    def _sources(self) -> dict[str, Any]:
        """Return what is told of data and features."""
        return {
            name: getattr(self, name).model_dump(exclude_none=True) for name in ("data", "features")
        }

    @property
    def all_tasks(self) -> tuple[str, ...]:
        """The tasks, with each pair of a source that stands for all of them."""
        return tuple(task for text in self.tasks for task in expanded_task(text))

    @property
    def size(self) -> int:
        """How many runs the sweep has."""
        problems = len(self.all_tasks) * len(self.betas) * len(self.seeds)
        return problems * sum(grid.size for grid in self.methods)

    def runs(self) -> list[PlannedRun]:
        """Return all runs, by task, beta, seed, method and number in this order."""
        shared: dict[str, Any] = {"network": self.network, "validation": self.validation}
        shared |= self._sources()
        points = {seed: self._points(seed) for seed in self.seeds}
        return [
            PlannedRun(task=task, beta=beta, seed=seed, **point, **shared)
            for task in self.all_tasks
            for beta in self.betas
            for seed in self.seeds
            for point in points[seed]
        ]

    def _points(self, seed: int) -> list[dict[str, Any]]:
        """Return what the runs of every task and beta have in common at a seed."""
        changed, points = base_recipe(self.recipe).changed, []
        recipe_of = cache(lambda **change: changed(**change).model_dump(mode="json"))
        for grid in self.methods:
            about: dict[str, Any] = {"label": grid.label, "method": grid.method}
            scored_at = self.evaluate if METHODS[grid.method].scored_at_lambda else {}
            for number, (settings, change) in enumerate(grid.points()):
                drawn = SEED_STRIDE * seed + number
                seeds = {"seed_weights": drawn, "seed_order": seed, "seed_lambda": drawn}
                at = {n: v for n, v in scored_at.items() if isinstance(settings[n], str)}
                recipe = recipe_of(**change) | seeds
                point = {"number": number, "settings": settings, "recipe": recipe, "evaluate": at}
                points.append(about | point)
        return points

    @field_validator("network")
    @classmethod
    def _check_network(cls, network: dict[str, Any], info: ValidationInfo) -> dict[str, Any]:
        options = {"name": None, **network}
        name, weights = options.pop("name"), options.pop("weights", None)
        if weights is not None and not (isinstance(weights, str) and isinstance(name, str)):
            raise InputError(f"weights must be a file for a named network, got {weights!r}")
        if name is None:
            require(not options, f"needs a name to take {', '.join(options)}, got none")
            return {"name": None}
        require_type("name", name, str)
        made = None
        # Those that read weights or packages only a machine that trains must have.
        if not (name.startswith(TIMM) or options.get("pretrained")):
            with torch.device("meta"):  # where building costs no memory
                shape = (8,) if name == "mlp" else (3, 64, 64)
                made = build_network(name, in_shape=shape, **options)
        fits = isinstance(made, MLP) or info.data.get("features", Features()) == Features()
        require(fits, f"must be an mlp when there are [features], got {name!r}")
        return {"name": None, **network}

    @field_validator("methods", mode="plain")
    @classmethod
    def _read_methods(cls, entries: Any, info: ValidationInfo) -> tuple[MethodGrid, ...]:
        tables = isinstance(entries, list | tuple) and entries
        require(tables, f"must be a list of at least one [[methods]] table, got {entries!r}")
        base = base_recipe(info.data["recipe"]) if "recipe" in info.data else None
        grids = []
        with all_findings() as noting:
            for number, entry in enumerate(entries, 1):
                name = entry.get("method", "?") if isinstance(entry, Mapping) else "?"
                with noting(f"number {number} ({name}): "):
                    grids.append(read_method(entry, base))
            with noting():
                require_distinct([grid.label for grid in grids], what="labels")
        return tuple(grids)

    @field_validator("evaluate")
    @classmethod
    def _check_evaluate(cls, evaluate: dict[str, float], info: ValidationInfo) -> dict[str, float]:
        with all_findings() as noting:
            for name, value in evaluate.items():
                with noting():
                    require_lambda(name, value, info.data.get("methods"))
        return evaluate

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        few = self.size <= MOST_RUNS
        require(few, f"a sweep may have {MOST_RUNS:,} runs at most, got {self.size:,}")
        seen: dict[str, str] = {}
        for point in self._points(0) if len(self.methods) > 1 else ():
            label = point.pop("label")  # all else makes the run, the number by its seeds
            other = seen.setdefault(repr(point), label)
            both = f"{other!r} and {label!r} both have {point['method']} with {point['settings']}"
            require(other == label, f"methods must not share a run, but {both}")
        return self


def read_spec(path: str | PathLike[str]) -> Spec:
    """Return the spec of a TOML file; its name is the file's unless it has one.

    All that is wrong is said at once, in one `InputError`.
    """
    try:
        values = tomllib.loads(Path(path).read_bytes().decode("utf-8"))
    except OSError as error:
        raise InputError(f"cannot read the spec {path}: {error.strerror or error}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path} must be a TOML file in UTF-8: {error}") from None
    try:
        return Spec.from_dict({"name": Path(path).stem, **values})
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def comparison_spec(
    source: str,
    *,
    beta: float | None,
    methods: Sequence[str],
    seeds: int,
    n_train: int,
    network: str = "mlp",
    preset: str | None = None,
    changes: dict[str, Any] | None = None,
    data: dict[str, Any] | None = None,
    features: dict[str, Any] | None = None,
) -> Spec:
    """Return the sweep that compares methods: the paper's 48 settings where a method has them.

    Without a `preset`, training is quick, starts FiLM from the identity, and goes through small
    data more often, so that every model takes at least 420 steps. `changes` are settings of the
    recipe.

    >>> spec = comparison_spec("digits:8", beta=100, methods=["vs", "lct"], seeds=5, n_train=819)
    >>> spec.size, spec.recipe["epochs"]
    (480, 60)
    """
    require_whole("seeds", seeds)
    for name in methods:
        require_choice("methods", name, METHODS)
    recipe: dict[str, Any] = {"preset": preset}
    if preset is None:
        steps = -(-n_train // BATCH)
        length = max(LEAST_EPOCHS, -(-LEAST_STEPS // steps))
        recipe = {"preset": "quick", "epochs": length, "batch_size": BATCH}
    return Spec.from_dict(
        {
            "name": "compare",
            "tasks": [source],
            "betas": [beta],
            "seeds": list(range(seeds)),
            "data": data or {},
            "features": features or {},
            "network": {"name": network} | ({"hidden": HIDDEN} if network == "mlp" else {}),
            "recipe": recipe | (changes or {}),
            "methods": [
                {"method": name, **({"grid": "paper"} if METHODS[name].paper else {})}
                for name in methods
            ],
        }
    )
