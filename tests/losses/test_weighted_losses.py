"""Sample weights in every loss, against plain loops over samples."""

import math

import pytest
import torch

import curvewise as cw
from curvewise.losses.baselines import auc_margin_loss, focal_loss, ldam_loss

REDUCTIONS = ("none", "sum", "mean", "weighted_mean", "expected_mean")
COUNTS = (40.5, 7.25, 3.0)
SETTINGS = {"omega": 0.8, "gamma": 0.3, "tau": 1.5}


def batch(n=9, classes=3, models=4):
    generator = torch.Generator().manual_seed(3)
    logits = 2 * torch.randn(models, n, classes, generator=generator, dtype=torch.float64)
    target = torch.arange(n) % classes
    weight = 3 * torch.rand(models, n, generator=generator, dtype=torch.float64)
    weight[:, 1] = 0
    return logits, target, weight


def by_loop(logits, target, weight, reduction):
    """The definition, sample by sample, for one model."""
    largest, log_beta = max(COUNTS), math.log(max(COUNTS) / min(COUNTS))
    rarity = [math.log(largest / n) / log_beta for n in COUNTS]
    omega = SETTINGS["omega"]
    raw = [omega**r * (1 - omega) ** (1 - r) for r in rarity]
    class_weight = [w / sum(raw) for w in raw]
    losses = []
    for z, y, s in zip(logits.tolist(), target.tolist(), weight.tolist(), strict=True):
        scaled = [
            z[c] * (n / largest) ** SETTINGS["gamma"] + SETTINGS["tau"] * math.log(n / largest)
            for c, n in enumerate(COUNTS)
        ]
        log_sum = math.log(sum(math.exp(value) for value in scaled))
        losses.append(s * class_weight[y] * (log_sum - scaled[y]))
    expected = sum(n * w for n, w in zip(COUNTS, class_weight, strict=True)) / sum(COUNTS)
    divisor = {
        "sum": 1,
        "mean": len(losses),
        "expected_mean": len(losses) * expected,
        "weighted_mean": sum(
            s * class_weight[y] for s, y in zip(weight.tolist(), target.tolist(), strict=True)
        ),
    }
    found = losses if reduction == "none" else sum(losses) / divisor[reduction]
    return torch.tensor(found, dtype=torch.float64)


@pytest.mark.parametrize("drawn", [False, True])
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_weights_multiply_the_samples_losses(reduction, drawn):
    logits, target, weight = batch()
    settings = dict(SETTINGS)
    if drawn:
        settings["tau"] = torch.full((4, 1), SETTINGS["tau"], dtype=torch.float64)
    shared = {"class_counts": COUNTS, "reduction": reduction, **settings}
    expected = torch.stack([by_loop(logits[k], target, weight[k], reduction) for k in range(4)])
    own = cw.vs_loss(logits, target, sample_weight=weight, **shared)
    torch.testing.assert_close(own, expected, rtol=1e-12, atol=1e-12)
    alike = torch.stack([by_loop(logits[k], target, weight[0], reduction) for k in range(4)])
    one = cw.vs_loss(logits, target, sample_weight=weight[0], **shared)
    torch.testing.assert_close(one, alike, rtol=1e-12, atol=1e-12)
    if not drawn:
        flat = cw.vs_loss(logits[0], target, sample_weight=weight[0], **shared)
        torch.testing.assert_close(flat, alike[0], rtol=1e-12, atol=1e-12)


def objectives(reduction="weighted_mean"):
    return [
        cw.LossFamily(**SETTINGS, reduction=reduction),
        cw.LossFamily(0.8, 0.3, cw.LinearDensity(0.0, 3.0, 0.33), reduction=reduction),
        cw.FocalLoss(),
        cw.LDAMLoss(scale=5.0),
        cw.AUCMarginLoss(),
    ]


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("number", range(5))
def test_weights_of_one_change_nothing(number, reduction):
    objective = objectives(reduction)[number]
    logits, target, _ = batch(classes=2)
    with torch.no_grad():
        for parameter in objective.parameters():
            parameter.fill_(0.3)
    lam = objective.draw(1, generator=torch.Generator().manual_seed(0))[0]
    for z, ones in (
        (logits[0], torch.ones(9)),
        (logits, torch.ones(9)),
        (logits, torch.ones(4, 9)),
    ):
        plain = objective.loss(z, target, lam, class_counts=(40, 7))
        weighted = objective.loss(z, target, lam, class_counts=(40, 7), sample_weight=ones)
        torch.testing.assert_close(weighted, plain, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("number", range(5))
def test_stacked_weights_are_each_models_own(number):
    objective = objectives()[number]
    logits, target, weight = batch(classes=2)
    lam = objective.draw(1, generator=torch.Generator().manual_seed(0))[0]
    together = objective.loss(logits, target, lam, class_counts=(40, 7), sample_weight=weight)
    alone = [
        objective.loss(z, target, lam, class_counts=(40, 7), sample_weight=own)
        for z, own in zip(logits, weight, strict=True)
    ]
    torch.testing.assert_close(together, torch.stack(alone), rtol=1e-12, atol=1e-12)


def test_whole_weights_are_repeated_rows():
    logits, target, _ = batch(classes=2, models=1)
    times = torch.tensor([3, 0, 1, 2, 1, 0, 4, 1, 2])
    rows = torch.arange(9).repeat_interleave(times)
    counts = [times[target == c].sum().item() for c in range(2)]
    for objective in objectives()[:2]:
        lam = objective.draw(1, generator=torch.Generator().manual_seed(0))[0]
        weighted = objective.loss(
            logits[0], target, lam, class_counts=counts, sample_weight=times.double()
        )
        repeated = objective.loss(logits[0][rows], target[rows], lam, class_counts=counts)
        torch.testing.assert_close(weighted, repeated, rtol=1e-13, atol=0)


@pytest.mark.parametrize("reduction", ["mean", "expected_mean"])
def test_the_other_means_are_unbiased_over_mini_batches(reduction):
    logits, target, weight = batch(n=12, classes=2, models=1)
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
        mean = cw.vs_loss(
            logits[0], target, sample_weight=weight, class_counts=counts, **SETTINGS
        )  # fmt: skip
        torch.testing.assert_close(whole, mean, rtol=1e-13, atol=0)


def test_a_batch_without_weight_has_loss_and_gradient_zero():
    logits, target, _ = batch(classes=2)
    for z, weight in ((logits[0], torch.zeros(9)), (logits, torch.zeros(4, 9))):
        leaf = z.clone().requires_grad_()
        loss = cw.vs_loss(leaf, target, class_counts=(40, 7), sample_weight=weight)
        loss.sum().backward()
        assert loss.eq(0).all()
        assert leaf.grad.eq(0).all()


def test_a_weight_of_zero_stops_the_gradient():
    logits, target, weight = batch(classes=2)
    leaf = logits.clone().requires_grad_()
    cw.vs_loss(leaf, target, class_counts=(40, 7), sample_weight=weight).sum().backward()
    assert leaf.grad[:, 1].eq(0).all()
    assert leaf.grad[:, 2].ne(0).all()


def test_baselines_by_plain_loops():
    logits, target, weight = batch(classes=2)
    z, s = logits[0].tolist(), weight[0].tolist()
    labels = target.tolist()
    p = [math.exp(b) / (math.exp(a) + math.exp(b)) for a, b in z]
    own = [q if y else 1 - q for q, y in zip(p, labels, strict=True)]
    focal = sum(w * -((1 - q) ** 2) * math.log(q) for w, q in zip(s, own, strict=True)) / 9
    got = focal_loss(logits[0], target, sample_weight=weight[0])
    assert got.item() == pytest.approx(focal, rel=1e-12)

    margins = [0.5 * (7 / n) ** 0.25 for n in (40, 7)]
    ldam = 0.0
    for row, y, w in zip(z, labels, s, strict=True):
        moved = [5 * (value - (margins[c] if c == y else 0)) for c, value in enumerate(row)]
        ldam += w * (math.log(sum(map(math.exp, moved))) - moved[y]) / 9
    got = ldam_loss(logits[0], target, class_counts=(40, 7), scale=5.0, sample_weight=weight[0])
    assert got.item() == pytest.approx(ldam, rel=1e-12)

    rate, a, b, dual, margin = 7 / 47, 0.6, 0.3, 0.2, 1.0
    total = 0.0
    for h, y, w in zip(p, labels, s, strict=True):
        term = (1 - rate) * (h - a) ** 2 if y else rate * (h - b) ** 2
        gap = rate * (1 - rate) * margin + (-(1 - rate) * h if y else rate * h)
        total += w * (term + 2 * dual * gap - rate * (1 - rate) * dual**2) / 9
    got = auc_margin_loss(
        torch.tensor(p, dtype=torch.float64),
        target,
        mean_positive=torch.tensor(a),
        mean_negative=torch.tensor(b),
        dual=torch.tensor(dual, dtype=torch.float64),
        positive_rate=rate,
        sample_weight=weight[0],
    )
    assert got.item() == pytest.approx(total, rel=1e-6)
