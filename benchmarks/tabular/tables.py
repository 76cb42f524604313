"""Means and ranks over base sets, and their Markdown tables."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from benchmarks.tabular.datasets import BASE_OF, FOLDS
from benchmarks.tabular.measures import expected_calibration_error
from benchmarks.tabular.peers import BLENDS
from benchmarks.tabular.ranking import block_ranks
from benchmarks.tabular.results import MEASURES

LOWER_IS_BETTER = ("brier", "calibration_error")


def common(frame: pd.DataFrame, methods: list[str]) -> pd.DataFrame:
    """Return the cells of folds that all methods have done."""
    frame = frame[frame["method"].isin(methods)]
    done = frame.groupby(["dataset", "fold"])["method"].transform("nunique")
    return frame[done == len(methods)]


def by_dataset(frame: pd.DataFrame, measure: str) -> pd.DataFrame:
    """Return the mean over folds, data sets as rows and methods as columns."""
    if measure == "calibration_error":
        return _pooled_error(frame)
    return frame.pivot_table(index="dataset", columns="method", values=measure, dropna=False)


def all_by_dataset(frame: pd.DataFrame) -> pd.DataFrame:
    """Return every measure's mean over folds, a row for each data set and method."""
    measures = {name: by_dataset(frame, name).stack() for name in MEASURES}
    made = pd.DataFrame(measures).reset_index()
    counted = frame.groupby(["dataset", "method"]).size().rename("folds").reset_index()
    made.insert(1, "base", made["dataset"].map(BASE_OF))
    return made.merge(counted, on=["dataset", "method"]).round(6)


def by_base(values: pd.DataFrame) -> pd.DataFrame:
    """Return the mean over the data sets of each base set."""
    return values.groupby(BASE_OF).mean().rename_axis("base set")


def _pooled_error(frame: pd.DataFrame) -> pd.DataFrame:
    rows = [
        {
            "dataset": dataset,
            "method": method,
            "error": expected_calibration_error(
                np.concatenate(list(cells["y"])), np.concatenate(list(cells["score"]))
            ),
        }
        for (dataset, method, _), cells in frame.groupby(
            ["dataset", "method", frame["fold"] // FOLDS]
        )
    ]
    return pd.DataFrame(rows).pivot_table(index="dataset", columns="method", values="error")


@dataclass(frozen=True)
class Ranked:
    """A measure by base set (higher is better), and each method's mean rank over base sets."""

    values: pd.DataFrame
    mean_ranks: pd.Series


def ranked(frame: pd.DataFrame, measure: str) -> Ranked:
    """Rank the methods on each base set."""
    values = by_base(by_dataset(frame, measure))
    signed = -values if measure in LOWER_IS_BETTER else values
    ranks = block_ranks(signed.to_numpy()).mean(axis=0)
    return Ranked(signed, pd.Series(ranks, index=values.columns))


def areas_table(frame: pd.DataFrame) -> str:
    """Return Markdown: ranks and means of AUC, TPR at low FPR, seconds; best rank first."""
    auc = ranked(frame, "auc")
    sets = by_dataset(frame, "auc").mean()
    lines = [
        "| method | mean rank | AUC | AUC, mean over sets | TPR at 1 % | TPR at 10 % | fit, s "
        "| predict, s |",
        "|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    rates = {name: by_base(by_dataset(frame, name)).mean() for name in ("tpr_at_1", "tpr_at_10")}
    seconds = frame.groupby("method")[["fit_seconds", "predict_seconds"]].median()
    for method, rank in auc.mean_ranks.sort_values(kind="stable").items():
        note = " (blend)" if method in BLENDS else ""
        lines.append(
            f"| {method}{note} | {rank:.2f} | {auc.values[method].mean():.4f} | {sets[method]:.4f} "
            f"| {rates['tpr_at_1'][method]:.3f} | {rates['tpr_at_10'][method]:.3f} "
            f"| {seconds['fit_seconds'][method]:.2f} | {seconds['predict_seconds'][method]:.3f} |"
        )
    return "\n".join(lines)


def probabilities_table(frame: pd.DataFrame) -> str:
    """Return Markdown: Brier score and calibration error of the methods that have probabilities."""
    frame = frame[frame.groupby("method")["brier"].transform("count") > 0]
    brier, error = ranked(frame, "brier"), ranked(frame, "calibration_error")
    lines = [
        "| method | Brier, mean rank | Brier | calibration error, mean rank | calibration error |",
        "|---|--:|--:|--:|--:|",
    ]
    for method, rank in brier.mean_ranks.sort_values(kind="stable").items():
        lines.append(
            f"| {method} | {rank:.2f} | {-brier.values[method].mean():.4f} "
            f"| {error.mean_ranks[method]:.2f} | {-error.values[method].mean():.4f} |"
        )
    return "\n".join(lines)


def values_table(values: pd.DataFrame) -> str:
    """Return Markdown of a table of areas, the best of each row in bold."""
    lines = [
        f"| {values.index.name} | {' | '.join(values.columns)} |",
        "|---|" + "--:|" * values.shape[1],
    ]
    for name, row in values.iterrows():
        best = row.round(4).max()
        cells = [f"**{v:.3f}**" if round(v, 4) == best else f"{v:.3f}" for v in row]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)
