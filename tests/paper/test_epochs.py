"""AUC over epochs: tables by loops and numpy, when training counts as settled, the files."""

import numpy as np
import pytest
from on_digits import run_on_digits

from curvewise.paper.csv_files import rounded
from curvewise.paper.epochs import EPOCHS_FIGURE, flat_table, gain_table, settled
from curvewise.paper.gains import SHIFTED
from curvewise.paper.profiles import Profile
from curvewise.paper.running import read_data

TASKS = ("fashion-mnist:0/6", "fashion-mnist:7/9")
EPOCHS = (5, 10, 20)


def data_of(levels, gain=0.0, models=6):
    """Make up models whose validation AUC is `levels` by epochs, LCT's test AUC that plus gain."""
    rng = np.random.default_rng(0)
    rows = []
    for task in TASKS:
        for epochs, level in zip(EPOCHS, levels, strict=True):
            for method in ("VS", "VS + LCT"):
                noise = rng.uniform(-0.01, 0.01, models)
                noise -= noise.mean()
                more = gain if method != "VS" else 0.0
                rows += [
                    {"task": task, "method": method, "epochs": epochs, "tau": 1}
                    | {"validation_auc": level + one, "auc": level - 0.1 + more + one}
                    for one in noise
                ]
    return rounded({"": rows})


def test_tables_are_means_minima_and_deviations():
    rows = data_of((0.8, 0.85, 0.86), gain=0.01)[""]
    for line in flat_table(rows):
        for epochs in EPOCHS:
            own = [
                r["validation_auc"]
                for r in rows
                if (r["task"], r["method"], r["epochs"]) == (line["task"], line["method"], epochs)
            ]
            assert line[str(epochs)] == pytest.approx(sum(own) / len(own))
        assert line["change"] == pytest.approx(line["20"] - line["10"])
    found = {name: [] for name in ("mean", "min", "std")}
    for task in TASKS:
        lct, vs = (
            [r["auc"] for r in rows if (r["task"], r["method"], r["epochs"]) == (task, m, 10)]
            for m in ("VS + LCT", "VS")
        )
        found["mean"].append(np.mean(lct) - np.mean(vs))
        found["min"].append(min(lct) - min(vs))
        found["std"].append(np.std(lct, ddof=1) - np.std(vs, ddof=1))
    row = next(row for row in gain_table(rows) if row["epochs"] == 10)
    for name, gaps in found.items():
        assert row[f"{name}, difference"] == pytest.approx(np.mean(gaps))
    assert row["mean: LCT better"] == "2 of 2"
    assert row["std: LCT better"] == f"{sum(gap < 0 for gap in found['std'])} of 2"


@pytest.mark.parametrize(
    ("levels", "start"),
    [
        ((0.85, 0.851, 0.852), 5.0),
        ((0.80, 0.850, 0.852), 10.0),
        ((0.80, 0.802, 0.850), None),  # flat once, then not
        ((0.90, 0.880, 0.860), None),  # falling is not flat
    ],
)
def test_settled_means_that_no_later_step_changes_much(levels, start):
    data = data_of(levels)
    assert settled(data[""], "VS") == start
    verdict = EPOCHS_FIGURE.present(data, Profile()).verdict
    assert ("never for VS and" in verdict) == (start is None)


def test_vs_at_tau_0_is_left_out_beside():
    data = data_of((0.8, 0.85, 0.86), gain=0.01)
    for number, row in enumerate(data[""]):
        if row["method"] == "VS" and number % 2:
            row["tau"], row["auc"] = 0, 0.5
    outcome = EPOCHS_FIGURE.present(data, Profile())
    kept = [row for row in data[""] if row["tau"]]
    assert outcome.tables[SHIFTED] == gain_table(kept)
    assert outcome.tables[SHIFTED] != gain_table(data[""])


def test_from_the_store_to_files(tmp_path):
    shown = run_on_digits(EPOCHS_FIGURE, tmp_path)
    (rows,) = read_data("fig-epochs", tmp_path).values()
    assert {row["epochs"] for row in rows} == {1, 2}
    assert len(rows) == 2 * 2  # methods and epochs, one setting each
    assert all(0 <= row["validation_auc"] <= 1 for row in rows)
    (figure,) = shown.outcome.figures.values()
    assert figure.axes[0].get_ylim()[0] > 0  # AUC's own scale, no line at 0
