"""Speed of ROC statistics against scikit-learn and numpy, in one run.

Targets
-------
- `auc` of 10 million scores, balanced and 1 % positive: at least 12x faster than
  `sklearn.metrics.roc_auc_score`.
- Stratified bootstrap interval, 2,000 replicates, n = 13,335 with 1,035 positives (the paper's
  melanoma test set): at least 50x faster than the same loop over `roc_auc_score` (timed on 40
  replicates, every one costs the same). Also with tied scores.
- DeLong interval for n = 1,000,000: at most 3x the time of one `np.argsort` of the scores.
"""

import numpy as np
from sklearn.metrics import roc_auc_score

import curvewise as cw
from _measure import Result, cost, faster, interleave, main

QUESTION = "Are exact ROC statistics fast enough for millions of scores?"
CAVEATS = ("The bootstrap's peer is timed on 40 replicates: each costs the same.",)


def sample(n: int, n_positive: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = np.zeros(n, dtype=np.int64)
    y[:n_positive] = 1
    rng.shuffle(y)
    return y, rng.normal(size=n) + 1.5 * y


def area(share: float, name: str) -> Result:
    y, score = sample(10_000_000, int(10_000_000 * share))
    times = interleave(
        {"ours": lambda: cw.auc(y, score), "peer": lambda: roc_auc_score(y, score)}, rounds=3
    )
    assert abs(cw.auc(y, score) - roc_auc_score(y, score)) < 1e-9
    return faster(f"AUC, 10 million scores, {name}", times["ours"], times["peer"], 12)


def bootstrap(decimals: int | None, name: str) -> Result:
    y, score = sample(13_335, 1_035)
    if decimals is not None:
        score = score.round(decimals)
    positives, negatives = np.flatnonzero(y == 1), np.flatnonzero(y == 0)
    rng = np.random.default_rng(1)
    some = 40

    def loop() -> list[float]:
        areas = []
        for _ in range(some):
            rows = np.concatenate(
                [rng.choice(positives, len(positives)), rng.choice(negatives, len(negatives))]
            )
            areas.append(roc_auc_score(y[rows], score[rows]))
        return areas

    times = interleave(
        {
            "ours": lambda: cw.auc_interval(y, score, method="bootstrap", n_replicates=2000),
            "peer": loop,
        },
        rounds=7,
    )
    peer = [seconds * 2000 / some for seconds in times["peer"]]
    return faster(f"bootstrap interval, 2,000 replicates{name}", times["ours"], peer, 50)


def delong(share: float, name: str) -> Result:
    y, score = sample(1_000_000, int(1_000_000 * share))
    times = interleave(
        {"ours": lambda: cw.auc_interval(y, score), "peer": lambda: np.argsort(score)}, rounds=15
    )
    return cost(f"DeLong interval, n = 1,000,000, {name}", times["ours"], times["peer"], 3)


def measure() -> list[Result]:
    return [
        area(0.5, "half positive"),
        area(0.01, "1 % positive"),
        bootstrap(None, ""),
        bootstrap(1, ", heavy ties"),
        delong(0.5, "half positive"),
        delong(0.01, "1 % positive"),
    ]


if __name__ == "__main__":
    main("Speed of ROC statistics", measure, QUESTION, CAVEATS)
