"""The table of losses: objectives against losses written out, settings in one form, controls."""

import json
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, strategies as st
from torch import nn

from curvewise.base.errors import InputError
from curvewise.losses.baselines import AUCMarginLoss
from curvewise.losses.family import LinearDensity, LossFamily, Objective
from curvewise.losses.registry import (
    METHODS,
    ConstantFilm,
    build_objective,
    density_text,
    describe_objective,
    evaluation_lambda,
    make_objective,
    normal_settings,
    parse_setting,
    structure,
)
from curvewise.networks.conditioning import Conditioned
from curvewise.sweep.work import condition_like
from curvewise.training.loop import fit
from curvewise.training.recipe import Recipe

COUNTS = (90, 10)
LOGITS = torch.tensor([[0.3, -0.2], [1.5, 0.4], [-0.7, 0.9], [0.1, 0.2]], dtype=torch.float64)
TARGET = torch.tensor([0, 1, 1, 0])
DRAWN = {"omega": 0.7, "gamma": 0.2, "tau": "0:3:0.33"}


def vs_by_hand(omega: float, gamma: float, tau: float) -> float:
    """The paper's two-class equations, one sample after another."""
    beta = COUNTS[0] / COUNTS[1]
    losses, weights = [], []
    for (z0, z1), y in zip(LOGITS.tolist(), TARGET.tolist(), strict=True):
        alpha = z1 / beta**gamma - z0 - tau * math.log(beta)
        weights.append(omega if y == 1 else 1 - omega)
        losses.append(weights[-1] * math.log(1 + math.exp(-alpha if y == 1 else alpha)))
    return sum(losses) / sum(weights)


def focal_by_hand(focus: float) -> float:
    losses = []
    for logits, y in zip(LOGITS.tolist(), TARGET.tolist(), strict=True):
        p = math.exp(logits[y]) / sum(map(math.exp, logits))
        losses.append(-((1 - p) ** focus) * math.log(p))
    return sum(losses) / len(losses)


def ldam_by_hand(max_margin: float, scale: float) -> float:
    margins = [max_margin * (min(COUNTS) / n) ** 0.25 for n in COUNTS]
    losses = []
    for logits, y in zip(LOGITS.tolist(), TARGET.tolist(), strict=True):
        shifted = [scale * (z - margins[y] * (c == y)) for c, z in enumerate(logits)]
        losses.append(math.log(sum(map(math.exp, shifted))) - shifted[y])
    return sum(losses) / len(losses)


@pytest.mark.parametrize(
    ("method", "settings", "expected"),
    [
        ("ce", {}, vs_by_hand(0.5, 0, 0)),
        ("weighted-ce", {}, vs_by_hand(0.9, 0, 0)),  # omega = n_0 / n
        ("focal", {}, focal_by_hand(2)),
        ("focal", {"focus": 0.5}, focal_by_hand(0.5)),
        ("ldam", {}, ldam_by_hand(0.5, 30)),
        ("ldam", {"max_margin": 0.3, "scale": 2}, ldam_by_hand(0.3, 2)),
        ("logit-adjustment", {}, vs_by_hand(0.5, 0, 1)),
        ("logit-adjustment", {"tau": 1.5}, vs_by_hand(0.5, 0, 1.5)),
        ("vs", {}, vs_by_hand(0.5, 0, 0)),
        ("vs", {"omega": 0.7, "gamma": 0.2, "tau": 2}, vs_by_hand(0.7, 0.2, 2)),
    ],
)
def test_a_methods_loss_is_the_one_written_out(method, settings, expected):
    objective = make_objective(method, settings, COUNTS)
    assert isinstance(objective, Objective)
    assert objective.drawn == ()
    loss = objective.loss(LOGITS, TARGET, torch.zeros(0), class_counts=COUNTS)
    assert loss.item() == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("counts", [(90, 10), (10, 90), (40, 40)])
def test_weighted_ce_weighs_by_inverse_frequency(counts):
    weights = torch.tensor([1 / n for n in counts], dtype=torch.float64)
    expected = F.cross_entropy(LOGITS, TARGET, weights).item()
    objective = make_objective("weighted-ce", {}, counts)
    loss = objective.loss(LOGITS, TARGET, torch.zeros(0), class_counts=counts)
    assert loss.item() == pytest.approx(expected, rel=1e-9)


def test_the_auc_margin_has_its_margin_and_parameters():
    objective = make_objective("auc-margin", {"margin": 0.7}, COUNTS)
    assert isinstance(objective, AUCMarginLoss)
    assert objective.margin == 0.7
    assert len(list(objective.parameters())) == 3


@pytest.mark.parametrize("method", METHODS)
def test_every_objective_is_built_again_from_its_description(method):
    drawn = METHODS[method].draws
    settings = dict.fromkeys(METHODS[method].settings, 0.75) | (
        {"tau": "0:3:0.33"} if drawn else {}
    )
    objective = make_objective(method, settings, COUNTS)
    again = build_objective(json.loads(json.dumps(describe_objective(objective))))
    assert type(again) is type(objective)
    assert again.drawn == objective.drawn
    lam = torch.full((len(again.drawn),), 0.75)
    losses = [made.loss(LOGITS, TARGET, lam, class_counts=COUNTS) for made in (again, objective)]
    assert torch.equal(*losses)


@pytest.mark.parametrize("method", ["lct", "unconditioned"])
def test_drawn_settings_are_those_of_the_family(method):
    expected = LossFamily(0.7, 0.2, LinearDensity(0, 3, 0.33))
    assert make_objective(method, DRAWN, COUNTS) == expected
    both = make_objective(method, {"omega": "0.5:1:2", "tau": "0:3:0"}, COUNTS)
    assert both.drawn == ("omega", "tau")


def test_settings_come_in_one_form():
    given = {"tau": "0.0:3:.330", "omega": 1, "gamma": -0.0}
    made = normal_settings("lct", given)
    assert made == {"omega": 1.0, "gamma": 0.0, "tau": "0:3:0.33"}
    assert list(made) == ["omega", "gamma", "tau"]
    assert [math.copysign(1, made[name]) for name in ("omega", "gamma")] == [1, 1]
    assert type(normal_settings("focal", {"focus": np.float32(2)})["focus"]) is float
    assert normal_settings("vs", {"tau": "2"})["tau"] == 2.0


@given(st.floats(0, 1e6), st.floats(1e-6, 1e6), st.floats(0, 1))
def test_a_density_survives_its_text(low, width, height):
    density = LinearDensity(low, low + width, height * 2 / (low + width - low))
    text = density_text(density)
    assert parse_setting("tau", text) == density
    assert density_text(parse_setting("tau", text)) == text


def test_labels_fit_a_figure_and_differ():
    labels = {name: method.label for name, method in METHODS.items()}
    assert labels == {
        "ce": "CE",
        "weighted-ce": "weighted CE",
        "focal": "focal",
        "ldam": "LDAM",
        "logit-adjustment": "logit adjustment",
        "vs": "VS",
        "lct": "VS + LCT",
        "auc-margin": "AUC margin",
        "constant-film": "VS, constant FiLM",
        "unconditioned": "tau drawn, no FiLM",
    }


def test_a_model_is_scored_at_what_is_asked_else_at_the_top():
    family = LossFamily(LinearDensity(0.5, 0.9, 1), 0.2, LinearDensity(0, 3, 0.33))
    assert evaluation_lambda(family, {}).tolist() == pytest.approx(np.array([[0.9, 3.0]]))
    asked = evaluation_lambda(family, {"tau": 1.5, "gamma": 0.1})
    assert asked.tolist() == pytest.approx(np.array([[0.9, 1.5]]))
    assert evaluation_lambda(ConstantFilm(tau=2.0), {"tau": 3.0}).tolist() == [[2.0]]
    for method in ("ce", "focal", "auc-margin"):
        objective = make_objective(method, {}, COUNTS)
        assert evaluation_lambda(objective, {"tau": 3.0}).shape == (1, 0)


def test_structures_tell_apart_what_cannot_be_one_program():
    shared = [("ce", {}), ("weighted-ce", {}), ("logit-adjustment", {}), ("vs", {"tau": 3.0})]
    assert len({structure(*run) for run in shared}) == 1
    apart = [
        ("vs", {}),
        ("lct", {"tau": "0:3:0"}),
        ("lct", {"gamma": "0:0.4:1"}),
        ("lct", {"gamma": "0:0.4:1", "tau": "0:3:0"}),
        ("unconditioned", {"tau": "0:3:0"}),
        ("constant-film", {"tau": 3.0}),
        ("focal", {"focus": 1.0}),
        ("focal", {"focus": 2.0}),
        ("ldam", {}),
        ("auc-margin", {}),
    ]
    assert len({structure(*run) for run in apart}) == len(apart)
    assert structure("lct", {"tau": "0:3:0"}) == structure("lct", {**DRAWN})
    assert structure("focal", {}) == structure("focal", {"focus": 2})


def test_a_constant_film_is_not_the_loss_it_has():
    constant = ConstantFilm(0.7, 0.2, 2.0)
    assert constant == ConstantFilm(0.7, 0.2, 2.0) != ConstantFilm(0.7, 0.2, 1.0)
    assert constant != LossFamily(0.7, 0.2, 2.0)
    assert LossFamily(0.7, 0.2, 2.0) != constant
    assert repr(constant).startswith("ConstantFilm(omega=0.7, gamma=0.2, tau=2.0")
    with pytest.raises(InputError, match="lambda must have 1 entries"):
        constant.loss(LOGITS, TARGET, torch.zeros(0), class_counts=COUNTS)


def trained(method: str, settings: dict, **changes):
    """Train a tiny network for a few steps; return it with its objective, data and losses."""
    generator = torch.Generator().manual_seed(5)
    x = torch.randn(60, 3, generator=generator)
    y = (torch.arange(60) % 6 == 0).long()
    recipe = Recipe(steps=6, batch_size=20, lr=0.05, **changes)
    with torch.random.fork_rng():
        torch.manual_seed(1)
        body = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2))
    objective = make_objective(method, settings, (50, 10))
    network = condition_like(method, body)
    losses: list[float] = []
    fitted = fit(network, objective, x, y, recipe, on_progress=lambda p: losses.append(p.loss))
    return fitted.network, objective, x, y, losses


@pytest.mark.parametrize("scale_lambda", [False, True])
def test_constant_film_has_film_and_the_fixed_loss(scale_lambda):
    settings = {"omega": 0.7, "gamma": 0.2, "tau": 2.1}
    network, objective, x, y, _ = trained("constant-film", settings, scale_lambda=scale_lambda)
    assert network.film is not None
    lam = evaluation_lambda(objective, {})
    logits = network(x, lam[0])
    assert torch.isfinite(logits).all()
    fixed = make_objective("vs", settings, (50, 10))
    expected = fixed.loss(logits, y, torch.zeros(0), class_counts=(50, 10))
    # Nothing but the constant is ever drawn, and the loss does not ask what was.
    assert torch.equal(objective.draw(4), lam.expand(4, 1))
    for fed in (lam[0], lam[0] + 1):
        assert torch.equal(objective.loss(logits, y, fed, class_counts=(50, 10)), expected)


def test_constant_film_and_lct_start_from_the_same_layers():
    constant = trained("constant-film", {"tau": 3.0})[0]
    lct = trained("lct", {"tau": "0:3:0"})[0]
    shapes = [[p.shape for p in network.parameters()] for network in (constant, lct)]
    assert shapes[0] == shapes[1]


def test_unconditioned_has_no_film_while_its_loss_follows_lambda():
    network, objective, x, y, losses = trained("unconditioned", DRAWN)
    assert isinstance(network, Conditioned)
    assert network.film is None
    assert network.film_logits is None
    low, high = torch.tensor([0.5]), torch.tensor([2.5])
    logits = network(x, low)
    assert torch.equal(logits, network(x, high))
    for lam in (low, high):
        fixed = make_objective("vs", {**DRAWN, "tau": lam.item()}, (50, 10))
        expected = fixed.loss(logits, y, torch.zeros(0), class_counts=(50, 10))
        got = objective.loss(logits, y, lam, class_counts=(50, 10))
        assert got.item() == pytest.approx(expected.item(), rel=1e-6)
    at_low, at_high = (
        objective.loss(logits, y, lam, class_counts=(50, 10)).item() for lam in (low, high)
    )
    assert at_low != at_high
    # Other draws train other weights: tau does reach the loss in training.
    assert trained("unconditioned", DRAWN, seed_lambda=9)[4] != losses


@pytest.mark.parametrize("method", [name for name in METHODS if name != "unconditioned"])
def test_other_networks_are_left_to_fit(method):
    body = nn.Linear(3, 2)
    assert condition_like(method, body) is body
