"""One method of a sweep with its grid: every value a scalar or a list, the runs their product."""

import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from itertools import product
from math import inf, prod
from typing import Any, get_args

from curvewise.base.errors import (
    InputError,
    did_you_mean,
    require,
    require_choice,
    require_number,
)
from curvewise.losses.registry import (
    FAMILY,
    METHODS,
    Method,
    Setting,
    foreign_setting,
    normal_setting,
    normal_settings,
    parse_setting,
)
from curvewise.training.recipe import Recipe, preset

MOST_RUNS = 1_000_000
MOST_REPEATS = 1_000
DEFAULT_PRESET = "quick"
Noting = Callable[..., AbstractContextManager[None]]
# Everything in a recipe but the seeds, which a sweep sets itself.
RECIPE_SETTINGS = tuple(name for name in Recipe.model_fields if not name.startswith("seed_"))


@contextmanager
def all_findings() -> Iterator[Noting]:
    """Give a block's parts a way to go on after what they refuse; raise it all at the end."""
    texts: dict[str, None] = {}

    @contextmanager
    def noting(about: str = "") -> Iterator[None]:
        try:
            yield
        except InputError as error:
            texts[about + str(error).removeprefix("recipe: ")] = None

    yield noting
    require(not texts, "; ".join(texts))


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
    lists: dict[str, tuple[Any, ...]]
    repeats: int = 1

    @property
    def size(self) -> int:
        """How many points the grid has, repeats included."""
        return self.repeats * prod(map(len, self.lists.values()))

    def points(self) -> Iterator[tuple[dict[str, Setting], dict[str, Any]]]:
        """Yield the settings of each point, its own and its changes to the recipe."""
        for values in product(*self.lists.values()):
            change = dict(zip(self.lists, values, strict=True))
            settings = {name: change.pop(name) for name in METHODS[self.method].settings}
            for _ in range(self.repeats):
                yield settings, change

    def to_dict(self) -> dict[str, Any]:
        """Return the plain data that `read_method` makes it from."""
        return {
            "method": self.method,
            "label": self.label,
            **({} if self.repeats == 1 else {"repeats": self.repeats}),
            **{name: list(values) for name, values in self.lists.items()},
        }


def read_method(entry: Any, base: Recipe | None) -> MethodGrid:
    """Return a method's grid from plain data; all that is wrong is in one error.

    `base` is the recipe that its changes are made to; None leaves out the check of that.

    >>> grid = read_method({"method": "vs", "omega": [0.5, 0.9], "tau": 2, "repeats": 3}, None)
    >>> grid.size, grid.label, grid.lists["tau"]
    (6, 'VS', (2.0,))
    """
    require(isinstance(entry, Mapping), f"must be a table with a method, got {entry!r}")
    given = dict(entry)
    method = METHODS[require_choice("method", given.pop("method", None), METHODS)]
    label, repeats = given.pop("label", method.label), given.pop("repeats", 1)
    with all_findings() as noting:
        with noting():
            text = isinstance(label, str) and label.strip()
            require(text, f"label must be a text, got {label!r}")
        with noting():
            fits = type(repeats) is int and 1 <= repeats <= MOST_REPEATS
            bounds = f"a whole number in [1, {MOST_REPEATS}]"
            require(fits, f"repeats must be {bounds}, got {repeats!r}")
        if "grid" in given:
            with noting():
                given |= _paper_lists(method, given.pop("grid"), given)
        known, given = (*method.settings, *RECIPE_SETTINGS), {**method.settings, **given}
        lists = {n: _values(method, n, given[n], noting) for n in known if n in given}
        for name in [name for name in given if name not in lists]:
            with noting():
                _require_free(name)
                raise InputError(foreign_setting(method.name, name, (*RECIPE_SETTINGS, "repeats")))
    # Of each the first number, if there is one: the point that may lack a density.
    least = {n: min(lists[n], key=lambda value: isinstance(value, str)) for n in method.settings}
    normal_settings(method.name, least)
    grid = MethodGrid(method.name, label, lists, repeats)
    few = grid.size <= MOST_RUNS
    require(few, f"a grid may have {MOST_RUNS:,} points at most, got {grid.size:,}")
    if base is not None:
        _require_recipes(base, grid)
    return grid


def read_recipe(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the plain data of `base_recipe` in one form, once they are known to make a recipe."""
    with all_findings() as noting:
        for name in given:
            with noting():
                _require_free(name)
        with noting():
            base_recipe(given)
    values = {name: _normal(name, value) for name, value in given.items()}
    return {"preset": DEFAULT_PRESET, **values}


def base_recipe(given: Mapping[str, Any]) -> Recipe:
    """Return the recipe of plain data: a preset ("quick" unless named) with changes."""
    changes = {name: _normal(name, value) for name, value in given.items()}
    return preset(changes.pop("preset", DEFAULT_PRESET), **changes)


def _normal(name: str, value: Any) -> Any:
    """Return None for "none" where a recipe takes None, since TOML has no word for it."""
    field = Recipe.model_fields.get(name)
    if value == "none" and field is not None and type(None) in get_args(field.annotation):
        return None
    return tuple(value) if isinstance(value, list) else value


def require_distinct(values: Collection[Any], *, what: str = "") -> Collection[Any]:
    """Return the values, none of which may be there twice."""
    for value, times in Counter(values).items():
        require(times == 1, f"{what} must differ, got {value!r} twice".lstrip())
    return values


def require_lambda(name: str, value: float, grids: Iterable[MethodGrid] | None) -> None:
    """Raise for an entry of lambda that fits no grid; warn of one outside the trained range."""
    require(name in FAMILY, f"{name!r} is no entry of lambda{did_you_mean(name, FAMILY)}")
    require_number(name, value, 0, 1 if name == "omega" else inf)
    if grids is None:
        return
    conditioned = [grid for grid in grids if METHODS[grid.method].scored_at_lambda]
    texts = {text for grid in conditioned for text in grid.lists[name] if isinstance(text, str)}
    require(texts, f"{name} is given, but no method with FiLM draws it")
    for text in sorted(texts):
        density: Any = parse_setting(name, text)
        if not density.low <= value <= density.high:
            warnings.warn(f"evaluate: {name} = {value:g} is outside {text}", stacklevel=2)


def _paper_lists(method: Method, word: Any, others: Mapping[str, Any]) -> dict[str, Any]:
    """Return the paper's lists, none of which may be given beside it."""
    having = ", ".join(known.name for known in METHODS.values() if known.paper)
    require(method.paper, f"grid is for {having}; {method.name} has none")
    require(word == "paper", f'grid must be "paper", got {word!r}')
    for name in method.paper or {}:
        require(name not in others, f"{name} is in the paper's grid, so it cannot stand beside it")
    return dict(method.paper or {})


def _values(method: Method, name: str, value: Any, noting: Noting) -> tuple[Any, ...]:
    """Return a scalar or a list, for a setting of the method or the recipe, as checked values."""
    nested = isinstance(value, list) and any(isinstance(one, list | tuple) for one in value)
    if name == "milestones" and not nested:
        value = [value]  # one list of epochs is one value
    own, values = name in method.settings, []
    with noting():
        require(value not in ([], ()), f"{name} must list at least one value, got []")
    for one in value if isinstance(value, list | tuple) else [value]:
        with noting():
            values.append(normal_setting(method.name, name, one) if own else _normal(name, one))
    if own:
        with noting():
            require_distinct(values, what=f"values of {name}")
    return tuple(values)


def _require_free(name: str) -> None:
    own = name in Recipe.model_fields and name not in RECIPE_SETTINGS
    require(not own, f"{name} follows from the sweep's seeds, so it cannot be set")


def _require_recipes(base: Recipe, grid: MethodGrid) -> None:
    """Raise for recipes of a grid that cannot be, or are equal."""
    seen = set()
    with all_findings() as noting:
        for change in {repr(change): change for _, change in grid.points()}.values():
            with noting():
                changed = base.changed(**change)
                words = ", ".join(f"{name} = {value}" for name, value in change.items())
                require(changed not in seen, f"recipes of a grid must differ, got {words} twice")
                seen.add(changed)
