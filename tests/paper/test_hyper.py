"""The distribution of 512 VS models: the sweep, what is collected, what is said of it."""

from itertools import product

import numpy as np
import pytest
from matplotlib.collections import PolyCollection
from on_digits import run_on_digits

from curvewise import roc_curve
from curvewise.paper.csv_files import read_rows, rounded
from curvewise.paper.hyper import GRID, HYPER_DISTRIBUTION, band_from, band_rows, hyper_sweep
from curvewise.paper.profiles import Profile
from curvewise.paper.running import STORE
from curvewise.stats.bands import percentile_band
from curvewise.sweep.store import Store

SETTINGS = [dict(zip(GRID, values, strict=True)) for values in product(*GRID.values())]


def made_up(areas, diverged=0):
    """Return data with the given areas and a band of curves from random scores."""
    rng = np.random.default_rng(0)
    y = np.arange(200) % 2
    curves = [roc_curve(y, rng.normal(size=200) + shift * y) for shift in np.linspace(0.2, 1, 30)]
    place = {"task": "cifar10:cat/dog", "beta": 100, "seed": 0, "method": "VS"}
    rows = [{**place, **SETTINGS[k], "auc": area} for k, area in enumerate(areas)]
    rows += [{**rows[0], "auc": None} for _ in range(diverged)]
    return rounded({"areas": rows, "band": band_rows(percentile_band(curves))})


def present(areas, diverged=0):
    return HYPER_DISTRIBUTION.present(made_up(areas, diverged), Profile())


@pytest.mark.parametrize("profile", ["laptop", "paper"])
def test_the_sweep_has_the_papers_512_settings(profile):
    (spec,) = HYPER_DISTRIBUTION.sweeps(Profile(profile))
    runs = spec.runs()
    assert {tuple(run.settings.values()) for run in runs} == set(product(*GRID.values()))
    assert len(runs) == 512
    assert {(run.task, run.beta, run.method) for run in runs} == {("cifar10:cat/dog", 100, "vs")}
    assert len({run.recipe["seed_weights"] for run in runs}) == 512
    assert spec.name == HYPER_DISTRIBUTION.name


def test_another_name_makes_no_other_runs():
    first, second = (hyper_sweep(name, Profile()) for name in ("a", "b"))
    assert [run.identity("x") for run in first.runs()] == [
        run.identity("x") for run in second.runs()
    ]


def test_the_table_has_ours_beside_the_published():
    areas = np.random.default_rng(1).beta(30, 10, 512).round(6)
    outcome = present(areas)
    (rows,) = outcome.tables.values()
    ours = {row["AUC"]: row["ours"] for row in rows}
    assert ours == pytest.approx({
        "models": 512, "minimum": areas.min(), "maximum": areas.max(), "mean": areas.mean(),
        "median": np.median(areas), "lower quartile": np.quantile(areas, 0.25),
        "upper quartile": np.quantile(areas, 0.75), "standard deviation": np.std(areas, ddof=1),
    })  # fmt: skip
    published = {row["AUC"]: row["published"] for row in rows if row["published"] is not None}
    assert published == {
        "models": 512, "minimum": 0.58, "maximum": 0.74, "standard deviation": 0.03
    }  # fmt: skip


def test_the_verdict_follows_the_spread():
    wide = present(0.7 + 0.03 * np.sin(np.arange(512)))
    assert "holds here: AUC runs from 0.670 to 0.730" in wide.verdict
    assert "0.0212" in wide.verdict
    assert "diverged" not in wide.verdict
    narrow = present(0.7 + 0.01 * np.sin(np.arange(512)), diverged=3)
    assert "does not hold here" in narrow.verdict
    assert narrow.verdict.endswith(" 3 models diverged.")


def test_the_figure_shows_the_band_and_every_model():
    areas = 0.7 + 0.03 * np.sin(np.arange(512))
    data = made_up(areas)
    figure = HYPER_DISTRIBUTION.present(data, Profile()).figures["fig-hyper-distribution"]
    left, right = figure.axes
    band = band_from(data["band"])
    drawn = {line.get_label(): line for line in left.get_lines()}
    for name, edge in (("mean", band.mean), ("minimum", band.minimum), ("maximum", band.maximum)):
        np.testing.assert_array_equal(drawn[name].get_ydata(), edge)
        np.testing.assert_array_equal(drawn[name].get_xdata(), band.fpr)
    (shade,) = [shade for shade in left.collections if isinstance(shade, PolyCollection)]
    corners = {(round(x, 6), round(y, 6)) for x, y in shade.get_paths()[0].vertices}
    for edge in (band.lower, band.upper):
        assert {(round(x, 6), round(y, 6)) for x, y in zip(band.fpr, edge, strict=True)} <= corners
    dots = [line for line in right.get_lines() if line.get_marker() == "o"]
    np.testing.assert_allclose(dots[0].get_ydata(), areas, atol=1e-6)
    assert "heads on 128 components of EfficientNet-Lite0 features" in figure.get_suptitle()


def test_it_is_collected_from_a_store(tmp_path):
    shown = run_on_digits(HYPER_DISTRIBUTION, tmp_path)
    with Store(tmp_path / STORE) as store:
        records = list(store.runs("fig-hyper-distribution"))
        labels = store.labels(records[0].fingerprint)
        scores = store.score_matrix([record.identity for record in records])
    rows = read_rows(tmp_path / "fig-hyper-distribution-areas.csv")
    assert [row["tau"] for row in rows] == [0, 0.5]
    assert [row["auc"] for row in rows] == pytest.approx([r.auc for r in records], rel=1e-6)
    band = band_from(read_rows(tmp_path / "fig-hyper-distribution-band.csv"))
    rates = [roc_curve(labels, score).tpr_at(0.5) for score in scores]
    k = int(np.flatnonzero(band.fpr == 0.5)[0])
    assert band.mean[k] == pytest.approx(np.mean(rates), rel=1e-6)
    assert (band.minimum[k], band.maximum[k]) == pytest.approx((min(rates), max(rates)), rel=1e-6)
    assert {file.suffix for file in shown.files} == {".csv", ".png", ".svg"}
