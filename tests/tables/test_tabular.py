"""Columns to numbers: what comes out, what is learnt from where, and what is refused."""

import datetime
import json
import math
import re
import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from curvewise.base.errors import InputError
from curvewise.tables.columns import TableEncoder, column_levels

MIXED = pd.DataFrame(
    {
        "age": [20.0, 30.0, None, 50.0] * 10,
        "smoker": [True, False, False, True] * 10,
        "since": pd.to_datetime(["2020-01-01", "2020-06-01", "2021-01-01", None] * 10),
        "job": ["cook", "nurse", None, "cook"] * 10,
        "always": [1] * 40,
        "name": [f"person {i}" for i in range(40)],
    }
)


def fitted(table: pd.DataFrame, **settings: int) -> TableEncoder:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return TableEncoder(**settings).fit(table)


def encoded(encoder: TableEncoder, table: pd.DataFrame) -> dict[str, list[float]]:
    features = encoder.transform(table)
    assert features.dtype == np.float32
    return dict(zip(encoder.feature_names, features.T.tolist(), strict=True))


def standardised(values: list[float], x: float) -> float:
    """The formula of the docstring, with lists."""
    ordered, n = sorted(values), len(values)
    low, high = ordered[math.ceil(0.005 * (n - 1))], ordered[math.floor(0.995 * (n - 1))]
    cut = [min(max(value, low), high) for value in values]
    mean = sum(cut) / n
    z = (x - mean) / math.sqrt(sum((value - mean) ** 2 for value in cut) / n)
    return z / math.sqrt(1 + (z / 5) ** 2)


def test_what_comes_out_of_each_kind_of_column() -> None:
    with pytest.warns(UserWarning, match="column 'name' is dropped: 40 categories in 40 rows"):
        encoder = TableEncoder().fit(MIXED)
    expected = "age age=(missing) smoker since since=(missing) job=cook job=nurse job=(missing)"
    assert encoder.feature_names == expected.split()
    assert encoder.dropped == {"always": "constant", "name": "40 categories in 40 rows"}
    out = encoded(encoder, MIXED.iloc[:4])
    assert out["age=(missing)"] == [0, 0, 1, 0]
    assert out["age"][2] == out["age"][1]  # the median of 20, 30 and 50
    assert out["job=cook"] == [1, 0, 0, 1]
    assert out["job=(missing)"] == [0, 0, 1, 0]
    assert out["smoker"][0] == out["smoker"][3] > 0 > out["smoker"][1]
    assert out["since"][0] < out["since"][1] < out["since"][2]
    # Columns are found by name, and dropped or further ones are not needed.
    shuffled = MIXED[["job", "since", "smoker", "age"]].assign(further="word")
    with warnings.catch_warnings(action="error"):  # what was missing in training may be so again
        np.testing.assert_array_equal(encoder.transform(shuffled), encoder.transform(MIXED))
    assert encoder.transform(MIXED.iloc[:0]).shape == (0, 8)


def test_numbers_are_standardised_as_the_formula_says() -> None:
    values = [*np.random.default_rng(0).normal(50, 10, 300).tolist(), 1e9]
    out = fitted(pd.DataFrame({"x": values})).transform(pd.DataFrame({"x": values}))[:, 0]
    np.testing.assert_allclose(out, [standardised(values, x) for x in values], rtol=1e-5)
    assert 0.9 < out[:-1].std() < 1.1  # one wild value does not squeeze the others
    assert out[-1] == pytest.approx(5, abs=1e-3)
    assert np.array_equal(np.argsort(out), np.argsort(values))
    tiny = pd.DataFrame({"x": 1e-200 * np.arange(10.0, 20)})  # whose squares are 0: by their range
    assert 9 / 9 < np.ptp(fitted(tiny).transform(tiny)[:, 0]) < 9 / 7  # all, or without the tails
    # A rare flag is not cut away with the tails.
    flags = pd.DataFrame({"flag": [1] + [0] * 999})
    out = fitted(flags).transform(flags)
    assert out[0, 0] > 4 > 0 > out[1, 0]


def test_text_that_reads_as_numbers_or_dates_is_that() -> None:
    table = pd.DataFrame(
        {
            "number": ["1.5", " 2", "-3e2", None] * 5,
            "comma": ["1,5", "2,5", "2,5", "1,5"] * 5,
            "day": ["2020-01-31", "2020-02-01T12:00:00", "2021-01-01", "2020-01-31"] * 5,
            "no day": ["2020-13-45", "2020-02-01", "2020-02-01", "2020-02-01"] * 5,
        }
    )
    kinds = {plan.name: plan.kind for plan in fitted(table).columns}
    assert kinds == {"number": "number", "comma": "category", "day": "date", "no day": "category"}
    # Letters in codes among many numbers make them categories.
    codes = [f"{i}.{i % 10}" for i in range(90)] + [f"V{i}" for i in range(10)]
    encoder = fitted(pd.DataFrame({"code": codes * 20}))
    assert encoder.columns[0].kind == "category"
    assert len(encoder.feature_names) == 51
    few = [*NUMBERS[:36] * 2, *NUMBERS[:24], *"vwxy"]  # 40 values in 100 rows
    assert fitted(pd.DataFrame({"code": few})).columns[0].kind == "category"


def test_every_way_to_write_a_column_gives_the_same_numbers() -> None:
    days = pd.Series([datetime.date(2020, 1, 1 + i) for i in range(20)])
    numbers = pd.Series([0, 1, 2, None] * 5, dtype=object)
    flags = pd.Series([True, False, None, True] * 5, dtype=object)
    words = numbers.map(lambda x: None if x is None else f"{x}.0")
    zones = days.astype(str) + pd.Series(["T01:00:00+01:00", "T00:00:00Z"] * 10)
    seconds = pd.Series([0.5, 3600, None, 86_400] * 5)
    for ways in (
        [days, pd.to_datetime(days), days.astype(str), zones],
        [seconds, pd.to_timedelta(seconds, unit="s")],
        [numbers, numbers.astype(float), numbers.astype("Int64"), words],
        [flags, flags.astype("boolean")],
    ):
        tables = [pd.DataFrame({"x": way}) for way in ways]
        outs = [fitted(table).transform(table) for table in tables]
        for out in outs[1:]:
            np.testing.assert_array_equal(out, outs[0])
    # Another file may write a column otherwise.
    encoder = fitted(pd.DataFrame({"flag": [True, False] * 10, "code": ["1", "2", "x", "1"] * 5}))
    one = encoder.transform(pd.DataFrame({"flag": [True, False], "code": ["1", "2"]}))
    two = encoder.transform(pd.DataFrame({"flag": ["TRUE", "0"], "code": [1.0, 2.0]}))
    np.testing.assert_array_equal(one, two)


def test_rare_and_further_levels_are_one_and_levels_are_text_without_blanks() -> None:
    column = ["a"] * 500 + ["b"] * 300 + ["c"] * 190 + ["d"] * 9 + ["e"]
    encoder = fitted(pd.DataFrame({"x": column}), max_levels=2)
    assert encoder.feature_names == ["x=a", "x=b", "x=(other)"]
    encoder = fitted(pd.DataFrame({"x": column}))
    assert encoder.feature_names == ["x=a", "x=b", "x=c", "x=(other)"]
    assert encoded(encoder, pd.DataFrame({"x": ["a", "d", "new"]}))["x=(other)"] == [0, 1, 1]
    assert fitted(pd.DataFrame({"x": ["a"] * 47 + ["b"] * 3})).feature_names == ["x=a", "x=b"]
    half = pd.DataFrame({"x": [*"abcde"] * 2})  # as many levels as half of the rows are kept
    assert len(fitted(half).feature_names) == 5
    codes = pd.DataFrame({"x": [f"code {i // 4}" for i in range(1000)] * 2, "y": range(2000)})
    with pytest.warns(UserWarning, match="250 categories, none with 10 rows or more"):
        TableEncoder().fit(codes)
    without = fitted(pd.DataFrame({"x": ["a", "b"] * 50, "y": range(100)}))
    new = pd.DataFrame({"x": ["new", "a", "new"], "y": 1})
    assert without.transform(new)[:, :2].tolist() == [[0, 0], [1, 0], [0, 0]]
    with pytest.warns(UserWarning, match=r"had none of: 'x' \(2, for instance 'new'\)$"):
        without.warn_of_unknown_levels(new)
    values = [1, 1.0, "1 ", np.float64(2), 0.5, 1e300, "", None]
    codes, texts = column_levels(pd.Series(values, dtype=object))
    assert texts == ["1", "2", "0.5", "1e+300"]
    assert codes.tolist() == [0, 0, 0, 1, 2, 3, -1, -1]


def test_missing_values_are_kept_apart_or_if_training_had_none_filled_with_a_warning() -> None:
    encoder = fitted(pd.DataFrame({"x": [1.0, None] * 10, "y": ["a", None] * 10}))
    assert encoder.feature_names == ["x=(missing)", "y=a", "y=(missing)"]
    out = encoder.transform(pd.DataFrame({"x": [7, None], "y": ["a", None]}))
    assert out.tolist() == [[0, 1, 0], [1, 0, 1]]
    encoder = fitted(pd.DataFrame({"x": [1.0, 2.0, 3.0] * 10, "y": ["a", "b", "b"] * 10}))
    with pytest.warns(UserWarning, match=r"training data had none: 'x' \(2\), 'y' \(1\)"):
        out = encoder.transform(pd.DataFrame({"x": [None, 2.0, None], "y": ["a", None, "b"]}))
    assert out[0, 0] == out[1, 0] == out[2, 0]
    assert out[1, 1:].tolist() == [0, 0]


def test_the_state_survives_json_and_one_that_is_none_is_refused() -> None:
    encoder = fitted(MIXED, min_rows=3, max_levels=7)
    state = json.loads(json.dumps(encoder.to_dict(), allow_nan=False))
    again = TableEncoder.from_dict(state)
    assert state == encoder.to_dict() == again.to_dict()
    assert state["version"] == 1
    np.testing.assert_array_equal(again.transform(MIXED), encoder.transform(MIXED))
    assert (again.feature_names, again.dropped) == (encoder.feature_names, encoder.dropped)
    for lost in ("version", "columns", "max_levels", "dropped"):
        with pytest.raises(InputError, match=lost):
            TableEncoder.from_dict({name: state[name] for name in state if name != lost})
    state["columns"][0]["further"] = 1
    with pytest.raises(InputError, match="an encoder must come from to_dict"):
        TableEncoder.from_dict(state)


NUMBERS = [str(i) for i in range(100)]
TO_FIT = [
    ({"a": []}, "a column of use as a feature, got 'a' (empty)"),
    ({"a": [1.0, math.inf]}, "'a' must be finite, got inf in row 1"),
    ({"a": [*NUMBERS, "abc", None]}, "got 'abc' in row 100 (1 such of 102 rows)"),
    ({"a": [*NUMBERS * 3, "-"]}, "got '-' in row 300 (1 such of 301 rows)"),
    ({"a": [*NUMBERS[:19], "x"]}, "got 'x' in row 19 (1 such of 20 rows)"),
    ({"a": [1 + 2j, 1]}, "'a' must hold real numbers, got complex ones"),
    ({"a": pd.Series([1 + 2j, 3j], dtype=object)}, "real numbers, got complex ones"),
    ({"a": [[1], [2]]}, "'a' must hold numbers, text or dates, got list"),
    (
        {"a": ["x", "y", "z"], "b": [1, 1, 1], "c": [None] * 3},
        "got 'a' (3 categories in 3 rows), 'b' (constant), 'c' (empty)",
    ),
]
DAYS = ["2020-01-01", "2020-01-02"]
TO_ENCODE = [
    ({"x": [1.0, math.inf], "d": DAYS}, "column 'x' must be finite, got inf"),
    ({"x": ["one", "1"], "d": DAYS}, "a number in every row, got 'one'"),
    ({"x": [1, 2], "d": ["2020-01-01", "soon"]}, "must hold a date in every row, got 'soon'"),
    ({"x": pd.to_datetime(DAYS), "d": DAYS}, "got dates"),
    ({"x": [1, 2], "dd": DAYS}, "lacks 'd'; did you mean 'dd'"),
]


def test_tables_that_cannot_be_learnt_from_and_rows_that_cannot_be_encoded() -> None:
    for table, sentence in TO_FIT:
        with pytest.raises(InputError, match=re.escape(sentence)):
            TableEncoder().fit(pd.DataFrame(table))
    encoder = fitted(pd.DataFrame({"x": [1, 2, 3, 4], "d": DAYS * 2}))
    for table, sentence in TO_ENCODE:
        with pytest.raises(InputError, match=re.escape(sentence)):
            encoder.transform(pd.DataFrame(table))


finite = st.floats(allow_nan=True, allow_infinity=False)
columns = st.sampled_from(
    [
        finite,
        st.one_of(st.none(), st.integers(-(2**70), 2**70)),
        st.one_of(st.none(), st.booleans()),
        st.one_of(st.none(), st.sampled_from("abcde")),
        st.one_of(st.none(), st.text(max_size=3)),
        st.one_of(st.none(), st.datetimes(datetime.datetime(1700, 1, 1))),
        st.one_of(st.none(), finite, st.sampled_from(["a", "1"])),
    ]
)


@st.composite
def tables(draw: st.DrawFn) -> list[pd.DataFrame]:
    """Two tables with the same kinds of columns."""
    kinds = draw(st.lists(columns, min_size=1, max_size=3))
    lengths = [draw(st.integers(1, most)) for most in (30, 5)]
    cells = [[draw(st.lists(k, min_size=n, max_size=n)) for k in kinds] for n in lengths]
    return [pd.DataFrame({f"column {k}": c for k, c in enumerate(part)}) for part in cells]


@given(tables())
@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
def test_whatever_comes_in_what_comes_out_is_finite(parts: list[pd.DataFrame]) -> None:
    sentence, outs = "", []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        try:
            encoder = TableEncoder().fit(parts[0])
            before = json.dumps(encoder.to_dict(), allow_nan=False)
            outs.extend(encoder.transform(part) for part in parts)
        except InputError as error:
            sentence = str(error)
    # Nothing of use, a word among numbers, or the text "INF".
    assert re.search("^$|of use as a feature|in every row|must be finite", sentence)
    for out in outs:
        assert (out.dtype, out.shape[1]) == (np.float32, len(encoder.feature_names))
        assert np.isfinite(out).all()
        assert (np.abs(out) <= 5).all()
        assert (np.ptp(outs[0], axis=0) > 0).all()  # every feature says something
        # Looking at the test part teaches the encoder nothing.
        assert json.dumps(encoder.to_dict(), allow_nan=False) == before
