"""The digits: counts, range, halves."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

from curvewise.base.errors import InputError
from curvewise.data.embedded import digits
from curvewise.data.options import SourceOptions


@pytest.mark.parametrize("argument", ["", "8", "0"])
def test_one_digit_against_the_rest(argument: str) -> None:
    task = digits(argument, SourceOptions())
    digit = argument or "8"
    assert (task.name, task.kind) == (f"digits:{digit}", "features")
    assert task.class_names == (f"not {digit}", digit)
    y = np.concatenate([task.y_train, task.y_test])
    assert y.sum() == (load_digits().target == int(digit)).sum()
    assert abs(len(task.y_train) - len(task.y_test)) == 1  # of 1,797
    assert abs(int(task.y_train.sum()) - int(task.y_test.sum())) <= 1
    assert len(task.details["feature_names"]) == task.x_train.shape[1] == 64


def test_every_image_is_there_once_with_its_label() -> None:
    task = digits("3", SourceOptions(seed=5))
    x, y = np.concatenate([task.x_train, task.x_test]), np.concatenate([task.y_train, task.y_test])
    assert x.dtype == np.float32
    assert (x.min(), x.max()) == (0, 1)
    pixels, numbers = load_digits(return_X_y=True)
    found = np.column_stack([x, y == 1]).tolist()
    assert sorted(found) == sorted(np.column_stack([pixels / 16, numbers == 3]).tolist())


def test_the_seed_chooses_the_halves() -> None:
    one, again, other = (digits("8", SourceOptions(seed=seed)) for seed in (0, 0, 1))
    assert one.fingerprint == again.fingerprint != other.fingerprint


@pytest.mark.parametrize("argument", ["10", "eight", "-1", "1.0", "1234567890"])
def test_other_digits_are_refused(argument: str) -> None:
    with pytest.raises(InputError, match="digits:D must name a digit from 0 to 9, got"):
        digits(argument, SourceOptions())


def test_settings_without_use_are_refused() -> None:
    with pytest.raises(InputError, match="digits must be read without --target, got 'y'"):
        digits("8", SourceOptions(target="y"))
