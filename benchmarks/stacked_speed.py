"""Speed of training many small models as one program, against plain PyTorch on the same machine.

The peers are written without curvewise: the same networks, vector-scaling loss, SGD with momentum
and clipping, trained one by one with all threads, and in two processes of one thread each. What
counts is the time per model and step; n = 6,060, batch 128, 96 models. Every contender has
processes of its own.

Targets
-------
- 96 MLPs 30-64-64-2: at least 9x of one by one, at least 5x of two processes.
- 96 heads on 1,280 frozen features (1280-64-FiLM-2, tau drawn anew each batch): at least 3x and 2x.
- 96 MLPs 784-256-64-2: at least 1.4x of the better of the two.
"""

import itertools
import math
import multiprocessing
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection

import torch
from torch import Tensor, nn

import curvewise as cw
from _measure import Result, faster, main
from curvewise.training.batches import TrainingData
from curvewise.training.loop import conditioned
from curvewise.training.stacked import Member, StackedRun, choose_chunk, member_recipes

QUESTION = "How much faster are 96 small models as one program than one by one?"
CAVEATS = (
    "The widest network misses: its products already run at 0.83 to 0.97 of the processor's "
    "peak, and two processes use both cores for the same.",
    "Tried for it: one product a member, one over all members, updates row by row, torch's "
    "fused SGD. The best of each together would reach 1.3.",
)

MEMBERS, SAMPLES, BATCH, ROUNDS = 96, 6060, 128, 7
SHAPES = {"small": (30, (64, 64)), "head": (1280, (64,)), "wide": (784, (256, 64))}
COUNTS = (6000, 60)
SETTINGS = [(o, g, t) for o in (0.5, 0.7, 0.9, 0.99) for g in (0.0, 0.2, 0.4) for t in range(8)]


def data(width: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(SAMPLES, width, generator=generator)
    return x, (torch.arange(SAMPLES) >= COUNTS[0]).long()


def stacked(shape: str) -> Iterator[int]:
    """Train chunk after chunk for an epoch at a time; yields the model steps done."""
    width, hidden = SHAPES[shape]
    tau = {True: cw.LinearDensity(0.0, 3.0, 0.33)}
    families = [cw.LossFamily(o, g, tau.get(shape == "head", t)) for o, g, t in SETTINGS]
    recipes = member_recipes(cw.Recipe(epochs=10_000, lr=0.1, clip_norm=0.5), MEMBERS)
    networks = [
        conditioned(cw.build_network("mlp", in_shape=(width,), hidden=hidden, seed=k), f, r)
        for k, (f, r) in enumerate(zip(families, recipes, strict=True))
    ]
    x, y = data(width)
    members = list(map(Member, networks, families, recipes))
    chunk, _ = choose_chunk(members[0], MEMBERS, None)
    run = StackedRun(members[:chunk], TrainingData(x, y, x.device))
    for _ in run.steps_left():
        yield chunk


class Plain(nn.Module):
    """What one would write by hand, with FiLM before the last layer or without."""

    def __init__(self, width: int, hidden: tuple[int, ...], film: bool) -> None:
        super().__init__()
        sizes = [width, *hidden]
        layers: list[nn.Module] = []
        for before, after in itertools.pairwise(sizes):
            layers += [nn.Linear(before, after), nn.ReLU()]
        self.body, self.last = nn.Sequential(*layers), nn.Linear(sizes[-1], 2)
        self.sigma, self.mu = (
            nn.Sequential(nn.Linear(1, 128), nn.ReLU(), nn.Linear(128, sizes[-1])) if film else None
            for _ in range(2)
        )

    def forward(self, x: Tensor, tau: Tensor) -> Tensor:
        """Return logits (n, 2)."""
        features = self.body(x)
        if self.sigma is not None and self.mu is not None:
            features = self.sigma(tau) * features + self.mu(tau)
        return self.last(features)


def plain(shape: str) -> Iterator[int]:
    """Train one model after another, an epoch each."""
    width, hidden = SHAPES[shape]
    x, y = data(width)
    log_beta, beta = math.log(COUNTS[0] / COUNTS[1]), COUNTS[0] / COUNTS[1]
    models = []
    for _ in range(4):
        model = Plain(width, hidden, film=shape == "head")
        models.append((model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)))
    while True:
        for (model, optimizer), (omega, gamma, fixed) in zip(models, SETTINGS, strict=False):
            for rows in torch.randperm(SAMPLES).split(BATCH):
                target = y[rows]
                tau = 3 * torch.rand(1) if shape == "head" else torch.tensor([float(fixed)])
                optimizer.zero_grad()
                z = model(x[rows], tau)
                margin = z[:, 1] / beta**gamma - z[:, 0] - tau * log_beta
                weight = torch.where(target == 1, omega, 1 - omega)
                losses = weight * nn.functional.softplus(torch.where(target == 1, -margin, margin))
                loss = losses.sum() / weight.sum()
                loss.backward()
                nn.utils.clip_grad_norm_(model.parameters(), 0.5)
                optimizer.step()
                loss.item()
                yield 1


def contend(kind: str, shape: str, threads: int, pipe: Connection) -> None:
    """Train for the seconds asked for, answer with the seconds a model and step took."""
    torch.set_num_threads(threads)
    steps = {"stacked": stacked, "plain": plain}[kind](shape)
    for _ in range(20):
        next(steps)
    pipe.send(0.0)
    while (seconds := pipe.recv()) > 0:
        done, start = 0, time.perf_counter()
        while time.perf_counter() - start < seconds:
            done += next(steps)
        pipe.send((time.perf_counter() - start) / done)


def measured(shape: str) -> dict[str, list[float]]:
    context = multiprocessing.get_context("spawn")
    teams: dict[str, list[Connection]] = {}
    for name, kind, threads, count in (
        ("stacked", "stacked", torch.get_num_threads(), 1),
        ("one by one", "plain", torch.get_num_threads(), 1),
        ("two processes", "plain", 1, 2),
    ):
        teams[name] = []
        for _ in range(count):
            ours, theirs = context.Pipe()
            arguments = (kind, shape, threads, theirs)
            context.Process(target=contend, args=arguments, daemon=True).start()
            ours.recv()
            teams[name].append(ours)
    times: dict[str, list[float]] = {name: [] for name in teams}
    for _ in range(ROUNDS):
        for name, pipes in teams.items():
            for pipe in pipes:
                pipe.send(1.5)
            per_step = [pipe.recv() for pipe in pipes]
            times[name].append(1 / sum(1 / seconds for seconds in per_step))  # rates add up
    for pipe in (pipe for pipes in teams.values() for pipe in pipes):
        pipe.send(0)
    return times


def measure() -> list[Result]:
    small, head, wide = (measured(shape) for shape in ("small", "head", "wide"))
    better = list(map(min, wide["one by one"], wide["two processes"]))
    return [
        faster("96 MLPs 30-64-64-2 than one by one", small["stacked"], small["one by one"], 9),
        faster(
            "96 MLPs 30-64-64-2 than two processes", small["stacked"], small["two processes"], 5
        ),
        faster("96 heads 1280-64-FiLM-2 than one by one", head["stacked"], head["one by one"], 3),
        faster("96 heads 1280-64-FiLM-2, two processes", head["stacked"], head["two processes"], 2),
        faster("96 MLPs 784-256-64-2 than the better", wide["stacked"], better, 1.4),
    ]


if __name__ == "__main__":
    main("Speed of stacked training", measure, QUESTION, CAVEATS)
