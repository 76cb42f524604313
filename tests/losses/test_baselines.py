"""Focal, LDAM, AUC-margin and GLMC losses by plain loops; sample weights in every loss."""

import inspect
from math import exp, hypot, log

import pytest
import torch
from torch import Tensor

import curvewise as cw
from curvewise.losses.glmc import glmc_loss

COUNTS = (700, 80, 20)
TARGET = torch.tensor([0, 1, 2, 0, 2, 1])
WEIGHTS = [None, (0.5, 0.0, 2.0, 1.0, 3.0, 0.25)]
BINARY = torch.tensor([0, 1, 0, 0, 1, 0])


def doubles(values) -> Tensor | None:
    return None if values is None else torch.tensor(values, dtype=torch.float64)


def log_softmax(row: list[float]) -> list[float]:
    return [z - log(sum(exp(other) for other in row)) for z in row]


@pytest.mark.parametrize("focus", [0.0, 0.5, 2.0])
@pytest.mark.parametrize("classes", [None, (0.2, 0.5, 1.3)])
@pytest.mark.parametrize("weight", WEIGHTS)
def test_focal_loss_is_its_formula(focus: float, classes, weight) -> None:
    logits, total = torch.randn(6, 3, dtype=torch.float64), 0.0
    for row, label, s in zip(logits.tolist(), TARGET.tolist(), weight or [1] * 6, strict=True):
        log_p = log_softmax(row)[label]
        total -= s * (classes[label] if classes else 1.0) * (1 - exp(log_p)) ** focus * log_p
    weights = {"class_weights": doubles(classes), "sample_weight": doubles(weight)}
    loss = cw.focal_loss(logits, TARGET, focus=focus, **weights)
    assert loss.item() == pytest.approx(total / len(TARGET), rel=1e-13, abs=0)


def test_focal_loss_of_sure_predictions_is_finite_and_keeps_its_digits() -> None:
    for focus in (0.0, 0.5, 1.0, 2.0):
        logits = torch.tensor([[200.0, 0.0], [-1e4, 1e4]], requires_grad=True)
        loss = cw.focal_loss(logits, torch.tensor([0, 0]), focus=focus)
        (gradient,) = torch.autograd.grad(loss, logits)
        assert loss.item() == pytest.approx(1e4)  # 0 for the first, 2e4 for the second
        assert gradient.isfinite().all()
    # Here 1 - p is 1e-13: any subtraction from 1 keeps three digits of it.
    logits = torch.tensor([[30.0, 0.0]], dtype=torch.float64)
    loss = cw.focal_loss(logits, torch.tensor([0]), focus=2.0).item()
    assert loss == pytest.approx((exp(-30) / (1 + exp(-30))) ** 3, rel=1e-10, abs=0)


@pytest.mark.parametrize(("max_margin", "scale"), [(0.5, 30.0), (0.3, 1.0), (0.0, 1.0)])
@pytest.mark.parametrize("weight", WEIGHTS)
def test_ldam_loss_is_its_formula(max_margin: float, scale: float, weight) -> None:
    margins = [max_margin * (min(COUNTS) / count) ** 0.25 for count in COUNTS]
    assert cw.ldam_margins(COUNTS, max_margin).tolist() == pytest.approx(margins, rel=1e-14, abs=0)
    assert margins[COUNTS.index(min(COUNTS))] == max_margin
    logits, total = torch.randn(6, 3, dtype=torch.float64), 0.0
    for row, label, s in zip(logits.tolist(), TARGET.tolist(), weight or [1] * 6, strict=True):
        handicapped = [z - (margins[c] if c == label else 0.0) for c, z in enumerate(row)]
        total -= s * log_softmax([scale * z for z in handicapped])[label]
    held = {"class_counts": COUNTS, "max_margin": max_margin, "scale": scale}
    loss = cw.ldam_loss(logits, TARGET, **held, sample_weight=doubles(weight))
    assert loss.item() == pytest.approx(total / len(TARGET), rel=1e-13, abs=0)


@pytest.mark.parametrize("weight", WEIGHTS)
def test_auc_margin_loss_is_its_formula(weight) -> None:
    score = torch.rand(6, dtype=torch.float64)
    a, b, dual, p, margin = 0.7, 0.2, 0.4, 0.1, 0.9
    total = 0.0
    for h, label, s in zip(score.tolist(), BINARY.tolist(), weight or [1] * 6, strict=True):
        if label == 1:
            loss = (1 - p) * (h - a) ** 2 + 2 * dual * (p * (1 - p) * margin - (1 - p) * h)
        else:
            loss = p * (h - b) ** 2 + 2 * dual * (p * (1 - p) * margin + p * h)
        total += s * (loss - p * (1 - p) * dual**2)
    settings = {"mean_positive": doubles(a), "mean_negative": doubles(b), "dual": doubles(dual)}
    settings |= {"margin": margin, "sample_weight": doubles(weight)}
    loss = cw.auc_margin_loss(score, BINARY, positive_rate=p, **settings)
    assert loss.item() == pytest.approx(total / 6, rel=1e-13, abs=0)


@pytest.mark.parametrize(("progress", "power"), [(0.0, 1.0), (0.4, 1.2), (1.0, 0.0)])
def test_glmc_loss_is_its_formula(progress: float, power: float) -> None:
    z, rebalanced = torch.randn(2, 2, 6, 3, dtype=torch.float64)
    h, u = torch.randn(2, 2, 6, 4, dtype=torch.float64).requires_grad_().unbind()
    target, share = torch.stack([TARGET, TARGET.flip(0)]), [0.7, 0.45]
    whole, alpha = sum(count**-power for count in COUNTS), 1 - progress**2
    total = 0.0
    for view, other in ((0, 1), (1, 0)):
        for i in range(6):
            plain, balanced = (log_softmax(each[view, i].tolist()) for each in (z, rebalanced))
            for label, part in zip(target[:, i], (share[view], 1 - share[view]), strict=True):
                weight = 3 * COUNTS[label] ** -power / whole
                total -= part * alpha * plain[label] + part * (1 - alpha) * weight * balanced[label]
            a, b = u[view, i].tolist(), h[other, i].tolist()
            lengths = hypot(*a) * hypot(*b)
            total -= 5 * sum(p * q for p, q in zip(a, b, strict=True)) / lengths
    settings = {"share": doubles(share), "class_counts": COUNTS, "progress": progress}
    loss = glmc_loss(z, rebalanced, h, u, target, **settings, power=power, consistency=5.0)
    assert loss.item() == pytest.approx(total / 6, rel=1e-13, abs=0)
    to_h, to_u = torch.autograd.grad(loss, (h, u), allow_unused=True)
    assert to_h is None
    assert to_u.ne(0).all()


@pytest.mark.parametrize("margin", [1.0, 0.1])
def test_auc_margin_loss_has_its_saddle_point_at_the_class_means(margin: float) -> None:
    score = torch.tensor([0.1, 0.8, 0.3, 0.2, 0.5, 0.4], dtype=torch.float64)
    positive, negative = score[BINARY == 1], score[BINARY == 0]
    a, b = positive.mean().requires_grad_(), negative.mean().requires_grad_()
    shortfall = (margin + b - a).clamp(min=0).detach()
    dual = shortfall.clone().requires_grad_()
    settings = {"mean_positive": a, "mean_negative": b, "dual": dual}
    loss = cw.auc_margin_loss(score, BINARY, positive_rate=1 / 3, margin=margin, **settings)
    spread = positive.var(correction=0) + negative.var(correction=0)
    torch.testing.assert_close(loss, (1 / 3) * (2 / 3) * (spread + shortfall**2))
    to_a, to_b, to_dual = torch.autograd.grad(loss, (a, b, dual))
    assert (to_a.item(), to_b.item()) == pytest.approx((0, 0), abs=1e-15)
    # Inside, the dual is stationary; at its bound of 0 the loss falls with it.
    assert to_dual.item() == pytest.approx(0, abs=1e-15) if shortfall > 0 else to_dual < 0


def test_the_auc_margin_module_reverses_the_gradient_of_its_dual_alone() -> None:
    objective, logits = cw.AUCMarginLoss(margin=0.8), torch.randn(6, 2)
    with torch.no_grad():
        for parameter, value in zip(objective.parameters(), (0.6, 0.3, 0.25), strict=True):
            parameter.fill_(value)
    copies = {n: p.detach().clone().requires_grad_() for n, p in objective.named_parameters()}
    score = torch.softmax(logits, -1)[:, 1]
    plain = cw.auc_margin_loss(score, BINARY, positive_rate=0.1, margin=0.8, **copies)
    loss = objective.loss(logits, BINARY, objective.draw(1)[0], class_counts=(90, 10))
    torch.testing.assert_close(loss, plain)
    plain.backward()
    loss.backward()
    torch.testing.assert_close(objective.mean_positive.grad, copies["mean_positive"].grad)
    torch.testing.assert_close(objective.mean_negative.grad, copies["mean_negative"].grad)
    torch.testing.assert_close(objective.dual.grad, -copies["dual"].grad)
    assert objective.dual.grad != 0
    # A dual below zero is brought back.
    objective, fresh = cw.AUCMarginLoss(), cw.AUCMarginLoss()
    objective.dual.data.fill_(-0.5)
    losses = [o.loss(logits, BINARY, o.draw(1), class_counts=(4, 2)) for o in (objective, fresh)]
    assert objective.dual.item() == 0
    assert torch.equal(*losses)


SETTINGS = {"omega": 0.8, "gamma": 0.3, "tau": 1.5}


def batch(n=9, models=4):
    generator = torch.Generator().manual_seed(3)
    logits = 2 * torch.randn(models, n, 2, generator=generator, dtype=torch.float64)
    weight = 3 * torch.rand(models, n, generator=generator, dtype=torch.float64)
    weight[:, 1] = 0
    return logits, torch.arange(n) % 2, weight


OBJECTIVES = [
    cw.LossFamily(**SETTINGS),
    cw.LossFamily(0.8, 0.3, cw.LinearDensity(0.0, 3.0, 0.33)),
    cw.FocalLoss(),
    cw.LDAMLoss(scale=5.0),
    cw.AUCMarginLoss(),
]


@pytest.mark.parametrize("objective", OBJECTIVES, ids=lambda one: type(one).__name__)
def test_stacked_weights_are_each_models_own(objective):
    logits, target, weight = batch()
    lam = objective.draw(1, generator=torch.Generator().manual_seed(0))[0]
    together = objective.loss(logits, target, lam, class_counts=(40, 7), sample_weight=weight)
    alone = [
        objective.loss(z, target, lam, class_counts=(40, 7), sample_weight=own)
        for z, own in zip(logits, weight, strict=True)
    ]
    torch.testing.assert_close(together, torch.stack(alone), rtol=1e-12, atol=1e-12)
    plain = objective.loss(logits, target, lam, class_counts=(40, 7))
    assert ((together - plain).abs() > 1e-3).all()


@pytest.mark.parametrize("reduction", ["mean", "expected_mean"])
def test_the_other_means_are_unbiased_over_mini_batches(reduction):
    logits, target, weight = batch(n=12, models=1)
    weight = weight[0] / weight[0].mean()
    counts = [weight[target == c].sum().item() for c in range(2)]
    shared = {"class_counts": counts, "reduction": reduction, **SETTINGS}
    whole = cw.vs_loss(logits[0], target, sample_weight=weight, **shared)
    order = torch.randperm(12, generator=torch.Generator().manual_seed(0)).view(4, 3)
    parts = [
        cw.vs_loss(logits[0][rows], target[rows], sample_weight=weight[rows], **shared)
        for rows in order
    ]
    torch.testing.assert_close(torch.stack(parts).mean(), whole, rtol=1e-13, atol=0)
    if reduction == "expected_mean":  # and of the scale of a weighted mean
        shared.pop("reduction")
        mean = cw.vs_loss(logits[0], target, sample_weight=weight, **shared)
        torch.testing.assert_close(whole, mean, rtol=1e-13, atol=0)


def test_a_modules_settings_are_by_default_those_of_its_function() -> None:
    for module, function in (
        (cw.FocalLoss, cw.focal_loss),
        (cw.LDAMLoss, cw.ldam_loss),
        (cw.AUCMarginLoss, cw.auc_margin_loss),
        (cw.GLMCLoss, cw.glmc_loss),
    ):
        known = inspect.signature(function).parameters
        held = dict(inspect.signature(module).parameters)
        held.pop("sampling", None)  # of GLMC's partners, which are drawn before there is a loss
        assert held
        assert [known[name].default for name in held] == [each.default for each in held.values()]
