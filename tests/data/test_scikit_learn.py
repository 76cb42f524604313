"""The digits, and OpenML on recorded responses, which scikit-learn carries for its own tests."""

import io
import re
from email.message import Message
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError

import numpy as np
import pytest
from sklearn.datasets import _openml, load_digits

from curvewise.base.errors import InputError
from curvewise.data.tables import digits, openml
from curvewise.data.task import SourceOptions

pytestmark = [
    pytest.mark.filterwarnings("ignore:OpenML raised a warning on the dataset"),
    pytest.mark.filterwarnings("ignore:column .* is dropped"),
    pytest.mark.filterwarnings("ignore:values are missing where the training data had none"),
]


@pytest.mark.parametrize("argument", ["", "8", "0"])
def test_one_digit_against_the_rest(argument: str) -> None:
    task = digits(argument, SourceOptions(seed=5))
    digit = argument or "8"
    assert (task.name, task.kind) == (f"digits:{digit}", "features")
    assert task.class_names == (f"not {digit}", digit)
    assert abs(len(task.y_train) - len(task.y_test)) == 1  # of 1,797
    assert abs(int(task.y_train.sum()) - int(task.y_test.sum())) <= 1
    assert len(task.details["feature_names"]) == 64
    x, y = np.concatenate([task.x_train, task.x_test]), np.concatenate([task.y_train, task.y_test])
    assert x.dtype == np.float32
    # Every image is there once, with its label.
    pixels, numbers = load_digits(return_X_y=True)
    rows = np.column_stack([pixels / 16, numbers == int(digit)])
    assert sorted(np.column_stack([x, y]).tolist()) == sorted(rows.tolist())


def test_the_seed_chooses_the_halves() -> None:
    one, again, other = (digits("8", SourceOptions(seed=seed)) for seed in (0, 0, 1))
    assert one.fingerprint == again.fingerprint != other.fingerprint


KINDS = (("data/features/", "jdf-"), ("data/qualities/", "jdq-"), ("data/", "jd-"))


def recorded(data_id: int) -> Any:
    folder = files("sklearn.datasets.tests.data.openml").joinpath(f"id_{data_id}")
    if not folder.is_dir():
        pytest.skip("this scikit-learn comes without its recorded responses")
    return folder


class Response(io.BytesIO):
    """Bytes with the header that says how they are packed."""

    def info(self) -> Message:
        message = Message()
        message["Content-Encoding"] = "gzip"
        return message


@pytest.fixture
def replay(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Answer requests from the recording; return the addresses asked for."""
    asked: list[str] = []

    def answer(request: Any, **_: object) -> Response:
        address = request.full_url
        asked.append(address)
        data_id = re.search(r"/json/data/(?:\w+/)?(\d+)$", address)
        if data_id is None:
            folder = recorded(int(asked[0].rpartition("/")[2]))
            packed = next(path for path in folder.iterdir() if path.name.endswith(".arff.gz"))
        else:
            kind = next(short for part, short in KINDS if f"/json/{part}" in address)
            packed = recorded(int(data_id[1])).joinpath(f"api-v1-{kind}{data_id[1]}.json.gz")
        return Response(packed.read_bytes())

    monkeypatch.setattr(_openml, "urlopen", answer)
    return asked


def test_a_table_comes_with_its_own_target_and_is_kept(tmp_path: Path, replay: list[str]) -> None:
    options = SourceOptions(cache_dir=tmp_path)
    task = openml("3", options)  # kr-vs-kp, king and rook against king and pawn
    assert (task.name, task.kind, task.class_names) == ("openml:3", "features", ("won", "nowin"))
    y = np.concatenate([task.y_train, task.y_test])
    assert (len(y), int(y.sum())) == (3196, 1527)  # as OpenML lists them
    before = len(replay)
    assert before > 0
    assert openml("3", options).fingerprint == task.fingerprint
    assert len(replay) == before
    assert list((tmp_path / "openml").iterdir())


def test_a_table_with_names_and_holes_can_be_used(tmp_path: Path, replay: list[str]) -> None:
    task = openml("40945", SourceOptions(cache_dir=tmp_path))  # passengers of the Titanic
    assert task.details["target"] == "survived"
    y = np.concatenate([task.y_train, task.y_test])
    assert (len(y), int(y.sum())) == (1309, 500)
    assert {"age", "age=(missing)", "sex=female", "pclass"} <= set(task.details["feature_names"])
    assert {"name", "ticket"} <= set(task.details["dropped_columns"])
    assert np.isfinite(task.x_train).all()
    assert np.isfinite(task.x_test).all()
    other = openml("40945", SourceOptions(cache_dir=tmp_path, target="sex", group="ticket"))
    assert other.class_names == ("male", "female")
    with pytest.raises(InputError, match="got 'survive'; did you mean 'survived'"):
        openml("40945", SourceOptions(cache_dir=tmp_path, target="survive"))


def test_what_is_out_of_reach_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(request: Any, **_: object) -> Response:
        raise HTTPError(request.full_url, 412, "Unknown dataset", Message(), io.BytesIO(b"{}"))

    monkeypatch.setattr(_openml, "urlopen", refuse)
    with pytest.raises(InputError, match=r"openml:99 must be in .*openml or on openml.org"):
        openml("99", SourceOptions(cache_dir=tmp_path))

    def offline(request: Any, **_: object) -> Response:
        raise URLError("no network")

    monkeypatch.setattr(_openml, "urlopen", offline)
    monkeypatch.setattr(_openml.time, "sleep", lambda _: None)
    with (
        pytest.warns(UserWarning, match="network error"),
        pytest.raises(InputError, match=r"on openml.org within reach, got: .*no network"),
    ):
        openml("99", SourceOptions(cache_dir=tmp_path))


@pytest.mark.parametrize("default", [None, "", "a,b"])
def test_without_one_target_it_must_be_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, default: str | None
) -> None:
    import sklearn.datasets
    from sklearn.utils import Bunch

    found = Bunch(frame=None, details={"default_target_attribute": default})
    monkeypatch.setattr(sklearn.datasets, "fetch_openml", lambda **_: found)
    with pytest.raises(InputError, match="openml:5 needs its column of classes as --target"):
        openml("5", SourceOptions(cache_dir=tmp_path))
