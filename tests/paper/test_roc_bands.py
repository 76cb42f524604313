"""The ROC bands' figures: rows against curves made by loops, what is left out, the verdict."""

import numpy as np
import pytest
from made_up_models import MAJORITY, MadeUpProblems
from sklearn.metrics import roc_auc_score

from curvewise.paper import bands
from curvewise.paper.bands import (
    CIFAR_BANDS,
    CLAIMS,
    GRID,
    KAGGLE_BANDS,
    band_data,
    band_rows,
    bands_from,
    panels_of,
    verdict,
)
from curvewise.paper.csv_files import rounded
from curvewise.paper.profiles import Profile
from curvewise.paper.running import draw_experiment, read_data, run_experiment
from curvewise.stats.cells import Cell
from curvewise.stats.differences import CellDifference
from curvewise.sweep.executors import serial
from curvewise.sweep.store import Store

Y = np.arange(120) % 3 == 0
TINY = Profile("laptop", "tiny")


def cell_of(task, beta, shift=0.3, seed=0):
    rng = np.random.default_rng([seed, int(beta)])
    scores = {
        name: rng.normal(size=(6, 120)) + (1 + number * shift) * Y
        for number, name in enumerate(("VS", "VS + LCT"))
    }
    return Cell(task, beta, 0, Y.astype(int), scores)


def samples_of(cells, minority):
    return [
        {"task": cell.task, "beta": cell.beta, "majority": 500, "minority": n}
        | {"test majority": 80, "test minority": 40}
        for cell, n in zip(cells, minority, strict=True)
    ]


CELLS = [cell_of(task, beta) for task in ("cifar10:cat/dog", "cifar100:household")
         for beta in (10.0, 50.0, 100.0, 200.0)]  # fmt: skip
DATA = rounded(band_data(CELLS, samples_of(CELLS, [50, 10, 5, 2, 53, 4, 2, 1])))


def step(y, score, fpr):
    """Return the highest TPR of any threshold whose FPR is no higher, by trying them all."""
    rates = [
        (np.mean(score[~y] >= threshold), np.mean(score[y] >= threshold))
        for threshold in [np.inf, *score]
    ]
    return max(tpr for false, tpr in rates if false <= fpr + 1e-12)


def test_rows_are_the_curves_mean_range_and_std():
    cell = CELLS[0]
    rows = [row for row in DATA["bands"] if (row["task"], row["beta"]) == (cell.task, cell.beta)]
    assert 200 <= len(rows) / 2 <= 260
    for method, scores in cell.scores.items():
        own = [row for row in rows if row["method"] == method]
        assert (own[0]["fpr"], own[0]["mean"]) == (0, 0)
        # Between its corners a curve is a straight line; at the negatives' steps it has a corner.
        at_corner = [row for row in own[1:] if abs(row["fpr"] * 80 - round(row["fpr"] * 80)) < 1e-9]
        assert len(at_corner) >= 3
        for row in at_corner[:: len(at_corner) // 3]:
            heights = [step(Y, score, row["fpr"]) for score in scores]
            assert row["mean"] == pytest.approx(np.mean(heights), abs=1e-6)
            assert row["low"] == pytest.approx(min(heights), abs=1e-6)
            assert row["high"] == pytest.approx(max(heights), abs=1e-6)
            assert row["std"] == pytest.approx(np.std(heights), abs=1e-6)


def test_bands_come_back_from_their_rows():
    band = bands_from(rounded({"": band_rows(CELLS[:1])})[""])["cifar10:cat/dog", 10]["VS + LCT"]
    assert len(band.fpr) == len(GRID) + 1
    assert band.fpr[:2].tolist() == [0, 0]
    assert band.fpr[-1] == band.mean[-1] == 1
    assert (np.diff(band.fpr)[1:] > 0).all()
    assert ((band.low <= band.mean) & (band.mean <= band.high)).all()


def test_a_beta_with_a_single_minority_sample_is_left_out_with_a_word():
    panels = panels_of(DATA)
    assert len(panels) == 8
    assert [bool(panel.bands) for panel in panels] == [True] * 7 + [False]
    assert panels[-1].note == "left out: 1 training sample of the minority"
    assert panels[4].title == "CIFAR-100 household, beta = 10\n500 + 53 samples"
    places = {(row["task"], row["beta"]) for row in DATA["areas"]}
    assert ("cifar100:household", 200) not in places
    assert len(places) == 7
    told = CIFAR_BANDS.present(DATA, Profile()).verdict
    assert "Left out for want of minority samples: CIFAR-100 household at beta = 200." in told


def test_tables_and_figure_from_rows_alone():
    outcome = CIFAR_BANDS.present(DATA, Profile())
    figure = outcome.figures["fig-cifar-bands"]
    assert len(figure.axes) == 8
    assert "heads on 128 components of EfficientNet-Lite0 features" in figure.get_suptitle()
    statistics = outcome.tables["AUC by task, beta and method"]
    assert len(statistics) == 14
    for row in statistics:
        (cell,) = [c for c in CELLS if (c.task, c.beta) == (row["task"], row["beta"])]
        areas = [roc_auc_score(Y, score) for score in cell.scores[row["method"]]]
        assert row["mean AUC"] == pytest.approx(np.mean(areas), abs=1e-6)
        assert row["min"] == pytest.approx(min(areas), abs=1e-6)
        assert row["max"] == pytest.approx(max(areas), abs=1e-6)
        assert row["std"] == pytest.approx(np.std(areas, ddof=1), abs=1e-6)
    legend = [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    assert legend == [f"{row['method']}: mean AUC {row['mean AUC']:.4f}" for row in statistics[:2]]


@pytest.mark.parametrize(
    ("differences", "cifar", "kaggle"),
    [
        ([(10.0, -0.1, -0.1), (100.0, 0.01, 0.02), (200.0, 0.01, 0.01)], True, True),
        ([(10.0, 0.1, 0.1), (100.0, -0.01, 0.02), (200.0, 0.01, 0.01)], False, False),
        ([(100.0, -0.0004, -0.1)], False, True),
        ([(100.0, 0.1, -0.1)], False, True),
        ([(10.0, 0.1, 0.1)], False, False),
    ],
)
def test_verdict_judges_the_claim_at_high_imbalance_only(differences, cifar, kaggle):
    lines = [
        CellDifference("a", beta, 0, max=mean, mean=mean, min=low, std=-0.1)
        for beta, mean, low in differences
    ]
    for name, holds in (("fig-cifar-bands", cifar), ("fig-kaggle-bands", kaggle)):
        told = verdict(lines, CLAIMS[name])
        assert ("does not hold here" not in told) == holds


def test_the_figure_says_where_the_majority_was_cut_and_that_melanoma_is_missing():
    cells = [cell_of("dogs-vs-cats", beta) for beta in (100.0, 200.0)]
    samples = samples_of(cells, [30, 15])
    samples[0]["majority"] = 300
    data = rounded(band_data(cells, samples))
    outcome = KAGGLE_BANDS.present(data, Profile())
    assert "Melanoma is not shown" in outcome.verdict
    assert "Dogs vs Cats at beta = 100 (300 of 500)" in outcome.verdict
    title = outcome.figures["fig-kaggle-bands"].get_suptitle().replace("\n", " ")
    assert "Melanoma is not shown" in title
    assert "300 of 500" in title
    first = outcome.figures["fig-kaggle-bands"].axes[0]
    assert (first.get_xscale(), first.get_yscale()) == ("log", "log")
    both = [*cells, *(cell_of("melanoma", beta) for beta in (100.0, 200.0))]
    outcome = KAGGLE_BANDS.present(rounded(band_data(both, samples_of(both, [9] * 4))), Profile())
    assert "not shown" not in outcome.verdict
    assert len(outcome.figures["fig-kaggle-bands"].axes) == 4


def test_sweeps_take_melanoma_only_where_it_is():
    tasks = {
        there: [spec.tasks for spec in KAGGLE_BANDS.sweeps(Profile(melanoma=there))]
        for there in (False, True)
    }
    assert tasks == {False: [("dogs-vs-cats",)], True: [("dogs-vs-cats",), ("melanoma",)]}
    sizes = [spec.size for spec in CIFAR_BANDS.sweeps(Profile())]
    assert sizes == [4 * 96, 4 * 96]


def test_from_the_store_to_files_and_back(tmp_path, monkeypatch):
    monkeypatch.setattr(bands, "CIFAR_BETAS", (10, 200))
    shown = run_experiment(CIFAR_BANDS, TINY, tmp_path, serial(), MadeUpProblems())
    data = read_data("fig-cifar-bands", tmp_path)
    assert set(data) == {"bands", "areas", "samples"}
    assert len(data["samples"]) == 4
    counts = {(row["task"], row["beta"]): row["minority"] for row in data["samples"]}
    for (_, beta), minority in counts.items():
        assert minority == MAJORITY // beta
    assert {row["beta"] for row in data["areas"]} == {10}  # at 200 there is one sample
    with Store(tmp_path / "runs.db", readonly=True) as store:
        stored = {
            (record.run.task, record.run.beta, record.run.label, round(record.auc, 6))
            for record in store.runs(state="done")
            if record.run.beta < 200
        }
    listed = {(r["task"], r["beta"], r["method"], round(r["auc"], 6)) for r in data["areas"]}
    assert listed == stored
    again = draw_experiment(CIFAR_BANDS, TINY, tmp_path, save=False)
    assert repr(again.outcome.tables) == repr(shown.outcome.tables)  # nan is no other nan
    assert {path.suffix for path in shown.files} == {".csv", ".png", ".svg"}
