"""Metrics against settings: the fits, the share of chance, and what is said of them."""

from itertools import product

import numpy as np
import pytest
from on_digits import run_on_digits
from scipy import stats
from sklearn.linear_model import LinearRegression
from sklearn.preprocessing import PolynomialFeatures

from curvewise.paper.csv_files import read_rows, rounded
from curvewise.paper.hyper import GRID, HYPER_DISTRIBUTION
from curvewise.paper.hyper_metrics import FEW, HYPER_METRICS
from curvewise.paper.profiles import Profile
from curvewise.paper.running import STORE
from curvewise.sweep.store import Store

POINTS = np.array(list(product(*GRID.values())))


def made_up(noise=0.02, slope=0.0, seed=0, times=8):
    """Return rows whose AUC is chance and a slope in omega gamma, and whose TPR follows tau."""
    rng = np.random.default_rng(seed)

    def rows(points):
        for omega, gamma, tau in points:
            auc = 0.7 + slope * omega * gamma + noise * rng.normal()
            tpr = 0.1 + 0.2 * tau + 0.02 * rng.normal()
            accuracy = 0.5 + 0.1 * tau - 0.02 * tau**2 + 0.03 * rng.normal()
            values = {"omega": omega, "gamma": gamma, "tau": tau}
            yield {**values, "auc": auc, "accuracy": accuracy, "tpr": tpr}

    few = [point for point in product(*FEW.values()) for _ in range(times)]
    return rounded({"": list(rows(POINTS)), "repeats": list(rows(few))})


def tables_of(data):
    return list(HYPER_METRICS.present(data, Profile()).tables.values())


def column(rows, name):
    return np.array([row[name] for row in rows])


@pytest.mark.parametrize("scale", ["full", "tiny"])
def test_the_sweep_is_that_of_the_distribution(scale):
    whole, few = HYPER_METRICS.sweeps(Profile("laptop", scale))
    (other,) = HYPER_DISTRIBUTION.sweeps(Profile("laptop", scale))
    assert [run.identity("x") for run in whole.runs()] == [
        run.identity("x") for run in other.runs()
    ]
    assert {whole.name, few.name} == {"fig-hyper-metrics", "fig-hyper-metrics-repeats"}
    settings = [tuple(run.settings.values()) for run in few.runs()]
    assert (len(set(settings)), few.size) == ((8, 64) if scale == "full" else (2, 4))
    assert set(settings) <= {tuple(point) for point in POINTS}
    assert len({run.recipe["seed_weights"] for run in few.runs()}) == few.size


def test_the_shares_are_scikit_learns():
    data = made_up(slope=0.08)
    fits = tables_of(data)[0]
    assert [(row["metric"], row["published"]) for row in fits] == [
        ("AUC", 0.11), ("accuracy", 0.60), ("TPR", 0.95)
    ]  # fmt: skip
    for row, metric in zip(fits, ("auc", "accuracy", "tpr"), strict=True):
        y = column(data[""], metric)
        joint = PolynomialFeatures(2).fit_transform(POINTS)
        assert row["R2"] == pytest.approx(LinearRegression().fit(joint, y).score(joint, y))
        for k, name in enumerate(GRID):
            alone = PolynomialFeatures(2).fit_transform(POINTS[:, [k]])
            expected = LinearRegression().fit(alone, y).score(alone, y)
            assert row[f"R2, {name} alone"] == pytest.approx(expected, abs=1e-9)
    assert fits[2]["R2"] > 0.95


def test_chance_is_told_from_settings():
    data = made_up(noise=0.01, slope=0.2)
    fits, anova, made_of = tables_of(data)
    groups = {}
    for row in data["repeats"]:
        groups.setdefault((row["omega"], row["gamma"], row["tau"]), []).append(row["auc"])
    assert len(groups) == 8
    oracle = stats.f_oneway(*groups.values())
    assert anova[0]["F"] == pytest.approx(oracle.statistic)
    assert anova[0]["p"] == pytest.approx(oracle.pvalue)
    within = np.mean([np.var(values, ddof=1) for values in groups.values()])
    assert anova[0]["sigma within a setting"] ** 2 == pytest.approx(within)
    total = np.var(column(data[""], "auc"), ddof=1)
    assert made_of[0]["initial weights"] == pytest.approx(within / total)
    parts = ("polynomial in the settings", "initial weights", "left over")
    assert sum(made_of[0][part] for part in parts) == pytest.approx(1)
    assert made_of[0]["polynomial in the settings"] == fits[0]["adjusted R2"]


def test_the_verdict_follows_the_shares():
    chance = HYPER_METRICS.present(made_up(), Profile()).verdict
    assert "all of TPR holds here" in chance
    assert "less than half of AUC's variance" in chance
    steered = HYPER_METRICS.present(made_up(noise=0.005, slope=0.3), Profile()).verdict
    assert "all of TPR does not hold here" in steered
    assert "most of AUC's variance" in steered


def test_diverged_models_are_left_out_and_counted():
    data = made_up()
    gone = dict.fromkeys(("auc", "accuracy", "tpr"))
    whole = HYPER_METRICS.present(data, Profile())
    data[""].append({**data[""][0], **gone})
    data["repeats"].append({**data["repeats"][0], **gone})
    outcome = HYPER_METRICS.present(data, Profile())
    assert outcome.tables == whole.tables
    assert outcome.verdict == whole.verdict + " 2 models diverged."


def test_panels_are_metrics_by_settings():
    data = made_up()
    figures = HYPER_METRICS.present(data, Profile()).figures
    axes = figures["fig-hyper-metrics"].axes
    assert len(axes) == 9
    for number, (metric, name) in enumerate(product(("auc", "accuracy", "tpr"), GRID)):
        dots, curve = axes[number].get_lines()
        np.testing.assert_array_equal(dots.get_xdata(), column(data[""], name))
        np.testing.assert_array_equal(dots.get_ydata(), column(data[""], metric))
        expected = np.polyfit(column(data[""], name), column(data[""], metric), 2)
        np.testing.assert_allclose(
            curve.get_ydata(), np.polyval(expected, curve.get_xdata()), atol=1e-9
        )
    assert [axes[k].get_ylabel() for k in (0, 3, 6)] == [
        "AUC", "accuracy at t = 0.5", "TPR at t = 0.5"
    ]  # fmt: skip
    assert [axes[k].get_xlabel() for k in (6, 7, 8)] == list(GRID)
    fits = tables_of(data)[0]
    assert axes[8].get_title() == f"$R^2$ = {fits[2]['R2, tau alone']:.2f}"
    assert "laptop profile" in figures["fig-hyper-metrics"].get_suptitle()
    (seeds,) = figures["fig-hyper-metrics-repeats"].axes
    assert len(seeds.get_xticklabels()) == 8
    assert "laptop profile" in seeds.get_title()


def test_it_is_collected_from_a_store(tmp_path):
    run_on_digits(HYPER_METRICS, tmp_path)
    for name, part in (("fig-hyper-metrics", ""), ("fig-hyper-metrics-repeats", "repeats")):
        rows = read_rows(tmp_path / f"{name}.csv")
        with Store(tmp_path / STORE) as store:
            records = list(store.runs(name))
            labels = np.array(store.labels(records[0].fingerprint))
            scores = store.score_matrix([record.identity for record in records])
        assert len(rows) == len(records) == (4 if part else 2)
        for row, record, score in zip(rows, records, scores, strict=True):
            assert [row[key] for key in GRID] == list(record.run.settings.values())
            called = score >= 0
            assert row["tpr"] == pytest.approx(called[labels == 1].mean(), rel=1e-6)
            assert row["accuracy"] == pytest.approx((called == labels).mean(), rel=1e-6)
            assert row["auc"] == pytest.approx(record.auc, rel=1e-6)
