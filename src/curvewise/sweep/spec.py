"""`Spec`: a sweep as one TOML file, tasks x betas x seeds x methods and their grids, to runs."""

import tomllib
from collections.abc import Mapping
from itertools import combinations
from os import PathLike
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from curvewise.base.errors import InputError, did_you_mean
from curvewise.losses.registry import METHODS
from curvewise.sweep.grid import (
    MOST_RUNS,
    MethodGrid,
    base_recipe,
    read_method,
    read_recipe,
    unfit_lambda,
)
from curvewise.sweep.plan import PlannedRun
from curvewise.sweep.spec import (
    DataSettings,
    Features,
    expanded_task,
    listed,
    require_distinct,
    require_network,
    seed_list,
)

SEED_STRIDE = 10_000  # seeds of weights and lambda are this times the seed, plus the number


class Spec(BaseModel):
    """A sweep, checked as a whole; `read_spec` makes it from a file, `from_dict` from plain data.

    >>> spec = Spec.from_dict({"tasks": "digits:8", "betas": [10, 100], "methods": [
    ...     {"method": "vs", "grid": "paper"}, {"method": "ce", "rho": [0.0, 0.1]}]})
    >>> spec.size, spec.runs()[0].settings
    (100, {'omega': 0.5, 'gamma': 0.0, 'tau': 0.0})
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    name: str = Field("sweep", strict=True, min_length=1)
    tasks: Annotated[
        tuple[Annotated[str, Field(strict=True, min_length=1)], ...], BeforeValidator(listed)
    ]
    betas: Annotated[
        tuple[Annotated[float | None, Field(strict=True, ge=1)], ...], BeforeValidator(listed)
    ] = (None,)
    seeds: Annotated[
        tuple[Annotated[int, Field(strict=True, ge=0, le=10**9)], ...], BeforeValidator(seed_list)
    ] = (0,)
    validation: float | None = Field(None, strict=True, gt=0, lt=1)
    data: DataSettings = DataSettings()
    features: Features = Features()
    network: dict[str, Any] = Field({"name": None}, validate_default=True)
    recipe: dict[str, Any] = Field({}, validate_default=True)
    methods: tuple[MethodGrid, ...]
    evaluate: dict[str, Annotated[float, Field(strict=True)]] = {}

    def __init__(self, **given: Any) -> None:
        try:
            super().__init__(**given)
        except ValidationError as error:
            raise InputError(_sentence(error)) from None

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> "Spec":
        """Return the spec of plain data, as TOML or JSON gives them."""
        if not isinstance(given, Mapping):
            raise InputError(f"a spec must be a table, got {given!r}")
        return cls(**{str(key): value for key, value in given.items()})

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, ready for JSON, that `from_dict` makes the same spec of."""
        plain = self.model_dump(mode="json", exclude={"methods"})
        plain["data"] = self.data.model_dump(exclude_none=True)
        plain["features"] = self.features.model_dump(exclude_none=True)
        plain["methods"] = [grid.to_dict() for grid in self.methods]
        return plain

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
        shared: dict[str, Any] = {
            "network": self.network,
            "features": self.features.model_dump(exclude_none=True),
            "validation": self.validation,
            "data": self.data.model_dump(exclude_none=True),
        }
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
        base = base_recipe(self.recipe)
        found = []
        for grid in self.methods:
            recipes: dict[str, dict[str, Any]] = {}
            for number, (settings, change) in enumerate(grid.points()):
                key = repr(change)
                if key not in recipes:
                    recipes[key] = base.changed(**change).model_dump(mode="json")
                own = SEED_STRIDE * seed + number
                seeds = {"seed_weights": own, "seed_order": seed, "seed_lambda": own}
                found.append(
                    {
                        "label": grid.label,
                        "method": grid.method,
                        "settings": settings,
                        "recipe": {**recipes[key], **seeds},
                        "evaluate": self._evaluated_at(grid.method, settings),
                        "number": number,
                    }
                )
        return found

    def _evaluated_at(self, method: str, settings: Mapping[str, Any]) -> dict[str, float]:
        """Return the part of `evaluate` that changes what a run is scored at."""
        if not METHODS[method].scored_at_lambda:
            return {}
        return {n: v for n, v in self.evaluate.items() if isinstance(settings[n], str)}

    @field_validator("tasks")
    @classmethod
    def _check_tasks(cls, tasks: tuple[str, ...]) -> tuple[str, ...]:
        require_distinct(task for text in tasks for task in expanded_task(text))
        return tasks

    @field_validator("betas", "seeds")
    @classmethod
    def _checkrequire_distinct(cls, values: tuple[Any, ...]) -> tuple[Any, ...]:
        require_distinct(values)
        return values

    @field_validator("network")
    @classmethod
    def _check_network(cls, network: dict[str, Any], info: ValidationInfo) -> dict[str, Any]:
        features = info.data.get("features", Features())
        given = {"name": None, **network}
        require_network(given, on_features=features != Features())
        return given

    @field_validator("recipe")
    @classmethod
    def _check_recipe(cls, recipe: dict[str, Any]) -> dict[str, Any]:
        return read_recipe(recipe)

    @field_validator("methods", mode="plain")
    @classmethod
    def _read_methods(cls, given: Any, info: ValidationInfo) -> tuple[MethodGrid, ...]:
        if not isinstance(given, list | tuple) or not given:
            raise ValueError(f"must be a list of at least one [[methods]] table, got {given!r}")
        base = base_recipe(info.data["recipe"]) if "recipe" in info.data else None
        grids, findings = [], []
        for number, entry in enumerate(given, 1):
            try:
                grids.append(read_method(entry, base))
            except InputError as error:
                name = entry.get("method", "?") if isinstance(entry, Mapping) else "?"
                findings.append(f"number {number} ({name}): {error}")
        labels = [grid.label for grid in grids]
        findings += [
            f"labels must differ, got {label!r} twice; give each its own label"
            for label in dict.fromkeys(label for label in labels if labels.count(label) > 1)
        ]
        if findings:
            raise ValueError("; ".join(findings))
        return tuple(grids)

    @field_validator("evaluate")
    @classmethod
    def _check_evaluate(cls, evaluate: dict[str, float], info: ValidationInfo) -> dict[str, float]:
        findings = [
            finding
            for name, value in evaluate.items()
            if (finding := unfit_lambda(name, value, info.data.get("methods")))
        ]
        if findings:
            raise ValueError("; ".join(findings))
        return evaluate

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.size > MOST_RUNS:
            raise ValueError(f"a sweep may have {MOST_RUNS:,} runs at most, got {self.size:,}")
        base = base_recipe(self.recipe)
        for first, second in combinations(self.methods, 2):
            shared = first.shared_point(second, base)
            if shared is not None:
                raise ValueError(
                    f"methods must not share a run, but {first.label!r} and {second.label!r} "
                    f"both have {first.method} with {shared}"
                )
        return self


def read_spec(path: str | PathLike[str]) -> Spec:
    """Return the spec of a TOML file; its name is the file's unless it has one.

    All that is wrong is said at once, in one `InputError`.
    """
    try:
        text = Path(path).read_bytes().decode("utf-8")
        given = tomllib.loads(text)
    except OSError as error:
        raise InputError(f"cannot read the spec {path}: {error.strerror or error}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path} must be a TOML file in UTF-8: {error}") from None
    try:
        return Spec.from_dict({"name": Path(path).stem, **given})
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def _sentence(error: ValidationError) -> str:
    """Return all of pydantic's findings in one sentence of ours."""
    sections: dict[str, type[BaseModel]] = {"data": DataSettings, "features": Features}
    findings = []
    for detail in error.errors():
        place = [str(part) for part in detail["loc"]]
        name = ".".join(place)
        message = detail["msg"].removeprefix("Value error, ").removeprefix("recipe: ")
        if detail["type"] == "extra_forbidden":
            known = list(sections.get(place[0], Spec).model_fields)
            findings.append(f"{name!r} is no setting{did_you_mean(place[-1], known)}")
        elif detail["type"] == "missing":
            findings.append(f"{name} must be given")
        elif detail["type"] == "value_error":
            findings.append(f"{name}: {message}" if name else message)
        else:
            requirement = message.replace("Input should", "must").replace("String should", "must")
            findings.append(f"{name} {requirement}, got {detail['input']!r}")
    return "; ".join(findings)
