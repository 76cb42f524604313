"""Folders of images and Dogs vs. Cats, generated."""

from dataclasses import replace

import numpy as np
import pytest
from image_samples import picture

from command_line import pictures
from curvewise.base.errors import InputError
from curvewise.data import folders
from curvewise.data.folders import dogs_vs_cats, folder
from curvewise.data.task import SourceOptions


@pytest.fixture
def options(tmp_path) -> SourceOptions:
    return SourceOptions(data_dir=tmp_path / "data", cache_dir=tmp_path / "cache", image_size=8)


def test_the_rarer_the_named_or_the_last_class_is_positive_and_a_fifth_tested(tmp_path, options):
    base = pictures(tmp_path / "pets", rare=10, usual=40)
    task = folder(str(base), options)
    assert (task.name, task.class_names) == ("folder:pets", ("usual", "rare"))
    assert (task.class_counts, np.bincount(task.y_test).tolist()) == ((32, 8), [8, 2])
    assert task.x_train.shape == (40, 3, 8, 8)
    np.testing.assert_array_equal(task.y_train, task.x_train[:, 0, 0, 0] == 0)
    np.testing.assert_array_equal(task.y_test, task.x_test[:, 0, 0, 0] == 0)
    both = np.concatenate([task.x_train, task.x_test])[:, :2, 0, 0]
    assert len(np.unique(both, axis=0)) == 50
    about = {"mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225], "image_size": 8}
    assert {name: task.details[name] for name in about} == about  # those of ImageNet
    assert task.details["broken"] == []
    base = pictures(tmp_path / "more", a=10, b=20, c=10)
    task = folder(str(base), replace(options, positive="b"))
    assert task.class_names == ("rest", "b")
    np.testing.assert_array_equal(task.y_train, task.x_train[:, 0, 0, 0] == 100)
    equal = str(pictures(tmp_path / "equal", a=10, b=10))
    assert folder(equal, options).class_names == ("a", "b")


def test_the_split_follows_the_seed_and_decodes_nothing_anew(tmp_path):
    base, calls = str(pictures(tmp_path / "pets", a=20, b=20)), []
    options = SourceOptions(cache_dir=tmp_path / "cache", progress=lambda *_: calls.append(1))
    first, again, other = (folder(base, replace(options, seed=seed)) for seed in (0, 0, 1))
    assert first.fingerprint == again.fingerprint != other.fingerprint
    assert len(calls) == 1
    assert first.x_test.shape[1:] == (3, 96, 96)  # the usual size


def test_nested_folders_are_found_strangers_and_broken_images_skipped(tmp_path, options):
    base = pictures(tmp_path / "data" / "pets", a=10, b=10)
    picture(base / "a" / "more" / "x.JPG", (0, 77, 0))
    picture(base / ".hidden" / "x.jpg", (0, 0, 0))
    (base / "b" / ".x.jpg").write_text("not an image")
    (base / "b" / "notes.txt").write_text("not an image")
    (base / "empty").mkdir()
    task = folder("pets", options)
    assert len(task.y_train) + len(task.y_test) == 21
    assert task.class_names == ("a", "b")
    many = pictures(tmp_path / "many", a=120, b=80)
    (many / "a" / "5.png").write_bytes(b"")
    with pytest.warns(UserWarning, match="1 of 200 images unreadable"):
        task = folder(str(many), options)
    assert len(task.y_train) + len(task.y_test) == 199
    assert task.details["broken"][0]["reason"] == "the file is empty"
    np.testing.assert_array_equal(task.y_train, task.x_train[:, 0, 0, 0] == 100)


@pytest.mark.parametrize("place", ["dogs-vs-cats/train", "train"])
def test_generated_dogs_vs_cats(options, monkeypatch, place):
    monkeypatch.setattr(folders, "VALIDATION_SAMPLES", 3)
    for number in range(12):
        picture(options.data_folder / place / f"cat.{number}.jpg", (0, 0, 20 * number))
        picture(options.data_folder / place / f"dog.{number}.jpg", (255, 255, 20 * number))
    picture(options.data_folder / place / "cat.12.jpg", (0, 0, 240))
    picture(options.data_folder / place / "cat.copy.jpg", (0, 0, 0))
    task = dogs_vs_cats("", options)
    assert (task.class_names, task.class_counts) == (("cat", "dog"), (10, 9))
    assert np.bincount(task.y_test).tolist() == [3, 3]
    np.testing.assert_array_equal(task.y_train, task.x_train[:, 0, 0, 0] > 128)
    cats, dogs, small = task.details["deviations"]
    assert cats == "there are 13 cat images here, the complete source has 12,500"
    assert dogs.startswith("there are 12 dog images here")
    assert small.startswith("images are resized to 8 px")
    usual = dogs_vs_cats("", replace(options, image_size=None))
    assert usual.x_train.shape == (19, 3, 96, 96)
    assert usual.details["deviations"][2].startswith("images are resized to 96 px")
    tested = sorted(task.x_test[:, 2, 0, 0].tolist())
    other = dogs_vs_cats("", replace(options, seed=1))
    assert sorted(other.x_test[:, 2, 0, 0].tolist()) != tested
    monkeypatch.setattr(folders, "VALIDATION_SAMPLES", 12)
    with pytest.raises(InputError, match="the 12 samples of the test part, got 12 of class 1"):
        dogs_vs_cats("", options)
