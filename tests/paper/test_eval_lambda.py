"""One model at four values of tau: that it is one, its curves, its points at t = 0.5."""

import numpy as np
import pytest
from on_digits import run_on_digits
from sklearn.metrics import roc_auc_score, roc_curve as sklearn_curve

from curvewise import InputError, roc_curve
from curvewise.paper.csv_files import read_rows, rounded
from curvewise.paper.eval_lambda import EVAL_LAMBDA, curves_from, largest_gap
from curvewise.paper.experiment import Reading
from curvewise.paper.profiles import Profile
from curvewise.paper.running import STORE
from curvewise.stats.cells import Cell
from curvewise.sweep.problems import Problems
from curvewise.sweep.store import Store

Y = np.arange(400) % 2
BASE = np.random.default_rng(0).normal(size=400) + 1.5 * Y
TABLE = ("AUC", "TPR at t = 0.5", "FPR at t = 0.5")


class MadeUp(Reading):
    """A reading whose sweeps have one cell each, with the given scores by tau."""

    def __init__(self, scores):
        super().__init__(Profile(), None, Problems())
        object.__setattr__(self, "scores", scores)

    def cells(self, sweep):
        score = self.scores[float(sweep.rpartition("-")[2])]
        found = {} if score is None else {"VS + LCT": [score]}
        return [Cell("cifar10:cat/dog", 100.0, 0, Y, found)]


def shown(scores):
    data = rounded(EVAL_LAMBDA.collect(MadeUp(scores)))
    return data, EVAL_LAMBDA.present(data, Profile())


SHIFTED = {tau: BASE + tau - 2 for tau in (0.0, 1.0, 2.0, 3.0)}


@pytest.mark.parametrize("profile", ["laptop", "paper"])
@pytest.mark.parametrize("scale", ["full", "tiny"])
def test_four_specs_train_the_same_model(profile, scale):
    specs = EVAL_LAMBDA.sweeps(Profile(profile, scale))
    runs = [run for spec in specs for run in spec.runs()]
    assert [run.evaluate for run in runs] == [{"tau": tau} for tau in (0.0, 1.0, 2.0, 3.0)]
    assert runs[0].settings == {"omega": 0.5, "gamma": 0.0, "tau": "0:3:0"}
    for run in runs[1:]:
        assert {**vars(run), "evaluate": None} == {**vars(runs[0]), "evaluate": None}


def test_rates_and_areas_are_those_of_the_scores():
    data, outcome = shown(SHIFTED)
    (table,) = outcome.tables.values()
    for row, (tau, score) in zip(table, SHIFTED.items(), strict=True):
        assert row["evaluated at tau"] == tau
        called = score >= 0
        expected = (roc_auc_score(Y, score), called[Y == 1].mean(), called[Y == 0].mean())
        assert tuple(row[name] for name in TABLE) == pytest.approx(expected, abs=1e-6)
        curve = curves_from(data["curves"])[tau]
        fpr, tpr, _ = sklearn_curve(Y, score, drop_intermediate=True)
        np.testing.assert_allclose(curve.fpr, fpr, atol=1e-6)
        np.testing.assert_allclose(curve.tpr, tpr, atol=1e-6)


def test_a_shift_moves_the_point_and_not_the_curve():
    _, outcome = shown(SHIFTED)
    assert "holds here" in outcome.verdict
    assert "AUC differs by 0.0000 at most" in outcome.verdict
    (table,) = outcome.tables.values()
    assert [list(row.values())[-1] for row in table] == [0, 0, 0, 0]


def test_the_claim_fails_where_points_stay_or_curves_change():
    _, still = shown(dict.fromkeys(SHIFTED, BASE))
    assert "does not hold here" in still.verdict
    noise = 3 * np.random.default_rng(1).normal(size=400)
    changed = {**SHIFTED, 0.0: SHIFTED[0.0] + noise}
    _, worse = shown(changed)
    assert "does not hold here" in worse.verdict
    gap = roc_auc_score(Y, SHIFTED[3.0]) - roc_auc_score(Y, changed[0.0])
    assert gap > 0.05
    assert f"AUC differs by {gap:.4f} at most" in worse.verdict


def test_the_largest_gap_is_that_of_a_fine_grid():
    noise = np.random.default_rng(2).normal(size=400)
    one, other = roc_curve(Y, BASE), roc_curve(Y, BASE + noise)
    grid = np.linspace(0, 1, 40_001)
    fine = np.abs(one.tpr_at(grid) - other.tpr_at(grid)).max()
    assert largest_gap(one, other) == pytest.approx(fine, abs=1e-9)
    assert largest_gap(one, other) == largest_gap(other, one) > 0.02
    assert largest_gap(one, one) == 0
    chance = roc_curve([0, 1], [0.5, 0.5])
    bent = roc_curve([0, 0, 1, 1], [3.0, 0.0, 2.0, 2.0])
    assert largest_gap(chance, bent) == largest_gap(bent, chance) == 0.5


def test_the_figure_has_four_curves_and_a_point_on_each():
    data, outcome = shown(SHIFTED)
    (axes,) = outcome.figures["fig-eval-lambda"].axes
    lines = {line.get_label(): line for line in axes.get_lines()}
    marks = [tuple(np.ravel(line.get_data())) for line in axes.get_lines()
             if line.get_marker() in tuple("os^D") and len(line.get_xdata()) == 1]  # fmt: skip
    assert marks == [(row["fpr"], row["tpr"]) for row in data["points"]]
    curves = curves_from(data["curves"])
    for row in data["points"]:
        curve = curves[row["tau"]]
        line = lines[f"tau = {row['tau']:g}: AUC {row['auc']:.4f}"]
        np.testing.assert_array_equal(line.get_ydata(), curve.tpr)
        fpr, tpr, _ = sklearn_curve(Y, SHIFTED[row["tau"]], drop_intermediate=False)
        assert (np.isclose(fpr, row["fpr"]) & np.isclose(tpr, row["tpr"])).any()
    assert "laptop profile" in axes.get_title()


def test_a_diverged_model_is_said_to_be_one():
    with pytest.raises(InputError, match="the one model of fig-eval-lambda diverged"):
        EVAL_LAMBDA.collect(MadeUp({**SHIFTED, 0.0: None}))


def test_it_is_collected_from_a_store(tmp_path):
    run_on_digits(EVAL_LAMBDA, tmp_path)
    points = read_rows(tmp_path / "fig-eval-lambda-points.csv")
    with Store(tmp_path / STORE) as store:
        for row in points:
            (record,) = store.runs(f"fig-eval-lambda-{row['tau']:g}")
            for name in ("auc", "tpr", "fpr"):
                assert row[name] == pytest.approx(record.metrics[name], rel=1e-6)
    assert [row["tau"] for row in points] == [0, 1, 2, 3]
    assert len({row["auc"] for row in points} | {row["tpr"] for row in points}) > 2
