"""Whether training is at its end: made-up areas with known answers, and a small store."""

from itertools import combinations, product

import numpy as np
import pytest
from scipy.stats import ttest_rel

from curvewise.paper.controls import DRAWN, FOUR, LCT, VS
from curvewise.paper.convergence import CONVERGENCE, CONVERGENCE_PIXELS
from curvewise.paper.csv_files import rounded
from curvewise.paper.profiles import Profile
from curvewise.paper.settled import ARMS, FLAT, flat_table
from curvewise.stats.cells import Cell

PAIRS = list(combinations(range(6), 2))
EPOCHS = (20, 60)


def made_up(gain=0.0, fall=0.0, seed=0):
    """Both lengths of training: LCT's gain over VS, and by how much the longer one lowers it."""
    rng = np.random.default_rng(seed)
    bases = {pair: rng.uniform(0.8, 0.9) for pair in PAIRS}
    data = {}
    for name, loss in (("shorter", 0.0), ("longer", fall)):
        data[name] = [
            {
                **{"task": f"fashion-mnist:{i}/{j}", "beta": 100.0, "seed": number},
                **{"method": method, "omega": 0.5, "gamma": 0.2, "tau": float(tau)},
                "auc": area,
                "validation_auc": None if method == FOUR else area + 0.01,
            }
            for (i, j), number, method, tau in product(PAIRS, (0, 1), (*ARMS, FOUR), range(4))
            for area in [
                bases[i, j]
                + (gain - loss if method == LCT else 0)
                + rng.normal(0, 0.002 if method == LCT else 0)
                + 0.0001 * tau
            ]
        ]
    return rounded(data)


@pytest.mark.parametrize(
    ("fall", "words"), [(0.0, "is flat for all"), (4 * FLAT, "is not flat for VS + LCT (")]
)
def test_validation_tells_whether_training_has_settled(fall, words):
    data = made_up(fall=fall)
    outcome = CONVERGENCE.present(data, Profile())
    assert words in outcome.verdict
    flat = {row["method"]: row for row in flat_table(data["shorter"], data["longer"], EPOCHS)}
    change = {}
    for (i, j), name in product(PAIRS, data):
        own = [row["validation_auc"] for row in data[name]
               if row["task"] == f"fashion-mnist:{i}/{j}" and row["method"] == LCT]  # fmt: skip
        change[i, j] = np.mean(own) - change.get((i, j), 0)  # the longer one comes second
    assert flat[LCT]["validation, change"] == pytest.approx(np.mean(list(change.values())))
    settled = sum(abs(value) <= FLAT for value in change.values())
    assert flat[LCT]["pairs settled"] == f"{settled} of 15"
    assert flat[LCT]["pairs that fell"] == f"{15 - settled} of 15"
    assert flat[VS]["validation, change"] == 0
    assert flat[FOUR]["validation, 20"] is None
    assert flat[FOUR]["test, 20"] == pytest.approx(flat[VS]["test, 20"])


def test_gains_are_those_of_scipy_at_either_length():
    data = made_up(gain=0.003, fall=0.002)
    rows = list(CONVERGENCE.present(data, Profile()).tables.values())[1]
    assert len(rows) == 2 * 4 * 4
    for name, epochs in zip(data, EPOCHS, strict=True):
        means = {
            method: [
                np.mean([r["auc"] for r in data[name]
                         if r["task"] == f"fashion-mnist:{i}/{j}" and r["method"] == method])
                for i, j in PAIRS
            ]
            for method in (VS, LCT)
        }  # fmt: skip
        (row,) = [r for r in rows if (r["epochs"], r["AUC"], r["method"]) == (epochs, "mean", LCT)]
        assert row["difference"] == pytest.approx(np.mean(means[LCT]) - np.mean(means[VS]))
        assert row["t-test p"] == pytest.approx(ttest_rel(means[LCT], means[VS]).pvalue, rel=1e-4)


def test_a_control_leaves_out_vs_at_tau_0():
    data = made_up(gain=0.003)
    for rows in data.values():
        for row in rows:
            if row["method"] == VS and row["tau"] == 0:
                row["auc"] -= 0.1
    outcome = CONVERGENCE.present(data, Profile())
    everything, control = list(outcome.tables.values())[1:]
    assert len(control) == 2 * 4
    for name, epochs in zip(data, EPOCHS, strict=True):
        gain = [
            np.mean([row["auc"] for row in data[name] if row["method"] == LCT])
            - np.mean([row["auc"] for row in data[name] if row["method"] == VS and row["tau"] > 0])
        ]
        (row,) = [r for r in control if (r["epochs"], r["AUC"]) == (epochs, "mean")]
        assert row["difference"] == pytest.approx(gain[0])
        (row,) = [
            r for r in everything if (r["epochs"], r["AUC"], r["method"]) == (epochs, "mean", LCT)
        ]
        assert row["difference"] == pytest.approx(gain[0] + 0.1 / 4, abs=1e-3)
    told = outcome.verdict.partition("Beside VS at tau > 0 alone: after 20 epochs max ")[2]
    assert ", mean +0.00" in told


def test_validation_goes_with_its_model():
    rng = np.random.default_rng(1)
    y = np.repeat([0, 1], 20)
    grid = [{"omega": o, "gamma": 0.2, "tau": t} for o in (0.5, 0.9) for t in (0.0, 1.0)]
    scores = dict.fromkeys(ARMS, y + rng.normal(0, 1, (4, 40)))
    cell = Cell("fashion-mnist:0/1", 100.0, 0, y, scores, dict.fromkeys(ARMS, grid))

    class Run:
        task, seed = "fashion-mnist:0/1", 0

        def __init__(self, label, settings):
            self.label, self.settings = label, settings

    class Record:
        def __init__(self, label, settings):
            self.run = Run(label, settings)
            value = settings["tau"] + 10 * settings["omega"]
            self.metrics = {"validation_auc": value}

    class Reading:
        def cells(self, sweep):
            assert sweep.startswith("table-convergence-")
            return [cell]

        def records(self, sweep):
            return [Record(label, settings) for label in ARMS for settings in reversed(grid)]

    data = CONVERGENCE.collect(Reading())
    assert list(data) == ["shorter", "longer"]
    for row in data["longer"]:
        if row["method"] == FOUR:
            assert row["validation_auc"] is None
        else:
            assert row["validation_auc"] == row["tau"] + 10 * row["omega"]


def test_the_sweeps():
    shorter, longer = CONVERGENCE.sweeps(Profile())
    assert shorter.size == longer.size == 45 * 2 * 4 * 8
    assert {run.recipe["epochs"] for run in longer.runs()} == {60}
    assert DRAWN in {run.label for run in longer.runs()}
    tiny = CONVERGENCE.sweeps(Profile("paper", "tiny"))
    assert [{run.recipe["epochs"] for run in spec.runs()} for spec in tiny] == [{1}, {2}]


def test_the_sweeps_of_all_pixels_differ_in_features_and_decay_alone():
    for usual, raw in zip(
        CONVERGENCE.sweeps(Profile()), CONVERGENCE_PIXELS.sweeps(Profile()), strict=True
    ):
        assert (usual.features.pca, raw.features.pca) == (64, None)
        assert raw.name == usual.name.replace("convergence", "convergence-pixels")
        mine, theirs = raw.to_dict(), usual.to_dict()
        assert mine["recipe"] == {**theirs["recipe"], "weight_decay": 1e-2}
        for name in ("name", "features", "recipe"):
            del mine[name], theirs[name]
        assert mine == theirs
    figures = CONVERGENCE_PIXELS.present(made_up(), Profile()).figures
    assert "on all 784 pixels" in figures["table-convergence-pixels"].get_suptitle()
    # The paper profile has pixels anyway, so its models are those of the other table.
    assert CONVERGENCE_PIXELS.sweeps(Profile("paper"))[0].features.pca is None
    assert CONVERGENCE.sweeps(Profile("paper"))[0].features.pca is None
