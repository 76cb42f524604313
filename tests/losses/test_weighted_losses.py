"""Sample weights in every loss: what they must not change, and repeated rows."""

import pytest
import torch

import curvewise as cw

REDUCTIONS = ("none", "sum", "mean", "weighted_mean", "expected_mean")
SETTINGS = {"omega": 0.8, "gamma": 0.3, "tau": 1.5}


def batch(n=9, models=4):
    generator = torch.Generator().manual_seed(3)
    logits = 2 * torch.randn(models, n, 2, generator=generator, dtype=torch.float64)
    weight = 3 * torch.rand(models, n, generator=generator, dtype=torch.float64)
    weight[:, 1] = 0
    return logits, torch.arange(n) % 2, weight


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
    logits, target, _ = batch()
    with torch.no_grad():
        for parameter in objective.parameters():
            parameter.fill_(0.3)
    lam = objective.draw(1, generator=torch.Generator().manual_seed(0))[0]
    for z, shape in ((logits[0], (9,)), (logits, (9,)), (logits, (4, 9))):
        plain = objective.loss(z, target, lam, class_counts=(40, 7))
        weighted = objective.loss(
            z, target, lam, class_counts=(40, 7), sample_weight=torch.ones(shape)
        )
        torch.testing.assert_close(weighted, plain, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("number", range(5))
def test_stacked_weights_are_each_models_own(number):
    objective = objectives()[number]
    logits, target, weight = batch()
    lam = objective.draw(1, generator=torch.Generator().manual_seed(0))[0]
    together = objective.loss(logits, target, lam, class_counts=(40, 7), sample_weight=weight)
    alone = [
        objective.loss(z, target, lam, class_counts=(40, 7), sample_weight=own)
        for z, own in zip(logits, weight, strict=True)
    ]
    torch.testing.assert_close(together, torch.stack(alone), rtol=1e-12, atol=1e-12)


def test_whole_weights_are_repeated_rows():
    logits, target, _ = batch(models=1)
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
        mean = cw.vs_loss(
            logits[0], target, sample_weight=weight, class_counts=counts, **SETTINGS
        )  # fmt: skip
        torch.testing.assert_close(whole, mean, rtol=1e-13, atol=0)


def test_a_batch_without_weight_has_loss_and_gradient_zero():
    logits, target, _ = batch()
    for z, weight in ((logits[0], torch.zeros(9)), (logits, torch.zeros(4, 9))):
        leaf = z.clone().requires_grad_()
        loss = cw.vs_loss(leaf, target, class_counts=(40, 7), sample_weight=weight)
        loss.sum().backward()
        assert loss.eq(0).all()
        assert leaf.grad.eq(0).all()


def test_a_weight_of_zero_stops_the_gradient():
    logits, target, weight = batch()
    leaf = logits.clone().requires_grad_()
    cw.vs_loss(leaf, target, class_counts=(40, 7), sample_weight=weight).sum().backward()
    assert leaf.grad[:, 1].eq(0).all()
    assert leaf.grad[:, 2].ne(0).all()
