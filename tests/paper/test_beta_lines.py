"""LCT less VS over beta: averages and ranges over seeds by loops, the trend, the files."""

import numpy as np
import pytest
from made_up_models import MadeUpProblems, area_rows_of

from curvewise.paper import beta as beta_lines
from curvewise.paper.areas import cells_from
from curvewise.paper.beta import BETA, BETAS, range_lines
from curvewise.paper.csv_files import rounded
from curvewise.paper.gains import SHIFTED, gains
from curvewise.paper.profiles import Profile
from curvewise.paper.running import read_data, run_experiment
from curvewise.sweep.executors import serial

TASKS = ("cifar10:cat/dog", "fashion-mnist:0/6")
RNG = np.random.default_rng(0)


def data_of(gain):
    rows = []
    for task in TASKS:
        for beta in BETAS:
            for seed in range(3):
                vs = RNG.uniform(0.6, 0.7, 5)
                lct = vs + gain(beta) + RNG.uniform(-0.001, 0.001, 5)
                rows += area_rows_of({"VS": vs, "VS + LCT": lct}, task, beta, seed)
    return rounded({"": rows})


def by_loop(rows, task, beta, seed, statistic):
    found = []
    for method in ("VS + LCT", "VS"):
        place = (task, beta, seed, method)
        own = [r["auc"] for r in rows
               if (r["task"], r["beta"], r["seed"], r["method"]) == place]  # fmt: skip
        found.append({"mean": np.mean, "min": np.min,
                      "std": lambda a: np.std(a, ddof=1)}[statistic](own))  # fmt: skip
    return found[0] - found[1]


@pytest.mark.parametrize("statistic", ["mean", "min", "std"])
def test_lines_are_the_averages_and_ranges_over_seeds(statistic):
    data = data_of(lambda beta: 0.0)
    lines = range_lines(gains(cells_from(data[""])), statistic)
    assert list(lines) == ["CIFAR-10 cat/dog", "Fashion-MNIST t-shirt/shirt"]
    for task, line in zip(TASKS, lines.values(), strict=True):
        assert list(line.x) == list(BETAS)
        for number, beta in enumerate(BETAS):
            seeds = [by_loop(data[""], task, beta, seed, statistic) for seed in range(3)]
            assert line.y[number] == pytest.approx(np.mean(seeds))
            assert line.low[number] == pytest.approx(min(seeds))
            assert line.high[number] == pytest.approx(max(seeds))


@pytest.mark.parametrize(
    ("gain", "grows"),
    [
        (lambda beta: 0.02 * np.log10(beta), True),
        (lambda beta: 0.06 - 0.02 * np.log10(beta), False),
        (lambda beta: -0.1 + 0.02 * np.log10(beta), False),  # it grows, but LCT is behind
    ],
)
def test_verdict_follows_the_trend(gain, grows):
    outcome = BETA.present(data_of(gain), Profile())
    assert ("holds here" in outcome.verdict) == grows
    assert ("does not hold here" in outcome.verdict) != grows
    table = outcome.tables["VS + LCT less VS over 3 seeds"]
    assert len(table) == len(TASKS) * len(BETAS)
    for row in table:
        assert row["mean"] == pytest.approx(gain(row["beta"]), abs=0.001)
        assert row["mean: LCT better"] == ("3 of 3" if gain(row["beta"]) > 0.001 else "0 of 3")
    figure = outcome.figures["fig-beta"]
    assert len(figure.axes) == 3
    assert "(cifar10)" in figure.get_suptitle()


def test_vs_without_its_models_at_tau_0():
    data = data_of(lambda beta: 0.01)
    for number, row in enumerate(data[""]):
        if row["method"] == "VS":
            row["tau"] = number % 5 % 2  # 0, 1, 0, 1, 0
            row["auc"] -= 0.1 * (row["tau"] == 0)
    outcome = BETA.present(data, Profile())
    kept = [row for row in data[""] if row["method"] != "VS" or row["tau"]]
    table = outcome.tables[SHIFTED]
    assert len(table) == len(TASKS) * len(BETAS)
    for row in table:
        seeds = [by_loop(kept, row["task"], row["beta"], seed, "mean") for seed in range(3)]
        assert row["mean"] == pytest.approx(np.mean(seeds), abs=1e-9)
    assert "Beside VS without tau = 0 the gain is" in outcome.verdict


def test_from_the_store_to_files(tmp_path, monkeypatch):
    monkeypatch.setattr(beta_lines, "BETAS", (5, 50))
    shown = run_experiment(BETA, Profile("laptop", "tiny"), tmp_path, serial(), MadeUpProblems())
    (rows,) = read_data("fig-beta", tmp_path).values()
    assert len(rows) == 3 * 2 * 2 * 4  # tasks, betas, seeds, models of both methods
    assert list(rows[0]) == ["task", "beta", "seed", "method", "omega", "gamma", "tau", "auc"]
    table = shown.outcome.tables["VS + LCT less VS over 2 seeds"]
    for row in table:
        seeds = [by_loop(rows, row["task"], row["beta"], seed, "min") for seed in (0, 1)]
        assert row["min"] == pytest.approx(np.mean(seeds), abs=1e-9)
