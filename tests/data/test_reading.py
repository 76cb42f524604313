"""Files of tables as people write them, and which of two classes is the positive one."""

import gzip
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from curvewise.base.errors import InputError
from curvewise.data import reading
from curvewise.data.reading import binary_labels, read_table


def read(folder: Path, text: str | bytes, name: str = "data.csv") -> pd.DataFrame:
    (folder / name).write_bytes(text.encode() if isinstance(text, str) else text)
    return read_table(folder / name)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("a,b\n1,x\n2,\n", "t.csv"),
        ("a;b\n1;x\n2;\n", "t.csv"),
        ("a\tb\n1\tx\n2\t\n", "t.tsv"),
        ("\ufeffa, b\n1, x\n2, ?\n", "t.csv"),
        ("\n a |b \n1|x\n2|NA\n", "t.txt"),
        ('"a",b\r\n1,"x"\r\n2,""\r\n', "T.CSV"),
        (gzip.compress(b"a;b\n1;x\n2;\n", mtime=0), "t.csv.gz"),
    ],
)
def test_text_files_as_people_write_them(tmp_path, text, name):
    wanted = pd.DataFrame({"a": [1, 2], "b": ["x", np.nan]}, index=pd.RangeIndex(1, 3))
    pd.testing.assert_frame_equal(read(tmp_path, text, name), wanted, check_dtype=False)


def test_names_that_are_quoted_or_lacking(tmp_path):
    assert read(tmp_path, '"a, b, c";d\n1;2\n').columns.tolist() == ["a, b, c", "d"]
    text = pd.DataFrame({"a": [1, 2], "b": [3, 4]}).to_csv()  # with its index
    with pytest.warns(UserWarning, match=r"column 1 of data.csv is left out: it has no name"):
        assert read(tmp_path, text).columns.tolist() == ["a", "b"]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "data.csv must have a header and rows, got an empty file"),
        ("\n\n", "data.csv must have a header and rows, got an empty file"),
        ("a,b\n", "data.csv must have a header and rows below it, got no rows"),
        ("a,b,a\n1,2,3\n", "the column names of data.csv must differ, got 'a' twice"),
        (b"\xff\xfe\x00\x01", "data.csv must be text in UTF-8, got other bytes"),
        ("a,b\n1,2\n1,2,3\n", "data.csv must .*, got: 3 fields in line 3 and 2 before"),
        ("a,b\n1,2,3\n1,2,3\n", "data.csv must .*, got: rows with more fields than the header"),
        ('a,b\n1,"2\n', "data.csv must .*, got: a quotation mark in line 2 that nothing closes"),
        ('a,b\n1,2\n3,4\n"5,6\n', "got: a quotation mark in line 4 that nothing closes"),
    ],
)
def test_a_file_that_is_no_table_is_refused(tmp_path, text, sentence):
    with pytest.raises(InputError, match=sentence):
        read(tmp_path, text)


def test_files_of_other_kinds_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"must be a file of .csv.*, got 't.xlsx'"):
        read(tmp_path, b"PK", "t.xlsx")
    with pytest.raises(InputError, match="as many fields"):
        read(tmp_path, b"no gzip", "t.csv.gz")


def test_parquet_is_read_where_there_is_a_reader(tmp_path, monkeypatch):
    def none_there(_: Path) -> pd.DataFrame:
        raise ImportError("Unable to find a usable engine")

    stored = pd.DataFrame({"a": [1, 2], "b": [0, 1]}).set_index("a")
    with monkeypatch.context() as patch:
        patch.setattr(reading.pd, "read_parquet", lambda _: stored)
        assert read(tmp_path, b"PAR1", "t.parquet").to_dict("list") == {"a": [1, 2], "b": [0, 1]}
        patch.setattr(reading.pd, "read_parquet", none_there)
        with pytest.raises(InputError, match=r"pyarrow .*curvewise\[parquet\]"):
            read(tmp_path, b"PAR1", "t.parquet")
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    with pytest.raises(InputError, match="must be a Parquet file"):
        read(tmp_path, b"junk", "t.parquet")
    stored.to_parquet(tmp_path / "u.parquet")
    again = read(tmp_path, stored.to_csv())
    pd.testing.assert_frame_equal(read_table(tmp_path / "u.parquet"), again)


@pytest.mark.parametrize(
    ("values", "positive", "names", "labels"),
    [
        (["a", "b", "b"], None, ("b", "a"), [1, 0, 0]),
        (["a", "b", "b"], "b", ("a", "b"), [0, 1, 1]),
        ([0, 1], None, ("0", "1"), [0, 1]),
        ([10, 9], None, ("9", "10"), [1, 0]),  # of equal ones the larger number
        ([1.0, 0.0, 0.0], "1", ("0", "1"), [1, 0, 0]),
        ([True, False, True], None, ("True", "False"), [0, 1, 0]),
        ([" x", "x ", "y"], None, ("x", "y"), [0, 0, 1]),
        (["a", "b", "c"], "b", ("not b", "b"), [0, 1, 0]),
    ],
)
def test_which_class_is_positive(values, positive, names, labels):
    y, class_names = binary_labels(pd.Series(values), positive, "y")
    assert (y.tolist(), class_names) == (labels, names)
