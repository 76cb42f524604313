"""The image cache: right pixels, right rows, once, whole or not at all, in bounded memory."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from image_samples import noisy_jpeg, picture

from curvewise.base.errors import InputError
from curvewise.data import cache
from curvewise.data.cache import cached_images

STATUS = Path("/proc/self/status")


def pictures(folder: Path, n: int) -> list[Path]:
    """Images of one colour each, told apart by it."""
    return [picture(folder / f"{i}.png", (i % 256, i // 256, 7)) for i in range(n)]


def numbers(images: np.ndarray) -> list[int]:
    return (images[:, 0, 0, 0] + 256 * images[:, 1, 0, 0].astype(int)).tolist()


@pytest.mark.parametrize("workers", [1, 3])
def test_rows_are_the_files_in_order(tmp_path, monkeypatch, workers):
    monkeypatch.setattr(cache, "CHUNK_BYTES", 10 * 3 * 4 * 4)
    files = pictures(tmp_path / "in", 57)[::-1]
    calls = []
    cached = cached_images(
        files,
        4,
        tmp_path / "out",
        workers=workers,
        label="my pictures",
        progress=lambda *step: calls.append(step),
    )
    assert cached.images.shape == (57, 3, 4, 4)
    assert cached.images.dtype == np.uint8
    assert isinstance(cached.images, np.memmap)
    assert not cached.images.flags.writeable
    assert numbers(cached.images) == list(range(57))[::-1]
    assert (cached.images[:, 2] == 7).all()
    assert cached.kept.tolist() == list(range(57))
    assert cached.broken == ()
    assert calls == [("decoding my pictures", i + 1, 57) for i in range(57)]
    (folder,) = (tmp_path / "out").iterdir()
    assert folder.name.startswith("my-pictures-4px-")


def test_decoded_once_and_again_when_something_changed(tmp_path):
    files = pictures(tmp_path / "in", 5)
    calls = []

    def run(some=files, size=4):
        before = len(calls)
        cached = cached_images(
            some, size, tmp_path / "out", progress=lambda *step: calls.append(step)
        )
        return len(calls) > before, numbers(cached.images)

    assert run() == (True, [0, 1, 2, 3, 4])
    assert run() == (False, [0, 1, 2, 3, 4])
    assert run(size=5) == (True, [0, 1, 2, 3, 4])
    assert run(files[1:]) == (True, [1, 2, 3, 4])
    assert run(files[::-1]) == (True, [4, 3, 2, 1, 0])
    status = files[2].stat()
    picture(files[2], (9, 0, 7))
    os.utime(files[2], ns=(status.st_atime_ns, status.st_mtime_ns + 1))
    assert run() == (True, [0, 1, 9, 3, 4])


def test_broken_images_are_named_counted_and_left_out(tmp_path):
    files = pictures(tmp_path / "in", 300)
    files[0].write_bytes(b"")
    files[150].write_bytes(files[150].read_bytes()[:-30])
    files[299].write_text("not an image")
    for _ in range(2):  # from the files, then from the cache
        with pytest.warns(UserWarning, match=r"3 of 300 images unreadable: \S+0.png \(the file"):
            cached = cached_images(files, 4, tmp_path / "out")
        kept = [i for i in range(300) if i not in (0, 150, 299)]
        assert cached.kept.tolist() == kept
        assert numbers(cached.images) == kept
        assert [path for path, _ in cached.broken] == [str(files[i]) for i in (0, 150, 299)]
        assert all(reason for _, reason in cached.broken)


def test_more_than_one_percent_broken_is_an_error(tmp_path):
    files = pictures(tmp_path / "in", 300)
    for i in range(4):
        files[10 * i].write_bytes(b"")
    with pytest.raises(InputError, match=r"at most 1 % .* got 4 of 300 images") as caught:
        cached_images(files, 4, tmp_path / "out")
    assert str(files[30]) in str(caught.value)
    assert list((tmp_path / "out").iterdir()) == []
    with pytest.raises(InputError, match="got 1 of 99"):
        cached_images(files[30:31] + files[201:299], 4, tmp_path / "out")


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError, OSError])
def test_an_interrupted_run_leaves_nothing(tmp_path, error):
    def stop(what, done, total):
        if done == 20:
            raise error

    files = pictures(tmp_path / "in", 40)
    with pytest.raises(error):
        cached_images(files, 4, tmp_path / "out", progress=stop)
    assert list((tmp_path / "out").iterdir()) == []


KILLED = """
import os, signal, sys
from pathlib import Path
from curvewise.data.cache import cached_images
def stop(what, done, total):
    if done == 20:
        os.kill(os.getpid(), signal.SIGKILL)
cached_images(sorted(Path(sys.argv[1]).iterdir()), 4, Path(sys.argv[2]), progress=stop)
"""


def test_a_killed_run_shows_no_cache_and_is_cleared_away_later(tmp_path):
    pictures(tmp_path / "in", 40)
    files, out = sorted((tmp_path / "in").iterdir()), tmp_path / "out"
    killed = subprocess.run([sys.executable, "-c", KILLED, tmp_path / "in", out], check=False)
    assert killed.returncode == -signal.SIGKILL
    (left,) = out.iterdir()
    assert left.name.startswith(".unfinished-")
    first = cached_images(files, 4, out)
    assert len(first.images) == 40
    assert left.exists()  # it might be another process at work
    for path in (left, left / "images.npy"):
        os.utime(path, (1, 1))
    (finished,) = (path for path in out.iterdir() if path != left)
    finished.rename(out / "elsewhere")
    cached_images(files, 4, out)
    assert not left.exists()


def test_two_at_once_agree(tmp_path):
    files = pictures(tmp_path / "in", 10)
    inner = []

    def other_process(what, done, total):
        if done == 5:
            inner.append(cached_images(files, 4, tmp_path / "out"))

    outer = cached_images(files, 4, tmp_path / "out", progress=other_process)
    np.testing.assert_array_equal(outer.images, inner[0].images)
    assert len(list((tmp_path / "out").iterdir())) == 1


def test_a_damaged_cache_is_told(tmp_path):
    files = pictures(tmp_path / "in", 10)
    cached_images(files, 4, tmp_path / "out")
    (folder,) = (tmp_path / "out").iterdir()
    whole = (folder / "images.npy").read_bytes()
    (folder / "images.npy").write_bytes(whole[:-5])
    with pytest.raises(InputError, match=f"the cache {folder} must be whole.* remove it"):
        cached_images(files, 4, tmp_path / "out")
    np.save(folder / "images.npy", np.zeros((9, 3, 4, 4), np.uint8))
    with pytest.raises(InputError, match=r"must hold 10 images of 4 px, got shape \(9, 3, 4, 4\)"):
        cached_images(files, 4, tmp_path / "out")


@pytest.mark.parametrize("size", [0, -3, 100_000, "large"])
def test_bad_sizes(tmp_path, size):
    with pytest.raises(InputError, match="image_size must be"):
        cached_images(pictures(tmp_path / "in", 1), size, tmp_path / "out")


def test_no_files_and_missing_files(tmp_path):
    with pytest.raises(InputError, match="must have one image or more, got none"):
        cached_images([], 4, tmp_path / "out")
    with pytest.raises(InputError, match=r"got \S+gone.jpg: No such file"):
        cached_images([tmp_path / "gone.jpg"], 4, tmp_path / "out")


@pytest.mark.skipif(not STATUS.exists(), reason="memory is read from /proc")
def test_memory_is_bounded(tmp_path):
    """310 MB of pixels; what is held at a time is 32 MB and a picture a thread."""

    def anonymous():
        lines = STATUS.read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon")) / 1024

    def watch(what, done, total):
        if done == 1:
            time.sleep(2)  # a slow disk: the threads may run ahead, but not far
        seen.append(anonymous())

    files = [noisy_jpeg(tmp_path / "in.jpg", seed=0)] * 400
    before, seen = anonymous(), []
    cached = cached_images(files, 512, tmp_path / "out", workers=2, progress=watch)
    assert cached.images.nbytes > 300e6
    assert max(seen) - before < 100
