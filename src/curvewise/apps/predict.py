"""New rows of a table to scores, calls and probabilities."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from curvewise.artifacts import load
from curvewise.data.tables import binary_labels, group_names, read_table, split_labels
from curvewise.errors import InputError, did_you_mean, require_number
from curvewise.tabular import TableEncoder, column_levels
from curvewise.training.model import Model


def predict_table(
    table: Path,
    model_file: Path,
    out: Path,
    *,
    tau: float | None = None,
    max_fpr: float | None = None,
    calibrated: bool = False,
    prior: float | None = None,
) -> dict[str, Any]:
    """Write a CSV with one row a row: score (z1 - z0), call, and with `calibrated` probability.

    A row is called positive if its score reaches the threshold: 0 (the paper's t = 0.5), or with
    `max_fpr` the one of the highest TPR with that FPR on the model's test part.
    """
    if not table.is_file():
        raise InputError(f"there is no table {table} to predict; give a CSV, TSV or Parquet file")
    model = load(model_file)
    x = table_encoder(model).transform(read_table(table))
    at = {} if tau is None else {"tau": tau}
    threshold = 0.0
    if max_fpr is not None:
        if at and model.lam(**at).tolist() != model.lam().tolist():
            raise InputError("--max-fpr knows thresholds at the model's own lambda, got --tau too")
        threshold = _threshold(model, require_number("max_fpr", max_fpr, 0, 1))
    score = model.scores(x, **at)
    called = score.astype(np.float64) >= threshold
    columns: dict[str, Any] = {
        "score": score,
        "positive": called.astype(int),
        "class": np.where(called, model.class_names[1], model.class_names[0]),
    }
    if calibrated or prior is not None:
        columns["probability"] = model.probabilities(x, prior=prior, **at)
    out.parent.mkdir(parents=True, exist_ok=True)
    part = out.with_name(f".{out.name}.part")
    pd.DataFrame(columns).to_csv(part, index=False)
    part.replace(out)
    return {
        "rows": len(x),
        "positive": int(called.sum()),
        "threshold": threshold if np.isfinite(threshold) else None,
        "out": str(out),
    }


def table_encoder(model: Model) -> TableEncoder:
    """Return the encoder of a model that was trained on a table."""
    state = model.preprocessing.get("encoder")
    if state is None:
        raise InputError(f"this model was trained on {model.record.get('task')}, not on a table")
    return TableEncoder.from_dict(state)


def labelled_rows(
    model: Model, table: Path, *, target: str | None, seed: int, all_rows: bool
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return encoded features and labels of a table: its test part by seed, or all of its rows."""
    frame = read_table(table)
    column = target or str(model.preprocessing.get("target"))
    if column not in frame.columns:
        raise InputError(
            f"--target must be a column of {table.name}, got {column!r}"
            f"{did_you_mean(column, frame.columns)}"
        )
    frame = frame[column_levels(frame[column])[0] >= 0]
    y, _ = binary_labels(frame[column], model.class_names[1], f"target {column!r}")
    if not all_rows:
        group = model.preprocessing.get("group")
        groups = None if group is None else group_names(frame[group])
        _, rows = split_labels(y, seed=seed, groups=groups)
        frame, y = frame.iloc[rows], y[rows]
    return table_encoder(model).transform(frame), y


def _threshold(model: Model, max_fpr: float) -> float:
    """Return the threshold of the highest TPR with FPR <= max_fpr on the model's test part."""
    corners = model.record["test_roc"]
    allowed = int(np.searchsorted(corners["fpr"], max_fpr, side="right"))
    best = int(np.argmax(corners["tpr"][:allowed]))
    # The first corner calls nothing positive: its threshold is +inf, which JSON does not have.
    return float("inf") if best == 0 else float(corners["thresholds"][best])
