"""Melanoma, on generated copies of both years' layouts."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from image_samples import picture

from curvewise.base.errors import InputError
from curvewise.data.melanoma import melanoma, melanoma_files
from curvewise.data.task import SourceOptions

FOLDS_2019, FOLDS_2020 = (0, 5, 12, 16, 21, 29), (3, 6, 8, 9)
COLUMNS_2019 = ["MEL", "NV", "BCC", "AK", "BKL", "DF", "VASC", "SCC", "UNK"]
N_2019, N_2020 = 240, 300


def color(year: int, number: int, target: int) -> tuple[int, int, int]:
    """What tells an image apart: its label and year in red, its number in green and blue."""
    return (200 * target + 20 * (year == 2020), number % 256, number // 256)


def targets(n: int, every: int) -> np.ndarray:
    return (np.arange(n) % every == 0).astype(int)


def write_images(folder: Path, year: int, names: list[str], target: np.ndarray) -> None:
    for number, name in enumerate(names):
        picture(folder / f"{name}.png", color(year, number, target[number]))


def write_official(base: Path) -> None:
    """ISIC's own files: one column a diagnosis in 2019, lesions in a second table; no folds."""
    names, target = [f"ISIC_{i:07d}" for i in range(N_2019)], targets(N_2019, 5)
    truth = pd.DataFrame({"image": names, **dict.fromkeys(COLUMNS_2019, 0.0)})
    truth = truth.assign(MEL=target.astype(float), NV=1.0 - target)
    home = base / "isic2019"
    write_images(home / "ISIC_2019_Training_Input", 2019, names, target)
    truth.to_csv(home / "ISIC_2019_Training_GroundTruth.csv", index=False)
    lesions = [f"HAM_{i // 3}" if i < 180 else None for i in range(N_2019)]
    metadata = pd.DataFrame({"image": names, "age_approx": 50.0, "lesion_id": lesions})
    metadata[::-1].to_csv(home / "ISIC_2019_Training_Metadata.csv", index=False)
    names, target = [f"ISIC_1{i:06d}" for i in range(N_2020)], targets(N_2020, 6)
    home = base / "isic2020"
    write_images(home / "train", 2020, names, target)
    patients = [f"IP_{i // 4}" for i in range(N_2020)]
    frame = pd.DataFrame({"image_name": names, "patient_id": patients, "target": target})
    frame.to_csv(home / "train.csv", index=False)


def write_folded(base: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The resized copies on Kaggle: the same columns in both years, folds in `tfrecord`."""
    frames = []
    for year, name, n, n_folds in (
        (2019, "jpeg-isic2019-256x256", N_2019, 30),
        (2020, "jpeg-melanoma-256x256", N_2020, 15),
    ):
        names, target = [f"ISIC_{year}_{i:04d}" for i in range(n)], targets(n, 7)
        patients = np.arange(n) // 4 if year == 2020 else np.full(n, -1)
        folds = np.arange(n) // 4 % n_folds if year == 2020 else np.arange(n) % n_folds
        columns = {"image_name": names, "patient_id": patients, "target": target, "tfrecord": folds}
        frame = pd.DataFrame(columns)
        write_images(base / name / "train", year, names, target)
        frame.to_csv(base / name / "train.csv", index=False)
        frames.append(frame)
    return frames[0], frames[1]


def rewrite(path: Path, change) -> None:
    change(pd.read_csv(path)).to_csv(path, index=False)


@pytest.fixture
def options(tmp_path) -> SourceOptions:
    return SourceOptions(data_dir=tmp_path / "data", cache_dir=tmp_path / "cache", image_size=8)


def seen(x: np.ndarray) -> set[tuple[int, ...]]:
    return {tuple(pixel) for pixel in x[:, :, 0, 0].tolist()}


@pytest.mark.parametrize("inside", ["", "melanoma"])
def test_folds_of_the_paper_are_the_test_part(options, inside):
    frames = write_folded(options.data_folder / inside)
    task = melanoma("", options)
    assert task.x_train.filename == task.x_test.filename  # both parts are views of one cache
    assert task.class_names == ("benign", "melanoma")
    expected_test, expected_train = set(), set()
    for year, frame, folds in zip((2019, 2020), frames, (FOLDS_2019, FOLDS_2020), strict=True):
        for number, (target, fold) in enumerate(zip(frame.target, frame.tfrecord, strict=True)):
            part = expected_test if fold in folds else expected_train
            part.add(color(year, number, target))
    assert seen(task.x_test) == expected_test
    assert seen(task.x_train) == expected_train
    assert len(task.y_train) + len(task.y_test) == N_2019 + N_2020
    np.testing.assert_array_equal(task.y_train, task.x_train[:, 0, 0, 0] >= 200)
    np.testing.assert_array_equal(task.y_test, task.x_test[:, 0, 0, 0] >= 200)
    assert melanoma("", replace(options, seed=5)).fingerprint == task.fingerprint
    # 2019 has no patients here, so each of its images is on its own; a patient of 2020 has four.
    n_2019 = sum(group.startswith("2019 image ISIC_2019_") for group in task.groups)
    assert n_2019 == len(set(task.groups[:n_2019])) == 240 * 24 // 30
    assert len(set(task.groups[n_2019:])) == (len(task.groups) - n_2019) / 4


def test_the_official_files_are_split_by_patient_and_lesion(options):
    write_official(options.data_folder)
    task = melanoma("", options)
    share = len(task.y_test) / (N_2019 + N_2020)
    assert 0.15 < share < 0.25
    assert abs(task.y_test.mean() - task.y_train.mean()) < 0.05
    np.testing.assert_array_equal(task.y_train, task.x_train[:, 0, 0, 0] >= 200)

    def owner(pixel):
        red, green, blue = pixel
        number = green + 256 * blue
        if red % 200 == 20:
            return f"2020 patient_id IP_{number // 4}"
        if number < 180:
            return f"2019 lesion_id HAM_{number // 3}"
        return f"2019 image ISIC_{number:07d}"

    train, test = (x[:, :, 0, 0].tolist() for x in (task.x_train, task.x_test))
    assert task.groups.tolist() == [owner(pixel) for pixel in train]
    assert not {owner(pixel) for pixel in train} & {owner(pixel) for pixel in test}
    inner = task.with_validation(0.25, seed=0)
    assert not set(inner.groups) & {owner(pixel) for pixel in inner.x_test[:, :, 0, 0].tolist()}
    assert sum("no column tfrecord" in text for text in task.details["deviations"]) == 2
    assert melanoma("", replace(options, seed=1)).fingerprint != task.fingerprint


def test_copies_without_a_fold_and_groups_that_folds_tear_apart(options):
    write_folded(options.data_folder)

    def change(frame):
        frame.loc[frame.index[12:14], "tfrecord"] = -1  # two of patient 3, who is in fold 3
        frame.loc[frame.index[16:18], "tfrecord"] = -1  # two of patient 4, in fold 4
        return frame

    rewrite(options.data_folder / "jpeg-melanoma-256x256" / "train.csv", change)
    other = options.data_folder / "jpeg-isic2019-256x256" / "train.csv"
    rewrite(other, lambda frame: frame.assign(lesion_id=[f"L{i // 2}" for i in range(len(frame))]))
    task = melanoma("", options)
    everything = seen(task.x_train) | seen(task.x_test)
    for number, kept in ((12, False), (13, False), (16, True), (17, True)):
        pixel = color(2020, number, int(number % 7 == 0))
        assert (pixel in everything) == kept
        assert (pixel in seen(task.x_train)) == kept
    texts = task.details["deviations"]
    assert any("2 images of ISIC 2020 without a fold" in text for text in texts)
    # Folds 0 and 1, 4 and 5, ... share a lesion: six in thirty images, in eight rounds.
    assert "the folds of ISIC 2019 put 48 of 120 lesion_id values on both sides" in texts


def test_years_may_differ_in_layout(options):
    write_official(options.data_folder)
    (options.data_folder / "isic2020" / "train.csv").unlink()
    frame = write_folded(options.data_folder)[1]
    (options.data_folder / "jpeg-isic2019-256x256" / "train.csv").unlink()
    task = melanoma("", replace(options, image_size=None))
    assert task.x_train.shape[1:] == (3, 256, 256)  # the usual size
    tested = {color(2020, i, frame.target[i]) for i in frame.index[frame.tfrecord.isin(FOLDS_2020)]}
    assert {pixel for pixel in seen(task.x_test) if pixel[0] % 200 == 20} == tested


def test_missing_tables_and_images(options):
    with pytest.raises(InputError, match=r"2019_Training_GroundTruth.*isic2020/train.csv .*arch"):
        melanoma_files(options)
    write_official(options.data_folder)
    images = options.data_folder / "isic2020" / "train"
    (images / "ISIC_1000007.png").unlink()
    with pytest.raises(InputError, match=r"none for 1 of 300, such as ISIC_1000007.jpg"):
        melanoma("", options)
    images.rename(options.data_folder / "elsewhere")
    with pytest.raises(InputError, match=r"must be in one of \S+train, .* found none"):
        melanoma("", options)
    (options.data_folder / "isic2019" / "ISIC_2019_Training_GroundTruth.csv").unlink()
    with pytest.raises(InputError, match=r"needs \S+2019\S+ with its images in \w+ beside it, not"):
        melanoma_files(options)


def test_bad_tables(options):
    write_official(options.data_folder)
    frame = pd.read_csv(options.data_folder / "isic2020" / "train.csv")
    for change, message in (
        (lambda f: f.drop(columns="image_name"), "a column 'image_name', got patient"),
        (lambda f: f.drop(columns="target"), "a column 'target', got image_name"),
        (lambda f: f.assign(target=float("nan")), r"must be 0 or 1, got .*nan"),
        (lambda f: f.assign(target="benign"), "must be 0 or 1, got 'benign'"),
        (lambda f: pd.concat([f, f[:1]]), "each image once, got 'ISIC_1000000' twice"),
        (lambda f: pd.DataFrame(), "train.csv must have a header and rows"),
    ):
        change(frame).to_csv(options.data_folder / "isic2020" / "train.csv", index=False)
        with pytest.raises(InputError, match=message):
            melanoma("", options)
