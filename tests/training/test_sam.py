"""SAM on f(w) = 0.5 w^T A w, whose gradient A w is worked out here in plain Python."""

import copy
from math import hypot

import pytest
import torch

import curvewise as cw

MATRIX = [[2.0, 0.5], [0.5, 1.0]]
START = [1.0, -2.0]
USES = ["closure", "two steps"]


def gradient(weights):
    return [sum(a * w for a, w in zip(row, weights, strict=True)) for row in MATRIX]


def worst_gradient(weights, rhos=(0.3, 0.3), adaptive=False):
    """The gradient at w + rho T^2 g / |T g|, with T = |w| if adaptive and 1 otherwise."""
    size = [abs(w) if adaptive else 1.0 for w in weights]
    g = gradient(weights)
    norm = hypot(size[0] * g[0], size[1] * g[1])
    return gradient([weights[i] + rhos[i] * size[i] ** 2 * g[i] / norm for i in range(2)])


def quadratic(parts):
    weights = torch.cat(parts)
    return 0.5 * weights @ torch.tensor(MATRIX, dtype=weights.dtype) @ weights


def start_weights(start=START):
    return torch.tensor(start, dtype=torch.float64, requires_grad=True)


def take_step(optimizer, parts, use="closure"):
    def closure():
        optimizer.zero_grad()
        loss = quadratic(parts)
        loss.backward()
        return loss

    if use == "closure":
        return optimizer.step(closure).item()
    loss = closure()
    optimizer.ascend()
    closure()
    optimizer.descend()
    return loss.item()


@pytest.mark.parametrize("adaptive", [False, True])
@pytest.mark.parametrize("use", USES)
def test_one_step_is_the_one_by_hand(use, adaptive):
    weights = start_weights()
    optimizer = cw.SAM([weights], torch.optim.SGD, rho=0.3, adaptive=adaptive, lr=0.1)
    loss = take_step(optimizer, [weights], use)
    slope = worst_gradient(START, adaptive=adaptive)
    expected = [w - 0.1 * g for w, g in zip(START, slope, strict=True)]
    assert weights.tolist() == pytest.approx(expected, abs=1e-14)
    at_start = sum(w * g for w, g in zip(START, gradient(START), strict=True)) / 2
    assert loss == pytest.approx(at_start, abs=1e-14)


@pytest.mark.parametrize("use", USES)
def test_groups_have_their_own_rho_and_lr_and_share_the_norm(use):
    parts = [start_weights([w]) for w in START]
    groups = [{"params": [parts[0]], "rho": 0.4, "lr": 0.2}]
    optimizer = cw.SAM(groups, torch.optim.SGD, rho=0.1, lr=0.05)
    optimizer.add_param_group({"params": parts[1:]})  # one that is added later takes part
    take_step(optimizer, parts, use)
    slope = worst_gradient(START, (0.4, 0.1))
    expected = [START[0] - 0.2 * slope[0], START[1] - 0.05 * slope[1]]
    assert torch.cat(parts).tolist() == pytest.approx(expected, abs=1e-14)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("use", USES)
def test_momentum_gathers_the_worst_gradients_and_a_schedule_sets_the_base_rate(use):
    weights = start_weights()
    optimizer = cw.SAM([weights], torch.optim.SGD, rho=0.3, lr=0.1, momentum=0.9)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.5)
    by_hand, velocity = START, [0.0, 0.0]
    for rate in (0.1, 0.05, 0.025):
        take_step(optimizer, [weights], use)
        schedule.step()
        slope = worst_gradient(by_hand)
        velocity = [0.9 * v + g for v, g in zip(velocity, slope, strict=True)]
        by_hand = [w - rate * v for w, v in zip(by_hand, velocity, strict=True)]
    assert weights.tolist() == pytest.approx(by_hand, abs=1e-13)


BASES = {
    "sgd": (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01}),
    "adamw": (torch.optim.AdamW, {"lr": 0.1}),
}


@pytest.mark.parametrize(("base", "settings"), BASES.values(), ids=BASES)
def test_without_rho_it_is_the_base_optimiser(base, settings):
    plain, sharpness_aware = start_weights(), start_weights()
    optimizers = base([plain], **settings), cw.SAM([sharpness_aware], base, rho=0.0, **settings)
    for _ in range(5):
        for optimizer, weights in zip(optimizers, (plain, sharpness_aware), strict=True):
            take_step(optimizer, [weights])
    assert torch.equal(plain, sharpness_aware)


@pytest.mark.parametrize("use", USES)
def test_parameters_without_gradient_are_left_alone(use):
    weights, unused = start_weights(), torch.ones(3, requires_grad=True)
    frozen = torch.ones(3)
    settings = {"lr": 0.1, "weight_decay": 0.1}  # the decay would shrink what takes part
    optimizer = cw.SAM([weights, unused, frozen], torch.optim.SGD, **settings)
    take_step(optimizer, [weights], use)
    assert weights.tolist() != START
    assert torch.equal(unused, torch.ones(3))
    assert torch.equal(frozen, torch.ones(3))


@pytest.mark.parametrize(("base", "settings"), BASES.values(), ids=BASES)
def test_a_saved_state_and_a_copy_go_on_bit_for_bit(base, settings):
    weights = start_weights()
    optimizer = cw.SAM([weights], base, rho=0.3, adaptive=True, **settings)
    for _ in range(3):
        take_step(optimizer, [weights])
    restored = weights.detach().clone().requires_grad_()
    # Built with other numbers on purpose: the saved ones must win.
    anew = cw.SAM([restored], base, rho=0.9, lr=7.0)
    anew.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    twin = copy.deepcopy(optimizer)
    (copied,) = twin.param_groups[0]["params"]
    assert twin.base.param_groups is twin.param_groups
    assert copied is not weights
    for _ in range(3):
        for one, parameter in ((optimizer, weights), (anew, restored), (twin, copied)):
            take_step(one, [parameter])
    assert torch.equal(restored, weights)
    assert torch.equal(copied, weights)
    assert anew.param_groups[0]["rho"] == 0.3


def test_misuse_is_told_in_a_sentence():
    weights = start_weights()
    optimizer = cw.SAM([weights], torch.optim.SGD, lr=0.1)
    for call, message in (
        (optimizer.ascend, r"ascend\(\) needs gradients"),
        (optimizer.descend, r"descend\(\) must follow ascend\(\)"),
        (optimizer.step, "needs a closure"),
    ):
        with pytest.raises(cw.InputError, match=message):
            call()
    quadratic([weights]).backward()
    optimizer.ascend()
    assert weights.grad is None
    with pytest.raises(cw.InputError, match=r"must be followed by descend\(\)"):
        optimizer.ascend()
    with pytest.raises(cw.InputError, match=r"rho must be .* got -1$"):
        cw.SAM([{"params": [weights], "rho": -1.0}], torch.optim.SGD, lr=0.1)


def test_a_closure_that_fails_leaves_the_weights_where_they_were():
    weights, calls = start_weights(), []
    optimizer = cw.SAM([weights], torch.optim.SGD, rho=0.5, lr=0.1)

    def closure():
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        quadratic([weights]).backward()

    with pytest.raises(KeyboardInterrupt):
        optimizer.step(closure)
    assert weights.tolist() == START
