"""Save and load models and training states as one file: safetensors with JSON inside.

Loading executes nothing, and a changed or cut file is a clear error: the JSON carries a SHA-256
over itself and every tensor. Files appear under their name only when they are complete.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from curvewise.base.errors import InputError
from curvewise.base.files import sha256, whole_file
from curvewise.base.machine import VERSION
from curvewise.estimator.classifier import FamilyClassifier
from curvewise.estimator.estimators import from_parts, to_parts
from curvewise.losses.registry import build_objective, describe_objective
from curvewise.training.loop import TrainingState, conditioned
from curvewise.training.model import Model, NetworkSpec
from curvewise.training.recipe import Recipe

FORMAT = "curvewise-1"


def save(model: Model | FamilyClassifier, path: str | Path) -> Path:
    """Write a model or a fitted estimator to one file; returns the path. See `load`."""
    if isinstance(model, Model):
        return write_tensors(path, *_model_parts(model))
    if isinstance(model, FamilyClassifier):
        parts, rest = to_parts(model)
        return write_tensors(path, parts, {"kind": "estimator", **rest})
    kind = type(model).__name__
    raise InputError(f"save takes a Model, an LCTClassifier or a VSClassifier, got {kind}")


def _model_parts(model: Model) -> tuple[dict[str, Tensor], dict[str, Any]]:
    about = {
        "kind": "model",
        "network": asdict(model.spec),
        "objective": describe_objective(model.objective),
        "recipe": model.recipe.model_dump(),
        "class_names": model.class_names,
        "class_counts": model.class_counts,
        "normalization": model.normalization,
        "preprocessing": model.preprocessing,
        "record": model.record,
    }
    tensors = {f"network.{k}": v for k, v in model.network.state_dict().items()}
    if isinstance(model.objective, nn.Module):
        tensors |= {f"objective.{k}": v for k, v in model.objective.state_dict().items()}
    return tensors, about


def load(path: str | Path) -> Any:
    """Read a `Model` or an estimator that `save` wrote. Nothing in the file is executed."""
    tensors, about = read_tensors(path, "model", "estimator")
    return from_parts(tensors, about) if about["kind"] == "estimator" else _model(tensors, about)


def is_estimator(loaded: object) -> bool:
    """Tell whether `load` gave an estimator, not a model."""
    return isinstance(loaded, FamilyClassifier)


def load_model(path: str | Path) -> Model:
    """Read a `Model` that `save` wrote; an estimator's file is an error."""
    return _model(*read_tensors(path, "model"))


def _model(tensors: Mapping[str, Tensor], about: Mapping[str, Any]) -> Model:
    spec = NetworkSpec(**about["network"] | {"in_shape": tuple(about["network"]["in_shape"])})
    objective, recipe = build_objective(about["objective"]), Recipe(**about["recipe"])
    network = conditioned(spec.build(seed=0), objective, recipe)
    network.load_state_dict(_within(tensors, "network."))
    if isinstance(objective, nn.Module):
        objective.load_state_dict(_within(tensors, "objective."))
    scale = about["normalization"]
    return Model(
        network=network.eval(),
        spec=spec,
        objective=objective,
        recipe=recipe,
        class_names=tuple(about["class_names"]),
        class_counts=tuple(about["class_counts"]),
        normalization=(tuple(scale[0]), tuple(scale[1])) if scale else None,
        preprocessing=about["preprocessing"],
        record=about["record"],
    )


def save_state(state: TrainingState, path: str | Path) -> Path:
    """Write a training state, from which `fit` goes on bit for bit."""
    tensors: dict[str, Tensor] = {}
    about = {"kind": "state", "state": _split(vars(state), "", tensors)}
    return write_tensors(path, tensors, about)


def load_state(path: str | Path) -> TrainingState:
    """Read a training state that `save_state` wrote."""
    tensors, about = read_tensors(path, "state")
    return TrainingState(**_join(about["state"], tensors))


def write_tensors(path: str | Path, tensors: dict[str, Tensor], about: dict[str, Any]) -> Path:
    """Write tensors and JSON-ready data to one file, atomically."""
    target = Path(path)
    if target.is_dir():
        raise InputError(f"a model is written to a file, got the folder {target}")
    target.parent.mkdir(parents=True, exist_ok=True)
    whole = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    versions = {"curvewise": VERSION, "torch": torch.__version__}
    text = json.dumps({"format": FORMAT, "versions": versions, **about}, allow_nan=False)
    with whole_file(target) as unfinished:
        save_file(whole, unfinished, {"curvewise": text, "sha256": _digest(text, whole)})
    return target


def read_tensors(path: str | Path, *kinds: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read what `write_tensors` wrote, checked, if it is of one of these kinds."""
    kind = " or ".join(kinds)
    source = Path(path)
    if not source.is_file():
        raise InputError(f"there is no file {source}; a model file is written by train or save")
    try:
        with safe_open(source, framework="pt") as file:
            notes = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except SafetensorError:
        raise InputError(
            f"{source} is not a whole Curvewise file: it is of another kind, or was cut short"
        ) from None
    except OSError as error:
        raise InputError(f"{source} cannot be read: {error.strerror or error}") from None
    text = notes.get("curvewise")
    if text is None:
        raise InputError(f"{source} holds tensors, but not a Curvewise {kind}")
    if notes.get("sha256") != _digest(text, tensors):
        raise InputError(f"{source} was changed after it was written: its checksum is wrong")
    about = json.loads(text)
    if about.get("format") != FORMAT or about.get("kind") not in kinds:
        found = str(about.get("kind"))
        hint = "; it is for Python: curvewise.load" if found == "estimator" else ""
        raise InputError(
            f"{source} must be a {kind} in the format {FORMAT}, "
            f"got a{'n' * (found[0] in 'aeiou')} {found} in {about.get('format')}{hint}"
        )
    return tensors, about


def _digest(text: str, tensors: Mapping[str, Tensor]) -> str:
    parts: list[str | memoryview] = [text]
    for name, tensor in sorted(tensors.items()):
        parts.append(f"{name} {tensor.dtype} {tuple(tensor.shape)}")
        if tensor.numel():  # an empty one has no bytes to view
            parts.append(tensor.contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return sha256(parts)


def _within(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}


def _split(value: Any, place: str, tensors: dict[str, Tensor]) -> Any:
    """Return nested data with its tensors taken out into a flat dictionary."""
    if isinstance(value, Tensor):
        tensors[place] = value
        return {"tensor": place}
    if isinstance(value, dict):  # keys may be numbers, which JSON does not keep
        return {"items": [[k, _split(v, f"{place}/{k}", tensors)] for k, v in value.items()]}
    if isinstance(value, list | tuple):
        items = [_split(v, f"{place}/{i}", tensors) for i, v in enumerate(value)]
        return {"tuple" if isinstance(value, tuple) else "list": items}
    return value


def _join(value: Any, tensors: Mapping[str, Tensor]) -> Any:
    if not isinstance(value, dict):
        return value
    ((kind, inside),) = value.items()
    if kind == "tensor":
        return tensors[inside]
    if kind == "items":
        return {key: _join(item, tensors) for key, item in inside}
    joined = [_join(item, tensors) for item in inside]
    return tuple(joined) if kind == "tuple" else joined
