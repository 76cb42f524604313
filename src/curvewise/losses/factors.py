r"""Per-class factors of the vector-scaling loss: scale, shift and weight of every class.

With class counts :math:`n_c`, :math:`n_{max}` the largest and
:math:`r_c = \log(n_{max}/n_c) / \log\beta` the rarity of a class (0 for the largest, 1 for the
rarest, :math:`\beta = n_{max}/n_{min}`):

.. math::
    \Delta_c = (n_c/n_{max})^\gamma, \quad
    \iota_c = \tau \log(n_c/n_{max}), \quad
    \omega_c \propto \Omega^{r_c} (1-\Omega)^{1-r_c}, \quad \sum_c \omega_c = 1

The weights are :math:`(n_c/n_{max})^{-\kappa}` with
:math:`\kappa = \mathrm{logit}(\Omega)/\log\beta`, written so that :math:`\Omega = 0` and
:math:`\Omega = 1` need no special case; for two classes they are :math:`1-\Omega` for the majority
and :math:`\Omega` for the minority. The paper writes :math:`\iota_c = \tau\log(n_c/n)`; the
difference is the same constant for all classes and cancels in the softmax.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import inf, log
from typing import Any, NamedTuple

import torch
from torch import Tensor

from curvewise.base.errors import INFINITY, InputError, require, require_number

Hyperparameter = float | Tensor
ClassWeights = Sequence[float]
Settings = Mapping[str, Any]  # omega, gamma, tau: numbers, tensors, or omega as class weights
HIGHEST = {"omega": 1.0}  # value of a setting; of the others there is none


class ClassFactors(NamedTuple):
    """Factors with a trailing class dimension, broadcasting over (..., n, C) logits.

    With `anchor`, where there is one, ``scale * z + shift`` is ``lerp(anchor, z, scale)``, one
    operation instead of two. `two_class` is (sign, direction, offset): the margin of class 1 over
    class 0 is ``logits @ direction + offset``, and sign is (-1, 1). `constant` says that the
    factors came from numbers, so that they have shape (C,) and no gradient; `maybe_zero` that some
    weight may be 0.
    """

    scale: Tensor
    shift: Tensor
    weight: Tensor
    expected_weight: Tensor
    two_class: tuple[Tensor, Tensor, Tensor] | None
    anchor: Tensor | None
    constant: bool
    maybe_zero: bool


def check_class_counts(class_counts: Sequence[float] | Tensor) -> tuple[float, ...]:
    """Return the class counts as floats: at least two of them, all positive."""
    try:
        counts = () if isinstance(class_counts, str) else tuple(map(float, class_counts))
    except (TypeError, ValueError):
        counts = ()
    if len(counts) < 2 or not all(0 < count < inf for count in counts):
        raise InputError(
            f"class_counts must hold two or more positive numbers, got {class_counts!r}"
        )
    return counts


def fixed_setting(
    name: str, value: float | ClassWeights, n_classes: int = 0
) -> float | tuple[float, ...]:
    """Return a setting of a loss as a number, or omega as the weights of so many classes."""
    if name != "omega" or not isinstance(value, Sequence) or isinstance(value, str):
        return require_number(name, value, 0, HIGHEST.get(name, INFINITY))  # type: ignore[arg-type]
    weights = tuple(require_number("each class weight in omega", w, 0) for w in value)
    wanted = n_classes or len(weights)
    require(
        len(weights) == wanted and any(weights),
        f"omega as class weights must have {wanted} values that are not all zero, got {weights}",
    )
    return weights


def class_factors(counts: tuple[float, ...], settings: Settings, like: Tensor) -> ClassFactors:
    """Compute the factors in the dtype and on the device of `like`; nothing is checked here.

    Numbers are worked out as Python floats and rounded once, and give factors of shape (C,); a
    tensor of shape s gives (*s, C). One list entry a class serves both.
    """
    omega, gamma, tau = (settings[name] for name in ("omega", "gamma", "tau"))
    largest, total = max(counts), sum(counts)
    log_ratios = [log(largest / count) for count in counts]
    log_beta = max(log_ratios)
    scales = [(count / largest) ** gamma for count in counts]
    shifts = [-tau * ratio for ratio in log_ratios]
    weights: list[Hyperparameter]
    if isinstance(omega, Sequence):
        weights = list(omega)
    elif log_beta == 0:  # all counts equal: no class is rare, so none can be preferred
        weights = [1 / len(counts)] * len(counts)
    else:
        rarities = [ratio / log_beta for ratio in log_ratios]
        weights = [omega**rarity * (1 - omega) ** (1 - rarity) for rarity in rarities]
        if len(counts) > 2:  # two weights sum to one as they are
            whole = sum(weights)
            weights = [weight / whole for weight in weights]
    expected = sum(w * count / total for w, count in zip(weights, counts, strict=True))
    columns: list[list[Any]] = [scales, shifts, weights, [expected]]
    if len(counts) == 2:
        columns += [[-1.0, 1.0], [-scales[0], scales[1]], [shifts[1] - shifts[0]]]
    scale, shift, weight, expected_weight, *pair = _tensors(columns, like)
    # Compiled code may see a number as a symbol, which cannot be looked at while tracing.
    constant = not torch.compiler.is_compiling() and not any(
        isinstance(value, Tensor) for value in (omega, gamma, tau)
    )
    return ClassFactors(
        scale=scale,
        shift=shift,
        weight=weight,
        expected_weight=expected_weight[..., 0],
        two_class=(pair[0], pair[1], pair[2][..., 0]) if pair else None,
        anchor=None,
        constant=constant,
        maybe_zero=not constant or 0 in weights,
    )


def _tensors(columns: list[list[Any]], like: Tensor) -> Sequence[Tensor]:
    """Return lists of numbers or tensors as tensors with the list in the last dimension."""
    if not any(isinstance(value, Tensor) for values in columns for value in values):
        flat = [value for values in columns for value in values]  # one tensor to make, not seven
        whole = torch.tensor(flat, dtype=like.dtype, device=like.device)
        return list(torch.split_with_sizes(whole, [len(values) for values in columns]))

    def stacked(values: list[Any]) -> Tensor:
        parts = [torch.as_tensor(value, dtype=like.dtype, device=like.device) for value in values]
        wide = torch.broadcast_tensors(*parts)  # type: ignore[no-untyped-call]
        return torch.stack(wide, dim=-1)

    return [stacked(values) for values in columns]


def remembered_factors(counts: tuple[float, ...], settings: Settings, like: Tensor) -> ClassFactors:
    """Return `class_factors`; those of numbers are remembered, and have an anchor if they can."""
    drawn = any(isinstance(value, Tensor) for value in settings.values())
    if drawn or torch.compiler.is_compiling():
        return class_factors(counts, settings, like)
    return _fixed_factors(counts, tuple(settings.items()), like.dtype, like.device)


@lru_cache(maxsize=1024)
def _fixed_factors(
    counts: tuple[float, ...], settings: tuple[Any, ...], dtype: torch.dtype, device: torch.device
) -> ClassFactors:
    like = torch.empty((), dtype=dtype, device=device)
    factors = class_factors(counts, dict(settings), like)
    # An anchor of all classes is computed with the rounded scale, so that lerp's (1 - scale) gives
    # the shift back to the last digit even where the scale is nearly 1.
    pairs = list(zip(factors.scale.tolist(), factors.shift.tolist(), strict=True))
    if any(scale == 1 and shift != 0 for scale, shift in pairs):
        return factors
    values = [0.0 if scale == 1 else shift / (1 - scale) for scale, shift in pairs]
    return factors._replace(anchor=like.new_tensor(values))
