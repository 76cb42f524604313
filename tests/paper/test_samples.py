"""The table of sample counts: with all of the data, a part of them, or none."""

import pickle
from math import floor
from pathlib import Path

import numpy as np
import pandas as pd
from PIL import Image

from curvewise.paper.experiment import Reading, results
from curvewise.paper.profiles import Profile
from curvewise.paper.running import read_data, run_experiment, write_data
from curvewise.paper.untrained import PUBLISHED, SAMPLES, sample_table
from curvewise.sweep.executors import Serial
from curvewise.sweep.work import Problems

CIFAR10 = ["airplane", "automobile", "bird", "cat", "deer", "dog"]
CIFAR10 += ["frog", "horse", "ship", "truck"]
RULE = "floor(majority / beta), complete data"


def collected(folder: Path):
    """The frames, as they come back from their files."""
    problems = Problems(data_dir=folder, cache_dir=folder / "cache")
    data = SAMPLES.collect(Reading(Profile(), None, problems, []))
    return read_data(SAMPLES.name, write_data(SAMPLES.name, data, folder))


def agreeing(data):
    """How many of the counted lines agree, by the first claim."""
    row = results(SAMPLES.claims, data).iloc[0]
    return row["better"], row["units"]


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
    """What would be counted if everything were as the paper prints it."""
    rows = []
    for name, line in PUBLISHED.items():
        for beta, minority in line.minority.items():
            counts = {"majority": line.majority, "minority": minority}
            rows.append({"task": name, "part": "train", "beta": beta, **counts})
        counts = dict(zip(("majority", "minority"), line.test, strict=True))
        rows.append({"task": name, "part": "test", "beta": None, **counts})
    return {"": pd.DataFrame(rows).astype({"beta": float})}


def test_without_any_data_there_is_still_a_table(tmp_path):
    data = collected(tmp_path)
    counts = sample_table(data)
    assert len(counts) == 16
    assert counts[["majority", "minority", "agrees"]].isna().all(axis=None)
    assert (counts["minority (published)"] > 0).all()
    assert data["sources"]["state"].to_list() == ["not there"] * 4
    assert results(SAMPLES.claims, data)["verdict"][0] == "not tested here"


def test_what_is_there_is_counted(tmp_path):
    write_cifar10(tmp_path, cats=60, dogs=50)
    data = collected(tmp_path)
    counts = sample_table(data)
    shown = counts[["part", "majority", "minority", "agrees"]][:4].to_numpy().tolist()
    assert shown == [
        ["train, beta = 10", 300, 30, "no"],
        ["train, beta = 100", 300, 3, "no"],
        ["train, beta = 200", 300, 1, "no"],
        ["test", 60, 50, "no"],
    ]
    assert counts["majority"][4:].isna().all()
    assert agreeing(data) == (0, 4)
    assert "300 samples of cat, the complete source 5,000" in data["sources"]["notes"][0]
    assert str(tmp_path) not in str(data)


def test_data_that_cannot_be_used_are_no_error(tmp_path):
    write_cifar10(tmp_path, cats=6, dogs=0)
    (tmp_path / "dogs-vs-cats" / "train").mkdir(parents=True)
    for name in ("cat.0.jpg", "dog.0.jpg"):  # fewer than the test part takes
        Image.new("RGB", (8, 8)).save(tmp_path / "dogs-vs-cats" / "train" / name)
    data = collected(tmp_path)
    assert sample_table(data)["agrees"].isna().all()
    assert data["sources"]["state"].to_list() == [
        "not usable: `curvewise data check cifar10:cat/dog` says why",
        "not there",
        "not usable: `curvewise data check dogs-vs-cats` says why",
        "not there",
    ]
    assert str(tmp_path) not in str(data)


def test_the_published_counts_agree_with_themselves_and_not_with_the_rule():
    data = as_published()
    counts = sample_table(data)
    assert set(counts["agrees"]) == {"yes"}
    assert agreeing(data) == (16, 16)
    ruled = counts[counts["part"] != "test"]
    for row in ruled.to_dict("records"):
        beta = int(row["part"].rpartition(" ")[2])
        assert row[RULE] == floor(row["majority (published)"] / beta)
    assert counts.loc[counts["part"] == "test", RULE].isna().all()
    apart = ruled[ruled[RULE] != ruled["minority (published)"]]
    assert apart[["data", RULE, "minority (published)"]].to_numpy().tolist() == [
        ["Household", 12, 13],
        ["Dogs vs. Cats", 1150, 1500],
        ["Dogs vs. Cats", 115, 150],
        ["Dogs vs. Cats", 57, 75],
        ["Melanoma", 3420, 4071],
    ]
    rule = results(SAMPLES.claims, data).iloc[1]
    assert (rule["better"], rule["units"]) == (7, 12)


def test_the_table_is_run_like_any_other(tmp_path):
    write_cifar10(tmp_path / "data", cats=20, dogs=20)
    problems = Problems(data_dir=tmp_path / "data", cache_dir=tmp_path / "cache")
    out = tmp_path / "out"
    found = run_experiment(SAMPLES, Profile("paper"), out, Serial(), problems)
    assert [file.name for file in found.files] == ["table-samples.csv", "table-samples-sources.csv"]
    assert SAMPLES.needs(Profile()) == []
