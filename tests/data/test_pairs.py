"""Pairs of classes by name, by number and by group."""

import numpy as np
import pytest

from curvewise.base.errors import InputError
from curvewise.data.pairs import Side, count_deviations, pair_name, pair_rows, parse_pair

NAMES = ["airplane", "pine_tree", "cat", "dog"]
GROUPS = {"animal": ("cat", "dog"), "thing": ("airplane",)}


@pytest.mark.parametrize(
    ("argument", "name", "labels"),
    [
        ("cat/dog", "cat/dog", ((2,), (3,))),
        ("dog/cat", "dog/cat", ((3,), (2,))),
        ("3/0", "dog/airplane", ((3,), (0,))),
        (" CAT/Pine-Tree", "cat/pine_tree", ((2,), (1,))),
        ("animal/thing", "animal/thing", ((2, 3), (0,))),
        ("pine_tree/animal", "pine_tree/animal", ((1,), (2, 3))),
    ],
)
def test_pairs(argument, name, labels):
    pair = parse_pair("s", argument, NAMES, GROUPS)
    assert pair_name(pair) == name
    assert tuple(side.labels for side in pair) == labels


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("", "needs a pair of classes as in s:airplane/pine_tree, got ''"),
        ("cat", "needs a pair of classes"),
        ("cat/dog/airplane", "needs a pair of classes"),
        ("cat/cat", "must differ, both hold 'cat'"),
        ("2/cat", "must differ, both hold 'cat'"),
        ("cat/animal", "must differ, both hold 'cat'"),
        ("cat/4", "must be a number below 4 or one of animal, thing, airplane, .* got '4'"),
        ("cat/-1", "got '-1'"),
        ("cat/", "got ''"),
        ("cat/dogg", "got 'dogg'; did you mean 'dog'?"),
        ("cat/²", "got '²'"),
    ],
)
def test_bad_pairs(argument, message):
    with pytest.raises(InputError, match=message):
        parse_pair("s", argument, NAMES, GROUPS)


def test_rows_keep_their_order_and_labels_follow_the_pair():
    labels = np.random.default_rng(0).integers(0, 4, 200)
    rows, y = pair_rows(labels, Side("dog", (3,)), Side("others", (0, 1)))
    expected = [(i, int(label != 3)) for i, label in enumerate(labels) if label != 2]
    assert list(zip(rows.tolist(), y.tolist(), strict=True)) == expected


def test_counts_that_differ_are_told():
    pair = Side("cat", (2,)), Side("both", (0, 1))
    y_train, y_test = np.array([0] * 5 + [1] * 9), np.array([0] * 2 + [1] * 4)
    assert count_deviations(y_train, y_test, pair, (5, 2)) == [
        "the training part holds 9 samples of both, the complete source 10"
    ]
