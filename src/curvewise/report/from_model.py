"""A model file as a page: its scores on a test part, at several lambda if it knows them."""

import json
import math
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from curvewise.base.errors import InputError
from curvewise.data.task import arrays_digest
from curvewise.losses.family import LossFamily
from curvewise.losses.landscape import calibrated_log_odds
from curvewise.models.evaluate import MeasuredPart
from curvewise.models.thresholds import rule_text, threshold_text
from curvewise.report.page_input import CopyTexts, OwnPoint, PageInput, PageModel
from curvewise.training.model import Model
from curvewise.training.scoring import logits_at

LEVELS = 7  # of the paper's range of tau, 0 to 3: every half
PYTHON = """import curvewise as cw
from curvewise.models.evaluate import measured_part

model = cw.load({file})
x, y, _ = measured_part(model, {source}{options})  # or samples of your own, prepared alike
score = model.scores(x{{at}})
print(cw.operating_point(y, score, {{threshold}}, prevalence={{prevalence}}))
"""


def model_input(
    model: Model,
    file: Path,
    source: str,
    part: MeasuredPart,
    *,
    chosen: dict[str, float] | None = None,
    options: dict[str, Any] | None = None,
    command: str = "",
) -> PageInput:
    """Return what the page shows of a model on the samples of a source.

    A model that was trained over a family is scored at seven values of what was drawn (tau, if
    that was), the others at the top of their ranges; `chosen` (a value of it) is the one that the
    page begins with, by default the top. The operating point that train chose, if it did, is the
    one to begin at. `options` are those that found the samples.
    """
    if len(model.class_names) != 2:
        raise InputError(f"a report needs two classes, got {len(model.class_names)} of the model")
    name, values = _levels(model, chosen or {})
    lams = torch.cat([model.lam(**({} if name is None else {name: value})) for value in values])
    logits = logits_at(model.network, part.x, lams, normalization=model.normalization)
    own = _own_point(model, lams, part)
    if own is not None:  # to the last bit as predict scores, which decides at the threshold itself
        logits[own.model] = logits_at(
            model.network, part.x, model.lam(), normalization=model.normalization
        )[0]
    label = _label(model)
    fixed = {
        key: value for key, value in getattr(model.objective, "settings", {}).items()
        if isinstance(value, int | float)
    }  # fmt: skip
    counts = tuple(int(count) for count in model.class_counts)
    beta = model.record.get("beta")
    models = [
        PageModel(
            label=label,
            beta=beta,
            seed=model.record.get("seed") or 0,
            y=part.y,
            score=(own[:, 1] - own[:, 0]).numpy(),
            settings=fixed | ({} if name is None else {name: round(value, 6)}),
            log_odds=_corrected(model, own, lam, part.y),
            fill=_fill(name, value, values[-1]),
            n_train=sum(counts),
        )
        for value, lam, own in zip(values, lams, logits, strict=True)
    ]
    start = values.index((chosen or {}).get(name, max(values))) if name else 0
    kept = {key: value for key, value in (options or {}).items() if value is not None}
    told = "".join(f", {key}={_written(value)}" for key, value in kept.items())
    new = "new.csv" if "encoder" in model.preprocessing else "new.npz"
    new = "new-images" if len(model.spec.in_shape) == 3 else new
    return PageInput(
        task=source,
        class_names=(model.class_names[0], model.class_names[1]),
        models=models,
        train_counts={beta: counts},
        swept=name,
        chosen=start,
        own_point=own,
        reduction=getattr(model.objective, "reduction", ""),
        notes=(part.note,) if part.note else (),
        copy=CopyTexts(
            f"curvewise predict {new} --model {shlex.quote(str(file))}"
            "{option} --threshold={threshold}\n",
            PYTHON.format(file=json.dumps(str(file)), source=json.dumps(source), options=told),
        ),
        provenance=_provenance(model, file, source, command),
    )


def _written(value: Any) -> str:
    return repr(str(value)) if isinstance(value, Path) else repr(value)


def _levels(model: Model, chosen: dict[str, float]) -> tuple[str | None, list[float]]:
    """Return what the model is scored at several values of, tau if it knows that, and those."""
    ranges = dict(zip(model.objective.drawn, getattr(model.objective, "ranges", ()), strict=True))
    if not ranges:
        return None, [0.0]
    name = next(iter(chosen), "tau" if "tau" in ranges else next(iter(ranges)))
    low, high = ranges[name]
    found = {round(float(value), 6) for value in np.linspace(low, high, LEVELS)}
    return name, sorted(found | {value for key, value in chosen.items() if key == name})


def _own_point(model: Model, lams: torch.Tensor, part: MeasuredPart) -> OwnPoint | None:
    """Return the operating point that train chose, if its lambda is among lams (n_lambda, d)."""
    stored = model.record.get("operating_point")
    if stored is None:
        return None
    at = torch.tensor([float(stored["lambda"][name]) for name in model.objective.drawn])
    same = [k for k, lam in enumerate(lams) if torch.allclose(lam.cpu(), at.to(lam), atol=1e-5)]
    if not same:
        return None
    threshold = math.inf if stored["threshold"] is None else float(stored["threshold"])
    where = f"on the model's {stored['measured_on']}"
    own = stored["measured_on"] == "test part"
    if own and model.record.get("test_digest") == arrays_digest(part.x, part.y):
        where = "on these very samples (expect less on new ones)"
    rule = f"chosen by train for {rule_text(stored['rule'])} {where}"
    return OwnPoint(same[0], threshold, threshold_text(threshold), rule)


def _fill(name: str | None, value: float, top: float) -> dict[str, str]:
    """Return what commands say of lambda; predict can be told tau only."""
    if name is None:
        return {"option": "", "at": ""}
    at = {"at": f", {name}={value:g}"}
    if name == "tau":
        return at | {"option": f" --tau {value:g}"}
    return at | {"option": ""} if value == top else at


def _label(model: Model) -> str:
    if isinstance(model.objective, LossFamily):
        return "VS + LCT" if model.objective.drawn else "VS"
    return type(model.objective).__name__


def _corrected(
    model: Model, logits: torch.Tensor, lam: torch.Tensor, y: NDArray[np.int64]
) -> NDArray[Any] | None:
    """Return calibrated log-odds at the share of positives among y, None for other losses."""
    if not isinstance(model.objective, LossFamily):
        return None
    values = model.objective.hyperparameters(lam)
    share = float(np.mean(y == 1))
    try:
        found = calibrated_log_odds(logits, class_counts=model.class_counts, prior=share, **values)
    except InputError:  # a class without weight has no probability
        return None
    return found.numpy()


def _provenance(model: Model, file: Path, source: str, command: str) -> list[tuple[str, str]]:
    record = model.record
    about = {
        "command": command,
        "model": str(file),
        "trained": f"{record.get('date', '')} on {record.get('task', 'arrays')}".strip(),
        "measured on": source,
        "loss": repr(model.objective),
        "network": f"{model.spec.name} {json.dumps(model.spec.options)}",
        "recipe": json.dumps(model.recipe.model_dump()),
        "versions": ", ".join(f"{k} {v}" for k, v in record.get("versions", {}).items()),
        "seed": str(record.get("seed", "")),
        "data fingerprint": str(record.get("data_fingerprint", "")),
        "test digest": str(record.get("test_digest", "")),
    }
    return [(name, text) for name, text in about.items() if text]
