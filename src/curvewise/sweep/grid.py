"""One method of a sweep with its grid: every value a scalar or a list, the runs their product."""

import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import product
from math import prod
from typing import Any, get_args

from curvewise.base.errors import InputError, did_you_mean, require_choice, require_number
from curvewise.losses.registry import (
    FAMILY,
    METHODS,
    Setting,
    foreign_setting,
    needs_density,
    normal_setting,
    parse_setting,
)
from curvewise.training.recipe import Recipe, preset

MOST_RUNS = 1_000_000
MOST_REPEATS = 1_000
DEFAULT_PRESET = "quick"
# Everything in a recipe but the seeds, which a sweep sets itself.
RECIPE_SETTINGS = tuple(name for name in Recipe.model_fields if not name.startswith("seed_"))


@dataclass(frozen=True)
class MethodGrid:
    """A method, its label, and lists of settings of its own and of the recipe.

    Points are numbered with the last list running fastest. Lists are in the order of the method's
    settings, then of the recipe's, whatever the order they came in, so that a point keeps its
    number, and with it its seeds, when lines are moved. With `repeats` every combination of
    settings is that many points in a row, which differ in their seeds alone.
    """

    method: str
    label: str
    settings: dict[str, tuple[Setting, ...]]
    recipe: dict[str, tuple[Any, ...]]
    repeats: int = 1

    @property
    def size(self) -> int:
        """How many points the grid has, repeats included."""
        lists = (*self.settings.values(), *self.recipe.values())
        return self.repeats * prod(len(values) for values in lists)

    def points(self) -> Iterator[tuple[dict[str, Setting], dict[str, Any]]]:
        """Yield the settings of each point, its own and its changes to the recipe."""
        changes = list(_combinations(self.recipe))
        for settings in _combinations(self.settings):
            for change in changes:
                for _ in range(self.repeats):
                    yield settings, change

    def shared_point(self, other: "MethodGrid", base: Recipe) -> dict[str, Any] | None:
        """Return a point that another grid has too, under the same number; None if there is none.

        Both would be the same run, for the number gives the seeds.
        """
        if self.method != other.method:
            return None
        for (settings, change), (others, its) in zip(self.points(), other.points(), strict=False):
            if settings == others and base.changed(**change) == base.changed(**its):
                return {**settings, **change}
        return None

    def to_dict(self) -> dict[str, Any]:
        """Return the plain data that `read_method` makes it from."""
        lists = {**self.settings, **self.recipe}
        return {
            "method": self.method,
            "label": self.label,
            **({} if self.repeats == 1 else {"repeats": self.repeats}),
            **{name: [_plain(value) for value in values] for name, values in lists.items()},
        }


def read_method(given: Any, base: Recipe | None) -> MethodGrid:
    """Return a method's grid from plain data; all that is wrong is in one error.

    `base` is the recipe that its changes are made to; None leaves out the check of that.

    >>> grid = read_method({"method": "vs", "omega": [0.5, 0.9], "tau": 2, "repeats": 3}, None)
    >>> grid.size, grid.label, grid.settings["tau"]
    (6, 'VS', (2.0,))
    """
    if not isinstance(given, Mapping):
        raise InputError(f"must be a table with a method, got {given!r}")
    if "method" not in given:
        raise InputError(f"must name a method, one of {', '.join(METHODS)}, got {dict(given)}")
    method = METHODS[require_choice("method", given["method"], METHODS)]
    findings: list[str] = []
    label = given.get("label", method.label)
    if not isinstance(label, str) or not label.strip():
        findings.append(f"label must be a text, got {label!r}")
    repeats = given.get("repeats", 1)
    if type(repeats) is not int or not 1 <= repeats <= MOST_REPEATS:
        findings.append(f"repeats must be a whole number in [1, {MOST_REPEATS}], got {repeats!r}")
        repeats = 1
    own_words = ("method", "label", "grid", "repeats")
    lists = {name: value for name, value in given.items() if name not in own_words}
    if "grid" in given:
        findings += _paper_lists(method.name, given["grid"], lists)
    own = {name: lists.pop(name, default) for name, default in method.settings.items()}
    settings = {
        name: _values(name, value, findings, partial(normal_setting, method.name, name))
        for name, value in own.items()
    }
    for name, values in settings.items():
        twice = [value for value, count in Counter(values).items() if count > 1]
        findings += [f"values of {name} must differ, got {value!r} twice" for value in twice]
    recipe = _recipe_lists(method.name, lists, findings)
    grid = MethodGrid(method.name, label, settings, recipe, repeats)
    if method.draws and not findings:
        fixed = {n: [v for v in values if not isinstance(v, str)] for n, values in settings.items()}
        if all(fixed.values()):  # then some point has a number for each
            findings.append(needs_density(method.name, {n: v[0] for n, v in fixed.items()}))
    if grid.size > MOST_RUNS:
        findings.append(f"a grid may have {MOST_RUNS:,} points at most, got {grid.size:,}")
    elif base is not None:
        findings += _unfit_changes(base, recipe)
    if findings:
        raise InputError("; ".join(findings))
    return grid


def read_recipe(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the plain data of `base_recipe` in one form, once they are known to make a recipe."""
    findings = [wrong for name in given if (wrong := _foreign(name)) and name != "preset"]
    values = {name: normal_recipe_value(name, value) for name, value in given.items()}
    try:
        base_recipe({n: value for n, value in values.items() if n == "preset" or not _foreign(n)})
    except InputError as error:
        findings.append(str(error).removeprefix("recipe: "))
    if findings:
        raise InputError("; ".join(findings))
    return {"preset": DEFAULT_PRESET, **values}


def base_recipe(given: Mapping[str, Any]) -> Recipe:
    """Return the recipe of plain data: a preset ("quick" unless named) with changes."""
    changes = {name: normal_recipe_value(name, value) for name, value in given.items()}
    return preset(changes.pop("preset", DEFAULT_PRESET), **changes)


def normal_recipe_value(name: str, value: Any) -> Any:
    """Return None for "none" where a recipe takes None, since TOML has no word for it."""
    field = Recipe.model_fields.get(name)
    optional = field is not None and type(None) in get_args(field.annotation)
    if optional and value == "none":
        return None
    return tuple(value) if isinstance(value, list) else value


def _foreign(name: str) -> str | None:
    """Return what is wrong with a name as a setting of the recipe, None if nothing is."""
    if name in RECIPE_SETTINGS:
        return None
    if name in Recipe.model_fields:
        return f"{name} follows from the sweep's seeds, so it cannot be set"
    return f"{name!r} is no setting{did_you_mean(name, RECIPE_SETTINGS)}"


def unfit_lambda(name: str, value: float, grids: Iterable[MethodGrid] | None) -> str | None:
    """Return what is wrong with an entry of lambda; warn of one outside the trained range."""
    if name not in FAMILY:
        return f"{name!r} is no entry of lambda{did_you_mean(name, FAMILY)}"
    try:
        require_number(name, value, 0, 1 if name == "omega" else float("inf"))
    except InputError as error:
        return str(error)
    if grids is None:
        return None
    conditioned = [grid for grid in grids if METHODS[grid.method].scored_at_lambda]
    texts = {text for grid in conditioned for text in grid.settings[name] if isinstance(text, str)}
    for text in sorted(texts):
        density: Any = parse_setting(name, text)
        if not density.low <= value <= density.high:
            warnings.warn(f"evaluate: {name} = {value:g} is outside {text}", stacklevel=2)
    return None if texts else f"{name} is given, but no method with FiLM draws it"


def _paper_lists(method: str, grid: Any, lists: dict[str, Any]) -> list[str]:
    """Put the paper's lists among `lists`; return what is wrong with that."""
    paper = METHODS[method].paper
    if paper is None:
        having = ", ".join(made.name for made in METHODS.values() if made.paper)
        return [f"grid is for {having}; {method} has none"]
    if grid != "paper":
        return [f'grid must be "paper", got {grid!r}']
    twice = [name for name in paper if name in lists]
    lists.update({name: list(values) for name, values in paper.items() if name not in twice})
    return [f"{name} is in the paper's grid, so it must not be given beside it" for name in twice]


def _values(
    name: str, value: Any, findings: list[str], read: Callable[[Any], Any]
) -> tuple[Any, ...]:
    """Return a scalar or a list as a tuple of checked values."""
    values: list[Any] = []
    for one in value if isinstance(value, list | tuple) else [value]:
        try:
            values.append(read(one))
        except InputError as error:
            findings.append(str(error))
    if isinstance(value, list | tuple) and not value:
        findings.append(f"{name} must list at least one value, got []")
    return tuple(values)


def _recipe_lists(
    method: str, lists: Mapping[str, Any], findings: list[str]
) -> dict[str, tuple[Any, ...]]:
    """Return the lists of the recipe's settings in its order."""
    others = (*RECIPE_SETTINGS, "repeats")
    for name in lists:
        if wrong := _foreign(name):
            known = name in Recipe.model_fields
            findings.append(wrong if known else foreign_setting(method, name, others))
    recipe = {}
    for name in RECIPE_SETTINGS:
        if name not in lists:
            continue
        value = lists[name]
        if name == "milestones" and not _nested(value):
            value = [value]  # one list of epochs is one value
        recipe[name] = _values(name, value, findings, partial(normal_recipe_value, name))
    return recipe


def _nested(value: Any) -> bool:
    return isinstance(value, list | tuple) and any(isinstance(v, list | tuple) for v in value)


def _unfit_changes(base: Recipe, recipe: Mapping[str, tuple[Any, ...]]) -> list[str]:
    """Return what is wrong with the recipes of a grid, each thing once."""
    wrong: dict[str, None] = {}
    seen: set[Recipe] = set()
    for change in _combinations(recipe):
        try:
            made = base.changed(**change)
        except InputError as error:
            wrong |= dict.fromkeys(str(error).removeprefix("recipe: ").split("; "))
            continue
        if made in seen:
            told = ", ".join(f"{name} = {_plain(value)}" for name, value in change.items())
            wrong[f"recipes of a grid must differ, got {told} twice"] = None
        seen.add(made)
    return list(wrong)


def _combinations(lists: Mapping[str, tuple[Any, ...]]) -> Iterator[dict[str, Any]]:
    for values in product(*lists.values()):
        yield dict(zip(lists, values, strict=True))


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
