"""What a trained model is: trained, saved, measured, asked. Here: the folder that train leaves.

This module needs no torch, so that a wrong folder is told at once.
"""

from pathlib import Path

from curvewise.base.errors import InputError
from curvewise.base.files import require_folder

MODEL, METRICS = "model.safetensors", "metrics.json"
STATE, RUN = "state.safetensors", "run.json"  # of a run that is not at its end, and what it is of


def require_free(folder: Path, *, resume: bool) -> None:
    """Raise `InputError` if the folder has a model, or a stopped run that is not to be resumed."""
    require_folder(folder)
    model_file, state_file = folder / MODEL, folder / STATE
    if model_file.exists():
        raise InputError(f"{model_file} is there already; choose another folder or remove it")
    if state_file.exists() != resume:
        raise InputError(
            f"there is no {state_file} to go on from"
            if resume
            else f"{state_file} is of a stopped run; go on with --resume or remove it"
        )
