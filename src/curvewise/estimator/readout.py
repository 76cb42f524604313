"""What a trained member says, as one linear map of its last features.

At a fixed lambda, FiLM scales and shifts the features before a linear layer, and calibration is
linear in the logits. So is their mean over several lambdas: conditioning costs nothing when a
model is used.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from curvewise.base.errors import InputError
from curvewise.losses.factors import class_factors
from curvewise.losses.family import LossFamily
from curvewise.networks.conditioning import Conditioned


@torch.no_grad()
def logit_readout(network: Conditioned, lams: Tensor) -> tuple[Tensor, Tensor]:
    r"""Return weights (L, C, F) and biases (L, C) that give the logits at each of L lambdas.

    With FiLM's scale sigma and shift mu at a lambda and the last layer's W and b, the logits are
    :math:`W(\sigma f + \mu) + b`, so the weights are :math:`W\,\mathrm{diag}(\sigma)` and the
    biases :math:`W\mu + b`.
    """
    if network.film_logits is not None:
        raise InputError("a readout needs FiLM before the last layer, got one after it")
    linear, film = network.linear, network.film
    assert isinstance(linear, nn.Linear)
    weight, bias = linear.weight.double(), linear.bias.double()
    if film is None:
        return weight.expand(len(lams), *weight.shape), bias.expand(len(lams), *bias.shape)
    scaled = (lams.to(film.middle) - film.middle) / film.reach
    sigma, mu = film.sigma(scaled).double(), film.mu(scaled).double()
    return weight * sigma[:, None, :], mu @ weight.T + bias


@torch.no_grad()
def calibrated_readout(
    network: Conditioned,
    family: LossFamily,
    lams: Tensor,
    class_counts: Sequence[float],
    oversampling: Sequence[float],
) -> tuple[Tensor, Tensor]:
    """Return weights (C, F) and biases (C,) that give log-probabilities up to a constant.

    It is the mean over lambdas of `calibrated_log_odds` before its last step, less the logarithm
    of how many times too often training showed each class.
    """
    weight, bias = logit_readout(network, lams)
    settings = family.hyperparameters(lams.double())
    factors = class_factors(tuple(class_counts), **settings, like=bias)
    scale = factors.scale.expand_as(bias)
    shown = torch.tensor(oversampling, dtype=torch.float64)
    shift = factors.shift - factors.weight.log() - shown.log()
    return (weight * scale[..., None]).mean(0), (bias * scale + shift).mean(0)
