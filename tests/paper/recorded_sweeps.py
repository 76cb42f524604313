"""Sweeps that were never trained: random scores in a store, with a validation part."""

import numpy as np

from curvewise.roc.curve import roc_curve
from curvewise.sweep.plan import Problem, Result

Y = np.repeat([0, 1], 30)
Y_VALIDATION = np.repeat([0, 1], [12, 4])


def record_sweep(store, spec, *, diverged=lambda run: False, seed=0):
    """Plan all runs of a spec and record scores for each; return them by identity.

    Stronger models, by chance, are stronger on both parts. Runs that the store has from another
    sweep keep what they have.
    """
    rng, planned, results, scores = np.random.default_rng(seed), [], [], {}
    for run in spec.runs():
        fingerprint = f"{run.task} {run.seed}"
        identity = run.identity(fingerprint)
        planned.append((run, identity, fingerprint))
        strength = rng.uniform(0.3, 2)
        test, kept = (
            (strength * y + rng.normal(0, 1, len(y))).astype(np.float32) for y in (Y, Y_VALIDATION)
        )
        if diverged(run):
            results.append(Result(identity, "diverged", {}, None, None, 1.0, "made up"))
            continue
        areas = {"auc": roc_curve(Y, test).auc, "validation_auc": roc_curve(Y_VALIDATION, kept).auc}
        results.append(Result(identity, "done", areas, test, kept, float(rng.uniform(1, 2))))
        scores[identity] = test
    x, x_validation = np.zeros((60, 2), np.float32), np.zeros((16, 2), np.float32)
    for task in spec.all_tasks:
        problem = Problem(x, Y, x, Y, f"{task} 0", ("a", "b"), "features", None, x_validation,
                          Y_VALIDATION)  # fmt: skip
        store.add_problem(problem, task, 100.0, 0)
    store.add_sweep(spec.name, spec.to_dict(), planned)
    store.record(results, "here", {})
    return {identity: store.scores(identity) for identity in scores}
