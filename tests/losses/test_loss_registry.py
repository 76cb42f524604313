"""The table of losses: objectives against losses written out, settings in one form, controls."""

import json
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, strategies as st
from torch import nn

import curvewise as cw
from curvewise.base.errors import InputError
from curvewise.losses.family import LinearDensity, LossFamily
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

COUNTS = (90, 10)
LOGITS = torch.tensor([[0.3, -0.2], [1.5, 0.4], [-0.7, 0.9], [0.1, 0.2]], dtype=torch.float64)
TARGET = torch.tensor([0, 1, 1, 0])
FIXED = {"omega": 0.7, "gamma": 0.2, "tau": 2.0}
DRAWN = FIXED | {"tau": "0:3:0.33"}


@pytest.mark.parametrize(
    ("method", "settings", "loss", "same"),
    [
        ("ce", {}, cw.vs_loss, {}),
        ("focal", {"focus": 0.5}, cw.focal_loss, {"focus": 0.5}),
        ("ldam", {"scale": 2}, cw.ldam_loss, {"max_margin": 0.5, "scale": 2}),
        ("logit-adjustment", {}, cw.vs_loss, {"tau": 1}),
        ("vs", dict(FIXED), cw.vs_loss, FIXED),
    ],
)
def test_a_methods_loss_is_the_function_with_its_settings(method, settings, loss, same):
    objective = make_objective(method, settings, COUNTS)
    assert objective.drawn == ()
    found = objective.loss(LOGITS, TARGET, torch.zeros(0), class_counts=COUNTS)
    counts = {} if loss is cw.focal_loss else {"class_counts": COUNTS}
    assert found.item() == pytest.approx(loss(LOGITS, TARGET, **same, **counts).item(), rel=1e-9)


@pytest.mark.parametrize("counts", [(90, 10), (10, 90), (40, 40)])
def test_weighted_ce_weighs_by_inverse_frequency(counts):
    weights = torch.tensor([1 / n for n in counts], dtype=torch.float64)
    expected = F.cross_entropy(LOGITS, TARGET, weights).item()
    objective = make_objective("weighted-ce", {}, counts)
    loss = objective.loss(LOGITS, TARGET, torch.zeros(0), class_counts=counts)
    assert loss.item() == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("method", METHODS)
def test_every_objective_is_built_again_from_its_description(method):
    settings = dict.fromkeys(METHODS[method].settings, 0.75)
    settings |= {"tau": "0:3:0.33"} if METHODS[method].draws else {}
    objective = make_objective(method, settings, COUNTS)
    assert isinstance(objective, cw.Objective)
    about = describe_objective(objective)
    assert settings.items() <= about.items() or isinstance(objective, LossFamily)
    again = build_objective(json.loads(json.dumps(about)))
    assert (type(again), again.drawn) == (type(objective), objective.drawn)
    lam = torch.full((len(again.drawn),), 0.75)
    if method == "glmc":  # which has no loss of logits alone: tests of training have it
        return
    losses = [made.loss(LOGITS, TARGET, lam, class_counts=COUNTS) for made in (again, objective)]
    assert torch.equal(*losses)


def test_settings_come_in_one_form_and_drawn_ones_are_those_of_the_family():
    made = normal_settings("lct", {"tau": "0.0:3:.330", "omega": 1, "gamma": -0.0})
    assert made == {"omega": 1.0, "gamma": 0.0, "tau": "0:3:0.33"}
    assert list(made) == ["omega", "gamma", "tau"]
    assert [math.copysign(1, made[name]) for name in ("omega", "gamma")] == [1, 1]
    assert type(normal_settings("focal", {"focus": np.float32(2)})["focus"]) is float
    assert normal_settings("vs", {"tau": "2"})["tau"] == 2.0
    expected = LossFamily(0.7, 0.2, LinearDensity(0, 3, 0.33))
    for method in ("lct", "unconditioned"):
        assert make_objective(method, DRAWN, COUNTS) == expected
        both = make_objective(method, {"omega": "0.5:1:2", "tau": "0:3:0"}, COUNTS)
        assert both.drawn == ("omega", "tau")


@given(st.floats(0, 1e6), st.floats(1e-6, 1e6), st.floats(0, 1))
def test_a_density_survives_its_text(low, width, height):
    density = LinearDensity(low, low + width, height * 2 / (low + width - low))
    text = density_text(density)
    assert parse_setting("tau", text) == density
    assert density_text(parse_setting("tau", text)) == text


def test_labels_fit_a_figure_and_differ():
    labels = {method.label for method in METHODS.values()}
    assert len(labels) == len(METHODS)
    assert max(map(len, labels)) < 20


def test_a_model_is_scored_at_what_is_asked_else_at_the_top():
    family = LossFamily(LinearDensity(0.5, 0.9, 1), 0.2, LinearDensity(0, 3, 0.33))
    assert evaluation_lambda(family, {}).tolist() == pytest.approx(np.array([[0.9, 3.0]]))
    asked = evaluation_lambda(family, {"tau": 1.5, "gamma": 0.1})
    assert asked.tolist() == pytest.approx(np.array([[0.9, 1.5]]))
    assert evaluation_lambda(ConstantFilm(tau=2.0), {"tau": 3.0}).tolist() == [[2.0]]
    for method in ("ce", "focal", "auc-margin"):
        assert evaluation_lambda(make_objective(method, {}, COUNTS), {"tau": 3.0}).shape == (1, 0)


def test_structures_tell_apart_what_cannot_be_one_program():
    shared = [("ce", {}), ("weighted-ce", {}), ("logit-adjustment", {}), ("vs", {"tau": 3.0})]
    assert len({structure(*run) for run in shared}) == 1
    drawn = ({"tau": "0:3:0"}, {"gamma": "0:0.4:1"}, {"gamma": "0:0.4:1", "tau": "0:3:0"})
    apart = [("lct", settings) for settings in drawn]
    apart += [("unconditioned", {"tau": "0:3:0"}), ("constant-film", {"tau": 3.0}), ("vs", {})]
    apart += [
        ("focal", {"focus": 1.0}),
        ("focal", {"focus": 2.0}),
        ("ldam", {}),
        ("auc-margin", {}),
    ]
    assert len({structure(*run) for run in apart}) == len(apart)
    assert structure("lct", {"tau": "0:3:0"}) == structure("lct", {**DRAWN})
    assert structure("focal", {}) == structure("focal", {"focus": 2})


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2))


@pytest.mark.parametrize("scale_lambda", [False, True])
def test_constant_film_has_film_and_the_fixed_loss(scale_lambda):
    constant, fixed = ConstantFilm(0.7, 0.2, 2.1), LossFamily(0.7, 0.2, 2.1)
    body = network()
    assert condition_like("constant-film", body) is body  # left to `fit`, which conditions it
    conditioned = cw.condition(body, constant, scale_lambda=scale_lambda)
    lct = cw.condition(network(), make_objective("lct", DRAWN, COUNTS))
    assert [p.shape for p in conditioned.parameters()] == [p.shape for p in lct.parameters()]
    # Nothing but the constant is ever drawn, and the loss does not ask what was.
    lam = evaluation_lambda(constant, {})
    assert torch.equal(constant.draw(4), lam.expand(4, 1))
    assert torch.isfinite(conditioned(torch.randn(5, 3), lam[0])).all()
    expected = fixed.loss(LOGITS, TARGET, torch.zeros(0), class_counts=COUNTS)
    for fed in (lam[0], lam[0] + 1):
        assert torch.equal(constant.loss(LOGITS, TARGET, fed, class_counts=COUNTS), expected)
    with pytest.raises(InputError, match="lambda must have 1 entries"):
        constant.loss(LOGITS, TARGET, torch.zeros(0), class_counts=COUNTS)
    assert constant == ConstantFilm(0.7, 0.2, 2.1) != ConstantFilm(0.7, 0.2, 1.0)
    assert constant != fixed != constant
    assert repr(constant).startswith("ConstantFilm(omega=0.7, gamma=0.2, tau=2.1")


def test_unconditioned_has_no_film_while_its_loss_follows_lambda():
    objective = make_objective("unconditioned", DRAWN, COUNTS)
    conditioned = condition_like("unconditioned", network())
    assert isinstance(conditioned, Conditioned)
    x, losses = torch.randn(5, 3), []
    assert torch.equal(conditioned(x, torch.tensor([0.5])), conditioned(x, torch.tensor([2.5])))
    for tau in (0.5, 2.5):
        fixed = make_objective("vs", {**FIXED, "tau": tau}, COUNTS)
        expected = fixed.loss(LOGITS, TARGET, torch.zeros(0), class_counts=COUNTS)
        losses.append(objective.loss(LOGITS, TARGET, torch.tensor([tau]), class_counts=COUNTS))
        assert losses[-1].item() == pytest.approx(expected.item(), rel=1e-6)
    assert losses[0] != losses[1]
