"""From a store's records to the cells that tables and figures are made of."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from curvewise.stats.cells import Cell
from curvewise.sweep.store import Record, Store


def cells_of(store: Store, sweep: int | str) -> list[Cell]:
    """Return a cell for each task, beta and seed of a sweep, its finished models by label."""
    groups: dict[tuple[str, float | None, int], list[Record]] = {}
    for record in store.runs(sweep):
        place = (record.run.task, record.run.beta, record.run.seed)
        groups.setdefault(place, []).append(record)
    return [_cell(store, place, records) for place, records in groups.items()]


def _cell(store: Store, place: tuple[str, float | None, int], records: list[Record]) -> Cell:
    labels = dict.fromkeys(record.run.label for record in records)
    done = {
        label: [r for r in records if r.run.label == label and r.state == "done"]
        for label in labels
    }
    fingerprint = records[0].fingerprint
    problem = store.problem(fingerprint)
    return Cell(
        *place,
        y=np.asarray(store.labels(fingerprint)),
        scores={
            label: store.score_matrix([r.identity for r in own])
            for label, own in done.items()
            if own
        },
        settings={label: [r.run.settings for r in own] for label, own in done.items() if own},
        diverged={
            label: sum(r.run.label == label and r.state == "diverged" for r in records)
            for label in labels
        },
        n_train=sum(problem.class_counts),
    )


def models_of(cells: Sequence[Cell]) -> pd.DataFrame:
    """Return the models of cells as a frame, with their labels `y` and their `score`."""
    rows = []
    for cell in cells:
        place = {"task": cell.task, "beta": cell.beta, "seed": cell.seed}
        sizes = {"n_train": cell.n_train, "n_test": cell.n_test}
        for method, areas in cell.areas.items():
            for area, score in zip(areas, np.asarray(cell.scores[method]), strict=True):
                known = {"method": method, "auc": area, "y": cell.y, "score": score}
                rows.append({**place, **sizes, **known})
    return pd.DataFrame(rows).astype({"beta": float})
