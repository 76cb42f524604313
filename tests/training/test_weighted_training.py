"""Sample weights in `fit` and `fit_stacked`: plain loops, repeated rows, held-out rows."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from curvewise.base.errors import InputError
from curvewise.losses.baselines import AUCMarginLoss, FocalLoss, LDAMLoss
from curvewise.losses.family import LinearDensity, LossFamily
from curvewise.networks.architectures import MLP
from curvewise.networks.conditioning import condition
from curvewise.training.batches import epoch_batches
from curvewise.training.loop import fit
from curvewise.training.recipe import Recipe
from curvewise.training.stacked import fit_stacked

FIXED = LossFamily(0.7, 0.2, 1.0)
VS = [LossFamily(omega, 0.2, tau) for omega, tau in ((0.5, 0.0), (0.7, 1.0), (0.99, 3.0))]
LCT = [
    LossFamily(0.5 + g, g, LinearDensity(0, 3, h)) for g, h in ((0, 0), (0.2, 0.33), (0.4, 0.66))
]
OPTIMISERS = {
    "sgd": {"lr": 0.1},
    "adamw": {"optimizer": "adamw", "lr": 0.01, "weight_decay": 0.1},
}
N = 150


@pytest.fixture
def double():
    """Draw lambda in float64 too."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def data():
    generator = torch.Generator().manual_seed(7)
    y = (torch.arange(N) % 10 == 0).long()
    x = torch.randn(N, 6, generator=generator, dtype=torch.float64) + 0.7 * y[:, None]
    return x, y, 2 * torch.rand(N, generator=generator, dtype=torch.float64)


def held_out(y):
    """Rows (3, n): member k does not learn from every fifth sample of a class, from the k-th."""
    rows = torch.ones(3, N, dtype=torch.float64)
    for label in (0, 1):
        members = (y == label).nonzero().flatten()
        for k in range(3):
            rows[k, members[k::5]] = 0
    return 1.25 * rows


def build(seed):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return MLP(6, hidden=(16, 8)).double()


def weights(network):
    return torch.cat([value.flatten() for value in network.state_dict().values()])


def difference(networks, others):
    pairs = zip(networks, others, strict=True)
    return max((weights(a) - weights(b)).abs().max().item() for a, b in pairs)


def recipe(**settings):
    base = {"steps": 60, "batch_size": 32, "clip_norm": 0.5, "device": "cpu", "lr": 0.1}
    return Recipe(**{**base, **settings})


def alone(families, x, y, given, rows, **more):
    """The members of a stack by `fit`, each with its own weights."""
    members = [
        given.changed(seed_weights=given.seed_weights + k, seed_lambda=given.seed_lambda + k)
        for k in range(len(families))
    ]
    return [
        fit(build(own.seed_weights), family, x, y, own, sample_weight=weight, **more).network
        for family, own, weight in zip(families, members, rows, strict=True)
    ]


def test_fit_is_the_plain_loop():
    x, y, weight = data()
    given = recipe(lr=0.05, minority_per_batch=6)
    fitted = fit(build(0), FIXED, x, y, given, sample_weight=weight)
    counts = [weight[y == c].sum().item() for c in (0, 1)]
    assert fitted.class_counts == pytest.approx(counts, rel=1e-12)
    model = condition(build(0), FIXED)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    beta = counts[0] / counts[1]
    done = 0
    for epoch in range(60):
        for batch in epoch_batches(N, epoch, FIXED, given, labels=y):
            if done == 60:
                break
            logits, labels, own = model(x[batch.rows]), y[batch.rows], weight[batch.rows]
            margin = logits[:, 1] / beta**0.2 - logits[:, 0] - math.log(beta)
            each = torch.where(labels == 1, nn.functional.softplus(-margin),
                               nn.functional.softplus(margin))  # fmt: skip
            both = own * (0.3 + 0.4 * labels.double())
            optimizer.zero_grad()
            ((both * each).sum() / both.sum()).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            optimizer.step()
            done += 1
    assert difference([fitted.network], [model]) < 1e-9
    plain = fit(build(0), FIXED, x, y, given)
    assert difference([fitted.network], [plain.network]) > 1e-3
    assert plain.class_counts == (135, 15)


@pytest.mark.parametrize("reduction", ["weighted_mean", "expected_mean"])
@pytest.mark.parametrize("family", [VS[1], LCT[1]], ids=["VS", "LCT"])
def test_weights_of_one_change_nothing(family, reduction):
    family = LossFamily(**family.settings, reduction=reduction)
    x, y, _ = data()
    networks = [
        fit(build(0), family, x, y, recipe(), sample_weight=ones).network
        for ones in (None, np.ones(N), [1] * N, torch.ones(N, dtype=torch.bool))
    ]
    assert difference(networks[1:], networks[:1] * 3) < 1e-12


def test_whole_weights_are_repeated_rows_when_a_batch_is_everything():
    x, y, _ = data()
    times = torch.arange(N) % 4
    rows = torch.arange(N).repeat_interleave(times)
    whole = recipe(batch_size=1000)
    weighted = fit(build(0), FIXED, x, y, whole, sample_weight=times)
    repeated = fit(build(0), FIXED, x[rows], y[rows], whole)
    assert weighted.class_counts == repeated.class_counts
    assert difference([weighted.network], [repeated.network]) < 1e-10


@pytest.mark.parametrize("kind", ["one for all", "one a member"])
@pytest.mark.parametrize("settings", OPTIMISERS.values(), ids=OPTIMISERS)
@pytest.mark.parametrize("families", [VS, LCT], ids=["VS", "LCT"])
def test_a_stack_is_its_members_one_by_one(families, settings, kind):
    x, y, weight = data()
    rows = held_out(y)
    given = weight if kind == "one for all" else rows
    each = [weight] * 3 if kind == "one for all" else rows
    stack = fit_stacked(build, families, x, y, recipe(**settings), sample_weight=given)
    assert stack.how == "stacked: 3 models as one"
    networks = alone(families, x, y, recipe(**settings), each)
    assert difference(stack.networks, networks) < 1e-9
    plain = fit_stacked(build, families, x, y, recipe(**settings))
    assert difference(stack.networks, plain.networks) > 1e-3  # else the test says nothing


MORE = {
    "minority": {"minority_per_batch": 7},
    "minority, per sample": {"minority_per_batch": 7, "draw": "sample"},
    "the last two batches smaller": {"minority_per_batch": 3, "batch_size": 37, "draw": "sample"},
    "sam": {"rho": 0.1},
    "smoothing": {"label_smoothing": 0.1},
    "noise": {"input_noise": 0.3},
    "noise, sam": {"input_noise": 0.3, "rho": 0.1},
}


@pytest.mark.parametrize("settings", MORE.values(), ids=MORE)
@pytest.mark.parametrize("chunk", [None, 2])
@pytest.mark.usefixtures("double")
def test_stacks_with_further_settings(settings, chunk):
    x, y, _ = data()
    rows = held_out(y)
    stack = fit_stacked(build, LCT, x, y, recipe(**settings), sample_weight=rows, chunk=chunk)
    assert difference(stack.networks, alone(LCT, x, y, recipe(**settings), rows)) < 1e-9
    plain = fit_stacked(build, LCT, x, y, recipe(), sample_weight=rows, chunk=chunk)
    assert difference(stack.networks, plain.networks) > 1e-6  # else the test says nothing


@pytest.mark.parametrize("objective", [FocalLoss, LDAMLoss, AUCMarginLoss])
def test_stacks_of_other_losses(objective):
    x, y, _ = data()
    rows, given = held_out(y), recipe(lr=0.01)
    stack = fit_stacked(build, [objective() for _ in range(3)], x, y, given, sample_weight=rows)
    networks = alone([objective() for _ in range(3)], x, y, given, rows)
    assert difference(stack.networks, networks) < 1e-7  # objectives have float32 parameters


def test_members_hold_out_rows():
    x, y, _ = data()
    rows = held_out(y)
    changed = x.clone()
    changed[rows[0] == 0] += 100.0
    first, second = (
        fit_stacked(build, LCT, each, y, recipe(), sample_weight=rows) for each in (x, changed)
    )
    assert difference(first.networks[:1], second.networks[:1]) < 1e-12
    assert difference(first.networks[1:2], second.networks[1:2]) > 1e-3


def test_all_members_are_told_the_mean_of_the_sums():
    x, y, _ = data()
    rows = torch.stack([torch.full((N,), 1.0 + k, dtype=torch.float64) for k in range(3)])
    rows[2, y == 1] = 9.0
    for chunk in (None, 2):
        stack = fit_stacked(build, VS, x, y, recipe(), sample_weight=rows, chunk=chunk)
        assert stack.class_counts == pytest.approx((135 * 2, 15 * 4))
        networks = alone(VS, x, y, recipe(), rows, class_counts=stack.class_counts)
        assert difference(stack.networks, networks) < 1e-9

    def with_dropout(seed):
        network = build(seed)
        network.body.append(nn.Dropout(0.0))
        return network

    one_by_one = fit_stacked(with_dropout, VS, x, y, recipe(), sample_weight=rows)
    assert one_by_one.how.startswith("one by one")
    assert one_by_one.class_counts == stack.class_counts
    assert difference(one_by_one.networks, stack.networks) < 1e-9


def test_a_member_that_diverges_takes_its_weights_along():
    x, y, _ = data()
    rows = held_out(y)
    calm = recipe(clip_norm=None, lr=0.05)
    members = [calm.changed(seed_weights=k, seed_lambda=k) for k in range(3)]
    members[1] = members[1].changed(lr=1e160)
    stack = fit_stacked(build, LCT, x, y, members, sample_weight=rows)
    assert list(stack.diverged) == [1]
    networks = alone(LCT, x, y, calm, rows)
    assert difference(stack.networks[::2], networks[::2]) < 1e-9


def test_a_stopped_run_goes_on_to_the_same_bits():
    x, y, weight = data()
    given = recipe(minority_per_batch=6, input_noise=0.2)
    whole = fit(build(0), LCT[1], x, y, given, sample_weight=weight)
    first = fit(build(0), LCT[1], x, y, given, sample_weight=weight,
                on_progress=lambda progress: progress.step == 17)  # fmt: skip
    second = fit(build(4), LCT[1], x, y, given, sample_weight=weight, state=first.state)
    assert weights(second.network).equal(weights(whole.network))


def test_an_objective_that_knows_no_weights_still_trains_without():
    class Plain(FocalLoss):
        def loss(self, logits, target, lam, *, class_counts):
            return nn.functional.cross_entropy(logits, target)

    x, y, _ = data()
    assert fit(build(0), Plain(), x, y, recipe(steps=2, label_smoothing=0.1)).finished


def wrong(place, value):
    weight = np.ones(N)
    weight[place] = value
    return weight


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (np.ones(N - 1), r"must have shape \(150,\), got \(149,\)"),
        (np.ones((3, N)), r"must have shape \(150,\), got \(3, 150\)"),
        (1.0, r"must have shape \(150,\), got \(\)"),
        (wrong(3, -0.5), "must be finite and >= 0, got -0.5"),
        (wrong(3, np.nan), "must be finite and >= 0, got nan"),
        (wrong(3, np.inf), "must be finite and >= 0, got inf"),
        (np.array(["a"] * N), "must hold numbers, got <U1"),
        ([[1.0], [1.0, 2.0]], "must be an array"),
        (
            wrong(slice(0, None, 10), 0.0),
            r"must be positive somewhere in every class, got sums \[135.0, 0.0\]",
        ),
    ],
)
def test_weights_that_cannot_be(weight, message):
    x, y, _ = data()
    with pytest.raises(InputError, match=f"sample_weight {message}"):
        fit(build(0), FIXED, x, y, recipe(), sample_weight=weight)


def test_weights_of_members_that_cannot_be():
    x, y, _ = data()
    rows = np.ones((3, N))
    rows[1, ::10] = 0
    with pytest.raises(InputError, match="in every class for member 1, got sums"):
        fit_stacked(build, VS, x, y, recipe(), sample_weight=rows)
    with pytest.raises(InputError, match=r"shape \(150,\) or \(3, 150\), got \(2, 150\)"):
        fit_stacked(build, VS, x, y, recipe(), sample_weight=rows[:2])
    with pytest.raises(InputError, match="a number for each of 2 classes"):
        fit(build(0), FIXED, x, y, recipe(), class_counts=(5, 4, 3))
