"""Subsets with a wanted imbalance: sizes by the rule, and what is told of a task thinned to it."""

import warnings
from itertools import product
from math import ceil, floor

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

import curvewise as cw
from curvewise import subsample_long_tail, subsample_to_beta
from curvewise.data.task import split_rows


def labels(*counts):
    """Labels 0, 1, ... as often as said, in a fixed shuffled order."""
    return np.random.default_rng(0).permutation(np.repeat(np.arange(len(counts)), counts))


def sizes(y, indices):
    return np.bincount(y[indices], minlength=y.max() + 1).tolist()


def test_sizes_follow_the_rule():
    for counts, beta, named, expected in (
        # The sample table of the paper's appendix, as far as it follows the rule floor(n0 / beta).
        ((5_000, 5_000), 200, None, [5_000, 25]),
        ((2_500, 2_500), 200, None, [2_500, 12]),  # 12.5, the paper prints 13
        ((41_051, 4_071), 100, None, [41_051, 410]),
        # The majority is cut if the minority is too small.
        ((41_051, 4_071), 10, None, [40_710, 4_071]),
        ((1_000, 10), 20, None, [200, 10]),
        ((1_000, 7), 2.5, None, [18, 7]),  # 17.5 is rounded up: the imbalance is at least this
        ((1_000, 50), 1.1, None, [55, 50]),  # in floating point 1.1 * 50 is a little more than 55
        ((9, 8), 1, None, [8, 8]),
        ((50, 20), 1_000, None, [50, 1]),  # one minority sample is always left
        # Whole quotients survive rounding: 33 / 1.1 is 29.999...
        ((33, 33), 1.1, None, [33, 30]),
        ((81, 81), 2.7, None, [81, 30]),
        # The minority is the rarer label, of equally frequent ones the larger, or the one named.
        ((30, 100), 10, None, [10, 100]),
        ((100, 100), 10, None, [100, 10]),
        ((100, 100), 10, 0, [10, 100]),
        ((30, 100), 10, 1, [30, 3]),
    ):
        y = labels(*counts)
        assert sizes(y, subsample_to_beta(y, beta, seed=0, minority=named)) == expected


@pytest.mark.parametrize("subsample", [subsample_to_beta, subsample_long_tail])
def test_seeds_mean_something_and_containers_and_label_values_nothing(subsample):
    y = labels(100, 100)
    first, again, other = (subsample(y, 10, seed=s).tolist() for s in (0, 0, 1))
    assert first == again != other
    for convert in (list, torch.tensor, lambda y: y == 1, lambda y: y * 6 - 3):
        assert subsample(convert(y), 10, seed=0).tolist() == first


def test_every_minority_sample_can_be_drawn():
    y = labels(20, 10)
    drawn = np.concatenate([subsample_to_beta(y, 4, seed=seed) for seed in range(400)])
    # Five of ten are kept each time: 200 expected, standard deviation 10.
    counts = np.bincount(drawn, minlength=30)[y == 1]
    assert 150 < counts.min() < counts.max() < 250


@given(st.integers(1, 60), st.integers(1, 60), st.floats(1, 200), st.integers(0, 99))
@settings(deadline=None)
def test_the_rule_holds_for_any_sizes(n_zero, n_one, beta, seed):
    y = labels(n_zero, n_one)
    indices = subsample_to_beta(y, beta, seed=seed)
    assert len(set(indices.tolist())) == len(indices)
    assert indices.tolist() == sorted(indices.tolist())
    minority = 0 if n_zero < n_one else 1
    n_minority, n_majority = (n_zero, n_one) if minority == 0 else (n_one, n_zero)
    expected = [max(floor(n_majority / beta + 1e-9), 1), n_majority]
    if expected[0] > n_minority:
        expected = [n_minority, ceil(beta * n_minority - 1e-9)]
    found = sizes(y, indices)
    assert [found[minority], found[1 - minority]] == expected


def test_long_tail_of_two_classes_is_a_beta_subset():
    for beta, few in product([1, 10, 30, 100, 7.5], [500, 40, 3]):
        y = labels(500, few)
        expected = sizes(y, subsample_to_beta(y, beta, seed=0))
        assert sizes(y, subsample_long_tail(y, beta, seed=0)) == expected


def test_long_tail_falls_exponentially():
    for counts, ratio, expected in (
        # CIFAR-10 at ratio 100, the sizes that long-tail papers print.
        ([5_000] * 10, 100, [5000, 2997, 1796, 1077, 645, 387, 232, 139, 83, 50]),
        ([196] * 3, 49, [196, 28, 4]),  # in floating point 196 * 49**-1 is a little less than 4
        ([1_000, 1_000, 2], 100, [200, 20, 2]),  # a short tail class shrinks the head
        ([1_000, 30, 1_000], 100, [300, 30, 3]),
    ):
        y = labels(*counts)
        assert sizes(y, subsample_long_tail(y, ratio, seed=0)) == expected


@given(st.lists(st.integers(1, 40), min_size=2, max_size=6), st.floats(1, 300))
@settings(deadline=None)
def test_long_tail_never_rises_and_keeps_every_class(counts, ratio):
    y = labels(*counts)
    indices = subsample_long_tail(y, ratio, seed=0)
    assert len(set(indices.tolist())) == len(indices)
    found = sizes(y, indices)
    assert min(found) >= 1
    assert all(kept <= there for kept, there in zip(found, counts, strict=True))
    assert found == sorted(found, reverse=True)


def made(n_negative: int, n_positive: int) -> cw.Task:
    y = np.repeat([0, 1], [n_negative, n_positive])
    x = np.zeros((len(y), 1), np.float32)
    return cw.Task("made", "features", x, y, x[-2:], np.array([0, 1]), ("a", "b"))


def told(task: cw.Task, beta: float) -> tuple[list[str], tuple[int, ...]]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        counts = task.at_beta(beta, seed=0).class_counts
    assert all(warning.category is UserWarning for warning in caught)
    return [str(warning.message) for warning in caught], counts


@pytest.mark.parametrize(
    ("counts", "beta", "message"),
    [
        ((1536, 64), 5, "the data's own 24: 1,216 of the 1,536 majority samples are left out"),
        ((811, 91), 100_000, "beta = 100000 leaves 1 of 91 positives, beta 811"),
        ((811, 91), 200, "beta = 200 leaves 4 of 91 positives, beta 202.8"),
        ((100, 40), 17, "beta = 17 leaves 5 of 40 positives, beta 20"),
        ((1000, 500), 94, "beta = 94 leaves 10 of 500 positives, beta 100"),
        ((1000, 500), 95.4, None),  # less than 5 % off
        ((1000, 500), 100, None),
        ((1000, 500), 2, None),  # as it is
        ((6, 3), 2, None),
        ((1000, 4), 250, None),  # few, but all of them
    ],
)
def test_a_beta_that_is_not_had_is_told(counts, beta, message):
    messages, _ = told(made(*counts), beta)
    assert len(messages) == (message is not None)
    assert not messages or messages[0].endswith(message)


@given(st.integers(2, 3000), st.integers(1, 300), st.floats(1, 5000))
def test_silence_means_the_beta_that_was_asked_for(n_negative, n_positive, beta):
    messages, (left, kept) = told(made(n_negative, n_positive), beta)
    assert len(messages) <= 1
    if not messages:
        assert left == n_negative
        assert kept == n_positive or (kept >= 5 and abs(left / kept / beta - 1) <= 0.05)
    elif "below" in messages[0]:
        assert left < n_negative
        assert kept == n_positive
        assert f"{n_negative - left:,} of the {n_negative:,}" in messages[0]
    else:
        assert (left, f"leaves {kept:,} of {n_positive:,}" in messages[0]) == (n_negative, True)


def test_the_digest_of_the_test_part_is_of_that_alone():
    task = cw.load_task("digits:8")
    assert task.test_digest == cw.load_task("digits:8", beta=50).test_digest
    assert task.test_digest != cw.load_task("digits:8", seed=1).test_digest
    assert task.test_digest != cw.load_task("digits:3").test_digest
    assert task.test_digest != task.with_validation(0.2, seed=0).test_digest


def test_a_part_of_the_rows_is_split_off():
    for fraction in (0, 1, -0.1, "half"):
        with pytest.raises(cw.InputError, match="fraction must"):
            split_rows(np.repeat([0, 1], 50), fraction, seed=0)
    first, second = split_rows(np.repeat([0, 1], [60, 40]), seed=0)
    assert sorted([*first, *second]) == list(range(100))
    assert (len(second), (second >= 60).sum()) == (20, 8)  # a fifth of both, unless told otherwise
