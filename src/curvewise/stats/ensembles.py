"""Many models as one score: how good it is, which method's is better, and how many it takes.

Frames of models (`stats.areas`) have here the columns `y` and `score` too: arrays (n,) of labels,
which the models of a cell share, and of scores.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from curvewise.roc.curve import auc
from curvewise.roc.interval import auc_interval, compare_auc
from curvewise.roc.metrics import ensemble_score
from curvewise.stats.areas import CELL, DECIMALS

SIZES = (1, 2, 4, 8, 16, 32, 48)
LEVEL = 0.95


def ensembles(models: pd.DataFrame, by: Sequence[str] = ()) -> pd.DataFrame:
    """Return one row for each cell, method and value of `by`: y and the score of all its models.

    Models that diverged are left out; `areas` (k,) are the AUCs of the others.
    """
    there = models[models["auc"].notna()]
    groups = there.groupby([*CELL, "method", *by], sort=False, dropna=False)
    joined = groups.agg(y=("y", "first"), score=("score", joined_score), areas=("auc", list))
    return joined.reset_index()


def joined_score(scores: "pd.Series[Any]") -> Any:
    """Return the scores of models, each (n,), as one."""
    return ensemble_score(np.stack(scores.to_list()))


def with_ensembles(models: pd.DataFrame, method: str, name: str, by: Sequence[str]) -> pd.DataFrame:
    """Return the models and one more method: ensembles of those of a method that agree in `by`.

    Each score is the mean of the standardised scores of the models with the same `by`; such a
    group may lack models that diverged.

    >>> models = pd.DataFrame({"task": "a", "beta": 9.0, "seed": 0, "method": "VS", "auc": 0.875,
    ...     "omega": 0.5, "y": [[0, 0, 1, 1]] * 2, "score": [[1, 2, 3, 2], [2, 1, 2, 3]]})
    >>> with_ensembles(models, "VS", "both", ["omega"])["auc"].tolist()
    [0.875, 0.875, 1.0]
    """
    more = ensembles(models[models["method"] == method], by)
    more["auc"] = [auc(y, score) for y, score in zip(more["y"], more["score"], strict=True)]
    return pd.concat([models, more.drop(columns="areas").assign(method=name)], ignore_index=True)


def ensemble_areas(models: pd.DataFrame) -> pd.DataFrame:
    """Return AUC of each cell and method's models as one score, beside that of the single ones.

    `low` and `high` are its interval, `interval` names how that was found, and `beats` counts the
    models whose AUC is lower.
    """
    rows = []
    for cell in ensembles(models).to_dict("records"):
        areas, found = np.array(cell["areas"]), auc_interval(cell["y"], cell["score"], LEVEL)
        row = {name: cell[name] for name in (*CELL, "method")}
        row |= {"models": len(areas), "auc": found.auc, "low": found.low, "high": found.high}
        beats = int((areas.round(DECIMALS) < round(found.auc, DECIMALS)).sum())
        row |= {"level": LEVEL, "interval": found.method, "beats": beats}
        rows.append(row | {"best_model": areas.max(), "mean_model": areas.mean()})
    return pd.DataFrame(rows)


def ensemble_differences(models: pd.DataFrame, a: str, b: str) -> pd.DataFrame:
    """Compare the ensembles of two methods in each cell that has both (DeLong, paired).

    `difference` is AUC of b less that of a; `test` is "delong", or "hoeffding" where DeLong's
    variance says nothing.
    """
    joined = ensembles(models)
    first, second = (joined[joined["method"] == name] for name in (a, b))
    rows = []
    for cell in first.merge(second, on=CELL, suffixes=("", " of b")).to_dict("records"):
        found = compare_auc(cell["y"], cell["score of b"], cell["score"], level=LEVEL)
        row = {**{name: cell[name] for name in CELL}, "a": a, "b": b}
        row |= {"difference": found.difference, "low": found.low, "high": found.high}
        rows.append(row | {"level": LEVEL, "z": found.z, "p": found.p, "test": found.method})
    return pd.DataFrame(rows)


def ensemble_growth(
    y: ArrayLike,
    scores: ArrayLike,
    validation: ArrayLike,
    seconds: ArrayLike,
    *,
    sizes: Sequence[int] = SIZES,
    orders: int = 20,
) -> pd.DataFrame:
    """Put K models in random orders and follow what the first few of each give.

    Of each there are the scores (K, n) for the test labels (n,), its AUC on the validation part and
    its training time (K,). `sizes` are numbers of members; those above K are left out, K is there
    in any case.

    A row has `order`, `members`, the AUC of the mean of their standardised scores (`ensemble`), of
    the one with the highest validation AUC (`chosen`), the highest test AUC, which nobody can
    choose without looking at the test set (`oracle`), and the `seconds` that training them took.

    >>> found = ensemble_growth([0, 0, 1, 1], [[1, 2, 3, 2], [2, 1, 2, 3]], [0.9, 0.8], [1, 1])
    >>> found.iloc[1].to_list()
    [0.0, 2.0, 1.0, 0.875, 0.875, 2.0]
    """
    members, kept, times = np.asarray(scores), np.asarray(validation), np.asarray(seconds)
    areas = np.array([auc(y, score) for score in members])
    counts = sorted({*(size for size in sizes if size < len(members)), len(members)})
    generator, rows = np.random.default_rng(0), []
    for number in range(orders):
        order = generator.permutation(len(members))
        for count in counts:
            first = order[:count]
            row: dict[str, Any] = {"order": number, "members": count}
            row["ensemble"] = auc(y, ensemble_score(members[first]))
            row["chosen"] = areas[first[np.argmax(kept[first])]]
            row["oracle"] = areas[first].max()
            rows.append(row | {"seconds": times[first].sum()})
    return pd.DataFrame(rows)
