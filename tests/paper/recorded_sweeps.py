"""Sweeps that were never trained: random scores in a store, with a validation part."""

import numpy as np

from curvewise.roc.curve import roc_curve
from curvewise.sweep.plan import Problem, Result
from curvewise.sweep.work import score_metrics

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
        if store.finished([identity]):
            continue  # another sweep's
        if diverged(run):
            results.append(Result(identity, "diverged", {}, None, None, 1.0, "made up"))
            continue
        areas = score_metrics(Y, test)
        areas["validation_auc"] = roc_curve(Y_VALIDATION, kept).auc
        results.append(Result(identity, "done", areas, test, kept, float(rng.uniform(1, 2))))
        scores[identity] = test
    x, x_validation = np.zeros((60, 2), np.float32), np.zeros((16, 2), np.float32)
    validation = {"x_validation": x_validation, "y_validation": Y_VALIDATION}
    for run in {f"{run.task} {run.seed}": run for run in spec.runs()}.values():
        data = f"{run.task} {run.seed}"
        problem = Problem(x, Y, x, Y, data, ("a", "b"), "features", **validation)
        store.add_problem(problem, run.task, 100.0, run.seed)
    store.add_sweep(spec.name, spec.to_dict(), planned)
    store.record(results, "here", {})
    return {identity: store.scores(identity) for identity in scores}
