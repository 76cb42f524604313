"""The table of sample counts: with all of the data, a part of them, or none."""

import pickle
from math import floor
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from curvewise.paper.csv_files import rounded
from curvewise.paper.experiment import Reading
from curvewise.paper.profiles import Profile
from curvewise.paper.running import run_experiment
from curvewise.paper.samples import PUBLISHED, SAMPLES
from curvewise.sweep import executors
from curvewise.sweep.problems import Problems

CIFAR10 = ["airplane", "automobile", "bird", "cat", "deer", "dog"]
CIFAR10 += ["frog", "horse", "ship", "truck"]
RULE = "floor(majority / beta), complete data"


def collected(folder: Path):
    """The rows, as they come back from their files."""
    problems = Problems(data_dir=folder, cache_dir=folder / "cache")
    return rounded(SAMPLES.collect(Reading(Profile(), None, problems)))


def presented(data):
    outcome = SAMPLES.present(data, Profile())
    counts, sources = outcome.tables.values()
    return counts, sources, outcome.verdict


def write_cifar10(folder: Path, cats: int, dogs: int) -> None:
    """Five batches with so many cats and dogs each, and a test batch with as many."""
    home = folder / "cifar-10-batches-py"
    home.mkdir(parents=True)
    labels = [3] * cats + [5] * dogs + [0]
    content = {b"data": np.zeros((len(labels), 3072), np.uint8), b"labels": labels}
    for name in (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"):
        (home / name).write_bytes(pickle.dumps(content, protocol=4))
    names = {b"label_names": [name.encode() for name in CIFAR10]}
    (home / "batches.meta").write_bytes(pickle.dumps(names, protocol=4))


def as_published():
    """Rows that would be counted if everything were as the paper prints it."""
    rows = []
    for line in PUBLISHED:
        for beta, minority in line.minority.items():
            counts = {"majority": line.majority, "minority": minority}
            rows.append({"task": line.task, "part": "train", "beta": beta, **counts})
        counts = dict(zip(("majority", "minority"), line.test, strict=True))
        rows.append({"task": line.task, "part": "test", "beta": None, **counts})
    sources = [{"task": line.task, "state": "counted", "notes": None} for line in PUBLISHED]
    return {"": rows, "sources": sources}


def test_without_any_data_there_is_still_a_table(tmp_path):
    counts, sources, verdict = presented(collected(tmp_path))
    assert len(counts) == 16
    for row in counts:
        assert (row["majority"], row["minority"], row["agrees"]) == (None, None, None)
        assert row["minority (published)"] > 0
    assert [row["state"] for row in sources] == ["not there"] * 4
    assert verdict.startswith("0 of 0 counted lines")
    assert "CIFAR-10 pair and Household and Dogs vs. Cats and Melanoma cannot be counted" in verdict


def test_what_is_there_is_counted(tmp_path):
    write_cifar10(tmp_path, cats=60, dogs=50)
    data = collected(tmp_path)
    counts, sources, verdict = presented(data)
    found = [(row["part"], row["majority"], row["minority"], row["agrees"]) for row in counts[:4]]
    assert found == [
        ("train, beta = 10", 300, 30, "no"),
        ("train, beta = 100", 300, 3, "no"),
        ("train, beta = 200", 300, 1, "no"),
        ("test", 60, 50, "no"),
    ]
    assert all(row["majority"] is None for row in counts[4:])
    assert "of CIFAR-10 pair there are other samples than the paper's here" in verdict
    assert "300 samples of cat, the complete source 5,000" in sources[0]["as its files are"]
    assert str(tmp_path) not in str(data)


def test_data_that_cannot_be_used_are_no_error(tmp_path):
    write_cifar10(tmp_path, cats=6, dogs=0)
    (tmp_path / "dogs-vs-cats" / "train").mkdir(parents=True)
    for name in ("cat.0.jpg", "dog.0.jpg"):  # fewer than the test part takes
        Image.new("RGB", (8, 8)).save(tmp_path / "dogs-vs-cats" / "train" / name)
    data = collected(tmp_path)
    counts, sources, verdict = presented(data)
    assert all(row["agrees"] is None for row in counts)
    assert [row["state"] for row in sources] == [
        "not usable: `curvewise data check cifar10:cat/dog` says why",
        "not there",
        "not usable: `curvewise data check dogs-vs-cats` says why",
        "not there",
    ]
    assert "Dogs vs. Cats and Melanoma cannot be counted here" in verdict
    assert str(tmp_path) not in str(data)


def test_the_published_counts_agree_with_themselves_and_not_with_the_rule():
    counts, _, verdict = presented(as_published())
    assert {row["agrees"] for row in counts} == {"yes"}
    assert verdict.startswith("16 of 16 counted lines agree with the published table; all lines")
    for row in counts:
        if row["part"] == "test":
            assert row[RULE] is None
        else:
            beta = int(row["part"].rpartition(" ")[2])
            assert row[RULE] == floor(row["majority (published)"] / beta)
    apart = [
        (row["data"], row[RULE], row["minority (published)"])
        for row in counts
        if row[RULE] not in (None, row["minority (published)"])
    ]
    assert apart == [
        ("Household", 12, 13),
        ("Dogs vs. Cats", 1150, 1500),
        ("Dogs vs. Cats", 115, 150),
        ("Dogs vs. Cats", 57, 75),
        ("Melanoma", 3420, 4071),
    ]
    assert "in 5 of 12 places" in verdict
    assert "an imbalance of 10.08, not 12" in verdict


@pytest.mark.parametrize(
    ("task", "part", "name", "told"),
    [
        ("cifar100:household", "train", "majority", True),
        ("cifar100:household", "test", "minority", True),
        ("cifar100:household", "train", "minority", False),  # as a rule may leave of them
    ],
)
def test_a_rule_is_told_from_other_samples(task, part, name, told):
    data = as_published()
    for row in data[""]:
        if (row["task"], row["part"]) == (task, part):
            row[name] -= 1
    counts, _, verdict = presented(data)
    assert sum(row["agrees"] == "no" for row in counts) == (3 if part == "train" else 1)
    assert ("of Household there are other samples" in verdict) is told


def test_the_table_is_run_like_any_other(tmp_path):
    write_cifar10(tmp_path / "data", cats=20, dogs=20)
    problems = Problems(data_dir=tmp_path / "data", cache_dir=tmp_path / "cache")
    out = tmp_path / "out"
    found = run_experiment(SAMPLES, Profile("paper"), out, executors.serial(), problems)
    assert [file.name for file in found.files] == ["table-samples.csv", "table-samples-sources.csv"]
    assert found.outcome.figures == {}
    assert SAMPLES.needs(Profile()) == []
