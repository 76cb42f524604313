"""Run a sweep: what is missing, as the executor can, every stack recorded as it ends.

While it runs it shows how it goes; before, one can ask how long it will take.
"""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass, field, replace

import numpy as np
from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.text import Text

from curvewise.base.errors import InputError
from curvewise.base.machine import machine, torch_threads, versions
from curvewise.sweep.executors import Executor, Job
from curvewise.sweep.plan import PlannedRun, Problem, Result, Stack, make_plan
from curvewise.sweep.spec import Spec
from curvewise.sweep.store import Store
from curvewise.sweep.work import Problems, train_stack
from curvewise.training.batches import steps_per_epoch
from curvewise.training.recipe import Recipe

SECONDS_BETWEEN_LINES = 60.0
PROBE_STEPS = 20


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

    def lines(self) -> Iterator[str]:
        """Yield runs done, their rate and the time left, then each method's AUC so far."""
        parts = [f"{self.done}/{self.total} runs"]
        if (new := self.done - self.at_start) > 0:
            seconds = (time.monotonic() - self.started) / new
            left = duration(seconds * (self.total - self.done))
            parts += [f"{60 / max(seconds, 1e-9):.3g} a minute", f"{left} left"]
        parts += [f"{self.failed} failed"] if self.failed else []
        parts += [f"{self.diverged} diverged"] if self.diverged else []
        yield ", ".join(parts)
        for label, areas in self.areas.items():
            mean = sum(areas) / len(areas)
            yield f"{label}: {len(areas)} runs, best AUC {max(areas):.4f}, mean {mean:.4f}"

    def count(self, stack: Stack, results: Sequence[Result], missing: set[str]) -> None:
        """Count what became of a stack, of which some runs may have been done before."""
        for run, result in zip(stack.runs, results, strict=True):
            if result.identity not in missing:
                continue
            missing.discard(result.identity)
            self.failed += result.state == "failed"
            self.done += result.state != "failed"
            self.diverged += result.state == "diverged"
            if "auc" in result.metrics:
                self.areas.setdefault(run.label, []).append(result.metrics["auc"])


def run_sweep(
    spec: Spec,
    store: Store,
    executor: Executor,
    problems: Problems,
    *,
    on_progress: Callable[[SweepProgress], None] = lambda progress: None,
    on_read: Callable[[int, int], None] = lambda done, total: None,
) -> SweepProgress:
    """Train what is missing of a sweep into the store.

    A stack of which some runs are missing is trained whole, so that a resumed sweep computes the
    same bits as an undisturbed one; runs that are done stay as they are.
    """
    with store.writing():
        rows, stacks = make_plan(spec.runs(), problems.describe, on_read=on_read)
        store.add_sweep(spec.name, spec.to_dict(), rows)
        identities = {identity for _, identity, _ in rows}
        missing = identities - store.finished(identities)
        done = len(identities) - len(missing)
        progress = SweepProgress(done, len(identities), at_start=done)
        waiting = [stack for stack in stacks if missing.intersection(stack.identities)]
        data = {stack.fingerprint: stack.runs[0] for stack in waiting}

        def loaded(fingerprint: str) -> Problem:
            run = data[fingerprint]
            problem = problems.load(run)
            if problem.fingerprint != fingerprint:
                raise InputError(f"the data of {run.task} changed while the sweep was starting")
            store.add_problem(problem, run.task, run.beta, run.seed)
            return problem

        jobs = [Job(n, stack, stack.fingerprint) for n, stack in enumerate(waiting)]
        on_progress(progress)
        with closing(executor.execute(jobs, train_stack, loaded)) as ends:
            for finished in ends:
                stack = waiting[finished.key]
                results = finished.outcome
                if reason := finished.error:
                    results = [Result(i, "failed", message=reason) for i in stack.identities]
                store.record(results, machine(), versions())
                progress.count(stack, results, missing)
                on_progress(progress)
    return progress


def sweep(spec: Spec, store: Store, executor: Executor, problems: Problems) -> SweepProgress:
    """Train what is missing of a sweep, with a bar, or a line a minute without a terminal."""
    try:
        with sweep_bar() as show:
            return run_sweep(spec, store, executor, problems, on_progress=show, on_read=_reading)
    except KeyboardInterrupt:
        kept = "finished runs are kept, the same command goes on with the others"
        print(f"curvewise: stopped; {kept}", file=sys.stderr)
        raise SystemExit(130) from None


def _reading(done: int, total: int) -> None:
    if total > 3 and sys.stderr.isatty():
        end = "\n" if done == total else ""
        print(f"\rreading data {done}/{total}", end=end, file=sys.stderr, flush=True)


@contextmanager
def sweep_bar() -> Iterator[Callable[[SweepProgress], None]]:
    """Show a bar and the progress's lines, or these alone once a minute without a terminal."""
    last = time.monotonic()
    live = Live(console=Console(stderr=True), transient=True) if sys.stderr.isatty() else None

    def show(progress: SweepProgress) -> None:
        nonlocal last
        if live is not None:
            bar = ProgressBar(max(progress.total, 1), progress.done, width=60)
            live.update(Group(*map(Text, progress.lines()), bar))  # a bar ends no line
        elif time.monotonic() - last >= SECONDS_BETWEEN_LINES:
            last = time.monotonic()
            print("; ".join(progress.lines()), file=sys.stderr, flush=True)

    with live or nullcontext():
        yield show


def duration(seconds: float) -> str:
    """Return a length of time for people.

    >>> duration(42), duration(754), duration(9000)
    ('42 s', '13 min', '2.5 h')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def estimated_seconds(
    stacks: Sequence[Stack], load: Callable[[PlannedRun], Problem], *, workers: int
) -> float:
    """Return the seconds that all stacks take in this many workers of one thread.

    One stack of each kind (method, network, features, SAM) is trained for a few steps; it is
    taken that all problems are as large as the first of its kind.
    """
    kinds: dict[str, list[Stack]] = {}
    for stack in stacks:
        run = stack.runs[0]
        kind = repr((run.method, run.network, run.features, run.recipe["rho"] > 0))
        kinds.setdefault(kind, []).append(stack)
    total = 0.0
    for group in kinds.values():
        problem = load(group[0].runs[0])
        counts = np.bincount(problem.y_train).tolist()
        recipes = [Recipe(**run.recipe) for stack in group for run in stack.runs]
        steps = sum(r.steps or (r.epochs or 0) * steps_per_epoch(counts, r) for r in recipes)
        changes = {"steps": PROBE_STEPS, "epochs": None, "compile": "never"}
        runs = tuple(replace(run, recipe={**run.recipe, **changes}) for run in group[0].runs)
        with torch_threads(1):
            for _ in range(2):  # the first time is that of allocations and imports
                start = time.perf_counter()
                train_stack(replace(group[0], runs=runs), problem)
                seconds = time.perf_counter() - start
        total += seconds / PROBE_STEPS / len(runs) * steps
    return total / workers
