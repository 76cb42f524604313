"""New rows of a table, or new images, to scores, calls and probabilities in a CSV file."""

import os
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from curvewise.base.errors import InputError
from curvewise.data.cache import broken_text
from curvewise.data.npz import read_samples
from curvewise.data.tables import read_table
from curvewise.data.unseen_images import decoded_batches, find_images
from curvewise.models.saving import load_model
from curvewise.models.scorer import Scorer, make_scorer
from curvewise.tables.encoder import TableEncoder
from curvewise.training.model import Model

Progress = Callable[[str, int, int], None]


def predict(
    inputs: Sequence[Path],
    model_file: Path,
    out: Path,
    *,
    overwrite: bool = False,
    progress: Progress | None = None,
    **settings: Any,
) -> dict[str, Any]:
    """Score a table's rows, image files and folders of them, or an npz file, into a CSV file.

    Which of these it is, is the model's. `settings` are those of `make_scorer`. One row comes
    out for each that goes in; of an image that cannot be read, it says why and has no score.
    Returns a summary, ready for JSON.
    """
    for given in inputs:
        if not given.exists():
            raise InputError(
                f"there is no {given} to predict: give a table, images, or an .npz file"
            )
    if out.is_dir() or any(out.resolve() == path.resolve() for path in (*inputs, model_file)):
        raise InputError(f"--out must be a CSV file of its own, got {out}")
    if out.exists() and not overwrite:
        raise InputError(f"{out} exists: choose another --out, or give --overwrite")
    above = next(place for place in out.resolve().parents if place.exists())
    if not above.is_dir() or not os.access(above, os.W_OK):
        raise InputError(f"--out must be in a folder that can be written to, got {out}")
    scorer = make_scorer(load_model(model_file), **settings)
    if [given.suffix.lower() for given in inputs] == [".npz"]:
        frame = score_arrays(scorer, inputs[0])
    elif len(scorer.model.spec.in_shape) == 3:
        frame = score_images(scorer, find_images(inputs), progress)
    else:
        frame = score_table(scorer, inputs)
    write_csv(frame, out)
    threshold = scorer.threshold
    summary = {
        "rows": len(frame),
        "positive": int(frame["positive"].sum()),
        "threshold": threshold.value if np.isfinite(threshold.value) else None,
        "threshold_from": threshold.origin,
        "out": str(out),
    }
    return summary | ({"unreadable": int((frame["note"] != "").sum())} if "note" in frame else {})


def score_table(scorer: Scorer, inputs: Sequence[Path]) -> pd.DataFrame:
    """Return score, positive, class and perhaps probability of each row of one table."""
    if "encoder" not in scorer.model.preprocessing:
        count, task = scorer.model.spec.in_shape[0], scorer.model.record.get("task", "arrays")
        raise InputError(
            f"this model takes {count} numbers a sample, as {task} has them: give an .npz file "
            "with them as the array x (for images, features by curvewise embed), got "
            f"{', '.join(map(str, inputs))}"
        )
    encoder = table_encoder(scorer.model)
    if len(inputs) != 1 or not inputs[0].is_file():
        names = ", ".join(map(str, inputs)) or "none"
        raise InputError(f"this model predicts one CSV, TSV or Parquet file, got {names}")
    table = read_table(inputs[0])
    features = encoder.transform(table)
    encoder.warn_of_unknown_levels(table)
    return scorer.columns(features)


def score_arrays(scorer: Scorer, file: Path) -> pd.DataFrame:
    """Return row (from 0) and the columns of the scorer for the array x, or x_test, of a file."""
    if "encoder" in scorer.model.preprocessing:
        raise InputError(f"this model predicts one CSV, TSV or Parquet file, got {file}")
    samples, shape = read_samples(file), tuple(scorer.model.spec.in_shape)
    if samples.shape[1:] != shape:
        raise InputError(
            f"this model takes samples of shape {shape}, got {samples.shape[1:]} in {file}"
        )
    frame = scorer.columns(samples)
    frame.insert(0, "row", np.arange(len(frame)))
    return frame


def score_images(
    scorer: Scorer, files: Sequence[Path], progress: Progress | None = None
) -> pd.DataFrame:
    """Return path, the columns of the scorer, and a note on each file that cannot be read.

    Broken files are named in a warning; if no file can be read, that is an `InputError`.
    """
    parts: list[pd.DataFrame] = []
    notes: list[str] = []
    for batch in decoded_batches(files, scorer.model.spec.in_shape):
        rows = [len(notes) + row for row, reason in enumerate(batch.reasons) if not reason]
        if rows:
            parts.append(scorer.columns(batch.pixels).set_axis(rows))
        notes += batch.reasons
        if progress is not None:
            progress("scoring images", len(notes), len(files))
    broken = [(str(file), note) for file, note in zip(files, notes, strict=True) if note]
    if not parts:
        raise InputError(
            f"one image or more must be readable, got {broken_text(broken, len(files))}"
        )
    if broken:
        warnings.warn(f"{broken_text(broken, len(files))}; no score for these", stacklevel=2)
    frame = pd.concat(parts).reindex(range(len(files)))
    frame["positive"] = frame["positive"].astype("Int64")  # so that a gap makes no 1 a 1.0
    frame.insert(0, "path", [str(file) for file in files])
    return frame.assign(note=notes)


def write_csv(frame: pd.DataFrame, out: Path) -> None:
    """Write a table under its name only when it is complete."""
    out.parent.mkdir(parents=True, exist_ok=True)
    part = out.with_name(f".{out.name}.part")
    try:
        frame.to_csv(part, index=False)
        part.replace(out)
    finally:
        part.unlink(missing_ok=True)


def table_encoder(model: Model) -> TableEncoder:
    """Return the encoder of a model that was trained on a table."""
    state = model.preprocessing.get("encoder")
    if state is None:
        task = model.record.get("task", "arrays")
        raise InputError(f"this needs a model that was trained on a table, got one of {task}")
    return TableEncoder.from_dict(state)
