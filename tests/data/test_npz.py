"""Arrays from a file: features and images, with and without a split, and bad ones."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from curvewise.base.errors import InputError
from curvewise.data.tables import npz
from curvewise.data.task import SourceOptions

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
        (
            {"x": IMAGES.transpose(0, 2, 3, 1), "y": Y},
            "1 or 3 channels as (n, C, H, W), got (60, 8",
        ),
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
