"""Run a sweep: what is missing, as the executor can, every stack recorded as it ends."""

import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field

from curvewise.base.errors import InputError
from curvewise.base.machine import machine, versions
from curvewise.sweep.executors import Executor, Finished, Job
from curvewise.sweep.plan import PlannedRun, Problem, Result
from curvewise.sweep.planning import Describe, make_plan, problem_key
from curvewise.sweep.spec import Spec
from curvewise.sweep.store import Store
from curvewise.sweep.work import Stack, train_stack

Load = Callable[[PlannedRun], Problem]


@dataclass
class SweepProgress:
    """Where a sweep is: runs done of those it has, and how its methods fare."""

    done: int
    total: int
    failed: int = 0
    diverged: int = 0
    started: float = field(default_factory=time.monotonic)
    at_start: int = 0
    areas: dict[str, list[float]] = field(default_factory=dict)

    @property
    def per_second(self) -> float:
        """Runs finished in a second since the start."""
        return (self.done - self.at_start) / max(time.monotonic() - self.started, 1e-9)

    @property
    def seconds_left(self) -> float:
        """How long the rest will take at this rate; nan before the first run has ended."""
        if self.done == self.at_start:
            return float("nan")
        return (self.total - self.done) / self.per_second

    def best_and_mean(self) -> dict[str, tuple[float, float]]:
        """Best and mean AUC so far by label, of the runs finished since the start."""
        return {label: (max(a), sum(a) / len(a)) for label, a in self.areas.items() if a}


def run_sweep(
    spec: Spec,
    store: Store,
    executor: Executor,
    load: Load,
    describe: Describe,
    *,
    on_progress: Callable[[SweepProgress], None] | None = None,
    on_read: Callable[[int, int], None] | None = None,
) -> SweepProgress:
    """Train what is missing of a sweep into the store.

    A stack of which some runs are missing is trained whole, so that a resumed sweep computes the
    same bits as an undisturbed one; runs that are done stay as they are.
    """
    with store.writing():
        plan = make_plan(spec, describe, on_read=on_read)
        store.add_sweep(spec.name, spec.to_dict(), plan.rows)
        missing = {identity for _, identity, _ in plan.rows}
        missing -= store.finished(missing)
        total = len({identity for _, identity, _ in plan.rows})
        progress = SweepProgress(total - len(missing), total, at_start=total - len(missing))
        waiting = [stack for stack in plan.stacks if missing.intersection(stack.identities)]
        data = {problem_key(stack.runs[0]): stack.runs[0] for stack in waiting}
        fingerprints = plan.fingerprints

        def loaded(key: str) -> Problem:
            run = data[key]
            problem = load(run)
            if problem.fingerprint != fingerprints[key]:
                raise InputError(f"the data of {run.task} changed while the sweep was starting")
            store.add_problem(problem, run.task, run.beta, run.seed)
            return problem

        jobs = [
            Job(number, stack, problem_key(stack.runs[0])) for number, stack in enumerate(waiting)
        ]
        if on_progress is not None:
            on_progress(progress)
        with closing(executor.execute(jobs, train_stack, loaded)) as ends:
            for finished in ends:
                stack = waiting[finished.key]
                results = _results(finished, stack)
                store.record(results, machine(), versions())
                _count(progress, stack, results, missing)
                if on_progress is not None:
                    on_progress(progress)
    return progress


def _results(finished: Finished, stack: Stack) -> list[Result]:
    if finished.error is None:
        outcome: list[Result] = finished.outcome
        return outcome
    return [
        Result(identity, "failed", {}, None, None, 0.0, finished.error)
        for identity in stack.identities
    ]


def _count(
    progress: SweepProgress, stack: Stack, results: Sequence[Result], missing: set[str]
) -> None:
    for run, result in zip(stack.runs, results, strict=True):
        if result.identity not in missing:
            continue
        missing.discard(result.identity)
        if result.state == "failed":
            progress.failed += 1
            continue
        progress.done += 1
        progress.diverged += result.state == "diverged"
        if "auc" in result.metrics:
            progress.areas.setdefault(run.label, []).append(result.metrics["auc"])
