"""Tables and arrays of files: classes, splits, and every bad input with its sentence."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st

from curvewise.base.errors import InputError
from curvewise.data.reading import read_table
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
    return pd.DataFrame(
        {
            "age": rng.normal(50, 10, n).round(1),
            "sex": rng.choice(["f", "m"], n),
            "marker": np.where(rng.random(n) < 0.2, np.nan, ill + rng.normal(0, 1, n)),
            "patient": [f"p{number}" for number in patient],
            "state": np.where(ill, "ill", "well"),
        }
    )


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


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
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
    ],
)
def test_content_that_cannot_be_used_is_refused(tmp_path, change, sentence):
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
    grey = npz(saved(tmp_path, x=IMAGES[:, 0], y=Y), SourceOptions())
    assert grey.x_test.shape == (12, 1, 8, 8)


def test_the_positive_class_is_the_rarer_in_training_or_the_one_said(tmp_path):
    arrays = {**SPLIT, "y_train": ["a"] * 30 + ["b"] * 10, "y_test": ["a"] * 1 + ["b"] * 19}
    assert npz(saved(tmp_path, **arrays), SourceOptions()).class_names == ("a", "b")
    assert npz(saved(tmp_path, **arrays), SourceOptions(positive="a")).class_names == ("b", "a")
    digits = {"x": X, "y": np.arange(60) % 3}
    task = npz(saved(tmp_path, **digits), SourceOptions(positive="2"))
    assert task.class_names == ("not 2", "2")
    assert task.y_train.sum() + task.y_test.sum() == 20


def test_class_names_in_the_file_keep_their_order(tmp_path):
    names = {"class_names": ["dog", "cat"]}
    task = npz(saved(tmp_path, x=X, y=(~Y).astype(int), **names), SourceOptions())
    assert task.class_names == ("dog", "cat")  # although there are fewer dogs
    assert task.y_train.sum() + task.y_test.sum() == 48
    with pytest.raises(InputError, match=r"must be whole numbers from 0 to 1, .* got \[0, 1, 2\]"):
        npz(saved(tmp_path, x=X, y=np.arange(60) % 3, **names), SourceOptions())


HOLED = X.copy()
HOLED[7, 2] = np.nan


@pytest.mark.parametrize(
    ("arrays", "sentence"),
    [
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
    ],
)
def test_arrays_that_cannot_be_used_are_refused(tmp_path, arrays, sentence):
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
