"""SAM's figure: its arms, and a verdict that follows the numbers."""

import numpy as np
import pytest
from made_up_models import MadeUpProblems, area_rows_of

from curvewise.paper.csv_files import rounded
from curvewise.paper.profiles import Profile
from curvewise.paper.running import read_data, run_experiment
from curvewise.paper.sam import ARMS, SAM_BOX
from curvewise.sweep.executors import serial

# As published: rho = 0.1 best of VS and wide, large rho naive, LCT with SGD best of all.
PUBLISHED = {
    "VS, SGD": (0.66, 0.02),
    "VS, SAM 0.05": (0.67, 0.03),
    "VS, SAM 0.1": (0.68, 0.05),
    "VS, SAM 0.3": (0.6, 0.02),
    "VS, SAM 0.5": (0.51, 0.01),
    "VS, SAM 0.8": (0.5, 0.01),
    "VS + LCT, SGD": (0.7, 0.02),
    "VS + LCT, SAM 0.1": (0.69, 0.02),
}


def present(found):
    areas = {
        label: [None] if pair is None else [pair[0] - pair[1], pair[0] + pair[1]] * 400
        for label, pair in found.items()
    }
    return SAM_BOX.present(rounded({"": area_rows_of(areas)}), Profile())


def test_the_published_picture_is_recognised():
    assert set(PUBLISHED) == set(ARMS)
    outcome = present(PUBLISHED)
    assert "does not" not in outcome.verdict
    assert outcome.verdict.count("holds here") == 5
    assert "0.7000 against 0.6800" in outcome.verdict
    axes = outcome.figures["fig-sam"].axes[0]
    ticks = [text.get_text() for text in axes.get_xticklabels()]
    assert ticks == ["SGD", "SAM 0.05", "SAM 0.1", "SAM 0.3", "SAM 0.5", "SAM 0.8"]
    assert len(axes.patches) == 8


@pytest.mark.parametrize(
    ("label", "pair", "told"),
    [
        ("VS, SAM 0.3", (0.69, 0.02), "rho = 0.1 is best does not hold here"),
        ("VS, SAM 0.1", (0.68, 0.01), "spreads more does not hold here: std 0.0100 against 0.0200"),
        ("VS, SAM 0.8", (0.6, 0.01), "naive classifiers does not hold here: 0.5100 at 0.5, 0.6000"),
        ("VS + LCT, SGD", (0.67, 0.02), "than every VS does not hold here: 0.6700 against 0.6800"),
        ("VS + LCT, SAM 0.1", (0.71, 0.02), "less than LCT with SGD does not hold here: 0.7100"),
        ("VS + LCT, SGD", (0.681, 0.02), "undecided here: 0.6810 against 0.6800 (standard error 0"),
        ("VS, SAM 0.3", (0.679, 0.02), "rho = 0.1 is best is undecided here: of VS, SAM 0.1 has"),
        ("VS, SAM 0.3", (0.681, 0.02), "rho = 0.1 is best is undecided here: of VS, SAM 0.3 has"),
    ],
)
def test_each_claim_can_fail_alone_or_be_left_open(label, pair, told):
    assert told in present({**PUBLISHED, label: pair}).verdict


def test_an_arm_whose_models_all_diverged_has_a_row_without_statistics():
    outcome = present({**PUBLISHED, "VS, SAM 0.8": None})
    (table,) = outcome.tables.values()
    row = next(row for row in table if (row["method"], row["rho"]) == ("VS", "0.8"))
    assert (row["models"], row["diverged"], row["mean AUC"]) == (0, 1, None)
    assert len(table) == 8


def test_sweep_has_the_arms_and_the_papers_settings():
    (spec,) = SAM_BOX.sweeps(Profile())
    assert spec.size == 8 * 48
    rho = {run.label: run.recipe["rho"] for run in spec.runs()}
    assert rho == {label: value for label, (_, value) in ARMS.items()}


def test_from_the_store_to_files(tmp_path):
    shown = run_experiment(SAM_BOX, Profile("laptop", "tiny"), tmp_path, serial(), MadeUpProblems())
    (rows,) = read_data("fig-sam", tmp_path).values()
    (table,) = shown.outcome.tables.values()
    assert len(rows) == 16
    for line, label in zip(table, ARMS, strict=True):
        own = [row["auc"] for row in rows if row["method"] == label]
        assert line["mean AUC"] == pytest.approx(np.mean(own))
        assert line["std"] == pytest.approx(np.std(own, ddof=1))
