"""How long a sweep will take, from a few steps of each kind of run."""

import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from curvewise.base.machine import one_thread
from curvewise.sweep.plan import PlannedRun, Problem
from curvewise.sweep.planning import Plan
from curvewise.sweep.work import Stack, train_stack
from curvewise.training.batches import steps_per_epoch
from curvewise.training.recipe import Recipe

PROBE_STEPS = 20


def estimated_seconds(plan: Plan, load: Callable[[PlannedRun], Problem], *, workers: int) -> float:
    """Return the seconds that all runs of a plan take in this many workers of one thread.

    One stack of each kind (method, network, features, SAM) is trained for a few steps; it is
    taken that all problems are as large as the first of its kind.
    """
    kinds: dict[str, list[Stack]] = {}
    for stack in plan.stacks:
        run = stack.runs[0]
        kind = repr((run.method, run.network, run.features, run.recipe["rho"] > 0))
        kinds.setdefault(kind, []).append(stack)
    total = 0.0
    for group in kinds.values():
        problem = load(group[0].runs[0])
        step = _seconds_per_step(group[0], problem)
        total += step * sum(_steps(run, problem) for stack in group for run in stack.runs)
    return total / workers


def _seconds_per_step(stack: Stack, problem: Problem) -> float:
    """Return the seconds that one run takes for one step."""
    changes = {"steps": PROBE_STEPS, "epochs": None, "compile": "never"}
    short = Stack(
        tuple(replace(run, recipe={**run.recipe, **changes}) for run in stack.runs),
        stack.identities,
    )
    with one_thread():
        train_stack(short, problem)  # first allocations, imports
        start = time.perf_counter()
        train_stack(short, problem)
        return (time.perf_counter() - start) / PROBE_STEPS / len(stack.runs)


def _steps(run: PlannedRun, problem: Problem) -> int:
    recipe = Recipe(**run.recipe)
    counts = np.bincount(problem.y_train).tolist()
    return recipe.steps or (recipe.epochs or 0) * steps_per_epoch(counts, recipe)
