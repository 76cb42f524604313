"""Small data, networks and families that the tests of training share."""

import torch
from torch import nn

from curvewise.losses.family import LinearDensity, LossFamily
from curvewise.networks.architectures import MLP, SmallCNN
from curvewise.training.loop import fit
from curvewise.training.recipe import Recipe

VS = [LossFamily(omega, 0.2, tau) for omega, tau in ((0.5, 0.0), (0.7, 1.0), (0.99, 3.0))]
LCT = [
    LossFamily(0.5 + g, g, LinearDensity(0, 3, h)) for g, h in ((0, 0), (0.2, 0.33), (0.4, 0.66))
]
FIXED, DRAWN = VS[1], LCT[1]
N = 150
SETTINGS = {
    "sgd": {},
    "plain sgd without clipping": {"momentum": 0.0, "clip_norm": None},
    "adamw": {"optimizer": "adamw", "lr": 0.01, "weight_decay": 0.1},
    "sam": {"rho": 0.1},
    "adaptive sam over adamw": {"optimizer": "adamw", "lr": 0.01, "rho": 0.5, "adaptive": True},
    "average": {"ema_decay": 0.5},
    "average every step": {"ema_decay": 0.9, "ema_every": "step"},
    "average of a share of the run": {"ema_share": 0.3},
    "cosine": {"schedule": "cosine", "warmup_epochs": 1},
    "milestones": {"schedule": "step", "milestones": (1, 2)},
    "smoothing": {"label_smoothing": 0.1},
    "lambda per sample": {"draw": "sample"},
    "minority": {"minority_per_batch": 7},
    "the last two batches smaller": {"minority_per_batch": 3, "batch_size": 37, "draw": "sample"},
    "noise, sam": {"input_noise": 0.3, "rho": 0.1},
}


def table():
    """150 rows of six columns, a tenth of them positive and a little to the side."""
    generator = torch.Generator().manual_seed(7)
    y = (torch.arange(N) % 10 == 0).long()
    x = torch.randn(N, 6, generator=generator, dtype=torch.float64) + 0.7 * y[:, None]
    return x, y


X, Y = table()
FLOATS = X.float()


def images(n=60):
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(n, 1, 8, 8, generator=generator, dtype=torch.float64)
    return x, (torch.arange(n) % 6 == 0).long()


def held_out(y):
    """Rows (3, n): member k does not learn from every fifth sample of a class, from the k-th."""
    rows = torch.ones(3, len(y), dtype=torch.float64)
    for label in (0, 1):
        of_class = (y == label).nonzero().flatten()
        for k in range(3):
            rows[k, of_class[k::5]] = 0
    return 1.25 * rows


def built(seed, make):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return make()


def mlp(seed, hidden=(16, 8)):
    return built(seed, lambda: MLP(6, hidden=hidden)).double()


def with_dropout(seed):
    """A network whose members have to be trained one by one."""
    network = mlp(seed)
    network.body.append(nn.Dropout(0.3))
    return network


def tanh_network(seed):
    """Layers that have to be mapped."""
    return built(seed, lambda: nn.Sequential(nn.Linear(6, 9), nn.Tanh(), nn.Linear(9, 2))).double()


def batch_norm(seed):
    """A network that keeps statistics and draws numbers, in float32."""

    def make():
        layers = nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 2)
        return nn.Sequential(*layers)

    return built(seed, make)


def cnn(seed):
    return built(seed, lambda: SmallCNN(1, width=4)).double()


def recipe(**settings):
    base = {"epochs": 3, "batch_size": 32, "clip_norm": 0.5, "device": "cpu", "lr": 0.1}
    return Recipe(**{**base, **({"epochs": None} if "steps" in settings else {}), **settings})


def recipes(**settings):
    """Recipes of three members that differ in all that they may."""
    shared = recipe(**settings)
    return [
        shared.changed(seed_weights=3, seed_lambda=5),
        shared.changed(seed_weights=1, seed_lambda=9, lr=shared.lr / 3, weight_decay=0.05),
        shared.changed(seed_weights=8, seed_lambda=5, lr=shared.lr * 1.5, weight_decay=0.01),
    ]


def alone(build, families, x, y, members, rows=None, **more):
    """The members of a stack by `fit`, each with its own weights of rows."""
    rows = [None] * len(members) if rows is None else rows
    return [
        fit(build(own.seed_weights), family, x, y, own, sample_weight=row, **more).network
        for family, own, row in zip(families, members, rows, strict=True)
    ]


def weights(network):
    return torch.cat([value.flatten().double() for value in network.state_dict().values()])


def difference(networks, others):
    """The largest difference of any weight or buffer of any member."""
    pairs = zip(networks, others, strict=True)
    return max((weights(a) - weights(b)).abs().max().item() for a, b in pairs)
