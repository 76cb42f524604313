"""Tables and the critical-difference diagram of what `run` has measured.

A data set counts with the mean over its folds, a base set with the mean over its data sets, and
ranks and tests are over base sets. Only folds that every method has done are used. Calibration
error is that of all test rows of a repeat together: a fold has too few for 15 bins.
"""

import argparse
import sys
from datetime import UTC, datetime
from pathlib import Path

import pandas as pd
from benchmarks._measure import machine
from benchmarks.tabular.datasets import HALVES, names_of_half
from benchmarks.tabular.diagram import draw
from benchmarks.tabular.peers import PARTS, UNRANKED
from benchmarks.tabular.ranking import critical_difference, friedman, pairs
from benchmarks.tabular.results import Results
from benchmarks.tabular.run import STORE
from benchmarks.tabular.tables import (
    Ranked,
    all_by_dataset,
    areas_table,
    by_dataset,
    common,
    probabilities_table,
    ranked,
    values_table,
)

from curvewise.base.errors import InputError


def tests_text(auc: Ranked, ours: str) -> str:
    """Return the Friedman test, the critical difference, and ours against each other method."""
    blocks, count = auc.values.shape
    text = ""
    if blocks >= 2 and count >= 3:
        test = friedman(auc.values.to_numpy())
        text = (
            f"Friedman over {blocks} base sets: chi-square {test.chi_square:.1f}, "
            f"p = {test.p:.2g}; Iman-Davenport F {test.f:.2f}, p = {test.f_p:.2g}. "
            f"Nemenyi critical difference at .05: {critical_difference(count, blocks):.2f} ranks."
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
    lines += [
        f"| {pair.other} | {pair.wins} | {pair.ties} | {pair.losses} "
        f"| {pair.difference:+.4f} | {pair.p:.2g} | {pair.holm_p:.2g} |"
        for pair in pairs(auc.values.to_numpy(), list(auc.values.columns), ours)
    ]
    return "\n".join(lines)


def parts_of_ours(used: pd.DataFrame) -> list[str]:
    """Return what networks and trees do alone, where that was measured."""
    chosen = used[used["method"].isin(PARTS)]
    if chosen["method"].nunique() < len(PARTS):
        return []
    return ["## Networks, trees, and both", areas_table(chosen)]


def page(frame: pd.DataFrame, half: str, ours: str, by_set: bool, command: str) -> str:
    """Return the whole summary of the cells as Markdown."""
    methods = list(dict.fromkeys(frame["method"]))
    used = common(frame, methods)
    if used.empty:
        raise InputError("no fold has been done by every method: leave some out with --methods")
    ranking = used[~used["method"].isin(UNRANKED)]
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
        *parts_of_ours(used),
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
    parser.add_argument("--out", type=Path, help="folder for tables, their data and the diagram")
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
        every = list(dict.fromkeys(frame["method"]))
        all_by_dataset(common(frame, every)).to_csv(chosen.out / "by_dataset.csv", index=False)
        methods = [m for m in every if m not in UNRANKED]
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
