"""Rows survive their files."""

import csv

import pytest
from hypothesis import given, strategies as st

from curvewise.base.errors import InputError
from curvewise.paper.csv_files import read_rows, rounded, write_rows

values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**9), 10**9),
    st.floats(allow_nan=False, allow_infinity=False, width=32),
    st.sampled_from(
        ["VS", "VS + LCT", "cifar10:3/5", '"quoted", with comma', "0:3:0.33", "two\nlines"]
    ),
)


@given(st.lists(st.fixed_dictionaries({"a": values, "b": values}), min_size=1, max_size=5))
def test_what_is_read_is_what_rounding_says(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("rows") / "rows.csv"
    write_rows(path, rows)
    found = read_rows(path)
    assert found == rounded({"": rows})[""]
    for row, original in zip(found, rows, strict=True):
        for name, value in original.items():
            if isinstance(value, float):
                assert row[name] == pytest.approx(value, rel=1e-6, abs=1e-300)
            else:
                assert row[name] == value
    write_rows(path, found)
    assert read_rows(path) == found  # nothing more is lost the second time


def test_the_file_is_plain_csv(tmp_path):
    write_rows(tmp_path / "a.csv", [{"method": "VS, really", "auc": 0.1 + 0.2}])
    with (tmp_path / "a.csv").open(newline="") as file:
        assert list(csv.reader(file)) == [["method", "auc"], ["VS, really", "0.3"]]


def test_rows_must_be_alike_and_some(tmp_path):
    with pytest.raises(InputError, match=r"a\.csv must have at least one row"):
        write_rows(tmp_path / "a.csv", [])
    with pytest.raises(InputError, match=r"rows of a\.csv must have \['x'\], got \['y'\]"):
        write_rows(tmp_path / "a.csv", [{"x": 1}, {"y": 2}])
