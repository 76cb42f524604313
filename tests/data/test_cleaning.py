"""Cleaning caches away: what is ours and old enough, and nothing else."""

import os
import time

import pytest
from image_samples import picture

from curvewise.base.errors import InputError
from curvewise.data.cache import cached_images
from curvewise.data.cleaning import FoundCache, find_caches, remove_caches

HEX20, HEX32 = "0123456789abcdef0123", "0123456789abcdef" * 2


def cache(tmp_path, size=4, count=3):
    files = [picture(tmp_path / "in" / f"{i}.png", (i, 0, 0)) for i in range(count)]
    cached_images(files, size, tmp_path / "cache", label="my pictures")
    return next((tmp_path / "cache").glob(f"my-pictures-{size}px-*"))


def aged(path, days):
    moment = time.time() - 86_400 * days
    for file in [*path.iterdir(), path]:
        os.utime(file, (moment, moment))
    return path


def interrupted(folder, hours):
    left = folder / f".unfinished-my-pictures-4px-{HEX20}-{HEX32}"
    left.mkdir(parents=True)
    (left / "images.npy").write_bytes(b"x" * 100)
    return aged(left, hours / 24)


def test_caches_are_found_with_size_and_days_and_removed(tmp_path):
    small, large = cache(tmp_path, 4), cache(tmp_path, 40)
    (large / f"rows-{HEX20}.npy").write_bytes(b"x" * 1000)
    (large / f".unfinished-{HEX32}").write_bytes(b"x" * 10)
    aged(large, 20)
    found = find_caches(tmp_path / "cache")
    assert {item.path for item in found} == {small, large}
    for item in found:
        assert item.state == "whole"
        assert item.size == sum(file.stat().st_size for file in item.path.iterdir())
        assert item.days == pytest.approx(20 if item.path == large else 0, abs=0.01)
    old = find_caches(tmp_path / "cache", older_than=10)
    assert [item.path for item in old] == [large]
    assert remove_caches(old) == old[0].size
    assert list((tmp_path / "cache").iterdir()) == [small]
    assert find_caches(tmp_path / "cache", older_than=0.5) == []


def test_days_count_from_the_last_use(tmp_path):
    found = aged(cache(tmp_path), 20)
    cached_images(sorted((tmp_path / "in").iterdir()), 4, tmp_path / "cache", label="my pictures")
    (item,) = find_caches(tmp_path / "cache")
    assert item.path == found
    assert item.days < 1


def test_an_interrupted_one_goes_and_one_being_written_stays(tmp_path):
    left = interrupted(tmp_path / "cache", hours=2)
    (item,) = find_caches(tmp_path / "cache")
    assert (item.state, item.size) == ("interrupted", 100)
    aged(left, 0.5 / 24)
    (fresh,) = find_caches(tmp_path / "cache")
    assert fresh.state == "being written"
    assert remove_caches([fresh]) == 0
    assert left.exists()
    assert remove_caches([item]) == 100
    assert not left.exists()
    empty = tmp_path / "cache" / f".unfinished-a-4px-{HEX20}-{HEX32}"
    empty.mkdir()
    assert [(c.size, c.state) for c in find_caches(tmp_path / "cache")] == [(0, "being written")]


def test_what_is_not_ours_is_left_alone(tmp_path):
    ours, folder = cache(tmp_path), tmp_path / "cache"
    with_letter = folder / f"thesis-4px-{HEX20}"
    with_letter.mkdir()
    (with_letter / "letter.txt").write_text("not a cache")
    with_folder = folder / f"other-4px-{HEX20}"
    (with_folder / "images.npy").mkdir(parents=True)
    (folder / f"file-4px-{HEX20}").write_text("a file")
    (folder / "openml").mkdir()
    (folder / "photos").mkdir()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "images.npy").touch()
    (folder / f"linked-4px-{HEX20}").symlink_to(elsewhere)
    found = find_caches(folder)
    assert [item.path for item in found] == [ours]
    before = {path.name for path in folder.iterdir()}
    remove_caches(found)
    assert {path.name for path in folder.iterdir()} == before - {ours.name}
    assert (elsewhere / "images.npy").exists()


def test_folders_that_are_no_cache_are_refused(tmp_path):
    (tmp_path / "photos" / "holiday").mkdir(parents=True)
    with pytest.raises(InputError, match=r"must hold decoded images, got .*photos with 'holiday'"):
        find_caches(tmp_path / "photos")
    with pytest.raises(InputError, match=r"must be there, got .*gone"):
        find_caches(tmp_path / "gone")
    with pytest.raises(InputError, match=r"older_than must be >= 0 .*got -1"):
        find_caches(tmp_path, older_than=-1)
    (tmp_path / "new" / "openml").mkdir(parents=True)
    assert find_caches(tmp_path / "new") == []  # a cache folder, as yet without images


def test_half_a_cache_is_never_left_under_its_name(tmp_path, monkeypatch):
    ours = cache(tmp_path)
    (item,) = find_caches(tmp_path / "cache")

    def stop(path):
        raise KeyboardInterrupt

    monkeypatch.setattr("curvewise.data.cleaning.shutil.rmtree", stop)
    with pytest.raises(KeyboardInterrupt):
        remove_caches([item])
    assert not ours.exists()
    (left,) = (tmp_path / "cache").iterdir()
    aged(left, 1)
    assert [found.state for found in find_caches(tmp_path / "cache")] == ["interrupted"]


def test_a_cache_that_is_gone_already_is_no_error(tmp_path):
    ours = cache(tmp_path)
    gone = FoundCache(ours.with_name(f"gone-4px-{HEX20}"), 5, 0.0, "whole")
    (item,) = find_caches(tmp_path / "cache")
    assert remove_caches([gone, item]) == item.size
