"""One column by its quantiles: what is stored of it, and which data are none."""

import json
import math

import numpy as np
import pytest

from curvewise.base.errors import InputError
from curvewise.tables.quantile_column import mid_ranks, stored_quantiles
from curvewise.tables.quantiles import QuantileEncoder


def text(encoder: QuantileEncoder) -> str:
    return json.dumps(encoder.to_dict(), allow_nan=False)


def test_stored_quantiles_are_evenly_spaced_ranks() -> None:
    counts = np.ones(50_000, np.int64)
    values, ranks = stored_quantiles(np.arange(50_000.0), counts)
    assert (len(values), values[0], values[-1]) == (1000, 0, 49_999)
    np.testing.assert_allclose(np.diff(ranks), 1 / 1000, atol=3e-5)
    np.testing.assert_array_equal(ranks, mid_ranks(counts)[values.astype(int)])
    for n in (999, 1000, 1001, 1500):
        stored = stored_quantiles(np.arange(float(n)), counts[:n])[0]
        assert len(stored) <= 1000
        assert n > 1000 or len(stored) == n


@pytest.fixture
def encoder() -> QuantileEncoder:
    rng = np.random.default_rng(0)
    x = np.hstack([rng.normal(size=(200, 2)), np.ones((200, 1)), rng.random((200, 1)) < 0.5])
    return QuantileEncoder(n_bins=3, max_columns=100).fit(x)


def test_json_gives_the_same_encoder_back(encoder: QuantileEncoder) -> None:
    again = QuantileEncoder.from_dict(json.loads(text(encoder)))
    assert again.to_dict() == encoder.to_dict()
    x = np.random.default_rng(1).normal(size=(50, 4))
    np.testing.assert_array_equal(again.transform(x), encoder.transform(x))
    new = QuantileEncoder.from_dict(QuantileEncoder().to_dict())
    with pytest.raises(InputError, match="must be fitted before transform"):
        new.transform(x)


FIRST = ("columns", 0)


@pytest.mark.parametrize(
    ("where", "value", "sentence"),
    [
        (("version",), 2, "must be of version 1, got 2"),
        (("n_bins",), 2.5, "n_bins must be a whole number >= 0, got 2.5"),
        (("n_bins",), True, "n_bins must be a whole number >= 0, got True"),
        (("max_columns",), 0, "max_columns must be a whole number >= 1, got 0"),
        (("n_inputs",), 3, "columns must be in order and among 3 inputs, got"),
        (("n_inputs",), "4", "n_inputs must be a whole number >= 0, got '4'"),
        (("further",), 1, "must come from to_dict"),
        (("columns",), {}, "columns must be a list, got {}"),
        (FIRST, [], r"a column of \[\]"),
        ((*FIRST, "further"), 1, "a column of {"),
        ((*FIRST, "place"), 1, r"columns must be in order and among 4 inputs, got \[1, 1, 3\]"),
        ((*FIRST, "place"), -1, "place must be a whole number >= 0, got -1"),
        ((*FIRST, "values"), None, "values of None"),
        ((*FIRST, "values"), [0.0, "1"], "values of"),
        ((*FIRST, "values"), [0.0, 10**400], "values outside the range"),
        ((*FIRST, "values"), [0.0, 1.0], "2 values, 200 ranks and 4 edges"),
        ((*FIRST, "values"), [], "0 values, 200 ranks and 4 edges"),
        ((*FIRST, "values", 0), math.nan, "values outside"),
        ((*FIRST, "values", 199), 1e101, "values outside"),
        ((*FIRST, "values", 1), 2.5, "values that do not increase"),
        ((*FIRST, "ranks", 0), -0.1, r"ranks outside \[0, 1\]"),
        ((*FIRST, "ranks", 1), 0.9, "ranks that do not increase"),
        ((*FIRST, "edges", 1), -9.0, "edges that do not increase"),
        ((*FIRST, "edges"), [0.0], "200 values, 200 ranks and 1 edges"),
        ((*FIRST, "edges"), [-1e-200, 1e-200], "edges nearer to 0 than 1e-100"),
        ((*FIRST, "edges"), [0, 1], "3 means and 3 deviations"),
        ((*FIRST, "means", 0), True, "means of"),
        ((*FIRST, "means", 0), math.inf, r"means outside \[0, 1\]"),
        ((*FIRST, "deviations", 0), 0.0, r"deviations outside \[0.2, 1\]"),
        (("columns", 2, "edges"), [], "1 means and 1 deviations"),
    ],
)
def test_damaged_data_are_refused(
    encoder: QuantileEncoder, where: tuple[str | int, ...], value: object, sentence: str
) -> None:
    state = json.loads(text(encoder))
    part = state
    for key in where[:-1]:
        part = part[key]
    part[where[-1]] = value
    with pytest.raises(InputError, match=sentence):
        QuantileEncoder.from_dict(state)


def test_missing_data_are_refused(encoder: QuantileEncoder) -> None:
    for key in encoder.to_dict():
        with pytest.raises(InputError, match="must come from to_dict"):
            QuantileEncoder.from_dict({k: v for k, v in encoder.to_dict().items() if k != key})
    for key in encoder.to_dict()["columns"][0]:
        state = encoder.to_dict()
        del state["columns"][0][key]
        with pytest.raises(InputError, match="must come from to_dict"):
            QuantileEncoder.from_dict(state)
    state = encoder.to_dict()
    state["columns"][2] |= {"edges": [], "means": [], "deviations": []}
    with pytest.raises(InputError, match="got one with no values and 0 bins"):
        QuantileEncoder.from_dict(state)
    with pytest.raises(InputError, match=r"must come from to_dict, got \[1\]"):
        QuantileEncoder.from_dict([1])  # type: ignore[arg-type]
