"""Linear densities against integration, 50 digits and Kolmogorov-Smirnov; families of losses."""

from itertools import combinations

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import example, given, strategies as st
from scipy.integrate import quad
from scipy.stats import kstest

import curvewise as cw
from curvewise.losses import family as family_module

UNIT = st.floats(0, 1)


@st.composite
def densities(draw: st.DrawFn) -> cw.LinearDensity:
    low = draw(st.floats(-5, 5))
    high = low + draw(st.floats(0.1, 10))
    return cw.LinearDensity(low, high, draw(UNIT) * (2 / (high - low)))


@pytest.mark.parametrize("height", [0.0, 0.1, 1 / 3, 0.5, 2 / 3])
def test_cdf_is_the_integral_of_pdf(height: float) -> None:
    density = cw.LinearDensity(-1.0, 2.0, height)
    for x in (-1.0, -0.4, 0.5, 1.7, 2.0):
        area, _ = quad(density.pdf, -1.0, x)
        assert density.cdf(x) == pytest.approx(area, abs=1e-13)
        assert density.ppf(area) == pytest.approx(x, abs=1e-6 if height in (0.0, 2 / 3) else 1e-12)
    assert density.pdf(2.0) == height
    assert density.pdf(-1.0) == density.height_at_low == pytest.approx(2 / 3 - height)


NEARLY_FLAT = [-1e-12, -1e-15, 0.0, 3e-16, 1e-14, 1e-12, 1e-8]


@pytest.mark.parametrize("offset", [*NEARLY_FLAT, -1 + 1e-5, 1 - 1e-5])
def test_nearly_flat_and_nearly_triangular_slopes_are_exact(offset: float) -> None:
    density = cw.LinearDensity(0.0, 3.0, (1 + offset) / 3)
    with mpmath.workdps(50):
        b = 3 * mpmath.mpf(density.height_at_high)
        a = 2 - b
        for u in (1e-9, 0.1, 0.37, 0.5, 0.99, 1 - 1e-12):
            root = mpmath.sqrt(a**2 + (b**2 - a**2) * u)
            x = 3 * (root - a) / (b - a) if a != b else 3 * mpmath.mpf(u)
            assert float(density.ppf(u)) == pytest.approx(float(x), rel=1e-15, abs=0)
            t = mpmath.mpf(u) / 3
            area = a * t + (b - a) / 2 * t**2
            assert float(density.cdf(u)) == pytest.approx(float(area), rel=1e-15, abs=0)


@given(densities(), st.lists(UNIT, min_size=2))
@example(cw.LinearDensity(0.2, 0.9, 1.0), [0.5, 0.5])
def test_ppf_inverts_cdf_and_both_climb_from_end_to_end(density, levels) -> None:
    x = density.ppf(sorted(levels))
    np.testing.assert_allclose(density.cdf(x), sorted(levels), rtol=0, atol=1e-13)
    # Ties in exact arithmetic may come out a rounding apart.
    assert (np.diff(x) >= -1e-14).all()
    u = density.cdf(np.sort(x))
    assert (np.diff(u) >= -1e-15).all()
    assert ((u >= 0) & (u <= 1 + 1e-15)).all()
    assert (density.cdf(density.low), density.cdf(density.high)) == (0, 1)
    assert (density.ppf(0.0), density.ppf(1.0)) == (density.low, density.high)


def test_nothing_lies_outside_and_tensors_stay_tensors() -> None:
    x = np.array([-1.0, 3.5, float("inf"), float("-inf")])
    density = cw.LinearDensity(0.0, 3.0, 0.2)
    assert (density.pdf(x) == 0).all()
    assert (density.cdf(x) == (x > 0)).all()
    density = cw.LinearDensity(1.0, 3.0, 1.0)
    assert density.height_at_low == 0  # which is no trap
    for dtype in (torch.float32, torch.float64):
        x = density.ppf(torch.tensor([0.0, 0.25, 1.0], dtype=dtype))
        assert (x.dtype, x.tolist()) == (dtype, [1.0, 2.0, 3.0])
        assert density.cdf(x).tolist() == [0.0, 0.25, 1.0]


@pytest.mark.parametrize("height", [0.0, 0.1, 2 / 3])
def test_the_sampler_follows_its_cdf(height: float) -> None:
    density = cw.LinearDensity(0.0, 3.0, height)
    sample = density.sample(20_000, generator=torch.Generator().manual_seed(1)).numpy()
    assert kstest(sample, density.cdf).pvalue > 0.01
    other = cw.LinearDensity(0.0, 3.0, height + 0.05 if height < 0.6 else height - 0.05)
    assert kstest(sample, other.cdf).pvalue < 1e-4  # the test has the power to tell them apart


def test_draws_come_from_the_given_generator_alone() -> None:
    family = cw.LossFamily(omega=cw.LinearDensity(0.5, 0.9, 1.0), tau=cw.LinearDensity(0, 3, 0.2))
    before = torch.get_rng_state()
    first, second, third = (
        family.draw(4, generator=torch.Generator().manual_seed(seed)) for seed in (7, 7, 8)
    )
    assert torch.equal(first, second)
    assert not torch.equal(first, third)
    assert torch.equal(torch.get_rng_state(), before)


def test_equal_families_are_equal_of_any_kind_of_numbers_and_show_how_they_were_made() -> None:
    plain = cw.LossFamily(omega=1.0, tau=cw.LinearDensity(1.0, 3.0, 1.0))
    for kind in (int, float, np.int64, np.float32, np.float64):
        density = cw.LinearDensity(kind(1), kind(3), kind(1))
        assert density.ppf(0.25) == 2
        family = cw.LossFamily(omega=kind(1), tau=density)
        assert (family, hash(family)) == (plain, hash(plain))
    family, twin, other = (family_drawing(names) for names in (("tau",), ("tau",), ("gamma",)))
    assert (family, hash(family)) == (twin, hash(twin))
    assert len({family, other, family_drawing(("tau",), "mean"), "a family"}) == 4
    names = {"LossFamily": cw.LossFamily, "LinearDensity": cw.LinearDensity}
    assert eval(repr(family), names) == family


COUNTS = (90, 10)
FIXED = {"omega": 0.7, "gamma": 0.2, "tau": 1.5}
DENSITIES = {
    "omega": cw.LinearDensity(0.5, 0.9, 1.0),
    "gamma": cw.LinearDensity(0.0, 0.4, 4.0),
    "tau": cw.LinearDensity(1.0, 3.0, 0.2),
}
SUBSETS = [names for size in range(4) for names in combinations(FIXED, size)]


def family_drawing(names: tuple[str, ...], reduction: str = "weighted_mean") -> cw.LossFamily:
    settings = {name: DENSITIES[name] if name in names else FIXED[name] for name in FIXED}
    return cw.LossFamily(**settings, reduction=reduction)


@pytest.mark.parametrize("names", SUBSETS)
def test_any_subset_can_be_drawn(names: tuple[str, ...]) -> None:
    family = family_drawing(names)
    assert family.drawn == names
    assert family.ranges == tuple((DENSITIES[name].low, DENSITIES[name].high) for name in names)
    lams = family.draw(500)
    assert lams.shape == (500, len(names))
    for column, (low, high) in zip(lams.T.double(), family.ranges, strict=True):
        assert low - 1e-7 <= column.min() <= column.max() <= high + 1e-7
        assert column.unique().numel() > 400  # every draw is its own
    values = {name: DENSITIES[name].high for name in reversed(names)}
    torch.testing.assert_close(family.at(**values), torch.tensor([values[n] for n in names]))


@pytest.mark.parametrize("names", SUBSETS)
def test_the_loss_at_lambda_is_vs_loss_with_those_numbers(names: tuple[str, ...]) -> None:
    logits = torch.randn(4, 6, 2, dtype=torch.float64)
    target = torch.tensor([0, 1, 0, 0, 1, 0])

    def expected(logits, target, lam, reduction):
        numbers = FIXED | dict(zip(names, lam.tolist(), strict=True))
        return cw.vs_loss(logits, target, class_counts=COUNTS, reduction=reduction, **numbers)

    family = family_drawing(names)
    lams = family.draw(4).double()
    loop = [expected(logits[k], target, lams[k], "weighted_mean") for k in range(4)]
    one = family.loss(logits[0], target, lams[0], class_counts=COUNTS)
    torch.testing.assert_close(one, loop[0])
    stacked = family.loss(logits, target, lams[:, None], class_counts=COUNTS)
    torch.testing.assert_close(stacked, torch.stack(loop))
    lams = family.draw(6).double()
    each = family_drawing(names, "none").loss(logits[0], target, lams, class_counts=COUNTS)
    loop = [expected(logits[0, i, None], target[i, None], lams[i], "none") for i in range(6)]
    torch.testing.assert_close(each, torch.cat(loop))


def test_labels_are_read_on_the_cpu_only(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    monkeypatch.setattr(family_module, "check_labels", lambda y, n: read.append(y.device.type))
    monkeypatch.setattr(family_module, "unchecked_vs_loss", lambda *values, **settings: None)
    for device in ("cpu", "meta"):  # "meta" stands in for a GPU
        logits, target = torch.zeros(4, 2, device=device), torch.zeros(4, device=device).long()
        cw.LossFamily().loss(logits, target, torch.zeros(0), class_counts=COUNTS)
    assert read == ["cpu"]
