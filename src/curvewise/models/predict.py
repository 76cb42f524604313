"""A trained model asked: what it says of new samples, at one lambda or at several."""

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from curvewise.base.errors import InputError, require, require_open
from curvewise.base.files import whole_file
from curvewise.data.image_files import broken_text, decoded_batches, find_images
from curvewise.data.reading import read_samples, read_table
from curvewise.data.tables import stored_encoder
from curvewise.data.task import Progress, arrays_digest
from curvewise.losses.family import LossFamily
from curvewise.losses.landscape import calibrated_log_odds, calibrated_probability
from curvewise.models.evaluate import MeasuredPart
from curvewise.models.operating import find_threshold, trained_point
from curvewise.models.saving import load_model
from curvewise.training.model import Model, logits_at

LEVELS = 7  # of the paper's range of tau, 0 to 3: every half


class Scorer:
    """A model at one lambda (1, d), with the threshold of its calls.

    All that is wrong with its settings is said before any work. A sample is called positive if its
    score reaches `threshold`, or the one of a `rule` (max_fpr or min_tpr) on the model's test part;
    without either, what training chose, or 0 (the paper's t = 0.5). `prior` is the share of
    positives to expect in calibrated probabilities.
    """

    def __init__(
        self,
        model: Model,
        *,
        tau: float | None = None,
        threshold: float | None = None,
        rule: dict[str, float] | None = None,
        calibrated: bool = False,
        prior: float | None = None,
    ) -> None:
        n_classes = len(model.class_names)
        require(n_classes == 2, f"predict needs a model of two classes, got {n_classes}")
        if prior is not None:
            sentence = f"--prior is for probabilities: give --calibrated too, got {prior:g} alone"
            require(calibrated, sentence)
            require_open("prior", prior, 0, 1)
        self.model, self.prior = model, prior
        self.lam = model.lam(**({} if tau is None else {"tau": tau}))
        self.threshold, self.origin = find_threshold(model, self.lam, threshold, rule)
        self.calibration = model.calibration(self.lam[0]) if calibrated else None
        if calibrated and getattr(model.objective, "reduction", "") == "weighted_mean":
            warnings.warn(
                "this model's probabilities are biased, by training with the reduction "
                "weighted_mean; to trust them, train with --reduction expected_mean",
                stacklevel=2,
            )

    def columns(self, x: NDArray[Any]) -> pd.DataFrame:
        """Return score (z1 - z0), positive (0 or 1), class and perhaps probability of samples."""
        network, scale = self.model.network, self.model.normalization
        logits = logits_at(network, x, self.lam, normalization=scale)[0]
        # As float64, so that a file has all the digits, and comparing them gives these calls.
        score = (logits[:, 1] - logits[:, 0]).numpy().astype(np.float64)
        called = score >= self.threshold
        negative, positive = self.model.class_names
        columns: dict[str, Any] = {
            "score": score,
            "positive": called.astype(int),
            "class": np.where(called, positive, negative),
        }
        if self.calibration is not None:
            probability = calibrated_probability(logits, prior=self.prior, **self.calibration)
            columns["probability"] = probability.numpy()
        return pd.DataFrame(columns)


def predict(
    inputs: Sequence[Path],
    model_file: Path,
    out: Path,
    *,
    progress: Progress | None = None,
    **settings: Any,
) -> dict[str, Any]:
    """Score a table's rows, image files and folders of them, or an npz file, into a CSV file.

    Which of these it is, is the model's. `settings` are those of `Scorer`. One row comes
    out for each that goes in; of an image that cannot be read, it says why and has no score.
    Returns a summary, ready for JSON.
    """
    scorer = Scorer(load_model(model_file), **settings)
    model, names = scorer.model, ", ".join(map(str, inputs)) or "none"
    arrays = [path.suffix.lower() for path in inputs] == [".npz"]
    if "encoder" in model.preprocessing:
        fits = len(inputs) == 1 and inputs[0].is_file() and not arrays
        require(fits, f"this model predicts one CSV, TSV or Parquet file, got {names}")
        frame = score_table(scorer, inputs[0])
    elif arrays:
        frame = score_arrays(scorer, inputs[0])
    elif len(model.spec.in_shape) == 3:
        frame = score_images(scorer, find_images(inputs), progress)
    else:
        raise InputError(
            f"this model takes {model.spec.in_shape[0]} numbers a sample, as "
            f"{model.record.get('task', 'arrays')} has them: give an .npz file with them as the "
            f"array x (for images, features by curvewise embed), got {names}"
        )
    out.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(out) as unfinished:
        frame.to_csv(unfinished, index=False)
    summary = {
        "rows": len(frame),
        "positive": int(frame["positive"].sum()),
        "threshold": scorer.threshold if np.isfinite(scorer.threshold) else None,
        "threshold_from": scorer.origin,
        "out": str(out),
    }
    return summary | ({"unreadable": int((frame["note"] != "").sum())} if "note" in frame else {})


def score_table(scorer: Scorer, file: Path) -> pd.DataFrame:
    """Return score, positive, class and perhaps probability of each row of a table."""
    encoder = stored_encoder(scorer.model.preprocessing, scorer.model.record)
    table = read_table(file)
    features = encoder.transform(table)
    encoder.warn_of_unknown_levels(table)
    return scorer.columns(features)


def score_arrays(scorer: Scorer, file: Path) -> pd.DataFrame:
    """Return row (from 0) and the columns of the scorer for the array x, or x_test, of a file."""
    samples, shape = read_samples(file), tuple(scorer.model.spec.in_shape)
    sentence = f"this model takes samples of shape {shape}, got {samples.shape[1:]} in {file}"
    require(samples.shape[1:] == shape, sentence)
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
    for pixels, reasons in decoded_batches(files, scorer.model.spec.in_shape):
        rows = [len(notes) + row for row, reason in enumerate(reasons) if not reason]
        if rows:
            parts.append(scorer.columns(pixels).set_axis(rows))
        notes += reasons
        if progress is not None:
            progress("scoring images", len(notes), len(files))
    broken = [(str(file), note) for file, note in zip(files, notes, strict=True) if note]
    text = broken_text(broken, len(files))
    require(parts, f"one image or more must be readable, got {text}")
    if broken:
        warnings.warn(f"{text}; no score for these", stacklevel=2)
    frame = pd.concat(parts).reindex(range(len(files)))
    frame["positive"] = frame["positive"].astype("Int64")  # so that a gap makes no 1 a 1.0
    frame.insert(0, "path", [str(file) for file in files])
    return frame.assign(note=notes)


class Levels:
    """A model on a part at several lambda: values of what is `varied`, the rest at its top.

    These are seven of tau, if that was drawn, or of what is `chosen`: one value to begin with, by
    default the top. A model that was trained with nothing drawn is scored once.

    Scores are (n_values, n), calibrated log-odds (n,) for each value, None where there are none.
    `start` is the place of the value that was asked for, `own` that of the lambda for which train
    chose an operating point, if it is among them.
    """

    def __init__(self, model: Model, part: MeasuredPart, **chosen: float) -> None:
        n_classes, objective = len(model.class_names), model.objective
        require(n_classes == 2, f"a report needs two classes, got {n_classes} of the model")
        self.model, self.part = model, part
        ranges = dict(zip(objective.drawn, getattr(objective, "ranges", ()), strict=True))
        self.varied: str | None = None
        self.values, lams = [0.0], model.lam()
        if ranges:
            varied = "tau" if "tau" in ranges else next(iter(ranges))
            self.varied = varied = next(iter(chosen), varied)
            low, high = ranges[varied]
            spread = {round(float(value), 6) for value in np.linspace(low, high, LEVELS)}
            self.values = sorted(spread | set(chosen.values()))
            lams = torch.cat([model.lam(**{varied: value}) for value in self.values])
        self.start = self.values.index(next(iter(chosen.values()), max(self.values)))
        self.own = _own_level(model, lams)
        logits = logits_at(model.network, part.x, lams, normalization=model.normalization)
        if self.own is not None:  # to the last bit as predict scores: its threshold is one of these
            logits[self.own] = model.logits(part.x)
        self.scores: NDArray[Any] = (logits[..., 1] - logits[..., 0]).numpy()
        pairs = zip(logits, lams, strict=True)
        self.log_odds = [_corrected(model, *pair, part.y) for pair in pairs]

    @property
    def label(self) -> str:
        """Name the method, as tables and figures do."""
        if isinstance(self.model.objective, LossFamily):
            return "VS + LCT" if self.model.objective.drawn else "VS"
        return type(self.model.objective).__name__

    @property
    def on_test_part(self) -> bool:
        """Tell whether the samples are the very test part of the model's training."""
        return bool(self.model.record.get("test_digest") == arrays_digest(self.part.x, self.part.y))


def _own_level(model: Model, lams: torch.Tensor) -> int | None:
    """Return which of lams (n_lambda, d) is that of the point that train chose, if any is."""
    point = trained_point(model)
    if point is None:
        return None
    at = torch.tensor([float(point["lambda"][name]) for name in model.objective.drawn])
    same = (k for k, lam in enumerate(lams) if torch.allclose(lam.cpu(), at.to(lam), atol=1e-5))
    return next(same, None)


def _corrected(
    model: Model, logits: torch.Tensor, lam: torch.Tensor, y: NDArray[np.int64]
) -> NDArray[Any] | None:
    """Return calibrated log-odds at the share of positives among y, None where there are none."""
    try:
        settings = model.calibration(lam)
        return calibrated_log_odds(logits, prior=float(np.mean(y == 1)), **settings).numpy()
    except InputError:  # another loss, or a class without weight, which has no probability
        return None
