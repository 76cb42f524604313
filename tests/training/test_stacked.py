"""A stack trains each member as `fit` trains it alone."""

import math
import re
from functools import partial

import numpy as np
import pytest
import torch
from small_models import (
    LCT,
    SETTINGS,
    VS,
    N,
    X,
    Y,
    alone,
    cnn,
    difference,
    held_out,
    images,
    mlp,
    recipe,
    recipes,
    tanh_network,
    weights,
    with_dropout,
)
from torch import nn

from curvewise.losses.baselines import AUCMarginLoss, FocalLoss, LDAMLoss
from curvewise.losses.family import LinearDensity, LossFamily
from curvewise.networks.architectures import MLP
from curvewise.networks.conditioning import condition
from curvewise.training.loop import conditioned, fit
from curvewise.training.stacked import Member, choose_chunk, fit_stacked

SCALE = torch.rand(3, 6, generator=torch.Generator().manual_seed(2), dtype=torch.float64) + 0.05
ALL_SETTINGS = {
    **SETTINGS,
    "film at the logits": {"film_at": "logits"},
    "film at both": {"film_at": "both", "film_init": "paper", "scale_lambda": True},
    "one batch": {"batch_size": 1000},
}


def stacked(members, families=LCT, build=mlp, **more):
    return fit_stacked(build, families, X, Y, members, **more)


@pytest.mark.parametrize("families", [VS, LCT], ids=["VS", "LCT"])
@pytest.mark.parametrize("settings", ALL_SETTINGS.values(), ids=ALL_SETTINGS)
@pytest.mark.usefixtures("double")
def test_a_stack_is_its_members_one_by_one(families, settings):
    members, shared = recipes(**settings), 2 * torch.rand(N, dtype=torch.float64)
    rows, given = (held_out(Y),) * 2 if families is LCT else ([shared] * 3, shared)
    stack = stacked(members, families, sample_weight=given)
    assert stack.how == "stacked: 3 models as one"
    assert difference(stack.networks, alone(mlp, families, X, Y, members, rows)) < 1e-9
    start = [conditioned(mlp(m.seed_weights), f, m) for f, m in zip(families, members, strict=True)]
    assert difference(stack.networks, start) > 1e-3  # else the test says nothing


@pytest.mark.parametrize(("families", "settings"), [(VS, {}), (LCT, SETTINGS["adamw"])])
def test_many_steps_of_members_with_one_rate_and_decay(families, settings):
    shared = recipe(steps=100, seed_weights=10, seed_order=4, seed_lambda=20, **settings)
    stack = stacked(shared, families)
    seeds = [(own.seed_weights, own.seed_order, own.seed_lambda) for own in stack.recipes]
    assert seeds == [(10, 4, 20), (11, 4, 21), (12, 4, 22)]
    assert difference(stack.networks, alone(mlp, families, X, Y, stack.recipes)) < 1e-9


@pytest.mark.parametrize("objective", [
    lambda: FocalLoss(2.0),
    lambda: LDAMLoss(0.5, 10.0),
    lambda: AUCMarginLoss(1.0),
    lambda: LossFamily([0.3, 0.7], 0.1, 1.0),
    lambda: LossFamily(LinearDensity(0.5, 0.9, 2.0), LinearDensity(0, 0.4, 2.5), 1.0),
])  # fmt: skip
@pytest.mark.parametrize(("build", "chunk", "rho"), [(mlp, None, 0.05), (tanh_network, 3, 0.0)])
def test_any_objective(objective, build, chunk, rho):
    rows, members = held_out(Y), recipes(lr=0.03, rho=rho)
    three, others = ([objective() for _ in range(3)] for _ in range(2))
    stack = fit_stacked(build, three, X, Y, members, sample_weight=rows, chunk=chunk)
    networks = alone(build, others, X, Y, members, rows)
    assert difference(stack.networks, networks) < 1e-7  # objectives have float32 parameters


@pytest.mark.parametrize("hidden", [(), (4,), (8, 8, 8)])
def test_any_depth_and_any_chunk(hidden):
    build, members = partial(mlp, hidden=hidden), recipes()
    whole, cut = (stacked(members, build=build, chunk=chunk) for chunk in (None, 2))
    assert cut.how == "stacked: 3 models in chunks of 2"
    assert difference(whole.networks, cut.networks) < 1e-12
    assert [len(losses) for losses in cut.epoch_losses] == [3, 3, 3]
    assert difference(whole.networks, alone(build, LCT, X, Y, members)) < 1e-10


@pytest.mark.parametrize("settings", [{}, {"rho": 0.1}, {"ema_decay": 0.9}], ids=str)
def test_convolutions_with_batch_norm_stack_where_asked(settings):
    x, y = images()
    members = recipes(**settings)
    stack = fit_stacked(cnn, LCT, x, y, members, chunk=3)
    assert stack.how == "stacked: 3 models as one"
    assert difference(stack.networks, alone(cnn, LCT, x, y, members)) < 1e-9
    one_by_one = fit_stacked(cnn, LCT, x, y, members)
    assert one_by_one.how.startswith("one by one: 3 models")
    assert difference(one_by_one.networks, stack.networks) < 1e-9


def unused_and_frozen(seed):
    network = mlp(seed)
    network.body[0].requires_grad_(False)
    network.unused = nn.Linear(2, 2).double()
    return network


def test_frozen_layers_and_unused_ones_stay_as_they_are():
    members = [own.changed(weight_decay=0) for own in recipes()]
    stack = fit_stacked(unused_and_frozen, LCT, X, Y, members, chunk=3)
    networks = alone(unused_and_frozen, LCT, X, Y, members)
    for network, other, own in zip(stack.networks, networks, members, strict=True):
        assert difference([network.linear, network.film], [other.linear, other.film]) < 1e-10
        first = unused_and_frozen(own.seed_weights).body[0]
        assert network.body.body[0].weight.equal(first.weight)


BUILDS = {
    "layered": (mlp, None),
    "layered in chunks": (mlp, 2),
    "linear": (partial(mlp, hidden=()), None),
    "mapped": (tanh_network, 3),
    "mapped in chunks": (tanh_network, 2),
    "one by one": (tanh_network, None),
}


def on_scaled_tables(build, families, members, dtype=X.dtype):
    return [
        alone(build, [family], (X * scale).to(dtype), Y, [own])[0]
        for family, own, scale in zip(families, members, SCALE, strict=True)
    ]


@pytest.mark.parametrize(("families", "settings"), [(VS, SETTINGS["adamw"]), (LCT, {"rho": 0.1})])
@pytest.mark.parametrize(("build", "chunk"), BUILDS.values(), ids=BUILDS)
def test_scaled_inputs_are_those_of_a_scaled_table(families, settings, build, chunk):
    members = recipes(**settings)
    stack = stacked(members, families, build, input_scale=SCALE.numpy(), chunk=chunk)
    assert difference(stack.networks, on_scaled_tables(build, families, members)) < 1e-9


@pytest.mark.parametrize("build", [mlp, tanh_network])
def test_arrays_are_cast_to_float32_and_scales_to_the_type_of_the_weights(build):
    def floats(seed):
        return build(seed).float()

    members = recipes()
    stack = fit_stacked(floats, LCT, X.numpy(), Y, members, input_scale=SCALE.numpy())
    twins = on_scaled_tables(floats, LCT, members, torch.float32)
    assert difference(stack.networks, twins) < 1e-4
    assert stack.networks[0].linear.weight.dtype == torch.float32


@pytest.mark.parametrize(("build", "chunk"), BUILDS.values(), ids=BUILDS)
def test_all_members_are_told_the_mean_of_the_sums(build, chunk):
    rows = torch.stack([torch.full((N,), 1.0 + k, dtype=torch.float64) for k in range(3)])
    rows[2, Y == 1] = 9.0
    stack = fit_stacked(build, VS, X, Y, recipe(), sample_weight=rows, chunk=chunk)
    assert stack.class_counts == pytest.approx((135 * 2, 15 * 4))
    counts = stack.class_counts
    networks = alone(build, VS, X, Y, stack.recipes, rows, class_counts=counts)
    assert difference(stack.networks, networks) < 1e-9


@pytest.mark.parametrize("reduction", ["weighted_mean", "expected_mean"])
@pytest.mark.parametrize("family", [VS[1], LCT[1]], ids=["VS", "LCT"])
def test_weights_of_one_change_nothing(family, reduction):
    family = LossFamily(**family.settings, reduction=reduction)
    networks = [
        fit(mlp(0), family, X, Y, recipe(), sample_weight=ones).network
        for ones in (None, np.ones(N), [1] * N, torch.ones(N, dtype=torch.bool))
    ]
    assert difference(networks[1:], networks[:1] * 3) < 1e-12


@pytest.mark.parametrize(
    ("build", "families", "chunk"),
    [
        (mlp, lambda: LCT, None),
        (tanh_network, lambda: VS, 3),
        (with_dropout, lambda: LCT, None),
        (mlp, lambda: [AUCMarginLoss() for _ in range(3)], None),
    ],
    ids=["layered", "mapped", "one by one", "with parameters of its own"],
)
def test_a_member_that_diverges_is_frozen_and_the_others_go_on(build, families, chunk):
    rows, members = held_out(Y), recipes(epochs=6, lr=0.05, ema_decay=0.5, ema_every="step")
    members = [own.changed(clip_norm=None) for own in members]
    members[1] = members[1].changed(lr=1e160)
    options = {"chunk": chunk, "snapshots": (0.03, 0.5)}
    stack = stacked(members, families(), build, sample_weight=rows, input_scale=SCALE, **options)
    assert list(stack.diverged) == [1]
    assert re.search(r"the loss is .*1e\+160", stack.diverged[1])
    assert [math.isnan(loss) for loss in stack.losses] == [False, True, False]
    assert [len(stack.epoch_losses[k]) for k in (0, 2)] == [6, 6]
    first, second = stack.snapshots
    assert weights(first[1]).abs().max() > 1e100  # after its first step, before it was seen
    left = weights(stack.networks[1])
    torch.testing.assert_close(weights(second[1]), left, rtol=0, atol=0, equal_nan=True)
    two = {"sample_weight": rows[::2], "input_scale": SCALE[::2], **options}
    calm = stacked(members[::2], families()[::2], build, **two)
    pairs = zip([stack.networks, *stack.snapshots], [calm.networks, *calm.snapshots], strict=True)
    for networks, others in pairs:
        assert difference(networks[::2], others) < 1e-7


def test_all_may_diverge_right_after_a_snapshot():
    wild = recipe(steps=20, clip_norm=None, lr=1e160)
    stack = stacked(wild, snapshots=(0.05,))
    assert sorted(stack.diverged) == [0, 1, 2]
    stopped = stacked(wild, on_progress=lambda *_: True)
    assert difference(stack.snapshots[0], stopped.networks) == 0


SNAPSHOTS = {
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


@pytest.mark.parametrize(("build", "settings", "chunk"), SNAPSHOTS.values(), ids=SNAPSHOTS)
def test_a_snapshot_is_a_run_stopped_there(build, settings, chunk):
    x, y = images(N) if build is cnn else (X, Y)
    given = recipe(steps=20, **settings)
    whole = fit_stacked(build, LCT, x, y, given, chunk=chunk, snapshots=(0.1, 0.5, 0.8))
    assert [len(taken) for taken in whole.snapshots] == [3, 3, 3]
    for taken, step in zip(whole.snapshots, (2, 10, 16), strict=True):
        for k in (0, 2):
            stopped = fit_stacked(
                build, LCT[k : k + 1], x, y, [whole.recipes[k]], chunk=chunk and 1,
                on_progress=lambda done, total, step=step: done == step,
            )  # fmt: skip
            assert difference(stopped.networks, [taken[k]]) < 1e-10
            assert not taken[k].training
    plain = fit_stacked(build, LCT, x, y, given, chunk=chunk)
    assert plain.snapshots == []
    assert difference(whole.networks, plain.networks) == 0  # looking changes nothing
    assert difference(whole.networks, whole.snapshots[-1]) > 1e-4


@pytest.mark.parametrize(("chunk", "build"), [(None, mlp), (2, mlp), (None, with_dropout)])
def test_what_a_stopped_run_did_not_get_to_is_as_it_was_left(chunk, build):
    stop = {"on_progress": lambda done, total: done >= total // 4}
    stack = stacked(recipe(steps=20), build=build, chunk=chunk, snapshots=(0.1, 0.5), **stop)
    assert len(stack.losses) == len(stack.epoch_losses) == 3
    first, second = stack.snapshots
    assert not any(network.training for network in [*first, *second])
    assert difference(first[:1], stack.networks[:1]) > 0
    if chunk is None and build is mlp:
        assert difference(second, stack.networks) == 0


@pytest.mark.parametrize(
    ("build", "chunk", "done"),
    [(mlp, 2, (2, 4, 6, 8, 9, 10, 11, 12)), (with_dropout, None, range(1, 13))],
)
def test_progress_counts_over_chunks_and_stops(build, chunk, done):
    seen = []
    options = {"build": build, "chunk": chunk}
    stacked(recipes(steps=4), VS, on_progress=lambda *step: seen.append(step), **options)
    assert seen == [(step, 12) for step in done]
    stack = stacked(recipes(epochs=9), VS, on_progress=lambda *_: True, **options)
    assert stack.epoch_losses == [[], [], []]


def test_the_chunk_follows_the_size():
    def chosen(*sizes):
        network = condition(MLP(sizes[0], hidden=sizes[1:]), VS[0])
        return choose_chunk(Member(network, VS[0], recipe(batch_size=128)), 96, None)[0]

    # 32 MB hold 31 networks of 82,114 weights with 128 samples' 64 activations: four chunks.
    assert [chosen(*sizes) for sizes in ((30, 8), (30, 64, 64), (1280, 64))] == [96, 96, 24]
    assert chosen(20_000, 500) == 1
