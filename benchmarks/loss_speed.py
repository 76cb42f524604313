"""Speed of the vector-scaling loss and of FiLM, forward and backward, against plain PyTorch.

Targets
-------
- `VSLoss` on (128, 2) logits: at most 1.5x of `F.cross_entropy` with weights.
- `vs_loss`, which checks its input, on the same: at most 3x.
- `VSLoss` on a stack of 48 models, (48, 128, 2): at most 1.0x of `F.cross_entropy` with weights
  on the same 6,144 samples.
- A training step of a ResNet-32-sized network on 32 images with FiLM at its 64 features: at most
  1.05x of the step without.
"""

from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import curvewise as cw
from _measure import Result, cost, interleave, main

QUESTION = "What do the vector-scaling loss and FiLM cost beside plain PyTorch?"

COUNTS = (5000, 50)
SETTINGS = {"omega": 0.9, "gamma": 0.2, "tau": 2.0}


def flat() -> list[Result]:
    logits, target = torch.randn(128, 2, requires_grad=True), torch.randint(0, 2, (128,))
    weight, module = torch.tensor([0.1, 0.9]), cw.VSLoss(COUNTS, **SETTINGS)

    def backward(loss: Tensor) -> None:
        logits.grad = None
        loss.backward()

    times = interleave(
        {
            "peer": lambda: backward(F.cross_entropy(logits, target, weight)),
            "module": lambda: backward(module(logits, target)),
            "function": lambda: backward(
                cw.vs_loss(logits, target, class_counts=COUNTS, **SETTINGS)
            ),
        },
        rounds=101,
        calls=100,
    )
    return [
        cost("VSLoss, (128, 2)", times["module"], times["peer"], 1.5),
        cost("vs_loss with checks, (128, 2)", times["function"], times["peer"], 3),
    ]


def stack() -> Result:
    logits, target = torch.randn(48, 128, 2, requires_grad=True), torch.randint(0, 2, (128,))
    repeated = target.expand(48, 128).reshape(-1)
    weight, module = torch.tensor([0.1, 0.9]), cw.VSLoss(COUNTS, **SETTINGS)

    one_each = torch.ones(48)  # what a sum over the models would hand back to each

    def backward(loss: Tensor) -> None:
        logits.grad = None
        loss.backward(one_each if loss.dim() else None)

    times = interleave(
        {
            "peer": lambda: backward(F.cross_entropy(logits.view(-1, 2), repeated, weight)),
            "module": lambda: backward(module(logits, target)),
        },
        rounds=101,
        calls=50,
    )
    return cost("VSLoss, 48 stacked models (48, 128, 2)", times["module"], times["peer"], 1.0)


class Block(nn.Module):
    """Two 3x3 convolutions with a shortcut."""

    def __init__(self, before: int, after: int) -> None:
        super().__init__()
        stride = 1 if before == after else 2
        self.layers = nn.Sequential(
            nn.Conv2d(before, after, 3, stride, 1, bias=False),
            nn.BatchNorm2d(after),
            nn.ReLU(),
            nn.Conv2d(after, after, 3, 1, 1, bias=False),
            nn.BatchNorm2d(after),
        )
        self.shortcut = nn.Identity() if before == after else nn.Conv2d(before, after, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        """Return the block's output."""
        return F.relu(self.layers(x) + self.shortcut(x))


def residual_network() -> nn.Module:
    """Return a network of the size of ResNet-32 for CIFAR: 15 blocks of 16, 32 and 64 channels."""
    widths = [16] * 6 + [32] * 5 + [64] * 5
    blocks = [Block(a, b) for a, b in pairwise(widths)]
    start = [nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU()]
    return nn.Sequential(*start, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 2))


def film_step() -> Result:
    family = cw.LossFamily(omega=0.5, gamma=0.2, tau=cw.LinearDensity(0.0, 3.0, 0.33))
    fixed = cw.LossFamily(omega=0.5, gamma=0.2, tau=2.0)
    x, y = torch.randn(32, 3, 32, 32), torch.randint(0, 2, (32,))

    def step_of(objective: cw.LossFamily) -> object:
        network = cw.condition(residual_network(), objective)
        optimizer = torch.optim.SGD(network.parameters(), lr=0.01, momentum=0.9)

        def step() -> None:
            lam = objective.draw(1)[0]
            optimizer.zero_grad()
            objective.loss(network(x, lam), y, lam, class_counts=COUNTS).backward()
            optimizer.step()

        return step

    times = interleave({"film": step_of(family), "plain": step_of(fixed)}, rounds=31)
    return cost("step of a ResNet-32 with FiLM", times["film"], times["plain"], 1.05)


def measure() -> list[Result]:
    torch.manual_seed(0)
    return [*flat(), stack(), film_step()]


if __name__ == "__main__":
    main("Speed of the loss and of conditioning", measure, QUESTION)
