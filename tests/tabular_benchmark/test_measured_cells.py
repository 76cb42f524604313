"""Measures of a fold, the store that a killed run goes on with, the tables over base sets."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
from benchmarks.tabular import run, summary
from benchmarks.tabular.datasets import Dataset, folds
from benchmarks.tabular.measures import Cell, Measured, expected_calibration_error, measure
from benchmarks.tabular.peers import METHODS
from benchmarks.tabular.results import Results
from benchmarks.tabular.tables import by_base, by_dataset, common, probabilities_table, ranked
from hypothesis import given, strategies as st
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import brier_score_loss, roc_auc_score, roc_curve

from curvewise.base.errors import InputError
from curvewise.data.registry import source_missing

TABLE = pd.DataFrame(np.random.default_rng(0).normal(size=(60, 2))).add_prefix("x")
TOY = Dataset("zoo-3", "zoo", TABLE, np.array([1] * 10 + [0] * 50))


@pytest.fixture
def toy(monkeypatch):
    """One small data set in place of all."""
    for module in ("measures", "run"):
        monkeypatch.setattr(f"benchmarks.tabular.{module}.load", lambda name: TOY)
    monkeypatch.setitem(METHODS, "linear", lambda seed: LogisticRegression())
    monkeypatch.setitem(METHODS, "prior", lambda seed: DummyClassifier(strategy="prior"))


def made(dataset="zoo-3", fold=0, method="a", auc=0.5, brier=0.1, score=(0.5, 0.5)):
    return Measured(
        *(Cell(dataset, fold, method), auc, 0.1, 0.2, brier, 0.0, 1.0, 0.1),
        *(np.array([0, 1]), np.array(score)),
    )


def test_measures_of_a_fold_against_scikit_learn(toy, monkeypatch):
    train, test = folds(TOY)[7]
    got = measure(Cell("zoo-3", 7, "linear"))
    model = LogisticRegression().fit(TOY.x.iloc[train], TOY.y[train])
    score = model.predict_proba(TOY.x.iloc[test])[:, 1]
    np.testing.assert_array_equal(got.score, score)
    np.testing.assert_array_equal(got.y, TOY.y[test])
    assert got.auc == pytest.approx(roc_auc_score(got.y, score))
    assert got.brier == pytest.approx(brier_score_loss(got.y, score))
    fpr, tpr, _ = roc_curve(got.y, score, drop_intermediate=False)
    assert got.tpr_at_10 == pytest.approx(max(tpr[fpr <= 0.10]))  # 10 negatives: on a corner
    assert 0 <= got.tpr_at_1 <= got.tpr_at_10
    assert got.fit_seconds > 0 < got.predict_seconds
    model.ranks_only = True  # so it has no probabilities to be measured
    monkeypatch.setitem(METHODS, "ranking", lambda seed: model)
    got = measure(Cell("zoo-3", 7, "ranking"))
    assert np.isnan([got.brier, got.calibration_error]).all()
    assert got.auc == pytest.approx(roc_auc_score(got.y, score))


def test_calibration_error_is_that_of_a_plain_loop():
    generator = np.random.default_rng(3)
    probability, y = generator.random(300), generator.integers(0, 2, 300)
    total = 0.0
    for rows in np.argsort(probability).reshape(15, 20):  # bins
        total += 20 / 300 * abs(np.mean(y[rows]) - np.mean(probability[rows]))
    assert expected_calibration_error(y, probability) == pytest.approx(total)
    # Many zeros are a bin of their own.
    probability, y = np.array([0.0] * 281 + [0.1] * 19), np.array([1] + [0] * 299)
    assert expected_calibration_error(y, probability) == pytest.approx((1 + 19 * 0.1) / 300)


@given(
    st.lists(st.tuples(st.integers(0, 1), st.integers(0, 6)), min_size=2, max_size=60),
    st.integers(0, 99),
)
def test_calibration_error_has_its_range_and_no_order(rows, seed):
    rows = np.array(rows)
    (y, p), (mixed_y, mixed_p) = rows.T, np.random.default_rng(seed).permutation(rows).T
    error = expected_calibration_error(y, p / 6)
    assert error == pytest.approx(expected_calibration_error(mixed_y, mixed_p / 6))
    assert abs(np.mean(y) - np.mean(p / 6)) - 1e-9 <= error <= 1


def test_a_store_keeps_replaces_and_forgets(tmp_path):
    path = tmp_path / "new" / "store.db"
    with Results(path) as results:
        replacing = made(auc=0.6, brier=np.nan, score=(0.25, 1 / 3))
        for one in (made(auc=0.5), replacing, made(dataset="yeast4", method="b")):
            results.add(one)
    with Results(path) as results:
        assert results.done() == {Cell("zoo-3", 0, "a"), Cell("yeast4", 0, "b")}
        frame = results.frame(["zoo-3"])
        assert frame["auc"].tolist() == [0.6]
        assert np.isnan(frame["brier"][0])
        assert [frame[name][0].tolist() for name in ("score", "y")] == [[0.25, 1 / 3], [0, 1]]
        assert results.forget([Cell("zoo-3", 0, "a"), Cell("zoo-3", 1, "a")]) == 1
        assert results.done() == {Cell("yeast4", 0, "b")}


def test_a_stopped_run_goes_on_and_a_failed_fit_is_tried_again(toy, tmp_path, monkeypatch, capsys):
    store, asked, broken = tmp_path / "store.db", [], {Cell("zoo-3", 3, "prior")}

    def one_by_one(cells, jobs):
        for cell in cells:
            asked.append(cell)
            yield cell, ValueError("no luck") if cell in broken else measure(cell)
            if len(asked) == 12:
                raise KeyboardInterrupt

    monkeypatch.setattr(run, "in_processes", one_by_one)
    arguments = ["--sets", "zoo-3", "--methods", "linear", "prior", "--store", str(store)]
    assert run.main(arguments) == 130
    with Results(store) as results:
        assert (stored := results.done()) == set(asked) - broken
    assert run.main(arguments) == 1
    assert not stored & set(asked[12:])
    assert len(set(asked)) == 30
    broken.clear()
    assert run.main(arguments) == 0
    assert "failed: prior on zoo-3, fold 3" in capsys.readouterr().out
    with Results(store) as results:
        assert len(results.done()) == 30
    before = len(asked)
    assert run.main([*arguments, "--again", "--repeats", "1"]) == 0
    assert len(asked) == before + 10
    with pytest.raises(InputError, match="unknown method 'linaer'; did you mean 'linear'"):
        run.main(["--methods", "linaer"])


@pytest.mark.slow
@pytest.mark.skipif(source_missing("keel") is not None, reason="there are no tables of KEEL")
def test_processes_measure_the_same():
    for cell, got in run.in_processes([Cell("zoo-3", fold, "logistic") for fold in (0, 1)], 1):
        assert got.score.tolist() == measure(cell).score.tolist()


def frame_of(tmp_path, *measured):
    with Results(tmp_path / "store.db") as results:
        for one in measured:
            results.add(one)
        return results.frame(["glass2", "glass4", "zoo-3"])


def test_a_base_set_counts_once_whatever_its_variants(tmp_path):
    areas = {"glass2": (0.6, 0.9), "glass4": (0.8, 0.4), "zoo-3": (0.5, 0.9)}
    cells = [
        made(name, fold, method, auc=value + (0.01 if fold else -0.01))
        for name, values in areas.items()
        for method, value in zip("ab", values, strict=True)
        for fold in (0, 1)
    ]
    frame = common(frame_of(tmp_path, *cells, made(fold=2)), ["a", "b"])  # what both have done
    assert frame["fold"].max() == 1
    assert by_dataset(frame, "auc")["a"].tolist() == pytest.approx([0.6, 0.8, 0.5])
    bases = by_base(by_dataset(frame, "auc"))
    assert bases["a"].to_dict() == pytest.approx({"glass": 0.7, "zoo": 0.5})
    assert ranked(frame, "auc").mean_ranks.to_dict() == {"a": 1.5, "b": 1.5}


def test_low_is_good_for_brier_and_pooled_calibration(tmp_path):
    scores = {"a": [(0.0, 0.8), (0.0, 0.8)], "b": [(0.4, 0.4), (0.5, 0.5)], "ranks": [(0, 1)] * 2}
    brier = {"a": 0.2, "b": 0.1, "ranks": np.nan}
    cells = [
        made(method=method, fold=fold, brier=brier[method], score=scores[method][fold])
        for method in scores
        for fold in (0, 1)
    ]
    frame = frame_of(tmp_path, *cells)
    ranks = ranked(frame[frame["method"] != "ranks"], "brier").mean_ranks
    assert ranks.to_dict() == {"a": 2, "b": 1}
    # a: 0 and .8 twice in two bins; b: .4 and .5 in two bins, each half positive
    error = by_dataset(frame, "calibration_error").loc["zoo-3"]
    assert error[["a", "b"]].tolist() == pytest.approx([(0 + 0.2) / 2, (0.1 + 0) / 2])
    table = probabilities_table(frame)
    assert "ranks" not in table
    assert table.splitlines()[2] == "| b | 1.00 | 0.1000 | 1.00 | 0.0500 |"


def test_the_page_is_of_one_half(tmp_path, capsys):
    areas = {"lct": 0.9, "forest": 0.8, "tree-blend": 0.7}
    cells = product(("zoo-3", "glass2", "yeast4"), areas.items())
    whole = (made(name, 0, method, auc=area) for name, (method, area) in cells)
    frame_of(tmp_path, *whole, made("zoo-3", 1, "lct"))
    store = ["--store", str(tmp_path / "store.db")]
    summary.main([*store, "--out", str(tmp_path / "page"), "--by-set"])
    text = capsys.readouterr().out
    assert (tmp_path / "page" / "summary.md").read_text().strip() == text.strip()
    assert (tmp_path / "page" / "critical_difference.png").is_file()
    rows = pd.read_csv(tmp_path / "page" / "by_dataset.csv").set_index(["dataset", "method"])
    assert rows.loc[("glass2", "lct"), ["auc", "folds"]].tolist() == [0.9, 1]
    assert set(rows["base"]) == {"glass", "zoo"}
    assert "2 of 40 data sets in 2 base sets, 2 folds that all 3 methods have done (1 fits" in text
    assert "| lct | 1.00 | 0.9000 | 0.9000 |" in text
    assert "| tree-blend (blend) | 3.00 |" in text
    assert "| forest | 2 | 0 | 0 | +0.1000 | 0.5 | 1 |" in text
    assert "| glass2 | 0.800 | **0.900** | 0.700 |" in text
    assert "yeast" not in text
    summary.main([*store, "--half", "test"])
    assert "yeast" in capsys.readouterr().out
    with pytest.raises(InputError, match="file that run has written"):
        summary.main(["--store", str(tmp_path / "other.db")])
