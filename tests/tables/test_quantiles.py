"""Numbers by their quantiles: ranks, bins, the limit on columns; columns' weights by Welch's t."""

import json
import math
import tracemalloc
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given, settings, strategies as st
from scipy.stats import norm, rankdata, ttest_ind
from sklearn.preprocessing import QuantileTransformer

from curvewise.base.errors import InputError
from curvewise.tables.quantiles import (
    SAMPLE,
    QuantileEncoder,
    column_weights,
    stored_quantiles,
)

# With ties, and some far apart.
numbers = st.one_of(st.integers(-5, 5), st.floats(-1e6, 1e6).map(lambda x: round(x, 3)))
lists = st.lists(numbers, min_size=5, max_size=60)
varied = lists.filter(lambda values: len(set(values)) > 2)
anything = st.floats(allow_nan=False, allow_infinity=False)


def column(values: list[float]) -> np.ndarray:
    return np.array(values, np.float64)[:, None]


def text(encoder: QuantileEncoder) -> str:
    return json.dumps(encoder.to_dict(), allow_nan=False)


@given(varied)
def test_the_normal_value_is_that_of_the_mid_rank(values: list[float]) -> None:
    x = column(values)
    out = QuantileEncoder(n_bins=0).fit(x).transform(x)
    ranks = (rankdata(x[:, 0]) - 0.5) / len(x)
    assert out.shape == x.shape
    np.testing.assert_allclose(out[:, 0], norm.ppf(ranks).clip(-3, 3), atol=1e-6)
    assert out.std() < 1.01  # ties take from the deviation and add nothing


def test_scikit_learn_says_the_same_of_new_rows() -> None:
    rng = np.random.default_rng(0)
    train, new = rng.gamma(2, size=(20_000, 1)), rng.gamma(2, size=(5000, 1))
    ours = QuantileEncoder(n_bins=0).fit(train).transform(new)
    peer = QuantileTransformer(n_quantiles=1000, subsample=None, output_distribution="normal")
    other = peer.fit(train).transform(new)
    middle = np.abs(other) < 2
    assert np.abs(ours - other)[middle].max() < 0.01
    assert np.abs(ours - other.clip(-3, 3)).max() < 0.15


def test_stored_quantiles_are_evenly_spaced_and_others_missed_by_two_in_999_at_most() -> None:
    counts = np.ones(50_000, np.int64)
    values, ranks = stored_quantiles(np.arange(50_000.0), counts)
    assert (len(values), values[0], values[-1]) == (1000, 0, 49_999)
    np.testing.assert_allclose(np.diff(ranks), 1 / 1000, atol=3e-5)
    np.testing.assert_allclose(ranks, (values + 0.5) / 50_000, rtol=1e-14)
    lengths = [len(stored_quantiles(np.arange(n + 0.0), counts[:n])[0]) for n in (999, 1000, 1001)]
    assert lengths == [999, 1000, 1000]
    rng = np.random.default_rng(0)
    x = np.exp(3 * rng.normal(size=20_000))
    x[rng.random(20_000) < 0.4] = 1.0
    encoder = QuantileEncoder(n_bins=0).fit(x[:, None])
    assert len(encoder.columns[0].values) <= 1000
    out = encoder.transform(x[:, None])[:, 0]
    ranks = (rankdata(x) - 0.5) / len(x)
    inside = np.abs(out) < 3
    assert np.abs(norm.cdf(out) - ranks)[inside].max() <= 2 / 999
    assert inside.mean() > 0.99
    # The rows that tie are stored, so exact.
    np.testing.assert_allclose(norm.cdf(out[x == 1]), ranks[x == 1], atol=1e-6)


def edges_by_hand(values: list[float], n_bins: int) -> list[float]:
    edges = {min(values)}
    for t in range(1, n_bins + 1):
        # n_bins * rows >= t * n: in whole numbers, rows >= t / n_bins * n.
        enough = [v for v in values if n_bins * sum(u <= v for u in values) >= t * len(values)]
        edges.add(min(enough))
    return sorted(edges)


def part_by_hand(x: float, low: float, high: float) -> float:
    return min(max((x - low) / (high - low), 0.0), 1.0)


def standardised_by_hand(train: list[float], new: list[float], n_bins: int) -> np.ndarray:
    columns = []
    for low, high in pairwise(edges_by_hand(train, n_bins)):
        own = [part_by_hand(x, low, high) for x in train]
        mean = sum(own) / len(own)
        deviation = math.sqrt(sum((part - mean) ** 2 for part in own) / len(own))
        columns.append([(part_by_hand(x, low, high) - mean) / max(deviation, 0.2) for x in new])
    return np.array(columns).T


@given(varied, st.lists(anything, min_size=1, max_size=5), st.integers(1, 9))
def test_bins_are_those_of_a_plain_loop(train: list[float], new: list[float], n_bins: int) -> None:
    out = QuantileEncoder(n_bins).fit(column(train)).transform(column([*train, *new]))[:, 1:]
    expected = standardised_by_hand(train, [*train, *new], n_bins)
    assert out.shape == expected.shape
    np.testing.assert_allclose(out, expected, atol=1e-5)


def test_indicators_are_standardised_with_a_floor_and_constants_are_dropped() -> None:
    x = np.zeros((1000, 4))
    x[:300, 0], x[:20, 1], x[:, 2], x[:1, 3] = 1, 7, 5, -2
    encoder = QuantileEncoder().fit(x)
    out = encoder.transform(x)
    assert encoder.sources.tolist() == [0, 1, 3]
    expected = [(0.7 / math.sqrt(0.21)), 0.98 / 0.2, -0.999 / 0.2]
    np.testing.assert_allclose(out[0], expected, rtol=1e-6)
    assert np.abs(out.mean(axis=0)).max() < 1e-5
    assert out[:, 0].std() == pytest.approx(1)
    # New values count as the nearest of the two, or linearly between them.
    new = encoder.transform(np.array([[9.0, 3.5, 0, -2e300]]))
    np.testing.assert_allclose(new[0], [expected[0], 0.48 / 0.2, expected[2]], rtol=1e-6)


def test_what_few_of_many_rows_say_is_not_lost_with_the_sample() -> None:
    x = np.random.default_rng(0).normal(size=(SAMPLE + 50_000, 3))
    x[:, 1:] = 0
    x[7, 1] = x[8, 2] = 1
    x[9, 2] = 2
    x[10, 0] = 50
    encoder = QuantileEncoder().fit(x)
    assert encoder.sources.tolist() == [0, 2, *[0] * 8, 1, 2]
    assert encoder.columns[0].values[-1] == encoder.columns[0].edges[-1] == 50
    assert encoder.columns[1].means == 1 / len(x)
    out = encoder.transform(x)
    assert out[7, -2] > out[8, -2]
    assert out[7, 1] < out[8, 1] < out[9, 1]
    assert text(encoder) == text(QuantileEncoder().fit(x))  # the generator is fixed
    assert (out[:, 0].mean(), out[:, 0].std()) == pytest.approx((0, 1), abs=0.01)


@pytest.mark.parametrize(
    ("d", "max_columns", "n_bins"),
    [(44, 400, 8), (45, 400, 7), (200, 400, 1), (201, 400, 0), (401, 400, 0), (1, 9, 8), (1, 8, 7)],
)
def test_bins_are_as_many_as_there_is_room_for(d: int, max_columns: int, n_bins: int) -> None:
    x = np.random.default_rng(0).normal(size=(40, d))
    encoder = QuantileEncoder(max_columns=max_columns).fit(x)
    assert len(encoder.sources) == d + d * n_bins == encoder.transform(x[:2]).shape[1]


def test_indicators_take_room_and_merged_bins_give_it_back() -> None:
    rng = np.random.default_rng(0)
    indicators = rng.random((100, 10)) < 0.5
    tied = np.repeat([0.0, 1.0, 2.0], [90, 5, 5])[:, None]  # one bin, however many are wanted
    x = np.hstack([indicators, rng.normal(size=(100, 2)), tied])
    for room, bins in ((8 + 8 + 1, 8), (8 + 8, 7), (3, 1), (2, 0)):
        counts = np.bincount(QuantileEncoder(max_columns=10 + 3 + room).fit(x).sources)
        assert counts.tolist() == [1] * 10 + [1 + bins] * 2 + [1 + min(bins, 1)]


@given(st.lists(st.tuples(anything, anything), min_size=2, max_size=30), st.data())
@settings(max_examples=200)
def test_features_are_finite_bounded_and_rise_with_their_column(rows, data) -> None:
    x = np.array(rows)
    assume(any(np.ptp(np.where(np.abs(x) < 1e-100, 0, x.clip(-1e100, 1e100)), axis=0) > 0))
    encoder = QuantileEncoder(data.draw(st.integers(0, 8))).fit(x)
    line = np.sort(np.append(x, data.draw(st.lists(anything, min_size=1, max_size=10))))
    out = encoder.transform(np.stack([line, line], axis=1))
    assert out.dtype == np.float32
    assert (np.abs(out) <= 5).all()  # so none is NaN either
    assert (np.diff(out, axis=0) >= -1e-6).all()
    assert (np.ptp(encoder.transform(x), axis=0) > 0).all()  # every feature says something


@given(st.lists(st.tuples(anything, st.sampled_from([0.0, -0.0, 1.0, 2.0])), min_size=3))
def test_the_order_of_rows_does_not_matter(rows: list[tuple[float, float]]) -> None:
    x = np.array([*rows, (0.0, 0.0), (-0.0, 1.0), (1.0, 2.0)])
    shuffled = np.random.default_rng(len(rows)).permutation(x)
    assert text(QuantileEncoder().fit(x)) == text(QuantileEncoder().fit(shuffled))


def test_single_and_double_precision_agree_and_rows_do_not_know_of_each_other() -> None:
    rng = np.random.default_rng(0)
    x = np.hstack([rng.normal(size=(10_000, 3)), rng.random((10_000, 1)) < 0.1]).astype(np.float32)
    encoder = QuantileEncoder().fit(x)
    assert text(encoder) == text(QuantileEncoder().fit(x.astype(np.float64)))
    out = encoder.transform(x)
    np.testing.assert_array_equal(encoder.transform(x.astype(np.float64)), out)
    part = np.asfortranarray(x[3000:9000])
    np.testing.assert_array_equal(encoder.transform(part), out[3000:9000])
    assert encoder.transform(x[:0]).shape == (0, out.shape[1])


def test_little_memory_is_needed_beside_the_features() -> None:
    x = np.random.default_rng(0).normal(size=(80_000, 20)).astype(np.float32)
    encoder = QuantileEncoder().fit(x)
    tracemalloc.start()
    out = encoder.transform(x)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak - out.nbytes < 20e6 < out.nbytes / 2


def test_json_gives_the_same_encoder_back_and_a_state_that_is_none_is_refused() -> None:
    rng = np.random.default_rng(0)
    x = np.hstack([rng.normal(size=(200, 2)), np.ones((200, 1)), rng.random((200, 1)) < 0.5])
    encoder = QuantileEncoder(n_bins=3, max_columns=100).fit(x)
    again = QuantileEncoder.from_dict(json.loads(text(encoder)))
    assert again.to_dict() == encoder.to_dict()
    assert encoder.to_dict()["version"] == 1
    new = np.random.default_rng(1).normal(size=(50, 4))
    np.testing.assert_array_equal(again.transform(new), encoder.transform(new))
    for lost in ("version", "n_bins", "columns", "n_inputs", "place", "edges"):
        state = json.loads(text(encoder))
        del (state if lost in state else state["columns"][0])[lost]
        with pytest.raises(InputError, match=lost):
            QuantileEncoder.from_dict(state)
    state = encoder.to_dict()
    state["columns"][1]["ranks"] = ["a"]
    with pytest.raises(InputError, match="must come from to_dict"):
        QuantileEncoder.from_dict(state)


# Weights of columns: against scipy, and with weighted rows


def weight_by_hand(t: float, kind: str) -> float:
    if kind == "mild":
        return max(0.1, math.sqrt(t**2 / (t**2 + 4)))
    return max(0.03, t**2 / (t**2 + 6))


@pytest.mark.parametrize("kind", ["mild", "strong"])
@pytest.mark.parametrize("classes", [["no", "yes"], [3, 5, 9]])
def test_weights_are_those_of_welch(kind: str, classes: list) -> None:
    rng = np.random.default_rng(len(classes))
    y = np.array(classes)[np.minimum(rng.geometric(0.5, 10_000), len(classes)) - 1]
    shift = np.array([0, 0.01, 0.03, 0.1, 1, 0, 0])
    x = rng.normal(size=(10_000, 7)) * (1 + 2 * (y == classes[-1]))[:, None] + 1000
    x += shift * (y == classes[-1])[:, None]
    each = [ttest_ind(x[y == c], x[y != c], equal_var=False).statistic for c in classes]
    expected = [weight_by_hand(t, kind) for t in np.abs(each).max(axis=0).tolist()]
    np.testing.assert_allclose(column_weights(x, y, kind), expected, rtol=1e-9)
    assert min(expected) < 0.6 < 0.9 < max(expected)


def test_weights_of_nothing_of_everything_of_a_constant_and_of_a_lone_row() -> None:
    y = np.repeat([0, 1], 10)
    x = np.stack([np.full(20, 0.1), y, np.tile([0.0, 1], 10)], axis=1)
    assert column_weights(x, y, "none").tolist() == [1, 1, 1]
    assert column_weights(x, y, "mild").tolist() == [0.1, 1, 0.1]
    assert column_weights(x, y, "strong").tolist() == [0.03, 1, 0.03]
    x = np.tile([0.1, 0.7, 1 / 3, 123.456, -1e8 / 3], (1000, 1))
    y = np.arange(1000) % 7 == 0
    assert column_weights(x, y, "strong").tolist() == [0.03] * 5
    # A lone row borrows the variance of the others.
    x = np.array([[1.0], [2], [3], [4], [10]])
    expected = weight_by_hand((10 - 2.5) / math.sqrt(5 / 3 / 4 + 5 / 3), "strong")
    y = np.array([0, 0, 0, 0, 1])
    assert column_weights(x, y, "strong")[0] == pytest.approx(expected)
    assert column_weights(x, 1 - y, "strong")[0] == pytest.approx(expected)
    assert column_weights(x[3:], y[3:], "strong").tolist() == [1]
    for y, weight in ([1, 1, 1], [1, 1, 1]), ([0, 1, 1], [0, 1, 1]):
        with pytest.raises(InputError, match=r"two or more classes, got \[1\]"):
            column_weights(x[:3], np.array(y), "mild", sample_weight=np.array(weight))


def weighted_t(x: list[float], y: list[int], w: list[float]) -> float:
    means, errors = [], []
    for label in (0, 1):
        own = [(a, c) for a, b, c in zip(x, y, w, strict=True) if b == label]
        total = sum(c for _, c in own)
        mean = sum(c * a for a, c in own) / total
        size = total**2 / sum(c**2 for _, c in own)
        means.append(mean)
        errors.append(sum(c * (a - mean) ** 2 for a, c in own) / total / (size - 1))
    return (means[0] - means[1]) / math.sqrt(sum(errors))


@given(st.integers(0, 1000), st.floats(1e-6, 1e6))
def test_sample_weights(seed: int, factor: float) -> None:
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(40, 2)), np.arange(40) % 2
    w = rng.random(40) + 0.1
    expected = [weight_by_hand(weighted_t(c.tolist(), y.tolist(), w.tolist()), "mild") for c in x.T]
    weights = column_weights(x, y, "mild", sample_weight=w)
    np.testing.assert_allclose(weights, expected, rtol=1e-9)
    np.testing.assert_allclose(column_weights(x, y, "mild", sample_weight=factor * w), weights)
    # Equal weights are none, and rows of weight 0 are not there, whatever they hold.
    plain = column_weights(x, y, "mild")
    np.testing.assert_allclose(column_weights(x, y, "mild", sample_weight=np.full(40, 2)), plain)
    more, labels = np.vstack([[[np.nan, 7]], x]), np.append(2, y)
    with_nothing = column_weights(more, labels, "mild", sample_weight=np.append(0, np.ones(40)))
    np.testing.assert_array_equal(with_nothing, plain)
