"""The image cache: right pixels and rows, once, whole or not at all, mapped, cleaned away."""

import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from image_samples import noisy_jpeg, picture

from curvewise.base.errors import InputError
from curvewise.data import image_files, mapped
from curvewise.data.cache import cached_images, find_caches, remove_caches
from curvewise.data.mapped import mapped_rows, write_rows

STATUS = Path("/proc/self/status")
HEX20, HEX32 = "0123456789abcdef0123", "0123456789abcdef" * 2


def pictures(folder: Path, n: int) -> list[Path]:
    """Images of one colour each, told apart by it."""
    return [picture(folder / f"{i:03}.png", (i % 256, i // 256, 7)) for i in range(n)]


def numbers(images: np.ndarray) -> list[int]:
    return (images[:, 0, 0, 0] + 256 * images[:, 1, 0, 0].astype(int)).tolist()


def aged(path: Path, days: float) -> Path:
    moment = time.time() - 86_400 * days
    for file in [*path.iterdir(), path]:
        os.utime(file, (moment, moment))
    return path


@pytest.fixture
def ten_a_batch(monkeypatch):
    monkeypatch.setattr(image_files, "MOST_IMAGES", 10)


@pytest.mark.usefixtures("ten_a_batch")
def test_rows_are_the_files_in_order(tmp_path, monkeypatch):
    monkeypatch.setattr(image_files, "processors", lambda: 3)
    files, calls = pictures(tmp_path / "in", 57)[::-1], []
    images, broken = cached_images(
        files, 4, tmp_path / "out", label="my pictures", progress=lambda *step: calls.append(step)
    )
    assert (images.shape, images.dtype, broken) == ((57, 3, 4, 4), np.uint8, {})
    assert isinstance(images, np.memmap)
    assert not images.flags.writeable
    assert numbers(images) == list(range(57))[::-1]
    assert (images[:, 2] == 7).all()
    assert calls == [("decoding my pictures", n, 57) for n in (10, 20, 30, 40, 50, 57)]


def test_decoded_once_and_again_when_something_changed(tmp_path):
    files, calls = pictures(tmp_path / "in", 5), []

    def run(some=files, size=4):
        before = len(calls)
        images, _ = cached_images(some, size, tmp_path / "out", progress=lambda *_: calls.append(1))
        return len(calls) > before, numbers(images)

    assert run() == (True, [0, 1, 2, 3, 4])
    assert run() == (False, [0, 1, 2, 3, 4])
    assert run(size=5) == (True, [0, 1, 2, 3, 4])
    assert run(files[::-1]) == (True, [4, 3, 2, 1, 0])
    status = files[2].stat()
    picture(files[2], (9, 0, 7))
    os.utime(files[2], ns=(status.st_atime_ns, status.st_mtime_ns + 1))
    assert run() == (True, [0, 1, 9, 3, 4])


def test_broken_images_are_left_out_and_named_or_too_many(tmp_path):
    files = pictures(tmp_path / "in", 300)
    files[0].write_bytes(b"")
    files[150].write_bytes(files[150].read_bytes()[:-30])
    files[299].write_text("not an image")
    kept = [i for i in range(300) if i not in (0, 150, 299)]
    for _ in range(2):  # from the files, then from the cache
        with pytest.warns(UserWarning, match=r"3 of 300 images unreadable: \S+0.png \(the file"):
            images, broken = cached_images(files, 4, tmp_path / "out")
        assert numbers(images) == kept
        found = {row: path for row, (path, _) in broken.items()}
        assert found == {row: str(files[row]) for row in (0, 150, 299)}
        assert all(reason for _, reason in broken.values())
    files[30].write_bytes(b"")
    with pytest.raises(InputError, match=r"at most 1 % .* got 4 of 300 images") as caught:
        cached_images(files, 4, tmp_path / "none")
    assert str(files[30]) in str(caught.value)
    with pytest.raises(InputError, match="got 1 of 99"):
        cached_images(files[30:31] + files[201:299], 4, tmp_path / "none")
    assert list((tmp_path / "none").iterdir()) == []


@pytest.mark.usefixtures("ten_a_batch")
def test_an_interrupted_run_leaves_nothing(tmp_path):
    files = pictures(tmp_path / "in", 40)
    for error in (KeyboardInterrupt, OSError):

        def stop(what, done, total, error=error):
            if done == 20:
                raise error

        with pytest.raises(error):
            cached_images(files, 4, tmp_path / "out", progress=stop)
        assert list((tmp_path / "out").iterdir()) == []


KILLED = """
import os, signal, sys
from pathlib import Path
from curvewise.data import cache, image_files
def stop(*_):
    os.kill(os.getpid(), signal.SIGKILL)
image_files.MOST_IMAGES = 10
files, out = (Path(place) for place in sys.argv[1:])
for moment in ("pixels", "index"):
    if (job := os.fork()) == 0:
        if moment == "index":
            cache.write_json, stop = stop, None
        cache.cached_images(sorted(files.iterdir()), 4, out / moment, progress=stop)
    assert os.waitstatus_to_exitcode(os.waitpid(job, 0)[1]) == -signal.SIGKILL
"""


def test_a_killed_run_shows_no_cache_and_is_cleared_away_later(tmp_path):
    files = pictures(tmp_path / "in", 40)
    subprocess.run([sys.executable, "-c", KILLED, tmp_path / "in", tmp_path], check=True)
    for moment, begins in (("pixels", ".unfinished-"), ("index", "images.npy")):
        out = tmp_path / moment
        (folder,) = out.iterdir()
        (left,) = folder.iterdir()
        assert left.name.startswith(begins)
        assert [cache.state for cache in find_caches(out)] == ["being written"]
        assert numbers(cached_images(files, 4, out)[0]) == list(range(40))
        assert left.exists()  # it might be another process at work
        assert [cache.state for cache in find_caches(out)] == ["whole"]
        if moment == "pixels":
            os.utime(left, (1, 1))
            (folder / "index.json").unlink()
            cached_images(files, 4, out)
            assert not left.exists()


@pytest.mark.usefixtures("ten_a_batch")
def test_two_at_once_agree(tmp_path):
    files, inner = pictures(tmp_path / "in", 20), []

    def other_process(what, done, total):
        if done == 10:
            inner.append(cached_images(files, 4, tmp_path / "out")[0])

    outer, _ = cached_images(files, 4, tmp_path / "out", progress=other_process)
    np.testing.assert_array_equal(outer, inner[0])
    assert len(list((tmp_path / "out").iterdir())) == 1


def test_damaged_caches_bad_sizes_and_missing_files_are_told(tmp_path):
    files, out = pictures(tmp_path / "in", 10), tmp_path / "out"
    cached_images(files, 4, out)
    (folder,) = out.iterdir()
    (folder / "images.npy").write_bytes((folder / "images.npy").read_bytes()[:-5])
    with pytest.raises(InputError, match=f"the cache {folder} must be whole.* remove it"):
        cached_images(files, 4, out)
    np.save(folder / "images.npy", np.zeros((9, 3, 4, 4), np.uint8))
    for some, size, message in (
        (files, 4, r"must hold 10 images of 4 px, got shape \(9, 3, 4, 4\)"),
        *((files, size, "image_size must be") for size in (0, -3, 100_000, "large")),
        ([], 4, "must have one image or more, got none"),
        ([tmp_path / "gone.jpg"], 4, r"got \S+gone.jpg: No such file"),
    ):
        with pytest.raises(InputError, match=message):
            cached_images(some, size, out)


@pytest.mark.skipif(not STATUS.exists(), reason="memory is read from /proc")
def test_memory_is_bounded(tmp_path):
    """157 MB of pixels; what is held at a time is twice 8 MB and a picture a thread."""
    seen = []

    def note(*_):
        (line,) = (line for line in STATUS.read_text().splitlines() if line.startswith("RssAnon"))
        seen.append(int(line.split()[1]) / 1024)

    note()
    files = [noisy_jpeg(tmp_path / "in.jpg", seed=0)] * 200
    assert cached_images(files, 512, tmp_path / "out", progress=note)[0].nbytes > 157e6
    assert max(seen) - seen[0] < 60


def made(tmp_path, size=4):
    files = sorted((tmp_path / "in").glob("*")) or pictures(tmp_path / "in", 3)
    cached_images(files, size, tmp_path / "cache", label="my pictures")
    return next((tmp_path / "cache").glob(f"my-pictures-{size}px-*"))


def test_caches_are_found_with_size_and_days_since_their_use_and_removed(tmp_path):
    small, large = made(tmp_path, 4), made(tmp_path, 40)
    (large / f"rows-{HEX20}.npy").write_bytes(b"x" * 1000)
    (large / f".unfinished-{HEX32}.npy").write_bytes(b"x" * 10)
    aged(small, 20), aged(large, 20)
    made(tmp_path, 4)  # used again
    caches = find_caches(tmp_path / "cache")
    assert {cache.path for cache in caches} == {small, large}
    for cache in caches:
        assert cache.state == "whole"
        assert cache.size == sum(file.stat().st_size for file in cache.path.iterdir())
        assert cache.days == pytest.approx(20 if cache.path == large else 0, abs=0.01)
    (old,) = find_caches(tmp_path / "cache", older_than=10)
    assert old.path == large
    assert remove_caches([old, old]) == old.size  # one that is gone already is no error
    assert list((tmp_path / "cache").iterdir()) == [small]


@pytest.mark.parametrize("start", ["", ".unfinished-"])
def test_an_interrupted_one_goes_and_one_being_written_stays(tmp_path, start):
    left = tmp_path / f"{start}my-pictures-4px-{HEX20}{f'-{HEX32}' if start else ''}"
    left.mkdir()
    (item,) = find_caches(tmp_path)
    assert (item.size, item.state, remove_caches([item])) == (0, "being written", 0)
    (left / f".unfinished-{HEX32}.npy").write_bytes(b"x" * 100)
    for hours, state, freed in ((0.5, "being written", 0), (2, "interrupted", 100)):
        (item,) = find_caches(aged(left, hours / 24).parent)
        assert (item.size, item.state, remove_caches([item])) == (100, state, freed)
    assert not left.exists()


def test_what_is_not_ours_is_left_alone(tmp_path):
    ours, folder, elsewhere = made(tmp_path), tmp_path / "cache", tmp_path / "elsewhere"
    letter, nested = folder / f"thesis-4px-{HEX20}", folder / f"other-4px-{HEX20}" / "images.npy"
    for place in (letter, nested, folder / "openml", folder / "photos", elsewhere):
        place.mkdir(parents=True)
    (letter / "letter.txt").write_text("not a cache")
    (folder / f"file-4px-{HEX20}").write_text("a file")
    (elsewhere / "images.npy").touch()
    (folder / f"linked-4px-{HEX20}").symlink_to(elsewhere)
    caches, before = find_caches(folder), {path.name for path in folder.iterdir()}
    assert [cache.path for cache in caches] == [ours]
    remove_caches(caches)
    assert {path.name for path in folder.iterdir()} == before - {ours.name}
    assert (elsewhere / "images.npy").exists()
    for place, sentence in (
        (elsewhere, "must hold decoded images, got .*elsewhere with 'images.npy'"),
        (tmp_path / "gone", "must be there, got .*gone"),
    ):
        with pytest.raises(InputError, match=sentence):
            find_caches(place)
    with pytest.raises(InputError, match=r"older_than must be >= 0 .*got -1"):
        find_caches(folder, older_than=-1)
    (tmp_path / "new" / "openml").mkdir(parents=True)
    assert find_caches(tmp_path / "new") == []  # a cache folder, as yet without images


def test_half_a_cache_is_never_used(tmp_path, monkeypatch):
    ours = made(tmp_path)
    (item,) = find_caches(tmp_path / "cache")

    def stop(path):
        raise KeyboardInterrupt

    monkeypatch.setattr("curvewise.data.cache.shutil.rmtree", stop)
    with pytest.raises(KeyboardInterrupt):
        remove_caches([item])
    (ours / "images.npy").write_bytes(b"half")
    (item,) = find_caches(aged(ours, 1).parent)
    assert item.state == "interrupted"
    made(tmp_path)


# Rows of memory maps without the memory

VALUES = np.random.default_rng(0).integers(0, 256, (50, 3, 4, 4), dtype=np.uint8)


@pytest.fixture
def images(tmp_path):
    np.save(tmp_path / "images.npy", VALUES)
    return np.load(tmp_path / "images.npy", mmap_mode="r")


@pytest.fixture
def all_is_large(monkeypatch):
    monkeypatch.setattr(mapped, "SMALL_BYTES", 0)
    monkeypatch.setattr(mapped, "PIECE_BYTES", 100)  # two rows at a time


def test_neighbours_are_a_view_and_few_rows_a_copy_in_memory(images, tmp_path):
    rows = mapped_rows(images, np.arange(10, 30))
    assert np.shares_memory(rows, images)
    np.testing.assert_array_equal(rows, VALUES[10:30])
    rows = mapped_rows(images, np.array([4, 2, 2]))
    assert getattr(rows, "filename", None) is None
    np.testing.assert_array_equal(rows, VALUES[[4, 2, 2]])
    assert mapped_rows(images, np.array([], dtype=np.int64)).shape == (0, 3, 4, 4)
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.usefixtures("all_is_large")
def test_many_rows_are_mapped_from_a_file_of_their_own(images, tmp_path):
    index = np.random.default_rng(1).permutation(50)[:33]
    rows = mapped_rows(images, index)
    assert isinstance(rows, np.memmap)
    assert not rows.flags.writeable
    np.testing.assert_array_equal(rows, VALUES[index])
    written = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    np.testing.assert_array_equal(mapped_rows(images, index), VALUES[index])
    assert {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == written
    assert len(written) == 2


@pytest.mark.usefixtures("all_is_large")
def test_rows_of_views_are_not_mixed_up(images, tmp_path):
    """The same index into different views, into rows of rows, and into numbers of another type."""
    index, features = np.array([0, 3, 1]), tmp_path / "features.npy"
    numbers = np.random.default_rng(0).normal(size=(20, 7)).astype(np.float32)
    np.save(features, numbers)
    for view, values in (
        (images, VALUES),
        (images[5:], VALUES[5:]),
        (images[:-5], VALUES[:-5]),
        (images[5:][2:], VALUES[7:]),
        (images[::2], VALUES[::2]),
        (mapped_rows(images, np.arange(0, 50, 3)), VALUES[::3]),
        (np.load(features, mmap_mode="r"), numbers),
    ):
        rows = mapped_rows(view, index)
        assert rows.dtype == values.dtype
        np.testing.assert_array_equal(rows, values[index])


@pytest.mark.usefixtures("all_is_large")
def test_an_interrupted_copy_leaves_nothing(images, tmp_path, monkeypatch):
    def fail(file):
        raise KeyboardInterrupt

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(KeyboardInterrupt):
        mapped_rows(images, np.array([3, 1]))
    assert [path.name for path in tmp_path.iterdir()] == ["images.npy"]


@pytest.mark.parametrize("most", [50, 10**9])
def test_fewer_rows_than_there_may_be_are_a_file_of_numpys(tmp_path, most, monkeypatch):
    monkeypatch.setattr(mapped.shutil, "disk_usage", lambda _: SimpleNamespace(free=1e15))
    write_rows(tmp_path / "a.npy", [VALUES[:3], VALUES[3:40]], (most, 3, 4, 4), np.uint8)
    np.testing.assert_array_equal(np.load(tmp_path / "a.npy"), VALUES[:40])
    np.save(tmp_path / "b.npy", VALUES[:40])
    assert (tmp_path / "a.npy").read_bytes() == (tmp_path / "b.npy").read_bytes()


def test_space_is_asked_for_first(tmp_path, monkeypatch):
    monkeypatch.setattr(mapped.shutil, "disk_usage", lambda _: SimpleNamespace(free=1e9))
    with pytest.raises(InputError, match=r"must have 2.0 GB free, got 1.0 GB"):
        write_rows(tmp_path / "a.npy", [], (2000, 10**6), np.uint8)
    assert list(tmp_path.iterdir()) == []
