"""Reading weights, and copying them into a network, which may keep a head of its own."""

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

from curvewise.base.errors import InputError
from curvewise.networks.conditioning import find_last_linear

SHOWN = 3  # entries that an error names
COUNTER = "num_batches_tracked"  # files of old PyTorch versions lack it, and nothing here reads it


def load_weights(
    network: nn.Module, state: Mapping[str, Tensor], *, strict_head: bool = False
) -> list[str]:
    """Copy a state dict into the network and return the names of entries left as they were.

    These are the weight and bias of the last linear layer, if `state` has it for another number
    of classes; `strict_head` makes that an error too. Any other entry that is missing, unexpected
    or of another shape is an error, and then nothing is copied.

    >>> pretrained, network = nn.Linear(5, 1000), nn.Linear(5, 2)
    >>> load_weights(network, pretrained.state_dict())
    ['weight', 'bias']
    """
    if not isinstance(state, Mapping):
        raise InputError(f"weights must be a dict of tensors, got {type(state).__name__}")
    own = network.state_dict()
    head = [] if strict_head else _head_of_other_classes(network, own, state)
    excused = {name for name in own if name.endswith(COUNTER) and name not in state}.union(head)
    problems = [
        f"{name}: expected {_shape(own.get(name))}, got {_shape(state.get(name))}"
        for name in dict.fromkeys([*own, *state])
        if name not in excused and _shape(own.get(name)) != _shape(state.get(name))
    ]
    if problems:
        more = f"; and {len(problems) - SHOWN} more" if len(problems) > SHOWN else ""
        raise InputError(
            f"weights must fit {type(network).__name__} ({len(own)} entries), but "
            f"{'; '.join(problems[:SHOWN])}{more}"
        )
    with torch.no_grad():
        for name, tensor in own.items():
            if name not in excused:
                tensor.copy_(state[name])
    return head


def read_weights(path: Path) -> dict[str, Tensor]:
    """Read a state dict from .safetensors or .pth; a .pth may hold tensors only."""
    if not path.is_file():
        raise InputError(f"there is no weights file {path}")
    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            return load_file(path)
        state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception:  # every reader has errors of its own
        raise InputError(
            f"{path} cannot be read as plain weights: it must be a whole .safetensors file, or "
            "one by torch.save that holds tensors only"
        ) from None
    if not isinstance(state, dict):
        raise InputError(f"{path} must hold a dictionary of tensors, got {type(state).__name__}")
    return state


def _head_of_other_classes(
    network: nn.Module, own: Mapping[str, Tensor], state: Mapping[str, Tensor]
) -> list[str]:
    """Return the entries of the last linear layer if only their number of classes differs."""
    layer = find_last_linear(network)
    entries = (f"{layer}.{part}".removeprefix(".") for part in ("weight", "bias"))
    head = [name for name in entries if name in own]
    weight = state.get(head[0])
    if not isinstance(weight, Tensor) or weight.dim() == 0 or len(weight) == len(own[head[0]]):
        return []
    wanted = {name: str((len(weight), *own[name].shape[1:])) for name in head}
    return head if all(_shape(state.get(name)) == wanted[name] for name in head) else []


def _shape(value: object) -> str:
    if value is None:
        return "nothing"
    return str(tuple(value.shape)) if isinstance(value, Tensor) else type(value).__name__
