"""Sources by name: every one is there, options reach it, beta thins the training part only."""

import importlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from curvewise.base.errors import InputError
from curvewise.data import embedded
from curvewise.data.options import SourceOptions
from curvewise.data.registry import SOURCES, list_sources, load_task
from curvewise.data.task import Task


@pytest.mark.parametrize("source", SOURCES.values(), ids=lambda source: source.name)
def test_every_source_has_its_function(source: object) -> None:
    module = importlib.import_module(f"curvewise.data.{source.module}")
    function = getattr(module, source.function)
    assert function.__module__ == module.__name__
    assert function.__doc__
    assert source.example.partition(":")[0] == source.name


def test_the_issues_sources_are_all_there() -> None:
    assert set(SOURCES) == {
        *("digits", "fashion-mnist", "cifar10", "cifar100", "dogs-vs-cats", "melanoma"),
        *("folder", "table", "npz", "keel", "openml"),
    }


def test_sources_are_loaded_when_they_are_used() -> None:
    script = (
        "import sys, curvewise.data.registry as registry\n"
        "names = [f'curvewise.data.{s.module}' for s in registry.SOURCES.values()]\n"
        "assert not [name for name in names if name in sys.modules]\n"
        "registry.load_task('digits')\n"
        "assert [name for name in names if name in sys.modules] == ['curvewise.data.embedded']\n"
    )
    finished = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert finished.returncode == 0, finished.stderr


def test_beta_thins_the_training_part_only() -> None:
    whole, thin = load_task("digits:8"), load_task("digits:8", beta=50)
    assert whole.class_counts == (811, 87)
    assert thin.class_counts == (811, 16)
    np.testing.assert_array_equal(thin.x_test, whole.x_test)
    assert load_task("digits:8", beta=50).fingerprint == thin.fingerprint
    assert load_task("digits:8", beta=50, seed=1).fingerprint != thin.fingerprint


def test_every_option_reaches_the_source(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    seen = []

    def spy(argument: str, options: SourceOptions) -> Task:
        seen.append((argument, options))
        return digits("8", SourceOptions())

    digits = embedded.digits
    monkeypatch.setattr(embedded, "digits", spy)

    def progress(what: str, done: int, total: int) -> None:
        return None

    load_task(
        "digits:a:b",
        seed=3,
        data_dir=str(tmp_path),
        cache_dir=tmp_path / "cache",
        image_size=64,
        target="t",
        positive="p",
        group="g",
        progress=progress,
    )
    wanted = SourceOptions(tmp_path, tmp_path / "cache", 3, 64, "t", "p", "g", progress)
    assert seen == [("a:b", wanted)]


def test_where_files_are_looked_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("x,y\n" + "".join(f"{i},{i % 2}\n" for i in range(20)))
    monkeypatch.delenv("CURVEWISE_DATA", raising=False)
    with pytest.raises(InputError, match=r"must name a file that is there, got 't.csv'"):
        load_task("table:t.csv", target="y")
    assert load_task("table:t.csv", target="y", data_dir=tmp_path).x_train.shape == (16, 1)
    monkeypatch.setenv("CURVEWISE_DATA", str(tmp_path))
    assert load_task("table:t.csv", target="y").x_train.shape == (16, 1)


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        ("cifar:cat/dog", "got 'cifar'; did you mean 'cifar10'?"),
        ("digit", "got 'digit'; did you mean 'digits'?"),
        ("", "a data source must be one of digits, table, "),
        ("data.csv", "a data source must be one of digits, table, "),
    ],
)
def test_an_unknown_source_is_refused(source: str, sentence: str) -> None:
    with pytest.raises(InputError) as caught:
        load_task(source)
    assert sentence in str(caught.value)


def test_a_wrong_beta_is_refused_before_anything_is_read() -> None:
    with pytest.raises(InputError, match=r"beta must be >= 1 and finite, got 0.5"):
        load_task("table:not-there.csv", beta=0.5)


def test_the_list_says_what_is_there_and_how_to_get_the_rest(tmp_path: Path) -> None:
    found = {info.name: info for info in list_sources(data_dir=tmp_path)}
    assert list(found) == list(SOURCES)
    for name in ("digits", "table", "npz", "folder", "openml"):
        assert found[name].missing is None
    for name in ("cifar10", "cifar100", "dogs-vs-cats", "melanoma"):
        assert str(tmp_path) in str(found[name].missing)
    (tmp_path / "yeast9.dat").write_text("1,a\n")
    assert {info.name: info for info in list_sources(data_dir=tmp_path)}["keel"].missing is None
