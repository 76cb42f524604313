"""Labels and scores of every kind that a curve can have."""

import numpy as np
import pytest
from hypothesis import strategies as st

RNG = np.random.default_rng(0)
Y = (RNG.random(80) < 0.3).astype(int)
SCORE = RNG.normal(size=80) + Y
CASES = {
    "distinct scores": (Y, SCORE),
    "tied scores": (Y, np.round(SCORE)),
    "single precision": (Y, SCORE.astype(np.float32)),
    "all tied": (Y, np.zeros(80)),
    "perfect": (Y, Y + SCORE / 100),
    "wrong way round": (Y, -Y + SCORE / 100),
    "one positive": (np.array([0, 0, 1, 0]), np.array([0.1, 0.5, 0.4, 0.4])),
    "one negative": (np.array([1, 1, 0, 1]), np.array([0.1, 0.5, 0.4, 0.4])),
    "two samples": (np.array([0, 1]), np.array([2.0, 1.0])),
}
every_case = pytest.mark.parametrize(("y", "score"), CASES.values(), ids=CASES)

# Whole scores tie often, and their powers are exact. The first two samples hold both classes.
scored = st.lists(st.tuples(st.integers(0, 1), st.integers(-6, 6)), min_size=2, max_size=30).map(
    lambda samples: (
        np.array([0, 1] + [label for label, _ in samples[2:]]),
        np.array([float(score) for _, score in samples]),
    )
)
