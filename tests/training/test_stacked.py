"""A stack trains each member as `fit` trains it alone."""

import math

import pytest
import torch
from torch import nn

from curvewise.base.errors import InputError
from curvewise.losses.baselines import AUCMarginLoss, FocalLoss, LDAMLoss
from curvewise.losses.family import LinearDensity, LossFamily
from curvewise.networks.architectures import MLP, SmallCNN
from curvewise.networks.conditioning import condition
from curvewise.training.loop import fit
from curvewise.training.recipe import Recipe
from curvewise.training.stacked import choose_chunk, fit_stacked, member_recipes

VS = [LossFamily(omega, 0.2, tau) for omega, tau in ((0.5, 0.0), (0.7, 1.0), (0.99, 3.0))]
LCT = [
    LossFamily(0.5 + g, g, LinearDensity(0, 3, h)) for g, h in ((0, 0), (0.2, 0.33), (0.4, 0.66))
]
BASE = {"batch_size": 32, "lr": 0.1, "clip_norm": 0.5, "device": "cpu"}


@pytest.fixture
def double():
    """Draw lambda in float64 too."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def data(n: int = 150, d: int = 6, dtype: torch.dtype = torch.float32):
    generator = torch.Generator().manual_seed(7)
    x = torch.randn(n, d, generator=generator, dtype=torch.float64)
    y = (torch.arange(n) % 10 == 0).long()
    x[y == 1] += 0.7
    return x.to(dtype), y


def network_fn(dtype: torch.dtype = torch.float32, hidden: tuple[int, ...] = (16, 8)):
    def build(seed: int) -> nn.Module:
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            return MLP(6, hidden=hidden).to(dtype)

    return build


def recipes(**settings) -> list[Recipe]:
    shared = {**BASE, **settings}
    own = [
        {"seed_weights": 3, "seed_lambda": 5, "lr": shared["lr"], "weight_decay": 0.0},
        {"seed_weights": 1, "seed_lambda": 9, "lr": shared["lr"] / 3, "weight_decay": 0.05},
        {"seed_weights": 8, "seed_lambda": 5, "lr": shared["lr"] * 1.5, "weight_decay": 0.01},
    ]
    return [Recipe(**{**shared, **member}) for member in own]


def alone(build, families, x, y, members):
    return [
        fit(build(own.seed_weights), family, x, y, own).network
        for family, own in zip(families, members, strict=True)
    ]


def difference(stack, networks) -> float:
    """The largest difference of any weight or buffer of any member."""
    return max(
        (mine - other).abs().max().item()
        for network, twin in zip(stack.networks, networks, strict=True)
        for mine, other in zip(
            network.state_dict().values(), twin.state_dict().values(), strict=True
        )
    )


OPTIMISERS = {
    "sgd": {},
    "plain sgd without clipping": {"momentum": 0.0, "clip_norm": None, "lr": 0.05},
    "adamw": {"optimizer": "adamw", "lr": 0.01},
    "sam": {"rho": 0.1},
    "adaptive sam over adamw": {"optimizer": "adamw", "lr": 0.01, "rho": 0.5, "adaptive": True},
}


@pytest.mark.parametrize("families", [VS, LCT], ids=["VS", "LCT"])
@pytest.mark.parametrize("settings", OPTIMISERS.values(), ids=OPTIMISERS)
@pytest.mark.parametrize(
    ("dtype", "steps", "tolerance"), [(torch.float64, 200, 1e-9), (torch.float32, 20, 1e-4)]
)
def test_a_stack_is_its_members_one_by_one(families, settings, dtype, steps, tolerance):
    x, y = data(dtype=dtype)
    members = recipes(steps=steps, schedule="cosine", warmup_epochs=1, **settings)
    stack = fit_stacked(network_fn(dtype), families, x, y, members)
    assert stack.how == "stacked: 3 models as one"
    start = [network_fn(dtype)(own.seed_weights) for own in members]
    moved = (stack.networks[0].linear.weight - start[0].linear.weight).abs().max()
    assert moved > 100 * tolerance  # else the test says nothing
    assert difference(stack, alone(network_fn(dtype), families, x, y, members)) < tolerance


@pytest.mark.usefixtures("double")
def test_members_of_one_rate_and_decay_step_together():
    x, y = data(dtype=torch.float64)
    members = [
        Recipe(**{**BASE, "optimizer": "adamw", "lr": 0.01, "weight_decay": 0.5, "steps": 100})
        .changed(seed_weights=k, seed_lambda=k)
        for k in range(len(LCT))
    ]  # fmt: skip
    build = network_fn(torch.float64)
    stack = fit_stacked(build, LCT, x, y, members)
    assert difference(stack, alone(build, LCT, x, y, members)) < 1e-9


@pytest.mark.parametrize(
    "settings",
    [
        {"draw": "sample"},
        {"label_smoothing": 0.1},
        {"ema_decay": 0.9, "ema_every": "step"},
        {"ema_decay": 0.5, "ema_every": "epoch"},
        {"film_at": "logits"},
        {"film_at": "both", "film_init": "paper", "scale_lambda": True},
        {"batch_size": 1000},
        {"schedule": "step", "milestones": (2, 4)},
    ],
    ids=str,
)
@pytest.mark.parametrize("families", [VS, LCT], ids=["VS", "LCT"])
@pytest.mark.usefixtures("double")
def test_every_setting_of_the_recipe_means_the_same(families, settings):
    x, y = data(dtype=torch.float64)
    members = recipes(epochs=6, **settings)
    build = network_fn(torch.float64)
    stack = fit_stacked(build, families, x, y, members)
    assert difference(stack, alone(build, families, x, y, members)) < 1e-10


@pytest.mark.parametrize(
    "objective",
    [
        lambda: FocalLoss(2.0),
        lambda: LDAMLoss(0.5, 10.0),
        lambda: AUCMarginLoss(1.0),
        lambda: LossFamily([0.3, 0.7], 0.1, 1.0),
        lambda: LossFamily(LinearDensity(0.5, 0.9, 2.0), LinearDensity(0, 0.4, 2.5), 1.0),
    ],
)
@pytest.mark.parametrize("settings", [{}, {"rho": 0.05}])
def test_any_objective(objective, settings):
    x, y = data(dtype=torch.float64)
    members = recipes(epochs=5, **settings)
    build, three = network_fn(torch.float64), [objective() for _ in range(3)]
    stack = fit_stacked(build, three, x, y, members)
    others = [objective() for _ in range(3)]
    assert difference(stack, alone(build, others, x, y, members)) < 1e-7


@pytest.mark.parametrize("hidden", [(), (4,), (8, 8, 8)])
def test_any_depth_and_any_chunk(hidden):
    x, y = data(dtype=torch.float64)
    members, build = recipes(epochs=3), network_fn(torch.float64, hidden)
    whole = fit_stacked(build, LCT, x, y, members)
    cut = fit_stacked(build, LCT, x, y, members, chunk=2)
    assert cut.how == "stacked: 3 models in chunks of 2"
    assert difference(whole, cut.networks) < 1e-12
    assert [len(losses) for losses in cut.epoch_losses] == [3, 3, 3]
    assert difference(whole, alone(build, LCT, x, y, members)) < 1e-10


def cnn(seed: int) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return SmallCNN(1, width=4).double()


@pytest.mark.parametrize("settings", [{}, {"rho": 0.1}, {"ema_decay": 0.9}])
def test_convolutions_with_batch_norm_stack_where_asked(settings):
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(60, 1, 8, 8, generator=generator, dtype=torch.float64)
    y = (torch.arange(60) % 6 == 0).long()
    members = recipes(epochs=3, **settings)
    stack = fit_stacked(cnn, LCT, x, y, members, chunk=3)
    assert stack.how == "stacked: 3 models as one"
    assert difference(stack, alone(cnn, LCT, x, y, members)) < 1e-9
    one_by_one = fit_stacked(cnn, LCT, x, y, members)
    assert one_by_one.how.startswith("one by one: 3 models")
    assert difference(one_by_one, stack.networks) < 1e-9


def test_frozen_layers_stay_as_they_are():
    def build(seed: int) -> nn.Module:
        network = network_fn(torch.float64)(seed)
        network.body[0].requires_grad_(False)
        return network

    x, y = data(dtype=torch.float64)
    members = recipes(epochs=3)
    stack = fit_stacked(build, LCT, x, y, members, chunk=3)
    assert difference(stack, alone(build, LCT, x, y, members)) < 1e-10
    for network, own in zip(stack.networks, members, strict=True):
        assert network.body.body[0].weight.equal(build(own.seed_weights).body[0].weight)


def test_a_member_that_diverges_is_frozen_and_the_others_go_on():
    x, y = data(dtype=torch.float64)
    members = recipes(epochs=6, clip_norm=None, lr=0.05, ema_decay=0.5)
    wild = [members[0], members[1].changed(lr=1e160), members[2]]
    build = network_fn(torch.float64)
    stack = fit_stacked(build, LCT, x, y, wild)
    assert list(stack.diverged) == [1]
    assert "the loss is" in stack.diverged[1]
    assert "1e+160" in stack.diverged[1]
    assert math.isnan(stack.losses[1])
    assert len(stack.epoch_losses[0]) == 6
    calm = [LCT[0], LCT[2]], [members[0], members[2]]
    networks = alone(build, calm[0], x, y, calm[1])
    stack.networks = [stack.networks[0], stack.networks[2]]
    assert difference(stack, networks) < 1e-10


def test_all_may_diverge():
    x, y = data()
    members = [own.changed(lr=1e30) for own in recipes(epochs=4, clip_norm=None)]
    stack = fit_stacked(network_fn(), VS, x, y, members)
    assert sorted(stack.diverged) == [0, 1, 2]


def test_one_recipe_numbers_the_seeds():
    own = member_recipes(Recipe(epochs=1, seed_weights=10, seed_order=4, seed_lambda=20), 3)
    assert [(r.seed_weights, r.seed_order, r.seed_lambda) for r in own] == [
        (10, 4, 20),
        (11, 4, 21),
        (12, 4, 22),
    ]


def test_progress_counts_over_chunks_and_stops():
    x, y = data()
    seen = []
    fit_stacked(
        network_fn(), VS, x, y, recipes(steps=4), chunk=2,
        on_progress=lambda done, total: seen.append((done, total)),
    )  # fmt: skip
    assert seen == [(2, 12), (4, 12), (6, 12), (8, 12), (9, 12), (10, 12), (11, 12), (12, 12)]
    stack = fit_stacked(network_fn(), VS, x, y, recipes(epochs=9), on_progress=lambda *_: True)
    assert [len(losses) for losses in stack.epoch_losses] == [0, 0, 0]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"batch_size": 64}, "batch_size"),
        ({"seed_order": 4}, "seed_order"),
        ({"rho": 0.1, "schedule": "cosine"}, "schedule"),
    ],
)
def test_what_members_must_share(change, words):
    members = recipes(epochs=1)
    members[1] = members[1].changed(**change)
    with pytest.raises(InputError, match=words):
        fit_stacked(network_fn(), VS, *data(), members)


@pytest.mark.parametrize(
    ("families", "words"),
    [
        ([], "at least one family"),
        ([*VS[:2], LCT[0]], "draw the same"),
        ([FocalLoss(), FocalLoss(3.0), FocalLoss()], "same loss"),
        ([FocalLoss(), LDAMLoss(), VS[0]], "same loss"),
        ([VS[0], VS[1], LossFamily(reduction="mean")], "reduction"),
        (VS[:2], "recipe for each of 2"),
    ],
)
def test_stacks_that_cannot_be(families, words):
    with pytest.raises(InputError, match=words):
        fit_stacked(network_fn(), families, *data(), recipes(epochs=1))


def test_the_chunk_follows_the_size():
    recipe = Recipe(epochs=1, device="cpu")

    def chosen(*sizes: int, k: int = 96) -> int:
        network = condition(MLP(sizes[0], hidden=sizes[1:]), VS[0])
        return choose_chunk(network, k, recipe, None)[0]

    assert chosen(30, 8) == 96
    assert chosen(1280, 64) < chosen(30, 64, 64) <= 96
    assert chosen(20_000, 500) == 1


def tanh_network(seed: int) -> nn.Module:
    """Layers that have to be mapped."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(6, 9), nn.Tanh(), nn.Linear(9, 2)).double()


SCALE = torch.rand(3, 6, generator=torch.Generator().manual_seed(2), dtype=torch.float64) + 0.05


@pytest.mark.parametrize("families", [VS, LCT], ids=["VS", "LCT"])
@pytest.mark.parametrize("settings", [{}, {"optimizer": "adamw", "lr": 0.01}, {"rho": 0.1}])
@pytest.mark.parametrize(
    ("build", "chunk"),
    [
        (network_fn(torch.float64), None),
        (network_fn(torch.float64), 2),
        (network_fn(torch.float64, ()), None),
        (tanh_network, 3),
        (tanh_network, 2),
        (tanh_network, None),
    ],
    ids=["layered", "layered in chunks", "linear", "mapped", "mapped in chunks", "one by one"],
)
def test_scaled_inputs_are_those_of_a_scaled_table(families, settings, build, chunk):
    x, y = data(dtype=torch.float64)
    members = recipes(epochs=4, **settings)
    stack = fit_stacked(build, families, x, y, members, input_scale=SCALE.numpy(), chunk=chunk)
    twins = [
        fit(build(own.seed_weights), family, x * scale, y, own).network
        for family, own, scale in zip(families, members, SCALE, strict=True)
    ]
    assert difference(stack, twins) < 1e-9
    plain = fit_stacked(build, families, x, y, members, chunk=chunk)
    assert difference(plain, twins) > 1e-3  # else the test says nothing


@pytest.mark.parametrize("build", [network_fn(torch.float64), tanh_network])
def test_scales_follow_the_members_that_go_on(build):
    x, y = data(dtype=torch.float64)
    members = recipes(epochs=6, clip_norm=None, lr=0.05)
    wild = [members[0], members[1].changed(lr=1e300, optimizer="sgd"), members[2]]
    stack = fit_stacked(build, VS, x, y, wild, input_scale=SCALE, chunk=3)
    assert list(stack.diverged) == [1]
    twins = [
        fit(build(members[k].seed_weights), VS[k], x * SCALE[k], y, members[k]).network
        for k in (0, 2)
    ]
    stack.networks = [stack.networks[0], stack.networks[2]]
    assert difference(stack, twins) < 1e-9


@pytest.mark.parametrize("build", [network_fn(), lambda seed: tanh_network(seed).float()])
def test_scales_are_of_the_type_of_the_weights(build):
    x, y = data()
    members = recipes(epochs=2)
    stack = fit_stacked(build, VS, x.numpy(), y, members, input_scale=SCALE.numpy())
    twins = [
        fit(build(own.seed_weights), family, (x * scale).float(), y, own).network
        for family, own, scale in zip(VS, members, SCALE, strict=True)
    ]
    assert difference(stack, twins) < 1e-4


@pytest.mark.parametrize(
    ("scale", "shape"),
    [
        (torch.ones(2, 6), (150, 6)),
        (torch.ones(3, 5), (150, 6)),
        (torch.ones(6), (150, 6)),
        (torch.full((3, 6), torch.nan), (150, 6)),
        (torch.full((3, 6), torch.inf), (150, 6)),
        (torch.ones(3, 6), (150, 6, 1, 1)),
    ],
)
def test_scales_that_cannot_be(scale, shape):
    x, y = data()
    with pytest.raises(InputError, match=r"finite factors of shape \(3, d\) for a table \(n, d\)"):
        fit_stacked(
            network_fn(), VS, x.reshape(shape), y, recipes(epochs=1), input_scale=scale
        )  # fmt: skip
