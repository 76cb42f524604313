r"""The vector-scaling (VS) loss: cross-entropy with a weight, a scale and a shift per class.

.. math::
    \ell(y, z) = -\omega_y \log
        \frac{e^{\Delta_y z_y + \iota_y}}{\sum_c e^{\Delta_c z_c + \iota_c}}

`curvewise.losses.factors` says how omega, gamma and tau set the factors. For two classes, 0 the
majority, it is the paper's

.. math::
    \ell(0, z) = (1-\Omega) \log(1 + e^\alpha), \quad \ell(1, z) = \Omega \log(1 + e^{-\alpha}),
    \quad \alpha = z_1/\beta^\gamma - z_0 - \tau\log\beta

(Kini et al. 2021, arXiv 2103.01550; Lieberman et al. 2024, arXiv 2402.05400.)
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from curvewise.base.errors import InputError, require, require_choice, require_number, require_type
from curvewise.losses.factors import (
    ClassFactors,
    ClassWeights,
    Hyperparameter,
    Settings,
    check_class_counts,
    class_factors,
    fixed_setting,
    remembered_factors,
)

REDUCTIONS = ("none", "sum", "mean", "weighted_mean", "expected_mean")


def vs_loss(
    logits: Tensor,
    target: Tensor,
    *,
    class_counts: Sequence[float] | Tensor,
    omega: Hyperparameter | ClassWeights = 0.5,
    gamma: Hyperparameter = 0.0,
    tau: Hyperparameter = 0.0,
    reduction: str = "weighted_mean",
    sample_weight: Tensor | None = None,
) -> Tensor:
    """Vector-scaling loss of `logits` (..., n, C) against integer `target` (n,) or (..., n).

    The sample dimension n is reduced; leading dimensions (stacked models) stay, so logits
    (K, n, C) give K losses.

    Parameters
    ----------
    class_counts
        Training samples per class. The class with the largest count is the majority, whatever
        its label.
    omega, gamma, tau
        Numbers, or tensors that broadcast to (..., n): shape (n,) has one value per sample,
        (K, 1) one per stacked model. `omega` in [0, 1] is the weight of the rarest class against
        the most frequent one (equal weights if all counts are equal); a list or tuple of C
        numbers is taken as the class weights themselves.
    reduction
        "none"; "sum"; "mean" (the paper's equation: the sum over n); "weighted_mean" (the sum
        over the batch's own sum of weights, as the paper's code; 0 if that is 0);
        "expected_mean" (over n times the constant sum_c n_c omega_c / sum_c n_c, which is
        unbiased over mini-batches: use it where probabilities matter).
    sample_weight
        Weights s_i >= 0, shape (n,) or one that fits (..., n), such as (K, n) for stacked models;
        each sample's loss is multiplied by its own. "weighted_mean" divides by the batch's sum of
        s_i omega_{y_i}, so that whole numbers are the same as repeated rows. The other means
        divide by what they divide by without weights (n, not the sum of s), so that over
        mini-batches they stay unbiased: weights with mean 1 over the data, and class_counts that
        are sums of weights, keep the scale.

    >>> import torch
    >>> logits, target = torch.tensor([[2.0, 0.0], [0.0, 1.0]]), torch.tensor([0, 1])
    >>> vs_loss(logits, target, class_counts=(100, 10), omega=0.9, gamma=0.2, tau=1.0)
    tensor(1.6608)
    """
    counts = check_class_counts(class_counts)
    require_choice("reduction", reduction, REDUCTIONS)
    check_logits(logits, len(counts))
    check_per_sample("target", target, logits.shape[:-1])
    if target.is_floating_point() or target.dtype in (torch.bool, torch.complex64):
        raise InputError(f"target must have an integer dtype, got {target.dtype}")
    require(target.numel(), "logits must hold at least one sample, got none")
    check_labels(target, len(counts))
    settings = checked_settings(omega, gamma, tau, logits.shape)
    if sample_weight is not None:
        check_per_sample("sample_weight", sample_weight, logits.shape[:-1])
        for extreme in _extremes(sample_weight):
            require_number("sample_weight", extreme, 0)
    given = (logits, target, counts, settings, reduction, sample_weight)
    return unchecked_vs_loss(*given, remembered_factors)


class VSLoss(nn.Module):
    """`vs_loss` with fixed numbers, checked once: ``VSLoss((5000, 50), tau=2.0)(logits, target)``.

    Takes the arguments of `vs_loss`; omega, gamma and tau must be numbers (or omega a list of C
    class weights).
    """

    def __init__(
        self,
        class_counts: Sequence[float] | Tensor,
        omega: float | ClassWeights = 0.5,
        gamma: float = 0.0,
        tau: float = 0.0,
        reduction: str = "weighted_mean",
    ) -> None:
        super().__init__()
        self.class_counts = check_class_counts(class_counts)
        self.omega = fixed_setting("omega", omega, len(self.class_counts))
        self.gamma = require_number("gamma", gamma, 0)
        self.tau = require_number("tau", tau, 0)
        self.reduction = require_choice("reduction", reduction, REDUCTIONS)

    def forward(self, logits: Tensor, target: Tensor) -> Tensor:
        """Return the loss of logits (..., n, C) against target (n,) or (..., n)."""
        check_logits(logits, len(self.class_counts))
        settings = {"omega": self.omega, "gamma": self.gamma, "tau": self.tau}
        given = (logits, target, self.class_counts, settings, self.reduction, None)
        return unchecked_vs_loss(*given, remembered_factors)

    def extra_repr(self) -> str:
        """Show the settings in ``print(module)``."""
        return (
            f"class_counts={self.class_counts}, omega={self.omega}, gamma={self.gamma}, "
            f"tau={self.tau}, reduction={self.reduction!r}"
        )


def unchecked_vs_loss(
    logits: Tensor,
    target: Tensor,
    counts: tuple[float, ...],
    settings: Settings,
    reduction: str,
    sample_weight: Tensor | None = None,
    factors_of: Callable[..., ClassFactors] = class_factors,
) -> Tensor:
    """`vs_loss` for values that are known to be good, as in a training loop."""
    logits, target = at_least_float32(logits), target.long()
    factors = factors_of(counts, settings, logits)
    if sample_weight is None and factors.constant and logits.dim() == 2 and target.dim() == 1:
        return _flat_loss(logits, target, factors, reduction)
    if torch.is_autocast_enabled(logits.device.type):  # products of the two-class form: in float32
        with torch.autocast(logits.device.type, enabled=False):
            return unchecked_vs_loss(logits, target, counts, settings, reduction, sample_weight)
    if factors.two_class is not None:
        log_likelihood = _two_class(logits, target, *factors.two_class)
    else:
        adjusted = logits * factors.scale + factors.shift
        log_likelihood = _pick(F.log_softmax(adjusted, dim=-1), target)
    weight = _pick(factors.weight, target)
    maybe_zero = factors.maybe_zero
    if sample_weight is not None:
        weight, maybe_zero = weight * sample_weight.to(weight), True
    if reduction == "none":
        return -log_likelihood * weight
    weight = weight / _negative_divisor(weight, factors, reduction, maybe_zero)
    return log_likelihood @ weight if weight.dim() == 1 else (log_likelihood * weight).sum(-1)


def _negative_divisor(
    weight: Tensor, factors: ClassFactors, reduction: str, maybe_zero: bool
) -> Tensor | float:
    """Return minus what the reduction divides the sum by; minus, since log-likelihoods are < 0."""
    if reduction == "weighted_mean":
        total = weight.sum() if weight.dim() == 1 else weight.sum(-1, keepdim=True)
        return -(total + (total == 0)) if maybe_zero else -total
    if reduction == "expected_mean":
        return -weight.shape[-1] * factors.expected_weight
    return -1.0 if reduction == "sum" else -weight.shape[-1]


def _flat_loss(logits: Tensor, target: Tensor, factors: ClassFactors, reduction: str) -> Tensor:
    """Serve (n, C) logits and constant factors, the everyday case, by PyTorch's own kernel."""
    if factors.anchor is None:
        adjusted = logits * factors.scale + factors.shift
    else:
        adjusted = torch.lerp(factors.anchor, logits, factors.scale)
    if reduction in ("none", "sum") or (reduction == "weighted_mean" and not factors.maybe_zero):
        kind = "mean" if reduction == "weighted_mean" else reduction
        return F.cross_entropy(adjusted, target, factors.weight, reduction=kind)
    total = F.cross_entropy(adjusted, target, factors.weight, reduction="sum")
    if reduction == "weighted_mean":
        weight_sum = factors.weight[target].sum()
        return total / (weight_sum + (weight_sum == 0))
    if reduction == "expected_mean":
        total = total / factors.expected_weight
    return total / target.shape[0]


def _two_class(
    logits: Tensor, target: Tensor, sign: Tensor, direction: Tensor, offset: Tensor
) -> Tensor:
    """Return -log(1 + exp(-m)), m the margin of the true class over the other; exact for any m."""
    if direction.dim() == 1:
        margin = logits @ direction  # half the time of unbinding a last dimension of two
    else:
        first, second = logits.unbind(-1)
        to_first, to_second = direction.unbind(-1)
        margin = first * to_first + second * to_second
    return F.logsigmoid((margin + offset) * sign.take(target))


def _pick(values: Tensor, target: Tensor) -> Tensor:
    """Return the entry of each sample's own class: (..., C) and (..., n) to (..., n)."""
    if values.dim() == 1:
        return values.take(target)
    shape = torch.broadcast_shapes(values.shape[:-1], target.shape)  # type: ignore[no-untyped-call]
    index = target.expand(shape).unsqueeze(-1)
    return values.expand(*shape, values.shape[-1]).gather(-1, index).squeeze(-1)


def at_least_float32(logits: Tensor) -> Tensor:
    """Return half-precision logits as float32 and others as they are."""
    return logits.float() if logits.dtype in (torch.float16, torch.bfloat16) else logits


def check_logits(logits: Tensor, n_classes: int) -> None:
    """Raise unless logits (..., n, C) have a column for each of so many classes."""
    require_type("logits", logits, Tensor)
    if not logits.is_floating_point() or logits.dim() < 2:
        raise InputError(
            f"logits must be a floating tensor of shape (..., n, {n_classes}), "
            f"got {logits.dtype} of shape {tuple(logits.shape)}"
        )
    if logits.shape[-1] != n_classes:
        raise InputError(
            f"logits must hold one logit for each of the {n_classes} classes in class_counts, "
            f"got {logits.shape[-1]}"
        )


def check_per_sample(name: str, values: Tensor, samples: Sequence[int]) -> None:
    """Raise unless values have shape (n,) or one that fits the samples' (..., n)."""
    require_type(name, values, Tensor)
    if values.shape[-1:] != samples[-1:] or not _broadcasts(values.shape, samples):
        shapes = dict.fromkeys((tuple(samples), tuple(samples[-1:])))
        raise InputError(
            f"{name} must have shape {' or '.join(map(str, shapes))}, got {tuple(values.shape)}"
        )


def check_labels(target: Tensor, n_classes: int) -> None:
    """Raise unless all labels are 0 to C - 1; reads them, for which a GPU would be waited for."""
    low, high = _extremes(target)
    if low < 0 or high >= n_classes:
        labels = ", ".join(f"{label:g}" for label in sorted(set(target.flatten().tolist()))[:5])
        raise InputError(
            f"target must hold labels 0 to {n_classes - 1}, one for each class, got {labels}"
        )


def checked_settings(
    omega: Hyperparameter | ClassWeights,
    gamma: Hyperparameter,
    tau: Hyperparameter,
    logits_shape: Sequence[int],
) -> Settings:
    """Return omega, gamma and tau by name, if they are in range and fit logits of this shape."""
    settings: dict[str, Any] = {"omega": omega, "gamma": gamma, "tau": tau}
    samples = logits_shape[:-1]
    for name, value in settings.items():
        if not isinstance(value, Tensor):
            settings[name] = fixed_setting(name, value, logits_shape[-1])
            continue
        if not _broadcasts(value.shape, samples):
            raise InputError(
                f"{name} must broadcast to the samples' shape {tuple(samples)}, "
                f"got shape {tuple(value.shape)}"
            )
        for extreme in _extremes(value):
            fixed_setting(name, extreme)
    return settings


def _broadcasts(shape: Sequence[int], to: Sequence[int]) -> bool:
    """Return whether a tensor of this shape can be expanded to the shape `to`."""
    pairs = zip(reversed(shape), reversed(to), strict=False)
    return len(shape) <= len(to) and all(size in (1, want) for size, want in pairs)


def _extremes(values: Tensor) -> tuple[float, float]:
    """Return (min, max), or (0, 0) where values cannot be read (compiled code, vmap)."""
    if torch.compiler.is_compiling():
        return 0.0, 0.0
    try:
        low, high = torch.aminmax(values.detach())
        return float(low), float(high)
    except RuntimeError:
        return 0.0, 0.0
