"""Tables and arrays of files as people write them: classes, splits, bad inputs and sentences."""

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st

from curvewise.base.errors import InputError
from curvewise.data import reading
from curvewise.data.reading import binary_labels, read_table
from curvewise.data.tables import frame_task, npz, table
from curvewise.data.task import SourceOptions
from curvewise.tables.columns import TableEncoder

# Without --group, the column of patients is an identifier like any other.
pytestmark = [
    pytest.mark.filterwarnings("ignore:column 'patient' is dropped"),
    pytest.mark.filterwarnings("ignore:The least populated class in y"),
]


def patients(n: int = 200, seed: int = 0) -> pd.DataFrame:
    """Two visits a patient; one patient in five is ill."""
    rng = np.random.default_rng(seed)
    patient = np.arange(n) // 2
    ill = patient % 5 == 0
    columns = {"age": rng.normal(50, 10, n).round(1), "sex": rng.choice(["f", "m"], n)}
    columns["marker"] = np.where(rng.random(n) < 0.2, np.nan, ill + rng.normal(0, 1, n))
    columns["patient"] = [f"p{number}" for number in patient]
    return pd.DataFrame({**columns, "state": np.where(ill, "ill", "well")})


def csv(folder: Path, frame: pd.DataFrame | None = None) -> str:
    path = folder / "data.csv"
    (patients() if frame is None else frame).to_csv(path, index=False)
    return str(path)


def test_a_csv_file_becomes_a_task(tmp_path):
    options = SourceOptions(target="state", group="patient", seed=3)
    task = table(csv(tmp_path), options)
    assert (task.name, task.kind) == ("table:data.csv", "features")
    assert task.class_names == ("well", "ill")
    assert (task.x_train.dtype, task.y_train.dtype) == (np.float32, np.int64)
    assert len(task.y_train) + len(task.y_test) == 200
    assert task.y_train.sum() + task.y_test.sum() == 40
    assert 30 <= len(task.y_test) <= 50
    assert task.details["feature_names"] == ["age", "sex=f", "sex=m", "marker", "marker=(missing)"]
    assert len(task.groups) == len(task.y_train)
    assert task.fingerprint == table(csv(tmp_path), options).fingerprint
    assert task.fingerprint != table(csv(tmp_path), replace(options, seed=4)).fingerprint


def test_the_encoder_knows_the_training_part_only_and_travels_in_the_details(tmp_path):
    options = SourceOptions(target="state", group="patient")
    frame, task = read_table(Path(csv(tmp_path))), table(csv(tmp_path), options)
    details = json.loads(json.dumps(task.details, allow_nan=False))
    assert details == task.details
    in_training = frame["patient"].isin(task.groups)
    features = frame.drop(columns=["state", "patient"])
    # The same state from the training rows alone, and the same features from the state.
    assert TableEncoder().fit(features[in_training]).to_dict() == details["encoder"]
    encoder = TableEncoder.from_dict(details["encoder"])
    np.testing.assert_array_equal(encoder.transform(features[in_training]), task.x_train)
    np.testing.assert_array_equal(encoder.transform(features[~in_training]), task.x_test)
    # Whatever the test rows hold, the training part does not see it.
    frame.loc[~in_training, ["age", "sex"]] = 1e9, "other"
    second = table(csv(tmp_path, frame), options)
    assert second.details["encoder"] == details["encoder"]
    np.testing.assert_array_equal(second.x_train, task.x_train)


@given(sizes=st.lists(st.integers(1, 6), min_size=12, max_size=40), seed=st.integers(0, 1000))
@settings(max_examples=25, deadline=None)
def test_no_group_is_on_both_sides_of_any_split(sizes, seed):
    who = np.repeat(np.arange(len(sizes)), sizes)
    frame = pd.DataFrame({"x": np.arange(len(who)), "who": who, "y": who % 2})
    task = frame_task(frame, name="t", target="y", options=SourceOptions(group="who", seed=seed))
    assert task.groups is not None
    spread = TableEncoder.from_dict(task.details["encoder"]).transform(frame)
    owner = dict(zip(spread[:, 0].tolist(), who.astype(str), strict=True))  # x tells the row
    tested = {owner[x] for x in task.x_test[:, 0].tolist()}
    assert set(task.groups).isdisjoint(tested)
    assert set(task.groups) | tested == set(who.astype(str))
    inner = task.with_validation(0.25, seed=seed)
    assert inner.groups is not None
    assert set(inner.groups).isdisjoint({owner[x] for x in inner.x_test[:, 0].tolist()})


def test_the_split_is_stratified_and_rows_without_target_are_counted(tmp_path):
    task = table(csv(tmp_path), SourceOptions(target="state"))
    assert (len(task.y_test), int(task.y_test.sum())) == (40, 8)
    frame = patients()
    frame.loc[[3, 50, 51], "state"] = None
    with pytest.warns(UserWarning, match="3 of 200 rows of table:data.csv are left out"):
        task = table(csv(tmp_path, frame), SourceOptions(target="state"))
    assert task.details["rows_without_target"] == 3
    assert len(task.y_train) + len(task.y_test) == 197


N = 100
ONE_ILL = ["ill"] + ["well"] * (N - 1)


def test_content_that_cannot_be_used_is_refused(tmp_path):
    for change, sentence in (
        ({"state": ["ill"] * N}, "target 'state' must hold two classes, got one: 'ill'"),
        ({"state": [None] * N}, "target 'state' must have a class in every row"),
        ({"state": ["a", "b", "c", "c"] * 25}, "--positive against the rest, got 3: 'a', 'b', 'c'"),
        ({"state": range(N)}, "target 'state' must hold two classes, or one of them be --positive"),
        ({"state": ONE_ILL}, "cannot be split with every class on both sides"),
        ({"age": [*range(N - 1), "junk"]}, "a number in every row, got 'junk' in row 100"),
        ({"age": [*range(N - 1), np.inf]}, "column 'age' must be finite, got inf in row 100"),
        ({"patient": ["p", *[None] * (N - 1)]}, "99 rows have none, the first is row 2"),
        ({"patient": ["p"] * N}, "groups cannot be split with every class on both sides"),
        ({"patient": ONE_ILL, "state": ONE_ILL}, "cannot be split with every class on both sides"),
    ):
        frame = patients(N).assign(**change)
        with pytest.raises(InputError, match=sentence):
            table(csv(tmp_path, frame), SourceOptions(target="state", group="patient"))


def test_columns_without_use_are_dropped_with_a_warning(tmp_path):
    frame = patients().assign(name=[f"name {i}" for i in range(200)])
    with pytest.warns(UserWarning, match="column 'name' is dropped: 160 categories in 160 rows"):
        task = table(csv(tmp_path, frame), SourceOptions(target="state"))
    assert task.details["dropped_columns"]["name"] == "160 categories in 160 rows"
    only = frame[["name", "state"]]
    with pytest.raises(InputError, match=r"column of use as a feature, got 'name' \(160 categor"):
        table(csv(tmp_path, only), SourceOptions(target="state"))
    with pytest.raises(InputError, match="column of use as a feature, got none"):
        table(csv(tmp_path, only[["state"]]), SourceOptions(target="state"))


def test_a_rare_word_makes_a_category_wherever_its_row_ends_up(tmp_path):
    file = csv(tmp_path, patients().assign(children=[*"0121" * 49, *"000", "3+"]))
    for seed in range(4):
        options = SourceOptions(target="state", group="patient", seed=seed)
        assert "children=0" in table(file, options).details["feature_names"]


# Files


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


# Arrays

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 4))
Y = np.arange(60) % 5 == 0
IMAGES = RNG.integers(0, 256, (60, 3, 8, 8), dtype=np.uint8)
SPLIT = {"x_train": X[:40], "y_train": Y[:40], "x_test": X[40:], "y_test": Y[40:]}


def saved(folder: Path, **arrays: Any) -> str:
    np.savez(folder / "a.npz", **arrays)
    return str(folder / "a.npz")


def test_a_split_is_taken_as_it_is(tmp_path):
    task = npz(saved(tmp_path, **SPLIT), SourceOptions())
    assert (task.name, task.kind) == ("npz:a.npz", "features")
    assert task.class_names == ("False", "True")
    np.testing.assert_array_equal(task.x_train, X[:40].astype(np.float32))
    np.testing.assert_array_equal(task.x_test, X[40:].astype(np.float32))
    assert task.y_test.tolist() == Y[40:].astype(int).tolist()


def test_whole_arrays_are_split_by_seed_with_groups_together(tmp_path):
    who = np.arange(60) // 3
    path = saved(tmp_path, x=np.c_[X, who], y=who % 2, groups=who)
    task = npz(path, SourceOptions(seed=1))
    assert task.groups is not None
    assert set(task.x_train[:, 4]) == set(task.groups)
    assert set(task.groups).isdisjoint(task.x_test[:, 4])
    assert len(task.y_test) == 12
    assert task.fingerprint != npz(path, SourceOptions(seed=2)).fingerprint


def test_images_are_told_by_type_and_shape(tmp_path):
    task = npz(saved(tmp_path, x=IMAGES, y=Y), SourceOptions())
    assert (task.kind, task.x_train.dtype) == ("image", np.uint8)
    assert task.x_test.shape == (12, 3, 8, 8)
    pixels = task.x_train / 255
    np.testing.assert_allclose(task.normalization()[0], pixels.mean(axis=(0, 2, 3)))
    np.testing.assert_allclose(task.normalization()[1], pixels.std(axis=(0, 2, 3)))
    known = replace(task, details={"mean": [0.5, 0.4, 0.3], "std": [0.2, 0.1, 0.3]})
    assert known.normalization() == ((0.5, 0.4, 0.3), (0.2, 0.1, 0.3))
    grey = npz(saved(tmp_path, x=IMAGES[:, 0], y=Y), SourceOptions())
    assert grey.x_test.shape == (12, 1, 8, 8)


def test_the_positive_class_is_the_rarer_in_training_or_the_one_said(tmp_path):
    arrays = {**SPLIT, "y_train": ["a"] * 30 + ["b"] * 10, "y_test": ["a"] * 1 + ["b"] * 19}
    assert npz(saved(tmp_path, **arrays), SourceOptions()).class_names == ("a", "b")
    assert npz(saved(tmp_path, **arrays), SourceOptions(positive="a")).class_names == ("b", "a")
    three = {"x": X, "y": np.arange(60) % 3}
    task = npz(saved(tmp_path, **three), SourceOptions(positive="2"))
    assert task.class_names == ("not 2", "2")
    assert task.y_train.sum() + task.y_test.sum() == 20
    names = {"class_names": ["dog", "cat"]}
    task = npz(saved(tmp_path, x=X, y=(~Y).astype(int), **names), SourceOptions())
    assert task.class_names == ("dog", "cat")  # although there are fewer dogs
    assert task.y_train.sum() + task.y_test.sum() == 48
    task = npz(saved(tmp_path, x=X, y=Y.astype(int), **names), SourceOptions(positive="dog"))
    assert task.class_names == ("cat", "dog")
    with pytest.raises(InputError, match=r"must be whole numbers from 0 to 1, .* got \[0, 1, 2\]"):
        npz(saved(tmp_path, **three, **names), SourceOptions())


HOLED = X.copy()
HOLED[7, 2] = np.nan


def test_arrays_that_cannot_be_used_are_refused(tmp_path):
    for arrays, sentence in (
        ({"x": HOLED, "y": Y}, "x of a.npz must be finite, got nan in row 7, column 2"),
        ({**SPLIT, "x_test": X[40:] * 1e300}, "x_test of a.npz must be finite, got "),
        ({"x": X}, "must have the arrays x_train, y_train, x_test, y_test, or x and y, got x"),
        ({"x_train": X, "y_train": Y, "z": Y}, "got x_train, y_train, z"),
        ({}, "or x and y, got none"),
        ({"x": X, "y": Y[:9]}, "must have a label for each of the 60 rows of x, got shape (9,)"),
        ({"x": X, "y": X}, "got shape (60, 4)"),
        ({"x": X, "y": np.zeros(60)}, "must hold two classes, got one: '0'"),
        ({"x": X, "y": np.where(Y, np.nan, 1)}, "must have a class in every row, got 12 without"),
        ({"x": X, "y": Y, "groups": Y[:5]}, "must be one for each row of x, got (5,)"),
        ({"x": X.astype(str), "y": Y}, "must be numbers (n, d) or uint8 images (n, C, H, W), got"),
        ({"x": X.astype(object), "y": Y}, "must be a .npz file of plain arrays"),
        ({"x": IMAGES.swapaxes(1, 3), "y": Y}, "1 or 3 channels as (n, C, H, W), got (60, 8"),
        ({**SPLIT, "x_test": X[40:, :3]}, "rows of the same shape, got (4,) and (3,)"),
        ({"x": IMAGES / 255, "y": Y}, "got float64 (60, 3, 8, 8)"),
    ):
        with pytest.raises(InputError) as caught:
            npz(saved(tmp_path, **arrays), SourceOptions())
        assert sentence in str(caught.value)


def test_files_that_are_no_arrays_are_refused(tmp_path):
    (tmp_path / "junk.npz").write_bytes(b"junk")
    whole = Path(saved(tmp_path, **SPLIT)).read_bytes()
    (tmp_path / "short.npz").write_bytes(whole[: len(whole) // 2])
    with (tmp_path / "single.npz").open("wb") as file:
        np.save(file, X)
    for name in ("junk", "short", "single"):
        with pytest.raises(InputError, match=rf"{name}.npz must be a .npz file"):
            npz(str(tmp_path / f"{name}.npz"), SourceOptions())
