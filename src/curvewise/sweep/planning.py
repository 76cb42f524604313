"""From a spec to a plan: identities of its runs, and the stacks they are trained in."""

from collections.abc import Callable
from dataclasses import dataclass

from curvewise.sweep.plan import PlannedRun
from curvewise.sweep.spec import Spec, stacks
from curvewise.sweep.work import Stack

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
