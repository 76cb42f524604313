"""What needs no training: rows of the losses' figures against formulas, and the table of counts."""

import pickle
from math import floor, log
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from scipy.integrate import quad
from scipy.optimize import brentq

from curvewise.losses.family import LinearDensity
from curvewise.paper.experiment import Reading, results
from curvewise.paper.profiles import Profile
from curvewise.paper.running import EXPERIMENTS, read_data, write_data
from curvewise.paper.untrained import OMEGAS, PUBLISHED, SAMPLES, sample_table, sides
from curvewise.sweep.work import Problems

NAMES = ("fig-break-even-tau", "fig-contours", "fig-linear-density", "fig-omega-softmax")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """What each of them collects, as it comes back from its files."""
    folder, reading = tmp_path_factory.mktemp("data"), Reading(Profile(), None, Problems(), [])
    frames = {name: EXPERIMENTS[name].collect(reading) for name in NAMES}
    return {name: read_data(name, write_data(name, frames[name], folder)) for name in NAMES}


def equal_costs(omega):
    """The log-odds at which -omega log p = -(1 - omega) log(1 - p)."""

    def gap(p):
        return omega * np.log(p) - (1 - omega) * np.log1p(-p)

    p = brentq(gap, 1e-9, 1 - 1e-9, xtol=1e-14)
    return log(p / (1 - p))


@pytest.mark.parametrize("name", NAMES[:2])
def test_lines_are_the_derivation(name, data):
    for row in data[name]["lines"].itertuples():
        alpha = equal_costs(row.omega)
        assert row.alpha == pytest.approx(alpha, abs=1e-6)
        assert row.slope == pytest.approx(10**row.gamma, rel=1e-6)
        intercept = 10**row.gamma * (row.tau * log(10) + alpha)
        assert row.intercept == pytest.approx(intercept, rel=1e-6, abs=1e-6)


def test_points_are_the_papers_formula_and_those_on_the_wrong_side_are_counted(data):
    points = data["fig-contours"][""]
    z0, z1 = points["z0"], points["z1"]
    assert points.shape == (41**2, 2 + 12)
    for panel, omega, alpha in (
        ("omega = 0.5", 0.5, z1 - z0),
        ("omega = 0.9", 0.9, z1 - z0),
        ("gamma = 0.4", 0.5, z1 / 10**0.4 - z0),
    ):
        expected = omega * np.logaddexp(0, -alpha) - (1 - omega) * np.logaddexp(0, alpha)
        np.testing.assert_allclose(points[panel], expected, rtol=1e-6, atol=1e-9)
    whole, lines = data["fig-break-even-tau"], data["fig-break-even-tau"]["lines"].copy()
    lines.loc[lines["panel"] == "tau = 1", "intercept"] += 1
    z = np.linspace(-5, 5, 41)
    above = np.subtract.outer(z, z) - log(10)
    wrong = np.sum((above > 0) & (above < 1))
    points = 4 * 41**2 - 41  # those on the line of tau = 0 are on neither side
    assert sides({**whole, "lines": lines}) == pytest.approx(1 - wrong / points)


@pytest.mark.parametrize(
    ("name", "panel", "column", "claim"),
    [
        ("fig-break-even-tau", "tau = 2", "intercept", 0),
        ("fig-contours", "omega = 0.9", "slope", 0),
        ("fig-contours", "gamma = 0.6", "slope", 2),
        ("fig-contours", "tau = 3", "intercept", 1),
    ],
)
def test_a_line_that_is_off_is_noticed(data, name, panel, column, claim):
    whole, lines = data[name], data[name]["lines"].copy()
    assert (results(EXPERIMENTS[name].claims, whole)["verdict"] == "holds").all()
    lines.loc[lines["panel"] == panel, column] *= 1.01
    found = results(EXPERIMENTS[name].claims, {**whole, "lines": lines})
    assert found["verdict"][claim] == "does not hold"


def test_densities_are_their_integrals(data):
    for row in data["fig-linear-density"]["summary"].itertuples(index=False):
        density = LinearDensity(0, 3, row.height)
        mean = quad(lambda t, density=density: t * density.pdf(t), 0, 3)[0]
        assert row.mean == pytest.approx(mean, rel=1e-6)
        assert row[-1] == pytest.approx(quad(density.pdf, 1.5, 3)[0], abs=1e-6)
        assert quad(density.pdf, 0, row.median)[0] == pytest.approx(0.5, abs=1e-6)


def test_losses_cross_where_both_labels_cost_the_same(data):
    crossings = data["fig-omega-softmax"]["crossings"].itertuples(index=False)
    for omega, row in zip(OMEGAS, crossings, strict=True):
        odds = equal_costs(omega)
        assert row.p1 == pytest.approx(1 / (1 + np.exp(-odds)), abs=1e-6)
        assert row.loss == pytest.approx(-omega * np.log(row.p1), rel=1e-5)
        assert row[-1] == pytest.approx(1 / (1 + np.exp(-odds - 2 * log(10))), abs=1e-6)
    points = data["fig-omega-softmax"][""]
    omega, p = points["omega"], points["p1"]
    # Scores near 1 have lost digits of their distance to it.
    np.testing.assert_allclose(points["loss 0"], (omega - 1) * np.log1p(-p), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(points["loss 1"], -omega * np.log(p), rtol=1e-5, atol=1e-6)


CIFAR10 = ["plane", "car", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
RULE = "floor(majority / beta), complete data"


def collected(folder: Path):
    """The frames, as they come back from their files."""
    problems = Problems(data_dir=folder, cache_dir=folder / "cache")
    data = SAMPLES.collect(Reading(Profile(), None, problems, []))
    return read_data(SAMPLES.name, write_data(SAMPLES.name, data, folder))


def agreeing(data):
    """The share of the counted lines that agree, by the first claim."""
    return results(SAMPLES.claims, data)["value"].iloc[0]


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


def test_data_that_are_not_there_or_cannot_be_used_are_no_error(tmp_path):
    data = collected(tmp_path)
    counts = sample_table(data)
    assert len(counts) == 16
    assert counts[["majority", "minority", "agrees"]].isna().all(axis=None)
    assert (counts["minority (published)"] > 0).all()
    assert data["sources"]["state"].to_list() == ["not there"] * 4
    assert results(SAMPLES.claims, data)["verdict"][0] == "not tested here"
    write_cifar10(tmp_path, cats=6, dogs=0)
    (tmp_path / "dogs-vs-cats" / "train").mkdir(parents=True)
    for name in ("cat.0.jpg", "dog.0.jpg"):  # fewer than the test part takes
        Image.new("RGB", (8, 8)).save(tmp_path / "dogs-vs-cats" / "train" / name)
    data = collected(tmp_path)
    assert sample_table(data)["agrees"].isna().all()
    not_usable = "not usable: `curvewise data check {}` says why".format
    states = [not_usable("cifar10:cat/dog"), "not there", not_usable("dogs-vs-cats"), "not there"]
    assert data["sources"]["state"].to_list() == states
    assert str(tmp_path) not in str(data)


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
    assert agreeing(data) == 0
    assert "300 samples of cat, the complete source 5,000" in data["sources"]["notes"][0]
    assert str(tmp_path) not in str(data)


def test_the_published_counts_agree_with_themselves_and_not_with_the_rule():
    rows = []  # what would be counted if everything were as the paper prints it
    for name, line in PUBLISHED.items():
        parts = [("train", beta, line.majority, few) for beta, few in line.minority.items()]
        rows += [(name, *part) for part in (*parts, ("test", np.nan, *line.test))]
    data = {"": pd.DataFrame(rows, columns=["task", "part", "beta", "majority", "minority"])}
    counts = sample_table(data)
    assert set(counts["agrees"]) == {"yes"}
    assert agreeing(data) == 1
    ruled = counts[counts["part"] != "test"]
    for row in ruled.to_dict("records"):
        assert row[RULE] == floor(row["majority (published)"] / int(row["part"].rpartition(" ")[2]))
    assert counts.loc[counts["part"] == "test", RULE].isna().all()
    apart = ruled[ruled[RULE] != ruled["minority (published)"]]
    assert apart[["data", RULE, "minority (published)"]].to_numpy().tolist() == [
        ["Household", 12, 13],
        ["Dogs vs. Cats", 1150, 1500],
        ["Dogs vs. Cats", 115, 150],
        ["Dogs vs. Cats", 57, 75],
        ["Melanoma", 3420, 4071],
    ]
    assert results(SAMPLES.claims, data)["value"].iloc[1] == pytest.approx(7 / 12)
    assert SAMPLES.needs(Profile()) == []
