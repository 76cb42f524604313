"""Snapshots of a stack are what a run stopped there would have given."""

import pytest
import torch
from torch import nn

from curvewise.base.errors import InputError
from curvewise.losses.baselines import AUCMarginLoss
from curvewise.losses.family import LinearDensity, LossFamily
from curvewise.networks.architectures import MLP, SmallCNN
from curvewise.training.recipe import Recipe
from curvewise.training.stacked import fit_stacked, stacked_scores

LCT = [
    LossFamily(0.5 + g, g, LinearDensity(0, 3, h)) for g, h in ((0, 0), (0.2, 0.33), (0.4, 0.66))
]
FRACTIONS = (0.1, 0.5, 0.8)
STEPS = (2, 10, 16)  # of 20


def data(shape=(6,)):
    generator = torch.Generator().manual_seed(7)
    y = (torch.arange(150) % 10 == 0).long()
    x = torch.randn(150, *shape, generator=generator, dtype=torch.float64)
    return x + y.view(-1, *[1] * len(shape)), y


def mlp(seed):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return MLP(6, hidden=(16, 8)).double()


def cnn(seed):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return SmallCNN(1, width=4).double()


def with_dropout(seed):
    network = mlp(seed)
    network.body.append(nn.Dropout(0.3))
    return network


def recipe(**settings):
    return Recipe(**{"steps": 20, "batch_size": 32, "lr": 0.05, "device": "cpu", **settings})


def weights(network):
    return torch.cat([value.flatten().double() for value in network.state_dict().values()])


CASES = {
    "stacked": (mlp, {}, None),
    "adamw": (mlp, {"optimizer": "adamw", "lr": 0.01}, None),
    "average": (mlp, {"ema_decay": 0.9, "ema_every": "step"}, None),
    "average every epoch": (mlp, {"ema_decay": 0.5}, None),
    "chunks": (mlp, {}, 2),
    "one by one": (with_dropout, {}, None),
    "one by one, average": (with_dropout, {"ema_decay": 0.9}, None),
    "batch norm, stacked": (cnn, {"ema_decay": 0.5}, 3),
    "batch norm, one by one": (cnn, {}, None),
}


@pytest.mark.parametrize("case", CASES)
def test_a_snapshot_is_a_run_stopped_there(case):
    build, settings, chunk = CASES[case]
    x, y = data((1, 8, 8) if build is cnn else (6,))
    given = recipe(**settings)
    whole = fit_stacked(build, LCT, x, y, given, chunk=chunk, snapshots=FRACTIONS)
    assert [len(taken) for taken in whole.snapshots] == [3, 3, 3]
    for taken, step in zip(whole.snapshots, STEPS, strict=True):
        for k in range(3):
            member = given.changed(seed_weights=k, seed_lambda=k)
            stopped = fit_stacked(
                build, LCT[k : k + 1], x, y, [member], chunk=chunk and 1,
                on_progress=lambda done, total, step=step: done == step,
            )  # fmt: skip
            expected, got = weights(stopped.networks[0]), weights(taken[k])
            assert (expected - got).abs().max() < 1e-10
            assert not taken[k].training
    plain = fit_stacked(build, LCT, x, y, given, chunk=chunk)
    assert plain.snapshots == []
    for network, same, early in zip(
        whole.networks, plain.networks, whole.snapshots[-1], strict=True
    ):
        assert weights(network).equal(weights(same))  # looking changes nothing
        assert (weights(network) - weights(early)).abs().max() > 1e-4


def test_snapshots_are_copies_that_can_be_used():
    x, y = data()
    stack = fit_stacked(mlp, LCT, x, y, recipe(), snapshots=(0.5, 0.9))
    lams = torch.tensor([[3.0]])
    before = stacked_scores(stack.snapshots[0], x, lams)
    with torch.no_grad():
        for network in [*stack.networks, *stack.snapshots[1]]:
            for parameter in network.parameters():
                parameter.fill_(0.0)
    assert (stacked_scores(stack.snapshots[0], x, lams) == before).all()
    logits = stack.snapshots[0][1](x, lams[0])
    expected = (logits[:, 1] - logits[:, 0]).detach().numpy()
    assert before[1, 0] == pytest.approx(expected, abs=1e-5)


def test_objectives_with_parameters_of_their_own():
    x, y = data()
    given = recipe()
    three = [AUCMarginLoss() for _ in range(3)]
    whole = fit_stacked(mlp, three, x, y, given, snapshots=(0.5,))
    three = [AUCMarginLoss() for _ in range(3)]
    stopped = fit_stacked(mlp, three, x, y, given, on_progress=lambda done, _: done == 30)
    for mine, other in zip(whole.snapshots[0], stopped.networks, strict=True):
        assert weights(mine).equal(weights(other))


@pytest.mark.parametrize(("chunk", "build"), [(None, mlp), (2, mlp), (None, with_dropout)])
def test_what_a_stopped_run_did_not_get_to_is_as_it_was_left(chunk, build):
    x, y = data()
    stack = fit_stacked(
        build, LCT, x, y, recipe(), chunk=chunk, snapshots=(0.1, 0.5),
        on_progress=lambda done, total: done >= total // 4,
    )  # fmt: skip
    first, second = stack.snapshots
    for network, early, late in zip(stack.networks, first, second, strict=True):
        assert not early.training
        assert not late.training
        if network is stack.networks[0]:
            assert not weights(early).equal(weights(network))
    if chunk is None and build is mlp:
        assert all(
            weights(late).equal(weights(network))
            for late, network in zip(second, stack.networks, strict=True)
        )


@pytest.mark.parametrize("together", [True, False])
def test_members_that_diverge(together):
    x, y = data()
    calm = recipe(clip_norm=None)
    members = [calm.changed(seed_weights=k, seed_lambda=k) for k in range(3)]
    members[1] = members[1].changed(lr=1e160)
    build = mlp if together else with_dropout
    stack = fit_stacked(build, LCT, x, y, members, snapshots=(0.05, 0.5))
    assert list(stack.diverged) == [1]
    first, second = stack.snapshots
    assert weights(first[1]).abs().max() > 1e100  # after its first step, before it was seen
    left = weights(stack.networks[1])
    torch.testing.assert_close(weights(second[1]), left, rtol=0, atol=0, equal_nan=True)
    again = fit_stacked(build, [LCT[0], LCT[2]], x, y, members[::2], snapshots=(0.5,))
    for mine, other in zip((second[0], second[2]), again.snapshots[0], strict=True):
        assert (weights(mine) - weights(other)).abs().max() < 1e-10


def test_snapshots_survive_all_members_diverging_right_after():
    x, y = data()
    wild = recipe(clip_norm=None, lr=1e160)
    stack = fit_stacked(mlp, LCT, x, y, wild, snapshots=(0.05,))
    assert sorted(stack.diverged) == [0, 1, 2]
    stopped = fit_stacked(mlp, LCT, x, y, wild, on_progress=lambda *_: True)
    for mine, other in zip(stack.snapshots[0], stopped.networks, strict=True):
        assert weights(mine).equal(weights(other))


@pytest.mark.parametrize(
    ("snapshots", "message"),
    [
        ((0.5, 0.2), r"snapshots must increase, got \[0.5, 0.2\]"),
        ((0.5, 0.5), "snapshots must increase"),
        ((0.0, 0.5), "must lie strictly between 0 and 1, got 0"),
        ((0.5, 1.0), "must lie strictly between 0 and 1, got 1"),
        ((0.5, 7), r"must lie strictly between 0 and 1, got 7"),
        (("half",), "must be a number, got 'half'"),
    ],
)
def test_fractions_that_cannot_be(snapshots, message):
    x, y = data()
    with pytest.raises(InputError, match=message):
        fit_stacked(mlp, LCT, x, y, recipe(), snapshots=snapshots)
