"""Controls of LCT: made-up areas with known answers, and a small store."""

from itertools import combinations, product

import numpy as np
import pytest
from scipy.stats import ttest_rel, wilcoxon

from curvewise.paper.areas import cells_from
from curvewise.paper.controls import (
    CONTROLS,
    DRAWN,
    FILM,
    FOUR,
    LCT,
    NAME,
    PARTS,
    REPEATED,
    VS,
    noise_table,
)
from curvewise.paper.csv_files import rounded
from curvewise.paper.profiles import Profile
from curvewise.stats.cells import Cell
from curvewise.stats.dyadic import dyadic_p, holm

PAIRS = list(combinations(range(6), 2))


def area_row(task, seed, method, auc, omega=0.5):
    place = {"task": task, "beta": 100.0, "seed": seed, "method": method}
    return {**place, "omega": omega, "gamma": 0.2, "tau": None, "auc": auc}


def made_up(gains, seed=0, noise=0.002):
    """All pairs of six classes, two seeds, eight models; gains over VS by method."""
    rng = np.random.default_rng(seed)
    parts = {part: [] for part in PARTS}
    for (i, j), number in product(PAIRS, (0, 1)):
        base = rng.uniform(0.8, 0.9)
        for part, label in PARTS.items():
            for area in base + gains.get(label, 0) + rng.normal(0, noise, 8):
                parts[part].append(area_row(f"fashion-mnist:{i}/{j}", number, label, area))
    repeats = [
        area_row(f"fashion-mnist:{i}/{j}", 0, label, 0.85 + rng.normal(0, 0.001), omega)
        for (i, j), label, omega in product(PAIRS[:3], (VS, LCT), (0.5, 0.9))
        for _ in range(12)
    ]
    return rounded({**parts, "repeats": repeats})


def test_the_tests_are_scipys():
    data = made_up({LCT: 0.004, FILM: 0.001, FOUR: 0.006}, noise=0.01)
    tables = list(CONTROLS.present(data, Profile()).tables.values())
    rows = [*tables[1], *tables[2]]
    assert len(rows) == 4 * (4 + 3)
    means = {(row["against"], row["method"]): row for row in rows if row["AUC"] == "mean"}
    assert set(means) == {(VS, FILM), (VS, DRAWN), (VS, FOUR), (VS, LCT),
                          (FILM, LCT), (DRAWN, LCT), (FOUR, LCT)}  # fmt: skip
    by_label = {label: [] for label in PARTS.values()}
    for (i, j), (part, label) in product(PAIRS, PARTS.items()):
        own = [row["auc"] for row in data[part] if row["task"] == f"fashion-mnist:{i}/{j}"]
        by_label[label].append(np.mean(own))  # seeds have equally many models
    for (a, b), row in means.items():
        first, second = np.array(by_label[a]), np.array(by_label[b])
        assert row["difference"] == pytest.approx((second - first).mean())
        assert row["better"] == (second > first).sum()
        assert row["t-test p"] == pytest.approx(ttest_rel(second, first).pvalue, rel=1e-5)
        assert row["Wilcoxon p"] == pytest.approx(wilcoxon(second - first).pvalue, rel=1e-5)
        assert row["p (shared classes)"] == pytest.approx(dyadic_p(second - first, PAIRS), rel=1e-4)
    assert [row["p (Holm)"] for row in rows] == holm(row["p (shared classes)"] for row in rows)
    averages = {row["method"]: row for row in tables[0]}
    assert averages[LCT]["mean AUC"] == pytest.approx(np.mean(by_label[LCT]))


@pytest.mark.parametrize(
    ("gains", "words"),
    [
        ({}, "no sure gain over VS"),
        ({LCT: -0.02}, "no sure gain over VS"),
        ({LCT: 0.02}, "conditioning itself helps."),
        ({LCT: 0.02, FOUR: 0.03}, "though mean of 4 VS does as well"),
        ({LCT: 0.02, FILM: 0.02}, "not surely of VS, constant FiLM"),
        ({LCT: 0.02, FILM: 0.02, DRAWN: 0.03}, f"not surely of {FILM} or {DRAWN}"),
    ],
)
def test_the_verdict_names_what_the_gain_comes_from(gains, words):
    assert words in CONTROLS.present(made_up(gains), Profile()).verdict


def test_chance_beside_settings():
    rng = np.random.default_rng(2)
    tasks = ("fashion-mnist:0/6", "fashion-mnist:1/3")
    main = {task: rng.normal(0.9, 0.02, 48) for task in tasks}
    again = {(task, omega): rng.normal(0.9, 0.01, 12) for task in tasks for omega in (0.5, 0.9)}
    other = [area_row("fashion-mnist:2/4", 0, VS, auc) for auc in (0.1, 0.9)]  # was not repeated
    seed = [area_row(tasks[0], 1, VS, auc) for auc in (0.1, 0.9)]  # nor was another seed
    cells = cells_from(
        [area_row(t, 0, VS, a) for t, own in main.items() for a in own] + other + seed
    )
    repeated = cells_from([area_row(t, 0, VS, a, o) for (t, o), own in again.items() for a in own])
    rows = noise_table(cells, repeated)
    over = np.sqrt(np.mean([own.var(ddof=1) for own in main.values()]))
    for row, omega in zip(rows, (0.5, 0.9), strict=True):
        within = np.sqrt(np.mean([again[task, omega].var(ddof=1) for task in tasks]))
        assert (row["method"], row["omega"], row["tasks"], row["models"]) == (VS, omega, 2, 24)
        assert row["std over repeats"] == pytest.approx(within)
        assert row["std over settings"] == pytest.approx(over)
        assert row["ratio of variances"] == pytest.approx((within / over) ** 2)


def test_the_data_have_the_mean_of_four():
    rng = np.random.default_rng(1)
    y = np.repeat([0, 1], 20)
    grid = [{"omega": o, "gamma": 0.0, "tau": t} for o in (0.5, 0.9) for t in (0, 1, 2, 3)]
    scores = y + rng.normal(0, 1, (8, 40))
    labels = list(PARTS.values())[:4]
    cell = Cell("fashion-mnist:0/1", 100.0, 0, y, dict.fromkeys(labels, scores),
                dict.fromkeys(labels, grid))  # fmt: skip

    class Reading:
        def cells(self, sweep):
            assert sweep in (NAME, REPEATED)
            return [cell]

    data = CONTROLS.collect(Reading())
    assert {part: len(rows) for part, rows in data.items()} == {
        "vs": 8, "constant-film": 8, "unconditioned": 8, "lct": 8, "mean-of-4": 2, "repeats": 32,
    }  # fmt: skip
    for row, own in zip(data["mean-of-4"], (scores[:4], scores[4:]), strict=True):
        total = sum((score - score.mean()) / score.std() for score in own)
        higher = np.mean([[p > n for n in total[:20]] for p in total[20:]])
        assert row["auc"] == pytest.approx(higher)
        assert row["tau"] is None


def test_the_sweeps():
    spec, repeated = CONTROLS.sweeps(Profile())
    assert (spec.size, repeated.size) == (45 * 2 * 4 * 48, 5 * 2 * 2 * 12)
    assert set(repeated.all_tasks) < set(spec.all_tasks)
    seeds = [run.recipe["seed_weights"] for run in repeated.runs()[:24]]
    assert len(set(seeds)) == 24
    tiny = CONTROLS.sweeps(Profile("paper", "tiny"))
    assert [spec.size for spec in tiny] == [3 * 2 * 4 * 2, 3 * 2 * 2 * 2]
