"""Thinning a task to beta: what is told to those who ask for a beta that cannot be had."""

import warnings

import numpy as np
import pytest
from hypothesis import given, strategies as st

import curvewise as cw
from curvewise.data.task import split_rows


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
        (
            (1536, 64),
            5,
            "below the data's own 24: 1,216 of the 1,536 majority samples are left out",
        ),
        ((811, 91), 100_000, "beta = 100000 leaves 1 of 91 positives, beta 811"),
        ((811, 91), 200, "beta = 200 leaves 4 of 91 positives, beta 202.8"),
        ((100, 40), 17, "beta = 17 leaves 5 of 40 positives, beta 20"),
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


@pytest.mark.parametrize("fraction", [0, 1, -0.1, "half"])
def test_a_part_of_the_rows_is_split_off(fraction):
    with pytest.raises(cw.InputError, match="fraction must"):
        split_rows(np.repeat([0, 1], 50), fraction, seed=0)
