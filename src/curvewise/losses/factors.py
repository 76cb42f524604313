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

from collections.abc import Sequence
from functools import lru_cache
from math import isfinite, log
from typing import NamedTuple

import torch
from torch import Tensor

from curvewise.errors import InputError, require_number

Hyperparameter = float | Tensor
ClassWeights = Sequence[float]


class TwoClassForm(NamedTuple):
    """The margin of class 1 over class 0 is ``logits @ direction + offset``; sign is (-1, 1)."""

    sign: Tensor
    direction: Tensor
    offset: Tensor


class ClassFactors(NamedTuple):
    """Factors with a trailing class dimension, broadcasting over (..., n, C) logits.

    With `anchor`, where there is one, ``scale * z + shift`` is ``lerp(anchor, z, scale)``, one
    operation instead of two. `constant` says that the factors came from numbers, so that they
    have shape (C,) and no gradient; `maybe_zero` that some weight may be 0.
    """

    scale: Tensor
    shift: Tensor
    weight: Tensor
    expected_weight: Tensor
    two_class: TwoClassForm | None
    anchor: Tensor | None
    constant: bool
    maybe_zero: bool


def check_class_counts(class_counts: Sequence[float] | Tensor) -> tuple[float, ...]:
    """Return the class counts as floats: at least two of them, all positive."""
    counts = tuple(float(count) for count in class_counts)
    if len(counts) < 2 or not all(count > 0 and isfinite(count) for count in counts):
        raise InputError(f"class_counts must hold two or more positive numbers, got {list(counts)}")
    return counts


def check_class_weights(weights: ClassWeights, n_classes: int) -> tuple[float, ...]:
    """Return given class weights as floats: one per class, none negative, not all zero."""
    values = tuple(require_number("each class weight in omega", w, 0) for w in weights)
    if len(values) != n_classes or not any(values):
        raise InputError(
            f"omega as class weights must have {n_classes} values that are not all zero, "
            f"got {list(values)}"
        )
    return values


@lru_cache(maxsize=1024)
def constant_factors(
    counts: tuple[float, ...],
    omega: float | tuple[float, ...],
    gamma: float,
    tau: float,
    dtype: torch.dtype,
    device: torch.device,
) -> ClassFactors:
    """Return `class_factors` of numbers, remembered: a loop asks for the same ones every step."""
    return class_factors(counts, omega, gamma, tau, torch.zeros((), dtype=dtype, device=device))


def class_factors(
    counts: tuple[float, ...],
    omega: Hyperparameter | ClassWeights,
    gamma: Hyperparameter,
    tau: Hyperparameter,
    like: Tensor,
) -> ClassFactors:
    """Compute the factors in the dtype and on the device of `like`; nothing is checked here.

    Numbers give factors of shape (C,); a tensor of shape s gives (*s, C).
    """
    # Compiled code may see a number as a symbol, which cannot be looked at while tracing.
    constant = not torch.compiler.is_compiling() and not any(
        isinstance(value, Tensor) for value in (omega, gamma, tau)
    )
    # Numbers are worked out in float64 and rounded once, at the end.
    work = torch.zeros((), dtype=torch.float64) if constant else like

    def tensor(value: Hyperparameter | Sequence[float]) -> Tensor:
        return torch.as_tensor(value, dtype=work.dtype, device=work.device)

    log_ratios = [log(max(counts) / count) for count in counts]
    log_ratio, log_beta = tensor(log_ratios), max(log_ratios)
    scale = torch.exp(-tensor(gamma).unsqueeze(-1) * log_ratio)
    shift = -tensor(tau).unsqueeze(-1) * log_ratio
    if isinstance(omega, Sequence):
        weight = tensor(omega)
    elif log_beta == 0:  # all counts equal: no class is rare, so none can be preferred
        weight = torch.full_like(log_ratio, 1 / len(counts))
    else:
        rarity = tensor([ratio / log_beta for ratio in log_ratios])
        column = tensor(omega).unsqueeze(-1)
        weight = column**rarity * (1 - column) ** (1 - rarity)
        if len(counts) > 2:  # two weights sum to one as they are
            weight = weight / weight.sum(-1, keepdim=True)
    expected = (weight * tensor([count / sum(counts) for count in counts])).sum(-1)

    two_class = None
    if len(counts) == 2:
        sign = tensor((-1.0, 1.0))
        two_class = TwoClassForm(sign, sign * scale, shift[..., 1] - shift[..., 0])
    if not constant:
        return ClassFactors(scale, shift, weight, expected, two_class, None, False, True)
    return ClassFactors(
        scale=scale.to(like),
        shift=shift.to(like),
        weight=weight.to(like),
        expected_weight=expected.to(like),
        two_class=TwoClassForm(*(part.to(like) for part in two_class)) if two_class else None,
        anchor=_anchor(scale.to(like), shift),
        constant=True,
        maybe_zero=bool((weight == 0).any()),
    )


def _anchor(rounded_scale: Tensor, shift: Tensor) -> Tensor | None:
    """Return the z that ``scale * z + shift`` leaves where it is, if every class has one.

    It is computed with the rounded scale, so that lerp's (1 - scale) gives the shift back to the
    last digit even where the scale is nearly 1.
    """
    still = rounded_scale.to(shift) == 1
    if bool((still & (shift != 0)).any()):
        return None
    return torch.where(still, 0.0, shift / (1 - rounded_scale.to(shift))).to(rounded_scale)
