"""Has training settled? AUC on validation after two lengths of it, and what is left of a gain."""

from typing import Any

import numpy as np

from curvewise.paper.controls import DRAWN, FILM, FOUR, LCT, VS
from curvewise.paper.experiment import Rows

ARMS = {VS: "vs", FILM: "constant-film", DRAWN: "unconditioned", LCT: "lct"}
VALIDATION = 0.25  # of the training data, for seeing whether training has settled
FLAT = 0.005  # a change of AUC on validation, averaged over settings and seeds


def flat_table(shorter: Rows, longer: Rows, epochs: tuple[int, int]) -> Rows:
    """Return a row for each method: AUC on validation and test after either number of epochs."""
    table: Rows = []
    for method in (*ARMS, FOUR):
        row: dict[str, Any] = {"method": method}
        for part, column in (("validation", "validation_auc"), ("test", "auc")):
            first, second = (_by_task(rows, method, column) for rows in (shorter, longer))
            tasks = [task for task in first if task in second]
            change = np.array([second[task] - first[task] for task in tasks])
            for number, values in zip(epochs, (first, second), strict=True):
                row[f"{part}, {number}"] = (
                    float(np.mean([values[task] for task in tasks])) if tasks else None
                )
            row[f"{part}, change"] = float(change.mean()) if tasks else None
            if part == "validation":
                settled = int((np.abs(change) <= FLAT).sum())
                row["pairs settled"] = f"{settled} of {len(tasks)}" if tasks else None
                fell = int((change < -FLAT).sum())
                row["pairs that fell"] = f"{fell} of {len(tasks)}" if tasks else None
        table.append(row)
    return table


def _by_task(rows: Rows, method: str, column: str) -> dict[str, float]:
    """Return the mean of a column over settings and seeds, task by task."""
    found: dict[str, list[float]] = {}
    for row in rows:
        if row["method"] == method and row[column] is not None:
            found.setdefault(row["task"], []).append(row[column])
    return {task: float(np.mean(values)) for task, values in found.items()}


def verdict(flat: Rows, tests: Rows, control: Rows, epochs: tuple[int, int]) -> str:
    """Say what more training changes, and what LCT gains over VS when it is at its end."""

    def gains(rows: Rows) -> str:
        return "; ".join(f"after {number} epochs {_gains(rows, number)}" for number in epochs)

    arms = [row for row in flat if row["validation, change"] is not None]
    told = "; ".join(
        f"{row['method']} {row['validation, change']:+.4f} (settled on {row['pairs settled']})"
        for row in arms
    )
    moved = [row["method"] for row in arms if abs(row["validation, change"]) > FLAT]
    state = f"not flat for {'; '.join(moved)}" if moved else "flat for all arms"
    return (
        f"From {epochs[0]} to {epochs[1]} epochs AUC on validation, averaged over pairs, is "
        f"{state} (within {FLAT:g}): {told}. LCT less VS on the test part: {gains(tests)}."
        + (f" Beside VS at tau > 0 alone: {gains(control)}." if control else "")
    )


def _gains(tests: Rows, epochs: int) -> str:
    return ", ".join(
        f"{row['AUC']} {row['difference']:+.4f} (better on {row['better']} of {row['pairs']})"
        for row in tests
        if row["epochs"] == epochs and row["method"] == LCT
    )
