"""From a spec to a plan: identities of its runs, and the stacks they are trained in."""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from curvewise.base.errors import InputError
from curvewise.losses.registry import structure
from curvewise.sweep.plan import PlannedRun
from curvewise.sweep.spec import Spec
from curvewise.sweep.work import Stack
from curvewise.training.stacked import OWN

STACK_LIMIT = 48  # members of a stack of MLPs; other networks train one by one on a CPU


@dataclass(frozen=True)
class ProblemInfo:
    """What must be known of a problem before anything is trained on it."""

    fingerprint: str
    kind: str


Describe = Callable[[PlannedRun], ProblemInfo]


@dataclass(frozen=True)
class Plan:
    """The runs of a sweep, each with its identity and its data's fingerprint, and its stacks."""

    rows: list[tuple[PlannedRun, str, str]]
    stacks: list[Stack]

    @property
    def fingerprints(self) -> dict[str, str]:
        """Fingerprints of the data by `problem_key`."""
        return {problem_key(run): fingerprint for run, _, fingerprint in self.rows}


def problem_key(run: PlannedRun) -> str:
    """Return a text that runs on the same data share."""
    parts = (run.task, run.beta, run.seed, run.features, run.validation, run.data)
    return repr((*parts, run.network.get("weights")))


def make_plan(
    spec: Spec, describe: Describe, *, on_read: Callable[[int, int], None] | None = None
) -> Plan:
    """Return the plan of a spec; its stacks depend on the spec and the data alone.

    `describe` reads a run's data; `on_read(done, total)` counts the problems.
    """
    runs = spec.runs()
    problems = {problem_key(run): run for run in runs}
    known: dict[str, ProblemInfo] = {}
    for number, (key, run) in enumerate(problems.items(), 1):
        known[key] = describe(run)
        if on_read is not None:
            on_read(number, len(problems))
    prints = [known[problem_key(run)].fingerprint for run in runs]
    rows = [(run, run.identity(p), p) for run, p in zip(runs, prints, strict=True)]
    identities = {id(run): identity for run, identity, _ in rows}
    together: list[PlannedRun] = []
    alone: list[PlannedRun] = []
    for run in runs:
        stackable = run.network.get("name") or known[problem_key(run)].kind
        (together if stackable in ("mlp", "features") else alone).append(run)
    groups = [*stacks(together, STACK_LIMIT), *stacks(alone, 1)]
    order = {id(run): number for number, run in enumerate(runs)}
    groups.sort(key=lambda group: order[id(group[0])])
    return Plan(rows, [Stack(g, tuple(identities[id(run)] for run in g)) for g in groups])


def stacks(runs: Iterable[PlannedRun], limit: int) -> list[tuple[PlannedRun, ...]]:
    """Group runs that can be trained as one program, at most `limit` in each, in their order.

    Runs of a stack share task, beta, seed, network and the structure of the objective, and the
    recipe up to learning rate, weight decay and the seeds of weights and lambda. The stacks
    depend on the runs alone, so pass all of a spec's, not only those still to be done.
    """
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
        raise InputError(f"limit must be a whole number of at least 1, got {limit!r}")
    groups: dict[str, list[PlannedRun]] = {}
    for run in runs:
        groups.setdefault(_shared(run), []).append(run)
    return [
        tuple(group[start : start + limit])
        for group in groups.values()
        for start in range(0, len(group), limit)
    ]


def _shared(run: PlannedRun) -> str:
    """Return a text of all that the runs of a stack have in common."""
    own = {"label", "method", "settings", "number"}
    shared: dict[str, Any] = {name: v for name, v in vars(run).items() if name not in own}
    shared["recipe"] = {name: v for name, v in run.recipe.items() if name not in OWN}
    shared["structure"] = structure(run.method, run.settings)
    return json.dumps(shared, sort_keys=True)
