"""Losses and networks of one's own in the estimators."""

import numpy as np
import pytest
from torch import nn

import curvewise as cw
from curvewise.base.errors import InputError

X = np.random.default_rng(0).normal(size=(120, 3))
Y = X[:, 0] > 1.3
SMALL = {"n_members": 3, "steps": 3, "random_state": 0}


def fit(**parameters):
    return cw.LCTClassifier(**SMALL, **parameters).fit(X, Y)


def test_a_weight_for_each_class(tmp_path):
    made = cw.VSClassifier(omega=(1, 1, 2), n_members=2, steps=20).fit(X, np.arange(len(X)) % 3)
    assert made.predict_proba(X).shape == (len(X), 3)
    cw.save(made, tmp_path / "model.safetensors")
    np.testing.assert_array_equal(
        cw.load(tmp_path / "model.safetensors").predict_proba(X), made.predict_proba(X)
    )


class Refusing(nn.Module):
    def __init__(self, n_classes):
        super().__init__()
        self.last = nn.Linear(3, n_classes)

    def forward(self, x):
        raise ValueError


def test_a_network_that_says_nothing_is_named():
    with pytest.raises(InputError, match="that it is told, got: ValueError"):
        fit(network=lambda _, c: Refusing(c))


def test_lazy_layers_follow_the_seed():
    def lazy(_, n_classes):
        return nn.Sequential(nn.LazyLinear(4), nn.ReLU(), nn.Linear(4, n_classes))

    first, again = (fit(network=lazy).decision_function(X) for _ in range(2))
    np.testing.assert_array_equal(first, again)
