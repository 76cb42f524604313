"""Made-up results: data that train in no time, and the AUC of models that were never trained."""

import numpy as np

from curvewise.sweep.plan import Problem
from curvewise.sweep.planning import ProblemInfo

MAJORITY = 240


class MadeUpProblems:
    """Two overlapping clouds in place of every source; the rare one has MAJORITY / beta samples."""

    def describe(self, run):
        return ProblemInfo(f"{run.task} {run.beta} {run.seed}", "features")

    def load(self, run):
        rare = int(MAJORITY / (run.beta or 12))
        train, test = (self._part(run, part, n) for part, n in ((0, max(rare, 1)), (1, 30)))
        return Problem(*train, *test, self.describe(run).fingerprint, ("no", "yes"), "features")

    def _part(self, run, part, rare):
        rng = np.random.default_rng([run.seed, part, len(run.task)])
        y = np.r_[np.zeros(MAJORITY, np.int64), np.ones(rare, np.int64)]
        return (rng.normal(size=(len(y), 3)) + y[:, None]).astype(np.float32), y


def area_rows_of(areas, task="cifar10:cat/dog", beta=100, seed=0):
    """Return the rows of a CSV file for areas by method; None is a model that diverged."""
    return [
        {"task": task, "beta": beta, "seed": seed, "method": method}
        | {"omega": 0.5, "gamma": 0, "tau": 1, "auc": auc}
        for method, values in areas.items()
        for auc in values
    ]
