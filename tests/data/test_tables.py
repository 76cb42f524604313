"""Tables: reading files, choosing classes, splitting, and every bad input with its sentence."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st

from curvewise.base.errors import InputError
from curvewise.data.reading import read_table
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


def csv(folder: Path, frame: pd.DataFrame | None = None) -> str:
    path = folder / "data.csv"
    (patients() if frame is None else frame).to_csv(path, index=False)
    return str(path)


def test_a_csv_file_becomes_a_task(tmp_path):
    options = SourceOptions(target="state", group="patient", seed=3)
    task = table(csv(tmp_path), options)
    assert (task.name, task.kind, task.class_names) == (
        "table:data.csv",
        "features",
        ("well", "ill"),
    )
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
