"""vs_loss against a plain loop in high precision, its special cases, and PyTorch's transforms."""

import itertools
from functools import partial

import mpmath
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings, strategies as st

import curvewise as cw
from curvewise.losses.vector_scaling import REDUCTIONS, unchecked_vs_loss

COUNTS = (1000.0, 10.0)
SETTINGS = [(0.5, 0.0, 0.0), (0.9, 0.2, 2.0), (0.99, 0.4, 3.0), (0.3, 1e-9, 0.7), (0.7, 0.0, 1.0)]


def loop_weights(counts, omega):
    """omega_c proportional to (n_c/n_max)^-kappa, as the definition says it."""
    beta = mpmath.mpf(max(counts)) / min(counts)
    if beta == 1:
        return [mpmath.mpf(1) / len(counts)] * len(counts)
    kappa = (mpmath.log(omega) - mpmath.log(1 - mpmath.mpf(omega))) / mpmath.log(beta)
    raw = [(mpmath.mpf(n) / max(counts)) ** -kappa for n in counts]
    return [w / sum(raw) for w in raw]


def loop(logits, target, sample_weight, counts, omega, gamma, tau, reduction):
    """Equation (2) of the paper times the sample's weight, one sample at a time, 50 digits."""
    n, largest, weights = sum(counts), max(counts), loop_weights(counts, omega)
    losses, chosen = [], []
    for z, y, s in zip(logits.tolist(), target.tolist(), sample_weight.tolist(), strict=True):
        adjusted = [
            (mpmath.mpf(n_c) / largest) ** gamma * z_c + tau * mpmath.log(mpmath.mpf(n_c) / n)
            for z_c, n_c in zip(z, counts, strict=True)
        ]
        total = sum(mpmath.exp(a) for a in adjusted)
        losses.append(-s * weights[y] * mpmath.log(mpmath.exp(adjusted[y]) / total))
        chosen.append(s * weights[y])
    if reduction == "none":
        return [float(loss) for loss in losses]
    expected = len(losses) * sum(n_c * w for n_c, w in zip(counts, weights, strict=True)) / n
    divisors = {"sum": 1, "mean": len(losses), "weighted_mean": sum(chosen)}
    return float(sum(losses) / (divisors | {"expected_mean": expected})[reduction])


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("counts", [COUNTS, (10.0, 1000.0), (50.0, 50.0), (900.0, 30.0, 90.0, 7.0)])
@pytest.mark.parametrize(("omega", "gamma", "tau"), SETTINGS)
def test_every_form_equals_the_loop_in_float64(counts, omega, gamma, tau, reduction):
    mpmath.mp.dps = 50
    n_classes = len(counts)
    logits = 5 * torch.randn(12, n_classes, dtype=torch.float64)
    target = torch.arange(12) % n_classes

    def by_loop(weight):
        value = loop(logits, target, weight, counts, omega, gamma, tau, reduction)
        return torch.tensor(value, dtype=torch.float64)

    expected = by_loop(torch.ones(12))
    at = {"class_counts": counts, "reduction": reduction}
    named = {"omega": omega, "gamma": gamma, "tau": tau}
    tensors = {n: torch.tensor(v, dtype=torch.float64) for n, v in named.items()}
    a_sample = {n: v.expand(12) for n, v in tensors.items()}
    results = [cw.vs_loss(logits, target, **way, **at) for way in (named, tensors, a_sample)]
    module = cw.VSLoss(counts, omega, gamma, tau, reduction)
    for result in (*results, module(logits, target), *module(logits.expand(3, -1, -1), target)):
        torch.testing.assert_close(result, expected, rtol=1e-12, atol=1e-14)
    weight = 3 * torch.rand(2, 12, dtype=torch.float64)
    weight[:, 1] = 0
    expected = torch.stack([by_loop(one) for one in weight])
    for values in (named, tensors):
        own = cw.vs_loss(logits.expand(2, -1, -1), target, sample_weight=weight, **values, **at)
        torch.testing.assert_close(own, expected, rtol=1e-12, atol=1e-14)
        flat = cw.vs_loss(logits, target, sample_weight=weight[0], **values, **at)
        torch.testing.assert_close(flat, expected[0], rtol=1e-12, atol=1e-14)


def test_a_stack_of_models_with_their_own_settings_equals_single_calls():
    logits = torch.randn(4, 10, 3, dtype=torch.float64)
    target = torch.randint(0, 3, (4, 10))
    values = dict(zip(("omega", "gamma", "tau"), torch.rand(3, 4, 1).double(), strict=True))
    for reduction in ("sum", "mean", "weighted_mean", "expected_mean"):
        at = {"class_counts": (300, 30, 3), "reduction": reduction}
        stacked = cw.vs_loss(logits, target, **values, **at)
        for k in range(4):
            own = {name: value[k].item() for name, value in values.items()}
            torch.testing.assert_close(stacked[k], cw.vs_loss(logits[k], target[k], **own, **at))


def test_cross_entropy_weighted_or_logit_adjusted_is_a_special_case():
    counts = torch.tensor([500.0, 40.0, 10.0], dtype=torch.float64)
    logits, target = torch.randn(20, 3, dtype=torch.float64), torch.randint(0, 3, (20,))
    loss = partial(cw.vs_loss, target=target, class_counts=counts)
    torch.testing.assert_close(loss(logits), F.cross_entropy(logits, target))
    third = loss(logits, reduction="mean")  # by weights that sum to one
    torch.testing.assert_close(third, F.cross_entropy(logits, target) / 3)
    weights = torch.tensor([0.2, 3.0, 1.0], dtype=torch.float64)
    by_hand = F.cross_entropy(logits, target, weights)
    torch.testing.assert_close(loss(logits, omega=weights.tolist()), by_hand)
    # Menon et al. 2021: cross-entropy of z + tau log(prior).
    adjusted = logits + 1.5 * (counts / counts.sum()).log()
    torch.testing.assert_close(loss(logits, tau=1.5), F.cross_entropy(adjusted, target))


@pytest.mark.parametrize("weighted", [0, 1])
def test_a_class_without_weight_is_left_out_of_the_mean(weighted):
    logits, target = torch.randn(7, 2, dtype=torch.float64), torch.arange(7) % 3 % 2
    expected = F.cross_entropy(logits[target == weighted], target[target == weighted])
    for omega in (float(weighted), torch.tensor(float(weighted)).double()):
        loss = cw.vs_loss(logits, target, class_counts=COUNTS, omega=omega)
        torch.testing.assert_close(loss, expected)


@pytest.mark.parametrize("omega", [0.0, 1.0])
@pytest.mark.parametrize("stacked", [False, True])
def test_a_batch_without_weight_has_loss_zero_and_zero_gradient(omega, stacked):
    logits = torch.randn(*([3] if stacked else []), 6, 2, requires_grad=True)
    target = torch.full((6,), int(omega == 0))
    nothing = {"omega": 0.5, "sample_weight": torch.zeros(logits.shape[:-1])}
    for setting in ({"omega": omega}, {"omega": torch.tensor(omega)}, nothing):
        loss = cw.vs_loss(logits, target, class_counts=COUNTS, **setting)
        (gradient,) = torch.autograd.grad(loss.sum(), logits)
        assert (loss == 0).all()
        assert (gradient == 0).all()


@pytest.mark.parametrize("stacked", [False, True])
@pytest.mark.parametrize("n_classes", [2, 4])
def test_float32_stays_finite_for_huge_logits(stacked, n_classes):
    values = torch.tensor([-1e4, -1.0, 0.0, 1e4])
    logits = torch.cartesian_prod(*[values] * n_classes).requires_grad_()
    counts = (1000.0, *[1.0] * (n_classes - 1))
    for label, (omega, gamma, tau) in itertools.product(range(n_classes), SETTINGS):
        target = torch.full((len(logits),), label)
        shaped = logits.expand(2, -1, -1) if stacked else logits
        loss = cw.VSLoss(counts, omega, gamma, tau, reduction="sum")(shaped, target).sum()
        (gradient,) = torch.autograd.grad(loss, logits)
        assert torch.isfinite(loss)
        assert torch.isfinite(gradient).all()


@pytest.mark.parametrize("counts", [(100.0, 4.0), (100.0, 20.0, 4.0)])
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_gradients_are_exact(counts, reduction):
    logits = torch.randn(5, len(counts), dtype=torch.float64, requires_grad=True)
    target = torch.arange(5) % len(counts)
    start = torch.tensor([0.8, 0.3, 1.2], dtype=torch.float64, requires_grad=True)

    def function(logits, start):
        at = dict(zip(("omega", "gamma", "tau"), start, strict=True))
        return cw.vs_loss(logits, target, class_counts=counts, reduction=reduction, **at)

    assert torch.autograd.gradcheck(function, (logits, start))
    assert torch.autograd.gradgradcheck(function, (logits, start))
    module = cw.VSLoss(counts, 0.8, 0.3, 1.2, reduction)
    assert torch.autograd.gradcheck(lambda z: module(z, target), (logits,))


@given(
    omega=st.floats(0, 1),
    gamma=st.floats(0, 2),
    tau=st.floats(0, 5),
    beta=st.floats(1, 1e4),
    shift=st.floats(-20, 20),
)
@settings(max_examples=60)
def test_ranges_and_monotonicity(omega, gamma, tau, beta, shift):
    logits = torch.tensor([[0.0, shift], [0.0, shift + 1.0]], dtype=torch.float64)
    at = {"class_counts": (beta, 1.0), "omega": omega, "gamma": gamma, "tau": tau}
    positive, negative = (
        cw.vs_loss(logits, torch.full((2,), label), **at, reduction="none") for label in (1, 0)
    )
    assert (torch.stack([positive, negative]) >= 0).all()
    assert positive[1] <= positive[0]  # a higher z1 suits class 1
    assert negative[1] >= negative[0]
    minority = torch.ones(2, dtype=torch.long)
    less, more = (cw.vs_loss(logits, minority, **at | {"tau": t}) for t in (tau, tau + 1))
    assert more >= less - 1e-12  # a larger margin is never easier for the minority


def test_torch_compile_gives_the_same_loss_and_gradient():
    logits, target = torch.randn(16, 2, requires_grad=True), torch.randint(0, 2, (16,))
    module = cw.VSLoss(COUNTS, 0.9, 0.2, 2.0)

    def function(logits, tau):
        return cw.vs_loss(logits, target, class_counts=COUNTS, omega=0.9, gamma=0.2, tau=tau)

    tau = torch.tensor(2.0)
    for plain, arguments in (
        (lambda z: module(z, target), (logits,)),
        (function, (logits, tau)),
        (function, (logits, 2.0)),
    ):
        compiled = torch.compile(plain, backend="aot_eager", fullgraph=True)
        expected, result = plain(*arguments), compiled(*arguments)
        torch.testing.assert_close(result, expected)
        gradients = (torch.autograd.grad(each, logits) for each in (result, expected))
        torch.testing.assert_close(*gradients)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_vmap_and_grad_transforms_agree_with_the_stack(n_classes):
    counts = (100.0, 10.0, 5.0)[:n_classes]
    logits = torch.randn(4, 8, n_classes, dtype=torch.float64)
    target = torch.randint(0, n_classes, (8,))
    taus = torch.rand(4, dtype=torch.float64)

    def single(logits, tau):
        return cw.vs_loss(logits, target, class_counts=counts, omega=0.8, gamma=0.2, tau=tau)

    stacked = single(logits, taus[:, None])
    torch.testing.assert_close(torch.func.vmap(single)(logits, taus), stacked)
    fixed = torch.func.vmap(cw.VSLoss(counts, 0.8, 0.2, 1.0), in_dims=(0, None))
    by_module = cw.VSLoss(counts, 0.8, 0.2, 1.0)(logits, target)
    torch.testing.assert_close(fixed(logits, target), by_module)
    gradients = torch.func.vmap(torch.func.grad(single))(logits, taus)
    for k in range(4):
        torch.testing.assert_close(gradients[k], torch.func.grad(single)(logits[k], taus[k]))


@pytest.mark.parametrize("shape", [(32, 2), (3, 32, 2)])
def test_half_precision_and_autocast_compute_in_float32(shape):
    logits = (10 * torch.randn(shape)).bfloat16()
    target = torch.randint(0, 2, (32,))
    module = cw.VSLoss(COUNTS, 0.9, 0.2, 2.0)
    expected = module(logits.float(), target)
    assert expected.dtype == torch.float32
    torch.testing.assert_close(module(logits, target), expected, rtol=0, atol=0)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = module(logits, target)
        settings = {"omega": 0.9, "gamma": 0.2, "tau": torch.tensor(2.0)}
        tau = unchecked_vs_loss(logits, target, COUNTS, settings, "mean")
    torch.testing.assert_close(inside, expected, rtol=0, atol=0)
    assert tau.dtype == torch.float32
    assert "tau=2.0" in repr(module)
