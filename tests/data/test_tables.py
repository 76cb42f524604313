"""Tables: reading files, choosing classes, splitting, and every bad input with its sentence."""

import gzip
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st

from curvewise.base.errors import InputError
from curvewise.data import reading
from curvewise.data.reading import binary_labels, read_table
from curvewise.data.tables import frame_task, table
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
    return pd.DataFrame(
        {
            "age": rng.normal(50, 10, n).round(1),
            "sex": rng.choice(["f", "m"], n),
            "marker": np.where(rng.random(n) < 0.2, np.nan, ill + rng.normal(0, 1, n)),
            "patient": [f"p{number}" for number in patient],
            "state": np.where(ill, "ill", "well"),
        }
    )


def saved(folder: Path, text: str | bytes, name: str = "data.csv") -> str:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return str(path)


def csv(folder: Path, frame: pd.DataFrame | None = None) -> str:
    return saved(folder, (patients() if frame is None else frame).to_csv(index=False))


def test_a_csv_file_becomes_a_task(tmp_path: Path) -> None:
    options = SourceOptions(target="state", group="patient", seed=3)
    task = table(csv(tmp_path), options)
    assert (task.name, task.kind) == ("table:data.csv", "features")
    assert task.class_names == ("well", "ill")
    assert (task.x_train.dtype, task.y_train.dtype) == (np.float32, np.int64)
    assert len(task.y_train) + len(task.y_test) == 200
    assert task.y_train.sum() + task.y_test.sum() == 40
    assert 30 <= len(task.y_test) <= 50
    assert task.details["feature_names"] == ["age", "sex=f", "sex=m", "marker", "marker=(missing)"]
    assert task.groups is not None
    assert len(task.groups) == len(task.y_train)
    again = table(csv(tmp_path), options)
    assert task.fingerprint == again.fingerprint
    other = table(csv(tmp_path), SourceOptions(target="state", group="patient", seed=4))
    assert task.fingerprint != other.fingerprint


def test_the_encoder_knows_the_training_part_only_and_travels_in_the_details(
    tmp_path: Path,
) -> None:
    frame = read_table(Path(csv(tmp_path)))
    task = table(csv(tmp_path), SourceOptions(target="state", group="patient"))
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
    spoilt = frame.copy()
    spoilt.loc[~in_training, "age"] = 1e9
    spoilt.loc[~in_training, "sex"] = "other"
    second = table(csv(tmp_path, spoilt), SourceOptions(target="state", group="patient"))
    assert second.details["encoder"] == details["encoder"]
    np.testing.assert_array_equal(second.x_train, task.x_train)


@given(
    sizes=st.lists(st.integers(1, 6), min_size=12, max_size=40),
    seed=st.integers(0, 1000),
)
@settings(max_examples=25, deadline=None)
def test_no_group_is_on_both_sides_of_any_split(sizes: list[int], seed: int) -> None:
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


def test_the_split_is_stratified_and_rows_without_target_are_counted(tmp_path: Path) -> None:
    task = table(csv(tmp_path), SourceOptions(target="state"))
    assert (len(task.y_test), int(task.y_test.sum())) == (40, 8)
    frame = patients()
    frame.loc[[3, 50, 51], "state"] = None
    with pytest.warns(UserWarning, match="3 of 200 rows of table:data.csv are left out"):
        task = table(csv(tmp_path, frame), SourceOptions(target="state"))
    assert task.details["rows_without_target"] == 3
    assert len(task.y_train) + len(task.y_test) == 197


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
def test_which_class_is_positive(
    values: list[object], positive: str | None, names: tuple[str, str], labels: list[int]
) -> None:
    y, class_names = binary_labels(pd.Series(values), positive, "y")
    assert (y.tolist(), class_names) == (labels, names)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("a,b\n1,x\n2,\n", "t.csv"),
        ("a;b\n1;x\n2;\n", "t.csv"),
        ("a\tb\n1\tx\n2\t\n", "t.tsv"),
        ("\ufeffa, b\n1, x\n2, ?\n", "t.csv"),
        ("\n a |b \n1|x\n2|NA\n", "t.txt"),
        ('"a",b\r\n1,"x"\r\n2,""\r\n', "T.CSV"),
    ],
)
def test_text_files_as_people_write_them(tmp_path: Path, text: str, name: str) -> None:
    frame = read_table(Path(saved(tmp_path, text, name)))
    wanted = pd.DataFrame({"a": [1, 2], "b": ["x", np.nan]}, index=pd.RangeIndex(1, 3))
    pd.testing.assert_frame_equal(frame, wanted, check_dtype=False)


def test_a_separator_inside_a_quoted_name_separates_nothing(tmp_path: Path) -> None:
    frame = read_table(Path(saved(tmp_path, '"a, b, c";d\n1;2\n')))
    assert frame.columns.tolist() == ["a, b, c", "d"]


def test_compressed_text_is_read(tmp_path: Path) -> None:
    path = saved(tmp_path, gzip.compress(b"a;b\n1;2\n"), "t.csv.gz")
    assert read_table(Path(path)).to_dict("list") == {"a": [1], "b": [2]}


def test_an_index_that_was_saved_along_is_left_out(tmp_path: Path) -> None:
    text = pd.DataFrame({"a": [1, 2], "b": [3, 4]}).to_csv()
    with pytest.warns(UserWarning, match=r"column 1 of data.csv is left out: it has no name"):
        frame = read_table(Path(saved(tmp_path, text)))
    assert frame.columns.tolist() == ["a", "b"]


def test_parquet_is_read_where_there_is_a_reader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = Path(saved(tmp_path, b"PAR1", "t.parquet"))
    stored = pd.DataFrame({"a": [1, 2], "b": [0, 1]}).set_index("a")
    monkeypatch.setattr(reading.pd, "read_parquet", lambda _: stored)
    assert read_table(path).to_dict("list") == {"a": [1, 2], "b": [0, 1]}


def test_parquet_without_a_reader_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none_there(_: Path) -> pd.DataFrame:
        raise ImportError("Unable to find a usable engine")

    monkeypatch.setattr(reading.pd, "read_parquet", none_there)
    with pytest.raises(InputError, match="needs pyarrow to be read: pip install pyarrow"):
        read_table(Path(saved(tmp_path, b"PAR1", "t.parquet")))


def test_a_file_that_is_no_parquet_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    with pytest.raises(InputError, match="must be a Parquet file"):
        read_table(Path(saved(tmp_path, b"junk", "t.parquet")))


def test_parquet_and_csv_give_the_same_task(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    patients().to_parquet(tmp_path / "t.parquet")
    options = SourceOptions(target="state")
    one, two = table(str(tmp_path / "t.parquet"), options), table(csv(tmp_path), options)
    np.testing.assert_array_equal(one.x_test, two.x_test)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "data.csv must have a header and rows, got an empty file"),
        ("\n\n", "data.csv must have a header and rows, got an empty file"),
        ("a,b\n", "data.csv must have a header and rows below it, got no rows"),
        ("a,b,a\n1,2,3\n", "the column names of data.csv must differ, got 'a' twice"),
        (b"\xff\xfe\x00\x01", "data.csv must be text in UTF-8, got other bytes"),
        ("a,b\n1,2\n1,2,3\n", "as in its header, got: 3 fields in line 3 and 2 before"),
        ("a,b\n1,2,3\n1,2,3\n", "as in its header, got: rows with more fields than the header"),
        ('a,b\n1,"2\n', "its header, got: a quotation mark in line 2 that nothing closes"),
        ('a,b\n1,2\n3,4\n"5,6\n', "got: a quotation mark in line 4 that nothing closes"),
    ],
)
def test_a_file_that_is_no_table_is_refused(
    tmp_path: Path, text: str | bytes, sentence: str
) -> None:
    with pytest.raises(InputError) as caught:
        table(saved(tmp_path, text), SourceOptions(target="a"))
    assert sentence in str(caught.value)


def test_files_of_other_kinds_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"must be a file of .csv.*, got 't.xlsx'"):
        table(saved(tmp_path, b"PK", "t.xlsx"), SourceOptions())
    with pytest.raises(InputError, match="as many fields"):
        table(saved(tmp_path, b"no gzip", "t.csv.gz"), SourceOptions())


N = 100


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"state": ["ill"] * N}, "target 'state' must hold two classes, got one: 'ill'"),
        ({"state": [None] * N}, "target 'state' must have a class in every row"),
        (
            {"state": ["a", "b", "c", "c"] * 25},
            "target 'state' must hold two classes, or one of them be --positive against the "
            "rest, got 3: 'a', 'b', 'c'",
        ),
        ({"state": range(N)}, "got 100: '0', '1', '2', "),
        ({"state": ["ill"] + ["well"] * (N - 1)}, "cannot be split with every class on both sides"),
        (
            {"age": [*range(N - 1), "junk"]},
            "must hold a number in every row, got 'junk' in row 100",
        ),
        ({"age": [*range(N - 1), np.inf]}, "column 'age' must be finite, got inf in row 100"),
        (
            {"patient": ["p", *[None] * (N - 1)]},
            "group 'patient' must have a value in every row, 99 rows have none, the first is row 2",
        ),
        ({"patient": ["p"] * N}, "cannot be split with every class on both sides"),
        (
            {"patient": ["p", *["q"] * (N - 1)], "state": ["ill"] + ["well"] * (N - 1)},
            "cannot be split with every class on both sides",
        ),
    ],
)
def test_content_that_cannot_be_used_is_refused(
    tmp_path: Path, change: dict[str, object], sentence: str
) -> None:
    frame = patients(N).assign(**change)
    options = SourceOptions(target="state", group="patient")
    with pytest.raises(InputError) as caught:
        table(csv(tmp_path, frame), options)
    assert sentence in str(caught.value)


def test_huge_category_counts_are_dropped_with_a_warning(tmp_path: Path) -> None:
    frame = patients().assign(name=[f"name {i}" for i in range(200)])
    with pytest.warns(UserWarning, match="column 'name' is dropped: 160 categories in 160 rows"):
        task = table(csv(tmp_path, frame), SourceOptions(target="state"))
    assert task.details["dropped_columns"]["name"] == "160 categories in 160 rows"
    only = frame[["name", "state"]]
    with pytest.raises(InputError, match=r"column of use as a feature, got 'name' \(160 categor"):
        table(csv(tmp_path, only), SourceOptions(target="state"))


@pytest.mark.parametrize("seed", range(4))
def test_a_rare_word_makes_a_category_wherever_its_row_ends_up(tmp_path: Path, seed: int) -> None:
    frame = patients().assign(children=[*"0121" * 49, *"000", "3+"])
    options = SourceOptions(target="state", group="patient", seed=seed)
    names = table(csv(tmp_path, frame), options).details["feature_names"]
    assert {"children=0", "children=1"} <= set(names)
    assert "children" not in names


def test_a_table_of_the_target_alone_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="column of use as a feature, got none"):
        table(csv(tmp_path, patients()[["state"]]), SourceOptions(target="state"))
