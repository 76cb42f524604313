"""What a figure or table of the paper is made of: sweeps, then plain data, then pictures.

Data are collected from the store once and written as CSV; everything that is printed or drawn is
made from those rows alone, so that anybody can do it again without the models.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from curvewise.paper.cells import cells_of
from curvewise.paper.profiles import Profile
from curvewise.stats.cells import Cell
from curvewise.sweep.problems import Problems
from curvewise.sweep.spec import Spec
from curvewise.sweep.store import Record, Store

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Rows = list[dict[str, Any]]
Data = dict[str, Rows]  # by the name of the CSV file


@dataclass(frozen=True)
class Reading:
    """What an experiment collects its data from: the sweeps' results in a store, and the sources.

    `store` is None for experiments without sweeps.
    """

    profile: Profile
    store: Store | None
    problems: Problems

    def cells(self, sweep: str) -> list[Cell]:
        """Return the scores of all models of a sweep, a cell for each task, beta and seed."""
        assert self.store is not None
        return cells_of(self.store, sweep)

    def records(self, sweep: str) -> list[Record]:
        """Return all finished runs of a sweep with their metrics."""
        assert self.store is not None
        return list(self.store.runs(sweep, state="done"))


@dataclass(frozen=True)
class Outcome:
    """What is shown: tables by title, figures by file name, and one honest sentence.

    `verdict` says in numbers whether the paper's claim holds in what was run.
    """

    verdict: str
    tables: Mapping[str, Rows] = field(default_factory=dict)
    figures: "Mapping[str, Figure]" = field(default_factory=dict)


def _no_sweeps(profile: Profile) -> list[Spec]:
    return []


@dataclass(frozen=True)
class Experiment:
    """One figure or table.

    Parameters
    ----------
    name
        As the command knows it: "fig-cifar-bands".
    shows
        One line: what is to be seen.
    published
        One line: what the paper says of it; empty for what goes beyond it.
    collect
        From the finished sweeps to rows by CSV name, plain numbers and texts.
    present
        From such rows (read back from the CSV files) and the profile to what is shown.
    sources
        The data it needs under a profile, as `load_task` names them.
    sweeps
        The specs to be run before; their names must begin with the experiment's.
    """

    name: str
    shows: str
    published: str
    collect: Callable[[Reading], Data]
    present: Callable[[Data, Profile], Outcome]
    sweeps: Callable[[Profile], Sequence[Spec]] = _no_sweeps
    sources: Callable[[Profile], Sequence[str]] | None = None

    def needs(self, profile: Profile) -> list[str]:
        """Return the sources that must be there, each once."""
        if self.sources is not None:
            return list(dict.fromkeys(self.sources(profile)))
        tasks = [task for spec in self.sweeps(profile) for task in spec.tasks]
        return list(dict.fromkeys(task.partition(":")[0] for task in tasks))
