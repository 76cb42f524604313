"""Where sources look by default, and settings that a source refuses."""

from pathlib import Path

import pytest

from curvewise.base.errors import InputError
from curvewise.data.options import SourceOptions


def test_given_folders_win():
    options = SourceOptions(data_dir=Path("a"), cache_dir=Path("b"))
    assert (options.data_folder, options.cache_folder) == (Path("a"), Path("b"))


def test_defaults(monkeypatch, tmp_path):
    assert SourceOptions().data_folder == Path("data")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert SourceOptions().cache_folder == tmp_path / "curvewise"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert SourceOptions().cache_folder == tmp_path / "home" / ".cache" / "curvewise"


def test_refuse_names_the_setting_and_its_value():
    options = SourceOptions(image_size=64)
    options.refuse("cifar10", "target", "group")
    with pytest.raises(InputError, match="cifar10 must be read without --image-size, got '64'"):
        options.refuse("cifar10", "target", "image_size")
