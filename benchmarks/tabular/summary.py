"""Tables and the critical-difference diagram of what `run` has measured.

A data set counts with the mean over its folds, a base set with the mean over its data sets, and
ranks and tests are over base sets. Only folds that every method has done are used. Calibration
error is that of all test rows of a repeat together: a fold has too few for 15 bins.
"""

import argparse
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pandas as pd
from benchmarks._measure import machine
from benchmarks.tabular.datasets import BASE_OF, FOLDS, HALVES, names_of_half
from benchmarks.tabular.diagram import draw
from benchmarks.tabular.measures import expected_calibration_error
from benchmarks.tabular.peers import BLENDS, FOR_PROBABILITIES
from benchmarks.tabular.ranking import block_ranks, critical_difference, friedman, pairs
from benchmarks.tabular.results import Results
from benchmarks.tabular.run import STORE

from curvewise.errors import InputError

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


def by_base(values: pd.DataFrame) -> pd.DataFrame:
    """Return the mean over the data sets of each base set."""
    return values.groupby(BASE_OF).mean()


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
        "| method | mean rank | AUC | AUC, mean over sets | TPR at 1 % | TPR at 10 % | fit | predict |",
        "|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    rates = {name: by_base(by_dataset(frame, name)).mean() for name in ("tpr_at_1", "tpr_at_10")}
    seconds = frame.groupby("method")[["fit_seconds", "predict_seconds"]].median()
    for method, rank in auc.mean_ranks.sort_values(kind="stable").items():
        note = " (blend)" if method in BLENDS else ""
        lines.append(
            f"| {method}{note} | {rank:.2f} | {auc.values[method].mean():.4f} | {sets[method]:.4f} "
            f"| {rates['tpr_at_1'][method]:.3f} | {rates['tpr_at_10'][method]:.3f} "
            f"| {seconds['fit_seconds'][method]:.2f} s | {seconds['predict_seconds'][method]:.3f} s |"
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
        f"| {values.index.name or 'base set'} | {' | '.join(values.columns)} |",
        "|---|" + "--:|" * values.shape[1],
    ]
    for name, row in values.iterrows():
        best = row.round(4).max()
        cells = [f"**{v:.3f}**" if round(v, 4) == best else f"{v:.3f}" for v in row]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def tests_text(auc: Ranked, ours: str) -> str:
    """Return the Friedman test, the critical difference, and ours against each other method."""
    blocks, count = auc.values.shape
    text = ""
    if blocks >= 2 and count >= 3:
        test = friedman(auc.values.to_numpy())
        text = (
            f"Friedman over {blocks} base sets: chi-square {test.chi_square:.1f}, p = {test.p:.2g}; "
            f"Iman-Davenport F {test.f:.2f}, p = {test.f_p:.2g}. Nemenyi critical difference at "
            f".05: {critical_difference(count, blocks):.2f} ranks."
        )
    if ours not in auc.values or count < 2:
        return text
    lines = [
        text,
        "",
        f"{ours} against each (Wilcoxon signed ranks over {blocks} base sets; the smallest p "
        f"possible is {min(1.0, 2 / 2**blocks):.2g}, after Holm's correction for {count - 1} "
        f"comparisons {min(1.0, (count - 1) * 2 / 2**blocks):.2g}):",
        "",
        "| against | wins | ties | losses | mean difference | p | Holm |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]
    for pair in pairs(auc.values.to_numpy(), list(auc.values.columns), ours):
        lines.append(
            f"| {pair.other} | {pair.wins} | {pair.ties} | {pair.losses} "
            f"| {pair.difference:+.4f} | {pair.p:.2g} | {pair.holm_p:.2g} |"
        )
    return "\n".join(lines)


def page(frame: pd.DataFrame, half: str, ours: str, by_set: bool, command: str) -> str:
    """Return the whole summary of the cells as Markdown."""
    methods = list(dict.fromkeys(frame["method"]))
    used = common(frame, methods)
    if used.empty:
        raise InputError("no fold has been done by every method: leave some out with --methods")
    ranking = used[~used["method"].isin(FOR_PROBABILITIES)]
    auc = ranked(ranking, "auc")
    sets = used["dataset"].nunique()
    folds_used = used.drop_duplicates(["dataset", "fold"]).shape[0]
    parts = [
        f"# Classifiers for a rare class: KEEL tables, {half} half",
        f"`{command}`, {datetime.now(UTC):%Y-%m-%d}; measured at "
        f"{', '.join(sorted(set(used['revision'])))}. {machine()}; each fit had one thread. {sets} "
        f"of {len(names_of_half(half))} data sets in {len(auc.values)} base sets, {folds_used} "
        f"folds that all {len(methods)} methods have done ({len(frame) - len(used)} fits unused). "
        "AUC, TPR and ranks are means over base sets, seconds medians over fits.",
        areas_table(ranking),
        tests_text(auc, ours),
        "## Probabilities",
        probabilities_table(used),
        "## AUC by base set",
        values_table(auc.values),
    ]
    if by_set:
        parts += ["## AUC by data set", values_table(by_dataset(ranking, "auc"))]
    return "\n\n".join(part for part in parts if part) + "\n"


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tabular.summary")
    parser.add_argument("--half", choices=HALVES, default="dev")
    parser.add_argument("--methods", nargs="+", help="those to compare; all stored unless given")
    parser.add_argument(
        "--ours", default="lct", help="the method that the others are tested against"
    )
    parser.add_argument("--by-set", action="store_true", help="also a table by data set")
    parser.add_argument("--store", type=Path, default=STORE)
    parser.add_argument("--out", type=Path, help="folder for summary.md and the diagram")
    chosen = parser.parse_args(arguments)
    if not chosen.store.is_file():
        raise InputError(f"--store must be a file that run has written, got {chosen.store}")
    with Results(chosen.store) as results:
        frame = results.frame(names_of_half(chosen.half))
    if chosen.methods:
        frame = frame[frame["method"].isin(chosen.methods)]
    command = " ".join(["python -m benchmarks.tabular.summary", *(arguments or sys.argv[1:])])
    text = page(frame, chosen.half, chosen.ours, chosen.by_set, command)
    print(text)
    if chosen.out:
        chosen.out.mkdir(parents=True, exist_ok=True)
        (chosen.out / "summary.md").write_text(text, encoding="utf-8")
        methods = [m for m in dict.fromkeys(frame["method"]) if m not in FOR_PROBABILITIES]
        auc = ranked(common(frame, methods), "auc")
        draw(
            list(auc.values.columns),
            auc.mean_ranks.to_numpy(),
            critical_difference(auc.values.shape[1], len(auc.values)),
            chosen.out / "critical_difference.png",
            ours=chosen.ours,
            title=f"Mean rank of AUC over {len(auc.values)} base sets",
        )


if __name__ == "__main__":
    try:
        main()
    except InputError as error:
        sys.exit(f"error: {error}")
